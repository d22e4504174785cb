"""Statistics from a sample against those of a batch run over all rows."""

from collections.abc import Callable
from random import Random
from statistics import fmean

import pytest

from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Rel, Scan
from tempura.algebra.scalar import Call, Column, Literal, Output, Ref, equal
from tempura.pace.cut import Cut, Operator, cut
from tempura.pace.run import PacedRun
from tempura.pace.sample import Rows, Sample, drawn, sampled
from tempura.pace.statistics import Known, Statistics, covered_in_the_end, estimated, measured
from tests.unit.pace_queries import (
    COLUMNS,
    GROUP,
    ITEM,
    NAME,
    PRICE,
    SALES,
    TOTAL,
    counted,
    facts,
    joined,
    per_item,
    summed,
)

SALES_ROWS, ITEM_ROWS = 6000, 600
TOTALS = {"sales": float(SALES_ROWS), "items": float(ITEM_ROWS)}
SEEDS = range(30)


def rows() -> Rows:
    """Sales of two thirds of the items, in any order."""
    random = Random(7)
    items = [((i, random.randrange(4)), 1) for i in range(ITEM_ROWS)]
    return {
        "sales": [((random.randrange(ITEM_ROWS * 2 // 3), random.randint(1, 50)), 1) for _ in range(SALES_ROWS)],
        "items": items,
    }


ROWS = rows()


def known_before(made: Cut) -> Statistics:
    return estimated(made, facts(SALES_ROWS, ITEM_ROWS))


def in_full(made: Cut) -> Statistics:
    """What a batch run over all rows measures."""
    run = PacedRun(made, COLUMNS)
    for table, own in ROWS.items():
        run.arrive(table, own)
    run.flush({path.number for path in made.paths}, at_end=True)
    return measured(made, run, known_before(made), TOTALS)


def by_sample(made: Cut, share: float = 0.1, seed: int = 0, least: int = 1) -> Statistics:
    sample = drawn(made, ROWS, COLUMNS, share, seed, least)
    return sampled(made, sample, COLUMNS, known_before(made), TOTALS)


def the(made: Cut, kind: type[Rel]) -> Operator:
    """The first operator of a kind."""
    return next(op for segment in made.segments for op in segment.operators if isinstance(op.rel, kind))


def on_average(query: Rel, kind: type[Rel], of: Callable[[Known], float], share: float = 0.1) -> tuple[float, float]:
    """A quantity on average over samples, and as it is."""
    made = cut(query)
    op = the(made, kind)
    return fmean(of(by_sample(made, share, seed)[op]) for seed in SEEDS), of(in_full(made)[op])


def sales_of_the_same_item() -> Join:
    other = Scan("sales", ("item", "price"), (Column("z1", "item", "int"), Column("z2", "price", "bigint")))
    return Join(SALES, other, "inner", equal(Ref(ITEM), Ref(other.columns[0])))


@pytest.mark.parametrize("query", [joined(), sales_of_the_same_item()], ids=["two tables", "with itself"])
def test_the_join_factor_is_right_on_average(query: Rel) -> None:
    found, true = on_average(query, Join, lambda known: known.factor)
    assert found == pytest.approx(true, rel=0.03)


def test_one_sample_for_both_uses_of_a_table_would_be_wrong() -> None:
    made = cut(sales_of_the_same_item())
    same = [(row, 1) for row, _ in Random(1).sample(list(ROWS["sales"]), 600)]
    wrong = sampled(made, Sample(dict.fromkeys(made.paths, same), {}), COLUMNS, known_before(made), TOTALS)
    assert wrong[the(made, Join)].factor > 1.4 * in_full(made)[the(made, Join)].factor


@pytest.mark.parametrize("side", [0, 1])
def test_shares_that_match_are_those_of_all_rows(side: int) -> None:
    """Two thirds of the items have sales, all sales have an item: in a tenth of both, most sales find no item."""
    found, true = on_average(joined("full"), Join, lambda known: known.covered[side])
    assert found == pytest.approx(true, abs=0.06)


@pytest.mark.parametrize("column", [ITEM, PRICE], ids=["many keys", "few keys"])
def test_groups_are_those_of_all_rows(column: Column) -> None:
    """400 items are sampled by keys, 50 prices are not."""
    query = Aggregate(SALES, (Output(GROUP, Ref(column)),), ())
    assert bool(drawn(cut(query), ROWS, COLUMNS, 0.3, least=1).by_keys) == (column is ITEM)
    found, true = on_average(query, Aggregate, lambda known: known.factor, 0.3)
    assert true in (400, 50)
    assert found == pytest.approx(true, rel=0.05)


def test_where_one_key_has_few_values_rows_are_taken_by_all_keys() -> None:
    """A tenth of the items is too few to say how many prices each has sold at, which is nearly as often as it has sold."""
    query = Aggregate(SALES, (Output(GROUP, Ref(ITEM)), Output(NAME, Ref(PRICE))), ())
    assert drawn(cut(query), ROWS, COLUMNS, 0.1, least=1).by_keys
    found, true = on_average(query, Aggregate, lambda known: known.factor)
    assert found == pytest.approx(true, rel=0.03)


def test_groups_of_pairs_are_those_of_all_pairs() -> None:
    """The key is an item's and a sale's, so both tables are sampled by it."""
    kinds: tuple[type[Rel], ...] = (Aggregate, Join)
    for kind in kinds:
        found, true = on_average(counted(joined(), ITEM), kind, lambda known: known.factor, 0.3)
        assert found == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize("kind", ["left", "full"])
@pytest.mark.parametrize("side", [0, 1])
def test_rows_by_keys_match_as_all_rows_do(kind: JoinKind, side: int) -> None:
    query = counted(joined(kind), NAME)
    found, true = on_average(query, Join, lambda known: known.covered[side], 0.3)
    assert found == pytest.approx(true, abs=0.04)


def test_a_condition_on_sums_sees_whole_groups() -> None:
    """A tenth of the rows of each item would seldom have a fifth of the sum."""
    rich = Filter(summed(SALES, ITEM), Call("GreaterThanOrEqual", (Ref(TOTAL), Literal(350, "bigint")), "boolean"))
    found, true = on_average(rich, Filter, lambda known: known.factor, 0.3)
    assert 0.3 < true < 0.8
    assert found == pytest.approx(true, rel=0.1)


@pytest.mark.parametrize("least", [1, 10_000], ids=["the share", "the minimum"])
@pytest.mark.parametrize("query", [joined("full"), joined("anti"), per_item()], ids=["full", "anti", "per item"])
def test_whole_tables_say_what_a_batch_run_says(query: Rel, least: int) -> None:
    made = cut(query)
    assert by_sample(made, share=1.0 if least == 1 else 0.01, least=least) == in_full(made)


def test_small_tables_are_taken_as_a_whole_and_of_others_a_share_or_the_minimum() -> None:
    made = cut(joined())
    assert drawn(made, ROWS, COLUMNS, share=0.01).sizes == {"p0 items": 600, "p1 sales": 1000}
    assert drawn(made, ROWS, COLUMNS, share=0.5).sizes == {"p0 items": 600, "p1 sales": 3000}
    taken = drawn(made, ROWS, COLUMNS, share=0.5).rows[made.paths[1]]
    assert len(set(taken)) > 0.6 * len(taken)
    assert taken != drawn(made, ROWS, COLUMNS, share=0.5, seed=1).rows[made.paths[1]]
    assert taken == drawn(made, ROWS, COLUMNS, share=0.5).rows[made.paths[1]]


def test_where_nothing_comes_through_what_was_known_stays() -> None:
    never = Filter(SALES, Call("GreaterThan", (Ref(PRICE), Literal(50, "bigint")), "boolean"))
    made = cut(counted(never, ITEM))
    found, before = by_sample(made, least=1000), known_before(made)
    assert found[the(made, Aggregate)] == before[the(made, Aggregate)]
    assert 0 < found[the(made, Filter)].factor < 0.01


@pytest.mark.parametrize("matches", [1, 3, 40])
@pytest.mark.parametrize("there", [0.01, 0.2, 0.9])
def test_matches_in_the_end_follow_from_those_that_are_there(matches: int, there: float) -> None:
    share = 0.6 * (1 - (1 - there) ** matches)
    pairs = 0.6 * matches * there
    assert covered_in_the_end(share, pairs / share, there) == pytest.approx(0.6, rel=1e-3)
