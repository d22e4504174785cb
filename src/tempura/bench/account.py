"""What a piece of work took, of everything in this process and its JVM."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

from tempura.bench.record import Row
from tempura.execute.contract import Usage
from tempura.execute.metrics import Meter


@dataclass(frozen=True, slots=True)
class Taken:
    """``usage`` of Spark's jobs, in ``jobs_s`` seconds in which at least one of them ran. CPU seconds of the whole JVM, which in a local
    session runs the tasks as well as the driver, and of Python; ``wall_s`` seconds passed."""

    usage: Usage
    jobs_s: float
    jvm_s: float
    python_s: float
    wall_s: float

    def row(self) -> Row:
        """As columns of a row: seconds to the millisecond."""
        figures = {
            "cpu_s": self.usage.cpu_seconds,
            "jvm_s": self.jvm_s,
            "python_s": self.python_s,
            "wall_s": self.wall_s,
        }
        return {name: round(value, 3) for name, value in figures.items()} | {
            "jobs": self.usage.jobs,
            "tasks": self.usage.tasks,
            "read_bytes": self.usage.input_bytes,
            "written_bytes": self.usage.output_bytes,
            "shuffle_bytes": self.usage.shuffle_bytes,
        }


class Account:
    """Takes account of what happens inside a ``with`` block; what taking account takes is left out."""

    taken: Taken

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._meter = Meter(self._context)

    def __enter__(self) -> "Account":
        self._meter.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._meter.__exit__(kind, error, trace)
        if error is None:
            spent, jobs_s = self._meter.spent, covered(self._intervals())
            self.taken = Taken(self._meter.usage, jobs_s, spent.jvm_seconds, spent.python_seconds, spent.wall_seconds)

    def _intervals(self) -> Iterable[tuple[float, float]]:
        """When each job began and ended."""
        store: Any = self._context._jsc.sc().statusStore()
        for number in self._meter.jobs:
            job = store.job(number)
            times = (job.submissionTime(), job.completionTime())
            if all(time.isDefined() for time in times):
                began, ended = (time.get().getTime() / 1e3 for time in times)
                yield began, ended


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total, end = 0.0, float("-inf")
    for began, ended in sorted(intervals):
        total += max(0.0, ended - max(began, end))
        end = max(end, ended)
    return total
