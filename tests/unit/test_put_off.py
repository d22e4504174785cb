"""Runs at times that are no dearer than a later one before the result is due: nothing is planned for them, which is told."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tempura.errors import TempuraError
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
    assert plan.labels == ("2026-03-01 01:00", "04:00", "06:00")
    assert "nothing at 02:00, 03:00: it may as well be done at the next time, at no higher price" in str(plan)
    assert plan.to_json()["put_off"] == ["02:00", "03:00"]
    with pytest.raises(TempuraError) as error:
        plan.explain(step="02:00")
    assert code(error) == "UNKNOWN_TIME"
    assert "at no higher price" in error.value.what


def test_what_is_expected_before_a_time_is_all_that_comes_until_then(world: World) -> None:
    query = world.query(NIGHT)
    world.put("a", FIRST * 200)
    (sales,) = (f for f in query.plan().forecasts if f.table == "sales")
    each = round(200 * len(FIRST) / 100)
    assert sales.arrivals == ((3 * each, 0), (each, 0))
    assert query.plan().assumed[-1].startswith(f"sales: +{3 * each} rows by 04:00, +{each} rows by 06:00")


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
