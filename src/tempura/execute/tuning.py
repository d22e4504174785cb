"""How Spark goes about a step. To look at each intermediate result before going on pays for large ones; it is a job per shuffle, and over
few rows these jobs, one after the other, take longer than all else."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tempura.cost.estimate import width
from tempura.execute.contract import StoredState
from tempura.execute.machine import is_local
from tempura.frontend.java import each, java
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import Step

PARTITIONS = "spark.sql.shuffle.partitions"

SMALL_BYTES = 20_000_000
"""What a step reads at most, in memory, for that."""


def is_small(step: Step, load: Callable[[StateKey], StoredState]) -> bool:
    """Whether all that a step reads is little: so many rows as its notes say, which are facts of what is read now, and as states have."""
    leaves = {rel for rel in step.operators if isinstance(rel, Read | Load)}
    saved = {save.key for save in step.saves}
    return sum(_rows(leaf, step, saved, load) * width(leaf) for leaf in leaves) <= SMALL_BYTES


def _rows(leaf: Read | Load, step: Step, saved: set[StateKey], load: Callable[[StateKey], StoredState]) -> float:
    if isinstance(leaf, Load) and leaf.key not in saved:
        return load(leaf.key).rows
    return step.notes[leaf].rows if leaf in step.notes else float("inf")


def for_few_rows(session: SparkSession) -> Mapping[str, str]:
    """The settings for a small step: one job per result, and no more tasks than can run at once."""
    tasks = min(session.sparkContext.defaultParallelism, int(str(session.conf.get(PARTITIONS))))
    return {"spark.sql.adaptive.enabled": "false", PARTITIONS: str(tasks)}


_GATHERED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"

_UNPACKED = 8
"""How many times as large a table may be as what was shuffled for it, which was packed: assumed, not measured."""


def hold_tables(session: SparkSession) -> bool:
    """Whether tasks have the memory to make a table of a side of a join: adaptive execution gives each about so many shuffled bytes."""
    gathered = _bytes(session, str(session.conf.get(_GATHERED)))
    is_adaptive = session.conf.get("spark.sql.adaptive.enabled") == "true"
    return is_adaptive and _task_bytes(session.sparkContext) >= _UNPACKED * gathered


_SHARE, _MOST = 32, 256 << 20
"""The part of an executor's memory that a table may take that is sent to every task, and its bytes at most: a step holds several, estimates
are wrong by some part, and while a table is sent the driver holds it twice. Chosen, not measured."""


def sendable_bytes(session: SparkSession) -> int:
    """How large a side of a join may be that is sent to every task, for the executors' memory; 0 where that is not known."""
    return min(_MOST, min(_memory(session.sparkContext), default=0) // _SHARE)


def _bytes(session: SparkSession, text: str) -> int:
    """A size as Spark reads it."""
    read = java(session.sparkContext._jvm).static("org.apache.spark.network.util.JavaUtils", "byteStringAsBytes")
    return int(read(text))


def _task_bytes(context: SparkContext) -> float:
    """The memory that a task has for what it holds, when as many run as can; 0 where that is not known."""
    bytes = _memory(context)
    if is_local(context):
        return min(bytes, default=0) / context.defaultParallelism
    cores = int(context.getConf().get("spark.executor.cores", "0") or 0)
    # The driver is among them, and runs no tasks.
    return min(bytes) / cores if cores and len(bytes) > 1 else 0.0


def _memory(context: SparkContext) -> list[int]:
    """The bytes that each executor, and the driver, has for what it holds."""
    status: Any = context._jsc.sc().getExecutorMemoryStatus()
    return [int(memory._1()) for memory in each(status.values().toSeq())]
