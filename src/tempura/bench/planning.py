"""``tempura bench planning``: how long every query of a suite takes to plan, and what the planner did in that time.

Nothing is executed. Statistics come from the footers and first rows of the generated files, as a warehouse derives them when
files arrive; of the facts a part is expected at each time, equal ones unless they are given, and only the first is there.
"""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from statistics import quantiles
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tempura.algebra.equalities import known_together
from tempura.algebra.rel import Rel, scans
from tempura.bench.exactness import EARLY_PRICE, described_run, schedule_of
from tempura.bench.scenario import PATTERNS, amiss_in
from tempura.bench.suites import SUITES, chosen
from tempura.data.tpcds import Dataset
from tempura.errors import TempuraError
from tempura.frontend.catalyst import analyse_sql
from tempura.frontend.lift import lift_sql
from tempura.frontend.marker import view_tables
from tempura.frontend.session import active, clone
from tempura.memo.events import Event
from tempura.search.events import PlanCosted
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem, TableFacts
from tempura.search.saturate import ALL_ON
from tempura.warehouse.batches.parquet import FileSummary, inspect
from tempura.warehouse.batches.sample import several, sketches_of
from tempura.warehouse.batches.sketch import ColumnSketch
from tempura.warehouse.runs.situation import without_deletions
from tempura.warehouse.tables.facts import column_stats, density, together

Row = dict[str, Any]
AIMED_AT = (0.5, 3)
"""Seconds beyond Catalyst's own time in which most queries, and all, are to be planned."""

MEMORY = ("peak_mb", "resident_mb")
"""By how much the process grew while planning, and the most that it had in memory then."""

_NO_SKETCHES: Mapping[str, ColumnSketch] = {}


@dataclass(frozen=True, slots=True)
class Coming:
    """How a table fills up: the part of its rows that has come by each time, the first of which is now; and the share of those that are
    there now which leaves at each later one. ``static``: nothing comes or leaves."""

    parts: tuple[float, ...]
    deleted: float = 0.0
    static: bool = False

    @property
    def whole(self) -> "Coming":
        """All is there at all times."""
        return Coming((1.0,) * len(self.parts), static=True)

    @property
    def growing(self) -> "Coming":
        """The same where nothing leaves."""
        return Coming(self.parts)


ONCE = Coming((1.0,))


@dataclass(frozen=True, slots=True)
class Planning:
    """What is planned: a suite at a scale, under methods, over so many times (scenarios as in ``bench exactness``); ``without`` some rules,
    and with some ``search.saturate.Switches`` turned ``off``. ``rising``: of ``pdw``, that early work is dearer each time, in even steps:
    then no time may wait for a later one. ``shares``: what comes by each time, in proportion, equal parts unless given; ``prices`` of
    work then, those of the scenario unless given; ``deleted``: the share of the first rows that leaves at each later time, of the
    tables from which ``bench effectiveness`` deletes. Raises TempuraError BAD_BENCHMARK for what does not fit together."""

    suite: str
    scale: float
    times: int = 3
    scenario: str = "pdw"
    methods: tuple[str, ...] = ("all",)
    without: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    rising: bool = False
    shares: tuple[Fraction, ...] = ()
    prices: tuple[float, ...] = ()
    deleted: float = 0.0

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise TempuraError("BAD_BENCHMARK", *problem)

    @property
    def points(self) -> tuple[Point, ...]:
        """The time points of the plan."""
        schedule = schedule_of(self.scenario, self.times)
        if self.rising:
            step = (1 - EARLY_PRICE) / max(self.times - 1, 1)
            schedule = replace(schedule, weights=tuple(1 - step * n for n in reversed(range(self.times))))
        elif self.prices:
            schedule = replace(schedule, weights=self.prices)
        return schedule.points_from(0, done=False)

    @property
    def coming(self) -> Coming:
        """How tables fill up of which rows leave."""
        sizes = self.shares or (Fraction(1),) * self.times
        return Coming(tuple(float(there / sum(sizes)) for there in accumulate(sizes)), self.deleted)

    def meta(self) -> dict[str, Any]:
        """The options and where it runs."""
        return described_run("planning", asdict(self) | {"shares": tuple(map(str, self.shares))})


