"""What storage costs is a part of what plans cost: a state is kept as long as it saves more work than its bytes count as."""

from dataclasses import replace

import pytest

from tempura.algebra.rel import Rel, Union
from tempura.explain.text import explain
from tempura.plan.progressive import ProgressivePlan
from tempura.rules.methods import TEMPURA
from tempura.search.graph import Graph
from tempura.search.improve import first_candidates, improve
from tempura.search.planner import make_plan
from tempura.search.price import Pricing
from tempura.search.problem import Point, Problem
from tempura.search.space import Keep, Space
from tests.plans.test_budget import PER_ITEM, PER_ORDER, VIEW
from tests.plans.test_kept import PER_DAY, tables

AGAIN = (Point(0.0, False, done=True), Point(1.0, True), Point(1.0, True))


def planned(query: Rel, price: float, budget: int | None = None) -> ProgressivePlan:
    problem = Problem(query, VIEW, tables(0, 1, known=1), state_budget=budget, storage_price=price)
    return make_plan(problem)


def work(plan: ProgressivePlan) -> int:
    return sum(round(weight * step.cost) for weight, step in zip(plan.weights, plan.steps, strict=True))


def test_without_a_price_storage_costs_nothing() -> None:
    plan = planned(PER_DAY, 0.0)
    assert plan.state_bytes > 0
    assert (plan.storage, plan.cost) == (0, work(plan))
    assert "storage" not in explain(plan).splitlines()[0]


def test_a_state_is_kept_as_long_as_it_saves_more_than_it_costs() -> None:
    free = planned(PER_ITEM, 0.0)
    saved = make_plan(Problem(PER_ITEM, VIEW, tables(0, 1, known=1)), ("batch",)).cost - free.cost
    assert saved > 0
    worth = saved / free.state_bytes
    paid, dropped = planned(PER_ITEM, 0.95 * worth), planned(PER_ITEM, 1.05 * worth)
    assert paid.state_bytes == free.state_bytes
    assert paid.storage == pytest.approx(0.95 * saved, rel=0.01)
    assert paid.cost == work(paid) + paid.storage
    assert explain(paid).splitlines()[0].endswith(" s of it for storage")
    assert (dropped.state_bytes, dropped.storage, dropped.method) == (0, 0, "batch")


def test_of_two_states_the_one_that_saves_less_for_its_bytes_is_given_up_first() -> None:
    query = Union((PER_ITEM, replace(PER_ORDER, keys=(replace(PER_ORDER.keys[0], column=PER_ITEM.keys[0].column),))))
    free = planned(query, 0.0)
    small, large = sorted(save.size for save in free.steps[0].saves)
    saved = (planned(query, 10.0**power).steps[0].saves for power in range(-3, 6))
    kept = {tuple(sorted(save.size for save in saves if save.size)) for saves in saved}
    assert kept == {(small, large), (small,), ()}


def test_a_budget_holds_whatever_the_price() -> None:
    free = planned(PER_DAY, 0.0)
    bound = planned(PER_DAY, 1e-6, budget=round(free.state_bytes) - 1)
    assert bound.state_bytes < free.state_bytes


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("price", [0.0, 1e-3, 1.0, 1e3])
def test_what_earlier_runs_left_is_charged_for_too_where_it_stays(keep: Keep, price: float) -> None:
    """The price of a plan is the price of the search, to the nanosecond, and it is the work and the bytes that are kept."""
    begun = planned(PER_DAY, 0.0)
    states = frozenset(replace(save.key, time=0) for save in begun.steps[0].saves)
    problem = Problem(PER_DAY, AGAIN, tables(0, 0, 1, known=2), states, storage_price=price)
    graph = Graph(Space(problem), TEMPURA.rules_of(("im1", "batch")), begins=1, keep=keep)
    search = graph.searches[0]
    for first in first_candidates(Pricing(graph), search, (None, 0, 1)):
        _, found = improve(Pricing(graph), [(search, first)], 1_000)
        found_price = Pricing(graph).price(found.choices)
        assert found_price is not None
        assert found_price.cost == found.cost
        steps = sum(graph.weighted(step.cost, step.time) for step in found.built.steps)
        assert found.cost == steps + sum(round(price * size) for size in found.built.sizes)
        loaded_later = any(
            way.rule is None for goal, way in found.choices.items() if goal in found.built.reached and goal.time > 1
        )
        assert bool(found.built.sizes) == loaded_later
