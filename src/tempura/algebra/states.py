"""Aggregation states: an aggregate seen in parts that can be merged (attribute perspective; Tempura, section 3).

A state has one row per group: the group's keys, the number of rows (``rows``), and *slots* such as the number of non-NULL
values and their total. Groups of signed bags have slots too, so the state of a delta is merged into the state of a snapshot.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from math import nan
from typing import Literal as OneOf

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Rel, Unary, over
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref, conjunction
from tempura.algebra.sql_order import equality_is_identity
from tempura.errors import Reason

SlotKind = OneOf["rows", "count", "total", "min", "max", "mean", "moment"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One column of a state. Over the rows x of a group with weight w, where ``filter`` is TRUE: ``rows`` = sum w;
    ``count`` = sum w where arg is not NULL; ``total`` = sum w * arg over those (0 when there are none), computed in the type of
    ``column``; ``min``, ``max`` = least and greatest arg.

    ``mean`` = total / count (0 when there are none), and ``moment`` = sum w * (arg - its mean) * (other - its mean), where ``of`` are the
    columns of the count, and of the two means: what merging needs beside the slot itself.

    What is not a sum of integers or decimals needs w > 0.
    """

    column: Column
    kind: SlotKind
    arg: Expr | None = None
    filter: Expr | None = None
    other: Expr | None = None
    of: tuple[Column, ...] = ()

    @property
    def value(self) -> tuple[SlotKind, Expr | None, Expr | None, Expr | None]:
        """What the slot holds, wherever it stands."""
        return (self.kind, self.arg, self.filter, self.other)

    @property
    def is_exact(self) -> bool:
        """Whether merging gives what one computation gives, to the last digit. Of values that are equal, and differ, any is the least."""
        if self.kind in ("min", "max"):
            return equality_is_identity(self.column.type)
        return self.kind not in ("mean", "moment") and not (self.kind == "total" and self.column.type == "double")


@dataclass(frozen=True, slots=True)
class StateLayout:
    """The columns of a state: the keys, then the slots; the first slot is always ``rows`` without filter."""

    keys: tuple[Column, ...]
    slots: tuple[Slot, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.keys + tuple(slot.column for slot in self.slots)

    @property
    def rows(self) -> Column:
        """The column that counts the rows of the group."""
        return self.slots[0].column

    @property
    def is_exact(self) -> bool:
        """Whether states merge to the last digit."""
        return all(slot.is_exact for slot in self.slots)

    def find(self, kind: SlotKind, arg: Expr | None, filter: Expr | None, other: Expr | None = None) -> Column:
        """The column of a slot."""
        return next(s.column for s in self.slots if s.value == (kind, arg, filter, other))


@dataclass(frozen=True, eq=False)
class Partial(Unary):
    """The state of a signed bag. Linear; a group may be present with 0 rows, when insertions and deletions cancel out. Slots that
    are not sums of integers or decimals need a positive input."""

    keys: tuple[Output, ...]
    aggregates: tuple[AggregateOutput, ...]

    @cached_property
    def layout(self) -> StateLayout:
        return state_layout(self.keys, self.aggregates)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.layout.columns

    @property
    def set_like(self) -> tuple[bool, ...]:
        return (not all(is_linear(a.call) for a in self.aggregates),)

    @property
    def computed(self) -> tuple[Expr, ...]:
        return (
            *(key.expr for key in self.keys),
            *(part for output in self.aggregates for part in output.call.arguments),
        )

    @property
    def label(self) -> str:
        return _label("partial-aggregate", self.keys, self.aggregates)


@dataclass(frozen=True, eq=False)
class MergeStates(Rel):
    """Group-wise merge of two states. Groups whose row count becomes 0 disappear, but never the only group of an aggregation
    without keys."""

    left: Rel
    right: Rel
    keys: tuple[Output, ...]
    aggregates: tuple[AggregateOutput, ...]

    @cached_property
    def layout(self) -> StateLayout:
        return state_layout(self.keys, self.aggregates)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)

    def with_inputs(self, *inputs: Rel) -> Rel:
        left, right = inputs
        return self if left is self.left and right is self.right else over(self, left=left, right=right)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.layout.columns

    @property
    def set_like(self) -> tuple[bool, ...]:
        return (True, True)

    @property
    def label(self) -> str:
        return f"merge-states by {', '.join(map(str, self.layout.keys)) or '()'}"


@dataclass(frozen=True, eq=False)
class Finalize(Unary):
    """The rows of an aggregation from its state: a linear operator (one row per group with ``rows`` <> 0)."""

    keys: tuple[Output, ...]
    aggregates: tuple[AggregateOutput, ...]

    @cached_property
    def layout(self) -> StateLayout:
        return state_layout(self.keys, self.aggregates)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(k.column for k in self.keys) + tuple(a.column for a in self.aggregates)

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """The result columns as expressions over the columns of the state."""
        keys = tuple(Output(k.column, Ref(k.column)) for k in self.keys)
        return keys + tuple(Output(a.column, _final(a.call, self.layout)) for a in self.aggregates)

    @property
    def label(self) -> str:
        return _label("finalize", self.keys, self.aggregates)


