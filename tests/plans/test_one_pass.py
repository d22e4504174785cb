"""Totals of the same rows under different conditions are found in one pass, and are what they are one by one."""

from random import Random

import pytest

from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan
from tempura.algebra.scalar import (
    TRUE,
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
from tempura.rules import common, one_pass
from tempura.rules.helpers import all_linear
from tempura.rules.one_pass import in_one_pass
from tempura.search.problem import Point
from tests.plans.alike_queries import FIELDS, SHAPES, Maker, Shape, bags, full
from tests.plans.random_queries import random_table
from tests.plans.simulate import run_plan, truth


def side_by_side(shape: Shape, seed: int, more: bool = True) -> Rel:
    random = Random(seed)
    make = Maker(random)
    terms = [make.totals(shape(make)) for _ in range(random.randint(2, 4))]
    if more and random.random() < 0.5:
        terms.insert(random.randrange(len(terms)), make.scan("t"))
    product = terms[0]
    for term in terms[1:]:
        product = Join(product, term, "inner", TRUE)
    return product


def passes(rel: Rel) -> int:
    return sum(isinstance(part, Aggregate) and not part.keys for part in rel.walk())


@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_what_they_are_one_by_one(shape: str) -> None:
    for seed in range(60):
        query, rows = side_by_side(SHAPES[shape], seed), bags(seed)
        found = in_one_pass(query)
        assert found.columns == query.columns
        apart = {all_linear(part.aggregates) for part in query.walk() if isinstance(part, Aggregate) and not part.keys}
        assert passes(query) > 1
        assert passes(found) == len(apart), "what deletions are taken from, and extremes"
        assert evaluate(found, rows) == evaluate(query, rows), seed


def without_conditions(call: AggregateCall, kept: tuple[Expr, ...]) -> AggregateCall:
    return call


def first_only(first: Expr, *others: Expr) -> Expr:
    return first


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (one_pass, "_filtered", without_conditions),
        (common, "disjunction", conjunction),
        (common, "disjunction", first_only),
    ],
)
def test_wrong_laws_are_refuted(monkeypatch: pytest.MonkeyPatch, module: object, name: str, wrong: object) -> None:
    monkeypatch.setattr(module, name, wrong)
    shape = SHAPES["a join"]
    cases = ((side_by_side(shape, seed), bags(seed)) for seed in range(60))
    assert any(evaluate(in_one_pass(query), rows) != evaluate(query, rows) for query, rows in cases)


def test_pairs_of_rows_that_none_has_are_left_out_below_what_follows() -> None:
    """Sales of two years in two towns: those of one year in the other town are read by neither."""

    def total(n: int) -> Rel:
        r, s, t = (Scan(name, FIELDS, tuple(Column(f"{name}{f}{n}", f, "int") for f in FIELDS)) for name in "rst")
        year, town = (Filter(rel, equal(Ref(rel.columns[1]), Literal(n, "int"))) for rel in (r, s))
        both = Join(year, town, "inner", equal(Ref(r.columns[0]), Ref(s.columns[0])))
        return counted(Join(both, t, "inner", equal(Ref(r.columns[2]), Ref(t.columns[0]))), f"n{n}")

    found = in_one_pass(Join(total(1), total(2), "inner", TRUE))
    below = [part.predicate for part in found.walk() if isinstance(part, Filter) and isinstance(part.input, Join)]
    assert [str(part) for part in below] == ["(((y = 1) AND (y = 1)) OR ((y = 2) AND (y = 2)))"]


R = Scan("r", FIELDS, tuple(Column(f"r{f}", f, "int") for f in FIELDS))
S = Scan("s", FIELDS, tuple(Column(f"s{f}", f, "int") for f in FIELDS))
R2 = Scan("r", FIELDS, tuple(Column(f"q{f}", f, "int") for f in FIELDS))
IS_ONE, IS_TWO = equal(Ref(R.columns[1]), Literal(1, "int")), equal(Ref(R2.columns[1]), Literal(2, "int"))
FAILS = equal(Call("Divide", (Ref(R2.columns[1]), Ref(R2.columns[2])), "int", detail="ansi"), Literal(1, "int"))


