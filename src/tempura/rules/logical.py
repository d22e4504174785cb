"""Traditional rules: laws between TVRs that hold at all times, applied to the classes of the memo.

Catalyst has pushed filters and columns down before a query is lifted, so on a lifted query most of these laws find nothing to
do. They are here for what other laws make of it: a partial aggregation below a join, a union under a filter, a part of a TVR
with a predicate of its own; and for queries that two front ends write differently, which then share classes and stored states.

What may fail for a row is never asked of rows of which the left side does not ask it: ``separate`` leaves it where it is. Laws that only
leave out computations, or compute the same of the same rows, need no guard: those of projections, unions and columns.
"""

from tempura.algebra.failing import can_fail
from tempura.algebra.rel import JoinKind
from tempura.algebra.scalar import TRUE, Output, Ref, substitute
from tempura.algebra.sql_order import equality_is_identity
from tempura.rules.dsl import (
    LOGICAL,
    Aggs,
    AnyMarker,
    Generated,
    Generator,
    How,
    Keys,
    On,
    Order,
    Outer,
    Outputs,
    Partition,
    Pred,
    Projections,
    Rewrite,
    Rule,
    Tvrs,
    WindowCalls,
    rewrite,
    rule,
)
from tempura.rules.helpers import (
    also,
    are_read_once,
    filtered,
    kept,
    read_by,
    separate,
    union_all,
    values_of,
)
from tempura.tvr.tvr import Tvr

PRESERVING_LEFT: tuple[JoinKind, ...] = ("inner", "left", "semi", "anti", "exists")
"""Joins of which each row has one row of the left side: a predicate on that may as well be asked before."""
FILTERING_LEFT: tuple[JoinKind, ...] = ("inner", "semi")
"""Joins in which a row of the left side that does not satisfy the condition has no result."""
IGNORING_RIGHT: tuple[JoinKind, ...] = ("inner", "left", "semi", "anti", "exists")
"""Joins in which a row of the right side that does not satisfy the condition has no effect."""


# --- filters ----------------------------------------------------------------------------------------------------------


@rule(LOGICAL, cite=(4,))
def merge_filters(R: Tvr, p: Pred, q: Pred) -> Rewrite:
    """filter(p, filter(q, R)) = filter(q AND p, R)      when p does not fail

    AND asks p of rows of which q is NULL, too. What q asks already is not asked again: a filter that changes nothing would grow for ever.
    """
    return rewrite(
        R.filter(q).filter(p),
        R.filter(also(q, p)),
        where=not can_fail(p),
    )


@rule(LOGICAL, cite=(4,))
def push_filter_into_project(R: Tvr, outputs: Outputs, p: Pred) -> Rewrite:
    """filter(p, project(R)) = project(filter(p', R))      p' reads what the projection computes"""
    return rewrite(
        R.project(outputs).filter(p),
        R.filter(substitute(p, values_of(outputs))).project(outputs),
    )


@rule(LOGICAL, cite=(4,))
def push_filter_into_union(terms: Tvrs, p: Pred) -> Rewrite:
    """filter(p, R + S + ...) = filter(p, R) + filter(p, S) + ..."""
    return rewrite(
        union_all(terms).filter(p),
        union_all(tuple(R.filter(p) for R in terms)),
    )


@rule(LOGICAL, cite=(4,))
def push_filter_into_join(L: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker, p: Pred) -> Rewrite:
    """filter(p, L ⋈ R) = filter(p', filter(p_L, L) ⋈ filter(p_R, R))      p_R for inner joins only, none for ⟗

    Parts of p that read one side go there. Not to the right side of ⟕: a row of L whose match is filtered out would be padded,
    where the result has no row.
    """
    p_L, rest = separate(p, L.columns) if how in PRESERVING_LEFT else (TRUE, p)
    p_R, rest = separate(rest, R.columns) if how == "inner" else (TRUE, rest)
    return rewrite(
        L.join(R, on, how, marker).filter(p),
        filtered(filtered(L, p_L).join(filtered(R, p_R), on, how, marker), rest),
        where=p_L != TRUE or p_R != TRUE,
    )


