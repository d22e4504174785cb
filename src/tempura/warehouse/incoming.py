"""Rows that users push into managed tables: whether they fit, and whether they keep the table's promises."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StructType,
)

from tempura.errors import TempuraError
from tempura.execute.contract import WEIGHT
from tempura.execute.identity import consolidate
from tempura.execute.naming import attribute
from tempura.warehouse.arrivals import Rows
from tempura.warehouse.engine import Source
from tempura.warehouse.rows import columns_of, nullable, signed_rows

CHANGE = "_change"
"""The column that tells inserts from deletes."""

_INTEGER_DIGITS = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_INTEGERS = tuple(_INTEGER_DIGITS)


def conform(rows: DataFrame, schema: StructType, table: str) -> DataFrame:
    """The rows in the table's columns, matched by name. Types are equal, or widened where no value can change.

    Raises TempuraError WRONG_SCHEMA naming the column, the type found and the type expected.
    """
    found = {field.name: field.dataType for field in rows.schema.fields}
    if len(found) < len(rows.schema.fields):
        raise _wrong(table, f"two columns of {rows.columns} have the same name", "Rename one.")
    extra = [name for name in found if name not in schema.names]
    if extra:
        raise _wrong(table, f"there is no column {extra[0]}", f"Its columns are {', '.join(schema.names)}.")
    for field in schema.fields:
        if field.name not in found:
            raise _wrong(table, f"column {field.name} is missing", "Add it, for instance as a NULL.")
        if not _fits(found[field.name], field.dataType):
            types = f"has type {found[field.name].simpleString()}, expected is {field.dataType.simpleString()}"
            raise _wrong(table, f"column {field.name} {types}", "Cast it.")
    return rows.select(*(attribute(f.name).cast(f.dataType).alias(f.name) for f in schema.fields))


def _fits(found: DataType, expected: DataType) -> bool:
    if nullable(found) == nullable(expected) or isinstance(found, NullType):
        return True
    if isinstance(found, _INTEGERS) and isinstance(expected, _INTEGERS):
        return _INTEGERS.index(type(found)) <= _INTEGERS.index(type(expected))
    if isinstance(expected, DecimalType):
        digits = expected.precision - expected.scale
        if isinstance(found, DecimalType):
            return found.scale <= expected.scale and found.precision - found.scale <= digits
        return isinstance(found, _INTEGERS) and _INTEGER_DIGITS[type(found)] <= digits
    return isinstance(found, FloatType) and isinstance(expected, DoubleType)


def _wrong(table: str, what: str, remedy: str) -> TempuraError:
    return TempuraError("WRONG_SCHEMA", f"Rows for table {table}: {what}.", remedy)


def split_changes(changes: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Inserts and deletes. Raises TempuraError BAD_CHANGE for a missing or other value of ``_change``."""
    if CHANGE not in changes.columns:
        raise TempuraError("BAD_CHANGE", f"There is no column {CHANGE}.", "Add it, with the values insert and delete.")
    # Both halves must come from one evaluation, also when the rows are computed from random numbers or a moving source.
    rows = changes.localCheckpoint(eager=True)
    kind = fn.col(CHANGE)
    other = rows.filter(kind.isNull() | ~kind.isin("insert", "delete")).select(kind).first()
    if other is not None:
        remedy = "Write an update as a delete of the old row and an insert of the new one."
        raise TempuraError("BAD_CHANGE", f"Column {CHANGE} has the value {other[0]!r}, not insert or delete.", remedy)
    return rows.filter(kind == "insert").drop(CHANGE), rows.filter(kind == "delete").drop(CHANGE)


def missing_row(session: SparkSession, present: Source, arriving: Rows) -> str | None:
    """A row that would be there a negative number of times; None when there is none."""
    rows = signed_rows(session, present).unionAll(signed_rows(session, Source(present.schema, arriving)))
    net = consolidate(rows, columns_of(present.schema))
    row = net.filter(fn.col(WEIGHT) < 0).drop(WEIGHT).toDF(*present.schema.names).first()
    return None if row is None else str(row.asDict(recursive=True))


def duplicate_key(session: SparkSession, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
    """A key of the arriving rows that more than one row would have; None when there is none. NULL is equal to NULL."""
    if not arriving.inserted:
        return None
    names = [attribute(column.id) for column in columns_of(present.schema) if column.name in keys]
    coming = signed_rows(session, Source(present.schema, arriving)).select(*names, WEIGHT)
    there = signed_rows(session, present).select(*names, WEIGHT)
    affected = coming.select(*(name.alias(f"{i}") for i, name in enumerate(names))).distinct()
    same = [name.eqNullSafe(attribute(f"{i}")) for i, name in enumerate(names)]
    both = there.join(affected, same, "left_semi").unionAll(coming)
    counted = both.groupBy(*names).agg(fn.sum(WEIGHT).alias(WEIGHT)).filter(fn.col(WEIGHT) > 1).drop(WEIGHT)
    row = counted.toDF(*(name for name in present.schema.names if name in keys)).first()
    return None if row is None else str(row.asDict(recursive=True))
