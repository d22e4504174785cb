"""``tempura demo``: the whole story on generated data, from a plan over three runs to what they cost against recomputing."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tempura as tp
from tempura.cli.queries import Rows, method_names, print_plan
from tempura.cli.shell import FAILED, Shell, example
from tempura.data.tpcds import Dataset, cut_dates, generate, split_by_date
from tempura.errors import TempuraError
from tempura.warehouse.query import Query
from tempura.warehouse.report import RunReport
from tempura.warehouse.warehouse import Warehouse

PRICES = {"14:00": 0.25, "19:00": 0.3, "24:00": 1.0}
"""When work may run, and what it costs there, relative to the deadline: the last."""

DEADLINE = list(PRICES)[-1]

WARM_UP_SCALE = 0.1
"""The largest scale of the data that Spark is warmed up with."""

SHARES = (14 / 24, 19 / 24)
"""The share of the sales that has come by each run but the last: as if the years of the data were one day."""

FACTS = ("store_sales", "store_returns")
"""The tables that arrive by date. All others are there from the start."""


@dataclass(frozen=True, slots=True)
class Example:
    """A query of the demo, what it is about, and the tables that it reads."""

    name: str
    about: str
    tables: tuple[str, ...]
    sql: str


EXAMPLES = (
    Example(
        "revenue",
        "consolidated revenue per category: what was paid, less what returns cost (the running example of the Tempura papers)",
        ("store_sales", "store_returns", "item"),
        """\
SELECT i_category AS category,
       COUNT(*) AS sold,
       COUNT(sr_ticket_number) AS returned,
       SUM(IF(sr_net_loss IS NULL, ss_net_paid, -sr_net_loss)) AS revenue
FROM store_sales
LEFT JOIN store_returns ON ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk
JOIN item ON ss_item_sk = i_item_sk
GROUP BY i_category
ORDER BY revenue DESC
""",
    ),
    Example(
        "returns",
        "why customers bring things back: eight tables, two outer joins, groups that come and go with HAVING",
        (*FACTS, "date_dim", "item", "store", "customer", "customer_address", "reason"),
        """\
SELECT d_year AS year, i_category AS category, r_reason_desc AS reason,
       COUNT(*) AS sales, SUM(ss_net_paid) AS paid, SUM(sr_net_loss) AS lost, AVG(ss_quantity) AS quantity
FROM store_sales
JOIN date_dim ON ss_sold_date_sk = d_date_sk
JOIN item ON ss_item_sk = i_item_sk
JOIN store ON ss_store_sk = s_store_sk
JOIN customer ON ss_customer_sk = c_customer_sk
JOIN customer_address ON c_current_addr_sk = ca_address_sk
LEFT JOIN store_returns ON ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk
LEFT JOIN reason ON sr_reason_sk = r_reason_sk
WHERE ca_country = 'United States'
GROUP BY d_year, i_category, r_reason_desc
HAVING COUNT(*) >= 20
ORDER BY lost DESC NULLS LAST, year, category, reason
""",
    ),
)


@dataclass(frozen=True, slots=True)
class Lake:
    """The folders of the tables, and the files of each fact table that are still to arrive, by run."""

    folder: Path
    waiting: dict[str, tuple[Path, ...]]

    def arrive(self, run: int) -> None:
        """Let the files of a run appear in the tables' folders, each at once."""
        for table, files in self.waiting.items():
            target = self.folder / table / files[run].name
            part = target.with_name(f".{target.name}")
            shutil.copyfile(files[run], part)
            part.rename(target)


@click.command(epilog=example("tempura demo --scale 0.1 --keep demo/"))
@click.option("--scale", default=0.1, show_default=True, help="Scale of the data: 1 is about 2.9 million sales.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the warehouse in this new folder.")
@click.option(
    "--methods",
    default="im1",
    show_default=True,
    help="Incremental methods: im1, so that there is incremental work to watch; all leaves the choice to the planner.",
)
@click.pass_context
def demo(ctx: click.Context, scale: float, keep: Path | None, methods: str) -> None:
    """See it work on generated data.

    Two queries over TPC-DS-derived data that arrives in three runs: plan, run, verify, compare with recomputing.
    """
    shell = ctx.ensure_object(Shell)
    started = time.perf_counter()
    with workspace(keep) as folder:
        equal = tell(shell, folder, scale, method_names(methods) or "all")
    shell.say(
        "", f"{time.perf_counter() - started:,.0f} s in all." + (f" The warehouse is {keep}/warehouse." if keep else "")
    )
    ctx.exit(0 if equal else FAILED)


