"""What plans cost that differ in a choice: found by what comes and goes, and the same as if each were looked at as a whole."""

import os
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tempura.memo.events import Listener
from tempura.physical.operators import StateKey
from tempura.rules.methods import TEMPURA
from tempura.search import extract
from tempura.search.events import EffortCounter
from tempura.search.extract import Extraction
from tempura.search.graph import Alternative, Graph
from tempura.search.improve import Candidate, Choices, first_candidate
from tempura.search.price import Price, Pricing
from tempura.search.problem import Point, Problem
from tempura.search.space import Goal, Keep, Space
from tempura.tvr.views import View
from tests.plans.random_queries import QueryGenerator, random_table

CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))
POINTS = (Point(0.3, True), Point(0.5, False), Point(1.0, True))


def random_graph(seed: int, storage_price: float, *listeners: Listener) -> Graph:
    random = Random(seed)
    tables = {name: random_table(random, name, len(POINTS)) for name in ("r", "s", "t")}
    query = QueryGenerator(random, tuple(tables)).query(1 + seed % 3)
    facts = {name: table.facts(len(POINTS)) for name, table in tables.items()}
    problem = Problem(query, POINTS, facts, storage_price=storage_price)
    rules = TEMPURA.rules_of((random.choice(("im1", "im2", "ojv", "all")), "batch"))
    return Graph(Space(problem, *listeners), rules, begins=2, keep=random.choice((Keep.BOTH, Keep.NEW)))


def begun(pricing: Pricing) -> tuple[Candidate, Price]:
    """A plan and its price; not every search has one, for what is computed once may begin too late for it."""
    found = (first_candidate(pricing, search) for search in pricing.graph.searches)
    first = next(candidate for candidate in found if candidate)
    price = pricing.walk(first.choices)
    assert price is not None
    return first, price


Tried = tuple[Goal, Choices, Price, Price | None]


def walk_through_plans(random: Random, pricing: Pricing, steps: int, loads: bool = False) -> Iterator[Tried]:
    """Plans of which each differs from the one before in the choice for one goal, whether that pays or not: the goal, what is chosen now,
    the price of the plan before, and of this one; None when it would depend on itself, and the next goes on from the one before."""
    first, price = begun(pricing)
    choices = dict(first.choices)
    for _ in range(steps):
        goal = random.choice(list(price.reached))
        ways = pricing.graph.alternatives(goal)
        way = random.choice([way for way in ways if all(child in choices for child in way.goals)])
        exchanged = {**(loaded(pricing.graph, way, price) if loads else {}), goal: way}
        other = pricing.walk(choices, exchanged)
        yield goal, {**choices, **exchanged}, price, other
        if other is not None:
            choices, price = {**choices, **exchanged}, other


def loaded(graph: Graph, way: Alternative, price: Price) -> Choices:
    """Of what a way needs and a plan does not have, what can be loaded because the plan makes it anyway."""
    needed = (goal for goal in way.goals if goal not in price.reached)
    ways = ((goal, load) for goal in needed for load in graph.alternatives(goal) if load.rule is None)
    return {goal: load for goal, load in ways if all(saved in price.reached for saved in load.goals)}


@pytest.mark.parametrize("storage_price", [0.0, 1e6])
def test_an_exchange_costs_what_the_plan_with_it_does(storage_price: float) -> None:
    """Any choice for any, not only those that pay: a walk through plans, which may depend on themselves."""
    costs: list[int | None] = []
    for seed in range(CASES):
        pricing = Pricing(random_graph(5000 + seed, storage_price))
        for goal, choices, price, other in walk_through_plans(Random(seed), pricing, 60):
            cost = pricing.exchanged(price, goal, {goal: choices[goal]})
            assert cost == (other.cost if other else None), f"seed {seed}, {goal}"
            costs.append(cost)
    found = [cost for cost in costs if cost is not None]
    assert len(found) > 40 * CASES
    assert len(set(found)) > 5 * CASES, "plans must differ, else this test shows little"
    assert None in costs, "some must depend on themselves"


@pytest.mark.parametrize("storage_price", [0.0, 1e6])
def test_an_exchange_that_pays_is_never_left_out(storage_price: float) -> None:
    """Of those that do not pay some are left out without a price, by what they add at least. The walk goes to dear plans, too, so that
    much can be gained."""
    cheaper = left_out = 0
    counter = EffortCounter()
    for seed in range(2 * CASES):
        random, pricing = Random(seed), Pricing(random_graph(7000 + seed, storage_price, counter))
        for goal, choices, price, other in walk_through_plans(random, pricing, 60, loads=True):
            pays = other is not None and other.cost < price.cost
            before = counter.effort.plans_costed
            come = {needed: choices[needed] for needed in choices[goal].goals if needed not in price.reached}
            cost = pricing.exchanged(price, goal, {**come, goal: choices[goal]}, below=price.cost)
            assert cost == (other.cost if other and pays else None), f"seed {seed}, {goal}"
            cheaper += pays
            left_out += counter.effort.plans_costed == before
    assert min(cheaper, left_out) > 5 * CASES, (cheaper, left_out)


def test_a_plan_costs_what_the_search_said() -> None:
    """To the nanosecond, whatever is chosen; but for snapshots that a later join will want in buckets, which the search does not know."""
    as_said = 0
    for seed in range(CASES):
        pricing = Pricing(random_graph(5000 + seed, 0.0))
        for _, choices, _, price in walk_through_plans(Random(seed), pricing, 12):
            if price is None:
                continue
            built = Candidate(pricing.graph, choices, price.cost, price.least).built
            saves = [save for step in built.steps for save in step.saves]
            if any(save.bucket and save.key.kind == "snapshot" for save in saves):
                assert built.cost > price.cost, f"seed {seed}"
            else:
                assert price.least <= built.cost <= price.cost, f"seed {seed}"
                as_said += built.cost == price.cost
    assert as_said > 6 * CASES, "few deletions may be taken out later than the search says, but seldom are"


def test_two_things_only_are_decided_when_a_plan_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where few deletions are taken out, and by what columns snapshots are bucketed for a later join. Without these every plan costs what
    the search said, whatever is chosen."""
    of_any_kind = Extraction._bucket

    def of_states_only(self: Extraction, key: StateKey, view: View) -> tuple[int, ...]:
        return of_any_kind(self, key, view) if key.kind == "state" else ()

    monkeypatch.setattr(Extraction, "_bucket", of_states_only)
    monkeypatch.setattr(extract, "consolidated_late", lambda step, *known: step)
    for seed in range(CASES):
        pricing = Pricing(random_graph(5000 + seed, 0.0))
        for _, choices, _, price in walk_through_plans(Random(seed), pricing, 12):
            if price is not None:
                assert Candidate(pricing.graph, choices, 0, 0).built.cost == price.cost, f"seed {seed}"


def test_what_a_goal_needs_may_need_that_goal() -> None:
    """Not at once, but by a choice that the plan has made for what is above it."""
    circles = 0
    for seed in range(CASES):
        graph = random_graph(6000 + seed, 0.0)
        pricing = Pricing(graph)
        first, price = begun(pricing)
        for top in price.reached:
            way = first.choices[top]
            for below in way.goals if way.rule else ():
                circle = {below: replace(first.choices[below], rule=way.rule, goals=(top,))}
                assert pricing.exchanged(price, below, circle) is None
                assert pricing.walk(first.choices, circle) is None
                circles += 1
    assert circles > 4 * CASES
