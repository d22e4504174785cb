"""``tempura bench paces --work cpu``: what paces cost and save in CPU seconds of Spark's tasks, in a warehouse (Thrifty Query Execution
via Incrementability, 5).

All tables of TPC-H fill up in ``max_pace`` arrivals, their rows in the order of a hash. A query is declared before the first of them,
its result is due with the last; after each arrival it is run, and the warehouse plans, flushes, and plans again as it does for a user. What
plain Spark takes for the whole of the rows, in the same session, is the batch: paces are measured against what a user has without them.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tempura as tp
from tempura.bench.account import Account, Taken
from tempura.bench.arrivals import Cut
from tempura.bench.effectiveness import in_turn, recomputed
from tempura.bench.lake import Lake, SetClock, laid_out
from tempura.bench.paces import Paces, Row, chosen_with_papers, part
from tempura.bench.paces_spread import SETTINGS
from tempura.bench.suites import SUITES, Fact, Suite, tables_named
from tempura.bench.trial import failure_of, is_alive
from tempura.data.tpcds import generate
from tempura.errors import TempuraError
from tempura.frontend.session import clone
from tempura.pace.arrivals import arriving
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.paces.pacing import Paces as Planned
from tempura.warehouse.runs.entries import HistoryEntry
from tempura.warehouse.times.schedule import Schedule

ONE_FLUSH = "one flush"
"""What is measured beside the strategies: all rows in one flush, at the end."""

_AHEAD = 0.02
"""By which part of an arrival the first one is larger than the others. The shares of a hash are not exact, and a path is flushed when its
share of the rows has come, not a row before."""

_NO_DAY = "CAST(NULL AS DATE)"


def filling_up(suite: Suite) -> Suite:
    """A suite all of whose tables arrive over time, each row by itself."""
    return replace(suite, facts={table: Fact(", ".join(keys), _NO_DAY) for table, keys in suite.keys.items()})


def sizes_of(rate: str, arrivals: int, spike: float = 5.0) -> tuple[float, ...]:
    """The sizes of the arrivals, in proportion."""
    sizes = np.diff(arriving({}, arrivals, rate, spike).shares, prepend=0.0)
    if arrivals > 1:
        early = _AHEAD * min(sizes)
        sizes[0], sizes[-1] = sizes[0] + early, sizes[-1] - early
    return tuple(map(float, sizes))


def measure_cpu(spark: SparkSession, asked: Paces, queries: str, report: Callable[[str], None]) -> Iterator[Row]:
    """A row per query, in order, with its ``cases``: one per strategy and constraint. A query that fails has its ``error``."""
    texts, suite = chosen_with_papers(queries), filling_up(SUITES["tpch"])
    dataset = generate(asked.scale, suite="tpch")
    rows = {table: pq.read_metadata(dataset.file(table)).num_rows for table in dataset.tables}
    cut = Cut("append-big", "hash", sizes_of(asked.rate, asked.max_pace, asked.spike))
    with laid_out(spark, dataset, suite, cut, report) as lake:
        # The names are in the order of the suite: another strategy begins with each.
        for n, (name, sql) in enumerate(texts.items()):
            yield Measurement(spark, replace(lake, expected=rows), name, sql, asked, report).measured(n)


@dataclass(frozen=True)
class Measurement:
    """A query that is measured: by plain Spark, in one flush, by each strategy, and by plain Spark again."""

    spark: SparkSession
    lake: Lake
    name: str
    sql: str
    asked: Paces
    report: Callable[[str], None]

    def measured(self, turn: int) -> Row:
        """Its row."""
        varies = {name: getattr(self.asked, name) for name in SETTINGS}
        row: Row = {"query": self.name, **varies, "cases": [], "error": None}
        try:
            self._recompute()  # to warm up
            before = self._recompute()
            self._case(ONE_FLUSH, 1.0)  # to warm up
            one = self._case(ONE_FLUSH, 1.0)
            found = [self._case(s, c) for c in self.asked.constraints for s in in_turn(self.asked.strategies, turn)]
            batches = [before, self._recompute()]
        except Exception as error:  # a benchmark goes on, whatever happens to one query
            if not is_alive(self.spark):
                raise
            failed = failure_of(error)
            return row | {"error": f"{failed['error']}: {failed['message']}"}
        batch = fmean(taken.usage.cpu_seconds for taken in batches)
        whole = fmean(_all(taken) for taken in batches)
        row |= {
            "batch": round(batch, 3),
            "batch_all": round(whole, 3),
            "batch_runs": [taken.row() for taken in batches],
        }
        row |= {"one_flush": _shared(one, batch, whole), "cases": [_shared(case, batch, whole) for case in found]}
        return row

    def _recompute(self) -> Taken:
        """Plain Spark over all rows."""
        session = clone(self.spark)
        for table in self._tables:
            read = session.read.schema(self.lake.schemas[table])
            read.parquet(*(f"file:{file}" for file in self.lake.present(table, self._last))).createOrReplaceTempView(
                table
            )
        taken, _ = recomputed(session, self.sql, self.lake.folder)
        self.report(f"{self.name}: plain Spark: {taken.usage.cpu_seconds:.2f} CPU s, {taken.wall_s:.2f} s")
        return taken

    @property
    def _tables(self) -> set[str]:
        return tables_named(self.sql, self.lake.schemas)

    @property
    def _last(self) -> int:
        return len(self.lake.stages) - 1

    def _case(self, strategy: str, constraint: float) -> Row:
        """A warehouse that is filled and run under a strategy."""
        folder = Path(tempfile.mkdtemp(dir=self.lake.folder))
        try:
            found = self._run(folder, strategy, constraint)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        figures = f"{found['cpu_s']:.2f} CPU s in {found['flushes']} flushes, the last {found['final_s']:.2f}"
        self.report(f"{self.name}: {strategy} at {constraint:g}: {figures}")
        return found

    def _run(self, folder: Path, strategy: str, constraint: float) -> Row:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        clock = SetClock([start + timedelta(hours=i) for i in range(self._last + 2)])
        warehouse = tp.open(folder, spark=self.spark, clock=clock)
        self.lake.declare(warehouse, self._tables)
        schedule = Schedule.paced(
            until=start + timedelta(hours=self._last + 1),
            final_work=constraint,
            max_pace=self.asked.max_pace,
            strategy="hand" if strategy == ONE_FLUSH else strategy,
            timezone="UTC",
        )
        query = warehouse.add_query(self.name, self.sql, schedule=schedule)
        assert isinstance(query, PacedQuery), "the schedule is paced"
        runs: list[Taken] = []
        paces = None
        for i in range(self._last + 1):
            clock.at = i + 1
            self.lake.arrive(warehouse, self._tables, i)
            with Account(self.spark) as account:
                query.run()
            runs.append(account.taken)
            paces = query.paces() if paces is None or i < self._last else paces
        assert paces is not None, "flushes were planned"
        present = {table: Rows(tuple(map(str, self.lake.present(table, self._last)))) for table in self._tables}
        if not query.verify(present):
            what = f"{self.name} gives another result at paces by {strategy} for {constraint:g} than recomputing."
            raise TempuraError("WRONG_RESULT", what, "This is an error of Tempura: please report it.")
        found = _planned(paces, query.history()) | _taken(runs)
        return {"strategy": strategy, "constraint": constraint, **found, "error": None}


def _planned(paces: Planned, history: Sequence[HistoryEntry]) -> Row:
    """The paces before the last flush, and what each flush was expected to take, in seconds of CPU time of one core."""
    return {
        "paces": list(paces.paces),
        "paths": list(paces.names),
        "meets": paces.meets,
        "expected": {
            "additional": part(paces.total - paces.batch, paces.batch),
            "final": part(paces.final, paces.batch),
        },
        "flushes": len(history),
        "by_flush": [
            {
                "progress": round(entry.progress or 0.0, 4),
                "paths": list(entry.paths),
                "cpu_s": round(entry.cpu_seconds, 3),
                "wall_s": round(entry.wall_seconds, 3),
                "predicted_s": None if entry.predicted_cost is None else round(entry.predicted_cost / 1e9, 3),
                "estimated_s": round(entry.estimated_cost / 1e9, 3),
            }
            for entry in history
        ],
    }


def _taken(runs: Sequence[Taken]) -> Row:
    """CPU seconds of Spark's tasks, and of everything, driver and Python, too; the wall time: of all runs, and of the last one."""
    return {
        "cpu_s": round(sum(run.usage.cpu_seconds for run in runs), 3),
        "all_cpu_s": round(sum(map(_all, runs)), 3),
        "wall_s": round(sum(run.wall_s for run in runs), 3),
        "final_s": round(runs[-1].usage.cpu_seconds, 3),
        "final_all_s": round(_all(runs[-1]), 3),
        "final_wall_s": round(runs[-1].wall_s, 3),
    }


def _all(taken: Taken) -> float:
    return taken.jvm_s + taken.python_s


def _shared(case: Row, batch: float, whole: float) -> Row:
    """A case with its work in parts of the batch's: of Spark's tasks, which the bound is compared with, and of everything."""
    return case | {
        "additional": round(case["cpu_s"] - batch, 3),
        "additional_share": part(case["cpu_s"] - batch, batch),
        "additional_all_share": part(case["all_cpu_s"] - whole, whole),
        "final_share": part(case["final_s"], batch),
        "final_all_share": part(case["final_all_s"], whole),
        "met": case["final_s"] <= case["constraint"] * batch,
        "met_all": case["final_all_s"] <= case["constraint"] * whole,
    }
