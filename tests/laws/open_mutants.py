"""Wrong laws without the guards for what SQL leaves open, and for expressions that fail: right wherever a tie is broken as before and no
row fails."""

from tempura.algebra.evaluate_aggregate import PICKS
from tempura.algebra.failing import call_can_fail, can_fail, fails_on_pairs
from tempura.algebra.scalar import TRUE, conjunction, conjuncts
from tempura.algebra.sql_order import equality_is_identity
from tempura.algebra.states import picks_among_equals
from tempura.algebra.window import ENDS, partition_keys
from tempura.rules.distinct import Levels
from tempura.rules.dsl import (
    LOGICAL,
    TVR_GENERATING,
    Aggs,
    Keys,
    On,
    OnAll,
    Order,
    Partition,
    Pred,
    Rewrite,
    Rule,
    Sides,
    Time,
    WindowCalls,
    rewrite,
    rule,
)
from tempura.rules.helpers import is_order_sensitive, joined, joined_bags, read_by, rows_of_changed_groups, sum_of
from tempura.rules.parts import Parts, can_be_split
from tempura.tvr.tvr import Tvr


@rule(TVR_GENERATING)
def open_values_computed_again(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - aggregate(X[:t] ⋉ K)      WRONG for values that another computation may give otherwise"""
    new, old = (rows_of_changed_groups(X[:v], X[t:u], keys).aggregate(keys, aggs) for v in (u, t))
    A = X.aggregate(keys, aggs)
    return rewrite(A[t:u], new - old, where=bool(keys) and is_order_sensitive(A.rel))


@rule(TVR_GENERATING)
def least_of_equals_computed_again(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - aggregate(X[:t] ⋉ K)      WRONG for MIN and MAX where -0.0 and 0.0 are equal"""
    new, old = (rows_of_changed_groups(X[:v], X[t:u], keys).aggregate(keys, aggs) for v in (u, t))
    extremes = all(a.call.function in ("Min", "Max") and not equality_is_identity(a.call.type) for a in aggs)
    return rewrite(X.aggregate(keys, aggs)[t:u], new - old, where=bool(keys) and bool(aggs) and extremes)


@rule(TVR_GENERATING)
def open_windows_computed_again(
    X: Tvr, partition: Partition, order: Order, calls: WindowCalls, t: Time, u: Time
) -> Rewrite:
    """Δ window(X) = window(X[:u] ⋉ K) - window(X[:t] ⋉ K)      WRONG for values that another computation may give otherwise"""
    W, keys = X.window(partition, order, calls), partition_keys(partition, calls)
    new, old = (rows_of_changed_groups(X[:v], X[t:u], keys).window(partition, order, calls) for v in (u, t))
    taken = any(f.call.function in PICKS - ENDS for f in calls)
    least = any(picks_among_equals(f.call) for f in calls)
    return rewrite(W[t:u], new - old, where=bool(partition) and (taken or least))


def _fails(L: Tvr, R: Tvr, on: On) -> bool:
    return fails_on_pairs(on, L.columns, R.columns)


@rule(TVR_GENERATING)
def product_rule_for_conditions_that_fail(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:t] + L[:u] ⋈ ΔR      WRONG: compares new rows with rows that are gone"""
    return rewrite(L.join(R, on)[t:u], L[t:u].join(R[:t], on) + L[:u].join(R[t:u], on), where=_fails(L, R, on))


@rule(TVR_GENERATING)
def product_of_many_for_conditions_that_fail(terms: Sides, on: OnAll, t: Time, u: Time) -> Rewrite:
    """Δ(R ⋈ S ⋈ ...) = ΔR ⋈ S[:t] ⋈ ... + R[:u] ⋈ ΔS ⋈ ... + ...      WRONG: compares new rows with rows that are gone"""
    sums = (
        joined_bags((*(R[:u] for R in terms[:i]), X[t:u], *(R[:t] for R in terms[i + 1 :])), on)
        for i, X in enumerate(terms)
    )
    return rewrite(joined(terms, on)[t:u], sum_of(tuple(sums)), where=can_fail(on))


@rule(TVR_GENERATING)
def affected_rows_for_conditions_that_fail(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕ R) = (ΔL + A) ⟕ R[:u] - A ⟕ R[:t]      WRONG: looks for old rows of L that match new rows of R"""
    A = L[:t].semi_join(R[t:u].support(), on)
    return rewrite(
        L.left_join(R, on)[t:u],
        (L[t:u] + A).left_join(R[:u], on) - A.left_join(R[:t], on),
        where=_fails(L, R, on),
    )


@rule(LOGICAL)
def filter_that_fails_pushed_into_join(L: Tvr, R: Tvr, on: On, p: Pred) -> Rewrite:
    """filter(p, L ⋈ R) = filter(p_L, L) ⋈ R      WRONG: p_L fails for a row of L that joins nothing"""
    return rewrite(L.join(R, on).filter(p), L.filter(p).join(R, on), where=p.reads_only(L.columns) and can_fail(p))


@rule(LOGICAL)
def condition_that_fails_pushed_into_join(L: Tvr, R: Tvr, on: On) -> Rewrite:
    """L ⋈ R on (p_L AND c) = filter(p_L, L) ⋈ R on c      WRONG: p_L fails for a row that c takes out"""
    own = tuple(part for part in conjuncts(on) if part.reads_only(L.columns))
    rest = conjunction(*(part for part in conjuncts(on) if part not in own))
    p_L = conjunction(*own)
    return rewrite(L.join(R, on), L.filter(p_L).join(R, rest), where=p_L != TRUE and can_fail(p_L))


@rule(LOGICAL)
def filters_that_fail_merged(R: Tvr, p: Pred, q: Pred) -> Rewrite:
    """filter(p, filter(q, R)) = filter(q AND p, R)      WRONG: AND asks p where q is NULL"""
    return rewrite(R.filter(q).filter(p), R.filter(conjunction(q, p)), where=can_fail(p))


@rule(LOGICAL)
def arguments_that_fail_aggregated_early(L: Tvr, R: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L ⋈ R) = aggregate'(partial(L) ⋈ R)      WRONG: an argument fails for a row of L that joins nothing"""
    columns = tuple(c for c in L.columns if c in on.columns | read_by(keys))
    own = all(a.call.columns <= frozenset(L.columns) and can_be_split(a.call) for a in aggs)
    parts = Parts.of(aggs, keys)
    exact = bool(columns) and all(equality_is_identity(c.type) for c in columns)
    return rewrite(
        L.join(R, on).aggregate(keys, aggs),
        parts.whole(parts.partial(L, columns).join(R, on), keys),
        where=own and exact and any(call_can_fail(a.call) for a in aggs),
    )


@rule(LOGICAL)
def distinct_values_that_fail(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F(DISTINCT x) FILTER p) = aggregate(F(x))(...)      WRONG: x fails for a row without p"""
    levels = Levels.of(keys, aggs)
    alone = len(aggs) == 1 and aggs[0].call.function == "Count" and bool(keys) and bool(levels.distinct)
    guarded = any(a.call.filter and any(map(can_fail, a.call.operands)) for a in aggs)
    exact = all(equality_is_identity(k.column.type) for k in keys + levels.values)
    return rewrite(X.aggregate(keys, aggs), levels.upper(levels.lower(X), aggs), where=alone and guarded and exact)


OPEN_MUTANTS: tuple[Rule, ...] = (
    open_values_computed_again,
    open_windows_computed_again,
    product_of_many_for_conditions_that_fail,
    filter_that_fails_pushed_into_join,
    condition_that_fails_pushed_into_join,
    filters_that_fail_merged,
)
"""Those that random cases refute. The others are refuted by cases of their own, in ``test_guards``."""
