"""Tables that get more columns, on Spark: older files are read as they arrived."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.sources.widening import add_columns
from tempura.warehouse.table import Table
from tempura.warehouse.warehouse import Warehouse


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark)


def rows(table: Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in table.df().collect()), key=str)


def widen(table: Table, column: str) -> None:
    stored = table._arrivals
    engine = stored.site.engine
    add_columns(stored.site.declarations, engine, table.name, stored.spec, engine.parse_schema(column).fields)


def test_older_files_are_read_as_they_arrived(wh: Warehouse, spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    def write(sql: str, day: int) -> None:
        spark.sql(sql).coalesce(1).write.parquet(str(lake / f"day={day}"))

    write("SELECT 1 id, 'no number' price", 1)
    table = wh.add_table("t", path=lake, schema="id INT, day INT")
    plain = wh.add_query("plain", "SELECT day, count(*) n FROM t GROUP BY day")
    star = wh.add_query("star", "SELECT * FROM t")
    inner = wh.add_query("inside", "SELECT count(*) n FROM (SELECT DISTINCT * FROM t)")
    for query in (plain, star, inner):
        query.run()
    widen(table, "price DECIMAL(7,2)")
    write("SELECT 2 id, 2.50BD price", 2)
    # The column's type is the declared one: a literal has the smallest.
    with pytest.raises(TempuraError, match="column price has type"):
        wh.table("t").df()
    for file in (lake / "day=2").glob("*"):
        file.unlink()
    (lake / "day=2").rmdir()
    write("SELECT 2 id, CAST(2.5 AS DECIMAL(7,2)) price", 2)
    write("SELECT 3 id", 3)
    found = [(row[0], row[1], row[2] and float(row[2])) for row in wh.table("t").df().collect()]
    assert sorted(found, key=str) == [(1, 1, None), (2, 2, 2.5), (3, 3, None)]
    again = wh.query("plain")
    again.run()
    assert again.verify()
    for name in ("star", "inside"):
        with pytest.raises(TempuraError) as error:
            wh.query(name).run()
        assert error.value.code == "QUERY_CHANGED"
        wh.replace_query(name)
        wh.query(name).run()
        assert wh.query(name).verify()
    assert wh.query("star").result().count() == 3
    # A query that is built on the table's rows reads one table, in however many ways its files are read.
    frame = wh.table("t").df()
    built = wh.add_query("built", df=frame.groupBy("price").count())
    built.run()
    assert built.verify()
    assert built.result().count() == 2


def test_new_columns_of_files_are_added_with_their_types(wh: Warehouse, spark: SparkSession, tmp_path: Path) -> None:
    lake, texts = tmp_path / "lake", tmp_path / "texts"
    texts.mkdir()
    spark.sql("SELECT 1 id").coalesce(1).write.parquet(str(lake / "day=1"))
    (texts / "a.json").write_text('{"id": 1}\n')
    table = wh.add_table("t", path=lake, new_columns="add")
    told = wh.add_table("j", path=texts, format="json", new_columns="add")
    assert rows(table) == [(1, 1)]
    assert rows(told) == [(1,)]
    query = wh.add_query("q", "SELECT t.id, count(*) n FROM t JOIN j USING (id) GROUP BY t.id")
    query.run()
    new = "SELECT 2 id, array(named_struct('a', CAST(1.5 AS DECIMAL(9,3)))) parts, TIMESTAMP'2026-01-01 10:00:00' at"
    spark.sql(new).coalesce(1).write.parquet(str(lake / "day=2"))
    (texts / "b.json").write_text('{"id": 2, "tags": ["x"]}\nno record\n')
    with pytest.raises(TempuraError, match="'no record' is not a record"):
        wh.table("j").df()
    (texts / "b.json").write_text('{"id": 2, "tags": ["x"]}\n{"id": 3}\n')
    query.run()
    assert query.verify()
    assert wh.table("t").schema.simpleString() == (
        "struct<id:int,day:int,parts:array<struct<a:decimal(9,3)>>,at:timestamp>"
    )
    assert wh.table("j").schema.simpleString() == "struct<id:bigint,tags:array<string>>"
    found = wh.table("t").df().selectExpr("id", "parts[0].a * 2", "day").collect()
    assert sorted((row[0], row[1] and float(row[1]), row[2]) for row in found) == [(1, None, 1), (2, 3.0, 2)]
    assert [(row[0], row[1]) for row in sorted(wh.table("j").df().collect())] == [(1, None), (2, ["x"]), (3, None)]
