"""Rows of tables as DataFrames: reading the files of arrivals, and comparing bags by identity.

Users may name a column as they like, ``_w`` too: next to weights, columns are named by the identities that :func:`columns_of` gives.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StringType, StructField, StructType, VarcharType

from tempura.algebra.rel import Values
from tempura.algebra.scalar import Column
from tempura.execute.contract import WEIGHT
from tempura.execute.draft import Draft
from tempura.execute.identity import consolidate, is_comparable
from tempura.execute.naming import attribute, ids, weight
from tempura.execute.relation import Relation, expand
from tempura.execute.render import constant_rows
from tempura.frontend.marker import MARKER
from tempura.frontend.session import no_rows
from tempura.physical.deletions import are_few
from tempura.physical.operators import Read
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.places import places_only
from tempura.warehouse.engine import Changes, Source
from tempura.warehouse.sources.widening import beginning

FILE, ROW = "_file", "_row"
"""Where a row lies, beside columns that have the names of identities: the name of a file, and the number of the row in it."""
LOCATED = places_only((FILE, ROW))
"""The columns of :data:`FILE` and :data:`ROW`, which no file holds: Spark tells them."""
_NOTHING = StructType([])
_TAKEN_FILE, _TAKEN_ROW = "_taken_file", "_taken_row"
_NO_ROWS = Rows()
_FILE_BYTES = 128 << 20
"""About how large a file is that rows of many are written into."""
_SENT_BYTES = 32_000_000
"""Keys out of files of so many bytes are sent to every task."""


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


def _location() -> tuple[SparkColumn, SparkColumn]:
    """Where a row lies, by what Spark knows of files."""
    return fn.col("_metadata.file_name").alias(FILE), fn.col("_metadata.row_index").alias(ROW)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Files that can be read together: with the first ``width`` columns of the table, partition columns by their paths below ``base``."""

    files: tuple[str, ...]
    base: str | None
    width: int


def _readings(rows: Rows, files: Sequence[str], width: int) -> list[_Reading]:
    """How to read files of ``rows``, of a table of ``width`` columns."""
    groups: dict[tuple[str | None, int], list[str]] = {}
    for file in files:
        # Copies of rows lie elsewhere than the files whose paths spell columns, and hold all columns.
        base = rows.base if rows.base and file.startswith(f"{rows.base}/") else None
        groups.setdefault((base, rows.narrow.get(file, width)), []).append(file)
    return [_Reading(tuple(found), base, n) for (base, n), found in groups.items()]


def read_files(session: SparkSession, schema: StructType, files: Sequence[str], rows: Rows = _NO_ROWS) -> DataFrame:
    """Exactly these Parquet files of ``rows``, under the columns of ``schema``; columns that were added since are NULL."""
    return _rows_of(session, schema, files, rows).dataframe()


def _rows_of(
    session: SparkSession, schema: StructType, files: Sequence[str], rows: Rows, also: StructType = _NOTHING
) -> Draft:
    """The rows of files, and more columns that all of them have."""
    parts = [_read(session, schema, reading, also) for reading in _readings(rows, files, len(schema.fields))]
    whole = StructType([*schema.fields, *also.fields])
    return parts[0].union(*parts[1:]) if parts else Draft.of(no_rows(session, whole))


def _read(session: SparkSession, whole: StructType, reading: _Reading, also: StructType) -> Draft:
    schema = beginning(whole, reading.width)
    later = (fn.lit(None).cast(f.dataType).alias(f.name) for f in whole.fields[reading.width :])
    if also is LOCATED:
        return _stored(session, schema, reading).select(*schema.names, *later, *_location())
    stored = StructType([*schema.fields, *also.fields])
    return _stored(session, stored, reading).select(*schema.names, *later, *also.names)


def _stored(session: SparkSession, schema: StructType, reading: _Reading) -> Draft:
    spelled = reading.base is not None
    return _by_paths(session, schema, reading) if spelled else Draft.parquet(session, reading.files, schema.json())


def _by_paths(session: SparkSession, schema: StructType, reading: _Reading) -> Draft:
    """Files whose paths spell some of the columns."""
    reader = session.read.schema(schema).option("__globPaths__", "false").option("basePath", f"file:{reading.base}")
    # The user's session may be lenient; rows that arrived must all be read.
    reader = reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    return Draft.of(reader.parquet(*(f"file:{file}" for file in reading.files)))


