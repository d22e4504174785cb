"""A semi, anti or existence join with many rows of few keys looks these up."""

import pytest

from tempura.algebra.rel import Join, JoinKind, Rel, Scan
from tempura.algebra.scalar import Call, Column, Ref, conjunction, equal
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.explain.text import explain
from tempura.rules.keys import look_up_distinct_keys
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem

AT_ONCE = (Point(1.0, output=True),)
LAW = look_up_distinct_keys.name


def scan(name: str) -> Scan:
    return Scan(name, ("key", "other"), tuple(Column(f"{name}.{c}", c, "int") for c in ("key", "other")))


CUSTOMERS, SALES = scan("customers"), scan("sales")
SAME_KEY = equal(Ref(CUSTOMERS.columns[0]), Ref(SALES.columns[0]))


def asked(query: Rel, keys: int) -> Problem:
    """Many sales, to so many customers."""
    customers = TableFacts((20_000_000,), (0,), 1)
    sales = TableFacts((50_000_000,), (0,), 1, columns={"key": ColumnStats(keys), "other": ColumnStats(10_000_000)})
    return Problem(query, AT_ONCE, {"customers": customers, "sales": sales})


def has_any(kind: JoinKind, *others: Call) -> Join:
    marker = Column("found", "found", "boolean") if kind == "exists" else None
    return Join(CUSTOMERS, SALES, kind, conjunction(SAME_KEY, *others), marker)


@pytest.mark.parametrize("kind", ["semi", "anti", "exists"])
def test_few_keys_of_many_rows_are_looked_up(kind: JoinKind) -> None:
    problem = asked(has_any(kind), keys=1_000)
    plan = make_plan(problem)
    assert plan.cost < 0.6 * make_plan(problem, without=(LAW,)).cost
    assert "aggregate" in explain(plan, [])


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (has_any("semi"), 40_000_000),  # nearly as many keys as rows
        (has_any("left"), 1_000),  # each row that matches counts
        (has_any("semi", Call("LessThan", (Ref(CUSTOMERS.columns[1]), Ref(SALES.columns[1])), "boolean")), 1_000),
    ],
)
def test_where_more_than_a_few_keys_matters_the_rows_are_looked_up(query: Rel, keys: int) -> None:
    problem = asked(query, keys)
    plan, without = make_plan(problem), make_plan(problem, without=(LAW,))
    assert (plan.cost, plan.effort) == (without.cost, without.effort)
