"""OJV: maintenance of outer joins, one table at a time (Larson and Zhou, ICDE 2007; Tempura, section 4.2).

A tree of inner and outer joins is the sum of the net contributions of its join-disjunctive normal form: for each set of tables that can
meet, the rows that are made of just these and are not part of a longer one. When a table T moves alone, each row is one of three kinds:

    D[T]  made with a row of T: *directly affected*. Linear in T, so its delta is the same joins with ΔT in T's place;
    I[T]  without T, but a row of T may complete it: *indirectly affected*. Padded rows, the matchless ones of the side that is kept;
    U[T]  without T, and no row of T can complete it: *unaffected*. Its delta is empty, and is not asked for.

The rules that split say so operator by operator, so there is no normal form to write down: what the paper reads off the subsumption graph,
whether a term has a parent with T, is here whether the condition of a join sees T at all (``Facts.is_seen_without``). They hold for any
condition, duplicates and NULLs. The part in which a row lies tells which tables it has a row of, so no column has to; each part is a TVR
of its own, which may be stored without the others.

The indirectly affected part is an anti join, L ▷ R. What R gains can only take from it and what R loses can only give: the rows of L that
match a *gained* row are looked up in R[:t], those that match a lost one in R[:u]. (The authors take the second from the directly affected
delta. That is wrong for rows that are there twice, and needs keys that are enforced; so it is not done.) Where the condition is nothing
but equalities, an anti, semi or existence join asks which keys R has, and these are a set: L ⋉ R = L ⋈ keys(R), which is linear in both.
"""

from tempura.algebra.failing import can_fail
from tempura.algebra.rel import Join, Rel, scans
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, conjunction, conjuncts
from tempura.algebra.sql_order import equality_is_identity
from tempura.errors import Reason
from tempura.rules.dsl import (
    INTER_TVR,
    TVR_GENERATING,
    AnyMarker,
    Facts,
    How,
    Links,
    Marker,
    NotInner,
    On,
    Outputs,
    Pred,
    Rewrite,
    Rule,
    Split,
    Table,
    Time,
    Tvrs,
    rewrite,
    rule,
    split,
)
from tempura.rules.helpers import is_safe, only_matching, union_all
from tempura.tvr import links as kinds
from tempura.tvr.staircase import Time as Moment
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import short_name


def direct(Q: Tvr, T: str) -> Tvr:
    """The directly affected part."""
    return Q.part(kinds.DIRECT, T)


def indirect(Q: Tvr, T: str) -> Tvr:
    """The indirectly affected part."""
    return Q.part(kinds.INDIRECT, T)


def unaffected(Q: Tvr, T: str) -> Tvr:
    """The unaffected part."""
    return Q.part(kinds.UNAFFECTED, T)


def _read(R: Tvr, on: Expr) -> tuple[Column, ...]:
    return tuple(column for column in R.columns if column in on.columns)


# --- parts ------------------------------------------------------------------------------------------------------------


@rule(INTER_TVR, cite=(3,))
def split_unread(Q: Tvr, T: Table, facts: Facts) -> Split:
    """D[T](Q) = ∅      I[T](Q) = ∅      U[T](Q) = Q      when Q does not read T"""
    return split(Q, D=None, I=None, U=Q, where=not facts.reads(Q, T))


@rule(INTER_TVR, cite=(3,))
def split_filter_by_table(X: Tvr, p: Pred, T: Table) -> Split:
    """D[T](filter(p, X)) = filter(p, D[T](X))      and so I[T], U[T]"""
    return split(X.filter(p), D=direct(X, T).filter(p), I=indirect(X, T).filter(p), U=unaffected(X, T).filter(p))


@rule(INTER_TVR, cite=(3,))
def split_project_by_table(X: Tvr, outputs: Outputs, T: Table) -> Split:
    """D[T](project(X)) = project(D[T](X))      and so I[T], U[T]"""
    return split(
        X.project(outputs),
        D=direct(X, T).project(outputs),
        I=indirect(X, T).project(outputs),
        U=unaffected(X, T).project(outputs),
    )


