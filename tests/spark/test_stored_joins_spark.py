"""Outer joins whose change is told by the join as it was stored, on Spark: the laws are forced, and give what Spark gives at every time."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.frontend.lift import lift_sql
from tempura.memo.references import Keys
from tempura.rules.dsl import Rule
from tempura.rules.ojv_deltas import (
    delta_full_join_of_stored,
    delta_full_join_of_stored_on_left,
    delta_left_join_of_stored,
)
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.random_queries import Table
from tests.spark.bags import signed_bag
from tests.spark.steps import Run, schema_of

SCHEMAS = {"orders": "id INT, note STRING", "lines": "o INT, price INT, name STRING"}
ORDERS = [(1, "a"), (2, None), (3, "c"), (4, "d"), (None, "e")]
FIRST = [(1, 10, "x"), (1, 10, "x"), (2, 5, None), (3, 1, "z"), (7, 7, "y"), (None, 2, "w")]
COME, GO = [(4, 1, "x"), (8, 8, None), (None, 3, "w"), (1, 11, "v")], [(1, 10, "x"), (3, 1, "z"), (7, 7, "y")]
BACK = [(3, None, None), (7, 7, "y"), (7, 7, "y")]
LINES = (
    SignedBag.of(FIRST),
    SignedBag.of(COME) - SignedBag.of(GO),
    SignedBag.of(BACK) - SignedBag.of([COME[0], GO[0]]),
)
"""Orders that lose their last line, one of two equal ones, or get a first; lines of no order; NULLs on both sides."""

TABLES = {"orders": Table("orders", (SignedBag.of(ORDERS), SignedBag(), SignedBag())), "lines": Table("lines", LINES)}
QUERIES: dict[str, tuple[Rule, str]] = {
    "left": (delta_left_join_of_stored, "SELECT * FROM orders LEFT JOIN lines ON id = o"),
    "left with a residual": (delta_left_join_of_stored, "SELECT * FROM orders LEFT JOIN lines ON id = o AND price > 2"),
    "full": (delta_full_join_of_stored, "SELECT * FROM orders FULL JOIN lines ON id = o"),
    "full with a residual": (
        delta_full_join_of_stored,
        "SELECT * FROM orders FULL JOIN lines ON id = o AND name <> note",
    ),
    "full on the left": (delta_full_join_of_stored_on_left, "SELECT * FROM lines FULL JOIN orders ON id = o"),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_a_stored_join_tells_what_a_change_does(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    law, sql = QUERIES[kind]
    schemas = {name: schema_of(ddl) for name, ddl in SCHEMAS.items()}
    query = lift_sql(spark, sql, schemas).rel
    others = ("delta_of_affected_parts", "difference_of_snapshots", "delta_full_join", "delta_left_join_of_gains")
    facts = {name: table.facts(3) for name, table in TABLES.items()}
    facts["orders"] = replace(facts["orders"], keys=Keys(("id",)))
    plan = make_plan(Problem(query, (Point(1.0, output=True),) * 3, facts), ("ojv",), without=others)
    assert law.name in {note.rule for step in plan.steps for note in step.notes.values()}
    run, width = Run(spark, tmp_path, TABLES, SCHEMAS), len(query.columns)
    expected = [signed_bag(run.batch(sql, t), width) for t in range(3)]
    assert run.results(plan, width) == expected
