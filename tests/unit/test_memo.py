"""The What layer: what is one class, what stays apart, and what mergers imply."""

from dataclasses import fields, is_dataclass, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempura.algebra.canonical import canonical_text, fingerprint
from tempura.algebra.evaluate_scalar import evaluate
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Sort, Union
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Literal,
    Output,
    Ref,
    SortKey,
    conjunction,
    disjunction,
    equal,
)
from tempura.memo.edge import Edge
from tempura.memo.events import ClassCreated, ClassesMerged, Event
from tempura.memo.memo import Memo
from tests.plans.random_queries import QueryGenerator

SEEDS = st.integers(0, 10_000)


def table(prefix: str, name: str = "r") -> Scan:
    return Scan(name, ("x", "y"), (Column(f"{prefix}x", "x", "int"), Column(f"{prefix}y", "y", "int")))


def where(rel: Rel, limit: int) -> Filter:
    return Filter(rel, Call("LessThan", (Ref(rel.columns[0]), Literal(limit, "int")), "boolean"))


def join(left: Rel, right: Rel) -> Join:
    return Join(left, right, "inner", equal(Ref(left.columns[0]), Ref(right.columns[0])))


def count(rel: Rel, prefix: str) -> Aggregate:
    keys = (Output(Column(f"{prefix}k", "k", "int"), Ref(rel.columns[0])),)
    return Aggregate(
        rel, keys, (AggregateOutput(Column(f"{prefix}n", "n", "bigint"), AggregateCall("Count", (), "bigint")),)
    )


def random_query(seed: int) -> Rel:
    return QueryGenerator(Random(seed), ("r", "s", "t")).query(1 + seed % 4)


def renamed_copy(value: object, suffix: str) -> object:
    """An expression with other column identities and names throughout."""
    if isinstance(value, Column):
        return Column(value.id + suffix, value.name + suffix, value.type)
    if isinstance(value, tuple):
        return tuple(renamed_copy(v, suffix) for v in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*(renamed_copy(getattr(value, f.name), suffix) for f in fields(value)))
    return value


def copy(rel: Rel, suffix: str = "'") -> Rel:
    renamed = renamed_copy(rel, suffix)
    assert isinstance(renamed, Rel)
    return renamed


@given(SEEDS)
@settings(max_examples=60)
def test_a_query_and_its_copy_with_other_columns_are_one_class(seed: int) -> None:
    memo, query = Memo(), random_query(seed)
    first = memo.add(query)
    known = len(memo.classes)
    second = memo.add(copy(query))
    assert first.id == second.id
    assert len(memo.classes) == known
    assert (first.columns, second.columns) == (query.columns, copy(query).columns)
    assert memo.own(second).columns == memo.own(first).columns


@given(SEEDS, SEEDS)
@settings(max_examples=60)
def test_classes_are_as_many_as_lines_of_canonical_text(one: int, other: int) -> None:
    memo = Memo()
    a, b = memo.add(random_query(one)), memo.add(random_query(other))
    texts = [canonical_text(random_query(seed)) for seed in (one, other)]
    assert (a.id == b.id) == (texts[0] == texts[1])
    alone = Memo()
    alone.add(random_query(one))
    assert len(alone.classes) == len(texts[0].splitlines())


@given(SEEDS)
@settings(max_examples=60)
def test_a_class_has_the_fingerprint_of_its_expression(seed: int) -> None:
    """A stored state is found again, whatever session stored it."""
    memo, query = Memo(), random_query(seed)
    memo.add(copy(query))
    edge = memo.add(query)
    assert memo.fingerprint(edge) == memo.fingerprint(memo.own(edge)) == fingerprint(query)


def test_a_self_join_is_one_class_reached_by_two_edges() -> None:
    memo = Memo()
    edge = memo.add(join(table("a"), table("b")))
    (member,) = memo.members(edge)
    left, right = member.rel.inputs
    assert isinstance(left, Edge)
    assert isinstance(right, Edge)
    assert left.id == right.id
    assert left.columns != right.columns
    assert len(memo.classes) == 2


def test_two_uses_of_a_common_table_expression_share_its_classes() -> None:
    """As in TPC-DS q14: several aggregations over one join, each use with columns of its own."""
    memo = Memo()

    def use(prefix: str) -> Rel:
        return count(join(where(table(prefix + "a"), 3), table(prefix + "b", "s")), prefix)

    memo.add(use("p"))
    alone = len(memo.classes)
    memo.add(join(use("q"), use("r")))
    assert len(memo.classes) == alone + 1


