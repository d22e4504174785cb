"""Cardinalities against what the data would give: keys, filters and joins whose answer can be counted by hand."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise
from math import inf
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, Union, empty
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, conjunction, disjunction, equal
from tempura.cost.conditions import compared_columns, narrowed, share_below, shares
from tempura.cost.estimate import Estimator
from tempura.cost.stats import ColumnStats, TableFacts, found_among, population
from tempura.rules.prune import without_empty
from tempura.tvr.views import Delta, Snapshot, State, StateDelta, View

SALES = {"s_id": 1_000_000.0, "s_date": 1_000.0, "s_shop": 50.0}
DATES = {"d_id": 70_000.0, "d_year": 200.0, "d_quarter": 4.0}
SHOPS = {"h_id": 50.0, "county": 20.0}
ROWS = {"sales": 1_000_000, "dates": 70_000, "shops": 50}
RANGES = {"s_date": (36_000.0, 37_000.0), "d_id": (1.0, 70_000.0)}


def scan(table: str, columns: dict[str, float]) -> Scan:
    return Scan(table, tuple(columns), tuple(Column(name, name, "int") for name in columns))


S, D, H = scan("sales", SALES), scan("dates", DATES), scan("shops", SHOPS)


def facts(table: str, columns: dict[str, float], ranges: bool = False) -> TableFacts:
    bounds = RANGES if ranges else {}
    stats = {name: ColumnStats(n, 0.0, *bounds.get(name, (None, None))) for name, n in columns.items()}
    return TableFacts((ROWS[table],), (0,), 1, columns=stats)


def estimator(ranges: bool = False) -> Estimator:
    spec = {"sales": SALES, "dates": DATES, "shops": SHOPS}
    return Estimator({table: facts(table, columns, ranges) for table, columns in spec.items()})


def column(rel: Rel, name: str) -> Column:
    return next(c for c in rel.columns if c.name == name)


def ref(rel: Rel, name: str) -> Ref:
    return Ref(column(rel, name))


def is_value(rel: Rel, name: str, value: int) -> Expr:
    return equal(ref(rel, name), Literal(value, "int"))


def distinct(estimate: Estimator, rel: Rel, name: str) -> float:
    return estimate.distinct_of(ref(rel, name), (rel,))


def renamed(rel: Scan, mark: str) -> Scan:
    return replace(rel, outputs=tuple(replace(c, id=c.id + mark) for c in rel.outputs))


def test_a_column_that_is_compared_with_a_constant_has_one_value() -> None:
    estimate, one = estimator(), Filter(D, conjunction(is_value(D, "d_year", 2000), is_value(D, "d_quarter", 1)))
    assert estimate.rows(one) == pytest.approx(70_000 / 200 / 4)
    assert distinct(estimate, one, "d_year") == distinct(estimate, one, "d_quarter") == 1
    listed = Filter(D, Call("In", (ref(D, "d_year"), *(Literal(y, "int") for y in (1, 2, 3))), "boolean"))
    assert distinct(estimate, listed, "d_year") == 3


def test_a_filter_leaves_as_many_values_as_are_among_the_rows_that_are_left() -> None:
    """Of a key as many as rows; of a column with many rows for each value all; in between those that 200 rows drawn at random have."""
    estimate, few = estimator(), Filter(S, is_value(S, "s_shop", 1))
    assert distinct(estimate, few, "s_id") == pytest.approx(20_000)
    assert distinct(estimate, few, "s_date") == pytest.approx(1_000, rel=0.01)
    days = Filter(D, Call("In", (ref(D, "d_id"), *(Literal(day, "int") for day in range(200))), "boolean"))
    assert distinct(estimate, days, "d_year") == pytest.approx(200 * (1 - (1 - 1 / 350) ** 350))


def test_columns_that_are_equal_have_equally_many_values() -> None:
    """Through any number of joins, also when none of them says it of the two columns."""
    estimate, few = estimator(), Filter(D, is_value(D, "d_year", 2000))
    again = renamed(S, "'")
    first = Join(S, few, "inner", equal(ref(S, "s_date"), ref(few, "d_id")))
    both = Join(first, again, "inner", equal(ref(first, "s_date"), Ref(again.columns[1])))
    for joined in (first, both, MultiJoin((S, few, again), conjunction(first.on, both.on))):
        assert distinct(estimate, joined, "s_date") == distinct(estimate, joined, "d_id") == pytest.approx(350)
    assert estimate.distinct_of(Ref(again.columns[1]), (both,)) == pytest.approx(350)


@pytest.mark.parametrize(("kind", "left"), [("inner", 350), ("semi", 350), ("left", 1_000), ("anti", 1_000)])
def test_only_joins_that_filter_take_values_away(kind: JoinKind, left: float) -> None:
    few = Filter(D, is_value(D, "d_year", 2000))
    joined = Join(S, few, kind, equal(ref(S, "s_date"), ref(few, "d_id")))
    assert distinct(estimator(), joined, "s_date") == pytest.approx(left, rel=0.01)


def test_groups_by_columns_that_are_fixed_are_few() -> None:
    """By quarter, year and county, where a filter leaves one quarter of one year: as many groups as counties. Joined with themselves
    on the county they stay as many; taking quarters and years for open, each such join would be hundreds of times as large."""
    estimate = estimator()
    groups = [_by_county(mark) for mark in ("", "'", "''")]
    assert [round(estimate.rows(g)) for g in groups] == [20, 20, 20]
    a, b, c = groups
    pair = Join(a, b, "inner", equal(Ref(a.columns[2]), Ref(b.columns[2])))
    assert estimate.rows(Join(pair, c, "inner", equal(Ref(b.columns[2]), Ref(c.columns[2])))) == pytest.approx(
        20, rel=0.1
    )


def _by_county(mark: str) -> Aggregate:
    sales, dates, shops = (renamed(rel, mark) for rel in (S, D, H))
    fixed = Filter(dates, conjunction(is_value(dates, "d_year", 2000), is_value(dates, "d_quarter", 1)))
    dated = Join(sales, fixed, "inner", equal(ref(sales, "s_date"), ref(dates, "d_id")))
    placed = Join(dated, shops, "inner", equal(ref(sales, "s_shop"), ref(shops, "h_id")))
    keys = tuple(ref(placed, name) for name in ("d_year", "d_quarter", "county"))
    return Aggregate(placed, tuple(Output(replace(k.column, id=k.column.id + ".k"), k) for k in keys), ())


def test_a_condition_leaves_keys_that_the_other_side_has_as_far_as_ranges_say_so() -> None:
    """Sales are of a thousand days, the calendar has seventy thousand. Where nobody knows which of them, those of a year have a sale as
    rarely as any; where it is known that sales lie side by side, who asks for a year asks for one of theirs."""
    few = Filter(D, is_value(D, "d_year", 2000))
    known, unknown, on = estimator(ranges=True), estimator(), equal(ref(S, "s_date"), ref(few, "d_id"))
    for left, right in ((S, few), (few, S)):
        assert unknown.rows(Join(left, right, "inner", on)) == pytest.approx(350 * 1_000_000 / 70_000, rel=0.01)
        assert known.rows(Join(left, right, "inner", on)) == pytest.approx(350_000, rel=0.01)
    assert known.rows(Join(S, D, "inner", on)) == pytest.approx(1_000_000, rel=0.01)
    before = Filter(D, Call("LessThan", (ref(D, "d_id"), Literal(36_500, "int")), "boolean"))
    assert known.rows(Join(S, before, "inner", on)) == pytest.approx(500_000, rel=0.01)


def test_bounds_in_a_filter_narrow_the_range() -> None:
    days, column = ColumnStats(100, 0.0, 0.0, 100.0), Column("x", "x", "int")
    above = Call("GreaterThan", (Ref(column), Literal(60, "int")), "boolean")
    below = Call("LessThanOrEqual", (Literal(80, "int"), Ref(column)), "boolean")
    assert (narrowed(days, column, above).low, narrowed(days, column, above).high) == (60, 100)
    assert (narrowed(days, column, below).low, narrowed(days, column, below).high) == (80, 100)
    assert shares(narrowed(days, column, above), days) == pytest.approx((1.0, 0.4))
    assert shares(days, ColumnStats(10, 0.0, 500.0, 600.0)) == pytest.approx((0.01, 0.1))
    assert shares(days, ColumnStats(10)) == shares(None, days) == (1.0, 1.0)


def test_a_union_has_the_values_of_its_largest_term() -> None:
    """Also where the first term is empty."""
    dates = Project(S, (Output(Column("x", "x", "int"), ref(S, "s_date")),))
    united = Union((empty(dates.columns), dates))
    assert distinct(estimator(), united, "x") == 1_000


def compared(rel: Rel, name: str, how: str, value: object, type: str = "int") -> Expr:
    return Call(how, (ref(rel, name), Literal(value, type)), "boolean")


def dated(type: str, low: float, high: float) -> tuple[Scan, Estimator]:
    """A table of 1,000 rows with a hundred values of a type between two bounds."""
    days = Scan("days", ("day",), (Column("day", "day", type),))
    facts = TableFacts((1_000,), (0,), 1, columns={"day": ColumnStats(100.0, 0.0, low, high)})
    return days, Estimator({"days": facts})


@pytest.mark.parametrize(
    ("type", "low", "high", "first", "last"),
    [
        ("int", 0, 100, 40, 50),
        ("date", 9_000, 9_100, date(1970, 1, 1) + timedelta(9_040), date(1970, 1, 1) + timedelta(9_050)),
        ("timestamp", 0, 100e6, datetime(1970, 1, 1, 0, 0, 40), datetime(1970, 1, 1, 0, 0, 50)),
        ("decimal(5,2)", 0, 1, Decimal("0.40"), Decimal("0.50")),
    ],
)
def test_both_bounds_of_a_column_are_one_range(type: str, low: float, high: float, first: object, last: object) -> None:
    """Taken as independent they would leave 0.6 * 0.5 of the rows, not 0.1 of them."""
    days, estimate = dated(type, low, high)
    bounds = compared(days, "day", "GreaterThanOrEqual", first, type), compared(days, "day", "LessThan", last, type)
    for within in (Filter(days, conjunction(*bounds)), Filter(Filter(days, bounds[0]), bounds[1])):
        assert estimate.rows(within) == pytest.approx(100)
        assert distinct(estimate, within, "day") == pytest.approx(10)


def test_a_range_beyond_the_values_leaves_one_of_them() -> None:
    days, estimate = dated("int", 0, 100)
    assert estimate.rows(Filter(days, compared(days, "day", "GreaterThan", 500))) == pytest.approx(10)


@pytest.mark.parametrize(("kind", "nulls"), [("left", 0.995), ("full", 0.995), ("inner", 0.0)])
def test_rows_that_match_nothing_are_null(kind: JoinKind, nulls: float) -> None:
    """Sales of a thousand days, and one year of the two hundred of a calendar."""
    few = Filter(D, is_value(D, "d_year", 2000))
    joined = Join(S, few, kind, equal(ref(S, "s_date"), ref(few, "d_id")))
    estimate = estimator()
    missing = Filter(joined, Call("IsNull", (ref(few, "d_id"),), "boolean"))
    assert estimate.rows(missing) == pytest.approx(nulls * estimate.rows(joined), rel=0.05)


@pytest.mark.parametrize(("kind", "left"), [("semi", 0.8), ("anti", 0.2)])
def test_a_row_matches_if_the_other_side_has_its_key(kind: JoinKind, left: float) -> None:
    """Shops 1 to 40 of 50 have some 20,000 sales each: a fifth of the shops has none, however many sales there are."""
    most = Filter(S, Call("In", (ref(S, "s_shop"), *(Literal(shop, "int") for shop in range(40))), "boolean"))
    sold = equal(ref(H, "h_id"), ref(most, "s_shop"))
    null_aware = Call("Or", (sold, Call("IsNull", (sold,), "boolean")), "boolean")
    for on in (sold, null_aware):
        assert estimator().rows(Join(H, most, kind, on)) == pytest.approx(50 * left, rel=0.01)


@pytest.mark.parametrize(("kind", "left"), [("semi", 0.8), ("anti", 0.2)])
def test_few_rows_match_as_often_as_all(kind: JoinKind, left: float) -> None:
    """Of the 50 shops those of one county: a fifth of them, too, is not among the 40 that have sales, though these are more."""
    some = Filter(H, is_value(H, "county", 1))
    most = Filter(S, Call("In", (ref(S, "s_shop"), *(Literal(shop, "int") for shop in range(40))), "boolean"))
    sold, estimate = equal(ref(H, "h_id"), ref(most, "s_shop")), estimator()
    assert estimate.rows(some) < 40
    assert estimate.rows(Join(some, most, kind, sold)) == pytest.approx(left * estimate.rows(some), rel=0.01)
    called = Project(some, (Output(Column("id", "id", "int"), ref(some, "h_id")),))
    through = Join(called, most, kind, equal(ref(called, "id"), ref(most, "s_shop")))
    assert estimate.rows(through) == pytest.approx(left * estimate.rows(some), rel=0.01)


def test_where_a_key_has_one_row_there_are_no_others() -> None:
    other = renamed(S, "'")
    apart = Call("Not", (equal(ref(S, "s_shop"), ref(other, "s_shop")),), "boolean")
    on = conjunction(equal(ref(S, "s_id"), ref(other, "s_id")), apart)
    assert estimator().rows(Join(S, other, "anti", on)) == pytest.approx(ROWS["sales"], rel=0.05)


def test_without_a_key_nearly_each_row_has_another_that_differs() -> None:
    other = renamed(S, "'")
    apart = Call("Not", (equal(ref(S, "s_shop"), ref(other, "s_shop")),), "boolean")
    assert estimator().rows(Join(S, other, "semi", apart)) == pytest.approx(ROWS["sales"], rel=0.01)
    assert estimator().rows(Join(S, other, "anti", apart)) == pytest.approx(0, abs=1)


LINES = Scan("lines", ("order", "supplier", "late"), tuple(Column(c, c, "int") for c in ("order", "supplier", "late")))


def lines_drawn(orders: int, rows: int) -> list[tuple[int, int, int]]:
    """Lines that come to orders and suppliers as they like, a third of them late."""
    random = Random(3)
    return [(random.randrange(orders), random.randrange(100), int(random.random() < 1 / 3)) for _ in range(rows)]


@pytest.mark.parametrize("lines_of_an_order", [0.5, 2, 6])
@pytest.mark.parametrize("late", [True, False])
def test_a_row_has_others_with_its_key_as_any_key_has_rows(lines_of_an_order: float, late: bool) -> None:
    """Lines of whose order no other supplier was late, or has a line: for one that finds itself all would match (TPC-H q21)."""
    drawn = lines_drawn(4_000, round(4_000 * lines_of_an_order))
    stats = {n: ColumnStats(len({line[i] for line in drawn})) for i, n in enumerate(LINES.fields)}
    stats["late"] = replace(stats["late"], frequent={"1": 1 / 3, "0": 2 / 3})
    estimate = Estimator({"lines": TableFacts((len(drawn),), (0,), 1, columns=stats)})
    other = renamed(LINES, "'")
    others = Filter(other, is_value(other, "late", 1)) if late else other
    apart = Call("Not", (equal(ref(LINES, "supplier"), ref(other, "supplier")),), "boolean")
    on = conjunction(equal(ref(LINES, "order"), ref(other, "order")), apart)
    by_order: dict[int, list[int]] = {}
    for order, supplier, was_late in drawn:
        if was_late or not late:
            by_order.setdefault(order, []).append(supplier)
    alone = sum(all(supplier == s for s in by_order.get(order, ())) for order, supplier, _ in drawn)
    assert estimate.rows(Join(LINES, others, "anti", on)) == pytest.approx(alone, rel=0.1, abs=30)
    assert estimate.rows(Join(LINES, others, "semi", on)) == pytest.approx(len(drawn) - alone, rel=0.1)
    only_keys = equal(ref(LINES, "order"), ref(other, "order"))
    if not late:
        assert estimate.rows(Join(LINES, others, "anti", only_keys)) == 0, "each row finds itself"


STOCK = Scan("stock", ("part", "supplier"), (Column("t_part", "part", "int"), Column("t_supplier", "supplier", "int")))
SOLD = Scan("sold", ("part", "supplier"), (Column("o_part", "part", "int"), Column("o_supplier", "supplier", "int")))


def suppliers(offers: int, sales: int) -> tuple[dict[str, list[tuple[int, int]]], Estimator]:
    """Parts that some suppliers have, and sales of these."""
    random = Random(6)
    stock = sorted({(random.randrange(1_000), random.randrange(100)) for _ in range(offers)})
    rows = {"stock": stock, "sold": [random.choice(stock) for _ in range(sales)]}
    facts = {
        name: TableFacts(
            (len(found),),
            (0,),
            1,
            columns={f: ColumnStats(len({row[i] for row in found})) for i, f in enumerate(("part", "supplier"))},
            together={frozenset(("part", "supplier")): float(len(set(found)))},
        )
        for name, found in rows.items()
    }
    return rows, Estimator(facts)


def test_a_key_of_two_columns_has_the_values_that_they_have_together() -> None:
    """Each sale is of one of 4,000 offers: neither of any of 100,000 pairs, nor of as many as there are sales (TPC-H q9)."""
    rows, estimate = suppliers(4_000, 20_000)
    offers = Counter(rows["stock"])
    true = sum(offers[sale] for sale in rows["sold"])
    pairs = [equal(ref(SOLD, name), ref(STOCK, name)) for name in ("part", "supplier")]
    few = Filter(SOLD, is_value(SOLD, "part", 7))
    for left, right, share in ((SOLD, STOCK, 1.0), (STOCK, SOLD, 1.0), (few, STOCK, 1 / 1_000)):
        assert estimate.rows(Join(left, right, "inner", conjunction(*pairs))) == pytest.approx(true * share, rel=0.1)
    named = Project(SOLD, tuple(Output(Column(f"n_{c.name}", c.name, "int"), Ref(c)) for c in SOLD.outputs))
    on = conjunction(*(equal(ref(named, name), ref(STOCK, name)) for name in ("part", "supplier")))
    assert estimate.rows(Join(named, STOCK, "inner", on)) == pytest.approx(true, rel=0.1)


def by_offer(rel: Rel, name: str = "k") -> Aggregate:
    keys = tuple(Output(Column(f"{name}_{c}", c, "int"), ref(rel, c)) for c in ("part", "supplier"))
    return Aggregate(rel, keys, ())


def test_groups_are_as_many_as_keys_have_values_together() -> None:
    """Of 100,000 pairs 4,000 are on offer, and nearly all of these are sold; of a tenth of the sales fewer."""
    rows, estimate = suppliers(4_000, 20_000)
    assert estimate.rows(by_offer(SOLD)) == pytest.approx(len(set(rows["sold"])), abs=1)
    few = {sale for sale in rows["sold"] if sale[0] < 100}
    some = Filter(SOLD, Call("LessThan", (ref(SOLD, "part"), Literal(100, "int")), "boolean"))
    assert len(few) / 2 < estimate.rows(by_offer(some)) < 20_000 / 3
    named = Project(SOLD, tuple(Output(Column(f"n_{c.name}", c.name, "int"), Ref(c)) for c in SOLD.outputs))
    assert estimate.rows(by_offer(named)) == estimate.rows(by_offer(SOLD))


def test_what_comes_to_groups_is_mostly_of_those_that_are_there() -> None:
    """6,000 more sales are of three quarters of the offers; groups were taken to be as many, and hardly one to be there already."""
    random = Random(7)
    rows, _ = suppliers(4_000, 20_000)
    more = {random.choice(rows["stock"]) for _ in range(6_000)}
    stats = {f: ColumnStats(len({row[i] for row in rows["sold"]})) for i, f in enumerate(("part", "supplier"))}
    together = {frozenset(("part", "supplier")): float(len(set(rows["sold"])))}
    estimate = Estimator({"sold": TableFacts((20_000, 26_000), (0, 0), 1, columns=stats, together=together)})
    groups, state = by_offer(SOLD), View(by_offer(SOLD), State(0))
    came = View(groups, StateDelta(0, 1))
    assert estimate.rows(came) == pytest.approx(len(more), rel=0.05)
    assert estimate.rows(View(groups, Snapshot(1))) < 4_100
    other = by_offer(View(SOLD, Delta(0, 1)), "o")
    on = conjunction(*(equal(Ref(a.column), Ref(b.column)) for a, b in zip(groups.keys, other.keys, strict=True)))
    again = len(more & set(rows["sold"]))
    assert estimate.rows(Join(state, other, "semi", on)) == pytest.approx(again, rel=0.1)


def test_keys_that_rows_have_of_their_own_grow_with_them() -> None:
    stats = {"part": ColumnStats(1_000), "supplier": ColumnStats(100)}
    together = {frozenset(("part", "supplier")): 20_000.0}
    estimate = Estimator({"sold": TableFacts((20_000, 26_000), (0, 0), 1, columns=stats, together=together)})
    groups = by_offer(SOLD)
    assert [round(estimate.rows(View(groups, Snapshot(t)))) for t in (0, 1)] == [18_127, 22_895], "of 100,000 pairs"
    many = {"part": ColumnStats(20_000), "supplier": ColumnStats(10_000)}
    own = Estimator({"sold": TableFacts((20_000, 26_000), (0, 0), 1, columns=many, together=together)})
    assert [own.rows(View(groups, at)) for at in (Snapshot(0), Snapshot(1))] == pytest.approx(
        [20_000, 26_000], rel=1e-3
    )
    assert own.rows(View(groups, StateDelta(0, 1))) == pytest.approx(6_000, rel=1e-3)


@pytest.mark.parametrize("values", [10, 1_000, 30_000])
def test_a_population_is_told_by_how_many_are_found(values: int) -> None:
    assert population(found_among(20_000, values), 20_000) == pytest.approx(values, rel=1e-6)
    assert population(20_000, 20_000) == population(5, 0) == inf
    assert found_among(7, inf) == 7


def test_columns_of_two_rows_do_not_have_their_values_together() -> None:
    """The part of one sale and the supplier of another: of these there are more pairs than are on offer."""
    rows, estimate = suppliers(4_000, 20_000)
    other = renamed(SOLD, "'")
    both = Join(SOLD, other, "inner", Literal(True, "boolean"))
    on = conjunction(
        equal(ref(SOLD, "part"), ref(STOCK, "part")), equal(ref(other, "supplier"), ref(STOCK, "supplier"))
    )
    assert estimate.rows(Join(both, STOCK, "inner", on)) < 0.25 * len(rows["sold"]) ** 2


PARTS = ("day", "week", "month", "year")
DAYS = Scan("days", PARTS, tuple(Column(f"d_{part}", part, "int") for part in PARTS))
VISITS = Scan("visits", ("day", "shop"), (Column("v_day", "day", "int"), Column("v_shop", "shop", "int")))


def seen(values: list[int]) -> ColumnStats:
    """All that can be known of a column."""
    runs = 1 + sum(a != b for a, b in pairwise(values))
    return ColumnStats(len(set(values)), 0.0, float(min(values)), float(max(values)), run=len(values) / runs)


def test_a_calendar_has_more_weeks_than_there_are_in_the_days_of_visits() -> None:
    """Of fifty years two are visited: as many weeks are among them, and all the months that there are."""
    random = Random(4)
    days = [(day, day // 7, day // 30 % 12, day // 365) for day in range(50 * 365)]
    visits = [(random.randrange(40 * 365, 42 * 365), random.randrange(20)) for _ in range(20_000)]
    tables = {scan.table: (scan, rows) for scan, rows in ((DAYS, days), (VISITS, visits))}
    estimate = Estimator(
        {
            name: TableFacts(
                (len(rows),),
                (0,),
                1,
                columns={field: seen([row[i] for row in rows]) for i, field in enumerate(scan.fields)},
            )
            for name, (scan, rows) in tables.items()
        }
    )
    visited = Join(VISITS, DAYS, "inner", equal(ref(VISITS, "day"), Ref(DAYS.columns[0])))
    weeks, months = ({days[day][i] for day, _ in visits} for i in (1, 2))
    assert distinct(estimate, visited, "week") == pytest.approx(len(weeks), rel=0.1)
    assert distinct(estimate, visited, "month") == pytest.approx(len(months), rel=0.1)
    both = Filter(DAYS, disjunction(is_value(DAYS, "year", 40), is_value(DAYS, "year", 41)))
    visited_then = Join(VISITS, both, "inner", equal(ref(VISITS, "day"), Ref(both.columns[0])))
    assert distinct(estimate, visited_then, "year") == pytest.approx(2, rel=0.01), "as many as are asked for"
    other = renamed(DAYS, "'")
    year = Filter(other, is_value(other, "year", 40))
    week = equal(Ref(DAYS.columns[1]), Ref(other.columns[1]))
    counted = Counter(day // 7 for day in range(40 * 365, 41 * 365))
    rows = sum(counted[day // 7] for day, _ in visits)
    assert estimate.rows(Join(visited, year, "inner", week)) == pytest.approx(rows, rel=0.1)


@pytest.mark.parametrize("kind", ["semi", "anti"])
def test_what_is_said_of_the_key_is_said_of_what_it_could_be(kind: JoinKind) -> None:
    """Shops 1 to 3 on both sides, named or within bounds or by a join on the key: each of them has sales."""
    named = Filter(H, Call("In", (ref(H, "h_id"), *(Literal(shop, "int") for shop in range(3))), "boolean"))
    of_three = Filter(S, Call("In", (ref(S, "s_shop"), *(Literal(shop, "int") for shop in range(3))), "boolean"))
    again = renamed(H, "'")
    joined = Join(again, named, "inner", equal(ref(again, "h_id"), ref(named, "h_id")))
    for some in (named, joined):
        sold = equal(Ref(some.columns[0]), ref(of_three, "s_shop"))
        estimate = estimator()
        assert estimate.rows(some) == pytest.approx(3, rel=0.01)
        assert estimate.rows(Join(some, of_three, kind, sold)) == pytest.approx(3 if kind == "semi" else 0, abs=0.1)


@pytest.mark.parametrize(("year", "groups"), [(None, 50 * 200), (2000, 50)])
def test_columns_of_one_table_depend_on_each_other(year: int | None, groups: float) -> None:
    """By a shop's number, county and number again as another column, and by year: no more than shops times years, whatever is joined
    first and whatever lies between."""
    dates = Filter(D, is_value(D, "d_year", year)) if year else D
    dated = Join(S, dates, "inner", equal(ref(S, "s_date"), ref(D, "d_id")))
    shops = Project(H, (*(Output(c, Ref(c)) for c in H.columns), Output(Column("n", "n", "int"), ref(H, "h_id"))))
    placed = Join(dated, shops, "inner", equal(ref(S, "s_shop"), ref(shops, "h_id")))
    named = Project(placed, tuple(Output(replace(c, id=c.id + ".p"), Ref(c)) for c in placed.columns))
    for rel in (placed, named, Filter(named, is_value(named, "d_quarter", 1))):
        keys = tuple(ref(rel, name) for name in ("h_id", "county", "n", "d_year"))
        outputs = tuple(Output(replace(k.column, id=k.column.id + ".k"), k) for k in keys)
        assert estimator().rows(Aggregate(rel, outputs, ())) == pytest.approx(groups, rel=0.1)


def test_an_empty_channel_of_a_union_is_left_out() -> None:
    """What a use of a union does not ask for, Catalyst leaves as joins with no row: not to be maintained, nor to be read."""
    none = empty(S.columns)
    dated = Join(none, D, "inner", equal(ref(none, "s_date"), ref(D, "d_id")))
    by_year = Aggregate(dated, (Output(Column("y", "y", "int"), ref(dated, "d_year")),), ())
    years = Project(D, (Output(Column("z", "y", "int"), ref(D, "d_year")),))
    assert without_empty(Union((years, by_year))) == years
    assert without_empty(Aggregate(dated, (), ())) == Aggregate(empty(dated.columns), (), ()), (
        "it has a row all the same"
    )


def test_groups_by_many_columns_are_not_none() -> None:
    """A million times fifty thousand million combinations: each row is a group, and 1 - exp(-x) would be 0."""
    wide = Scan("wide", ("a", "b", "c"), tuple(Column(name, name, "int") for name in "abc"))
    facts = TableFacts((1_000,), (0,), 1, columns=dict.fromkeys("abc", ColumnStats(1e9)))
    keys = tuple(Output(replace(c, id=c.id + ".k"), Ref(c)) for c in wide.columns)
    estimate = Estimator({"wide": replace(facts, inserted=(1_000_000_000,))})
    assert estimate.rows(Aggregate(wide, keys, ())) == pytest.approx(1e9)


@pytest.mark.parametrize(
    ("function", "type", "values"), [("Year", "int", 4), ("Month", "int", 12), ("DayOfWeek", "int", 7)]
)
def test_parts_of_dates_have_few_values(function: str, type: str, values: float) -> None:
    days, estimate = dated("date", 0, 3 * 365.25)
    part = Call(function, (Ref(days.columns[0]),), type)
    assert estimate.distinct_of(part, (days,)) == pytest.approx(values)


def test_the_beginning_of_a_text_has_few_values() -> None:
    names = Scan("days", ("day",), (Column("day", "day", "string"),))
    _, estimate = dated("string", 0, 0)
    start = Call("Substring", (Ref(names.columns[0]), Literal(1, "int"), Literal(1, "int")), "string")
    assert estimate.distinct_of(start, (names,)) == 10


def skewed() -> Estimator:
    """Half of the sales are in shop 1, a tenth in shop 2, the rest evenly in 48 others."""
    known = facts("sales", SALES)
    shops = replace(known.columns["s_shop"], frequent={"1": 0.5, "2": 0.1})
    return Estimator(
        {"sales": replace(known, columns={**known.columns, "s_shop": shops}), "shops": facts("shops", SHOPS)}
    )


def shop_in(*values: int) -> Expr:
    return Call("In", (ref(S, "s_shop"), *(Literal(v, "int") for v in values)), "boolean")


def test_frequent_values_decide_what_an_equality_leaves() -> None:
    """Taken as equally frequent each shop would have 20,000 sales."""
    estimate = skewed()
    assert estimate.rows(Filter(S, is_value(S, "s_shop", 1))) == pytest.approx(500_000)
    assert estimate.rows(Filter(S, is_value(S, "s_shop", 9))) == pytest.approx(400_000 / 48)
    assert estimate.rows(Filter(S, shop_in(1, 2, 9))) == pytest.approx(600_000 + 400_000 / 48)
    assert estimate.rows(Filter(S, shop_in(2, 2))) == pytest.approx(100_000), "a value that is named twice counts once"
    either = Call("Or", (is_value(S, "s_shop", 1), is_value(S, "s_date", 5)), "boolean")
    assert estimate.rows(Filter(S, either)) == pytest.approx(500_500)


def shop(function: str, value: int) -> Expr:
    return Call(function, (ref(S, "s_shop"), Literal(value, "int")), "boolean")


def either_shop(first: int, *others: int) -> Expr:
    return disjunction(is_value(S, "s_shop", first), *(is_value(S, "s_shop", other) for other in others))


@pytest.mark.parametrize(
    ("parts", "shops"),
    [
        ((is_value(S, "s_shop", 9), shop_in(8, 9)), 1),
        ((shop_in(8, 9), is_value(S, "s_shop", 9)), 1),
        ((shop_in(7, 8, 9), shop_in(8, 9, 10), is_value(S, "s_date", 5)), 2 / 1000),
        ((shop_in(7, 8, 9), shop("GreaterThan", 7)), 2),
        ((shop_in(7, 8, 9), shop("GreaterThanOrEqual", 7), shop("LessThan", 8)), 1),
        ((is_value(S, "s_shop", 9), shop("LessThan", 5)), 0),
        ((is_value(S, "s_shop", 8), is_value(S, "s_shop", 9)), 0),
        ((either_shop(8, 9),), 2),
        ((either_shop(8, 8),), 1),
        ((shop_in(7, 8, 9), either_shop(8, 9)), 2),
        ((either_shop(7, 8, 9), is_value(S, "s_shop", 9)), 1),
        ((either_shop(7, 8), shop("GreaterThan", 7)), 1),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["by frequency", "evenly"])
def test_what_is_said_of_one_column_is_one_set_of_values(parts: tuple[Expr, ...], shops: float, known: bool) -> None:
    """Taken as independent the first two would leave a fiftieth of two fiftieths. A CTE that asks for two years, used for one of them,
    says both."""
    estimate, of_each = (skewed(), 400_000 / 48) if known else (estimator(), 20_000)
    assert estimate.rows(Filter(S, conjunction(*parts))) == pytest.approx(shops * of_each)


def test_arrays_can_be_listed() -> None:
    tags = Column("tags", "tags", "array<int>")
    named = Call("In", (Ref(tags), *(Literal(value, "array<int>") for value in ([1], [1], [2, None]))), "boolean")
    rows = Scan("tagged", ("tags",), (tags,))
    stats = ColumnStats(8, frequent={"1": 0.5})
    for columns, share in (({"tags": ColumnStats(8)}, 2 / 8), ({"tags": stats}, 2 * 0.5 / 7)):
        estimate = Estimator({"tagged": TableFacts((800,), (0,), 1, columns=columns)})
        assert estimate.rows(Filter(rows, named)) == pytest.approx(800 * share)


def test_frequent_values_that_are_left_are_those_that_all_parts_name() -> None:
    stats = ColumnStats(50, frequent={"1": 0.5, "2": 0.1})
    for parts in ((shop_in(1, 2), is_value(S, "s_shop", 2)), (is_value(S, "s_shop", 2), shop_in(1, 2))):
        assert narrowed(stats, column(S, "s_shop"), conjunction(*parts)).frequent == {"2": 1.0}


def test_a_value_that_a_filter_has_left_is_all_there_is() -> None:
    """The same condition twice leaves no less; of two shops that are left each has its part."""
    estimate, one = skewed(), Filter(S, is_value(S, "s_shop", 1))
    assert estimate.rows(Filter(one, is_value(S, "s_shop", 1))) == pytest.approx(500_000)
    for two in (Filter(S, shop_in(1, 2)), Filter(S, either_shop(1, 2))):
        assert estimate.rows(Filter(two, is_value(S, "s_shop", 2))) == pytest.approx(100_000)
    joined = Join(one, H, "inner", equal(ref(S, "s_shop"), ref(H, "h_id")))
    assert estimate.rows(joined) == pytest.approx(500_000), "each sale is in one shop"


def test_nothing_is_left_of_a_value_that_was_never_seen() -> None:
    assert ColumnStats(2, 0.25, frequent={"'a'": 0.5, "'b'": 0.25}).share("c") == pytest.approx(1e-4)
    assert ColumnStats(2, 0.25).share("a") is None


@pytest.mark.parametrize(
    ("below", "above", "share"),
    [
        ((0, 1000), (1, 100), 0.05),
        ((1, 100), (0, 1000), 0.95),
        ((0, 10), (0, 10), 0.5),
        ((0, 10), (5, 5), 0.5),
        ((5, 5), (0, 10), 0.5),
        ((3, 3), (3, 3), 0.01),
        ((0, 10), (20, 30), 1.0),
        ((20, 30), (0, 10), 0.01),
        ((0, 4), (2, 6), 0.875),
    ],
)
def test_two_columns_are_compared_by_where_their_values_lie(
    below: tuple[float, float], above: tuple[float, float], share: float
) -> None:
    """Counted over an even grid of both; TPC-DS q72 has a quantity of up to 1000 that is to be below one of up to 100."""
    found = share_below(ColumnStats(10, 0.0, *below), ColumnStats(10, 0.0, *above))
    grid = [[low + (high - low) * (i + 0.5) / 400 for i in range(400)] for low, high in (below, above)]
    counted = sum(x < y for x in grid[0] for y in grid[1]) / 160_000
    assert found == pytest.approx(max(0.01, counted), abs=0.01)
    assert found == pytest.approx(share, abs=0.01)


def test_a_cast_of_a_number_is_compared_as_the_number() -> None:
    x, y, d = Column("x", "x", "int"), Column("y", "y", "bigint"), Column("d", "d", "date")
    wide = Call("Cast", (Ref(x),), "bigint")
    assert compared_columns(Call("LessThan", (wide, Ref(y)), "boolean")) == (x, y)
    assert compared_columns(Call("GreaterThanOrEqual", (wide, Ref(y)), "boolean")) == (y, x)
    assert compared_columns(Call("LessThan", (Call("Cast", (Ref(d),), "timestamp"), Ref(y)), "boolean")) is None
    assert compared_columns(equal(Ref(x), Ref(x))) is None


def test_what_was_counted_gives_no_more_rows_than_there_can_be() -> None:
    """Where next to none were expected, what was counted is a large factor."""
    few = Join(S, D, "semi", equal(ref(S, "s_date"), ref(D, "d_id")))
    some = Filter(S, is_value(S, "s_shop", 1))
    spec = {"sales": SALES, "dates": DATES, "shops": SHOPS}
    tables = {table: facts(table, columns) for table, columns in spec.items()}
    estimate = Estimator(tables, known=lambda rel: None if isinstance(rel, Scan) else 1e12)
    assert [estimate.rows(rel) for rel in (few, some)] == [1_000_000] * 2
    assert estimate.rows(Join(S, D, "inner", few.on)) == 1e12, "that may have more rows than both"


@pytest.mark.parametrize("moves", ["l", "r"])
def test_a_full_join_changes_by_what_its_sides_change_by(moves: str) -> None:
    """However many rows of the side that stays are padded."""
    before = {"l": range(300), "r": range(200, 4_200)}
    gone, come = range(before[moves].start, before[moves].start + 10), range(4_200, 4_220)
    after = {**before, moves: [key for key in (*before[moves], *come) if key not in gone]}
    left, right = (Scan(name, ("k",), (Column(f"{name}.k", "k", "int"),)) for name in "lr")
    join = Join(left, right, "full", equal(Ref(left.columns[0]), Ref(right.columns[0])))
    old, new = (evaluate(join, partial(_keys_of, rows)) for rows in (before, after))
    changed = sum(abs(weight) for _, weight in (new - old).items())
    tables = {
        name: TableFacts(
            (len(keys), len(keys) + (len(come) if name == moves else 0)),
            (0, len(gone) if name == moves else 0),
            2,
            columns={"k": ColumnStats(len(keys), low=keys.start, high=keys.stop - 1)},
        )
        for name, keys in before.items()
    }
    assert changed / 3 < Estimator(tables).rows(View(join, Delta(0, 1))) < 3 * changed


def _keys_of(rows: Mapping[str, Iterable[int]], leaf: Rel) -> SignedBag:
    assert isinstance(leaf, Scan)
    return SignedBag.of((key,) for key in rows[leaf.table])
