"""What it costs to keep states from run to run: what grows is appended, what stays is kept, and what was counted is known."""

from dataclasses import replace

import pytest

from tempura.algebra.rel import Aggregate, Consolidate, Filter, Join, Rel, Scan, Values
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, equal
from tempura.cost.estimate import Estimator
from tempura.cost.model import SPARK
from tempura.cost.stats import ColumnStats, StoredFacts, TableFacts
from tempura.explain.text import explain
from tempura.physical.growth import growth
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.methods import TEMPURA
from tempura.search.graph import Graph
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Keep, Space
from tempura.tvr.views import Delta, Snapshot, View

FIRST_LOAD = (Point(1 / 30, True), Point(1.0, True))
REFRESH = (Point(0.0, False, done=True), Point(1.0, True), Point(1.0, True))
ITEM, KIND = Column("i", "item", "int"), Column("k", "kind", "int")
SOLD, ORDER, PRICE = Column("s", "item", "int"), Column("o", "order", "int"), Column("p", "price", "int")
PLACED, DAY = Column("u", "order", "int"), Column("d", "day", "int")

ITEMS = Scan("items", ("item", "kind"), (ITEM, KIND))
SALES = Scan("sales", ("item", "order", "price"), (SOLD, ORDER, PRICE))
ORDERS = Scan("orders", ("order", "day"), (PLACED, DAY))
SALES_OF_A_KIND = Join(Filter(ITEMS, equal(Ref(KIND), Literal(1, "int"))), SALES, "inner", equal(Ref(ITEM), Ref(SOLD)))


def total(rel: Rel, key: Column) -> Aggregate:
    sums = AggregateOutput(Column("t", "total", "bigint"), AggregateCall("Sum", (Ref(PRICE),), "bigint", detail="ansi"))
    return Aggregate(rel, (Output(Column("key", key.name, key.type), Ref(key)),), (sums,))


PER_DAY = total(Join(SALES_OF_A_KIND, ORDERS, "inner", equal(Ref(ORDER), Ref(PLACED))), DAY)
"""Sales of one kind of items by day: new orders need the old sales of that kind."""

PER_ORDER = total(SALES, ORDER)
ORDERS_BY_TOTAL = Aggregate(
    PER_ORDER,
    (Output(Column("h", "total", "bigint"), Ref(PER_ORDER.aggregates[0].column)),),
    (AggregateOutput(Column("n", "orders", "bigint"), AggregateCall("Count", (), "bigint")),),
)
"""How many orders have which total."""


def tables(*versions: int, known: int = 2) -> dict[str, TableFacts]:
    """Each version of what grows brings a hundredth of the first load."""

    def facts(rows: int, grows: bool, **distinct: float) -> TableFacts:
        inserted = tuple(round(rows * (1 + 0.01 * version * grows)) for version in versions)
        columns = {name: ColumnStats(n) for name, n in distinct.items()}
        return TableFacts(inserted, (0,) * len(versions), known, columns=columns)

    return {
        "items": facts(200_000, False, item=200_000, kind=20),
        "sales": facts(60_000_000, True, item=200_000, order=15_000_000, price=1_000),
        "orders": facts(15_000_000, True, order=15_000_000, day=2_500),
    }


def first_load(query: Rel) -> ProgressivePlan:
    return make_plan(Problem(query, FIRST_LOAD, tables(0, 1, known=1)), ("im1",))


def left_by(step: Step) -> dict[StateKey, StoredFacts]:
    """The states of a step as the next run knows them."""
    return {replace(save.key, time=0): StoredFacts(bucket=save.bucket) for save in step.saves}


def refreshed(query: Rel, stored: dict[StateKey, StoredFacts], behind: int = 1) -> ProgressivePlan:
    """The plan of a run that comes so many versions after the one that left the states."""
    asked = Problem(query, REFRESH, tables(0, behind, behind + 1), frozenset(stored), stored)
    return make_plan(asked, ("im1",))


def first_to_save(query: Rel, stored: dict[StateKey, StoredFacts]) -> ProgressivePlan:
    """The plan of the first run that goes on from what it saves itself: before, it does not pay."""
    plans = (refreshed(query, stored, behind) for behind in range(1, 30))
    return next(plan for plan in plans if plan.steps[0].saves)


