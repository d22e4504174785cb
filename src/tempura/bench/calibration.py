"""``tempura calibrate``: what the prices of the cost model are on this machine, under this configuration of Spark: those of jobs
(:mod:`tempura.bench.priced`) by their differences (:mod:`tempura.cost.fit`), the driver's raised to what steps take
(:mod:`tempura.bench.driver`).
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from tempura.bench.driver import level_of
from tempura.bench.jobs import session_as_asked, usage_of
from tempura.bench.priced import EQUATIONS, JOBS, ROWS, Job, Tables
from tempura.cost.calibration import Calibration, with_prices
from tempura.cost.fit import Taken, fitted, in_proportion, leveled, noise
from tempura.cost.model import SPARK
from tempura.execute.contract import Usage
from tempura.execute.machine import machine_of

SECONDS = 120.0
"""How long to measure, unless something else is asked for."""

Round = Mapping[str, Usage]
"""What each job took."""

_LEAST, _MOST = 3, 9
"""Rounds: fewer say nothing, more say nothing new."""

_WARM_UP, _STEPS = 2, 3
_OF_JOBS = 0.75
"""The part of the time that is for jobs; steps are measured in the rest."""


def calibrate(
    spark: SparkSession,
    seconds: float = SECONDS,
    rows: int = ROWS,
    progress: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Measure the prices of a session's machine in about so many ``seconds``."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tempura-calibrate-") as folder:
        cores = {"spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism)}
        tables = Tables(session_as_asked(spark), session_as_asked(spark, cores), Path(folder), rows)
        progress("making tables")
        tables.make()
        measured = _rounds(lambda told: {j.name: _middle(tables, j, progress, told) for j in JOBS}, began, seconds)
        described = {job.name: job.consists(tables) for job in JOBS}
        prices = in_proportion(fitted(described, EQUATIONS, [_taken(usages) for usages in measured], SPARK))
        model = with_prices(prices, "being measured")
        level = level_of(spark, model, Path(folder) / "warehouse", _STEPS, progress)
    cpu = {job.name: [usages[job.name].cpu_seconds for usages in measured] for job in JOBS if job.times == 1}
    wall = {job.name: [usages[job.name].wall_seconds for usages in measured] for job in JOBS if job.times == 1}
    return Calibration(
        machine=machine_of(spark),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        rounds=len(measured),
        seconds=round(time.monotonic() - began, 1),
        noise=round(noise(cpu), 3),
        waiting=round(noise(wall), 3),
        level=round(level.factor, 3),
        prices=leveled(prices, level.factor, level.error),
    )


def _rounds(
    run: Callable[[str], Round], began: float, seconds: float, now: Callable[[], float] = time.monotonic
) -> list[Round]:
    """Rounds after those to warm up: as many as there is time for, three if they end before all of the time is spent."""
    rounds: list[Round] = []
    for n in range(1 - _WARM_UP, _MOST + 1):
        started = now()
        rounds.append(run(f"round {n}" if n > 0 else "warming up"))
        after_next = 2 * now() - started - began
        if n >= 1 and after_next > seconds * (_OF_JOBS if n >= _LEAST else 1.0):
            break
    return rounds[_WARM_UP:]


def _middle(tables: Tables, job: Job, progress: Callable[[str], None], told: str) -> Usage:
    """What a job takes: of several times in a round, the middle one."""
    progress(f"{told}: {job.name}")
    to = tables.folder / "out" if job.write else None
    runs = sorted((usage_of(job.frame(tables), to) for _ in range(job.times)), key=_all_cpu)
    return runs[len(runs) // 2]


def _all_cpu(usage: Usage) -> float:
    return usage.cpu_seconds + usage.driver_seconds


def _taken(usages: Mapping[str, Usage]) -> Taken:
    tasks = {name: usage.cpu_seconds * 1e9 for name, usage in usages.items()}
    return Taken(tasks, {name: usage.driver_seconds * 1e9 for name, usage in usages.items()})
