"""``tempura bench processes``: what bringing views up to date takes when each time a process is started for it."""

from pathlib import Path

import click

from tempura.bench.exactness import SQL_OF_SUITES
from tempura.bench.processes import Processes, measure_processes, summarised
from tempura.bench.suites import SUITES
from tempura.cli.bench import out_option, write_json
from tempura.cli.shell import Shell, example
from tempura.frontend.start import start_session


@click.command(
    epilog=example("tempura bench processes --suite tpch --scale 1 --queries q1,q3,q5,q13 --out processes.json")
)
@click.option("--suite", type=click.Choice(sorted(SUITES)), default="tpch", show_default=True)
@click.option("--scale", default=1.0, show_default=True, help="Scale of the data: 1 is about 1 GB of text.")
@click.option("--queries", default="q1,q3,q5,q13", show_default=True, help="The views of one warehouse, or all.")
@click.option("--share", default=0.01, show_default=True, help="What comes before a refresh, of the first load.")
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="Measurements; the median counts.")
@click.option("--warm-ups", type=click.IntRange(0), default=1, show_default=True, help="Runs before the measured ones.")
@click.option(
    "--followed",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    help="Refreshes by a command that stays; the last --repeat of them are measured.",
)
@out_option
@click.pass_obj
def processes(
    shell: Shell,
    suite: str,
    scale: float,
    queries: str,
    share: float,
    repeat: int,
    warm_ups: int,
    followed: int,
    out: Path,
) -> None:
    """Measure what refreshes by a command take, the start included.

    Views of one warehouse are refreshed by one command and by one each, against a program that starts Spark and recomputes all of them;
    then by one that stays, from when rows have come until all views are up to date, its looks every second included.
    The last results are verified.
    """
    asked = Processes(suite, scale, share, repeat, warm_ups, followed)
    meta, spark = asked.meta(), start_session("tempura-bench", config=SQL_OF_SUITES)
    rows = measure_processes(spark, asked, queries, shell.say)
    found = summarised(rows)
    write_json(out, {"meta": meta, "runs": rows, "summary": found})
    columns = ("wall_s", "wall_ratio", "cpu_s", "cpu_ratio")
    shell.table(("who", *columns), [(who, *(row[column] for column in columns)) for who, row in found.items()])
