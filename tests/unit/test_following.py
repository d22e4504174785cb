"""Queries followed in one process, over an engine without a JVM: when each is run, what is told, and what is not asked."""

import errno
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declare import DeclarationFile
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.runs.run import alone
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.together import Outcome
from tests.unit.bag_engine import COUNT, SINCE_NOON
from tests.unit.test_warehouse import SECOND, World
from tests.unit.test_warehouse_outputs import VIEW, one_above_another

Event = Callable[[], object]


class EndedError(Exception):
    """The process is stopped."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A view that has run, and one over its results."""
    return one_above_another(tmp_path)


def followed(world: World, *events: Event, names: tuple[str, ...] = (), every: float = 10.0) -> list[str]:
    """What is told while things happen, one after each look: the query and its run, or its error; ``-`` after each look."""
    told: list[str] = []
    to_come = iter(events)

    def tell(outcome: Outcome[RunReport]) -> None:
        told.append(f"{outcome.query}: {outcome.found.label if outcome.found else outcome.error}")

    def wait(seconds: float) -> None:
        assert seconds == every
        told.append("-")
        event = next(to_come, None)
        if event is None:
            raise EndedError
        event()
        world.now += timedelta(seconds=seconds)

    with pytest.raises(EndedError):
        world.wh.follow(names, tell, every, wait)
    return told


def nothing() -> None:
    pass


def test_views_are_refreshed_when_rows_have_come(world: World) -> None:
    told = followed(world, nothing, lambda: world.put("b", SECOND), nothing)
    assert told == ["-", "-", "summary: refresh 2", "above: refresh 2", "-", "-"]
    assert world.wh.query("above").verify()


def test_a_look_that_finds_nothing_does_not_plan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("summary", "above"):
        monkeypatch.setattr(world.wh.query(name), "run", lambda **asked: pytest.fail("nothing has come"))
    assert followed(world, nothing, nothing) == ["-", "-", "-"]


def test_times_of_a_day_are_run_when_they_come(world: World) -> None:
    world.now = datetime(2026, 3, 2, 11, 59, 45, tzinfo=UTC)
    world.wh.add_query("day", COUNT, schedule=Schedule.progressive({"12:00": 0.5, "24:00": 1.0}, timezone="UTC"))
    world.wh.query("day").run()

    def midnight() -> None:
        world.now += timedelta(hours=12)

    assert followed(world, nothing, nothing, midnight, nothing, names=("day",)) == [
        "-", "-", "day: 2026-03-02 12:00", "-", "day: 2026-03-02 24:00", "-", "-",
    ]  # fmt: skip


def test_what_reads_the_time_is_run_at_each_look(world: World) -> None:
    world.wh.add_query("recent", SINCE_NOON, schedule=VIEW)
    assert followed(world, nothing, names=("recent",)) == ["recent: refresh 1", "-", "recent: refresh 2", "-"]


def test_queries_that_are_declared_meanwhile_are_followed_too(world: World) -> None:
    def declare() -> None:
        world.open().add_query("new", COUNT, schedule=VIEW)

    assert followed(world, declare) == ["-", "new: refresh 1", "-"]
    assert followed(world, lambda: world.open().remove_query("new")) == ["-", "-"]
    assert followed(world, declare, names=("summary",)) == ["-", "-"], "not those that nobody has named"


def test_one_that_is_removed_is_told_once_and_the_others_go_on(world: World) -> None:
    world.wh.add_query("other", COUNT, schedule=VIEW).run()

    def gone() -> None:
        world.open().remove_query("other")
        world.put("b", SECOND)

    def back() -> None:
        world.open().add_query("other", COUNT, schedule=VIEW)

    told = followed(world, gone, nothing, back, names=("other", "summary"))
    assert [line.split("]")[0] for line in told] == [
        "-", "other: [UNKNOWN_QUERY", "summary: refresh 2", "-", "-", "other: refresh 1", "-",
    ]  # fmt: skip


