"""How often keys are in files of rows, counted in the driver.

What an arrival brings is little beside what is there. So its keys are held in memory, and the key columns of what is there go past them:
no Spark job is planned, nothing is shuffled. Row groups whose statistics say that they have none of the keys are not read; where keys
grow with time those are nearly all. Values are compared themselves, not hashes of them. What is too much for one process, and types that
files may keep otherwise than SQL compares them, are not counted here: Spark is asked then.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import DataType, DecimalType, StructType

from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.parquet import partition_columns
from tempura.warehouse.batches.sketch import decoded

_MOST_KEYS = 1_000_000
"""So many rows have their keys looked up here at most."""
_MOST_ROWS = 100_000_000
"""So many rows go past them at most: some seconds."""
_BATCH_ROWS = 1 << 20

_INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_EXACT = {**_INTEGERS, "boolean": pa.bool_(), "date": pa.date32(), "string": pa.string()}
"""Types, and decimals are others, of which two values are equal in SQL if files have the same and only then."""

_GREGORIAN = date(1582, 10, 15)
"""Days before it have other numbers in files that old versions of Spark wrote."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keyed:
    """Rows of a table, and the columns of a key."""

    schema: StructType
    rows: Rows
    key: Sequence[str]


@dataclass(frozen=True, slots=True)
class Partners:
    """Of rows with references: whether all have their partners, and whether some are NULL."""

    complete: bool
    nulls: bool


def are_unique(present: Keyed, arriving: Keyed) -> bool:
    """Whether it is known that no two rows have one key after an arrival, if none had before. NULL is equal to NULL."""
    with suppress(*_UNKNOWN):
        keys = _Keys.of(_columns(arriving, arriving.rows.inserted))
        return bool((keys.counted(arriving) + keys.counted(present) <= 1).all())
    return False


def partners(came: Keyed, changed: Keyed, there: Keyed) -> Partners | None:
    """Whether all keys are ``there`` to which rows refer that ``came``, and those that left with what ``changed``; None: not known."""
    with suppress(*_UNKNOWN):
        columns, gone = _columns(came, came.rows.inserted), _columns(changed, changed.rows.deleted)
        names = [f"k{i}" for i in range(len(columns))]
        wanted = pa.concat_tables([pa.table(side, names) for side in (columns, gone)]).drop_null()
        counts = _Keys.of(wanted.columns).counted(there, once=True)
        return Partners(bool((counts > 0).all()), any(column.null_count for column in columns))
    return None


@dataclass(frozen=True, slots=True)
class Extremes:
    """The least and the greatest value of a column, None where there is none, and whether some are NULL, which may be None where there are
    no rows."""

    low: Any
    high: Any
    nulls: bool | None


def extremes(rows: Keyed) -> list[Extremes] | None:
    """Of the columns of the key, in all rows of some files; None: not known."""
    with suppress(*_UNKNOWN):
        columns = _columns(rows, rows.rows.inserted)
        ends = (pc.min_max(column).as_py() for column in columns)
        return [Extremes(e["min"], e["max"], c.null_count > 0) for e, c in zip(ends, columns, strict=True)]
    return None


class _NotHereError(Exception):
    """Keys cannot be counted here: Spark has to be asked."""


