"""Runs progressive plans on bags, as a warehouse does: before each step the plan is made again with what is stored by then."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tempura.algebra.bag import EMPTY, SignedBag
from tempura.algebra.die import FIXED, Die
from tempura.algebra.evaluate import Evaluation, Leaf, evaluate
from tempura.algebra.rel import Rel, Scan
from tempura.cost.model import SPARK, CostModel
from tempura.cost.stats import TableFacts
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.tvr.staircase import whole
from tempura.tvr.views import Snapshot
from tests.plans.random_queries import Table

Tables = Mapping[str, Table]
States = dict[StateKey, SignedBag]
Points = tuple[Point, ...]

BOTH = [pytest.param(False, id="by-turns"), pytest.param(True, id="both", marks=pytest.mark.full)]
"""Each query with one of two schedules, or with both."""


def schedules(view: Points, deadline: Points, turn: int, both: bool) -> tuple[Points, ...]:
    """The schedules of a query: both, or one of them by turns."""
    return (view, deadline) if both else (deadline,) if turn % 2 else (view,)


def truth(query: Rel, tables: Tables, t: int, die: Die = FIXED) -> SignedBag:
    """The query over the tables' snapshots: what every plan has to give."""
    return evaluate(query, lambda leaf: tables[leaf.table].snapshot(t) if isinstance(leaf, Scan) else SignedBag(), die)


def leaves(tables: Tables, states: States, offset: int = 0) -> Leaf:
    """What the leaves of a step stand for. ``offset``: the tables' time of the plan's point 0."""

    def leaf(rel: Rel) -> SignedBag:
        if isinstance(rel, Load):
            return states[rel.key]
        assert isinstance(rel, Read)
        table = tables[rel.scan.table]
        if isinstance(rel.at, Snapshot):
            return table.snapshot(whole(rel.at.t) + offset)
        return table.delta(whole(rel.at.t) + offset, whole(rel.at.u) + offset)

    return leaf


def run_step(step: Step, tables: Tables, states: States, offset: int = 0, die: Die = FIXED) -> SignedBag | None:
    """Run a step: keep what it saves in ``states``, return what it emits. The parts of a step share what they compute, as on Spark.
    ``offset``: the tables' time of the plan's point 0."""
    at_work = Evaluation(leaves(tables, states, offset), die)
    saved = {save.key: at_work.bag(save.rel) for save in step.saves}
    emitted = None if step.emit is None else at_work.bag(step.emit)
    assert all(bag.is_positive for bag in (*saved.values(), emitted or EMPTY)), "what was not there is taken away"
    states.update(saved)
    return emitted


def run_plan(
    query: Rel,
    tables: Tables,
    points: tuple[Point, ...],
    methods: tuple[str, ...],
    prices: CostModel = SPARK,
    die: Die = FIXED,
    registry: Registry = TEMPURA,
) -> list[SignedBag | None]:
    """One plan, made with all arrivals known, run from first to last."""
    facts = {name: table.facts(len(points)) for name, table in tables.items()}
    plan = make_plan(Problem(query, points, facts, prices=prices, registry=registry), methods)
    states: States = {}
    return [run_step(step, tables, states, 0, die) for step in plan.steps]


def run_replanned(
    query: Rel,
    tables: Tables,
    points: tuple[Point, ...],
    methods: tuple[str, ...],
    plan_of: Callable[[Problem, tuple[str, ...]], ProgressivePlan] = make_plan,
    die: Die = FIXED,
) -> list[SignedBag | None]:
    """Before each step, a new plan for the time points that remain; arrivals after it are expected to be none, or many."""
    states: States = {}
    outputs = []
    for now in range(len(points)):
        first = max(0, now - 1)
        plan = plan_of(_problem_at(query, tables, points, now, first, states), methods)
        outputs.append(run_step(plan.step_at(now - first), tables, shifted := _shift(states, -first), first, die))
        states = _shift(shifted, first)
    return outputs


def _problem_at(query: Rel, tables: Tables, points: tuple[Point, ...], now: int, first: int, states: States) -> Problem:
    facts = {name: _expected(table, first, now) for name, table in tables.items()}
    remaining = tuple(replace(p, done=(i + first) < now) for i, p in enumerate(points[first:]))
    stored = frozenset(key for key in _shift(states, -first) if key.time == 0 and now > 0)
    return Problem(query, remaining, facts, stored)


def _expected(table: Table, first: int, now: int) -> TableFacts:
    """The table as known now: past arrivals are facts, later ones are guessed (wrongly, for most tables)."""
    facts = table.facts(now + 1)
    inserted = tuple(n if i <= now else facts.inserted[now] + i - now for i, n in enumerate(facts.inserted))
    deleted = tuple(n if i <= now else facts.deleted[now] for i, n in enumerate(facts.deleted))
    return replace(facts, inserted=inserted[first:], deleted=deleted[first:], known=now + 1 - first)


def _shift(states: States, by: int) -> States:
    return {replace(key, time=key.time + by): bag for key, bag in states.items()}
