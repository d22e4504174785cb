"""How Spark goes about a step. To look at each intermediate result before going on pays for large ones; it is a job per shuffle, and over
few rows these jobs, one after the other, take longer than all else."""

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from tempura.cost.estimate import width
from tempura.execute.contract import StoredState
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import Step

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
    tasks = min(session.sparkContext.defaultParallelism, int(str(session.conf.get("spark.sql.shuffle.partitions"))))
    return {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": str(tasks)}
