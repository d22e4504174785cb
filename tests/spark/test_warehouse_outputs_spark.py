"""Published results and views over views on Spark, read back by Spark as any reader would."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp

TOTALS = "SELECT id % 5 AS `the key`, sum(price) AS total, max(price) / 3 AS third FROM sales GROUP BY id % 5"
ABOVE = "SELECT count(*) AS n, sum(total) AS total FROM sums WHERE `the key` > 0"


@pytest.mark.slow
def test_outputs_and_a_view_over_the_view(spark: SparkSession, tmp_path: Path) -> None:
    wh = tp.open(tmp_path / "wh", spark=spark)
    sales = wh.add_table("sales", schema="id INT, price DOUBLE")
    query = wh.add_query("totals", sql=TOTALS)
    whole = query.output(tmp_path / "marts" / "totals")
    by_key = query.output(tmp_path / "marts" / "by key+%20", mode="upsert", keys=["the key"])
    feed = query.output(tmp_path / "feed", mode="changes")
    wh.add_table("sums", query="totals", keys=["the key"])
    above = wh.add_query("above", sql=ABOVE)
    # Eighths have one sum in every order of addition: which rows of the result change is known.
    sales.append(spark.range(20).selectExpr("cast(id AS int) id", "id / 8 price").coalesce(1))
    steps: list[Callable[[], int]] = [
        lambda: 0,
        lambda: sales.append(spark.sql("SELECT 3 id, 2.5D price")),
        lambda: sales.delete(
            spark.sql("SELECT 5 id, 5 / 8D price UNION ALL SELECT 0, 0D UNION ALL SELECT 10, 10 / 8D")
        ),
        lambda: sales.delete(spark.sql("SELECT 15 id, 15 / 8D price")),
    ]
    for n, step in enumerate(steps, 1):
        step()
        assert query.run(methods="batch" if n == 2 else "all").n == n
        assert query.verify()
        wanted = sorted(tuple(row) for row in query.result().collect())
        for path in (whole, by_key):
            published = spark.read.parquet(str(path))
            assert published.columns == ["the key", "total", "third"]
            assert sorted(tuple(row) for row in published.collect()) == wanted
        fed = spark.read.parquet(str(feed)).selectExpr("*", "IF(_change = 'insert', 1, -1) AS _n")
        net = fed.groupBy("the key", "total", "third").sum("_n").filter("`sum(_n)` = 1")
        assert sorted(tuple(row)[:3] for row in net.collect()) == wanted
        above.run()
        assert above.verify()
    files = {p.name for p in by_key.resolve().glob("*.parquet")}
    before = [p for p in by_key.resolve().parent.iterdir() if p != by_key.resolve()]
    assert len(before) == 1
    # Only one key changed in the last step: files without it are the same files.
    assert files & {p.name for p in before[0].glob("*.parquet")}
    arrivals = wh.table("sums")._arrivals.arrivals()
    assert [a.rows for a in arrivals] == [(5, 0), (1, 1), (1, 1), (0, 1)]
