"""Refreshes and resets on Spark: folders with partitions and types whose equality is not identity, and which tables a text reads."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.frontend.session import clone
from tempura.warehouse.commits.files import Files
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    session = clone(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    engine = SparkEngine(lambda: session)
    return open_site(tmp_path / "wh", engine, Files(), lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))


def write(spark: SparkSession, folder: Path, rows: str, name: str) -> None:
    """One Parquet file with rows, given as SQL values, as another program writes it: new, not over an old one."""
    scratch = folder.parent / f"scratch-{time.time_ns()}"
    typed = "CAST(id AS INT) AS id, CAST(x AS DOUBLE) AS x, CAST(m AS MAP<STRING, INT>) AS m"
    spark.sql(f"SELECT {typed} FROM VALUES {rows} AS t(id, x, m)").coalesce(1).write.parquet(str(scratch))
    folder.mkdir(parents=True, exist_ok=True)
    next(scratch.glob("*.parquet")).replace(folder / name)


def test_a_compacted_folder_with_partitions(spark: SparkSession, wh: Warehouse, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write(spark, lake / "day=1", "(1, -0.0D, map('a', 1)), (1, 0.0D, map('a', 1)), (1, 0.0D, map('a', 1))", "a.parquet")
    write(spark, lake / "day=1", "(2, double('NaN'), NULL)", "b.parquet")
    write(spark, lake / "day=2", "(3, NULL, map())", "c.parquet")
    table = wh.add_table("t", path=lake)
    query = wh.add_query("q", "SELECT day, COUNT(*) AS n, SUM(id) AS s FROM t GROUP BY day", schedule=Schedule.view())
    query.run(methods="im1")
    # Two files become one, without one of the equal rows and with a row more; another is touched.
    rows = "(2, double('NaN'), NULL), (1, -0.0D, map('a', 1)), (1, 0.0D, map('a', 1)), (4, 0.0D, NULL)"
    write(spark, lake / "day=1", rows, "all.parquet")
    for name in ("a.parquet", "b.parquet"):
        (lake / "day=1" / name).unlink()
    os.utime(lake / "day=2" / "c.parquet", (5, 5))
    with pytest.raises(TempuraError) as error:
        query.run()
    assert error.value.code in ("FILE_GONE", "FILE_CHANGED")
    assert table.refresh() == 2
    assert [(a["inserted"], a["deleted"]) for a in table.history()] == [(5, 0), (1, 1)]
    assert query.verify()  # the result of before, whose files are known by their second names
    query.run(methods="im1")
    assert query.verify()
    assert sorted(map(tuple, query.result().collect())) == [(1, 4, 8), (2, 1, 3)]
    assert table.df().count() == 5
    wh.gc()
    write(spark, lake / "day=3", "(9, 1.0D, NULL)", "d.parquet")
    query.run(methods="im1")
    assert query.verify()
    table.reset()
    query.run(methods="im1")
    assert query.verify()
    assert query.result().count() == 3


def test_text_files_are_compared_by_their_rows(spark: SparkSession, wh: Warehouse, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "a.csv").write_text("at,n\n2026-01-01 00:00:00,1\n2026-01-02 00:00:00,2\n")
    (lake / "b.csv").write_text("n,at\n3,2026-01-03 00:00:00\n")
    table = wh.add_table("t", path=lake, format="csv", schema="at TIMESTAMP, n DECIMAL(10, 2)")
    query = wh.add_query("q", "SELECT SUM(n) AS s, MAX(at) AS m FROM t", schedule=Schedule.view())
    query.run()
    (lake / "a.csv").unlink()
    (lake / "c.csv").write_text("n,at\n1.00,2026-01-01 00:00:00\n5,2026-01-02 00:00:00\n")
    with pytest.raises(TempuraError) as error:
        query.run()
    assert error.value.code == "FILE_GONE"
    table.refresh()
    assert (table.history()[-1]["inserted"], table.history()[-1]["deleted"]) == (1, 1)
    query.run()
    assert query.verify()


def test_a_table_that_a_text_only_names_is_read(wh: Warehouse) -> None:
    wh.add_table("t", schema="id INT")
    wh.add_table("u", schema="id INT, t INT")
    wh.add_query("q", "SELECT u.t FROM u WHERE id IN (SELECT id FROM t WHERE FALSE)", schedule=Schedule.view())
    wh.add_query("p", "SELECT t FROM u", schedule=Schedule.view())
    assert wh.table("t").read_by == ("q",)
    assert wh.table("u").read_by == ("q", "p")
    with pytest.raises(TempuraError) as error:
        wh.remove_table("t")
    assert error.value.code == "TABLE_IN_USE"
    wh.remove_query("q")
    wh.remove_table("t")


def test_states_in_a_renamed_query_are_loaded(spark: SparkSession, wh: Warehouse) -> None:
    table = wh.add_table("t", schema="k INT, v INT")
    query = wh.add_query("q", "SELECT k, SUM(v) AS s FROM t GROUP BY k", schedule=Schedule.view())
    table.append(spark.sql("SELECT CAST(id % 3 AS INT) AS k, CAST(id AS INT) AS v FROM range(100)"))
    query.run(methods="im1")
    renamed = wh.rename_query("q", "sums")
    table.append(spark.sql("SELECT 1 AS k, 1 AS v"))
    renamed.run(methods="im1")
    assert renamed.verify()
    assert [entry.n for entry in renamed.history()] == [1, 2]
