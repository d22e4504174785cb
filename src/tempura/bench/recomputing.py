"""A program as somebody writes it who has Spark and no Tempura: it starts Spark, reads folders of Parquet files, and writes each query's
result to a folder. ``python -m tempura.bench.recomputing``, with what to do as JSON in its one argument; it imports nothing else of
Tempura, but for the session that Tempura starts where it is asked for that.

The JSON object has ``tables`` (a folder by name), ``queries`` (a text by name), ``out`` (the folder to write to), ``settings`` of Spark,
and ``session``: whether to have the settings of Tempura's sessions and its archive of classes, too.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def main(asked: Mapping[str, Any]) -> None:
    """Recompute the queries one after the other."""
    spark = _tempuras(asked["settings"]) if asked["session"] else _plain(asked["settings"])
    for table, folder in asked["tables"].items():
        spark.read.parquet(folder).createOrReplaceTempView(table)
    for name, sql in asked["queries"].items():
        spark.sql(sql).write.mode("overwrite").parquet(f"{asked['out']}/{name}")
    spark.stop()


def _plain(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[*]").appName("recomputing")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _tempuras(settings: Mapping[str, str]) -> SparkSession:
    from tempura.frontend.start import start_session

    return start_session("recomputing", config=settings)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
