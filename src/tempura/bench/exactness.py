"""``tempura bench exactness``: every query through the warehouse, arrival by arrival, against Spark's own batch answer."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from re import findall
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import NumericType

import tempura as tp
from tempura.bench.arrivals import CHANGE, Cut, cut_facts
from tempura.bench.record import Record, Row
from tempura.bench.suites import SUITES, Suite, chosen
from tempura.data.tpcds import Dataset, generate, query_texts
from tempura.errors import TempuraError
from tempura.warehouse.query import Query
from tempura.warehouse.warehouse import Warehouse

EARLY_PRICE = 0.3
"""What work costs before the deadline, in the scenario ``pdw``."""

SCENARIOS = ("ivm", "pdw")
SQL_SETTINGS = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
"""The query texts quote names with double quotes."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is run: queries of a suite, each under several patterns of arrivals. ``scenario`` ivm: a result at each time;
    pdw: only at the last, and work is cheaper before."""

    suite: str
    scale: float
    patterns: tuple[str, ...]
    split: str = "hash"
    duplicates: float = 0.02
    times: int = 2
    scenario: str = "ivm"
    methods: tuple[str, ...] = ("im1",)

    @property
    def schedule(self) -> tp.Schedule:
        """The times ``t1``, ``t2`` and so on."""
        return schedule_of(self.scenario, self.times)

    def meta(self) -> dict[str, Any]:
        """The sweep's options and where it runs."""
        return described_run("exactness", {k: v for k, v in asdict(self).items() if k != "patterns"})


def schedule_of(scenario: str, times: int) -> tp.Schedule:
    """The schedule of a scenario, with the times ``t1``, ``t2`` and so on."""
    labels, last = [f"t{i + 1}" for i in range(times)], times - 1
    if scenario == "ivm":
        return tp.Schedule(labels, [1.0] * times, [True] * times)
    prices = [EARLY_PRICE] * last + [1.0]
    return tp.Schedule(labels, prices, [i == last for i in range(times)])


