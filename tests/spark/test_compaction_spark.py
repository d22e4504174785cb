"""Arrivals that are stored together on Spark: the same rows, to the bit, in fewer files; ids and transactions on DataFrames."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.errors import TempuraError

SCHEMA = "k INT, d DOUBLE, s STRING COLLATE UTF8_LCASE, m MAP<STRING, INT>, i INTERVAL DAY TO SECOND"
VALUES = (
    "(1, 0.0D, 'a', map('x', 1, 'y', 2), INTERVAL '1' DAY), (1, -0.0D, 'A', map('y', 2, 'x', 1), NULL)",
    "(2, double('NaN'), NULL, NULL, NULL), (2, 0.1D, 'b', map(), NULL)",
    "(3, 1e16D, 'c', NULL, NULL), (3, 1.0D, 'c', NULL, NULL), (3, 1.0D, 'c', NULL, NULL)",
    "(4, 0.3D, '', NULL, INTERVAL '2' HOUR)",
)


def rows(spark: SparkSession, values: str) -> DataFrame:
    columns = "CAST(s AS STRING COLLATE UTF8_LCASE) AS s, CAST(m AS MAP<STRING, INT>) AS m"
    interval = "CAST(i AS INTERVAL DAY TO SECOND) AS i"
    return spark.sql(f"SELECT k, d, {columns}, {interval} FROM VALUES {values} AS t(k, d, s, m, i)")


def texts(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def test_rows_stored_together_are_the_same_to_the_bit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Floats that are added, and lists that are collected, from rows in another order than before stay exact."""
    for module in ("commits.spans", "tables.compact", "commits.ledger"):
        monkeypatch.setattr(f"tempura.warehouse.{module}.FAN", 2)
    wh = tp.open(tmp_path / "wh", spark=spark)
    table = wh.add_table("t", schema=SCHEMA)
    query = wh.add_query(
        "q", sql="SELECT k, SUM(d) AS total, SORT_ARRAY(COLLECT_LIST(d)) AS all, COUNT(*) AS n FROM t GROUP BY k"
    )
    for values in VALUES[:3]:
        table.append(rows(spark, values), id=values)
        table.append(rows(spark, values), id=values)
    query.run()
    table.delete(rows(spark, "(1, -0.0D, 'A', map('y', 2, 'x', 1), NULL), (3, 1.0D, 'c', NULL, NULL)"))
    table.append(rows(spark, VALUES[3]))
    table.delete(rows(spark, "(1, 0.0D, 'a', map('x', 1, 'y', 2), INTERVAL '1' DAY)"))
    assert (0, 4) in table.arrivals.blocks.now().blocks
    before = texts(table.df())
    assert len(before) == 5
    assert any("-0.0" in text for text in before) is False
    query.run()
    assert query.verify()
    wh.gc()
    assert texts(table.df()) == before
    table.append(rows(spark, VALUES[0]))
    query.run()
    assert query.verify()


def test_a_transaction_of_dataframes_is_all_or_nothing(spark: SparkSession, tmp_path: Path) -> None:
    wh = tp.open(tmp_path / "wh", spark=spark)
    wh.add_table("a", schema="k INT", keys=["k"])
    wh.add_table("b", schema="k INT")
    one, two = spark.range(1).selectExpr("CAST(id AS INT) AS k"), spark.range(2).selectExpr("CAST(id AS INT) AS k")

    def pushed() -> None:
        with wh.transaction(id="x") as t:
            t.table("b").append(two)
            t.table("b").delete(one)
            t.table("a").append(one)

    pushed()
    pushed()
    assert [wh.table(name).df().count() for name in "ab"] == [1, 1]

    def refused() -> None:
        with wh.transaction() as t:
            t.table("b").append(two)
            t.table("a").append(one)

    with pytest.raises(TempuraError, match="DUPLICATE_KEY"):
        refused()
    with pytest.raises(TempuraError, match="ID_REUSED"):
        wh.table("a").append(one, id="x")
    assert wh.status()["tables"]["b"]["version"] == 1
