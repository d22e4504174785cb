"""Aggregation before joins and after them (Yan and Larson, VLDB 1995): laws between TVRs that hold at all times.

Catalyst does not do this. A partial aggregation below a join makes the join, and the state that maintains it, as small as its
groups: the sales of a day by item before the item's category is looked up. It computes its arguments for rows that join nothing, so they
must not fail; the sums themselves have room for any number of rows. The other way round less is computed.
"""

from dataclasses import dataclass
from itertools import compress

from tempura.algebra.failing import call_can_fail
from tempura.algebra.scalar import AggregateOutput, Column, Expr, Output, Ref, substitute, substitute_in_call
from tempura.algebra.sql_order import equality_is_identity
from tempura.rules.dsl import (
    LOGICAL,
    Aggs,
    Always,
    AnyMarker,
    Expected,
    How,
    Keys,
    On,
    OnAll,
    Outputs,
    Rewrite,
    Rule,
    Sides,
    rewrite,
    rule,
)
from tempura.rules.helpers import joined, read_by, values_of
from tempura.rules.logical import PRESERVING_LEFT
from tempura.rules.parts import Parts, can_be_split, merged, repeats_do_not_count
from tempura.tvr.tvr import Tvr

SPLITS = (
    "split_aggregate_below_many",
    *(f"split_{kind}aggregate_below_{side}" for kind in ("", "projected_") for side in ("left", "right")),
)


# --- guards ---------------------------------------------------------------------------------------------------------


def _without_project(
    outputs: tuple[Output, ...], keys: tuple[Output, ...], aggs: tuple[AggregateOutput, ...]
) -> tuple[tuple[Output, ...], tuple[AggregateOutput, ...]]:
    """Keys and aggregates over a projection as keys and aggregates over its input."""
    values = values_of(outputs)
    return _over(keys, values), tuple(AggregateOutput(a.column, substitute_in_call(a.call, values)) for a in aggs)


@dataclass(frozen=True)
class _Split:
    """An aggregation above a join, as one of the side that its aggregates read, by what the join and the keys read of it, and one of
    what that leaves. ``own``: the aggregates that are taken of the side; others read what is joined with it."""

    side: Tvr
    columns: tuple[Column, ...]
    keys: tuple[Output, ...]
    own: tuple[AggregateOutput, ...]
    parts: Parts

    @staticmethod
    def of(
        side: Tvr, on: Expr, keys: tuple[Output, ...], aggs: tuple[AggregateOutput, ...], padded: bool = False
    ) -> "_Split":
        """``padded``: a group may have no row of the side, as without keys."""
        read = on.columns | read_by(keys)
        columns = tuple(column for column in side.columns if column in read)
        beside = tuple(a for a in aggs if _is_beside(a, side))
        own = tuple(a for a in aggs if a not in beside)
        return _Split(side, columns, keys, own, Parts.of(aggs, () if padded else keys, beside))

    @property
    def partial(self) -> Tvr:
        return self.parts.partial(self.side, self.columns)

    def whole(self, join: Tvr) -> Tvr:
        return self.parts.whole(join, self.keys)

    def is_right_of(self, how: str) -> bool:
        """Whether the side may be the right one of a join: no aggregate takes a value from a row in which all its columns are NULL, if the
        join adds such rows."""
        columns = all(a.call.operands and all(isinstance(arg, Ref) for arg in a.call.operands) for a in self.own)
        return how == "inner" or (how == "left" and columns)

    def pays(self, always: Always, expected: Expected) -> bool:
        return (
            bool(self.columns)
            and (bool(self.own) or not self.parts.upper)
            and all(equality_is_identity(column.type) for column in self.columns)
            and all(a.call.columns <= frozenset(self.side.columns) and can_be_split(a.call) for a in self.own)
            and not any(call_can_fail(a.call) for a in self.own)
            and not always.is_unique(self.side, self.columns)
            and expected.shrinks(self.side, self.columns)
        )


def _is_beside(output: AggregateOutput, side: Tvr) -> bool:
    """Whether an aggregate is of what a side is joined with, and the same whether that meets rows of the side or groups of them."""
    read = output.call.columns
    return (
        bool(read) and read.isdisjoint(side.columns) and repeats_do_not_count(output.call) and can_be_split(output.call)
    )


