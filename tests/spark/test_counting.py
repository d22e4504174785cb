"""What Spark counts on the way: the rows of joins, filters and aggregations as they were planned, and of others nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import tempura as tp
from tempura.algebra.rel import Aggregate, Filter, Join, Rel, Union, Values
from tempura.algebra.scalar import TRUE
from tempura.execute.contract import Joins
from tempura.execute.counting import is_empty
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


def test_it_is_told_how_spark_joined(spark: SparkSession, tmp_path: Path) -> None:
    left = numbers(spark, tmp_path / "left", 1_000, 10, ("a", "k"))
    right = numbers(spark, tmp_path / "right", 500, 5, ("b", "j"))
    on = sf.col("k") == sf.col("j")
    listener = compiled(spark, "Rows").listen(spark._jsparkSession)
    try:
        for name, kind, sides in (
            ("sent", "inner", (left, right.broadcast())),
            ("first", "inner", (left.broadcast(), right)),
            ("held", "inner", (left, right.held())),
            ("full", "full", (left, right.broadcast())),
        ):
            sides[0].join(sides[1], on, kind).named(name).dataframe().write.parquet(str(tmp_path / name))
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        lines = (line.split("\t") for line in listener.joined().splitlines())
        found = {name: ways for name, *ways in lines}
    finally:
        listener.end(spark._jsparkSession)
    assert (found["sent"], found["first"], found["held"]) == (["right sent"], ["left sent"], ["right held"])
    assert found["full"] != ["right sent"], "no side of a full join can be sent"


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


def test_what_turned_out_to_be_empty_is_counted_though_spark_leaves_out_what_reads_it(
    spark: SparkSession, tmp_path: Path, counted: Callable[[Draft], dict[str, list[str]]]
) -> None:
    left = numbers(spark, tmp_path / "left", 1_000, 10, ("a", "k"))
    right = numbers(spark, tmp_path / "right", 500, 5, ("b", "j"))
    others = numbers(spark, tmp_path / "others", 100, 5, ("c", "d"))
    none = right.join(others, (sf.col("b") + 1_000) == sf.col("c"), "inner").select("j").named("none")
    found = counted(left.join(none.broadcast(), sf.col("k") == sf.col("j"), "inner").named("outer"))
    assert found["none"][0] == "0"
    assert "outer" not in found


def test_a_refresh_is_estimated_by_what_the_one_before_it_counted(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("facts", "keys"):
        (tmp_path / name).mkdir()
    arrive(spark, tmp_path / "facts", 0)
    spark.range(50).selectExpr("id AS k").coalesce(1).write.parquet(str(tmp_path / "keys"), mode="overwrite")
    wh = tp.open(tmp_path / "wh", spark=spark)
    wh.add_table("facts", tmp_path / "facts", append_only=True)
    wh.add_table("keys", tmp_path / "keys", static=True)
    sql = "SELECT f.k, sum(v) AS s FROM facts f JOIN keys USING (k) WHERE g = 3 AND h = 3 GROUP BY f.k"
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view(), require="incremental")
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


def test_a_run_tells_which_joins_spark_carried_out_otherwise_than_planned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("facts", "keys"):
        (tmp_path / name).mkdir()
    spark.range(50).selectExpr("id AS k").coalesce(1).write.parquet(str(tmp_path / "keys"), mode="overwrite")
    own = spark.newSession()
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    wh = tp.open(tmp_path / "wh", spark=own)
    wh.add_table("facts", tmp_path / "facts", append_only=True, schema="k BIGINT, g BIGINT, h BIGINT, v BIGINT")
    wh.add_table("keys", tmp_path / "keys", static=True)
    sql = "SELECT f.k, sum(v) AS s FROM facts f JOIN keys USING (k) GROUP BY f.k"
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view(), require="incremental")
    for n in range(2):
        arrive(spark, tmp_path / "facts", n)
        assert query.run(methods=("im1",)).joins == Joins(1)
    assert "join=right sent" in query.plan().explain("join")
    with monkeypatch.context() as deaf:
        deaf.setattr(Draft, "broadcast", lambda draft: draft)
        arrive(spark, tmp_path / "facts", 2)
        (told,) = query.run(methods=("im1",)).joins.otherwise
    assert told.startswith("inner-join")
    assert told.endswith(": sorted, planned right sent")
    assert [entry.joins for entry in wh.query("q").history()] == [Joins(1), Joins(1), Joins(0, (told,))]


def test_what_is_computed_once_and_what_is_empty_is_counted_too(spark: SparkSession, tmp_path: Path) -> None:
    """Orders come whole, so nothing of before has a key of what is new; Spark drops what would read that."""
    (tmp_path / "lines").mkdir()
    wh = tp.open(tmp_path / "wh", spark=spark)
    wh.add_table("lines", tmp_path / "lines", append_only=True, schema="k BIGINT, s BIGINT, late BOOLEAN")
    sql = """SELECT count(*) AS n FROM lines a WHERE late
             AND EXISTS (SELECT * FROM lines b WHERE b.k = a.k AND b.s <> a.s)
             AND NOT EXISTS (SELECT * FROM lines c WHERE c.k = a.k AND c.s <> a.s AND c.late)"""
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view(), require="incremental")
    for n in range(3):
        rows = spark.range(n * 3_000, (n + 1) * 3_000).selectExpr("id DIV 3 AS k", "id % 3 AS s", "id % 7 = 0 AS late")
        rows.coalesce(1).write.parquet(str(tmp_path / "new"))
        (file,) = (tmp_path / "new").glob("*.parquet")
        file.rename(tmp_path / "lines" / f"{n}.parquet")
        shutil.rmtree(tmp_path / "new")
        query.run(methods=("im1",))
    done, _, _ = query.steps()[-1].plan.partition("step refresh 4")
    lines = [line for line in done.splitlines() if "semi-join" in line]
    assert len(lines) > 2
    assert [line for line in lines if "as counted" not in line] == []
    assert any(rows_of(line) <= 1 for line in lines)
    assert not any(rows_of(line) > 3_000 for line in lines)
    assert query.verify().equal


@pytest.mark.parametrize(
    ("make", "empty"),
    [
        (lambda a, b: Join(a, b, "inner"), [(False, True), (True, False), (True, True)]),
        (lambda a, b: Join(a, b, "semi"), [(False, True), (True, False), (True, True)]),
        (lambda a, b: Join(a, b, "anti"), [(True, False), (True, True)]),
        (lambda a, b: Join(a, b, "left"), [(True, False), (True, True)]),
        (lambda a, b: Join(a, b, "full"), [(True, True)]),
        (lambda a, b: Union((a, b)), []),
        (lambda a, b: Filter(a, TRUE), [(True, False), (True, True)]),
        (lambda a, b: Aggregate(a, (), ()), []),
    ],
)
def test_operators_over_nothing_have_nothing(make: Callable[[Rel, Rel], Rel], empty: list[tuple[bool, bool]]) -> None:
    one, other = Values((), ()), Values((), ())
    found = [(a, b) for a in (False, True) for b in (False, True) if is_empty(make(one, other), (a, b))]
    assert found == empty


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