def described_run(benchmark: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A benchmark's options as plain data, the versions, and where and when it runs."""
    import pyspark

    return {
        "benchmark": benchmark,
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()},
        "versions": {"tempura": tp.__version__, "spark": pyspark.__version__},
        "cores": os.cpu_count(),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def run_sweep(
    spark: SparkSession, sweep: Sweep, queries: str, record: Record, progress: Progress, told: Progress
) -> None:
    """Run what the record does not hold yet. ``progress`` hears what is being done, ``told`` a line per query that is done."""
    texts = chosen(queries, query_texts(sweep.suite))
    dataset, suite = generate(sweep.scale, suite=sweep.suite), SUITES[sweep.suite]
    for pattern in sweep.patterns:
        left = [name for name in texts if not record.has(name, pattern, sweep.scenario)]
        if not left:
            continue
        with laid_out(dataset, suite, sweep, pattern, progress) as lake:
            for n, name in enumerate(left):
                progress(f"{pattern}: {name}, {n + 1} of {len(left)}")
                trial = Trial(spark, sweep, pattern, lake, name, texts[name])
                rows = trial.run()
                record.add(rows)
                told(described(rows))


def described(rows: Sequence[Row]) -> str:
    """A query's rows in one line."""
    verdicts = ["failed" if r["error"] else {True: "equal", False: "WRONG", None: "-"}[r["equal"]] for r in rows]
    last = rows[-1]
    reasons = dict.fromkeys(reason.split(":")[0] for row in rows for reason in row["fallbacks"])
    parts = [f"{last['pattern']} {last['query']:<4} {' '.join(verdicts)}", f"{sum(r['cpu_s'] for r in rows):.1f} CPU s"]
    parts += [f"{sum(r['plan_s'] for r in rows):.1f} s planning", f"{last['rows'] or 0} rows"]
    parts += ["trivial"] if last["nontrivial"] is False else []
    parts += [f"recomputed: {' '.join(reasons)}"] if reasons else []
    parts += [f"{last['error']}: {last['message']}"] if last["error"] else []
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Lake:
    """The suite's data: ``whole`` has the tables that are there from the start, ``waiting`` the files of each fact table by
    arrival, ``work`` is where warehouses are made. Rows of the tables in ``signed`` may leave again."""

    whole: Dataset
    waiting: dict[str, tuple[Path, ...]]
    signed: frozenset[str]
    work: Path


@contextmanager
def laid_out(dataset: Dataset, suite: Suite, sweep: Sweep, pattern: str, progress: Progress) -> Iterator[Lake]:
    """Cut the fact tables into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tempura-bench-") as folder:
        progress(f"{pattern}: cutting {', '.join(suite.facts)}")
        cut = Cut(pattern, sweep.split, sweep.times, sweep.duplicates)
        waiting = cut_facts(dataset, suite, cut, Path(folder, "waiting"))
        yield Lake(dataset, waiting, suite.deletable(pattern), Path(folder, "work"))


@dataclass
class Trial:
    """One query under one pattern, in a warehouse of its own, which is removed in the end."""

    spark: SparkSession
    sweep: Sweep
    pattern: str
    lake: Lake
    name: str
    sql: str
    rows: list[Row] = field(default_factory=list)

    def run(self) -> list[Row]:
        """A row per time; when something fails, the last one tells."""
        folder = Path(tempfile.mkdtemp(dir=self._made(self.lake.work)))
        try:
            self._run(folder)
        except Exception as error:  # a sweep goes on, whatever happens to one query
            if not is_alive(self.spark):
                raise
            code, message = code_of(error)
            time_of = self.sweep.schedule.times[min(len(self.rows), self.sweep.times - 1)]
            self.rows.append(self._row(time_of, error=code, message=message))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self.rows

    def _run(self, folder: Path) -> None:
        warehouse = tp.open(folder / "warehouse", spark=self.spark)
        tables = self._tables()
        for table in tables:
            self._declare(warehouse, folder, table)
        query = warehouse.add_query(self.name, sql=self.sql, schedule=self.sweep.schedule)
        for i, label in enumerate(query.schedule.times):
            for table in tables & set(self.lake.waiting):
                self._arrive(warehouse, folder, table, i)
            self.rows.append(self._step(query, label))

    def _tables(self) -> set[str]:
        """The tables that the text names."""
        return set(findall(r"\w+", self.sql.lower())) & set(self.lake.whole.tables)

    def _declare(self, warehouse: Warehouse, folder: Path, table: str) -> None:
        schema = self.spark.read.parquet(f"file:{self.lake.whole.file(table)}").schema
        if table in self.lake.signed:
            warehouse.add_table(table, schema=schema)
            return
        path = self._made(folder / "lake" / table)
        fact = table in self.lake.waiting
        if not fact:
            (path / "all.parquet").symlink_to(self.lake.whole.file(table))
        warehouse.add_table(table, path=path, schema=schema, static=not fact, append_only=fact)

    def _arrive(self, warehouse: Warehouse, folder: Path, table: str, i: int) -> None:
        file = self.lake.waiting[table][i]
        if table not in self.lake.signed:
            (folder / "lake" / table / file.name).symlink_to(file)
            return
        # The rows that leave were cut from those that came, so that looking for them again is spared.
        changes = self.spark.read.parquet(f"file:{file}")
        warehouse.table(table).apply(changes, trust=True) if i else warehouse.table(table).append(changes.drop(CHANGE))

    def _step(self, query: Query, label: str) -> Row:
        started = time.perf_counter()
        plan = query.plan(self.sweep.methods).plan
        planned = time.perf_counter() - started
        report = query.run(at=label, methods=self.sweep.methods)
        row = self._row(label, methods=report.method, fallbacks=[str(reason) for reason in plan.fallbacks])
        row |= {"plan_s": round(planned, 2), "cpu_s": round(report.cpu_seconds, 3)}
        row |= {"wall_s": round(report.wall_seconds, 2), "state_bytes": query.status()["state_bytes"]}
        if report.rows is not None:
            row |= self._checked(query, label)
        return row

    def _checked(self, query: Query, label: str) -> Row:
        found = query.verify()
        last = label == query.schedule.times[-1]
        differences = {} if found.equal else {"missing": list(found.missing), "extra": list(found.extra)}
        return {
            "equal": found.equal,
            "rows": found.rows,
            "nontrivial": is_nontrivial(query.result()) and not query.changes().isEmpty() if last else None,
            **differences,
        }

    def _row(self, label: str, **known: Any) -> Row:
        row: Row = {"query": self.name, "pattern": self.pattern, "scenario": self.sweep.scenario, "time": label}
        row |= {"equal": None, "nontrivial": None, "rows": None, "methods": "", "fallbacks": [], "plan_s": 0.0}
        return row | {"cpu_s": 0.0, "wall_s": 0.0, "state_bytes": 0, "error": None, "message": None} | known

    def _made(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def is_alive(spark: SparkSession) -> bool:
    """Whether the session can go on: without it, every query that is left would fail."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (OSError, Py4JError, AttributeError):
        return False


def is_nontrivial(result: DataFrame) -> bool:
    """Whether a result has a value that is neither NULL nor 0."""
    numbered = result.toDF(*(f"c{i}" for i in range(len(result.columns))))
    tells = [_tells(fn.col(f.name), isinstance(f.dataType, NumericType)) for f in numbered.schema.fields]
    return not numbered.filter(reduce(Column.__or__, tells)).isEmpty()


def _tells(column: Column, number: bool) -> Column:
    return column.isNotNull() & (column != 0) if number else column.isNotNull()


def code_of(error: Exception) -> tuple[str, str]:
    """The code of an error, and what it says in one line."""
    if isinstance(error, TempuraError):
        return error.code, error.what
    code = error.getCondition() if isinstance(error, PySparkException) else None
    return code or type(error).__name__, " ".join(str(error).split("\n\n")[0].split())[:500]
