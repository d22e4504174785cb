"""What Spark counts on the way: the rows of joins, filters and aggregations as they were planned, and of others nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import tempura as tp
from tempura.execute.draft import Draft
from tempura.frontend.compiled import compiled
from tempura.warehouse.query import Query


@pytest.fixture
def counted(spark: SparkSession, tmp_path: Path) -> Callable[[Draft], dict[str, list[str]]]:
    """Writes the rows of a draft; gives what was counted by name: rows, the joins below."""

    def run(draft: Draft) -> dict[str, list[str]]:
        listener = compiled(spark, "Rows").listen(spark._jsparkSession)
        try:
            draft.dataframe().write.parquet(str(tmp_path / "out"))
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            lines = (line.split(" ") for line in listener.counted().splitlines())
            return {name: found for name, *found in lines}
        finally:
            listener.end(spark._jsparkSession)

    return run


def numbers(spark: SparkSession, path: Path, rows: int, groups: int, names: tuple[str, str]) -> Draft:
    """Numbers from 0 and their remainders, read from a file."""
    spark.range(rows).selectExpr("id AS a", f"id % {groups} AS g").write.parquet(str(path))
    return Draft.of(spark.read.parquet(str(path))).renamed(*names)


def test_operators_are_found_under_renamings(
    spark: SparkSession, tmp_path: Path, counted: Callable[[Draft], dict[str, list[str]]]
) -> None:
    left = numbers(spark, tmp_path / "left", 1_000, 10, ("a", "k"))
    right = numbers(spark, tmp_path / "right", 500, 5, ("b", "j"))
    joined = left.join(right, sf.col("k") == sf.col("j"), "inner").select("k", ("b", "c")).named("join")
    grouped = joined.aggregate(["k"], [sf.sum("c").alias("s")]).select("s", "k").named("groups")
    found = counted(grouped)
    assert found["join"][0] == str(500 * 100)
    assert found["groups"][0] == "5"
    assert found["groups"][1:] == ["join"]


def test_a_semi_join_that_spark_moves_is_told_by_what_it_ran_over(
    spark: SparkSession, tmp_path: Path, counted: Callable[[Draft], dict[str, list[str]]]
) -> None:
    left = numbers(spark, tmp_path / "left", 1_000, 10, ("a", "k"))
    right = numbers(spark, tmp_path / "right", 500, 5, ("b", "j"))
    some = numbers(spark, tmp_path / "some", 10, 5, ("c", "d"))
    joined = left.join(right, sf.col("k") == sf.col("j"), "inner").named("join")
    kept = joined.join(some, sf.col("b") == sf.col("c"), "left_semi").named("semi")
    found = counted(kept.aggregate(["k"], [sf.count("a").alias("n")]))
    assert found["semi"][1:] == [], "Spark has pushed it below the join"
    assert found["join"][1:] == ["semi"]


def test_a_refresh_is_estimated_by_what_the_one_before_it_counted(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("facts", "keys"):
        (tmp_path / name).mkdir()
    arrive(spark, tmp_path / "facts", 0)
    spark.range(50).selectExpr("id AS k").coalesce(1).write.parquet(str(tmp_path / "keys"), mode="overwrite")
    wh = tp.open(tmp_path / "wh", spark=spark)
    wh.add_table("facts", tmp_path / "facts", append_only=True)
    wh.add_table("keys", tmp_path / "keys", static=True)
    sql = "SELECT f.k, sum(v) AS s FROM facts f JOIN keys USING (k) WHERE g = 3 AND h = 3 GROUP BY f.k"
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view())
    query.run(methods=("im1",))
    arrive(spark, tmp_path / "facts", 1)
    query.run(methods=("im1",))
    (found,) = {found for found in last(query).values() if found[0] != 50}
    assert found[0] == 3_000
    assert found[1] < 2_500, "the two conditions say the same, which nobody knows before"
    arrive(spark, tmp_path / "facts", 2)
    query.run(methods=("im1",))
    lines = query.steps()[-1].plan.splitlines()
    joined, read = (next(line for line in lines if word in line) for word in ("inner-join", "read facts"))
    assert "as counted" in joined
    assert "as counted" not in read
    assert rows_of(joined) == pytest.approx(0.75 * rows_of(read), rel=0.01)


def arrive(spark: SparkSession, folder: Path, n: int) -> None:
    """4,000 rows with keys that are known, of which 3,000 have g = 3 and h = 3."""
    rows = spark.range(4_000).selectExpr("id % 50 AS k", "IF(id % 4 = 0, id % 1000 + 10, 3) AS g", "id AS v")
    rows = rows.withColumn("h", sf.col("g"))
    rows.coalesce(1).write.parquet(str(folder / f"part-{n}"))
    (file,) = (folder / f"part-{n}").glob("*.parquet")
    file.rename(folder / f"{n}.parquet")


def last(query: Query) -> dict[str, tuple[float, float]]:
    return dict(query.steps()[-1].counted)


def rows_of(line: str) -> int:
    """The rows that a line of a plan expects."""
    return int(line.partition("rows=")[2].partition("]")[0].split(" ")[0])
