"""Queries that Tempura cannot look into: run by Spark as they are, over snapshots of their tables."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.rel import Opaque, Rel, Scan
from tempura.errors import TempuraError
from tempura.execute.relation import Relation, expand
from tempura.physical.operators import Read


@runtime_checkable
class Answering(Protocol):
    """The handle of an ``Opaque`` query."""

    def answer(self, session: SparkSession, rows: Mapping[str, DataFrame]) -> DataFrame:
        """What Spark answers when the tables have these rows, whose columns are the tables' by position."""


def recompute(session: SparkSession, rel: Opaque, tables: Sequence[Relation]) -> Relation:
    """The query's answer over the given rows of its tables, as a plain bag.

    ``rel.handle`` answers it. Raises TempuraError ``NOT_EXECUTABLE`` when there is none.
    """
    if not isinstance(rel.handle, Answering):
        raise TempuraError("NOT_EXECUTABLE", f"nothing says how to run {rel.label}.", "Lift the query anew.")
    rows = {_scanned(t).table: expand(r, t.columns) for t, r in zip(rel.tables, tables, strict=True)}
    result = rel.handle.answer(session, rows)
    return Relation(result.toDF(*(column.id for column in rel.outputs)), weighted=False)


def _scanned(table: Rel) -> Scan:
    """The table whose snapshot an input of the query is: operators above the read keep its columns."""
    for rel in table.walk():
        if isinstance(rel, Read):
            return rel.scan
        if isinstance(rel, Scan):
            return rel
    raise TempuraError("NOT_EXECUTABLE", f"no table is read by '{table.label}'.", "This is an error in Tempura.")
