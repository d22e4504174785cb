"""Sketches of columns: how many distinct values, and which values are frequent, merged over all that has arrived.

A table is looked at in *pieces* of rows from all over its files. A theta sketch (Dasgupta, Lang, Rhodes, Thaler: A Framework for
Estimating Stream Expression Cardinalities, ICDT 2016) holds the values that were seen in a piece, another one those that were seen in
several; both are merged over arrivals by union and intersection. What was looked at wholly has as many values as were seen; else the
values of what was not looked at follow from how few recur (Haas, Naughton, Seshadri, Stokes: Sampling-Based Estimation of the Number of
Distinct Values of an Attribute, VLDB 1995, the first-order jackknife, with pieces for rows: equal values may lie side by side).
Frequent values are counted by weight (Misra and Gries, 1982). The sketches are those of Apache DataSketches.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import (
    compact_theta_sketch,
    frequent_items_error_type,
    frequent_strings_sketch,
    theta_intersection,
    theta_union,
)
from numpy.typing import NDArray

from tempura.cost.stats import spelled
from tempura.warehouse.batches.hashes import Hashes, hashes, least

_LG_VALUES = 9
"""Binary logarithm of how many hashes a sketch of values keeps: its standard error is 4.4 %."""
_LG_FREQUENT = 6
"""Binary logarithm of the places for frequent values, of which three quarters are used."""
_FREQUENT = 48
_OFTEN = 10
"""How often a value has to be seen in a part of an arrival for its frequency to say something."""
_IN_ORDER = 0.5
"""Rows whose values span less of a column's range are in its order."""
_SPANS = 64
"""So many spans of a column are kept: where there would be more, those that are nearest to each other become one."""
COLUMN_BYTES = 20_000
"""What the sketches of a column take at most, as they are stored."""


_ON_A_GRID = 20
"""So many values have to be seen that lie on a grid for others to be taken to do so."""


Spans = tuple[tuple[float, float], ...]
"""Parts of a column's range."""

Grid = tuple[int, int]
"""Integers that differ by multiples of a number: one of them, and that number, which is 0 while there is only one."""


