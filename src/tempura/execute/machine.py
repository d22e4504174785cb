"""Which machine and Spark configuration a session is of, as far as that matters for what work costs."""

import os
import platform
import re
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tempura.cost.calibration import Machine
from tempura.frontend.java import java

_SETTINGS = (
    "spark.master",
    "spark.driver.memory",
    "spark.executor.memory",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.memory.offHeap.enabled",
    "spark.serializer",
    "spark.io.compression.codec",
    "spark.shuffle.compress",
    "spark.sql.shuffle.partitions",
    "spark.sql.parquet.compression.codec",
    "spark.sql.parquet.enableVectorizedReader",
    "spark.sql.codegen.wholeStage",
    "spark.sql.files.maxPartitionBytes",
    "spark.plugins",
)
_OF_THE_ARCHIVE = (
    *("SharedArchiveFile", "DumpLoadedClassList", "AOTMode", "AOTConfiguration", "AOTCache"),
    *("UnlockDiagnosticVMOptions", "DisplayVMOutput"),
)
"""Options with which a session notes or maps classes (``frontend/archive.py``). They do not say how fast it runs."""


def is_local(context: SparkContext) -> bool:
    """Whether tasks run in the driver's process."""
    return bool(context._jsc.sc().isLocal())


def machine_of(session: SparkSession) -> Machine:
    """The machine and the configuration of a session. Of a cluster, this is what the driver's machine and the settings say."""
    context = session.sparkContext
    given = dict(context.getConf().getAll())
    settings = {name: value for name in _SETTINGS if (value := _setting(session, given, name)) is not None}
    virtual: Any = java(context._jvm)
    about = {
        "cpu": _processor(),
        "cores": str(context.defaultParallelism),
        "memory": f"{round(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30)} GiB",
        "spark": str(session.version),
        "java": str(virtual.java.lang.System.getProperty("java.vm.version")),
        **settings,
    }
    options = " ".join(_machine_options(given.get("spark.driver.extraJavaOptions", "")))
    return Machine(about | ({"options": options} if options else {}))


def _setting(session: SparkSession, given: dict[str, str], name: str) -> str | None:
    value = session.conf.get(name, None) if name.startswith("spark.sql.") else given.get(name)
    return None if value is None else str(value)


def _machine_options(text: str) -> list[str]:
    """Options of the virtual machine itself; not those of its log, nor the archive of classes."""
    options = (option for option in text.split() if option.startswith("-X") and not option.startswith("-Xlog"))
    return sorted(option for option in options if not any(name in option for name in _OF_THE_ARCHIVE))


def _processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