def loaded(step: Step) -> set[StateKey]:
    return {rel.key for rel in step.operators if isinstance(rel, Load)}


class TestGrowth:
    def test_of_a_state_that_grows_the_delta_is_priced(self) -> None:
        """Millions of rows, to which some in a hundred are added."""
        step = first_to_save(PER_DAY, left_by(first_load(PER_DAY).steps[0])).steps[0]
        grown = [
            (save, found) for save in step.saves if (found := growth(save.rel)) and step.notes[save.rel].rows > 1e6
        ]
        assert grown, "the sales of a kind are kept"
        written = step.cost - sum(note.cost for note in step.notes.values())
        for save, found in grown:
            assert step.notes[found.delta].rows < step.notes[save.rel].rows / 3
        others = [save for save in step.saves if save.key.kind == "state"]
        assert len(step.saves) == len(grown) + len(others) + 1, "the sales, their totals, and the items, which stay"
        expected = SPARK.write(2_500, 20) + len(others) * SPARK.write(2_500, 28, shuffled=True)
        expected += sum(SPARK.write(step.notes[found.delta].rows, 28) for _, found in grown)
        assert written == pytest.approx(expected, rel=0.05)

    def test_what_is_appended_is_not_merged_before_somebody_reads_it(self) -> None:
        """Early runs of a warehouse: the second one computes the totals of what has come, and leaves those of before alone."""
        points = (Point(0.1, False), Point(0.3, False), Point(1.0, True))
        asked = Problem(total(SALES, ORDER), points, tables(0, 50, 100, known=1))
        _, second, last = make_plan(asked, ("im1",)).steps
        (save,) = second.saves
        grown = growth(save.rel)
        assert grown is not None
        assert isinstance(grown.base, Load)
        assert (second.notes[save.rel].cost, second.notes[grown.base].cost) == (0, 0)
        computed = sum(second.notes[rel].cost for rel in grown.delta.walk())
        rows = second.notes[grown.delta].rows
        assert second.cost - computed == pytest.approx(SPARK.write(rows, 28, shuffled=True), rel=0.2)
        (load,) = (rel for rel in last.operators if isinstance(rel, Load))
        assert last.notes[load].cost > SPARK.load(15_000_000, 28, StoredFacts(bucket=(0,))), "then they are merged"

    def test_of_groups_that_are_selected_no_others_are_merged(self) -> None:
        """Of fifteen million orders in three parts only the totals are asked for, before and now, that have changed."""
        stored = left_by(first_load(ORDERS_BY_TOTAL).steps[0])
        in_parts = {key: StoredFacts(3, True, lies.bucket) for key, lies in stored.items()}
        (whole, merged) = (refreshed(ORDERS_BY_TOTAL, lies).steps[0] for lies in (stored, in_parts))
        load = max((rel for rel in merged.operators if isinstance(rel, Load)), key=lambda rel: merged.notes[rel].rows)
        rows, width = merged.notes[load].rows, 36
        assert rows > 1e7
        assert merged.notes[load].cost < SPARK.load(rows, width, StoredFacts(3, True, (0,))) / 4
        assert merged.cost < 1.05 * whole.cost

    def test_groups_are_selected_of_a_state_that_is_appended_to(self) -> None:
        """What the step takes depends on what has changed, but for a look at the keys of all orders."""
        step = first_to_save(ORDERS_BY_TOTAL, left_by(first_load(ORDERS_BY_TOTAL).steps[0])).steps[0]
        save = max(step.saves, key=lambda save: step.notes[save.rel].rows)
        grown = growth(save.rel)
        assert grown is not None
        assert isinstance(grown.base, Load)
        assert step.notes[save.rel].rows > 4 * step.notes[grown.delta].rows
        assert step.notes[save.rel].cost == 0, "nothing is merged to be saved"
        assert step.notes[grown.base].cost == SPARK.load(step.notes[grown.base].rows, 36, StoredFacts())

    def test_search_and_plan_ask_the_same_price(self) -> None:
        join = View(SALES_OF_A_KIND, Snapshot(1))
        space = Space(Problem(PER_DAY, REFRESH, tables(0, 1, 2)))
        key = Graph(space, TEMPURA.rules_of(("im1",))).key(View(space.memo.add(SALES_OF_A_KIND), Snapshot(0)))
        found = []
        for states in (frozenset[StateKey](), frozenset({key})):
            graph = Graph(Space(Problem(PER_DAY, REFRESH, tables(0, 1, 2), states)), TEMPURA.rules_of(("im1",)))
            view = View(graph.memo.own(graph.memo.add(join.tvr)), join.at)
            goal = graph.goal(view, 1)
            ways = [(way, grown) for way in graph.alternatives(goal) if (grown := graph.growth_by(goal, way))]
            found.append([way.rule.name for way, _ in ways if way.rule])
            for _, grown in ways:
                delta = graph.estimate.rows(View(view.tvr, Delta(0, 1)))
                assert graph.save_cost(view, grown) == SPARK.write(delta, graph.estimate.width(view))
                assert graph.save_cost(view, None) > 5 * graph.save_cost(view, grown)
        assert found == [[], ["merge_snapshot"]], "it grows out of what is stored, and of nothing else"

    def test_a_state_that_has_grown_is_dearer_to_load(self) -> None:
        """Each part is one more file."""
        key = StateKey("f" * 64, "snapshot", 0)
        costs = [
            SPARK.load(1e6, 24, facts)
            for facts in (StoredFacts(), StoredFacts().grown(False), StoredFacts().grown(True))
        ]
        assert costs == sorted(set(costs))
        assert StoredFacts(2, True, (0,)).grown(False) == StoredFacts(3, True, (0,)), f"{key} is merged as it was"