def file_path() -> SparkColumn:
    """The path of the file that a row was read from."""
    encoded = fn.replace("_metadata.file_path", fn.lit("+"), fn.lit("%2B"))
    return fn.regexp_replace(fn.url_decode(encoded), "^file:/*", "/")


def signed_rows(session: SparkSession, source: Source) -> Draft:
    """The rows with a weight, 1 for an insertion, -1 for a deletion; columns are named as :func:`columns_of` identifies them."""
    parts = [_weighted(session, source, source.rows.inserted, 1)]
    parts += [_given(session, source)] if source.rows.given else []
    parts += [_weighted(session, source, source.rows.deleted, -1)] if source.rows.deleted else []
    return parts[0].union(*parts[1:])


def are_few_keys(*rows: Rows) -> bool:
    """Whether the keys of some rows are few enough to be sent to every task."""
    files = (file for some in rows for file in (*some.inserted, *some.deleted))
    return sum(Path(file).stat().st_size for file in files) <= _SENT_BYTES


def located_rows(session: SparkSession, source: Source, more: Sequence[str] = ()) -> Draft:
    """The inserted rows, and those of ``more`` files, but for those at the places of the deleted ones, once each. Columns are named as
    :func:`columns_of` identifies them; two more, :data:`FILE` and :data:`ROW`, say where a row lies."""
    there = _rows_of(session, source.schema, (*source.rows.inserted, *more), source.rows, LOCATED)
    there = there.renamed(*ids(columns_of(source.schema)), FILE, ROW)
    if not source.rows.are_placed:
        return there
    # By its number a row finds the few of that number, of which only the names of files are compared: as a part of what is looked up, the
    # name would be copied for each row. Two comparisons are no key to Spark.
    file, taken = attribute(FILE), attribute(_TAKEN_FILE)
    at = (attribute(ROW) == attribute(_TAKEN_ROW)) & (file <= taken) & (file >= taken)
    return there.join(_places(session, source.rows).broadcast(), at, "left_anti")


def _places(session: SparkSession, rows: Rows) -> Draft:
    """Where the deleted rows lie."""
    parts = [
        Draft.parquet(session, files, places_only(names).json()).renamed(_TAKEN_FILE, _TAKEN_ROW)
        for names, files in _by_columns(rows).items()
    ]
    return parts[0].union(*parts[1:])


def placed_rows(session: SparkSession, source: Source) -> Draft:
    """The deleted rows with their places, in the table's columns and two more. Columns are named as those of :func:`located_rows`."""
    columns, rows = columns_of(source.schema), source.rows
    parts = [
        _rows_of(session, source.schema, files, rows, places_only(names)).renamed(*ids(columns), FILE, ROW)
        for names, files in _by_columns(rows).items()
    ]
    return parts[0].union(*parts[1:])


def _by_columns(rows: Rows) -> dict[tuple[str, ...], list[str]]:
    """The files of deletions by the columns of places that they have."""
    found: dict[tuple[str, ...], list[str]] = {}
    for file in rows.deleted:
        found.setdefault(rows.places[file], []).append(file)
    return found


def read_columns(session: SparkSession, source: Source, read: Read) -> Draft:
    """The rows that a read of a plan stands for: its fields in order, and the weight if it is signed."""
    weight = (WEIGHT,) if read.signed else ()
    return signed_rows(session, source).select(*_fields(source, read), *weight)


def read_clean(session: SparkSession, source: Source, read: Read) -> Draft:
    """Those of the rows of :func:`read_columns` that are left, each with weight 1, by the places of the others."""
    return located_rows(session, source).select(*_fields(source, read), _weight(1).alias(WEIGHT))


def _fields(source: Source, read: Read) -> list[str]:
    named = {column.name: column.id for column in columns_of(source.schema)}
    return [named[name] for name in read.scan.fields]


def read_deletions(session: SparkSession, source: Source, read: Read) -> Draft | None:
    """Those of the rows of :func:`read_columns` that are deletions, where they are few of many."""
    rows = source.rows
    sizes = [sum(Path(file).stat().st_size for file in side) for side in (rows.inserted, rows.deleted)]
    if not rows.signed or not are_few(sizes[1], sum(sizes)):
        return None
    return read_columns(session, replace(source, rows=replace(rows, inserted=())), read).filter(weight() < 0)


def _weighted(session: SparkSession, source: Source, files: Sequence[str], weight: int) -> Draft:
    rows = _rows_of(session, source.schema, files, source.rows)
    return rows.renamed(*ids(columns_of(source.schema))).extended(_weight(weight).alias(WEIGHT))


