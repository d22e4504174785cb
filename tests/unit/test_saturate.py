"""Saturation: what the laws at all times make of a memo is equal, whatever order they run in and whatever is turned off."""

from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Filter, Project, Rel, Scan, Union
from tempura.algebra.scalar import Call, Column, Literal, Output, Ref
from tempura.cost.estimate import Estimator
from tempura.cost.stats import TableFacts
from tempura.laws.definition import Definition
from tempura.laws.relations import CaseMaker
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo
from tempura.rules.methods import REWRITES
from tempura.search.saturate import ALL_ON, Inside, Saturation, Switches
from tests.plans.random_queries import QueryGenerator

TABLES = ("r", "s", "t")
COLUMNS = (Column("x", "x", "int"), Column("y", "y", "int"))


def table(name: str) -> Scan:
    return Scan(name, ("x", "y"), COLUMNS)


def less(rel: Rel, place: int, limit: int) -> Filter:
    return Filter(rel, Call("LessThan", (Ref(rel.columns[place]), Literal(limit, "int")), "boolean"))


def saturated(query: Rel, switches: Switches = ALL_ON, budget: int = 1_000) -> tuple[Memo, Edge, Saturation]:
    facts = {scan.table: TableFacts((10_000,), (0,), 1) for scan in query.walk() if isinstance(scan, Scan)}
    memo = Memo()
    edge = memo.add(query)
    found = Saturation(memo, REWRITES, Estimator(facts, memo.representative), switches=switches)
    found.run(budget)
    return memo, memo.find(edge), found


def shape(memo: Memo) -> list[int]:
    return sorted(len(memo.members(edge)) for edge in memo.classes)


@pytest.mark.parametrize("seed", range(40))
def test_all_members_of_a_class_are_the_same_relation(seed: int) -> None:
    rng = Random(seed)
    query = QueryGenerator(rng, TABLES).query(1 + seed % 3)
    memo, _, _ = saturated(query)
    maker = CaseMaker(rng)
    types = {s.table: tuple(c.type for c in s.outputs) for s in query.walk() if isinstance(s, Scan)}
    tables = {name: [SignedBag.of(maker.rows(types[name], (0, 2, 4, 6))) for _ in range(2)] for name in types}
    definition = Definition(tables)
    for edge in memo.classes:
        trees = [memo.tree(member.rel) for member in memo.members(edge) if edge.id not in member.key[1:]]
        for t in definition.times:
            bags = [definition.snapshot(tree, t) for tree in trees]
            assert all(bag == bags[0] for bag in bags), f"seed {seed}, {list(map(str, trees))}"


@pytest.mark.parametrize("off", ["dispatch", "semi_naive", "one_way"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_does_not_depend_on_the_engine(seed: int, off: str) -> None:
    query = QueryGenerator(Random(seed), TABLES).query(3)
    whole, edge, _ = saturated(query)
    slow, again, _ = saturated(query, replace(ALL_ON, **{off: False}))
    assert len(slow.members(again)) >= len(whole.members(edge))
    if off != "one_way":
        assert shape(slow) == shape(whole)


def test_a_rule_looks_again_where_a_class_below_has_grown() -> None:
    """The filter reaches the tables through a projection and a union that only merging makes visible."""
    inner = Project(Union((table("r"), table("s"))), tuple(Output(c, Ref(c)) for c in COLUMNS))
    memo, edge, _ = saturated(less(Union((inner, table("t"))), 0, 3))
    labels = {member.rel.label for member in memo.members(edge)}
    assert any(isinstance(m.rel, Union) and len(m.rel.terms) == 3 for m in memo.members(edge)), labels


def test_the_budget_is_counted_in_firings() -> None:
    query = less(less(less(table("r"), 0, 3), 1, 2), 0, 1)
    _, _, whole = saturated(query)
    for budget in range(whole.fired + 1):
        assert saturated(query, budget=budget)[2].fired == budget


def test_columns_below_a_use_of_a_class_are_its_own() -> None:
    """Both sides of a self-join are seen as what computes them: they share no column."""
    memo = Memo()
    uses = [
        memo.add(less(Scan("r", ("x", "y"), tuple(replace(c, id=f"{c.id}{i}") for c in COLUMNS)), 0, 3)) for i in "ab"
    ]
    inside = Inside(memo)
    left, right = (next(iter(inside(use))) for use in uses)
    assert left.columns == uses[0].columns
    assert not {c for i in left.inputs for c in i.columns} & {c for i in right.inputs for c in i.columns}
