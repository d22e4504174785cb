"""Continuous joins as SQL, lifted by Spark's analyzer, with workers that are Spark tasks and a warehouse's table as sink."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tempura.streams.continuous import Stream

TABLES: dict[str, dict[str, list[Any]]] = {
    "orders": {"id": [1, 2, 3, None], "region": ["north", "south", "north", "east"]},
    "payments": {"order_id": [1, 1, 2, 9], "amount": [50, 5, 70, 90]},
    "shipments": {"order_id": [1, 2, 3], "weight": [1.5, 2.5, 3.5]},
}

SQL = """
SELECT o.id, upper(region) AS region, amount + 1 AS more, weight
FROM orders o JOIN payments p ON o.id = p.order_id JOIN (SELECT * FROM shipments WHERE weight < 3) s ON o.id = s.order_id
WHERE p.amount > 10
"""


def sources(batches: int = 1) -> dict[str, Stream]:
    def parts(name: str) -> Iterator[pa.RecordBatch]:
        for _ in range(batches):
            yield from pa.table(TABLES[name]).to_batches()

    return {n: tp.streams.given(lambda n=n: parts(n), pa.table(t).schema) for n, t in TABLES.items()}


def test_sql_runs_on_spark_tasks_into_a_table_of_a_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = tp.open(tmp_path / "warehouse", spark=spark)
    warehouse.add_table("joined", schema="id BIGINT, region STRING, more BIGINT, weight DOUBLE")
    target = tp.streams.table(warehouse, "joined")
    sql = SQL.replace("upper(region)", "region")
    with tp.streams.join(sql, sources(2), target, spark=spark, folder=tmp_path / "job", every=0.5) as job:
        assert job.wait(60)
    for name, columns in TABLES.items():
        twice = pa.concat_tables([pa.table(columns)] * 2)
        spark.createDataFrame(twice).createOrReplaceTempView(name)
    expected = Counter(map(tuple, spark.sql(sql).collect()))
    assert expected.total() > 8
    assert Counter(map(tuple, warehouse.table("joined").df().collect())) == expected


def test_a_table_joined_with_itself_has_one_source(spark: SparkSession) -> None:
    found: list[pa.RecordBatch] = []
    sql = "SELECT a.amount, b.amount AS other FROM payments a JOIN payments b ON a.order_id = b.order_id AND a.amount < b.amount"
    with tp.streams.join(sql, sources(), tp.streams.callback(found.append), spark=spark) as job:
        assert [input.name for input in job.plan.query.inputs] == ["payments", "payments_2"]
        assert job.wait(60)
    assert [tuple(r.values()) for b in found for r in b.to_pylist()] == [(5, 50, "insert")]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT o.id FROM orders o LEFT JOIN payments p ON o.id = p.order_id", "BAD_STREAM_JOIN.*no inner join"),
        ("SELECT region, count(*) FROM orders GROUP BY region", "BAD_STREAM_JOIN.*no inner join"),
        ("SELECT o.id FROM orders o JOIN payments p ON o.id = p.order_id ORDER BY 1", "BAD_STREAM_JOIN.*no order"),
        ("SELECT o.id FROM orders o JOIN payments p ON o.id < p.order_id", "BAD_STREAM_JOIN.*no equality connects"),
        (
            "SELECT soundex(region) AS s FROM orders o JOIN payments p ON o.id = p.order_id",
            "BAD_STREAM_JOIN.*is not computed in a continuous join",
        ),
        (
            "SELECT p.order_id, s.order_id FROM payments p JOIN shipments s ON p.order_id = s.order_id",
            "BAD_STREAM_JOIN.*two columns of the result have the name order_id",
        ),
        ("SELECT id FROM nowhere", "UNKNOWN_TABLE|UNKNOWN_SOURCE|BAD_STREAM_JOIN"),
    ],
)
def test_what_is_no_continuous_join_is_refused_before_anything_runs(spark: SparkSession, sql: str, says: str) -> None:
    with pytest.raises(TempuraError, match=rf"{says}"):
        tp.streams.join(sql, sources(), tp.streams.callback(print), spark=spark)
