"""What Parquet files say of themselves: the schema, checked against the table's, and statistics from footers.

Read with pyarrow; no Spark job is needed to register files.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    MapType,
    StringType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from tempura.cost.stats import number
from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import ColumnSummary
from tempura.warehouse.batches.sketch import ColumnSketch

_ARROW_NAMES = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint",
    "uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)",
    "float": "float", "double": "double", "date32[day]": "date",
    "string": "string", "large_string": "string", "string_view": "string",
    "binary": "binary", "large_binary": "binary", "binary_view": "binary",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileSummary:
    """Rows, uncompressed bytes and columns of a file; of rows that are in none yet there are sketches with it."""

    rows: int
    bytes: int
    columns: Mapping[str, ColumnSummary]
    sketches: Mapping[str, ColumnSketch] = field(default_factory=dict)


def inspect(
    path: Path,
    schema: StructType,
    partitions: Iterable[str] = (),
    optional: Iterable[str] = (),
) -> FileSummary:
    """Check a file against the table's schema and summarise it. ``partitions`` are the columns that come from its path,
    ``optional`` those that it may lack: they are NULL then.

    Raises TempuraError WRONG_SCHEMA naming file, column, found and expected type; NOT_PARQUET when it cannot be read.
    """
    with _opened(path) as file:
        lacking = {*partitions, *(set(optional) - set(file.schema_arrow.names))}
        expected = [f for f in schema.fields if f.name not in lacking]
        _check(path, file, StructType(expected))
        columns = _footer(file, {f.name for f in expected})
        nulls = ColumnSummary(nulls=file.metadata.num_rows)
        columns |= dict.fromkeys(lacking - set(partitions), nulls)
        return FileSummary(file.metadata.num_rows, _bytes(file), columns)


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            yield file
    except (pa.ArrowInvalid, OSError) as error:
        what = f"{path} cannot be read as Parquet: {error}."
        raise TempuraError("NOT_PARQUET", what, "Remove or repair it.") from error


def partition_columns(path: str) -> tuple[str, ...]:
    """The columns that a relative path spells: ``("day",)`` for ``day=2024-01-01/part-0.parquet``."""
    return tuple(unquote(part.split("=", 1)[0]) for part in Path(path).parts[:-1] if "=" in part)


def column_names(path: Path) -> tuple[str, ...]:
    """The names of a file's columns. Raises TempuraError NOT_PARQUET."""
    with _opened(path) as file:
        return tuple(file.schema_arrow.names)


def _check(path: Path, file: pq.ParquetFile, schema: StructType) -> None:
    found = {field.name: field for field in file.schema_arrow}
    for column in schema.fields:
        alike = [name for name in file.schema_arrow.names if name.lower() == column.name.lower()]
        if len(alike) > 1:
            what = f"{path}: there are columns {', '.join(alike)}, which Spark cannot tell apart."
            raise TempuraError(
                "WRONG_SCHEMA", what, "Write the file again with one of them, or take it out of the folder."
            )
        field = found.get(column.name)
        actual = spark_type(field.type) if field is not None else None
        if actual and _has_int96(file, column.name):
            actual = actual.replace("timestamp_ntz", "timestamp")
        expected = physical(column.dataType)
        if actual != expected and not (field and "variant" in expected and _is_kept_as(column.dataType, field.type)):
            has = "is missing" if field is None else f"has type {actual or field.type}"
            raise TempuraError(
                "WRONG_SCHEMA",
                f"{path}: column {column.name} {has}, but the table expects {expected}.",
                "Write the file again with that type, or take it out of the folder.",
            )


def spark_type(type: pa.DataType) -> str | None:
    """The Spark type as which a Parquet column is read; None when Spark does not read it."""
    if pa.types.is_dictionary(type):
        return spark_type(type.value_type)
    if pa.types.is_decimal128(type):
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_timestamp(type):
        if type.unit not in ("ms", "us"):
            return None
        return "timestamp" if type.tz else "timestamp_ntz"
    if pa.types.is_fixed_size_binary(type):
        return "binary"
    return _ARROW_NAMES.get(str(type)) or _nested(type)


