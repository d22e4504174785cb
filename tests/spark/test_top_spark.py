"""The first rows of a table that only grows, merged with what arrives: Spark's own, at each time."""

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

import tempura as tp
from tempura.rules.core import snapshot_of_inputs
from tempura.rules.methods import IM1, TEMPURA

SCHEMA = "k INT, f DOUBLE, g STRING"
SQL = "SELECT k, f, g FROM t ORDER BY f DESC NULLS LAST, g, k LIMIT 4"
ARRIVALS = (
    [(1, 0.0, "b"), (2, -0.0, "a"), (3, None, None), (3, None, None)],
    [(4, float("nan"), "c"), (1, 0.0, "b"), (5, float("-inf"), None)],
    [(6, -1.0, "z")],
    [(7, float("inf"), ""), (8, float("nan"), None), (8, float("nan"), None)],
)


def test_what_arrives_is_merged_with_the_first_rows(spark: SparkSession, tmp_path: Path) -> None:
    # Of so few rows it would be cheaper to take the first again from all of them.
    rules = TEMPURA.with_method("merging", (rule for rule in IM1 if rule is not snapshot_of_inputs))
    warehouse = tp.open(tmp_path / "wh", spark=spark, rules=rules)
    table = warehouse.add_table("t", schema=SCHEMA)
    query = warehouse.add_query("top", sql=SQL)
    seen: list[tuple[object, ...]] = []
    for rows in ARRIVALS:
        table.append(spark.createDataFrame(rows, SCHEMA))
        seen += rows
        spark.createDataFrame(seen, SCHEMA).createOrReplaceTempView("t")
        report = query.run(methods=("merging",))
        assert not report.fallbacks
        found, expected = (Counter(map(repr, frame.collect())) for frame in (query.result(), spark.sql(SQL)))
        assert found == expected
