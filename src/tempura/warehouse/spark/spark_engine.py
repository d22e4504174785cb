"""The engine of a warehouse on Spark."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from tempura.cost.calibration import Machine, prices_of
from tempura.cost.model import CostModel
from tempura.cost.prices import BESIDE_TASKS
from tempura.errors import TempuraError
from tempura.execute.contract import WEIGHT, Clocks, StepOutcome, StoredOutput, Usage
from tempura.execute.draft import Draft
from tempura.execute.identity import consolidate
from tempura.execute.interrupt import cancelled_when_interrupted
from tempura.execute.jvm import Jvm
from tempura.execute.machine import is_local, machine_of
from tempura.execute.metrics import clocks
from tempura.execute.naming import attribute
from tempura.execute.spark import SparkExecutor
from tempura.execute.tuning import PARTITIONS, for_few_rows, hold_tables, is_small, sendable_bytes
from tempura.execute.writing import write, writer_of
from tempura.frontend.catalyst import first_line
from tempura.frontend.checks import refuse_variable
from tempura.frontend.compiled import compiled
from tempura.frontend.lift import Lifted, lift_dataframe, lift_sql
from tempura.frontend.session import require_classic, require_running, started_in_background
from tempura.kafka import TopicOffsets
from tempura.physical.operators import Read
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.figures import figures
from tempura.warehouse.batches.parquet import FileSummary
from tempura.warehouse.declared.kafka import KafkaSpec
from tempura.warehouse.declared.limits import may_limit, refuse_limits
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import (
    Changes,
    Check,
    FileSet,
    Fit,
    Lookup,
    Settings,
    Source,
    TopicRead,
    Unmatched,
    Verification,
    WholeQuery,
    Work,
)
from tempura.warehouse.sources.topic import check_unchanged
from tempura.warehouse.spark import broker, reading, told
from tempura.warehouse.spark.avro import columns_and_schema
from tempura.warehouse.spark.in_order import changes_in_order
from tempura.warehouse.spark.incoming import (
    check_frame,
    conform,
    differing_rows,
    duplicate_key,
    merged_rows,
    met_rows,
    missing_row,
    replaced_rows,
    sides_of,
)
from tempura.warehouse.spark.notes import Notes
from tempura.warehouse.spark.partners import unmatched
from tempura.warehouse.spark.places import can_place, net_by_place, places_of
from tempura.warehouse.spark.recalled import Recalled
from tempura.warehouse.spark.records import changes_of
from tempura.warehouse.spark.rows import (
    marked_rows,
    net_changes,
    nullable,
    once_each,
    plain_rows,
    read_clean,
    read_columns,
    read_deletions,
    without,
)
from tempura.warehouse.spark.settings import at_work, semantic_settings, session_with
from tempura.warehouse.spark.verify import no_state, verify
from tempura.warehouse.spark.whole import answered, is_answered_alike, recomputed

_STEPS_RUN: WeakKeyDictionary[SparkContext, int] = WeakKeyDictionary()
"""Of all warehouses of a process: what they warm up is one virtual machine."""


class SparkEngine:
    """Runs a warehouse in clones of the user's session, which is never changed.

    ``session`` is called when Spark is first needed; that raises TempuraError SPARK_CONNECT for a session without access to Catalyst.
    ``prices``: those of the machine, measured or built in, unless they are given. ``notes``: what Spark said to earlier processes, which
    is believed until it runs; for sessions that Tempura starts, as it starts them.
    """

    def __init__(
        self, session: Callable[[], SparkSession], prices: CostModel | None = None, notes: Notes | None = None
    ) -> None:
        self._start = session
        self._prices = prices
        self._start_took: Clocks | None = None
        self._is_starting = False
        self._recalled = Recalled(notes, lambda: self.is_started) if notes else None

    @property
    def _session(self) -> SparkSession:
        """The session, which runs. Raises TempuraError NO_SESSION once it was stopped, whatever it would be asked: what PySpark says of
        one that is not there depends on where it is missed."""
        session = self._started
        require_running(session)
        return session

    @cached_property
    def _started(self) -> SparkSession:
        began, own = time.perf_counter(), time.thread_time()
        session = self._start()
        require_classic(session)
        if self._recalled:
            waited, worked = time.perf_counter() - began, time.thread_time() - own
            self._start_took = Clocks(waited, clocks(session.sparkContext).jvm_seconds, worked)
        return session

    @property
    def is_started(self) -> bool:
        return "_started" in vars(self)

    def _require_spark(self) -> None:
        """Start Spark for functions of pyspark that need a session and take none."""
        assert self._session is not None

    def start(self) -> bool:
        was_started = self.is_started
        self._require_spark()
        return not was_started and self._recalled is not None

    def start_early(self) -> None:
        # What a function of somebody else does in another thread nobody knows.
        if self._recalled and not self.is_started and not self._is_starting:
            self._start, self._is_starting = started_in_background(self._start), True

    def definitions(self, text: str) -> str | None:
        if not self._may_ask:
            return None
        return str(compiled(self._session, "Definitions").of(self._session._jsparkSession, text))

    def _told(self, about: str, ask: Callable[[], Any], **question: Any) -> Any:
        """What Spark answers, or has answered to an earlier process."""
        return self._recalled.told({"about": about, **question}, ask) if self._recalled else ask()

    @property
    def version(self) -> str:
        return str(self._told("version", lambda: self._session.version))

    @property
    def _may_ask(self) -> bool:
        """Whether Spark runs, or may be started for a question that can do without."""
        return self.is_started or self._recalled is None

    @property
    def prices(self) -> CostModel:
        return self._prices_now if self._may_ask else self._priced()

    @cached_property
    def _prices_now(self) -> CostModel:
        return self._priced()

    def _priced(self) -> CostModel:
        known = self._told("machine", self._machine)
        prices = self._prices or prices_of(Machine(known["about"]))
        return replace(prices, **known["session"])

    def _machine(self) -> dict[str, Any]:
        """The machine, and what the session decides of prices."""
        settings = self._session._jsparkSession.sessionState().conf()
        session = {
            "counted_bytes": sendable_bytes(self._session),
            "spark_broadcast_bytes": int(settings.autoBroadcastJoinThreshold()),
            "tasks": self._session.sparkContext.defaultParallelism,
            "hashed_joins": hold_tables(self._session),
            "beside_tasks": BESIDE_TASKS if is_local(self._session.sparkContext) else 0.0,
        }
        return {"about": dict(machine_of(self._session).about), "session": session}

    @property
    def is_measured(self) -> bool:
        return True

    @property
    def steps_run(self) -> int:
        return _STEPS_RUN.get(self._session.sparkContext, 0) if self._may_ask else 0

    def settings(self) -> dict[str, str]:
        return semantic_settings(self._session)

    # --- schemas and queries ----------------------------------------------------------------------------------------

    def given_schema(self, given: str | StructType) -> StructType:
        if not isinstance(given, str):
            refuse_limits(given, False, "STRING")
            return given
        if may_limit(given):
            raw = self._columns(given)
            refuse_limits(raw, True, self._text(raw))
        return self.parse_schema(given)

    def parse_schema(self, ddl: str) -> StructType:
        if self._recalled is None:
            return self._parsed(ddl)
        return StructType.fromJson(self._told("columns", lambda: self._parsed(ddl).jsonValue(), ddl=ddl))

    def _parsed(self, ddl: str) -> StructType:
        found = nullable(self._columns(ddl))
        assert isinstance(found, StructType)
        return found

    def _columns(self, ddl: str) -> StructType:
        """The columns of a text, as it says."""
        self._require_spark()
        try:
            parsed = StructType.fromDDL(ddl)
        except PySparkException as error:
            what = f"{ddl!r} is not a list of columns: {first_line(error)}"
            raise TempuraError("BAD_SCHEMA", what, 'Write "id INT, name STRING".') from error
        if not isinstance(parsed, StructType):
            raise TempuraError("BAD_SCHEMA", f"{ddl!r} is a type, not a list of columns.", 'Write "id INT".')
        return parsed

    def schema_text(self, schema: StructType) -> str:
        return str(self._told("ddl", lambda: self._text(schema), columns=schema.jsonValue()))

    def _text(self, schema: StructType) -> str:
        self._require_spark()
        return _spelled(schema.json())

    def infer_schema(self, files: FileSet) -> StructType:
        return reading.infer(at_work(self._session), files)

    def lift(self, query: str | DataFrame, tables: Mapping[str, StructType], settings: Settings) -> Lifted:
        if not isinstance(query, str):
            return lift_dataframe(query)

        def ask() -> Lifted:
            try:
                return lift_sql(session_with(self._session, settings), query, tables)
            except TempuraError as error:
                refuse_variable(self._session, error)
                raise

        if self._recalled is None:
            return ask()
        columns = {name: schema.jsonValue() for name, schema in tables.items()}
        return self._recalled.lifted(
            {"about": "query", "text": query, "tables": columns, "settings": dict(settings)}, ask
        )

    def clocks(self) -> Clocks:
        if not self._may_ask:
            return _without_spark()
        now = clocks(self._session.sparkContext)
        # Whenever it is started: that is no part of what is measured, but for what Python does for it in another thread.
        return now - self._start_took if self._start_took else now

    # --- steps ------------------------------------------------------------------------------------------------------

    def answers_alike(self, lifted: Lifted) -> bool:
        return is_answered_alike(lifted)

    def execute(self, work: Work) -> StepOutcome:
        session, source = session_with(self._session, work.settings), cache(work.read)

        def read(leaf: Read) -> Draft:
            return read_columns(session, source(leaf), leaf)

        def deleted(leaf: Read) -> Draft | None:
            return read_deletions(session, source(leaf), leaf)

        def clean(leaf: Read) -> Callable[[], Draft] | None:
            return partial(read_clean, session, source(leaf), leaf) if source(leaf).rows.are_placed else None

        # States are spread as they would be by a large step: they may grow.
        buckets = int(str(session.conf.get(PARTITIONS)))
        most = 0
        if is_small(work.step, work.load):
            given = for_few_rows(session)
            most = int(given[PARTITIONS])
            for name, value in given.items():
                session.conf.set(name, value)
        rows = (self.prices, deleted, clean, True, most)
        executor = SparkExecutor(session, read, work.load, work.progress, buckets, work.uses, *rows)
        answer = partial(answered, session, work.query) if work.query else None
        outcome = executor.run(work.step, work.folder, answer)
        _STEPS_RUN[self._session.sparkContext] = self.steps_run + 1
        return outcome

    def result(self, stored: StoredOutput, lifted: Lifted) -> DataFrame:
        return self._results().result(stored, lifted.rel.columns, lifted.names, lifted.order)

    def changes(self, old: StoredOutput | None, new: StoredOutput, lifted: Lifted) -> DataFrame:
        return self._difference(old, new, lifted).withColumnRenamed(WEIGHT, "_count")

    def delta(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> DataFrame:
        # What becomes of it is written in several parts, and compared in between: all of one evaluation.
        counted = self._difference(old, new, lifted).localCheckpoint(eager=True)
        names = [attribute(name) for name in counted.columns[:-1]]
        copies = fn.explode(fn.array_repeat(fn.lit(True), fn.col(WEIGHT).cast("int")))
        return counted.select(*names, copies.alias(WEIGHT)).drop(WEIGHT)

    def change(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> Changes:
        visible, names = lifted.rel.columns[: lifted.visible], lifted.names[: lifted.visible]
        if old is None:
            return Changes(inserts=self._results().result(new, lifted.rel.columns, names)) if new.rows else Changes()
        return sides_of(self._net(old, new, lifted), visible, names)

    def _difference(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> DataFrame:
        """The rows that are not in both, under the user's names, with ``_change``, and how often."""
        net = self._net(old, new, lifted)  # columns are made by a session that runs: this one starts it
        visible = lifted.rel.columns[: lifted.visible]
        kind = fn.when(fn.col(WEIGHT) > 0, "insert").otherwise("delete").alias(CHANGE)
        named = (attribute(c.id).alias(name) for c, name in zip(visible, lifted.names, strict=True))
        return net.select(*named, kind, fn.abs(WEIGHT).alias(WEIGHT))

    def _net(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> DataFrame:
        """The rows that are not in both, with how much more often each is in the new result. Parts that both have are not read."""
        visible = lifted.rel.columns[: lifted.visible]
        names = [column.id for column in visible]
        if isinstance(old, StoredOutput):
            new, old = new.beside(old), old.beside(new)
        now = self._parts(new, lifted)
        match old:
            case None:
                return consolidate(now, visible).dataframe()
            case Source():
                before = once_each(plain_rows(now.session, old).toDF(*names))
            case StoredOutput():
                before = self._parts(old, lifted)
        return without(now, before, visible).dataframe()

    def _parts(self, stored: StoredOutput, lifted: Lifted) -> Draft:
        """What the parts of a result hold in the visible columns, with weights."""
        visible = (column.id for column in lifted.rel.columns[: lifted.visible])
        return self._results().parts(stored, lifted.rel.columns).select(*visible, WEIGHT)

    def merge(self, changes: DataFrame, present: Source, keys: Sequence[str]) -> tuple[DataFrame, tuple[str, ...]]:
        return merged_rows(at_work(self._session), changes, present, keys)

    def verify(self, check: Check) -> Verification:
        with cancelled_when_interrupted(self._session.sparkContext):
            return verify(session_with(self._session, check.settings), check)

    def recompute(self, query: WholeQuery, settings: Settings, folder: Path) -> tuple[Usage, int]:
        with cancelled_when_interrupted(self._session.sparkContext):
            return recomputed(session_with(self._session, settings), query, folder)

    def _results(self) -> SparkExecutor:
        return SparkExecutor(self._session, self._no_table, no_state)

    def _no_table(self, read: Read) -> Draft:
        raise TempuraError("NOT_EXECUTABLE", f"A stored result reads {read.label}.", "Please report it.")

    # --- rows that arrive -------------------------------------------------------------------------------------------

    def changing(self, files: FileSet) -> frozenset[str]:
        return reading.changing(at_work(self._session), files)

    def load(self, files: FileSet, changing: bool) -> Changes:
        rows = reading.load(at_work(self._session), files, changing)
        return Changes(told=rows) if changing else Changes(inserts=rows)

    def load_in_order(self, files: FileSet, present: Source, keys: Sequence[str]) -> Changes:
        return changes_in_order(at_work(self._session), files, present, keys)

    def lake_schema(self, format: str, path: Path) -> StructType:
        return reading.lake(at_work(self._session), format, path, {}).schema

    def load_lake(self, format: str, path: Path, options: Mapping[str, str], fit: Fit | None = None) -> Changes:
        rows = reading.lake(at_work(self._session), format, path, options)
        changes = reading.as_changes(rows)
        found = reading.fitted(rows if changes is None else changes, fit)
        return Changes(inserts=found) if changes is None else Changes(told=found)

    def topic(self, table: str, kafka: KafkaSpec) -> TopicOffsets:
        return broker.look(self._session, table, kafka)

    def load_topic(self, asked: TopicRead, present: Source) -> Changes:
        session = at_work(self._session)
        if not asked.span.parts:
            return Changes()
        records = broker.read(session, asked)
        with broker.translated_read(session, asked), cancelled_when_interrupted(session.sparkContext):
            changes = changes_of(session, records, asked, present)
        check_unchanged(asked.table, asked.kafka, asked.span, self.topic(asked.table, asked.kafka))
        return changes

    def plain(self, source: Source) -> DataFrame:
        return plain_rows(self._session, source)

    def avro(self, table: str, columns: StructType | None, schema: str) -> tuple[StructType, str]:
        return columns_and_schema(self._session, table, columns, schema)

    def told(self, changes: DataFrame) -> Changes:
        return told.told(changes)

    def split(self, changes: Changes) -> Changes:
        return told.split(changes)

    def write(self, rows: DataFrame, schema: StructType, folder: Path, table: str) -> None:
        fitting = conform(rows, schema, table)
        writer = writer_of(rows.sparkSession, marked=True)
        with cancelled_when_interrupted(writer.sparkContext):
            write(Jvm(writer).in_session(writer, fitting), folder)

    def write_told(self, rows: DataFrame, schema: StructType, folders: Mapping[str, Path], table: str) -> None:
        with cancelled_when_interrupted(rows.sparkSession.sparkContext):
            told.write_told(rows, schema, folders, table)

    def look(self, rows: DataFrame, schema: StructType, table: str) -> FileSummary:
        with cancelled_when_interrupted(rows.sparkSession.sparkContext):
            return figures(conform(rows, schema, table))

    def count(self, rows: DataFrame) -> int:
        check_frame(rows, "Rows")
        return rows.count()

    def net(self, source: Source, places: Sequence[str]) -> Changes:
        if source.rows.are_placed:
            return net_by_place(at_work(self._session), source, places)
        return net_changes(at_work(self._session), source)

    def difference(self, now: Sequence[DataFrame], before: Source) -> Changes:
        session = at_work(self._session)
        return differing_rows(session, now, before)

    def missing(self, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
        return missing_row(at_work(self._session), present, arriving, keys)

    def can_place(self, schema: StructType) -> bool:
        return can_place(schema)

    def placed(self, present: Source, arriving: Rows, keys: Sequence[str], places: Sequence[str]) -> DataFrame:
        return places_of(at_work(self._session), present, arriving, keys, places)

    def duplicate(self, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
        return duplicate_key(at_work(self._session), present, arriving, keys)

    def unmatched(self, asked: Sequence[Lookup]) -> list[Unmatched]:
        return unmatched(at_work(self._session), asked)

    def replaced(self, present: Source, updates: Rows, keys: Sequence[str], places: Sequence[str]) -> DataFrame:
        return replaced_rows(at_work(self._session), present, updates, keys, places)

    def met(self, present: Source, came: Rows, updates: Rows, keys: Sequence[str]) -> DataFrame:
        return met_rows(at_work(self._session), present, came, updates, keys)

    def frame(self, source: Source, table: str) -> DataFrame:
        return marked_rows(self._session, source, table)


@lru_cache(maxsize=1_000)
def _spelled(schema: str) -> str:
    """Columns (JSON of a StructType) as Spark spells them. Each run tells those of each table, which seldom change."""
    found = nullable(StructType.fromJson(json.loads(schema)))
    assert isinstance(found, StructType)
    return str(found.toDDL())


def _without_spark() -> Clocks:
    """What the clocks say while there is no virtual machine of Java."""
    return Clocks(time.perf_counter(), 0.0, time.process_time())