def test_what_differs_in_a_parameter_or_an_input_stays_apart() -> None:
    memo = Memo()
    different = (
        where(table("a"), 1), where(table("a"), 2), where(table("a", "s"), 1), count(table("a"), "c"),
        join(table("a"), table("b")), Join(table("a"), table("b"), "left", join(table("a"), table("b")).on),
    )  # fmt: skip
    assert len({memo.add(rel).id for rel in different}) == len(different)


P, Q, R = (
    Call(test, (Ref(Column("1x", "x", "int")), Literal(n, "int")), "boolean")
    for test, n in (("LessThan", 9), ("GreaterThan", 2), ("EqualTo", 5))
)
PLUS_ONE = Call("Add", (Ref(Column("1x", "x", "int")), Literal(1, "int")), "int", detail="EvalMode.ANSI")
FAILS = Call("LessThan", (PLUS_ONE, Literal(9, "int")), "boolean")
WAYS = {
    "AND": (conjunction(P, Q), conjunction(Q, P)),
    "AND of three": (conjunction(P, Q, R), Call("And", (R, conjunction(Q, P)), "boolean")),
    "OR": (disjunction(P, Q, R), disjunction(R, disjunction(P, Q))),
    "equation": (equal(*R.operands), equal(*reversed(R.operands))),
    "OR in AND": (conjunction(disjunction(P, Q), R), conjunction(R, disjunction(Q, P))),
}


@pytest.mark.parametrize("way", WAYS)
def test_operands_that_may_change_places_make_no_other_class(way: str) -> None:
    one, other = WAYS[way]
    memo = Memo()
    assert memo.add(Filter(table("1"), one)).id == memo.add(Filter(table("1"), other)).id
    joins = (Join(table("1"), table("2"), "left", on) for on in (one, other))
    assert len({memo.add(join).id for join in joins}) == 1
    tests = (Project(table("1"), (Output(Column(f"{i}t", "t", "boolean"), on),)) for i, on in enumerate((one, other)))
    assert len({memo.add(project).id for project in tests}) == 1


@pytest.mark.parametrize("way", WAYS)
def test_they_have_the_same_value_for_every_row(way: str) -> None:
    one, other = WAYS[way]
    for x in (None, *range(12)):
        assert evaluate(one, {Column("1x", "x", "int"): x}) == evaluate(other, {Column("1x", "x", "int"): x})


def test_what_can_fail_is_asked_when_the_query_asks_it() -> None:
    """Where ``P`` is FALSE first, ``FAILS`` is not computed."""
    memo = Memo()
    first, last = (memo.add(Filter(table("1"), on)) for on in (conjunction(P, FAILS), conjunction(FAILS, P)))
    assert first.id != last.id


def test_operands_of_other_functions_stay_where_they_are() -> None:
    memo = Memo()
    assert memo.add(Filter(table("1"), P)).id != memo.add(Filter(table("1"), replace(P, operands=P.operands[::-1]))).id
    both = (conjunction(disjunction(P, Q), R), disjunction(conjunction(P, Q), R))
    assert len({memo.add(Filter(table("1"), on)).id for on in both}) == 2


def test_relations_that_are_both_empty_now_stay_apart() -> None:
    """Equality is at all times. That no row of either table has arrived says nothing of later."""
    memo = Memo()
    r, s = memo.add(table("a")), memo.add(table("a", "s"))
    assert r.id != s.id
    assert memo.add(where(table("a"), 3)).id != memo.add(where(table("a", "s"), 3)).id


def test_operators_over_merged_classes_are_merged() -> None:
    memo = Memo()
    r, s = memo.add(table("a")), memo.add(table("b", "s"))
    over_r, over_s = (memo.add(count(where(x, 3), p)) for x, p in ((table("a"), "c"), (table("b", "s"), "d")))
    assert over_r.id != over_s.id
    memo.merge(r, s)
    memo.rebuild()
    assert memo.find(over_r).id == memo.find(over_s).id
    assert len(memo.classes) == 3
    assert [len(memo.members(edge)) for edge in memo.classes] == [2, 1, 1]
    assert memo.add(count(where(table("e", "s"), 3), "f")).id == memo.find(over_r).id


def test_a_merger_inside_a_self_join_meets_the_other_self_join() -> None:
    memo = Memo()
    r, s = memo.add(table("a")), memo.add(table("b", "s"))
    joins = [memo.add(join(table("a", one), table("b", other))) for one in "rs" for other in "rs"]
    assert len({j.id for j in joins}) == 4
    memo.merge(s, r)
    memo.rebuild()
    assert len({memo.find(j).id for j in joins}) == 1


