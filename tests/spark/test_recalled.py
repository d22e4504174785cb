"""Commands that only look and plan start no Spark where an earlier one has asked it; what is computed is what Spark says now."""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.algebra.rel import Project
from tempura.algebra.scalar import Call
from tempura.errors import TempuraError
from tempura.frontend.lift import Lifted, lift_sql
from tempura.frontend.session import started_in_background
from tempura.frontend.tree import jvm_object
from tempura.warehouse.commits.files import Files
from tempura.warehouse.spark import recalled
from tempura.warehouse.spark.notes import Notes
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.warehouse import Warehouse, open_site

TEXTS = [
    "SELECT k, SUM(v) AS s, COUNT(*) FILTER (WHERE v > 1.5) AS c FROM t GROUP BY k HAVING SUM(v) > 0 ORDER BY s DESC LIMIT 3",
    "SELECT k, v, RANK() OVER (PARTITION BY k ORDER BY v), AVG(v) OVER (PARTITION BY k ORDER BY v ROWS 2 PRECEDING) FROM t",
    "SELECT k, part FROM t LATERAL VIEW EXPLODE(SPLIT(n, ',')) p AS part WHERE n LIKE 'a%' OR n IN ('b', 'c')",
    "SELECT k, n, GROUPING(k), SUM(v) FROM t GROUP BY CUBE (k, n)",
    "SELECT a.k, CASE WHEN b.v IS NULL THEN DATE'2024-02-29' END FROM t a LEFT JOIN t b ON a.k = b.k AND b.n = 'x'",
    "SELECT k FROM t WHERE v > (SELECT AVG(v) FROM t) AND k NOT IN (SELECT k FROM t WHERE n = 'y') UNION ALL SELECT 1 EXCEPT SELECT 2",
]


class Process:
    """Commands of one process: ``starts`` tells how often Spark was started."""

    def __init__(self, folder: Path, spark: SparkSession, clock: Callable[[], datetime]) -> None:
        self.starts = 0
        self.starters: list[str] = []
        engine = SparkEngine(lambda: self._start(spark), notes=Notes(folder / "wh" / ".tempura" / "noted", "test"))
        self.wh: Warehouse = open_site(folder / "wh", engine, Files(), clock)

    def _start(self, spark: SparkSession) -> SparkSession:
        self.starts += 1
        self.starters.append(threading.current_thread().name)
        return spark


@pytest.fixture
def process(spark: SparkSession, tmp_path: Path) -> Callable[[datetime], Process]:
    """A process that begins at a time, as if Spark did not run."""
    return lambda now: Process(tmp_path, spark, lambda: now)


@pytest.mark.parametrize("text", TEXTS)
def test_a_lifted_query_is_read_back(spark: SparkSession, text: str) -> None:
    schema = spark.createDataFrame([], "k INT, v DECIMAL(9, 2), n STRING").schema
    lifted = lift_sql(spark, text, {"t": schema})
    told = recalled._told(lifted)
    assert told
    handles = told[1]
    read = recalled._recalled(json.loads(json.dumps(told[0])), lambda: handles)
    assert read == lifted
    assert recalled._told(read) is not None
    anew = recalled._told(lift_sql(spark, text, {"t": schema}))
    assert anew
    assert anew[0] == told[0], "lifted anew it has the same handles in the same places"


def test_columns_of_all_types_are_what_spark_says(process: Callable[[datetime], Process], spark: SparkSession) -> None:
    ddl = """a TINYINT, b DECIMAL(38, 10), c VARCHAR(3), d CHAR(2), e STRING COLLATE UTF8_LCASE, f INTERVAL YEAR TO MONTH,
        g INTERVAL DAY TO SECOND, h ARRAY<STRUCT<x: INT, `y z`: MAP<STRING, TIMESTAMP_NTZ>>>, i BINARY, j VARIANT, k VOID"""
    first, second = (process(datetime(2026, 11, 27, tzinfo=UTC)) for _ in range(2))
    said = SparkEngine(lambda: spark).parse_schema(ddl)
    for known in (first, second):
        engine = known.wh._site.engine
        assert engine.parse_schema(ddl) == said
        assert engine.schema_text(said) == SparkEngine(lambda: spark).schema_text(said)
    assert (first.starts, second.starts) == (1, 0)


def test_what_only_spark_knows_is_not_noted(spark: SparkSession) -> None:
    schema = spark.createDataFrame([], "k INT").schema
    assert recalled._told(lift_sql(spark, "SELECT k FROM t LIMIT 3 OFFSET 2", {"t": schema})) is None
    spark.udf.register("noted_twice", lambda k: 2 * k, "int")
    assert recalled._told(lift_sql(spark, "SELECT noted_twice(k) FROM t", {"t": schema})) is None


def day(process: Callable[[datetime], Process], folder: Path, spark: SparkSession, hour: int) -> Process:
    """A process at an hour of a day; rows have arrived before it."""
    rows = spark.range(100 * hour, 100 * hour + 50).selectExpr(
        "CAST(id % 7 AS INT) AS k", "CAST(id AS DECIMAL(9, 2)) AS v", "'a,b' AS n"
    )
    rows.coalesce(1).write.mode("append").parquet(str(folder / "lake"))
    return process(datetime(2026, 11, 27, tzinfo=UTC) + timedelta(hours=hour))


