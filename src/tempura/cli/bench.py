"""``tempura bench``: measure and check Tempura on generated data."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from pyspark.sql import SparkSession

from tempura.bench.arrivals import FIRST, SPLITS
from tempura.bench.estimates import Estimates, estimate_all
from tempura.bench.estimates import summarised as spread_of_estimates
from tempura.bench.exactness import SCENARIOS, Sweep, run_sweep, session_settings
from tempura.bench.operators import measure
from tempura.bench.planning import MEMORY, Planning, plan_all
from tempura.bench.planning import summarised as spread
from tempura.bench.record import Record, Row
from tempura.bench.scenario import parts
from tempura.bench.sketching import Sketching, sketch_all, totals
from tempura.bench.states import Packing, by_way, pack_all
from tempura.bench.suites import SUITES
from tempura.cli.shell import DONE, FAILED, Commands, Shell, example
from tempura.frontend.start import start_session
from tempura.search.saturate import Switches

out_option = click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The JSON file to write."
)


def split_names(text: str) -> tuple[str, ...]:
    """The names in ``im1,batch``."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def write_json(out: Path, content: object) -> None:
    """Write a benchmark's file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


_LATER = {name: f"tempura.cli.{name}:{name}" for name in ("effectiveness", "paces", "processes", "regions", "streams")}


@click.group(cls=Commands, later=_LATER)
def bench() -> None:
    """Measure and check on generated data."""


@bench.command(
    epilog=example("tempura bench exactness --suite tpch --scale 0.01 --pattern retract-both --out tpch.json")
)
@click.option("--suite", type=click.Choice(sorted(SUITES)), default="tpcds", show_default=True)
@click.option("--scale", default=0.01, show_default=True, help="Scale of the data.")
@click.option("--queries", default="all", show_default=True, help="all, or q1,q2 …")
@click.option(
    "--pattern",
    "patterns",
    type=click.Choice(list(FIRST)),
    multiple=True,
    default=["append-big"],
    show_default=True,
    help="How rows arrive; may be given several times.",
)
@click.option(
    "--split", type=click.Choice(SPLITS), default="hash", show_default=True, help="By order number or by date."
)
@click.option(
    "--duplicates", type=click.FloatRange(0, 1), default=0.02, show_default=True, help="Share of rows repeated."
)
@click.option("--times", type=click.IntRange(1, 9), default=2, show_default=True, help="How many arrivals.")
@click.option("--scenario", type=click.Choice(SCENARIOS), default="ivm", show_default=True)
@click.option(
    "--methods", default="im1", show_default=True, help="Incremental methods to choose from: all, or im1,batch …"
)
@click.option("--knock-out", type=int, metavar="SEED", help="Take rules away at random, other ones for each query.")
@click.option("--resume", is_flag=True, help="Continue the file of a run that was stopped.")
@out_option
@click.pass_context
def exactness(
    ctx: click.Context,
    suite: str,
    scale: float,
    queries: str,
    patterns: Sequence[str],
    split: str,
    duplicates: float,
    times: int,
    scenario: str,
    methods: str,
    knock_out: int | None,
    resume: bool,
    out: Path,
) -> None:
    """Compare every query with Spark, arrival by arrival.

    Exit code 1 if a result is wrong or a query fails.
    """
    shell = ctx.ensure_object(Shell)
    sweep = Sweep(suite, scale, tuple(patterns), split, duplicates, times, scenario, split_names(methods), knock_out)
    record = Record(out, sweep.meta(), resume)
    with shell.progress("starting Spark") as progress:
        spark = start_session("tempura-bench", config=session_settings())
        run_sweep(spark, sweep, queries, record, progress, shell.say)
    ctx.exit(FAILED if print_summary(shell, record.summary) else DONE)


def print_summary(shell: Shell, found: Row) -> bool:
    """A table over patterns, and what is wrong, failed, recomputed, or different in DuckDB. Returns whether anything is wrong or
    failed."""
    counts = ("queries", "runs", "equal", "nontrivial", "maintained_whole", "cpu_s", "wall_s", "overhead_s")
    head = ("pattern", "scenario", *(name.replace("_", " ") for name in counts), "wrong", "failed")
    lines = [
        (row["pattern"], row["scenario"], *(row[name] for name in counts), len(row["wrong"]), len(row["failed"]))
        for row in found["patterns"]
    ]
    shell.say("")
    shell.table(head, lines)
    for row in found["patterns"]:
        shell.say(*(f"{row['pattern']}: wrong: {query}" for query in row["wrong"]))
        shell.say(*(f"{row['pattern']}: failed: {query} {code}" for query, code in row["failed"].items()))
        shell.say(*(f"{row['pattern']}: recomputed: {q} {' '.join(why)}" for q, why in row["fallbacks"].items()))
    duckdb = found["duckdb"]
    shell.say(f"as in DuckDB: {duckdb['equal']} of {duckdb['queries']}")
    shell.say(*(f"not as in DuckDB: {query}: {cause}" for query, cause in duckdb["different"].items()))
    return bool(found["wrong"] or found["failed"])


@bench.command(epilog=example("tempura bench operators --scale 1 --out operators.json"))
@click.option(
    "--scale",
    default=0.1,
    show_default=True,
    help="Scale of the data: 1 is about 2.9 million sales and 6 million order lines.",
)
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Warm runs; the median counts.")
@out_option
@click.pass_obj
def operators(shell: Shell, scale: float, repeats: int, out: Path) -> None:
    """Measure what Spark's operators cost per row."""
    with shell.progress("starting Spark") as progress:
        found = measure(start_session("tempura-bench"), scale, repeats, progress)
    write_json(out, found)
    rows = found["operators"]
    shell.table([name.replace("_", " ") for name in rows[0]], [tuple(row.values()) for row in rows])


