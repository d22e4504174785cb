"""Where deleted rows lie, on Spark: found when a deletion comes, and kept when arrivals are stored together."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from tempura.algebra.scalar import Column
from tempura.execute.draft import Draft
from tempura.execute.identity import is_exact
from tempura.execute.naming import attribute, attributes, ids
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.engine import Changes, Source
from tempura.warehouse.spark.incoming import Coming, alike
from tempura.warehouse.spark.rows import (
    FILE,
    ROW,
    are_few_keys,
    columns_of,
    files_of,
    located_rows,
    placed_rows,
    read_files,
)

_COPIES, _COPY = "_copies", "_copy"
_METADATA = "_metadata"
"""As Spark calls what it knows of files beside a table's columns, unless one of these has that name."""


def can_place(schema: StructType) -> bool:
    """Whether it can be told which rows of such columns are the same by SQL's equality, and where they lie."""
    columns = columns_of(schema)
    return all(is_exact(c.type) and c.type != "void" and c.name.lower() != _METADATA for c in columns)


def places_of(
    session: SparkSession, present: Source, arriving: Rows, keys: Sequence[str], places: Sequence[str]
) -> DataFrame:
    """As :meth:`~tempura.warehouse.engine.Engine.placed`, under the table's names."""
    columns = columns_of(present.schema)
    asked = Coming(_asked(session, present.schema, arriving, columns), Source(present.schema, Rows(arriving.deleted)))
    there = located_rows(session, present, arriving.inserted)
    few = alike(there, asked, columns, keys, present.rows + arriving)
    other = asked.rows.select(*((column.id, f"other.{i}") for i, column in enumerate(columns)), _COPIES)
    same = (attribute(column.id).eqNullSafe(attribute(f"other.{i}")) for i, column in enumerate(columns))
    found = few.join(other, reduce(SparkColumn.__and__, same), "inner").dataframe()
    numbered = found.withColumn(_COPY, fn.row_number().over(_copies(columns)))
    taken = Draft.of(numbered.filter(attribute(_COPY) <= attribute(_COPIES)).coalesce(1))
    return taken.select(*ids(columns), FILE, ROW).renamed(*present.schema.names, *places).dataframe()


def _asked(session: SparkSession, schema: StructType, arriving: Rows, columns: Sequence[Column]) -> Draft:
    """The rows to be deleted, each once, with how often."""
    rows = Draft.of(read_files(session, schema, arriving.deleted, arriving)).renamed(*ids(columns))
    if are_few_keys(arriving):
        rows = rows.gathered(1)  # they are counted where they are
    return rows.aggregate(ids(columns), [fn.count(fn.lit(1)).alias(_COPIES)])


def _copies(columns: Sequence[Column]) -> WindowSpec:
    """Rows that are the same, in the order in which they lie."""
    return Window.partitionBy(*attributes(columns)).orderBy(attribute(FILE), attribute(ROW))


def net_by_place(session: SparkSession, source: Source, places: Sequence[str]) -> Changes:
    """The rows that are there by the places of those deleted, and the deletions of rows that lie elsewhere, in few files."""
    columns, names = columns_of(source.schema), source.schema.names
    own = [Path(file).name for file in source.rows.inserted]
    there = located_rows(session, source).select(*ids(columns)).renamed(*names).dataframe()
    elsewhere = placed_rows(session, source).renamed(*names, *places).dataframe()
    elsewhere = elsewhere.filter(~attribute(places[0]).isin(own)).coalesce(1).localCheckpoint(eager=True)
    kept = None if elsewhere.isEmpty() else elsewhere
    return Changes(there.coalesce(files_of(source.rows)), placed=kept)