@dataclass(frozen=True, slots=True)
class ColumnSketch:
    """What was seen of a column in ``covered`` of ``rows`` rows: ``distinct`` values, ``repeated`` of which were seen in more than one
    piece, and the sketches of both; the ``spans`` in which the values of a piece lie, if they are numbers: apart, and in their order.
    ``grid``: if they are integers, the coarsest that has all of them: the days of a weekly count are seven apart. ``draws`` is the sum of
    the pieces' distinct values, ``runs`` how many runs of equal values there are in the ``pieces``. ``frequent`` weighs values, as
    :func:`tempura.cost.stats.spelled` has them, by the rows that they stand for."""

    rows: int
    covered: int
    draws: int
    distinct: float
    repeated: float
    seen: Any
    again: Any
    frequent: Any
    spans: Spans = ()
    grid: Grid | None = None
    runs: int = 0
    pieces: int = 0

    def __add__(self, other: "ColumnSketch") -> "ColumnSketch":
        common = _common(self.seen, other.seen)
        seen = _union(self.seen, other.seen)
        again = _union(self.again, other.again, common)
        # The sketch of a union errs by a part of all values, that of what is common by a part of fewer.
        sum_of_both = self.distinct + other.distinct - common.get_estimate()
        distinct = min(max(sum_of_both, seen.get_lower_bound(3)), seen.get_upper_bound(3))
        repeated = distinct * _common(seen, again).get_estimate() / max(1.0, seen.get_estimate())
        frequent = frequent_strings_sketch(_LG_FREQUENT)
        frequent.merge(self.frequent)
        frequent.merge(other.frequent)
        counts = (self.rows + other.rows, self.covered + other.covered, self.draws + other.draws)
        spans, grid = _apart([*self.spans, *other.spans]), _both(self.grid, other.grid)
        runs, pieces = self.runs + other.runs, self.pieces + other.pieces
        return ColumnSketch(*counts, distinct, repeated, seen, again, frequent, spans, grid, runs, pieces)

    @property
    def is_whole(self) -> bool:
        """Whether all rows were looked at."""
        return self.covered >= self.rows

    def values(self, low: float | None = None, high: float | None = None) -> float:
        """Distinct values of all rows, which lie between ``low`` and ``high`` and of which a part was looked at. Those of a part of that
        range are taken for what the rest of it has, too. There are no more values than runs of equal ones."""
        if self.is_whole or not self.distinct:
            return self.distinct
        share, once = self.covered / self.rows, self.distinct - self.repeated
        left = max(self.draws - once * (1 - share), self.draws * share)
        drawn = max(self.distinct * self.draws / left, self.distinct / self._of_range(low, high))
        return max(self.distinct, min(drawn, self.distinct / share, self._all_runs))

    @property
    def _all_runs(self) -> float:
        """Runs of equal values in all rows, told by how often another value follows on one. A piece has parts of two at its ends. One more
        is taken to have been seen, so that none says something."""
        follows = self.runs - self.pieces + 1
        return follows * self.rows / max(1, self.covered - self.pieces)

    def _of_range(self, low: float | None, high: float | None) -> float:
        """How much of a range was looked at, if the values of each piece span so little of it that rows must lie in their order; else all.
        Pieces of several arrivals may lie at the same place of it: the values there recur, and say nothing of those elsewhere."""
        if low is None or high is None or high <= low:
            return 1.0
        share = sum(last - first for first, last in self.spans) / (high - low)
        return share if 0 < share < _IN_ORDER else 1.0

    @property
    def step(self) -> float | None:
        """How far values are apart at least, if they are integers and enough were seen to tell."""
        return float(self.grid[1]) if self.grid and self.distinct >= _ON_A_GRID else None

    @property
    def adjacent(self) -> float:
        """Rows with a value that were seen in a piece, on average: where there are many values, how many come one after the other."""
        return max(1.0, self.covered / self.draws) if self.draws else 1.0

    @property
    def run(self) -> float:
        """How many rows with one value follow on each other, on average."""
        return max(1.0, self.covered / self.runs) if self.runs else 1.0

    def shares(self) -> dict[str, float]:
        """The frequent values, and the fraction of rows that has each, largest first."""
        found = self.frequent.get_frequent_items(frequent_items_error_type.NO_FALSE_POSITIVES, 0)
        # What may have been half as often says nothing: many values that are equally frequent push each other out.
        sure = ((value, (least + most) / 2) for value, _, least, most in found if 2 * least >= most)
        return {value: min(1.0, weight / max(1, self.rows)) for value, weight in sure}

    def to_json(self) -> dict[str, Any]:
        """Numbers, and the sketches in the portable form of their library, as base64."""
        return {
            "rows": self.rows,
            "covered": self.covered,
            "draws": self.draws,
            "distinct": self.distinct,
            "repeated": self.repeated,
            "spans": [list(span) for span in self.spans],
            "grid": list(self.grid) if self.grid else None,
            "runs": self.runs,
            "pieces": self.pieces,
            "seen": _text(self.seen.serialize()),
            "again": _text(self.again.serialize()),
            "frequent": _text(self.frequent.serialize()),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "ColumnSketch":
        """The inverse of :meth:`to_json`. Raises LookupError, TypeError, ValueError, RuntimeError for anything else."""
        seen, again = (compact_theta_sketch.deserialize(b64decode(data[name])) for name in ("seen", "again"))
        frequent = frequent_strings_sketch.deserialize(b64decode(data["frequent"]))
        rows, covered, draws = (int(data[name]) for name in ("rows", "covered", "draws"))
        distinct, repeated = float(data["distinct"]), float(data["repeated"])
        spans = tuple((float(low), float(high)) for low, high in data["spans"])
        base, step = map(int, data["grid"]) if data["grid"] is not None else (0, -1)
        grid = (base, step) if step >= 0 else None
        runs, pieces = int(data["runs"]), int(data["pieces"])
        return ColumnSketch(rows, covered, draws, distinct, repeated, seen, again, frequent, spans, grid, runs, pieces)


def _apart(spans: Iterable[tuple[float, float]]) -> Spans:
    """Spans in order, those that meet as one, and so those nearest to each other while there are too many."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    while len(found) > _SPANS:
        near = min(range(1, len(found)), key=lambda i: found[i][0] - found[i - 1][1])
        found[near - 1 : near + 1] = [(found[near - 1][0], found[near][1])]
    return tuple(found)


def _grid(values: pa.Array) -> Grid | None:
    """The coarsest grid on which all values lie; None of no integers."""
    if not pa.types.is_integer(values.type):
        return None
    numbers = values.to_numpy()
    base = numbers.min()
    # As words, of which each difference has its place.
    apart = numbers.view(np.uint64) - base.view(np.uint64)
    step = int(np.gcd.reduce(apart[:_ON_A_GRID]))
    return int(base), step if step == 1 else int(np.gcd.reduce(apart))


def _both(one: Grid | None, other: Grid | None) -> Grid | None:
    """The coarsest grid that has the values of two."""
    if one is None or other is None:
        return one or other
    return one[0], gcd(one[1], other[1], one[0] - other[0])


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _union(*sketches: Any) -> Any:
    union = theta_union(_LG_VALUES)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def _common(left: Any, right: Any) -> Any:
    intersection = theta_intersection()
    intersection.update(left)
    intersection.update(right)
    return intersection.get_result()


def sketched(pieces: Sequence[pa.Array], rows: int) -> ColumnSketch | None:
    """The sketch of a column of ``rows`` rows, of which some pieces were read; None for a type whose values are no numbers or texts."""
    filled = [piece for piece in map(_told, pieces) if piece.null_count < len(piece)]
    if not pieces or not all(_is_plain(piece.type) for piece in filled):
        return None
    covered = sum(map(len, pieces))
    nothing, frequent = _least(np.empty(0, np.uint64)), frequent_strings_sketch(_LG_FREQUENT)
    if not filled:
        return ColumnSketch(rows, covered, 0, 0.0, 0.0, nothing, nothing, frequent)
    looked = _Looked.at(filled)
    of_values = hashes(looked.values)
    for value, count in looked.often(len(pieces), covered >= rows):
        frequent.update(value, round(count * rows / covered))
    again = looked.pieces_with > 1
    counts = (rows, covered, int(looked.pieces_with.sum()), float(len(again)), float(np.count_nonzero(again)))
    seen = (_least(of_values), _least(of_values[again]) if again.any() else nothing)
    spans, grid = _apart(looked.spans()), _grid(looked.values)
    return ColumnSketch(*counts, *seen, frequent, spans, grid, looked.runs, len(filled))


def _least(found: Hashes) -> Any:
    return least(found, _LG_VALUES)


@dataclass(frozen=True, slots=True)
class _Looked:
    """The values that are there in pieces, which have some each, one piece after the other: the different ones in the order in which they
    come, and for each row which it has; the rows at which pieces begin, and all in number; in how many pieces each value is."""

    values: pa.Array
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    in_pieces: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Which values are in which pieces: of each pair the value, and the piece."""
    pieces_with: NDArray[np.int64]

    @staticmethod
    def at(filled: Sequence[pa.Array]) -> "_Looked":
        """What is in pieces of plain types."""
        there = np.cumsum([0, *(len(piece) - piece.null_count for piece in filled)])
        found = _plain(filled).dictionary_encode()
        values, rows = found.dictionary, found.indices.to_numpy().astype(np.int64)
        bits = len(values).bit_length()
        pairs = np.sort(np.repeat(np.arange(len(filled)) << bits, np.diff(there)) | rows)
        pairs = pairs[_changes(pairs)]
        with_it, pieces = pairs & ((1 << bits) - 1), pairs >> bits
        return _Looked(values, rows, there[:-1], (with_it, pieces), np.bincount(with_it, minlength=len(values)))

    @property
    def runs(self) -> int:
        """How many runs of equal values there are in the pieces, of which each begins with one."""
        begins = _changes(self.rows)
        begins[self.starts] = True
        return int(np.count_nonzero(begins))

    def spans(self) -> list[tuple[float, float]]:
        """Where the values of each piece lie, if they are numbers: from the least to where the one after the greatest would be."""
        if pa.types.is_string(self.values.type) or pa.types.is_boolean(self.values.type):
            return []
        of_rows = self.values.to_numpy()[self.rows]
        lows, highs = (pick.reduceat(of_rows, self.starts).astype(float) for pick in (np.minimum, np.maximum))
        different = np.bincount(self.in_pieces[1])
        lies = np.isfinite(lows) & np.isfinite(highs) & (highs > lows)
        ends = highs[lies] + (highs[lies] - lows[lies]) / (different[lies] - 1)
        return list(zip(lows[lies].tolist(), ends.tolist(), strict=True))

    def often(self, pieces: int, whole: bool) -> Iterator[tuple[str, int]]:
        """The most frequent values and how often they were seen. In a part of the rows a value counts that is in half of the pieces: where
        equal values lie side by side, one of them may fill a piece."""
        counts = np.bincount(self.rows)
        fewest = _OFTEN if not whole else 1 if len(counts) <= _FREQUENT else 2
        most = pc.select_k_unstable(pa.array(counts), _FREQUENT, [("", "descending")]).to_numpy()
        most = most[(counts[most] >= fewest) & (whole | (2 * self.pieces_with[most] >= pieces))]
        for value, count in zip(self.values.take(pa.array(most)).to_pylist(), counts[most].tolist(), strict=True):
            if (name := spelled(value)) is not None:
                yield name, count


def _changes(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where another value than before begins, at the first, too."""
    found = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def decoded(values: pa.Array) -> pa.Array:
    """Values that a file has in a dictionary, as programs write categories; others as they are."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _told(values: pa.Array) -> pa.Array:
    """Values as they are, and bytes as text that spells them, unless they are too many to be what rows are told by."""
    found = decoded(values)
    if not _is_of_bytes(found.type) or found.nbytes > _WIDE * len(found):
        return found
    return pa.array([None if value is None else value.hex() for value in found.to_pylist()], pa.string())


_WIDE = 256
"""Values of so many bytes and more are documents and pictures."""

_OF_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)


_TYPES = 256
"""Types of columns that are remembered: each piece of each column is asked for its."""

_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)

