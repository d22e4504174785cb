"""A warehouse on Spark whose process is killed: what was committed is exact, the work goes on, and gc leaves no garbage.

Two processes are killed each time, one in the middle of a job of Spark's and one before a commit. What a process leaves that is killed
before another operation is a copy of its files as they are then: a dead process does nothing more, and holds no lock.
``script/test-full`` kills a process at each of the operations.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.execute.contract import StepOutcome
from tempura.frontend.start import many_small_jobs, start_session
from tempura.warehouse.commits.files import Files
from tempura.warehouse.engine import Work
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.warehouse import open_site

SQL = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
LARGE = f"{SQL} HAVING SUM(v) > 3"
ARRIVALS = [[(i % 5, i) for i in range(20)], [(1, 1)], [(2, 2), (7, 7)]]

POINTS = [
    ("create", 3), ("lock", 8), ("link", 2), ("link", 3), ("link", 4), ("link", 5),
    ("sync", 9), ("make_folder", 12), ("sync_folder", 25), ("remove", 12),
]  # fmt: skip
"""The operation and the how manieth of its kind before which the process is killed."""


IN_A_JOB, IN_A_COMMIT = ("job", 3), ("link", 4)
"""In the third step, while Spark works; and before the name of a manifest is linked."""


def scenario(folder: Path, files: Files, spark: SparkSession, engine: SparkEngine | None = None) -> None:
    """Rows arrive, a view is refreshed, its query replaced; can be done again from wherever it was interrupted."""
    wh = open_site(folder, engine or SparkEngine(lambda: spark), files)
    table = wh.add_table("t", schema="k INT, v INT")
    if not wh.status()["queries"]:
        wh.add_query("q", SQL, schedule=tp.Schedule.view())
    for i, arrival in enumerate(ARRIVALS):
        if wh.status()["tables"]["t"]["version"] == i:
            table.append(spark.createDataFrame(arrival, "k INT, v INT").coalesce(1))
        committed = wh.query("q").committed()
        if i == 2 and len(committed.entries) == len(committed.runs):
            wh.replace_query("q", LARGE)
        wh.query("q").run(methods="im1")
    wh.gc()


class Counted:
    """Acts once, before the n-th occurrence of something."""

    def __init__(self, n: int, act: Callable[[], object]) -> None:
        self._left, self._act = n, act

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(operation: str, n: int, act: Callable[[], object]) -> Files:
    counted = Counted(n, act)
    return Files(lambda found, path: counted() if found == operation else None)


class DyingEngine(SparkEngine):
    """The process is killed while Spark works at its n-th step."""

    def __init__(self, spark: SparkSession, n: int) -> None:
        super().__init__(lambda: spark)
        self._tracker = spark.sparkContext.statusTracker()
        self._begin = Counted(n, threading.Thread(target=self._watch, daemon=True).start)

    def execute(self, work: Work) -> StepOutcome:
        self._begin()
        return super().execute(work)

    def _watch(self) -> None:
        while not self._tracker.getActiveStageIds():
            pass
        die()


def check(spark: SparkSession, folder: Path) -> None:
    """Whatever was interrupted: what is committed is exact, garbage is collected at once, and the work comes to its end."""
    wh = tp.open(folder, spark=spark)
    for name in wh.status()["queries"]:
        query = wh.query(name)
        assert query.sql == LARGE or not query.steps() or query.verify()
    wh.gc()
    assert wh.gc() == ()
    scenario(folder, Files(), spark)
    assert wh.query("q").sql == LARGE
    assert wh.query("q").verify()
    assert wh.gc() == ()


@pytest.fixture(scope="module")
def left(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what was there before each operation, by its name."""
    folder = tmp_path_factory.mktemp("left")

    def copy(operation: str, n: int) -> Counted:
        return Counted(n, lambda: shutil.copytree(folder / "wh", folder / f"{operation}-{n}", symlinks=True))

    copies = [(operation, copy(operation, n)) for operation, n in POINTS]

    def look(found: str, path: Path) -> None:
        for operation, counted in copies:
            if operation == found:
                counted()

    scenario(folder / "wh", Files(look), spark)
    shutil.rmtree(folder / "wh")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "n"), POINTS)
def test_what_a_killed_process_leaves(spark: SparkSession, left: Path, operation: str, n: int) -> None:
    check(spark, left / f"{operation}-{n}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "n"),
    [IN_A_JOB, *(pytest.param(*p, marks=() if p == IN_A_COMMIT else pytest.mark.full) for p in POINTS)],
)
def test_killed_with_spark(spark: SparkSession, tmp_path: Path, operation: str, n: int) -> None:
    folder = tmp_path / "wh"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(folder), operation, str(n)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    check(spark, folder)


def main(folder: Path, operation: str, n: int) -> None:
    spark = start_session(config=many_small_jobs())
    if operation == "job":
        scenario(folder, Files(), spark, DyingEngine(spark, n))
    else:
        scenario(folder, before(operation, n, die), spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
