"""Aggregates of distinct values, as two aggregations: the groups of the lower one are the distinct values of one argument.

Each level has a state that counts rows, so a value is taken away when its last row is deleted, and not before.
"""

from dataclasses import dataclass, replace

from tempura.algebra.failing import call_can_fail
from tempura.algebra.rel import Aggregate
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
    same,
)
from tempura.algebra.sql_order import equality_is_identity
from tempura.algebra.states import has_exact_state
from tempura.rules.dsl import LOGICAL, Aggs, Keys, Rewrite, Rule, rewrite, rule
from tempura.rules.helpers import values_of
from tempura.rules.parts import Parts, can_be_split
from tempura.tvr.tvr import Tvr


@dataclass(frozen=True)
class Levels:
    """An aggregation taken apart: the ``distinct`` aggregates, the columns of their argument, and the ``parts`` of the others."""

    keys: tuple[Output, ...]
    distinct: tuple[AggregateOutput, ...]
    values: tuple[Output, ...]
    parts: Parts

    @staticmethod
    def of(keys: tuple[Output, ...], aggs: tuple[AggregateOutput, ...]) -> "Levels":
        distinct = tuple(a for a in aggs if a.call.distinct)
        values = tuple(
            Output(a.column.derived(f"value{i}", arg.type), arg)
            for a in distinct[:1]
            for i, arg in enumerate(a.call.operands)
        )
        return Levels(keys, distinct, values, Parts.of(tuple(a for a in aggs if not a.call.distinct), keys))

    def are_exact(self, aggs: tuple[AggregateOutput, ...]) -> bool:
        """Whether the two levels give what the one aggregation gives. Below, arguments are computed for rows that a filter leaves out."""
        grouped = self.keys + self.values
        return (
            len({a.call.operands for a in self.distinct}) == 1
            and bool(grouped)
            and all(_groups_again(output.column.type) for output in grouped)
            and _have_states(aggs)
            and not any(a.call.filter and call_can_fail(a.call) for a in aggs)
        )

    def lower(self, X: Tvr) -> Tvr:
        """One row per group and distinct value."""
        taken = tuple(AggregateOutput(_taken(a), _rows_with(a.call.filter)) for a in self.distinct if a.call.filter)
        return X.aggregate(self.keys + self.values, self.parts.lower + taken)

    def upper(self, lower: Tvr, aggs: tuple[AggregateOutput, ...]) -> Tvr:
        """One row per group of those."""
        keys = tuple(Output(key.column, Ref(key.column)) for key in self.keys)
        values = tuple(Ref(value.column) for value in self.values)
        taken = tuple(AggregateOutput(a.column, _over_values(a, values)) for a in self.distinct)
        return lower.aggregate(keys, taken + self.parts.upper).project(keys + self._final(aggs))

    def _final(self, aggs: tuple[AggregateOutput, ...]) -> tuple[Output, ...]:
        """The aggregates, in their order."""
        values = values_of(self.parts.final)
        return tuple(Output(a.column, values.get(a.column, Ref(a.column))) for a in aggs)


def _groups_again(type: str) -> bool:
    """Whether grouping by a grouped value changes nothing: it is the only one of its kind. Of numbers, -0.0 became 0.0 below."""
    return type in ("float", "double") or equality_is_identity(type)


def _have_states(aggs: tuple[AggregateOutput, ...]) -> bool:
    """Whether all aggregates have states in two levels."""
    return all(_of_distinct_values(a.call) if a.call.distinct else can_be_split(a.call) for a in aggs)


def _of_distinct_values(call: AggregateCall) -> bool:
    """Whether an aggregate of distinct values has a state once they are there. MIN and MAX return the value itself: which of -0.0 and
    0.0 it is must not depend on the levels."""
    return call.function == "Count" or has_exact_state(replace(call, distinct=False))


def _taken(output: AggregateOutput) -> Column:
    """The column that says how many rows with a value pass the filter of a DISTINCT aggregate."""
    return output.column.derived("taken", "bigint")


def _rows_with(filter: Expr) -> AggregateCall:
    return AggregateCall("Count", (), "bigint", filter=filter)


def _over_values(output: AggregateOutput, values: tuple[Ref, ...]) -> AggregateCall:
    """An aggregate over the distinct values. COUNT takes the rows without a NULL, for it may have several arguments."""
    call, none = output.call, Literal(0, "bigint")
    tests = [Call("GreaterThan", (Ref(_taken(output)), none), "boolean")] if call.filter else []
    if call.function != "Count":
        return replace(call, operands=values, distinct=False, filter=_unless_true(conjunction(*tests)))
    present = (Call("IsNotNull", (value,), "boolean") for value in values)
    return AggregateCall("Count", (), "bigint", filter=_unless_true(conjunction(*tests, *present)))


def _unless_true(predicate: Expr) -> Expr | None:
    return None if predicate == TRUE else predicate


def _by_first_argument(aggs: Aggs) -> tuple[Aggs, Aggs]:
    """The aggregates of the distinct values of the first argument, and the others."""
    first = next((a.call.operands for a in aggs if a.call.distinct), ())
    own = tuple(a for a in aggs if a.call.distinct and a.call.operands == first)
    return own, tuple(a for a in aggs if a not in own)


def _have_several_arguments(keys: Keys, aggs: Aggs) -> bool:
    """Whether there are distinct values of several arguments, and nothing that cannot be taken apart."""
    _, others = _by_first_argument(aggs)
    several = any(a.call.distinct for a in others)
    return several and _have_states(aggs) and all(_groups_again(key.column.type) for key in keys)


@rule(LOGICAL, cite=(2,))
def split_distinct_aggregate(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F(DISTINCT x), G(y))(X) = aggregate(F(x), G'(y'))(aggregate by keys and x (y' = G''(y))(X))

    The groups below are the distinct values of x, the other aggregates are taken in parts. A filter of F becomes a count below:
    of a value that no row with the filter has, the count is 0. When all DISTINCT aggregates have the same argument, and
    something is grouped by: below, no rows are to give no groups.
    """
    levels = Levels.of(keys, aggs)
    return rewrite(
        X.aggregate(keys, aggs),
        levels.upper(levels.lower(X), aggs),
        where=levels.are_exact(aggs),
    )


@rule(LOGICAL, cite=(2,))
def split_distinct_arguments(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F(DISTINCT x), G(DISTINCT y))(X) = aggregate(F(DISTINCT x))(X) ⋈ aggregate(G(DISTINCT y))(X)      on k <=> k

    For each argument its own two levels. Both sides have a row for the same groups, also for the one of NULL, and one row without
    keys; so the join neither loses a row nor repeats one.
    """
    own, others = _by_first_argument(aggs)
    primed = tuple(Output(key.column.primed(), key.expr) for key in keys)
    left, right = X.aggregate(keys, own), X.aggregate(primed, others)
    on = conjunction(*(same(Ref(k.column), Ref(p.column)) for k, p in zip(keys, primed, strict=True)))
    return rewrite(
        X.aggregate(keys, aggs),
        left.join(right, on).project(tuple(Output(c, Ref(c)) for c in X.aggregate(keys, aggs).columns)),
        where=_have_several_arguments(keys, aggs),
    )


def is_split(rel: Aggregate) -> bool:
    """Whether the laws give an aggregation of distinct values another form, which is maintained."""
    keys, aggs = rel.keys, rel.aggregates
    return Levels.of(keys, aggs).are_exact(aggs) or _have_several_arguments(keys, aggs)


DISTINCT: tuple[Rule, ...] = (split_distinct_aggregate, split_distinct_arguments)
