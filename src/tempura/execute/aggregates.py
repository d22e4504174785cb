"""Aggregation on Spark: states of signed bags, their merge, their rows, and aggregates that have no state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as SparkColumn

from tempura.algebra.rel import Aggregate
from tempura.algebra.scalar import AggregateCall, Column, Expr, Output
from tempura.algebra.states import (
    Finalize,
    MergeStates,
    Partial,
    Slot,
    StateLayout,
    averages_exactly,
    decimal_of,
    has_exact_state,
)
from tempura.execute import functions as fn
from tempura.execute.draft import Draft
from tempura.execute.naming import attribute, ids, weight
from tempura.execute.relation import Relation, expand, split_weights

Scalars = Callable[[Expr], SparkColumn]
"""Renders a scalar expression over columns named by their identities."""

Value = tuple[Column, SparkColumn]
"""A result column of an aggregation and the aggregate that gives its value."""


@dataclass(frozen=True)
class Aggregation:
    """Renders the operators of ``algebra.states``, and Aggregate. ``call`` renders an aggregate function."""

    scalar: Scalars
    call: Callable[[AggregateCall], SparkColumn]

    def aggregate(self, rel: Aggregate, input: Relation) -> Relation:
        """One row per group, as Spark computes it; over weighted rows through the state where there is one."""
        if input.weighted and all(has_exact_state(a.call) for a in rel.aggregates):
            state = Partial(rel.input, rel.keys, rel.aggregates)
            return self.finalize(Finalize(state, rel.keys, rel.aggregates), self.partial(state, input))
        rows = expand(input, rel.input.columns)
        values = [(a.column, self._value(a.call)) for a in rel.aggregates]
        return Relation(self._grouped(rows, rel.keys, values), weighted=False)

    def _value(self, call: AggregateCall) -> SparkColumn:
        """An aggregate as Spark computes it; AVG of integers from their exact total, as from a state: it is the same in every plan."""
        if not averages_exactly(call):
            return self.call(call)
        total = self.call(replace(call, function="Sum", type="bigint", detail="legacy", handle=None)).cast("double")
        number = self.call(replace(call, function="Count", type="bigint", detail="", handle=None))
        return fn.when(number != 0, total / number)

    def partial(self, rel: Partial, input: Relation) -> Relation:
        """The state of a signed bag: a plain bag with one row per group."""
        if not rel.layout.is_exact:
            input = Relation(expand(input, rel.input.columns), weighted=False)
        elif any(_needs_units(slot) for slot in rel.layout.slots):
            input = split_weights(input, rel.input.columns)
        values = [(slot.column, self._slot(slot, input)) for slot in rel.layout.slots]
        return Relation(self._grouped(input.draft, rel.keys, values), weighted=False)

    def merge(self, rel: MergeStates, left: Relation, right: Relation) -> Relation:
        """The states united and grouped again: a bucketed state is then neither sorted nor shuffled."""
        names = ids(rel.columns)
        # Means are merged two by two, so these rows have to be told apart.
        side_of = [() if rel.layout.is_exact else (fn.lit(i).alias(_SIDE),) for i in range(2)]
        sides = [expand(side, rel.columns).select(*names, *of) for side, of in zip((left, right), side_of, strict=True)]
        return merged_states(Relation(sides[0].union(sides[1]), weighted=False), rel.layout, whole=True)

    def finalize(self, rel: Finalize, state: Relation) -> Relation:
        """The rows of the groups that exist. Linear: weights pass."""
        values = [self.scalar(output.expr).alias(output.column.id) for output in rel.outputs]
        return Relation(_alive(state.draft, rel.layout).select(*values, *state.carry()), state.weighted)

    def _grouped(self, rows: Draft, keys: Sequence[Output], values: Sequence[Value]) -> Draft:
        # The keys become columns first: GROUP BY takes an integer constant for a position.
        names = [f"_k{i}" for i in range(len(keys))]
        prepared = rows.extended(*(self.scalar(k.expr).alias(n) for n, k in zip(names, keys, strict=True)))
        # Spark wants at least one aggregate function; the optimizer drops this one.
        measures = [value.alias(column.id) for column, value in values] + [fn.count(fn.lit(1)).alias("_n")]
        kept = ((name, key.column.id) for name, key in zip(names, keys, strict=True))
        return prepared.aggregate(names, measures).select(*kept, *ids([column for column, _ in values]))

    def _slot(self, slot: Slot, input: Relation) -> SparkColumn:
        arg = self.scalar(slot.arg) if slot.arg is not None else None
        counts = self._counts(slot.filter, arg)
        if slot.kind in ("rows", "count"):
            return _count(counts, input.weighted)
        assert arg is not None
        value = arg if slot.filter is None else fn.when(self.scalar(slot.filter), arg)
        match slot.kind:
            case "total":
                return self._total(slot, value, input)
            case "mean":
                return fn.coalesce(fn.avg(value), fn.lit(0.0))
            case "moment":
                return self._moment(slot, value, fn.count(value))
        return fn.min(value) if slot.kind == "min" else fn.max(value)

    def _moment(self, slot: Slot, value: SparkColumn, number: SparkColumn) -> SparkColumn:
        """The sum of products of distances: Spark divides it by their number."""
        assert slot.other is not None
        same = slot.other == slot.arg
        spread = fn.var_pop(value) if same else fn.covar_pop(value, self.scalar(slot.other))
        return fn.coalesce(spread * number, fn.lit(0.0))

    def _counts(self, filter: Expr | None, arg: SparkColumn | None) -> SparkColumn | None:
        """Whether a row counts for a slot; None when each does."""
        tests = [] if filter is None else [self.scalar(filter)]
        tests += [] if arg is None else [arg.isNotNull()]
        return tests[0] & tests[1] if len(tests) == 2 else tests[0] if tests else None

    def _total(self, slot: Slot, value: SparkColumn, input: Relation) -> SparkColumn:
        assert slot.arg is not None
        if not input.weighted:
            addend = _widened(value, slot)
        elif input.units and slot.column.type != "bigint":
            addend = _signed(_widened(value, slot))
        else:
            addend = _times(value, slot.arg.type, slot.column.type)
        return _total(fn.sum(addend), slot.column, fn.count(value) == 0)


def merged_states(rows: Relation, layout: StateLayout, whole: bool) -> Relation:
    """States that lie in one relation, grouped again. ``whole``: together they are the state of a bag, so that a group without rows is
    none; else they are of a signed part of it."""
    values = [_merged(slot).alias(slot.column.id) for slot in layout.slots]
    grouped = rows.draft.aggregate(ids(layout.keys), values)
    return Relation(_alive(grouped, layout) if whole else grouped, weighted=False)


def _alive(state: Draft, layout: StateLayout) -> Draft:
    return state.filter(attribute(layout.rows.id) != 0) if layout.keys else state


def _count(counts: SparkColumn | None, weighted: bool) -> SparkColumn:
    if not weighted:
        return fn.count(fn.lit(1) if counts is None else fn.when(counts, 1))
    addend = weight() if counts is None else fn.when(counts, weight())
    return fn.coalesce(fn.sum(addend), fn.lit(0).cast("bigint"))


def _widened(value: SparkColumn, slot: Slot) -> SparkColumn:
    # The sum of 64-bit integers is kept in a decimal, which does not overflow.
    return value.cast("decimal(20,0)") if slot.arg is not None and slot.arg.type == "bigint" else value


_UNIT_DIGITS = 18
"""Decimals of up to this precision can be multiplied by any weight below 10^18 without leaving 38 digits."""


def _needs_units(slot: Slot) -> bool:
    decimal = decimal_of(slot.arg.type) if slot.kind == "total" and slot.arg is not None else None
    return decimal is not None and decimal[0] > _UNIT_DIGITS


def _signed(value: SparkColumn) -> SparkColumn:
    """A value as often as a weight of 1 or -1 says. To multiply decimals takes far longer, and so does it to add what has the digits of a
    product."""
    return fn.when(weight() > 0, value).otherwise(-value)


def _times(value: SparkColumn, type: str, total: str) -> SparkColumn:
    """A value times the weight, exactly. Decimals of more than 18 digits come with weights 1 and -1 only."""
    decimal = decimal_of(type)
    if decimal and decimal[0] > _UNIT_DIGITS:
        return _signed(value)
    if decimal:
        return value * weight().cast("decimal(18,0)")
    if total == "bigint":
        return value.cast("bigint") * weight()
    return value.cast("decimal(19,0)") * weight().cast("decimal(18,0)")


def _merged(slot: Slot) -> SparkColumn:
    column = attribute(slot.column.id)
    match slot.kind:
        case "rows" | "count":
            return fn.coalesce(fn.sum(column), fn.lit(0).cast("bigint"))
        case "total":
            # SUM skips NULLs, but a state whose total is NULL has overflowed: then so has the merged one.
            complete = fn.when(fn.count(column) == fn.count(fn.lit(1)), fn.sum(column))
            return _total(complete, slot.column, fn.count(fn.lit(1)) == 0)
        case "min":
            return fn.min(column)
        case "max":
            return fn.max(column)
        case "mean":
            return _merged_means(column, attribute(slot.of[0].id))
        case "moment":
            return _merged_moments(column, *(attribute(of.id) for of in slot.of))


_SIDE = "_side"
"""Which of two states a row is of: 0 or 1. Of each there is at most one row in a group."""


def _of_side(side: int, column: SparkColumn) -> SparkColumn:
    """The value in the row of a side; 0 when there is none."""
    return fn.coalesce(fn.max(fn.when(fn.col(_SIDE) == side, column)), fn.lit(0).cast("double"))


def _merged_means(mean: SparkColumn, number: SparkColumn) -> SparkColumn:
    """What is on one side only stays as it is, to the last digit."""
    (x, n), (y, m) = ((_of_side(i, mean), _of_side(i, number)) for i in range(2))
    return fn.when(m == 0, x).when(n == 0, y).otherwise(x + (y - x) * (m / (n + m)))


def _merged_moments(moment: SparkColumn, number: SparkColumn, mean: SparkColumn, other: SparkColumn) -> SparkColumn:
    """The update of Chan, Golub and LeVeque."""
    (a, n, x, v), (b, m, y, w) = ([_of_side(i, c) for c in (moment, number, mean, other)] for i in range(2))
    return fn.when(m == 0, a).when(n == 0, b).otherwise(a + b + (y - x) * (w - v) * (n * m / (n + m)))


def _total(total: SparkColumn, column: Column, nothing: SparkColumn) -> SparkColumn:
    """A sum in the type of its slot: 0 when there was nothing to add.

    A decimal that leaves 38 digits is NULL in non-ANSI mode, here as in Spark's own SUM (in ANSI mode it is an error); it must
    not be mistaken for the NULL of an empty sum. Smaller types have the room that ``algebra.states`` leaves them.
    """
    zero, typed = fn.lit(0).cast(column.type), total.cast(column.type)
    decimal = decimal_of(column.type)
    if decimal and decimal[0] == 38:
        return fn.when(nothing, zero).otherwise(typed)
    return fn.coalesce(typed, zero)
