"""Runs at times that are no dearer than a later one before the result is due: nothing is planned for them, which is told."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tempura.errors import TempuraError
from tempura.plan.progressive import ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.times.schedule import Schedule
from tests.unit.test_warehouse import FIRST, SECOND, World, code

NIGHT = Schedule.progressive({"01:00": 0.25, "02:00": 0.25, "03:00": 0.25, "04:00": 0.25, "06:00": 1.0})


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lake.mkdir(parents=True)
    world.now = datetime(2026, 3, 1, 1, 30, tzinfo=UTC)
    return world


def test_a_plan_says_at_which_times_nothing_is_to_be_done_and_why(world: World) -> None:
    query = world.query(NIGHT)
    world.put("a", FIRST)
    plan = query.plan()
    assert plan.labels == ("04:00", "06:00")
    text = "nothing at 2026-03-01 01:00, 02:00, 03:00: it may as well be done at the next time, at no higher price"
    assert text in str(plan)
    assert plan.to_json()["put_off"] == ["2026-03-01 01:00", "02:00", "03:00"]
    for time in ("01:00", "02:00"):
        with pytest.raises(TempuraError) as error:
            plan.explain(step=time)
        assert code(error) == "UNKNOWN_TIME"
        assert "at no higher price" in error.value.what


def test_what_is_expected_before_a_time_is_all_that_comes_until_then(world: World) -> None:
    query = world.query(NIGHT)
    world.put("a", FIRST * 200)
    (sales,) = (f for f in query.plan().forecasts if f.table == "sales")
    each = round(200 * len(FIRST) / 100)
    assert sales.arrivals == ((3 * each, 0), (each, 0))
    assert query.plan().assumed[-1].startswith(f"sales: +{3 * each} rows by 04:00, +{each} rows by 06:00")


def test_a_run_that_may_wait_looks_and_says_why_it_does_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def noting(problem: Problem, methods: tuple[str, ...], **known: Any) -> ProgressivePlan:
        asked.append(methods)
        return make_plan(problem, methods, **known)

    monkeypatch.setattr("tempura.warehouse.times.follow.make_plan", noting)
    query = world.query(NIGHT)
    world.put("a", FIRST)
    report = query.run()
    why = "nothing done: it may as well be done at 04:00, at no higher price"
    assert not asked
    assert why in str(report)
    assert (report.weight, report.estimated_cost, report.states, report.rows) == (0.25, 0, 0, None)
    assert query.history()[-1].does == report.does
    query.run(at="02:00", force=True, methods="im1")
    assert asked == [("im1",)], "whether there is a plan by these alone is told early"
    asked.clear()
    dry = query.run(at="03:00", force=True, dry_run=True)
    assert why in str(dry)
    assert "step 04:00" in dry.plan, "what is planned for then"
    assert (dry.states, dry.estimated_cost) == (0, 0)
    query.run(at="04:00", force=True)
    assert len(asked) == 2
    query.run(at="06:00", force=True)
    assert query.verify()


def test_a_run_that_is_required_to_be_incremental_says_early_that_it_cannot_be(world: World) -> None:
    query = world.query(NIGHT)
    world.put("a", FIRST)
    with pytest.raises(TempuraError) as error:
        query.run(methods="batch", require="incremental")
    assert code(error) == "NOT_INCREMENTAL"


def test_states_outlast_a_run_that_may_wait(world: World) -> None:
    """What was kept at the end of a night serves the next one."""
    query = world.query(NIGHT)
    world.put("a", FIRST)
    for night in (1, 2):
        for label, hour in zip(NIGHT.times, (1, 2, 3, 4, 6), strict=True):
            world.now = datetime(2026, 3, night, hour, 30, tzinfo=UTC)
            world.push([(10 * night + hour, 10)])
            query.run(at=label, force=True, methods="im1", require="incremental")
    assert query.verify()
    does = [step.does.kind for step in query.steps() if step.does]
    assert does[:5] == ["nothing done"] * 3 + ["prepared", "built"], "few rows are joined anew sooner than changed"
    assert does[5:] == ["nothing done"] * 4 + ["maintained"], "from what was kept the night before"


@pytest.mark.parametrize("methods", ["im1", "batch", "all"])
def test_each_run_of_a_night_is_exact(world: World, methods: str) -> None:
    query = world.query(NIGHT)
    world.put("a", FIRST)
    for hour, (label, rows) in enumerate(zip(NIGHT.times, (None, None, None, None, 3), strict=True), 1):
        world.now = datetime(2026, 3, 1, hour + (hour == 5), 30, tzinfo=UTC)
        world.push([(hour, 10 * hour)])
        assert query.run(at=label, force=True, methods=methods).rows == rows
        if hour == 1:
            world.put("b", SECOND)
    assert query.verify()
    assert [entry.label.split()[-1] for entry in query.history()] == list(NIGHT.times)