def _recorded(
    shell: Shell,
    out: Path,
    meta: Row,
    rows_of: Callable[[SparkSession], Iterator[Row]],
    summarise: Callable[[Sequence[Row]], Row],
) -> list[Row]:
    """The rows of a benchmark, one per query, in a file that is written after each."""
    rows: list[Row] = []
    with shell.progress("starting Spark") as progress:
        spark = start_session("tempura-bench", config=session_settings())
        progress("reading statistics")
        for row in rows_of(spark):
            rows.append(row)
            write_json(out, {"meta": meta, "queries": rows, "summary": summarise(rows)})
            progress(f"{row['query']} is done")
    return rows


@bench.command(epilog=example("tempura bench planning --suite tpch --scale 0.01 --out planning.json"))
@click.option("--suite", type=click.Choice(sorted(SUITES)), default="tpcds", show_default=True)
@click.option("--scale", default=0.01, show_default=True, help="Scale of the data that statistics come from.")
@click.option("--queries", default="all", show_default=True, help="all, or q1,q2 …")
@click.option(
    "--times",
    type=click.IntRange(1, 9),
    help="How many times to plan for.  [default: as many as --shares, or 3]",
)
@click.option("--scenario", type=click.Choice(SCENARIOS), default="pdw", show_default=True)
@click.option("--shares", metavar="1,1/100,…", help="What comes by each time, in proportion.  [default: equal parts]")
@click.option("--prices", metavar="0.25,0.3,…", help="Of work at each time.  [default: those of the scenario]")
@click.option(
    "--deleted", default=0.0, show_default=True, help="Share of the first rows that leaves at each later time."
)
@click.option("--methods", default="all", show_default=True, help="Incremental methods: all, or im1,batch …")
@click.option("--rising", is_flag=True, help="Of pdw: early work is dearer each time, so none may wait.")
@click.option("--without", default="", metavar="RULE,…", help="Rules that are not to be used.")
@click.option(
    "--off", type=click.Choice(list(Switches.__slots__)), multiple=True, help="Parts of the engine turned off."
)
@out_option
@click.pass_context
def planning(
    ctx: click.Context,
    suite: str,
    scale: float,
    queries: str,
    times: int | None,
    scenario: str,
    shares: str | None,
    prices: str | None,
    deleted: float,
    methods: str,
    rising: bool,
    without: str,
    off: tuple[str, ...],
    out: Path,
) -> None:
    """Measure how long queries take to plan, how much memory this process has meanwhile, and what plans cost by estimates. Nothing is
    executed.

    Exit code 1 if a query cannot be planned.
    """
    shell = ctx.ensure_object(Shell)
    comes = parts(shares) if shares else ()
    asked = Planning(
        suite,
        scale,
        times or len(comes) or 3,
        scenario,
        split_names(methods),
        split_names(without),
        off,
        rising,
        comes,
        tuple(map(float, parts(prices))) if prices else (),
        deleted,
    )
    rows = _recorded(shell, out, asked.meta(), lambda spark: plan_all(spark, asked, queries), spread)
    print_planning(shell, rows)
    ctx.exit(FAILED if any(row["error"] for row in rows) else DONE)