@contextmanager
def workspace(keep: Path | None) -> Iterator[Path]:
    """The folder to work in: the new one given, or one that is removed in the end."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="tempura-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and any(keep.iterdir()):
        raise TempuraError("FOLDER_NOT_EMPTY", f"{keep} holds files already.", "Name a new folder with --keep.")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


def tell(shell: Shell, folder: Path, scale: float, methods: str | list[str]) -> bool:
    """The story, step by step. Returns whether every result was equal to its recomputation."""
    with shell.progress(f"making TPC-DS data at scale {scale:g}"):
        lake = fill(generate(scale), folder)
        rehearsal = fill(generate(min(scale, WARM_UP_SCALE)), folder / "rehearsal")
    with shell.progress("starting Spark"):
        shell.runs_steps = True
        spark = shell.start_session("tempura-demo")
    with shell.progress("warming Spark up: everything once, not measured") as progress:
        rehearse(spark, folder / "rehearsal", rehearsal, methods, progress)
    lake.arrive(0)
    queries = declare(tp.open(folder / "warehouse", spark=spark), lake)
    introduce(shell, queries, methods)
    reports = run_all(shell, queries, lake, methods)
    equal = [check(shell, query) for query in queries]
    recomputed = recompute(shell, declare(tp.open(folder / "recomputing", spark=spark), lake))
    for query, kept, batch in zip(queries, reports, recomputed, strict=True):
        compare(shell, query, kept, batch)
    return all(equal)


def rehearse(
    spark: SparkSession, folder: Path, lake: Lake, methods: str | list[str], progress: Callable[[str], None]
) -> None:
    """Do all that is measured later, then remove it. Code that runs for the first time is several times slower, and whatever is
    measured last would seem the fastest."""
    for run, at in enumerate(PRICES):
        lake.arrive(run)
        for query in declare(tp.open(folder / "warehouse", spark=spark), lake):
            progress(f"warming Spark up: {query.name}, {at}")
            query.run(at=at, methods=methods, force=True)
    for query in declare(tp.open(folder / "recomputing", spark=spark), lake):
        progress(f"warming Spark up: recomputing {query.name}")
        query.run(at=DEADLINE, methods="batch", force=True)
    shutil.rmtree(folder)


def run_all(shell: Shell, queries: Sequence[Query], lake: Lake, methods: str | list[str]) -> list[list[RunReport]]:
    """Let the rows of each run arrive and run each query: per query one report per run."""
    reports: list[list[RunReport]] = [[] for _ in queries]
    for run, at in enumerate(PRICES):
        if run:
            lake.arrive(run)
        shell.say("", f"{at}, price {PRICES[at]:g}: {arrived(lake, run)} have arrived")
        for query, kept in zip(queries, reports, strict=True):
            kept.append(step(shell, query, at, methods))
    return reports


def fill(dataset: Dataset, folder: Path) -> Lake:
    """Lay out the tables: static ones whole, fact tables empty, their arrivals waiting beside."""
    lake = folder / "lake"
    for table in sorted({table for query in EXAMPLES for table in query.tables}):
        (lake / table).mkdir(parents=True)
        if table not in FACTS:
            shutil.copyfile(dataset.file(table), lake / table / "all.parquet")
    cuts = cut_dates(dataset, SHARES)
    return Lake(lake, {table: split_by_date(dataset, table, cuts, folder / "waiting" / table) for table in FACTS})


def declare(warehouse: Warehouse, lake: Lake) -> list[Query]:
    """Declare the tables and queries of the demo."""
    for folder in sorted(lake.folder.iterdir()):
        warehouse.add_table(folder.name, path=folder, static=folder.name not in FACTS, append_only=folder.name in FACTS)
    schedule = tp.Schedule.progressive(PRICES)
    return [warehouse.add_query(query.name, sql=query.sql, schedule=schedule) for query in EXAMPLES]


def introduce(shell: Shell, queries: Sequence[Query], methods: str | list[str]) -> None:
    """Each query, its plan, and why this plan."""
    for query, about in zip(queries, EXAMPLES, strict=True):
        shell.say("", f"{query.name}: {about.about}", "", *(f"    {line}" for line in about.sql.splitlines()), "")
        with shell.progress(f"planning {query.name}"):
            found, free = query.plan(methods), query.plan("all")
        print_plan(shell, found)
        if methods != "all":
            shell.say(f"Left to choose, the planner would take {free.method}, at {free.cost / 1e9:,.2f} s.")


def arrived(lake: Lake, run: int) -> str:
    """What comes in for a run, in words."""
    counts = {table: pq.read_metadata(files[run]).num_rows for table, files in lake.waiting.items()}
    return " and ".join(f"{count:,} rows of {table}" for table, count in counts.items())


def step(shell: Shell, query: Query, at: str, methods: str | list[str]) -> RunReport:
    """Run a query's step and say what it did."""
    with shell.progress(f"{at}: running {query.name}") as progress:
        # The years of the data are one day, which does not wait for the clock.
        report = query.run(
            at=at, methods=methods, force=True, progress=lambda text: progress(f"{at}: {query.name}: {text}")
        )
    shell.say(f"  {query.name:<8} {outcome(report)}")
    return report


