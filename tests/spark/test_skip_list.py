"""The list of Catalyst's rules that are not run fits the Spark at hand: each is there or known to be missing, each rule that is run
was looked at, and what the rules leave is in the algebra or has a reason."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tempura.data.tpcds import generate, query_texts
from tempura.frontend.catalyst import SKIPPED, simple_name
from tempura.frontend.java import each
from tempura.frontend.lift import lift_sql
from tests.spark.hostile_queries import QUERIES, TABLES
from tests.spark.versions import since

HIVE_ONLY = {"PruneHiveTablePartitions"}
BEFORE_4_1 = {"MergeScalarSubqueries"}
AFTER_4_0 = {
    "CollapseGroupedSumOfCount", "MarkSingleTaskExecution", "MergeSubplans", "OptimizeExpand", "PullOutVariantExtractions",
    "PushDownJoinThroughUnion",
}  # fmt: skip

RUN = """
    BooleanSimplification CleanUpTempCTEInfo CollapseProject CollapseRepartition CollapseWindow ColumnPruning CombineConcats
    CombineUnions ConstantFolding ConstantPropagation ConvertToCatalyst EliminateAggregateFilter EliminateDistinct EliminateLimits
    EliminateOffsets EliminateOuterJoin EliminateSerialization EliminateSorts EliminateWindowPartitions FinishAnalysis
    FoldablePropagation GenerateOptimization InferFiltersFromConstraints InferFiltersFromGenerate InlineCTE LikeSimplification
    NullDownPropagation NullPropagation OptimizeCsvJsonExprs OptimizeIn OptimizeJoinCondition OptimizeOneRowPlan
    OptimizeOneRowRelationSubquery OptimizeRand OptimizeRepartition OptimizeUpdateFields OptimizeWindowFunctions PruneFilters
    PullOutNestedDataOuterRefExpressions PullUpProjectAliasThroughWindow PullupCorrelatedPredicates PushDownLeftSemiAntiJoin
    PushDownPredicates PushExtraPredicateThroughJoin PushFoldableIntoBranches PushLeftSemiLeftAntiThroughJoin
    PushPredicateThroughJoin PushPredicateThroughNonJoin PushProjectionThroughLimit PushProjectionThroughLimitAndOffset
    PushProjectionThroughUnion PushdownPredicatesAndPruneColumnsForCTEDef RemoveLiteralFromGroupExpressions RemoveNoopOperators
    RemoveNoopUnion RemoveRedundantAggregates RemoveRedundantAliases RemoveRedundantSorts RemoveRepetitionFromGroupExpressions
    ReorderAssociativeOperator ReorderJoin ReplaceDeduplicateWithAggregate ReplaceDistinctWithAggregate ReplaceExceptWithAntiJoin
    ReplaceExceptWithFilter ReplaceIntersectWithSemiJoin ReplaceNullWithFalseInPredicate ReplaceUpdateFieldsExpression
    RewriteCorrelatedScalarSubquery RewriteExceptAll RewriteIntersectAll RewriteLateralSubquery RewriteNonCorrelatedExists
    RewritePredicateSubquery RewriteWithExpression SimplifyBinaryComparison SimplifyCaseConversionExpressions SimplifyCasts
    SimplifyConditionals SimplifyDateTimeConversions SimplifyExtractValueOps TransposeWindow UnwrapCastInBinaryComparison
    UpdateAttributeNullability
"""
"""Rules of any supported version that hold for every content of the tables, one row at a time or one bag at a time."""

SURPRISES = {
    "UNKNOWN_OPERATOR",
    "OPTIMIZER",
    "SUBQUERY",
    "CORRELATED",
    "HIDDEN_COLUMN",
    "MISPLACED_AGGREGATE",
    "CTE",
    "LOCAL_LIMIT",
}
"""Reasons that only a rule which is wrongly run, or wrongly left out, can give."""

LEFT_OVER = {
    # An EXISTS in an EXISTS: reason CORRELATED.
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM t c WHERE c.v < u.w AND c.g = 'b'))",
}
"""What is not lifted and could be."""


@pytest.fixture(scope="module")
def names(spark: SparkSession) -> set[str]:
    batches = spark._jsparkSession.sessionState().optimizer().batches()
    return {simple_name(rule.ruleName()) for batch in each(batches) for rule in each(batch.rules())}


def test_every_skipped_rule_is_there_or_known_to_be_missing(names: set[str]) -> None:
    assert set(SKIPPED) - names == HIVE_ONLY | (BEFORE_4_1 if since(4, 1) else AFTER_4_0)


def test_every_rule_that_is_run_was_looked_at(names: set[str]) -> None:
    assert names - set(SKIPPED) - set(RUN.split()) == set()


@pytest.mark.parametrize("group", QUERIES)
def test_nothing_outside_of_the_algebra_is_left_of_hostile_queries(spark: SparkSession, group: str) -> None:
    tables = {name: StructType.fromDDL(ddl) for name, ddl in TABLES.items()}
    lifted = {sql: lift_sql(spark, sql, tables) for sql in QUERIES[group]}  # type: ignore[arg-type]
    found = {sql for sql, query in lifted.items() if {r.code for r in query.reasons} & SURPRISES}
    assert found == {sql for sql in QUERIES[group] if sql in LEFT_OVER}


@pytest.mark.slow
@pytest.mark.parametrize("suite", [pytest.param("tpcds", marks=pytest.mark.full), "tpch"])
def test_nothing_outside_of_the_algebra_is_left_of_the_benchmarks(spark: SparkSession, suite: str) -> None:
    dataset = generate(0.01, suite=suite)
    tables = {name: spark.read.parquet(f"file:{dataset.file(name)}").schema for name in dataset.tables}
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        lifted = {name: lift_sql(spark, text, tables) for name, text in query_texts(suite).items()}
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    assert {name: query.reasons for name, query in lifted.items() if {r.code for r in query.reasons} & SURPRISES} == {}
