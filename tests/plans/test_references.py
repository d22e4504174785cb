"""Whole plans over tables that refer to one another: at each output time, what a plan emits is the query over all data seen so far."""

import os
from collections import Counter
from random import Random

import pytest

from tempura.memo.events import ClassRewritten, Event
from tempura.rules.references import DELTAS, ELIMINATE, delta_outer_join_with_referring
from tempura.search.events import RuleApplied
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tests.plans.references import ReferringQueries, random_tables
from tests.plans.simulate import BOTH, run_plan, run_replanned, schedules, truth
from tests.plans.test_master_law import DEADLINE, TIMES, VIEW, Run, random_prices

CASES = int(os.environ.get("TEMPURA_PLAN_CASES", "25"))


@pytest.mark.parametrize(
    ("methods", "run"), [("im1", run_plan), ("im2", run_replanned), ("all", run_replanned)], ids=["im1", "im2", "all"]
)
@pytest.mark.parametrize("both", BOTH)
def test_every_output_equals_a_recompute(methods: str, run: Run, both: bool) -> None:
    for seed in range(CASES):
        random = Random(7000 + seed)
        tables = random_tables(random, TIMES)
        query = ReferringQueries(random, tuple(tables)).any(seed)
        for points in schedules(VIEW, DEADLINE, seed // 4, both):
            expected = [truth(query, tables, t) if point.output else None for t, point in enumerate(points)]
            assert run(query, tables, points, (methods,)) == expected, f"seed {seed}, query {query}, tables {tables}"


def test_every_output_equals_a_recompute_whatever_things_cost() -> None:
    used = Counter[str]()
    said = Counter[str]()

    def listen(event: Event) -> None:
        if isinstance(event, RuleApplied | ClassRewritten):
            said[event.rule] += 1

    for seed in range(4 * CASES):
        random = Random(8000 + seed)
        tables = random_tables(
            random, TIMES, random.choice((("grows",), ("grows", "static"), ("shrinks",), ("mixed",)))
        )
        queries = ReferringQueries(random, tuple(tables))
        query = queries.any(seed)
        model = random_prices(random)
        outputs = run_plan(query, tables, VIEW, ("im1",), model)
        assert outputs == [truth(query, tables, t) for t in range(TIMES)], f"seed {seed}, query {query}, {tables}"
        facts = {name: table.facts(TIMES) for name, table in tables.items()}
        plan = make_plan(Problem(query, VIEW, facts, prices=model), ("im1",), listen)
        used.update(note.rule for step in plan.steps for note in step.notes.values())
    missing = {rule.name for rule in (*DELTAS, delta_outer_join_with_referring)} - set(used)
    assert not missing, f"no plan uses {missing}: this test shows little of them"
    assert {rule.name for rule in ELIMINATE} <= set(said), said
