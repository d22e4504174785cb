"""Catalyst over py4j: analysis without execution, and Spark's own optimizer batches with a skip list of ours.

The batches are run one by one (``janino/Rules.java``), because ``spark.sql.optimizer.excludedRules`` cannot exclude what has
to be excluded: 28 rules refuse it, and it ignores names it does not know.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.frontend.compiled import compiled
from tempura.frontend.java import java

JavaObject = Any
"""An object of the JVM. py4j proxies have no static type."""

EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
PLANS = "org.apache.spark.sql.catalyst.plans.logical"

MAX_PASSES = 5
"""How often the batches run over a plan with sub-queries: each pass turns one level of nesting into joins."""

SKIPPED: dict[str, str] = {
    "DecimalAggregates": "hides SUM and AVG of decimals behind unscaled longs; states do that themselves",
    "RewriteDistinctAggregates": "expands DISTINCT aggregates into joins or Expand; the algebra has DISTINCT",
    "OptimizeExpand": "works on the Expand that RewriteDistinctAggregates makes",
    "CollapseGroupedSumOfCount": "fuses two aggregations, which hides the state that both levels could share",
    "MergeSubplans": "merges plans through CTE references with filters",
    "MergeScalarSubqueries": "the same, before Spark 4.1",
    "OptimizeSubqueries": "runs the whole optimizer, skipped rules too; sub-queries that became joins get a pass of ours",
    "InferWindowGroupLimit": "adds per-partition limits",
    "LimitPushDown": "adds limits per partition, which are not a function of the input bag",
    "LimitPushDownThroughWindow": "the same",
    "PartitionPruning": "adds run-time filters that belong to one physical plan",
    "InjectRuntimeFilter": "adds run-time filters that belong to one physical plan",
    "RowLevelOperationRuntimeGroupFiltering": "adds run-time filters that belong to one physical plan",
    "CleanupDynamicPruningFilters": "cleans up after PartitionPruning",
    "PruneFileSourcePartitions": "asks the catalog for partitions",
    "PruneHiveTablePartitions": "asks the catalog for partitions",
    "SchemaPruning": "rewrites file sources; leaves are tables here",
    "V1Writes": "plans a write",
    "V2Writes": "plans a write",
    "V2ScanRelationPushDown": "pushes into a source",
    "V2ScanPartitioningAndOrdering": "asks a source",
    "GroupBasedRowLevelOperationScanPlanning": "plans a write",
    "PullOutVariantExtractions": "rewrites file sources",
    "PushVariantIntoScan": "rewrites file sources",
    "OptimizeMetadataOnlyQuery": "reads the catalog in place of the data",
    "OptimizeMetadataOnlyDeleteFromTable": "plans a write",
    "ConvertToLocalRelation": "evaluates over data",
    "PropagateEmptyRelation": "looks at data",
    "CostBasedJoinReorder": "decides by statistics of the leaves, which have none here",
    "PushDownJoinThroughUnion": "decides by the size of a side",
    "UpdateCTERelationStats": "statistics",
    "CheckCartesianProducts": "a check of physical plans",
    "NormalizeFloatingNumbers": "Spark normalises again when the expressions are executed",
    "ExtractPythonUDFFromJoinCondition": "splits plans for Python workers",
    "ExtractPythonUDFFromAggregate": "splits plans for Python workers",
    "ExtractGroupingPythonUDFFromAggregate": "splits plans for Python workers",
    "ExtractPythonUDFs": "splits plans for Python workers",
    "ExtractPythonUDTFs": "splits plans for Python workers",
    "ReplaceCTERefWithRepartition": "replaces a shared CTE by a shuffle",
    "MarkSingleTaskExecution": "marks physical plans",
    "EliminateMapObjects": "serializers of typed datasets",
    "CombineTypedFilters": "serializers of typed datasets",
    "ObjectSerializerPruning": "serializers of typed datasets",
    "ReassignLambdaVariableID": "serializers of typed datasets",
}
"""Catalyst's rules that are not run, by simple name, and why. Names of several Spark versions; a missing one is no
error."""


def simple_name(name: str) -> str:
    """``Sum`` of ``org.apache…aggregate.Sum``; of a Scala object without its final dollar sign."""
    return name.rstrip("$").rsplit(".", 1)[-1].rsplit("$", 1)[-1]


def class_of(node: JavaObject) -> str:
    """The simple name of an object's class."""
    return simple_name(node.getClass().getName())


