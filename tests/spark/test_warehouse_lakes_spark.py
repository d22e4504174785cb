"""Delta and Iceberg tables: refused without their packages, followed with them."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError

ROOT = Path(__file__).parents[2]

PACKAGES = {
    "4.0": "io.delta:delta-spark_2.13:4.0.0,org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
}
"""What is made for a version of Spark. There is none for those that are not listed."""


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_without_its_package_a_table_is_refused(spark: SparkSession, tmp_path: Path, format: str) -> None:
    wh = tp.open(tmp_path / "wh", spark=spark)
    with pytest.raises(TempuraError, match=f"cannot read tables of format {format}") as error:
        wh.add_table("t", path=tmp_path, format=format)
    assert error.value.code == "NO_PACKAGE"
    assert "spark.jars.packages" in error.value.remedy


@pytest.mark.slow
def test_with_their_packages_tables_are_followed(tmp_path: Path) -> None:
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in PACKAGES:
        pytest.skip(f"neither Delta nor Iceberg is made for Spark {version}")
    program = [sys.executable, str(Path(__file__).with_name("lakes_program.py")), str(tmp_path), PACKAGES[version]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=900, check=False)
    if "unresolved dependenc" in done.stderr.lower():
        pytest.skip(f"the packages cannot be resolved: {done.stderr[-300:]}")
    assert done.stdout.splitlines()[-1:] == ["DONE"], done.stderr[-3000:]
