"""Several queries run, or verified, in one process, over an engine without a JVM."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.engine import Verification
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.together import Outcome
from tests.unit.bag_engine import COUNT
from tests.unit.test_warehouse import SECOND, World
from tests.unit.test_warehouse_outputs import VIEW, held, one_above_another


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A view, one over its results, and one beside them, which has not run."""
    world = one_above_another(tmp_path)
    world.wh.add_query("beside", COUNT, schedule=VIEW)
    return world


def told(world: World, *names: str, **asked: Any) -> list[Outcome[RunReport]]:
    outcomes: list[Outcome[RunReport]] = []
    reports = world.wh.run(names, outcomes.append, **asked)
    assert [outcome.found for outcome in outcomes] == [*reports]
    return outcomes


@pytest.mark.parametrize("names", [("above", "summary"), ("summary", "above"), ()])
def test_a_query_runs_after_those_whose_results_it_reads(world: World, names: tuple[str, ...]) -> None:
    world.put("b", SECOND)
    outcomes = told(world, *names)
    ran = [outcome.query for outcome in outcomes]
    assert sorted(ran) == sorted(names or ("above", "beside", "summary"))
    assert ran.index("summary") < ran.index("above")
    assert held(world.wh.query("above")) == SignedBag.of([(1, 1), (0, 2)]), "the last result of summary"
    assert all(outcome.found and outcome.found.nothing for outcome in told(world, *names)), "run twice"


def test_else_they_run_as_they_are_named_and_each_once(world: World) -> None:
    assert [o.query for o in told(world, "beside", "summary", "beside", dry_run=True)] == ["beside", "summary"]
    assert [o.query for o in told(world, "summary", "beside")] == ["summary", "beside"]


@pytest.mark.parametrize("error", [TempuraError("WRONG_SCHEMA", "Other columns."), ZeroDivisionError("a defect")])
def test_one_that_fails_keeps_none_from_running(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world.put("b", SECOND)

    def fails(**asked: Any) -> None:
        raise error

    monkeypatch.setattr(world.wh.query("summary"), "run", fails)
    outcomes: list[Outcome[RunReport]] = []
    with pytest.raises(TempuraError, match="1 of 3 queries failed: summary") as raised:
        world.wh.run(tell=outcomes.append)
    assert raised.value.code == "RUNS_FAILED"
    assert {o.query: bool(o.found) for o in outcomes} == {"summary": False, "above": True, "beside": True}
    assert [o.error for o in outcomes if o.error] == [error]
    assert held(world.wh.query("above")) == SignedBag.of([(1, 1), (0, 1)]), "the result of before"


def test_ctrl_c_ends_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**asked: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.wh.query("beside"), "run", interrupted)
    outcomes: list[Outcome[RunReport]] = []
    with pytest.raises(KeyboardInterrupt):
        world.wh.run(["beside", "summary"], outcomes.append)
    assert outcomes == []


def test_an_unknown_query_is_refused_before_anything_is_run(world: World) -> None:
    world.put("b", SECOND)
    outcomes: list[Outcome[RunReport]] = []
    with pytest.raises(TempuraError, match="summry") as raised:
        world.wh.run(["summary", "summry"], outcomes.append)
    assert raised.value.code == "UNKNOWN_QUERY"
    assert outcomes == []


def test_progress_names_the_query(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(progress: Callable[[str], None], **asked: Any) -> RunReport:
        progress("reading")
        return RunReport("any")

    said: list[str] = []
    for name in ("beside", "summary"):
        monkeypatch.setattr(world.wh.query(name), "run", run)
    told(world, "beside", "summary", progress=said.append)
    assert said == ["beside: reading", "summary: reading"]


def test_a_query_that_cannot_be_read_says_so_when_it_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is found among the others."""
    lift = world.engine.lift

    def lifted(query: Any, *given: Any) -> Any:
        if query == COUNT:
            raise TempuraError("CANNOT_LIFT", "No such function.")
        return lift(query, *given)

    monkeypatch.setattr(world.engine, "lift", lifted)
    world.put("b", SECOND)
    outcomes: list[Outcome[RunReport]] = []
    again = world.open()
    with pytest.raises(TempuraError, match="1 of 3 queries failed: beside"):
        again.run(["beside", "above", "summary"], outcomes.append)
    assert [o.query for o in outcomes] == ["beside", "summary", "above"]
    assert "CANNOT_LIFT" in str(outcomes[0].error)


def test_last_results_are_verified_together(world: World) -> None:
    outcomes: list[Outcome[Verification]] = []
    said: list[str] = []
    found = world.wh.verify(tell=outcomes.append, progress=said.append)
    assert list(found) == outcomes
    assert {v.query: bool(v.found) for v in found} == {"above": True, "beside": False, "summary": True}
    assert [v.query for v in found if v.is_without_result] == ["beside"]
    assert said == [f"{v.query} ({n} of 3)" for n, v in enumerate(found, 1)]
    assert [v.query for v in world.wh.verify(["summary", "above", "summary"])] == ["summary", "above"]


def test_one_that_cannot_be_verified_keeps_none_from_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ZeroDivisionError("a defect")

    def fails() -> None:
        raise error

    monkeypatch.setattr(world.wh.query("summary"), "verify", fails)
    found = world.wh.verify(["summary", "above"])
    assert [(v.error, bool(v.found), v.is_without_result) for v in found] == [
        (error, False, False), (None, True, False),
    ]  # fmt: skip


def test_an_unknown_query_is_refused_before_anything_is_verified(world: World) -> None:
    outcomes: list[Outcome[Verification]] = []
    with pytest.raises(TempuraError, match="summry") as raised:
        world.wh.verify(["summary", "summry"], outcomes.append)
    assert raised.value.code == "UNKNOWN_QUERY"
    assert outcomes == []
