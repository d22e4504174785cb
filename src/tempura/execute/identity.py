"""Rows compared by identity on Spark: finer than SQL's equality, which GROUP BY uses.

SQL holds ``-0.0`` and ``0.0`` for equal, 'a' and 'A' under a case-insensitive collation, and maps whatever the order of their entries,
which functions can see; a deletion must take away exactly the row that was inserted. So columns of such types are grouped by their
text or bytes, and the value itself is carried along. SQL cannot compare intervals of months and seconds, or variants: their texts say
all of them.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql.functions import transform
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from tempura.algebra.scalar import Column
from tempura.errors import TempuraError
from tempura.execute import functions as fn
from tempura.execute.contract import WEIGHT
from tempura.execute.draft import Draft, Item
from tempura.execute.naming import attribute, ids, one

_FLOAT = re.compile(r"\b(float|double)\b")
_COLLATED = re.compile(r"\bcollate (?!UTF8_BINARY\b)")
_UNORDERED = re.compile(r"\bmap<|\b(variant|interval|geometry|geography)\b(?![: ])")
_BY_TEXT = ("interval", "variant")
_NOT_COMPARABLE = re.compile(r"\b(variant|interval|geometry|geography)\b(?![: ])")


@dataclass(frozen=True)
class _Part:
    """How one column takes part in grouping: ``keys`` to group by (name, value); ``carried`` says that the value is not among them."""

    column: Column
    keys: tuple[tuple[str, SparkColumn], ...]
    carried: bool


def consolidate(
    rows: Draft, columns: Sequence[Column], alike: Collection[Column] = (), also: Sequence[str] = ()
) -> Draft:
    """One row per distinct row, with the sum of its weights, where that is not 0. ``rows`` have a weight column, and more counts in the
    columns ``also``, which are added up, too: a row is given where one of the sums is not 0. Values of the columns ``alike`` are one where
    SQL holds them for equal, and any of them is given.

    Raises TempuraError ``NOT_COMPARABLE`` when a column has a type whose values cannot be compared.
    """
    parts = tuple(_part(rows, column, i, column in alike) for i, column in enumerate(columns))
    counts = (WEIGHT, *also)
    prepared = rows.select(*_prepared(parts), *counts)
    keys = [name for part in parts for name, _ in part.keys]
    grouped = prepared.aggregate(keys, [*(fn.sum(count).alias(count) for count in counts), *_carried(parts)])
    kept = grouped.filter(reduce(SparkColumn.__or__, (attribute(count) != 0 for count in counts)))
    return kept.select(*((_value_name(part), part.column.id) for part in parts), *counts)


def distinct(rows: Draft, columns: Sequence[Column]) -> Draft:
    """Each row of a plain bag once. Raises as :func:`consolidate` does."""
    if columns and all(is_exact(column.type) for column in columns):
        return rows.select(*ids(columns)).distinct()
    return consolidate(rows.extended(one().alias(WEIGHT)), columns).select(*ids(columns))


def is_exact(type: str) -> bool:
    """Whether SQL's equality of two values of a type is their identity (and the type can be compared at all)."""
    return not any(pattern.search(type) for pattern in (_FLOAT, _COLLATED, _UNORDERED))


def is_ordered(type: str) -> bool:
    """Whether SQL can order by values of a type."""
    return not _UNORDERED.search(type)


def is_comparable(column: Column) -> bool:
    """Whether rows with such a column can be consolidated."""
    return column.type in _BY_TEXT or not _NOT_COMPARABLE.search(column.type)


def text(column: Column) -> SparkColumn:
    """A string that differs for any two values of a column that SQL holds for equal but are not identical."""
    value = attribute(column.id)
    if column.type == "variant":
        # 1 and 1.0 have the same text.
        return fn.concat_ws(" ", fn.schema_of_variant(value), value.cast("string"))
    return value.cast("binary" if column.type.startswith("string") else "string")


def _part(rows: Draft, column: Column, i: int, alike: bool) -> _Part:
    if not is_comparable(column):
        raise TempuraError(
            "NOT_COMPARABLE",
            f"column {column.name} has type {column.type}, whose values cannot be compared, so its rows cannot be consolidated.",
            "Project the column away, or cast it to a type that can be compared.",
        )
    value = attribute(column.id)
    if is_exact(column.type) or (alike and is_ordered(column.type)):
        return _Part(column, ((column.id, value),), carried=False)
    # The text alone identifies a scalar. In nested values it tells apart only what SQL holds for equal.
    nested = column.type.startswith(("array<", "struct<", "map<"))
    by_value = ((f"_v{i}", _without_maps(rows, column)),) if nested else ()
    return _Part(column, (*by_value, (f"_t{i}", text(column))), carried=True)


def _without_maps(rows: Draft, column: Column) -> SparkColumn:
    """A nested value with the entries of its maps in place of these: when Spark 4.3.0 groups by a map, it sorts its entries, and takes a
    NULL among numbers for what lay there before."""
    if "map<" not in column.type:
        return attribute(column.id)
    # The rows are asked for the type: its text need not spell the names of its fields.
    return _entries(attribute(column.id), rows.dataframe().schema[column.id].dataType)


def _entries(value: SparkColumn, type: DataType) -> SparkColumn:
    match type:
        case MapType():
            entry = StructType().add("key", type.keyType).add("value", type.valueType)
            return _entries(fn.map_entries(value), ArrayType(entry))
        case ArrayType() if _has_map(type):
            return transform(value, lambda item: _entries(item, type.elementType))
        case StructType() if _has_map(type):
            parts = [_entries(value.getField(f.name), f.dataType) for f in type.fields]
            return fn.when(value.isNotNull(), fn.struct(*(part.alias(f"_{i}") for i, part in enumerate(parts))))
    return value


def _has_map(type: DataType) -> bool:
    return "map<" in type.simpleString()


def _prepared(parts: Sequence[_Part]) -> Iterator[Item]:
    for part in parts:
        if part.carried:
            yield part.column.id
        for name, value in part.keys:
            yield name if name == part.column.id else value.alias(name)


def _value_name(part: _Part) -> str:
    return f"_c.{part.column.id}" if part.carried else part.column.id


def _carried(parts: Sequence[_Part]) -> list[SparkColumn]:
    # Rows of a group are identical, so whichever comes first is the value.
    return [fn.first(attribute(p.column.id)).alias(_value_name(p)) for p in parts if p.carried]
