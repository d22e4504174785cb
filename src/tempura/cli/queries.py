"""Commands on one query: ``plan``, ``explain``, ``run``, ``result``, ``changes``, ``verify``, ``history``."""

import datetime
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame

from tempura.cli.shell import FAILED, NOTHING_TO_DO, Shell, example, prices, told
from tempura.errors import TempuraError
from tempura.explain.paces import cut_tree, explain_paces, paces_json, paces_picture
from tempura.explain.text import ASSUMED
from tempura.pace.cut import Cut
from tempura.plan.progressive import Step
from tempura.warehouse.declared.declare import NO_DEMAND, REQUIRED
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.runs.report import HistoryEntry, QueryPlan, RunReport, flush_text, listed
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.together import Asked, Outcome

Command = Callable[..., None]

name_argument = click.argument("name", metavar="QUERY")
methods_option = click.option(
    "--methods", help="Incremental methods to choose from: all, or im1,batch …; those declared, else all, unless given."
)
require_option = click.option(
    "--require",
    type=click.Choice((REQUIRED, NO_DEMAND)),
    help="incremental: refuse, rather than to recompute the whole query; none: do not. As declared unless given.",
)
budget_option = click.option(
    "--state-budget",
    metavar="SIZE",
    help='The most that states may take on disk, such as "200 MB"; none: any. As declared unless given.',
)
storage_option = click.option(
    "--storage-price",
    type=float,
    metavar="SECONDS",
    help="CPU seconds that each GB of a state counts as which a plan keeps; 0: none. As declared unless given.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for a program.")


def method_names(text: str | None) -> str | list[str] | None:
    """``all`` as it is, ``im1,batch`` as a list; None when nothing was given."""
    if text is None:
        return None
    names = [part.strip() for part in text.split(",") if part.strip()]
    return text if names == ["all"] else names


@click.command(epilog=example("tempura plan revenue --times 12:00=0.2,24:00=1 --methods im1,batch"))
@name_argument
@methods_option
@click.option("--times", help="What if: plan over these runs, TIME=PRICE,TIME=PRICE … The result is due at the last.")
@click.option("--html", "page", type=click.Path(dir_okay=False), help="Write the whole plan to this file, as a page.")
@require_option
@json_option
@click.pass_obj
def plan(
    shell: Shell,
    name: str,
    methods: str | None,
    times: str | None,
    page: str | None,
    require: str | None,
    as_json: bool,
) -> None:
    """Show what is planned, and why.

    The runs that remain, and what the alternatives would cost. Of a query with --until the paths with their paces.
    """
    schedule = Schedule.progressive(prices(times.split(","))) if times else None
    if schedule is None and isinstance(paced := shell.warehouse.query(name), PacedQuery):
        plan_paces(shell, paced, as_json, page)
        return
    with shell.progress("planning"):
        found = shell.warehouse.query(name).plan(method_names(methods), schedule, require)
    if page:
        found.save_html(page)
    if as_json:
        shell.json(found.to_json())
    else:
        print_plan(shell, found)


def plan_paces(shell: Shell, query: PacedQuery, as_json: bool, page: str | None) -> None:
    """The paces of a query's paths, with what they are expected to take."""
    with shell.progress("planning"):
        found, made = query.paces(), query.cut()
        drawn = query.paces_plan() if page else None
    if page and drawn:
        Path(page).write_text(paces_picture(drawn), encoding="utf-8")
    if as_json:
        shell.json(found.to_json() if found else None)
    elif found:
        shell.say(found.text(made))
    else:
        shell.say(*_not_planned(made))


def explain_query_at_paces(shell: Shell, query: PacedQuery, as_json: bool) -> None:
    """The paths, their paces, what a step more would be worth, and the points that the search came by."""
    with shell.progress("planning"):
        found, made = query.paces_plan(), query.cut()
    if as_json:
        shell.json(paces_json(found) if found else None)
    else:
        shell.say(*([explain_paces(found)] if found else _not_planned(made)))


def _not_planned(made: Cut) -> list[str]:
    """The paths of a query of whose tables nothing is known."""
    return ["no rows are there, and none are known to come: paces are planned with the first", *cut_tree(made).lines()]


