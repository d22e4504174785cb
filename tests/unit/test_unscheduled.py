"""Runs outside the schedule: they take what has arrived and give a result, and the schedule goes on as if nothing had happened."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.commits.manifests import Entry
from tempura.warehouse.times.history import History
from tempura.warehouse.times.schedule import Schedule
from tests.unit.test_warehouse import DAILY, FIRST, SECOND, World, result


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lake.mkdir(parents=True)
    return world


def at(world: World, hour: float, day: int = 1) -> None:
    world.now = datetime(2026, 3, day, tzinfo=UTC) + timedelta(hours=hour)


@pytest.mark.parametrize("methods", ["im1", "im2", "batch", "all"])
def test_run_now_marks_no_time_as_run(world: World, methods: str) -> None:
    query = world.query()
    world.put("a", FIRST)
    at(world, 15)
    assert query.run(methods=methods).label == "2026-03-01 14:00"
    world.put("b", SECOND)
    at(world, 16)
    report = query.run(now=True, methods=methods)
    assert (report.label, report.rows, report.skipped) == ("2026-03-01 16:00 (now)", 3, ())
    assert query.verify()
    assert query.run(methods=methods).nothing, "19:00 has not come"
    world.push([(1, 10)])
    at(world, 19.5)
    found = query.run(methods=methods)
    assert (found.label, found.rows, found.skipped) == ("2026-03-01 19:00", None, ())
    at(world, 24)
    assert query.run(methods=methods).rows == 3
    assert query.verify()
    labels = [entry.label for entry in query.history()]
    assert labels == ["2026-03-01 14:00", "2026-03-01 16:00 (now)", "2026-03-01 19:00", "2026-03-01 24:00"]


def test_run_now_twice_is_once(world: World) -> None:
    query = world.query()
    world.put("a", FIRST)
    assert query.run(now=True).rows == 2
    again = query.run(now=True)
    assert again.nothing
    assert again.why == "nothing has arrived since 2026-03-01 12:00 (now)"
    world.put("b", SECOND)
    assert query.run(now=True).rows == 3
    at(world, 23)
    assert query.run().skipped == ("2026-03-01 14:00",), "it was missed: the runs before were none of the schedule"
    at(world, 24)
    assert query.run().rows == 3
    assert query.run(now=True).nothing, "the result of the deadline is of the same rows"


def test_run_now_after_the_last_result_was_damaged_computes_it_anew(world: World) -> None:
    query = world.query()
    world.put("a", FIRST)
    query.run(now=True)
    (file,) = (world.wh.path / "queries").rglob("output/rows.json")
    file.unlink()
    assert not query.run(now=True).nothing
    assert query.verify()


def test_run_now_of_a_view_is_a_refresh_and_of_a_fixed_schedule_no_step_of_it(world: World) -> None:
    query = world.query(Schedule.view())
    world.put("a", FIRST)
    assert query.run(now=True).label == "refresh 1"
    assert query.run(now=True).nothing
    fixed = world.wh.add_query("fixed", query.sql, schedule=Schedule(("x", "y"), (1, 1), (False, True)))
    assert fixed.run(now=True).rows == 2
    assert [fixed.run().label, fixed.run().label] == ["x", "y"]
    world.put("b", SECOND)
    assert fixed.run().nothing
    assert fixed.run(now=True).rows == 3, "also when the schedule has ended"
    assert fixed.verify()


def test_a_run_outside_the_schedule_leaves_what_the_next_times_load(world: World) -> None:
    query = world.query()
    world.put("a", FIRST * 20)
    world.push([(1, 10)])
    report = query.run(now=True, methods="im1")
    assert report.states
    assert "load" in str(query.plan(methods="im1"))
    assert query.plan().labels == ("2026-03-01 12:00 (now)", "2026-03-01 14:00", "19:00", "24:00")


def test_run_now_can_be_tried(world: World) -> None:
    query = world.query()
    world.put("a", FIRST)
    text = str(query.run(now=True, dry_run=True))
    assert "2026-03-01 12:00 (now)" in text
    assert query.history() == ()


def test_a_time_to_come_is_refused_and_consumes_nothing(world: World) -> None:
    query = world.query()
    world.put("a", FIRST)
    for dry in (False, True):
        with pytest.raises(TempuraError) as error:
            query.run(at="24:00", dry_run=dry)
        assert error.value.code == "TIME_AHEAD"
    with pytest.raises(TempuraError) as error:
        query.run(at="14:00", now=True)
    assert error.value.code == "BAD_RUN"
    assert world.wh.status()["tables"]["sales"]["version"] == 0
    assert query.run(at="24:00", force=True).label == "2026-03-01 24:00"
    assert result(query) == SignedBag.of([("c1", 560, 0), ("c2", 150, 0)])
    at(world, 15)
    assert query.run().nothing
    assert query.status()["next"] == "2026-03-02 14:00"


def test_manifests_without_the_mark_are_runs_of_the_schedule(world: World) -> None:
    query = world.query()
    world.put("a", FIRST)
    query.run(at="14:00", force=True)
    query.run(now=True)
    scheduled, extra = (step.to_json() for step in query.steps())
    assert "extra" not in scheduled["slot"], "as it always was"
    assert extra["slot"]["extra"]
    last = History.from_json(map(Entry, (scheduled, extra))).last_slot
    assert str(last) == "2026-03-01 14:00"
    assert DAILY.times[last.index] == "14:00" if last else False
