"""Deltas of joins (IM-1). Inner joins are bilinear; all others are not, and go by the rows that are affected.

``ΔR.support()`` are the rows of R that changed, inserted *or* deleted: looking at insertions only, or at a snapshot that is
not consolidated, gives wrong results.

A delta compares rows of one time with rows of another, which the query never does. So these laws are for conditions that do not fail for
any two rows (``helpers.is_safe``); a join on another condition is computed again from its inputs.
"""

from tempura.algebra.failing import can_fail
from tempura.rules.dsl import (
    INTRA_TVR,
    TVR_GENERATING,
    AnyMarker,
    Between,
    Facts,
    NotInner,
    On,
    OnAll,
    Rewrite,
    Sides,
    Time,
    rewrite,
    rule,
)
from tempura.rules.helpers import BY_ROW, is_safe, joined, joined_bags, only_matching, sum_of
from tempura.tvr.tvr import Tvr


@rule(TVR_GENERATING, cite=(1, 2))
def delta_inner_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:t] + L[:u] ⋈ ΔR

    The product rule: join is bilinear on signed bags. Do not use it for ⟕ ⋉ ▷; they are not.
    """
    return rewrite(
        L.join(R, on)[t:u],
        L[t:u].join(R[:t], on) + L[:u].join(R[t:u], on),
        where=is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING, cite=(1, 2))
def delta_inner_join_left_old(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:u] + L[:t] ⋈ ΔR

    The other order of telescoping: another snapshot of each side is needed, which may be the one that is at hand.
    """
    return rewrite(
        L.join(R, on)[t:u],
        L[t:u].join(R[:u], on) + L[:t].join(R[t:u], on),
        where=is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING, cite=(1, 2))
def delta_multi_join(terms: Sides, on: OnAll, t: Time, u: Time) -> Rewrite:
    """Δ(R ⋈ S ⋈ ...) = ΔR ⋈ S[:t] ⋈ ... + R[:u] ⋈ ΔS ⋈ ... + ...      new before what changes, old after it

    The product rule for many factors at once. Each term is joined in an order of its own, starting from its change, and no
    snapshot of a join of some of the relations is needed.
    """
    sums = (
        joined_bags((*(R[:u] for R in terms[:i]), X[t:u], *(R[:t] for R in terms[i + 1 :])), on)
        for i, X in enumerate(terms)
    )
    return rewrite(joined(terms, on)[t:u], sum_of(tuple(sums)), where=not can_fail(on))


@rule(TVR_GENERATING, cite=(1,))
def delta_join(L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕ R) = (ΔL + A) ⟕ R[:u] - A ⟕ R[:t]      A = L[:t] ⋉ support(ΔR)

    ⟕ is linear on the left. On the right, a row of L that matches no changed row of R has the same result before and after,
    whatever the condition (theta, residual, null-aware), so only the affected rows A are joined again.
    """
    A = L[:t].semi_join(R[t:u].support(), on)
    return rewrite(
        L.join(R, on, how, marker)[t:u],
        (L[t:u] + A).join(R[:u], on, how, marker) - A.join(R[:t], on, how, marker),
        where=how in BY_ROW and is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING, cite=(1,))
def delta_join_reduced(L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕ R) = X ⟕ (R[:u] ⋉ X) - A ⟕ (R[:t] ⋉ A)      X = ΔL + A, A = L[:t] ⋉ support(ΔR)

    With R reduced to the rows that can match: a few changed rows against a large R then shuffle nothing.
    """
    A = L[:t].semi_join(R[t:u].support(), on)
    X = L[t:u] + A
    new, old = only_matching(R[:u], X, on), only_matching(R[:t], A, on)
    return rewrite(
        L.join(R, on, how, marker)[t:u],
        X.join(new, on, how, marker) - A.join(old, on, how, marker),
        where=how in BY_ROW and is_safe(L.columns, R.columns, on),
    )


delta_left_join, delta_left_join_reduced = delta_join.of("left"), delta_join_reduced.of("left")
delta_semi_join, delta_semi_join_reduced = delta_join.of("semi"), delta_join_reduced.of("semi")
delta_anti_join, delta_anti_join_reduced = delta_join.of("anti"), delta_join_reduced.of("anti")
delta_exists_join = delta_join.of("exists")


@rule(TVR_GENERATING, cite=(1, 3))
def delta_left_join_split(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕ R) = Δ(L ⋈ R) + pad Δ(L ▷ R)

    The matching part is bilinear, only the padded part needs the affected rows.
    """
    return rewrite(
        L.left_join(R, on)[t:u],
        L.join(R, on)[t:u] + L.anti_join(R, on)[t:u].pad_right(R),
    )


@rule(TVR_GENERATING, cite=(1, 3))
def delta_full_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟗ R) = Δ(L ⟕ R) + pad Δ(R ▷ L)"""
    return rewrite(
        L.full_join(R, on)[t:u],
        L.left_join(R, on)[t:u] + R.anti_join(L, on)[t:u].pad_left(L),
    )


@rule(TVR_GENERATING, cite=(1,))
def delta_single_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕₁ R) = consolidate(ΔL + A) ⟕₁ R[:u] - A ⟕₁ R[:t]      A = L[:t] ⋉ support(ΔR)

    delta_left_join where it is an error to match two rows. A row of L that goes may match two rows of R by then: it is in ΔL and
    in A, and must not be looked up.
    """
    A = L[:t].semi_join(R[t:u].support(), on)
    return rewrite(
        L.single_join(R, on)[t:u],
        (L[t:u] + A).consolidate().single_join(R[:u], on) - A.single_join(R[:t], on),
        where=is_safe(L.columns, R.columns, on),
    )


@rule(TVR_GENERATING, cite=(1, 2))
def delta_join_with_unchanged(
    L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ(L ⟕ R) = ΔL ⟕ R[:u]      when R does not change from t to u; the same for ⋉ ▷ ∃

    All that a method needs that has no rule for a changing right side.
    """
    return rewrite(
        L.join(R, on, how, marker)[t:u],
        L[t:u].join(R[:u], on, how, marker),
        where=how != "full" and facts.unchanged(R, t, u),
    )


@rule(INTRA_TVR, cite=(1, 3))
def delta_join_table_by_table(
    L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, t: Time, u: Time, p: Between
) -> Rewrite:
    """Δ(L ⟕ R) = (L ⟕ R)[t:p] + (L ⟕ R)[p:u]      p: some tables have moved on, others not yet; the same for ⟗ ⋉ ▷ ∃

    A table that moves alone changes one side only where the other does not read it: then ΔL meets R as it was, or only rows of L
    that match a change of R are joined again. For inner joins this is the product rule, and superfluous.
    """
    Q = L.join(R, on, how, marker)
    return rewrite(Q[t:u], Q[t:p] + Q[p:u], where=is_safe(L.columns, R.columns, on))
