"""``tp.streams.join``: a continuous join on the workers of a region, from sources to a sink.

The join is one worker, which each source sends to; sources and files are workers of their own, a callback or a table is in this process.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.region.carriers import Carrier, Processes, SparkTasks
from tempura.region.claim import read_note
from tempura.region.graph import Graph, Link, Node, Place
from tempura.region.job import RegionJob
from tempura.region.kafka.clients import Address
from tempura.region.kafka.sink import KafkaSink
from tempura.region.kafka.topic import Topic
from tempura.region.operators import CHANGE, TIME, Operator
from tempura.region.settings import Settings
from tempura.region.sinks import Callback, ParquetFolder, Pushed
from tempura.region.sources import Folder, Given, Rate
from tempura.streams.operator import JoinOperator
from tempura.streams.query import JoinQuery
from tempura.streams.spec import query_of, window_of
from tempura.streams.sql import Plan, plan_of, plan_sql, schema_of
from tempura.streams.types import arrow_type, spark_type

EVERY = 5.0
"""Seconds between snapshots: what a sink lets be seen at once, and the most that is done again after a death."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A source of a continuous join: what makes it, where, the columns that it gives, and its window as text."""

    make: Callable[[int], Operator]
    schema: pa.Schema
    window: str | None = None
    place: Place = "worker"

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Names and Spark's types, without those that say what becomes of a row, and when."""
        return [(f.name, spark_type(f.type)) for f in self.schema if f.name not in (CHANGE, TIME)]


@dataclass(frozen=True, slots=True)
class Target:
    """A sink of a continuous join: what makes it, given the job's folder, and where."""

    make: Callable[[Path], Callable[[int], Operator]]
    place: Place = "driver"


def folder(path: str | Path, window: str | None = None, schema: pa.Schema | None = None, follow: bool = True) -> Stream:
    """The Parquet files that come into a folder, each whole when it appears. ``schema`` is that of the first file unless given;
    ``follow=False``: what is there, and no more. Raises TempuraError FOLDER_MISSING."""
    place = Path(path).resolve()
    if schema is None:
        first = next(iter(sorted(place.glob("*.parquet"))), None)
        if first is None:
            raise TempuraError(
                "FOLDER_MISSING", f"There is no Parquet file in {place}.", "Make the folder, or give a schema."
            )
        schema = pq.read_schema(first).remove_metadata()
    known = schema
    return Stream(lambda _: Folder(str(place), known, follow), schema, window)


def rate(rows_per_second: float, count: int | None = None, window: str | None = None) -> Stream:
    """Numbers at a rate: ``n``, and ``time`` in seconds since 1970, when it was due; ``count`` of them, or without end. Raises
    TempuraError BAD_OPTION."""
    if isinstance(rows_per_second, bool) or not 0 < rows_per_second < float("inf") or (count is not None and count < 0):
        what = f"A source has a rate of {rows_per_second} rows per second, and a count of {count}."
        raise TempuraError("BAD_OPTION", what, "Give a rate above 0, and no count or how many rows.")
    return Stream(lambda _: Rate(rows_per_second, count), Rate.schema, window)


def given(batches: Callable[[], Iterable[pa.RecordBatch]], schema: pa.Schema, window: str | None = None) -> Stream:
    """The batches that a function's iterable gives, in this process."""
    return Stream(lambda _: Given(batches), schema, window, "driver")


def topic(
    servers: str,
    topic: str,
    columns: Mapping[str, str],
    window: str | None = None,
    start: str | Mapping[int, int] = "earliest",
    follow: bool = True,
    connection: Mapping[str, str] | None = None,
    new_columns: str = "refuse",
) -> Stream:
    """The records of a topic of Kafka, one JSON object each, by offsets. ``columns`` are names with Spark's types, ``servers`` is
    ``host:port``, several with commas; ``start`` is earliest, latest, or offsets by partition; ``follow=False``: what is there, and no
    more. ``connection`` are settings of librdkafka, secrets as ``env:NAME`` or ``file:/path``. ``new_columns``: refuse or ignore fields
    that are no columns.

    Raises TempuraError BAD_SOURCE, BAD_OPTION, BAD_STREAM_JOIN for a type whose values do not travel, NO_PACKAGE.
    """
    if new_columns not in ("refuse", "ignore"):
        raise TempuraError("BAD_OPTION", f"Source {topic} has new_columns = {new_columns!r}.", "Say refuse or ignore.")
    address = Address(f"Source {topic}", servers, topic, dict(connection or {}))
    schema = pa.schema([(name, arrow_type(type)) for name, type in columns.items()])
    made = Topic(address, schema, start, follow, new_columns == "ignore")
    return Stream(lambda _: Topic(address, schema, start, follow, new_columns == "ignore"), made.schema, window)


