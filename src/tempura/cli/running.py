"""Commands for which queries are computed, one or several in one process: ``run``, ``verify``."""

from collections.abc import Sequence
from typing import Any

import click

from tempura.cli.options import beside, json_option, method_names, methods_option, require_option, several_argument
from tempura.cli.shell import FAILED, NOTHING_TO_DO, Shell, example, told
from tempura.errors import TempuraError
from tempura.execute.interrupt import terminated_as_interrupted
from tempura.warehouse.engine import Verification
from tempura.warehouse.following import EVERY
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.together import Asked, Outcome, T


@click.command(epilog=example("tempura run revenue --at 19:00", "tempura run report --follow", "tempura run --all"))
@several_argument
@click.option("--all", "every_query", is_flag=True, help="Run all queries that are declared.")
@click.option("--at", help="Run this time of the schedule, which is due or came earlier.")
@click.option("--now", is_flag=True, help="Run outside the schedule: all that has arrived, with a result.")
@click.option("--force", is_flag=True, help="With --at: also a time that has not come. Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--follow", is_flag=True, help="Stay, and run whatever is due whenever it is, a line each.")
@beside("--follow")(
    "--every",
    default=EVERY,
    show_default=True,
    help="how many seconds to wait between two looks.",
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

    Of a query with a deadline: flush the paths that are due, all of them when it has come.

    With --follow the command stays, so that Spark is started once: it looks every few seconds, refreshes views in which rows have come,
    runs what has its time, and prints a line for each run, with --json an object per line. What fails is told on standard error, and tried
    again later. It ends when no query will be due any more, as those with a deadline that has passed, else by Ctrl-C or SIGTERM.

    Exit code 0: done, 1: one failed, 3: nothing to do for any, 130: stopped. A time of --at that has not come is run after a question, on
    a terminal, or with --force.
    """
    shell = ctx.ensure_object(Shell)
    check_named(names, every_query)
    shell.runs_steps = True
    if follow:
        if at or now or force or dry_run:
            raise click.UsageError("--follow goes with none of --at, --now, --force and --dry-run.")
        follow_all(shell, names, every, {"methods": method_names(methods), "require": require}, as_json)
        return
    asked: Asked = {"at": at, "methods": method_names(methods), "dry_run": dry_run, "now": now, "force": force}
    asked["require"] = require
    if len(names) == 1:
        reports: tuple[RunReport, ...] = (run_one(shell, names[0], asked, as_json),)
    else:
        reports = run_several(shell, names, asked, as_json)
    ctx.exit(NOTHING_TO_DO if all(report.nothing for report in reports) else 0)


def check_named(names: Sequence[str], every_query: bool) -> None:
    """Raises click.UsageError unless queries are named or all of them are meant."""
    if bool(names) == every_query:
        raise click.UsageError("Name queries, or give --all.")


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

        def tell(outcome: Outcome[RunReport]) -> None:
            if as_json:
                shell.json_line(outcome_json(outcome))
            elif outcome.found:
                print_report(shell, outcome.found)
            elif outcome.error:
                shell.fail(outcome.error, outcome.query)

        reports = shell.warehouse.run(names, tell, **(asked | {"progress": progress}))
    if not reports and not as_json:
        shell.say("no query is declared")
    return reports


def outcome_json(outcome: Outcome[RunReport]) -> dict[str, Any]:
    """A report as plain data, or of an error ``query``, and ``error`` with its code, what is wrong and what to do."""
    if outcome.error is None:
        return outcome.found.to_json() if outcome.found else {}
    return {"query": outcome.query} | error_json(outcome.error)


def error_json(error: BaseException | None) -> dict[str, Any]:
    """An error, if there is one, as plain data: its code, what is wrong and what to do."""
    return {"error": dict(zip(("code", "what", "remedy"), told(error), strict=True))} if error else {}


def follow_all(shell: Shell, names: Sequence[str], every: float, asked: Asked, as_json: bool) -> None:
    """Run queries, all if none is named, whenever they are due, and say so at once, in a pipe too."""

    def tell(outcome: Outcome[RunReport]) -> None:
        if as_json:
            shell.json_line(outcome_json(outcome))
        elif outcome.found:
            shell.write(run_line(outcome.found, named=len(names) != 1))
        elif outcome.error:
            shell.fail(outcome.error, outcome.query)

    what = f"following {', '.join(names) or 'all queries'}"
    with terminated_as_interrupted(), shell.progress(what) as progress:
        shell.warehouse.follow(names, tell, every, **(asked | {"progress": progress}))


def run_line(report: RunReport, named: bool) -> str:
    """A run in one line, with the query's name or not."""
    of = f"{report.query}: " if named else ""
    rows = "" if report.rows is None else f", {report.rows:,} rows"
    predicted = "" if report.predicted_cost is None else f" ({report.predicted_cost / 1e9:,.2f} predicted)"
    took = f"{report.all_cpu_seconds:,.2f} CPU s{predicted}, {report.run_wall_seconds:,.1f} s"
    if not report.paths:
        return f"{of}{report.label}: {report.does or report.method}{rows}; {took}"
    failed = "".join(f"; {reason}" for reason in report.fallbacks)
    return f"{of}{report.label} at {report.progress or 0:.1%}: {', '.join(report.paths)}{rows}; {took}{failed}"


def execute(shell: Shell, name: str, asked: Asked) -> RunReport:
    """Run a query, saying on a terminal what is done."""
    with shell.progress(f"running {name}") as progress:
        return shell.warehouse.query(name).run(**(asked | {"progress": progress}))


def print_report(shell: Shell, report: RunReport) -> None:
    """What a run did, estimated against actual."""
    shell.say(report.table())


@click.command(epilog=example("tempura verify revenue", "tempura verify --all"))
@several_argument
@click.option("--all", "every_query", is_flag=True, help="Verify all queries that have a result.")
@json_option
@click.pass_context
def verify(ctx: click.Context, names: tuple[str, ...], every_query: bool, as_json: bool) -> None:
    """Recompute the last result and compare.

    The query is run by Spark alone, over the same rows. Several queries, or all, share one start of Spark; one that cannot be verified does
    not keep the others from it. With --json an object per line is printed for them.

    Exit code 0: equal, 1: not, or one could not be verified, 3: none of all has a result.
    """
    shell = ctx.ensure_object(Shell)
    check_named(names, every_query)
    ctx.exit(verify_one(shell, names[0], as_json) if len(names) == 1 else verify_several(shell, names, as_json))


def verify_one(shell: Shell, name: str, as_json: bool) -> int:
    """Verify a query, and print what is found. Returns the exit code."""
    with shell.progress("recomputing"):
        found = shell.warehouse.query(name).verify()
    if as_json:
        shell.json(verification_json(found))
    else:
        shell.say(str(found))
    return 0 if found.equal else FAILED


def that_count(outcomes: Sequence[Outcome[T]], names: Sequence[str]) -> list[Outcome[T]]:
    """Of those named all; of all queries those that have a result."""
    return [outcome for outcome in outcomes if names or not outcome.is_without_result]


def verify_several(shell: Shell, names: Sequence[str], as_json: bool) -> int:
    """Verify queries, all if none is named, and print what is found of each at once. Returns the exit code: of all queries, those without a
    result are none that fail."""
    with shell.progress("recomputing") as progress:

        def tell(outcome: Outcome[Verification]) -> None:
            if as_json:
                shell.json_line(verified_json(outcome))
            elif outcome.found is not None:
                shell.say(f"{outcome.query}: {outcome.found}")
            elif outcome.is_without_result and not names:
                shell.say(f"{outcome.query}: no result yet")
            elif outcome.error:
                shell.fail(outcome.error, outcome.query)

        outcomes = shell.warehouse.verify(names, tell, progress)
    if not outcomes and not as_json:
        shell.say("no query is declared")
    counted = that_count(outcomes, names)
    if not counted:
        return NOTHING_TO_DO
    wrong = [outcome.query for outcome in counted if not outcome.found]
    if not as_json:
        failed = f"; not: {', '.join(wrong)}" if wrong else ""
        shell.say(f"{len(counted) - len(wrong)} of {len(counted)} equal{failed}")
    return FAILED if wrong else 0


def verification_json(found: Verification) -> dict[str, Any]:
    """A verification as plain data."""
    data = {"equal": found.equal, "rows": found.rows, "missing": found.missing, "extra": found.extra}
    return data | {"how": found.how}


def verified_json(outcome: Outcome[Verification]) -> dict[str, Any]:
    """The query, and its verification as plain data, or the error that it ended with."""
    found = {} if outcome.found is None else verification_json(outcome.found)
    return {"query": outcome.query} | found | error_json(outcome.error)
