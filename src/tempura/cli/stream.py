"""``tempura stream``: continuous joins on workers, described by a file."""

import json
import os
import time
from pathlib import Path
from typing import Any

import click

from tempura.cli.options import json_option
from tempura.cli.shell import FAILED, Commands, Shell, example
from tempura.errors import TempuraError
from tempura.frontend.start import start_session, usable_cores
from tempura.region.carriers import Processes
from tempura.region.claim import is_taken, read_note
from tempura.streams import continuous
from tempura.streams.continuous import ContinuousJob
from tempura.streams.file import Described, read

STATUS = "status.json"
"""In a job's folder: what it says of itself, each second."""

file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


workers_option = click.option(
    "--workers",
    type=click.Choice(["spark", "processes"]),
    default="spark",
    show_default=True,
    help="What workers are: Spark tasks, or processes of this machine.",
)


@click.group(cls=Commands, epilog=example("tempura stream run paid_and_shipped.toml"))
def stream() -> None:
    """Join streams of changes continuously."""


@stream.command(epilog=example("tempura stream run paid_and_shipped.toml --seconds 60"))
@file_argument
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after so long; until Ctrl-C unless given.")
@workers_option
@click.pass_obj
def run(shell: Shell, file: Path, seconds: float | None, workers: str) -> None:
    """Run the continuous join that FILE describes, until its sources end.

    The file is TOML: sql or [join], [sources.NAME] with a folder, a rate or a topic (servers, topic, columns) and perhaps a window, [sink]
    with parquet, table, print or a topic (servers, topic). The job's folder keeps what is needed to go on: the same command goes on from
    the last snapshot.
    """
    described = read(file)
    session = None
    if workers == "spark" or isinstance(described.query, str) or described.sink[0] == "table":
        slots = max(usable_cores(), len(described.sources) + 2)
        session = start_session("tempura-stream", slots, {} if shell.debug else {"spark.log.level": "OFF"})
    target = described.target(lambda: shell.warehouse, lambda batch: print_changes(shell, batch))
    job = continuous.join(
        described.query,
        described.sources,
        target,
        described.memory,
        session,
        described.folder,
        described.every,
        carrier=Processes() if workers == "processes" else None,
    )
    with job:
        follow(shell, job, described, seconds)


def follow(shell: Shell, job: ContinuousJob, described: Described, seconds: float | None) -> None:
    """Write the job's status into its folder each second, until it ends or time is up; say how a row fails when one does."""
    end = None if seconds is None else time.monotonic() + seconds
    told: set[str] = set()
    while end is None or time.monotonic() < end:
        ended = job.wait(1.0 if end is None else max(0.0, min(1.0, end - time.monotonic())))
        status = job.status()
        write_status(described.folder, {"pid": os.getpid(), **status})
        for worker in set(status["failures"]) - told:
            shell.err.print(f"{worker} has failed and waits: {job.why().splitlines()[0]}", style="red", markup=False)
            told.add(worker)
        if ended:
            return
    job.region.snapshot()


def write_status(folder: Path, status: dict[str, Any]) -> None:
    """Replace what a job says of itself."""
    new = folder / f"{STATUS}.new"
    new.write_text(json.dumps(status, default=str), encoding="utf-8")
    new.replace(folder / STATUS)


def print_changes(shell: Shell, batch: Any) -> None:
    """Print changes of the result, a line each."""
    for row in batch.to_pylist():
        kind = row.pop("_change")
        shell.say(f"{'+' if kind == 'insert' else '-'} {', '.join(map(str, row.values()))}")


@stream.command(epilog=example("tempura stream status paid_and_shipped.toml"))
@file_argument
@json_option
@click.pass_context
def status(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Show what a job that runs says of itself: workers, snapshots, the join's pipelines and caches.

    Exit code 0, or 1 when it does not run.
    """
    shell = ctx.ensure_object(Shell)
    path = read(file).folder / STATUS
    if not path.exists():
        raise TempuraError(
            "NO_STREAM", f"There is no job in {path.parent}.", f"Start it with: tempura stream run {file}"
        )
    found = read_note(path, {"done": False})
    runs = not found["done"] and is_taken(path.parent)
    if as_json:
        shell.json({"runs": runs, **found})
    else:
        said = "runs" if runs else "has ended" if found["done"] else "does not run"
        shell.say(f"{file.stem} {said}; snapshot {found['snapshot']}, {found['restarts']} restarts")
        columns = ("is", "processed", "waiting", "pid")
        shell.table(("worker", *columns), [(n, *(w[c] for c in columns)) for n, w in found["workers"].items()])
        for name, order in (found["join"].get("pipelines") or {}).items():
            shell.say(f"{name}: {' ⋈ '.join(order)}")
        for worker, failure in found["failures"].items():
            shell.say(f"{worker} failed at {', '.join(failure['rows'])}: {failure['trace'].strip().splitlines()[-1]}")
    ctx.exit(0 if runs or found["done"] else FAILED)
