"""Sessions in which a query's settings are in force, and others that change how Spark works only."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from tempura.frontend.session import clone
from tempura.warehouse.spark import settings
from tempura.warehouse.spark.settings import at_work, semantic_settings, session_with


def test_a_session_has_exactly_the_settings_that_it_is_given(spark: SparkSession) -> None:
    given = semantic_settings(spark) | {
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.legacy.sizeOfNull": "true",
    }
    changed = clone(spark)
    changed.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    found = semantic_settings(session_with(changed, given))
    assert found == given
    assert "spark.sql.legacy.timeParserPolicy" in semantic_settings(changed)


def test_a_copy_to_work_in_means_what_the_session_means_and_works_as_steps_do(spark: SparkSession) -> None:
    changed = clone(spark)
    changed.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    changed.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    work = at_work(changed)
    assert semantic_settings(work) == semantic_settings(changed)
    assert {name: work.conf.get(name) for name in settings._AT_WORK} == settings._AT_WORK


def test_small_files_do_not_keep_tasks_from_sharing_large_ones(spark: SparkSession, tmp_path: Path) -> None:
    """Four large files and forty of a row each, as a table that has grown: Spark gives the four to one of two tasks."""
    rows = 250_000
    for i in range(4):
        noise = pa.py_buffer(Random(i).randbytes(8 * rows))
        numbers = pa.Array.from_buffers(pa.int64(), rows, [None, noise])
        write_table(pa.table({"n": numbers}), tmp_path / f"large{i}.parquet")
    for i in range(40):
        write_table(pa.table({"n": [i]}), tmp_path / f"small{i}.parquet")

    def most(session: SparkSession) -> int:
        session.conf.set("spark.sql.files.minPartitionNum", "2")
        counted = session.read.parquet(str(tmp_path)).groupBy(fn.spark_partition_id()).count()
        return int(max(row[1] for row in counted.collect()))

    assert most(clone(spark)) >= 4 * rows
    assert most(at_work(spark)) <= 3 * rows + 40
    assert most(session_with(spark, {})) <= 3 * rows + 40
    said = clone(spark)
    said.conf.set("spark.sql.files.openCostInBytes", "4MB")
    assert most(at_work(said)) >= 4 * rows, "what the user says is so"


def test_code_that_several_stages_run_is_compiled_once(spark: SparkSession) -> None:
    sessions = [session_with(spark, {}), clone(spark), session_with(spark, {})]
    _, named, alike = (
        compiled_for(session, n) for session, n in zip(sessions, (1_000_003, 1_000_007, 1_000_009), strict=True)
    )
    assert alike < named


def compiled_for(session: SparkSession, n: int) -> int:
    """How many classes are made of generated code for a join whose sides are alike, and which no other has: it is of numbers below n."""
    session.conf.set("spark.sql.adaptive.enabled", "false")
    left, right = (session.range(50).selectExpr(f"id % {n} AS k") for _ in range(2))
    assert session._jvm is not None
    made = session._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = made.getCount()
    assert left.join(right.hint("merge"), "k").count() == 50
    return int(made.getCount() - before)


def test_what_is_held_for_a_step_is_not_packed(spark: SparkSession) -> None:
    held = [bytes_held(session) for session in (session_with(spark, {}), clone(spark))]
    assert held[0] > 10 * held[1], "a column of one value takes no room when it is packed"


def bytes_held(session: SparkSession) -> int:
    """What rows take in memory, all with the same long text."""
    rows = session.range(20_000, numPartitions=1).selectExpr("repeat('x', 100) AS text").persist()
    try:
        assert rows.count() == 20_000
        infos: Any = session.sparkContext._jsc.sc().getRDDStorageInfo()
        return max(int(info.memSize()) for info in infos)
    finally:
        rows.unpersist(blocking=True)


def test_plans_are_texts_where_somebody_may_look(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for watched, mode in ((True, "formatted"), (False, "simple")):
        monkeypatch.setattr(settings, "_is_watched", lambda session, watched=watched: watched)
        assert session_with(clone_of(spark, mode="formatted"), {}).conf.get("spark.sql.ui.explainMode") == mode


def clone_of(spark: SparkSession, mode: str) -> SparkSession:
    made = clone(spark)
    made.conf.set("spark.sql.ui.explainMode", mode)
    return made


@pytest.mark.parametrize(
    ("conf", "watched"),
    [
        ({}, True),
        ({"spark.ui.enabled": "false"}, False),
        ({"spark.ui.enabled": "TRUE"}, True),
        ({"spark.ui.enabled": "false", "spark.eventLog.enabled": "true"}, True),
    ],
)
def test_somebody_may_look_at_the_interface_or_at_what_is_written_down(
    spark: SparkSession, conf: dict[str, str], watched: bool
) -> None:
    given = getattr(cast(Any, spark._jvm), "org.apache.spark.SparkConf")(False)
    for name, value in conf.items():
        given.set(name, value)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: given)))
    assert settings._is_watched(cast(Any, SimpleNamespace(sparkContext=context))) == watched
