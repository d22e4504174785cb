"""``tempura bench regions``: what the runtime of regions takes."""

import platform
from pathlib import Path

import click

from tempura.bench.region_experiments import measured
from tempura.cli.bench import out_option, write_json
from tempura.cli.shell import Shell, example
from tempura.cli.stream import workers_option
from tempura.frontend.start import start_session, usable_cores
from tempura.region.carriers import Processes, SparkTasks


@click.command(epilog=example("tempura bench regions --workers spark --out regions.json"))
@workers_option
@click.option("--seconds", type=click.FloatRange(0.5), default=4.0, show_default=True, help="Per throughput.")
@click.option("--times", type=click.IntRange(10), default=200, show_default=True, help="Pauses and commands.")
@out_option
@click.pass_obj
def regions(shell: Shell, workers: str, seconds: float, times: int, out: Path) -> None:
    """Measure workers of regions: rows through three of them, pauses, answers while data is held up, kill -9."""
    if workers == "spark":
        session = start_session("tempura-bench", 4, {} if shell.debug else {"spark.log.level": "OFF"})
        found = measured(lambda: SparkTasks(session), seconds, times)
    else:
        found = measured(Processes, seconds, times)
    about = {"workers": workers, "cores": usable_cores(), "python": platform.python_version()}
    write_json(out, {"meta": about, "summary": found})
    shell.table(("what", "figure"), list(found.items()))
