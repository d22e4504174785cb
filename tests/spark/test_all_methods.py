"""All methods together never cost more than one alone, on every query of TPC-DS and TPC-H. Planned, not run."""

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.rel import scans
from tempura.bench.planning import Planning, Tables
from tempura.data.tpcds import generate, query_texts
from tempura.errors import TempuraError
from tempura.frontend.lift import lift_sql
from tempura.frontend.session import clone
from tempura.rules.methods import TEMPURA
from tempura.search.planner import make_plan
from tempura.search.problem import Problem

REPRESENTATIVE = {"tpcds": ("q3", "q5", "q16", "q51", "q69", "q97"), "tpch": ("q3", "q13", "q17", "q21")}
"""Stars, unions, distinct values, windows, existence joins, outer joins, correlated sub-queries."""


def cost(problem: Problem, method: str) -> int | None:
    """What the best plan of a method costs, searched for alone; None when it has none."""
    try:
        return make_plan(problem, (method,)).cost
    except TempuraError as error:
        if error.code == "NO_PLAN":
            return None
        raise


def dearer(spark: SparkSession, suite: str, names: tuple[str, ...]) -> dict[str, dict[str, int | None]]:
    """The queries on which some method alone is cheaper than all together, with all costs."""
    session = clone(spark)
    session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    planning = Planning(suite, 0.01)
    tables, texts = Tables.of(session, generate(planning.scale, suite=suite), planning.coming), query_texts(suite)
    found = {}
    for name in names or tuple(texts):
        query = lift_sql(session, texts[name], tables.schemas).rel
        problem = Problem(query, planning.points, {scan.table: tables.facts[scan.table] for scan in scans(query)})
        costs = {method: cost(problem, method) for method in (*TEMPURA.names_of(("all",)), "all")}
        known = [c for c in costs.values() if c is not None]
        assert len(known) > 2, f"{name}: {costs}"
        if costs["all"] is None or costs["all"] > min(known):
            found[name] = costs
    return found


@pytest.mark.slow
@pytest.mark.parametrize("suite", REPRESENTATIVE)
def test_all_together_cost_no_more_than_one_alone(spark: SparkSession, suite: str) -> None:
    assert dearer(spark, suite, REPRESENTATIVE[suite]) == {}


@pytest.mark.full
@pytest.mark.sweep
@pytest.mark.parametrize("suite", REPRESENTATIVE)
def test_all_together_cost_no_more_than_one_alone_on_every_query(spark: SparkSession, suite: str) -> None:
    assert dearer(spark, suite, ()) == {}
