"""The master law: at each output time, what a plan emits is the query over all data seen so far. For every method set, with one
plan from first to last and with a new plan before each step, on random queries over random tables with NULLs, duplicates,
deletions and empty arrivals."""

import os
from collections.abc import Callable
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel
from tempura.search.problem import Point
from tests.plans.random_queries import QueryGenerator, random_table
from tests.plans.simulate import Tables, run_plan, run_replanned, truth

Run = Callable[[Rel, Tables, tuple[Point, ...], tuple[str, ...]], list[SignedBag | None]]
TIMES = 3
CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))
VIEW = tuple(Point(1.0, output=True) for _ in range(TIMES))
DEADLINE = (Point(0.25, output=False), Point(0.3, output=False), Point(1.0, output=True))


@pytest.mark.parametrize("methods", [("im1",), ("batch",), ("all",)], ids=lambda m: m[0])
@pytest.mark.parametrize("run", [run_plan, run_replanned], ids=["one-plan", "replanned"])
def test_every_output_equals_a_recompute(methods: tuple[str, ...], run: Run) -> None:
    for seed in range(CASES):
        random = Random(seed)
        tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t")}
        query = QueryGenerator(random, tuple(tables)).query(1 + seed % 4)
        for points in (VIEW, DEADLINE):
            outputs = run(query, tables, points, methods)
            for t, (point, output) in enumerate(zip(points, outputs, strict=True)):
                expected = truth(query, tables, t) if point.output else None
                assert output == expected, f"seed {seed}, time {t}, query {query}, tables {tables}"
