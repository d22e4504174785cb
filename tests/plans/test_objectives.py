"""What plans are the cheapest by: the weighted sum of all steps (``c_w``), or the last step, then the one before it (``c_v``)."""

from dataclasses import replace
from random import Random

import pytest

from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.times.schedule import Schedule
from tests.plans.random_queries import QueryGenerator
from tests.plans.test_outline import growing


def from_last_to_first(seed: int, objective: str) -> tuple[int, ...]:
    """The costs of a plan's steps over tables that gain 1 % each time, and lose some rows in every second problem."""
    random = Random(seed)
    query = QueryGenerator(random, ("r", "s", "t")).query(1 + seed % 3)
    table = replace(growing(3), deleted=tuple(25_000 * t * (seed % 2) for t in range(3)), append_only=False)
    points = Schedule(("a", "b", "c"), (0.25, 0.5, 1.0), (False, False, True), objective).points_from(0, done=False)
    plan = make_plan(Problem(query, points, dict.fromkeys("rst", table)))
    return tuple(step.cost for step in reversed(plan.steps))


@pytest.mark.parametrize("seed", [0, 3, 4, 6, 9, 11, 12, 13, 16, 17])
def test_the_last_step_is_no_dearer_where_it_decides(seed: int) -> None:
    """Nor is the one before it, where the last ones cost the same, and so on."""
    assert from_last_to_first(seed, "c_v") <= from_last_to_first(seed, "c_w")


def test_the_last_step_is_cheaper_where_it_decides_and_more_is_done_for_that() -> None:
    """All that comes until the second time is looked at then, not what came until the first one."""
    by_last, by_sum = from_last_to_first(11, "c_v"), from_last_to_first(11, "c_w")
    assert by_last[0] < by_sum[0]
    assert sum(by_last) > sum(by_sum)
