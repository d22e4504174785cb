"""Expected inserts, updates and deletes against counts of a run over random bags, operator by operator and flush by flush."""

from random import Random

import numpy as np
import pytest

from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, TopK, Union
from tempura.algebra.scalar import Call, Column, Literal, Output, Ref, SortKey, equal
from tempura.pace.arrivals import arriving
from tempura.pace.cut import cut
from tempura.pace.flow import Flow, flips, release_at
from tempura.pace.flow_groups import Groups
from tempura.pace.flow_join import Matching, joined
from tempura.pace.flow_linear import filtered
from tempura.pace.run import PacedRun
from tempura.pace.simulate import Simulation
from tempura.pace.statistics import Known, biased, corrected, estimated, measured, rows_in_the_end
from tests.unit.pace_queries import (
    COLUMNS,
    COUNT,
    GROUP,
    ITEM,
    ITEMS,
    NAME,
    PRICE,
    SALES,
    counted,
    dearest,
    facts,
    per_item,
    summed,
)
from tests.unit.pace_queries import joined as join

SALES_ROWS, ITEM_ROWS, STEPS = 6000, 600, 12
ROWS = {"sales": float(SALES_ROWS), "items": float(ITEM_ROWS)}


def rows(seed: int, sold_items: int = ITEM_ROWS * 2 // 3) -> dict[str, list[tuple[object, ...]]]:
    """Sales of two thirds of the items, unless another number is given, in any order."""
    random = Random(seed)
    sold = range(sold_items)
    items: list[tuple[object, ...]] = [(i, random.randrange(4)) for i in range(ITEM_ROWS)]
    random.shuffle(items)
    return {"sales": [(random.choice(sold), random.randint(1, 50)) for _ in range(SALES_ROWS)], "items": items}


def run(
    query: Rel, paces: list[int] | None = None, sold_items: int = ITEM_ROWS * 2 // 3
) -> tuple[PacedRun, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """A query run over the rows, at paces (one flush unless given)."""
    made, data = cut(query), rows(0, sold_items)
    paces = paces or [1] * len(made.paths)
    flushes = Simulation(made, estimated(made, facts(SALES_ROWS, ITEM_ROWS)), arriving(ROWS, STEPS)).flushes(paces)
    found = PacedRun(made, COLUMNS)
    for step in range(STEPS):
        for table, own in data.items():
            found.arrive(table, [(row, 1) for row in own[len(own) * step // STEPS : len(own) * (step + 1) // STEPS]])
        found.flush(set(np.flatnonzero(flushes[:, step]).tolist()), step == STEPS - 1)
    return found, flushes


def simulated(
    query: Rel, paces: list[int], sold_items: int = ITEM_ROWS * 2 // 3
) -> tuple[Simulation, PacedRun, PacedRun]:
    """A simulation with the statistics of a batch, that batch, and the run at paces."""
    batch, _ = run(query, None, sold_items)
    paced, _ = run(query, paces, sold_items)
    made = paced.cut
    known = measured(batch.cut, batch, estimated(batch.cut, facts(SALES_ROWS, ITEM_ROWS)), ROWS)
    # The same query is cut the same way each time: operators correspond by position.
    by_place = dict(zip((op for s in made.segments for op in s.operators), known.values(), strict=True))
    return Simulation(made, by_place, arriving(ROWS, STEPS)), batch, paced


DEAR = Filter(
    AGAIN := Scan("sales", ("item", "price"), (Column("z1", "item", "int"), Column("z2", "price", "bigint"))),
    Call("GreaterThan", (Ref(AGAIN.columns[1]), Literal(45, "bigint")), "boolean"),
)
KINDS: tuple[JoinKind, ...] = ("inner", "left", "full", "semi", "anti", "exists", "single")
PACES = {1: [6], 2: [6, 4], 3: [6, 4, 3], 4: [12, 6, 4, 2]}


def queries() -> dict[str, Rel]:
    cheap = Filter(SALES, Call("LessThan", (Ref(PRICE), Literal(20, "bigint")), "boolean"))
    found: dict[str, Rel] = {"filter": cheap, "dearest": dearest(), "per item": per_item()}
    found |= {kind: join(kind) for kind in KINDS if kind != "single"}
    found |= {
        "groups": counted(SALES, ITEM),
        "one group": counted(SALES),
        "distinct": Aggregate(SALES, (Output(GROUP, Ref(ITEM)),), ()),
    }
    # Updates of totals that nothing shows any more.
    found |= {kind: unseen_updates(kind) for kind in ("anti of updates", "semi of updates", "exists of updates")}
    found |= {"first": TopK(SALES, (SortKey(Ref(PRICE)),), 40), "union": Union((SALES, cheap))}
    return found


def unseen_updates(name: str) -> Rel:
    """Items that have sold, as an aggregation says whose values are dropped, with further sales or without."""
    totals = summed(SALES, ITEM)
    sold = Project(totals, (Output(NAME, Ref(totals.columns[0])),))
    kind: JoinKind = name.split()[0]  # type: ignore[assignment]
    return Join(sold, DEAR, kind, equal(Ref(NAME), Ref(DEAR.columns[0])), COUNT if kind == "exists" else None)


@pytest.mark.parametrize("name", list(queries()))
def test_expected_tuples_are_those_that_are_counted(name: str) -> None:
    query = queries()[name]
    paces = PACES[len(cut(query).paths)]
    paces = [12, 12, 6, 3] if name == "per item" else sorted(paces, reverse=True)
    # Which groups a condition on their sums lets through before all rows are there is not known: they come late.
    conditional = name == "per item"
    simulation, batch, paced = simulated(query, paces)
    assert simulation.cut.respects(paces)
    one, several = simulation.run([[1] * len(paces), paces]).total
    assert one == pytest.approx(batch.work, rel=0.02)
    assert several == pytest.approx(paced.work, rel=0.12 if conditional else 0.06)
    for node, flow in () if conditional else simulation.flows(paces).items():
        seen = paced.seen[node]
        expected = float((flow.ins + flow.upd).sum()), float((flow.dele + flow.upd).sum())
        assert expected[0] == pytest.approx(seen.inserted, rel=0.12, abs=20), node
        assert expected[1] == pytest.approx(seen.deleted, rel=0.12, abs=20), node


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_rows_of_a_group_that_wait_for_its_item_come_with_it_as_one_change(kind: JoinKind) -> None:
    query = counted(join(kind), NAME)
    simulation, _, paced = simulated(query, [12, 12, 12], ITEM_ROWS)
    (released,) = (path for path in paced.cut.paths if path.source is not None)
    out, seen = simulation.flows([12, 12, 12])[released], paced.seen[released]
    assert float((out.ins + out.upd).sum()) == pytest.approx(seen.inserted, rel=0.05)
    assert float((out.dele + out.upd).sum()) == pytest.approx(seen.deleted, rel=0.06)


def flow(ins: list[float], upd: list[float], dele: list[float], moved: float = 0.0) -> Flow:
    kinds = [np.asarray([kind], dtype=float) for kind in (ins, upd, dele)]
    return Flow(kinds[0], kinds[1], kinds[2], np.full((1, len(ins)), moved))


def test_a_filter_that_does_not_look_at_what_changed_leaves_updates_updates() -> None:
    passed = filtered(flow([10], [8], [2]), 0.5, np.zeros((1, 1)))
    assert (passed.ins[0, 0], passed.upd[0, 0], passed.dele[0, 0]) == (5, 4, 1)


def test_a_filter_that_decides_updates_anew_makes_inserts_and_deletes_of_some() -> None:
    passed = filtered(flow([0], [8], [0]), 0.5, np.ones((1, 1)))
    assert (passed.ins[0, 0], passed.upd[0, 0], passed.dele[0, 0]) == (2, 2, 2)


def test_an_unsaturated_aggregation_inserts_and_a_saturated_one_updates() -> None:
    groups = Groups(number=100, rows=10_000)
    given = flow([100, 9_800, 100], [0, 0, 0], [0, 0, 0])
    out = groups.released(given, release_at(np.ones((1, 3), dtype=bool)))
    assert out.ins[0, 0] == pytest.approx(100 * (1 - 0.99**100), rel=1e-9)
    assert out.ins.sum() == pytest.approx(100)
    assert out.upd[0, 2] == pytest.approx(100 * (1 - 0.99**100), rel=0.01)
    assert out.dele.sum() == pytest.approx(0, abs=1e-6)


def test_a_slower_release_gives_each_touched_group_once() -> None:
    groups, given = Groups(number=10, rows=1_000), flow([500, 250, 250], [0] * 3, [0] * 3)
    fast = groups.released(given, release_at(np.asarray([[True, True, True]])))
    slow = groups.released(given, release_at(np.asarray([[True, False, True]])))
    assert fast.upd.sum() == pytest.approx(20, rel=0.01)
    assert slow.upd.sum() == pytest.approx(10, rel=0.01)


def test_groups_die_when_their_rows_are_deleted() -> None:
    out = Groups(number=50, rows=50).released(flow([50, 0], [0, 0], [0, 20]), release_at(np.ones((1, 2), dtype=bool)))
    assert out.dele[0, 1] == pytest.approx(20)
    assert out.upd[0, 1] == pytest.approx(0)


def test_first_matches_take_rows_away_from_an_anti_join_and_last_ones_give_them_back() -> None:
    left, right = flow([100, 0, 0], [0] * 3, [0] * 3), flow([0, 50, 0], [0] * 3, [0, 0, 50])
    of = Matching(1.0, 1.0, 100.0)
    out = joined("anti", left, right, 0.01, (np.zeros((1, 3)), np.zeros((1, 3))), (of, of))
    assert out.ins[0].tolist() == pytest.approx([100, 0, 50])
    assert out.dele[0].tolist() == pytest.approx([0, 50, 0])


def test_updates_of_what_a_join_does_not_read_move_nothing_in_a_semi_join() -> None:
    left, right = flow([100, 0], [0, 0], [0, 0]), flow([50, 0], [0, 40], [0, 0], moved=1.0)
    of = Matching(1.0, 1.0, 100.0)
    for kind, expected in (("none", 0.0), ("exact", 40.0)):
        flip = flips(kind, right.moved)  # type: ignore[arg-type]
        out = joined("semi", left, right, 0.01, (np.zeros((1, 2)), flip), (of, of))
        assert out.dele[0, 1] == pytest.approx(expected)


def test_the_share_that_matches_is_exact_in_the_end_and_the_paper_s_before() -> None:
    matching = Matching(covered=0.4, each=5.0, total=1000.0)
    assert float(matching.share(np.asarray([1000.0]))[0]) == pytest.approx(0.4)
    assert float(matching.share(np.asarray([100.0]))[0]) == pytest.approx(0.4 * (1 - 0.9**5))


def test_rows_with_few_matches_are_those_that_find_one_late() -> None:
    """Half of the items have one sale, the others nineteen: in the last tenth it is nearly only the former that find their first."""
    made = cut(join("semi"))
    sold = [item for item in range(400) for _ in range(1 if item % 2 else 19)]
    Random(1).shuffle(sold)
    found = PacedRun(made, COLUMNS)
    for table, change in (("items", [((i, 0), 1) for i in range(400)]), ("sales", [((i, 1), 1) for i in sold[:3600]])):
        found.arrive(table, change)
    found.flush({0, 1})
    late = found.seen[made.result.root].inserted
    found.arrive("sales", [((i, 1), 1) for i in sold[3600:]])
    found.flush({0, 1}, at_end=True)
    late = found.seen[made.result.root].inserted - late
    known = measured(made, found, estimated(made, facts(4000, 400)), {"sales": 4000.0, "items": 400.0})
    (op,) = (op for op in made.result.operators if isinstance(op.rel, Join))
    assert known[op].unlike[0] == ((0.1, 0.5), (1.9, 0.5))
    whole, nine = (np.asarray([rows]) for rows in (4000.0, 3600.0))
    of = Matching(1.0, 10.0, 4000.0, known[op].unlike[0])
    assert 400 * float((of.share(whole) - of.share(nine))[0]) == pytest.approx(20, rel=0.01)
    assert late == pytest.approx(20, abs=8)
    alike = Matching(1.0, 10.0, 4000.0)
    assert 400 * float((alike.share(whole) - alike.share(nine))[0]) < 1


def test_bias_changes_rows_and_keeps_shares_at_most_one() -> None:
    made = cut(join("semi"))
    known = estimated(made, facts(SALES_ROWS, ITEM_ROWS))
    more, less = (biased(known, ratio, Random(1)) for ratio in (5.0, 0.2))
    whole, few = (rows_in_the_end(made, wrong, ROWS)[made.result.root] for wrong in (more, less))
    assert few < whole <= ITEM_ROWS
    assert NAME in ITEMS.columns
    assert ITEM in SALES.columns


def test_rows_that_were_counted_are_those_that_are_expected_then() -> None:
    dear = Filter(SALES, Call("GreaterThan", (Ref(PRICE), Literal(45, "bigint")), "boolean"))
    prices = Project(dear, (Output(ITEM.primed(), Ref(ITEM)), Output(PRICE.primed(), Ref(PRICE))))
    sold = Join(ITEMS, prices, "inner", equal(Ref(NAME), Ref(prices.columns[0])))
    made = cut(counted(Filter(sold, Call("GreaterThan", (Ref(GROUP), Literal(1, "int")), "boolean")), GROUP))
    before = estimated(made, facts(SALES_ROWS, ITEM_ROWS))
    expected = rows_in_the_end(made, before, ROWS)
    operators = [op for op in before if isinstance(op.rel, Filter | Join)]
    for seen in (operators, operators[:1], operators[-1:], operators[1:]):
        wrong = {op: 0.5 + 0.2 * n for n, op in enumerate(seen)}
        found = rows_in_the_end(made, corrected(before, wrong), ROWS)
        for op, times in wrong.items():
            assert found[op] == pytest.approx(times * expected[op]), op.rel.label
    assert corrected(before, {}) == before


def test_of_a_semi_join_the_share_that_matches_is_corrected_and_of_others_nothing() -> None:
    kinds: dict[JoinKind, float] = {"semi": 0.2, "anti": 0.4, "left": 0.4}
    for kind, covered in kinds.items():
        made = cut(Join(ITEMS, SALES, kind, equal(Ref(NAME), Ref(ITEM))))
        op = next(op for segment in made.segments for op in segment.operators if isinstance(op.rel, Join))
        found = corrected({op: Known(0.01, (0.4, 1.0))}, {op: 0.5})[op]
        assert found.covered == (covered, 1.0), kind
        assert found.factor == 0.01
