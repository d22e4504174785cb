"""A suite's tables as a warehouse holds them after each arrival: made once per pattern, and linked into the warehouse of each query.

An arrival costs Spark jobs where rows leave again, and is the same for every query. What a warehouse knows of a table is two
folders, its rows and the ledger of its arrivals, so a copy of these (hard links, nothing is read) is the table at that time.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import tempura as tp
from tempura.bench.arrivals import CHANGE, Cut, Waiting, cut_facts
from tempura.bench.suites import Suite
from tempura.data.tpcds import Dataset
from tempura.warehouse.warehouse import Warehouse

_PARTS = ("tables", "lake")
"""Folders of a warehouse: what arrived in its tables, and where the files of append-only and static tables lie."""


class SetClock:
    """The clock of a warehouse: it shows the moment of the arrival ``at``, or the system's time when arrivals have no moments."""

    def __init__(self, moments: Sequence[datetime]) -> None:
        self._moments = moments
        self.at = 0

    def __call__(self) -> datetime:
        return self._moments[self.at] if self._moments else datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of a suite over time. ``stages`` are warehouse folders, one per arrival; ``present`` gives the Parquet files
    with the rows that a table has then, made without Tempura; ``moments`` are the times of the arrivals, when they have some; ``keys``,
    ``references`` and the rows that are ``expected`` are declared of the tables."""

    folder: Path
    schemas: Mapping[str, StructType]
    waiting: Mapping[str, Waiting]
    stages: tuple[Path, ...]
    static: Mapping[str, Path]
    moments: tuple[datetime, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    references: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)

    def present(self, table: str, i: int) -> tuple[Path, ...]:
        """The files with the rows of a table after an arrival."""
        return self.waiting[table].present[i] if table in self.waiting else (self.static[table],)

    def declare(self, warehouse: Warehouse, tables: Iterable[str]) -> None:
        """Declare tables as they are in the stages."""
        tables = sorted(tables)
        for table in tables:
            waiting, schema, keys = self.waiting.get(table), self.schemas[table], self.keys.get(table, ())
            expect = self.expected.get(table)
            if waiting and waiting.signed:
                warehouse.add_table(table, schema=schema, keys=keys, expect=expect)
                continue
            path = warehouse.path / "lake" / table
            grows = bool(waiting)
            # Files that are cut once for all lie elsewhere.
            warehouse.add_table(
                table,
                path=path,
                schema=schema,
                keys=keys,
                static=not grows,
                append_only=grows,
                follow_links=True,
                expect=expect,
            )
        for table in tables:
            to = {
                columns: key for columns, key in self.references.get(table, {}).items() if key.split(".")[0] in tables
            }
            if to:
                warehouse.alter_table(table, references=to)

    def arrive(self, warehouse: Warehouse, tables: Iterable[str], i: int) -> None:
        """Let a warehouse's tables be as they are after an arrival."""
        for part in (Path(part, table) for part in _PARTS for table in tables):
            if (self.stages[i] / part).exists():
                _made_like(self.stages[i] / part, warehouse.path / part)


@contextmanager
def laid_out(
    spark: SparkSession,
    dataset: Dataset,
    suite: Suite,
    cut: Cut,
    progress: Callable[[str], None],
    moments: tuple[datetime, ...] = (),
    references: bool = False,
) -> Iterator[Lake]:
    """Cut the fact tables and let them arrive, in a temporary folder; at the given ``moments``, or now. ``references``: with the keys and
    references of the suite."""
    with tempfile.TemporaryDirectory(prefix="tempura-bench-") as name:
        folder = Path(name)
        progress(f"{cut.pattern}: cutting {', '.join(suite.facts)}")
        waiting = cut_facts(dataset, suite, cut, folder / "waiting")
        static = {table: dataset.file(table) for table in dataset.tables if table not in waiting}
        schemas = {table: spark.read.parquet(f"file:{dataset.file(table)}").schema for table in dataset.tables}
        stages = tuple(folder / f"stage-{i}" for i in range(cut.times))
        declared = (suite.keys, suite.references) if references else ()
        lake = Lake(folder, schemas, waiting, stages, static, moments, *declared)
        clock = SetClock(moments)
        warehouse = tp.open(folder / "warehouse", spark=spark, clock=clock)
        lake.declare(warehouse, schemas)
        for i, stage in enumerate(stages):
            progress(f"{cut.pattern}: arrival {i + 1} of {cut.times}")
            clock.at = i
            _fill(spark, warehouse, lake, i)
            for part in _PARTS:
                _linked(warehouse.path / part, stage / part)
        yield lake


def _fill(spark: SparkSession, warehouse: Warehouse, lake: Lake, i: int) -> None:
    for table, waiting in lake.waiting.items():
        file = waiting.arrivals[i]
        if not waiting.signed:
            _link(file, warehouse.path / "lake" / table / file.name)
            continue
        changes = spark.read.parquet(f"file:{file}")
        warehouse.table(table).apply(changes) if i else warehouse.table(table).append(changes.drop(CHANGE))
    for table, file in lake.static.items() if not i else ():
        _link(file, warehouse.path / "lake" / table / file.name)


def _made_like(source: Path, target: Path) -> None:
    """Let the folders of a table be as in another warehouse. What is there already is not touched, as no arrival touches what came before:
    to link a file anew changes the time of its last change, and it would be read again for its checksum. Nor is what lies beside the
    folders: what runs have noted of the table's references and sketches, which no stage has, is not looked at again."""
    wanted = {file.relative_to(source) for file in _files(source)}
    for file in _files(target):
        known = file.relative_to(target)
        is_noted = known.parent == Path() and known not in wanted
        if not is_noted and not (known in wanted and file.samefile(source / known)):
            file.unlink()
    for known in wanted:
        if not os.path.lexists(target / known):
            (target / known).parent.mkdir(parents=True, exist_ok=True)
            os.link(source / known, target / known, follow_symlinks=False)


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_symlink() or not file.is_dir()]


def _linked(source: Path, target: Path) -> None:
    if source.exists():
        shutil.copytree(source, target, symlinks=True, copy_function=os.link)


def _link(file: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(file)
