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

Deltas of the indirectly affected part: ``rules.ojv_deltas``.
"""

from tempura.algebra.scalar import FALSE, TRUE, Column, Expr, Output, Ref
from tempura.rules.dsl import (
    INTER_TVR,
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
from tempura.rules.helpers import is_safe, union_all
from tempura.tvr import links as kinds
from tempura.tvr.tvr import Tvr


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
        D=None if stays else L.semi_join(R, on).with_column(marker, TRUE),
        I=None if stays else L.anti_join(R, on).with_column(marker, FALSE),
        U=Q if stays else None,
        where=not facts.reads(L, T),
    )


@rule(INTER_TVR, cite=(3,))
def split_leaf(Q: Tvr, T: Table) -> Split:
    """D[T](Q) = Q      I[T](Q) = ∅      U[T](Q) = ∅      otherwise: the leaves of the tree of joins, and joins that read T on both sides"""
    return split(Q, D=Q, I=None, U=None)


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
        where=(how == "full" or facts.reads(R, T))
        and is_safe(L.columns, R.columns, on)
        and (links.has(indirect(Q, T)) or links.has(unaffected(Q, T))),
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
