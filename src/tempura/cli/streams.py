"""``tempura bench streams``: continuous joins with and without caches, on synthetic streams."""

import platform
from collections.abc import Sequence
from pathlib import Path

import click

from tempura.bench.lines import lines
from tempura.bench.stream_experiments import EXPERIMENTS, Row, Scale
from tempura.bench.stream_inputs import TABLE_2
from tempura.bench.stream_spark import compared
from tempura.cli.bench import out_option, split_names, write_json
from tempura.cli.shell import Shell, example
from tempura.frontend.start import start_session


@click.command(epilog=example("tempura bench streams --experiment d1-d8 --out d1-d8.json"))
@click.option(
    "--experiment",
    type=click.Choice([*EXPERIMENTS, "spark"]),
    default="d1-d8",
    show_default=True,
    help="What to measure.",
)
@click.option("--rows", type=click.IntRange(200), default=40_000, show_default=True, help="Rows measured per point.")
@click.option("--points", default=",".join(TABLE_2), show_default=True, help="Which sample points, for d1-d8.")
@click.option(
    "--rounds", type=click.IntRange(1), default=9, show_default=True, help="Interleaved parts; the median counts."
)
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path), help="An SVG file to draw.")
@out_option
@click.pass_obj
def streams(shell: Shell, experiment: str, rows: int, points: str, rounds: int, figure: Path | None, out: Path) -> None:
    """Measure continuous joins: without caches, as trees of joins of two, with caches that are chosen while they run.

    In one process, without Spark. Rows per second of CPU time. The experiment spark runs a join of three streams on workers, beside Spark's
    Structured Streaming: rows per second and latency.
    """
    if experiment == "spark":
        beside_spark(shell, rows, rounds, out)
        return
    chosen = split_names(points)
    if not set(chosen) <= set(TABLE_2):
        raise click.BadParameter(f"{points!r} names another point than {', '.join(TABLE_2)}", param_hint="--points")
    scale = Scale(rows, rounds, points=chosen)
    meta = {
        "experiment": experiment,
        "rows": rows,
        "rounds": rounds,
        "window": scale.window,
        "python": platform.python_version(),
    }
    found: list[Row] = []
    with shell.progress(experiment) as progress:
        for row in EXPERIMENTS[experiment](scale):
            found.append(row)
            write_json(out, {"meta": meta, "rows": found, "summary": summarised(found)})
            progress(f"{experiment}: {len(found)} points")
    names = [name for name, value in found[0].items() if isinstance(value, int | float | str)]
    shell.table(names, [tuple(row[name] for name in names) for row in found])
    if figure:
        y = "cost / optimum" if experiment == "selection" else "rows per second"
        figure.write_text(lines(experiment, series(found), axis(found), y), encoding="utf-8")


def beside_spark(shell: Shell, rows: int, times: int, out: Path) -> None:
    """The experiment ``spark``: ``rows`` rows of each stream in twelve files, and ``times`` rows that arrive alone."""
    quiet = {} if shell.debug else {"spark.log.level": "OFF"}
    session = start_session("tempura-bench", 6, quiet | {"spark.sql.shuffle.partitions": "2"})
    with shell.progress("spark"):
        found = compared(session, rows, 12, times)
    write_json(out, {"meta": {"experiment": "spark", "rows": rows, "times": times}, "rows": found})
    shell.table(list(found[0]), [tuple(row.values()) for row in found])


RATES = ("M", "X", "P", "G", "C", "T ⋈ (R ⋈ S)", "R ⋈ (T ⋈ S)", "adaptive", "recursive", "greedy", "rounded")


def axis(rows: Sequence[Row]) -> str:
    """The column that varies: the first one."""
    return next(iter(rows[0]))


def series(rows: Sequence[Row]) -> dict[str, list[tuple[str, float]]]:
    """The rates by the column that varies."""
    x = axis(rows)
    return {name: [(f"{row[x]}", float(row[name])) for row in rows] for name in RATES if name in rows[0]}


def summarised(rows: Sequence[Row]) -> Row:
    """The figures of each point."""
    x = axis(rows)
    return {f"{row[x]}": {name: row[name] for name in RATES if name in row} for row in rows}
