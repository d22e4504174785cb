"""Clocks: tables whose row is the time of the run, over an engine without a JVM."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.one import one
from tempura.algebra.rel import Scan
from tempura.algebra.scalar import Column
from tempura.errors import TempuraError
from tempura.frontend.clock import NOW, is_clock, today
from tempura.warehouse.declared.declare import check_name
from tempura.warehouse.tables.clock import Clock, clock_facts
from tempura.warehouse.times.schedule import Schedule
from tests.unit.bag_engine import PAST_DAYS, QUERIES, SINCE_NOON
from tests.unit.test_warehouse import FIRST, SALES, SECOND, World, result

LATE = datetime(2026, 3, 1, 23, 30, 0, 250, tzinfo=UTC)


def test_a_version_is_what_the_clock_shows() -> None:
    clock = Clock(NOW, LATE)
    version = clock.version
    assert clock.source(0, version).rows.given == (((datetime(2026, 3, 1, 23, 30, 0, 250),), 1),)
    later = Clock(NOW, LATE + timedelta(microseconds=1))
    assert later.version == version + 1
    (_, plus), (row, minus) = later.source(version, later.version).rows.given
    assert (row, plus, minus) == ((datetime(2026, 3, 1, 23, 30, 0, 250),), 1, -1)
    assert not later.source(version, version).rows.given


@pytest.mark.parametrize(
    ("zone", "day"), [("UTC", 1), ("Europe/Berlin", 2), ("America/New_York", 1), ("+00:30", 2), ("+00:29", 1)]
)
def test_a_day_is_that_of_a_zone(zone: str, day: int) -> None:
    clock = Clock(today(zone), LATE)
    assert clock.source(0, clock.version).rows.given == (((date(2026, 3, day),), 1),)


def test_a_zone_that_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    value = (Column("value", "value", "date"),)
    monkeypatch.setitem(QUERIES, "mars", lambda: one(Scan(today("Mars/Olympus"), ("value",), value)))
    with pytest.raises(TempuraError, match="BAD_TIMEZONE"):
        world.wh.add_query("q", "mars")


@pytest.mark.parametrize("name", [NOW, today("UTC")])
def test_no_table_has_the_name_of_a_clock(name: str) -> None:
    assert is_clock(name)
    with pytest.raises(TempuraError, match="BAD_NAME"):
        check_name("table", name)
    assert not is_clock("current_date")


def test_the_facts_of_a_clock() -> None:
    same, moved = clock_facts([7, 7], 4), clock_facts([7, 9], 4)
    assert (same.inserted, same.deleted, same.known) == ((1, 1, 2, 3), (0, 0, 1, 2), 2)
    assert (moved.inserted, moved.deleted) == ((1, 2, 3, 4), (0, 1, 2, 3))
    assert same.is_unchanged(0, 1)
    assert not moved.is_insert_only(0, 1)
    assert [moved.rows(t) for t in range(4)] == [1, 1, 1, 1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.wh.add_table("sales", path=world.lake, schema=SALES)
    world.put("a", FIRST)
    world.now = datetime(2026, 3, 1, 11, tzinfo=UTC)
    return world


@pytest.mark.parametrize("methods", ["im1", "im2", "batch", "all"])
def test_a_result_changes_with_the_time_alone(world: World, methods: str) -> None:
    query = world.wh.add_query("noon", SINCE_NOON, schedule=Schedule.view())
    query.run(methods=methods)
    assert result(query) == SignedBag([((0,), 1)])
    world.now += timedelta(hours=2)
    query.run(methods=methods)
    assert result(query) == SignedBag([((len(FIRST),), 1)])
    world.put("b", SECOND)
    world.now += timedelta(hours=2)
    query.run(methods=methods)
    assert result(query) == SignedBag([((len(FIRST) + len(SECOND),), 1)])
    world.now += timedelta(days=100)
    assert query.verify(), "as of the run"


def test_within_a_day_nothing_is_due(world: World) -> None:
    query = world.wh.add_query("days", PAST_DAYS, schedule=Schedule.view())
    assert "reads: current_date(Pacific/Honolulu) = 2026-03-01, sales version 1" in str(query.run(dry_run=True))
    query.run()
    world.now = datetime(2026, 3, 2, 9, 59, tzinfo=UTC)
    assert query.run().nothing
    world.now += timedelta(minutes=1)  # midnight in Honolulu
    assert not query.run().nothing
    assert result(query) == SignedBag([((len(FIRST),), 1)])


def test_the_time_of_a_run_is_the_time_that_it_shows(world: World) -> None:
    query = world.wh.add_query("noon", SINCE_NOON, schedule=Schedule.view())
    for _ in range(3):
        world.now += timedelta(minutes=40)
        query.run()
    times = [datetime.fromisoformat(step.logical_time) for step in query.steps()]
    assert [step.inputs[NOW] for step in query.steps()] == [Clock(NOW, time).version for time in times]
