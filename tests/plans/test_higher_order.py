"""Higher-order views in whole plans: aggregations over joins of tables that change at once, lose rows, and hold NULLs."""

import os
from collections import Counter
from random import Random

import pytest

from tempura.algebra.rel import Aggregate, Join, JoinKind, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref, equal
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.errors import TempuraError
from tempura.laws.definition import Definition
from tempura.physical.operators import Read
from tempura.rules import hov
from tempura.rules.methods import TEMPURA
from tempura.search.best import explore
from tempura.search.graph import Graph
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tempura.tvr.views import Delta
from tests.plans.joined_queries import JoinedQueries, crowded, large
from tests.plans.random_queries import random_table
from tests.plans.simulate import States, Tables, run_step, truth
from tests.plans.test_every_alternative import POINTS, TIMES, Meaning

CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))


def case(seed: int) -> tuple[Random, Tables, Rel]:
    random = Random(seed)
    tables = {name: random_table(random, name, TIMES) for name in ("r", "s", "t")}
    return random, tables, JoinedQueries(random, tuple(tables)).summary()


def test_every_alternative_gives_its_view_between_the_times_too() -> None:
    used = Counter[str]()
    for seed in range(CASES):
        _, tables, query = case(8000 + seed)
        space = Space(Problem(query, POINTS, {name: crowded(table, TIMES) for name, table in tables.items()}))
        graph = Graph(space, TEMPURA.methods["hov"])
        rows = {name: [table.snapshot(t) for t in range(TIMES)] for name, table in tables.items()}
        meaning = Meaning(graph, Definition(rows, staircase=space.staircase))
        for goal, ways in explore(graph, graph.outputs).items():
            for way in ways:
                if way.rule is not None:
                    used[way.rule.name] += 1
                    wrong = meaning.check(goal, way)
                    assert not wrong, f"seed {seed}: {way.rule.name} for {goal}: {wrong}\nquery {query}"
    assert {rule.name for rule in hov.HIGHER_ORDER} <= used.keys(), "the queries must give every rule a chance"


def test_every_output_equals_a_recompute() -> None:
    used = Counter[str]()
    for seed in range(CASES):
        random, tables, query = case(9000 + seed)
        facts = {name: large(table, TIMES) for name, table in tables.items()}
        methods = random.choice((("hov",), ("hov",), ("im2", "hov"), ("all", "hov")))
        left_out = random.choice(
            ((), ("delta_multi_join",), ("state_delta", "state_delta_without_views", "delta_aggregate_by_groups"))
        )
        try:
            plan = make_plan(Problem(query, POINTS, facts), methods, without=left_out)
        except TempuraError as error:
            if error.code != "NO_PLAN":
                raise
            continue
        used.update({note.rule for step in plan.steps for note in step.notes.values()})
        states: States = {}
        outputs = [run_step(step, tables, states) for step in plan.steps]
        assert outputs == [truth(query, tables, t) for t in range(TIMES)], f"seed {seed}, query {query}, {tables}"
    assert CASES < 25 or sum(used[rule.name] for rule in hov.HIGHER_ORDER) > 2, f"few plans have views: {used}"


@pytest.mark.parametrize("methods", ["hov", "ojv", "all"])
@pytest.mark.parametrize("kind", ["semi", "anti"])
def test_who_has_a_match_is_added_up_by_views_without_a_rule_of_their_own(kind: JoinKind, methods: str) -> None:
    """What is added up is aggregated by the key and the group; of the other side the rows of each key are counted. Then only keys whose
    count leaves or reaches zero matter, and no rows are read but those that came or went."""
    r, s = (Scan(name, tuple("xyz"), tuple(Column(f"{name}.{c}", c, "int") for c in "xyz")) for name in "rs")
    total = AggregateCall("Sum", (Ref(r.columns[2]),), "bigint")
    query = Aggregate(
        Join(r, s, kind, equal(Ref(r.columns[0]), Ref(s.columns[0]))),
        (Output(Column("k", "k", "int"), Ref(r.columns[1])),),
        (AggregateOutput(Column("total", "total", "bigint"), total),),
    )
    few = {"x": ColumnStats(50_000), "y": ColumnStats(20), "z": ColumnStats(1_000)}
    tables = {
        "r": TableFacts((100_000_000, 100_010_000, 100_020_000), (0, 0, 0), 1, columns=few),
        "s": TableFacts((10_000_000, 10_002_000, 10_004_000), (0, 1_000, 2_000), 1, columns=few),
    }
    points = (Point(0.0, output=True), Point(1.0, output=True), Point(1.0, output=True))
    plan = make_plan(Problem(query, points, tables), (methods,))
    recomputed = make_plan(Problem(query, points, tables), ("batch",))
    for step, other in zip(plan.steps[1:], recomputed.steps[1:], strict=True):
        assert all(isinstance(rel.at, Delta) for rel in step.operators if isinstance(rel, Read))
        assert step.cost < 0.3 * other.cost
