"""A warehouse's engine without a JVM: the real planner and the interpreter of the algebra over Parquet files read with pyarrow."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.one import beside, one
from tempura.algebra.rel import Aggregate, Filter, Join, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, equal
from tempura.cost.model import SPARK, CostModel
from tempura.cost.stats import number
from tempura.errors import TempuraError
from tempura.execute.contract import Clocks, Merge, Part, StepOutcome, StoredOutput, StoredState, Usage
from tempura.execute.local import BagExecutor, BagOutcome
from tempura.execute.parts import merge_of, parts_to_keep
from tempura.execute.sharing import Sink, sinks_of
from tempura.frontend.clock import NOW, today
from tempura.frontend.lift import Lifted
from tempura.kafka import TopicOffsets
from tempura.physical.growth import growth, named_otherwise
from tempura.physical.operators import Load, Read, StateKey
from tempura.warehouse.batches.arrivals import ColumnSummary, Rows
from tempura.warehouse.batches.parquet import FileSummary
from tempura.warehouse.batches.sketch import sketched
from tempura.warehouse.declared.kafka import KafkaSpec, refusal
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import (
    KINDS,
    MISSING,
    REPLACED,
    Changes,
    Check,
    FileSet,
    Fit,
    Lookup,
    OneByOneError,
    Settings,
    Source,
    TopicRead,
    Unmatched,
    Verification,
    WholeQuery,
    Work,
)
from tempura.warehouse.sources.topic import check_unchanged
from tests.unit.bag_topic import BagTopic

Place = tuple[str, int]
"""A file's name, and the number of a row in it."""

_TYPES = {"INT": IntegerType(), "BIGINT": LongType(), "STRING": StringType(), "DOUBLE": DoubleType()}
_TYPES |= {"BOOLEAN": BooleanType(), "DATE": DateType()}
_ARROW = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}
_ARROW |= {"timestamp": pa.timestamp("us", "UTC"), "double": pa.float64(), "boolean": pa.bool_(), "date": pa.date32()}

Row = tuple[object, ...]

SUMMARY = "sales LEFT JOIN returns, per category"
COUNT = "count of sales"
LARGE = "those of the summary with a total above 200"
PER_KEY = "count of sums per category"
SINCE_NOON = "count of sales since noon"
SHARES = "count of returns whose share can be computed"
PAST_DAYS = "count of sales after 1 March"
ALL = "all of sales"


def columns_of(scan: str, *fields: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(f"{scan}.{name}", name, type) for name, type in fields)


def summary_rel() -> Rel:
    sales = columns_of("s", ("o_id", "int"), ("cat", "string"), ("price", "int"))
    returns = columns_of("r", ("o_id", "int"), ("cost", "int"))
    on = equal(Ref(sales[0]), Ref(returns[0]))
    scans = Scan("sales", ("o_id", "cat", "price"), sales), Scan("returns", ("o_id", "cost"), returns)
    total = AggregateCall("Sum", (Ref(sales[2]),), "bigint", detail="ansi")
    back = AggregateCall("Count", (Ref(returns[1]),), "bigint")
    aggregates = (
        AggregateOutput(Column("total", "total", "bigint"), total),
        AggregateOutput(Column("back", "back", "bigint"), back),
    )
    key = Output(Column("key", "cat", "string"), Ref(sales[1]))
    return Aggregate(Join(scans[0], scans[1], "left", on), (key,), aggregates)


def count_rel() -> Rel:
    sales = columns_of("s", ("o_id", "int"))
    rows = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    return Aggregate(Scan("sales", ("o_id",), sales), (), (rows,))


def large_rel() -> Rel:
    summary = summary_rel()
    total = Ref(summary.columns[1])
    return Filter(summary, Call("GreaterThan", (total, Literal(200, "bigint")), "boolean"))


def per_key_rel() -> Rel:
    """A view over the view that :func:`summary_rel` is: how many categories have each number of returns."""
    sums = columns_of("u", ("cat", "string"), ("back", "bigint"))
    rows = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    key = Output(Column("key", "back", "bigint"), Ref(sums[1]))
    return Aggregate(Scan("sums", ("cat", "back"), sums), (key,), (rows,))


