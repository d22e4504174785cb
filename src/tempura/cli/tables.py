"""Commands that look at tables and queries and lead on from any state: ``table list|show|refresh|reset|…``, ``query list|…``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tempura.cli.options import json_option, name_argument, references_option, referring
from tempura.cli.queries import print_history
from tempura.cli.shell import Shell, example
from tempura.errors import TempuraError
from tempura.explain.paces import cut_tree
from tempura.pace.cut import Cut
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.paces.pacing import Paces
from tempura.warehouse.query import Query
from tempura.warehouse.table import Table

table_argument = click.argument("name", metavar="TABLE")
new_argument = click.argument("new", metavar="NEW")


@click.command("list", epilog=example("tempura table list --json"))
@json_option
@click.pass_obj
def list_tables(shell: Shell, as_json: bool) -> None:
    """List the tables, where their rows come from, and how many there are."""
    with shell.progress("reading"):
        found = shell.warehouse.status_of_tables()
    if as_json:
        shell.json(found)
        return
    head = ("table", "rows from", "rows", "version", "files", "bytes", "last arrival")
    shell.table(head, [(name, origin(about), *map(about.get, _STORED)) for name, about in found.items()])
    tell_broken(shell, "table", found)


def tell_broken(shell: Shell, kind: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    """What is wrong with tables or queries, and what leads on."""
    for name, about in found.items():
        if "error" in about:
            shell.say(f"{kind} {name}: [{about['error']['code']}] {about['error']['what']} {about['error']['command']}")


_STORED = ("rows", "version", "files", "bytes", "last_arrival")


def origin(about: dict[str, Any]) -> str:
    """Where a table's rows come from, in a few words."""
    if about.get("query"):
        return f"query {about['query']}"
    if about.get("kafka"):
        return f"topic {about['kafka']['topic']} (kafka)"
    return f"{about['path']} ({about['format']})" if about.get("path") else "programs"


@click.command("show", epilog=example("tempura table show sales"))
@table_argument
@click.option("--last", default=10, show_default=True, help="How many of the last arrivals; 0 for all.")
@json_option
@click.pass_obj
def show_table(shell: Shell, name: str, last: int, as_json: bool) -> None:
    """Show a table: its declaration, the queries that read it, and what has arrived."""
    with shell.progress("reading"):
        table = shell.warehouse.table(name)
        about, history = table.status() | {"read_by": list(table.read_by)}, table.history()[-last:]
    if as_json:
        shell.json({"name": name, **about, "arrivals": history})
        return
    about["read_by"] = ", ".join(about["read_by"]) or "no query"
    if "references" in about:
        about["references"] = "; ".join(f"{columns} -> {partner}" for columns, partner in about["references"].items())
    shell.table((name, ""), [(key, str(value)) for key, value in about.items()])
    head = ("version", "time", "inserted", "deleted", "kind")
    shell.table(head, [tuple(map(entry.get, head)) for entry in history])


@click.command("refresh", epilog=example("tempura table refresh sales"))
@table_argument
@json_option
@click.pass_obj
def refresh_table(shell: Shell, name: str, as_json: bool) -> None:
    """Take the source of a table as it is now.

    What its folder, or its table in a lake, differs by from what has arrived, arrives. For files that were compacted, rewritten, moved,
    expired or touched, and for feeds with a gap.
    """
    with shell.progress("comparing"):
        table = shell.warehouse.table(name)
        before = table.status()["version"]
        table.refresh()
    told(shell, table, before, as_json)


@click.command("reset", epilog=example("tempura table reset sales"))
@table_argument
@click.option("--force", is_flag=True, help="Do not ask before rows are forgotten that are kept nowhere else.")
@json_option
@click.pass_obj
def reset_table(shell: Shell, name: str, force: bool, as_json: bool) -> None:
    """Begin a table anew with what its source holds now.

    Queries that read it are recomputed at their next run; results and history stay. A managed table is empty then.
    """
    table = shell.warehouse.table(name)
    confirm_loss(table, force)
    with shell.progress("reading"):
        table.reset()
    told(shell, table, 0, as_json)


