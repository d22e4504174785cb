"""``tempura bench processes``: what it takes to bring views up to date by a command, as cron does, the start of its process included.

A process begins with no class loaded and no code compiled, which for a small refresh is most of what it takes; the other benchmarks leave
it out. Several views are in one warehouse here, as a user has them. After each arrival they are run by one command, or by one each, and a
program of plain Spark recomputes all of them over the same files.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

import tempura as tp
from tempura.bench.arrivals import Cut, cut_facts
from tempura.bench.exactness import SQL_OF_SUITES, Progress, described_run
from tempura.bench.outside import Ended, run_outside, staying
from tempura.bench.record import Row
from tempura.bench.suites import SUITES, chosen, tables_named, that_get_rows
from tempura.errors import TempuraError
from tempura.frontend.start import driver_memory
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse

TOGETHER, APART, PLAIN, SAME_SESSION = "together", "apart", "plain", "plain, same session"
"""Who brings the results up to date: one command for all queries, one command each; a program of plain Spark, with the settings that it
comes with, and with those of Tempura's sessions."""

NOTHING_NEW = "together, nothing new"
"""One command for all queries when all are up to date."""

FOLLOWED = "followed"
"""One command for all queries that stays, from when rows have come until all of them are up to date."""

_EVERY = 1.0
"""Seconds between two of its looks."""

_SETTINGS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
"""What the program sets: nothing is drawn or said, as by a command. Its memory is that of Tempura's sessions."""

_ENVIRONMENT = {"PYSPARK_SUBMIT_ARGS": f"{' '.join(f'--conf {k}={v}' for k, v in SQL_OF_SUITES.items())} pyspark-shell"}
"""What commands and programs read the suites' texts by. A folder of settings would be on Java's class path, and an archive of classes
is of one class path."""

_TEMPURA = (sys.executable, "-c", "from tempura.cli.main import main; main()", "-C", "warehouse")
"""The command on the warehouse, whatever ``tempura`` is on the PATH."""


@dataclass(frozen=True, slots=True)
class Processes:
    """What is measured: queries of a suite as views over tables to which ``share`` of the first load is added before each refresh. Each
    of them is measured ``repeat`` times after ``warm_ups``. Then a command that stays brings them up to date after ``followed`` arrivals
    more, of which the last ``repeat`` are measured: it gets faster for some time."""

    suite: str
    scale: float
    share: float
    repeat: int = 3
    warm_ups: int = 1
    followed: int = 0

    @property
    def rounds(self) -> int:
        """How many refreshes each of the four makes, or recomputations."""
        return self.warm_ups + self.repeat

    @property
    def cut(self) -> Cut:
        """How the tables are cut: a first load, and an arrival for each refresh, of one command, of several, or of one that stays."""
        return Cut("append-big", "hash", (1.0, *[self.share] * (2 * self.rounds + self.followed)))

    def meta(self) -> dict[str, Any]:
        """The options and where they are run."""
        return described_run("processes", asdict(self))


def measure_processes(spark: SparkSession, asked: Processes, queries: str, told: Progress) -> list[Row]:
    """A row per command: who, the round, ``measured``, ``wall_s`` and ``cpu_s``; of Tempura's also ``does``, what became of each.
    Last results are verified. Raises TempuraError BAD_BENCHMARK if a command fails, or a result is not Spark's."""
    suite = SUITES[asked.suite]
    texts = that_get_rows(chosen(queries, suite.queries), suite, told)
    with tempfile.TemporaryDirectory(prefix="tempura-bench-") as name:
        folder = Path(name)
        told(f"cutting {', '.join(suite.facts)}")
        dataset = suite.tables(asked.scale)
        waiting = cut_facts(dataset, suite, asked.cut, folder / "waiting")
        used = set[str]().union(*(tables_named(sql, dataset.tables) for sql in texts.values()))
        lake = {table: folder / "lake" / table for table in sorted(used)}
        for table, place in lake.items():
            place.mkdir(parents=True)
            shutil.copy(waiting[table].arrivals[0] if table in waiting else dataset.file(table), place)
        warehouse = _declared(spark, folder / "warehouse", lake, waiting, texts)
        trial = _Trial(folder, lake, texts, told)
        trial.tempura(TOGETHER, 0, None)
        growing = {table: waiting[table].arrivals for table in used & waiting.keys()}

        def arrive(n: int) -> None:
            for table, arrivals in growing.items():
                shutil.copy(arrivals[n], lake[table])

        for n in range(2 * asked.rounds):
            arrive(n + 1)
            turn = n // 2
            measured = turn - asked.warm_ups if turn >= asked.warm_ups else None
            trial.tempura((TOGETHER, APART)[n % 2], n + 1, measured)
            if not n % 2:
                trial.tempura(NOTHING_NEW, n + 1, measured)
            trial.plain((PLAIN, SAME_SESSION)[n % 2], n + 1, measured)
        if asked.followed:
            trial.follow(arrive, range(2 * asked.rounds + 1, len(asked.cut.sizes)), asked.repeat)
        _verify(warehouse, told)
        return trial.rows


def _declared(
    spark: SparkSession, folder: Path, lake: Mapping[str, Path], growing: Mapping[str, object], texts: Mapping[str, str]
) -> Warehouse:
    warehouse = tp.open(folder, spark=spark)
    for table, place in lake.items():
        warehouse.add_table(table, path=place, append_only=table in growing, static=table not in growing)
    for name, sql in texts.items():
        warehouse.add_query(name, sql=sql, schedule=Schedule.view())
    return warehouse