def _given(session: SparkSession, source: Source) -> Draft:
    columns = (*columns_of(source.schema), Column(WEIGHT, WEIGHT, "bigint"))
    return constant_rows(session, Values(columns, tuple((*row, n) for row, n in source.rows.given))).draft


def plain_rows(session: SparkSession, source: Source) -> DataFrame:
    """The bag of rows that are there: insertions less deletions."""
    return plain_draft(session, source).dataframe()


def plain_draft(session: SparkSession, source: Source) -> Draft:
    """The same before Spark has analysed it."""
    if not source.rows.signed and not source.rows.given:
        return _rows_of(session, source.schema, source.rows.inserted, source.rows)
    columns = columns_of(source.schema)
    if source.rows.are_placed:
        return located_rows(session, source).select(*ids(columns)).renamed(*source.schema.names)
    net = consolidate(signed_rows(session, source), columns)
    return expand(Relation(net, weighted=True), columns).renamed(*source.schema.names)


def files_of(rows: Rows) -> int:
    """Into how many files rows are written that are stored together."""
    return 1 + sum(Path(file).stat().st_size for file in (*rows.inserted, *rows.deleted)) // _FILE_BYTES


def net_changes(session: SparkSession, source: Source) -> Changes:
    """Signed rows as few inserts and deletes, in few files. Where rows cannot be compared, all of them."""
    rows, columns, names = source.rows, columns_of(source.schema), source.schema.names
    files = files_of(rows)
    if rows.deleted and all(is_comparable(column) for column in columns):
        net = consolidate(signed_rows(session, source), columns).dataframe().localCheckpoint(eager=True)
        signs = (net.filter(fn.col(WEIGHT) > 0), net.filter(fn.col(WEIGHT) < 0).withColumn(WEIGHT, -fn.col(WEIGHT)))
        sides = [bag_of(side, columns, names) for side in signs]
    else:
        sides = [read_files(session, source.schema, side, rows) for side in (rows.inserted, rows.deleted)]
    few = [side.coalesce(files) for side in sides]
    return Changes(few[0], few[1] if rows.deleted else None)


def marked_rows(session: SparkSession, source: Source, table: str) -> DataFrame:
    """The bag of rows that are there, with one leaf that tells which table it is."""
    fields = [StructField(f.name, f.dataType, True, {MARKER: table}) for f in source.schema.fields]
    marked = StructType(fields)
    readings = _readings(source.rows, source.rows.inserted, len(fields))
    if not source.rows.signed and all(reading.width == len(fields) for reading in readings) and len(readings) < 2:
        return read_files(session, marked, source.rows.inserted, source.rows)
    # Rows net of deletions are an aggregation, and files that differ a union; a query must see the table in its place.
    rows = plain_rows(session, source)._jdf.queryExecution().toRdd()
    java = session._jsparkSession
    return DataFrame(java.internalCreateDataFrame(rows, java.parseDataType(marked.json()), False), session)


def difference(
    left: DataFrame, right: DataFrame, columns: Sequence[Column], alike: Collection[Column] = ()
) -> DataFrame:
    """``left`` minus ``right`` as a signed bag with a weight column, by identity of rows. Both have the given columns. In those of
    ``alike``, values are the same that SQL holds for equal."""
    return without(once_each(left), once_each(right), columns, alike).dataframe()


def once_each(rows: DataFrame) -> Draft:
    """The same rows with a weight column: each counts once."""
    return Draft.of(rows).extended(_weight(1).alias(WEIGHT))


def without(left: Draft, right: Draft, columns: Sequence[Column], alike: Collection[Column] = ()) -> Draft:
    """``left`` minus ``right`` as a signed bag, by identity of rows, or as :func:`difference` says. Both have the given columns, and
    weights."""
    names = ids(columns)
    taken = right.select(*names, (-weight()).alias(WEIGHT))
    return consolidate(left.select(*names, WEIGHT).union(taken), columns, alike)


def bag_of(weighted: DataFrame, columns: Sequence[Column], names: Sequence[str]) -> DataFrame:
    """The bag that rows with positive weights stand for, under other names."""
    return expand(Relation(Draft.of(weighted), weighted=True), columns).renamed(*names).dataframe()


def _weight(value: int) -> SparkColumn:
    return fn.lit(value).cast("bigint")
