"""What is not done again: rules are matched once whatever the number of times, and a view is rewritten once whoever plans by the rules."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.rel import Rel
from tempura.plan.progressive import Effort
from tempura.rules.dsl import Rewrite, Rule
from tempura.rules.methods import TEMPURA
from tempura.search.best import explore
from tempura.search.events import EffortCounter
from tempura.search.graph import Graph
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.search.space import Space
from tests.plans.random_queries import QueryGenerator
from tests.plans.test_budget import VIEW
from tests.plans.test_kept import ORDERS_BY_TOTAL, PER_DAY, tables
from tests.plans.test_outline import growing, rising, searched_wholly
from tests.plans.test_planner import problem


def outer_join(times: int) -> Problem:
    """The sum over a left join of two tables that grow."""
    return problem(growing(times), growing(times, 1_000), rising(times))


def at_random(seed: int) -> Callable[[int], Problem]:
    """A query of three tables that gain 1 % each time."""
    random = Random(seed)
    query = QueryGenerator(random, ("r", "s", "t")).query(1 + seed % 3)
    return lambda times: Problem(query, rising(times), dict.fromkeys("rst", growing(times)))


QUERIES = {"outer-join": outer_join, **{f"seed-{seed}": at_random(seed) for seed in (1, 10)}}


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[Rel]:
    """What rules were compared with."""
    asked, match = list[Rel](), Rule.match

    def counted(self: Rule, target: Rel) -> dict[str, object] | None:
        asked.append(target)
        return match(self, target)

    monkeypatch.setattr(Rule, "match", counted)
    return asked


@pytest.mark.parametrize("name", QUERIES)
def test_rules_are_matched_once_whatever_the_number_of_times(name: str, matched: list[Rel]) -> None:
    """An operator matches at all times or at none. Only what a match gives at a time is looked at for each."""
    matches, firings = list[int](), list[int]()
    for times in (3, 6, 9):
        counter = EffortCounter()
        space = Space(QUERIES[name](times), counter)
        matched.clear()
        graph = Graph(space, TEMPURA.rules_of(("all",)), begins=times - 2)
        explore(graph, graph.outputs)
        matches.append(len(matched))
        firings.append(counter.effort.firings)
    assert matches[0] == matches[1] == matches[2] > 0
    assert firings[2] > 2 * firings[0], "each time has views of its own, else this test shows little"


Ways = set[tuple[str, str, str]]
"""Goals, the rules that reach them, and by what."""


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rules whose guards were asked."""
    asked, apply = list[str](), Rule.apply

    def counted(self: Rule, **bindings: object) -> Rewrite:
        asked.append(self.name)
        return apply(self, **bindings)

    monkeypatch.setattr(Rule, "apply", counted)
    return asked


def ways(asked: Problem, rules: tuple[Rule, ...]) -> Ways:
    """The whole plan space."""
    graph = Graph(Space(asked), rules, begins=len(asked.points) - 2)
    found = ((goal, way) for goal, ways in explore(graph, graph.outputs).items() for way in ways)
    return {(str(goal), way.rule.name if way.rule else "", str(way.rhs)) for goal, way in found}


@pytest.mark.parametrize("name", QUERIES)
def test_guards_that_do_not_hold_are_not_asked_again(
    name: str, applied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only facts know of times: a guard that is given none holds of an operator at all times or at none. And some hold of nothing where no
    table refers to another. Nothing is lost by it."""
    asked, rules = QUERIES[name](4), TEMPURA.rules_of(("all",))
    found, few = ways(asked, rules), len(applied)
    applied.clear()
    monkeypatch.setattr(Rule, "is_guarded_at_all_times", False)
    assert ways(asked, tuple(replace(rule, by_reference=False) for rule in rules)) == found
    assert few < 0.8 * len(applied)


def efforts(asked: Problem) -> dict[str, Effort]:
    """What it takes to plan by each method, and by all of them."""
    methods = (*TEMPURA.names_of(("all",)), "all")
    return {method: make_plan(asked, (method,)).effort for method in methods}


@pytest.mark.parametrize(
    ("asked", "of_im1", "of_the_sum"),
    [
        pytest.param(Problem(PER_DAY, VIEW, tables(0, 1, known=1)), 1.4, 0.5, id="inner-joins"),
        pytest.param(Problem(ORDERS_BY_TOTAL, VIEW, tables(0, 1, known=1)), 1.4, 0.45, id="sums-of-sums"),
        pytest.param(QUERIES["seed-1"](3), 2.1, 0.6, id="seed-1"),
        pytest.param(QUERIES["seed-10"](3), 2.3, 0.7, id="seed-10"),
        pytest.param(outer_join(3), 3.2, 0.95, id="outer-join"),
    ],
)
def test_methods_are_not_searched_anew(asked: Problem, of_im1: float, of_the_sum: float) -> None:
    """All methods together take as many times the rules that ``im1`` alone applies, and as much of what all take one by one. Of an outer
    join nearly all that each does is its own: there hardly anything is shared."""
    found = efforts(asked)
    alone = sum(effort.firings for method, effort in found.items() if method != "all")
    assert found["all"].firings <= of_im1 * found["im1"].firings
    assert found["all"].firings <= of_the_sum * alone


@pytest.mark.parametrize("name", QUERIES)
def test_nine_times_take_a_fifth_more_exploration_than_three(name: str, matched: list[Rel]) -> None:
    """Rules are compared with operators for three of the times, and those of the outline once more for all. Excepted is what the outlined
    rules make of views at each time: as many as there are times, but of few rules."""
    matches, firings = dict[int, int](), dict[int, int]()
    for times in (3, 9):
        matched.clear()
        firings[times] = make_plan(QUERIES[name](times)).effort.firings
        matches[times] = len(matched)
    assert matches[9] <= 1.2 * matches[3]
    assert firings[3] < firings[9] <= 2 * firings[3]


def test_without_an_outline_nine_times_would_take_four_times_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    few, wholly = make_plan(outer_join(3)).effort, searched_wholly(outer_join(9), monkeypatch).effort
    assert wholly.firings > 4 * few.firings
