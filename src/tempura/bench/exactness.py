"""``tempura bench exactness``: every query through the warehouse, arrival by arrival, against Spark's own batch answer."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from pyspark.sql import SparkSession

import tempura as tp
from tempura.bench.arrivals import Cut
from tempura.bench.lake import laid_out
from tempura.bench.record import Record, Row, codes
from tempura.bench.second import compare
from tempura.bench.suites import SUITES, chosen
from tempura.bench.trial import Trial
from tempura.frontend.start import many_small_jobs
from tempura.rules.core import recompute_snapshot
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry

EARLY_PRICE = 0.3
"""What work costs before the deadline, in the scenario ``pdw``."""

_TAKEN_AWAY = 0.15
"""The probability with which a rule is taken away, where that is asked for: what a query gives must not depend on which rules there are."""

_CHOICES = 20
"""How often rules are chosen again when those that are left have no plan."""

SCENARIOS = ("ivm", "pdw")

Progress = Callable[[str], None]


SQL_OF_SUITES = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
"""Settings under which Spark reads the suites' texts: they quote names with double quotes."""


def session_settings() -> dict[str, str]:
    """The settings of a sweep's session."""
    return {**many_small_jobs(), **SQL_OF_SUITES}


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is run: queries of a suite, each under several patterns of arrivals. ``scenario`` ivm: a result at each time;
    pdw: only at the last, and work is cheaper before. ``knock_out`` seeds the choice of rules that are taken away, other ones for
    each query."""

    suite: str
    scale: float
    patterns: tuple[str, ...]
    split: str = "hash"
    duplicates: float = 0.02
    times: int = 2
    scenario: str = "ivm"
    methods: tuple[str, ...] = ("im1",)
    knock_out: int | None = None

    @property
    def schedule(self) -> tp.Schedule:
        """The times ``t1``, ``t2`` and so on."""
        return schedule_of(self.scenario, self.times)

    def cut(self, pattern: str) -> Cut:
        """How the fact tables are cut."""
        return Cut.of(pattern, self.split, self.times, self.duplicates)

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
    texts = chosen(queries, SUITES[sweep.suite].queries)
    dataset = SUITES[sweep.suite].tables(sweep.scale)
    for pattern in sweep.patterns:
        left = [name for name in texts if not record.has(name, pattern, sweep.scenario)]
        if not left:
            continue
        known = {"pattern": pattern, "scenario": sweep.scenario}
        with laid_out(spark, dataset, SUITES[sweep.suite], sweep.cut(pattern), progress) as lake:
            for n, name in enumerate(left):
                progress(f"{pattern}: {name}, {n + 1} of {len(left)}")
                trial = Trial(spark, lake, name, texts[name], sweep.schedule, sweep.methods, known)
                rows = trial.run() if sweep.knock_out is None else _run_without(trial, sweep.knock_out)
                record.add(rows)
                told(described(rows))
    for name, text in texts.items():
        if not record.has_batch(name):
            progress(f"{name} in DuckDB")
            found = compare(spark, dataset, name, text)
            record.add(batch=[found])
            told(f"{name}: as in DuckDB" if found["equal"] else f"{name}: not as in DuckDB: {found['cause']}")


def _run_without(trial: Trial, seed: int) -> list[Row]:
    """Run a query with some rules taken away: the first choice of them with which it has a plan."""
    for attempt in range(_CHOICES):
        found, rules = knocked_out(trial.methods, f"{seed}.{trial.name}.{attempt}")
        known = {**trial.known, "without": list(found.without)}
        rows = replace(trial, methods=(found.method,), known=known, rows=[], rules=rules).run()
        if rows[-1]["error"] != "NO_PLAN":
            break
    return rows


@dataclass(frozen=True, slots=True)
class KnockOut:
    """The name of a method, and the names of the rules that it lacks."""

    method: str
    without: tuple[str, ...]


def knocked_out(methods: Sequence[str], seed: str) -> tuple[KnockOut, Registry]:
    """A method with the rules of ``methods``, some taken away, and Tempura's registry with it. To recompute everything is never among its
    rules: it would often be the cheapest plan, and show nothing."""
    random, rules = Random(seed), TEMPURA.rules_of(methods)
    kept = tuple(rule for rule in rules if rule is not recompute_snapshot and random.random() >= _TAKEN_AWAY)
    found = KnockOut(f"{'+'.join(methods)} without {seed}", tuple(rule.name for rule in rules if rule not in kept))
    return found, replace(TEMPURA, methods={**TEMPURA.methods, found.method: kept})


def described(rows: Sequence[Row]) -> str:
    """A query's rows in one line."""
    verdicts = ["failed" if r["error"] else {True: "equal", False: "WRONG", None: "-"}[r["equal"]] for r in rows]
    last = rows[-1]
    parts = [f"{last['pattern']} {last['query']:<4} {' '.join(verdicts)}", f"{sum(r['cpu_s'] for r in rows):.1f} CPU s"]
    parts += [f"{sum(r['wall_s'] + r['overhead_s'] for r in rows):.1f} s", f"{last['rows'] or 0} rows"]
    parts += ["trivial"] if last["nontrivial"] is False else []
    parts += [f"recomputed: {' '.join(found)}"] if (found := codes(rows)) else []
    parts += [f"{last['error']}: {last['message']}"] if last["error"] else []
    return ", ".join(parts)
