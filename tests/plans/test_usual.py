"""A plan stays as the last run's was unless another promises to save more than estimates may be wrong by."""

from random import Random

import pytest

from tempura.cost.stats import TableFacts
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.random_queries import QueryGenerator, random_table


def posed(seed: int, share: float) -> Problem:
    """A view of a random query over three tables that grow by a share."""
    random = Random(seed)
    tables = {name: random_table(random, name, 3) for name in ("r", "s", "t")}
    query = QueryGenerator(random, tuple(tables)).query(1 + seed % 3)
    rows = tuple(round(10_000_000 * (1 + share * t)) for t in range(3))
    facts = {
        name: TableFacts(rows, (0,) * 3, 1, append_only=True, columns=table.facts(1).columns)
        for name, table in tables.items()
    }
    return Problem(query, (Point(1.0, True),) * 3, facts)


@pytest.mark.parametrize("seed", [11, 18])
def test_what_saves_little_is_not_worth_another_plan(seed: int) -> None:
    before, now = make_plan(posed(seed, 0.001)), posed(seed, 0.1)
    cheapest, same = make_plan(now), make_plan(now, course=before.course)
    assert before.course
    assert same.course == before.course
    saved = 1 - cheapest.cost / same.cost
    assert 0 < saved < 0.05
    stays = make_plan(now, usual=before.course, margin=1.5 * saved)
    assert (stays.course, stays.cost, stays.cheapest) == (before.course, same.cost, cheapest.cost)
    assert next(a.cost for a in stays.alternatives if a.chosen) == same.cost
    changes = make_plan(now, usual=before.course, margin=saved / 2)
    assert (changes.cost, changes.cheapest) == (cheapest.cost, None)
    assert changes.course != before.course


def test_what_saves_much_is() -> None:
    before, now = make_plan(posed(30, 0.001)), posed(30, 0.1)
    assert make_plan(now, usual=before.course, margin=0.1).cost == make_plan(now, margin=0.1).cost


def test_who_doubts_states_goes_back_to_recomputing_sooner() -> None:
    before, now = make_plan(posed(38, 0.001)), posed(38, 0.1)
    assert before.method != "batch"
    assert make_plan(now, margin=0.1).method == "batch"
    assert make_plan(now, usual=before.course, margin=0.1).course == before.course
    assert make_plan(now, usual=before.course, margin=0.1, doubt=1.5).method == "batch"


def test_what_leads_nowhere_any_more_is_no_plan() -> None:
    """The states of the past that the plan went on from are gone."""
    before, other = make_plan(posed(33, 0.001)), posed(11, 0.1)
    assert make_plan(other, usual=before.course, margin=0.1).cheapest is None