def callback(function: Callable[[pa.RecordBatch], object]) -> Target:
    """Calls a function in this process with each batch of changes, at once."""
    return Target(lambda _: lambda _: Callback(function))


def parquet(path: str | Path) -> Target:
    """Parquet files in a folder, one per snapshot that has changes."""
    place = Path(path).resolve()
    return Target(lambda folder: partial(_parquet, place, job_id(folder)), "worker")


def _parquet(path: Path, job: str, number: int) -> Operator:
    return ParquetFolder(path, f"part-{job}-{number}")


def kafka(servers: str, topic: str, key: Sequence[str] = (), connection: Mapping[str, str] | None = None) -> Target:
    """Records of a topic of Kafka, a transaction per snapshot that has changes. ``key`` are columns whose values are the records' key;
    without them all values of a row choose its partition. ``servers`` and ``connection`` are as of :func:`topic`.

    Raises TempuraError BAD_SOURCE, BAD_OPTION, NO_PACKAGE.
    """
    address = Address(f"Sink {topic}", servers, topic, dict(connection or {}))
    address.check()
    return Target(lambda folder: partial(_kafka, folder / "sink", job_id(folder), address, tuple(key)), "worker")


def _kafka(folder: Path, job: str, address: Address, key: tuple[str, ...], number: int) -> Operator:
    return KafkaSink(folder, f"stream-{job}-{number}", address, key)


def table(warehouse: Any, name: str) -> Target:
    """A managed table of a warehouse, which takes the changes of each snapshot as one arrival."""
    target = warehouse.table(name)

    def push(rows: pa.Table, id: str) -> None:
        changes = net(rows)
        if changes.num_rows:
            spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
            target.apply(spark.createDataFrame(changes), id=id)

    return Target(lambda folder: lambda _: Pushed(folder / "sink", f"stream-{job_id(folder)}", push))


