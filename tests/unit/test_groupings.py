"""The price of putting rows together: by tasks, whose tables of groups may not fit the processor's cache, and by how rows lie."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tempura.algebra.rel import Filter, Project, Rel
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref
from tempura.cost.estimate import Estimator
from tempura.cost.joins import Joins
from tempura.cost.model import SPARK
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.tvr.views import Delta, Snapshot, View
from tests.unit.test_merged_joins import MODEL, SMALL, R, S, counted, joined, renamed

MILLION = 1_000_000.0
ROWS = 1_000_000


def estimator(adjacent: float = 4.0) -> Estimator:
    """Of tables whose first columns lie in their order, so many rows of a value one after the other."""
    columns: Mapping[str, ColumnStats] = {
        "x": ColumnStats(ROWS / adjacent, adjacent=adjacent),
        "y": ColumnStats(10),
    }
    sizes = {"r": ROWS, "s": ROWS, "small": 10}
    return Estimator({name: TableFacts((n, n), (0, 0), 2, columns=columns) for name, n in sizes.items()})


def adjacent(rel: Rel, *keys: int) -> float:
    sent = replace(MODEL, broadcast_bytes=1_000)
    return Joins(sent, estimator()).adjacent(rel, [Ref(rel.columns[i]) for i in keys])


def halved(rel: Rel) -> Filter:
    """Half of the rows, by a comparison of what nothing is known of."""
    return Filter(rel, Call("GreaterThan", (Ref(rel.columns[1]), Literal(3, "int")), "boolean"))


@pytest.mark.parametrize(
    ("rel", "keys", "expected"),
    [
        (R, (0,), 4.0),
        (R, (1,), 1.0),
        (R, (0, 1), 1.0),
        (renamed(R), (0,), 4.0),
        (View(R, Snapshot(1)), (0,), 4.0),
        (View(R, Delta(0, 1)), (0,), 4.0),
        (View(renamed(R), Snapshot(1)), (0,), 4.0),
        (joined(R, S), (0,), 1.0),
        (joined(R, SMALL, "semi", i=1), (1,), 1.0),
        (joined(SMALL, R), (0,), 1.0),
        (counted(R), (0,), 1.0),
        (R, (), 1.0),
    ],
)
def test_rows_lie_side_by_side_until_they_are_shuffled(rel: Rel, keys: tuple[int, ...], expected: float) -> None:
    assert adjacent(rel, *keys) == pytest.approx(expected)


def test_of_rows_side_by_side_a_filter_leaves_a_part_and_a_join_makes_more() -> None:
    left = estimator().rows(halved(R)) / ROWS
    assert adjacent(halved(R), 0) == pytest.approx(max(1.0, 4.0 * left))
    sent = joined(R, SMALL, "left", i=1)
    assert adjacent(sent, 0) == pytest.approx(4.0 * max(1.0, estimator().rows(sent) / ROWS))


def test_a_computed_key_lies_nowhere() -> None:
    doubled: Expr = Call("Add", (Ref(R.columns[0]), Ref(R.columns[0])), "int")
    assert Joins(MODEL, estimator()).adjacent(R, [doubled]) == 1.0
    assert Joins(MODEL, estimator()).adjacent(Project(R, (Output(Column("d", "d", "int"), doubled),)), []) == 1.0


def test_many_groups_take_longer_than_few_and_longer_still_where_rows_lie_in_no_order() -> None:
    few, many = (SPARK._group(32 * MILLION, groups, 24.0) for groups in (1_000.0, 8 * MILLION))
    in_order = SPARK._group(32 * MILLION, 8 * MILLION, 24.0, adjacent=4.0)
    assert 3 * few < in_order < many / 3
    assert SPARK._group(32 * MILLION, 8 * MILLION, 24.0, lies=True) < many / 2, "nothing is shuffled, or grouped twice"


@pytest.mark.parametrize("groups", [1.0, 1_000.0, 60_000.0, 200_000.0, MILLION, 8 * MILLION])
def test_a_grouping_costs_more_the_more_groups_and_rows_there_are(groups: float) -> None:
    rows = 8 * MILLION
    cost = SPARK._group(rows, groups, 24.0)
    assert cost <= SPARK._group(rows, groups * 1.5, 24.0)
    assert cost < SPARK._group(rows * 1.5, groups, 24.0)
    assert SPARK._group(rows, groups, 24.0, adjacent=2.0) <= cost


def test_no_rows_make_no_groups() -> None:
    assert SPARK._group(0.0, 0.0, 24.0) == SPARK.exchange


def test_rows_of_a_table_that_are_no_nulls_are_counted() -> None:
    """Spark asks that of the keys of each join: without this no whole table would be known to be small enough to be sent."""
    key, other = (Call("IsNotNull", (Ref(column),), "boolean") for column in R.columns)
    both = Call("And", (key, other), "boolean")
    assert estimator().is_counted(Filter(R, both))
    assert not estimator().is_counted(halved(R))
    assert not estimator().is_counted(Filter(R, Call("And", (key, halved(R).predicate), "boolean")))
