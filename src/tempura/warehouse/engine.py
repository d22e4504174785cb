"""What a warehouse needs of Spark and of the layers below, as one interface.

:class:`~tempura.warehouse.spark.spark_engine.SparkEngine` implements it. Tests of commits and crashes use an engine without a JVM.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql.types import StructField, StructType

from tempura.cost.model import CostModel
from tempura.errors import TempuraError
from tempura.execute.contract import Clocks, StepOutcome, StoredOutput, StoredState, Usage
from tempura.frontend.lift import Lifted
from tempura.kafka import TopicOffsets
from tempura.physical.operators import Read, StateKey
from tempura.plan.progressive import Step
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.batches.offsets import Span
from tempura.warehouse.batches.parquet import FileSummary
from tempura.warehouse.declared.kafka import KafkaSpec

Progress = Callable[[str], None]
Settings = Mapping[str, str]
"""Spark settings that change results."""


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of a table and the table's schema."""

    schema: StructType
    rows: Rows

    def without_places(self) -> "Source":
        """The same rows, whose deletions have to be set off against others."""
        return replace(self, rows=replace(self.rows, places={}))


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that arrive together: to be inserted, to be deleted, and updates, which take the place of the row of the same key; ``aside``
    are records that are no rows, to be kept beside them; ``placed`` are rows to be deleted, with where they lie; ``told`` are rows of all
    kinds, which a column ``_change`` tells apart when they are written. None: nothing of that kind. ``Any`` stands for a DataFrame of the
    engine."""

    inserts: Any | None = None
    deletes: Any | None = None
    updates: Any | None = None
    aside: Any | None = None
    placed: Any | None = None
    told: Any | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows of any kind."""
        return all(rows is None for rows in (self.inserts, self.deletes, self.updates, self.placed, self.told))


KINDS = ("insert", "delete", "update")
"""The values of the column that tells changes apart."""

REPLACED, MISSING = "replaced", "missing"
"""What it tells of rows that changes meet."""


class OneByOneError(Exception):
    """Files of changes do not come to the same together as one after the other, or it is not known whether they do."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How rows of another schema become a table's: columns that are ``optional`` are NULL where they lack, and other columns than the
    table's are left out if ``drop``."""

    schema: StructType
    optional: Sequence[str] = ()
    drop: bool = False


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files of one folder that are read alike. ``schema`` is the table's; ``base`` as in :class:`Rows`; ``columns`` are the names in
    the order of the files where the format has no names (CSV)."""

    table: str
    schema: StructType
    format: str
    options: Mapping[str, str]
    files: tuple[str, ...]
    base: str | None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRead:
    """Records of a topic to be read as rows of a table: its columns and keys, the ``options`` of the values' format, whether fields are
    refused that the table does not have, and where the records lie."""

    table: str
    kafka: KafkaSpec
    schema: StructType
    keys: Sequence[str]
    options: Mapping[str, str]
    refuse: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Work:
    """A step to be executed: where its reads and loads find their data, the folder to write into, the settings to run under;
    ``uses``: how often a state that it saves is expected to be read; ``query``: what the step recomputes, when that is all it does."""

    step: Step
    read: Callable[[Read], Source]
    load: Callable[[StateKey], StoredState]
    folder: Path
    settings: Settings
    progress: Progress | None = None
    uses: int = 1
    query: "WholeQuery | None" = None


@dataclass(frozen=True, slots=True)
class WholeQuery:
    """A query as it was written, in the algebra, and the tables that it is asked of; those that it does not read are empty."""

    text: str
    lifted: Lifted
    tables: Mapping[str, Source]


@dataclass(frozen=True, slots=True)
class Check:
    """A stored result to be compared with a recomputation of ``query`` over ``tables`` as they were."""

    query: Any
    lifted: Lifted
    tables: Mapping[str, Source]
    stored: StoredOutput
    settings: Settings


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of a comparison. ``rows`` of the recomputation; ``missing`` from and ``extra`` in the stored result are samples of
    at most ten rows as text; ``how`` says what was compared."""

    equal: bool
    rows: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    how: str

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.equal:
            return f"equal: {self.rows} rows ({self.how})"
        return "\n".join(
            (f"NOT equal ({self.how})", *(f"- {r}" for r in self.missing), *(f"+ {r}" for r in self.extra))
        )


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a table and their partners in another: rows that ``came`` and how the other table ``changed`` since that was looked at last,
    all ``rows`` and all that is ``there`` now; the ``columns`` by which rows refer to the ``key``."""

    came: Source
    changed: Source
    columns: Sequence[str]
    key: Sequence[str]
    rows: Source
    there: Source


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A few ``rows`` that have no partner, as text; whether a reference of a row that came is NULL."""

    rows: tuple[str, ...]
    nulls: bool


