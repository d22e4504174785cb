"""Time points that a plan need not look at: what could be done there may wait for another, at no higher price."""

from dataclasses import replace
from random import Random

import pytest

from tempura.cost.stats import TableFacts
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.random_queries import QueryGenerator, random_table
from tests.plans.test_planner import facts, problem

EARLY = 0.25


def points(weights: tuple[float, ...], due: set[int]) -> tuple[Point, ...]:
    return tuple(Point(weight, t in due) for t, weight in enumerate(weights))


def posed(weights: tuple[float, ...], due: set[int], known: int = 1) -> Problem:
    rows = facts(*(100_000 * (t + 1) for t in range(len(weights))), known=known)
    return problem(rows, rows, points(weights, due))


@pytest.mark.parametrize(
    ("weights", "due", "worth"),
    [
        ((0.25, 0.25, 1.0), {2}, (1, 2)),
        ((0.25, 0.25, 0.25, 0.25, 1.0), {4}, (3, 4)),
        ((0.2, 0.3, 0.4, 1.0), {3}, (0, 1, 2, 3)),  # each time is cheaper than those that are left
        ((0.2, 1.0, 0.3, 1.0), {3}, (0, 2, 3)),  # by day it is dear, and at night before the result is due it is not
        ((1.0, 1.0, 1.0, 1.0), {3}, (3,)),
        ((1.0, 1.0, 1.0, 1.0), {1, 3}, (1, 3)),  # what is due at 1 cannot wait, what comes after it can
        ((1.0, 0.5, 0.2, 0.9), {0, 1, 2, 3}, (0, 1, 2, 3)),
        ((0.25, 0.5, 0.9, 0.1), {2, 3}, (0, 1, 2, 3)),  # a cheap time after a result does not help that
    ],
)
def test_what_may_wait(weights: tuple[float, ...], due: set[int], worth: tuple[int, ...]) -> None:
    assert posed(weights, due).worth_working == worth


def test_the_past_stays() -> None:
    past = posed((0.0, 0.25, 0.25, 0.25, 1.0), {4}, known=2)
    past = replace(past, points=(replace(past.points[0], done=True), *past.points[1:]))
    assert past.worth_working == (0, 3, 4)
    later = past.at(past.worth_working)
    assert later.first == past.first
    assert [table.rows(1) for table in later.tables.values()] == [table.rows(3) for table in past.tables.values()]
    assert not make_plan(later).steps[-1].is_empty


def test_nothing_waits_until_rows_have_left() -> None:
    """Before that a table is read without looking which of its rows are still there."""
    rows = replace(facts(*(100_000 * (t + 1) for t in range(4))), deleted=(0, 0, 500, 500), append_only=False)
    asked = problem(rows, rows, points((EARLY, EARLY, EARLY, 1.0), {3}))
    assert asked.worth_working == (1, 2, 3)
    had_left = replace(rows, deleted=(500, 500, 700, 700))
    assert replace(asked, tables=dict.fromkeys(asked.tables, had_left)).worth_working == (2, 3)
    promised = replace(rows, deleted=(0,) * 4, append_only=True)
    assert replace(asked, tables=dict.fromkeys(asked.tables, promised)).worth_working == (2, 3)


def test_tables_are_as_they_were_at_the_points_that_are_left() -> None:
    table = TableFacts((5, 8, 9, 20), (0, 1, 1, 4), 2, read_deleted=(0, 1))
    left = table.at((0, 1, 3))
    assert [left.rows(t) for t in range(3)] == [5, 7, 16]
    assert left.changed_rows(1, 2) == table.changed_rows(1, 3)
    assert [left.deletions_read(t) for t in range(3)] == [table.deletions_read(t) for t in (0, 1, 3)]
    later = table.at((1, 2, 3))
    assert [later.rows(t) for t in range(3)] == [7, 8, 16]
    assert [later.deletions_read(t) for t in range(3)] == [table.deletions_read(t) for t in (1, 2, 3)]
    asked = replace(posed((EARLY, EARLY, EARLY, 1.0), {3}), as_written=frozenset((1, 3)))
    assert asked.at((0, 2, 3)).as_written == {2}


@pytest.mark.parametrize("seed", range(24))
def test_nothing_is_lost(seed: int) -> None:
    """The best plan that is found of all points is no cheaper than that of the first and those that are worth a look."""
    random = Random(seed)
    tables = {name: random_table(random, name, 5) for name in ("r", "s", "t")}
    query = QueryGenerator(random, tuple(tables)).query(1 + seed % 3)
    sizes = {name: _larger(table.facts(1)) for name, table in tables.items()}
    asked = Problem(query, points((EARLY, EARLY, EARLY, EARLY, 1.0), {4}), sizes)
    left = sorted({0, *asked.worth_working})
    assert make_plan(asked.at(left)).cost <= 1.001 * make_plan(asked).cost


def _larger(table: TableFacts) -> TableFacts:
    """As many times the rows, for plans in which states pay."""
    inserted, deleted = (tuple(2_000_000 * n for n in rows) for rows in (table.inserted, table.deleted))
    return replace(table, inserted=inserted, deleted=deleted, read_deleted=())


@pytest.mark.parametrize("seed", range(24))
def test_the_first_waits_for_little(seed: int) -> None:
    """Without the first point, too, of tables that gain 1 % with each arrival, no plan costs more than estimates of parts differ from those
    of the whole: where rows only come, where they leave from the second arrival on, and where some had left before."""
    random = Random(seed)
    tables = {name: random_table(random, name, 5) for name in ("r", "s", "t")}
    query = QueryGenerator(random, tuple(tables)).query(1 + seed % 3)
    deleted = ((0,) * 5, tuple(25_000 * t for t in range(5)), tuple(25_000 * (t + 1) for t in range(5)))[seed // 3 % 3]
    sizes = {name: _growing(table.facts(1), deleted) for name, table in tables.items()}
    asked = Problem(query, points((EARLY, EARLY, EARLY, EARLY, 1.0), {4}), sizes)
    assert len(asked.worth_working) == (3 if deleted[0] < deleted[1] == 25_000 else 2)
    assert make_plan(asked.at(asked.worth_working)).cost <= 1.02 * make_plan(asked).cost


def _growing(table: TableFacts, deleted: tuple[int, ...]) -> TableFacts:
    """So many rows that states pay."""
    inserted = tuple(10_000_000 + 100_000 * t for t in range(5))
    return replace(table, inserted=inserted, deleted=deleted, static=False, append_only=False, read_deleted=())


def test_more_times_at_the_same_price_take_no_more_planning() -> None:
    """Nothing is explored for times of which all work may wait."""
    efforts = []
    for times in (3, 6, 9):
        rows = facts(*(9_000_000 + 1_000 * t for t in range(times)))
        weights = (*(EARLY for _ in range(times - 1)), 1.0)
        asked = problem(rows, rows, points(weights, {times - 1}))
        efforts.append(make_plan(asked.at(asked.worth_working)).effort)
    assert efforts[0].groups == efforts[1].groups == efforts[2].groups
    assert efforts[0].firings == efforts[1].firings == efforts[2].firings
