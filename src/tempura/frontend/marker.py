"""Leaves of a plan that stand for tables."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tempura.frontend.catalyst import JavaObject
from tempura.frontend.compiled import compiled, ended
from tempura.frontend.session import no_rows

MARKER = "tempura.table"
"""The key of the column metadata that says of which table a leaf is."""


def schema_leaf(session: SparkSession, name: str, schema: StructType) -> DataFrame:
    """A DataFrame without rows that stands for a table: no rule can fold its data, and its columns carry the table's
    name."""
    return no_rows(session, _marked(name, schema))


def view_tables(session: SparkSession, tables: Mapping[str, StructType]) -> None:
    """Make such leaves of tables, as temporary views of their names."""
    schemas = (_marked(name, schema).json() for name, schema in tables.items())
    compiled(session, "Tables").view(session._jsparkSession, ended(tables), ended(schemas))


def _marked(name: str, schema: StructType) -> StructType:
    """A table's columns, which carry its name."""
    return StructType(
        [StructField(f.name, f.dataType, f.nullable, {**(f.metadata or {}), MARKER: name}) for f in schema]
    )


def marked_table(session: SparkSession, leaf: JavaObject) -> str:
    """The table of a leaf, from the marker in its columns' metadata; "" for others."""
    return str(compiled(session, "Walk").table(leaf, MARKER))
