"""``tempura bench paces``: what paces cost and save, in tuples that are really processed (Thrifty Query Execution via
Incrementability, 5).

The 22 queries of TPC-H and the paper's two run over data that arrives row by row in a random order, all tables at one
rate. Each strategy chooses paces for each bound on the final work, by the statistics of one batch run, of the tables, or of a sample;
then the flushes are run over bags and what every operator processes is counted. A result that is not that of the batch run is an error.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean, quantiles
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tempura.algebra.bag import Row as Values
from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import scans
from tempura.bench.exactness import described_run, session_settings
from tempura.bench.planning import Tables
from tempura.bench.suites import chosen
from tempura.data.tpcds import Dataset, generate, query_texts
from tempura.errors import TempuraError
from tempura.frontend.lift import lift_sql
from tempura.pace.arrivals import Arrivals, arriving
from tempura.pace.cut import Cut, cut
from tempura.pace.flow import Array, Mask
from tempura.pace.goal import MOST_PACE, STRATEGIES, Goal, Plan, StrategyName
from tempura.pace.rowwise import forget
from tempura.pace.run import PacedRun
from tempura.pace.sample import Sample, drawn, sampled
from tempura.pace.simulate import Simulation
from tempura.pace.statistics import Statistics, biased, estimated, measured
from tempura.pace.strategies import plan_paces, planned_again

Row = dict[str, Any]

REPLANNED = "replanned"
"""The strategy ``inqp``, planned again on the way."""

CHOICES = (*STRATEGIES, REPLANNED)

AGAIN_AT = (0.2, 0.4, 0.6, 0.8)
"""The shares of the steps after which paces are planned again."""

STATISTICS = ("measured", "tables", "sample")
"""What is known when paces are planned: from a batch run over the same rows, from the tables' statistics, from a sample of the rows."""

SAMPLED = 0.01
"""The part of the rows that a sample has, or ``pace.sample.LEAST`` where that is more."""

NOTHING = {"tuples": 0.001, "cpu": 0.05}
"""Additional work of less than this part of the batch's is none: a ratio of two such would say nothing. CPU time of the same work differs
by some percent from run to run."""

PAPERS = {
    "q_aggjoin": """SELECT AVG(avg_price) FROM customer c,
        (SELECT o_custkey, AVG(o_totalprice) avg_price FROM orders GROUP BY o_custkey) agg_o
        WHERE c.c_custkey = agg_o.o_custkey""",
    "q_outer": """SELECT COUNT(*) FROM part LEFT JOIN partsupp ON p_partkey = ps_partkey
        JOIN lineitem ON p_partkey = l_partkey JOIN orders ON l_orderkey = o_orderkey""",
}
"""The two queries of the paper (5.2) beside those of TPC-H."""


@dataclass(frozen=True, slots=True)
class Paces:
    """What is measured. ``bias`` is the ratio by which statistics may be off; ``draws`` is how often it is drawn by how much they are, or
    a sample; ``spike`` is how many times as many rows a burst brings as a steady rate. Raises TempuraError BAD_BENCHMARK."""

    scale: float
    constraints: tuple[float, ...]
    strategies: tuple[str, ...]
    work: str = "tuples"
    rate: str = "steady"
    bias: float = 1.0
    max_pace: int = MOST_PACE
    statistics: str = "measured"
    draws: int = 1
    spike: float = 5.0

    def __post_init__(self) -> None:
        unknown = [name for name in self.strategies if name not in CHOICES]
        if unknown or not self.strategies:
            what = f"There is no strategy {unknown[0]!r}." if unknown else "No strategy is named."
            raise TempuraError("BAD_BENCHMARK", what, f"Choose of {', '.join(CHOICES)}.")
        if not self.constraints or not all(0 < bound <= 1 for bound in self.constraints):
            what = f"The constraints are {', '.join(map(str, self.constraints)) or 'none'}."
            raise TempuraError("BAD_BENCHMARK", what, "Give shares of a batch's work, above 0 and at most 1.")
        if not self.bias > 0:
            raise TempuraError(
                "BAD_BENCHMARK", f"The bias is {self.bias:g}.", "Give a ratio above 0, such as 0.2 or 5."
            )
        if self.work == "cpu" and (self.is_random or self.statistics != STATISTICS[0] or REPLANNED in self.strategies):
            what = "A warehouse knows statistics of its own, and plans paces again by itself."
            raise TempuraError(
                "BAD_BENCHMARK", what, f"Leave out --bias, --statistics and {REPLANNED}, or count tuples."
            )
        if self.work == "tuples" and self.max_pace != MOST_PACE:
            what = f"Tuples are counted at paces up to {MOST_PACE}, not {self.max_pace}."
            raise TempuraError("BAD_BENCHMARK", what, "Leave out --max-pace, or say --work cpu.")
        if not 1 <= self.max_pace <= MOST_PACE:
            raise TempuraError("BAD_BENCHMARK", f"The maximal pace is {self.max_pace}.", f"Give 1 to {MOST_PACE}.")
        if self.statistics not in STATISTICS:
            what = f"There are no statistics {self.statistics!r}."
            raise TempuraError("BAD_BENCHMARK", what, f"Choose of {', '.join(STATISTICS)}.")
        if self.draws < 1 or (self.draws > 1 and not self.is_random):
            what = f"{self.draws} draws are asked for, of which all would be the same."
            raise TempuraError("BAD_BENCHMARK", what, "Draws differ with --bias or --statistics sample.")

    @property
    def is_random(self) -> bool:
        """Whether something is drawn."""
        return self.bias != 1 or self.statistics == "sample"

    def meta(self) -> Row:
        """The options and where it runs."""
        return described_run("paces", asdict(self))


