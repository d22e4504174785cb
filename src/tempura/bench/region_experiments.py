"""What the runtime of regions takes: rows through a pipeline, pauses, commands while the data path is full, workers that are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.flight as flight

from tempura.region.carriers import Carrier
from tempura.region.graph import Graph, Link, Node
from tempura.region.job import RegionJob
from tempura.region.operators import Batch, Operator, Read, Sink, Source

WHOLE = pa.record_batch({"n": pa.array(range(65_536), pa.int64())})


class Numbers(Source):
    """Numbers from 0, in batches of at most so many rows, for ever; the rows of a batch count from the batch's place."""

    state: ClassVar[tuple[str, ...]] = ("next",)

    def __init__(self, rows: int) -> None:
        self.rows, self.next = rows, 0

    def poll(self, rows: int) -> Read:
        position = [self.next, min(rows, self.rows)]
        return Read(self.reread(position), position)

    def reread(self, position: Any) -> Batch:
        first, count = position
        self.next = first + count
        return pa.record_batch({"first": pa.repeat(first, count), "n": WHOLE.column(0).slice(0, count)})


class Repeated(Numbers):
    """The same rows again and again, without making them anew."""

    def reread(self, position: Any) -> Batch:
        self.next += position[1]
        return WHOLE.slice(0, position[1])


class Same(Operator):
    """Lets everything pass."""

    def process(self, batch: Batch, port: int) -> Iterable[Batch]:
        return (batch,)


class Counted(Sink):
    """Counts rows."""

    state: ClassVar[tuple[str, ...]] = ("seen",)

    def __init__(self) -> None:
        self.seen = 0

    def write(self, batch: Batch) -> None:
        self.seen += batch.num_rows


class InOrder(Counted):
    """Sees to it that each number comes once, in order. Raises ValueError."""

    def write(self, batch: Batch) -> None:
        first, n = batch.column(0)[0].as_py(), batch.column(1)[0].as_py()
        if first + n != self.seen:
            raise ValueError(f"row {first + n} comes after {self.seen} rows")
        self.seen += batch.num_rows


def pipeline(source: Callable[[], Operator], sink: Callable[[], Operator]) -> Graph:
    """Three workers: a source, an identity, a sink."""
    nodes = (Node("source", lambda _: source()), Node("same", lambda _: Same()), Node("sink", lambda _: sink()))
    return Graph(nodes, (Link("source", "same"), Link("same", "sink")))


@contextmanager
def running(graph: Graph, carrier: Carrier, every: float | None = None) -> Iterator[RegionJob]:
    """A region whose sink has got something."""
    with RegionJob(graph, carrier, every=every) as job:
        end = time.monotonic() + 60
        while not processed(job) and time.monotonic() < end:
            time.sleep(0.05)
        yield job


def processed(job: RegionJob) -> int:
    """The rows that the sink has got."""
    return int(job.inspect(["sink/0"])["sink/0"].get("processed") or 0)


def throughput(carrier: Carrier, rows: int, seconds: float) -> float:
    """Rows per second through three workers, in batches of at most so many rows."""
    with running(pipeline(lambda: Repeated(rows), Counted), carrier) as job:
        time.sleep(seconds / 2)
        first, begin = processed(job), time.perf_counter()
        time.sleep(seconds)
        return (processed(job) - first) / (time.perf_counter() - begin)


def control(carrier: Carrier, times: int) -> dict[str, float]:
    """Milliseconds until all workers have paused while they are busy, and until a worker answers whose output is blocked."""
    pauses, answers = [], []
    with running(pipeline(lambda: Repeated(4096), Counted), carrier) as job:
        for _ in range(times):
            begin = time.perf_counter()
            job.pause()
            pauses.append(1000 * (time.perf_counter() - begin))
            job.resume()
            time.sleep(0.02)
        job.pause("user", ["sink/0"])
        while job.inspect(["source/0"])["source/0"]["is"] != "blocked":
            time.sleep(0.02)
        for _ in range(times):
            begin = time.perf_counter()
            job.inspect(["source/0"])
            answers.append(1000 * (time.perf_counter() - begin))
    return {
        "pause_median_ms": median(pauses),
        "pause_p99_ms": quantile(pauses, 0.99),
        "answer_median_ms": median(answers),
        "answer_p99_ms": quantile(answers, 0.99),
    }


def kills(carrier: Carrier, times: int) -> dict[str, Any]:
    """Seconds from ``kill -9`` of the worker in the middle until the sink gets more, with every number checked."""
    taken = []
    with running(pipeline(lambda: Numbers(4096), InOrder), carrier, every=1.0) as job:
        for _ in range(times):
            time.sleep(1.5)
            os.kill(job.pid("same/0"), signal.SIGKILL)
            time.sleep(0.05)
            before, begin = processed(job), time.perf_counter()
            while processed(job) <= before:
                time.sleep(0.01)
            taken.append(0.05 + time.perf_counter() - begin)
        failures = dict(job.coordinator.failures)
    return {"back_median_s": median(taken), "back_worst_s": max(taken), "lost_or_doubled": len(failures)}


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# --- one Arrow Flight stream, to compare with ---------------------------------------------------------------------------


class Drain(flight.FlightServerBase):  # type: ignore[misc]
    """Reads what comes and says how many rows there were."""

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        rows = sum(chunk.data.num_rows for chunk in reader)
        writer.write(pa.py_buffer(str(rows).encode()))


def flight_stream(rows: int, seconds: float) -> float:
    """Rows per second of one Arrow Flight stream between two processes, in batches of so many rows."""
    command = [sys.executable, "-m", "tempura.bench.region_experiments"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        batch = WHOLE.slice(0, rows)
        client = flight.connect(f"grpc://127.0.0.1:{int(process.stdout.readline())}")
        writer, reader = client.do_put(flight.FlightDescriptor.for_command(b""), batch.schema)
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            for _ in range(100):
                writer.write_batch(batch)
        writer.done_writing()
        read = int(reader.read().to_pybytes())
        taken = time.perf_counter() - begin
        writer.close()
        client.close()
        process.terminate()
    return read / taken


def measured(carrier: Callable[[], Carrier], seconds: float, times: int) -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {}
    for rows in (4096, 65_536):
        found[f"flight_{rows}"] = round(flight_stream(rows, seconds))
        found[f"pipeline_{rows}"] = round(throughput(carrier(), rows, seconds))
        found[f"share_{rows}"] = round(found[f"pipeline_{rows}"] / found[f"flight_{rows}"], 3)
    figures = control(carrier(), times) | kills(carrier(), max(3, times // 40))
    return found | {name: round(value, 3) for name, value in figures.items()}


if __name__ == "__main__":
    server = Drain("grpc://127.0.0.1:0")
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve()
