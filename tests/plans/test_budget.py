"""Plans whose states fit into a budget: what keeps most per byte is given up last, and what is asked is kept to, whatever it costs."""

from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.rel import Rel, Union
from tempura.display import bytes_of, bytes_text
from tempura.errors import TempuraError
from tempura.plan.progressive import ProgressivePlan
from tempura.rules.methods import TEMPURA
from tempura.search.graph import Graph
from tempura.search.improve import first_candidate, improve
from tempura.search.planner import make_plan
from tempura.search.price import Pricing
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tests.plans.random_queries import QueryGenerator, random_table
from tests.plans.simulate import run_replanned, truth
from tests.plans.test_kept import ORDER, PER_DAY, SALES, SOLD, tables, total

VIEW = (Point(1 / 30, True), Point(1.0, True))
PER_ITEM, PER_ORDER = total(SALES, SOLD), total(SALES, ORDER)
"""Sales by item keep 200,000 sums, by order 15 million."""

SHARED = (VIEW, (Point(0.25, output=False), Point(1.0, output=True)))


def planned(query: Rel, budget: int | None, methods: tuple[str, ...] = ("all",)) -> ProgressivePlan:
    return make_plan(Problem(query, VIEW, tables(0, 1, known=1), state_budget=budget), methods)


def saved(plan: ProgressivePlan) -> int:
    return len(plan.steps[0].saves)


def test_of_two_states_the_one_is_kept_that_saves_more_for_its_bytes() -> None:
    query = Union((PER_ITEM, replace(PER_ORDER, keys=(replace(PER_ORDER.keys[0], column=PER_ITEM.keys[0].column),))))
    both = planned(query, None)
    small, large = sorted(save.size for save in both.steps[0].saves)
    assert large > 10 * small
    one = planned(query, round(small + large / 2))
    assert [save.size for save in one.steps[0].saves if save.size] == [small], "beside the result"
    assert both.cost < one.cost < planned(query, 0).cost
    assert planned(query, round(both.state_bytes) + 1).cost == both.cost


def test_without_any_bytes_all_is_recomputed_and_it_is_said_what_that_costs() -> None:
    unbound, bound = planned(PER_DAY, None), planned(PER_DAY, 0)
    assert unbound.state_bytes > 0
    assert bound.state_bytes == 0
    assert bound.method == "batch"
    (reason,) = (reason for reason in bound.fallbacks if reason.code == "STATE_BUDGET")
    assert bytes_text(unbound.state_bytes) in str(reason)
    assert all(other.states == 0 for other in bound.alternatives)


def test_methods_that_have_to_keep_something_are_refused() -> None:
    with pytest.raises(TempuraError, match=r"no plan with these methods keeps states of 0 B or less") as error:
        planned(PER_ITEM, 0, ("im1",))
    assert error.value.code == "STATE_BUDGET"
    assert "raise the state budget" in error.value.remedy


def test_a_plan_within_a_budget_can_be_followed() -> None:
    """What was charged for a byte is a part of the course: where the choices are not there any more, without that it leads to what does not
    fit, and all are compared again."""
    query = Union((PER_ITEM, replace(PER_ORDER, keys=(replace(PER_ORDER.keys[0], column=PER_ITEM.keys[0].column),))))
    unbound = planned(query, None)
    problem = Problem(query, VIEW, tables(0, 1, known=1), state_budget=round(unbound.state_bytes / 2))
    found = make_plan(problem)
    assert found.course is not None
    assert 0 < found.state_bytes < unbound.state_bytes
    followed = make_plan(problem, course=found.course)
    assert followed.course is found.course
    assert (followed.cost, followed.state_bytes) == (found.cost, found.state_bytes)
    assert followed.effort.plans_costed < found.effort.plans_costed / 4
    searched, free = replace(found.course, chosen=()), replace(found.course, chosen=(), scarcity=0.0)
    assert make_plan(problem, course=searched).course is searched
    assert make_plan(problem, course=free).course is not free


@pytest.mark.parametrize("seed", range(12))
def test_a_budget_is_kept_to_and_results_are_the_same(seed: int) -> None:
    """Random queries over small tables, whose states pay by declaration: nothing is asked of costs but that a budget has its price."""
    random = Random(seed)
    stored = {name: random_table(random, name, 2) for name in ("r", "s")}
    query, points = QueryGenerator(random, tuple(stored)).query(1 + seed % 2), SHARED[seed % 2]
    facts = {name: table.facts(2) for name, table in stored.items()}
    unbound = make_plan(Problem(query, points, facts), ("im1", "im2"))
    for part in (1.0, 0.5, 0.0):
        budget = round(part * unbound.state_bytes)

        def plan_of(problem: Problem, methods: tuple[str, ...], budget: int = budget) -> ProgressivePlan:
            plan = make_plan(replace(problem, state_budget=budget), methods)
            assert plan.state_bytes <= budget
            return plan

        outputs = run_replanned(query, stored, points, ("all",), plan_of)
        expected = [truth(query, stored, t) if point.output else None for t, point in enumerate(points)]
        assert outputs == expected


@pytest.mark.parametrize("rent", [0.0, 1.0, 1e3])
def test_a_plan_with_its_rent_is_priced_as_it_is_built(rent: float) -> None:
    problem = Problem(PER_DAY, VIEW, tables(0, 1, known=1))
    graph = Graph(Space(problem), TEMPURA.rules_of(("im1", "batch"))).renting(rent)
    search = graph.searches[0]
    first = first_candidate(Pricing(graph), search)
    assert first is not None
    _, found = improve(Pricing(graph), [(search, first)], 1_000)
    price = Pricing(graph).price(found.choices)
    assert price is not None
    assert price.cost == found.cost
    work = sum(graph.weighted(step.cost, step.time) for step in found.built.steps)
    kept = sum(save.size for step in found.built.steps for save in step.saves)
    assert found.cost - work == pytest.approx(rent * kept, abs=10)


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("512 KB", 512 << 10), (" 64 MB ", 64 << 20), ("1 TB", 1 << 40), ("0", 0)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1.5 MB", "64MB", "64 mb", "1 PB", "²"])
def test_what_is_no_size_is_none(text: str) -> None:
    assert bytes_of(text) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1023, "1023 B"), (1536, "1.5 KB"), (123 << 20, "123 MB"), (2**50, "1024 TB")],
)
def test_sizes_are_written_as_people_read_them(size: float, text: str) -> None:
    assert bytes_text(size) == text