class Engine(Protocol):
    """Spark, as far as a warehouse uses it. ``Any`` stands for a DataFrame of the engine."""

    @property
    def version(self) -> str:
        """The engine's version; states are kept across patch releases only."""

    @property
    def prices(self) -> CostModel:
        """What its work costs."""

    @property
    def is_measured(self) -> bool:
        """Whether what it says that steps took was measured, so that prices may be corrected by it."""

    @property
    def steps_run(self) -> int:
        """How many steps its session has run: the first ones take several times as much of the driver."""

    def settings(self) -> dict[str, str]:
        """The settings of the user's session that change results."""

    @property
    def is_started(self) -> bool:
        """Whether it can be asked without a start that takes longer than many a refresh."""

    def start(self) -> bool:
        """Start it, before what takes its time is measured; whether it was not, and what it was asked by then may have been answered as an
        earlier process has noted it."""

    def start_early(self) -> None:
        """Begin to start it beside what is done next, because it will be needed: what it was asked before is believed until it is asked
        something new. Errors are raised then."""

    def definitions(self, text: str) -> str | None:
        """What tells the temporary views and the functions that the text of a query may mean from others that may be put in their places
        later; None while it is not started."""

    def given_schema(self, given: str | StructType) -> StructType:
        """A schema as somebody gives it. Raises TempuraError BAD_SCHEMA, also for what no row is held to: NOT NULL, VARCHAR(n)."""

    def parse_schema(self, ddl: str) -> StructType:
        """A schema from DDL. Raises TempuraError BAD_SCHEMA."""

    def schema_text(self, schema: StructType) -> str:
        """A schema as DDL, all columns nullable: the inverse of :meth:`parse_schema`."""

    def infer_schema(self, files: FileSet) -> StructType:
        """The schema of files, partition columns included. Raises TempuraError BAD_SCHEMA."""

    def changing(self, files: FileSet) -> frozenset[str]:
        """Which of some JSON files hold changes: rows with ``_change``."""

    def load(self, files: FileSet, changing: bool) -> Changes:
        """The rows of files: changes told by ``_change``, or inserts. Raises TempuraError WRONG_SCHEMA."""

    def load_in_order(self, files: FileSet, present: Source, keys: Sequence[str]) -> Changes:
        """What files of changes come to, one after the other in their order, when they come to rows that are there. Raises
        OneByOneError when not each of them could come in its turn or that is not known, and TempuraError WRONG_SCHEMA."""

    def lift(self, query: Any, tables: Mapping[str, StructType], settings: Settings) -> Lifted:
        """A query (SQL text or DataFrame) in the algebra."""

    def answers_alike(self, lifted: Lifted) -> bool:
        """Whether it can be asked a query as it is written, and gives the bag of rows that a step would give."""

    def execute(self, work: Work) -> StepOutcome:
        """Run a step."""

    def clocks(self) -> Clocks:
        """What the clocks say now."""

    def lake_schema(self, format: str, path: Path) -> StructType:
        """The columns of a table in a lake. Raises TempuraError NO_PACKAGE, FEED_UNREADABLE."""

    def load_lake(self, format: str, path: Path, options: Mapping[str, str], fit: Fit | None = None) -> Changes:
        """The rows of a table in a lake under some options, fitted: changes if they ask for its change feed. Raises as above."""

    def topic(self, table: str, kafka: KafkaSpec) -> TopicOffsets:
        """What the broker says of a topic. Raises TempuraError BROKER_UNREACHABLE, BROKER_REFUSED, UNKNOWN_TOPIC, NO_SECRET, NO_PACKAGE,
        FEED_UNREADABLE."""

    def load_topic(self, asked: TopicRead, present: Source) -> Changes:
        """The records of a topic as changes to the rows that are there: with keys the last record of each key, which takes the place of
        its row or deletes it, noted with its place if that can be told (:func:`~tempura.warehouse.batches.places.place_columns`); else
        inserts, and deletes told by ``_change``. Raises TempuraError BAD_RECORD, and as :meth:`topic` does."""

    def avro(self, table: str, columns: StructType | None, schema: str) -> tuple[StructType, str]:
        """Columns and the Avro schema of their records, one of which follows from the other when it is not given. Raises TempuraError
        BAD_SCHEMA when they do not fit, NO_PACKAGE."""

    def plain(self, source: Source) -> Any:
        """The rows of a source, to look at."""

    def told(self, changes: Any) -> Changes:
        """Rows with a column ``_change``. Raises TempuraError BAD_CHANGE when it is missing, BAD_ROWS."""

    def split(self, changes: Changes) -> Changes:
        """The same with rows that are told apart by ``_change`` as rows of each kind, to look at. Raises TempuraError BAD_CHANGE for a
        value that is not of :data:`KINDS`."""

    def write(self, rows: Any, schema: StructType, folder: Path, table: str) -> None:
        """Write rows as Parquet in the table's schema. Raises TempuraError WRONG_SCHEMA when the columns do not fit."""

    def write_told(self, rows: Any, schema: StructType, folders: Mapping[str, Path], table: str) -> None:
        """Write rows with a column ``_change`` as :meth:`write` does, all from one evaluation: those of each of its values for which there
        is a folder, if any, into that. Raises as it does, and TempuraError BAD_CHANGE for another value."""

    def look(self, rows: Any, schema: StructType, table: str) -> FileSummary:
        """What :meth:`write` would write, in figures; nothing is written. Raises as it does."""

    def count(self, rows: Any) -> int:
        """How many rows a caller gives."""

    def net(self, source: Source, places: Sequence[str]) -> Changes:
        """The inserts and deletes that are left when rows that came and went are taken out: those whose places are known, if all are, and
        then with places elsewhere, in columns of these names."""

    def can_place(self, schema: StructType) -> bool:
        """Whether :meth:`placed` can tell where rows of these columns lie."""

    def placed(self, present: Source, arriving: Rows, keys: Sequence[str], places: Sequence[str]) -> Any:
        """The rows that are deleted, with the file and the number of one among those that are there or arrive which is the same, in columns
        of these names: each place once, and fewer rows if some are not there. No row that is there is without a place. By ``keys``, if the
        table has some, rows are found sooner."""

    def difference(self, now: Sequence[Any], before: Source) -> Changes:
        """What inserts and deletes lead from some rows to those of ``now`` together."""

    def missing(self, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
        """A row of which more are deleted than are there; None when all are there. ``keys`` as for :meth:`placed`."""

    def duplicate(self, present: Source, arriving: Rows, keys: Sequence[str]) -> str | None:
        """A key that more than one row would have; None when there is none."""

    def unmatched(self, asked: Sequence[Lookup]) -> list[Unmatched]:
        """Which rows have no partner. Only keys are looked up that came with rows, or left with partners."""

    def replaced(self, present: Source, updates: Rows, keys: Sequence[str], places: Sequence[str]) -> Any:
        """The rows that are there under the keys of some updates, with their places in two more columns of these names."""

    def met(self, present: Source, came: Rows, updates: Rows, keys: Sequence[str]) -> Any:
        """What some updates and the rows that ``came`` and left with them meet, told by ``_change``: the rows that are there under the keys
        of the updates, as often as they are (:data:`REPLACED`), and those that left but are neither there nor put by an update as often
        (:data:`MISSING`). What is there is looked through once."""

    def frame(self, source: Source, table: str) -> Any:
        """The rows of a table as a DataFrame that a query can be built from."""

    def result(self, stored: StoredOutput, lifted: Lifted) -> Any:
        """A stored result in the query's order, under the user's column names."""

    def changes(self, old: StoredOutput | None, new: StoredOutput, lifted: Lifted) -> Any:
        """What was inserted and deleted between two results."""

    def delta(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> Any:
        """What was inserted and deleted between two results, or rows that are there and a result: under the user's column names,
        with ``_change``, a row as often as it came or went."""

    def change(self, old: StoredOutput | Source | None, new: StoredOutput, lifted: Lifted) -> Changes:
        """The same as inserts and deletes, none of which is of both; all rows of the new result when there is no old one."""

    def merge(self, changes: Any, present: Source, keys: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
        """Rows by key after some changes: the rows to be written, and the files of those present which stay as they are."""

    def verify(self, check: Check) -> Verification:
        """Compare a stored result with a recomputation."""

    def recompute(self, query: WholeQuery, settings: Settings, folder: Path) -> tuple[Usage, int]:
        """Let Spark alone compute a query, as it was written, and write the result into a folder as results are written. Returns what that
        took, and the rows."""


def schema_of(engine: Engine, lifted: Lifted) -> StructType:
    """The columns of a query's result. Raises TempuraError BAD_OUTPUT when two have the same name."""
    names = lifted.names[: lifted.visible]
    if len({name.lower() for name in names}) < len(names):
        what = f"Two columns of the result have the same name: {', '.join(names)}."
        raise TempuraError("BAD_OUTPUT", what, "Rename one with AS.")
    columns = lifted.rel.columns[: lifted.visible]
    types = engine.parse_schema(", ".join(f"c{i} {column.type}" for i, column in enumerate(columns)))
    return StructType([StructField(n, f.dataType, True) for n, f in zip(names, types.fields, strict=True)])