def _problem(asked: Planning) -> tuple[str, str] | None:
    """What does not fit together, and what to do."""
    if asked.rising and (asked.scenario != "pdw" or asked.prices):
        what = (
            "Prices that are given do not rise."
            if asked.prices
            else f"Prices do not rise in scenario {asked.scenario}."
        )
        return what, "Say --scenario pdw without --prices, or leave --rising out."
    for name, given in (("shares", asked.shares), ("prices", asked.prices)):
        if given and len(given) != asked.times:
            return f"There are {len(given)} {name} for {asked.times} times.", f"Give as many {name} as --times."
    if amiss := amiss_in(asked.shares, asked.prices):
        return amiss
    if not 0 <= asked.deleted * (asked.times - 1) < 1:
        return "More rows would leave than there are at first.", "Give a smaller --deleted."
    return None


@dataclass(frozen=True)
class Tables:
    """The schemas of a suite's tables, and what the planner is told of them."""

    schemas: Mapping[str, StructType]
    facts: Mapping[str, TableFacts]
    dataset: Dataset

    @staticmethod
    def of(spark: SparkSession, dataset: Dataset, coming: Coming = ONCE) -> "Tables":
        """Read footers and samples of a dataset's files."""
        schemas = {table: spark.read.parquet(f"file:{dataset.file(table)}").schema for table in dataset.tables}
        suite = SUITES[dataset.suite]
        leaving = suite.deletable(PATTERNS["retract"])
        fills_up = {table: coming if table in leaving else coming.growing for table in suite.facts}
        facts = {
            table: _facts(dataset.file(table), schema, fills_up.get(table, coming.whole))
            for table, schema in schemas.items()
        }
        return Tables(schemas, facts, dataset)

    def asked(self, query: Rel) -> dict[str, TableFacts]:
        """What the planner is told of the tables of a query: of columns by several of which it joins or groups, too."""
        used = known_together(query)
        return {
            name: self._asked(name, [f for table, f in used if table == name])
            for name in {scan.table for scan in scans(query)}
        }

    def _asked(self, name: str, used: Sequence[frozenset[str]]) -> TableFacts:
        facts, columns = self.facts[name], self.schemas[name].names
        sketches = sketches_of([self.dataset.file(name)], facts.inserted[-1], list(map(several, used)))
        return replace(facts, together=together(sketches, columns))


def _facts(path: Path, schema: StructType, coming: Coming) -> TableFacts:
    summary = inspect(path, schema)
    facts = table_facts(summary, schema, coming, sketches_of([path], summary.rows, schema.names))
    return replace(facts, density=density(path.stat().st_size, summary.rows, schema))


def table_facts(
    summary: FileSummary,
    schema: StructType,
    coming: Coming,
    sketches: Mapping[str, ColumnSketch] = _NO_SKETCHES,
) -> TableFacts:
    """A table that fills up so, of which the first arrival is pinned; the places of deleted rows are noted, as in a managed table."""
    left = summary.rows * coming.parts[0] * coming.deleted
    return TableFacts(
        inserted=tuple(round(summary.rows * part) for part in coming.parts),
        deleted=tuple(round(left * i) for i in range(len(coming.parts))),
        known=1,
        static=coming.static,
        append_only=not coming.static and not coming.deleted,
        notes_places=coming.deleted > 0,
        columns=column_stats(summary.columns, schema, summary.rows, sketches),
    )


def plan_all(spark: SparkSession, planning: Planning, queries: str) -> Iterator[Row]:
    """A row per query, in the suite's order. One that fails has its ``error`` and no figures."""
    texts = chosen(queries, SUITES[planning.suite].queries)
    tables = Tables.of(spark, SUITES[planning.suite].tables(planning.scale), planning.coming)
    for name, sql in texts.items():
        yield {"query": name, **_tried(spark, planning, tables, sql)}


def _tried(spark: SparkSession, planning: Planning, tables: Tables, sql: str) -> Row:
    try:
        return measured(spark, planning, tables, sql)
    except TempuraError as error:
        return {"error": f"{error.code}: {error.what}"}


def measured(spark: SparkSession, planning: Planning, tables: Tables, sql: str) -> Row:
    """Times in seconds and counts of one query. ``resident_mb``: the most that the process had in memory while planning, and ``peak_mb``
    what of that it had not before."""
    catalyst_s = _catalyst_seconds(spark, tables.schemas, sql)
    started = time.perf_counter()
    lifted = lift_sql(spark, sql, tables.schemas)
    lift_s = time.perf_counter() - started
    row = {"catalyst_s": catalyst_s, "lift_s": lift_s, **planned(lifted.rel, planning, tables.asked(lifted.rel))}
    total_s = lift_s + row["explore_s"] + row["choose_s"]
    return {key: _rounded(value) for key, value in {**row, "total_s": total_s, "error": None}.items()}