class TestKeeping:
    def test_what_is_unchanged_is_kept_with_what_is_saved(self) -> None:
        """The next run knows what this one leaves: items of a kind never change, and are not computed again after it."""
        first = first_load(PER_DAY).steps[0]
        plan = first_to_save(PER_DAY, left_by(first))
        now, later = plan.steps
        kept = [save for save in now.saves if isinstance(save.rel, Load)]
        assert {key for key in loaded(later) if key.time == 0} == {save.key for save in kept}
        assert [now.notes[save.rel].view for save in kept] == ["items[:0]"]
        assert explain(plan).count("keep items[:0]\n") == 1

    @pytest.mark.parametrize("keep", Keep)
    def test_it_can_be_loaded_whatever_else_is_saved(self, keep: Keep) -> None:
        items = SALES_OF_A_KIND.left
        space = Space(Problem(PER_DAY, REFRESH, tables(0, 1, 2)))
        key = Graph(space, TEMPURA.rules_of(("im1",))).key(View(space.memo.add(items), Snapshot(0)))
        asked = Problem(PER_DAY, REFRESH, tables(0, 1, 2), frozenset({key}))
        graph = Graph(Space(asked), TEMPURA.rules_of(("im1",)), keep=keep)
        view = View(graph.memo.own(graph.memo.add(items)), Snapshot(0))
        assert graph.is_kept(view)
        for t in (1, 2):
            assert [way for way in graph.alternatives(graph.goal(view, t)) if way.rule is None]