def _label(verb: str, keys: tuple[Output, ...], aggregates: tuple[AggregateOutput, ...]) -> str:
    return f"{verb} {', '.join(map(str, keys))} : {', '.join(map(str, aggregates))}"


# --- which aggregates have a state, and which slots they need --------------------------------------------------------

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_VARIANCES = frozenset(("VariancePop", "VarianceSamp", "StddevPop", "StddevSamp"))
_COVARIANCES = frozenset(("CovPopulation", "CovSample"))
_EXTREMES = frozenset(("Min", "Max", "Percentile", "Median", "PercentileDisc", "PercentileCont"))
OF_SAMPLES = frozenset(("VarianceSamp", "StddevSamp", "CovSample"))
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@cache
def decimal_of(type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for other types."""
    match = _DECIMAL.fullmatch(type)
    return (int(match[1]), int(match[2])) if match else None


def is_linear(call: AggregateCall) -> bool:
    """Whether the aggregate's state is linear in a signed bag, so that deletions can be subtracted."""
    return call.function in ("Count", "Sum", "Average") and has_exact_state(call)


def has_exact_state(call: AggregateCall) -> bool:
    """Whether the aggregate has a state whose merging gives what one computation gives, to the last digit."""
    return why_no_state(call) is None and not is_rounded(call) and not picks_among_equals(call)


def is_rounded(call: AggregateCall) -> bool:
    """Whether the aggregate is a sum, a variance or a covariance of floats: the order of additions decides the last digits. So does it
    in an AVG of 64-bit integers, which Spark adds as doubles. Smaller integers leave what a double holds exactly only in groups of more
    than four million rows: AVG of these is computed from their exact total, in every plan, and then is a function of the bag."""
    if call.function in _VARIANCES | _COVARIANCES:
        return True
    return call.function in ("Sum", "Average") and _addend(call).type in _FLOATS


def picks_among_equals(call: AggregateCall) -> bool:
    """Whether the aggregate returns one of its arguments, of a type whose equal values may differ: of -0.0 and 0.0, or of 'a' and 'A' where
    case is ignored, it is the one that came first."""
    return call.function in _EXTREMES and not equality_is_identity(call.operands[0].type)


def averages_exactly(call: AggregateCall) -> bool:
    """Whether the aggregate is an AVG from an exact total, where Spark adds doubles."""
    return call.function == "Average" and call.operands[0].type in _INTEGERS and not is_rounded(call)


def _addend(call: AggregateCall) -> Expr:
    """What SUM or AVG adds: of 64-bit integers AVG adds doubles."""
    (arg,) = call.operands
    if call.function == "Average" and arg.type == "bigint":
        return Call("Cast", (arg,), "double", "legacy")
    return arg


def why_no_state(call: AggregateCall) -> Reason | None:
    """Why an aggregate has no mergeable state; None when it has one."""
    if call.distinct:
        return Reason("DISTINCT_AGGREGATE", f"{call} needs the distinct values of each group")
    if call.function in ("Min", "Max") or (call.function == "Count" and len(call.operands) <= 1) or is_rounded(call):
        return None
    if call.function not in ("Sum", "Average"):
        return Reason("HOLISTIC_AGGREGATE", f"{call} has no known state")
    if call.operands[0].type in _INTEGERS or decimal_of(call.operands[0].type):
        return None
    return Reason("HOLISTIC_AGGREGATE", f"{call} adds values of type {call.operands[0].type}")


def state_layout(keys: tuple[Output, ...], aggregates: tuple[AggregateOutput, ...]) -> StateLayout:
    """The columns that the state of an aggregation needs, without repetition.

    Raises ValueError for an aggregate without state: ask :func:`why_no_state` first.
    """
    prefix = (*(k.column for k in keys), *(a.column for a in aggregates))
    base = prefix[0] if prefix else Column("none", "none", "int")
    # Not ".rows": without keys, COUNT(*) FILTER as the first aggregate has a slot of that name.
    slots = [Slot(base.derived("group", "bigint"), "rows")]
    first = {slot.value: slot.column for slot in slots}
    kept: dict[Column, Column] = {}
    for output in aggregates:
        for slot in _slots(output, output.call):
            if slot.value not in first:
                first[slot.value] = slot.column
                slots.append(replace(slot, of=tuple(kept[column] for column in slot.of)) if slot.of else slot)
            kept[slot.column] = first[slot.value]
    return StateLayout(tuple(k.column for k in keys), tuple(slots))


def _slots(output: AggregateOutput, call: AggregateCall) -> tuple[Slot, ...]:
    """The slots of one aggregate."""
    why = why_no_state(call)
    if why:
        raise ValueError(str(why))

    def slot(kind: SlotKind, type: str, arg: Expr | None = None) -> Slot:
        return Slot(output.column.derived(kind, type), kind, arg, call.filter)

    if not call.operands:
        return (slot("rows", "bigint"),)
    arg = call.operands[0]
    match call.function:
        case "Count":
            return (slot("count", "bigint", arg),)
        case "Min":
            return (slot("min", call.type, arg),)
        case "Max":
            return (slot("max", call.type, arg),)
        case "Sum" | "Average":
            return (slot("count", "bigint", arg), slot("total", _total_type(_addend(call)), _addend(call)))
    return _moments(output.column, *_pair(call))


def _pair(call: AggregateCall) -> tuple[Expr, Expr, Expr | None]:
    """The arguments of a moment, and the filter that keeps the rows in which neither is NULL. A variance is the covariance of a value with
    itself."""
    x, y = call.operands[0], call.operands[-1]
    if x == y:
        return x, y, call.filter
    present = (Call("IsNotNull", (operand,), "boolean") for operand in (x, y))
    return x, y, conjunction(*((call.filter,) if call.filter else ()), *present)


def _moments(column: Column, x: Expr, y: Expr, filter: Expr | None) -> tuple[Slot, ...]:
    """The number of pairs, the means, and the sum of the products of the distances from them (Chan, Golub and LeVeque, COMPSTAT 1982,
    for variances; the same holds for covariances)."""
    count = Slot(column.derived("count", "bigint"), "count", x, filter)
    of_x = Slot(column.derived("mean", "double"), "mean", x, filter, of=(count.column,))
    of_y = of_x if y == x else Slot(column.derived("mean2", "double"), "mean", y, filter, of=(count.column,))
    moment = Slot(column.derived("moment", "double"), "moment", x, filter, y, (count.column, of_x.column, of_y.column))
    return tuple(dict.fromkeys((count, of_x, of_y, moment)))


def _total_type(arg: Expr) -> str:
    """The type in which a total is kept. It has at least Spark's headroom of ten digits, and all of Spark's 38 digits where a
    compact type (64 bits) does not offer that; the cast to the declared type, with its overflow behaviour, comes last."""
    if arg.type in _FLOATS:
        return "double"
    if arg.type in ("tinyint", "smallint", "int"):
        return "bigint"
    precision, scale = decimal_of(arg.type) or (38, 0)
    return f"decimal({precision + 10 if precision <= 8 else 38},{scale})"


def _final(call: AggregateCall, layout: StateLayout) -> Expr:
    """The value of an aggregate from its slots. ``SUM`` and ``AVG`` are NULL when no non-NULL value is left."""
    if not call.operands:
        return Ref(layout.find("rows", None, call.filter))
    arg = call.operands[0]
    match call.function:
        case "Count":
            return Ref(layout.find("count", arg, call.filter))
        case "Min" | "Max":
            return Ref(layout.find("min" if call.function == "Min" else "max", arg, call.filter))
        case "Sum" | "Average":
            # SumOf(total, count) and AverageOf(total, count) are Tempura's own functions: detail = "<argument type>;<evaluation mode>".
            added = _addend(call)
            slots = (Ref(layout.find("total", added, call.filter)), Ref(layout.find("count", arg, call.filter)))
            name = "SumOf" if call.function == "Sum" else "AverageOf"
            return Call(name, slots, call.type, f"{added.type};{call.detail}")
    x, y, filter = _pair(call)
    count, moment = Ref(layout.find("count", x, filter)), Ref(layout.find("moment", x, filter, y))
    return _of_moment(call, count, moment)


def sample_of_one(call: AggregateCall) -> float | None:
    """What a sample of one value has for a spread: NULL, or NaN in a session with ``spark.sql.legacy.statisticalAggregate``."""
    return nan if "nullOnDivideByZero=False" in call.detail else None


def _of_moment(call: AggregateCall, count: Expr, moment: Expr) -> Expr:
    """A variance, standard deviation or covariance: NULL of no values."""
    none = Literal(None, "double")
    number: Expr = Call("Cast", (count,), "double", "legacy")
    if call.function in OF_SAMPLES:
        number = Call("Subtract", (number, Literal(1.0, "double")), "double", "legacy")
    value: Expr = Call("Divide", (moment, number), "double", "legacy")
    if call.function in ("StddevPop", "StddevSamp"):
        value = Call("Sqrt", (value,), "double")
    if call.function in OF_SAMPLES:
        of_one = Literal(sample_of_one(call), "double")
        value = Call("If", (Call("EqualTo", (count, Literal(1, "bigint")), "boolean"), of_one, value), "double")
    return Call("If", (Call("EqualTo", (count, Literal(0, "bigint")), "boolean"), none, value), "double")
