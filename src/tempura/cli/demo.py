"""``tempura demo``: a day on generated data, from a plan over three runs to what they cost against recomputing by plain Spark."""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import click
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tempura as tp
from tempura.bench.account import Taken
from tempura.bench.effectiveness import recomputed
from tempura.bench.lake import SetClock
from tempura.cli.options import method_names
from tempura.cli.queries import Rows, print_plan
from tempura.cli.shell import FAILED, Shell, example, percent
from tempura.data.tpcds import Dataset, cut_dates, generate, split_by_date
from tempura.errors import TempuraError
from tempura.frontend.session import clone
from tempura.warehouse.query import Query
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.warehouse import Warehouse

PRICES = {"14:00": 0.25, "19:00": 0.3, "24:00": 1.0}
"""When work may run, and what it costs there, relative to the deadline: the last."""

SHARES = (14 / 24, 19 / 24)
"""The share of the order lines that has come by each run but the last: as if the seven years of the data were one day."""

FACT, TABLES = "lineitem", ("lineitem", "nation", "part", "supplier")
"""The table that arrives by date, and all. The others are there from the start."""

WARM_UP_SCALE = 0.1
"""The largest scale of the data that Spark is warmed up with."""

MARKER = ".tempura-demo.json"
"""What tells a folder that an earlier demo has left, which may be replaced."""


@dataclass(frozen=True, slots=True)
class Example:
    """A query of the demo, what it is about, and why work ahead pays for it or does not."""

    name: str
    about: str
    because: str
    sql: str


EXAMPLES = (
    Example(
        "margin",
        "what each brand earns in each nation",
        "Sums add up: each run reads the rows that are new, and adds them to what was kept.",
        """\
SELECT n_name AS nation, p_brand AS brand, COUNT(*) AS lines,
       SUM(l_extendedprice * (1 - l_discount)) AS revenue,
       SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
       AVG(l_quantity) AS quantity
FROM lineitem
JOIN part ON l_partkey = p_partkey
JOIN supplier ON l_suppkey = s_suppkey
JOIN nation ON s_nationkey = n_nationkey
GROUP BY n_name, p_brand
ORDER BY revenue DESC
""",
    ),
    Example(
        "median",
        "the median size of an order line by the way it is shipped",
        "A median needs all values: what would be kept is as good as the rows, so they are read once, when the result is due.",
        """\
SELECT l_shipmode AS mode, COUNT(*) AS lines, MEDIAN(l_quantity) AS median_quantity
FROM lineitem
GROUP BY l_shipmode
ORDER BY mode
""",
    ),
)


@dataclass(frozen=True, slots=True)
class Lake:
    """The folders of the tables, and the files of order lines that are still to arrive, by run."""

    folder: Path
    waiting: tuple[Path, ...]

    def arrive(self, run: int) -> None:
        """Let the file of a run appear in its table's folder, at once."""
        target = self.folder / FACT / self.waiting[run].name
        part = target.with_name(f".{target.name}")
        shutil.copyfile(self.waiting[run], part)
        part.rename(target)


@dataclass
class Story:
    """The warehouse of a demo, its queries and its clock, which shows the time of the story."""

    spark: SparkSession
    lake: Lake
    folder: Path
    clock: SetClock = field(default_factory=lambda: SetClock(moments(datetime.now(UTC).date())))

    def declare(self) -> list[Query]:
        """Declare the tables and queries in a warehouse, in which the first rows have arrived."""
        warehouse: Warehouse = tp.open(self.folder, spark=self.spark, clock=self.clock)
        for folder in sorted(self.lake.folder.iterdir()):
            grows = folder.name == FACT
            warehouse.add_table(folder.name, path=folder, static=not grows, append_only=grows)
        schedule = tp.Schedule.progressive(PRICES)
        return [warehouse.add_query(query.name, sql=query.sql, schedule=schedule) for query in EXAMPLES]

    def arrive(self, run: int) -> None:
        """Let the time of a run come, and its rows."""
        self.clock.at = run
        self.lake.arrive(run)


def moments(today: date) -> tuple[datetime, ...]:
    """The times of the story: of the day before, so that the next run that falls due is one of today."""
    midnight = datetime.combine(today, datetime.min.time(), UTC) - timedelta(days=1)
    return tuple(midnight + timedelta(hours=int(at[:2])) for at in PRICES)


