"""Prices of the driver are corrected by what it took in earlier runs of a query; bounded, and told."""

from dataclasses import replace
from typing import Any

import pytest

from tempura.cost.model import SPARK
from tempura.execute.contract import Usage
from tempura.warehouse.times.correction import BEGUN, NONE, WARM, WARM_STEPS, WARMING, Correction, correction_of
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.steps import StepManifest
from tests.unit.test_warehouse import FIRST, SECOND, World, world

__all__ = ["world"]

S = 1_000_000_000


@pytest.fixture
def step(world: World) -> StepManifest:
    query = world.query(Schedule.view())
    world.put("a", FIRST)
    query.run()
    return query.steps()[0]


def runs(step: StepManifest, *driver: float, fixed: int = S, steps_run: int | None = WARM_STEPS) -> list[StepManifest]:
    return [replace(step, driver_seconds=s, estimated_fixed=fixed, steps_run=steps_run) for s in driver]


def after_the_first(step: StepManifest, *driver: float, **known: Any) -> list[StepManifest]:
    """The same after a first load, which took a minute."""
    return [*runs(step, 60.0, **known), *runs(step, *driver, **known)]


def warm(found: list[StepManifest]) -> Correction:
    return correction_of(found, WARM_STEPS)


def test_a_few_runs_say_nothing(step: StepManifest) -> None:
    assert warm([]) == warm(after_the_first(step, 6.0, 6.0)) == NONE
    # Of before it was noted, or without work.
    assert warm(after_the_first(step, *[6.0] * 9, fixed=0)) == NONE


def test_the_middle_of_the_last_runs_counts(step: StepManifest) -> None:
    assert warm(after_the_first(step, 2.0, 90.0, 3.0)) == Correction(3.0, 3)
    assert warm(after_the_first(step, *[90.0] * 20, *[0.5] * 7)) == Correction(0.5, 7)


def test_it_is_bounded(step: StepManifest) -> None:
    assert warm(after_the_first(step, *[900.0] * 3)) == Correction(8.0, 3)
    assert warm(after_the_first(step, *[0.0] * 3)) == Correction(0.125, 3)


def test_the_first_load_does_not_count(step: StepManifest) -> None:
    assert warm(runs(step, 60.0, 2.0, 2.0)) == NONE
    assert warm(runs(step, 8.0, 2.0, 4.0, 6.0)) == Correction(4.0, 3)


def test_what_tasks_make_the_driver_do_says_nothing_of_other_plans(step: StepManifest) -> None:
    """A recomputation of ten seconds of tasks keeps collector and compiler busy in the same process; a plan of as many operators over few
    rows would not."""

    def heavy(driver: float, tasks: float) -> float:
        runs = [replace(run, cpu_seconds=tasks) for run in after_the_first(step, *[driver] * 3)]
        return correction_of(runs, WARM_STEPS, beside_tasks=0.2).fixed

    assert heavy(3.0, 0.0) == 3.0
    assert heavy(3.0, 5.0) == 2.0
    # What was expected of the driver it has taken by itself, and no run tells less of it.
    assert heavy(3.0, 50.0) == 1.0
    assert heavy(0.5, 50.0) == 0.5
    # Where tasks run elsewhere, all of it is the driver's.
    assert warm([replace(run, cpu_seconds=50.0) for run in after_the_first(step, *[3.0] * 3)]).fixed == 3.0


def test_cold_runs_are_estimated_by_cold_ones_and_warm_ones_by_warm_ones(step: StepManifest) -> None:
    """A program runs the query each morning three times, after nothing, little and much else."""
    days = [
        run
        for _ in range(4)
        for run in (*runs(step, 6.0, steps_run=0), *runs(step, 3.0, steps_run=4), *runs(step, 1.5, steps_run=30))
    ]
    assert correction_of(days, 0) == Correction(6.0, 3, BEGUN)
    assert {correction_of(days, n) for n in (1, WARM_STEPS - 1)} == {Correction(3.0, 4, WARMING)}
    assert {correction_of(days, n) for n in (WARM_STEPS, 999)} == {Correction(1.5, 4, WARM)}
    for n, told in ((0, "that began with them"), (1, "that were warming up"), (99, "of warm sessions")):
        assert told in correction_of(days, n).text
    # Of one kind nothing is said of another.
    assert correction_of(after_the_first(step, *[6.0] * 9, steps_run=0), 99) == NONE


