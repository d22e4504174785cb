"""References of tables on Spark: rows are looked up as by hand, whatever came and went, and results stay exact."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.batches import keys
from tempura.warehouse.warehouse import Warehouse

PAIRS, ITEMS = "a INT, b STRING, price INT", "n INT, a INT, b STRING, amount INT"
SQL = "SELECT p.price, count(*) AS n, sum(i.amount) AS s FROM items i JOIN pairs p ON i.a = p.a AND i.b = p.b GROUP BY p.price"
Key = tuple[int | None, str | None]


def declared(spark: SparkSession, folder: Path) -> Warehouse:
    wh = tp.open(folder, spark=spark)
    wh.add_table("pairs", schema=PAIRS, keys=["b", "a"])
    wh.add_table("items", schema=ITEMS, references={"a, b": "pairs(a, b)"})
    wh.add_query("q", sql=SQL, schedule=tp.Schedule.view())
    return wh


@pytest.mark.parametrize("by", ["driver", "spark"])
def test_rows_are_looked_up_as_by_hand(
    spark: SparkSession, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "spark":
        monkeypatch.setattr(keys, "_MOST_KEYS", -1)
    random, wh = Random(3), declared(spark, tmp_path)
    query, there, items = wh.query("q"), set[tuple[int, str]](), dict[int, Key]()
    outcomes = set[bool]()
    for step in range(5):
        new = [(a, b) for a in range(6) for b in "xy" if (a, b) not in there and random.random() < 0.5]
        gone = [pair for pair in sorted(there) if random.random() < 0.1]
        referred: list[Key] = [(random.choice((None, *range(6))), random.choice((None, "x", "y"))) for _ in range(2)]
        came = {10 * step + i: key for i, key in enumerate([*referred, *random.sample(sorted(there) + new, 1)])}
        left = [n for n in sorted(items) if random.random() < 0.2]
        if new:
            wh.table("pairs").append(spark.createDataFrame([(a, b, 1) for a, b in new], "a INT, b STRING, price INT"))
        if gone:
            wh.table("pairs").delete(spark.createDataFrame([(a, b, 1) for a, b in gone], "a INT, b STRING, price INT"))
        wh.table("items").append(spark.createDataFrame([(n, *key, n) for n, key in came.items()], ITEMS))
        if left:
            wh.table("items").delete(spark.createDataFrame([(n, *items[n], n) for n in left], ITEMS))
        there = there.union(new) - set(gone)
        items = {n: key for n, key in {**items, **came}.items() if n not in left}
        lost = {n for n, key in items.items() if None not in key and key not in there}
        outcomes.add(bool(lost))
        if lost:
            with pytest.raises(TempuraError) as error:
                query.run()
            assert error.value.code == "REFERENCE_BROKEN"
            assert any(f"'n': {n}," in error.value.what for n in lost)
            missing = {key for n, key in items.items() if n in lost and None not in key}
            rows = [(a, b, 1) for a, b in missing]
            wh.table("pairs").append(spark.createDataFrame(rows, "a INT, b STRING, price INT"))
            there |= {(a, b) for a, b in missing if a is not None and b is not None}
        query.run()
        assert query.verify(), step
    assert outcomes == {True, False}


def test_files_that_come_together_are_maintained_by_one_side(spark: SparkSession, tmp_path: Path) -> None:
    wh = tp.open(tmp_path / "wh", spark=spark)

    def arrive(i: int) -> None:
        orders = spark.range(1000 * i, 1000 * i + 1000).selectExpr("id AS o", "id % 7 AS c")
        lines = spark.range(3000).selectExpr(f"{1000 * i} + id % 1000 AS o", "id AS v")
        for name, rows in (("orders", orders), ("lines", lines)):
            rows.write.mode("append").parquet(str(tmp_path / name))

    arrive(0)
    wh.add_table("orders", path=tmp_path / "orders", keys=["o"])
    wh.add_table("lines", path=tmp_path / "lines", references={"o": "orders.o"})
    joined = "SELECT c, sum(v) AS s FROM lines JOIN orders USING (o) GROUP BY c"
    queries = [wh.add_query("joined", sql=joined, schedule=tp.Schedule.view())]
    alone = "SELECT count(*) AS n, sum(v) AS s FROM lines LEFT JOIN orders USING (o)"
    queries.append(wh.add_query("alone", sql=alone, schedule=tp.Schedule.view()))
    for i in (1, 2):
        for query in queries:
            query.run(methods=["im1"])
            assert query.verify()
        arrive(i)
    plan = queries[0].plan(methods=["im1"]).explain()
    assert "lines[1:2]" in plan or "read lines" in plan
    assert "read orders" not in queries[1].plan(methods=["im1"]).explain()
