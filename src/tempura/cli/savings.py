"""``tempura savings``: what runs took, against what plain Spark takes to recompute each result."""

from collections.abc import Sequence
from typing import Any

import click

from tempura.cli.options import beside, json_option, several_argument
from tempura.cli.running import check_named, error_json, that_count
from tempura.cli.shell import FAILED, NOTHING_TO_DO, Shell, example, percent
from tempura.warehouse.runs.savings import Recomputation, Savings
from tempura.warehouse.together import Outcome


@click.command(epilog=example("tempura savings", "tempura savings revenue --measure"))
@several_argument
@click.option(
    "--measure", is_flag=True, help="First let Spark alone recompute the last results, and note what that takes."
)
@beside("--measure")("--all", "every_query", is_flag=True, help="all queries that have a result.")
@json_option
@click.pass_context
def savings(ctx: click.Context, names: tuple[str, ...], measure: bool, every_query: bool, as_json: bool) -> None:
    """Tell what runs took, against recomputing each result.

    CPU seconds of all runs, each at its price, those that only looked and planned among them; and the seconds that runs with a result took.
    Recomputing is what was measured of plain Spark, over the same rows: a result over fewer rows counts in proportion, one over more as
    what was measured. So measure again from time to time. What a process takes to start is in neither.

    Without names all queries are told of. With --measure name them, or give --all: each is recomputed until that takes no less time, or a
    minute has passed, and the fastest counts.

    Exit code 0: done, 1: one could not be measured, or told of, 3: there is nothing to measure.
    """
    shell = ctx.ensure_object(Shell)
    code = 0
    if measure:
        check_named(names, every_query)
        code = measure_now(shell, names, as_json)
    with shell.progress("reading"):
        told = shell.warehouse.savings(names)
    if as_json:
        for outcome in told:
            shell.json_line(savings_json(outcome))
    else:
        print_savings(shell, told)
    ctx.exit(code or (FAILED if any(outcome.error for outcome in told) else 0))


def measure_now(shell: Shell, names: Sequence[str], as_json: bool) -> int:
    """Measure queries, all if none is named, and say what is found of each at once. Returns the exit code: of all queries, those without a
    result are none that fail."""
    with shell.stages() as progress:

        def tell(outcome: Outcome[Recomputation]) -> None:
            if outcome.found is not None and not as_json:
                shell.say(f"{outcome.query}: {outcome.found}")
            elif outcome.is_without_result and not names:
                progress(f"{outcome.query}: no result yet")
            elif outcome.error:
                shell.fail(outcome.error, outcome.query)

        outcomes = shell.warehouse.measure(names, tell, progress)
    counted = that_count(outcomes, names)
    if not counted:
        return NOTHING_TO_DO
    return FAILED if any(outcome.error for outcome in counted) else 0


def print_savings(shell: Shell, told: Sequence[Outcome[Savings]]) -> None:
    """Savings in a table, and below it why there are none."""
    found = [outcome.found for outcome in told if outcome.found is not None]
    head = ("query", "since", "runs", "results", "CPU s", "recomputed", "that is", "waited s", "recomputed", "that is")
    if told:
        shell.table(head, [savings_row(row) for row in found])
    else:
        shell.say("no query is declared")
    for row in found:
        if not row.runs and not row.left_out:
            shell.say(f"{row.query}: has not run")
        elif not row.measured:
            shell.say(f"{row.query}: not measured yet. Measure it: tempura savings {row.query} --measure")
        else:
            shell.say(f"{row.query}: {row.measured[-1]}, {row.measured[-1].time[:19]}")
        if row.left_out:
            why = "a table was reset since, or is not declared any more"
            shell.say(
                f"{row.query}: left out are {row.left_out:,} of its runs, over rows of which nothing is known: {why}"
            )
    for outcome in told:
        if outcome.error:
            shell.fail(outcome.error, outcome.query)


def savings_row(row: Savings) -> tuple[object, ...]:
    """A query as a row of the table."""
    if not row.runs:
        return (row.query, None, 0, 0, *[None] * 6)
    cpu = compared(row.cpu_seconds, row.recomputed_cpu_seconds)
    wall = compared(row.wall_seconds, row.recomputed_wall_seconds)
    return (row.query, row.since[:16] if row.since else None, row.runs, row.results, *cpu, *wall)


def compared(taken: float, recomputed: float | None) -> tuple[object, ...]:
    """What was taken, what recomputing takes, and how much less or more that is."""
    return taken, recomputed, None if recomputed is None else percent(taken, recomputed)


def savings_json(outcome: Outcome[Savings]) -> dict[str, Any]:
    """The query with its savings as plain data, or the error that it ended with."""
    found = {} if outcome.found is None else outcome.found.to_json()
    return {"query": outcome.query} | found | error_json(outcome.error)
