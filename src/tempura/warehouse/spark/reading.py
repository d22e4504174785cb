"""Files read by Spark into the columns of a table: every value fits, or the first that does not is named."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from tempura.errors import TempuraError
from tempura.execute.naming import attribute
from tempura.frontend.catalyst import first_line
from tempura.warehouse.batches.parquet import partition_columns
from tempura.warehouse.declared.text import CHANGE, has_header
from tempura.warehouse.engine import FileSet, Fit
from tempura.warehouse.spark.json_text import is_one_value
from tempura.warehouse.spark.rows import file_path

_RECORD = "_tempura_record"
FILE = "_tempura_file"
"""The column of the path of the file that a row was read from."""


def infer(session: SparkSession, files: FileSet) -> StructType:
    """The schema of some files, without the column that tells changes. Raises TempuraError BAD_SCHEMA, WRONG_SCHEMA for a file in which
    a name occurs twice."""
    try:
        found = _reader(session, files).option("inferSchema", "true").format(files.format).load(_paths(files)).schema
    except PySparkException as error:
        if error.getCondition() == "COLUMN_ALREADY_EXISTS":
            raise _ambiguous(session, files, error) from error
        what = f"The schema of table {files.table} cannot be read from its files: {first_line(error)}"
        raise TempuraError("BAD_SCHEMA", what, "Give the schema, or correct the files.") from error
    return StructType([field for field in found.fields if field.name not in (CHANGE, _RECORD)])


def _ambiguous(session: SparkSession, files: FileSet, error: PySparkException) -> TempuraError:
    """A name occurs twice in the files together: in one of them, unless two spell it differently."""
    name = (error.getMessageParameters() or {}).get("columnName", "").strip("`")
    where = files.files[0] if len(files.files) == 1 else f"the files of table {files.table}"
    if len(files.files) > 1:
        for file in files.files:
            infer(session, replace(files, files=(file,)))
    what = f"{where}: the name {name} occurs twice, perhaps once in upper and once in lower case."
    return TempuraError("WRONG_SCHEMA", what, "Write the file again with each name once, or take it out of the folder.")


def changing(session: SparkSession, files: FileSet) -> frozenset[str]:
    """Which of some files hold a row with a value in ``_change``."""
    reader = _reader(session, files).schema(StructType([StructField(CHANGE, StringType())]))
    frame = reader.format(files.format).load(_paths(files)).filter(fn.col(CHANGE).isNotNull())
    found = {row[0] for row in frame.select(file_path()).distinct().collect()}
    return frozenset(path for path in files.files if path in found)


def load(session: SparkSession, files: FileSet, changing: bool, located: bool = False) -> DataFrame:
    """The rows of files, with ``_change`` if they hold changes, and :data:`FILE` if they are to be ``located``.

    Raises TempuraError WRONG_SCHEMA naming file, column, the value found and the type wanted.
    """
    fields = {field.name: field for field in files.schema.fields}
    changes = {CHANGE: StructField(CHANGE, StringType())} if changing else {}
    order = [(fields | changes)[name] for name in files.columns] if files.columns else [*fields.values()]
    # Columns that the path gives come last; those of a file are read by position in some formats.
    rest = [f for f in (fields | changes).values() if f not in order]
    wanted = StructType([*order, *rest])
    rows = _plain(session, files, wanted) if files.format == "parquet" else _checked(session, files, wanted)
    return rows.select(*map(attribute, wanted.names), *((file_path().alias(FILE),) if located else ()))


def _plain(session: SparkSession, files: FileSet, wanted: StructType) -> DataFrame:
    return _reader(session, files).schema(wanted).format(files.format).load(_paths(files))


def _checked(session: SparkSession, files: FileSet, wanted: StructType) -> DataFrame:
    """A value that does not fit makes the reader keep the whole record as text beside it."""
    read = _reader(session, files).schema(StructType([*wanted.fields, StructField(_RECORD, StringType())]))
    rows = read.format(files.format).load(_paths(files)).withColumn(FILE, file_path())
    bad = rows.filter(attribute(_RECORD).isNotNull()).first()
    if bad is not None:
        raise _refused(session, files, wanted, bad.asDict())
    if files.format == "json":
        _check_alone(session, files)
    return rows


def _refused(session: SparkSession, files: FileSet, wanted: StructType, bad: dict[str, object]) -> TempuraError:
    path, record = str(bad[FILE]), str(bad[_RECORD])
    within = [f for f in wanted.fields if f.name not in partition_columns(path)]
    texts = _texts(session, files, within, record)
    for field in within:
        text = texts.get(field.name)
        if text is not None and bad[field.name] is None:
            what = f"{path}: column {field.name} has the value {text!r}, but the table expects "
            what += f"{field.dataType.simpleString()} (in {record.strip()[:200]!r})."
            return TempuraError("WRONG_SCHEMA", what, "Correct the file, or take it out of the folder.")
    what = f"{path}: {record.strip()[:200]!r} is not a record of the columns {', '.join(f.name for f in within)}."
    return TempuraError("WRONG_SCHEMA", what, "Correct the file, or take it out of the folder.")


def _check_alone(session: SparkSession, files: FileSet) -> None:
    """Raises TempuraError WRONG_SCHEMA when more follows the first record of a line, or of a file that is one record: no row has it."""
    text = fn.col("value")
    encoding = files.options.get("encoding")
    if encoding:
        # As Spark's readers do: what is no text in it is replaced.
        session.conf.set("spark.sql.legacy.codingErrorAction", "true")
        text = fn.decode(text.cast("binary"), encoding)
    whole = files.options.get("multiLine", "false").lower() == "true"
    ends = {name: files.options[name] for name in ("encoding", "lineSep") if name in files.options}
    lines = _strict(session).options(**ends).option("wholetext", str(whole).lower()).format("text").load(_paths(files))
    # Without an encoding named the reader of whole files finds UTF-16 and UTF-32 by their first characters.
    known = fn.lit(True) if encoding else ~text.substr(1, 4).contains("\0")
    found = lines.filter(known & ~is_one_value(text, _of_parser(files))).select(text, file_path()).first()
    if found is not None:
        holder, remedy = (
            ("file", "Write a list of them, or leave out multiLine") if whole else ("line", "Write one per line")
        )
        what = f"{found[1]}: {str(found[0]).strip()[:200]!r} is more than one record, but a {holder} holds one."
        raise TempuraError("WRONG_SCHEMA", what, f"{remedy}, or take the file out of the folder.")


def _texts(session: SparkSession, files: FileSet, fields: Sequence[StructField], record: str) -> dict[str, object]:
    """The values of a record as they are spelt."""
    schema = StructType([StructField(f.name, StringType()) for f in fields])
    options = _of_parser(files)
    one = session.createDataFrame([(record,)], "record STRING")
    parse = fn.from_csv("record", schema.toDDL(), options) if files.format == "csv" else None
    row = one.select(parse if parse is not None else fn.from_json("record", schema, options)).first()
    return row[0].asDict() if row is not None and row[0] is not None else {}


def _of_parser(files: FileSet) -> dict[str, str]:
    """The options that are of single records."""
    of_files = ("header", "multiLine", "encoding", "lineSep")
    return {name: value for name, value in files.options.items() if name not in of_files}


def _strict(session: SparkSession) -> DataFrameReader:
    """The user's session may be lenient; rows that arrived must all be read, and read alike."""
    reader = session.read.option("__globPaths__", "false")
    return reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")