def counted(input: Rel, name: str, call: AggregateCall | None = None) -> Aggregate:
    call = call or AggregateCall("Count", (), "bigint")
    return Aggregate(input, (), (AggregateOutput(Column(name, name, call.type), call),))


def one_more(use: Scan) -> Rel:
    return Join(use, S, "inner", equal(Ref(use.columns[0]), Ref(S.columns[0])))


FLOATS = AggregateCall("Sum", (Call("Cast", (Ref(R2.columns[1]),), "double"),), "double")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(counted(S, "b"), id="of another table"),
        pytest.param(counted(one_more(R2), "b"), id="of a join"),
        pytest.param(counted(Filter(R2, FAILS), "b"), id="with a condition that may fail"),
        pytest.param(counted(R2, "b", AggregateCall("Count", (), "bigint", filter=FAILS)), id="with such a filter"),
        pytest.param(
            counted(R2, "b", AggregateCall("Count", (Ref(R2.columns[1]),), "bigint", distinct=True)),
            id="of distinct values",
        ),
        pytest.param(
            counted(R2, "b", AggregateCall("Max", (Ref(R2.columns[1]),), "int")),
            id="of an extreme, which a deletion may change",
        ),
        pytest.param(counted(R2, "b", FLOATS), id="of floats, which are added in some order"),
        pytest.param(
            Aggregate(R2, (Output(Column("k", "k", "int"), Ref(R2.columns[0])),), counted(R2, "b").aggregates),
            id="of groups",
        ),
    ],
)
def test_others_stay_apart(other: Rel) -> None:
    product = Join(counted(Filter(R, IS_ONE), "a"), other, "inner", TRUE)
    assert in_one_pass(product) == product
    either = Join(product, counted(Filter(R2, IS_TWO), "c"), "inner", TRUE)
    assert passes(in_one_pass(either)) == passes(either) - 1


def test_a_total_that_stands_there_twice_is_found_once() -> None:
    total = counted(Filter(R, IS_ONE), "a")
    again = Project(total, (Output(Column("b", "b", "bigint"), Ref(total.columns[0])),))
    product = Join(Join(again, total, "inner", TRUE), counted(R2, "c"), "inner", TRUE)
    found = in_one_pass(product)
    (one,) = (part for part in found.walk() if isinstance(part, Aggregate))
    assert [column.name for column in one.columns] == ["a", "c"]
    rows = bags(3)
    assert evaluate(found, rows) == evaluate(product, rows)


RATIO = Call("Divide", (Ref(R2.columns[1]), Ref(R2.columns[2])), "int", detail="ansi")
SAFE = Filter(R2, Call("Not", (equal(Ref(R2.columns[2]), Literal(0, "int")),), "boolean"))
NAMED = Column("ratio", "ratio", "int")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(counted(SAFE, "b", AggregateCall("Sum", (RATIO,), "bigint", detail="ansi")), id="an argument"),
        pytest.param(
            counted(Project(SAFE, (Output(NAMED, RATIO),)), "b", AggregateCall("Count", (Ref(NAMED),), "bigint")),
            id="a projection below",
        ),
    ],
)
def test_what_may_fail_is_not_computed_of_more_rows(other: Rel) -> None:
    product = Join(counted(R, "a"), other, "inner", TRUE)
    assert in_one_pass(product) == product


@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("batch",), ("all",)])
def test_plans_give_them_at_all_times(methods: tuple[str, ...]) -> None:
    points = (Point(0.2, True), Point(0.4, True), Point(1.0, True))
    for seed in range(12):
        random = Random(seed)
        make = Maker(random)
        shape = random.choice((SHAPES["a join with groups"], SHAPES["a join"]))
        tables = {name: random_table(random, name, len(points)) for name in "rst"}
        query = Join(make.totals(full(shape(make))), make.totals(full(shape(make))), "inner", TRUE)
        for t, found in enumerate(run_plan(query, tables, points, methods)):
            assert found == truth(query, tables, t)
