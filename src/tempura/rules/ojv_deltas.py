"""OJV: deltas of what one table affects indirectly, which is an anti join, and of the joins that ask whether there is a match.

What R gains can only take from L ▷ R, and what R loses can only give: the rows of L that match a *gained* row are looked up in R[:t], those
that match a lost one in R[:u] (``delta_join.delta_anti_join``). The authors take the second from the directly affected delta and the view.
That is wrong for rows that are there twice, so it is done where L has a key (``delta_left_join_of_stored``, and the same of full joins).
Where the condition is nothing but equalities, a semi, anti or existence join asks which keys R has, and these are a set:
L ⋉ R = L ⋈ keys(R), which is linear in both.
"""

from dataclasses import dataclass, replace

from tempura.algebra.rel import Join, Rel, scans
from tempura.algebra.scalar import FALSE, TRUE, Call, Column, Expr, Output, Ref, conjuncts, substitute
from tempura.errors import Reason
from tempura.rules.delta_join import delta_join
from tempura.rules.dsl import (
    TVR_GENERATING,
    Always,
    AnyMarker,
    Facts,
    Marker,
    NotInner,
    On,
    Rewrite,
    Rule,
    Time,
    rewrite,
    rule,
)
from tempura.rules.helpers import is_safe, only_matching
from tempura.rules.keys import ByKeys
from tempura.tvr.staircase import Time as Moment
from tempura.tvr.tvr import Bag, Tvr
from tempura.tvr.views import short_name

# --- gains ------------------------------------------------------------------------------------------------------------


def _gains(L: Tvr, R: Tvr, on: Expr, t: Moment, u: Moment, facts: Facts) -> bool:
    """Whether a side gains rows and loses none, and rows of different times may be compared."""
    gains = facts.insert_only(R, t, u) and not facts.unchanged(R, t, u)
    return gains and is_safe(L.columns, R.columns, on)