def test_it_ends_when_all_that_were_named_are_gone(world: World) -> None:
    outcomes: list[Outcome[RunReport]] = []
    world.wh.add_query("other", COUNT, schedule=VIEW).run()

    def wait(seconds: float) -> None:
        world.wh.remove_query("other")

    world.wh.follow(["other"], outcomes.append, wait=wait)
    assert [outcome.query for outcome in outcomes] == ["other"]
    with pytest.raises(TempuraError) as error:
        world.wh.follow(["other"])
    assert error.value.code == "UNKNOWN_QUERY"


def test_one_that_fails_is_told_once_and_tried_less_and_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[datetime] = []
    error = [TempuraError("WRONG_SCHEMA", "Other columns.")]

    def fails(**asked: Any) -> RunReport:
        tried.append(world.now)
        if error:
            raise error[0]
        return RunReport("summary", label="mended")

    query = world.wh.query("summary")
    monkeypatch.setattr(query, "run", fails)
    monkeypatch.setattr(type(query), "may_be_due", property(lambda query: query.name == "summary"))
    other = TempuraError("FILE_GONE", "A file is gone.")
    began = world.now
    events: list[Event] = [nothing] * 130
    events[20] = lambda: error.append(error.pop() and other)
    events[120] = error.clear
    told = followed(world, *events)
    waits = [round((b - a).total_seconds() / 10) for a, b in zip([began, *tried], tried, strict=False)]
    assert waits[:8] == [0, 1, 2, 4, 8, 16, 30, 30], "in looks; at most five minutes"
    assert [line for line in told if line not in ("-", "summary: mended")] == [
        "summary: [WRONG_SCHEMA] Other columns.", "summary: [FILE_GONE] A file is gone.",
    ]  # fmt: skip
    assert told[-2:] == ["summary: mended", "-"], "and then at each look"


def test_a_clock_that_goes_back_is_told_once_until_it_is_right_again(world: World) -> None:
    def goes(by: timedelta) -> Event:
        return lambda: setattr(world, "now", world.now + by)

    def comes_while_it_is_back() -> None:
        world.put("b", SECOND)
        goes(-timedelta(hours=2))()

    events = [comes_while_it_is_back, *[nothing] * 70, goes(timedelta(hours=3)), *[nothing] * 30]
    told = [line for line in followed(world, *events) if line != "-"]
    assert [line[:26] for line in told] == ["summary: [CLOCK_WENT_BACK]", "summary: refresh 2", "above: refresh 2"]
    assert world.wh.query("above").verify()


def test_what_another_process_does_is_no_failure(world: World) -> None:
    query = world.wh.query("summary")
    held = alone(Files(), query.folder)
    world.put("b", SECOND)

    def held_back() -> None:
        with pytest.raises(TempuraError):
            query.run()

    held.__enter__()
    told = followed(world, held_back, lambda: held.__exit__(None, None, None), nothing, names=("summary",))
    assert told == ["-", "-", "summary: refresh 2", "-", "-"]


@pytest.mark.parametrize("half", ["tables = [", ""])
def test_declarations_that_cannot_be_read_are_waited_for(world: World, half: str) -> None:
    """Nothing declared, as while the file is written, is nothing to do, and would end it as if all were done."""
    file = world.wh.path / "tempura.toml"
    sound = file.read_text()

    def mended() -> None:
        file.write_text(sound)
        world.put("b", SECOND)

    told = followed(world, lambda: file.write_text(half), nothing, mended, nothing)
    assert [line.split("]")[0] for line in told] == [
        "-", ": [BAD_TOML", "-", "-", "summary: refresh 2", "above: refresh 2", "-", "-",
    ]  # fmt: skip


