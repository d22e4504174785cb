"""Regions in real processes, over Arrow Flight: pause, commands while data is held up, a worker killed, streams without the token."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest

from tempura.errors import TempuraError
from tempura.region.carriers import Processes, SparkTasks
from tempura.region.job import RegionJob
from tempura.region.settings import Settings
from tempura.region.wire import EMPTY, greeting
from tests.unit.region_programs import Count, Graph, Kept, Link, Node, UpTo


def pipeline(count: int, kept: list[int]) -> Graph:
    nodes = (
        Node("source", lambda _: UpTo(count)),
        Node("count", lambda _: Count()),
        Node("sink", lambda _: Kept(kept), place="driver"),
    )
    return Graph(nodes, (Link("source", "count"), Link("count", "sink")))


def until(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


SMALL = Settings(credit=2_000, slice=100)


def test_workers_are_killed_paused_and_asked_and_nothing_is_lost_or_doubled() -> None:
    kept: list[int] = []
    count = 1_500_000
    with RegionJob(pipeline(count, kept), Processes(), settings=SMALL, every=0.3) as job:
        until(lambda: len(kept) > 10_000)
        os.kill(job.pid("count/0"), signal.SIGKILL)
        reached = len(kept)
        until(lambda: len(kept) > reached + 10_000)
        os.kill(job.pid("source/0"), signal.SIGKILL)
        until(lambda: job.restarts >= 2)
        job.pause("user")
        stood = len(kept)
        assert stood < count
        time.sleep(0.2)
        assert len(kept) == stood
        assert "is paused: user" in job.why()
        job.resume("user")
        assert job.wait(60)
        assert job.restarts == 2
        assert job.coordinator.complete > 0
        assert job.inspect(["count/0"])["count/0"]["state"] == {"seen": str(count)}
    assert kept == list(range(count))
    assert all(seconds < 5 for seconds in job.recoveries)


def test_control_is_answered_while_the_data_path_is_full() -> None:
    kept: list[int] = []
    with RegionJob(pipeline(10_000_000, kept), Processes(), settings=SMALL) as job:
        job.pause("user", ["sink/0"])
        # Before the sink is full the source waits for moments only.
        until(lambda: "source/0 waits for room: count/0 has not processed what was sent" in job.why().splitlines())
        until(lambda: job.inspect(["source/0"])["source/0"]["is"] == "blocked")
        assert job.why().splitlines()[0] == "sink/0 is paused: user"
        assert job.call("count/0", "inspect")["seen"].isdigit()
        with pytest.raises(TempuraError, match=r"REGION_FAILED.*no attribute 'dance'"):
            job.call("count/0", "dance")
        with pytest.raises(TempuraError, match=r"BAD_REGION.*no worker 'x/0'"):
            job.pause(workers=["x/0"])


def test_a_stream_without_the_token_is_refused() -> None:
    with RegionJob(pipeline(100_000_000, []), Processes()) as job:
        until(lambda: len(job._connections) == 3)
        data = flight.connect(job._connections["count/0"].listens)
        writer, answers = data.do_put(greeting("guess", channel="x"), EMPTY)
        assert answers.read() is None
        with pytest.raises(flight.FlightUnauthenticatedError):
            writer.close()
        control = flight.connect(f"grpc://127.0.0.1:{job._server.port}")
        _, reader = control.do_exchange(greeting("", worker="count/0", listens="", pid=1, life=1))
        with pytest.raises(flight.FlightUnauthenticatedError):
            reader.read_chunk()
        for client in (data, control):
            client.close()


def test_a_region_without_enough_slots_is_refused_before_anything_starts() -> None:
    job = RegionJob(pipeline(1, []), Processes(slots=1))
    with pytest.raises(TempuraError, match=r"NO_SLOTS.*needs 2 workers at a time, and 1 of 1 slots"):
        job.start()


def test_a_region_goes_on_where_its_folder_says(tmp_path: Path) -> None:
    first: list[int] = []
    with RegionJob(pipeline(100_000_000, first), Processes(), tmp_path, SMALL, every=0.2) as job:
        until(lambda: job.coordinator.complete >= 2 and len(first) > 10_000)
    second: list[int] = []
    # However fast the machine is, the first was not done, and the second has something to do.
    count = len(first) + 200_000
    with RegionJob(pipeline(count, second), Processes(), tmp_path, SMALL) as job:
        assert job.wait(60)
    assert (
        0 < second[0] <= len(first)
    )  # it repeats what came after its last snapshot, as a callback is told at least once
    assert second == list(range(second[0], count))


class Conf:
    def get(self, name: str, default: str) -> str:
        return {"spark.speculation": "true"}.get(name, default)


class Session:
    """As much of a session as is asked."""

    @property
    def sparkContext(self) -> "Session":  # noqa: N802 - Spark's name
        return self

    def getConf(self) -> Conf:  # noqa: N802
        return Conf()


def test_a_session_that_would_start_workers_twice_is_refused() -> None:
    session: Any = Session()
    with pytest.raises(TempuraError, match=r"NO_SLOTS.*spark.speculation is on"):
        SparkTasks(session).admit(1)
