"""Aggregates in parts: over groups, and over groups of groups. For sums of sums that are exact in every type."""

from dataclasses import dataclass, replace
from functools import cached_property

from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref
from tempura.algebra.states import decimal_of, has_exact_state
from tempura.tvr.tvr import Tvr

_ROOM = 18
"""Sums of decimals of up to this precision can be added twice: each time takes ten digits of the 38 that there are."""


# --- one aggregation as two ---


def can_be_split(call: AggregateCall) -> bool:
    """Whether an aggregate can be taken over groups of groups, exactly: not floating sums, nor MIN and MAX of values that are equal and
    differ, nor decimals without room for it."""
    if not has_exact_state(call):
        return False
    decimal = decimal_of(call.operands[0].type) if call.operands else None
    return call.function == "Count" or decimal is None or decimal[0] <= _ROOM


def repeats_do_not_count(call: AggregateCall) -> bool:
    """Whether an aggregate is the same however often each row is there."""
    return call.function in ("Min", "Max")


@dataclass(frozen=True)
class Parts:
    """Aggregates as: aggregates over the groups below (``lower``), aggregates over those (``upper``), and final values."""

    lower: tuple[AggregateOutput, ...]
    upper: tuple[AggregateOutput, ...]
    final: tuple[Output, ...]

    @staticmethod
    def of(
        aggs: tuple[AggregateOutput, ...], keys: tuple[Output, ...], beside: tuple[AggregateOutput, ...] = ()
    ) -> "Parts":
        """The parts of aggregates with these keys above; none where one cannot be split. Those ``beside`` are of what the groups below
        are joined with, however often."""
        if not all(can_be_split(a.call) for a in aggs):
            return Parts((), (), ())
        taken = [_Part(a.column, a.call, bool(keys)) for a in aggs if a not in beside]
        lower, upper = [o for part in taken for o in part.lower], [o for part in taken for o in part.upper]
        final = {part.column: part.final() for part in taken}
        outputs = (Output(a.column, final.get(a.column, Ref(a.column))) for a in aggs)
        return Parts(tuple(lower), (*upper, *beside), tuple(outputs))

    def partial(self, X: Tvr, columns: tuple[Column, ...]) -> Tvr:
        """X grouped by some of its columns, which keep their names."""
        return X.aggregate(tuple(Output(c, Ref(c)) for c in columns), self.lower)

    def whole(self, joined: Tvr, keys: tuple[Output, ...]) -> Tvr:
        """The result over partial groups."""
        same = tuple(Output(key.column, Ref(key.column)) for key in keys)
        return joined.aggregate(keys, self.upper).project(same + self.final)


@dataclass(frozen=True)
class _Part:
    """One aggregate in parts. COUNT of nothing is 0, but a sum of no counts is NULL: that matters without keys."""

    column: Column
    call: AggregateCall
    keyed: bool

    @cached_property
    def lower(self) -> tuple[AggregateOutput, ...]:
        """What is aggregated in each group below."""
        if self.call.function in ("Min", "Max"):
            return (self._named("part", self.call),)
        count = self._named("parts", replace(self.call, function="Count", type="bigint", detail="", handle=None))
        return (count,) if self.call.function == "Count" else (count, self._named("part", self._sum()))

    def _sum(self) -> AggregateCall:
        (arg,) = self.call.operands
        wide = arg.type == "bigint"  # the sum of 64-bit integers may leave 64 bits on the way
        addend = cast(arg, "decimal(20,0)", self._mode) if wide else arg
        handle = self.call.handle if self.call.function == "Sum" and not wide else None
        return replace(
            self.call, function="Sum", operands=(addend,), type=sum_type(addend.type), detail=self._mode, handle=handle
        )

    @property
    def _mode(self) -> str:
        """How sums overflow; counts are added as the session adds."""
        return self.call.detail if self.call.function in ("Sum", "Average") else ""

    @cached_property
    def upper(self) -> tuple[AggregateOutput, ...]:
        """What is aggregated over those."""
        return tuple(map(self._over, self.lower))

    def _over(self, part: AggregateOutput) -> AggregateOutput:
        function = self.call.function if self.call.function in ("Min", "Max") else "Sum"
        type = part.column.type if function != "Sum" else sum_type(part.column.type)
        call = AggregateCall(function, (Ref(part.column),), type, detail=self._mode if function == "Sum" else "")
        return AggregateOutput(replace(part.column, id=part.column.id + "s", type=type), call)

    def final(self) -> Expr:
        """The value of the aggregate."""
        found: list[Expr] = [Ref(output.column) for output in self.upper]
        if self.call.function in ("Min", "Max"):
            return found[0]
        count: Expr = Call("Coalesce", (found[0], Literal(0, "bigint")), "bigint")
        if self.call.function == "Count":
            return found[0] if self.keyed else count
        name = "SumOf" if self.call.function == "Sum" else "AverageOf"
        return Call(name, (found[1], count), self.call.type, f"{self.call.operands[0].type};{self._mode}")

    def _named(self, suffix: str, call: AggregateCall) -> AggregateOutput:
        return AggregateOutput(self.column.derived(suffix, call.type), call)


def cast(expr: Expr, type: str, mode: str) -> Expr:
    """An expression of a type; itself if it is."""
    return expr if expr.type == type else Call("Cast", (expr,), type, mode)


def sum_type(type: str) -> str:
    """Spark's type of a SUM of integers or decimals."""
    decimal = decimal_of(type)
    return f"decimal({min(38, decimal[0] + 10)},{decimal[1]})" if decimal else "bigint"


# --- two aggregations as one ---


def merged(aggs: tuple[AggregateOutput, ...], partial: tuple[AggregateOutput, ...]) -> tuple[AggregateOutput, ...]:
    """The aggregates over the rows below; fewer than there are when one is no aggregate of an aggregate."""
    below = {a.column: a.call for a in partial}
    found = ((a.column, _merged_call(a.call, below)) for a in aggs)
    return tuple(AggregateOutput(column, call) for column, call in found if call is not None)


def _merged_call(call: AggregateCall, below: dict[Column, AggregateCall]) -> AggregateCall | None:
    operand = call.operands[0] if len(call.operands) == 1 else None
    inner = below.get(operand.column) if isinstance(operand, Ref) else None
    if inner is None or call.distinct or call.filter or not can_be_split(inner):
        return None
    match call.function, inner.function:
        case ("Min", "Min") | ("Max", "Max"):
            return inner
        case ("Sum", "Sum") if call.detail == inner.detail:
            # The argument in the type of its sum: then the sum has the type of the sum of sums.
            arg = cast(inner.operands[0], inner.type, inner.detail)
            return replace(call, operands=(arg,), filter=inner.filter, handle=None)
        case ("Sum", "Count"):
            return replace(call, operands=(_counted(inner),), handle=None)
    return None


def _counted(count: AggregateCall) -> Expr:
    """1 for a row that COUNT counts, else 0."""
    tests = [Call("IsNotNull", (arg,), "boolean") for arg in count.operands]
    tests += [Call("EqualNullSafe", (count.filter, Literal(True, "boolean")), "boolean")] if count.filter else []
    value: Expr = Literal(1, "bigint")
    for test in tests:
        value = Call("If", (test, value, Literal(0, "bigint")), "bigint")
    return value