def told(shell: Shell, table: Table, before: int, as_json: bool) -> None:
    """What has arrived since a version."""
    arrivals = [entry for entry in table.history() if entry["version"] > before]
    if as_json:
        shell.json({"name": table.name, "version": table.status()["version"], "arrivals": arrivals})
        return
    for entry in arrivals:
        counts = f"{entry['inserted']:,} rows inserted, {entry['deleted']:,} deleted"
        shell.say(f"table {table.name}, version {entry['version']} ({entry['kind']}): {counts}")
    if not arrivals:
        shell.say(f"table {table.name}: its source is what has arrived")


def confirm_loss(table: Table, force: bool) -> None:
    """Ask before rows go that are kept nowhere else."""
    if force or not (table.is_managed or table.is_of_topic):
        return
    try:
        rows = f"{table.status()['rows']:,} rows"
    except TempuraError as error:
        # What cannot be read may have to be begun anew for just that.
        rows = f"rows ({error.code})"
    if rows != "0 rows":
        where = "may be kept nowhere else: a topic forgets" if table.is_of_topic else "are kept nowhere else"
        click.confirm(f"The {rows} of {table.name} {where}. Go on?", abort=True, err=True)


@click.command("remove", epilog=example("tempura table remove sales"))
@table_argument
@click.option("--force", is_flag=True, help="Do not ask before rows go that are kept nowhere else.")
@click.pass_obj
def remove_table(shell: Shell, name: str, force: bool) -> None:
    """Remove a table, but not the files that its rows come from.

    Refused while a query reads it.
    """
    known = {table.name: table for table in shell.warehouse.tables()}
    if name in known:
        confirm_loss(known[name], force)
    with shell.progress("removing"):
        shell.warehouse.remove_table(name)
    shell.say(f"table {name} removed")


@click.command("set-aside", epilog=example("tempura table set-aside orders --limit 5"))
@table_argument
@click.option(
    "--limit", default=20, show_default=True, help="How many records at most, the first of each arrival first."
)
@json_option
@click.pass_obj
def show_set_aside(shell: Shell, name: str, limit: int, as_json: bool) -> None:
    """Show the records of a topic that do not fit table TABLE: partition, offset, time, what is wrong, and the value as text.

    They were set aside because the table is declared with --on-bad-record quarantine.
    """
    with shell.progress("reading"):
        table = shell.warehouse.table(name)
        head = ("partition", "offset", "time", "why", "text")
        records = [row.asDict() for row in table.set_aside().select(*head).limit(limit).collect()]
        all = table.status().get("set_aside", 0)
    if as_json:
        shell.json({"name": name, "set_aside": all, "records": [{**r, "time": str(r["time"])} for r in records]})
        return
    shell.table(head, [tuple(map(str, record.values())) for record in records])
    shell.say(f"table {name}: {all:,} records set aside")


@click.command("rename", epilog=example("tempura table rename sales orders"))
@table_argument
@new_argument
@click.pass_obj
def rename_table(shell: Shell, name: str, new: str) -> None:
    """Give a table another name.

    Refused while a query reads it. When tempura.toml declares the new name already, what is stored under the old one follows.
    """
    with shell.progress("renaming"):
        shell.warehouse.rename_table(name, new)
    shell.say(f"table {name} is {new} now")


@click.command("alter", epilog=example('tempura table alter sales --add-column "discount INT" --path lake/orders'))
@table_argument
@click.option("--path", help="Another folder, relative to where you stand, to which the same files were moved.")
@click.option("--add-column", "columns", multiple=True, help='A column to be added ("c INT"); repeat for more.')
@references_option
@click.option("--no-references", is_flag=True, help="Take back the references that there are, before others are added.")
@click.pass_obj
def alter_table(
    shell: Shell,
    name: str,
    path: str | None,
    columns: tuple[str, ...],
    references: tuple[str, ...],
    no_references: bool,
) -> None:
    """Change the declaration of a table.

    An added column is NULL in what has arrived, and in files that lack it. Of a reference the next run looks whether all rows keep it.
    """
    if path is None and not columns and not references and not no_references:
        raise click.UsageError("Give --path, --add-column, --references or --no-references.")
    folder = str(Path(path).resolve()) if path and "://" not in path else path
    with shell.progress("checking"):
        known = {} if no_references else shell.warehouse.table(name).status().get("references", {})
        promised = {**known, **referring(references)} if references or no_references else None
        shell.warehouse.alter_table(name, path=folder, add_columns=", ".join(columns) or None, references=promised)
    shell.say(f"table {name} altered")


