"""States in parts: which relations grow out of stored ones, and when parts are written together."""

from dataclasses import replace

import pytest

from tempura.algebra.rel import Consolidate, Filter, Negate, Rel, Scan, Union, renamed
from tempura.algebra.scalar import TRUE, AggregateCall, AggregateOutput, Column, Output, Ref
from tempura.algebra.states import MergeStates, Partial
from tempura.cost.estimate import width
from tempura.cost.model import SPARK, CostModel
from tempura.cost.stats import ColumnStats, StoredFacts, TableFacts
from tempura.execute.contract import Merge, Part, StoredState
from tempura.execute.parts import merge_of, parts_to_keep, stored_facts
from tempura.physical.growth import growth
from tempura.physical.operators import Load, Read, StateKey
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.tvr.views import Delta
from tests.unit.bag_engine import summary_rel

X, Y = Column("x", "x", "string"), Column("y", "y", "decimal(7,2)")
KEY = StateKey("a" * 64, "snapshot", 0)
OLD = Load(KEY, (X, Y))
NEW = Read(Scan("t", ("x", "y"), (X, Y)), Delta(0, 1), signed=True)


def state(type: str = "decimal(7,2)") -> MergeStates:
    value = replace(Y, type=type)
    rows = renamed(NEW, (X, value))
    keys = (Output(Column("k", "k", "string"), Ref(X)),)
    total = AggregateOutput(Column("s", "s", type), AggregateCall("Sum", (Ref(value),), type, detail="ansi"))
    delta = Partial(rows, keys, (total,))
    return MergeStates(Load(StateKey("b" * 64, "state", 0), delta.columns), delta, keys, (total,))


def test_a_first_part_with_weights_takes_nothing_away() -> None:
    """What was consolidated before it was saved has weights; parts that only add rows are read beside it as they lie."""
    first, more = Part("p", 10**7, 640_000_000, weighted=True), Part("q", 1_000, 64_000)
    grown = StoredState((), (), 0, "", (first, more), Merge(2))
    assert stored_facts(grown) == StoredFacts(2, rows=10**7 + 1_000)
    signed = grown.with_parts((first, replace(more, weighted=True)))
    assert (stored_facts(signed).grouped, stored_facts(signed).few) == (True, 1_000)


def stored(parts: int, merge: Merge | None, weighted: bool = False, bucket: tuple[int, ...] = ()) -> StoredState:
    return StoredState((), bucket, 2 if bucket else 0, "", (Part("p", 1_000, 64_000, weighted),) * parts, merge)


class TestSmallStates:
    """What is so small that to write it again takes less than to open one file more is not appended to; plans know."""

    @pytest.mark.parametrize("rows", [1, 1_000, 10_000, 20_000, 10**6])
    def test_the_executor_writes_anew_what_the_planner_expects(self, rows: int) -> None:
        row_bytes = 64
        one_part = StoredState((), (), 0, "", (Part("p", rows, rows * row_bytes),), Merge(1, ("rows", "total")))
        is_small = SPARK.rewrite(rows, row_bytes) < SPARK.file
        assert (parts_to_keep(one_part, Merge(1, ("rows", "total")), 30, SPARK) == 0) == is_small

    @pytest.mark.parametrize(("groups", "lies_apart"), [(20, False), (10**6, True)])
    def test_who_loads_it_next_finds_it_in_one_part(self, groups: int, lies_apart: bool) -> None:
        columns = {"o_id": ColumnStats(10**8), "cat": ColumnStats(groups)}
        sales = TableFacts(
            (10**8, 10**8 + 10**7, 10**8 + 10**7 + 10**4), (0,) * 3, 2, append_only=True, columns=columns
        )
        returns = TableFacts((10**6,) * 3, (0,) * 3, 2, static=True, columns={"o_id": ColumnStats(10**6)})
        first = {
            n: replace(t, inserted=t.inserted[:2], deleted=(0, 0), known=1)
            for n, t in {"sales": sales, "returns": returns}.items()
        }
        built = make_plan(Problem(summary_rel(), (Point(0.1, True), Point(1.0, True)), first)).steps[0]
        states = frozenset(replace(save.key, time=0) for save in built.saves)
        points = (Point(0.0, False, done=True), Point(1.0, True), Point(1.0, True))
        plan = make_plan(Problem(summary_rel(), points, {"sales": sales, "returns": returns}, states))
        assert plan.steps[0].saves, "a tenth of the rows is new"
        (load,) = {rel for rel in plan.steps[1].operators if isinstance(rel, Load) and rel.key.kind == "state"}
        note = plan.steps[1].notes[load]
        assert (note.cost > SPARK.read(note.rows, width(load))) == lies_apart


