"""The command ``tempura``."""

import sys
from collections.abc import Iterable, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from tempura.cli.declare import init, query, table
from tempura.cli.options import beside, json_option
from tempura.cli.queries import changes, explain, history, plan, result
from tempura.cli.running import run, verify
from tempura.cli.shell import FAILED, Commands, Shell, example, quiet_python_logs
from tempura.cli.stats import stats
from tempura.cli.tables import OF_QUERIES, OF_TABLES, tell_broken

_LATER = {
    "bench": "tempura.cli.bench:bench",
    "calibrate": "tempura.cli.calibrate:calibrate_command",
    "demo": "tempura.cli.demo:demo",
    "rules": "tempura.cli.rules:rules",
    "savings": "tempura.cli.savings:savings",
    "stream": "tempura.cli.stream:stream",
}


@click.group(cls=Commands, later=_LATER, epilog=example("tempura demo"))
@click.option(
    "-C",
    "--warehouse",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    envvar="TEMPURA_WAREHOUSE",
    help="The warehouse's folder; the one you stand in unless given.",
)
@click.option("--debug", is_flag=True, help="Show where an error comes from, and Spark's log.")
@click.version_option(package_name="tempura")
@click.pass_context
def main(ctx: click.Context, folder: Path, debug: bool) -> None:
    """Exact, cost-based incremental computation of Spark SQL queries.

    Exit codes: 0 done, 1 failed, 2 the command was not understood, 3 nothing to do, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # one of ASCII only shows what it can
            stream.reconfigure(errors="backslashreplace")
    ctx.obj = Shell(folder, debug)
    ctx.with_resource(ctx.obj.warnings())
    quiet_python_logs(debug)


@click.command(epilog=example("tempura status --json"))
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """List tables and queries.

    Exit code 0, or 1 when one of them is broken: what is wrong with it is told, and what leads on.
    """
    shell = ctx.ensure_object(Shell)
    with shell.progress("reading"):
        found = shell.warehouse.status()
    if as_json:
        shell.json(found)
    else:
        print_status(shell, found)
    broken = any("error" in about for section in ("tables", "queries") for about in found[section].values())
    ctx.exit(FAILED if broken else 0)


def print_status(shell: Shell, found: Mapping[str, Any]) -> None:
    """Tables and queries, what is broken among them, and what nobody declares."""
    shell.say(f"warehouse {found['path']}")
    shell.table(("table", *_OF_TABLES), [(n, *map(about.get, _OF_TABLES)) for n, about in found["tables"].items()])
    shell.table(("query", *_OF_QUERIES), [(n, *map(about.get, _OF_QUERIES)) for n, about in found["queries"].items()])
    tell_broken(shell, "table", found["tables"])
    tell_broken(shell, "query", found["queries"])
    tell_undeclared(shell, found.get("undeclared", ()))


def tell_undeclared(shell: Shell, paths: Iterable[str]) -> None:
    """What is stored of tables and queries that tempura.toml does not declare, and the ways on."""
    for path in paths:
        section, name = path.split("/")
        command = f"tempura {'table' if section == 'tables' else 'query'}"
        ways = f"declare it again, or: {command} rename {name} NEW, {command} remove {name}"
        shell.say(f"{path} is kept, but not declared: {ways}")


_OF_TABLES = ("rows", "version", "files", "bytes", "last_arrival")
_OF_QUERIES = ("runs", "last", "next", "due", "result_of", "result_rows", "states", "state_bytes")


@click.command(epilog=example("tempura gc --dry-run", "tempura gc --runs 2000"))
@click.option("--keep", default=2, show_default=True, help="How many of the last results of each query stay.")
@click.option(
    "--runs", type=int, help="Forget the runs of each query but the last so many: history and savings begin there."
)
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@beside("--json")(
    "--bytes",
    "sizes",
    is_flag=True,
    help="the bytes of each kind instead of the paths.",
)
@json_option
@click.pass_obj
def gc(shell: Shell, keep: int, runs: int | None, dry_run: bool, sizes: bool, as_json: bool) -> None:
    """Remove what nothing needs any more.

    The remains of interrupted runs, old results, states that no later run can load, and copies of arrivals that are stored together
    as well. Bytes are told for each kind.
    """
    with shell.progress("collecting"):
        removed = shell.warehouse.gc(keep, dry_run, runs)
    if as_json:
        shell.json(dict(removed.bytes) if sizes else list(removed))
        return
    tell_undeclared(shell, shell.warehouse.undeclared())
    verb = "to be removed" if dry_run else "removed"
    kinds = (f"{kind}: {size:,} bytes {verb}" for kind, size in sorted(removed.bytes.items()))
    shell.say(*(f"{verb}: {path}" for path in removed), *kinds, f"{len(removed)} {verb}")


for command in OF_TABLES:
    table.add_command(command)
for command in OF_QUERIES:
    query.add_command(command)
for command in (
    init,
    table,
    query,
    plan,
    explain,
    run,
    result,
    changes,
    verify,
    history,
    status,
    stats,
    gc,
):
    main.add_command(command)
