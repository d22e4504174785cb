"""Rows of tables as DataFrames: reading the files of arrivals, and comparing bags by identity.

Users may name a column as they like, ``_w`` too: next to weights, columns are named by the identities that :func:`columns_of` gives.
"""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StringType, StructField, StructType, VarcharType

from tempura.algebra.rel import Values
from tempura.algebra.scalar import Column
from tempura.execute.contract import WEIGHT
from tempura.execute.identity import consolidate
from tempura.execute.naming import attribute
from tempura.execute.relation import Relation, expand
from tempura.execute.render import constant_rows
from tempura.frontend.marker import MARKER
from tempura.frontend.session import no_rows
from tempura.warehouse.engine import Source


def nullable(type: DataType) -> DataType:
    """The type with everything in it nullable, strings without limits, and no metadata: as files are read."""
    if isinstance(type, StructType):
        return StructType([StructField(f.name, nullable(f.dataType), True) for f in type.fields])
    if isinstance(type, ArrayType):
        return ArrayType(nullable(type.elementType), True)
    if isinstance(type, MapType):
        return MapType(nullable(type.keyType), nullable(type.valueType), True)
    return StringType() if isinstance(type, CharType | VarcharType) else type


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a table as columns of the algebra."""
    return tuple(Column(f"x{i}", f.name, f.dataType.simpleString()) for i, f in enumerate(schema.fields))


def read_files(session: SparkSession, schema: StructType, files: Sequence[str], base: str | None) -> DataFrame:
    """Exactly these Parquet files, under the columns of ``schema``."""
    if not files:
        return no_rows(session, schema)
    # Copies of rows lie elsewhere than the files whose paths spell columns, and hold all columns.
    below = [file for file in files if base and file.startswith(f"{base}/")]
    if base and 0 < len(below) < len(files):
        others = [file for file in files if file not in set(below)]
        copies = read_files(session, schema, others, None)
        return read_files(session, schema, below, base).unionAll(copies)
    base = base if below else None
    reader = session.read.schema(schema).option("__globPaths__", "false")
    # The user's session may be lenient; rows that arrived must all be read.
    reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    reader = reader.option("basePath", f"file:{base}") if base else reader
    frame = reader.parquet(*(f"file:{file}" for file in files))
    return frame.select(*(attribute(f.name) for f in schema.fields))


def file_path() -> SparkColumn:
    """The path of the file that a row was read from."""
    encoded = fn.replace("_metadata.file_path", fn.lit("+"), fn.lit("%2B"))
    return fn.regexp_replace(fn.url_decode(encoded), "^file:/*", "/")


def signed_rows(session: SparkSession, source: Source) -> DataFrame:
    """The rows with a weight, 1 for an insertion, -1 for a deletion; columns are named as :func:`columns_of` identifies them."""
    ids = [column.id for column in columns_of(source.schema)]
    inserted = read_files(session, source.schema, source.rows.inserted, source.rows.base)
    weighted = inserted.toDF(*ids).withColumn(WEIGHT, _weight(1))
    if source.rows.given:
        weighted = weighted.unionAll(_given(session, source))
    if not source.rows.deleted:
        return weighted
    deleted = read_files(session, source.schema, source.rows.deleted, None)
    return weighted.unionAll(deleted.toDF(*ids).withColumn(WEIGHT, _weight(-1)))


def _given(session: SparkSession, source: Source) -> DataFrame:
    columns = (*columns_of(source.schema), Column(WEIGHT, WEIGHT, "bigint"))
    return constant_rows(session, Values(columns, tuple((*row, n) for row, n in source.rows.given))).frame


def plain_rows(session: SparkSession, source: Source) -> DataFrame:
    """The bag of rows that are there: insertions less deletions."""
    if not source.rows.signed and not source.rows.given:
        return read_files(session, source.schema, source.rows.inserted, source.rows.base)
    columns = columns_of(source.schema)
    net = consolidate(signed_rows(session, source), columns)
    return expand(Relation(net, weighted=True), columns).toDF(*source.schema.names)


def marked_rows(session: SparkSession, source: Source, table: str) -> DataFrame:
    """The bag of rows that are there, with one leaf that tells which table it is."""
    fields = [StructField(f.name, f.dataType, True, {MARKER: table}) for f in source.schema.fields]
    marked = StructType(fields)
    if not source.rows.signed:
        return read_files(session, marked, source.rows.inserted, source.rows.base)
    # Rows net of deletions are an aggregation; a query must see the table in its place.
    rows = plain_rows(session, source)._jdf.queryExecution().toRdd()
    java = session._jsparkSession
    return DataFrame(java.internalCreateDataFrame(rows, java.parseDataType(marked.json()), False), session)


def difference(left: DataFrame, right: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """``left`` minus ``right`` as a signed bag with a weight column, by identity of rows. Both have the given columns."""
    names = [attribute(c.id) for c in columns]
    plus = left.select(*names).withColumn(WEIGHT, _weight(1))
    minus = right.select(*names).withColumn(WEIGHT, _weight(-1))
    return consolidate(plus.unionAll(minus), columns)


def _weight(value: int) -> SparkColumn:
    return fn.lit(value).cast("bigint")
