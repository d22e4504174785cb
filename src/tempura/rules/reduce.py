"""Aggregations of the groups that are asked for: semi joins below them, as laws between TVRs that hold at all times.

A correlated sub-query is decorrelated into an aggregation of all groups, joined with the few rows that ask for theirs. Which rows belong to
a group is decided by its keys; so what a join asks of keys may be asked of the rows before they are aggregated.
"""

from tempura.algebra.failing import can_fail
from tempura.algebra.scalar import TRUE, Column, Expr, Output, Ref, conjunction, conjuncts, substitute
from tempura.algebra.sql_order import equality_is_identity
from tempura.rules.dsl import (
    LOGICAL,
    Aggs,
    AnyMarker,
    Expected,
    How,
    Keys,
    On,
    Outputs,
    Pred,
    Rewrite,
    Rule,
    rewrite,
    rule,
)
from tempura.rules.eager import SPLITS
from tempura.rules.helpers import kept, values_of
from tempura.rules.logical import IGNORING_RIGHT
from tempura.tvr.tvr import Tvr

ASKED_FOR = ("reduce_aggregate_by_join", "reduce_projected_aggregate_by_join", "look_up_distinct_keys")
"""Laws that look at the rows of a side of a join that the other asks for, or at their keys. None makes more of what another has made."""


def _of_keys(on: Expr, others: tuple[Column, ...], values: dict[Column, Expr]) -> Expr:
    """The parts of a condition that ask something of keys, and of nothing else that is aggregated; over the rows below."""
    known = frozenset(others) | values.keys()
    asked = [part for part in conjuncts(on) if part.reads_only(known) and part.columns & values.keys()]
    return conjunction(*(substitute(part, values) for part in asked if not can_fail(part)))


def _keys(keys: tuple[Output, ...]) -> dict[Column, Expr]:
    """The values that equal keys have alike: of a group with -0.0 and 0.0 a join sees one of them, but would see both before."""
    fit = {key.column: key.expr for key in keys if equality_is_identity(key.column.type)}
    return {column: expr for column, expr in fit.items() if not can_fail(expr)}


def _are_apart(L: Tvr, X: Tvr) -> bool:
    """Whether two TVRs may be joined: what is below an aggregation may have names of the other side."""
    return not set(L.columns) & set(X.columns)


@rule(LOGICAL, cite=(4, 5), undoes=SPLITS)
def push_semi_join_into_aggregate(
    X: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker, keys: Keys, aggs: Aggs
) -> Rewrite:
    """aggregate(X) ⋉ R = aggregate(X ⋉ R)      when on asks keys only; the same for ▷

    It keeps or drops whole groups. Not without keys, where there is a row whatever X is.
    """
    below = _of_keys(on, R.columns, _keys(keys))
    whole = len(conjuncts(below)) == len(conjuncts(on)) and below != TRUE
    return rewrite(
        X.aggregate(keys, aggs).join(R, on, how, marker),
        X.join(R, below, how, marker).aggregate(keys, aggs) if whole else X.aggregate(keys, aggs),
        where=how in ("semi", "anti") and whole,
    )


@rule(LOGICAL, cite=(4, 5), undoes=ASKED_FOR)
def reduce_aggregate_by_join(
    L: Tvr, X: Tvr, how: How, on: On, marker: AnyMarker, keys: Keys, aggs: Aggs, expected: Expected
) -> Rewrite:
    """L ⋈ aggregate(X) = L ⋈ aggregate(X ⋉ L)      by what on asks of keys, for all joins but ⟗

    Groups that no row of L asks for are not aggregated. Only when far fewer rows of X are expected to be left; not for keys alone, which
    take no longer to find than to be asked for.
    """
    below = _of_keys(on, L.columns, _keys(keys))
    asking = kept(L, below.columns)
    return rewrite(
        L.join(X.aggregate(keys, aggs), on, how, marker),
        L.join(X.semi_join(asking, below).aggregate(keys, aggs), on, how, marker),
        where=how in IGNORING_RIGHT
        and bool(aggs)
        and below != TRUE
        and _are_apart(L, X)
        and expected.reduces(X, L, below),
    )


@rule(LOGICAL, cite=(4, 5), undoes=ASKED_FOR)
def reduce_projected_aggregate_by_join(
    L: Tvr,
    X: Tvr,
    how: How,
    on: On,
    marker: AnyMarker,
    keys: Keys,
    aggs: Aggs,
    p: Pred,
    outputs: Outputs,
    expected: Expected,
) -> Rewrite:
    """L ⋈ project(filter(p, aggregate(X))) = L ⋈ project(filter(p, aggregate(X ⋉ L)))      by what on asks of keys

    The same where something is computed of the aggregates, as Catalyst writes a comparison with a correlated sub-query.
    """
    values = _keys(keys)
    named = {c: values[e.column] for c, e in values_of(outputs).items() if isinstance(e, Ref) and e.column in values}
    below = _of_keys(on, L.columns, named)
    asking = kept(L, below.columns)
    return rewrite(
        L.join(X.aggregate(keys, aggs).filter(p).project(outputs), on, how, marker),
        L.join(X.semi_join(asking, below).aggregate(keys, aggs).filter(p).project(outputs), on, how, marker),
        where=how in IGNORING_RIGHT
        and bool(aggs)
        and below != TRUE
        and _are_apart(L, X)
        and expected.reduces(X, L, below),
    )


REDUCE: tuple[Rule, ...] = (
    push_semi_join_into_aggregate,
    reduce_aggregate_by_join,
    reduce_projected_aggregate_by_join,
)