_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date32, pa.types.is_timestamp)


@lru_cache(_TYPES)
def _is_of_bytes(type: pa.DataType) -> bool:
    return any(is_of_bytes(type) for is_of_bytes in _OF_BYTES)


@lru_cache(_TYPES)
def _is_plain(type: pa.DataType) -> bool:
    return pa.types.is_boolean(type) or any(holds(type) for holds in (*_NUMBERS, *_TEXTS))


def _plain(filled: Sequence[pa.Array]) -> pa.Array:
    """The values that are there in pieces of plain types, as integers, floats or texts: of dates and times as
    :func:`tempura.cost.stats.number` has them."""
    if all(piece.type == filled[0].type for piece in filled):
        return _of_one_type(pa.concat_arrays(filled))
    return pa.concat_arrays([_of_one_type(piece) for piece in filled])


def _of_one_type(values: pa.Array) -> pa.Array:
    present, type = values.drop_null(), values.type
    if pa.types.is_boolean(type):
        return present
    if pa.types.is_integer(type) and type != pa.uint64():
        return present.cast(pa.int64())
    if pa.types.is_date32(type):
        return present.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(type):
        return present.cast(pa.timestamp("us", type.tz), safe=False).cast(pa.int64())
    if any(is_text(type) for is_text in _TEXTS):
        return present.cast(pa.string())
    # Negative zero is zero, and what is no number is one value.
    floats = present.cast(pa.float64(), safe=False).to_numpy() + 0.0
    floats[np.isnan(floats)] = np.nan
    return pa.array(floats)


def as_one_text(columns: Sequence[pa.Array]) -> pa.Array:
    """What several columns of a row have, as one text, NULL where one is NULL; a column that cannot be sketched, if there is one."""
    told = [_told(column) for column in columns]
    if (unknown := next((column for column in told if not _is_plain(column.type)), None)) is not None:
        return unknown
    return pc.binary_join_element_wise(*(column.cast(pa.string()) for column in told), "\x1f")


def merged(sketches: Sequence[ColumnSketch]) -> ColumnSketch:
    """The sketch of all rows of some sketches."""
    return reduce(ColumnSketch.__add__, sketches)