@pytest.mark.parametrize("text", TEXTS[:4])
def test_runs_that_do_nothing_and_plans_start_no_spark(
    spark: SparkSession, tmp_path: Path, process: Callable[[datetime], Process], text: str
) -> None:
    first = day(process, tmp_path, spark, 10)
    first.wh.add_table("t", path=str(tmp_path / "lake"))
    times = {"10:00": 0.25, "12:00": 0.3, "14:00": 0.3, "24:00": 1.0}
    first.wh.add_query("q", sql=text, schedule=tp.Schedule.progressive(times, timezone="UTC"))
    assert first.wh.query("q").run().does
    assert first.starts == 1

    second = day(process, tmp_path, spark, 12)
    report = second.wh.query("q").run()
    assert report.does is not None
    assert (report.does.kind, second.starts) == ("nothing done", 0)

    looking = day(process, tmp_path, spark, 13)
    assert looking.wh.query("q").plan().explain()
    assert looking.wh.query("q").run("14:00", dry_run=True, force=True).plan
    assert looking.wh.query("q").status()["due"] is False
    assert looking.starts == 0

    last = day(process, tmp_path, spark, 24)
    assert last.wh.query("q").run().rows
    assert last.starts == 1
    assert last.wh.query("q").verify()
    refreshed = day(process, tmp_path, spark, 25)
    assert refreshed.wh.query("q").run(now=True, methods="im1").rows
    assert refreshed.wh.query("q").verify()
    assert refreshed.starts == 1


def test_a_note_that_is_wrong_is_found_before_anything_is_computed(
    spark: SparkSession, tmp_path: Path, process: Callable[[datetime], Process]
) -> None:
    first = day(process, tmp_path, spark, 10)
    first.wh.add_table("t", path=str(tmp_path / "lake"))
    first.wh.add_query("q", sql="SELECT k, v FROM t WHERE v > 1020", schedule=tp.Schedule.view())
    first.wh.query("q").run()
    (note,) = (tmp_path / "wh" / ".tempura" / "noted").glob("query-*")
    right = note.read_text()
    assert '"decimal": "1020.00"' in right
    note.write_text(right.replace('"decimal": "1020.00"', '"decimal": "1040.00"'))
    second = day(process, tmp_path, spark, 11)
    assert second.wh.query("q").run(methods="im1").rows == 29 + 50
    assert second.starts == 1
    assert second.wh.query("q").verify()
    assert note.read_text() == right


def test_spark_starts_while_a_run_looks_and_plans(
    spark: SparkSession, tmp_path: Path, process: Callable[[datetime], Process]
) -> None:
    first = day(process, tmp_path, spark, 10)
    first.wh.add_table("t", path=str(tmp_path / "lake"))
    first.wh.add_query("q", sql=TEXTS[0], schedule=tp.Schedule.view())
    first.wh.query("q").run()
    second = day(process, tmp_path, spark, 11)
    assert second.wh.query("q").run(methods="im1").rows
    assert [name.startswith("tempura-start") for name in second.starters] == [True]
    assert all(min(asdict(spent).values()) >= 0 for spent in second.wh.query("q").history()[-1].phases.values())
    assert second.wh.query("q").verify()


def test_what_starting_spark_raises_is_raised_when_it_is_needed() -> None:
    def start() -> SparkSession:
        raise TempuraError("NO_JAVA", "There is none.")

    started = started_in_background(start)
    with pytest.raises(TempuraError) as error:
        started()
    assert error.value.code == "NO_JAVA"


def test_handles_of_another_query_are_not_taken(spark: SparkSession, tmp_path: Path) -> None:
    """A note is wrong about a name only, which makes no other relation."""
    notes, schema = Notes(tmp_path / "noted", "test"), spark.createDataFrame([], "k INT").schema
    question = {"about": "query", "text": "SELECT k + 1 AS more FROM t"}
    runs: list[bool] = []
    known = recalled.Recalled(notes, lambda: bool(runs))

    def ask() -> Lifted:
        runs.append(True)
        return lift_sql(spark, question["text"], {"t": schema})

    assert known.lifted(question, ask) == ask()
    notes.note(question, json.loads(json.dumps(notes.answer(question)).replace('"more"', '"less"')))
    runs.clear()
    recalled_one = recalled.Recalled(notes, lambda: bool(runs)).lifted(question, ask)
    assert runs == []
    (call,) = (
        e
        for r in recalled_one.rel.walk()
        if isinstance(r, Project)
        for o in r.outputs
        for e in o.expr.walk()
        if isinstance(e, Call)
    )
    with pytest.raises(tp.TempuraError) as error:
        jvm_object(call.handle)
    assert error.value.code == "NOTE_WRONG"
    known.lifted(question, ask)
    assert '"less"' not in json.dumps(notes.answer(question)), "noted anew"
