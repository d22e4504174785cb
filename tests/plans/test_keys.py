"""A semi, anti or existence join with many rows of few keys looks these up."""

import pytest

from tempura.algebra.rel import Aggregate, Join, JoinKind, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Ref, conjunction, equal
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


def test_it_and_what_else_looks_at_who_asks_make_no_more_of_each_other() -> None:
    """TPC-DS q94: orders that left from several warehouses and of which nothing came back, counted."""

    def lines(use: str, table: str = "lines") -> Scan:
        names = ("order", "warehouse", "ship", "day")
        return Scan(table, names, tuple(Column(f"{use}.{name}", name, "int") for name in names))

    line, other, back, ship, day = (
        lines("l"),
        lines("o"),
        lines("r", "returns"),
        lines("s", "ships"),
        lines("d", "days"),
    )
    order, from_here, shipped, sent = map(Ref, line.columns)
    apart = Call("Not", (equal(from_here, Ref(other.columns[1])),), "boolean")
    several = Join(line, other, "semi", conjunction(equal(order, Ref(other.columns[0])), apart))
    stayed = Join(several, back, "anti", equal(order, Ref(back.columns[0])))
    with_ship = Join(stayed, ship, "inner", equal(shipped, Ref(ship.columns[2])))
    query = Aggregate(
        Join(with_ship, day, "inner", equal(sent, Ref(day.columns[3]))),
        (),
        (
            AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (order,), "bigint", distinct=True)),
            AggregateOutput(Column("sum", "sum", "bigint"), AggregateCall("Sum", (from_here,), "bigint")),
        ),
    )
    few = {"ship": ColumnStats(100_000), "day": ColumnStats(2_000), "warehouse": ColumnStats(10)}
    facts = {
        "lines": TableFacts((7_200_000,), (0,), 1, columns={"order": ColumnStats(600_000), **few}),
        "returns": TableFacts((720_000,), (0,), 1, columns={"order": ColumnStats(300_000), **few}),
        "ships": TableFacts((400,), (0,), 1, columns={"ship": ColumnStats(400)}),
        "days": TableFacts((60,), (0,), 1, columns={"day": ColumnStats(60)}),
    }
    problem = Problem(query, AT_ONCE, facts)
    effort, without = make_plan(problem).effort, make_plan(problem, without=(LAW,)).effort
    assert without.classes < effort.classes < 1.25 * without.classes