def _over(keys: tuple[Output, ...], values: dict[Column, Expr]) -> tuple[Output, ...]:
    return tuple(Output(key.column, substitute(key.expr, values)) for key in keys)


def _merges(
    on: Expr | None,
    keys: tuple[Output, ...],
    inner: tuple[Output, ...],
    partial: tuple[AggregateOutput, ...],
    aggs: tuple[AggregateOutput, ...],
) -> bool:
    results = frozenset(a.column for a in partial)
    read = read_by(keys) | (on.columns if on else frozenset())
    return (
        bool(inner)
        and not read & results
        and all(equality_is_identity(key.column.type) for key in inner)
        and len(merged(aggs, partial)) == len(aggs)
    )


# --- eager ------------------------------------------------------------------------------------------------------------


@rule(LOGICAL, cite=(5,))
def split_aggregate_below_left(
    L: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker, keys: Keys, aggs: Aggs, always: Always, expected: Expected
) -> Rewrite:
    """aggregate(L ⋈ R) = aggregate'(partial(L) ⋈ R)      by what on and keys read of L

    For aggregates that read L, and all joins but ⟗. All rows of a partial group meet the same rows of R, so their sums can be
    taken first. MIN and MAX may read R, for which it is the same how many rows meet a row. Not without columns to group by: partial(L)
    would have a row even where L has none. Not when L has one row per group anyway, and only when far fewer groups than rows are expected.
    """
    split = _Split.of(L, on, keys, aggs)
    return rewrite(
        L.join(R, on, how, marker).aggregate(keys, aggs),
        split.whole(split.partial.join(R, on, how, marker)),
        where=how in PRESERVING_LEFT and split.pays(always, expected),
    )


@rule(LOGICAL, cite=(5,))
def split_aggregate_below_right(
    L: Tvr, R: Tvr, how: How, on: On, marker: AnyMarker, keys: Keys, aggs: Aggs, always: Always, expected: Expected
) -> Rewrite:
    """aggregate(L ⋈ R) = aggregate'(L ⋈ partial(R))      aggregates that read R, or MIN and MAX, for inner joins; the same for ⟕

    Where a row of L matches nothing, the columns of R are NULL, and so are the sums over R: for aggregates of columns, which leave out
    NULL.
    """
    split = _Split.of(R, on, keys, aggs, padded=how == "left")
    return rewrite(
        L.join(R, on, how, marker).aggregate(keys, aggs),
        split.whole(L.join(split.partial, on, how, marker)),
        where=split.is_right_of(how) and split.pays(always, expected),
    )


@rule(LOGICAL, cite=(5,))
def split_projected_aggregate_below_left(
    L: Tvr,
    R: Tvr,
    how: How,
    on: On,
    marker: AnyMarker,
    outputs: Outputs,
    keys: Keys,
    aggs: Aggs,
    always: Always,
    expected: Expected,
) -> Rewrite:
    """aggregate(project(L ⋈ R)) = aggregate'(partial(L) ⋈ R)      with what the projection computes in the aggregates

    Catalyst puts a projection above each join. Arguments are computed before the join here, so they may read L only.
    """
    split = _Split.of(L, on, *_without_project(outputs, keys, aggs))
    return rewrite(
        L.join(R, on, how, marker).project(outputs).aggregate(keys, aggs),
        split.whole(split.partial.join(R, on, how, marker)),
        where=how in PRESERVING_LEFT and split.pays(always, expected),
    )


@rule(LOGICAL, cite=(5,))
def split_projected_aggregate_below_right(
    L: Tvr,
    R: Tvr,
    how: How,
    on: On,
    marker: AnyMarker,
    outputs: Outputs,
    keys: Keys,
    aggs: Aggs,
    always: Always,
    expected: Expected,
) -> Rewrite:
    """aggregate(project(L ⋈ R)) = aggregate'(L ⋈ partial(R))      with what the projection computes in the aggregates"""
    split = _Split.of(R, on, *_without_project(outputs, keys, aggs), padded=how == "left")
    return rewrite(
        L.join(R, on, how, marker).project(outputs).aggregate(keys, aggs),
        split.whole(L.join(split.partial, on, how, marker)),
        where=split.is_right_of(how) and split.pays(always, expected),
    )


