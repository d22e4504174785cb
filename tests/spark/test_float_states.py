"""Sums, variances and covariances of floats on Spark: merged while a table grows, computed again for the groups that lose rows, and
what is taken away is always what was emitted."""

from collections.abc import Iterator
from dataclasses import replace
from math import isclose, isnan
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.rel import scans
from tempura.cost.stats import ColumnStats
from tempura.frontend.lift import lift_sql
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.random_queries import Table
from tests.spark.steps import Run, schema_of

SCHEMAS = {"r": "id INT, g STRING, x DOUBLE, y DOUBLE, f FLOAT", "names": "name STRING, other INT"}
VALUES = ", ".join(
    f"{call} AS v{i}"
    for i, call in enumerate(
        (
            *("var_pop(x)", "var_samp(x)", "stddev_pop(y)", "stddev_samp(y)", "covar_pop(x, y)", "covar_samp(y, x)"),
            *("sum(x)", "avg(y)", "sum(f)", "avg(f)", "count(x)", "max(y)", "sum(x) FILTER (WHERE y > 0)"),
            *("covar_pop(x, y) FILTER (WHERE id % 3 = 0)", "stddev_samp(id)"),
        )
    )
)
QUERIES = {
    "grouped": f"SELECT g, {VALUES} FROM r GROUP BY g",
    "total": f"SELECT {VALUES} FROM r",
    "having": "SELECT g, sum(x) AS s, var_pop(y) AS v FROM r GROUP BY g HAVING count(*) > 2",
    "joined": "SELECT g, other, s, v FROM (SELECT g, sum(x) AS s, var_pop(y) AS v FROM r GROUP BY g) JOIN names ON g = name",
}
CHANGES = (40, 5, 7, -6, 6, -20, 3)
"""How many rows come, or go, at each time."""


def random_row(random: Random, id: int) -> Row:
    """Groups are of very different sizes, one is of NULLs only; some values are far from 0 and near each other."""
    group = random.choice(("a", "a", "a", "b", "none", None, f"once {id}"))
    if group == "none":
        return (id, group, None, None, None)
    x = random.choice((None, 0.0, -0.0, 0.1, 1e9 + random.random(), random.gauss(0, 1)))
    y = random.choice((None, 1e6 + random.random(), random.random()))
    return (id, group, x, y, random.choice((None, 0.5, 3.25)))


def arrivals(changes: tuple[int, ...]) -> Iterator[SignedBag]:
    """Random rows that come, and of those some that go."""
    random = Random(5)
    rows: list[Row] = []
    for number in changes:
        if number > 0:
            added = [random_row(random, len(rows) + i) for i in range(number)]
            rows += added
            yield SignedBag.of(added)
        else:
            gone = random.sample(rows, -number)
            rows = [row for row in rows if row not in gone]
            yield -SignedBag.of(gone)


NAMES = Table("names", (SignedBag.of([("a", 1), ("a", 2), ("b", 3), ("none", 4)]),) + (SignedBag(),) * 6, static=True)


def close(found: object, expected: object) -> bool:
    """Equal up to rounding: of a value that is the difference of large ones, the error is theirs."""
    if not isinstance(found, float) or not isinstance(expected, float):
        return found == expected
    return (isnan(found) and isnan(expected)) or isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)


def in_order(bag: SignedBag) -> list[Row]:
    """The rows by what tells them apart and is not rounded."""
    return sorted(bag.rows(), key=lambda row: str([value for value in row if not isinstance(value, float)]))


EACH_TIME = {("grouped", True), ("total", False)}
"""With keys and without, which are two ways to do a state again; in each of both modes. ``script/test-full`` runs all."""

CASES = [
    pytest.param(name, legacy, id=f"{name}-{'nan' if legacy else 'null'}", marks=() if each else pytest.mark.full)
    for name in QUERIES
    for legacy in (False, True)
    for each in [(name, legacy) in EACH_TIME]
]


@pytest.mark.parametrize(("name", "legacy"), CASES)
def test_what_follows_from_states_is_what_spark_computes(
    spark: SparkSession, tmp_path: Path, name: str, legacy: bool
) -> None:
    sql = QUERIES[name]
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.statisticalAggregate", str(legacy).lower())
    run = Run(session, tmp_path, {"r": Table("r", tuple(arrivals(CHANGES))), "names": NAMES}, SCHEMAS)
    query = lift_sql(session, sql, {table: schema_of(ddl) for table, ddl in SCHEMAS.items()}).rel
    # As if there were ten million rows in a hundred thousand groups: to begin anew would not pay.
    facts = {scan.table: run.tables[scan.table].facts(len(CHANGES)) for scan in scans(query)}
    many = replace(facts["r"], inserted=tuple(10**7 + n for n in facts["r"].inserted), columns={"g": ColumnStats(1e5)})
    plan = make_plan(Problem(query, (Point(1.0, True),) * len(CHANGES), {**facts, "r": many}), ("im1",))
    for step, change in zip(plan.steps[1:], CHANGES[1:], strict=True):
        used = {note.rule for note in step.notes.values()}
        again = "state_without_keys" if name == "total" else "state_by_groups"
        assert used & {"merge_state", again} == {"merge_state" if change > 0 else again}, (step.time, used)
    for t, found in enumerate(run.results(plan, len(query.columns))):
        expected = SignedBag.of(tuple(row) for row in run.batch(sql, t).collect())
        assert len(in_order(found)) == len(in_order(expected)), (t, found, expected)
        for row, right in zip(in_order(found), in_order(expected), strict=True):
            assert all(map(close, row, right)), f"{t}: {row}\n{right}"
