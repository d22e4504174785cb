"""Where workers live: each in a Spark task of a job of its own, or in a plain process of this machine."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Protocol
from uuid import uuid4

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.region.host import carry

Gone = Callable[[str], None]
"""Called when what carried a worker has ended, with the reason as far as it is known."""


class Carrier(Protocol):
    """Starts workers, and ends them."""

    def admit(self, workers: int) -> None:
        """Refuse a region for which there is no place. Raises TempuraError NO_SLOTS."""

    def start(self, worker: str, code: bytes, gone: Gone) -> None:
        """Start a worker; again when it is gone."""

    def stop(self) -> None:
        """End all that still run."""


class Processes:
    """Workers as processes of this machine, without Spark."""

    def __init__(self, slots: int = 64) -> None:
        self._slots = slots
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def admit(self, workers: int) -> None:
        if workers > self._slots:
            raise no_slots(workers, self._slots, self._slots)

    def start(self, worker: str, code: bytes, gone: Gone) -> None:
        process = subprocess.Popen([sys.executable, "-m", "tempura.region.host"], stdin=subprocess.PIPE)
        self._running[worker] = process
        assert process.stdin is not None
        process.stdin.write(code)
        process.stdin.close()

        def wait() -> None:
            status = process.wait()
            gone(f"its process ended with status {status}")

        threading.Thread(target=wait, name=f"wait {worker}", daemon=True).start()

    def stop(self) -> None:
        for process in self._running.values():
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()


class SparkTasks:
    """Workers as tasks of a Spark session, each in a job of its own with a tag of its own: one that dies takes no other with it, and can
    be started again alone."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._tag = f"tempura-region-{uuid4().hex[:8]}"
        self._threads: dict[str, InheritableThread] = {}

    def admit(self, workers: int) -> None:
        if self._context.getConf().get("spark.speculation", "false") == "true":
            what = "spark.speculation is on: Spark would start a worker that is only long-lived a second time."
            raise TempuraError("NO_SLOTS", what, "Start the session with spark.speculation=false.")
        total = self._slots()
        free = total - self._busy()
        if workers > free:
            raise no_slots(workers, free, total)

    def _slots(self) -> int:
        """The tasks that the session runs at a time."""
        local = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", str(self._context.master))
        return int(local[1]) if local else int(self._context.defaultParallelism)

    def _busy(self) -> int:
        status = self._context.statusTracker()
        stages = [status.getStageInfo(stage) for stage in status.getActiveStageIds()]
        return sum(int(stage.numActiveTasks) for stage in stages if stage is not None)

    def start(self, worker: str, code: bytes, gone: Gone) -> None:
        context, tag = self._context, self.tag(worker)

        def job() -> None:
            why = "its task ended"
            context.addJobTag(tag)
            try:
                context.parallelize([0], 1).foreach(lambda _: carry(code))
            except Exception as error:
                why = str(error).splitlines()[0]
            gone(why)

        self._threads[worker] = InheritableThread(target=job, name=f"job {worker}", daemon=True)
        self._threads[worker].start()

    def tag(self, worker: str) -> str:
        """The tag of a worker's job, for ``SparkContext.cancelJobsWithTag``."""
        return f"{self._tag}-{worker.replace('/', '-')}"

    def stop(self) -> None:
        for worker, thread in self._threads.items():
            thread.join(2)
            if thread.is_alive():
                self._context.cancelJobsWithTag(self.tag(worker))
                thread.join(5)


def no_slots(workers: int, free: int, total: int) -> TempuraError:
    """The error of a region that would wait for ever for its last workers."""
    what = f"The region needs {workers} workers at a time, and {free} of {total} slots are free. Nothing was started."
    return TempuraError("NO_SLOTS", what, f"Give it {workers} slots: more cores for Spark, or fewer workers.")