def test_a_warehouse_that_is_moved_away_is_waited_for(world: World) -> None:
    place, away = world.wh.path, world.wh.path.with_name("away")

    def back() -> None:
        assert not place.exists(), "nothing is made where it was"
        away.rename(place)
        world.put("b", SECOND)

    told = followed(world, lambda: place.rename(away), nothing, back, nothing)
    assert [line.split("]")[0] for line in told] == [
        "-", ": [NO_WAREHOUSE", "-", "-", "summary: refresh 2", "above: refresh 2", "-", "-",
    ]  # fmt: skip


def test_declarations_that_the_system_does_not_give_are_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = DeclarationFile.read

    def denied(file: DeclarationFile) -> Any:
        raise OSError(errno.ESTALE, "Stale file handle", str(file.path))

    def back() -> None:
        monkeypatch.setattr(DeclarationFile, "read", read)
        world.put("b", SECOND)

    told = followed(world, lambda: monkeypatch.setattr(DeclarationFile, "read", denied), nothing, back, nothing)
    assert [line.split("]")[0] for line in told] == [
        "-", ": [IO_FAILED", "-", "-", "summary: refresh 2", "above: refresh 2", "-", "-",
    ]  # fmt: skip


def test_it_ends_when_all_queries_have_been_removed(world: World) -> None:
    def remove(seconds: float) -> None:
        other = world.open()
        other.remove_query("above")
        other.remove_table("sums")
        other.remove_query("summary")

    world.wh.follow((), lambda outcome: pytest.fail(str(outcome)), 10.0, remove)


def test_it_ends_where_nothing_will_be_due(world: World) -> None:
    """A fixed schedule has no times that come by a clock; of no query nothing is due."""
    labels = Schedule(("a", "b"), (0.5, 1.0), (False, True), "c_w")
    world.wh.add_query("steps", COUNT, schedule=labels)
    outcomes: list[Outcome[RunReport]] = []
    world.wh.follow(["steps"], outcomes.append, wait=lambda seconds: pytest.fail("there is nothing to wait for"))
    (outcome,) = outcomes
    assert isinstance(outcome.error, TempuraError)
    assert outcome.error.code == "BAD_RUN"
    assert world.wh.query("steps").steps() == ()


def test_without_queries_there_is_nothing_to_follow(tmp_path: Path) -> None:
    World(tmp_path).wh.follow(wait=lambda seconds: pytest.fail("there is nothing to wait for"))


def test_what_makes_no_sense_is_refused(world: World) -> None:
    for every in (0.0, -1.0, float("nan")):
        with pytest.raises(TempuraError, match="not possible") as error:
            world.wh.follow(every=every)
        assert error.value.code == "BAD_NUMBER"
    with pytest.raises(TempuraError) as error:
        world.wh.follow(["summry"])
    assert error.value.code == "UNKNOWN_QUERY"


def test_ctrl_c_ends_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**asked: Any) -> None:
        raise KeyboardInterrupt

    world.put("b", SECOND)
    monkeypatch.setattr(world.wh.query("summary"), "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.wh.follow()


def test_without_spark_it_ends(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who watches over the process starts another."""

    def fails(**asked: Any) -> None:
        raise TempuraError("NO_SESSION", "Spark was stopped.")

    world.put("b", SECOND)
    monkeypatch.setattr(world.wh.query("summary"), "run", fails)
    with pytest.raises(TempuraError) as error:
        world.wh.follow(wait=lambda seconds: pytest.fail("there is nothing to wait for"))
    assert error.value.code == "NO_SESSION"


def test_progress_names_one_of_several_queries(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one alone it says what it does: programs may read that."""

    def run(progress: Callable[[str], None], **asked: Any) -> RunReport:
        progress("reading")
        raise EndedError

    monkeypatch.setattr(type(world.wh.query("summary")), "run", lambda query, **asked: run(**asked))
    monkeypatch.setattr("tempura.warehouse.following.outcome_of", lambda query, work: work(query))
    said: list[str] = []
    world.put("b", SECOND)
    for names in (("summary",), ("summary", "above")):
        with pytest.raises(EndedError):
            world.wh.follow(names, progress=said.append)
    assert said == ["reading", "summary: reading"]