def _nested(type: pa.DataType) -> str | None:
    parts: list[str | None]
    if pa.types.is_struct(type):
        parts = [spark_type(field.type) for field in type]
        names = [field.name for field in type]
        return None if None in parts else f"struct<{','.join(f'{n}:{p}' for n, p in zip(names, parts, strict=True))}>"
    if pa.types.is_map(type):
        parts = [spark_type(type.key_type), spark_type(type.item_type)]
        return None if None in parts else f"map<{parts[0]},{parts[1]}>"
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        element = spark_type(type.value_type)
        return element and f"array<{element}>"
    return None


def physical(type: DataType) -> str:
    """A Spark type as Parquet keeps it: without collations, lengths of strings and nullability, intervals as numbers."""
    if isinstance(type, StructType):
        return f"struct<{','.join(f'{f.name}:{physical(f.dataType)}' for f in type.fields)}>"
    if isinstance(type, ArrayType):
        return f"array<{physical(type.elementType)}>"
    if isinstance(type, MapType):
        return f"map<{physical(type.keyType)},{physical(type.valueType)}>"
    if isinstance(type, DayTimeIntervalType | YearMonthIntervalType):
        return "bigint" if isinstance(type, DayTimeIntervalType) else "int"
    if isinstance(type, StringType) or type.simpleString().startswith(("varchar(", "char(")):
        return "string"
    return type.simpleString()


def _is_kept_as(type: DataType, found: pa.DataType) -> bool:
    """Whether a column is of a type that has variants in it, which are structs, perhaps with a part of the value under its own type."""
    match type:
        case VariantType():
            return pa.types.is_struct(found) and {"metadata", "value"} <= {field.name for field in found}
        case StructType():
            names = pa.types.is_struct(found) and [field.name for field in found] == type.names
            return names and all(_is_kept_as(f.dataType, found.field(i).type) for i, f in enumerate(type.fields))
        case ArrayType():
            return pa.types.is_list(found) and _is_kept_as(type.elementType, found.value_type)
        case MapType():
            both = pa.types.is_map(found) and _is_kept_as(type.keyType, found.key_type)
            return both and _is_kept_as(type.valueType, found.item_type)
    return spark_type(found) == physical(type)


def _has_int96(file: pq.ParquetFile, name: str) -> bool:
    """Whether the column, or part of it, is in the old timestamp encoding, which Spark reads as an instant."""
    columns = (file.schema.column(i) for i in range(len(file.schema)))
    return any(c.physical_type == "INT96" and c.path.split(".")[0] == name.split(".")[0] for c in columns)


def spanned(paths: Iterable[str], bounds: Mapping[str, tuple[Any, Any]]) -> set[str]:
    """Those of some columns of which each row group of these files says that it may have values between two bounds: to ask for values
    between these makes a reader leave out nothing."""
    left, seen = dict(bounds), set[str]()
    for path in paths:
        file = pq.read_metadata(path)
        for chunk in (file.row_group(i).column(j) for i in range(file.num_row_groups) for j in range(file.num_columns)):
            name = chunk.path_in_schema
            if name in left:
                seen.add(name)
                if not _meets(chunk.statistics, *left[name]):
                    del left[name]
    return seen & left.keys()


def _meets(statistics: Any, low: Any, high: Any) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    least, greatest, low, high = (
        v if isinstance(v, str) else number(v) for v in (statistics.min, statistics.max, low, high)
    )
    return None in (least, greatest, low, high) or bool(least <= high and low <= greatest)


def _bytes(file: pq.ParquetFile) -> int:
    groups = range(file.metadata.num_row_groups)
    return sum(file.metadata.row_group(i).total_byte_size for i in groups)


def _footer(file: pq.ParquetFile, wanted: set[str]) -> dict[str, ColumnSummary]:
    """NULLs, least and greatest value per flat column, over all row groups."""
    merged: dict[str, ColumnSummary] = {}
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        for j in range(group.num_columns):
            chunk = group.column(j)
            if chunk.path_in_schema in wanted:
                summary = _chunk(chunk)
                name = chunk.path_in_schema
                merged[name] = merged[name] + summary if name in merged else summary
    return merged


def _chunk(chunk: Any) -> ColumnSummary:
    statistics, size = chunk.statistics, ColumnSummary(bytes=chunk.total_uncompressed_size)
    if statistics is None:
        return size
    nulls = statistics.null_count if statistics.has_null_count else None
    low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
    return replace(size, nulls=nulls, low=number(low), high=number(high))
