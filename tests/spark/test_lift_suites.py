"""Every query of TPC-DS and TPC-H, lifted and run by the executor over generated data, gives Spark's rows."""

import pytest
from pyspark.sql import SparkSession

from tempura.data.tpcds import generate, query_texts
from tempura.frontend.lift import lift_sql
from tempura.frontend.session import clone
from tests.spark.roundtrip import result
from tests.spark.test_hostile_queries import bag

FULL_SCALE, SCALE = 0.1, 0.01
REPRESENTATIVE = {
    "tpcds": ("q5", "q8", "q14", "q51", "q69", "q97"),
    "tpch": ("q13", "q21", "q22"),
}
"""Grouping sets, set operations, shared sub-plans, existence joins, windows, outer joins, correlated sub-queries."""


class Suite:
    """A suite's tables, as temporary views of a session of their own, and its queries."""

    def __init__(self, spark: SparkSession, suite: str, scale: float) -> None:
        self.session = clone(spark)
        self.session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
        dataset = generate(scale, suite=suite)
        self.tables = {name: self.session.read.parquet(f"file:{dataset.file(name)}") for name in dataset.tables}
        for name, rows in self.tables.items():
            rows.createOrReplaceTempView(name)
        self.queries = query_texts(suite)

    def problem(self, name: str) -> str | None:
        """What is wrong with a query's rows."""
        lifted = lift_sql(self.session, self.queries[name], {t: rows.schema for t, rows in self.tables.items()})
        ours, theirs = result(self.session, lifted, self.tables), self.session.sql(self.queries[name])
        if [type for _, type in ours.dtypes] != [type for _, type in theirs.dtypes]:
            return f"{name}: types {ours.dtypes}, should be {theirs.dtypes}"
        found, wanted = bag(ours), bag(theirs)
        return None if found == wanted else f"{name}: extra {found - wanted}, missing {wanted - found}"

    def problems(self, names: tuple[str, ...]) -> list[str]:
        """What is wrong with some queries' rows."""
        return [problem for problem in map(self.problem, names) if problem]


@pytest.mark.slow
@pytest.mark.parametrize("suite", REPRESENTATIVE)
def test_some_queries_come_back(spark: SparkSession, suite: str) -> None:
    assert Suite(spark, suite, SCALE).problems(REPRESENTATIVE[suite]) == []


@pytest.mark.full
@pytest.mark.sweep
@pytest.mark.parametrize("suite", REPRESENTATIVE)
def test_all_queries_come_back(spark: SparkSession, suite: str) -> None:
    whole = Suite(spark, suite, FULL_SCALE)
    assert whole.problems(tuple(whole.queries)) == []
