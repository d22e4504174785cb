"""Signed bags: identity of rows, and the group laws of addition."""

from datetime import date, datetime
from decimal import Decimal
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempura.algebra.bag import EMPTY, Row, SignedBag, identity

VALUES = st.sampled_from([None, 0, 1, True, 0.0, -0.0, 1.0, nan, "a", "A", "", Decimal("1.00"), b"a", date(2024, 1, 1)])
PAIRS = st.lists(st.tuples(st.tuples(VALUES, VALUES), st.integers(-3, 3)), max_size=8)
BAGS = PAIRS.map(SignedBag)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, None),
        ("a", "A"),
        ("a", b"a"),
        ("", None),
        (nan, inf),
        (nan, None),
        ([1], (1,)),
        ([0.0], [-0.0]),
        ([1, None], [1]),
        ({"a": 1}, {"a": True}),
        ({"a": 0.0}, {"a": -0.0}),
        (date(2024, 1, 1), datetime(2024, 1, 1)),
        (datetime(2024, 10, 27, 2, 30), datetime(2024, 10, 27, 2, 30, fold=1)),
    ],
)
def test_different_values_are_kept_apart(one: object, other: object) -> None:
    bag = SignedBag([((one,), 1), ((other,), -1)])
    assert len(bag) == 2
    assert bag != EMPTY
    assert (bag.weight((one,)), bag.weight((other,))) == (1, -1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, None),
        (nan, float("nan")),
        (nan, -nan),
        (Decimal("1.0"), Decimal("1.00")),
        ([None, nan], [None, float("nan")]),
        ({"a": [1]}, {"a": [1]}),
        (bytearray(b"x"), bytearray(b"x")),
    ],
)
def test_identical_values_cancel_out(one: object, other: object) -> None:
    assert SignedBag([((one,), 1), ((other,), -1)]) == EMPTY


@given(BAGS, BAGS, BAGS)
def test_bags_are_a_commutative_group(a: SignedBag, b: SignedBag, c: SignedBag) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + EMPTY == a
    assert a - a == EMPTY
    assert hash(a + b) == hash(b + a)
    assert a.scale(2) == a + a
    assert (a - b) + b == a


@given(PAIRS)
def test_weights_of_identical_rows_add_up(pairs: list[tuple[Row, int]]) -> None:
    bag = SignedBag(pairs)
    for row, _ in pairs:
        assert bag.weight(row) == sum(w for other, w in pairs if identity(other) == identity(row))
    assert all(weight != 0 for _, weight in bag.items())
    assert bag.size == sum(abs(weight) for _, weight in bag.items())


@given(BAGS)
def test_printed_bag_can_be_pasted_back(bag: SignedBag) -> None:
    names = {"SignedBag": SignedBag, "nan": nan, "Decimal": Decimal}
    assert eval(repr(bag), names | {"datetime": __import__("datetime")}) == bag


def test_rows_expand_weights_and_refuse_deletions() -> None:
    assert sorted(SignedBag([((1,), 2), ((2,), 1)]).rows()) == [(1,), (1,), (2,)]
    with pytest.raises(ValueError, match="negative"):
        SignedBag([((1,), -1)]).rows()


def test_a_row_deleted_before_it_is_inserted_is_nothing() -> None:
    assert SignedBag([((1,), -1), ((1,), 1)]) == EMPTY
    assert SignedBag([((1,), -1), ((1,), 1)]).is_positive
    assert not SignedBag([((1,), -1)]).is_positive