@rule(LOGICAL, cite=(4,))
def push_condition_into_join(L: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker) -> Rewrite:
    """L ⋈ R on (p_L AND p_R AND c) = filter(p_L, L) ⋈ filter(p_R, R) on c      p_L for ⋈ ⋉ only, none for ⟗

    Not to the left side of ⟕ ▷ ∃: there the row stays, without a match.
    """
    p_L, rest = separate(on, L.columns) if how in FILTERING_LEFT else (TRUE, on)
    p_R, rest = separate(rest, R.columns) if how in IGNORING_RIGHT else (TRUE, rest)
    return rewrite(
        L.join(R, on, how, marker),
        filtered(L, p_L).join(filtered(R, p_R), rest, how, marker),
        where=p_L != TRUE or p_R != TRUE,
    )


@rule(LOGICAL, cite=(4,))
def merge_filter_into_join(L: Tvr, R: Tvr, on: On, p: Pred) -> Rewrite:
    """filter(p, L ⋈ R) = L ⋈ R on (on AND p)      for inner joins, when p does not fail"""
    return rewrite(
        L.join(R, on).filter(p),
        L.join(R, also(on, p)),
        where=not can_fail(p),
    )


@rule(LOGICAL, cite=(4,))
def push_filter_into_aggregate(X: Tvr, keys: Keys, aggs: Aggs, p: Pred) -> Rewrite:
    """filter(p, aggregate(X)) = filter(p', aggregate(filter(p_K, X)))      p_K reads keys only

    Needs keys: without them there is a row whatever X is. And keys whose equal values are identical: of a group that has
    -0.0 and 0.0 the filter sees one value, but would see both in X.
    """
    columns = tuple(k.column for k in keys if equality_is_identity(k.column.type))
    p_K, rest = separate(p, columns)
    return rewrite(
        X.aggregate(keys, aggs).filter(p),
        filtered(filtered(X, substitute(p_K, values_of(keys))).aggregate(keys, aggs), rest),
        where=bool(keys) and p_K != TRUE,
    )


@rule(LOGICAL, cite=(4,))
def push_filter_into_window(X: Tvr, partition: Partition, order: Order, calls: WindowCalls, p: Pred) -> Rewrite:
    """filter(p, window(X)) = filter(p', window(filter(p_K, X)))      p_K reads columns that X is partitioned by

    Then it keeps or drops whole partitions. Any other row that is dropped may change the values of those that stay.
    """
    columns = tuple(e.column for e in partition if isinstance(e, Ref) and equality_is_identity(e.type))
    p_K, rest = separate(p, columns)
    return rewrite(
        X.window(partition, order, calls).filter(p),
        filtered(filtered(X, p_K).window(partition, order, calls), rest),
        where=p_K != TRUE,
    )


@rule(LOGICAL, cite=(4,))
def push_filter_into_generate(R: Tvr, generator: Generator, made: Generated, outer: Outer, p: Pred) -> Rewrite:
    """filter(p, generate(R)) = filter(p', generate(filter(p_R, R)))      p_R does not read what is generated"""
    p_R, rest = separate(p, R.columns)
    return rewrite(
        R.generate(generator, made, outer).filter(p),
        filtered(filtered(R, p_R).generate(generator, made, outer), rest),
        where=p_R != TRUE,
    )


@rule(LOGICAL, cite=(4,))
def push_filter_into_expand(R: Tvr, projections: Projections, p: Pred) -> Rewrite:
    """filter(p, expand(R)) = filter(p', expand(filter(p_R, R)))      p_R reads columns that all projections have alike

    The keys that are in every grouping set.
    """
    alike = set.intersection(*(set(outputs) for outputs in projections)) if projections else set()
    p_R, rest = separate(p, tuple(output.column for output in alike))
    return rewrite(
        R.expand(projections).filter(p),
        filtered(filtered(R, substitute(p_R, values_of(tuple(alike)))).expand(projections), rest),
        where=p_R != TRUE,
    )


