"""The master law: at each output time, what a plan emits is the query over all data seen so far. For every method set, with one
plan from first to last and with a new plan before each step, on random queries over random tables with NULLs, duplicates,
deletions and empty arrivals. Each query is due at all times or at the last one only, by turns; ``script/test-full`` has both of each."""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel, Scan, Values, empty
from tempura.algebra.scalar import Column
from tempura.cost.model import CostModel
from tempura.plan.progressive import Course, ProgressivePlan, Step
from tempura.search.consolidation import consolidated_late
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.random_queries import ONLY_INSERTS, QueryGenerator, Table, random_table
from tests.plans.simulate import BOTH, Tables, run_plan, run_replanned, schedules, truth

Run = Callable[[Rel, Tables, tuple[Point, ...], tuple[str, ...]], list[SignedBag | None]]
TIMES = 3
_X = Column("x", "x", "int")
PRICES = [field.name for field in fields(CostModel) if field.name != "origin"]
CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))
VIEW = tuple(Point(1.0, output=True) for _ in range(TIMES))
DEADLINE = (Point(0.25, output=False), Point(0.3, output=False), Point(1.0, output=True))


@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("ojv",), ("batch",), ("all",)], ids=lambda m: m[0])
@pytest.mark.parametrize("run", [run_plan, run_replanned], ids=["one-plan", "replanned"])
@pytest.mark.parametrize("both", BOTH)
def test_every_output_equals_a_recompute(methods: tuple[str, ...], run: Run, both: bool) -> None:
    for seed in range(CASES):
        random = Random(seed)
        tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t")}
        query = QueryGenerator(random, tuple(tables)).query(1 + seed % 4)
        for points in schedules(VIEW, DEADLINE, seed // 4, both):  # of each depth as many
            outputs = run(query, tables, points, methods)
            for t, (point, output) in enumerate(zip(points, outputs, strict=True)):
                expected = truth(query, tables, t) if point.output else None
                assert output == expected, f"seed {seed}, time {t}, query {query}, tables {tables}"


@pytest.mark.parametrize("methods", [("im2",), ("im1", "im2")], ids="+".join)
@pytest.mark.parametrize("run", [run_plan, run_replanned], ids=["one-plan", "replanned"])
@pytest.mark.parametrize("both", BOTH)
def test_every_output_equals_a_recompute_when_tables_only_grow(methods: tuple[str, ...], run: Run, both: bool) -> None:
    """Then TVRs have parts that grow: the queries are those that have something to split."""
    for seed in range(CASES):
        random = Random(2000 + seed)
        tables = {name: random_table(random, name, TIMES, ONLY_INSERTS) for name in ("r", "s", "t")}
        query = QueryGenerator(random, tuple(tables)).query(1 + seed % 4)
        for points in schedules(VIEW, DEADLINE, seed // 4, both):  # of each depth as many
            expected = [truth(query, tables, t) if point.output else None for t, point in enumerate(points)]
            assert run(query, tables, points, methods) == expected, f"seed {seed}, query {query}, tables {tables}"


def random_prices(random: Random) -> CostModel:
    """A cost model that leads to other plans: each price off by up to a factor of a thousand in either direction."""
    default = CostModel()
    return replace(default, **{name: round(getattr(default, name) * 10 ** random.uniform(-3, 3)) for name in PRICES})


def test_every_output_equals_a_recompute_whatever_things_cost() -> None:
    # Without the method batch, which would be the plan of all these small tables.
    plans = set()
    for seed in range(2 * CASES):
        random = Random(1000 + seed)
        tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t")}
        query = QueryGenerator(random, tuple(tables)).query(1 + seed % 3)
        model = random_prices(random)
        outputs = run_plan(query, tables, VIEW, ("im1",), model)
        assert outputs == [truth(query, tables, t) for t in range(TIMES)], f"seed {seed}, query {query}, {model}"
        plans.add(_rules_used(query, tables, model))
    assert len(plans) >= CASES / 3, "the prices must lead to different plans, else this test shows little"


@dataclass
class GoesOn:
    """Plans that go the course of the one before, if that leads anywhere."""

    prices: CostModel
    last: Course | None = None
    followed: int = 0

    def __call__(self, problem: Problem, methods: tuple[str, ...]) -> ProgressivePlan:
        plan = make_plan(replace(problem, prices=self.prices), methods, course=self.last)
        self.followed += plan.course is not None and plan.course is self.last
        self.last = plan.course
        return plan


@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("all",)], ids=lambda m: m[0])
def test_every_output_equals_a_recompute_when_plans_go_the_course_of_those_before(methods: tuple[str, ...]) -> None:
    followed = 0
    for seed in range(2 * CASES):
        random = Random(4000 + seed)
        tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t")}
        query = QueryGenerator(random, tuple(tables)).query(1 + seed % 4)
        goes_on = GoesOn(random_prices(random))
        outputs = run_replanned(query, tables, VIEW, methods, goes_on)
        assert outputs == [truth(query, tables, t) for t in range(TIMES)], f"seed {seed}, query {query}, {goes_on}"
        followed += goes_on.followed
    assert followed > CASES


class FreeGrouping(CostModel):
    """Prices by which rows are always taken out later."""

    def grouping(self, rows: float, row_bytes: float) -> int:
        return 0


@pytest.mark.parametrize("methods", [("im1",), ("batch",), ("all",)], ids=lambda m: m[0])
def test_every_output_equals_a_recompute_when_deletions_are_taken_out_late(
    methods: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempura.physical.deletions.LARGE_BYTES", 0)
    monkeypatch.setattr("tempura.physical.deletions.PART", 1.0)
    moved: list[bool] = []

    def spied(step: Step, *given: Any) -> Step:
        found = consolidated_late(step, *given)
        moved.append(found is not step)
        return found

    monkeypatch.setattr("tempura.search.extract.consolidated_late", spied)
    for seed in range(8 * CASES):
        random = Random(3000 + seed)
        tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t")}
        query = QueryGenerator(random, tuple(tables)).query(1 + seed % 4)
        outputs = run_plan(query, tables, VIEW, methods, FreeGrouping())
        assert outputs == [truth(query, tables, t) for t in range(TIMES)], f"seed {seed}, query {query}, {tables}"
    assert sum(moved) > 5


def _rules_used(query: Rel, tables: Tables, model: CostModel) -> frozenset[str]:
    facts = {name: table.facts(TIMES) for name, table in tables.items()}
    plan = make_plan(Problem(query, VIEW, facts, prices=model), ("im1",))
    return frozenset(note.rule for step in plan.steps for note in step.notes.values())


@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("batch",), ("all",)], ids=lambda m: m[0])
@pytest.mark.parametrize("query", [empty((_X,)), Values((_X,), ((1,),)), Scan("r", ("x",), (_X,))], ids=str)
def test_a_query_that_is_nothing_but_a_table_or_a_constant(query: Rel, methods: tuple[str, ...]) -> None:
    tables = {"r": Table("r", (SignedBag.of([(1,), (1,)]), SignedBag.of([(2,)]), -SignedBag.of([(1,)])))}
    expected = [truth(query, tables, t) for t in range(TIMES)]
    assert run_plan(query, tables, VIEW, methods) == run_replanned(query, tables, VIEW, methods) == expected