@rule(TVR_GENERATING, cite=(3,))
def delta_anti_join_of_gains(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ S - A ▷ S      A = L[:u] ⋉ ΔR, S = R[:t] ⋉ (ΔL + A), when R loses no row

    What R gains takes the rows of L that match it and matched nothing before. Each side is read at one time; a few changed rows against a
    large R shuffle nothing. (The support of ΔL comes first: a row that goes may be in A, and must not cancel out.)
    """
    A = L[:u].semi_join(R[t:u], on)
    S = only_matching(R[:t], L[t:u].support() + A, on)
    return rewrite(
        L.anti_join(R, on)[t:u],
        L[t:u].anti_join(S, on) - A.anti_join(S, on),
        where=_gains(L, R, on, t, u, facts),
    )


@rule(TVR_GENERATING, cite=(1, 3))
def delta_anti_join_of_stored(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ R[:u] - (L ▷ R)[:t] ⋉ ΔR      when R loses no row

    From the indirectly affected part as it was (Tempura, dissertation, equation 4.14): L is not read, nor is R[:t].
    """
    Q = L.anti_join(R, on)
    return rewrite(
        Q[t:u],
        L[t:u].anti_join(R[:u], on) - Q[:t].semi_join(R[t:u], on),
        where=_gains(L, R, on, t, u, facts),
    )


@rule(TVR_GENERATING, cite=(3,))
def delta_left_join_of_gains(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ⟕ R) = A ⋈ ΔR + ΔL ⟕ S - pad(A ▷ S)      A = L[:u] ⋉ ΔR, S = R[:t] ⋉ (ΔL + A), when R loses no row

    The directly affected rows of both sides, then the indirectly affected ones, L moving before R. Each side is read at one time, and
    what is looked up in R for both is looked up at once.
    """
    A = L[:u].semi_join(R[t:u], on)
    S = only_matching(R[:t], L[t:u].support() + A, on)
    return rewrite(
        L.left_join(R, on)[t:u],
        A.join(R[t:u], on) + L[t:u].left_join(S, on) - A.anti_join(S, on).pad_right(R),
        where=_gains(L, R, on, t, u, facts),
    )


# --- preserved rows with a key ----------------------------------------------------------------------------------------


def _never_null_in_a_match(on: Expr, R: Tvr) -> Column | None:
    """A column of R that is not NULL in any row for which the condition is TRUE."""
    equated = (part.operands for part in conjuncts(on) if isinstance(part, Call) and part.function == "EqualTo")
    read = (side.column for sides in equated for side in sides if isinstance(side, Ref))
    return next((column for column in read if column in R.columns), None)


def _only(joined: Bag, side: Tvr) -> Bag:
    """What rows of a join have of one of its sides."""
    return joined.project(tuple(Output(c, Ref(c)) for c in side.columns))


def _test(function: str, column: Column | None) -> Expr:
    return Call(function, (Ref(column),), "boolean") if column else TRUE


@dataclass(frozen=True)
class _Stored:
    """What a stored join tells of a side that ``stays``, of which it has all rows, while the other side ``moves``. ``A`` are those of its
    rows that match a change, each once; what the join has of them is ``matched`` or ``unmatched``, as a column of the other side says, the
    ``witness``."""

    stays: Tvr
    moves: Tvr
    on: Expr
    A: Bag
    matched: Bag
    unmatched: Bag
    witness: Column | None

    @staticmethod
    def of(Q: Tvr, stays: Tvr, moves: Tvr, on: Expr, t: Moment, u: Moment) -> "_Stored":
        primed = {c: c.primed() for c in moves.columns}
        changed = moves[t:u].support().project(tuple(Output(primed[c], Ref(c)) for c in moves.columns))
        V = Q[:t].semi_join(changed, substitute(on, {c: Ref(other) for c, other in primed.items()}))
        witness = _never_null_in_a_match(on, moves)
        matched, unmatched = (V.filter(_test(test, witness)) for test in ("IsNotNull", "IsNull"))
        return _Stored(stays, moves, on, _only(V, stays).support(), matched, unmatched, witness)

    def alone(self, gained: Bag) -> Bag:
        """The rows of A that match nothing now."""
        return self.A.anti_join(_only(self.matched + gained, self.moves), self.on)

    def tells(self, t: Moment, u: Moment, facts: Facts, always: Always) -> bool:
        """Whether that is all there is to know: the side that stays has no row twice and does not change, and rows of two times may be
        compared."""
        stays = facts.unchanged(self.stays, t, u) and always.is_unique(self.stays, self.stays.columns)
        return self.witness is not None and stays and is_safe(self.stays.columns, self.moves.columns, self.on)


@rule(TVR_GENERATING, cite=(3,))
def delta_left_join_of_stored(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always) -> Rewrite:
    """Δ(L ⟕ R) = A ⋈ ΔR + pad(A ▷ S) - (V without a match)      when L has a key, and only R changes

    V = (L ⟕ R)[:t] ⋉ support(ΔR), A = the rows of L in V, S = the rows of R in (V with a match) + A ⋈ ΔR: all that A matches now. Which
    rows have lost their last match, or got a first one, the join as it was tells: neither L nor R is read. Without a key L may have a
    row twice, and A has it once; and some column of R has to tell whether there was a match.
    """
    Q = L.left_join(R, on)
    was = _Stored.of(Q, L, R, on, t, u)
    gained = was.A.join(R[t:u], on)
    return rewrite(
        Q[t:u],
        gained + was.alone(gained).pad_right(R) - was.unmatched,
        where=was.tells(t, u, facts, always),
    )


@rule(TVR_GENERATING, cite=(3,))
def delta_full_join_of_stored(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always) -> Rewrite:
    """Δ(L ⟗ R) = A ⋈ ΔR + pad(A ▷ S) - (V without a match) + pad(ΔR ▷ A)      when L has a key, and only R changes

    As for ⟕, with V, A and S of L ⟗ R; and a changed row of R matches nothing of L if it matches nothing of A. Some column of L, too, has
    to tell whether there was a match, or V would have rows of R that are padded.
    """
    Q = L.full_join(R, on)
    was = _Stored.of(Q, L, R, on, t, u)
    gained = was.A.join(R[t:u], on)
    return rewrite(
        Q[t:u],
        gained + was.alone(gained).pad_right(R) - was.unmatched + R[t:u].anti_join(was.A, on).pad_left(L),
        where=_never_null_in_a_match(on, L) is not None and was.tells(t, u, facts, always),
    )


@rule(TVR_GENERATING, cite=(3,))
def delta_full_join_of_stored_on_left(
    L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always
) -> Rewrite:
    """Δ(L ⟗ R) = ΔL ⋈ A + pad(A ▷ S) - (V without a match) + pad(ΔL ▷ A)      when R has a key, and only L changes

    The same with the sides exchanged: A are rows of R, S of L.
    """
    Q = L.full_join(R, on)
    was = _Stored.of(Q, R, L, on, t, u)
    gained = L[t:u].join(was.A, on)
    return rewrite(
        Q[t:u],
        gained + was.alone(gained).pad_left(L) - was.unmatched + L[t:u].anti_join(was.A, on).pad_right(R),
        where=_never_null_in_a_match(on, R) is not None and was.tells(t, u, facts, always),
    )


# --- equality joins by keys -------------------------------------------------------------------------------------------


@rule(TVR_GENERATING, cite=(3,))
def delta_semi_join_by_keys(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋉ R) = Δ(L ⋈ keys(R))      keys(R): the distinct values that L is compared with, when on has nothing but equalities

    As sets of keys change rarely, and by a state that counts them, R is not read.
    """
    keys = ByKeys(L, R, on)
    return rewrite(L.semi_join(R, on)[t:u], keys.matching[t:u], where=keys.exist)


@rule(TVR_GENERATING, cite=(3,))
def delta_anti_join_by_keys(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ▷ R) = ΔL - Δ(L ⋈ keys(R))      when on has nothing but equalities"""
    keys = ByKeys(L, R, on)
    return rewrite(L.anti_join(R, on)[t:u], L[t:u] - keys.matching[t:u], where=keys.exist)


@rule(TVR_GENERATING, cite=(3,))
def delta_exists_join_by_keys(L: Tvr, R: Tvr, on: On, marker: Marker, t: Time, u: Time) -> Rewrite:
    """Δ(L ∃ R) = Δ(L ⋈ keys(R)) with TRUE + (ΔL - Δ(L ⋈ keys(R))) with FALSE      when on has nothing but equalities"""
    keys = ByKeys(L, R, on)
    found = keys.matching[t:u]
    return rewrite(
        L.exists_join(R, on, marker)[t:u],
        found.with_column(marker, TRUE) + (L[t:u] - found).with_column(marker, FALSE),
        where=keys.exist,
    )


# --- where no table moves alone -----------------------------------------------------------------------------------------


def why_not_by_table(rel: Rel, facts: Facts) -> Reason | None:
    """Why what changes in a join is not looked at table by table."""
    assert isinstance(rel, Join)
    left, right = ({s.table: s for s in scans(side)} for side in rel.inputs)
    both = sorted(name for name in left if name in right and not facts.never_changes(Tvr(left[name])))
    again = "joined again for the rows that match a change"
    if both:
        return Reason("OJV_BOTH_SIDES", f"both sides of {short_name(rel)} read {', '.join(both)}: {again}")
    return Reason(
        "OJV_AT_ONCE", f"values in {short_name(rel)} depend on the order of rows, no table moves alone: {again}"
    )


@rule(TVR_GENERATING, cite=(1,), why=why_not_by_table)
def delta_join_all_at_once(
    L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ(L ⟕ R) = (ΔL + A) ⟕ R[:u] - A ⟕ R[:t]      A = L[:t] ⋉ support(ΔR), when no table moves alone; the same for ∃

    Where the normal form has nothing to say: both sides read the table, or values depend on the physical order of rows.
    """
    again = delta_join.apply(L=L, R=R, on=on, how=how, marker=marker, t=t, u=u)
    at_once = how in ("left", "exists") and not (facts.unchanged(R, t, u) or facts.move_apart(L, R, t, u))
    return replace(again, where=again.where and at_once)


DELTAS: tuple[Rule, ...] = (
    delta_anti_join_of_gains,
    delta_anti_join_of_stored,
    delta_left_join_of_gains,
    delta_left_join_of_stored,
    delta_full_join_of_stored,
    delta_full_join_of_stored_on_left,
    delta_semi_join_by_keys,
    delta_anti_join_by_keys,
    delta_exists_join_by_keys,
    delta_join_all_at_once,
)
"""What else the method has for joins that are not inner."""