def test_a_class_does_without_a_member_that_is_retired() -> None:
    memo = Memo()
    small, large = where(table("a"), 3), where(where(table("a"), 4), 3)
    edge = memo.add(small)
    known = memo.fingerprint(edge)
    memo.merge(edge, memo.add(large))
    memo.rebuild()
    first, second = memo.members(edge)
    memo.retire(first)
    assert memo.members(edge) == (second,)
    assert memo.find(memo.add(small)).id == memo.find(edge).id, "who writes it still finds its class"
    assert memo.fingerprint(edge) == known, "and states are found by the name that it had"
    memo.retire(second)
    assert memo.members(edge) == (second,), "somebody has to compute it"


@given(SEEDS, st.integers(0, 100), st.integers(0, 100))
@settings(max_examples=60)
def test_after_any_mergers_equal_operators_over_equal_classes_are_equal(seed: int, i: int, j: int) -> None:
    memo = Memo()
    memo.add(random_query(seed))
    memo.add(random_query(seed + 1))
    a, b = memo.classes[i % len(memo.classes)], memo.classes[j % len(memo.classes)]
    if [c.type for c in a.columns] != [c.type for c in b.columns]:
        with pytest.raises(ValueError, match="different columns"):
            memo.merge(a, b)
        return
    memo.merge(a, b)
    memo.rebuild()
    members = [(edge.id, member) for edge in memo.classes for member in memo.members(edge)]
    assert len({member.key for _, member in members}) == len(members)
    roots = {edge.id for edge in memo.classes}
    for id, member in members:
        assert set(member.key[1:]) <= roots
        assert memo.add(member.rel).id == id
    for edge in memo.classes:
        assert memo.representative(edge) in [member.rel for member in memo.members(edge)]
        assert memo.fingerprint(edge)  # would not end if a representative contained itself


def test_the_representative_is_the_smallest_tree_and_never_circular() -> None:
    memo = Memo()
    r = memo.add(table("a"))
    twice = memo.add(where(where(table("a"), 3), 3))
    once = memo.add(where(table("a"), 3))
    user = memo.add(count(where(where(table("a"), 3), 3), "c"))
    assert memo.fingerprint(user) != fingerprint(count(where(table("a"), 3), "c"))
    memo.merge(once, twice, "merge_filters")
    memo.rebuild()
    assert memo.fingerprint(user) == fingerprint(count(where(table("a"), 3), "c"))
    sorted_r = memo.add(Sort(table("a"), (SortKey(Ref(table("a").columns[0])),)))
    memo.merge(r, sorted_r)
    memo.rebuild()
    assert isinstance(memo.representative(r), Scan)


def test_a_class_owns_its_columns_and_every_edge_renames_them() -> None:
    memo = Memo()
    a, b = memo.add(where(table("a"), 3)), memo.add(where(table("b"), 3))
    assert memo.own(b).columns == table("a").columns
    assert b.columns == table("b").columns
    swapped = Project(table("b"), tuple(Output(Column(c.id + "'", c.name, c.type), Ref(c)) for c in b.columns[::-1]))
    assert memo.add(swapped).id not in (a.id, b.id)


def test_terms_of_a_union_may_be_one_class() -> None:
    memo = Memo()
    edge = memo.add(Union((where(table("a"), 1), where(table("a"), 1))))
    (member,) = memo.members(edge)
    assert len(set(member.key[1:])) == 1


def test_every_member_says_where_it_comes_from_and_listeners_hear_of_it() -> None:
    events: list[Event] = []
    memo = Memo(events.append)
    twice = memo.add(where(where(table("a"), 3), 3))
    (given_member,) = memo.members(twice)
    once = memo.add(where(table("a"), 3), "merge_filters", given_member)
    memo.merge(twice, once, "merge_filters")
    memo.rebuild()
    assert [e.rule for e in events if isinstance(e, ClassCreated)] == ["", "", ""]
    assert [(e.rule) for e in events if isinstance(e, ClassesMerged)] == ["merge_filters"]
    assert [member.rule for member in memo.members(twice)] == ["", ""]
    fresh = memo.add(where(table("a"), 4), "narrow", given_member)
    (made,) = memo.members(fresh)
    assert (made.rule, made.source) == ("narrow", given_member)
