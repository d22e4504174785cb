"""Topics of Kafka: refused without the connector, followed with it, from a broker that is started for the test."""

import os
import subprocess
import sys
from pathlib import Path

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


OFTEN, SELDOM = "appended,updated,bad,formats", "changed,secrets,killed"
"""Parts of the program; the second ones are those that wait for something, or start another process."""


@pytest.mark.slow
@pytest.mark.parametrize("parts", [OFTEN, pytest.param(SELDOM, marks=pytest.mark.full)])
def test_topics_of_a_broker_are_followed(tmp_path: Path, parts: str) -> None:
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in CONNECTORS:
        pytest.skip(f"no connector is known for Spark {version}")
    packages = f"{CONNECTORS[version]},{PACKAGE}"
    program = [sys.executable, str(Path(__file__).with_name("kafka_program.py")), str(tmp_path), packages, parts]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=600, check=False)
    if "unresolved dependenc" in done.stderr.lower() or "download failed" in done.stderr.lower():
        pytest.skip(f"the packages cannot be resolved: {done.stderr[-300:]}")
    assert done.stdout.splitlines()[-1:] == ["DONE"], f"{done.stdout[-500:]}\n{done.stderr[-3000:]}"
    print(done.stdout)
    assert "hunter2" not in done.stdout + done.stderr
    running = [Path(f"/proc/{p}/cmdline") for p in os.listdir("/proc") if p.isdecimal()]
    left = [path for path in running if path.exists() and str(tmp_path).encode() in path.read_bytes()]
    assert left == [], "a broker that outlives the program"
