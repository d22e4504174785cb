"""Workers as Spark tasks. The session is one of its own: a region needs a slot for each worker, and the tests' session has two."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_workers_in_spark_tasks_are_killed_and_cancelled_and_nothing_is_lost_or_doubled() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [sys.executable, "-m", "tests.spark.region_program", "4000000"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["exact"]
    assert found["ended"]
    assert found["restarts"] == 2
    assert "[NO_SLOTS] The region needs 3 workers at a time, and 1 of 4 slots are free." in found["refused"]
    assert found["jobs_left"] == 0
    assert 1 <= len(found["recoveries"]) <= 2  # the second death may come while the first is dealt with
