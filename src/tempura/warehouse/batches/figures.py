"""What the footers of rows would say if they were written, counted by Spark without writing them."""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    AtomicType,
    BinaryType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    TimestampType,
)

from tempura.execute.naming import attribute
from tempura.warehouse.batches.arrivals import SAMPLE_ROWS, ColumnSummary
from tempura.warehouse.batches.parquet import FileSummary, counted

_BYTES = 8
"""Of a value that is not text or binary: about what it takes uncompressed."""


def figures(rows: DataFrame) -> FileSummary:
    """Rows, about their bytes, and the summaries of their atomic columns: one job over all rows, one over the first."""
    fields = [field for field in rows.schema.fields if isinstance(field.dataType, AtomicType)]
    found = rows.agg(fn.count(fn.lit(1)), *(part for field in fields for part in _asked(field))).first()
    assert found is not None
    count = int(found[0])
    parts = [found[1 + 4 * i : 5 + 4 * i] for i in range(len(fields))]
    sampled = _sampled(rows, fields)
    columns = {
        field.name: ColumnSummary(count - part[0], part[1], part[2], bytes=int(part[3] or 0)) + sampled[i]
        for i, (field, part) in enumerate(zip(fields, parts, strict=True))
    }
    nested = (len(rows.schema.fields) - len(fields)) * _BYTES * count
    return FileSummary(count, nested + sum(int(part[3] or 0) for part in parts), columns)


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


def _sampled(rows: DataFrame, fields: list[StructField]) -> list[ColumnSummary]:
    """Distinct values of the first rows, told by their hashes: a value need not be one that Python can hold."""
    hashes = (_hash(attribute(field.name)).alias(f"h{i}") for i, field in enumerate(fields))
    sample = rows.limit(SAMPLE_ROWS).select(*hashes).collect() if fields else []
    return [counted(pa.array([row[i] for row in sample], pa.int64())) for i in range(len(fields))]


def _hash(column: Column) -> Column:
    return fn.when(column.isNotNull(), fn.xxhash64(column))
