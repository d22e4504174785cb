"""Conditions on counts and sums of groups: the share of groups that they leave, against groups that were drawn."""

from math import inf
from random import Random

import pytest

from tempura.algebra.rel import Aggregate, Filter, Project, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref, conjunction
from tempura.cost.estimate import Estimator
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.cost.sums import Spread, spread
from tempura.tvr.views import Snapshot, View

ORDER, PIECES, TAX = Column("o", "order", "int"), Column("p", "pieces", "int"), Column("t", "tax", "int")
LINES = Scan("lines", ("order", "pieces", "tax"), (ORDER, PIECES, TAX))
ROWS, ORDERS = 40_000, 10_000
FACTS = {
    "lines": TableFacts(
        (ROWS,),
        (0,),
        1,
        columns={"order": ColumnStats(ORDERS), "pieces": ColumnStats(50, 0.0, 1.0, 50.0), "tax": ColumnStats(9)},
    )
}


def call(function: str, *operands: Expr, distinct: bool = False) -> AggregateCall:
    return AggregateCall(function, operands, "bigint", distinct=distinct)


def per_order(asked: AggregateCall) -> Aggregate:
    key = Output(Column("k", "order", "int"), Ref(ORDER))
    return Aggregate(LINES, (key,), (AggregateOutput(Column("n", "n", "bigint"), asked),))


def compared(rel: Rel, how: str, bound: int) -> Expr:
    return Call(how, (Ref(rel.columns[1]), Literal(bound, "bigint")), "boolean")


def left(asked: AggregateCall, how: str, bound: int) -> float:
    """The orders that a condition on their aggregate is expected to leave."""
    orders = per_order(asked)
    return Estimator(FACTS).rows(Filter(orders, compared(orders, how, bound)))


def drawn(seed: int = 1) -> list[list[int]]:
    """The pieces of the lines of each order that has some: each line is of any order."""
    random = Random(seed)
    orders: dict[int, list[int]] = {}
    for _ in range(ROWS):
        orders.setdefault(random.randrange(ORDERS), []).append(random.randint(1, 50))
    return list(orders.values())


@pytest.mark.parametrize(("bound", "factor"), [(50, 1.3), (100, 1.3), (200, 1.5), (250, 3), (300, 10)])
def test_as_many_groups_have_a_greater_sum_as_were_drawn(bound: int, factor: float) -> None:
    """Far above the mean it is a guess, and on the safe side: of a third, which is taken elsewhere, the last would be 3,000."""
    found = sum(sum(pieces) > bound for pieces in drawn())
    expected = left(call("Sum", Ref(PIECES)), "GreaterThan", bound)
    assert found / 1.3 <= expected <= factor * found


@pytest.mark.parametrize(("bound", "factor"), [(1, 2), (2, 2), (4, 2), (6, 2), (8, 3)])
def test_as_many_groups_have_more_rows_as_were_drawn(bound: int, factor: float) -> None:
    found = sum(len(pieces) > bound for pieces in drawn())
    assert found / 2 <= left(call("Count"), "GreaterThan", bound) <= factor * found


def test_averages_lie_closer_together_than_values() -> None:
    above = [sum(sum(p) > bound * len(p) for p in drawn()) for bound in (30, 40)]
    found = [left(call("Average", Ref(PIECES)), "GreaterThan", bound) for bound in (30, 40)]
    assert found == pytest.approx(above, rel=0.6)


def test_what_is_above_and_what_is_below_are_all() -> None:
    asked = call("Sum", Call("Cast", (Ref(PIECES),), "bigint"))
    both = [left(asked, how, 150) for how in ("LessThan", "GreaterThan")]
    assert sum(both) == pytest.approx(Estimator(FACTS).rows(per_order(asked)))
    assert left(call("Sum", Ref(PIECES)), "LessThan", 150) == both[0], "a cast to another number adds up the same"


def test_two_bounds_are_one_range() -> None:
    orders = per_order(call("Count"))
    between = conjunction(compared(orders, "GreaterThan", 3), compared(orders, "LessThan", 6))
    above, below = left(call("Count"), "GreaterThan", 3), left(call("Count"), "LessThan", 6)
    whole = Estimator(FACTS).rows(orders)
    assert Estimator(FACTS).rows(Filter(orders, between)) == pytest.approx(above + below - whole)


def test_at_least_one_group_is_left() -> None:
    assert left(call("Count"), "GreaterThan", 10**9) == pytest.approx(1.0)
    assert left(call("Sum", Ref(PIECES)), "LessThan", 0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "asked", [call("Sum", Ref(TAX)), call("Max", Ref(PIECES)), call("Count", Ref(PIECES), distinct=True)]
)
def test_of_what_nothing_is_known_a_third_is_left(asked: AggregateCall) -> None:
    assert left(asked, "GreaterThan", 7) == pytest.approx(Estimator(FACTS).rows(per_order(asked)) / 3)


def test_a_sum_is_known_under_another_name_and_in_a_view() -> None:
    orders = per_order(call("Sum", Ref(PIECES)))
    expected = left(call("Sum", Ref(PIECES)), "GreaterThan", 250)
    total = Column("m", "m", "bigint")
    named = Project(
        orders, (Output(Column("k2", "k", "int"), Ref(orders.columns[0])), Output(total, Ref(orders.columns[1])))
    )
    assert Estimator(FACTS).rows(Filter(named, compared(named, "GreaterThan", 250))) == pytest.approx(expected)
    seen = View(orders, Snapshot(0))
    assert Estimator(FACTS).rows(Filter(seen, compared(seen, "GreaterThan", 250))) == pytest.approx(expected)


def test_what_may_be_negative_is_normal() -> None:
    found = spread(call("Sum", Ref(PIECES)), 4.0, ColumnStats(100, 0.0, -10.0, 10.0))
    assert found is not None
    assert found.below(0) == pytest.approx(0.5)
    assert found.below(-inf) == 0.0
    assert found.below(inf) == 1.0


@pytest.mark.parametrize("bound", [-1.0, 0.0])
def test_nothing_that_is_positive_is_below_zero(bound: float) -> None:
    assert Spread(4.0, 4.0).below(bound) == 0.0


def test_without_variance_there_is_one_value() -> None:
    assert [Spread(5.0, 0.0).below(bound) for bound in (4, 5, 6)] == [0.0, 0.0, 1.0]
