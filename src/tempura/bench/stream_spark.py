"""A continuous join of three streams beside Spark's Structured Streaming, which joins the same files: rows per second over files that are
there, and how long a row that arrives alone takes to its result."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tempura.region.carriers import Carrier, SparkTasks
from tempura.streams import continuous

NAMES = ("r", "s", "t")

SQL = "SELECT r.id, r.value AS a, s.value AS b, t.value AS c FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id"

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])


def write_inputs(folder: Path, rows: int, files: int, seed: int = 0) -> None:
    """Three streams in which each id occurs once, at random places: files of Parquet."""
    rng = Random(seed)
    for name in NAMES:
        ids = list(range(rows))
        rng.shuffle(ids)
        (folder / name).mkdir()
        for n in range(files):
            part = ids[n * rows // files : (n + 1) * rows // files]
            put(folder / name / f"{n:04}.parquet", part, n)


def put(path: Path, ids: list[int], value: int) -> None:
    """A file that appears whole."""
    new = path.with_name(f".{path.name}")
    pq.write_table(pa.table([ids, [value] * len(ids)], schema=SCHEMA), new)
    new.rename(path)


def spark_join(session: SparkSession, folder: Path) -> DataFrame:
    """The join by Structured Streaming, over the same files."""
    for name in NAMES:
        session.readStream.schema("id BIGINT, value BIGINT").parquet(str(folder / name)).createOrReplaceTempView(name)
    return session.sql(SQL)


def spark_rate(session: SparkSession, folder: Path, rows: int) -> dict[str, float]:
    """Seconds in which Structured Streaming has joined all files, into Parquet."""
    begin = time.perf_counter()
    query = (
        spark_join(session, folder)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "spark-out"))
    )
    query.awaitTermination()
    taken = time.perf_counter() - begin
    found = session.read.parquet(str(folder / "spark-out")).count()
    return {"rows_per_s": round(3 * rows / taken), "seconds": round(taken, 2), "result_rows": found}


def region_rate(folder: Path, rows: int, carrier: Carrier, session: SparkSession) -> dict[str, float]:
    """The same by a continuous join, into Parquet: with the start of its workers."""
    sources = {name: continuous.folder(folder / name, follow=False) for name in NAMES}
    out = folder / "region-out"
    job = continuous.join(SQL, sources, continuous.parquet(out), spark=session, carrier=carrier)
    begin = time.perf_counter()
    with job:
        job.wait(600)
        taken = time.perf_counter() - begin
    found = sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))
    return {"rows_per_s": round(3 * rows / taken), "seconds": round(taken, 2), "result_rows": found}


def latencies(folder: Path, seen: Callable[[], int], times: int) -> list[float]:
    """Seconds from a row that completes a result to that result, one at a time."""
    taken = []
    for n in range(times):
        id, before = 10**9 + n, seen()
        for name in NAMES[:-1]:
            put(folder / name / f"x{n:04}.parquet", [id], n)
        time.sleep(1.5)
        begin = time.perf_counter()
        put(folder / NAMES[-1] / f"x{n:04}.parquet", [id], n)
        while seen() == before and time.perf_counter() - begin < 60:
            time.sleep(0.005)
        taken.append(time.perf_counter() - begin)
    return taken


def spark_latency(session: SparkSession, folder: Path, times: int) -> float:
    """The median latency of Structured Streaming, which begins its next batch when the last one is done."""
    counted = [0]

    def take(batch: DataFrame, _: int) -> None:
        counted[0] += batch.count()

    query = (
        spark_join(session, folder)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    try:
        with waited(lambda: counted[0] > 0):
            return median(latencies(folder, lambda: counted[0], times))
    finally:
        query.stop()


def region_latency(session: SparkSession, folder: Path, times: int, carrier: Carrier) -> float:
    """The median latency of a continuous join, to a callback."""
    counted = [0]

    def take(batch: pa.RecordBatch) -> None:
        counted[0] += batch.num_rows

    sources = {name: continuous.folder(folder / name) for name in NAMES}
    with (
        continuous.join(SQL, sources, continuous.callback(take), spark=session, carrier=carrier),
        waited(lambda: counted[0] > 0),
    ):
        return median(latencies(folder, lambda: counted[0], times))


@contextmanager
def waited(condition: Callable[[], bool], seconds: float = 120.0) -> Iterator[None]:
    """Begin when it is so."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    yield


def compared(session: SparkSession, rows: int, files: int, times: int) -> list[dict[str, Any]]:
    """Both ways, in one run on one machine, each over files of its own that hold the same."""
    found = []
    ways: dict[str, tuple[Callable[[Path], dict[str, float]], Callable[[Path], float]]] = {
        "structured streaming": (
            lambda folder: spark_rate(session, folder, rows),
            lambda folder: spark_latency(session, folder, times),
        ),
        "region": (
            lambda folder: region_rate(folder, rows, SparkTasks(session), session),
            lambda folder: region_latency(session, folder, times, SparkTasks(session)),
        ),
    }
    with TemporaryDirectory(prefix="tempura-bench-") as base:
        for name, (rate, latency) in ways.items():
            folder = Path(base) / name.replace(" ", "-")
            folder.mkdir()
            write_inputs(folder, rows, files)
            about: dict[str, Any] = {"way": name, **rate(folder)}
            shutil.rmtree(folder)
            folder.mkdir()
            write_inputs(folder, 100, 1)
            found.append({**about, "latency_s": round(latency(folder), 3)})
    return found