def _verify(warehouse: Warehouse, told: Progress) -> None:
    for query in warehouse.queries():
        found = query.verify()
        told(f"{query.name}: {found}")
        if not found.equal:
            raise TempuraError("BAD_BENCHMARK", f"The result of {query.name} is not Spark's: {found}", "Report it.")


@dataclass
class _Trial:
    """The commands that were run; ``rows`` tell what each took."""

    folder: Path
    lake: Mapping[str, Path]
    texts: Mapping[str, str]
    told: Progress

    def __post_init__(self) -> None:
        self.rows: list[Row] = []

    def tempura(self, who: str, arrival: int, measured: int | None) -> None:
        """``tempura run`` of all queries in one command, or of each in one of its own; the sum of these counts."""
        named = [[name] for name in self.texts] if who == APART else [["--all"]]
        start = (*_TEMPURA, "run", "--json")
        ended = [run_outside([*start, *names], self.folder, _ENVIRONMENT, allowed=(0, 3)) for names in named]
        does = {report["query"]: report["does"] and report["does"]["kind"] for one in ended for report in _reports(one)}
        idle = [name for name, kind in does.items() if kind is None]
        if who == NOTHING_NEW and len(idle) < len(does):
            what = f"After arrival {arrival} there was something to do once more."
            raise TempuraError("BAD_BENCHMARK", what, "Report it.")
        if who != NOTHING_NEW and idle:
            what = f"After arrival {arrival} there was nothing to do for {', '.join(idle)}."
            raise TempuraError("BAD_BENCHMARK", what, "Choose a larger scale or share.")
        self._told(who, arrival, measured, ended, {"does": does})

    def follow(self, arrive: Callable[[int], None], arrivals: range, measured: int) -> None:
        """``tempura run --follow`` of all queries, while rows come. A query may be refreshed more than once for an arrival: of which some
        tables were looked at before it, and others after."""
        start = (*_TEMPURA, "run", "--all", "--follow", "--every", str(_EVERY), "--json")
        with staying(start, self.folder, _ENVIRONMENT) as command:
            for n in arrivals:
                arrive(n)
                began, before = time.perf_counter(), command.cpu_s()
                does: dict[str, str] = {}
                while len(does) < len(self.texts):
                    report = json.loads(command.line())
                    if report.get("error"):
                        what = f"After arrival {n} query {report['query']} failed: {report['error']['what']}"
                        raise TempuraError("BAD_BENCHMARK", what, "Report it.")
                    if all(version in (1, n + 1) for version in report["inputs"].values()):
                        does[report["query"]] = report["does"]["kind"]
                after = command.cpu_s()
                turn = n - arrivals.stop + measured
                cpu_s = None if after is None or before is None else after - before
                ended = Ended("", time.perf_counter() - began, cpu_s)
                self._told(FOLLOWED, n, turn if turn >= 0 else None, [ended], {"does": does})

    def plain(self, who: str, arrival: int, measured: int | None) -> None:
        """The program of plain Spark."""
        given = {
            "tables": {table: f"file:{place}" for table, place in self.lake.items()},
            "queries": dict(self.texts),
            "out": f"file:{self.folder / 'plain'}",
            "settings": _SETTINGS | {"spark.driver.memory": f"{driver_memory() >> 20}m"},
            "session": who == SAME_SESSION,
        }
        command = [sys.executable, "-m", "tempura.bench.recomputing", json.dumps(given)]
        self._told(who, arrival, measured, [run_outside(command, self.folder, _ENVIRONMENT)], {})

    def _told(self, who: str, arrival: int, measured: int | None, ended: Sequence[Ended], found: Row) -> None:
        wall_s, cpu = sum(one.wall_s for one in ended), [one.cpu_s for one in ended if one.cpu_s is not None]
        cpu_s = round(sum(cpu), 2) if cpu else None
        row = {
            "who": who,
            "arrival": arrival,
            "measured": measured,
            "wall_s": round(wall_s, 2),
            "cpu_s": cpu_s,
            **found,
        }
        self.rows.append(row)
        load = "first load" if not arrival else f"arrival {arrival}"
        self.told(f"{load}, {who}{'' if measured is not None else ', to warm up'}: {wall_s:.2f} s, {_cpu(cpu_s)}")


def _cpu(seconds: float | None) -> str:
    return "CPU not told" if seconds is None else f"{seconds:.2f} CPU s"


def _reports(ended: Ended) -> Iterator[Mapping[str, Any]]:
    """The reports that a command printed: one, or one a line."""
    try:
        yield json.loads(ended.printed)
    except json.JSONDecodeError:
        yield from map(json.loads, ended.printed.splitlines())


def summarised(rows: Sequence[Row]) -> dict[str, Row]:
    """By who: medians of what was measured, and their ratios to the program of plain Spark."""
    found: dict[str, Row] = {}
    followed = [FOLLOWED] if any(row["who"] == FOLLOWED for row in rows) else []
    for who in (PLAIN, SAME_SESSION, TOGETHER, APART, NOTHING_NEW, *followed):
        measured = [row for row in rows if row["who"] == who and row["measured"] is not None]
        found[who] = {key: _median(row[key] for row in measured) for key in ("wall_s", "cpu_s")}
    plain = found[PLAIN]
    for row in found.values():
        row |= {
            f"{key[:-2]}_ratio": round(row[key] / plain[key], 2) if row[key] and plain[key] else None
            for key in ("wall_s", "cpu_s")
        }
    return found


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