# --- columns ----------------------------------------------------------------------------------------------------------


@rule(LOGICAL, cite=(4,))
def merge_projects(R: Tvr, inner: Outputs, outer: Outputs) -> Rewrite:
    """project(project(R)) = project'(R)      when no value that takes a computation is read twice"""
    values = values_of(inner)
    return rewrite(
        R.project(inner).project(outer),
        R.project(tuple(Output(o.column, substitute(o.expr, values)) for o in outer)),
        where=are_read_once(inner, tuple(o.expr for o in outer)),
    )


@rule(LOGICAL, cite=(4,))
def eliminate_project(R: Tvr, outputs: Outputs) -> Rewrite:
    """project(R) = R      when it keeps all columns in their order"""
    return rewrite(
        R.project(outputs),
        R,
        where=tuple(o.expr for o in outputs) == tuple(map(Ref, R.columns)),
    )


@rule(LOGICAL, cite=(4,))
def push_project_into_union(terms: Tvrs, outputs: Outputs) -> Rewrite:
    """project(R + S + ...) = project(R) + project(S) + ..."""
    return rewrite(
        union_all(terms).project(outputs),
        union_all(tuple(R.project(outputs) for R in terms)),
    )


@rule(LOGICAL, cite=(4,))
def push_project_into_join(L: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker, outputs: Outputs) -> Rewrite:
    """project(L ⋈ R) = project(columns(L) ⋈ columns(R))      the columns that are read, where there are others

    A narrower input of a join is less to shuffle, and less to store as its state.
    """
    wanted = read_by(outputs) | on.columns
    left, right = kept(L, wanted), kept(R, wanted)
    return rewrite(
        L.join(R, on, how, marker).project(outputs),
        left.join(right, on, how, marker).project(outputs),
        where=(left.columns, right.columns) != (L.columns, R.columns),
    )


@rule(LOGICAL, cite=(4,))
def push_project_into_right_side(L: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker) -> Rewrite:
    """L ⋉ R = L ⋉ columns(R)      for ⋉ ▷ ∃: only the columns that the condition reads"""
    right = kept(R, on.columns)
    return rewrite(
        L.join(R, on, how, marker),
        L.join(right, on, how, marker),
        where=how in ("semi", "anti", "exists") and right.columns != R.columns,
    )


@rule(LOGICAL, cite=(4,))
def push_project_into_aggregate(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(X) = aggregate(columns(X))      the columns that are read, where there are others"""
    wanted = read_by(keys).union(*(a.call.columns for a in aggs))
    narrow = kept(X, wanted)
    return rewrite(
        X.aggregate(keys, aggs),
        narrow.aggregate(keys, aggs),
        where=narrow.columns != X.columns,
    )


# --- unions -----------------------------------------------------------------------------------------------------------


@rule(LOGICAL, cite=(4,))
def merge_unions(before: Tvrs, inner: Tvrs, after: Tvrs) -> Rewrite:
    """R + (S + ...) + T = R + S + ... + T"""
    return rewrite(
        union_all((*before, union_all(inner), *after)),
        union_all((*before, *inner, *after)),
    )


NORMALIZE: tuple[Rule, ...] = (
    merge_filters,
    push_filter_into_project,
    push_filter_into_union,
    push_filter_into_join,
    push_condition_into_join,
    merge_filter_into_join,
    push_filter_into_aggregate,
    push_filter_into_window,
    push_filter_into_generate,
    push_filter_into_expand,
    merge_projects,
    eliminate_project,
    push_project_into_union,
    push_project_into_join,
    push_project_into_right_side,
    push_project_into_aggregate,
    merge_unions,
)
"""Filters and columns down, and one operator for several of a kind."""
