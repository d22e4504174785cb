"""Rows of tables that have lost some, by the places of those, on Spark: the same rows as when deletions are set off against others."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.spark.places import places_of
from tempura.warehouse.spark.rows import plain_rows
from tempura.warehouse.table import Table
from tempura.warehouse.times.schedule import Schedule

SCHEMA = "k INT, s STRING, d DECIMAL(10,2), a ARRAY<INT>"
FIRST = "(1, 'a', 1.5, array(1)), (1, 'a', 1.5, array(1)), (2, NULL, NULL, NULL), (NULL, 'b', 0, array()), (3, 'c', 2, NULL)"


def rows(spark: SparkSession, values: str) -> DataFrame:
    named = "CAST(k AS INT) AS k, s, CAST(d AS DECIMAL(10,2)) AS d, CAST(a AS ARRAY<INT>) AS a"
    return spark.sql(f"SELECT {named} FROM VALUES {values} AS t(k, s, d, a)")


def texts(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def check(spark: SparkSession, table: Table, placed: bool) -> list[str]:
    """The keys that are left, read by places if these are known, and the same when deletions are set off."""
    source = table.arrivals.source(0, table.arrivals.version())
    assert source.rows.are_placed == placed
    found = texts(table.df())
    assert found == texts(plain_rows(spark, source.without_places()))
    return sorted(str(row.k) for row in table.df().collect())


def test_of_equal_rows_as_many_stay_as_are_not_deleted(spark: SparkSession, tmp_path: Path) -> None:
    wh = tp.open(tmp_path / "ware house+%41", spark=spark)
    table = wh.add_table("t", schema=SCHEMA)
    table.append(rows(spark, FIRST))
    table.delete(rows(spark, "(1, 'a', 1.5, array(1)), (2, NULL, NULL, NULL)"))
    assert check(spark, table, placed=True) == ["1", "3", "None"]
    table.append(rows(spark, "(1, 'a', 1.5, array(1)), (4, 'd', 4, NULL)"))
    table.delete(rows(spark, "(1, 'a', 1.5, array(1)), (NULL, 'b', 0, array())"))
    assert check(spark, table, placed=True) == ["1", "3", "4"]
    for missing in (
        "(2, NULL, NULL, NULL)",
        "(1, 'a', 1.5, array(1)), (1, 'a', 1.5, array(1))",
        "(3, 'c', 2, array(NULL))",
    ):
        with pytest.raises(TempuraError) as error:
            table.delete(rows(spark, missing))
        assert error.value.code == "DELETE_OF_MISSING"
    table.delete(table.df())
    assert check(spark, table, placed=True) == []


def test_rows_of_many_files_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    """Each file has a row of each number."""
    wh = tp.open(tmp_path / "wh", spark=spark)
    table = wh.add_table("t", schema="k BIGINT")
    table.append(spark.range(1000).selectExpr("id AS k").repartition(8))
    table.append(spark.range(1000, 1100).selectExpr("id AS k").repartition(3))
    gone = [k for k in range(1100) if k % 7 == 0]
    table.delete(spark.createDataFrame([(k,) for k in gone], "k BIGINT"))
    assert len(table.arrivals.arrivals()[-1].hit) == 11
    assert {row.k for row in table.df().collect()} == set(range(1100)) - set(gone)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("k INT, d DOUBLE", "SELECT 1 AS k, 0.0D AS d UNION ALL SELECT 1, -0.0D"),
        ("k INT, d STRING COLLATE UTF8_LCASE", "SELECT 1 AS k, d COLLATE UTF8_LCASE AS d FROM VALUES 'a', 'A' AS t(d)"),
        ("k INT, _metadata STRING", "SELECT 1 AS k, 'a' AS _metadata UNION ALL SELECT 1, 'b'"),
    ],
)
def test_what_equality_does_not_tell_apart_is_set_off(
    spark: SparkSession, tmp_path: Path, schema: str, text: str
) -> None:
    wh = tp.open(tmp_path / "wh", spark=spark)
    table = wh.add_table("t", schema=schema)
    both = spark.sql(text)
    table.append(both)
    table.delete(both.limit(1))
    assert check(spark, table, placed=False) == ["1"]


def test_results_over_tables_that_have_lost_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Maintained, recomputed by operators and asked as written; stored together with what is not theirs."""
    wh = tp.open(tmp_path / "wh", spark=spark)
    table = wh.add_table("t", schema=SCHEMA)
    other = wh.add_table("o", schema="k INT, name STRING", keys=["k"])
    other.append(spark.sql("SELECT * FROM VALUES (1, 'x'), (2, 'y'), (3, 'z') AS t(k, name)"))
    text = "SELECT o.name, COUNT(*) AS n, SUM(t.d) AS d FROM t JOIN o ON t.k = o.k GROUP BY o.name"
    query = wh.add_query("q", sql=text, schedule=Schedule.view())
    table.append(rows(spark, FIRST))
    query.run()
    for step in range(20):
        table.append(rows(spark, f"(3, 's{step}', {step}, NULL), (2, 's{step}', {step}, NULL)"))
        table.delete(rows(spark, f"(3, 's{step}', {step}, NULL)"))
        if step % 5 == 0:
            other.upsert(spark.sql(f"SELECT 2 AS k, 'y{step}' AS name"))
            query.run(methods="batch" if step % 10 else "all")
            assert query.verify()
    assert table.arrivals.blocks.now().blocks
    assert check(spark, table, placed=True).count("2") == 21
    query.run(methods="batch")
    assert query.verify()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT MAX(k) AS k, COUNT(DISTINCT s) AS s FROM t WHERE k < 3",
        "SELECT s, RANK() OVER (ORDER BY s) AS r FROM (SELECT s FROM t UNION ALL SELECT s FROM t WHERE k = 3)",
    ],
)
def test_results_go_by_places_and_verification_does_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Of two rows that are deleted one place is told for both, so that one of them stays."""

    def wrong(*given: Any) -> DataFrame:
        found = places_of(*given)
        return found.withColumn("_row", fn.min("_row").over(Window.partitionBy(fn.lit(1))))

    wh = tp.open(tmp_path / "wh", spark=spark)
    table = wh.add_table("t", schema=SCHEMA)
    query = wh.add_query("q", sql=text, schedule=Schedule.view())
    table.append(rows(spark, FIRST).coalesce(1))
    with monkeypatch.context() as patch:
        patch.setattr("tempura.warehouse.spark.spark_engine.places_of", wrong)
        table.delete(rows(spark, "(2, NULL, NULL, NULL), (1, 'a', 1.5, array(1))"))
    query.run(methods="batch")
    assert not query.verify()