Rows = Mapping[str, Sequence[tuple[Values, int]]]


@dataclass(frozen=True)
class Trial:
    """A query over data: its cut, the rows in the order in which they arrive, and how."""

    name: str
    cut: Cut
    rows: Rows
    columns: Mapping[str, tuple[str, ...]]
    rate: str = "steady"
    spike: float = 5.0

    @property
    def totals(self) -> dict[str, float]:
        """Rows per table."""
        return {table: float(len(self.rows[table])) for table in self.cut.tables}

    def arrivals(self, rate: str | None = None) -> Arrivals:
        """How they arrive in steps."""
        return arriving(self.totals, MOST_PACE, rate or self.rate, self.spike)

    def sample(self, seed: int = 0) -> Sample:
        """A random sample of the rows, for each use of a table."""
        return drawn(self.cut, self.rows, self.columns, SAMPLED, seed)

    def batch(self) -> PacedRun:
        """One flush of all rows."""
        run = PacedRun(self.cut, self.columns)
        for table in self.cut.tables:
            run.arrive(table, self.rows[table])
        run.flush({path.number for path in self.cut.paths}, at_end=True)
        return run

    def run(self, flushes: Mask, again: Callable[[PacedRun, int, Mask], Mask] | None = None) -> PacedRun:
        """Flush paths at the given steps (a row per path). ``again`` may change the steps to come."""
        run, have = PacedRun(self.cut, self.columns), dict.fromkeys(self.cut.tables, 0)
        shares, steps = self.arrivals().shares, MOST_PACE
        for step in range(steps):
            at_end = step == steps - 1
            paths = set(np.flatnonzero(flushes[:, step]).tolist())
            for table in self.cut.tables:
                until = round(len(self.rows[table]) * float(shares[step]))
                run.arrive(table, self.rows[table][have[table] : until])
                have[table] = until
            if paths or at_end:
                run.flush(paths, at_end)
            if again is not None and not at_end:
                flushes = again(run, step + 1, flushes)
        return run


def measure_paces(
    spark: SparkSession, asked: Paces, queries: str, report: Callable[[str], None], settings: Sequence[Paces] = ()
) -> Iterator[Row]:
    """A row per query, in order, and per one of ``settings`` where several are given, with its ``cases``: one per strategy, constraint and
    draw. A query that fails has its ``error``."""
    dataset = generate(asked.scale, suite="tpch")
    tables = Tables.of(spark, dataset)
    rows, columns = shuffled_rows(dataset)
    texts = chosen_with_papers(queries)
    for name, sql in texts.items():
        for setting in settings or (asked,):
            row: Row = {"query": name, "bias": setting.bias, "spike": setting.spike}
            try:
                lifted = lift_sql(spark, sql, tables.schemas)
                report(f"{name} is being run")
                trial = Trial(name, cut(lifted.rel), rows, columns, setting.rate, setting.spike)
                statistics = estimated(trial.cut, {scan.table: tables.facts[scan.table] for scan in scans(lifted.rel)})
                row |= {**measured_trial(trial, setting, statistics), "error": None}
                row["as_spark"] = _visible(trial.batch(), lifted.visible) == answer_of_spark(spark, dataset, sql)
            except TempuraError as error:
                row |= {"cases": [], "error": f"{error.code}: {error.what}"}
            yield row
        forget()


def answer_of_spark(spark: SparkSession, dataset: Dataset, sql: str) -> SignedBag:
    """A query's result by Spark."""
    work = spark.newSession()
    for name, value in session_settings().items():
        if name.startswith("spark.sql.ansi"):
            work.conf.set(name, value)
    for table in dataset.tables:
        work.read.parquet(f"file:{dataset.file(table)}").createOrReplaceTempView(table)
    return SignedBag.of(tuple(row) for row in work.sql(sql).collect())