class TestCounted:
    def test_what_was_counted_corrects_all_times(self) -> None:
        expected = Estimator(tables(0, 1, 2))
        wrong = expected.rows(View(SALES_OF_A_KIND, Snapshot(0)))
        counted = Estimator(tables(0, 1, 2), counted=lambda rel: wrong / 1_000 if rel is SALES_OF_A_KIND else None)
        for at in (Snapshot(0), Snapshot(1), Delta(0, 1), Delta(0, 2)):
            view = View(SALES_OF_A_KIND, at)
            assert counted.rows(view) == pytest.approx(expected.rows(view) / 1_000)

    def test_nothing_counted_is_not_nothing_for_ever(self) -> None:
        empty = Estimator(tables(0, 1, 2), counted=lambda rel: 0.0 if rel is SALES_OF_A_KIND else None)
        assert 0 < empty.rows(View(SALES_OF_A_KIND, Snapshot(1))) < 2

    def test_what_stands_on_it_is_corrected_too(self) -> None:
        """HAVING leaves a third of the groups by the book, and few of them by count."""
        per_order = total(SALES, ORDER)
        large = Filter(per_order, Call("GreaterThan", (Ref(per_order.columns[1]), Literal(300, "bigint")), "boolean"))
        query = total(Join(SALES, large, "semi", equal(Ref(ORDER), Ref(large.columns[0]))), SOLD)
        space = Space(Problem(query, REFRESH, tables(0, 1, 2)))
        key = StateKey(space.memo.fingerprint(space.memo.add(large)), "snapshot", 0)

        def semi_join(rows: float | None) -> float:
            stored = {key: StoredFacts(rows=rows)}
            found = Space(Problem(query, REFRESH, tables(0, 1, 2), frozenset(stored), stored))
            return found.estimate.rows(View(found.memo.add(query.input), Snapshot(1)))

        assert semi_join(None) > 10_000_000
        assert semi_join(600.0) < 10_000

    def test_classes_do_not_depend_on_what_was_counted(self) -> None:
        """States are found again by the names of their classes."""
        plain = Space(Problem(PER_DAY, REFRESH, tables(0, 1, 2)))
        keys = {
            StateKey(plain.memo.fingerprint(edge), "snapshot", 0): StoredFacts(rows=1.0) for edge in plain.memo.classes
        }
        counted = Space(Problem(PER_DAY, REFRESH, tables(0, 1, 2), frozenset(keys), keys))
        assert str(counted.memo) == str(plain.memo)


def test_whether_a_column_is_null_costs_nothing() -> None:
    """Parquet tells it, so a copy of a table without such rows saves nothing."""
    null = Call("IsNotNull", (Ref(SOLD),), "boolean")
    above = Call("GreaterThan", (Ref(PRICE), Literal(3, "int")), "boolean")
    estimate = Estimator(tables(0, 1, 2))
    assert SPARK.operator(Filter(SALES, null), estimate) == SPARK.node
    both = Filter(SALES, Call("And", (null, above), "boolean"))
    assert SPARK.operator(both, estimate) == SPARK.operator(Filter(SALES, above), estimate) > SPARK.node


class TestFewDeletions:
    """Only rows like a deleted one are put together; the others are read once more and looked up."""

    @pytest.mark.parametrize(("deleted", "few"), [(60_000, True), (6_000_000, False)])
    def test_of_what_is_read(self, deleted: int, few: bool) -> None:
        facts = {"sales": replace(tables(0, 1)["sales"], deleted=(0, deleted))}
        estimate = Estimator(facts)
        read = Read(SALES, Snapshot(1), signed=True)
        above = Call("GreaterThan", (Ref(PRICE), Literal(3, "int")), "boolean")
        expected = [deleted, deleted * estimate.selectivity(above, (SALES,))]
        for rel, some in zip((read, Filter(read, above)), expected, strict=True):
            assert estimate.few_deleted(rel) == (pytest.approx(some, rel=0.01) if few else None)
        all_grouped = SPARK.operator(Consolidate(Values(read.columns, ())), estimate)
        assert all_grouped < SPARK.operator(Consolidate(read), estimate)
        per_row = SPARK.operator(Consolidate(read), estimate) / estimate.rows(read)
        assert (per_row < 300) == few

    def test_of_what_is_stored(self) -> None:
        one = StoredFacts(rows=1e7)
        few, more = one.grown(True, few=1_000), one.grown(True, few=1_000).grown(True, few=500)
        assert (few.few, more.few, more.parts, more.shuffled) == (1_000, 1_500, 3, False)
        assert few.grown(False) == replace(few, parts=3)
        many = few.grown(True)
        assert (many.few, many.shuffled) == (None, True)
        assert many.grown(True, few=10).few is None, "what is grouped as a whole once is grouped as a whole"
        costs = [SPARK.load(1e7, 24, facts) for facts in (one, few, more, many)]
        assert costs == sorted(set(costs))
        assert costs[3] > 2.5 * costs[2]
