"""Leaves of a plan that stand for tables."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tempura.frontend.catalyst import JavaObject, class_of
from tempura.frontend.session import no_rows

MARKER = "tempura.table"
"""The key of the column metadata that says of which table a leaf is."""

_REFERENCES = ("CTERelationRef", "UnionLoopRef")
"""Leaves that stand for another part of the plan. Their columns may be columns of a table, metadata included."""


def schema_leaf(session: SparkSession, name: str, schema: StructType) -> DataFrame:
    """A DataFrame without rows that stands for a table: no rule can fold its data, and its columns carry the table's
    name."""
    marked = StructType(
        [StructField(f.name, f.dataType, f.nullable, {**(f.metadata or {}), MARKER: name}) for f in schema]
    )
    return no_rows(session, marked)


def marked_table(node: JavaObject) -> str | None:
    """The table of a leaf, from the marker in its columns' metadata; None for other operators."""
    if node.children().size() > 0 or node.output().size() == 0 or class_of(node) in _REFERENCES:
        return None
    metadata = node.output().apply(0).metadata()
    return str(metadata.getString(MARKER)) if metadata.contains(MARKER) else None