@click.command(epilog=example("tempura demo --scale 0.1 --folder demo"))
@click.option("--scale", default=1.0, show_default=True, help="Scale of the data: 1 is about 6 million order lines.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tempura-demo"),
    show_default=True,
    help="Where data and warehouse are made, and stay. What an earlier demo left there is replaced.",
)
@click.option(
    "--methods",
    default="all",
    show_default=True,
    help="Of which incremental methods the planner may choose; im1 alone leaves it no way but to work ahead.",
)
@click.pass_context
def demo(ctx: click.Context, scale: float, folder: Path, methods: str) -> None:
    """See it work on generated data.

    Two queries over data derived from TPC-H that arrives in three runs: plan, run, verify, compare with recomputing by plain Spark.
    """
    shell = ctx.ensure_object(Shell)
    started = time.perf_counter()
    with shell.stages() as stage:
        workspace(folder)
        equal = tell(shell, folder, scale, method_names(methods) or "all", stage)
    shell.say(
        "", f"{time.perf_counter() - started:,.0f} s in all. The warehouse stays in {folder}/warehouse. Go on with:"
    )
    shell.say(
        *(
            f"  tempura -C {folder}/warehouse {command}"
            for command in ("status", "history margin", "explain margin", "savings --measure --all")
        )
    )
    ctx.exit(0 if equal else FAILED)


