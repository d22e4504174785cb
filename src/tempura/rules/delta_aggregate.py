"""States and deltas of aggregations. ``A.state`` is the attribute perspective: one row per group, merged by value."""

from tempura.rules.core import why_without_delta
from tempura.rules.dsl import INTRA_TVR, TVR_GENERATING, Aggs, Facts, Keys, Origin, Rewrite, Time, rewrite, rule
from tempura.rules.helpers import (
    all_linear,
    is_order_sensitive,
    results_of_changed_groups,
    results_of_other_groups,
    rows_of_changed_groups,
    states_exist,
)
from tempura.tvr.tvr import Tvr


@rule(INTRA_TVR, cite=(1,), any_time=True, origin=Origin.STATE)
def finalize_state(X: Tvr, keys: Keys, aggs: Aggs, t: Time) -> Rewrite:
    """aggregate(X)[:t] = finalize(state(X)[:t])"""
    A = X.aggregate(keys, aggs)
    return rewrite(
        A[:t],
        A.state[:t].finalize(keys, aggs),
        where=states_exist(aggs),
    )


@rule(TVR_GENERATING, cite=(1,), by_definition=True)
def first_state(X: Tvr, keys: Keys, aggs: Aggs, t: Time, facts: Facts) -> Rewrite:
    """state(X)[:t] = partial(X[:t])      at the first time"""
    A = X.aggregate(keys, aggs)
    return rewrite(
        A.state[:t],
        X[:t].partial(keys, aggs),
        where=states_exist(aggs) and facts.is_first(t),
    )


@rule(TVR_GENERATING, cite=(1,))
def state_delta(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """state(X)[t:u] = partial(ΔX)"""
    A = X.aggregate(keys, aggs)
    return rewrite(
        A.state[t:u],
        X[t:u].partial(keys, aggs),
        where=states_exist(aggs),
    )


@rule(INTRA_TVR, cite=(1,))
def merge_state(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time, facts: Facts) -> Rewrite:
    """state(X)[:u] = state(X)[:t] merged with state(X)[t:u]      for MIN, MAX and floats when X only grows

    A deleted minimum cannot be subtracted, and of a float that is subtracted rounding leaves a trace; then the affected groups are
    computed again.
    """
    A = X.aggregate(keys, aggs)
    return rewrite(
        A.state[:u],
        A.state[:t].merge(A.state[t:u], keys, aggs),
        where=states_exist(aggs) and (all_linear(aggs) or facts.insert_only(X, t, u)),
    )


@rule(INTRA_TVR, cite=(2,))
def state_by_groups(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time, facts: Facts) -> Rewrite:
    """state(X)[:u] = state(X)[:t] ▷ K + partial(X[:u] ⋉ K)      K = the groups of ΔX, when X may lose rows

    What cannot be subtracted is computed again, for the groups that changed; the others stay as they are, to the last digit.
    """
    A = X.aggregate(keys, aggs)
    again = rows_of_changed_groups(X[:u], X[t:u], keys).partial(keys, aggs)
    return rewrite(
        A.state[:u],
        results_of_other_groups(A.state[:t], X[t:u], keys) + again,
        where=bool(keys) and states_exist(aggs) and not all_linear(aggs) and not facts.insert_only(X, t, u),
    )


@rule(TVR_GENERATING, cite=(2,), by_definition=True, why=why_without_delta)
def state_without_keys(X: Tvr, aggs: Aggs, t: Time, u: Time, facts: Facts) -> Rewrite:
    """state((), X)[:u] = partial(X[:u])      when X may lose rows since t

    As ``state_by_groups``: there is one group, and it has changed. ``explain`` gives the reason.
    """
    A = X.aggregate((), aggs)
    return rewrite(
        A.state[:u],
        X[:u].partial((), aggs),
        where=states_exist(aggs) and not all_linear(aggs) and not facts.insert_only(X, t, u),
    )


@rule(TVR_GENERATING, cite=(1, 2), origin=Origin.STATE)
def delta_aggregate(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ aggregate(X) = finalize(S merged with state[t:u]) - finalize(S)      S = state[:t] ⋉ the groups of state[t:u]

    What HAVING, a join above, or a reader of changes needs: the new rows of the groups that changed, minus their old rows. The other
    groups are not merged for that: S merged with state[t:u] is state[:u] ⋉ the same groups, which stands in its place where a
    second computation may give other values.
    """
    A = X.aggregate(keys, aggs)
    old = A.state[:t].only_groups_of(A.state[t:u], keys)
    again = A.state[:u].only_groups_of(A.state[t:u], keys)
    new = again if is_order_sensitive(A.rel) else old.merge(A.state[t:u], keys, aggs)
    return rewrite(
        A[t:u],
        new.finalize(keys, aggs) - old.finalize(keys, aggs),
        where=bool(keys) and states_exist(aggs) and (all_linear(aggs) or facts.insert_only(X, t, u)),
    )


@rule(TVR_GENERATING, cite=(2,), origin=Origin.STATE)
def delta_aggregate_by_states(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ aggregate(X) = finalize(state[:u] ⋉ K) - finalize(state[:t] ⋉ K)      K = the groups of ΔX, when X may lose rows

    As ``delta_aggregate``, for aggregates of which deletions have no state.
    """
    A = X.aggregate(keys, aggs)
    new = results_of_changed_groups(A.state[:u], X[t:u], keys)
    old = results_of_changed_groups(A.state[:t], X[t:u], keys)
    return rewrite(
        A[t:u],
        new.finalize(keys, aggs) - old.finalize(keys, aggs),
        where=bool(keys) and states_exist(aggs) and not all_linear(aggs) and not facts.insert_only(X, t, u),
    )


@rule(TVR_GENERATING, cite=(1, 2), origin=Origin.STATE)
def delta_aggregate_without_keys(X: Tvr, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate((), X) = finalize(state[:u]) - finalize(state[:t])

    There is one group, it always exists, and it may always have changed.
    """
    A = X.aggregate((), aggs)
    return rewrite(
        A[t:u],
        A.state[:u].finalize((), aggs) - A.state[:t].finalize((), aggs),
        where=states_exist(aggs),
    )


@rule(TVR_GENERATING, cite=(2,))
def delta_aggregate_by_groups(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - aggregate(X[:t] ⋉ K)      K = the groups of ΔX

    Any aggregate of the bag: DISTINCT, MIN and MAX under deletions, percentiles. NULL keys are groups too.
    """
    new = rows_of_changed_groups(X[:u], X[t:u], keys)
    old = rows_of_changed_groups(X[:t], X[t:u], keys)
    A = X.aggregate(keys, aggs)
    return rewrite(
        A[t:u],
        new.aggregate(keys, aggs) - old.aggregate(keys, aggs),
        where=bool(keys) and not is_order_sensitive(A.rel),
    )


@rule(TVR_GENERATING, cite=(2,))
def delta_aggregate_against_stored(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - aggregate(X)[:t] ⋉ K      K = the groups of ΔX

    Takes away the rows that were emitted, instead of computing them again. The only delta of aggregates without state whose value depends
    on the physical order of the rows (FIRST, collected lists), where a second computation may give another value.
    """
    A = X.aggregate(keys, aggs)
    new = rows_of_changed_groups(X[:u], X[t:u], keys).aggregate(keys, aggs)
    return rewrite(
        A[t:u],
        new - results_of_changed_groups(A[:t], X[t:u], keys),
        where=bool(keys) and not all_linear(aggs),
    )
