"""What a plan expected of later arrivals was wrong: a new plan is made from the states that are there, and its answer is right.

The old plan's answer would be wrong: expectations are no facts.
"""

from dataclasses import replace

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel
from tempura.cost.stats import TableFacts
from tempura.physical.operators import Load, Read
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.tvr.views import Delta
from tests.plans.simulate import States, Tables, run_step, truth
from tests.unit.test_example1 import SUMMARY, tables

VIEW = (Point(1.0, output=True), Point(1.0, output=True))
PAST = (replace(VIEW[0], done=True), VIEW[1])


def quiet() -> Tables:
    """No return arrives at the second time."""
    sold, returned = (tables(([(1, 10)], []))[name] for name in ("sales", "returns"))
    return {"sales": sold, "returns": returned}


def late() -> Tables:
    """A late return, for a sale of the first time; and a sale of the first time is taken back."""
    expected = quiet()
    sold, returned = expected["sales"], expected["returns"]
    gone = SignedBag([((3, "c1", 120), -1)])
    return {
        "sales": replace(sold, arrivals=(sold.arrivals[0], sold.arrivals[1] + gone)),
        "returns": replace(returned, arrivals=(returned.arrivals[0], SignedBag.of([(4, 15)]))),
    }


def facts(tables: Tables, known: int) -> dict[str, TableFacts]:
    # Without promises: that nothing is deleted later is an expectation too.
    return {name: replace(table.facts(known), append_only=False) for name, table in tables.items()}


def nodes(step: Step) -> set[Rel]:
    roots = [save.rel for save in step.saves] + ([step.emit] if step.emit else [])
    return {rel for root in roots for rel in root.walk()}


def first_step(method: str) -> tuple[ProgressivePlan, States]:
    """Made when only the first arrivals are there, and its first step run."""
    plan, states = make_plan(Problem(SUMMARY.rel, VIEW, facts(quiet(), 1)), (method,)), States()
    assert run_step(plan.step_at(0), late(), states) == truth(SUMMARY.rel, late(), 0)
    return plan, states


@pytest.mark.parametrize("method", ["im1", "all"])
def test_a_late_row_leads_to_a_new_plan_and_the_right_answer(method: str) -> None:
    old, states = first_step(method)
    expected = truth(SUMMARY.rel, late(), 1)
    if method == "im1":
        assert Delta(0, 1) not in {
            rel.at for rel in nodes(old.step_at(1)) if isinstance(rel, Read) and rel.scan.table == "returns"
        }
        assert run_step(old.step_at(1), late(), dict(states)) != expected
    new = make_plan(Problem(SUMMARY.rel, PAST, facts(late(), 2), frozenset(states)), (method,))
    assert run_step(new.step_at(1), late(), states) == expected


def test_the_states_that_are_there_stay_in_use() -> None:
    _, states = first_step("im1")
    new = make_plan(Problem(SUMMARY.rel, PAST, facts(late(), 2), frozenset(states)), ("im1",)).step_at(1)
    assert {rel.key for rel in nodes(new) if isinstance(rel, Load)} & states.keys()
    reads = {rel.scan.table: rel for rel in nodes(new) if isinstance(rel, Read) and rel.at == Delta(0, 1)}
    assert reads.keys() == {"sales", "returns"}
    assert reads["sales"].signed
    assert not reads["returns"].signed


def test_an_unexpectedly_quiet_table_costs_nothing_either() -> None:
    """The other way round: arrivals were expected, none came."""
    plan = make_plan(Problem(SUMMARY.rel, VIEW, facts(late(), 1)), ("im1",))
    states: States = {}
    run_step(plan.step_at(0), quiet(), states)
    new = make_plan(Problem(SUMMARY.rel, PAST, facts(quiet(), 2), frozenset(states)), ("im1",)).step_at(1)
    assert {rel.scan.table for rel in nodes(new) if isinstance(rel, Read) and isinstance(rel.at, Delta)} == {"sales"}
    assert run_step(new, quiet(), states) == truth(SUMMARY.rel, quiet(), 1)
