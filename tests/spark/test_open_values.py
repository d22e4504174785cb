"""What only Spark shows of values that SQL leaves open, and of rows for which an expression fails."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.warehouse.warehouse import Warehouse

BIG = 1 << 60


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark, clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))


def test_min_and_max_of_zeros_with_either_sign_verify_after_a_delete(spark: SparkSession, wh: Warehouse) -> None:
    ddl = "g INT, x DOUBLE, a ARRAY<DOUBLE>"
    zeros = [(i % 5, (-0.0, 0.0)[(i // 5) % 2], [(-0.0, 0.0)[(i // 7) % 2]]) for i in range(60)]
    table = wh.add_table("t", schema=ddl)
    sql = "SELECT g, min(x) AS least, max(x) AS most, min(a) AS first FROM t GROUP BY g"
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view(30))
    table.append(spark.createDataFrame(zeros, ddl))
    query.run(methods="im1")
    for i in range(3):
        table.delete(spark.createDataFrame(zeros[i : i + 1], ddl))
        table.append(spark.createDataFrame([(1, 1.0, [1.0])], ddl))
        query.run(methods="im1")
        assert query.result().count() == 5, "no stale rows"
        assert query.verify(), str(query.verify())


def test_avg_of_bigint_above_2_to_the_53_verifies(spark: SparkSession, wh: Warehouse) -> None:
    ddl = "g INT, x BIGINT, i INT"
    rows = [(i % 5, BIG + 7919 * i, i) for i in range(100)]
    table = wh.add_table("t", schema=ddl)
    query = wh.add_query("q", sql="SELECT g, avg(x) AS a, avg(i) AS b FROM t GROUP BY g", schedule=tp.Schedule.view(30))
    for i in range(3):
        table.append(spark.createDataFrame(rows[i * 30 : i * 30 + 30], ddl))
        if i:
            table.delete(spark.createDataFrame(rows[2 * i : 2 * i + 2], ddl))
        query.run(methods="im1")
        assert query.result().count() == 5, "no stale rows"
        assert query.verify(), str(query.verify())


def test_eager_aggregation_does_not_cast_rows_that_join_nothing(spark: SparkSession, wh: Warehouse) -> None:
    facts, names = wh.add_table("facts", schema="k INT, s STRING"), wh.add_table("names", schema="k INT, name STRING")
    sql = "SELECT name, sum(CAST(s AS INT)) AS total FROM facts f JOIN names n ON f.k = n.k GROUP BY name"
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view(30))
    good = [(i % 3, str(i)) for i in range(300)]
    names.append(spark.createDataFrame([(0, "a"), (1, "b"), (2, "a")], "k INT, name STRING"))
    facts.append(spark.createDataFrame([*good, (9, "no number")], "k INT, s STRING"))
    query.run()
    facts.append(spark.createDataFrame([(1, "5"), (8, "none either")], "k INT, s STRING"))
    query.run(methods="im1")
    assert query.verify(), str(query.verify())
    facts.append(spark.createDataFrame([(1, "bad")], "k INT, s STRING"))
    facts.delete(spark.createDataFrame([(1, "bad")], "k INT, s STRING"))
    query.run(methods="im1")
    assert query.verify(), "a row that came and went is never cast"
