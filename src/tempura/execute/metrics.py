"""What a piece of work on Spark took, read from Spark's own status store (it works with the web UI disabled)."""

import time
import uuid
from types import TracebackType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from tempura.execute.contract import Clocks, Usage
from tempura.execute.machine import is_local
from tempura.frontend.compiled import compiled_by
from tempura.frontend.java import java


class Meter:
    """Measures the Spark jobs that the current thread starts inside a ``with`` block, and what the driver takes meanwhile; nested meters
    each see all of theirs.

    >>> with Meter(spark.sparkContext) as meter:      # doctest: +SKIP
    ...     df.write.parquet(path)
    >>> meter.usage.cpu_seconds                       # doctest: +SKIP

    The status store keeps the last ``spark.ui.retainedStages`` stages (1,000 unless configured): a longer piece of work is
    counted in part only.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._tag = f"tempura-{uuid.uuid4().hex}"
        self._began = Clocks()
        self.usage = Usage()
        self.spent = Clocks()
        """What passed on each clock, once the block has ended."""
        self.jobs: tuple[int, ...] = ()
        """The numbers of the jobs, once the block has ended."""

    def __enter__(self) -> "Meter":
        self._context.addJobTag(self._tag)
        self._began = clocks(self._context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # First of all: what measuring takes is no part of what is measured.
            spent = Clocks() if error else clocks(self._context) - self._began
            self._context.removeJobTag(self._tag)
            if error is None:
                self.spent, self.usage = spent, self._measure(spent)
        except (PySparkRuntimeError, Py4JError, OSError):
            # A stopped context has nothing to tell; the error that stopped it is the one to report.
            if error is None:
                raise

    def _measure(self, spent: Clocks) -> Usage:
        scala_context: Any = self._context._jsc.sc()
        # The JVM picks the jobs: a session may have run thousands before.
        jobs, *stages = str(compiled_by(self._context._gateway, "Stages").of(scala_context, self._tag)).splitlines()
        self.jobs = tuple(map(int, jobs.split()))
        ran = [_Stage(*map(int, stage.split())) for stage in stages]
        tasks_cpu = sum(stage.cpu for stage in ran) / 1e9
        other = tasks_cpu if is_local(self._context) else 0.0
        return Usage(
            cpu_seconds=tasks_cpu,
            driver_seconds=max(0.0, spent.jvm_seconds - other) + spent.python_seconds,
            wall_seconds=spent.wall_seconds,
            jobs=len(self.jobs),
            stages=len(ran),
            tasks=sum(stage.tasks for stage in ran),
            shuffle_bytes=sum(stage.shuffled for stage in ran),
            input_bytes=sum(stage.read for stage in ran),
            output_bytes=sum(stage.written for stage in ran),
        )


_GAUGES: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def clocks(context: SparkContext) -> Clocks:
    """What the clocks say now."""
    if context not in _GAUGES:
        # Spark's own gauge: the JVM's bean is closed to calls from outside of its module.
        source: Any = getattr(java(context._jvm), "org.apache.spark.metrics.source.JVMCPUSource")()
        _GAUGES[context] = source.metricRegistry().getGauges().get("jvmCpuTime")
    return Clocks(time.perf_counter(), _GAUGES[context].getValue() / 1e9, time.process_time())


class _Stage(NamedTuple):
    """What a stage took, as ``Stages.java`` tells it: completed tasks, nanoseconds, bytes."""

    tasks: int
    cpu: int
    shuffled: int
    read: int
    written: int
