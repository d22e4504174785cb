"""Wrong splits by table, and wrong deltas of what is directly and indirectly affected; the printed form for deletions among them."""

from tempura.algebra.scalar import TRUE, Call, Expr, Output, Ref, conjunction, conjuncts, substitute
from tempura.memo.references import equated
from tempura.rules.dsl import (
    INTER_TVR,
    TVR_GENERATING,
    Always,
    AnyMarker,
    Facts,
    How,
    Links,
    On,
    Outputs,
    Query,
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
from tempura.rules.keys import ByKeys
from tempura.rules.ojv import direct, indirect, unaffected
from tempura.tvr.tvr import Bag, Tvr


def _own(rows: Bag, L: Tvr) -> Bag:
    return rows.project(tuple(Output(c, Ref(c)) for c in L.columns))


# --- parts ------------------------------------------------------------------------------------------------------------


@rule(INTER_TVR)
def split_unread_without_guard(Q: Tvr, T: Table) -> Split:
    """U[T](Q) = Q      WRONG: Q may read T"""
    return split(Q, D=None, I=None, U=Q)


@rule(INTER_TVR)
def split_project_exchanged(X: Tvr, outputs: Outputs, T: Table) -> Split:
    """U[T](project(X)) = project(D[T](X))      WRONG: the parts exchanged"""
    return split(
        X.project(outputs),
        D=unaffected(X, T).project(outputs),
        I=indirect(X, T).project(outputs),
        U=direct(X, T).project(outputs),
    )


@rule(INTER_TVR)
def split_union_without_indirect(terms: Tvrs, T: Table) -> Split:
    """I[T](R + S + ...) = ∅      WRONG: forgets I[T](R)"""
    D = union_all(tuple(direct(R, T) for R in terms))
    return split(union_all(terms), D=D, I=None, U=union_all(tuple(unaffected(R, T) for R in terms)))


@rule(INTER_TVR)
def split_join_by_table_on_both_sides(L: Tvr, R: Tvr, on: On, how: How, marker: AnyMarker, T: Table) -> Split:
    """D[T](L ⟕ R) = D[T](L) ⟕ R      U[T] = U[T](L) ⟕ R      WRONG: R may read T, too"""
    return split(
        L.join(R, on, how, marker),
        D=direct(L, T).join(R, on, how, marker),
        I=indirect(L, T).join(R, on, how, marker),
        U=unaffected(L, T).join(R, on, how, marker),
        where=how != "full",
    )


@rule(INTER_TVR)
def split_full_join_like_left(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """D[T](L ⟗ R) = D[T](L) ⟕ R      and so I[T], U[T]      WRONG: forgets pad(R ▷ L)"""
    parts = (part(L, T).left_join(R, on) for part in (direct, indirect, unaffected))
    return split(L.full_join(R, on), **dict(zip("DIU", parts, strict=True)), where=not facts.reads(R, T))


@rule(INTER_TVR)
def split_left_join_with_padded_rows_unaffected(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """U[T](L ⟕ R) = L ⋈ U[T](R) + pad(L ▷ R)      WRONG: the condition may see T, and T completes rows of L"""
    return split(
        L.left_join(R, on),
        D=L.join(direct(R, T), on),
        I=L.join(indirect(R, T), on),
        U=L.join(unaffected(R, T), on) + L.anti_join(R, on).pad_right(R),
        where=not facts.reads(L, T),
    )


@rule(INTER_TVR)
def split_left_join_that_pads_early(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """I[T](L ⟕ R) = L ⋈ I[T](R) + pad(L ▷ D[T](R))      WRONG: a row of L may match what of R is without T"""
    return split(
        L.left_join(R, on),
        D=L.join(direct(R, T), on),
        I=L.join(indirect(R, T), on) + L.anti_join(direct(R, T), on).pad_right(R),
        U=L.join(unaffected(R, T), on),
        where=not facts.reads(L, T),
    )


@rule(INTER_TVR)
def split_left_join_seen_through_left_columns(L: Tvr, R: Tvr, on: On, T: Table, facts: Facts) -> Split:
    """U[T](L ⟕ R) = L ⋈ U[T](R) + pad(L ▷ R)      if the condition does not see T in L      WRONG: it is R that T is in"""
    stays = facts.is_seen_without(T, L, tuple(c for c in L.columns if c in on.columns))
    padded, other = L.anti_join(R, on).pad_right(R), L.join(unaffected(R, T), on)
    return split(
        L.left_join(R, on),
        D=L.join(direct(R, T), on),
        I=L.join(indirect(R, T), on),
        U=other + padded,
        where=stays and not facts.reads(L, T),
    )


# --- deltas -----------------------------------------------------------------------------------------------------------


@rule(INTER_TVR)
def delta_of_what_is_directly_affected(
    L: Tvr, R: Tvr, on: On, how: How, marker: AnyMarker, T: Table, t: Time, u: Time, links: Links
) -> Rewrite:
    """Δ(L ⟕ R) = Δ D[T](L ⟕ R)      WRONG: forgets what is indirectly affected"""
    Q = L.join(R, on, how, marker)
    return rewrite(Q[t:u], direct(Q, T)[t:u], where=how != "inner" and links.has(indirect(Q, T)))


@rule(INTER_TVR)
def snapshot_of_affected_parts(Q: Query, T: Table, t: Time, links: Links) -> Rewrite:
    """Q[:t] = D[T](Q)[:t] + I[T](Q)[:t]      WRONG: what is unaffected is there, too"""
    return rewrite(Q[:t], direct(Q, T)[:t] + indirect(Q, T)[:t], where=links.has(direct(Q, T)))


@rule(TVR_GENERATING)
def indirect_delta_as_printed(L: Tvr, R: Tvr, on: On, T: Table, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ▷ R) = support(L ⋈ ΔR) ▷ R[:u] - (L ▷ R)[:t] ⋉ ΔR      WRONG: a row that L has twice comes back once

    As printed (Larson and Zhou, of deletions the first term), from the delta of the directly affected part: right where L has a key.
    """
    Q, met = L.anti_join(R, on), _own(L[:t].join(R[t:u], on), L).support()
    return rewrite(
        Q[t:u],
        met.anti_join(R[:u], on) - Q[:t].semi_join(R[t:u].support(), on),
        where=not facts.reads(L, T) and not facts.insert_only(Q, u, t) and is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING)
def indirect_delta_by_matches(L: Tvr, R: Tvr, on: On, T: Table, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ▷ R) = -(L ⋈ ΔR) ▷ R[:u] - (L ▷ R)[:t] ⋉ ΔR      WRONG: a row comes back as often as it matched"""
    Q, met = L.anti_join(R, on), _own(L[:t].join(-R[t:u], on), L)
    return rewrite(
        Q[t:u],
        met.anti_join(R[:u], on) - Q[:t].semi_join(R[t:u].support(), on),
        where=not facts.reads(L, T) and not facts.insert_only(Q, u, t) and is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING)
def gains_of_what_loses(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ R[:t] - (L[:u] ⋉ ΔR) ▷ R[:t]      WRONG: R may lose rows, and then L ▷ R gains some"""
    lost = L[:u].semi_join(R[t:u].support(), on).anti_join(R[:t], on)
    where = is_safe(L.columns, R.columns, on)
    return rewrite(L.anti_join(R, on)[t:u], L[t:u].anti_join(R[:t], on) - lost, where=where)


@rule(TVR_GENERATING)
def gains_that_matched_before(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ R[:t] - L[:u] ⋉ ΔR      WRONG: takes away rows that matched already"""
    return rewrite(
        L.anti_join(R, on)[t:u],
        L[t:u].anti_join(R[:t], on) - L[:u].semi_join(R[t:u], on),
        where=facts.insert_only(R, t, u) and is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING)
def gains_of_an_old_left_side(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ⟕ R) = ΔL ⟕ R[:t] + L[:t] ⋈ ΔR - pad((L[:t] ⋉ ΔR) ▷ R[:t])      WRONG: forgets what new rows of both sides make"""
    lost = L[:t].semi_join(R[t:u], on).anti_join(R[:t], on)
    return rewrite(
        L.left_join(R, on)[t:u],
        L[t:u].left_join(R[:t], on) + L[:t].join(R[t:u], on) - lost.pad_right(R),
        where=facts.insert_only(R, t, u) and is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING)
def gains_against_the_stored_part_with_new_rows_looked_up_before(
    L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ R[:t] - (L ▷ R)[:t] ⋉ ΔR      WRONG: new rows of L may match new rows of R"""
    Q = L.anti_join(R, on)
    return rewrite(
        Q[t:u],
        L[t:u].anti_join(R[:t], on) - Q[:t].semi_join(R[t:u], on),
        where=facts.insert_only(R, t, u) and is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING)
def gains_looked_up_for_rows_that_cancel(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ⟕ R) = L[:u] ⋈ ΔR + ΔL ⟕ S - pad(A ▷ S)      S = R[:t] ⋉ support(ΔL + A)      WRONG: a row that goes may be in A, too"""
    A = L[:u].semi_join(R[t:u], on)
    S = only_matching(R[:t], L[t:u] + A, on)
    return rewrite(
        L.left_join(R, on)[t:u],
        L[:u].join(R[t:u], on) + L[t:u].left_join(S, on) - A.anti_join(S, on).pad_right(R),
        where=facts.insert_only(R, t, u) and is_safe(L.columns, R.columns, on),
    )


# --- preserved rows with a key ----------------------------------------------------------------------------------------


class _Stored:
    """``delta_left_join_of_stored`` taken apart: what the join as it was tells of the rows of L that match a change of R."""

    joins = Tvr.left_join

    def __init__(self, L: Tvr, R: Tvr, on: Expr, t: Time, u: Time) -> None:
        pairs = equated(on, L.columns, R.columns)
        changed = R[t:u].support().project(tuple(Output(c.primed(), Ref(c)) for c in R.columns))
        V = type(self).joins(L, R, on)[:t].semi_join(changed, substitute(on, {c: Ref(c.primed()) for c in R.columns}))
        self.A = _own(V, L).support()
        self.gained = self.A.join(R[t:u], on)
        self.matched, self.unmatched = (
            V.filter(Call(test, (Ref(pairs[0][1]),), "boolean") if pairs else TRUE) for test in ("IsNotNull", "IsNull")
        )
        S = _own(self.matched + self.gained, R)
        self.of_stays = (
            self.gained + self.A.anti_join(S, on).pad_right(R) - self.unmatched
        )  # all that becomes of rows of L
        self.fits = bool(pairs) and is_safe(L.columns, R.columns, on)


@rule(TVR_GENERATING)
def stored_left_join_without_a_key(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always) -> Rewrite:
    """Δ(L ⟕ R) = A ⋈ ΔR + pad(A ▷ S) - (V without a match)      WRONG: of a row that L has twice, A has one"""
    was = _Stored(L, R, on, t, u)
    return rewrite(
        L.left_join(R, on)[t:u],
        was.of_stays,
        where=was.fits and facts.unchanged(L, t, u) and not always.is_unique(L, L.columns),
    )


@rule(TVR_GENERATING)
def stored_left_join_that_asks_the_old_matches(
    L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always
) -> Rewrite:
    """Δ(L ⟕ R) = A ⋈ ΔR + pad(A ▷ (V with a match)) - (V without a match)      WRONG: the match may be what was lost"""
    was = _Stored(L, R, on, t, u)
    S = _own(was.matched, R)
    return rewrite(
        L.left_join(R, on)[t:u],
        was.gained + was.A.anti_join(S, on).pad_right(R) - was.unmatched,
        where=was.fits and facts.unchanged(L, t, u) and always.is_unique(L, L.columns),
    )


@rule(TVR_GENERATING)
def stored_left_join_while_both_sides_move(L: Tvr, R: Tvr, on: On, t: Time, u: Time, always: Always) -> Rewrite:
    """Δ(L ⟕ R) = A ⋈ ΔR + pad(A ▷ S) - (V without a match)      WRONG: forgets ΔL"""
    was = _Stored(L, R, on, t, u)
    return rewrite(
        L.left_join(R, on)[t:u],
        was.of_stays,
        where=was.fits and always.is_unique(L, L.columns),
    )


class _StoredFull(_Stored):
    """The same of a full join."""

    joins = Tvr.full_join


@rule(TVR_GENERATING)
def stored_full_join_like_left(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always) -> Rewrite:
    """Δ(L ⟗ R) = A ⋈ ΔR + pad(A ▷ S) - (V without a match)      WRONG: forgets pad(ΔR ▷ A)"""
    was = _StoredFull(L, R, on, t, u)
    return rewrite(
        L.full_join(R, on)[t:u],
        was.of_stays,
        where=was.fits and facts.unchanged(L, t, u) and always.is_unique(L, L.columns),
    )


@rule(TVR_GENERATING)
def stored_full_join_that_asks_unmatched_rows(
    L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always
) -> Rewrite:
    """Δ(L ⟗ R) = ... + pad(ΔR ▷ (rows of L in V without a match))      WRONG: a row of R may match what has other matches"""
    was = _StoredFull(L, R, on, t, u)
    alone = R[t:u].anti_join(_own(was.unmatched, L), on).pad_left(L)
    return rewrite(
        L.full_join(R, on)[t:u],
        was.of_stays + alone,
        where=was.fits and facts.unchanged(L, t, u) and always.is_unique(L, L.columns),
    )


@rule(TVR_GENERATING)
def stored_full_join_without_a_key(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always) -> Rewrite:
    """Δ(L ⟗ R) = A ⋈ ΔR + pad(A ▷ S) - (V without a match) + pad(ΔR ▷ A)      WRONG: of a row that L has twice, A has one"""
    was = _StoredFull(L, R, on, t, u)
    alone = R[t:u].anti_join(was.A, on).pad_left(L)
    return rewrite(
        L.full_join(R, on)[t:u],
        was.of_stays + alone,
        where=was.fits and facts.unchanged(L, t, u) and not always.is_unique(L, L.columns),
    )


@rule(TVR_GENERATING)
def stored_full_join_whose_other_side_has_the_key(
    L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts, always: Always
) -> Rewrite:
    """Δ(L ⟗ R) = A ⋈ ΔR + pad(A ▷ S) - (V without a match) + pad(ΔR ▷ A)      if R has a key      WRONG: it is L's rows that are told"""
    was = _StoredFull(L, R, on, t, u)
    alone = R[t:u].anti_join(was.A, on).pad_left(L)
    return rewrite(
        L.full_join(R, on)[t:u],
        was.of_stays + alone,
        where=was.fits and facts.unchanged(L, t, u) and always.is_unique(R, R.columns),
    )


# --- by keys ----------------------------------------------------------------------------------------------------------


@rule(TVR_GENERATING)
def semi_join_as_inner(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋉ R) = Δ(L ⋈ R)      WRONG: once per row that matches"""
    own = tuple(Output(c, Ref(c)) for c in L.columns)
    where = is_safe(L.columns, R.columns, on)
    return rewrite(L.semi_join(R, on)[t:u], L.join(R, on).project(own)[t:u], where=where)


@rule(TVR_GENERATING)
def semi_join_by_some_keys(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋉ R) = Δ(L ⋈ keys(R))      by the equalities alone      WRONG: the rest of the condition counts"""
    equalities = [part for part in conjuncts(on) if ByKeys(L, R, part).exist]
    keys = ByKeys(L, R, conjunction(*equalities))
    return rewrite(L.semi_join(R, on)[t:u], keys.matching[t:u], where=keys.exist)


@rule(TVR_GENERATING)
def anti_join_by_keys_that_forgets_new_rows(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ▷ R) = -Δ(L ⋈ keys(R))      WRONG: forgets ΔL"""
    keys = ByKeys(L, R, on)
    return rewrite(L.anti_join(R, on)[t:u], -keys.matching[t:u], where=keys.exist)


@rule(TVR_GENERATING)
def both_sides_with_new_left_rows_affected(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕ R) = (ΔL + A) ⟕ R[:u] - A ⟕ R[:t]      A = L[:u] ⋉ support(ΔR)      WRONG: new rows are in ΔL and in A"""
    A = L[:u].semi_join(R[t:u].support(), on)
    return rewrite(
        L.left_join(R, on)[t:u],
        (L[t:u] + A).left_join(R[:u], on) - A.left_join(R[:t], on),
        where=is_safe(L.columns, R.columns, on),
    )


OJV_MUTANTS: tuple[Rule, ...] = (
    split_unread_without_guard,
    split_project_exchanged,
    split_union_without_indirect,
    split_join_by_table_on_both_sides,
    split_full_join_like_left,
    split_left_join_with_padded_rows_unaffected,
    split_left_join_that_pads_early,
    split_left_join_seen_through_left_columns,
    delta_of_what_is_directly_affected,
    snapshot_of_affected_parts,
    indirect_delta_as_printed,
    indirect_delta_by_matches,
    gains_of_what_loses,
    gains_that_matched_before,
    gains_of_an_old_left_side,
    gains_against_the_stored_part_with_new_rows_looked_up_before,
    stored_left_join_without_a_key,
    stored_left_join_that_asks_the_old_matches,
    stored_left_join_while_both_sides_move,
    stored_full_join_like_left,
    stored_full_join_that_asks_unmatched_rows,
    stored_full_join_without_a_key,
    stored_full_join_whose_other_side_has_the_key,
    semi_join_as_inner,
    semi_join_by_some_keys,
    anti_join_by_keys_that_forgets_new_rows,
    both_sides_with_new_left_rows_affected,
)