def print_plan(shell: Shell, found: QueryPlan) -> None:
    """The plan's steps in a table, and why this plan."""
    rows = [
        (found.label(step.time), weight, step.cost / 1e9, len(step.saves), *does(found, step))
        for step, weight in zip(found.steps, found.plan.weights, strict=True)
    ]
    shell.table(("time", "price", "estimated CPU s", "states saved", "result", "does"), rows)
    shell.say(why(found), *(f"recomputed: {reason}" for reason in found.plan.fallbacks))
    if found.assumed:
        shell.say(ASSUMED, *(f"  {line}" for line in found.assumed))
    shell.say(*(f"waiting: {text}" for text in found.waiting))
    shell.say(*found.remarks)


def does(found: QueryPlan, step: Step) -> tuple[str, str]:
    """Whether a step has a result, and what it does to it."""
    return "yes" if step.emit is not None else "", str(found.does.get(step.time, ""))


def why(found: QueryPlan) -> str:
    """One line: the method chosen, and what each of the others would cost."""
    others = sorted((a.cost, a.method) for a in found.plan.alternatives if not a.chosen)
    compared = ", ".join(f"{method} {cost / 1e9:,.2f} s" for cost, method in others)
    chosen = f"method {found.method}: weighted cost {found.cost / 1e9:,.2f} s"
    return f"{chosen}; alternatives: {compared}" if compared else chosen


@click.command(epilog=example("tempura explain revenue --step 19:00 --show cost,rule,rules"))
@name_argument
@click.option("--step", help="Only the step of this time; for a run of the past, its plan and what happened.")
@click.option(
    "--show",
    default="cost,rows",
    show_default=True,
    help="Beside each operator: cost, rows, method, rule, view. Below the plan: rules, memo, steps.",
)
@methods_option
@require_option
@json_option
@click.pass_obj
def explain(
    shell: Shell, name: str, step: str | None, show: str, methods: str | None, require: str | None, as_json: bool
) -> None:
    """Show a plan in full.

    The operators of each step, what is saved, and what every alternative would cost. With --show rules, for each part of the plan the
    method and the rule that it came from; memo: the classes of equal expressions, and the laws that made their members; steps: what each
    rule does to the best plan, which plans once for each rule.

    Of a query with --until the paths with their paces, as they would be planned now: what a step more of each would save, and the final
    and total work of what the search came by. As a picture: tempura plan --html.
    """
    with shell.progress("planning"):
        query = shell.warehouse.query(name)
        past = [entry for entry in query.steps() if step and step in (str(entry.slot), entry.slot.label)]
    if isinstance(query, PacedQuery) and not step:
        explain_query_at_paces(shell, query, as_json)
        return
    with shell.progress("planning"):
        future = None if past else query.plan(method_names(methods), require=require)
    if future and as_json:
        shell.json(future.to_json(show))
    elif past and as_json:
        shell.json([entry.to_json() for entry in query.history() if entry.n == past[-1].n])
    elif past:
        shell.say(past[-1].plan)
        print_history(shell, [entry for entry in query.history() if entry.n == past[-1].n])
    elif future:
        shell.say(future.explain(show, step), *(f"waiting: {text}" for text in future.waiting))


@click.command(epilog=example("tempura run revenue --at 19:00", "tempura run report --follow", "tempura run --all"))
@click.argument("names", metavar="[QUERY]...", nargs=-1)
@click.option("--all", "every_query", is_flag=True, help="Run all queries that are declared.")
@click.option("--at", help="Run this time of the schedule, which is due or came earlier.")
@click.option("--now", is_flag=True, help="Run outside the schedule: all that has arrived, with a result.")
@click.option("--force", is_flag=True, help="With --at: also a time that has not come. Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option(
    "--follow", is_flag=True, help="Of a query with a deadline (--until): flush what is due until then, a line each."
)
@click.option(
    "--every", default=5.0, show_default=True, help="With --follow: how many seconds to wait between two looks."
)
@methods_option
@require_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    names: tuple[str, ...],
    every_query: bool,
    at: str | None,
    now: bool,
    force: bool,
    dry_run: bool,
    follow: bool,
    every: float,
    methods: str | None,
    require: str | None,
    as_json: bool,
) -> None:
    """Run the next step that is due.

    Several queries, or all, share one start of Spark. A query runs after those whose results it reads; one that fails does not keep
    the others from running. With --json an object per line is printed for them.

    Of a query with a deadline: flush the paths that are due, all of them when it has come. With --follow a line is printed for each flush,
    with --json an object per line.

    Exit code 0: done, 1: one failed, 3: nothing to do for any. A time of --at that has not come is run after a question, on a terminal,
    or with --force.
    """
    shell = ctx.ensure_object(Shell)
    if bool(names) == every_query:
        raise click.UsageError("Name queries, or give --all.")
    shell.runs_steps = True
    if follow:
        if at or now or force or dry_run or every_query or len(names) > 1:
            raise click.UsageError("--follow goes with one query, and with none of --at, --now, --force and --dry-run.")
        follow_flushes(shell, names[0], every, method_names(methods), require, as_json)
        return
    asked: Asked = {"at": at, "methods": method_names(methods), "dry_run": dry_run, "now": now, "force": force}
    asked["require"] = require
    if len(names) == 1:
        reports: tuple[RunReport, ...] = (run_one(shell, names[0], asked, as_json),)
    else:
        reports = run_several(shell, names, asked, as_json)
    ctx.exit(NOTHING_TO_DO if all(report.nothing for report in reports) else 0)


