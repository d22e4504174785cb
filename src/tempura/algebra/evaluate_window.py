"""The interpreter's window functions, from their definition: each value from all rows of the partition."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.evaluate_scalar import evaluate as value_of
from tempura.algebra.evaluate_scalar import refuse_collation
from tempura.algebra.scalar import AggregateCall, Column, Expr, Literal
from tempura.algebra.sql_order import Ordered, normalized, ordering_key
from tempura.algebra.window import CURRENT_ROW, Window, WindowOutput
from tempura.errors import TempuraError

Env = dict[Column, object]
Entries = list[tuple[Row, int]]
Sorter = Callable[[Window, Entries], Entries]
"""Puts rows with weights into the order of a window, ties in the order of all columns."""

Aggregator = Callable[[AggregateCall, list[tuple[Env, int]]], object]
"""The value of an aggregate function over rows with weights."""


@dataclass(frozen=True, slots=True)
class _Partition:
    """The rows of a partition in order; ``keys`` are the values of the sort keys, equal for peers."""

    rows: list[Env]
    keys: list[Ordered]
    aggregate: Aggregator

    def first_peer(self, i: int) -> int:
        return self.keys.index(self.keys[i])

    def last_peer(self, i: int) -> int:
        return max(j for j, key in enumerate(self.keys) if key == self.keys[i])


def evaluate_window(rel: Window, rows: SignedBag, sort: Sorter, aggregate: Aggregator) -> SignedBag:
    """The bag of a window over a positive bag. Raises TempuraError ``NOT_INTERPRETED`` for functions and frames not known here."""
    refuse_collation(*(e.type for e in rel.partition))
    groups: dict[Ordered, Entries] = {}
    for row, weight in rows.items():
        env = _env(rel, row)
        key = ordering_key(normalized(tuple(value_of(e, env) for e in rel.partition)))
        groups.setdefault(key, []).append((row, weight))
    return SignedBag.of(row for group in groups.values() for row in _rows(rel, sort(rel, group), aggregate))


def _rows(rel: Window, group: Entries, aggregate: Aggregator) -> list[Row]:
    rows = [row for row, weight in group for _ in range(weight)]
    envs = [_env(rel, row) for row in rows]
    keys = [ordering_key(tuple(value_of(key.expr, env) for key in rel.order)) for env in envs]
    partition = _Partition(envs, keys, aggregate)
    return [row + tuple(_value(f, i, partition) for f in rel.functions) for i, row in enumerate(rows)]


def _env(rel: Window, row: Row) -> Env:
    return dict(zip(rel.input.columns, row, strict=True))


def _value(output: WindowOutput, i: int, of: _Partition) -> object:
    name = output.call.function
    if name in _FUNCTIONS:
        _refuse_ignored_nulls(output)
        return _FUNCTIONS[name](output, i, of)
    return of.aggregate(output.call, [(row, 1) for row in _frame(output, i, of)])


def _refuse_ignored_nulls(output: WindowOutput) -> None:
    if "ignoreNulls=True" in output.call.detail:
        raise TempuraError("NOT_INTERPRETED", f"the interpreter does not know {output}.", "Run it on Spark.")


def _frame(output: WindowOutput, i: int, of: _Partition) -> list[Env]:
    frame, last = output.frame, len(of.rows) - 1
    if frame.kind == "rows":
        lower = 0 if frame.lower is None else i + _distance(output, frame.lower)
        upper = last if frame.upper is None else i + _distance(output, frame.upper)
    else:
        _refuse_distances(output)
        lower = 0 if frame.lower is None else of.first_peer(i)
        upper = last if frame.upper is None else of.last_peer(i)
    return of.rows[max(0, lower) : max(0, upper + 1)]


def _distance(output: WindowOutput, bound: Expr) -> int:
    if isinstance(bound, Literal) and isinstance(bound.value, int):
        return bound.value
    raise TempuraError("NOT_INTERPRETED", f"the interpreter does not know the frame of {output}.", "Run it on Spark.")


def _refuse_distances(output: WindowOutput) -> None:
    if any(bound not in (None, CURRENT_ROW) for bound in (output.frame.lower, output.frame.upper)):
        raise TempuraError("NOT_INTERPRETED", f"the interpreter does not know {output}.", "Run it on Spark.")


# --- functions --------------------------------------------------------------------------------------------------------


def _row_number(output: WindowOutput, i: int, of: _Partition) -> object:
    return i + 1


def _rank(output: WindowOutput, i: int, of: _Partition) -> object:
    return of.first_peer(i) + 1


def _dense_rank(output: WindowOutput, i: int, of: _Partition) -> object:
    return len(set(of.keys[: i + 1]))


def _percent_rank(output: WindowOutput, i: int, of: _Partition) -> object:
    return of.first_peer(i) / (len(of.rows) - 1) if len(of.rows) > 1 else 0.0


def _cume_dist(output: WindowOutput, i: int, of: _Partition) -> object:
    return (of.last_peer(i) + 1) / len(of.rows)


def _ntile(output: WindowOutput, i: int, of: _Partition) -> object:
    """The first buckets are larger by one where the rows cannot be divided evenly."""
    size, larger = divmod(len(of.rows), _distance(output, output.call.operands[0]))
    in_larger = larger * (size + 1)
    return i // (size + 1) + 1 if i < in_larger else larger + (i - in_larger) // size + 1


def _lag(output: WindowOutput, i: int, of: _Partition) -> object:
    return _at(output, i - _distance(output, output.call.operands[1]), i, of)


def _lead(output: WindowOutput, i: int, of: _Partition) -> object:
    return _at(output, i + _distance(output, output.call.operands[1]), i, of)


def _at(output: WindowOutput, there: int, here: int, of: _Partition) -> object:
    value, _, default = output.call.operands
    return value_of(value, of.rows[there]) if 0 <= there < len(of.rows) else value_of(default, of.rows[here])


def _first(output: WindowOutput, i: int, of: _Partition) -> object:
    frame = _frame(output, i, of)
    return value_of(output.call.operands[0], frame[0]) if frame else None


def _last(output: WindowOutput, i: int, of: _Partition) -> object:
    frame = _frame(output, i, of)
    return value_of(output.call.operands[0], frame[-1]) if frame else None


_FUNCTIONS: Mapping[str, Callable[[WindowOutput, int, _Partition], object]] = {
    "RowNumber": _row_number, "Rank": _rank, "DenseRank": _dense_rank, "PercentRank": _percent_rank,
    "CumeDist": _cume_dist, "NTile": _ntile, "Lag": _lag, "Lead": _lead, "First": _first, "Last": _last,
}  # fmt: skip
