"""From a query, SQL or DataFrame, to the algebra: Spark analyses and rewrites it, :mod:`tempura.frontend.operators`
lifts what remains."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tempura.algebra.rel import Opaque, Rel
from tempura.algebra.scalar import SortKey
from tempura.errors import Reason
from tempura.frontend.catalyst import JavaObject, analyse, class_of, first_line, jvm_of, optimise, parse_sql
from tempura.frontend.checks import leaves, refuse_other_sources, refuse_unkept, refuse_unreadable, refuse_unrepeatable
from tempura.frontend.clock import with_clocks
from tempura.frontend.compiled import compiled
from tempura.frontend.marker import MARKER, view_tables
from tempura.frontend.narrow import narrow, why_not_storable
from tempura.frontend.opaque import text_of
from tempura.frontend.operators import Part, PlanLifter, sort_of
from tempura.frontend.session import active, clone, require_classic
from tempura.frontend.udf import USER_DEFINED
from tempura.frontend.unliftable import NotLiftableError

_TOO_DEEP = "TOO_DEEP", "the plan is nested too deeply"


@dataclass(frozen=True)
class Lifted:
    """A query in the algebra.

    ``rel`` is the relation to maintain: free of time, with Scan leaves, without a top-level Sort. Its first ``visible``
    columns are the result, under the user's ``names`` (which may repeat); more columns are there only for ``order``,
    the query's ORDER BY over the columns of ``rel`` (() when it has none). ``schema`` is the JSON of Spark's StructType
    of the result, nullable as analysed. ``reasons`` say what is recomputed and why; empty when all of the query is in
    the algebra. ``analysed`` is the statement as Spark has analysed it, where it is one and this process has asked.
    """

    rel: Rel
    order: tuple[SortKey, ...]
    names: tuple[str, ...]
    visible: int
    schema: str
    reasons: tuple[Reason, ...] = ()
    analysed: JavaObject | None = field(default=None, compare=False, repr=False)


def lift_sql(session: SparkSession, sql: str, tables: Mapping[str, StructType]) -> Lifted:
    """Lift one SELECT statement over ``tables``. The session is not changed, and nothing is executed.

    What the algebra cannot express becomes an ``Opaque``, a part of the query with a reason. Raises TempuraError:
    INVALID_SQL, NOT_A_QUERY, UNKNOWN_TABLE, UNKNOWN_COLUMN, UNKNOWN_FUNCTION, UNKNOWN_SOURCE, NONDETERMINISTIC,
    RUN_DEPENDENT, FIELDS_ALIKE, UNSUPPORTED_TYPE, SPARK_CONNECT.
    """
    work = clone(session)
    with active(work):
        plan = _analysed(work, sql, tables)
        refuse_unrepeatable(work, plan, sql)
        refuse_other_sources(work, plan)
        text = sql.strip()
        if compiled(work, "Walk").hasDefinitions(plan, "\n".join(USER_DEFINED), MARKER):
            # The same text means another query where the session defines a name otherwise.
            lifted = _as_a_whole(work, plan) or _in_parts(work, plan, f"{text}\n{text_of(work, plan)}")
        else:
            lifted = _in_parts(work, plan, text)
        return replace(lifted, analysed=plan)


def analysed(session: SparkSession, sql: str, tables: Mapping[str, StructType]) -> JavaObject:
    """The same statement as Spark analyses it. Raises TempuraError as :func:`lift_sql` does."""
    work = clone(session)
    with active(work):
        return _analysed(work, sql, tables)


def _analysed(work: SparkSession, sql: str, tables: Mapping[str, StructType]) -> JavaObject:
    parsed = parse_sql(work, sql)
    view_tables(work, {name: tables[name] for name in _named(work, parsed, tuple(tables))})
    return with_clocks(work, analyse(work, parsed))


def _named(work: SparkSession, parsed: JavaObject, tables: tuple[str, ...]) -> list[str]:
    """The tables that a parsed query may read, found as Spark finds names (``janino/Names.java``)."""
    if not tables:
        return []
    found = compiled(work, "Names").of(work._jsparkSession.sessionState(), parsed, "\n".join(tables))
    return [tables[i] for i in json.loads(found)]


def lift_dataframe(df: DataFrame) -> Lifted:
    """Lift a DataFrame whose leaves carry the table's name in the metadata of their columns, as :func:`lift_sql` does a statement."""
    require_classic(df.sparkSession)
    work = clone(df.sparkSession)
    with active(work):
        analysed = with_clocks(work, df._jdf.queryExecution().analyzed())
        refuse_unrepeatable(work, analysed)
        refuse_other_sources(work, analysed)
        return _as_a_whole(work, analysed) or _in_parts(work, analysed, text_of(work, analysed))


def _as_a_whole(work: SparkSession, analysed: JavaObject) -> Lifted | None:
    """A query all of which can be lifted; None for others."""
    try:
        return _lifted(work, analysed)
    except NotLiftableError:
        return None


def _in_parts(work: SparkSession, analysed: JavaObject, text: str) -> Lifted:
    """What can be lifted, and the rest as parts that are recomputed; ``text`` tells the query from others."""
    try:
        return _lifted(work, analysed, text)
    except NotLiftableError as error:
        lifter = PlanLifter(work, text)
        return _result(analysed, lifter, lifter.recomputed(lifter.node(analysed), error.reason))


def _lifted(work: SparkSession, analysed: JavaObject, text: str | None = None) -> Lifted:
    try:
        optimised = optimise(work, analysed)
        lifter = PlanLifter(work, text)
        part = lifter.lift(lifter.node(optimised))
        if text and why_not_storable(jvm_of(work), narrow(part.rel)):
            lifter = PlanLifter(work, text, comparable=True)
            part = lifter.lift(lifter.node(optimised))
    except RecursionError as error:
        raise NotLiftableError(*_TOO_DEEP) from error
    except (PySparkException, Py4JError) as error:
        # Rules may fail on plans that they never see when all rules run.
        raise NotLiftableError(*_why_not(work, analysed, error)) from error
    why = why_not_storable(jvm_of(work), narrow(part.rel))
    if why:
        raise NotLiftableError(why.code, why.detail)
    return _result(analysed, lifter, part)


def _why_not(work: SparkSession, analysed: JavaObject, error: Exception) -> tuple[str, str]:
    """Why Catalyst's rules fail on a plan: code and text."""
    if any(class_of(leaf) == "UnionLoopRef" for leaf in leaves(work, analysed)):
        return "RECURSION", "a recursive query"  # Spark 4.0 does not come as far as the operator
    if isinstance(error, Py4JJavaError) and "StackOverflowError" in error.java_exception.getClass().getName():
        return _TOO_DEEP
    return "OPTIMIZER", first_line(error)


def _result(analysed: JavaObject, lifter: PlanLifter, part: Part) -> Lifted:
    rel = narrow(part.rel)
    schema = _schema(analysed)
    refuse_unreadable(schema)
    names = tuple(str(field["name"]) for field in schema["fields"])
    refuse_unkept(names, [column.type for column in part.columns])
    reasons = [r.reason for r in rel.walk() if isinstance(r, Opaque)]
    if part.hides_order and sort_of(lifter.node(analysed)):
        reasons.append(Reason("ORDER_HIDDEN", "ORDER BY reads values that the result does not have"))
    text = json.dumps(schema, separators=(",", ":"))
    return Lifted(rel, part.order, names, len(names), text, tuple(dict.fromkeys(reasons)))


def _schema(analysed: JavaObject) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(analysed.schema().json())
    for column in schema["fields"]:
        column["metadata"].pop(MARKER, None)
    return schema