def planned(query: Rel, planning: Planning, facts: Mapping[str, TableFacts]) -> Row:
    """What it takes to plan a lifted query."""
    read = {scan.table: facts[scan.table] for scan in scans(query)}
    whole = Problem(query, planning.points, read, as_written=without_deletions(read, planning.times))
    problem, clock = whole.at(whole.worth_working), Clock()
    with _PeakMemory() as memory:
        started = time.process_time()
        plan = make_plan(
            problem,
            planning.methods,
            listener=clock,
            without=planning.without,
            switches=replace(ALL_ON, **dict.fromkeys(planning.off, False)),
        )
        cpu_s = time.process_time() - started
    choose_s, started = clock.rest(), time.process_time()
    make_plan(problem, planning.methods, without=planning.without, course=plan.course)
    again_cpu_s = time.process_time() - started
    times = {"explore_s": clock.exploring, "choose_s": choose_s, "plan_cpu_s": cpu_s, "again_cpu_s": again_cpu_s}
    known = {"method": plan.method, "cost": plan.cost, "peak_mb": memory.grown_mb, "resident_mb": memory.resident_mb}
    by_one = min((other.cost for other in plan.alternatives if "+" not in other.method), default=plan.cost)
    return {**times, **asdict(plan.effort), **known, "cost_by_one": by_one}


class Clock:
    """Listens to a search: the seconds that end in an event other than a plan's price were spent exploring."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self.exploring = 0.0

    def __call__(self, event: Event) -> None:
        now = time.perf_counter()
        self.exploring += 0.0 if isinstance(event, PlanCosted) else now - self._last
        self._last = now

    def rest(self) -> float:
        """The seconds since the beginning that were not spent exploring."""
        return time.perf_counter() - self._began - self.exploring


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _catalyst_seconds(spark: SparkSession, schemas: Mapping[str, StructType], sql: str) -> float:
    """Spark's own time to parse, analyse and optimise a text, over tables without rows."""
    work = clone(spark)
    with active(work):
        view_tables(work, schemas)
        started = time.perf_counter()
        execution = work._jsparkSession.sessionState().executePlan(analyse_sql(work, sql), _normal_mode(work))
        execution.optimizedPlan()
        return time.perf_counter() - started


def _normal_mode(work: SparkSession) -> Any:
    state = work._jsparkSession.sessionState()
    return getattr(state, "executePlan$default$2")()


class _PeakMemory:
    """The most that this process had in memory while the context was open, in MB, and by how much that is more than before; None where
    the system does not tell (Linux does). The JVM is another process."""

    grown_mb: float | None = None
    resident_mb: float | None = None

    def __enter__(self) -> "_PeakMemory":
        gc.collect()
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the high-water mark starts anew
        except OSError:
            return self
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_before"):
            most = _status("VmHWM")
            self.grown_mb, self.resident_mb = (most - self._before) / 1024, most / 1024


def _status(name: str) -> int:
    """A size in kB from the kernel's account of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def summarised(rows: Sequence[Row]) -> Row:
    """Median, 80th percentile and maximum of the time that Tempura takes, whole and beyond Catalyst's own, in seconds; of how many times
    the plan's cost the cheapest plan by one method is estimated at; and of memory, where that is known."""
    done = [row for row in rows if not row.get("error")]
    beyond = [row["total_s"] - row["catalyst_s"] for row in done]
    return {
        "queries": len(rows),
        "failed": {row["query"]: row["error"] for row in rows if row.get("error")},
        **_spread([row["total_s"] for row in done]),
        "beyond_catalyst": {**_spread(beyond), **{f"under_{limit:g}_s": _share(beyond, limit) for limit in AIMED_AT}},
        "plan_cpu": _spread([row["plan_cpu_s"] for row in done]),
        "again_cpu": {
            **_spread([row["again_cpu_s"] for row in done]),
            "under_0.2_s": _share([row["again_cpu_s"] for row in done], 0.2),
        },
        "by_one_method": _spread([row["cost_by_one"] / max(1, row["cost"]) for row in done]),
        **{name: _spread([row[name] for row in done if row.get(name) is not None]) for name in MEMORY},
        "worst": [row["query"] for row in sorted(done, key=lambda row: -row["total_s"])[:5]],
    }


def _spread(values: Sequence[float]) -> Row:
    if len(values) < 2:
        return {"p50": max(values, default=None), "p80": max(values, default=None), "max": max(values, default=None)}
    cuts = quantiles(values, n=10, method="inclusive")
    return {"p50": round(cuts[4], 3), "p80": round(cuts[7], 3), "max": round(max(values), 3)}


def _share(values: Sequence[float], limit: float) -> float:
    return round(sum(value < limit for value in values) / max(1, len(values)), 3)