def net(rows: pa.Table) -> pa.Table:
    """Changes without rows that came and went."""
    names = [name for name in rows.column_names if name != CHANGE]
    counts: dict[tuple[Any, ...], int] = {}
    for *values, kind in zip(*(rows.column(name).to_pylist() for name in (*names, CHANGE)), strict=True):
        counts[tuple(values)] = counts.get(tuple(values), 0) + (1 if kind == "insert" else -1)
    found = [
        (*values, "insert" if count > 0 else "delete") for values, count in counts.items() for _ in range(abs(count))
    ]
    schema = pa.schema([*(rows.schema.field(name) for name in names), (CHANGE, pa.string())])
    columns = list(zip(*found, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@dataclass
class ContinuousJob:
    """What :func:`join` gives: a context manager that runs while its block does."""

    plan: Plan
    region: RegionJob
    temporary: Path | None = None
    began: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Self:
        self.region.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all sources have ended and the sink has everything. Raises TempuraError REGION_FAILED."""
        return self.region.wait(timeout)

    def stop(self) -> None:
        """End it. A job with a folder goes on from its last snapshot when it is started again."""
        self.region.stop()
        if self.temporary is not None:
            shutil.rmtree(self.temporary, ignore_errors=True)

    def status(self) -> dict[str, Any]:
        """Workers, snapshots and restarts of the region, and of the join: rates, caches in use, the last decisions."""
        told = self.region.status()
        lost = told["workers"]["join/0"]["is"] == "lost"
        return {**told, "seconds": round(time.monotonic() - self.began, 1), "join": {} if lost else self._ask("status")}

    def explain(self) -> str:
        """The pipeline of each input: its joins in order, cached segments in brackets."""
        return str(self._ask("explain"))

    def why(self) -> str:
        """Who waits for whom."""
        return self.region.why()

    def set_memory(self, memory: int | None) -> None:
        """The bytes that caches may take from now on."""
        self.region.call("join/0", "set_memory", memory=memory)

    def _ask(self, method: str) -> Any:
        return self.region.ask(["join/0"], "ask", {"method": method, "arguments": {}})["join/0"].get("result")


def join(
    query: str | Mapping[str, Any] | JoinQuery,
    sources: Mapping[str, Stream],
    sink: Target,
    memory: int | None = None,
    spark: SparkSession | None = None,
    folder: str | Path | None = None,
    every: float = EVERY,
    settings: Settings | None = None,
    carrier: Carrier | None = None,
) -> ContinuousJob:
    """A continuous join of sources, as SQL or a specification (:func:`tempura.streams.spec.query_of`), whose caches may take ``memory``
    bytes. Its workers are tasks of ``spark``, or processes of this machine without one, unless ``carrier`` says; SQL needs a session.
    ``folder`` keeps what is needed to go on; ``every``: seconds between snapshots. Nothing runs before the block begins.

    Raises TempuraError BAD_STREAM_JOIN, BAD_NUMBER, and when it starts NO_SLOTS, RUN_IN_PROGRESS where another process runs the folder's
    job, JOB_CHANGED where that is another join.
    """
    if isinstance(every, bool) or not 0 < every < float("inf"):
        raise TempuraError("BAD_NUMBER", f"Snapshots are to be {every} seconds apart.", "Give a number above 0.")
    plan = _plan(query, sources, spark)
    own = Path(folder).resolve() if folder is not None else Path(tempfile.mkdtemp(prefix="tempura-stream-"))
    own.mkdir(parents=True, exist_ok=True)
    carrier = carrier or (Processes() if spark is None else SparkTasks(spark))
    graph, of = graph_of(plan, sources, sink, memory, own), {"join": said(query, plan, sources)}
    region = RegionJob(graph, carrier, own, settings, every, of=of)
    return ContinuousJob(plan, region, None if folder is not None else own)


def job_id(folder: Path) -> str:
    """The name of the job that a folder is of: what it hands over is known by it, whoever goes on with it. Raises TempuraError
    REGION_FAILED when what is noted of it is gone in part."""
    path = folder / "job.json"
    if not path.exists():
        own = uuid4().hex[:12]
        new = folder / f"job-{own}.new"
        new.write_text(json.dumps({"id": own}), encoding="utf-8")
        with suppress(FileExistsError):  # another program was first
            os.link(new, path)
        new.unlink()
    return str(read_note(path, {"id": ""})["id"])


def said(query: str | Mapping[str, Any] | JoinQuery, plan: Plan, sources: Mapping[str, Stream]) -> list[str]:
    """What of a join has to stay for the rows that are stored of it to be its own: its text or its conditions, its inputs with their
    columns and windows."""
    inputs = [f"{i.name}: {i.window}, {[(c.name, c.type) for c in i.columns]}" for i in plan.query.inputs]
    if isinstance(query, str):
        return [" ".join(query.split()), *inputs, *(f"{name}: {sources[name].columns}" for name in plan.sources)]
    return [str(plan.query.on), *inputs]


def _plan(
    query: str | Mapping[str, Any] | JoinQuery, sources: Mapping[str, Stream], spark: SparkSession | None
) -> Plan:
    if isinstance(query, str):
        if spark is None:
            raise _bad("SQL is read by Spark's analyzer, and no session is given.", "Give spark=…, or a specification.")
        schemas = {name: schema_of(source.columns) for name, source in sources.items()}
        return plan_sql(spark, query, schemas, {name: window_of(name, s.window) for name, s in sources.items()})
    plan = plan_of(query if isinstance(query, JoinQuery) else query_of(query))
    for input in plan.query.inputs:
        if input.name not in sources:
            raise _bad(f"input {input.name} has no source.", f"Give one; there are {', '.join(sources) or 'none'}.")
        window = sources[input.name].window
        if window is not None and window_of(input.name, window) != input.window:
            what = f"the window of {input.name} is {window} of its source, and {input.window or 'none'} of the specification."
            raise _bad(what, "Give it in the specification, beside the columns.")
        known = dict(sources[input.name].columns)
        for column in input.columns:
            if known.get(column.name) != column.type:
                what = f"{input.name}.{column.name} is {column.type}, and {known.get(column.name, 'not there')} in its source."
                raise _bad(what, "Correct the specification, or the source.")
    return plan


def graph_of(plan: Plan, sources: Mapping[str, Stream], sink: Target, memory: int | None, own: Path) -> Graph:
    """The region of a continuous join: a node per source that is used, the join, the sink."""
    used = dict.fromkeys(plan.sources)
    nodes = [
        *(Node(f"source-{name}", sources[name].make, place=sources[name].place) for name in used),
        Node("join", lambda _: JoinOperator(plan, memory)),
        Node("sink", sink.make(own), place=sink.place),
    ]
    links = [Link(f"source-{name}", "join", port=n) for n, name in enumerate(plan.sources)]
    return Graph(tuple(nodes), (*links, Link("join", "sink")))


def _bad(what: str, remedy: str) -> TempuraError:
    return TempuraError("BAD_STREAM_JOIN", what, remedy)
