"""A program for a process of its own: Delta and Iceberg tables as tables of a warehouse, in a session with their packages.

Prints DONE at the end. Arguments: a folder, and the packages.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.warehouse import Table, Warehouse


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


def refused(table: Table) -> str:
    try:
        table.df()
    except TempuraError as error:
        return error.code
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
    assert refused(table) == "FEED_OFF"


def iceberg(spark: SparkSession, wh: Warehouse, path: Path) -> None:
    spark.sql("CREATE TABLE ice.db.t (id BIGINT) USING iceberg")
    spark.range(3).writeTo("ice.db.t").append()
    table = wh.add_table("i", path=path, format="iceberg")
    assert ids(table.df()) == [0, 1, 2]
    spark.range(7, 8).writeTo("ice.db.t").append()
    spark.range(9, 10).writeTo("ice.db.t").append()
    assert ids(table.df()) == [0, 1, 2, 7, 9]
    spark.sql("DELETE FROM ice.db.t WHERE id = 7")
    assert refused(table) == "FEED_NOT_APPENDED"


def main(folder: Path, packages: str) -> None:
    spark = session(folder, packages)
    wh = tp.open(folder / "wh", spark=spark)
    delta(spark, wh, folder / "delta")
    iceberg(spark, wh, folder / "ice" / "db" / "t")
    spark.stop()
    print("DONE", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