_UNKNOWN = (_NotHereError, OSError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Some keys, each of which has a number. ``values`` are those of each column; a value's place in them is its number. Two columns have
    a pair of numbers, the first times how many values the second has, plus the second; the place of that in the sorted ``pairs`` is the
    number of both, which makes pairs with the third column's."""

    values: tuple[pa.Array, ...]
    pairs: tuple[Numbers, ...]

    @staticmethod
    def of(columns: Sequence[pa.ChunkedArray]) -> "_Keys":
        """The keys of some rows."""
        values = tuple(column.unique() for column in columns)
        numbers = _numbers(columns[0], values[0])
        pairs = list[Numbers]()
        for column, own in zip(columns[1:], values[1:], strict=True):
            known, numbers = np.unique(numbers * len(own) + _numbers(column, own), return_inverse=True)
            pairs.append(known)
        return _Keys(values, tuple(pairs))

    def __len__(self) -> int:
        return len(self.pairs[-1] if self.pairs else self.values[0])

    def counted(self, rows: Keyed, once: bool = False) -> Numbers:
        """How many rows have each of the keys, less those that are deleted. ``once``: to know whether there is any is enough."""
        counts = np.zeros(len(self), np.int64)
        once = once and not rows.rows.deleted
        for sign, files in ((1, rows.rows.inserted), (-1, rows.rows.deleted)):
            # Rows and their partners often come together, so what came last is looked at first.
            for columns in _read(rows, files[::-1], self) if len(self) else ():
                counts += sign * np.bincount(self.found(columns), minlength=len(self))
                if once and counts.all():
                    break
        return counts

    def found(self, columns: Sequence[pa.Array]) -> Numbers:
        """The numbers of the keys of some rows; rows that have none of the keys are left out."""
        places = pc.index_in(columns[0], value_set=self.values[0])
        hit, numbers = places.is_valid(), _int64(places.drop_null())
        rest = [column.filter(hit) for column in columns[1:]]
        for i, (known, own) in enumerate(zip(self.pairs, self.values[1:], strict=True)):
            places = pc.index_in(rest[i], value_set=own).fill_null(-1).to_numpy()
            pairs = numbers * len(own) + places
            at = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
            hits = (places >= 0) & (known[at] == pairs)
            numbers, rest = at[hits], [column.filter(pa.array(hits)) for column in rest]
        return numbers

    def groups(self, file: pq.ParquetFile, names: Sequence[str]) -> list[int]:
        """The row groups of a file that may have some of the keys, by what they say of their least and greatest values."""
        ordered = {name: _ordered(own) for name, own in zip(names, self.values, strict=True)}
        columns = {name: i for i in range(len(file.schema)) if (name := file.schema.column(i).path) in ordered}
        may = list(range(file.metadata.num_row_groups))
        for name, i in columns.items():
            own = ordered[name]
            if own is not None:
                may = [g for g in may if _meet(own, file.metadata.row_group(g).column(i).statistics)]
        return may


def _numbers(column: pa.ChunkedArray, values: pa.Array) -> Numbers:
    return _int64(pc.index_in(column, value_set=values))


def _int64(values: pa.Array | pa.ChunkedArray) -> Numbers:
    days = values.cast(pa.int32()) if pa.types.is_date(values.type) else values
    numbers: Numbers = days.to_numpy().astype(np.int64)
    return numbers


def _ordered(values: pa.Array) -> Numbers | None:
    """Values in their order, if they are numbers of which statistics tell; None when some are NULL."""
    if values.null_count or values.type not in (*_INTEGERS.values(), pa.date32()):
        return None
    return np.sort(_int64(values))


def _meet(ordered: Numbers, statistics: Any) -> bool:
    """Whether some values lie between the least and the greatest of a row group; so they do if these are not known."""
    if statistics is None or not statistics.has_min_max:
        return True
    low, high = _int64(pa.array([statistics.min, statistics.max]))
    return bool(np.searchsorted(ordered, low) < np.searchsorted(ordered, high, side="right"))


# --- files ------------------------------------------------------------------------------------------------------------


def _columns(rows: Keyed, files: Sequence[str]) -> list[pa.ChunkedArray]:
    """The key's columns of all rows of some files."""
    read = list(_read(rows, files))
    return [pa.chunked_array([c[i] for c in read], type) for i, type in enumerate(_types(rows))]


def _types(rows: Keyed) -> list[pa.DataType]:
    return [_arrow(rows.schema[name].dataType) for name in rows.key]


def _arrow(type: DataType) -> pa.DataType:
    if isinstance(type, DecimalType):
        return pa.decimal128(type.precision, type.scale)
    found = _EXACT.get(type.simpleString())
    if found is None:
        raise _NotHereError
    return found


def _read(rows: Keyed, paths: Sequence[str], keys: _Keys | None = None) -> Iterator[list[pa.Array]]:
    """The key's columns of some files, batch by batch; where no ``keys`` are given of all rows, else of those that may have one of them.
    How much that is is looked at before any is read."""
    if rows.rows.given or any(path in rows.rows.narrow for path in paths):
        raise _NotHereError
    types, names = _types(rows), list(rows.key)
    asked, most = list[tuple[str, list[int]]](), _MOST_ROWS if keys else _MOST_KEYS
    for path in paths:
        if rows.rows.base and not {name.lower() for name in partition_columns(path)}.isdisjoint(map(str.lower, names)):
            raise _NotHereError
        with pq.ParquetFile(path) as file:
            if not set(names) <= set(file.schema_arrow.names) or any("." in name for name in names):
                raise _NotHereError
            groups = keys.groups(file, names) if keys else list(range(file.metadata.num_row_groups))
            most -= sum(file.metadata.row_group(group).num_rows for group in groups)
        if groups:
            asked.append((path, groups))
    if most < 0:
        raise _NotHereError
    for path, groups in asked:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, groups, names):
                columns = [decoded(batch.column(name)).cast(type) for name, type in zip(names, types, strict=True)]
                yield [_same_in_all_files(column) for column in columns]


def _same_in_all_files(column: pa.Array) -> pa.Array:
    if pa.types.is_date(column.type) and pc.min(column).as_py() is not None and pc.min(column).as_py() < _GREGORIAN:
        raise _NotHereError
    return column
