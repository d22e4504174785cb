"""Warehouses on Spark: rows in, exact results out."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.warehouse.spark.settings import NAMED, semantic_settings
from tempura.warehouse.warehouse import Warehouse

DAILY = tp.Schedule.progressive({"14:00": 0.25, "19:00": 0.3, "24:00": 1.0})
SALES = "o_id INT, cat STRING, price DECIMAL(7,2)"
RETURNS = "o_id INT, cost DECIMAL(7,2)"
SUMMARY = """
SELECT category, SUM(IF(cost IS NULL, price, -cost)) AS total, COUNT(*) AS n
FROM (SELECT s.o_id, cat AS category, price, cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id)
GROUP BY category
ORDER BY category DESC NULLS LAST
"""

Make = Callable[[Sequence[tuple[object, ...]], str], DataFrame]


@pytest.fixture
def make(spark: SparkSession) -> Make:
    return lambda rows, ddl: spark.createDataFrame(rows, ddl).coalesce(1)


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark, clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.collect()]


def d(value: str) -> Decimal:
    return Decimal(value)


@pytest.mark.parametrize("methods", ["im1", "batch"])
def test_a_day_in_three_runs_and_the_next(wh: Warehouse, make: Make, tmp_path: Path, methods: str) -> None:
    lake = tmp_path / "lake"
    first = [(1, "c1", d("100")), (2, "c2", d("150.55")), (2, "c2", d("150.55")), (None, "c1", d("7")), (4, None, None)]
    make(first, SALES).write.parquet(str(lake))
    wh.add_table("sales", path=lake)
    returns = wh.add_table("returns", schema=RETURNS)
    query = wh.add_query("summary", sql=SUMMARY, schedule=DAILY)
    returns.append(make([(1, d("10")), (None, d("1"))], RETURNS))
    assert query.run(at="14:00", force=True, methods=methods).rows is None
    make([(5, "c2", d("300")), (6, "c1", None)], SALES).write.mode("append").parquet(str(lake))
    returns.apply(
        make([(2, d("20"), "insert"), (2, None, "insert"), (1, d("10"), "delete")], f"{RETURNS}, _change STRING")
    )
    query.run(at="19:00", force=True, methods=methods)
    report = query.run(at="24:00", force=True, methods=methods)
    assert report.rows == 3
    assert report.cpu_seconds > 0
    expected = [("c2", d("561.10"), 5), ("c1", d("107.00"), 3), (None, None, 1)]
    assert rows(query.result()) == expected
    assert query.verify(), str(query.verify())

    returns.delete(make([(2, None)], RETURNS))
    query.run(at="24:00", force=True, methods=methods)
    for label in DAILY.times:
        query.run(at=label, force=True, methods=methods)
    assert query.verify(), str(query.verify())
    changed = {(r["category"], r["total"], r["n"], r["_change"], r["_count"]) for r in query.changes().collect()}
    assert changed == {("c2", d("561.10"), 5, "delete", 1), ("c2", d("260.00"), 3, "insert", 1)}
    wh.gc()
    assert query.verify()


def test_verify_finds_a_wrong_result(wh: Warehouse, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # The files' checksums would tell first.
    monkeypatch.setattr("tempura.warehouse.times.steps.damage", lambda part: None)
    wh.add_table("t", schema="k INT, v DOUBLE").append(make([(1, 1.5), (1, 1.5), (2, None)], "k INT, v DOUBLE"))
    query = wh.add_query("q", sql="SELECT k, v, 'x' FROM t", schedule=tp.Schedule.view())
    query.run()
    assert query.verify().rows == 3
    stored = query.steps()[-1].output
    assert stored
    folder = wh.path / stored.paths[0]
    good = make([], "k INT").sparkSession.read.parquet(str(folder)).collect()
    names = ["s0", "s1", "s2"]
    for wrong in (good[:2], [*good, good[0]], [*good[:2], (3, None, "x")], [(1, 1.5000001, "x"), *good[1:]]):
        for file in folder.iterdir():
            file.unlink()
        frame = make(wrong, "s0 INT, s1 DOUBLE, s2 STRING").toDF(*names)
        frame.write.mode("append").parquet(str(folder))
        found = query.verify()
        assert not found
        assert found.missing or found.extra


def test_floats_are_compared_within_a_tolerance_only_where_they_are_added(wh: Warehouse, make: Make) -> None:
    table = wh.add_table("t", schema="k INT, v DOUBLE")
    query = wh.add_query("q", sql="SELECT k, SUM(v) s, MAX(v) m FROM t GROUP BY k", schedule=tp.Schedule.view())
    for i in range(2):
        table.append(make([(k, 0.1 * k + i) for k in range(5)] + [(9, float("nan"))], "k INT, v DOUBLE"))
        query.run(methods="im1")
    found = query.verify()
    assert found, str(found)
    assert "floats" in found.how


def test_limit_with_ties(wh: Warehouse, make: Make) -> None:
    table = wh.add_table("t", schema="k INT, v INT")
    query = wh.add_query("q", sql="SELECT k, v FROM t ORDER BY v DESC LIMIT 3", schedule=tp.Schedule.view())
    table.append(make([(k, k // 4) for k in range(12)], "k INT, v INT"))
    query.run()
    table.append(make([(k, 2) for k in range(20, 24)], "k INT, v INT"))
    query.run()
    assert query.result().count() == 3
    assert query.verify(), str(query.verify())


def test_names_and_order_are_the_users(wh: Warehouse, make: Make) -> None:
    wh.add_table("t", schema="k INT, v INT").append(make([(1, 30), (2, 10), (3, 20)], "k INT, v INT"))
    query = wh.add_query("q", sql="SELECT k AS `a b`, k + 1 AS `a b` FROM t ORDER BY v", schedule=tp.Schedule.view())
    query.run()
    assert query.result().columns == ["a b", "a b"]
    assert rows(query.result()) == [(2, 3), (3, 4), (1, 2)]


def test_what_cannot_be_maintained_is_recomputed(wh: Warehouse, make: Make) -> None:
    table = wh.add_table("t", schema="k INT, v INT")
    sql = "SELECT k, v, stddev(v) OVER (PARTITION BY k ORDER BY v) r FROM t"
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view())
    for i in range(2):
        table.append(make([(1, i), (2, i)], "k INT, v INT"))
        query.run()
        assert query.verify(), str(query.verify())
    assert query.result().count() == 4


def test_a_query_from_a_frame(wh: Warehouse, make: Make) -> None:
    table = wh.add_table("t", schema="k INT, v INT")
    table.append(make([(1, 1), (1, 1), (2, 5)], "k INT, v INT"))
    table.delete(make([(1, 1)], "k INT, v INT"))
    frame = table.df()
    assert sorted(rows(frame)) == [(1, 1), (2, 5)]
    query = wh.add_query("q", df=frame.groupBy("k").sum("v"), schedule=tp.Schedule.view())
    query.run()
    table.append(make([(2, 7)], "k INT, v INT"))
    query.run(methods="im1")
    assert sorted(rows(query.result())) == [(1, 1), (2, 12)]
    assert query.verify()
    again = wh.add_query("q", df=table.df().groupBy("k").sum("v"), schedule=tp.Schedule.view())
    assert again.run().nothing


class TestRowsThatArrive:
    def test_types_are_checked_and_widened(self, wh: Warehouse, make: Make) -> None:
        table = wh.add_table("t", schema="a BIGINT, b DECIMAL(12,2), c STRING")
        table.append(make([("x", 1, 5), (None, None, None)], "c STRING, a INT, b SMALLINT"))
        assert sorted(rows(table.df()), key=str) == [(1, d("5.00"), "x"), (None, None, None)]
        for ddl in ("a BIGINT, b DECIMAL(12,2)", "a BIGINT, b DECIMAL(12,3), c STRING", "a DOUBLE, b INT, c STRING"):
            with pytest.raises(tp.TempuraError, match="WRONG_SCHEMA"):
                table.append(make([], ddl))
        with pytest.raises(tp.TempuraError, match="there is no column e"):
            table.append(make([], "a BIGINT, b DECIMAL(12,2), c STRING, e INT"))

    def test_deletes_are_by_identity(self, wh: Warehouse, make: Make) -> None:
        ddl = "v DOUBLE, s STRING, l ARRAY<DOUBLE>"
        table = wh.add_table("t", schema=ddl)
        table.append(make([(0.0, None, [0.0]), (float("nan"), "a", None), (1.0, "a", [None])], ddl))
        for missing in ([(-0.0, None, [0.0])], [(0.0, None, [-0.0])], [(1.0, "A", [None])], [(1.0, "a", [None])] * 2):
            with pytest.raises(tp.TempuraError, match="DELETE_OF_MISSING"):
                table.delete(make(missing, ddl))
        table.delete(make([(float("nan"), "a", None), (0.0, None, [0.0])], ddl))
        assert rows(table.df()) == [(1.0, "a", [None])]

    def test_keys(self, wh: Warehouse, make: Make) -> None:
        ddl = "k INT, v INT"
        table = wh.add_table("t", schema=ddl, keys=["k"])
        table.append(make([(1, 1), (None, 1)], ddl))
        for again in ([(1, 2)], [(None, 2)], [(5, 5), (5, 6)]):
            with pytest.raises(tp.TempuraError, match="DUPLICATE_KEY"):
                table.append(make(again, ddl))
        table.apply(make([(1, 1, "delete"), (1, 2, "insert")], f"{ddl}, _change STRING"))
        assert sorted(rows(table.df()), key=str) == [(1, 2), (None, 1)]

    def test_other_changes_are_refused(self, wh: Warehouse, make: Make) -> None:
        table = wh.add_table("t", schema="k INT")
        for change, code in (("update", "NO_KEYS"), ("move", "BAD_CHANGE"), (None, "BAD_CHANGE")):
            with pytest.raises(tp.TempuraError, match=code):
                table.apply(make([(1, change)], "k INT, _change STRING"))
        with pytest.raises(tp.TempuraError, match="BAD_CHANGE"):
            table.apply(make([(1,)], "k INT"))

    def test_folders_with_partitions_and_hostile_names(self, wh: Warehouse, make: Make, tmp_path: Path) -> None:
        lake = tmp_path / "the lake [1] 100%"
        make([(1, "x y"), (2, "a/b=c%"), (3, None)], "k INT, p STRING").write.partitionBy("p").parquet(f"file:{lake}")
        for i, file in enumerate(sorted(lake.rglob("part-*.parquet"))):
            file.rename(file.with_name(f"f[{i}] {{a,b}}*?%41.parquet"))
        table = wh.add_table("t", path=lake)
        assert table.schema.simpleString() == "struct<k:int,p:string>"
        assert sorted(rows(table.df()), key=str) == [(1, "x y"), (2, "a/b=c%"), (3, None)]

    def test_timestamps_of_both_encodings(self, wh: Warehouse, spark: SparkSession, tmp_path: Path) -> None:
        frame = spark.sql(
            "SELECT timestamp'2026-01-02 03:04:05.678901' AS t, array(timestamp'2026-01-02 03:04:05') AS l"
        )
        for encoding in ("INT96", "TIMESTAMP_MICROS"):
            spark.conf.set("spark.sql.parquet.outputTimestampType", encoding)
            try:
                frame.write.mode("append").parquet(str(tmp_path / "lake"))
            finally:
                spark.conf.unset("spark.sql.parquet.outputTimestampType")
        table = wh.add_table("t", path=tmp_path / "lake")
        assert table.df().distinct().count() == 1
        assert table.df().count() == 2


class TestSessions:
    def test_the_users_session_is_left_alone(self, wh: Warehouse, make: Make, spark: SparkSession) -> None:
        make([(42,)], "mine INT").createOrReplaceTempView("t")
        before = dict(spark.conf.getAll)
        wh.add_table("t", schema="k INT").append(make([(1,)], "k INT"))
        query = wh.add_query("q", sql="SELECT k FROM t", schedule=tp.Schedule.view())
        query.run()
        assert query.verify()
        assert rows(spark.table("t")) == [(42,)]
        assert dict(spark.conf.getAll) == before
        spark.catalog.dropTempView("t")

    def test_a_query_keeps_the_settings_of_its_first_run(self, wh: Warehouse, make: Make, spark: SparkSession) -> None:
        table = wh.add_table("t", schema="s STRING")
        query = wh.add_query("q", sql="SELECT CAST(s AS INT) n FROM t", schedule=tp.Schedule.view())
        spark.conf.set("spark.sql.ansi.enabled", "false")
        try:
            table.append(make([("1",)], "s STRING"))
            query.run()
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")
        table.append(make([("no number",)], "s STRING"))
        query.run()
        assert {row[0] for row in query.result().collect()} == {1, None}
        assert query.verify()

    def test_errors_of_the_query_are_told_when_it_is_added(self, wh: Warehouse) -> None:
        for sql, code in (
            ("SELECT * FROM nope", "UNKNOWN_TABLE"),
            ("SELECT rand()", "NONDETERMINISTIC"),
            ("SELEC", "INVALID_SQL"),
        ):
            with pytest.raises(tp.TempuraError) as error:
                wh.add_query("q", sql=sql)
            assert error.value.code == code
        assert wh.status()["queries"] == {}


SOME = "k INT, v INT, x INT"


def _numbers(from_: int, to: int) -> list[tuple[object, ...]]:
    return [(None if i % 5 == 0 else i % 3, i // 4, i) for i in range(from_, to)]


@pytest.mark.parametrize(
    ("sql", "ties"),
    [
        ("SELECT k, v, x, row_number() OVER (PARTITION BY k ORDER BY v) n FROM t", True),
        ("SELECT k, x FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) n FROM t) WHERE n = 1", True),
        (
            "SELECT k, x, rank() OVER (PARTITION BY k ORDER BY v) r, sum(x) OVER (PARTITION BY k ORDER BY v) s FROM t",
            False,
        ),
        ("SELECT k, x, x * 100 / sum(x) OVER () share, lag(x) OVER (ORDER BY x) l FROM t", False),
    ],
)
def test_windows_are_maintained_by_partition(wh: Warehouse, make: Make, sql: str, ties: bool) -> None:
    table = wh.add_table("t", schema=SOME)
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view())
    table.append(make(_numbers(0, 20), SOME))
    query.run(methods="im1")
    table.apply(make([(*row, "insert") for row in _numbers(20, 30)], f"{SOME}, _change STRING"))
    query.run(methods="im1")
    table.delete(make(_numbers(2, 4), SOME))
    query.run(methods="im1")
    found = query.verify()
    assert found, str(found)
    assert ties or "ties" not in found.how
    assert query.changes().count() > 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, y FROM t LATERAL VIEW OUTER explode(array(v, k)) e AS y",
        "SELECT k, v FROM t EXCEPT ALL SELECT k, v FROM t WHERE x % 3 = 0",
    ],
)
def test_generators_are_maintained_by_deltas(wh: Warehouse, make: Make, sql: str) -> None:
    table = wh.add_table("t", schema=SOME)
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view())
    table.append(make(_numbers(0, 12), SOME))
    query.run(methods="im1")
    table.apply(
        make(
            [(*r, "insert") for r in _numbers(8, 14)] + [(*r, "delete") for r in _numbers(2, 5)],
            f"{SOME}, _change STRING",
        )
    )
    query.run(methods="im1")
    found = query.verify()
    assert found, str(found)


def test_spark_knows_the_settings_that_change_results(spark: SparkSession) -> None:
    """A name that is misspelt, or that Spark has given up, would be left out in silence."""
    # Internal settings are not listed, but have a value.
    known = {entry._1() for entry in entries(spark)} | set(semantic_settings(spark))
    later = {"spark.sql.session.collation.default", "spark.sql.parser.singleCharacterPipeOperator.enabled"}
    assert {name for name in NAMED if name not in known} <= later
    spark.conf.set("spark.sql.legacy.sizeOfNull", "true")
    try:
        found = semantic_settings(spark)
        assert found["spark.sql.legacy.sizeOfNull"] == "true"
        assert found["spark.sql.jsonGenerator.ignoreNullFields"] == "true"
    finally:
        spark.conf.unset("spark.sql.legacy.sizeOfNull")


def entries(spark: SparkSession) -> Iterator[Any]:
    """All settings that Spark defines: name, default and so on."""
    all = spark._jsparkSession.sessionState().conf().getAllDefinedConfs().iterator()
    while all.hasNext():
        yield all.next()
