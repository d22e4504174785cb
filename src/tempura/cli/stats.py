"""``tempura stats``: what is known of tables and their columns, and what is said of them by hand."""

from datetime import date, datetime
from typing import Any

import click

from tempura.cli.options import json_option
from tempura.cli.shell import Commands, Shell, example

table_argument = click.argument("name", metavar="TABLE")
_SHOWN = 3
"""How many frequent values a line holds."""


class _Shows(Commands):
    """A group that shows when no command is named: ``stats sales`` is ``stats show sales``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Shows, epilog=example("tempura stats sales"))
def stats() -> None:
    """Show what is known of tables, or say more.

    stats [TABLE] is stats show [TABLE]. What is said by hand counts instead of what was seen. Statistics are what plans are chosen by;
    results never depend on them.
    """


@stats.command("show", epilog=example("tempura stats show sales --json"))
@click.argument("name", metavar="[TABLE]", required=False)
@json_option
@click.pass_obj
def show(shell: Shell, name: str | None, as_json: bool) -> None:
    """Show rows, distinct values, NULLs, extremes, bytes and frequent values of each column, and from what they are known.

    Of one table, or of all. With --json nothing is left out or rounded.
    """
    with shell.progress("reading"):
        tables = [shell.warehouse.table(name)] if name else list(shell.warehouse.tables())
        found = [table.stats() for table in tables]
    if as_json:
        shell.json(found[0] if name else found)
        return
    for about in found:
        shell.say(f"table {about['table']}, version {about['version']}: {about['rows']:,} rows")
        head = ("column", "type", "distinct", "NULLs", "least", "greatest", "bytes", "frequent", "from")
        shell.table(head, [_line(column, known) for column, known in about["columns"].items()])


def _line(column: str, known: dict[str, Any]) -> tuple[object, ...]:
    frequent = ", ".join(f"{entry['value']} ({entry['share']:.1%})" for entry in known["frequent"][:_SHOWN])
    more = len(known["frequent"]) - _SHOWN
    sources: dict[str, list[str]] = {}
    for figure, source in known["from"].items():
        sources.setdefault(source, []).append(
            "NULLs" if figure == "nulls" else "bytes" if figure == "width" else figure
        )
    return (
        column,
        known["type"],
        known["distinct"],
        None if known["nulls"] is None else f"{known['nulls']:.1%}",
        known["least"],
        known["greatest"],
        None if known["width"] is None else round(known["width"], 1),
        frequent + (f", {more} more" if more > 0 else ""),
        "; ".join(f"{', '.join(figures)}: {source}" for source, figures in sources.items()),
    )


@stats.command("set", epilog=example("tempura stats set sales customer --distinct 500000 --nulls 0.01"))
@table_argument
@click.argument("column")
@click.option("--distinct", type=float, help="How many distinct values all rows have.")
@click.option("--nulls", type=float, help="The share of rows that are NULL, from 0 to 1.")
@click.option("--least", help="The least value: a number, or a date or time as in 2026-03-01.")
@click.option("--greatest", help="The greatest value.")
@click.option("--width", type=float, help="Bytes of a value.")
@click.pass_obj
def set_stats(
    shell: Shell,
    name: str,
    column: str,
    distinct: float | None,
    nulls: float | None,
    least: str | None,
    greatest: str | None,
    width: float | None,
) -> None:
    """Say what is so of a COLUMN of TABLE, whatever is seen.

    Kept in tempura.toml. What was said of the column before, and is not said now, stays.
    """
    given = {"distinct": distinct, "nulls": nulls, "least": least, "greatest": greatest, "width": width}
    said = [f"{key} {value}" for key, value in given.items() if value is not None]
    if not said:
        raise click.UsageError("Say something: --distinct, --nulls, --least, --greatest, --width.")
    ends = end(least), end(greatest)
    with shell.progress("reading"):
        table = shell.warehouse.table(name)
        table.set_stats(column, distinct=distinct, nulls=nulls, least=ends[0], greatest=ends[1], width=width)
    shell.say(f"said of {name}.{column}: {', '.join(said)}")


def end(text: str | None) -> float | date | None:
    """A number, or a date or time as ISO text; None when nothing is given."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return date.fromisoformat(text) if len(text) <= len("2026-03-01") else datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number nor a date or time such as 2026-03-01") from None


@stats.command("unset", epilog=example("tempura stats unset sales customer"))
@table_argument
@click.argument("column", required=False)
@click.pass_obj
def unset_stats(shell: Shell, name: str, column: str | None) -> None:
    """Take back what was said of a COLUMN of TABLE, or of all its columns: what is seen counts again."""
    with shell.progress("reading"):
        shell.warehouse.table(name).unset_stats(column)
    shell.say(f"nothing is said of {name}{f'.{column}' if column else ''} any more")
