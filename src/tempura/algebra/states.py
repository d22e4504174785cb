"""Aggregation states: an aggregate seen in parts that can be merged (attribute perspective; Tempura, section 3).

A state has one row per group: the group's keys, the number of rows (``rows``), and *slots* such as the number of non-NULL
values and their total. Groups of signed bags have slots too, so the state of a delta is merged into the state of a snapshot.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal as OneOf

from tempura.algebra.rel import Rel, Unary
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Output, Ref
from tempura.errors import Reason

SlotKind = OneOf["rows", "count", "total", "min", "max"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One column of a state. Over the rows x of a group with weight w, where ``filter`` is TRUE: ``rows`` = sum w;
    ``count`` = sum w where arg is not NULL; ``total`` = sum w * arg over those (0 when there are none), computed in the type of
    ``column``; ``min``, ``max`` = least and greatest arg, which need w > 0."""

    column: Column
    kind: SlotKind
    arg: Expr | None = None
    filter: Expr | None = None


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

    def find(self, kind: SlotKind, arg: Expr | None, filter: Expr | None) -> Column:
        """The column of a slot."""
        return next(s.column for s in self.slots if (s.kind, s.arg, s.filter) == (kind, arg, filter))


@dataclass(frozen=True, eq=False)
class Partial(Unary):
    """The state of a signed bag. Linear; a group may be present with 0 rows, when insertions and deletions cancel out. Slots of
    kind ``min`` and ``max`` need a positive input."""

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
        return replace(self, left=left, right=right)

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
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def decimal_of(type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None for other types."""
    match = _DECIMAL.fullmatch(type)
    return (int(match[1]), int(match[2])) if match else None


def is_linear(call: AggregateCall) -> bool:
    """Whether the aggregate's state is linear in a signed bag, so that deletions can be subtracted."""
    return call.function in ("Count", "Sum", "Average") and why_no_state(call) is None


def why_no_state(call: AggregateCall) -> Reason | None:
    """Why an aggregate has no mergeable state; None when it has one."""
    if call.distinct:
        return Reason("DISTINCT_AGGREGATE", f"{call} needs the distinct values of each group")
    if call.function in ("Min", "Max") or (call.function == "Count" and len(call.operands) <= 1):
        return None
    if call.function not in ("Sum", "Average"):
        return Reason("HOLISTIC_AGGREGATE", f"{call} has no known state")
    if call.operands[0].type in ("float", "double"):
        return Reason("FLOAT_SUM", f"{call} depends on the order of additions")
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
    for output in aggregates:
        for kind in _slot_kinds(output.call):
            slots += _slot(kind, output, tuple(slots))
    return StateLayout(tuple(k.column for k in keys), tuple(slots))


def _slot_kinds(call: AggregateCall) -> tuple[SlotKind, ...]:
    if why_no_state(call):
        raise ValueError(str(why_no_state(call)))
    match call.function:
        case "Count":
            return ("count",) if call.operands else ("rows",)
        case "Min":
            return ("min",)
        case "Max":
            return ("max",)
        case _:
            return ("count", "total")


def _slot(kind: SlotKind, output: AggregateOutput, existing: tuple[Slot, ...]) -> list[Slot]:
    call = output.call
    arg = None if kind == "rows" else call.operands[0]
    if any((s.kind, s.arg, s.filter) == (kind, arg, call.filter) for s in existing):
        return []
    type = call.type if kind in ("min", "max") else _total_type(arg) if kind == "total" else "bigint"
    return [Slot(output.column.derived(kind, type), kind, arg, call.filter)]


def _total_type(arg: Expr | None) -> str:
    """The type in which a total is kept. It has at least Spark's headroom of ten digits, and all of Spark's 38 digits where a
    compact type (64 bits) does not offer that; the cast to the declared type, with its overflow behaviour, comes last."""
    assert arg is not None
    if arg.type in ("tinyint", "smallint", "int"):
        return "bigint"
    precision, scale = decimal_of(arg.type) or (38, 0)
    return f"decimal({precision + 10 if precision <= 8 else 38},{scale})"


def _final(call: AggregateCall, layout: StateLayout) -> Expr:
    """The value of an aggregate from its slots. ``SUM`` and ``AVG`` are NULL when no non-NULL value is left."""
    match call.function:
        case "Count":
            kind: SlotKind = "count" if call.operands else "rows"
            return Ref(layout.find(kind, call.operands[0] if call.operands else None, call.filter))
        case "Min" | "Max":
            return Ref(layout.find("min" if call.function == "Min" else "max", call.operands[0], call.filter))
    count = Ref(layout.find("count", call.operands[0], call.filter))
    total = Ref(layout.find("total", call.operands[0], call.filter))
    # SumOf(total, count) and AverageOf(total, count) are Tempura's own functions: detail = "<argument type>;<evaluation mode>".
    name = "SumOf" if call.function == "Sum" else "AverageOf"
    return Call(name, (total, count), call.type, f"{call.operands[0].type};{call.detail}")
