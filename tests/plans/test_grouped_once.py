"""Groups of the same rows under different conditions are found once, and are what they are one by one."""

from collections.abc import Mapping
from random import Random

import pytest

from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, Union
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
    equal,
)
from tempura.cost.estimate import Estimator
from tempura.cost.stats import TableFacts
from tempura.memo.memo import Memo
from tempura.rules import common
from tempura.rules.grouped_once import grouped_once
from tempura.rules.methods import REWRITES
from tempura.search.problem import Point
from tempura.search.saturate import Saturation
from tests.plans.alike_queries import FIELDS, SHAPES, Maker, Shape, bags, full
from tests.plans.random_queries import random_table
from tests.plans.simulate import run_plan, truth


class Grouping(Maker):
    """Groups by the first column of the first table. Conditions are mostly on that one; others may be asked for one value each, by all."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._asks_for_values = random.random() < 0.5

    def groups(self, input: Rel) -> Aggregate:
        calls = [self._call(input) for _ in range(self._random.randint(1, 2))]
        key = Output(self._column("k"), Ref(input.columns[0]))
        return Aggregate(input, (key,), tuple(AggregateOutput(self._column("a", c.type), c) for c in calls))

    def scan(self, table: str) -> Rel:
        fields = FIELDS[: self._random.randint(2, 3)]
        rel: Rel = Scan(table, fields, tuple(map(self._column, fields)))
        if self._asks_for_values:
            rel = Filter(rel, equal(Ref(rel.columns[1]), Literal(self._random.randint(0, 2), "int")))
        return self._as_it_may_be(rel) if table == "r" else rel

    def computed(self, table: str) -> Rel:
        """All rows of a table, of which a value may be computed."""
        scan = Scan(table, ("x", "y"), (self._column("x"), self._column("y")))
        key, value = map(Ref, scan.columns)
        some: Expr = Call("Coalesce", (value, Literal(0, "int")), "int") if self._random.random() < 0.3 else value
        return Project(scan, (Output(self._column("x"), key), Output(self._column("y"), some)))

    def _asked(self, rel: Rel) -> Expr:
        first = rel.columns[0]
        return super()._asked(rel if self._random.random() < 0.1 else Project(rel, (Output(first, Ref(first)),)))


ALIKE: Mapping[str, Shape] = {
    **SHAPES,
    "a left join": lambda make: make.joined(make.scan("r"), computed(make, "s"), "left"),
    "a semi join": lambda make: make.joined(make.scan("r"), computed(make, "s"), "semi"),
    "an anti join": lambda make: make.joined(make.scan("r"), computed(make, "s"), "anti"),
    "a left join with what differs": lambda make: make.joined(make.scan("r"), make.scan("s"), "left"),
    "a semi join with what differs": lambda make: make.joined(make.scan("r"), make.scan("s"), "semi"),
    "groups of groups": lambda make: groups(make, make.scan("r")),
}


def computed(make: Maker, table: str) -> Rel:
    assert isinstance(make, Grouping)
    return make.computed(table)


def groups(make: Maker, input: Rel) -> Rel:
    assert isinstance(make, Grouping)
    return make.groups(input)


def compared(shape: Shape, seed: int, how: JoinKind = "full") -> Rel:
    """Two to four groupings of alike relations, each joined with the first."""
    make = Grouping(Random(seed))
    first, *others = (make.groups(shape(make)) for _ in range(Random(seed).randint(2, 4)))
    rel: Rel = first
    for other in others:
        rel = Join(rel, other, how, equal(Ref(first.columns[0]), Ref(other.columns[0])))
    return rel


def groupings(rel: Rel) -> int:
    return sum(isinstance(part, Aggregate) for part in rel.walk())


@pytest.mark.parametrize("shape", ALIKE)
def test_they_are_what_they_are_one_by_one(shape: str) -> None:
    fewer = 0
    for seed in range(40):
        query, rows = compared(ALIKE[shape], seed), bags(seed)
        found = grouped_once(query)
        assert found.columns == query.columns
        assert evaluate(found, rows) == evaluate(query, rows), seed
        fewer += groupings(found) < groupings(query)
    assert fewer > 3, "or nothing is shown here"


def first_only(first: Expr, *others: Expr) -> Expr:
    return first


def whatever(*given: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("name", "wrong", "shape"),
    [
        ("disjunction", conjunction, "a join"),
        ("disjunction", first_only, "a join"),
        ("_is_one", whatever, "a table"),
        ("_are_whole", whatever, "a left join with what differs"),
    ],
)
def test_wrong_laws_are_refuted(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object, shape: str) -> None:
    monkeypatch.setattr(common, name, wrong)
    cases = ((compared(ALIKE[shape], seed), bags(seed)) for seed in range(200))
    assert any(evaluate(grouped_once(query), rows) != evaluate(query, rows) for query, rows in cases)


R, Q = (Scan("r", FIELDS, tuple(Column(f"{name}{f}", f, "int") for f in FIELDS)) for name in "rq")
ONE, TWO, ZERO = (Literal(value, "int") for value in (1, 2, 0))
COUNT = AggregateCall("Count", (), "bigint")


def by(key: Expr, input: Rel, name: str, call: AggregateCall = COUNT) -> Aggregate:
    column = Column(f"{name}{call.function}", f"{name}{call.function}", call.type)
    return Aggregate(input, (Output(Column(name, name, key.type), key),), (AggregateOutput(column, call),))


def both(a: Aggregate, b: Aggregate) -> Rel:
    return Join(a, b, "inner", equal(Ref(a.columns[0]), Ref(b.columns[0])))


def asked(scan: Scan, place: int, function: str, value: Expr) -> Rel:
    return Filter(scan, Call(function, (Ref(scan.columns[place]), value), "boolean"))


FIRST = by(Ref(R.columns[0]), asked(R, 0, "EqualTo", ONE), "a")
OF_FIRST = (Ref(Q.columns[0]), asked(Q, 0, "EqualTo", TWO), "b")
RATIO = Call("Divide", (Ref(Q.columns[1]), Ref(Q.columns[2])), "int", detail="ansi")
RATIOS = AggregateCall("Max", (RATIO,), "int")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(by(*OF_FIRST, RATIOS), id="that may fail"),
        pytest.param(by(*OF_FIRST, AggregateCall("Max", (Ref(Q.columns[1]),), "int")), id="extremes"),
        pytest.param(by(Ref(Q.columns[1]), asked(Q, 0, "EqualTo", TWO), "b"), id="by another key"),
        pytest.param(by(Ref(Q.columns[0]), asked(Q, 1, "LessThan", TWO), "b"), id="of what keys do not tell"),
        pytest.param(by(Ref(Q.columns[0]), asked(Q, 1, "EqualTo", TWO), "b"), id="of one value that the other does not ask for"),
        pytest.param(by(Ref(Q.columns[0]), asked(Q, 1, "EqualNullSafe", TWO), "b"), id="that ask for it in another way"),
        pytest.param(by(Ref(Q.columns[0]), Filter(Q, equal(RATIO, ONE)), "b"), id="with a condition that may fail"),
    ],
)  # fmt: skip
def test_other_groups_stay_apart(other: Aggregate) -> None:
    assert grouped_once(both(FIRST, other)) == both(FIRST, other)


def test_what_all_compute_may_fail() -> None:
    """No row is asked for a ratio of which the query does not compute it."""
    ratio = Call("Divide", (Ref(R.columns[1]), Ref(R.columns[2])), "int", detail="ansi")
    one = by(Ref(R.columns[0]), asked(R, 0, "EqualTo", ONE), "a", AggregateCall("Max", (ratio,), "int"))
    query = both(one, by(*OF_FIRST, RATIOS))
    assert groupings(grouped_once(query)) == 1


def test_equal_keys_that_are_not_the_same_do_not_tell_what_their_rows_are_asked() -> None:
    """A group of 0.0 and -0.0 has one of them as its key, and a condition may keep the rows with the other."""
    scans = [Scan("f", ("x",), (Column(f"x{name}", "x", "double"),)) for name in "ab"]
    asked_of = [
        Filter(scan, equal(Call("Cast", (Ref(scan.columns[0]),), "string"), Literal(zero, "string")))
        for scan, zero in zip(scans, ("0.0", "-0.0"), strict=True)
    ]
    a, b = (by(Ref(scan.columns[0]), rows, name) for scan, rows, name in zip(scans, asked_of, "ab", strict=True))
    assert grouped_once(both(a, b)) == both(a, b)


def test_groups_that_are_the_same_are_left_as_they_are() -> None:
    again = by(Ref(Q.columns[0]), asked(Q, 0, "EqualTo", ONE), "b")
    assert grouped_once(both(FIRST, again)) == both(FIRST, again), "the memo knows that they are one"


def test_what_asks_for_some_groups_is_not_pushed_into_them() -> None:
    """Or there would be as many groupings as there are conditions, beside the one that all have in common."""
    query = grouped_once(both(FIRST, by(*OF_FIRST)))
    facts = {"r": TableFacts((10_000,), (0,), 1)}
    memo = Memo()
    memo.add(query)
    Saturation(memo, REWRITES, Estimator(facts, memo.representative)).run()
    of_rows = [m for m in memo.made if isinstance(m.rel, Aggregate) and "push_filter" in m.rule]
    assert not of_rows
    alone = Memo()
    column = FIRST.columns[0]
    alone.add(Filter(by(Ref(R.columns[0]), R, "a"), equal(Ref(column), ONE)))
    Saturation(alone, REWRITES, Estimator(facts, alone.representative)).run()
    assert any(isinstance(m.rel, Aggregate) and m.rule == "push_filter_into_aggregate" for m in alone.made)


def with_default(scan: Scan, name: str) -> Aggregate:
    """Sums of what a row's partners have, or 0; NULL without partner."""
    s = Scan("s", ("x", "y"), (Column(f"s{name}", "x", "int"), Column(f"y{name}", "y", "int")))
    value = Call("Coalesce", (Ref(s.columns[1]), ZERO), "int")
    partner = Project(s, (Output(s.columns[0], Ref(s.columns[0])), Output(Column(f"v{name}", "v", "int"), value)))
    kept = Filter(scan, equal(Ref(scan.columns[0]), ONE if name == "a" else TWO))
    pairs = Join(kept, partner, "left", equal(Ref(scan.columns[0]), Ref(s.columns[0])))
    return by(Ref(scan.columns[0]), pairs, name, AggregateCall("Sum", (Ref(partner.columns[1]),), "bigint"))


