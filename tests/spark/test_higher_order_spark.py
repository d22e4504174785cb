"""Higher-order views on Spark: what rows add to states is forced to come from views, and gives what Spark gives at every time."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import scans
from tempura.cost.stats import ColumnStats
from tempura.frontend.lift import lift_sql
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.random_queries import Table
from tests.spark.bags import signed_bag
from tests.spark.steps import Run, schema_of

SCHEMAS = {
    "sales": "o INT, cat STRING, price DECIMAL(7,2)",
    "returns": "r INT, cost DECIMAL(7,2), n INT",
    "rates": "cat2 STRING, rate DECIMAL(4,3)",
}
A, B, C = Decimal("10.50"), Decimal("-0.05"), Decimal("99999.99")
TABLES = {
    "sales": Table(
        "sales",
        (
            SignedBag.of([(1, "x", A), (1, "x", A), (2, "y", C), (3, None, B), (None, "x", A), (4, "y", None)]),
            SignedBag.of([(2, "x", C), (5, "y", A)]) - SignedBag.of([(1, "x", A)]),
            SignedBag.of([(3, "y", None)]) - SignedBag.of([(2, "y", C)]),
        ),
    ),
    "returns": Table(
        "returns",
        (
            SignedBag.of([(1, B, 1), (1, None, 2), (2, C, None), (None, A, 3), (1, B, 1)]),
            SignedBag.of([(4, None, 5), (2, A, 1)]) - SignedBag.of([(1, None, 2)]),
            SignedBag.of([(5, B, 2)]) - SignedBag.of([(2, C, None), (1, B, 1)]),
        ),
    ),
    "rates": Table(
        "rates",
        (
            SignedBag.of([("x", Decimal("1.500")), ("x", Decimal("0.001")), ("y", None), (None, Decimal("1.000"))]),
            SignedBag.of([("y", Decimal("-2.250"))]),
            SignedBag.of([("y", Decimal("9.999"))]) - SignedBag.of([("x", Decimal("1.500"))]),
        ),
    ),
}
"""NULLs as keys and values, rows that repeat, and all tables change at once."""

VIEW = (Point(1.0, True),) * 3
QUERIES = {
    "state_delta_by_padded_views": """SELECT cat, SUM(IF(cost IS NULL, price, -cost)) AS gross, COUNT(cost) AS c, AVG(price - cost) AS a
        FROM sales LEFT JOIN returns ON o = r GROUP BY cat""",
    "state_delta_by_views": """SELECT cat, SUM(price * rate - cost) AS net, COUNT(*) AS rows, AVG(rate * cost) AS a,
        SUM(CASE WHEN n > 1 THEN price WHEN n = 1 THEN cost ELSE 0 END) AS chosen, SUM(n) FILTER (WHERE price > 0) AS n
        FROM sales JOIN returns ON o = r JOIN rates ON cat = cat2 GROUP BY cat""",
    "delta_multi_join_by_views": """SELECT o, cat, price, cost, rate FROM sales JOIN returns ON o = r JOIN rates ON cat = cat2""",
}

STATES = ("state_delta", "state_delta_without_views", "delta_aggregate_by_groups", "delta_aggregate_against_stored")
OTHERS = {
    "state_delta_by_padded_views": STATES,
    "state_delta_by_views": STATES,
    "delta_multi_join_by_views": ("delta_multi_join", "delta_inner_join", "delta_inner_join_left_old"),
}
"""The deltas of which views are another form."""


@pytest.mark.parametrize("rule", QUERIES)
def test_views_give_what_spark_gives(spark: SparkSession, tmp_path: Path, rule: str) -> None:
    session = spark.newSession()
    query = lift_sql(session, QUERIES[rule], {table: schema_of(ddl) for table, ddl in SCHEMAS.items()}).rel
    few = {name: ColumnStats(3.0) for ddl in SCHEMAS.values() for name in schema_of(ddl).names}
    facts = {scan.table: replace(TABLES[scan.table].facts(3), columns=few) for scan in scans(query)}
    large = {n: replace(f, inserted=tuple(10_000_000 + rows for rows in f.inserted)) for n, f in facts.items()}
    plan = make_plan(Problem(query, VIEW, large), ("hov",), without=OTHERS[rule])
    assert rule in {note.rule for step in plan.steps for note in step.notes.values()}
    run = Run(session, tmp_path, TABLES, SCHEMAS)
    given = run.results(plan, len(query.columns))
    assert given == [signed_bag(run.batch(QUERIES[rule], t), len(query.columns)) for t in range(3)]
    assert given[0] != given[1] != given[2]
