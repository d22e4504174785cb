"""A query's storage price: declared, part of what its plans cost, and no part of what its runs took."""

from dataclasses import replace

import pytest

from tempura.errors import TempuraError
from tempura.search.problem import Problem
from tempura.warehouse.query import Query
from tempura.warehouse.times.follow import Known
from tempura.warehouse.times.schedule import Schedule
from tests.unit.bag_engine import SUMMARY, summary_rel
from tests.unit.test_churn import PRICES
from tests.unit.test_state_budget import refresh
from tests.unit.test_warehouse import FIRST, World, code, world

__all__ = ["world"]

DEAR = 1e12
"""CPU seconds per GB at which no state pays."""


def priced(world: World, price: float | None) -> Query:
    world.engine.prices = PRICES
    world.query(Schedule.view())
    return world.wh.add_query("summary", SUMMARY, storage_price=price)


def test_states_are_kept_unless_storage_is_too_dear_and_results_are_the_same(world: World) -> None:
    query = priced(world, None)
    world.put("a", FIRST * 20)
    refresh(world, query, 1)
    assert query.steps()[-1].states
    query = world.wh.add_query("summary", SUMMARY, storage_price=DEAR)
    world.put("b", FIRST * 20)
    refresh(world, query, 2)
    refresh(world, query, 3)
    assert [step.states for step in query.steps()[1:]] == [(), ()]
    query = world.wh.add_query("summary", SUMMARY, storage_price=0)
    assert query.status()["storage_price"] is None


def test_a_plan_says_what_storage_costs_and_a_run_does_not_have_it(world: World) -> None:
    query = priced(world, 100.0)
    world.put("a", FIRST * 20)
    found = query.plan(methods="im1")
    assert 0 < found.plan.storage < found.cost
    assert " of it for storage" in found.explain().splitlines()[0]
    assert found.to_json()["storage"] == found.plan.storage
    report = query.run(methods="im1")
    assert report.estimated_cost == found.steps[0].cost, "what the run itself was to take"


def test_a_run_does_not_follow_what_was_chosen_at_another_price() -> None:
    problem = Problem(summary_rel(), Schedule.view().points_from(0, done=False), {}, storage_price=1.0)
    known = Known.of(problem, ("all",), 1.0, 1.0)
    assert known.is_like(Known.of(problem, ("all",), 1.0, 1.0))
    assert not known.is_like(Known.of(replace(problem, storage_price=2.0), ("all",), 1.0, 1.0))
    assert not known.is_like(Known.of(replace(problem, storage_price=0.0), ("all",), 1.0, 1.0))


@pytest.mark.parametrize("price", [-1, -0.5, float("inf"), float("nan"), True, "1", "much"])
def test_nonsense_is_refused(world: World, price: object) -> None:
    world.query()
    with pytest.raises(TempuraError) as error:
        world.wh.add_query("summary", SUMMARY, storage_price=price)  # type: ignore[arg-type]
    assert code(error) == "BAD_STORAGE_PRICE"
    assert "CPU seconds per GB" in error.value.remedy


def test_it_is_declared_in_the_file(world: World) -> None:
    world.query()
    world.wh.add_query("summary", SUMMARY, storage_price=1.5)
    path = world.wh.path / "tempura.toml"
    assert "storage_price = 1.5" in path.read_text()
    assert world.open().query("summary").status()["storage_price"] == 1.5
    world.wh.add_query("summary", SUMMARY)
    assert world.wh.query("summary").status()["storage_price"] == 1.5, "as declared unless given"
    world.wh.replace_query("summary", SUMMARY, storage_price=2)
    assert world.wh.query("summary").status()["storage_price"] == 2.0
    path.write_text(path.read_text().replace("storage_price = 2.0", "storage_price = -2.0"))
    with pytest.raises(TempuraError) as error:
        world.wh.status()
    assert code(error) == "BAD_STORAGE_PRICE"
