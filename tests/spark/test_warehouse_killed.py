"""A warehouse on Spark whose process is killed: what was committed is exact, the work goes on, and gc leaves no garbage."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.frontend.start import start_session
from tempura.warehouse.files import Files
from tempura.warehouse.spark_engine import SparkEngine
from tempura.warehouse.warehouse import open_site

SQL = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
LARGE = f"{SQL} HAVING SUM(v) > 3"
ARRIVALS = [[(i % 5, i) for i in range(20)], [(1, 1)], [(2, 2), (7, 7)]]

POINTS = [
    ("create", 3), ("lock", 8), ("link", 2), ("link", 3), ("link", 4), ("link", 5),
    ("sync", 9), ("make_folder", 12), ("sync_folder", 25), ("remove", 12),
]  # fmt: skip
"""The operation and the how manieth of its kind before which the process is killed."""


def scenario(folder: Path, files: Files, spark: SparkSession) -> None:
    """Rows arrive, a view is refreshed, its query replaced; can be done again from wherever it was interrupted."""
    wh = open_site(folder, SparkEngine(lambda: spark), files)
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


def killed_at(operation: str, n: int) -> Files:
    seen = [0]

    def before(found: str, path: Path) -> None:
        seen[0] += found == operation
        if seen[0] == n:
            os.kill(os.getpid(), signal.SIGKILL)

    return Files(before)


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "n"), POINTS)
def test_killed_with_spark(spark: SparkSession, tmp_path: Path, operation: str, n: int) -> None:
    folder = tmp_path / "wh"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(folder), operation, str(n)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
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


if __name__ == "__main__":
    scenario(Path(sys.argv[1]), killed_at(sys.argv[2], int(sys.argv[3])), start_session())
