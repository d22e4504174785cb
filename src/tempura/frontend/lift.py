"""From a query, SQL or DataFrame, to the algebra: Spark analyses and rewrites it, :mod:`tempura.frontend.operators`
lifts what remains."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tempura.algebra.rel import Opaque, Rel
from tempura.algebra.scalar import SortKey
from tempura.errors import Reason, TempuraError
from tempura.frontend.catalyst import JavaObject, analyse_sql, contains, first_line, items, jvm_of, optimise
from tempura.frontend.checks import refuse_unrepeatable, tables_read
from tempura.frontend.marker import MARKER
from tempura.frontend.narrow import narrow, refuse_types
from tempura.frontend.operators import Part, PlanLifter
from tempura.frontend.recompute import NotLiftableError, Recompute
from tempura.frontend.session import active, clone, no_rows, require_classic

__all__ = ["Lifted", "Recompute", "lift_dataframe", "lift_sql", "recomputation", "schema_leaf"]


@dataclass(frozen=True)
class Lifted:
    """A query in the algebra.

    ``rel`` is the relation to maintain: free of time, with Scan leaves, without a top-level Sort. Its first ``visible``
    columns are the result, under the user's ``names`` (which may repeat); more columns are there only for ``order``,
    the query's ORDER BY over the columns of ``rel`` (() when it has none). ``schema`` is the JSON of Spark's StructType
    of the result, nullable as analysed. ``reasons`` say what is recomputed and why; empty when all of the query is in
    the algebra.
    """

    rel: Rel
    order: tuple[SortKey, ...]
    names: tuple[str, ...]
    visible: int
    schema: str
    reasons: tuple[Reason, ...] = ()


def schema_leaf(session: SparkSession, name: str, schema: StructType) -> DataFrame:
    """A DataFrame without rows that stands for a table: no rule can fold its data, and its columns carry the table's
    name."""
    marked = StructType(
        [StructField(f.name, f.dataType, f.nullable, {**(f.metadata or {}), MARKER: name}) for f in schema]
    )
    return no_rows(session, marked)


def lift_sql(session: SparkSession, sql: str, tables: Mapping[str, StructType]) -> Lifted:
    """Lift one SELECT statement over ``tables``. The session is not changed, and nothing is executed.

    What the algebra cannot express makes the whole query an ``Opaque``, with a reason. Raises TempuraError:
    INVALID_SQL, NOT_A_QUERY, UNKNOWN_TABLE, UNKNOWN_COLUMN, UNKNOWN_FUNCTION, UNKNOWN_SOURCE, NONDETERMINISTIC,
    RUN_DEPENDENT, SPARK_CONNECT.
    """
    work = clone(session)
    with active(work):
        analysed = _analysed(work, sql, tables)
        refuse_unrepeatable(work, analysed)
        sources = tables_read(analysed)
        try:
            return _lifted(work, analysed)
        except NotLiftableError as error:
            return _recomputed(work, analysed, sources, sql, error.reason)


def recomputation(session: SparkSession, sql: str, tables: Mapping[str, StructType]) -> Recompute:
    """The same statement, to be answered by Spark over rows of the tables. Raises TempuraError as :func:`lift_sql` does."""
    work = clone(session)
    with active(work):
        return Recompute(sql, _analysed(work, sql, tables))


def _analysed(work: SparkSession, sql: str, tables: Mapping[str, StructType]) -> JavaObject:
    for name, schema in tables.items():
        schema_leaf(work, name, schema).createOrReplaceTempView(name)
    return analyse_sql(work, sql)


def lift_dataframe(df: DataFrame) -> Lifted:
    """Lift a DataFrame whose leaves carry the table's name in the metadata of their columns.

    Raises TempuraError as :func:`lift_sql` does, and NOT_LIFTABLE for what the algebra cannot express.
    """
    require_classic(df.sparkSession)
    work = clone(df.sparkSession)
    analysed: JavaObject = df._jdf.queryExecution().analyzed()
    with active(work):
        refuse_unrepeatable(work, analysed)
        tables_read(analysed)
        try:
            return _lifted(work, analysed)
        except NotLiftableError as error:
            what = f"This DataFrame cannot be stored as an expression of the algebra ({error.reason})."
            raise TempuraError("NOT_LIFTABLE", what, "Give the query as SQL, which can be recomputed.") from error


def _lifted(work: SparkSession, analysed: JavaObject) -> Lifted:
    try:
        part = PlanLifter(work).lift(optimise(work, analysed))
    except RecursionError as error:
        raise NotLiftableError("TOO_DEEP", "the plan is nested too deeply") from error
    except (PySparkException, Py4JError) as error:
        # Rules may fail on plans that they never see when all rules run.
        raise NotLiftableError(*_why_not(work, analysed, error)) from error
    rel = narrow(part.rel)
    refuse_types(jvm_of(work), rel)
    return _result(analysed, rel, part.order)


def _why_not(work: SparkSession, analysed: JavaObject, error: Exception) -> tuple[str, str]:
    """Why Catalyst's rules fail on a plan: code and text."""
    if contains(work, analysed, "UNION_LOOP"):
        return "RECURSION", "a recursive query"  # Spark 4.0 does not come as far as the operator
    return "OPTIMIZER", first_line(error)


def _recomputed(
    work: SparkSession, analysed: JavaObject, sources: Mapping[str, JavaObject], sql: str, why: Reason
) -> Lifted:
    lifter = PlanLifter(work)
    scans = tuple(lifter.scan(leaf, table).rel for table, leaf in sources.items())
    attributes = list(items(analysed.output()))
    outputs = tuple(lifter.names.column(a.name(), a.dataType().catalogString()) for a in attributes)
    rel = Opaque(scans, outputs, sql.strip(), why, Recompute(sql, analysed))
    part = Part(rel, tuple(a.exprId().id() for a in attributes))
    try:
        return _result(analysed, rel, lifter.order_of(analysed, part), (why,))
    except NotLiftableError:
        hidden = Reason("ORDER_HIDDEN", "ORDER BY reads values that the result does not have")
        return _result(analysed, rel, (), (why, hidden))


def _result(analysed: JavaObject, rel: Rel, order: tuple[SortKey, ...], reasons: tuple[Reason, ...] = ()) -> Lifted:
    names = tuple(str(attribute.name()) for attribute in items(analysed.output()))
    return Lifted(rel, order, names, len(names), _schema(analysed), reasons)


def _schema(analysed: JavaObject) -> str:
    fields = json.loads(analysed.schema().json())
    for field in fields["fields"]:
        field["metadata"].pop(MARKER, None)
    return json.dumps(fields, separators=(",", ":"))
