"""Pieces of rows from all over the files of a table, of which sketches are made. Read with pyarrow, a bounded number of rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tempura.warehouse.batches.sketch import ColumnSketch, as_one_text, sketched

T = TypeVar("T")

PIECE_ROWS = 1_250
_FEWEST, _MOST = 8, 64
_SHARE = 250
"""One of so many rows is read, of at least as many as are in the fewest pieces, at most as many as in the most."""


_SKIPPED_ROWS = 131_072
"""Rows of a row group among which its pieces lie."""


def sketches_of(files: Sequence[Path], rows: int, names: Collection[str]) -> Mapping[str, ColumnSketch]:
    """The sketches of some columns of Parquet files that hold so many ``rows``, or of the values that several have together
    (:func:`several`); without those that are in none of the files that are looked at, or whose values cannot be sketched. A file that
    lacks a column holds NULL in it.

    Raises OSError, pyarrow.ArrowInvalid for a file that cannot be read.
    """
    batches = list(_batches(files, rows, names))
    there = {name for batch in batches for name in batch.schema.names}
    asked = {name: columns for name in sorted(names) if there.issuperset(columns := columns_of(name, there))}
    found = {name: sketched([_values(batch, columns) for batch in batches], rows) for name, columns in asked.items()}
    return {name: sketch for name, sketch in found.items() if sketch is not None}


_COMMA = ", "


def several(columns: Collection[str]) -> str:
    """The name of a sketch of the values that several columns have together: as a reference by them is declared."""
    return _COMMA.join(sorted(columns))


def columns_of(name: str, there: Collection[str]) -> tuple[str, ...]:
    """The columns that a sketch of this name is of, among those that are there."""
    return (name,) if name in there else tuple(name.split(_COMMA))


def _values(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.Array:
    values = [_column(batch, column) for column in columns]
    return values[0] if len(values) == 1 else as_one_text(values)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows)


def _batches(files: Sequence[Path], rows: int, names: Collection[str]) -> Iterator[pa.RecordBatch]:
    number = max(_FEWEST, min(_MOST, rows // _SHARE // PIECE_ROWS))
    chosen = spread(files, number)
    for path in chosen:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            there = set(file.schema_arrow.names)
            wanted = sorted({column for name in names for column in columns_of(name, there)} & there)
            groups = spread(range(file.metadata.num_row_groups), number // len(chosen))
            for group in groups if wanted else ():
                yield from _of_group(file, group, wanted, number // len(chosen) // len(groups))


def _of_group(file: pq.ParquetFile, group: int, columns: Sequence[str], pieces: int) -> Iterator[pa.RecordBatch]:
    """Pieces from all over a row group. Rows in its middle cannot be read without those before: of a large one, those at its start."""
    rows = min(file.metadata.row_group(group).num_rows, max(_SKIPPED_ROWS, pieces * PIECE_ROWS))
    wanted = spread(range(-(-rows // PIECE_ROWS)), pieces)
    batches = file.iter_batches(batch_size=PIECE_ROWS, row_groups=[group], columns=columns, use_threads=False)
    for n, batch in zip(range(wanted[-1] + 1 if wanted else 0), batches, strict=False):
        if n in wanted:
            yield batch


def spread(all: Sequence[T], number: int) -> list[T]:
    """At most so many of a sequence, at even distances, the first one among them."""
    if len(all) <= number:
        return list(all)
    return [all[i * len(all) // number] for i in range(number)]