class TestReading:
    BAG, STATE = Merge(2), Merge(1, ("rows", "total"))

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            (stored(1, None), StoredFacts(rows=1_000)),
            (stored(1, BAG, weighted=True), StoredFacts(rows=1_000)),
            (stored(3, BAG), StoredFacts(3, rows=3_000)),
            (stored(3, BAG, weighted=True), StoredFacts(3, grouped=True, rows=1_000)),
            (stored(3, STATE, bucket=(0,)), StoredFacts(3, grouped=True, bucket=(0,), rows=1_000)),
        ],
    )
    def test_what_reading_takes(self, state: StoredState, expected: StoredFacts) -> None:
        """Half of a signed part are deletions, each of which takes a row away; of states the groups are those of the first part."""
        assert stored_facts(state) == expected

    def test_the_more_parts_the_dearer(self) -> None:
        lies = [StoredFacts(), StoredFacts(2), StoredFacts(9), StoredFacts(9, True, (0,)), StoredFacts(9, True)]
        costs = [CostModel().load(1e6, 64, facts) for facts in lies]
        assert costs == sorted(set(costs))
        assert costs[0] == CostModel().read(1e6, 64)

    def test_a_plan_recomputes_rather_than_reading_many_parts(self) -> None:
        """The same stored state is loaded from ten parts, and not from a hundred thousand."""
        columns = {"o_id": ColumnStats(10**7), "cat": ColumnStats(20)}
        table = TableFacts((10**7, 10**7 + 10**4), (0, 0), 2, columns=columns)
        growing = {"sales": table, "returns": table}
        first = make_plan(Problem(summary_rel(), (Point(0.1, True), Point(1.0, True)), growing)).steps[0]
        (key,) = (replace(save.key, time=0) for save in first.saves)
        points, costs = (Point(0.0, False, done=True), Point(1.0, True)), []
        for parts in (1, 10, 100_000):
            stored = {key: StoredFacts(parts, grouped=parts > 1)}
            step = make_plan(Problem(summary_rel(), points, growing, frozenset([key]), stored)).steps[0]
            assert any(isinstance(rel, Load) for rel in step.operators) == (parts < 100)
            costs.append(step.cost)
        assert costs == sorted(set(costs))


class TestGrowth:
    @pytest.mark.parametrize(
        "rel",
        [
            Union((OLD, NEW)),
            Consolidate(Union((NEW, OLD))),
            renamed(Consolidate(renamed(Union((OLD, NEW)), (Y, X))), (X, Y)),
            Consolidate(Union((renamed(Load(KEY, (Y, X)), (X, Y)), NEW))),
        ],
    )
    def test_sums_with_a_stored_bag(self, rel: Rel) -> None:
        found = growth(rel)
        assert found is not None
        assert isinstance(found.base, Load)
        assert (found.base.key, found.delta, found.columns, merge_of(found)) == (KEY, NEW, (X, Y), Merge(2))

    def test_a_sum_of_more_terms(self) -> None:
        found = growth(Union((NEW, OLD, Negate(NEW))))
        assert found is not None
        assert found.delta == Union((NEW, Negate(NEW)))

    def test_a_state_and_its_delta(self) -> None:
        found = growth(state())
        assert found is not None
        merge = merge_of(found)
        assert merge == Merge(1, ("rows", "count", "total"))
        assert StoredState.from_json(StoredState((), (), 0, "", (), merge).to_json()).merge == merge

    @pytest.mark.parametrize(
        "rel", [OLD, NEW, Union((Filter(OLD, TRUE), NEW)), Filter(Union((OLD, NEW)), TRUE), Consolidate(OLD)]
    )
    def test_nothing_else_grows(self, rel: Rel) -> None:
        assert growth(rel) is None

    def test_totals_that_may_leave_all_digits_are_merged_in_order(self) -> None:
        assert growth(state("decimal(28,2)"))
        assert growth(state("decimal(29,2)")) is None


def grown(steps: int, rows: int, first: int = 0) -> tuple[list[int], list[int]]:
    """Rows written per step, and the number of parts, when ``rows`` rows of 40 bytes come at each step, to ``first`` or as many."""
    parts: list[Part] = [Part("", first or rows, (first or rows) * 40)]
    written, counts = [], []
    for _ in range(steps):
        keep = parts_to_keep(StoredState((), (), 0, "", tuple(parts)), Merge(2), uses=30, prices=SPARK)
        new = rows + sum(part.rows for part in parts[keep:])
        parts = [*parts[:keep], Part("", new, new * 40)]
        written.append(new)
        counts.append(len(parts))
    return written, counts


class TestMergingOfParts:
    @pytest.mark.parametrize("rows", [10, 1_000, 100_000])
    def test_what_a_step_writes_does_not_depend_on_the_size_of_the_state(self, rows: int) -> None:
        """Small parts are written again while that costs less than to open a file for each use; then they stay."""
        written, counts = grown(400, rows)
        assert max(written) < rows + 400_000
        assert max(counts) <= 2 + 400 * rows / 100_000

    def test_what_was_there_is_not_written_again_whenever_a_little_comes(self) -> None:
        written, counts = grown(200, 1_000, first=300_000)
        assert sum(written) < 200 * 10_000
        assert max(written) < 200_000
        assert max(counts) <= 8

    def test_a_step_does_not_write_more_as_the_state_grows(self) -> None:
        written, _ = grown(400, 20_000)
        assert sum(written[300:]) < 2 * sum(written[50:150])

    @pytest.mark.parametrize("merge", [Merge(2), Merge(1, ("rows",))])
    def test_what_is_superfluous_is_bounded(self, merge: Merge) -> None:
        """Rows replace others: the state holds at most about twice what it has to."""
        live = 200_000
        parts = [Part("", live, live * 40)]
        for _ in range(300):
            keep = parts_to_keep(StoredState((), (), 0, "", tuple(parts)), merge, uses=30, prices=SPARK)
            new = 2_000 + sum(part.rows for part in parts[keep:])
            new = live if not keep else new
            parts = [*parts[:keep], Part("", new, new * 40, keep > 0)]
            assert sum(part.rows for part in parts) < 2 * live

    def test_a_state_that_is_read_once_is_not_rewritten(self) -> None:
        large = StoredState((), (), 0, "", (Part("", 10**6, 10**8), Part("", 10, 1000)))
        assert parts_to_keep(large, Merge(2), uses=1, prices=SPARK) >= 1
        assert parts_to_keep(replace(large, parts=large.parts[:1]), Merge(2), uses=1, prices=SPARK) == 1
