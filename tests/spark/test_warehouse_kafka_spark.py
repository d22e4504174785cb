"""Topics of Kafka: refused without the connector, followed with it, from a broker that is started for the test."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tests.spark.broker import PACKAGE

ROOT = Path(__file__).parents[2]

CONNECTORS = {
    "4.0": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0,org.apache.spark:spark-avro_2.13:4.0.1",
    "4.3": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,org.apache.spark:spark-avro_2.13:4.1.1",
}
"""Per version of Spark the connectors that this was seen to work with."""


def test_without_the_connector_a_topic_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    wh = tp.open(tmp_path / "wh", spark=spark)
    declared = {"format": "kafka", "servers": "127.0.0.1:1", "topic": "t", "schema": "id INT"}
    table = wh.add_table("t", **declared)  # type: ignore[arg-type]
    for call in (table.df, lambda: wh.add_table("a", value_format="avro", **declared)):  # type: ignore[arg-type]
        with pytest.raises(TempuraError, match=r"cannot read (topics of Kafka|values in Avro)") as error:
            call()
        assert error.value.code == "NO_PACKAGE"
        assert "spark.jars.packages=org.apache.spark:spark-" in error.value.remedy


OFTEN, SELDOM = "appended,updated,streamed,bad,formats", "changed,secrets,killed"
"""Parts of the program; the second ones are those that wait for something, or start another process."""


@pytest.mark.slow
@pytest.mark.parametrize("parts", [OFTEN, pytest.param(SELDOM, marks=pytest.mark.full)])
def test_topics_of_a_broker_are_followed(tmp_path: Path, parts: str) -> None:
    told, errors = ran("kafka_program.py", tmp_path, parts, timeout=600)
    assert "hunter2" not in told + errors


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [30, pytest.param(180, marks=pytest.mark.full)])
def test_a_query_at_paces_on_live_topics_is_exact_though_its_followers_are_killed(tmp_path: Path, seconds: int) -> None:
    told, _ = ran("paced_kafka_program.py", tmp_path, str(seconds), timeout=seconds + 400)
    assert told.count("killed after") == 2


def ran(program: str, folder: Path, *arguments: str, timeout: float) -> tuple[str, str]:
    """What a program of this folder prints, and its errors, when it works in a folder with the connectors. It has to print DONE at the
    end, and to leave no process. Skips the test without connectors."""
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in CONNECTORS:
        pytest.skip(f"no connector is known for Spark {version}")
    packages = f"{CONNECTORS[version]},{PACKAGE}"
    command = [sys.executable, str(Path(__file__).with_name(program)), str(folder), packages, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:
        try:
            told, errors = process.communicate(timeout=timeout)
            left = left_by(process.pid, folder)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if "unresolved dependenc" in errors.lower() or "download failed" in errors.lower():
        pytest.skip(f"the packages cannot be resolved: {errors[-300:]}")
    assert told.splitlines()[-1:] == ["DONE"], f"{told[-500:]}\n{errors[-3000:]}"
    print(told)
    assert left == [], "processes that outlive the program"
    return told, errors


def left_by(program: int, folder: Path) -> list[str]:
    """The processes that a program has left, as commands, when they have had some time to end."""
    end = time.monotonic() + 20
    while (left := list(_alive(program, folder))) and time.monotonic() < end:
        time.sleep(0.2)
    return left


def _alive(program: int, folder: Path) -> Iterator[str]:
    """The processes of a session, and those that are called with a folder."""
    for process in (Path("/proc", name) for name in os.listdir("/proc") if name.isdecimal()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, *numbers = (process / "stat").read_text().rpartition(")")[2].split()
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if state != "Z" and (int(numbers[2]) == program or str(folder) in command):
                yield command
