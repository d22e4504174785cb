"""Every alternative of every group gives the group's view, by definition: also those that no cost model would choose."""

import os
from collections import Counter
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Rel
from tempura.errors import TempuraError
from tempura.laws.definition import Definition
from tempura.physical.operators import Read
from tempura.rules import references
from tempura.rules.methods import TEMPURA
from tempura.search.best import explore
from tempura.search.graph import Alternative, Graph
from tempura.search.problem import Point, Problem
from tempura.search.space import Goal, Space
from tempura.tvr.views import StateDelta, View
from tests.plans.random_queries import ANY_STYLE, ONLY_INSERTS, QueryGenerator, random_table

CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))
TIMES = 3
POINTS = (Point(1.0, output=True),) * TIMES


class Meaning:
    """What views of classes and reads of tables are, by definition."""

    def __init__(self, graph: Graph, definition: Definition) -> None:
        self._graph = graph
        self._definition = definition

    def of(self, leaf: Rel) -> SignedBag:
        if isinstance(leaf, Read):
            return self._definition.view(View(leaf.scan, leaf.at))
        assert isinstance(leaf, View)
        return self._definition.view(View(self._graph.memo.tree(leaf.tvr), leaf.at))

    def check(self, goal: Goal, way: Alternative) -> str:
        """How an alternative differs from its goal; empty when it does not."""
        try:
            expected = self.of(goal.view)
        except TempuraError as error:  # the MIN of rows that are deleted
            if error.code != "NEGATIVE_WEIGHT" or not isinstance(goal.view.at, StateDelta):
                raise
            return ""
        found = evaluate(way.rhs, self.of)
        if isinstance(goal.view.at, StateDelta):
            expected, found = (_with_trace(bag, len(goal.view.tvr.keys)) for bag in (expected, found))  # type: ignore[attr-defined]
        return "" if found == expected else f"{way.rhs} is {found}, not {expected}"


def _with_trace(state: SignedBag, keys: int) -> SignedBag:
    """Without the groups that a merge would not notice: counts and totals of 0."""
    return SignedBag((row, w) for row, w in state.items() if keys == 0 or any(row[keys:]))


@pytest.mark.parametrize(("methods", "styles"), [("im1", ANY_STYLE), ("im2", ONLY_INSERTS), ("all", ANY_STYLE)])
def test_every_alternative_gives_its_view(methods: str, styles: tuple[str, ...]) -> None:
    used = Counter[str]()
    for seed in range(5 * CASES):
        random = Random(7000 + seed)
        tables = {name: random_table(random, name, TIMES, styles) for name in ("r", "s", "t")}
        generator = QueryGenerator(random, tuple(tables))
        if seed >= 4 * CASES + CASES // 2:
            query = generator.preserving_groups(1, "full", of_right=seed % 2 == 0)
        elif seed >= 4 * CASES:
            query = generator.preserving_groups(1)
        else:
            query = generator.aggregate(2) if seed % 4 == 3 else generator.query(1 + seed % 4)
        space = Space(Problem(query, POINTS, {name: table.facts(TIMES) for name, table in tables.items()}))
        graph = Graph(space, TEMPURA.rules_of((methods,)), begins=seed % TIMES)
        rows = {name: [table.snapshot(t) for t in range(TIMES)] for name, table in tables.items()}
        definition = Definition(rows, staircase=space.staircase)
        meaning = Meaning(graph, definition)
        for goal, ways in explore(graph, graph.outputs).items():
            for way in ways:
                if way.rule is not None:
                    used[way.rule.name] += 1
                    wrong = meaning.check(goal, way)
                    assert not wrong, f"seed {seed}: {way.rule.name} for {goal}: {wrong}\nquery {query}"
    unseen = {rule.name for rule in TEMPURA.rules_of((methods,)) if not rule.splits} - used.keys() - {"delta_sort"}
    # No table refers to another here; tests/plans/test_references.py has such.
    unseen -= {rule.name for rule in (*references.DELTAS, references.delta_outer_join_with_referring)}
    assert CASES < 25 or not unseen, "the queries must give every rule a chance, else this test shows little"