def jvm_of(spark: SparkSession) -> JavaObject:
    """The JVM behind a classic session."""
    return java(spark._jvm)


# --- analysis -------------------------------------------------------------------------------------------------------

_CODES = {
    "TABLE_OR_VIEW_NOT_FOUND": ("UNKNOWN_TABLE", "Add it to the warehouse first: `tempura table add`."),
    "UNRESOLVED_COLUMN": ("UNKNOWN_COLUMN", "Compare with the table's schema."),
    "UNRESOLVED_ROUTINE": ("UNKNOWN_FUNCTION", "Register the function in the session, or use a built-in one."),
}


def analyse_sql(spark: SparkSession, sql: str) -> JavaObject:
    """The analysed plan of one query. Nothing is executed, not even a command. Raises TempuraError as :func:`parse_sql` and
    :func:`analyse` do."""
    return analyse(spark, parse_sql(spark, sql))


def parse_sql(spark: SparkSession, sql: str) -> JavaObject:
    """The plan of one query, nothing in it resolved. Raises TempuraError INVALID_SQL (with Spark's message and position), NOT_A_QUERY."""
    with _spoken():
        parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    _refuse_command(spark, parsed)
    return parsed


def analyse(spark: SparkSession, parsed: JavaObject) -> JavaObject:
    """The analysed plan of a parsed one. Raises TempuraError UNKNOWN_TABLE, UNKNOWN_COLUMN, UNKNOWN_FUNCTION, INVALID_SQL, NOT_A_QUERY."""
    state = spark._jsparkSession.sessionState()
    with _spoken():
        analysed = state.executePlan(parsed, getattr(state, "executePlan$default$2")()).analyzed()
    _refuse_command(spark, analysed)
    return analysed


@contextmanager
def _spoken() -> Iterator[None]:
    """Spark's errors as ours."""
    try:
        with _quiet():
            yield
    except PySparkException as error:
        raise _analysis_error(error) from error


def _analysis_error(error: PySparkException) -> TempuraError:
    condition = (error.getCondition() or "").split(".")[0]
    code, remedy = _CODES.get(condition, ("INVALID_SQL", ""))
    text = str(error).split("JVM stacktrace:")[0].strip()
    if code == "INVALID_SQL":
        return TempuraError(code, sentence_and_place(text), remedy)
    sentence = re.sub(r"^\[\S+\] | SQLSTATE: \w+", "", text.splitlines()[0])
    position = re.search(r"line \d+,? pos \d+", text)
    return TempuraError(code, sentence.split(";")[0] + (f" At {position[0]}." if position else ""), remedy)


def sentence_and_place(text: str) -> str:
    """Spark's message in one line: without its drawing of the statement, which follows, but with the position."""
    said = text.split("\n\n== SQL")[0].split(";\n")[0]
    return " ".join(said.split())


def first_line(error: Exception) -> str:
    """What an exception says first; its class when it says nothing. Of one from Java that is what Java says: which of the gateway's
    numbered objects was called (``o123.sql``) tells nobody anything, and is another number the next time."""
    lines = (_CALLED.sub("", line).strip().removeprefix(": ") for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)


_CALLED = re.compile(r"^An error occurred while calling \S+?\.?( Trace:)?$")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PySpark's log record of an error that is reported to the user anyway."""
    # Made by PySpark's own function: a logger of another class would make PySpark fail when it reports an error.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _refuse_command(spark: SparkSession, plan: JavaObject) -> None:
    if compiled(spark, "Walk").isCommand(plan):
        raise TempuraError(
            "NOT_A_QUERY", f"The statement is a command ({class_of(plan)}).", "Give one SELECT statement."
        )


# --- optimizer ------------------------------------------------------------------------------------------------------


def optimise(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The plan after Catalyst's batches without the rules in :data:`SKIPPED`. The session must be the thread's active
    one.

    Sub-queries of IN and EXISTS become semi and anti joins at the end of a pass, with plans not optimised so far; more
    passes see to those.
    """
    optimizer = spark._jsparkSession.sessionState().optimizer()
    return compiled(spark, "Rules").apply(optimizer, plan, "\n".join(SKIPPED), MAX_PASSES)


def contains(spark: SparkSession, plan: JavaObject, pattern: str) -> bool:
    """Whether a plan, its expressions or their sub-queries have one of Catalyst's tree patterns."""
    return bool(compiled(spark, "Walk").has(plan, pattern))