def test_a_row_without_partner_has_nothing_that_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = with_default(R, "a"), with_default(Q, "b")
    query = Join(a, b, "full", equal(Ref(a.columns[0]), Ref(b.columns[0])))
    assert grouped_once(query) == query
    monkeypatch.setattr(common, "_are_columns", whatever)
    cases = map(bags, range(20))
    assert any(evaluate(grouped_once(query), rows) != evaluate(query, rows) for rows in cases)


@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("ojv",), ("hov",), ("batch",), ("all",)])
def test_plans_give_them_at_all_times(methods: tuple[str, ...]) -> None:
    points = (Point(0.2, True), Point(0.4, True), Point(1.0, True))
    fewer = 0
    for seed in range(8):
        random = Random(seed)
        query = full(compared(ALIKE[random.choice(list(ALIKE))], seed, "inner"))
        fewer += groupings(grouped_once(query)) < groupings(query)
        tables = {name: random_table(random, name, len(points)) for name in "rst"}
        for t, found in enumerate(run_plan(query, tables, points, methods)):
            assert found == truth(query, tables, t)
    assert fewer > 1


def test_two_uses_that_have_the_same_names_stay_apart() -> None:
    """Terms of a union may: what they have in common would have two columns of one name."""
    a = by(Ref(R.columns[0]), asked(R, 0, "EqualTo", ONE), "a", AggregateCall("Sum", (Ref(R.columns[1]),), "bigint"))
    b = by(Ref(R.columns[0]), asked(R, 0, "EqualTo", TWO), "a", AggregateCall("Sum", (Ref(R.columns[2]),), "bigint"))
    assert grouped_once(Union((a, b))) == Union((a, b))
