"""``tempura bench effectiveness``: what Tempura takes, run by run through a warehouse, against recomputing by plain Spark.

Plain Spark runs the user's own text over the same rows, in the same session, before and after Tempura, and writes its result as
Tempura writes it. Both have run before they are measured.
"""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tempura.bench.account import Account, Taken
from tempura.bench.exactness import Progress
from tempura.bench.lake import Lake, laid_out
from tempura.bench.record import Record, Row
from tempura.bench.scenario import Effectiveness, methods_in
from tempura.bench.suites import SUITES, chosen, tables_named, that_get_rows
from tempura.bench.trial import Trial, failure_of, is_alive
from tempura.execute.files import Files
from tempura.frontend.session import clone
from tempura.warehouse.query import Query
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.spark.rows import columns_of
from tempura.warehouse.spark.whole import stored_answer
from tempura.warehouse.times.phases import COMPUTING, Phases

BEFORE, AFTER = "before", "after"


def run_effectiveness(
    spark: SparkSession, asked: Effectiveness, queries: str, record: Record, progress: Progress, told: Progress
) -> None:
    """Measure what the record does not hold yet. ``progress`` hears which query is being measured, ``told`` a line per phase."""
    suite = SUITES[asked.suite]
    texts = that_get_rows(chosen(queries, suite.queries), suite, told)
    left = [name for name in texts if not record.has(name, asked.pattern, asked.scenario)]
    if not left:
        return
    moments = asked.moments(datetime.now(UTC).date())
    dataset = suite.tables(asked.scale)
    with laid_out(spark, dataset, suite, asked.cut, told, moments, asked.references) as lake:

        def compared(name: str, sets: Sequence[str], heading: str) -> Comparison:
            found = Comparison(spark, lake, name, texts[name], asked, sets, partial(_tell, told, heading))
            progress(heading)
            found.run()
            return found

        if asked.warm_ups:
            # Whatever runs first in a session waits for most of Spark to be compiled, for longer than a run or two.
            compared(left[0], asked.methods[:1], f"{left[0]}, to warm up the session")
        for n, name in enumerate(left):
            sets = in_turn(asked.methods, list(texts).index(name))
            found = compared(name, sets, f"{name} ({n + 1} of {len(left)})")
            record.add(found.rows, found.batch)


def in_turn(sets: Sequence[str], turn: int) -> tuple[str, ...]:
    """The sets of methods in the order in which the query of this number runs them: another begins each time. What runs first waits for
    code to be compiled that those after it find."""
    first = turn % len(sets)
    return (*sets[first:], *sets[:first])


@dataclass
class Comparison:
    """One query: recomputed by plain Spark, maintained with each set of methods in their order, recomputed again."""

    spark: SparkSession
    lake: Lake
    name: str
    sql: str
    asked: Effectiveness
    sets: Sequence[str]
    told: Progress
    rows: list[Row] = field(default_factory=list)
    batch: list[Row] = field(default_factory=list)

    def run(self) -> None:
        """Fill ``rows`` with Tempura's runs, and ``batch`` with those of plain Spark."""
        try:
            self._recompute(BEFORE)
            for methods in self.sets:
                self._maintain(methods)
            self._recompute(AFTER)
        except Exception as error:  # a benchmark goes on, whatever happens to one query
            self._failed(error)

    def _maintain(self, methods: str) -> None:
        for series in range(self.asked.series):
            rows = self._trial(methods, series).run()
            self.rows += rows
            if rows[-1]["error"]:
                self.told(f"{methods}: {rows[-1]['error']}: {rows[-1]['message']}")
            if rows[-1]["error"] or any(row["equal"] is False for row in rows):
                return

    def _trial(self, methods: str, series: int) -> "MeasuredTrial":
        known = {"pattern": self.asked.pattern, "scenario": self.asked.scenario, "methods": methods, "series": series}
        given = (self.spark, self.lake, self.name, self.sql, self.asked.schedule, methods_in(methods), known)
        return MeasuredTrial(*given, benchmark=self.asked, series=series, told=self.told)

    def _recompute(self, when: str) -> None:
        last = len(self.lake.stages) - 1
        tables = {table: self.lake.present(table, last) for table in tables_named(self.sql, self.lake.schemas)}
        session = clone(self.spark)
        for table, files in tables.items():
            rows = session.read.schema(self.lake.schemas[table]).parquet(*(f"file:{file}" for file in files))
            rows.createOrReplaceTempView(table)
        for n in range(self.asked.warm_ups + self.asked.repeat):
            measured = n >= self.asked.warm_ups
            row: Row = {"query": self.name, "when": when, "measured": measured}
            taken, count = recomputed(session, self.sql, self.lake.folder, partial(_read_too, row))
            row |= {"rows": count, **taken.row()}
            self.batch.append(row)
            self.told(f"plain Spark, {when}{'' if measured else ', to warm up'}: {_figures(row)}")

    def _failed(self, error: Exception) -> None:
        if not is_alive(self.spark):
            raise error
        known = {"query": self.name, "pattern": self.asked.pattern, "scenario": self.asked.scenario, "methods": "spark"}
        failed = failure_of(error)
        self.rows.append({**known, "equal": None, "measured": None, **failed})
        self.told(f"plain Spark: {failed['error']}: {failed['message']}")


