"""A program for a process of its own: Delta and Iceberg tables as tables of a warehouse, in a session with their packages.

Prints DONE at the end. Arguments: a folder, and the packages.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.warehouse import Warehouse


def session(folder: Path, packages: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", packages)
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
    }
    return builder.config(map=settings).getOrCreate()


def ids(rows: DataFrame) -> list[object]:
    return sorted(row[0] for row in rows.select("id").collect())


def refused(call: Callable[[], object]) -> TempuraError:
    try:
        call()
    except TempuraError as error:
        return error
    raise AssertionError("not refused")


def delta(spark: SparkSession, wh: Warehouse, path: Path) -> None:
    spark.range(4).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(path))
    table = wh.add_table("d", path=path, format="delta")
    query = wh.add_query("of_d", "SELECT count(*) AS n, sum(id) AS s FROM d")
    query.run()
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    spark.sql(f"UPDATE delta.`{path}` SET id = 10 WHERE id = 2")
    spark.range(20, 21).write.format("delta").mode("append").save(str(path))
    query.run()
    assert [tuple(row) for row in query.result().collect()] == [(4, 33)]
    assert query.verify()
    assert ids(table.df()) == [0, 3, 10, 20]
    assert [a.rows for a in table._arrivals.arrivals()] == [(4, 0), (2, 2)]
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    spark.range(30, 31).write.format("delta").mode("append").save(str(path))
    assert refused(table.df).code == "FEED_OFF"


def iceberg(spark: SparkSession, wh: Warehouse, path: Path) -> None:
    spark.sql("CREATE TABLE ice.db.t (id BIGINT) USING iceberg")
    spark.range(3).writeTo("ice.db.t").append()
    table = wh.add_table("i", path=path, format="iceberg")
    assert ids(table.df()) == [0, 1, 2]
    spark.range(7, 8).writeTo("ice.db.t").append()
    spark.range(9, 10).writeTo("ice.db.t").append()
    assert ids(table.df()) == [0, 1, 2, 7, 9]
    spark.sql("DELETE FROM ice.db.t WHERE id = 7")
    assert refused(table.df).code == "FEED_NOT_APPENDED"


def made(spark: SparkSession, folder: Path, format: str, name: str) -> Path:
    """A table of one column with two rows."""
    if format == "iceberg":
        spark.sql(f"CREATE TABLE ice.db.{name} (id BIGINT) USING iceberg")
        spark.range(2).writeTo(f"ice.db.{name}").append()
        return folder / "ice" / "db" / name
    path = folder / name
    spark.range(2).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(path))
    return path


def widened(spark: SparkSession, path: Path, format: str, name: str) -> None:
    """The table gets a column, and a row with a value in it."""
    row = spark.createDataFrame([(2, 5)], "id BIGINT, price INT")
    if format == "iceberg":
        spark.sql(f"ALTER TABLE ice.db.{name} ADD COLUMN price INT")
        row.writeTo(f"ice.db.{name}").append()
    else:
        row.write.format("delta").mode("append").option("mergeSchema", "true").save(str(path))


def new_columns(spark: SparkSession, wh: Warehouse, folder: Path, format: str, option: str) -> None:
    """What becomes of a column that a table of a lake gets after it was declared."""
    name = f"{format}_{option or 'default'}"
    path = made(spark, folder, format, name)
    table = wh.add_table(name, path=path, format=format, new_columns=option)
    query = wh.add_query(f"of_{name}", f"SELECT count(*) AS n, sum(id) AS s FROM {name}")
    query.run(methods="im1")
    widened(spark, path, format, name)
    if option == "ignore":
        for expected in (1, 0):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                assert [tuple(row) for row in table.df().orderBy("id").collect()] == [(0,), (1,), (2,)]
            assert sum("not read: price" in str(warning.message) for warning in told) == expected
    else:
        if option != "add":
            error = refused(table.df)
            assert error.code == "WRONG_SCHEMA", error
            assert 'new_columns = "add" or "ignore" in tempura.toml' in error.remedy
            assert f"tempura table alter {name} --add-column" in error.command
            assert wh.status()["tables"][name]["version"] == 1
            wh.alter_table(name, add_columns="price INT")
        rows = [tuple(row) for row in wh.table(name).df().orderBy("id").collect()]
        assert rows == [(0, None), (1, None), (2, 5)], rows
        assert wh.table(name).schema.simpleString() == "struct<id:bigint,price:int>"
    query = wh.query(query.name)
    query.run(methods="im1")
    assert [tuple(row) for row in query.result().collect()] == [(3, 3)]
    assert query.verify()


def ids_of_pushes(spark: SparkSession, wh: Warehouse, folder: Path, format: str) -> None:
    """Rows of a lake that a program pushes under an id arrive once, and so does each position of a feed, whoever looks."""
    name = f"{format}_pushed"
    path = made(spark, folder, format, name)

    def rows() -> DataFrame:
        return spark.read.format(format).load(str(path))

    pushed = wh.add_table(name, schema="id BIGINT")
    followed = wh.add_table(f"{name}_feed", path=path, format=format)
    assert [pushed.append(rows(), id="first") for _ in range(2)] == [1, 1]
    again = tp.open(wh.path, spark=spark)
    assert [ids(t.table(f"{name}_feed").df()) for t in (wh, again)] == [[0, 1], [0, 1]]
    assert followed.status()["version"] == 1
    more = spark.range(5, 6)
    if format == "iceberg":
        more.writeTo(f"ice.db.{name}").append()
    else:
        more.write.format(format).mode("append").save(str(path))
    assert refused(lambda: again.table(name).append(rows(), id="first")).code == "ID_REUSED"
    assert ids(pushed.df()) == [0, 1]
    assert [ids(t.table(f"{name}_feed").df()) for t in (again, wh)] == [[0, 1, 5], [0, 1, 5]]
    assert followed.status()["version"] == 2


def main(folder: Path, packages: str) -> None:
    spark = session(folder, packages)
    wh = tp.open(folder / "wh", spark=spark)
    delta(spark, wh, folder / "delta")
    iceberg(spark, wh, folder / "ice" / "db" / "t")
    for format in ("delta", "iceberg"):
        for option in ("add", "ignore", "refuse", ""):
            new_columns(spark, wh, folder, format, option)
        ids_of_pushes(spark, wh, folder, format)
    spark.stop()
    print("DONE", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