def test_a_session_that_has_just_become_warm_goes_on_with_what_is_known(step: StepManifest) -> None:
    warming = after_the_first(step, *[2.0] * 4, steps_run=4)
    assert warm(warming) == Correction(2.0, 4, WARMING)
    assert "that were warming up" in warm(warming).text
    # Until there are enough of its own.
    assert warm([*warming, *runs(step, 1.0, 1.0)]) == Correction(2.0, 4, WARMING)
    assert warm([*warming, *runs(step, 1.0, 1.0, 1.0)]) == Correction(1.0, 3, WARM)
    # The other way it does not hold.
    assert correction_of(after_the_first(step, *[2.0] * 4), 4) == NONE


def test_of_old_runs_nobody_knows_how_warm_they_were(step: StepManifest) -> None:
    old = after_the_first(step, *[6.0] * 9, steps_run=None)
    assert {correction_of(old, n) for n in (0, 1, 99)} == {NONE}


def test_runs_that_were_estimated_by_other_prices_do_not_count(step: StepManifest) -> None:
    measured = "calibrated 2026-11-22 19:30 UTC"
    before = after_the_first(step, *[6.0] * 9)
    assert correction_of(before, WARM_STEPS, measured) == NONE
    after = [*before, *(replace(run, prices=measured) for run in runs(step, 2.0, 2.0, 2.0))]
    assert correction_of(after, WARM_STEPS, measured) == Correction(2.0, 3)
    assert warm(after) == Correction(6.0, 7)


def test_manifests_of_before_it_was_noted_are_read(step: StepManifest) -> None:
    data = {n: v for n, v in step.to_json().items() if n not in ("steps_run", "prices")}
    assert StepManifest.from_json(data) == replace(step, steps_run=None)
    noted = replace(step, steps_run=3, prices="calibrated")
    assert StepManifest.from_json(noted.to_json()) == noted


def test_prices_by_row_stay() -> None:
    found = SPARK.scaled(3.0)
    assert (found.job, found.scan, found.node) == (3 * SPARK.job, 3 * SPARK.scan, 3 * SPARK.node)
    assert (found.shuffle_row, found.read_byte, found.broadcast_bytes) == (
        SPARK.shuffle_row,
        SPARK.read_byte,
        SPARK.broadcast_bytes,
    )
    assert SPARK.parts(lambda model: model.write(1_000_000, 10.0, shuffled=True)) == (
        SPARK.write(1_000_000, 10.0, shuffled=True),
        SPARK.job + SPARK.exchange,
    )


def test_a_query_learns_from_its_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver takes four times what was expected, and the next estimates say so; what is noted of a run is by prices as they were."""
    world.engine.is_measured = True
    world.engine.steps_run = 50
    execute, query = world.engine.execute, world.query(Schedule.view())

    def slow(work: object) -> object:
        outcome = execute(work)  # type: ignore[arg-type]
        fixed = 0.5 * work.step.fixed / 1e9  # type: ignore[attr-defined]
        return replace(outcome, usage=Usage(cpu_seconds=0.1, driver_seconds=8 * fixed))

    world.put("a", FIRST)
    first = query.plan(methods="batch")
    assert first.correction == NONE
    assert 0 < first.steps[0].fixed <= first.steps[0].cost
    monkeypatch.setattr(world.engine, "execute", slow)
    for n in range(4):
        world.put(f"b{n}", SECOND)
        assert query.plan().correction == NONE
        query.run(methods="batch")
    world.put("c", SECOND)
    plan = query.plan(methods="batch")
    assert plan.correction == Correction(4.0, 3)
    text = "prices of the driver x 4.0: what the last 3 runs of warm sessions took"
    assert text in plan.explain()
    assert plan.to_json()["correction"] == {"fixed": 4.0, "runs": 3, "warmth": WARM}
    assert plan.steps[0].fixed == pytest.approx(4 * first.steps[0].fixed, rel=0.01)
    report = query.run(methods="batch")
    assert report.estimated_cost == plan.steps[0].cost
    assert query.steps()[-1].estimated_fixed == pytest.approx(first.steps[0].fixed, rel=0.01)
    assert StepManifest.from_json(query.steps()[-1].to_json()) == query.steps()[-1]
    # The next session has just begun: these runs were not like its first one.
    assert query.steps()[-1].steps_run == 50
    world.engine.steps_run = 0
    world.put("d", SECOND)
    assert query.plan(methods="batch").correction == NONE


def test_a_plan_says_from_what_prices_it_is(world: World) -> None:
    query = world.query(Schedule.view())
    world.put("a", FIRST)
    assert "prices: built in" in query.plan().explain()
    assert query.plan().to_json()["prices"] == "built in"
    query.run()
    assert query.steps()[0].prices == "built in"
    measured = "calibrated 2026-11-22 19:30 UTC"
    world.engine.prices = replace(world.engine.prices, origin=measured)
    world.put("b", SECOND)
    assert f"prices: {measured}" in query.plan().explain()
    query.run()
    assert query.steps()[1].prices == measured