def recomputed(
    session: SparkSession, sql: str, scratch: Path, use: Callable[[DataFrame], object] = lambda result: None
) -> tuple[Taken, int]:
    """Run a text as it is, and write its result as Tempura writes results; what it took, and the rows. Afterwards the result is there to
    ``use``, and goes."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    files = Files(session)
    try:
        with Account(session) as account:
            frame = session.sql(sql)
            stored = stored_answer(files, frame, folder)
        use(files.load_output(stored, columns_of(frame.schema)))
        return account.taken, stored.rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reading(result: DataFrame) -> Row:
    """What it takes to read all of a result, as somebody will who has it made."""
    with Account(result.sparkSession) as account:
        result.write.format("noop").mode("overwrite").save()
    return {f"reading_{name}": value for name, value in account.taken.row().items() if name in ("cpu_s", "wall_s")}


@dataclass(kw_only=True)
class MeasuredTrial(Trial):
    """A query run at each time, with account taken of each run. Each result of a measured run is compared with Spark's."""

    benchmark: Effectiveness
    series: int
    told: Progress

    def _step(self, query: Query, i: int, tables: set[str]) -> Row:
        with Account(self.spark) as account:
            report = query.run(methods=self.methods)
        row = self._measured(i, report, account.taken)
        row["state_bytes"] = query.status()["state_bytes"]
        row["step"] = None if report.nothing else step_of(query.steps()[-1].plan)
        self.told(
            f"{row['methods']} at {row['time']}{'' if row['measured'] is not None else ', to warm up'}: {_figures(row)}, "
            f"{row['estimated_s']:.2f} estimated"
        )
        # A refresh that found nothing to do stands by the result that is there.
        if row["measured"] is not None and row["deadline"]:
            row |= self._verified(query, i, tables)
            row |= reading(query.result())
            equal, taken = "equal" if row["equal"] else "WRONG", f"read in {row['reading_cpu_s']:.2f} CPU s"
            self.told(f"{row['methods']} at {row['time']}: {equal}, {row['rows']} rows, {taken}")
        return row

    def _measured(self, i: int, report: RunReport, taken: Taken) -> Row:
        figures = taken.row() | {"phases": phases(report.phases, taken)}
        estimated = {"estimated_s": round(report.estimated_cost / 1e9, 3), "states": report.states}
        found = {"chosen": report.method, "fallbacks": list(report.fallbacks), "rows": report.rows}
        found["does"] = str(report.does) if report.does else None
        return self._row(i, **found, **estimated, **figures)

    def _row(self, i: int, **found: Any) -> Row:
        row = {"query": self.name, **self.known, "time": self.benchmark.named(i)}
        row |= {"price": self.benchmark.price(i), "measured": self.benchmark.measured(i, self.series)}
        return row | {"deadline": self.benchmark.is_due(i), "equal": None, "error": None, "message": None} | found


def _read_too(row: Row, result: DataFrame) -> None:
    row |= reading(result)


def phases(told: Phases, taken: Taken) -> Row:
    """The wall time of a run by phase, in seconds, as its report tells it. Of what is computed a Spark job runs in ``jobs``, and
    otherwise it is ``building``: DataFrames, Spark's plans, metering; ``rest`` is of no phase."""
    wall = {name: spent.wall_seconds for name, spent in told.items()}
    computing = wall.pop(COMPUTING, 0.0)
    jobs = min(taken.jobs_s, computing)
    rest = max(0.0, taken.wall_s - computing - sum(wall.values()))
    found = {**wall, "building": computing - jobs, "jobs": jobs, "rest": rest}
    return {name: round(seconds, 3) for name, seconds in found.items()}


def step_of(plan: str) -> str:
    """What tells the first step of a plan, as ``explain`` shows it, from others, whatever it was estimated at."""
    _, *steps = re.split(r"^step .*$", plan, flags=re.MULTILINE)
    operators = re.sub(r"  \[cost=.*\]$|=[\d.e-]+ s\b", "", steps[0] if steps else "", flags=re.MULTILINE)
    return hashlib.sha256(operators.encode()).hexdigest()[:16]


def _figures(row: Row) -> str:
    return f"{row['cpu_s']:.2f} CPU s, {row['wall_s']:.2f} s"


def _tell(told: Progress, heading: str, text: str) -> None:
    told(f"{heading}: {text}")
