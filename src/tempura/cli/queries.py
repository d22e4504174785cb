"""Commands that look at one query: ``plan``, ``explain``, ``result``, ``changes``, ``history``."""

import datetime
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame

from tempura.cli.options import json_option, method_names, methods_option, name_argument, require_option
from tempura.cli.shell import Shell, example, prices
from tempura.explain.paces import cut_tree, explain_paces, paces_json, paces_picture
from tempura.explain.text import ASSUMED
from tempura.pace.cut import Cut
from tempura.plan.progressive import Step
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.runs.entries import HistoryEntry
from tempura.warehouse.runs.query_plan import QueryPlan
from tempura.warehouse.runs.report import flush_text, listed
from tempura.warehouse.times import phases
from tempura.warehouse.times.schedule import Schedule

Command = Callable[..., None]


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
    help="Beside each operator: cost, rows, join, method, rule, view. Below the plan: rules, memo, steps.",
)
@methods_option
@require_option
@json_option
@click.pass_obj
def explain(
    shell: Shell, name: str, step: str | None, show: str, methods: str | None, require: str | None, as_json: bool
) -> None:
    """Show a plan in full.

    The operators of each step, what is saved, and what every alternative would cost. With --show join how each join is to be carried out:
    a side sent to every task, or held in a table by each, or both sorted; what Spark did instead is told by history. With --show rules,
    for each part of the plan the method and the rule that it came from; memo: the classes of equal expressions, and the laws that made
    their members; steps: what each rule does to the best plan, which plans once for each rule.

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
        shell.json(future.to_json(show, step))
    elif past and as_json:
        shell.json([entry.to_json() for entry in query.history() if entry.n == past[-1].n])
    elif past:
        shell.say(past[-1].plan)
        print_history(shell, [entry for entry in query.history() if entry.n == past[-1].n])
    elif future:
        shell.say(future.explain(show, step), *(f"waiting: {text}" for text in future.waiting))


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


@click.command(epilog=example("tempura history revenue"))
@name_argument
@json_option
@click.pass_obj
def history(shell: Shell, name: str, as_json: bool) -> None:
    """List the runs of a query and their cost.

    Tasks and driver are CPU time of the plan's step: of Spark's tasks, and of Spark's driver with Python. Beside is the time before and
    after the step. Below, the last run by phase, and which of its joins Spark carried out otherwise than planned. With --json all of it.
    """
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
    if entries and (last := entries[-1]).phases:
        shell.say(f"run {last.n}: {phases.text(last.phases)}")
    shell.say(*(f"run {entry.n} joined otherwise: {line}" for entry in entries[-1:] for line in entry.joins.otherwise))


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
