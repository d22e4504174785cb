"""``tempura calibrate``: measure the prices of the cost model on this machine, show them, forget them."""

from collections.abc import Iterator

import click

from tempura.bench.calibration import SECONDS, calibrate
from tempura.cli.options import json_option
from tempura.cli.shell import DONE, FAILED, NOTHING_TO_DO, Shell, example
from tempura.cost.calibration import Calibration, calibration_of, forget, keep
from tempura.execute.machine import machine_of


@click.command("calibrate", epilog=example("tempura calibrate --show"))
@click.option("--show", is_flag=True, help="Print what was measured, and measure nothing.")
@click.option("--forget", "forgotten", is_flag=True, help="Remove what was measured: prices are as built in again.")
@click.option("--force", is_flag=True, help="Keep the prices even if the machine was busy.")
@click.option(
    "--seconds",
    type=click.FloatRange(30, 150),
    default=SECONDS,
    show_default=True,
    help="How long to measure, about.",
)
@json_option
@click.pass_context
def calibrate_command(
    ctx: click.Context, show: bool, forgotten: bool, force: bool, seconds: float, as_json: bool
) -> None:
    """Measure what Spark's work costs on this machine.

    Plans compare costs. Their prices are built in, and of one machine; this measures them on yours, under the Spark configuration that
    commands use. It takes about two minutes, in which nothing else should run. Prices are kept in your cache folder, for this machine
    and this configuration, and plans say from what prices they are.

    Exit code 1 if the machine was too busy to measure: then nothing is kept, unless --force is given. 3 if there is nothing to show or
    forget.
    """
    if show and forgotten:
        raise click.UsageError("--show and --forget exclude each other.")
    shell = ctx.ensure_object(Shell)
    with shell.progress("starting Spark"):
        spark = shell.start_session()
    machine = machine_of(spark)
    if forgotten:
        gone = forget(machine)
        shell.say("Prices are as built in." if gone else f"Nothing was measured on this machine: {machine}")
        ctx.exit(DONE if gone else NOTHING_TO_DO)
    if show:
        found = calibration_of(machine)
        if found is None:
            shell.json(None) if as_json else shell.say(f"Nothing was measured on this machine: {machine}")
            ctx.exit(NOTHING_TO_DO)
        tell(shell, found, as_json)
        return
    with shell.stages() as progress:
        found = calibrate(spark, seconds, progress=progress)
    kept = force or not found.doubt
    path = keep(found) if kept else None
    tell(shell, found, as_json)
    if not as_json:
        shell.say(f"kept in {path}" if path else "Not kept: measure again when the machine is idle, or give --force.")
    ctx.exit(DONE if kept else FAILED)


def tell(shell: Shell, found: Calibration, as_json: bool) -> None:
    """What was measured, price by price, against what is built in."""
    if as_json:
        shell.json(found.to_json() | {"doubt": found.doubt})
        return
    shell.table(("price", "built in", "measured", "± %", "used", "x built in", ""), list(_rows(found)))
    shell.say(
        "",
        "in nanoseconds of one core: per row, per byte, or once each",
        f"measured {found.when} in {found.seconds:.0f} s, {found.rounds} rounds; the same job differed by {found.noise:.0%} in CPU time, "
        f"{found.waiting:.0%} in time that passed",
        f"of {found.machine}",
        *([f"Not to be trusted: {found.doubt}."] if found.doubt else ()),
    )


def _rows(found: Calibration) -> Iterator[tuple[object, ...]]:
    for price in found.prices:
        off = round(100 * price.error / price.found) if price.found > 0 else None
        yield price.name, price.built_in, round(price.found, 2), off, round(price.value, 2), price.factor, price.why
