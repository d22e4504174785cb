"""A region whose workers are Spark tasks, in a session of its own with a slot for each: pauses, a killed worker, a cancelled job.

Prints what it found as JSON.
"""

import json
import os
import signal
import sys
import time
from typing import Any

from tempura.errors import TempuraError
from tempura.frontend.start import start_session
from tempura.region.carriers import SparkTasks
from tempura.region.graph import Graph, Link, Node
from tempura.region.job import RegionJob
from tempura.region.settings import Settings
from tests.unit.region_programs import Count, Kept, UpTo

SLOWLY = Settings(credit=2_000, slice=200)
"""Small parts, so that the region still runs when a cancelled task has ended: Spark gives it two seconds."""


def until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


def refused(job: RegionJob) -> str:
    """Why a region is not started."""
    try:
        job.start()
    except TempuraError as error:
        return str(error)
    raise AssertionError("it was started")


def main(count: int) -> None:
    session = start_session("region", cores=4, config={"spark.driver.memory": "1g"})
    kept: list[int] = []
    names = ("first", "second")
    nodes = (
        Node("source", lambda _: UpTo(count)),
        *(Node(name, lambda _: Count()) for name in names),
        Node("sink", lambda _: Kept(kept), place="driver"),
    )
    links = (Link("source", "first"), Link("first", "second"), Link("second", "sink"))
    found: dict[str, Any] = {}
    with RegionJob(Graph(nodes, links), SparkTasks(session), settings=SLOWLY, every=1.0) as job:
        until(lambda: len(kept) > 10_000)
        # Spark's tracker learns of running tasks a little later than they run.
        until(lambda: "1 of 4 slots are free" in refused(RegionJob(Graph(nodes, links), SparkTasks(session))))
        found["refused"] = refused(RegionJob(Graph(nodes, links), SparkTasks(session)))
        os.kill(job.pid("second/0"), signal.SIGKILL)
        reached = len(kept)
        until(lambda: job.restarts == 1 and len(kept) > reached)
        session.sparkContext.cancelJobsWithTag(job.carrier.tag("first/0"))  # type: ignore[attr-defined]
        until(lambda: job.restarts == 2)
        until(lambda: len(kept) == count or job.inspect(["first/0"])["first/0"]["is"] != "lost")
        job.pause()
        job.resume()
        found |= {"ended": job.wait(90), "restarts": job.restarts, "recoveries": job.recoveries}
        found["exact"] = kept == list(range(count))
    found["jobs_left"] = len(session.sparkContext.statusTracker().getActiveJobsIds())
    print(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
