"""Interrupts: what Spark does for a thread ends with it."""

import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from py4j.protocol import Py4JError
from pyspark import SparkContext

_GROUP = "spark.jobGroup.id"


@contextmanager
def cancelled_when_interrupted(context: SparkContext) -> Iterator[None]:
    """When this thread is interrupted inside, cancel the jobs that it has begun, and those that would follow: Java goes on with a plan of
    several jobs although nobody waits for it. (pyspark's own handler asks over the connection that was interrupted, in vain.) Inside,
    jobs are in a group of their own; the user's group is set again afterwards."""
    group, before = f"tempura-{uuid.uuid4().hex}", context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    try:
        with _interrupts_as_such():
            yield
    except Exception:
        raise
    except BaseException:
        with suppress(Py4JError, OSError):
            context._jsc.sc().cancelJobGroupAndFutureJobs(group)
        raise
    finally:
        # A stopped context has no properties; the error that stopped it is the one to report.
        with suppress(Py4JError, OSError, AttributeError):
            context._jsc.setLocalProperty(_GROUP, before)


def stop_jobs(context: SparkContext) -> None:
    """Cancel the jobs that run for this thread's group, those of other threads included. Later ones of the group are run."""
    with suppress(Py4JError, OSError):
        context._jsc.sc().cancelJobGroup(context.getLocalProperty(_GROUP))


@contextmanager
def _interrupts_as_such() -> Iterator[None]:
    """Let Ctrl-C be a KeyboardInterrupt. Pyspark's handler breaks off the connection that is in use, and before Spark 4.1 it ends with the
    error of that. Handlers of others are left alone."""
    theirs = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(theirs) or not str(theirs.__module__).startswith("pyspark."):
        yield
        return

    def handler(number: int, frame: FrameType | None) -> NoReturn:
        with suppress(Py4JError, OSError):
            theirs(number, frame)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, theirs)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, by which services are stopped, do what Ctrl-C does, also where a shell has that ignored. For the main thread."""

    def handler(number: int, frame: FrameType | None) -> NoReturn:
        interrupted = signal.getsignal(signal.SIGINT)
        if callable(interrupted):
            interrupted(number, frame)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
