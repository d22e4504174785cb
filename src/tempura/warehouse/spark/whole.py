"""A query recomputed as a whole: by Spark, from the user's own text, over the same files.

A step that loads nothing and saves nothing is a plain recomputation. Spark's optimizer knows more ways to do that than a plan made of
small pieces lets it see, so it gets the query as it was written, unless the plan is clearly cheaper (:mod:`tempura.search.asked`).
"""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.failing import condition_can_fail
from tempura.algebra.rel import Rel, TopK
from tempura.execute.contract import StoredOutput, Usage
from tempura.execute.draft import Draft
from tempura.execute.files import Files
from tempura.execute.metrics import Meter
from tempura.execute.naming import ids
from tempura.execute.relation import Relation
from tempura.execute.render import top
from tempura.frontend.catalyst import JavaObject, jvm_of
from tempura.frontend.clock import is_clock
from tempura.frontend.lift import Lifted, analysed
from tempura.frontend.opaque import below_order, whole
from tempura.warehouse.engine import Source, WholeQuery
from tempura.warehouse.spark.determined import is_determined
from tempura.warehouse.spark.rows import columns_of, plain_draft


def is_answered_alike(lifted: Lifted) -> bool:
    """Whether Spark's own answer is the bag of rows that a step would give: not where the step breaks ties in an order of its own, below
    the limit at the top, nor where the result has columns that are there only for its order."""
    rel = lifted.rel
    below = rel.input if isinstance(rel, TopK) else rel
    return lifted.visible == len(rel.columns) and is_determined(below)


def answered(session: SparkSession, query: WholeQuery) -> Draft | None:
    """The rows of the result by Spark alone, as a bag; ties at a limit at the top are broken as by a step. Columns are named by their
    identities. None when the limit is not where it can be taken off."""
    rel = query.lifted.rel
    asked = query.lifted.analysed or as_written(session, query.text, query.tables)
    below = below_order(jvm_of(session), asked, isinstance(rel, TopK))
    if below is None:
        return None
    rows = _over(session, below, rel, query.tables).renamed(*ids(rel.columns))
    return top(rel, Relation(rows, weighted=False)).draft if isinstance(rel, TopK) else rows


def own_answer(session: SparkSession, query: WholeQuery) -> DataFrame:
    """What Spark answers to a query as it was written."""
    return own_answer_to(session, as_written(session, query.text, query.tables), query)


def own_answer_to(session: SparkSession, written: JavaObject, query: WholeQuery) -> DataFrame:
    """The same of a query that Spark has analysed."""
    return _over(session, written, query.lifted.rel, query.tables).dataframe()


def recomputed(session: SparkSession, query: WholeQuery, folder: Path) -> tuple[Usage, int]:
    """Spark's answer, read, computed and written as results are; what that took, and the rows."""
    files = Files(session)
    with Meter(session.sparkContext) as meter:
        stored = stored_answer(files, own_answer(session, query), folder)
    return meter.usage, stored.rows


def stored_answer(files: Files, frame: DataFrame, folder: Path) -> StoredOutput:
    """The rows of a DataFrame, written as results are."""
    columns = columns_of(frame.schema)
    rows = Relation(Draft.of(frame).renamed(*ids(columns)), weighted=False)
    return files.save_output(rows, columns, folder / "result")


def as_written(session: SparkSession, query: str, tables: Mapping[str, Source]) -> JavaObject:
    """A query as Spark analyses it."""
    schemas = {name: source.schema for name, source in tables.items() if not is_clock(name)}
    return analysed(session, query, schemas)


def _over(session: SparkSession, asked: JavaObject, rel: Rel, tables: Mapping[str, Source]) -> Draft:
    """A query, which is ``rel`` in the algebra, over some rows. For a row that is gone nothing of it fails."""
    made, fails = whole(session, asked), condition_can_fail(rel)

    def rows(table: str) -> JavaObject:
        source = tables[table]
        there = plain_draft(session, source)
        return (there.fenced() if fails and source.rows.signed else there).plan

    found = {name: rows(name) for name in dict.fromkeys(made.tables)}
    return Draft(session, made.answer(session, [found[table] for table in made.tables]))
