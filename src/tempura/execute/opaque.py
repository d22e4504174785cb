"""Queries that Tempura cannot look into: run by Spark as they are, over snapshots of their tables."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from tempura.algebra.rel import Opaque, Rel, Scan
from tempura.errors import TempuraError
from tempura.execute.jvm import Jvm
from tempura.execute.relation import Relation, expand
from tempura.frontend.session import clone
from tempura.physical.operators import Read


def recompute(session: SparkSession, rel: Opaque, tables: Sequence[Relation]) -> Relation:
    """The result of the query's SQL over the given rows of its tables, as a plain bag.

    ``rel.handle`` has the SQL text in its attribute ``sql``. The tables become temporary views of a clone of the session, so that
    the session's own views stay what they are. Raises TempuraError ``NOT_EXECUTABLE`` when there is no SQL text.
    """
    sql = getattr(rel.handle, "sql", None)
    if not isinstance(sql, str):
        raise TempuraError("NOT_EXECUTABLE", f"there is no SQL text to run for {rel.label}.", "Give the query as SQL.")
    jvm, own = Jvm(session), clone(session)
    for table, rows in zip(rel.tables, tables, strict=True):
        scan = _scanned(table)
        named = expand(rows, table.columns).toDF(*scan.fields)
        jvm.in_session(own, named).createOrReplaceTempView(scan.table)
    result = jvm.in_session(session, own.sql(sql))
    return Relation(result.toDF(*(column.id for column in rel.outputs)), weighted=False)


def _scanned(table: Rel) -> Scan:
    """The table whose snapshot an input of the query is: operators above the read keep its columns."""
    for rel in table.walk():
        if isinstance(rel, Read):
            return rel.scan
        if isinstance(rel, Scan):
            return rel
    raise TempuraError("NOT_EXECUTABLE", f"no table is read by '{table.label}'.", "This is an error in Tempura.")