def outcome(report: RunReport) -> str:
    """What a run did, in words."""
    if not report.all_cpu_seconds and report.rows is None:
        return "nothing: work for this query pays later"
    parts = [f"{report.method}: {report.all_cpu_seconds:.2f} CPU s, {report.wall_seconds:.1f} s"]
    parts += [f"{report.states} state{'s' if report.states > 1 else ''} saved"] if report.states else []
    parts += [] if report.rows is None else [f"result of {report.rows:,} rows"]
    return ", ".join(parts)


def check(shell: Shell, query: Query) -> bool:
    """Verify a result against a recomputation by Spark, and print its first rows."""
    with shell.progress(f"verifying {query.name}"):
        found = query.verify()
        first = Rows.of(query.result(), 5)
    shell.say("", f"{query.name}: verified, {found}" if found.equal else f"{query.name}: {found}")
    first.table(shell)
    return found.equal


def recompute(shell: Shell, queries: Sequence[Query]) -> list[RunReport]:
    """Run the batch plan at the deadline, over the same files, in a warehouse of its own."""
    reports = []
    for query in queries:
        with shell.progress(f"recomputing {query.name} at the deadline"):
            reports.append(query.run(at=DEADLINE, methods="batch", force=True))
    return reports


def compare(shell: Shell, query: Query, reports: Sequence[RunReport], batch: RunReport) -> None:
    """A table of the runs against recomputing at the deadline, and what it says."""
    runs = [numbers(report) for report in reports]
    rows: list[tuple[object, ...]] = [
        (at, report.weight, *row) for at, report, row in zip(PRICES, reports, runs, strict=True)
    ]
    rows.append(("all runs", None, *map(sum, zip(*runs, strict=True))))
    rows.append(("recomputing at the deadline", batch.weight, *numbers(batch)))
    head = ("run", "price", "estimated CPU s", "CPU s", "wall s", "estimated x price", "CPU s x price")
    shell.say("", query.name)
    shell.table(head, rows)
    shell.say(*verdict([r.all_cpu_seconds for r in reports], [r.weight for r in reports], batch.all_cpu_seconds))


def numbers(report: RunReport) -> tuple[float, float, float, float, float]:
    """Of a run: estimated and actual CPU seconds of tasks and driver, wall seconds, then the first two times the price."""
    estimated, actual = report.estimated_cost / 1e9, report.all_cpu_seconds
    return estimated, actual, report.wall_seconds, report.weight * estimated, report.weight * actual


def verdict(cpu: Sequence[float], weights: Sequence[float], batch: float) -> list[str]:
    """What the measured numbers say, for better or worse. The last run is the one at the deadline."""
    if not any(cpu[:-1]):
        return ["Nothing was done early: working ahead costs more here than it saves, so the plan recomputes."]
    weighted = sum(c * w for c, w in zip(cpu, weights, strict=True))
    lines = [
        f"At the deadline: {cpu[-1]:.2f} CPU s, {percent(cpu[-1], batch)} than recomputing ({batch:.2f}).",
        f"In all runs together: {sum(cpu):.2f} CPU s, {percent(sum(cpu), batch)}.",
        f"Weighted by price: {weighted:.2f}, {percent(weighted, batch)}.",
    ]
    small = "Each was measured once; times below a second vary by half from run to run. A larger --scale tells more."
    return [*lines, small] if batch < 1 else lines


def percent(value: float, base: float) -> str:
    """How much less or more than the base."""
    if base == 0:
        return "not comparable with nothing"
    change = round(100 * (value - base) / base)
    return f"{abs(change)} % {'less' if change <= 0 else 'more'}"
