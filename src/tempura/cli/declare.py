"""Commands that edit a warehouse: ``init``, ``table add``, ``query add``."""

from functools import partial
from pathlib import Path

import click

import tempura as tp
from tempura.cli.options import (
    beside,
    budget_option,
    by_name,
    json_option,
    method_names,
    methods_option,
    name_argument,
    references_option,
    referring,
    require_option,
    storage_option,
)
from tempura.cli.shell import Commands, Shell, example, is_warehouse, prices
from tempura.errors import TempuraError
from tempura.pace.goal import MOST_PACE, STRATEGIES
from tempura.warehouse.declared.declare import MODES, NEW_COLUMNS
from tempura.warehouse.declared.kafka import KEY_FORMATS, ON_BAD_RECORD, VALUE_FORMATS
from tempura.warehouse.declared.text import FORMATS

of_topic = beside("--topic")
"""An option that says how to read a topic."""

of_deadline = beside("--until")
"""An option that says how eagerly to work for one deadline."""


@click.command(epilog=example("tempura init warehouse/"))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), required=False)
@click.pass_obj
def init(shell: Shell, folder: Path | None) -> None:
    """Make an empty warehouse.

    In FOLDER, or where you stand.
    """
    target = folder or shell.folder
    if is_warehouse(target):
        raise TempuraError("WAREHOUSE_EXISTS", f"{target.resolve()} is a warehouse already.", "Name another folder.")
    with shell.progress("starting Spark"):
        tp.open(target)
    shell.say(f"made {target / 'tempura.toml'}")


@click.group(cls=Commands)
def table() -> None:
    """Declare tables."""


@table.command(
    "add", epilog=example("tempura table add sales --path lake/sales --format csv --option 'sep=;' --key o_id")
)
@click.argument("name")
@click.option(
    "--path", help="Folder whose files hold the rows, relative to where you stand. Without it the table is managed."
)
@click.option("--from-query", "upstream", metavar="QUERY", help="Another query, whose results are the rows.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Of Spark's reader; repeat for more.")
@click.option("--schema", help='Columns as DDL ("o_id INT, cost INT"). Read from the files unless given.')
@click.option(
    "--key", "keys", multiple=True, help="A column of the table's key; repeat for more. Enforced when rows arrive."
)
@references_option
@click.option("--append-only", is_flag=True, help="Promise: rows are never deleted.")
@click.option("--static", is_flag=True, help="Promise: nothing arrives after the first rows.")
@click.option("--settle", type=float, default=0.0, help="Only files this many seconds old count.")
@click.option("--expect", metavar="1%|ROWS", help="What is expected to arrive from run to run; learned unless given.")
@click.option(
    "--new-columns",
    type=click.Choice(NEW_COLUMNS),
    help="What becomes of columns that the table does not have.",
)
@click.option("--follow-links", is_flag=True, help="Follow symbolic links that lead out of the folder; else refused.")
@click.option("--servers", default="", metavar="HOST:PORT,…", help="With --format kafka: where the broker is.")
@click.option("--topic", default="", help="With --format kafka: the topic whose records are the rows, or change them.")
@of_topic(
    "--value-format",
    type=click.Choice(VALUE_FORMATS),
    default="json",
    show_default=True,
    help="format of its values.",
)
@of_topic(
    "--key-format",
    type=click.Choice(KEY_FORMATS),
    default="text",
    show_default=True,
    help="how the key of a record without a value, which deletes, spells the table's key.",
)
@of_topic(
    "--start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|0=17,1=4",
    help="where to begin.",
)
@of_topic(
    "--on-bad-record",
    type=click.Choice(ON_BAD_RECORD),
    default="fail",
    show_default=True,
    help="whether a record that does not fit refuses the run, or is set aside.",
)
@of_topic(
    "--avro-schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="a file with the Avro schema of its values; follows from --schema unless given.",
)
@of_topic(
    "--connection",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="a setting of Kafka's clients, such as sasl.jaas.config=env:KAFKA_JAAS; repeat for more.",
)
@click.pass_obj
def add_table(
    shell: Shell,
    name: str,
    path: str | None,
    upstream: str | None,
    file_format: str,
    options: tuple[str, ...],
    schema: str | None,
    keys: tuple[str, ...],
    references: tuple[str, ...],
    append_only: bool,
    static: bool,
    settle: float,
    expect: str | None,
    follow_links: bool,
    new_columns: str | None,
    servers: str,
    topic: str,
    value_format: str,
    key_format: str,
    start: str,
    on_bad_record: str,
    avro_schema: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Declare table NAME.

    With --path, new files in that folder are arrivals; with --from-query, what each result of that query changed; with --format
    kafka, new records of a topic; without any of these, a program pushes rows.
    """
    with shell.progress("starting Spark"):
        shell.warehouse.add_table(
            name,
            path=str(Path(path).resolve()) if path and "://" not in path else path,
            format=file_format,
            schema=schema,
            keys=list(keys),
            references=referring(references),
            append_only=append_only,
            static=static,
            settle=settle,
            options=by_name(map(setting, options)),
            query=upstream,
            expect=expect,
            follow_links=follow_links,
            new_columns=new_columns or "",
            servers=servers,
            topic=topic,
            value_format=value_format,
            key_format=key_format,
            start=offsets(start),
            on_bad_record=on_bad_record,
            avro_schema=avro_schema.read_text(encoding="utf-8") if avro_schema else "",
            connection=by_name(map(setting, settings)),
        )
    shell.say(f"table {name} added")


def offsets(text: str) -> str | dict[str, int]:
    """``0=17,1=4`` as offsets by partition; else the text."""
    if "=" not in text:
        return text
    pairs = [part.strip().split("=") for part in text.split(",")]
    if any(len(pair) != 2 or not all(map(str.isdecimal, pair)) for pair in pairs):
        raise click.BadParameter(f"{text!r} is not PARTITION=OFFSET, such as 0=17,1=4")
    return by_name((partition, int(offset)) for partition, offset in pairs)


def pace(text: str) -> tuple[str, int]:
    """``orders=20`` as a name and a pace."""
    name, _, number = text.partition("=")
    if not number.isdecimal():
        raise click.BadParameter(f"{text!r} is not NAME=PACE, such as orders=20")
    return name, int(number)


def setting(text: str) -> tuple[str, str]:
    """``sep=;`` as a name and a value."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, such as sep=;")
    return name, value