def workspace(folder: Path) -> None:
    """Make the folder to work in, anew where an earlier demo has left it. Raises TempuraError FOLDER_NOT_EMPTY for any other that holds
    something."""
    if (folder / MARKER).is_file():
        shutil.rmtree(folder)
    if folder.exists() and any(folder.iterdir()):
        raise TempuraError("FOLDER_NOT_EMPTY", f"{folder} holds other files.", "Name another folder with --folder.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).write_text(json.dumps({"left_by": "tempura demo"}))


Stage = Callable[[str], None]


def tell(shell: Shell, folder: Path, scale: float, methods: str | list[str], stage: Stage) -> bool:
    """The story, step by step. Returns whether every result was equal to its recomputation."""
    stage(f"making TPC-H data at scale {scale:g}")
    lake = fill(generate(scale, suite="tpch"), folder)
    rehearsal = fill(generate(min(scale, WARM_UP_SCALE), suite="tpch"), folder / "rehearsal")
    stage("starting Spark")
    shell.runs_steps = True
    spark = shell.start_session("tempura-demo")
    rehearse(Story(spark, rehearsal, folder / "rehearsal" / "warehouse"), methods, stage)
    story = Story(spark, lake, folder / "warehouse")
    story.arrive(0)
    queries = story.declare()
    introduce(shell, queries, methods, stage)
    reports = run_all(shell, story, queries, methods, stage)
    equal = [check(shell, query, stage) for query in queries]
    for about, kept in zip(EXAMPLES, reports, strict=True):
        compare(shell, about, kept, recompute(spark, lake, about, stage))
    return all(equal)


def rehearse(story: Story, methods: str | list[str], stage: Stage) -> None:
    """Do all that is measured later, then remove it. Code that runs for the first time is several times slower, and whatever is
    measured last would seem the fastest."""
    story.lake.arrive(0)
    queries = story.declare()
    for run, at in enumerate(PRICES):
        if run:
            story.arrive(run)
        for query in queries:
            stage(f"warming up on less data, not measured: {query.name}, {at}")
            query.run(methods=methods)
    for about in EXAMPLES:
        recompute(story.spark, story.lake, about, stage)
    shutil.rmtree(story.folder.parent)


def run_all(
    shell: Shell, story: Story, queries: Sequence[Query], methods: str | list[str], stage: Stage
) -> list[list[RunReport]]:
    """Let the rows of each run arrive and run each query: per query one report per run."""
    reports: list[list[RunReport]] = [[] for _ in queries]
    for run, at in enumerate(PRICES):
        if run:
            story.arrive(run)
        count = pq.read_metadata(story.lake.waiting[run]).num_rows
        shell.say("", f"{at}, price {PRICES[at]:g}: {count:,} order lines have arrived")
        for query, kept in zip(queries, reports, strict=True):
            stage(f"{at}: running {query.name}")
            kept.append(query.run(methods=methods))
            shell.say(f"  {query.name:<8} {outcome(kept[-1])}")
    return reports


def fill(dataset: Dataset, folder: Path) -> Lake:
    """Lay out the tables: static ones whole, order lines none, their arrivals waiting beside."""
    lake = folder / "lake"
    for table in TABLES:
        (lake / table).mkdir(parents=True)
        if table != FACT:
            shutil.copyfile(dataset.file(table), lake / table / "all.parquet")
    return Lake(lake, split_by_date(dataset, FACT, cut_dates(dataset, SHARES), folder / "waiting"))


def introduce(shell: Shell, queries: Sequence[Query], methods: str | list[str], stage: Stage) -> None:
    """Each query, its plan, and why this plan."""
    for query, about in zip(queries, EXAMPLES, strict=True):
        stage(f"planning {query.name}")
        found = query.plan(methods)
        shell.say("", f"{query.name}: {about.about}", "", *(f"    {line}" for line in about.sql.splitlines()), "")
        print_plan(shell, found)


def outcome(report: RunReport) -> str:
    """What a run did, in words."""
    if not report.all_cpu_seconds and report.rows is None:
        return f"nothing: work for this query pays later ({report.run_wall_seconds:.1f} s to find out)"
    parts = [f"{report.method}: {report.run_cpu_seconds:.1f} CPU s, {report.run_wall_seconds:.1f} s"]
    parts += [f"{report.states} state{'s' if report.states > 1 else ''} kept"] if report.states else []
    parts += [] if report.rows is None else [f"result of {report.rows:,} rows", str(report.does)]
    return ", ".join(parts)


def check(shell: Shell, query: Query, stage: Stage) -> bool:
    """Verify a result against a recomputation by Spark, and print its first rows."""
    stage(f"verifying {query.name}")
    found = query.verify()
    first = Rows.of(query.result(), 3)
    shell.say("", f"{query.name}: verified, {found}" if found.equal else f"{query.name}: {found}")
    first.table(shell)
    return found.equal


def recompute(spark: SparkSession, lake: Lake, about: Example, stage: Stage) -> Taken:
    """What plain Spark takes for the whole of a query at the deadline, over the same files, to write the same result."""
    stage(f"recomputing {about.name} by plain Spark")
    session = clone(spark)
    for folder in lake.folder.iterdir():
        session.read.parquet(f"file:{folder.resolve()}").createOrReplaceTempView(folder.name)
    return recomputed(session, about.sql, lake.folder.parent)[0]


def compare(shell: Shell, about: Example, reports: Sequence[RunReport], spark: Taken) -> None:
    """A table of the runs against plain Spark at the deadline, and what it says."""
    rows: list[tuple[object, ...]] = [
        (at, report.weight, report.estimated_cost / 1e9, *measured(report), report.weight * report.run_cpu_seconds)
        for at, report in zip(PRICES, reports, strict=True)
    ]
    sums = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)]
    all_cpu = spark.jvm_s + spark.python_s
    tasks = spark.usage.cpu_seconds
    rows.append(("all runs", None, *sums))
    rows.append(("plain Spark, 24:00", 1.0, None, all_cpu, tasks, all_cpu - tasks, spark.wall_s, all_cpu))
    head = ("run", "price", "estimated CPU s", "CPU s", "of tasks", "of the driver", "wall s", "CPU s x price")
    shell.say("", about.name)
    shell.table(head, rows)
    shell.say(*verdict([r.run_cpu_seconds for r in reports], [r.weight for r in reports], all_cpu))
    waited = reports[-1].run_wall_seconds
    shell.say(f"Time at the deadline: {waited:.1f} s, {percent(waited, spark.wall_s)}.", about.because)


def measured(report: RunReport) -> tuple[float, float, float, float]:
    """Of a run: CPU seconds of all, of tasks and of the driver, Python included; wall seconds."""
    cpu = report.run_cpu_seconds
    return cpu, report.cpu_seconds, cpu - report.cpu_seconds, report.run_wall_seconds


def verdict(cpu: Sequence[float], weights: Sequence[float], spark: float) -> list[str]:
    """What the measured numbers say, for better or worse. The last run is the one at the deadline."""
    weighted = sum(c * w for c, w in zip(cpu, weights, strict=True))
    return [
        f"CPU at the deadline: {cpu[-1]:.1f} s, {percent(cpu[-1], spark)} than plain Spark ({spark:.1f}).",
        f"CPU in all, weighted by price: {weighted:.1f} s, {percent(weighted, spark)}.",
    ]