@rule(INTER_TVR, cite=(3,))
def split_union_by_table(terms: Tvrs, T: Table) -> Split:
    """D[T](R + S + ...) = D[T](R) + D[T](S) + ...      and so I[T], U[T]"""
    return split(
        union_all(terms),
        D=union_all(tuple(direct(R, T) for R in terms)),
        I=union_all(tuple(indirect(R, T) for R in terms)),
        U=union_all(tuple(unaffected(R, T) for R in terms)),
    )


@rule(INTER_TVR, cite=(3,))
def split_join_by_table_on_left(L: Tvr, R: Tvr, on: On, how: How, marker: AnyMarker, T: Table, facts: Facts) -> Split:
    """D[T](L ⟕ R) = D[T](L) ⟕ R      and so I[T], U[T]      when R does not read T; the same for ⋈ ⋉ ▷ ∃

    All joins but ⟗ are linear on the left.
    """
    return split(
        L.join(R, on, how, marker),
        D=direct(L, T).join(R, on, how, marker),
        I=indirect(L, T).join(R, on, how, marker),
        U=unaffected(L, T).join(R, on, how, marker),
        where=how != "full" and not facts.reads(R, T),
    )


@rule(INTER_TVR, cite=(3,))
def split_inner_join_by_table_on_right(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """D[T](L ⋈ R) = L ⋈ D[T](R)      and so I[T], U[T]      when L does not read T"""
    return split(
        L.join(R, on),
        D=L.join(direct(R, T), on),
        I=L.join(indirect(R, T), on),
        U=L.join(unaffected(R, T), on),
        where=not facts.reads(L, T),
    )


@rule(INTER_TVR, cite=(3,))
def split_left_join_by_table_on_right(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """D[T](L ⟕ R) = L ⋈ D[T](R)      I[T] = L ⋈ I[T](R) + pad(L ▷ R)      U[T] = L ⋈ U[T](R)      when L does not read T

    If the condition does not see T in R, what L ▷ R has is unaffected, and in U[T]: in L ⟕ (A ⟕ T) on L and A, T completes rows of A.
    """
    padded = L.anti_join(R, on).pad_right(R)
    stays = facts.is_seen_without(T, R, _read(R, on))
    met, other = L.join(indirect(R, T), on), L.join(unaffected(R, T), on)
    return split(
        L.left_join(R, on),
        D=L.join(direct(R, T), on),
        I=met if stays else met + padded,
        U=other + padded if stays else other,
        where=not facts.reads(L, T),
    )


@rule(INTER_TVR, cite=(3,))
def split_full_join_by_table_on_left(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """D[T](L ⟗ R) = D[T](L) ⟕ R      I[T] = I[T](L) ⟕ R + pad(R ▷ L)      U[T] = U[T](L) ⟕ R      when R does not read T"""
    padded = R.anti_join(L, on).pad_left(L)
    stays = facts.is_seen_without(T, L, _read(L, on))
    met, other = indirect(L, T).left_join(R, on), unaffected(L, T).left_join(R, on)
    return split(
        L.full_join(R, on),
        D=direct(L, T).left_join(R, on),
        I=met if stays else met + padded,
        U=other + padded if stays else other,
        where=not facts.reads(R, T),
    )


@rule(INTER_TVR, cite=(3,))
def split_full_join_by_table_on_right(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """D[T](L ⟗ R) = D[T](R) ⟕ L      I[T] = I[T](R) ⟕ L + pad(L ▷ R)      U[T] = U[T](R) ⟕ L      when L does not read T"""
    padded = L.anti_join(R, on).pad_right(R)
    stays = facts.is_seen_without(T, R, _read(R, on))

    def completed(rows: Tvr) -> Tvr:
        return rows.left_join(L, on).project(tuple(Output(c, Ref(c)) for c in (*L.columns, *R.columns)))

    met, other = completed(indirect(R, T)), completed(unaffected(R, T))
    return split(
        L.full_join(R, on),
        D=completed(direct(R, T)),
        I=met if stays else met + padded,
        U=other + padded if stays else other,
        where=not facts.reads(L, T),
    )


@rule(INTER_TVR, cite=(3,))
def split_semi_join_by_table_on_right(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """D[T](L ⋉ R) = L ⋉ R      I[T] = ∅      U[T] = ∅      when L does not read T; in U[T] if the condition does not see T in R

    As L ⟕ keys(R) without the padded rows.
    """
    Q = L.semi_join(R, on)
    stays = facts.is_seen_without(T, R, _read(R, on))
    return split(Q, D=None if stays else Q, I=None, U=Q if stays else None, where=not facts.reads(L, T))


@rule(INTER_TVR, cite=(3,))
def split_anti_join_by_table_on_right(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """D[T](L ▷ R) = ∅      I[T] = L ▷ R      U[T] = ∅      when L does not read T; in U[T] if the condition does not see T in R

    As L ⟕ keys(R), of which only the padded rows are kept.
    """
    Q = L.anti_join(R, on)
    stays = facts.is_seen_without(T, R, _read(R, on))
    return split(Q, D=None, I=None if stays else Q, U=Q if stays else None, where=not facts.reads(L, T))


@rule(INTER_TVR, cite=(3,))
def split_exists_join_by_table_on_right(L: Tvr, R: Tvr, on: On, marker: Marker, T: Table, facts: Facts) -> Split:
    """D[T](L ∃ R) = (L ⋉ R) with TRUE      I[T] = (L ▷ R) with FALSE      U[T] = ∅      when L does not read T

    As L ⟕ keys(R). All of it is in U[T] if the condition does not see T in R.
    """
    Q = L.exists_join(R, on, marker)
    stays = facts.is_seen_without(T, R, _read(R, on))
    return split(
        Q,
        D=None if stays else L.semi_join(R, on).with_column(marker, _TRUE),
        I=None if stays else L.anti_join(R, on).with_column(marker, _FALSE),
        U=Q if stays else None,
        where=not facts.reads(L, T),
    )


@rule(INTER_TVR, cite=(3,))
def split_leaf(Q: Tvr, T: Table) -> Split:
    """D[T](Q) = Q      I[T](Q) = ∅      U[T](Q) = ∅      otherwise: the leaves of the tree of joins, and joins that read T on both sides"""
    return split(Q, D=Q, I=None, U=None)


_TRUE, _FALSE = Literal(True, "boolean"), Literal(False, "boolean")


# --- what a table that moves alone does ---------------------------------------------------------------------------------


@rule(INTER_TVR, cite=(1, 3))
def delta_of_affected_parts(
    L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, T: Table, t: Time, u: Time, facts: Facts, links: Links
) -> Rewrite:
    """Δ(L ⟕ R) = Δ D[T](L ⟕ R) + Δ I[T](L ⟕ R)      when only T moves, and R reads it; the same for ⟗ ∃

    What is unaffected is not looked at. Operators that are linear in the join carry on the sum.
    """
    Q = L.join(R, on, how, marker)
    return rewrite(
        Q[t:u],
        direct(Q, T)[t:u] + indirect(Q, T)[t:u],
        where=(how == "full" or facts.reads(R, T)) and links.has(indirect(Q, T)) and is_safe(L.columns, R.columns, on),
    )


# --- what is indirectly affected --------------------------------------------------------------------------------------


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


# --- equality joins by keys -------------------------------------------------------------------------------------------


def _equated(on: Expr, L: Tvr, R: Tvr) -> tuple[tuple[Expr, Expr], ...] | None:
    """The expressions over L and over R that a condition equates; None when it says anything else."""
    pairs: list[tuple[Expr, Expr]] = []
    for part in conjuncts(on):
        if not isinstance(part, Call) or part.function not in ("EqualTo", "EqualNullSafe"):
            return None
        sides = (part.operands[:2], part.operands[1::-1])
        own = [
            (a, b) for a, b in sides if a.columns and b.columns and a.reads_only(L.columns) and b.reads_only(R.columns)
        ]
        pairs += own[:1]
        if not own:
            return None
    return tuple(pairs)


class ByKeys:
    """``L ⋉ R`` as the inner join of L with the distinct keys of R."""

    def __init__(self, L: Tvr, R: Tvr, on: Expr) -> None:
        pairs = _equated(on, L, R) or ()
        keys = {b: Column(f"{i}.key", "key", b.type) for i, (_, b) in enumerate(pairs)}
        self.exist = bool(pairs) and not can_fail(on) and all(map(_is_plain, keys))
        self._distinct = R.aggregate(tuple(Output(column, key) for key, column in keys.items()), ())
        parts = zip(conjuncts(on), pairs, strict=True) if pairs else ()
        self._on = conjunction(*(Call(_function(part), (a, Ref(keys[b])), "boolean") for part, (a, b) in parts))
        self._left = L

    @property
    def matching(self) -> Tvr:
        """The rows of L that match."""
        own = tuple(Output(c, Ref(c)) for c in self._left.columns)
        return self._left.join(self._distinct, self._on).project(own)


def _is_plain(key: Expr) -> bool:
    return equality_is_identity(key.type)


def _function(part: Expr) -> str:
    assert isinstance(part, Call)
    return part.function


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
        found.with_column(marker, _TRUE) + (L[t:u] - found).with_column(marker, _FALSE),
        where=keys.exist,
    )


# --- where no table moves alone -----------------------------------------------------------------------------------------


def why_not_by_table(rel: Rel, facts: Facts) -> Reason | None:
    """Why no table that both sides of a join read can be moved alone; None when they read none in common."""
    assert isinstance(rel, Join)
    left, right = ({s.table: s for s in scans(side)} for side in rel.inputs)
    both = [name for name in left if name in right and not facts.never_changes(Tvr(left[name]))]
    if not both:
        return None
    tables = ", ".join(sorted(both))
    return Reason(
        "OJV_BOTH_SIDES",
        f"both sides of {short_name(rel)} read {tables}: joined again for the rows that match a change",
    )


@rule(TVR_GENERATING, cite=(1,), why=why_not_by_table)
def delta_join_of_both_sides(
    L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ(L ⟕ R) = (ΔL + A) ⟕ R[:u] - A ⟕ R[:t]      A = L[:t] ⋉ support(ΔR), when both sides change at once; the same for ∃

    Where the normal form has nothing to say: a table that both sides read, or several that cannot move one by one.
    """
    A = L[:t].semi_join(R[t:u].support(), on)
    return rewrite(
        L.join(R, on, how, marker)[t:u],
        (L[t:u] + A).join(R[:u], on, how, marker) - A.join(R[:t], on, how, marker),
        where=how in ("left", "exists")
        and not (facts.unchanged(L, t, u) or facts.unchanged(R, t, u) or facts.move_apart(L, R, t, u))
        and is_safe(L.columns, R.columns, on),
    )


SPLITS: tuple[Rule, ...] = (
    split_unread,
    split_filter_by_table,
    split_project_by_table,
    split_union_by_table,
    split_join_by_table_on_left,
    split_inner_join_by_table_on_right,
    split_left_join_by_table_on_right,
    split_full_join_by_table_on_left,
    split_full_join_by_table_on_right,
    split_semi_join_by_table_on_right,
    split_anti_join_by_table_on_right,
    split_exists_join_by_table_on_right,
    split_leaf,
)
"""The rules that give D, I and U, the first that applies first."""

USES: tuple[Rule, ...] = (
    delta_of_affected_parts,
    delta_anti_join_of_gains,
    delta_anti_join_of_stored,
    delta_left_join_of_gains,
    delta_semi_join_by_keys,
    delta_anti_join_by_keys,
    delta_exists_join_by_keys,
    delta_join_of_both_sides,
)
"""What is done with the parts, and the deltas of those that are indirectly affected."""
