"""Whole plans over tables that refer to one another: at each output time, what a plan emits is the query over all data seen so far."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.rel import Filter, Join, Project, Rel, Scan
from tempura.algebra.scalar import Call, Column, Output, Ref, equal
from tempura.cost.stats import TableFacts
from tempura.memo.events import ClassRewritten, Event
from tempura.memo.references import NO_KEYS, Keys
from tempura.physical.operators import Read
from tempura.plan.progressive import Step
from tempura.rules.references import DELTAS, ELIMINATE, delta_outer_join_with_referring
from tempura.search.events import RuleApplied
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.tvr.views import Snapshot
from tests.plans.references import FIELDS, REFERENCES, UNIQUE, ReferringQueries, random_tables
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


def _step_of_a_refresh(query: Rel, keys: dict[str, Keys]) -> Step:
    """What a refresh does after one per cent has come to lines, orders and customers, of which there were many."""
    sizes = {"l": 6_000_000, "o": 1_500_000, "c": 150_000, "p": 200_000}
    tables = {
        name: TableFacts((n, n + n // 100, n + n // 50), (0, 0, 0), 2, keys=keys.get(name, NO_KEYS))
        for name, n in sizes.items()
    }
    plan = make_plan(Problem(query, VIEW, tables), ("im1",), strict=True)
    return plan.step_at(1)


def _old(step: Step) -> set[str]:
    """The tables of which rows are read that were there before."""
    return {rel.scan.table for rel in step.operators if isinstance(rel, Read) and isinstance(rel.at, Snapshot)}


ALL_KEYS = {name: Keys(UNIQUE[name], REFERENCES[name]) for name in REFERENCES}


def _chain(of: Callable[[Scan], Rel] = lambda scan: scan) -> tuple[Rel, list[Scan]]:
    """Lines joined with their orders, these with their customers."""
    columns = {name: tuple(Column(f"{name}.{f}", f, "int") for f in FIELDS) for name in "loc"}
    lines, orders, customers = (Scan(name, FIELDS, columns[name]) for name in "loc")
    first = Join(of(lines), of(orders), "inner", equal(Ref(columns["l"][0]), Ref(columns["o"][0])))
    whole = Join(first, of(customers), "inner", equal(Ref(columns["o"][1]), Ref(columns["c"][0])))
    return whole, [lines, orders, customers]


def _not_null(scan: Scan) -> Rel:
    return Filter(scan, Call("IsNotNull", (Ref(scan.columns[2]),), "boolean"))


@pytest.mark.parametrize("of", [lambda scan: scan, _not_null], ids=["whole", "filtered"])
def test_a_chain_of_references_reads_no_old_row_at_its_end(of: Callable[[Scan], Rel]) -> None:
    query, _ = _chain(of)
    assert "l" not in _old(_step_of_a_refresh(query, ALL_KEYS))
    assert "l" in _old(_step_of_a_refresh(query, {}))


def test_a_partner_of_which_nothing_is_read_is_not_read() -> None:
    query, (lines, orders, _) = _chain()
    only = Project(query, (Output(Column("a", "a", "int"), Ref(lines.columns[2])),))
    read = {rel.scan.table for rel in _step_of_a_refresh(only, ALL_KEYS).operators if isinstance(rel, Read)}
    assert read == {"l", "o"}, "an order may have no customer: its reference may be NULL"
    total = {"o": Keys(UNIQUE["o"], tuple(replace(r, total=True) for r in REFERENCES["o"]))}
    read = {rel.scan.table for rel in _step_of_a_refresh(only, ALL_KEYS | total).operators if isinstance(rel, Read)}
    assert read == {"l"}
    assert orders.table == "o"
