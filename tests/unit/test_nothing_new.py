"""A run that finds nothing new says so without Spark, and one that would find something never does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, PER_KEY, SINCE_NOON
from tests.unit.test_warehouse import SECOND, World
from tests.unit.test_warehouse_outputs import VIEW, one_above_another


class NoSpark:
    """An engine of which nothing may be asked."""

    is_started = False

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark is asked for {name}.")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A view that has run, and one over its results."""
    return one_above_another(tmp_path)


def without_spark(world: World) -> Warehouse:
    return open_site(world.wh.path, cast(Any, NoSpark()), Files(), lambda: world.now)


def asks_spark(query: Query) -> bool:
    """Whether a run asks Spark, or is refused for files that are not as they were."""
    try:
        query.run()
    except AssertionError:
        return True
    except TempuraError as error:
        return error.code in ("FILE_GONE", "FILE_CHANGED")
    return False


def test_a_run_with_nothing_new(world: World) -> None:
    wh = without_spark(world)
    report = wh.query("summary").run()
    assert (report.nothing, report.why) == (True, "nothing has arrived since refresh 1")
    assert wh.query("above").run(now=True).nothing
    assert wh.query("above").run(dry_run=True).nothing
    assert report == world.wh.query("summary").run()


def test_where_spark_runs_it_is_asked(world: World) -> None:
    wh = without_spark(world)
    cast(Any, wh)._site.engine.is_started = True
    assert asks_spark(wh.query("summary"))


def test_all_of_them(world: World) -> None:
    assert [report.nothing for report in without_spark(world).run()] == [True, True]


@pytest.mark.parametrize("mode", ["replace", "changes"])
def test_what_is_published_stays(world: World, mode: str) -> None:
    path = world.wh.query("summary").output(world.folder / "out", mode)
    before = path.resolve()
    assert without_spark(world).query("summary").run().nothing
    assert path.resolve() == before


@pytest.mark.parametrize("mode", ["replace", "changes"])
def test_what_is_not_published_is(world: World, mode: str) -> None:
    """As after a run that was killed before."""
    query = world.wh.query("summary")
    path = query.output(world.folder / "out", mode)
    path.unlink() if path.is_symlink() else path.rename(path.with_name("gone"))
    assert asks_spark(without_spark(world).query("summary"))
    assert query.run().nothing
    assert path.exists()


@pytest.mark.parametrize(
    "come",
    [
        lambda world: world.put("b", SECOND),
        lambda world: world.push([(2, 1)]),
        lambda world: world.wh.table("returns").reset(),
        lambda world: (world.lake / "a.parquet").unlink(),
        lambda world: world.put("a", SECOND),
    ],
)
def test_what_has_come_or_gone_is_seen(world: World, come: Any) -> None:
    come(world)
    assert asks_spark(without_spark(world).query("summary"))


def test_a_result_below_is_seen(world: World) -> None:
    world.push([(2, 1)])
    world.wh.query("summary").run()
    wh = without_spark(world)
    assert wh.query("summary").run().nothing
    assert asks_spark(wh.query("above"))


def test_a_damaged_result_is_seen(world: World) -> None:
    step = world.wh.query("summary").steps()[-1]
    assert step.output
    next(Path(world.wh.path / step.output.paths[0]).glob("*")).write_text("[]")
    assert asks_spark(without_spark(world).query("summary"))


def test_another_text_is_seen(world: World) -> None:
    world.wh.replace_query("above", COUNT)
    assert asks_spark(without_spark(world).query("above"))
    declared = world.wh.path / "tempura.toml"
    world.wh.query("above").run()
    assert without_spark(world).query("above").run().nothing
    declared.write_text(declared.read_text().replace(COUNT, PER_KEY))
    assert asks_spark(without_spark(world).query("above"))


def test_other_columns_are_seen(world: World) -> None:
    declared = world.wh.path / "tempura.toml"
    declared.write_text(declared.read_text().replace("cost INT", "cost BIGINT"))
    assert asks_spark(without_spark(world).query("summary"))


def test_a_clock_has_gone_on(world: World) -> None:
    query = world.wh.add_query("since", SINCE_NOON, schedule=VIEW)
    query.run()
    world.now += timedelta(minutes=1)
    assert asks_spark(without_spark(world).query("since"))


def test_a_time_of_a_schedule_gives_a_result_all_the_same(world: World) -> None:
    query = world.wh.add_query("daily", COUNT, schedule=type(VIEW).progressive({"24:00": 1.0}))
    query.run(at="24:00", force=True)
    world.now += timedelta(days=2)
    again = query.run()
    assert not again.nothing, again.why


def started_early(world: World, name: str, **asked: Any) -> bool:
    """Whether Spark begins to be started while a run looks and plans."""
    before = world.engine.started_early
    world.wh.query(name).run(**asked)
    return world.engine.started_early > before


def test_spark_is_started_early_where_a_run_computes_whatever_its_plan_is(world: World) -> None:
    assert not started_early(world, "summary"), "nothing has come"
    world.put("b", SECOND)
    assert not started_early(world, "summary", dry_run=True)
    assert started_early(world, "summary")
    assert not started_early(world, "summary")
    world.wh.query("summary").output(world.folder / "out").unlink()
    assert not started_early(world, "summary"), "it is published, and nothing computed"


def test_of_a_day_spark_is_started_early_when_the_result_is_due(world: World) -> None:
    world.wh.add_query("daily", COUNT, schedule=type(VIEW).progressive({"14:00": 0.3, "24:00": 1.0}))
    world.now = datetime(2026, 3, 1, 14, tzinfo=UTC)
    assert not started_early(world, "daily"), "its plan may be to wait"
    world.now += timedelta(hours=10)
    assert started_early(world, "daily")
    assert not started_early(world, "daily", now=True), "nothing has come since"
    world.put("b", SECOND)
    assert started_early(world, "daily", now=True)
