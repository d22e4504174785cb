"""Prices are corrected by what earlier runs of a query took: of rows by its tasks, the rest by the driver; bounded, and told."""

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


def runs(step: StepManifest, *taken: tuple[float, float], parts: tuple[int, int] = (2 * S, S)) -> list[StepManifest]:
    return [replace(step, cpu_seconds=c, driver_seconds=d, estimated_parts=parts) for c, d in taken]


def test_a_few_runs_say_nothing(step: StepManifest) -> None:
    assert correction_of([]) == correction_of(runs(step, (4.0, 6.0), (4.0, 6.0))) == NONE
    before = replace(step, estimated_parts=(0, 0))  # of before parts were noted, or without work
    assert correction_of([before] * 9) == NONE


def test_the_middle_of_the_last_runs_counts(step: StepManifest) -> None:
    found = correction_of(runs(step, (3.0, 2.0), (90.0, 90.0), (4.0, 3.0)))
    assert found == Correction(2.0, 3.0, 3)
    late = [*runs(step, *[(90.0, 90.0)] * 20), *runs(step, *[(1.0, 0.5)] * 7)]
    assert correction_of(late) == Correction(0.5, 0.5, 7)


def test_it_is_bounded(step: StepManifest) -> None:
    assert correction_of(runs(step, *[(900.0, 900.0)] * 3)) == Correction(4.0, 8.0, 3)
    assert correction_of(runs(step, *[(0.0, 0.0)] * 3)) == Correction(0.25, 0.125, 3)


def test_of_few_rows_tasks_say_nothing_about_rows(step: StepManifest) -> None:
    few = runs(step, *[(0.2, 2.0)] * 3, parts=(1_000_000, S))
    assert correction_of(few) == Correction(1.0, 2.0, 3)


def test_prices_by_row_and_others_are_multiplied_apart() -> None:
    found = SPARK.scaled(2.0, 3.0)
    assert (found.job, found.scan) == (3 * SPARK.job, 3 * SPARK.scan)
    assert (found.shuffle_row, found.read_byte, found.expressions) == (2 * SPARK.shuffle_row, 2 * SPARK.read_byte, 2.0)
    assert (found.broadcast_bytes, found.few_groups) == (SPARK.broadcast_bytes, SPARK.few_groups)
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
    assert plan.correction == Correction(1.0, 4.0, 3)
    text = "prices by row x 1.0, of the driver x 4.0: what the last 3 runs took"
    assert text in plan.explain()
    assert plan.to_json()["correction"] == {"rows": 1.0, "fixed": 4.0, "runs": 3}
    assert plan.steps[0].fixed == pytest.approx(4 * first.steps[0].fixed, rel=0.01)
    report = query.run(methods="batch")
    assert report.estimated_cost == plan.steps[0].cost
    rows, fixed = query.steps()[-1].estimated_parts
    assert fixed == pytest.approx(first.steps[0].fixed, rel=0.01)
    assert rows == pytest.approx(plan.steps[0].cost - plan.steps[0].fixed)
    assert StepManifest.from_json(query.steps()[-1].to_json()) == query.steps()[-1]