def run_one(shell: Shell, name: str, asked: Asked, as_json: bool) -> RunReport:
    """Run a query and print its report; on a terminal, ask before a time that has not come."""
    try:
        report = execute(shell, name, asked)
    except TempuraError as error:
        if error.code != "TIME_AHEAD" or as_json or not shell.is_asked(f"{error.what} Run it all the same?"):
            raise
        report = execute(shell, name, asked | {"force": True})
    if as_json:
        shell.json(report.to_json())
    else:
        print_report(shell, report)
    return report


def run_several(shell: Shell, names: Sequence[str], asked: Asked, as_json: bool) -> tuple[RunReport, ...]:
    """Run queries, all if none is named, and print what became of each at once. Raises TempuraError RUNS_FAILED if one failed."""
    with shell.progress("running") as progress:

        def tell(outcome: Outcome) -> None:
            if as_json:
                click.echo(json.dumps(outcome_json(outcome), default=str, ensure_ascii=False))
            elif outcome.report:
                print_report(shell, outcome.report)
            elif outcome.error:
                shell.fail(outcome.error, outcome.query)

        reports = shell.warehouse.run(names, tell, **(asked | {"progress": progress}))
    if not reports and not as_json:
        shell.say("no query is declared")
    return reports


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """A report as plain data, or of an error ``query``, and ``error`` with its code, what is wrong and what to do."""
    if outcome.error is None:
        return outcome.report.to_json() if outcome.report else {}
    return {"query": outcome.query, "error": dict(zip(("code", "what", "remedy"), told(outcome.error), strict=True))}


def follow_flushes(
    shell: Shell, name: str, every: float, methods: str | list[str] | None, require: str | None, as_json: bool
) -> None:
    """Flush what is due until the last flush has been, and say so at once, in a pipe too. Raises TempuraError BAD_RUN for a query without
    a deadline."""
    query = shell.warehouse.query(name)
    if not isinstance(query, PacedQuery):
        what = f"Query {name} has no deadline up to which it could be followed."
        raise TempuraError("BAD_RUN", what, "Declare it with Schedule.paced.", "Declare it with --until.")

    def tell(report: RunReport) -> None:
        click.echo(json.dumps(report.to_json(), default=str) if as_json else flush_line(report))

    with shell.progress(f"following {name}") as progress:
        query.follow(tell, every, progress, methods=methods, require=require)


def flush_line(report: RunReport) -> str:
    """A flush in one line."""
    rows = "" if report.rows is None else f", {report.rows:,} rows"
    predicted = "" if report.predicted_cost is None else f" ({report.predicted_cost / 1e9:,.2f} predicted)"
    took = f"{report.all_cpu_seconds:,.2f} CPU s{predicted}, {report.run_wall_seconds:,.1f} s"
    failed = "".join(f"; {reason}" for reason in report.fallbacks)
    return f"{report.label} at {report.progress or 0:.1%}: {', '.join(report.paths)}{rows}; {took}{failed}"


def execute(shell: Shell, name: str, asked: Asked) -> RunReport:
    """Run a query, saying on a terminal what is done."""
    with shell.progress(f"running {name}") as progress:
        return shell.warehouse.query(name).run(**(asked | {"progress": progress}))


def print_report(shell: Shell, report: RunReport) -> None:
    """What a run did, estimated against actual."""
    shell.say(report.table())


