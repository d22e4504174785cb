"""The price of joins whose sides are shuffled, sorted and merged: what lies by their keys already is not moved again."""

from dataclasses import replace

import pytest

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
from tempura.cost.estimate import Estimator
from tempura.cost.joins import Joins, Lies
from tempura.cost.model import CostModel
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.tvr.views import Delta, Snapshot, View

ROWS = 1_000_000
MODEL = CostModel(broadcast_bytes=0)


def table(name: str) -> Scan:
    return Scan(name, ("x", "y"), tuple(Column(f"{name}{c}", c, "int") for c in "xy"))


R, S, T, SMALL = (table(name) for name in ("r", "s", "t", "small"))


def estimator() -> Estimator:
    sizes = dict.fromkeys(("r", "s", "t"), ROWS) | {"small": 10}
    columns = dict.fromkeys("xy", ColumnStats(ROWS))
    return Estimator({name: TableFacts((n, n), (0, 0), 2, columns=columns) for name, n in sizes.items()})


def joined(left: Rel, right: Rel, kind: str = "inner", i: int = 0, j: int = 0) -> Join:
    return Join(left, right, kind, equal(Ref(left.columns[i]), Ref(right.columns[j])))  # type: ignore[arg-type]


def filtered(rel: Rel) -> Rel:
    return Filter(rel, Call("GreaterThan", (Ref(rel.columns[1]), Literal(3, "int")), "boolean"))


def renamed(rel: Rel) -> Project:
    return Project(rel, tuple(Output(Column(f"{c.id}2", c.name, c.type), Ref(c)) for c in rel.columns))


def counted(rel: Rel, key: int = 0) -> Aggregate:
    count = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    column = rel.columns[key]
    return Aggregate(rel, (Output(Column("key", "key", column.type), Ref(column)),), (count,))


def lies(rel: Rel, *keys: int, model: CostModel = MODEL) -> Lies | None:
    """How a side of a join lies whose keys are these columns."""
    return Joins(model, estimator()).lies(rel, [Ref(rel.columns[i]) for i in keys])


SEMI = joined(R, S, "semi")


@pytest.mark.parametrize(
    ("side", "key", "expected"),
    [
        (R, 0, None),
        (SEMI, 0, Lies.SORTED),
        (SEMI, 1, None),
        (joined(R, S, "anti"), 0, Lies.SORTED),
        (joined(R, S), 2, Lies.SORTED),
        (joined(R, S), 3, None),
        (joined(R, S, "left"), 0, Lies.SORTED),
        (joined(R, S, "left"), 2, None),
        (joined(R, S, "full"), 0, None),
        (filtered(SEMI), 0, Lies.SORTED),
        (renamed(SEMI), 0, Lies.SORTED),
        (renamed(filtered(SEMI)), 1, None),
        (counted(R), 0, Lies.SHUFFLED),
        (counted(R), 1, None),
        (joined(SEMI, T, i=1), 0, None),
        (View(SEMI, Snapshot(1)), 0, Lies.SORTED),
        (View(renamed(SEMI), Snapshot(1)), 0, Lies.SORTED),
        (View(R, Snapshot(1)), 0, None),
        (View(SEMI, Delta(0, 1)), 0, None),
    ],
)
def test_what_joins_and_aggregations_leave(side: Rel, key: int, expected: Lies | None) -> None:
    assert lies(side, key) == expected


def test_keys_that_are_computed_lie_nowhere() -> None:
    doubled = Call("Add", (Ref(R.columns[0]), Ref(R.columns[0])), "int")
    assert Joins(MODEL, estimator()).lies(SEMI, [doubled]) is None
    computed = Project(SEMI, (Output(Column("d", "d", "int"), doubled),))
    assert lies(computed, 0) is None
    assert Joins(MODEL, estimator()).lies(SEMI, []) is None, "without an equality nothing is merged"


def test_of_two_keys_both_have_to_be_those_of_the_join() -> None:
    both: Expr = conjunction(*(equal(Ref(a), Ref(b)) for a, b in zip(R.columns, S.columns, strict=True)))
    rel, merged = Join(R, S, "semi", both), replace(MODEL, hashed_joins=False)
    assert [lies(rel, *keys, model=merged) for keys in ((0, 1), (1, 0), (0,))] == [Lies.SORTED, Lies.SORTED, None]
    assert [lies(rel, *keys) for keys in ((0, 1), (1, 0), (0,))] == [Lies.SHUFFLED, Lies.SHUFFLED, None]


