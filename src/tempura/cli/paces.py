"""``tempura bench paces``."""

from collections.abc import Sequence
from pathlib import Path

import click

from tempura.bench.exactness import session_settings
from tempura.bench.paces import CHOICES, STATISTICS, Paces, Row, measure_paces, summarised
from tempura.cli.bench import out_option, split_names, write_json
from tempura.cli.shell import DONE, FAILED, Shell, example
from tempura.errors import TempuraError
from tempura.frontend.start import start_session
from tempura.pace.arrivals import RATES


@click.command(epilog=example("tempura bench paces --scale 0.01 --constraints 0.2,0.05 --out paces.json"))
@click.option("--scale", default=0.01, show_default=True, help="Scale of the data (TPC-H).")
@click.option("--queries", default="all", show_default=True, help="all, or q1,q_outer …")
@click.option(
    "--constraints", default="0.5,0.2,0.1,0.05,0.02", show_default=True, help="Bounds on the final work ÷ a batch's."
)
@click.option("--strategies", default="inqp,uniform,leaf,hand", show_default=True, help=f"Of {', '.join(CHOICES)}.")
@click.option("--work", type=click.Choice(["tuples"]), default="tuples", show_default=True, help="What is counted.")
@click.option("--rate", type=click.Choice(RATES), default="steady", show_default=True, help="How rows arrive.")
@click.option("--bias", default=1.0, show_default=True, help="By which factor statistics may be off, such as 0.2 or 5.")
@click.option(
    "--statistics",
    type=click.Choice(STATISTICS),
    default="measured",
    show_default=True,
    help="What paces are planned from.",
)
@out_option
@click.pass_context
def paces(
    ctx: click.Context,
    scale: float,
    queries: str,
    constraints: str,
    strategies: str,
    work: str,
    rate: str,
    bias: float,
    statistics: str,
    out: Path,
) -> None:
    """Compare ways to choose how eagerly each part of a query runs.

    Exit code 1 if a query fails.
    """
    shell = ctx.ensure_object(Shell)
    asked = Paces(scale, _numbers(constraints), split_names(strategies), work, rate, bias, statistics)
    rows: list[Row] = []
    with shell.progress("starting Spark") as progress:
        spark = start_session("tempura-bench", config=session_settings())
        for row in measure_paces(spark, asked, queries, progress):
            rows.append(row)
            write_json(out, {"meta": asked.meta(), "queries": rows, "summary": summarised(rows)})
    print_paces(shell, rows)
    ctx.exit(FAILED if any(row["error"] for row in rows) else DONE)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in split_names(text))
    except ValueError:
        what = f"{text!r} is not a list of numbers."
        raise TempuraError("BAD_BENCHMARK", what, "Write them as 0.5,0.2,0.05.") from None


def print_paces(shell: Shell, rows: Sequence[Row]) -> None:
    """A line per query and constraint, and the summary."""
    head = ("query", "constraint", "strategy", "additional", "final", "met")
    shell.table(
        head,
        [
            (
                row["query"],
                case["constraint"],
                case["strategy"],
                case["additional_share"],
                case["final_share"],
                case["met"],
            )
            for row in rows
            for case in row["cases"]
            if not case["error"]
        ],
    )
    shell.say(*(f"{row['query']}: {row['error']}" for row in rows if row["error"]))
    found = summarised(rows)
    shell.say("constraints met: " + ", ".join(f"{name} {share}" for name, share in found["met"].items()))
    shell.say(f"planning, ms of CPU: p80 {found['planning_ms']['p80']}, max {found['planning_ms']['max']}")
