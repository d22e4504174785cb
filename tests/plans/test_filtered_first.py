"""Filtered relations are joined first, and joins are what they are as they are written."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.evaluate import evaluate
from tempura.algebra.multi_join import next_join
from tempura.algebra.rel import Filter, Join, JoinKind, Project, Rel, Scan
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, conjunction, equal
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.rules import filtered_first as law
from tempura.rules.filtered_first import filtered_first
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.alike_queries import FIELDS, Maker, bags, full
from tests.plans.random_queries import random_table
from tests.plans.simulate import run_plan, truth

NONE = frozenset[str]()
SIZES = {"r": 9_000, "s": 8_000, "t": 70}


class Joining(Maker):
    """Joins of three to five relations, each of which is joined with one or two of those before it; conditions and projections between."""

    def many(self) -> Rel:
        rel = self.scan("r")
        for _ in range(self._random.randint(2, 4)):
            right = self.scan(self._random.choice("rst"))
            if self._random.random() < 0.1:
                right = self.joined(right, self.scan("t"))
            kind: JoinKind = self._random.choice(("inner", "inner", "inner", "inner", "left"))
            picks = (self._random.choice(rel.columns) for _ in range(self._random.choice((1, 1, 1, 2))))
            on = conjunction(*(equal(Ref(column), Ref(self._random.choice(right.columns))) for column in picks))
            rel = Join(rel, right, kind, on)
            if self._random.random() < 0.3:
                rel = self._as_it_may_be(rel)
        return rel


def sizes(seed: int) -> dict[str, int]:
    random = Random(seed)
    return {table: random.randint(1, 1_000) for table in "rst"}


def rewritten(query: Rel, seed: int) -> Rel:
    return filtered_first(query, sizes(seed), NONE)


def test_joins_are_what_they_are_as_written() -> None:
    others = 0
    for seed in range(400):
        query, rows = Joining(Random(seed)).many(), bags(seed)
        found = rewritten(query, seed)
        assert found.columns == query.columns
        assert evaluate(found, rows) == evaluate(query, rows), seed
        others += found != query
    assert others > 100, "or nothing is shown here"


def without_the_last(left: Rel, right: Rel, parts: Sequence[Expr]) -> Join:
    """A join that loses one of the conditions that it can decide."""
    known = left.column_set | right.column_set
    return next_join(left, right, [part for part in parts if part.reads_only(known)][:-1])


def everything(rel: Rel, predicate: Expr) -> Rel:
    return rel


@pytest.mark.parametrize(("name", "wrong"), [("next_join", without_the_last), ("where", everything)])
def test_wrong_laws_are_refuted(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    monkeypatch.setattr(law, name, wrong)
    cases = ((Joining(Random(seed)).many(), bags(seed), seed) for seed in range(400))
    assert any(evaluate(rewritten(query, seed), rows) != evaluate(query, rows) for query, rows, seed in cases)


# --- sales, returns and days ---------------------------------------------------------------------------------------------


def scan(table: str, name: str) -> Scan:
    return Scan(table, FIELDS, tuple(Column(f"{name}{field}", field, "int") for field in FIELDS))


SALES, RETURNS, DAYS = scan("r", "r"), scan("s", "s"), scan("t", "t")
ONE = Literal(1, "int")
MONTH = Filter(DAYS, equal(Ref(DAYS.columns[1]), ONE))


def on(one: Scan, other: Scan, place: int = 0) -> Expr:
    return equal(Ref(one.columns[place]), Ref(other.columns[place]))


def with_days(days: Rel = MONTH, of_days: Expr | None = None) -> Rel:
    """As a query that names returns first."""
    sold = Join(SALES, RETURNS, "inner", on(SALES, RETURNS))
    return Join(sold, days, "inner", on(SALES, DAYS, 2) if of_days is None else of_days)


def pairs(rel: Rel) -> set[frozenset[str]]:
    """The tables of each join."""
    found = set()
    for join in rel.walk():
        if isinstance(join, Join):
            found.add(frozenset(part.table for part in join.walk() if isinstance(part, Scan)))
    return found


def test_sales_are_joined_with_the_days_of_a_month_before_returns() -> None:
    assert {"r", "s"} in pairs(with_days())
    found = filtered_first(with_days(), SIZES, {"t"})
    assert found.columns == with_days().columns
    assert pairs(found) == {frozenset("rt"), frozenset("rst")}
    again = Join(Join(SALES, MONTH, "inner", on(SALES, DAYS, 2)), RETURNS, "inner", on(SALES, RETURNS))
    assert filtered_first(again, SIZES, {"t"}) == again


def test_it_costs_the_same_whichever_is_named_first() -> None:
    def cost(query: Rel) -> int:
        rows = {"r": (9_000_000, 9_090_000, 9_180_000), "s": (900_000, 909_000, 918_000), "t": (2_000,) * 3}
        distinct = {"r": (9e5, 10.0, 2_000.0), "s": (9e5, 10.0, 2_000.0), "t": (10.0, 60.0, 2_000.0)}
        tables = {
            name: TableFacts(
                arrived, (0, 0, 0), 1, static=name == "t", append_only=name != "t",
                columns={f: ColumnStats(n) for f, n in zip(FIELDS, distinct[name], strict=True)},
            )
            for name, arrived in rows.items()
        }  # fmt: skip
        kept = Project(query, tuple(Output(c, Ref(c)) for c in (*SALES.columns, *RETURNS.columns)))
        return make_plan(Problem(kept, (Point(0.0, True), Point(1.0, True), Point(1.0, True)), tables)).cost

    first = Join(Join(SALES, MONTH, "inner", on(SALES, DAYS, 2)), RETURNS, "inner", on(SALES, RETURNS))
    assert cost(with_days()) == cost(first)


def test_what_belongs_to_what_is_filtered_goes_with_it() -> None:
    """A snowflake: customers of one town, of whom only the town is filtered."""
    customers, towns = scan("c", "c"), scan("a", "a")
    town = Filter(towns, equal(Ref(towns.columns[1]), ONE))
    sold = Join(Join(SALES, RETURNS, "inner", on(SALES, RETURNS)), customers, "inner", on(SALES, customers, 1))
    query = Join(sold, town, "inner", on(customers, towns, 2))
    found = filtered_first(query, {**SIZES, "c": 500, "a": 100}, {"c", "a"})
    assert pairs(found) == {frozenset("ca"), frozenset("rca"), frozenset("rsca")}


def test_what_something_is_joined_with_as_a_whole_stays_together() -> None:
    whole = Join(RETURNS, MONTH, "inner", on(RETURNS, DAYS, 2))
    query = Join(SALES, whole, "inner", on(SALES, RETURNS))
    assert filtered_first(query, SIZES, {"t"}) == query


IS_NOT_NULL = Call("IsNotNull", (Ref(DAYS.columns[1]),), "boolean")
COMPARED = equal(Ref(DAYS.columns[0]), Ref(DAYS.columns[1]))
MAY_FAIL = equal(Call("Divide", (ONE, Ref(DAYS.columns[1])), "int", detail="ansi"), ONE)


@pytest.mark.parametrize(
    ("query", "rows", "static"),
    [
        pytest.param(with_days(), SIZES, {"s", "t"}, id="only sales change"),
        pytest.param(with_days(DAYS), SIZES, {"t"}, id="all days"),
        pytest.param(with_days(Filter(DAYS, IS_NOT_NULL)), SIZES, {"t"}, id="days that are known"),
        pytest.param(with_days(Filter(DAYS, COMPARED)), SIZES, {"t"}, id="days whose columns are compared"),
        pytest.param(with_days(), {**SIZES, "t": 10_000}, {"t"}, id="more days than sales"),
        pytest.param(with_days(of_days=conjunction(on(SALES, DAYS, 2), MAY_FAIL)), SIZES, {"t"}, id="a condition that may fail"),
        pytest.param(with_days(of_days=conjunction(on(SALES, DAYS, 2), on(RETURNS, DAYS, 1))), SIZES, {"t"}, id="days of both"),
    ],
)  # fmt: skip
def test_other_joins_stay_as_they_are(query: Rel, rows: dict[str, int], static: set[str]) -> None:
    assert filtered_first(query, rows, static) == query


def test_two_uses_that_have_the_same_names_stay_as_they_are() -> None:
    again = replace(RETURNS, outputs=SALES.columns)
    query = Join(Join(SALES, again, "inner", on(SALES, again)), MONTH, "inner", on(SALES, DAYS, 2))
    assert filtered_first(query, SIZES, {"t"}) == query


def test_what_is_computed_between_joins_is_computed_of_the_same_rows() -> None:
    """It may fail for others."""
    ratio = Call("Divide", (Ref(SALES.columns[1]), Ref(RETURNS.columns[1])), "int", detail="ansi")
    sold = Join(SALES, RETURNS, "inner", on(SALES, RETURNS))
    outputs = (*(Output(column, Ref(column)) for column in sold.columns), Output(Column("q", "q", "int"), ratio))
    query = Join(Project(sold, outputs), MONTH, "inner", on(SALES, DAYS, 2))
    assert filtered_first(query, SIZES, {"t"}) == query


@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("ojv",), ("hov",), ("batch",), ("all",)])
def test_plans_give_them_at_all_times(methods: tuple[str, ...]) -> None:
    points = (Point(0.2, True), Point(0.4, True), Point(1.0, True))
    others = 0
    for seed in range(8):
        random = Random(seed)
        query = full(Joining(random).many())
        tables = {name: random_table(random, name, len(points)) for name in "rst"}
        rows = {name: table.facts(len(points)).inserted[-1] for name, table in tables.items()}
        others += filtered_first(query, rows, NONE) != query
        for t, found in enumerate(run_plan(query, tables, points, methods)):
            assert found == truth(query, tables, t)
    assert others > 1
