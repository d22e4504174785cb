"""Laws that every method uses: the definition of a TVR's snapshots, and how snapshots and deltas give one another."""

from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Join, Opaque, Rel, TopK
from tempura.algebra.window import Window
from tempura.errors import Reason
from tempura.rules.distinct import is_split
from tempura.rules.dsl import INTRA_TVR, TVR_GENERATING, Facts, Origin, Query, Rewrite, Time, rewrite, rule
from tempura.rules.helpers import all_linear, compares_safely, is_order_sensitive, why_recomputed
from tempura.tvr.tvr import Bag, Tvr
from tempura.tvr.views import Snapshot, View


def at(Q: Tvr, t: Time) -> Bag:
    """The operator of Q applied to the snapshots of its inputs."""
    return Bag(Q.rel.with_inputs(*(View(rel, Snapshot(t)) for rel in Q.rel.inputs)))


def is_computed(rel: Rel) -> bool:
    """Whether a relation is computed, from others or (a recomputed part of a query without tables) from nothing."""
    return bool(rel.inputs) or isinstance(rel, Opaque)


def is_cheap_by_definition(rel: Rel) -> bool:
    """Operators whose snapshot may be computed from their inputs' snapshots at any time, without being a recompute of what
    could be maintained: row by row, or without any delta of their own."""
    if isinstance(rel, Aggregate):
        return not rel.keys and not all_linear(rel.aggregates) and not is_split(rel)
    if isinstance(rel, Window | Join | MultiJoin):
        return not has_delta(rel)
    return rel.row_by_row or isinstance(rel, TopK | One | Opaque)


def has_delta(rel: Rel) -> bool:
    """Whether some delta rule better than the difference of two snapshots exists for the operator."""
    if isinstance(rel, Aggregate):
        return bool(rel.keys)
    if isinstance(rel, Window):
        return bool(rel.partition)
    if isinstance(rel, Join | MultiJoin):
        return compares_safely(rel)
    return rel.row_by_row


def why_without_delta(rel: Rel, facts: Facts) -> Reason | None:
    """Why an operator is recomputed from its maintained input; None when it has a delta."""
    return why_recomputed(rel)


@rule(TVR_GENERATING, cite=(1,), by_definition=True)
def first_snapshot(Q: Query, t: Time, facts: Facts) -> Rewrite:
    """Q(R)[:t] = Q(R[:t])      at the first time

    The definition of a query over a TVR. Something has to be computed from scratch once.
    """
    return rewrite(Q[:t], at(Q, t), where=is_computed(Q.rel) and facts.is_first(t))


@rule(TVR_GENERATING, cite=(1,), any_time=True, by_definition=True, why=why_without_delta)
def snapshot_of_inputs(Q: Query, t: Time) -> Rewrite:
    """Q(R)[:t] = Q(R[:t])      when Q is a row-by-row operator, or has no delta of its own

    Costs what its input costs; for the second kind it is the fallback, and ``explain`` gives the reason.
    """
    return rewrite(Q[:t], at(Q, t), where=is_cheap_by_definition(Q.rel))


@rule(TVR_GENERATING, cite=(1,), any_time=True, by_definition=True)
def recompute_snapshot(Q: Query, t: Time) -> Rewrite:
    """Q(R)[:t] = Q(R[:t])      at any time

    Plain batch processing. Belongs to the method ``batch`` only.
    """
    return rewrite(Q[:t], at(Q, t), where=is_computed(Q.rel))


@rule(INTRA_TVR, cite=(1,), origin=Origin.STORED)
def merge_snapshot(Q: Query, t: Time, u: Time) -> Rewrite:
    """Q[:u] = Q[:t] + Q[t:u]

    The only way for order-sensitive values that have a delta: the delta takes away what was stored. The snapshots of those that have
    none are computed once each, and their deltas are differences of snapshots.
    """
    return rewrite(Q[:u], Q[:t] + Q[t:u], where=has_delta(Q.rel) or not is_order_sensitive(Q.rel))


@rule(INTRA_TVR, cite=(1,))
def difference_of_snapshots(Q: Query, t: Time, u: Time) -> Rewrite:
    """Q[t:u] = Q[:u] - Q[:t]      when Q has no other delta

    The last resort: every operator has *some* delta.
    """
    return rewrite(Q[t:u], Q[:u] - Q[:t], where=not has_delta(Q.rel) and bool(Q.rel.inputs))