@click.group(cls=Commands)
def query() -> None:
    """Declare queries, and when they run."""


@query.command(
    "add",
    epilog=example(
        "tempura query add summary --file summary.sql --at 14:00=0.25 --at 19:00=0.3 --at 24:00=1",
        "tempura query add report --file report.sql --until 18:00 --final-work 0.05",
    ),
)
@click.argument("name")
@click.option("--sql", help="The query.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file with the query.")
@click.option("--at", "times", multiple=True, help="TIME=PRICE of a run before the daily deadline, the last TIME.")
@click.option(
    "--until", metavar="TIME", help="One result, due at TIME (2026-03-01T18:00, or 18:00 today), by paths at paces."
)
@of_deadline(
    "--final-work",
    type=float,
    help="of a recomputation's work, how much may be left to the last flush.",
)
@of_deadline(
    "--total-work",
    type=float,
    help="instead of that, the work of all flushes, in recomputations.",
)
@of_deadline(
    "--max-pace",
    type=int,
    default=MOST_PACE,
    show_default=True,
    help="how often a path is flushed at most.",
)
@of_deadline(
    "--strategy",
    without=("--pace",),
    type=click.Choice(STRATEGIES),
    default="inqp",
    show_default=True,
    help="how paces are chosen.",
)
@of_deadline(
    "--pace",
    "paces",
    multiple=True,
    metavar="NAME=PACE",
    help="of paths from a table or segment; repeat for more.",
)
@of_deadline(
    "--since",
    metavar="TIME",
    help="from when on rows are counted; from now on unless given.",
)
@beside("--at", "--until")("--timezone", help="time zone of the times; the session's unless given.")
@click.option("--view", is_flag=True, help="A view, refreshed at each run, instead of times.")
@beside("--view")(
    "--refreshes",
    default=30,
    show_default=True,
    help="refreshes that pay for the first build.",
)
@methods_option
@require_option
@budget_option
@storage_option
@click.pass_obj
def add_query(
    shell: Shell,
    name: str,
    sql: str | None,
    file: Path | None,
    times: tuple[str, ...],
    until: str | None,
    final_work: float | None,
    total_work: float | None,
    max_pace: int,
    strategy: str,
    paces: tuple[str, ...],
    since: str | None,
    timezone: str | None,
    view: bool,
    refreshes: int,
    methods: str | None,
    require: str | None,
    state_budget: str | None,
    storage_price: float | None,
) -> None:
    """Declare query NAME.

    Its schedule is either times with prices (--at, once per time), --view, or --until: then each part of the query is run as often as it
    pays, to meet a bound on the work that is left when the result is due.
    """
    if (sql is None) == (file is None):
        raise click.UsageError("Give the query with either --sql or --file.")
    if view + bool(times) + (until is not None) != 1:
        raise click.UsageError("Give the schedule with either --at (once per time), --view or --until.")
    text = file.read_text() if file else sql
    schedule = tp.Schedule.view(refreshes) if view else None
    if until is not None:
        chosen = by_name(map(pace, paces)) if paces else strategy
        schedule = tp.Schedule.paced(until, final_work, total_work, max_pace, chosen, since, timezone)
    schedule = schedule or tp.Schedule.progressive(prices(times), timezone)
    with shell.progress("starting Spark"):
        names = method_names(methods)
        shell.warehouse.add_query(
            name,
            sql=text,
            schedule=schedule,
            methods=names,
            require=require,
            state_budget=state_budget,
            storage_price=storage_price,
        )
    shell.say(f"query {name} added")