@pytest.mark.parametrize(
    ("kind", "keys", "cheaper"),
    [("inner", 2, True), ("left", 2, True), ("anti", 2, True), ("full", 2, False), ("inner", 1, False)],
)
def test_by_what_is_not_one_number_a_table_is_made_of_the_smaller_side(kind: str, keys: int, cheaper: bool) -> None:
    """To sort rows that are compared with each other takes longer; of a full outer join both sides are sorted all the same."""
    on = conjunction(*(equal(Ref(a), Ref(b)) for a, b in list(zip(R.columns, S.columns, strict=True))[:keys]))
    rel = Join(R, S, kind, on)  # type: ignore[arg-type]
    hashed, merged = (replace(MODEL, hashed_joins=on).operator(rel, estimator()) for on in (True, False))
    assert hashed < 0.8 * merged if cheaper else hashed == merged
    assert (MODEL.held_side(rel, estimator()) is not None) == cheaper


def test_no_table_is_made_of_many_rows_that_share_a_key() -> None:
    on = conjunction(*(equal(Ref(a), Ref(b)) for a, b in zip(R.columns, S.columns, strict=True)))
    for values, held in ((ROWS, True), (ROWS // 100, False)):
        columns = {"x": ColumnStats(values), "y": ColumnStats(1)}
        estimate = Estimator({n: TableFacts((ROWS,) * 2, (0, 0), 2, columns=columns) for n in ("r", "s")})
        assert (MODEL.held_side(Join(R, S, "inner", on), estimate) is not None) == held


def test_larger_sides_are_sent_where_their_rows_were_counted() -> None:
    """What is a guess may be many times as large as it seems."""
    some = filtered(R)
    known = {some: 2.0 * 10**5}
    estimates = {False: estimator(), True: Estimator(estimator()._tables, known=known.get)}
    model = replace(MODEL, counted_bytes=10_000_000)
    for is_counted, estimate in estimates.items():
        for rel in (some, renamed(some)):
            assert estimate.is_counted(rel) == is_counted
            assert (model.broadcast_sides(joined(T, rel), estimate) == [1]) == is_counted
    assert all(estimator().is_counted(rel) for rel in (R, View(R, Snapshot(1)), renamed(R))), "tables are known"
    assert model.broadcast_sides(joined(T, R), estimator()) == [], "a million rows are too many"
    guessed = View(counted(R), Snapshot(1))
    assert not estimator().is_counted(guessed)


def test_what_is_joined_with_a_table_that_is_sent_lies_as_before() -> None:
    sent = CostModel(broadcast_bytes=1_000)
    assert sent.broadcast_sides(joined(SEMI, SMALL, i=1), estimator()) == [1]
    assert lies(joined(SEMI, SMALL, i=1), 0, model=sent) == Lies.SORTED
    assert lies(joined(SEMI, SMALL, i=1), 1, model=sent) is None
    assert lies(joined(SEMI, SMALL, i=1), 2, model=sent) is None, "of what was sent every task has all"


def test_the_second_join_by_a_key_shuffles_one_side() -> None:
    """As Spark plans TPC-H q21: an order's lines with others of it, and without others of it."""
    estimate = estimator()
    again, other = joined(View(SEMI, Snapshot(1)), T, "anti"), joined(View(SEMI, Snapshot(1)), T, "anti", i=1)
    rows, width = estimate.rows(SEMI), estimate.width(SEMI)
    saved = MODEL.shuffle(rows, width) + round(rows * MODEL.merge_row) - round(rows * MODEL.probe_row)
    assert MODEL.operator(other, estimate) - MODEL.operator(again, estimate) == pytest.approx(saved, rel=0.01)
    product = Join(R, S, "inner", TRUE)
    both = sum(MODEL.shuffle(estimate.rows(i), estimate.width(i)) for i in (R, S))
    assert MODEL.operator(product, estimate) > both
