"""Results that only get rows, on Spark: written as what comes, read as a whole, exact whatever the types, duplicates and order."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.cost.model import SPARK
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.warehouse import Warehouse, open_site

JOINED = """SELECT s.id, s.price, k.name, CAST(NULL AS VOID) AS nothing, array(s.id, NULL) AS both, make_ym_interval(s.id, 1) AS span
    FROM sales s JOIN kinds k ON s.id % 3 = k.id WHERE s.price > 1"""
SORTED = "SELECT id, price FROM sales WHERE price > 1 ORDER BY price DESC, id"
LATE = "SELECT k.id, k.name, s.price FROM kinds k LEFT JOIN sales s ON k.id = s.id"


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    # Parts of a few rows would be written again rather than kept apart.
    monkeypatch.setattr("tempura.execute.spark.parts_to_keep", lambda stored, *_: len(stored.parts))
    # To write a row takes as long as to open a third of a file, so that results of a few thousand are large.
    prices = replace(SPARK, write_row=1_000_000)
    wh = open_site(tmp_path / "wh", SparkEngine(lambda: spark, prices), Files())
    wh.add_table("sales", schema="id INT, price DECIMAL(9, 2)").append(sales(spark, 0, 40))
    kinds = spark.sql("SELECT * FROM VALUES (0, 'a'), (1, 'b'), (1, 'b'), (2, NULL), (50, 'c') AS t(id, name)")
    wh.add_table("kinds", schema="id INT, name STRING").append(kinds)
    return wh


def sales(spark: SparkSession, low: int, high: int) -> DataFrame:
    """Each row twice."""
    rows = spark.range(low, high).selectExpr("CAST(id AS INT) AS id", "CAST(id / 4 AS DECIMAL(9, 2)) AS price")
    return rows.union(rows)


def parts(query: Query) -> list[int]:
    output = query.steps()[-1].output
    assert output is not None
    return [part.rows for part in output.parts]


def test_rows_that_come_are_appended_whatever_their_types(spark: SparkSession, wh: Warehouse) -> None:
    query = wh.add_query("joined", sql=JOINED, schedule=tp.Schedule.view())
    query.run(methods="im1")
    counts = parts(query)
    (first,) = counts
    for low in (40, 44, 48):
        wh.table("sales").append(sales(spark, low, low + 4))
        query.run(methods="im1")
        assert query.verify(), low
        counts.append(2 * sum(2 if i % 3 == 1 else 1 for i in range(low, low + 4)))
        assert parts(query)[0] == first
        assert sum(parts(query)) == sum(counts)
        assert query.changes().groupBy("_change").sum("_count").collect() == [("insert", counts[-1])]
        assert 0 in [state["bytes"] for state in query.states()], "the result is the state"
    assert query.result().count() == sum(counts)
    wh.gc(keep=1)
    assert query.verify()


def test_one_that_has_not_changed_has_no_change(spark: SparkSession, wh: Warehouse) -> None:
    query = wh.add_query("joined", sql=JOINED, schedule=tp.Schedule.view())
    query.run(methods="im1")
    wh.table("sales").append(spark.sql("SELECT 7 AS id, 0.5BD AS price"))
    query.run(methods="im1")
    assert query.verify()
    assert query.changes().collect() == []
    wh.table("kinds").append(spark.sql("SELECT 3 AS id, 'nobody' AS name"))
    query.run(methods="im1")
    assert query.verify()
    assert query.changes().collect() == []


def test_a_result_in_an_order_is_read_and_published_in_it(spark: SparkSession, wh: Warehouse, tmp_path: Path) -> None:
    query = wh.add_query("sorted", sql=SORTED, schedule=tp.Schedule.view())
    path = query.output(tmp_path / "mart")
    for low in (40, 44):
        query.run(methods="im1")
        wh.table("sales").append(sales(spark, low, low + 4))
    query.run(methods="im1")
    assert len(parts(query)) == 3
    rows = [tuple(row) for row in query.result().collect()]
    assert rows == sorted(rows, key=lambda row: (-row[1], row[0]))
    assert [tuple(row) for row in spark.read.parquet(str(path)).collect()] == rows, "one sorted whole"


def test_what_is_published_without_an_order_shares_its_files(
    spark: SparkSession, wh: Warehouse, tmp_path: Path
) -> None:
    query = wh.add_query("late", sql=LATE, schedule=tp.Schedule.view())
    path = query.output(tmp_path / "mart")
    query.run(methods="im2")
    files = [names(path)]
    # A row that finds a partner takes away that it had none; others only add.
    for rows in [spark.sql(f"SELECT {id} AS id, {price}BD AS price") for id, price in ((1, 9), (50, 1), (50, 1))]:
        wh.table("sales").append(rows)
        query.run()
        assert query.verify()
        published = spark.read.parquet(str(path))
        assert bag(published) == bag(query.result())
        files.append(names(path))
    assert not files[1] & files[2], "a row went"


def names(path: Path) -> set[str]:
    return {file.name for file in path.resolve().glob("*.parquet")}


def bag(rows: DataFrame) -> list[str]:
    return sorted(row[0] for row in rows.selectExpr("CAST(struct(*) AS STRING)").collect())


def test_an_early_run_prepares_what_the_deadline_adds_to(spark: SparkSession, wh: Warehouse) -> None:
    day = tp.Schedule.progressive({"08:00": 0.1, "12:00": 0.1, "20:00": 1.0})
    query = wh.add_query("joined", sql=JOINED, schedule=day)
    for low, at in ((40, "08:00"), (44, "12:00"), (48, "20:00")):
        wh.table("sales").append(sales(spark, low, low + 4))
        query.run(at=at, force=True, methods="im1")
    assert query.verify()
    assert parts(query)[1:] == [10], "the deadline only adds what has come since noon"
    wh.gc(keep=1)
    assert query.verify()


TYPED = JOINED.replace("CAST(NULL AS VOID) AS nothing, ", "")
KIND = "SELECT s.id, s.price, k.name FROM sales s LEFT JOIN kinds k ON s.id % 100 = k.id"
TOTALS = (
    "SELECT id % 1000 AS k, CAST(sum(price) AS DECIMAL(20, 2)) AS total, max(id) AS last FROM sales GROUP BY id % 1000"
)
NUMBERED = """SELECT id, price, row_number() OVER (PARTITION BY id % 50 ORDER BY price DESC, id) AS nth, CAST(id AS DOUBLE) / 0 AS endless
    FROM sales WHERE price > 1 ORDER BY id, nth"""


@pytest.mark.parametrize(
    "sql", [TYPED, SORTED, KIND, TOTALS, NUMBERED], ids=["typed", "sorted", "outer", "totals", "numbered"]
)
def test_few_rows_that_go_are_put_beside_the_others(
    spark: SparkSession, wh: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    """Whoever reads the result, its changes, what is published of it and the view over it sees rows, each as often as it is there."""
    monkeypatch.setattr("tempura.physical.deletions.LARGE_BYTES", 0)
    monkeypatch.setattr("tempura.physical.deletions.PART", 1.0)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        wh.table("sales").append(sales(spark, 100, 4_000))
        query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view())
        path, feed = query.output(tmp_path / "mart"), query.output(tmp_path / "feed", mode="changes")
        wh.add_table("above", query="q", keys=[])
        query.run(methods="im1")
        names = query.result().columns
        above = wh.add_query("over", sql=f"SELECT count(*) AS n, count({names[1]}) AS m FROM above")
        changed: list[Callable[[], object]] = [
            lambda: wh.table("sales").delete(spark.sql("SELECT 7 AS id, 1.75BD AS price")),
            lambda: wh.table("sales").append(spark.sql("SELECT 7 AS id, 1.75BD AS price UNION ALL SELECT 3000, 5BD")),
            lambda: wh.table("sales").delete(sales(spark, 200, 205)),
        ]
        signed = 0
        for change in changed:
            before = bag(query.result())
            change()
            query.run(methods="im1")
            assert query.verify()
            output = query.steps()[-1].output
            assert output is not None
            signed += any(part.weighted for part in output.parts)
            now = query.result()
            assert output.rows == now.count()
            assert bag(spark.read.parquet(str(path))) == bag(now)
            rows = query.changes()
            assert count_of(rows, "insert") - count_of(rows, "delete") == len(bag(now)) - len(before)
            above.run()
            assert above.result().collect()[0][0] == len(bag(now))
            wh.gc(keep=2)
        fed = spark.read.parquet(str(feed))
        assert fed.filter("_change = 'insert'").count() - fed.filter("_change = 'delete'").count() == now.count()
        assert signed, "some result had parts that take rows away"
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def count_of(changes: DataFrame, kind: str) -> int:
    return changes.filter(f"_change = '{kind}'").selectExpr("coalesce(sum(_count), 0)").collect()[0][0]  # type: ignore[no-any-return]