def _reader(session: SparkSession, files: FileSet) -> DataFrameReader:
    reader = _strict(session).options(**files.options)
    reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _RECORD)
    if files.format == "csv":
        reader = reader.option("header", str(has_header(files.options)).lower())
    return reader.option("basePath", f"file:{files.base}") if files.base else reader


def _paths(files: FileSet) -> list[str]:
    return [f"file:{file}" for file in files.files]


_PACKAGES = {"delta": "io.delta:delta-spark_2.13", "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13"}
_CHANGE_TYPES = {"insert": "insert", "update_postimage": "insert", "delete": "delete", "update_preimage": "delete"}
"""Delta's name of a change to a row, and what it is here: an update tells the row before and the row after."""

_OF_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def lake(session: SparkSession, format: str, path: Path, options: Mapping[str, str]) -> DataFrame:
    """The rows of a table in a lake, under options of its reader.

    Raises TempuraError NO_PACKAGE when the session cannot read the format, FEED_UNREADABLE for what else is wrong.
    """
    try:
        return session.read.format(format).options(**options).load(f"file:{path}")
    except PySparkException as error:
        if error.getCondition() != "DATA_SOURCE_NOT_FOUND" and "EXTENSION" not in str(error.getCondition()):
            what = f"The {format} table at {path} cannot be read: {first_line(error)}"
            raise TempuraError("FEED_UNREADABLE", what, "Repair it, or add a table of another name.") from error
        raise _no_package(session, format) from error
    except Py4JJavaError as error:
        # A package that was made for another Spark ends in a class or method that is not there.
        raise _no_package(session, format) from error


def _no_package(session: SparkSession, format: str) -> TempuraError:
    what = f"This session of Spark {session.version} cannot read tables of format {format}."
    remedy = f"Start it with spark.jars.packages={_PACKAGES[format]}:VERSION, of a version made for this Spark"
    if format == "delta":
        remedy += (
            " (Delta 4.0 for Spark 4.0; there is none for 4.3 yet), and with Delta's session extension and catalog"
        )
    return TempuraError("NO_PACKAGE", what, f"{remedy}.")


def fitted(rows: DataFrame, fit: Fit | None) -> DataFrame:
    """The rows in a table's columns, as far as they fit, and ``_change``."""
    if fit is None:
        return rows
    lacking = [f for f in fit.schema.fields if f.name in fit.optional and f.name not in rows.columns]
    known = [n for n in rows.columns if not fit.drop or n in (*fit.schema.names, CHANGE)]
    return rows.select(*map(attribute, known), *(fn.lit(None).cast(f.dataType).alias(f.name) for f in lacking))


def as_changes(rows: DataFrame) -> DataFrame | None:
    """Rows of Delta's change feed with ``_change``; None when they are no changes."""
    if "_change_type" not in rows.columns:
        return None
    kind = fn.create_map(*(fn.lit(word) for pair in _CHANGE_TYPES.items() for word in pair))
    return rows.withColumn(CHANGE, kind[fn.col("_change_type")]).drop(*_OF_FEED)
