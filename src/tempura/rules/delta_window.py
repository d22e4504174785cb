"""Rows in an order: deltas of windows, by the partitions that changed, and the first rows. The delta of these is the difference of two
snapshots, each of which is a few rows."""

from tempura.algebra.window import partition_keys
from tempura.rules.dsl import (
    INTRA_TVR,
    TVR_GENERATING,
    Facts,
    Limit,
    Order,
    Partition,
    Rewrite,
    Time,
    WindowCalls,
    rewrite,
    rule,
)
from tempura.rules.helpers import is_order_sensitive, rows_of_changed_groups
from tempura.tvr.tvr import Tvr


@rule(TVR_GENERATING)
def delta_window(X: Tvr, partition: Partition, order: Order, functions: WindowCalls, t: Time, u: Time) -> Rewrite:
    """Δ window(X) = window(X[:u] ⋉ K) - window(X[:t] ⋉ K)      K = the partitions of ΔX

    A row's values depend on the rows of its partition only. NULL keys are partitions too. Rows that ORDER BY cannot tell apart have
    the order of all their columns: otherwise what is taken away might not be what was there.
    """
    W = X.window(partition, order, functions)
    keys = partition_keys(partition, functions)
    new = rows_of_changed_groups(X[:u], X[t:u], keys)
    old = rows_of_changed_groups(X[:t], X[t:u], keys)
    return rewrite(
        W[t:u],
        new.window(partition, order, functions) - old.window(partition, order, functions),
        where=bool(partition) and not is_order_sensitive(W.rel),
    )


@rule(TVR_GENERATING)
def delta_window_against_stored(
    X: Tvr, partition: Partition, order: Order, functions: WindowCalls, t: Time, u: Time
) -> Rewrite:
    """Δ window(X) = window(X[:u] ⋉ K) - window(X)[:t] ⋉ K      K = the partitions of ΔX

    Takes away the rows that were emitted, instead of computing them again. The only delta of windows whose values depend on the
    physical order of the rows (sums of floats, collected lists).
    """
    W = X.window(partition, order, functions)
    keys = partition_keys(partition, functions)
    new = rows_of_changed_groups(X[:u], X[t:u], keys).window(partition, order, functions)
    return rewrite(
        W[t:u],
        new - rows_of_changed_groups(W[:t], X[t:u], keys),
        where=bool(partition),
    )


@rule(INTRA_TVR, cite=(2,))
def merge_top(R: Tvr, order: Order, limit: Limit, t: Time, u: Time, facts: Facts) -> Rewrite:
    """top(R)[:u] = top(top(R)[:t] + R[t:u])      when R only grows

    A row that was not among the first does not come back when others come. It may when one of the first is deleted: then the
    first rows are taken again from R[:u].
    """
    Q = R.top(order, limit)
    return rewrite(
        Q[:u],
        (Q[:t] + R[t:u]).top(order, limit),
        where=facts.insert_only(R, t, u),
    )