def _visible(run: PacedRun, number: int) -> SignedBag:
    return SignedBag((row[:number], weight) for row, weight in run.result.items())


def chosen_with_papers(queries: str) -> dict[str, str]:
    """The queries named by ``all`` or ``q1,q_outer``. Raises TempuraError UNKNOWN_QUERY."""
    return chosen(queries, query_texts("tpch") | PAPERS)


def shuffled_rows(dataset: Dataset) -> tuple[Rows, dict[str, tuple[str, ...]]]:
    """All rows of each table in the order in which they arrive, a random one that is always the same; and the tables'
    columns."""
    rows, columns = {}, {}
    for table in dataset.tables:
        read = pq.read_table(dataset.file(table))
        found = list(zip(*(column.to_pylist() for column in read.columns), strict=True))
        Random(table).shuffle(found)
        rows[table] = [(row, 1) for row in found]
        columns[table] = tuple(read.column_names)
    return rows, columns


def measured_trial(trial: Trial, asked: Paces, from_tables: Statistics) -> Row:
    """All cases of a query, the work of a batch, and how far expected work of flushes was off by each kind of statistics."""
    batch, sample = trial.batch(), trial.sample()
    kinds = {
        "measured": measured(trial.cut, batch, from_tables, trial.totals),
        "tables": from_tables,
        "sample": sampled(trial.cut, sample, trial.columns, from_tables, trial.totals),
    }
    done: dict[bytes, PacedRun] = {}
    cases: list[Row] = []
    for draw in range(asked.draws):
        known = kinds[asked.statistics]
        if asked.statistics == "sample":
            known = sampled(trial.cut, trial.sample(draw), trial.columns, from_tables, trial.totals)
        if asked.bias != 1:
            known = biased(known, asked.bias, Random(f"{trial.name} {draw}"))
        cases += [
            {"draw": draw} | _case(trial, known, Goal(final_work=bound), strategy, batch, done)
            for bound in asked.constraints
            for strategy in asked.strategies
        ]
    return {
        "batch": batch.work,
        "paths": len(trial.cut.paths),
        "sample": sample.sizes,
        "accuracy": accuracy(trial, kinds),
        "cases": cases,
    }


def _case(
    trial: Trial, known: Statistics, goal: Goal, strategy: str, batch: PacedRun, done: dict[bytes, PacedRun]
) -> Row:
    found: Row = {"strategy": strategy, "constraint": goal.final_work}
    name: StrategyName = "inqp" if strategy == REPLANNED else strategy  # type: ignore[assignment]
    try:
        plan, planning_ms = _planned(trial, known, goal, name)
    except TempuraError as error:
        return found | {"error": f"{error.code}: {error.what}"}
    simulation = Simulation(trial.cut, known, trial.arrivals())
    flushes = simulation.flushes(plan.paces)
    key = flushes.tobytes()
    if strategy == REPLANNED:
        run = trial.run(flushes, _again(trial, known, goal))
    else:
        run = done[key] if key in done else trial.run(flushes)
        done[key] = run
    require_equal(trial, run.result, batch.result)
    final = run.flushes[-1].tuples
    return found | {
        "paces": list(plan.paces),
        "expected": {"additional": part(plan.additional, plan.batch), "final": part(plan.chosen.final, plan.batch)},
        "meets": plan.meets,
        "additional": run.work - batch.work,
        "additional_share": part(run.work - batch.work, batch.work),
        "final_share": part(final, batch.work),
        "met": final <= (goal.final_work or 0.0) * batch.work,
        "planning_ms": round(planning_ms, 1),
        "simulated": plan.effort.simulated,
        "error": None,
    }


def _planned(trial: Trial, known: Statistics, goal: Goal, strategy: StrategyName) -> tuple[Plan, float]:
    """A plan for data that is expected to arrive steadily, and the CPU time that it took, in milliseconds."""
    started = time.process_time()
    simulation = Simulation(trial.cut, known, trial.arrivals("steady"))
    plan = plan_paces(simulation, goal, strategy)
    return plan, (time.process_time() - started) * 1e3


def _again(trial: Trial, known: Statistics, goal: Goal) -> Callable[[PacedRun, int, Mask], Mask]:
    """Plans again after some steps, from what was measured so far."""
    moments = {round(share * MOST_PACE) for share in AGAIN_AT}

    def again(run: PacedRun, step: int, flushes: Mask) -> Mask:
        if step not in moments:
            return flushes
        statistics = measured(trial.cut, run, known, trial.totals)
        return planned_again(trial.cut, statistics, trial.arrivals(), goal, flushes, step)

    return again


