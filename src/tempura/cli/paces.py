"""``tempura bench paces``."""

from collections.abc import Sequence
from pathlib import Path

import click

from tempura.bench.exactness import SQL_OF_SUITES, session_settings
from tempura.bench.paces import CHOICES, STATISTICS, Paces, Row, label, measure_paces, summarised
from tempura.bench.paces_cpu import measure_cpu
from tempura.bench.paces_spread import pictured, require_one_varies, settings, spread
from tempura.cli.bench import out_option, split_names, write_json
from tempura.cli.shell import DONE, FAILED, Shell, example
from tempura.errors import TempuraError
from tempura.frontend.start import start_session
from tempura.pace.arrivals import RATES
from tempura.pace.goal import MOST_PACE

SCALES = {"tuples": 0.01, "cpu": 1.0}
"""The scale, unless given: rows are counted one by one in Python, and of small tables Spark's flushes are all fixed costs."""

PACES = {"tuples": MOST_PACE, "cpu": 20}
"""The maximal pace, unless given."""


@click.command(
    epilog=example(
        "tempura bench paces --scale 0.01 --constraints 0.2,0.05 --out paces.json",
        "tempura bench paces --work cpu --queries q13,q17 --constraints 0.2 --strategies inqp,uniform --out paces.json",
    )
)
@click.option("--scale", type=float, help="Scale of the data (TPC-H).  [default: 0.01; 1 for cpu]")
@click.option("--queries", default="all", show_default=True, help="all, or q1,q_outer …")
@click.option(
    "--constraints", default="0.5,0.2,0.1,0.05,0.02", show_default=True, help="Bounds on the final work ÷ a batch's."
)
@click.option("--strategies", default="inqp,uniform,leaf,hand", show_default=True, help=f"Of {', '.join(CHOICES)}.")
@click.option(
    "--work",
    type=click.Choice(list(SCALES)),
    default="tuples",
    show_default=True,
    help="What is counted: tuples that operators read, or CPU seconds of Spark's tasks in a warehouse.",
)
@click.option("--max-pace", type=int, help="The greatest pace, and the number of arrivals.  [default: 100; 20 for cpu]")
@click.option("--rate", type=click.Choice(RATES), default="steady", show_default=True, help="How rows arrive.")
@click.option("--spike", default="5", show_default=True, help="How many times the steady rate a burst has, 1,2,5 …")
@click.option("--bias", default="1", show_default=True, help="By which factor statistics may be off, 0.2,5 …")
@click.option("--draws", default=1, show_default=True, help="How often these factors, or a sample, are drawn.")
@click.option(
    "--statistics",
    type=click.Choice(STATISTICS),
    default="measured",
    show_default=True,
    help="What paces are planned from.",
)
@click.option(
    "--figure", "drawing", type=click.Path(dir_okay=False, path_type=Path), help="An SVG file; by bias or spike."
)
@out_option
@click.pass_context
def paces(
    ctx: click.Context,
    scale: float | None,
    queries: str,
    constraints: str,
    strategies: str,
    work: str,
    max_pace: int | None,
    rate: str,
    spike: str,
    bias: str,
    draws: int,
    statistics: str,
    drawing: Path | None,
    out: Path,
) -> None:
    """Compare ways to choose how eagerly each part of a query runs.

    Exit code 1 if a query fails.
    """
    shell = ctx.ensure_object(Shell)
    biases, spikes, counts = _numbers(bias), _numbers(spike), work == "tuples"
    scale, most = scale or SCALES[work], PACES[work] if max_pace is None else max_pace
    given = (scale, _numbers(constraints), split_names(strategies), work, rate)
    asked = Paces(*given, statistics=statistics, max_pace=most)
    varied = settings(asked, biases, spikes, draws)
    if drawing:
        require_one_varies(biases, spikes)
    if not counts and len(varied) > 1:
        what = "In a warehouse one setting is measured at a time."
        raise TempuraError("BAD_BENCHMARK", what, "Give one --spike, or count tuples.")
    meta = asked.meta()
    meta["options"] |= {"bias": biases, "spike": spikes, "draws": draws}
    rows: list[Row] = []
    with shell.progress("starting Spark") as progress:
        # What is timed has Java's second compiler, as a user's session does.
        spark = start_session("tempura-bench", config=session_settings() if counts else SQL_OF_SUITES)
        measured = (
            measure_paces(spark, asked, queries, progress, varied)
            if counts
            else measure_cpu(spark, varied[0], queries, shell.say)
        )
        for row in measured:
            rows.append(row)
            between = list(spread(rows))
            write_json(out, {"meta": meta, "queries": rows, "summary": summarised(rows, work), "spread": between})
    if drawing:
        drawing.write_text(pictured(list(spread(rows))), encoding="utf-8")
    print_paces(shell, rows, work)
    ctx.exit(FAILED if any(row["error"] for row in rows) else DONE)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in split_names(text))
    except ValueError:
        what = f"{text!r} is not a list of numbers."
        raise TempuraError("BAD_BENCHMARK", what, "Write them as 0.5,0.2,0.05.") from None


def print_paces(shell: Shell, rows: Sequence[Row], work: str) -> None:
    """A line per query, constraint and strategy, on average over draws, and the summary."""
    shell.table(
        ("query", "constraint", "strategy", "additional", "final", "met"),
        [
            (
                label(row, rows),
                found["constraint"],
                found["strategy"],
                found["additional"]["mean"],
                found["final"]["mean"],
                found["met"],
            )
            for row in rows
            for found in spread([row])
        ],
    )
    shell.say(*(f"{row['query']}: {row['error']}" for row in rows if row["error"]))
    found = summarised(rows, work)
    shell.say("constraints met: " + ", ".join(f"{name} {share}" for name, share in found["met"].items()))
    if found["planning_ms"]["max"] is not None:
        shell.say(f"planning, ms of CPU: p80 {found['planning_ms']['p80']}, max {found['planning_ms']['max']}")