@click.command("list", epilog=example("tempura query list --json"))
@json_option
@click.pass_obj
def list_queries(shell: Shell, as_json: bool) -> None:
    """List the queries, when they run, and where their results are published."""
    with shell.progress("reading"):
        found = shell.warehouse.status_of_queries()
    if as_json:
        shell.json(found)
        return
    head = ("query", "schedule", "runs", "last", "next", "due", "result rows", "published at")
    rows = [
        (name, about.get("schedule", {}).get("kind"), *map(about.get, _OF_RUNS), ", ".join(about.get("outputs", ())))
        for name, about in found.items()
    ]
    shell.table(head, rows)
    tell_broken(shell, "query", found)


_OF_RUNS = ("runs", "last", "next", "due", "result_rows")


@click.command("show", epilog=example("tempura query show revenue"))
@name_argument
@click.option("--last", default=10, show_default=True, help="How many of the last runs; 0 for all.")
@json_option
@click.pass_obj
def show_query(shell: Shell, name: str, last: int, as_json: bool) -> None:
    """Show a query: its text and declaration, the tables it reads, its states with their sizes, and its last runs."""
    with shell.progress("reading"):
        query = shell.warehouse.query(name)
        about = {"sql": query.sql, **query.status(), "reads": query.read_names()}
        states, runs = query.states(), query.history()[-last:]
        paces = paces_of(query)
    if as_json:
        about |= {"paces": paces[1].to_json() if paces[1] else None} if paces else {}
        shell.json({"name": name, **about, "states": states, "history": [entry.to_json() for entry in runs]})
        return
    listed = {key: ", ".join(about[key]) for key in ("methods", "outputs", "reads")}
    declared = {**about, **listed, "sql": query.sql or "a DataFrame", "require": about["require"] or "nothing"}
    price = about["storage_price"]
    declared |= {
        "state_budget": about["state_budget"] or "any",
        "storage_price": f"{price:g} CPU s per GB" if price else "none",
    }
    shell.table((name, ""), [(key, str(value)) for key, value in declared.items()])
    if states:
        shell.table(tuple(states[0]), [tuple(state.values()) for state in states])
    if paces:
        made, planned = paces
        shell.say(*([planned.text(made)] if planned else cut_tree(made).lines()))
    print_history(shell, runs)


def paces_of(query: Query) -> tuple[Cut, Paces | None] | None:
    """The segments and paths of a query at paces, and these; None of another one."""
    return (query.cut(), query.paces()) if isinstance(query, PacedQuery) else None


@click.command("remove", epilog=example("tempura query remove revenue"))
@name_argument
@click.pass_obj
def remove_query(shell: Shell, name: str) -> None:
    """Remove a query with its results, states and history.

    Refused while a table takes its rows from it. What it has published stays where it is.
    """
    with shell.progress("removing"):
        left = shell.warehouse.remove_query(name)
    shell.say(f"query {name} removed", *(f"what it published stays: {path}" for path in left))


@click.command("rename", epilog=example("tempura query rename revenue income"))
@name_argument
@new_argument
@click.pass_obj
def rename_query(shell: Shell, name: str, new: str) -> None:
    """Give a query another name.

    Its results, states, history and outputs stay; tables that take rows from it follow.
    """
    with shell.progress("renaming"):
        shell.warehouse.rename_query(name, new)
    shell.say(f"query {name} is {new} now")


OF_TABLES = (
    list_tables, show_table, refresh_table, reset_table, alter_table, rename_table, remove_table, show_set_aside
)  # fmt: skip
OF_QUERIES = (list_queries, show_query, rename_query, remove_query)