@click.command(epilog=example("tempura result revenue --limit 10"))
@name_argument
@click.option("--limit", default=100, show_default=True, help="At most this many rows; 0 for all.")
@json_option
@click.pass_obj
def result(shell: Shell, name: str, limit: int, as_json: bool) -> None:
    """Print the last committed result."""
    with shell.progress("reading"):
        found = Rows.of(shell.warehouse.query(name).result(), limit)
    found.print(shell, as_json)


@click.command(epilog=example("tempura changes revenue --json"))
@name_argument
@click.option("--limit", default=100, show_default=True, help="At most this many rows; 0 for all.")
@json_option
@click.pass_obj
def changes(shell: Shell, name: str, limit: int, as_json: bool) -> None:
    """Compare the last result with the one before.

    Rows, whether they were inserted or deleted, and how often.
    """
    with shell.progress("comparing"):
        found = Rows.of(shell.warehouse.query(name).changes(), limit)
    found.print(shell, as_json)


class Rows:
    """Rows fetched from Spark, to be printed; ``more`` says that there were more than asked for."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> None:
        self.columns = columns
        self.rows = rows
        self.more = more

    @staticmethod
    def of(df: DataFrame, limit: int) -> "Rows":
        """The first ``limit`` rows, all when it is 0."""
        rows = df.take(limit + 1) if limit else df.collect()
        kept = rows[:limit] if limit else rows
        return Rows(df.columns, [tuple(row) for row in kept], len(rows) > len(kept))

    def print(self, shell: Shell, as_json: bool) -> None:
        """As a table, or as JSON with the columns' names and one list per row (names may repeat)."""
        if as_json:
            rows = [[plain(value) for value in row] for row in self.rows]
            shell.json({"columns": list(self.columns), "rows": rows, "more": self.more})
            return
        self.table(shell)
        more = "; more with --limit" if self.more else ""
        shell.say(f"{len(self.rows):,} rows{more}")

    def table(self, shell: Shell) -> None:
        """As a table, values as Spark gives them."""
        shell.table(self.columns, self.rows, lambda value: "NULL" if value is None else str(value))


def plain(value: Any) -> Any:
    """A value for JSON: numbers and booleans as they are, binary as hex, nested values by their parts, the rest as text."""
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


@click.command(epilog=example("tempura verify revenue"))
@name_argument
@json_option
@click.pass_context
def verify(ctx: click.Context, name: str, as_json: bool) -> None:
    """Recompute the last result and compare.

    The query is run by Spark alone, over the same rows. Exit code 0: equal, 1: not.
    """
    shell = ctx.ensure_object(Shell)
    with shell.progress("recomputing"):
        found = shell.warehouse.query(name).verify()
    if as_json:
        data = {"equal": found.equal, "rows": found.rows, "missing": found.missing, "extra": found.extra}
        shell.json(data | {"how": found.how})
    else:
        shell.say(str(found))
    ctx.exit(0 if found.equal else FAILED)


@click.command(epilog=example("tempura history revenue"))
@name_argument
@json_option
@click.pass_obj
def history(shell: Shell, name: str, as_json: bool) -> None:
    """List the runs of a query and their cost."""
    with shell.progress("reading"):
        entries = shell.warehouse.query(name).history()
    if as_json:
        shell.json([entry.to_json() for entry in entries])
    else:
        print_history(shell, entries)


def print_history(shell: Shell, entries: Sequence[HistoryEntry]) -> None:
    """Runs in a table."""
    head = (
        "run", "time", "method", "does", "price", "estimated CPU s", "tasks s", "driver s", "wall s",
        "beside s", "rows", "states", "skipped",
    )  # fmt: skip
    flushes = [entry for entry in entries if entry.paths]
    shell.table(head, map(history_row, entries))
    shell.say(*(f"{entry.label} {flush_text(entry.paths, entry.progress, entry.predicted_cost)}" for entry in flushes))
    shell.say(*(f"run {entry.n} {line}" for entry in entries if entry.does for line in entry.does.lines()))


def history_row(entry: HistoryEntry) -> tuple[object, ...]:
    """A run as a row of a table."""
    seconds = (
        entry.estimated_cost / 1e9,
        entry.cpu_seconds,
        entry.driver_seconds,
        entry.wall_seconds,
        entry.beside_seconds,
    )
    skipped = listed(entry.skipped)
    does = str(entry.does) if entry.does else ""
    return (entry.n, entry.label, entry.method, does, entry.weight, *seconds, entry.rows, entry.states, skipped)
