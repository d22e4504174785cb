"""A query's states take no more than its budget on disk, whatever was expected of them, and results stay the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tempura.errors import TempuraError
from tempura.execute.contract import Part, StoredState
from tempura.warehouse.query import Query
from tempura.warehouse.runs import situation
from tempura.warehouse.runs.budget import past_within
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.steps import SavedState, StepManifest, last_with_states
from tests.unit.bag_engine import SUMMARY
from tests.unit.test_churn import PRICES
from tests.unit.test_warehouse import FIRST, SECOND, World, code, world

__all__ = ["world"]


def maintained(world: World, budget: str | int | None = None, methods: str = "im1") -> Query:
    """A view whose states pay, and what it has for them."""
    world.engine.prices = PRICES
    world.query(Schedule.view())
    return world.wh.add_query("summary", SUMMARY, methods=methods, state_budget=budget)


def refresh(world: World, query: Query, n: int) -> None:
    world.push([(1, n)])
    query.run()
    assert query.verify()


def state_files(world: World) -> int:
    return len(list(world.wh.path.glob("queries/summary/attempts/*/states/*")))


def needed(world: World) -> int:
    """The bytes that its states take without a budget, after the first run."""
    query = maintained(world)
    world.put("a", FIRST * 20)
    query.run()
    found: int = query.status()["state_bytes"]
    assert found > 0
    return found


def test_no_bytes_are_no_states_and_the_same_results(world: World) -> None:
    query = maintained(world, 0, methods="all")
    world.put("a", FIRST * 20)
    for n in range(3):
        refresh(world, query, n)
    assert [step.states for step in query.steps()] == [(), (), ()]
    assert state_files(world) == 0
    assert query.status()["state_budget"] == "0"


def test_enough_bytes_change_nothing(world: World) -> None:
    budget = 10 * needed(world)
    query = world.wh.add_query("summary", SUMMARY, methods="im1", state_budget=f"{budget}")
    refresh(world, query, 1)
    assert query.steps()[1].states
    assert "load" in query.steps()[1].plan
    assert query.steps()[1].not_kept == ()


def test_what_takes_more_than_expected_is_not_kept_and_the_next_run_knows(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = World(tmp_path / "other")
    other.lake.mkdir(parents=True)
    taken = needed(other)
    query = maintained(world, taken - 1, methods="all")
    world.put("a", FIRST * 20)
    with monkeypatch.context() as wrongly:
        wrongly.setattr(situation, "stored_share", lambda steps: 0.1)
        report = query.run(methods="im1")
    assert report.not_kept, "the largest states are let go of"
    assert "over their budget" in str(report)
    kept = query.status()["state_bytes"]
    assert kept < taken
    assert state_files(world) == query.status()["states"]
    refresh(world, query, 1)
    last = query.steps()[-1]
    assert last.not_kept == (), "what a byte of rows takes is known by now"
    assert sum(state.stored.bytes for state in last.states) < taken


def test_after_a_budget_is_lowered_larger_states_are_neither_loaded_nor_left(world: World) -> None:
    before = needed(world)
    query = world.wh.add_query("summary", SUMMARY, methods="batch", state_budget=1)
    world.push([(1, 10)])
    report = query.run()
    assert any("STATE_BUDGET" in reason and "over their budget" in reason for reason in report.fallbacks)
    assert query.verify()
    assert query.status()["state_bytes"] == 0 < before
    assert query.states() == []
    world.wh.gc(keep=1)
    assert state_files(world) == 0
    query = world.wh.add_query("summary", SUMMARY, methods="im1", state_budget="none")
    refresh(world, query, 2)
    refresh(world, query, 3)
    assert query.status()["state_bytes"] > 0


def test_those_that_fit_into_a_lowered_budget_stay_and_are_loaded(world: World) -> None:
    """Two states of one step: the first run that saves nothing lets go of the larger one, and the next go on from the other."""
    states = (saved("larger", 80), saved("smaller", 20))
    step = replace(committed(world), states=states)
    left, reasons = past_within(step, 50)
    assert left is not None
    assert [state.label for state in left.states] == ["smaller"]
    assert list(reasons) == [states[0].name]
    after = replace(step, n=step.n + 1, states=(), given_up=tuple(reasons))
    found = last_with_states([step, StepManifest.from_json(after.to_json()), replace(step, n=9, states=())])
    assert found is not None
    assert [state.label for state in found.states] == ["smaller"]
    assert last_with_states([step, replace(after, given_up=tuple(s.name for s in states))]) is None
    assert past_within(step, 100) == (step, {})
    assert past_within(step, 0)[0] is None
    assert past_within(step, None) == (step, {})


def saved(label: str, size: int) -> SavedState:
    part = Part(f"queries/q/attempts/1/states/{label}", 1, size)
    return SavedState(label, "snapshot", StoredState(("int",), (), 1, "{}", (part,)), label)


def committed(world: World) -> StepManifest:
    needed(world)
    return world.wh.query("summary").steps()[-1]


def test_a_demand_that_the_budget_does_not_allow_is_refused_with_the_reason(world: World) -> None:
    world.engine.prices = PRICES
    world.query(Schedule.view())
    world.put("a", FIRST)
    query = world.wh.add_query("summary", SUMMARY, require="incremental", state_budget=0)
    with pytest.raises(TempuraError) as error:
        query.run()
    assert code(error) == "NOT_INCREMENTAL"
    assert "STATE_BUDGET: no plan with these methods keeps states of 0 B or less" in error.value.what
    assert query.history() == ()


def test_plans_say_what_was_left_for_the_budget(world: World) -> None:
    needed(world)
    world.put("b", SECOND)
    query = world.wh.add_query("summary", SUMMARY, methods="all", state_budget=1)
    assert "STATE_BUDGET" in query.plan(schedule=Schedule.view(1000)).explain()


@pytest.mark.parametrize("budget", ["", "much", "-1", "1.5 MB", "64MB", -1, True, 1.5])
def test_nonsense_is_refused(world: World, budget: object) -> None:
    world.query()
    with pytest.raises(TempuraError) as error:
        world.wh.add_query("summary", SUMMARY, state_budget=budget)  # type: ignore[arg-type]
    assert code(error) == "BAD_BUDGET"
    assert world.wh.query("summary").status()["state_budget"] is None


def test_it_is_declared_in_the_file_as_it_was_written(world: World) -> None:
    world.query()
    world.wh.add_query("summary", SUMMARY, state_budget="64 MB")
    path = world.wh.path / "tempura.toml"
    assert 'state_budget = "64 MB"' in path.read_text()
    assert world.open().query("summary").status()["state_budget"] == "64 MB"
    world.wh.add_query("summary", SUMMARY)
    assert world.wh.query("summary").status()["state_budget"] == "64 MB", "as declared unless given"
    path.write_text(path.read_text().replace("64 MB", "64 PB"))
    with pytest.raises(TempuraError) as error:
        world.wh.status()
    assert code(error) == "BAD_BUDGET"


@pytest.mark.parametrize(
    ("given", "refused"), [({"state_budget": "1 MB"}, "BAD_BUDGET"), ({"storage_price": 1.0}, "BAD_STORAGE_PRICE")]
)
def test_a_query_at_paces_has_none(world: World, given: dict[str, Any], refused: str) -> None:
    world.query()
    with pytest.raises(TempuraError) as error:
        world.wh.add_query("summary", SUMMARY, schedule=Schedule.paced("2026-03-02T18:00", 0.5), **given)
    assert code(error) == refused
    assert "runs at paces" in error.value.what