@rule(LOGICAL, cite=(5,))
def split_aggregate_below_many(
    T: Tvr, others: Sides, on: OnAll, keys: Keys, aggs: Aggs, always: Always, expected: Expected
) -> Rewrite:
    """aggregate(T ⋈ R ⋈ S ⋈ ...) = aggregate'(partial(T) ⋈ R ⋈ S ⋈ ...)      by what on and keys read of T

    For inner joins of three or more relations, whichever two the text joins first: the others are joined in any order then, before
    and after T. Two at a time T would meet what the text joins it with, and no other. Without
    aggregates, groups(T ⋈ R ⋈ S ⋈ ...) = groups(groups(T) ⋈ groups(R) ⋈ S ⋈ ...), of all relations that have far fewer at once: one
    at a time there would be a way for each set of them.
    """
    split, rest = _Split.of(T, on, keys, aggs), others
    pays = len(others) > 1 and split.pays(always, expected)
    if pays and not aggs:
        sides = [_Split.of(other, on, keys, aggs) for other in others]
        few = [side.pays(always, expected) for side in sides]
        rest = tuple(side.partial if is_few else side.side for side, is_few in zip(sides, few, strict=True))
        # Whichever of them is T, the same comes of it: so T is the first of them by name.
        pays = all(T.columns[0].id < other.columns[0].id for other in compress(others, few))
    return rewrite(
        joined((T, *others), on).aggregate(keys, aggs),
        split.whole(joined((split.partial, *rest), on)),
        where=pays,
    )


# --- lazy -------------------------------------------------------------------------------------------------------------


@rule(LOGICAL, cite=(5,), undoes=SPLITS)
def merge_aggregate_below_left(X: Tvr, R: Tvr, on: On, inner: Keys, partial: Aggs, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(aggregate'(X) ⋈ R) = aggregate(X ⋈ R)      sums of sums and of counts, MIN of MIN, MAX of MAX

    The other way round: one state in place of two. Only when nothing but aggregates reads what is aggregated below, and not
    without keys below, where there is a row even if X has none.
    """
    values, calls = values_of(inner), merged(aggs, partial)
    return rewrite(
        X.aggregate(inner, partial).join(R, on).aggregate(keys, aggs),
        X.join(R, substitute(on, values)).aggregate(_over(keys, values), calls),
        where=_merges(on, keys, inner, partial, aggs),
    )


@rule(LOGICAL, cite=(5,), undoes=SPLITS)
def merge_aggregate_below_right(L: Tvr, X: Tvr, on: On, inner: Keys, partial: Aggs, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L ⋈ aggregate'(X)) = aggregate(L ⋈ X)      sums of sums and of counts, MIN of MIN, MAX of MAX"""
    values, calls = values_of(inner), merged(aggs, partial)
    return rewrite(
        L.join(X.aggregate(inner, partial), on).aggregate(keys, aggs),
        L.join(X, substitute(on, values)).aggregate(_over(keys, values), calls),
        where=_merges(on, keys, inner, partial, aggs),
    )


@rule(LOGICAL, cite=(5,))
def merge_aggregates(X: Tvr, inner: Keys, partial: Aggs, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(aggregate'(X)) = aggregate(X)      sums of sums and of counts, MIN of MIN, MAX of MAX"""
    return rewrite(
        X.aggregate(inner, partial).aggregate(keys, aggs),
        X.aggregate(_over(keys, values_of(inner)), merged(aggs, partial)),
        where=_merges(None, keys, inner, partial, aggs),
    )


EAGER: tuple[Rule, ...] = (
    split_aggregate_below_left,
    split_aggregate_below_right,
    split_projected_aggregate_below_left,
    split_projected_aggregate_below_right,
    split_aggregate_below_many,
)
LAZY: tuple[Rule, ...] = (merge_aggregate_below_left, merge_aggregate_below_right, merge_aggregates)
