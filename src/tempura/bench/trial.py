"""One query under one pattern of arrivals: run in a warehouse of its own, each result compared with Spark's batch answer."""

import shutil
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import NumericType

import tempura as tp
from tempura.bench.lake import Lake, SetClock
from tempura.bench.record import Row
from tempura.bench.suites import tables_named
from tempura.errors import TempuraError
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.query import Query
from tempura.warehouse.times.schedule import Schedule

_MESSAGE = 500
_CALLS = 60  # of a defect's, so many outermost and innermost


@dataclass
class Trial:
    """A query of a suite to be run at each time of a schedule. ``known`` are the columns that all its rows share."""

    spark: SparkSession
    lake: Lake
    name: str
    sql: str
    schedule: Schedule
    methods: tuple[str, ...]
    known: Row
    rows: list[Row] = field(default_factory=list)
    rules: Registry = TEMPURA

    def run(self) -> list[Row]:
        """A row per time; when something fails, the last one tells."""
        folder = Path(tempfile.mkdtemp(dir=self.lake.folder))
        try:
            self._run(folder)
        except Exception as error:  # a sweep goes on, whatever happens to one query
            if not is_alive(self.spark):
                raise
            self.rows.append(self._row(min(len(self.rows), self.last), **failure_of(error)))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self.rows

    @property
    def last(self) -> int:
        """The number of the last arrival."""
        return len(self.lake.stages) - 1

    def _run(self, folder: Path) -> None:
        clock = SetClock(self.lake.moments)
        warehouse = tp.open(folder, spark=self.spark, clock=clock, rules=self.rules)
        tables = tables_named(self.sql, self.lake.schemas)
        self.lake.arrive(warehouse, tables, 0)
        self.lake.declare(warehouse, tables)
        query = warehouse.add_query(self.name, sql=self.sql, schedule=self.schedule)
        for i in range(self.last + 1):
            clock.at = i
            if i:
                self.lake.arrive(warehouse, tables, i)
            self.rows.append(self._step(query, i, tables))

    def _step(self, query: Query, i: int, tables: set[str]) -> Row:
        started = time.perf_counter()
        report = query.run(at=self.schedule.times[i], methods=self.methods)
        taken = time.perf_counter() - started
        row = self._row(i, methods=report.method, fallbacks=list(report.fallbacks))
        row["covered"] = report.does.covered if report.does and i else None
        row |= {"cpu_s": round(report.cpu_seconds, 3), "wall_s": round(report.wall_seconds, 2)}
        row |= {"overhead_s": round(taken - report.wall_seconds, 2), "state_bytes": query.status()["state_bytes"]}
        if report.rows is not None:
            row |= self._checked(query, i, tables)
        return row

    def _checked(self, query: Query, i: int, tables: set[str]) -> Row:
        found = self._verified(query, i, tables)
        tells = is_nontrivial(query.result()) and not query.changes().isEmpty() if i == self.last else None
        return found | {"nontrivial": tells}

    def _verified(self, query: Query, i: int, tables: set[str]) -> Row:
        """Whether the last result is right; rows that differ."""
        # Rows that were put together without Tempura: what it makes of arrivals is checked, too.
        present = {table: Rows(tuple(map(str, self.lake.present(table, i)))) for table in tables}
        found = query.verify(present)
        differences = {} if found.equal else {"missing": list(found.missing), "extra": list(found.extra)}
        return {"equal": found.equal, "rows": found.rows, **differences}

    def _row(self, i: int, **found: Any) -> Row:
        row = {"query": self.name, **self.known, "time": self.schedule.times[i], "equal": None, "nontrivial": None}
        row |= {
            "rows": None,
            "methods": "",
            "fallbacks": [],
            "covered": None,
            "cpu_s": 0.0,
            "wall_s": 0.0,
            "overhead_s": 0.0,
        }
        return row | {"state_bytes": 0, "error": None, "message": None, "trace": None} | found


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


def failure_of(error: Exception) -> Row:
    """What a row tells of an error: its code, what it says in one line and, of a defect, the calls that led to it (``trace``: outermost
    first; of very many, those in the middle are left out)."""
    if isinstance(error, TempuraError):
        return {"error": error.code, "message": error.what, "trace": None}
    said = " ".join(str(error).split("\n\n")[0].split())[:_MESSAGE]
    if isinstance(error, PySparkException):
        return {"error": error.getCondition() or type(error).__name__, "message": said, "trace": None}
    calls = [
        f"{Path(call.filename).name}:{call.lineno}, {call.name}" for call in traceback.extract_tb(error.__traceback__)
    ]
    return {"error": type(error).__name__, "message": f"{said} ({calls[-1]})", "trace": _ends(calls)}


def _ends(calls: list[str]) -> list[str]:
    """The outermost and the innermost of some calls."""
    left = len(calls) - 2 * _CALLS
    return [*calls[:_CALLS], f"… {left} more …", *calls[-_CALLS:]] if left > 0 else calls