@query.command("replace", epilog=example("tempura query replace summary --file summary.sql --dry-run"))
@click.argument("name")
@click.option("--sql", help="The new query. Without --sql and --file: what tempura.toml declares by now.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file with the new query.")
@click.option("--dry-run", is_flag=True, help="List what would be kept and built, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for a program; asks nothing.")
@methods_option
@require_option
@budget_option
@storage_option
@click.pass_obj
def replace_query(
    shell: Shell,
    name: str,
    sql: str | None,
    file: Path | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    methods: str | None,
    require: str | None,
    state_budget: str | None,
    storage_price: float | None,
) -> None:
    """Replace query NAME by another.

    States whose expressions still occur are kept. What is kept, built and dropped is listed before anything is done.
    """
    if sql is not None and file is not None:
        raise click.UsageError("Give the query with either --sql or --file.")
    text = file.read_text() if file else sql
    other = partial(shell.warehouse.replace_query, name, sql=text, methods=method_names(methods))
    replace = partial(other, require=require, state_budget=state_budget, storage_price=storage_price)
    with shell.progress("planning"):
        found = replace(dry_run=dry_run or not (yes or as_json))
    if not as_json:
        shell.say(str(found))
    if found.dry_run and not dry_run and click.confirm("Replace it?"):
        found = replace()
        shell.say(f"query {name} replaced")
    if as_json:
        shell.json(found.to_json())


@query.command(
    "output", epilog=example("tempura query output summary --path marts/summary --mode upsert --key category")
)
@name_argument
@click.option("--path", required=True, help="Where the result is read, relative to where you stand.")
@click.option("--mode", type=click.Choice(MODES), default="replace", show_default=True, help="How it gets there.")
@click.option("--key", "keys", multiple=True, help="With upsert: a column of a key of the result; repeat for more.")
@json_option
@click.pass_obj
def output(shell: Shell, name: str, path: str, mode: str, keys: tuple[str, ...], as_json: bool) -> None:
    """Publish the results of a query as Parquet files.

    Now, and after each run. replace and upsert: the path shows the last result; upsert writes only files with changed keys
    anew. changes: a folder to which each result adds what it changed, with a column _change.
    """
    with shell.progress("publishing"):
        found = shell.warehouse.query(name).output(path, mode, keys)
    if as_json:
        shell.json({"query": name, "path": str(found), "mode": mode, "keys": list(keys)})
    else:
        shell.say(f"query {name} is published at {found}")
