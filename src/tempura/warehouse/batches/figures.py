"""What the footers of rows would say if they were written, counted by Spark without writing them."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    AtomicType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from tempura.execute.naming import attribute
from tempura.warehouse.batches.arrivals import ColumnSummary
from tempura.warehouse.batches.parquet import FileSummary
from tempura.warehouse.batches.sample import PIECE_ROWS
from tempura.warehouse.batches.sketch import ColumnSketch, sketched

_FIRST = 10_000
"""So many rows, the first ones, sketches are made of."""

_OF_ARROW = (NumericType, StringType, BinaryType, BooleanType, DateType, TimestampType, TimestampNTZType)

_BYTES = 8
"""Of a value that is not text or binary: about what it takes uncompressed."""


def figures(rows: DataFrame) -> FileSummary:
    """Rows, about their bytes, the summaries of their atomic columns, and sketches: one job over all rows, one over the first."""
    fields = [field for field in rows.schema.fields if isinstance(field.dataType, AtomicType)]
    found = rows.agg(fn.count(fn.lit(1)), *(part for field in fields for part in _asked(field))).first()
    assert found is not None
    count = int(found[0])
    parts = [found[1 + 4 * i : 5 + 4 * i] for i in range(len(fields))]
    columns = {
        field.name: ColumnSummary(count - part[0], part[1], part[2], int(part[3] or 0))
        for field, part in zip(fields, parts, strict=True)
    }
    nested = (len(rows.schema.fields) - len(fields)) * _BYTES * count
    bytes = nested + sum(int(part[3] or 0) for part in parts)
    return FileSummary(count, bytes, columns, _sketches(rows, fields, count))


def _asked(field: StructField) -> tuple[Column, ...]:
    """Values that are there, the least and the greatest as numbers, bytes."""
    column = attribute(field.name)
    number = _number(column, field.dataType)
    size = fn.octet_length(column) if isinstance(field.dataType, StringType | BinaryType) else fn.lit(_BYTES)
    return fn.count(column), fn.min(number), fn.max(number), fn.sum(size.cast("bigint"))


def _number(column: Column, type: DataType) -> Column:
    """As :func:`tempura.warehouse.batches.parquet.number` has it; NULL where that has nothing."""
    nothing = fn.lit(None).cast("double")
    match type:
        case NumericType():
            value = column.cast("double")
            # NaN and the infinities are no extremes of use.
            return fn.when(value.between(fn.lit(-1.7e308), fn.lit(1.7e308)), value).otherwise(nothing)
        case DateType():
            return fn.unix_date(column).cast("double")
        case TimestampType():
            return fn.unix_micros(column).cast("double")
    return nothing


def _sketches(rows: DataFrame, fields: Sequence[StructField], count: int) -> dict[str, ColumnSketch]:
    """Of the first rows, of those columns that Arrow knows."""
    known = [field.name for field in fields if isinstance(field.dataType, _OF_ARROW)]
    first = rows.limit(_FIRST).select(*map(attribute, known)).toArrow().combine_chunks() if known else pa.table({})
    pieces = [[batch.column(name) for batch in first.to_batches(PIECE_ROWS)] for name in known]
    found = {name: sketched(of_it, max(count, len(first))) for name, of_it in zip(known, pieces, strict=True)}
    return {name: sketch for name, sketch in found.items() if sketch}
