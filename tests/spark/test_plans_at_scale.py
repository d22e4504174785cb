"""Plans of known queries by statistics as of scale 1: a hundredth of the data, with a hundred times the rows. Nothing is executed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.rel import Aggregate, Join, Rel, scans
from tempura.algebra.states import MergeStates, Partial
from tempura.bench.planning import Planning, Tables
from tempura.bench.scenario import PRICES, SHARES
from tempura.cli import demo
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.data.tpcds import generate, query_texts
from tempura.frontend.lift import lift_sql
from tempura.plan.progressive import ProgressivePlan, Save
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.runs.situation import without_deletions

GROWTH = 100
ALWAYS_AS_LARGE = ("nation", "region")
A_DAY = Planning("tpch", 1.0, shares=SHARES["pdw"], prices=PRICES["pdw"])
REFRESHES = Planning("tpch", 1.0, scenario="ivm", shares=(Fraction(1), Fraction(1, 100), Fraction(1, 100)))


def grown(facts: TableFacts) -> TableFacts:
    """A table of so many times the rows, each of which has its own keys as before."""
    columns = {name: grown_column(name, stats) for name, stats in facts.columns.items()}
    return replace(facts, inserted=tuple(GROWTH * n for n in facts.inserted), columns=columns)


def grown_column(name: str, stats: ColumnStats) -> ColumnStats:
    """A hundred times the values if they tell the rows of a table that has grown."""
    if not name.endswith("key") or name.endswith(("nationkey", "regionkey")):
        return stats
    high = None if stats.high is None else GROWTH * stats.high
    return replace(stats, distinct=GROWTH * stats.distinct, high=high, frequent={})


Told = Callable[[Planning], Tables]
"""What is known of the tables, of which orders and lines arrive as is planned."""


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    return cache(partial(tables, spark))


def tables(spark: SparkSession, planning: Planning) -> Tables:
    found = Tables.of(spark, generate(1 / GROWTH, suite="tpch"), planning.coming)
    facts = {name: own if name in ALWAYS_AS_LARGE else grown(own) for name, own in found.facts.items()}
    assert max(facts["lineitem"].inserted) > 6_000_000
    return replace(found, facts=facts)


def plan(rel: Rel, planning: Planning, facts: Mapping[str, TableFacts], methods: str) -> ProgressivePlan:
    read = {scan.table: facts[scan.table] for scan in scans(rel)}
    whole = Problem(rel, planning.points, read, as_written=without_deletions(read, planning.times))
    return make_plan(whole.at(whole.worth_working), [methods])


def saves(found: ProgressivePlan) -> Iterator[Save]:
    return (save for step in found.steps for save in step.saves)


# --- one state of an aggregation ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def q18(spark: SparkSession, told: Told) -> Rel:
    """Orders of more than 300 pieces: a sub-query sums the lines of each order, and those are summed once more for the result."""
    return lift_sql(spark, query_texts("tpch")["q18"], told(A_DAY).schemas).rel


def by_order(found: ProgressivePlan) -> dict[str, Save]:
    """The states of aggregations by nothing but the number of the order, by what they are of."""
    kinds = (Aggregate, Partial, MergeStates)
    return {
        save.key.expression: save
        for save in saves(found)
        if isinstance(save.rel, kinds) and [key.column.name for key in save.rel.keys] == ["l_orderkey"]
    }


@pytest.mark.slow
@pytest.mark.parametrize(("methods", "planning"), [("im2", A_DAY), ("im2", REFRESHES), ("all", REFRESHES)])
def test_lines_that_are_summed_twice_by_order_have_one_state(
    q18: Rel, told: Told, methods: str, planning: Planning
) -> None:
    found = plan(q18, planning, told(planning).facts, methods)
    (state,) = by_order(found).values()
    assert state.size > 0.9 * found.state_bytes, "whatever else is kept is not by order either"


@pytest.mark.slow
def test_by_the_first_method_what_is_kept_of_large_orders_is_no_second_one(q18: Rel, told: Told) -> None:
    """Where sums are kept once more they are those of orders that have been found to be large, a hundredth of all."""
    found = plan(q18, A_DAY, told(A_DAY).facts, "im1")
    of_all, *others = sorted(by_order(found).values(), key=lambda save: -save.size)
    assert not any(isinstance(rel, Join) for rel in of_all.rel.walk())
    assert all(50 * save.size < of_all.size for save in others)
    assert others, "the case is none of two"


# --- the demo ----------------------------------------------------------------------------------------------------------


def of_the_demo(spark: SparkSession, name: str, methods: str, told: Told) -> ProgressivePlan:
    """The plan of one of the demo's queries when its first rows have come, at the demo's own scale."""
    found = told(A_DAY)
    (example,) = (example for example in demo.EXAMPLES if example.name == name)
    facts = {table: own if table == demo.FACT else whole(own) for table, own in found.facts.items()}
    return plan(lift_sql(spark, example.sql, found.schemas).rel, A_DAY, facts, methods)


def whole(facts: TableFacts) -> TableFacts:
    """All rows are there from the start."""
    return replace(facts, inserted=(facts.inserted[-1],) * len(facts.inserted), static=True, append_only=False)


def test_the_demo_is_planned_as_its_day_goes() -> None:
    assert next(option for option in demo.demo.params if option.name == "scale").default == 1.0
    shares = [a / sum(SHARES["pdw"]) for a in accumulate(SHARES["pdw"])]
    assert list(demo.SHARES) == pytest.approx(shares[:-1])
    assert tuple(demo.PRICES.values()) == A_DAY.prices


@pytest.mark.slow
def test_of_the_demo_sums_by_brand_and_nation_are_worked_ahead(spark: SparkSession, told: Told) -> None:
    """ "Sums add up": and so does the story, for the plan that is chosen of all is clearly cheaper than to recompute."""
    found, recomputed = (of_the_demo(spark, "margin", methods, told) for methods in ("all", "batch"))
    assert {save.key.kind for save in saves(found)} == {"state"}
    assert found.cost < 0.75 * recomputed.cost
    assert found.steps[-1].cost < 0.5 * recomputed.steps[-1].cost, "when the result is due"
    assert not found.steps[-1].asked


@pytest.mark.slow
def test_of_the_demo_medians_are_recomputed(spark: SparkSession, told: Told) -> None:
    """ "Read once, when the result is due": nothing is done before, nothing is kept, and to work ahead would take longer."""
    found, ahead = (of_the_demo(spark, "median", methods, told) for methods in ("all", "im1"))
    assert found.method == "batch"
    assert not list(saves(found))
    assert [step.cost > 0 for step in found.steps] == [False, False, True]
    assert found.cost < 0.75 * ahead.cost