def require_equal(trial: Trial, found: SignedBag, batch: SignedBag) -> None:
    """Raise TempuraError WRONG_RESULT unless paces gave what one batch gives."""
    if found != batch:
        what = f"{trial.name} gives another result than in one batch."
        raise TempuraError("WRONG_RESULT", what, "This is an error of Tempura: please report it.")


def part(work: float, batch: float) -> float:
    """Work in parts of a batch's, in either unit."""
    return round(work / max(batch, 1e-9), 5)


def accuracy(trial: Trial, kinds: Mapping[str, Statistics]) -> dict[str, float]:
    """By each kind of statistics the mean of (expected - true) ÷ true over the flushes of the greatest uniform pace, in tuples processed
    (5.5, Table 1)."""
    paces = [MOST_PACE] * len(trial.cut.paths)
    simulations = {kind: Simulation(trial.cut, known, trial.arrivals("steady")) for kind, known in kinds.items()}
    flushes = next(iter(simulations.values())).flushes(paces)
    true = [flush.tuples for flush in trial.run(flushes).flushes]
    return {kind: _error(simulation.run([paces]).steps[0], true) for kind, simulation in simulations.items()}


def _error(expected: Array, true: Sequence[int]) -> float:
    errors = [(e - t) / t for e, t in zip(expected, true, strict=False) if t]
    return round(fmean(errors), 4) if errors else 0.0


# --- the summary ---


ABOVE = 1.02
"""A ratio above it is told of: InQP adds more than another strategy."""


def summarised(rows: Sequence[Row], work: str = "tuples") -> Row:
    """Per query and constraint InQP's additional work ÷ the other strategy's, None where neither adds anything to
    speak of; the cases in which that is above ``ABOVE``, with the shares of draws in which each strategy was within the bound: one that
    adds less and misses it did something else. The share of cases that meet their constraint, per strategy; the planning times of InQP,
    where they were taken."""
    strategies = list(dict.fromkeys(case["strategy"] for row in rows for case in row["cases"]))
    cases = [case for row in rows for case in row["cases"] if not case["error"]]
    times = [case["planning_ms"] for case in cases if case["strategy"] == "inqp" and "planning_ms" in case]
    ratios = {other: _ratios(rows, other, NOTHING[work]) for other in ("uniform", "leaf")}
    return {
        "uniform_ratio": ratios["uniform"],
        "leaf_ratio": ratios["leaf"],
        "above": [
            found for row in rows for other, of in ratios.items() for found in _above(row, other, of[label(row, rows)])
        ],
        "met": {name: _met([case for case in cases if case["strategy"] == name]) for name in strategies},
        "planning_ms": {"p80": _p80(times), "max": max(times, default=None)},
    }


def label(row: Row, rows: Sequence[Row]) -> str:
    """A row's query, and what it was run under where that differs."""
    told = [f"{name} {row[name]:g}" for name in ("bias", "spike") if len({other.get(name) for other in rows}) > 1]
    return " ".join([row["query"], *told])


def _above(row: Row, other: str, ratios: Mapping[str, float | None]) -> Iterator[Row]:
    for bound, found in ratios.items():
        if found is not None and found > ABOVE:
            own = [case for case in row["cases"] if not case["error"] and f"{case['constraint']:g}" == bound]
            within = {name: _met([case for case in own if case["strategy"] == name]) for name in ("inqp", other)}
            yield {"query": row["query"], "constraint": float(bound), "than": other, "ratio": found, "met": within}


def _met(cases: Sequence[Row]) -> float | None:
    return round(fmean(case["met"] for case in cases), 3) if cases else None


def _p80(times: Sequence[float]) -> float | None:
    if len(times) < 2:
        return max(times, default=None)
    return round(quantiles(times, n=10, method="inclusive")[7], 1)


def _ratios(rows: Sequence[Row], other: str, nothing: float) -> Row:
    return {label(row, rows): _ratios_of(row, other, nothing * row.get("batch", 0.0)) for row in rows}


def _ratios_of(row: Row, other: str, nothing: float) -> Row:
    """Of additional work on average over draws."""
    by: dict[tuple[str, float], list[float]] = {}
    for case in row["cases"]:
        if not case["error"]:
            by.setdefault((case["strategy"], case["constraint"]), []).append(case["additional"])
    return {
        f"{bound:g}": ratio(fmean(by["inqp", bound]), fmean(by[other, bound]), nothing)
        for bound in dict.fromkeys(case["constraint"] for case in row["cases"])
        if ("inqp", bound) in by and (other, bound) in by
    }


def ratio(additional: float, others: float, nothing: float) -> float | None:
    """InQP's additional work ÷ another's; None where neither is worth as much as ``nothing``. The other's is taken
    to be at least that, so that a ratio is never large because nothing was divided by."""
    if abs(additional) < nothing and abs(others) < nothing:
        return None
    return round(additional / max(others, nothing), 3)
