"""What Spark says when a step fails, as a user is told it; and rows counted where they are, against rows that arrived."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.take import register
from tempura.warehouse.warehouse import Warehouse

ROOT = Path(__file__).parents[2]


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    put(tmp_path, "a")
    wh = tp.open(tmp_path / "wh", spark=spark)
    wh.add_table("t", path=tmp_path / "lake")
    return wh


def put(folder: Path, name: str) -> None:
    (folder / "lake").mkdir(exist_ok=True)
    table = pa.table({"k": [1, 2], "v": [0, 5], "s": ["1", "x"], "b": [2**62, 2**62]})
    pq.write_table(table, folder / "lake" / f"{name}.parquet")


PROVOKED = [
    ("SELECT k,\n  1 / v AS x FROM t", "DIVIDE_BY_ZERO", "(line 2, position 3 of the query)"),
    ("SELECT SUM(b) AS s FROM t", "ARITHMETIC_OVERFLOW", "overflow"),
    ("SELECT CAST(s AS INT) AS x FROM t", "CAST_INVALID_INPUT", "(line 1, position 8 of the query)"),
    ("SELECT bad(k) AS x FROM t", "PYTHON_EXCEPTION", "A function in Python failed: ValueError: bad row"),
    ("SELECT dies(k) AS x FROM t", "EXECUTOR_LOST", "Python worker exited unexpectedly"),
]


@pytest.mark.parametrize(("sql", "code", "said"), PROVOKED, ids=[code for _, code, _ in PROVOKED])
def test_a_step_that_fails_is_told_by_code(spark: SparkSession, wh: Warehouse, sql: str, code: str, said: str) -> None:
    def bad(value: int) -> int:
        raise ValueError("bad row")

    def dies(value: int) -> int:
        os._exit(3)

    spark.udf.register("bad", bad, IntegerType())
    spark.udf.register("dies", dies, IntegerType())
    query = wh.add_query("q", sql)
    with pytest.raises(TempuraError) as error:
        query.run()
    assert error.value.code == code
    assert said in error.value.what
    assert "\n" not in error.value.what
    assert query.history() == ()
    assert not list((wh.path / "queries/q/attempts").iterdir()), "nothing is left of it"


def test_a_file_that_vanishes_while_a_step_runs_and_one_that_verify_reads_under_its_second_name(
    wh: Warehouse, tmp_path: Path
) -> None:
    query = wh.add_query("q", "SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    file, aside = tmp_path / "lake/a.parquet", tmp_path / "aside"

    def vanish(text: str) -> None:
        if file.exists():
            shutil.move(file, aside)

    with pytest.raises(TempuraError) as error:
        query.run(progress=vanish)
    assert error.value.code == "FILE_GONE"
    assert "a.parquet" in error.value.what
    shutil.move(aside, file)
    assert query.run().rows == 2
    shutil.move(file, aside)
    assert query.verify()
    shutil.move(aside, file)
    assert query.verify()


def test_an_interrupt_cancels_what_spark_runs(spark: SparkSession, wh: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "long").mkdir()
    pq.write_table(pa.table({"i": list(range(60_000))}), tmp_path / "long" / "a.parquet")
    wh.add_table("u", path=tmp_path / "long")
    query = wh.add_query("q", "SELECT SUM(SQRT(a.i * b.i)) AS s FROM u a JOIN u b ON a.i + b.i > SQRT(a.i * b.i)")
    tracker = spark.sparkContext.statusTracker()

    def interrupt() -> None:
        while not tracker.getActiveStageIds():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    def begin(text: str) -> None:
        if not waiting.is_alive():
            waiting.start()

    waiting = threading.Thread(target=interrupt, daemon=True)
    with pytest.raises(KeyboardInterrupt):
        query.run(progress=begin)
    deadline, quiet = time.monotonic() + 60, 0
    while quiet < 20 and time.monotonic() < deadline:
        time.sleep(0.1)
        # Between two jobs of one plan there is none: what counts is that none comes any more.
        quiet = 0 if tracker.getActiveJobsIds() else quiet + 1
    assert quiet == 20
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert query.history() == ()
    wh.gc()
    assert not list((wh.path / "queries/q/attempts").iterdir())


def test_rows_counted_where_they_are_have_the_figures_of_rows_that_arrived(wh: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    lines = "".join(f"{i % 7},{'' if i % 5 == 0 else i * 1.5},2026-01-{i % 9 + 1:02},n{i % 3}\n" for i in range(200))
    (tmp_path / "csv" / "a.csv").write_text("a,b,c,d\n" + lines)
    wh.add_table("c", path=tmp_path / "csv", format="csv", schema="a INT, b DOUBLE, c DATE, d STRING")
    table = wh.table("c").arrivals
    (counted,) = Prospect(table).arrivals()
    assert table.version() == 0
    assert register(table) == 1
    (arrived,) = table.arrivals()
    assert counted.rows == arrived.rows == (200, 0)
    for name in "abcd":
        before, after = counted.columns[name], arrived.columns[name]
        # How values will be encoded is not known before they are written.
        assert before == replace(after, bytes=before.bytes), name
        assert before.bytes > 0


def in_another_process(*arguments: str) -> list[str]:
    """What the program prints, under little memory."""
    program = Path(__file__).with_name("memory_program.py")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m pyspark-shell",
    }
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.full
def test_spark_runs_out_of_memory_and_a_new_process_goes_on(tmp_path: Path) -> None:
    """Not on a stand-in: a task fills the memory, and Spark ends its process."""
    (said,) = in_another_process("main", str(tmp_path))
    assert said.startswith("OUT_OF_MEMORY|Spark ran out of memory")
    assert in_another_process("again", str(tmp_path)) == ["0", "0", "1 True"]


@pytest.mark.slow
def test_the_trace_of_java_is_shown_under_debug_only(wh: Warehouse) -> None:
    wh.add_query("q", "SELECT 1 / v AS x FROM t")
    for options, traced in (([], False), (["--debug"], True)):
        command = [sys.executable, "-c", "from tempura.cli.main import main; main()", *options, "-C", str(wh.path)]
        done = subprocess.run([*command, "run", "q"], capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 1
        assert ("at org.apache.spark" in done.stderr) is traced
        assert traced or [line[:16] for line in done.stderr.splitlines() if line.strip()] == ["[DIVIDE_BY_ZERO]"]
