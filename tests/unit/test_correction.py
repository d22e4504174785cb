"""Prices of the driver are corrected by what it took in earlier runs of a query; bounded, and told."""

from dataclasses import replace

import pytest

from tempura.cost.model import SPARK
from tempura.execute.contract import Usage
from tempura.warehouse.correction import NONE, Correction, correction_of
from tempura.warehouse.schedule import Schedule
from tempura.warehouse.steps import StepManifest
from tests.unit.test_warehouse import FIRST, SECOND, World, world

__all__ = ["world"]

S = 1_000_000_000


@pytest.fixture
def step(world: World) -> StepManifest:
    query = world.query(Schedule.view())
    world.put("a", FIRST)
    query.run()
    return query.steps()[0]


def runs(step: StepManifest, *driver: float, fixed: int = S) -> list[StepManifest]:
    return [replace(step, driver_seconds=seconds, estimated_fixed=fixed) for seconds in driver]


def test_a_few_runs_say_nothing(step: StepManifest) -> None:
    assert correction_of([]) == correction_of(runs(step, 6.0, 6.0)) == NONE
    # Of before it was noted, or without work.
    assert correction_of(runs(step, *[6.0] * 9, fixed=0)) == NONE


def test_the_middle_of_the_last_runs_counts(step: StepManifest) -> None:
    assert correction_of(runs(step, 2.0, 90.0, 3.0)) == Correction(3.0, 3)
    assert correction_of(runs(step, *[90.0] * 20, *[0.5] * 7)) == Correction(0.5, 7)


def test_it_is_bounded(step: StepManifest) -> None:
    assert correction_of(runs(step, *[900.0] * 3)) == Correction(8.0, 3)
    assert correction_of(runs(step, *[0.0] * 3)) == Correction(0.125, 3)


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
        SPARK.job + SPARK.file + SPARK.exchange,
    )


def test_a_query_learns_from_its_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver takes four times what was expected, and the next estimates say so; what is noted of a run is by prices as they were."""
    world.engine.is_measured = True
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
    for n in range(3):
        world.put(f"b{n}", SECOND)
        assert query.plan().correction == NONE
        query.run(methods="batch")
    world.put("c", SECOND)
    plan = query.plan(methods="batch")
    assert plan.correction == Correction(4.0, 3)
    text = "prices of the driver x 4.0: what the last 3 runs took"
    assert text in plan.explain()
    assert plan.to_json()["correction"] == {"fixed": 4.0, "runs": 3}
    assert plan.steps[0].fixed == pytest.approx(4 * first.steps[0].fixed, rel=0.01)
    report = query.run(methods="batch")
    assert report.estimated_cost == plan.steps[0].cost
    assert query.steps()[-1].estimated_fixed == pytest.approx(first.steps[0].fixed, rel=0.01)
    assert StepManifest.from_json(query.steps()[-1].to_json()) == query.steps()[-1]
