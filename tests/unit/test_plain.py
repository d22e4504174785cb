"""Expressions as plain data: read back they are what they were, handles in their places."""

import json
from datetime import date, datetime
from decimal import Decimal

import pytest

from tempura.algebra.plain import NotPlainError, from_plain, plain
from tempura.algebra.rel import Filter, Opaque, Project, Rel, Scan, Union
from tempura.algebra.scalar import Call, Column, Literal, Output, Ref, conjunction, equal
from tempura.errors import Reason
from tests.unit.test_memo import random_query

A, B = Column("a#1", "a", "int"), Column("b#2", "b", "string")
T = Scan("t", ("a", "b"), (A, B))


def back(root: object) -> object:
    data, handles = plain(root)
    return from_plain(json.loads(json.dumps(data)), handles.__getitem__)


@pytest.mark.parametrize("seed", range(60))
def test_random_queries_are_read_back(seed: int) -> None:
    rel = random_query(seed)
    read = back(rel)
    assert read == rel
    assert isinstance(read, Rel)
    assert [column.name for column in read.columns] == [column.name for column in rel.columns]


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, 10**30, "NULL", "ä\n\x00", 1.5, -0.0, float("inf"), float("nan"), Decimal("1.50"), Decimal(10) ** 37, b"\x00\xff",
        [1, [2.5, None]], date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999),
    ],
)  # fmt: skip
def test_constants_stay_what_they_are(value: object) -> None:
    """Compared as they are written: 1, 1.0 and True are three constants."""
    read = back((Literal(value, "some"),))
    assert read == (Literal(value, "some"),)
    assert repr(read) == repr((Literal(value, "some"),))


def test_handles_keep_their_places_though_expressions_are_equal() -> None:
    one, other = (Call("Upper", (Ref(B),), "string", handle=handle) for handle in ("one", "other"))
    assert one == other
    rel = Project(Filter(T, conjunction(equal(one, Ref(B)), equal(other, Ref(B)))), (Output(A, Ref(A)),))
    data, handles = plain(rel)
    assert handles == ["one", "other"]
    read = from_plain(json.loads(json.dumps(data)), lambda place: f"handle {place}")
    found = [call.handle for call in read.input.predicate.walk() if isinstance(call, Call) and call.function == "Upper"]
    assert found == ["handle 0", "handle 1"]


def test_what_is_shared_is_told_once() -> None:
    rel: Rel = T
    for _ in range(40):
        rel = Union((rel, rel))
    data, _ = plain(rel)
    assert len(data["nodes"]) == 43
    assert back(rel) == rel


@pytest.mark.parametrize(
    "root",
    [Opaque((T,), (A,), "text", Reason("TOP_K", "why")), (object(),), (Literal({1}, "a set"),)],
    ids=["what only an engine knows", "an object", "a set"],
)
def test_what_is_no_plain_data_is_refused(root: object) -> None:
    with pytest.raises(NotPlainError):
        plain(root)


def test_what_is_nested_too_deeply_is_refused() -> None:
    rel: Rel = T
    for _ in range(5_000):
        rel = Filter(rel, Literal(True, "boolean"))
    with pytest.raises(NotPlainError, match="deep"):
        plain(rel)