def print_planning(shell: Shell, rows: Sequence[Row]) -> None:
    """The queries that took longest, and the spread over all."""
    columns = [name for name in rows[0] if name not in ("error", "cost")]
    slowest = sorted((row for row in rows if not row["error"]), key=lambda row: -row["total_s"])[:10]
    shell.table([name.replace("_", " ") for name in columns], [tuple(row[name] for name in columns) for row in slowest])
    shell.say(*(f"{row['query']}: {row['error']}" for row in rows if row["error"]))
    summary = spread(rows)
    told = {"total": summary, "beyond Catalyst": summary["beyond_catalyst"]}
    told |= {name.replace("_", " "): summary[name] for name in MEMORY if summary[name]["max"] is not None}
    for name, found in told.items():
        shell.say(f"{name}: " + ", ".join(f"{key} {found[key]}" for key in ("p50", "p80", "max")))


@bench.command(epilog=example("tempura bench estimates --suite tpch --scale 0.1 --out estimates.json"))
@click.option("--suite", type=click.Choice(sorted(SUITES)), default="tpcds", show_default=True)
@click.option("--scale", default=0.1, show_default=True, help="Scale of the data.")
@click.option("--queries", default="all", show_default=True, help="all, or q1,q2 …")
@out_option
@click.pass_context
def estimates(ctx: click.Context, suite: str, scale: float, queries: str, out: Path) -> None:
    """Compare the rows that are expected of operators with those that there are.

    Exit code 1 if a query fails.
    """
    shell = ctx.ensure_object(Shell)
    asked = Estimates(suite, scale)
    rows = _recorded(shell, out, asked.meta(), lambda spark: estimate_all(spark, asked, queries), spread_of_estimates)
    print_estimates(shell, rows)
    ctx.exit(FAILED if any(row["error"] for row in rows) else DONE)


@bench.command(epilog=example("tempura bench sketches --suite tpcds --scale 1 --out sketches.json"))
@click.option("--suite", type=click.Choice(sorted(SUITES)), default="tpcds", show_default=True)
@click.option("--scale", default=0.1, show_default=True, help="Scale of the data.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True, help="The median counts.")
@click.option("--distinct", is_flag=True, help="Count the true distinct values, too; takes long on large tables.")
@out_option
@click.pass_obj
def sketches(shell: Shell, suite: str, scale: float, repeats: int, distinct: bool, out: Path) -> None:
    """Measure what sketches of columns take, against reading them, and how far distinct values are off."""
    asked, rows = Sketching(suite, scale, repeats, distinct), list[Row]()
    meta = asked.meta()
    with shell.progress("starting Spark") as progress:
        for row in sketch_all(start_session("tempura-bench", config=session_settings()), asked):
            rows.append(row)
            write_json(out, {"meta": meta, "tables": rows, "summary": totals(rows)})
            progress(f"{row['table']} is done")
    names = ("table", "rows", "columns", "sketch_s", "read_s", "share", "stored_bytes")
    shell.table([name.replace("_", " ") for name in names], [tuple(row[name] for name in names) for row in rows])
    shell.say(*(f"{name}: {found}" for name, found in totals(rows).items()))


def print_estimates(shell: Shell, rows: Sequence[Row]) -> None:
    """The operators that are farthest off, and the spread over all."""
    found = [{"query": row["query"], **operator} for row in rows for operator in row["operators"]]
    worst = sorted(found, key=lambda row: -float(row["q_error"]))[:15]
    names = ("query", "kind", "estimated", "rows", "q_error")
    shell.table([name.replace("_", " ") for name in names], [tuple(row[name] for name in names) for row in worst])
    shell.say(*(f"{row['query']}: {row['error']}" for row in rows if row["error"]))
    spread = spread_of_estimates(rows)
    shell.table(["kind", "operators", "median", "p95", "max"], [(kind, *own.values()) for kind, own in spread.items()])


@bench.command(epilog=example("tempura bench states --scale 1 --out states.json"))
@click.option("--scale", default=0.1, show_default=True, help="Scale of the TPC-DS data.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Warm runs; the median counts.")
@out_option
@click.pass_obj
def states(shell: Shell, scale: float, repeats: int, out: Path) -> None:
    """Measure what it takes to write states and read them, by how they are packed."""
    asked, rows = Packing(scale, repeats), list[Row]()
    meta = asked.meta()
    with shell.progress("starting Spark") as progress:
        for row in pack_all(start_session("tempura-bench"), asked, progress):
            rows.append(row)
            write_json(out, {"meta": meta, "states": rows, "summary": by_way(rows)})
    shell.table([name.replace("_", " ") for name in rows[0]], [tuple(row.values()) for row in rows])
    both = by_way(rows)
    shell.say(
        *(f"{way}: written and read once {found['cpu_s']} CPU s, {found['mb']} MB" for way, found in both.items())
    )