def since_noon_rel() -> Rel:
    """Counts sales, but none before noon of 1 March 2026, by the clock."""
    value = columns_of("now", ("value", "timestamp"))
    noon = Call("GreaterThanOrEqual", (Ref(value[0]), Literal(datetime(2026, 3, 1, 12), "timestamp")), "boolean")
    return _count(Filter(_beside_clock(NOW, value), noon))


def past_days_rel() -> Rel:
    """Counts sales, if the date in Honolulu is after 1 March 2026."""
    value = columns_of("today", ("value", "date"))
    after = Call("GreaterThan", (Ref(value[0]), Literal(date(2026, 3, 1), "date")), "boolean")
    return _count(Filter(_beside_clock(today("Pacific/Honolulu"), value), after))


def all_rel(sales: StructType) -> Rel:
    """The sales in all of their columns, whichever these are by now."""
    columns = columns_of("s", *((f.name, f.dataType.simpleString()) for f in sales.fields))
    return Scan("sales", tuple(sales.names), columns)


def shares_rel() -> Rel:
    """Counts returns by o_id; of a cost of 0 there is no share, which is an error."""
    returns = columns_of("r", ("o_id", "int"), ("cost", "int"))
    divisor = Call("Cast", (Ref(returns[1]),), "double", "legacy")
    share = Call("Divide", (Literal(1.0, "double"), divisor), "double", "ansi")
    number = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (share,), "bigint"))
    key = Output(Column("key", "o_id", "int"), Ref(returns[0]))
    return Aggregate(Scan("returns", ("o_id", "cost"), returns), (key,), (number,))


def _beside_clock(clock: str, value: tuple[Column, ...]) -> Rel:
    return beside(Scan("sales", ("o_id",), columns_of("s", ("o_id", "int"))), one(Scan(clock, ("value",), value)))


