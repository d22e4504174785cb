"""Aggregations run over changes: groups in a hash table, each with a counter of its rows (Thrifty Query Execution via
Incrementability, 3.1.2, aggregate and distinct)."""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, cast

from tempura.algebra.arithmetic import average, exact, fit, mode_of
from tempura.algebra.bag import Row
from tempura.algebra.die import FIXED
from tempura.algebra.evaluate_aggregate import PICKS, of_values, picked
from tempura.algebra.rel import Aggregate
from tempura.algebra.scalar import AggregateCall, Column
from tempura.algebra.sql_order import normalized, ordering_key
from tempura.algebra.states import is_linear
from tempura.pace.rowwise import function_of, test_of
from tempura.pace.run_linear import Change, Running

_WIDE = Context(prec=80)
"""Sums of decimals of 38 digits are exact in it, however many there are."""


class Totalling:
    """COUNT, SUM and AVG of exact numbers: a total and a number per group; a deletion is subtracted."""

    def __init__(self, call: AggregateCall) -> None:
        self._call = call
        self._is_count = call.function == "Count"

    def start(self) -> list[Any]:
        """Nothing added yet."""
        return [0, 0]

    def add(self, state: list[Any], values: Row, weight: int) -> None:
        """Add the arguments of a row, of which none is NULL."""
        state[1] += weight
        if not self._is_count:
            value = values[0]
            if isinstance(value, Decimal):
                state[0] = _WIDE.add(_WIDE.multiply(value, Decimal(weight)), state[0])
            else:
                state[0] += cast(int, value) * weight

    def value(self, state: list[Any]) -> tuple[object, int]:
        """The aggregate's value, and how many kept tuples had to be looked at: none."""
        total, number = state
        call = self._call
        if self._is_count:
            return number, 0
        if not number:
            return None, 0
        if call.function == "Sum":
            return fit(exact(total), call.type, mode_of(call.detail)), 0
        return average(exact(total), number, call.operands[0].type, call.type, mode_of(call.detail)), 0


class Keeping:
    """Any aggregate from the values of a group, all of which are kept. MIN and MAX look at all of them only when the
    extreme has gone; COUNT DISTINCT counts the different ones; the rest is computed from all of them by the interpreter."""

    def __init__(self, call: AggregateCall) -> None:
        self._call = call
        self._is_extreme = call.function in ("Min", "Max") and not call.distinct
        self._counts_different = call.function == "Count" and call.distinct

    def start(self) -> list[Any]:
        """No values; their number; the extreme as it was last, None where it has to be found."""
        return [{}, 0, None]

    def add(self, state: list[Any], values: Row, weight: int) -> None:
        """Add or take away the arguments of a row."""
        kept = state[0]
        key = tuple(map(ordering_key, values)) if self._call.distinct or self._is_extreme else values
        known, times = kept.get(key, (values, 0))
        state[1] += weight
        if times + weight:
            kept[key] = known, times + weight
        else:
            del kept[key]
        if self._is_extreme:
            self._follow(state, key, times + weight)

    def _follow(self, state: list[Any], key: object, times: int) -> None:
        """Keep the extreme current, unless it has gone."""
        extreme = state[2]
        if extreme is not None and extreme[0] == key and times <= 0:
            state[2] = None
        elif times > 0 and (extreme is not None or len(state[0]) == 1):
            better = extreme is None or (key < extreme[0] if self._call.function == "Min" else key > extreme[0])
            if better:
                state[2] = (key,)

    def value(self, state: list[Any]) -> tuple[object, int]:
        """The aggregate's value, and how many kept tuples were looked at for it."""
        kept, number, _ = state
        if self._counts_different:
            return len(kept), 0
        if self._is_extreme:
            return self._extreme(state)
        rows = list(kept.values())
        if self._call.distinct:
            rows = [(cast(Row, normalized(values)), 1) for values, _ in rows]
        function = picked if self._call.function in PICKS else of_values
        return function(self._call, rows, FIXED), number

    def _extreme(self, state: list[Any]) -> tuple[object, int]:
        kept, number, extreme = state
        if not kept:
            return None, 0
        looked = 0
        if extreme is None:
            state[2] = extreme = ((min if self._call.function == "Min" else max)(kept),)
            looked = number
        return kept[extreme[0]][0][0], looked


Way = Totalling | Keeping


class Grouping(Running):
    """An aggregation. What comes out are the groups that changed: the row as it was taken away, the row as it is
    added. ``given`` are the groups' rows as they came out last."""

    def __init__(self, rel: Aggregate) -> None:
        columns = rel.input.columns
        self._keys = [function_of(key.expr, columns) for key in rel.keys]
        self._coarse = [key.column.type in ("float", "double") or "<" in key.column.type for key in rel.keys]
        self._ways = [_way(output.call) for output in rel.aggregates]
        self._arguments = [_arguments(output.call, columns) for output in rel.aggregates]
        self._groups: dict[object, list[Any]] = {}
        self._given: dict[object, Row] = {}
        self._has_keys = bool(rel.keys)
        self._began = False

    def apply(self, *changes: Change) -> Change:
        (change,) = changes
        touched: dict[object, None] = {}
        if not self._has_keys and not self._began:
            self._group((), ())
            touched[()] = None
        self._began = True
        for row, weight in change:
            key = tuple(function(row) for function in self._keys)
            if any(self._coarse):
                key = cast(Row, normalized(key))
            name: object = tuple(map(ordering_key, key)) if any(self._coarse) else key
            touched[name] = None
            self._add(self._group(name, key), row, weight)
        out: Change = []
        for name in touched:
            self._emit(name, out)
        return out

    def _group(self, name: object, key: Row) -> list[Any]:
        """A group: its key, the number of its rows, a state per aggregate."""
        if name not in self._groups:
            self._groups[name] = [key, 0, [way.start() for way in self._ways]]
        return self._groups[name]

    def _add(self, group: list[Any], row: Row, weight: int) -> None:
        group[1] += weight
        for way, arguments, state in zip(self._ways, self._arguments, group[2], strict=True):
            values = arguments(row)
            if values is not None:
                way.add(state, values, weight)

    def _emit(self, name: object, out: Change) -> None:
        key, number, states = self._groups[name]
        old = self._given.pop(name, None)
        new = None
        if number or not self._has_keys:
            found = [way.value(state) for way, state in zip(self._ways, states, strict=True)]
            self.reread += max((looked for _, looked in found), default=0)
            new = self._given[name] = key + tuple(value for value, _ in found)
        else:
            del self._groups[name]
        if old != new:
            out += [(old, -1)] if old is not None else []
            out += [(new, 1)] if new is not None else []


def _way(call: AggregateCall) -> Way:
    return Totalling(call) if is_linear(call) and len(call.operands) <= 1 else Keeping(call)


def _arguments(call: AggregateCall, columns: tuple[Column, ...]) -> Callable[[Row], Row | None]:
    """The arguments of an aggregate in a row; None where the row does not count."""
    functions = [function_of(operand, columns) for operand in call.operands]
    admits = test_of(call.filter, columns) if call.filter is not None else None
    keeps_nulls = call.function in PICKS

    def arguments(row: Row) -> Row | None:
        if admits is not None and not admits(row):
            return None
        values = tuple(function(row) for function in functions)
        return None if None in values and not keeps_nulls else values

    return arguments
