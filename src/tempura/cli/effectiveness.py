"""``tempura bench effectiveness``: options, and what is printed."""

from collections.abc import Mapping
from pathlib import Path

import click

from tempura.bench.arrivals import SPLITS
from tempura.bench.effectiveness import run_effectiveness
from tempura.bench.exactness import SQL_OF_SUITES
from tempura.bench.figure import figure
from tempura.bench.ratios import ABOVE, CHOICES, FIXED, LARGE, QUICK, RATIOS, summarised
from tempura.bench.record import Record, Row
from tempura.bench.scenario import DAILY, DELETED, PATTERNS, PRICES, SHARES, Effectiveness, part, parts
from tempura.bench.suites import SUITES
from tempura.cli.bench import out_option, split_names
from tempura.cli.shell import DONE, FAILED, Shell, example
from tempura.frontend.start import start_session
from tempura.warehouse.times.phases import PLANNING


@click.command(
    epilog=example(
        "tempura bench effectiveness --suite tpch --scale 1 --scenario ivm --methods all,batch --out ivm.json"
    )
)
@click.option("--suite", type=click.Choice(sorted(SUITES)), default="tpcds", show_default=True)
@click.option("--scale", default=1.0, show_default=True, help="Scale of the data: 1 is about 1 GB of text.")
@click.option("--queries", default="all", show_default=True, help="all, or q1,q2 …")
@click.option(
    "--scenario",
    type=click.Choice(list(SHARES)),
    default="pdw",
    show_default=True,
    help="A day of three times, or of nine, refreshes of a view, or days after a first one.",
)
@click.option("--shares", help="What comes by each time of the day, 14/24,5/24,5/24; for ivm by a refresh, 0.01.")
@click.option("--daily", help="Of days: what each brings, of what the first one brought; 0.01.")
@click.option("--prices", help="What work costs at each time of the day, 0.25,0.3,1.")
@click.option("--pattern", type=click.Choice(list(PATTERNS)), default="append", show_default=True)
@click.option(
    "--deleted", type=click.FloatRange(0, 1), help=f"Under retract: share of rows that leave each time; {DELETED}."
)
@click.option("--turn", is_flag=True, help="Under retract: rows leave since one refresh before the measured ones only.")
@click.option(
    "--split",
    type=click.Choice(SPLITS),
    default="hash",
    show_default=True,
    help="By order number, tables apart or together, or by date.",
)
@click.option("--references", is_flag=True, help="Declare the keys and references of TPC-H; with --split together.")
@click.option(
    "--methods",
    default="all,im1,im2,batch",
    show_default=True,
    help="Sets of incremental methods, each of which is run; im1+batch is one set.",
)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Measurements; the median counts.")
@click.option("--warm-ups", type=click.IntRange(0), default=1, show_default=True, help="Runs before the measured ones.")
@click.option("--resume", is_flag=True, help="Continue the file of a run that was stopped.")
@click.option("--figure", "drawing", type=click.Path(dir_okay=False, path_type=Path), help="An SVG file to draw.")
@out_option
@click.pass_context
def effectiveness(
    ctx: click.Context,
    suite: str,
    scale: float,
    queries: str,
    scenario: str,
    shares: str | None,
    daily: str | None,
    prices: str | None,
    pattern: str,
    deleted: float | None,
    turn: bool,
    split: str,
    references: bool,
    methods: str,
    repeat: int,
    warm_ups: int,
    resume: bool,
    drawing: Path | None,
    out: Path,
) -> None:
    """Measure what queries take, against recomputing by Spark.

    Exit code 1 if a result is wrong or a query fails.
    """
    shell = ctx.ensure_object(Shell)
    asked = Effectiveness(
        suite=suite,
        scale=scale,
        scenario=scenario,
        shares=parts(shares) if shares else SHARES[scenario],
        prices=tuple(map(float, parts(prices))) if prices else PRICES[scenario],
        pattern=pattern,
        deleted=(DELETED if pattern == "retract" else 0.0) if deleted is None else deleted,
        split=split,
        methods=split_names(methods),
        repeat=repeat,
        warm_ups=warm_ups,
        references=references,
        turn=turn,
        daily=part(daily) if daily else DAILY,
    )
    record = Record(out, asked.meta(), resume, summarised)
    with shell.progress("starting Spark") as progress:
        spark = start_session("tempura-bench", config=SQL_OF_SUITES)
        run_effectiveness(spark, asked, queries, record, progress, shell.say)
    found = record.summary
    if drawing:
        draw(drawing, asked, found)
    print_ratios(shell, found)
    ctx.exit(FAILED if found["wrong"] or found["failed"] else DONE)


