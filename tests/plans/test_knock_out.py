"""Rules taken away at random: what a plan computes must not depend on which rules there are, and more rules never make the best plan
of a problem dearer."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.rel import Rel
from tempura.errors import TempuraError
from tempura.rules.dsl import Rule
from tempura.rules.helpers import is_order_sensitive
from tempura.rules.methods import TEMPURA
from tempura.search.graph import Alternative, Graph
from tempura.search.price import Pricing
from tempura.search.problem import Point, Problem
from tempura.search.space import Goal, Space
from tests.plans.random_queries import ANY_STYLE, ONLY_INSERTS, QueryGenerator, random_table
from tests.plans.simulate import Tables, run_plan, truth

CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))
VIEW = (Point(1.0, output=True),) * 3
DEADLINE = (Point(0.25, output=False), Point(0.3, output=False), Point(1.0, output=True))
LIMIT = 3_000
"""Plans that are enumerated at most for one problem."""


def case(seed: int, depth: int) -> tuple[Random, Tables, Rel]:
    random = Random(seed)
    styles = random.choice((ANY_STYLE, ONLY_INSERTS))
    tables = {name: random_table(random, name, 3, styles) for name in ("r", "s", "t")}
    return random, tables, QueryGenerator(random, tuple(tables)).query(depth)


def some_of(rules: tuple[Rule, ...], random: Random) -> tuple[Rule, ...]:
    """The rules without a few of them, or without about half."""
    share = random.choice((0.1, 0.1, 0.5))
    return tuple(rule for rule in rules if random.random() >= share)


@pytest.mark.parametrize("method", ["im1", "im2", "all"])
def test_outputs_do_not_depend_on_the_rules(method: str) -> None:
    planned: Counter[bool] = Counter()
    rules = TEMPURA.methods.get(method, TEMPURA.rules)
    for seed in range(2 * CASES):
        random, tables, query = case(seed, 1 + seed % 3)
        some = replace(TEMPURA, methods={"some": (kept := some_of(rules, random))})
        points = random.choice((VIEW, DEADLINE))
        try:
            outputs = run_plan(query, tables, points, ("some",), registry=some)
        except TempuraError as error:
            if error.code != "NO_PLAN":
                raise
            planned[False] += 1
            continue
        planned[True] += 1
        expected = [truth(query, tables, t) if point.output else None for t, point in enumerate(points)]
        assert outputs == expected, f"seed {seed}, without {_names(rules) - _names(kept)}, query {query}"
    assert planned[True] > CASES, f"most rule sets must have a plan, else this test shows little: {planned}"


def _names(rules: tuple[Rule, ...]) -> set[str]:
    return {rule.name for rule in rules}


Choices = dict[Goal, Alternative]


def plans(graph: Graph, chosen: Choices, open_goals: tuple[Goal, ...]) -> Iterator[Choices]:
    """All ways to reach the open goals, and what those need."""
    while open_goals and open_goals[0] in chosen:
        open_goals = open_goals[1:]
    if not open_goals:
        yield chosen
        return
    for way in graph.alternatives(open_goals[0]):
        yield from plans(graph, {**chosen, open_goals[0]: way}, (*open_goals[1:], *way.goals))


def cheapest(problem: Problem, rules: tuple[Rule, ...]) -> int | None:
    """The cost of the cheapest of all plans; None when there is none, or too many to look at."""
    graph = Graph(Space(problem), rules)
    pricing, costs = Pricing(graph), []
    for number, choices in enumerate(plans(graph, {}, graph.outputs)):
        if number == LIMIT:
            return None
        if price := pricing.price(choices):
            costs.append(price.cost)
    return min(costs, default=None)


def test_more_rules_never_make_the_best_plan_dearer() -> None:
    """Rules that split stay: to take one away may give a TVR other parts, not fewer plans. So for values that are computed once and in
    one way: another one comes after it."""
    dearer = compared = 0
    points = (Point(0.25, output=False), Point(1.0, output=True))
    for seed in range(4 * CASES):
        random, tables, query = case(seed, 1)
        if any(map(is_order_sensitive, query.walk())):
            continue
        problem = Problem(query, points, {name: table.facts(2) for name, table in tables.items()})
        rules = TEMPURA.methods[random.choice(("im1", "im2"))]
        kept = tuple(rule for rule in rules if rule.splits or random.random() > 0.2)
        full, fewer = cheapest(problem, rules), cheapest(problem, kept)
        if full is not None and fewer is not None:
            compared += 1
            dearer += full < fewer
            assert full <= fewer, f"seed {seed}, without {_names(rules) - _names(kept)}, query {query}"
    assert compared > CASES, "there must be small problems, else this test shows little"
    assert dearer, "some rule must be worth having"