def _count(rel: Rel) -> Rel:
    return Aggregate(rel, (), (AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint")),))


QUERIES: dict[str, Callable[[], Rel]] = {
    SUMMARY: summary_rel,
    COUNT: count_rel,
    LARGE: large_rel,
    PER_KEY: per_key_rel,
    SINCE_NOON: since_noon_rel,
    PAST_DAYS: past_days_rel,
    SHARES: shares_rel,
}
"""The queries that the engine understands, by their text."""


def arrow_rows(schema: StructType, rows: Sequence[Row]) -> pa.Table:
    types = pa.schema([(f.name, _ARROW[f.dataType.simpleString()]) for f in schema.fields])
    values = [[row[i] for row in rows] for i in range(len(schema.fields))]
    return pa.table(values, schema=types) if values else types.empty_table()


def write_rows(path: Path, schema: StructType, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow_rows(schema, rows), path)


def read_rows(files: Sequence[str]) -> list[dict[str, object]]:
    return [dict(row) for file in files for row in _decoded(Path(file).read_bytes())]


@lru_cache(maxsize=2_000)
def _decoded(parquet: bytes) -> Sequence[Mapping[str, object]]:
    """The rows that a file's bytes stand for: arrivals are read again at every step, and to decode one takes a millisecond."""
    table = pq.read_table(pa.BufferReader(parquet), use_threads=False, partitioning=None)
    return cast(Sequence[Mapping[str, object]], table.to_pylist())


def read_any(files: FileSet, path: str) -> list[dict[str, object]]:
    """The rows of a file, whose values are spelt well."""
    if files.format == "parquet":
        return read_rows([path])
    if files.format == "json":
        return [json.loads(line) for line in Path(path).read_text().splitlines()]
    types = {f.name: int if f.dataType.simpleString() in ("int", "bigint") else str for f in files.schema.fields}
    with Path(path).open(newline="") as file:
        lines = list(csv.DictReader(file))
    return [{n: types.get(n, str)(v) if v else None for n, v in line.items()} for line in lines]


def listed(rows: Any) -> Sequence[Row]:
    return [row for row, n in rows.items() for _ in range(n)] if isinstance(rows, SignedBag) else rows


def counted(values: Mapping[Any, int], rows: int) -> ColumnSummary:
    """Of a column, how often each value occurs in ``rows`` rows."""
    low, high = (number(pick(values, default=None)) for pick in (min, max))
    return ColumnSummary(rows - sum(values.values()), low, high)


def parse(ddl: str) -> StructType:
    pairs = [part.split() for part in ddl.split(",")]
    return StructType([StructField(name.strip("`"), _TYPES[type.upper()], True) for name, type in pairs])


def bag(source: Source, fields: Sequence[str]) -> SignedBag:
    rows = source.rows
    if rows.are_placed:
        return SignedBag([(tuple(row[f] for f in fields), 1) for row, _ in _located(source)])
    plus = [(tuple(row[f] for f in fields), 1) for row in _stored_rows(source, rows.inserted)]
    minus = [(tuple(row[f] for f in fields), -1) for row in _stored_rows(source, rows.deleted)]
    # Rows that are in no file are those of clocks, which have one column.
    return SignedBag([*plus, *minus, *((row[: len(fields)], n) for row, n in rows.given)])


def _located(source: Source, more: Sequence[str] = ()) -> list[tuple[dict[str, object], Place]]:
    """The rows that are there by the places of those that are deleted, and in ``more`` files, with their own places."""
    taken = {place for _, place in _taken(source)} if source.rows.are_placed else set[Place]()
    files = (*source.rows.inserted, *more)
    found = ((row, (Path(file).name, n)) for file in files for n, row in enumerate(_stored_rows(source, [file])))
    return [(row, place) for row, place in found if place not in taken]


def _by_kind(rows: Any) -> dict[str, list[Row]]:
    return {kind: [row[:-1] for row in rows if row[-1] == kind] for kind in KINDS}


def _places_of(wanted: Counter[Row], present: Source, more: Sequence[str] = ()) -> list[Row]:
    """So many of the rows that are there, and in ``more`` files, with their places."""
    found = list[Row]()
    for stored, place in _located(present, more):
        row = tuple(stored[n] for n in present.schema.names)
        if wanted[row] > 0:
            wanted[row] -= 1
            found.append((*row, *place))
    return found


def _taken(source: Source) -> list[tuple[Row, Place]]:
    """The rows that are deleted, with their places."""
    names, found = source.schema.names, list[tuple[Row, Place]]()
    for file in source.rows.deleted:
        columns = source.rows.places[file]
        for row, stored in zip(_stored_rows(source, [file]), read_rows([file]), strict=True):
            name, number = (stored[column] for column in columns)
            found.append((tuple(row[n] for n in names), (str(name), cast(int, number))))
    return found


def _stored_rows(source: Source, files: Sequence[str]) -> list[dict[str, object]]:
    """The rows of files; NULL in columns that their table got later, and in those that a file may lack."""
    names, narrow = source.schema.names, source.rows.narrow
    known = ((set(names[: narrow.get(file, len(names))]), row) for file in files for row in read_rows([file]))
    return [{n: row.get(n) if n in has else None for n in names} for has, row in known]


@dataclass
class BagEngine:
    """``session`` are the settings of the user's session. ``executed`` counts the steps run; ``written`` and ``read`` the rows of each
    state that they wrote and read, ``results`` those that they wrote of each result, kept as a state or not. ``prices`` decide on plans,
    and when parts of states are merged. At each of ``looks``, the clocks have moved on by a second, half a second of Spark's and a
    quarter of Python's."""

    session: dict[str, str] = field(default_factory=lambda: {"spark.sql.session.timeZone": "UTC"})
    version: str = "4.3.0"
    executed: int = 0
    looks: int = 0
    lookups: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    prices: CostModel = SPARK
    lakes: dict[str, list[Row]] = field(default_factory=dict)
    lake_columns: str = ""
    topics: dict[str, BagTopic] = field(default_factory=dict)
    is_measured: bool = False
    steps_run: int = 0
    is_started: bool = False
    started_early: int = 0
    recomputing: Usage = field(default_factory=lambda: Usage(cpu_seconds=8.0, driver_seconds=4.0, wall_seconds=6.0))
    warming: tuple[float, ...] = (1.0, 0.5)
    recomputed: list[WholeQuery] = field(default_factory=list)

    def definitions(self, text: str) -> str | None:
        return ""

    def start_early(self) -> None:
        """It is only counted."""
        self.started_early += 1

    def start(self) -> bool:
        """It runs at once, and nothing is noted."""
        return False

    def settings(self) -> dict[str, str]:
        return dict(self.session)

    def answers_alike(self, lifted: Lifted) -> bool:
        return False

    def given_schema(self, given: str | StructType) -> StructType:
        return parse(given) if isinstance(given, str) else given

    def parse_schema(self, ddl: str) -> StructType:
        return parse(ddl)

    def schema_text(self, schema: StructType) -> str:
        return ", ".join(f"{f.name} {f.dataType.simpleString().upper()}" for f in schema.fields)

    def infer_schema(self, files: FileSet) -> StructType:
        names = {"int32": "INT", "int64": "BIGINT", "string": "STRING"}
        if files.format == "json":
            values = {n: v for path in files.files for row in read_any(files, path) for n, v in row.items()}
            pairs = [f"{n} {'INT' if isinstance(v, int) else 'STRING'}" for n, v in values.items() if n != CHANGE]
            return parse(", ".join(pairs))
        found = pq.read_schema(files.files[0])
        return parse(", ".join(f"{f.name} {names[str(f.type)]}" for f in found if f.name != CHANGE))

    def changing(self, files: FileSet) -> frozenset[str]:
        return frozenset(file for file in files.files if any(CHANGE in row for row in read_any(files, file)))

    def load(self, files: FileSet, changing: bool) -> Changes:
        names = [*files.schema.names, *([CHANGE] if changing else [])]
        rows = [tuple(row.get(name) for name in names) for file in files.files for row in read_any(files, file)]
        return Changes(told=rows) if changing else Changes(inserts=rows)

    def load_in_order(self, files: FileSet, present: Source, keys: Sequence[str]) -> Changes:
        """One after the other, and then what that has come to."""
        names = files.schema.names
        key = [names.index(name) for name in keys]
        before = Counter(dict(bag(present, names).items()))
        now = before.copy()
        for file in files.files:
            changes = self.split(self.load(replace(files, files=(file,)), changing=True))
            now.update(changes.inserts or ())
            now.subtract(changes.deletes or ())
            updates = {tuple(row[i] for i in key): row for row in changes.updates or ()}
            for row in [row for row in now if key and tuple(row[i] for i in key) in updates]:
                del now[row]
            now.update(updates.values())
            counts = Counter(tuple(row[i] for i in key) for row in now.elements() if key)
            wrong = min(now.values(), default=0) < 0 or max(counts.values(), default=0) > 1
            if wrong or len(updates) < len(changes.updates or ()) or (updates and not keys):
                raise OneByOneError
        return Changes(inserts=[*(now - before).elements()] or None, deletes=[*(before - now).elements()] or None)

    def lift(self, query: Any, tables: Mapping[str, StructType], settings: Settings) -> Lifted:
        if query != ALL and query.strip() not in QUERIES:
            raise TempuraError("INVALID_SQL", f"Bags know no query {query!r}.")
        rel = all_rel(tables["sales"]) if query == ALL else QUERIES[query.strip()]()
        return Lifted(rel, (), tuple(c.name for c in rel.columns), len(rel.columns), "{}")

    def execute(self, work: Work) -> StepOutcome:
        self.executed += 1
        loads = [rel for root in _roots(work) for rel in root.walk() if isinstance(rel, Load)]
        states = {load.key: self._loaded(work.load(load.key)) for load in loads}
        executor = BagExecutor(lambda read: _read(work, read), states)
        outcome = executor.run(work.step)
        stored: dict[StateKey, StoredState] = {}
        output, kept = None, work.step.kept_result
        for sink in sinks_of(work.step):
            if sink.save is None:
                whole = stored[kept.key] if kept else self._stored(sink, outcome, executor, work, stored)
                output = StoredOutput.of(whole)
            else:
                stored[sink.save.key] = self._stored(sink, outcome, executor, work, stored)
        return StepOutcome(stored, output, Usage(cpu_seconds=0.5, wall_seconds=0.25, driver_seconds=0.125))

    def clocks(self) -> Clocks:
        self.looks += 1
        return Clocks(1.0 * self.looks, 0.5 * self.looks, 0.25 * self.looks)

    def _loaded(self, stored: StoredState) -> SignedBag:
        self.read.append(stored.rows)
        return _merged([_load(part.path) for part in stored.parts], stored.merge, whole=True)

    def _stored(
        self,
        sink: Sink,
        outcome: BagOutcome,
        executor: BagExecutor,
        work: Work,
        stored: Mapping[StateKey, StoredState],
    ) -> StoredState:
        """As on Spark: the state or result in the parts that it had, and one more with what has come."""
        is_result = sink.save in (None, work.step.kept_result)
        folder = work.folder / "output" if is_result else work.folder / "states" / str(len(stored))
        found, repeated = growth(sink.rel), named_otherwise(sink.rel)
        if isinstance(repeated, Load) and (work.step.appends or not is_result):
            return stored[repeated.key] if repeated.key in stored else work.load(repeated.key)
        if found and (work.step.appends or not is_result):
            assert isinstance(found.base, Load)
            key, merge = found.base.key, merge_of(found)
            base = stored[key] if key in stored else work.load(key)
            keep = parts_to_keep(base, merge, work.uses, self.prices)
            if keep:
                rest = [_load(part.path) for part in base.parts[keep:]]
                delta = _merged([*rest, executor.bag(found.delta, outcome.states)], merge, whole=False)
                part = self._write(folder, delta, is_result)
                return replace(base, parts=(*base.parts[:keep], part), merge=merge)
        rows = outcome.states[sink.save.key] if sink.save else outcome.output
        assert rows is not None
        return StoredState((), (), 0, "{}", (self._write(folder, rows, is_result),))

    def _write(self, folder: Path, bag: SignedBag, is_result: bool) -> Part:
        part = _save(folder, bag)
        (self.results if is_result else self.written).append(part.rows)
        return part

    def result(self, stored: StoredOutput, lifted: Lifted) -> SignedBag:
        return _rows(stored)

    def changes(self, old: StoredOutput | None, new: StoredOutput, lifted: Lifted) -> SignedBag:
        return _rows(new) - _rows(old) if old else _rows(new)

    def delta(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> list[Row]:
        before = bag(old, old.schema.names) if isinstance(old, Source) else _rows(old) if old else SignedBag()
        changes = (_rows(new) - before).items()
        return [(*row, "insert" if n > 0 else "delete") for row, n in changes for _ in range(abs(n))]

    def change(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> Changes:
        return self.split(Changes(told=self.delta(old, new, lifted)))

    def merge(self, changes: Any, present: Source, keys: Sequence[str]) -> tuple[SignedBag, tuple[str, ...]]:
        signed = [(row[:-1], 1 if row[-1] == "insert" else -1) for row in changes]
        return bag(present, present.schema.names) + SignedBag(signed), ()

    def verify(self, check: Check) -> Verification:
        expected = evaluate(check.lifted.rel, lambda leaf: _scanned(check.tables, leaf))
        found = _rows(check.stored)
        return Verification(expected == found, expected.size, (), (), "interpreter")

    def recompute(self, query: WholeQuery, settings: Settings, folder: Path) -> tuple[Usage, int]:
        """What was asked is kept; each answer takes a part of ``recomputing``: that of ``warming``, the last one of which stays."""
        rows = evaluate(query.lifted.rel, lambda leaf: _scanned(query.tables, leaf))
        _save(folder, rows)
        part = self.warming[min(len(self.recomputed), len(self.warming) - 1)]
        self.recomputed.append(query)
        whole = self.recomputing
        return Usage(part * whole.cpu_seconds, part * whole.driver_seconds, part * whole.wall_seconds), rows.size

    def lake_schema(self, format: str, path: Path) -> StructType:
        if not self.lake_columns:
            raise TempuraError("NO_PACKAGE", f"Bags do not come in format {format}.")
        return parse(self.lake_columns)

    def load_lake(self, format: str, path: Path, options: Mapping[str, str], fit: Fit | None = None) -> Changes:
        """What a test has put for the last version or snapshot that is read, under the ``lake_columns``, if these are told."""
        rows = self.lakes[
            options.get("endingVersion") or options.get("end-snapshot-id") or next(iter(options.values()))
        ]
        return self.split(Changes(told=[_fitted(row, self.lake_columns, fit) for row in rows]))

    def topic(self, table: str, kafka: KafkaSpec) -> TopicOffsets:
        if kafka.topic not in self.topics:
            raise refusal(table, kafka, "UnknownTopicOrPartitionException", "it is not here")
        return self.topics[kafka.topic].offsets()

    def load_topic(self, asked: TopicRead, present: Source) -> Changes:
        rows = [row for row, n in bag(present, present.schema.names).items() for _ in range(n)]
        changes = self.topics[asked.kafka.topic].changes(asked, rows)
        if asked.keys and changes.deletes and present.rows.can_be_located:
            changes = replace(changes, deletes=None, placed=_places_of(Counter(changes.deletes), present))
        check_unchanged(asked.table, asked.kafka, asked.span, self.topic(asked.table, asked.kafka))
        return changes

    def avro(self, table: str, columns: StructType | None, schema: str) -> tuple[StructType, str]:
        raise TempuraError("NO_PACKAGE", "Bags do not come in Avro.")

    def plain(self, source: Source) -> list[Mapping[str, object]]:
        return [row for file in source.rows.inserted for row in read_rows([file])]

    def told(self, changes: Any) -> Changes:
        return Changes(told=changes)

    def split(self, changes: Changes) -> Changes:
        return changes if changes.told is None else Changes(*(rows or None for rows in _by_kind(changes.told).values()))

    def write_told(self, rows: Any, schema: StructType, folders: Mapping[str, Path], table: str) -> None:
        for kind, folder in folders.items():
            some = [row[:-1] for row in rows if row[-1] == kind]
            if some:
                self.write(some, schema, folder, table)

    def write(self, rows: Any, schema: StructType, folder: Path, table: str) -> None:
        write_rows(folder / f"{uuid4().hex}.parquet", schema, listed(rows))

    def look(self, rows: Any, schema: StructType, table: str) -> FileSummary:
        found = arrow_rows(schema, listed(rows))
        counts = {name: Counter(v for v in found[name].to_pylist() if v is not None) for name in schema.names}
        columns = {name: counted(values, found.num_rows) for name, values in counts.items()}
        sketches = {name: sketched(found[name].chunks, found.num_rows) for name in schema.names}
        seen = {name: sketch for name, sketch in sketches.items() if sketch}
        return FileSummary(found.num_rows, found.nbytes, columns, seen)

    def count(self, rows: Any) -> int:
        return len(rows)

    def net(self, source: Source, places: Sequence[str]) -> Changes:
        if source.rows.are_placed:
            names, own = source.schema.names, {Path(file).name for file in source.rows.inserted}
            placed = [(*row, *place) for row, place in _taken(source) if place[0] not in own]
            return Changes([tuple(row[n] for n in names) for row, _ in _located(source)], placed=placed or None)
        rows = [(row, n) for row, n in bag(source, source.schema.names).items()]
        sides = ([row for row, n in rows for _ in range(sign * n)] for sign in (1, -1))
        inserts, deletes = sides
        return Changes(inserts, deletes if source.rows.deleted else None)

    def difference(self, now: Sequence[Any], before: Source) -> Changes:
        net = SignedBag([(row, 1) for rows in now for row in rows]) - bag(before, before.schema.names)
        inserts = [row for row, n in net.items() for _ in range(n)]
        deletes = [row for row, n in net.items() for _ in range(-n)]
        return Changes(inserts=inserts or None, deletes=deletes or None)

    def missing(self, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
        names = present.schema.names
        net = bag(present, names) + bag(Source(present.schema, arriving), names)
        return next((str(row) for row, weight in net.items() if weight < 0), None)

    def can_place(self, schema: StructType) -> bool:
        return True

    def placed(self, present: Source, arriving: Rows, keys: Sequence[str], places: Sequence[str]) -> list[Row]:
        names, wanted = present.schema.names, Counter[Row]()
        for deleted in _stored_rows(Source(present.schema, arriving), arriving.deleted):
            wanted[tuple(deleted[n] for n in names)] += 1
        return _places_of(wanted, present, arriving.inserted)

    def duplicate(self, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
        counts = Counter[Row]()
        for source in (present, Source(present.schema, arriving)):
            for row, weight in bag(source, keys).items():
                counts[row] += weight
        return next((str(row) for row, n in counts.items() if n > 1), None)

    def unmatched(self, asked: Sequence[Lookup]) -> list[Unmatched]:
        self.lookups += [self._looked_up(lookup) for lookup in asked]
        return [self._unmatched(lookup) for lookup in asked]

    def _looked_up(self, lookup: Lookup) -> int:
        """How many rows are new: of those keys are looked up."""
        changed = bag(lookup.changed, lookup.key).items()
        return bag(lookup.came, lookup.columns).size + sum(-n for _, n in changed if n < 0)

    def _unmatched(self, lookup: Lookup) -> Unmatched:
        came = [key for key, n in bag(lookup.came, lookup.columns).items() if n > 0]
        gone = [key for key, n in bag(lookup.changed, lookup.key).items() if n < 0]
        there = {key for key, n in bag(lookup.there, lookup.key).items() if n > 0}
        open = {key for key in (*came, *gone) if None not in key and key not in there}
        places = [lookup.rows.schema.names.index(name) for name in lookup.columns]
        rows = [row for row, n in bag(lookup.rows, lookup.rows.schema.names).items() if n > 0] if open else []
        wrong = [str(row) for row in rows if tuple(row[i] for i in places) in open]
        return Unmatched(tuple(wrong[:3]), any(None in key for key in came))

    def replaced(self, present: Source, updates: Rows, keys: Sequence[str], places: Sequence[str]) -> list[Row]:
        names = present.schema.names
        keys_of = [names.index(key) for key in keys]
        found = {tuple(row[i] for i in keys_of) for row, _ in bag(Source(present.schema, updates), names).items()}
        there = ((tuple(row[n] for n in names), place) for row, place in _located(present))
        return [(*row, *place) for row, place in there if tuple(row[i] for i in keys_of) in found]

    def met(self, present: Source, came: Rows, updates: Rows, keys: Sequence[str]) -> list[Row]:
        names = present.schema.names
        keys_of = [names.index(key) for key in keys]
        put = bag(Source(present.schema, updates), names)
        updated = {tuple(row[i] for i in keys_of) for row, _ in put.items()}
        now = bag(present, names) + bag(Source(present.schema, came), names)
        replaced = [row for row, n in now.items() if tuple(row[i] for i in keys_of) in updated for _ in range(n)]
        missing = [row for row, n in (now + put).items() if n < 0]
        return [*((*row, REPLACED) for row in replaced), *((*row, MISSING) for row in missing)]

    def frame(self, source: Source, table: str) -> SignedBag:
        return bag(source, source.schema.names)


def _fitted(row: Row, ddl: str, fit: Fit | None) -> Row:
    if not ddl or fit is None:
        return row
    found = dict(zip(parse(ddl).names, row, strict=False))
    return (*(found.get(name) for name in fit.schema.names), row[-1])


def _roots(work: Work) -> list[Rel]:
    return [save.rel for save in work.step.saves] + ([work.step.emit] if work.step.emit else [])


def _read(work: Work, read: Read) -> SignedBag:
    return bag(work.read(read), read.scan.fields)


def _scanned(tables: Mapping[str, Source], leaf: Rel) -> SignedBag:
    assert isinstance(leaf, Scan)
    return bag(tables[leaf.table], leaf.fields)


def _save(folder: Path, bag: SignedBag) -> Part:
    folder.mkdir(parents=True)
    text = json.dumps([[list(row), weight] for row, weight in bag.items()], default=_tagged)
    (folder / "rows.json").write_text(text)
    return Part(str(folder), bag.size, len(text), not bag.is_positive, weight=sum(weight for _, weight in bag.items()))


def _rows(stored: StoredOutput) -> SignedBag:
    return _load(*stored.paths)


def _load(*paths: str) -> SignedBag:
    texts = [(Path(path) / "rows.json").read_text() for path in paths]
    pairs = [pair for text in texts for pair in json.loads(text, object_hook=_untagged)]
    return SignedBag([(tuple(row), weight) for row, weight in pairs])


def _tagged(value: date | Fraction | Decimal) -> dict[str, str]:
    return {type(value).__name__: value.isoformat() if isinstance(value, date) else str(value)}


def _untagged(tagged: dict[str, str]) -> date | Fraction | Decimal:
    ((name, text),) = tagged.items()
    if name in ("Fraction", "Decimal"):
        return Fraction(text) if name == "Fraction" else Decimal(text)
    return {"date": date, "datetime": datetime}[name].fromisoformat(text)


def _merged(bags: Sequence[SignedBag], merge: Merge | None, whole: bool) -> SignedBag:
    """The parts of a state as one: see ``execute.files.merged``."""
    if merge is None or not merge.slots:
        return sum(bags, SignedBag())
    groups: dict[Row, Row] = {}
    for row in (row for bag in bags for row, _ in bag.items()):
        key, values = row[: merge.keys], row[merge.keys :]
        known = groups.get(key)
        groups[key] = tuple(map(_combined, merge.slots, known, values)) if known else values
    return SignedBag([((*k, *v), 1) for k, v in groups.items() if v[0] or not whole or not merge.keys])


def _combined(kind: str, a: Any, b: Any) -> object:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b) if kind == "min" else max(a, b) if kind == "max" else a + b