def draw(file: Path, asked: Effectiveness, found: Row) -> None:
    """Write the figure of ratios: of task CPU under each set of methods; under the only one of all CPU and of time, too."""
    rows, of = found["ratios"], f"{asked.suite} at scale {asked.scale:g}, {asked.scenario}, {asked.pattern}"
    if len(asked.methods) > 1:
        title = f"{of}: task CPU, recomputing = 1"
        series = {m: {r["query"]: r["cpu_ratio"] for r in rows if r["methods"] == m} for m in asked.methods}
    else:
        title = f"{of}: recomputing = 1"
        series = {measure: {r["query"]: r[ratio] for r in rows} for measure, ratio in _MEASURES.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(figure(title, series), encoding="utf-8")


_MEASURES = {"task CPU": "cpu_ratio", "all CPU": "all_cpu_ratio", "time": "wall_ratio"}


def print_ratios(shell: Shell, found: Row) -> None:
    """Each query's ratio of task CPU under each set of methods, the ratios of all queries, and what is wrong or failed."""
    sets = list(found["methods"])
    table: dict[str, Row] = {}
    for row in found["ratios"]:
        table.setdefault(row["query"], {"recompute s": row["recompute_s"]})[row["methods"]] = row["cpu_ratio"]
    shell.say("", "task CPU ÷ that of plain Spark:")
    columns = ("recompute s", *sets)
    shell.table(("query", *columns), [(query, *map(row.get, columns)) for query, row in table.items()])
    means = {methods: found["methods"][methods] for methods in sets}
    print_means(shell, "all queries", means, found)
    shell.say(*(_planned(methods, own[PLANNING]) for methods, own in means.items() if PLANNING in own))
    large = {methods: figures["large"] for methods, figures in means.items()}
    print_means(shell, f"recomputed in {LARGE:g} CPU s or more", large, found["large"])
    shell.say("", *map(_told, found["wrong_choices"]))
    shell.say(*(f"wrong: {what}" for what in found["wrong"]))
    shell.say(*(f"failed: {what}: {code}" for what, code in found["failed"].items()))


def print_means(shell: Shell, heading: str, means: Mapping[str, Row], choices: Row) -> None:
    """Geometric means per set of methods, and how good choices and estimates are."""
    shell.say("", f"{heading}: geometric mean (above {ABOVE:g})")
    lines = [(methods, own["n"], *(_mean(own[name]) for name in RATIOS)) for methods, own in means.items()]
    shell.table(("methods", "queries", *(name.replace("_", " ") for name in RATIOS)), lines)
    shell.say(*(_fixed(methods, own["fixed"]) for methods, own in means.items() if "fixed" in own))
    known = {name: choices[name] for name in CHOICES if choices[name] is not None}
    shell.say(*(f"{name.replace('_', ' ')}: {value}" for name, value in known.items()))


def _fixed(methods: str, fixed: Row) -> str:
    wall, cpu = (f"{fixed[name]['mean']:.2f} (median {fixed[name]['median']:.2f})" for name in FIXED)
    return f"fixed cost, {methods}: {wall} s beside jobs, {cpu} CPU s beside tasks"


def _planned(methods: str, planning: Row) -> str:
    share = f"{planning[f'under_{QUICK:g}_s']:.0%} under {QUICK:g} s"
    return f"planning, {methods}: median {planning['median']:.2f} s, {share}, of {planning['runs']} runs"


def _told(wrong: Row) -> str:
    told = "the same steps, measured twice" if wrong["same"] else "other steps"
    return f"not the best choice: {wrong['query']}, {wrong['times']:.2f} times {wrong['best']} ({told})"


def _mean(spread: Row) -> str:
    return "" if spread["geomean"] is None else f"{spread['geomean']:.2f} ({spread['above_1_05']})"
