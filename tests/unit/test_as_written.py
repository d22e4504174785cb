"""What a query takes that Spark is asked as it is written, and when that is done instead of running the operators of a plan."""

from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, TopK, Union
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Column,
    Literal,
    Output,
    Ref,
    SortKey,
    equal,
)
from tempura.cost.as_written import AsWritten, SparkSizes, row_bytes
from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.explain.text import explain
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo
from tempura.physical.operators import Read
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.tvr.views import Snapshot
from tests.unit.test_merged_joins import counted, joined, renamed

ROWS = 1_000_000
PRICES = CostModel(node=0, scan=0, file=0, job=0, exchange=0)


def table(name: str, *types: str) -> Scan:
    columns = tuple(Column(f"{name}{i}", f"x{i}", type) for i, type in enumerate(types))
    return Scan(name, tuple(c.name for c in columns), columns)


SALES, ITEMS = table("sales", "bigint", "bigint", "string"), table("items", "bigint", "string")
FACTS = {
    name: TableFacts((rows,), (0,), 1, density=0.5, columns={"x0": ColumnStats(keys), "x1": ColumnStats(keys)})
    for name, rows, keys in (("sales", ROWS, ROWS // 10), ("items", ROWS // 10, ROWS // 10))
}


def few(rel: Rel) -> Filter:
    """A hundredth of the rows, as far as anybody knows who knows the values."""
    return Filter(rel, equal(Ref(rel.columns[-1]), Literal("a", "string")))


def test_a_row_has_the_bytes_of_its_types() -> None:
    assert row_bytes(["int", "bigint", "string"]) == 8 + 4 + 8 + 20
    assert row_bytes(["decimal(15,2)", "decimal(38,2)", "array<int>"]) == 8 + 8 + 16 + 20


OF_SALES, OF_ITEMS = ROWS * 0.5 * (8 + 8 + 8 + 20), ROWS / 10 * 0.5 * (8 + 8 + 20)


@pytest.mark.parametrize(
    ("rel", "bytes"),
    [
        (SALES, OF_SALES),
        (few(SALES), OF_SALES),
        (joined(SALES, ITEMS), OF_SALES * OF_ITEMS),
        (joined(SALES, ITEMS, "left"), OF_SALES * OF_ITEMS),
        (joined(SALES, ITEMS, "semi"), OF_SALES),
        (joined(SALES, ITEMS, "anti"), OF_SALES),
        (Project(SALES, (Output(Column("p", "p", "bigint"), Ref(SALES.columns[0])),)), OF_SALES * 16 / 44),
        (counted(SALES), OF_SALES * 24 / 44),
        (Aggregate(SALES, (), counted(SALES).aggregates), 16.0),
        (TopK(SALES, (SortKey(Ref(SALES.columns[0])),), 10), 10 * 44.0),
        (Union((SALES, SALES)), 2 * OF_SALES),
    ],
    ids=lambda value: value.label if isinstance(value, Rel) else "",
)
def test_spark_takes_relations_to_be_as_large_as_their_files(rel: Rel, bytes: float) -> None:
    assert SparkSizes(FACTS, 0).bytes(rel) == pytest.approx(bytes)


def planned(query: Rel, asked: bool = True, prices: CostModel = PRICES, **facts: TableFacts) -> ProgressivePlan:
    points, as_written = (Point(1.0, output=True),), frozenset({0} if asked else ())
    problem = Problem(query, points, FACTS | facts, prices=prices, as_written=as_written)
    return make_plan(problem, ("batch",))


def step_of(query: Rel, asked: bool = True, prices: CostModel = PRICES, **facts: TableFacts) -> Step:
    (step,) = planned(query, asked, prices, **facts).steps
    return step


SELECTED = replace(FACTS["items"], columns={**FACTS["items"].columns, "x1": ColumnStats(5_000)})


def test_a_filtered_side_is_sent_by_a_plan_and_shuffled_by_spark() -> None:
    """Twenty items are asked for of a hundred thousand: Spark takes them for all, so it shuffles a million sales for them."""
    step = step_of(joined(SALES, few(ITEMS)), prices=replace(PRICES, spark_broadcast_bytes=1_000_000), items=SELECTED)
    assert not step.asked
    assert step.otherwise is not None
    shuffled = ROWS * (PRICES.shuffle_row + PRICES.shuffle_byte * 8)
    assert step.otherwise - step.cost > shuffled


def test_what_spark_does_as_well_it_is_asked() -> None:
    query = joined(SALES, few(ITEMS))
    step = step_of(query, items=SELECTED)
    assert step.asked, "all items have less than ten megabytes"
    assert step.otherwise == step_of(query, asked=False, items=SELECTED).cost
    assert step.cost == pytest.approx(step.otherwise)


def test_a_side_that_turns_out_to_be_small_is_sent_after_it_was_shuffled() -> None:
    """Adaptive execution: both sides are shuffled, but not sorted."""
    query, never = joined(SALES, few(ITEMS)), replace(PRICES, spark_broadcast_bytes=-1)
    merged = step_of(query, prices=never, items=SELECTED).otherwise
    adapted = step_of(query, prices=replace(never, spark_broadcast_bytes=1_000_000), items=SELECTED).otherwise
    assert merged is not None
    assert adapted is not None
    saved = ROWS * (PRICES.merge_row - PRICES.probe_row)
    assert merged - adapted == pytest.approx(saved, rel=0.05)


@pytest.mark.parametrize("query", [few(SALES), counted(SALES), joined(SALES, ITEMS, "full")], ids=lambda q: q.label)
def test_without_a_choice_both_ways_cost_the_same(query: Rel) -> None:
    step = step_of(query)
    assert step.asked
    assert step.cost == step.otherwise


def test_what_is_shuffled_twice_alike_is_shuffled_once() -> None:
    groups = counted(SALES)
    names = tuple(Output(Column(f"{c.id}2", c.name, c.type), Ref(c)) for c in groups.columns)
    once, twice = step_of(groups), step_of(joined(groups, Project(groups, names)))
    assert twice.cost < 2 * once.cost


@pytest.mark.parametrize("kind", ["inner", "full"])
def test_names_change_nothing_of_what_it_takes(kind: JoinKind) -> None:
    """What a projection only renames is one class with it, and is counted once: not twice, and not never."""
    groups = counted(SALES)
    names = tuple(Output(Column(f"{c.id}2", c.name, c.type), Ref(c)) for c in groups.columns)
    plain, other = (step_of(joined(part, ITEMS, kind)) for part in (groups, Project(groups, names)))
    assert plain.cost > step_of(groups).cost / 2
    assert other.cost == plain.cost


def test_nobody_is_asked_where_that_is_not_said_to_be_right() -> None:
    step = step_of(counted(SALES), asked=False)
    assert not step.asked
    assert step.otherwise is None


def test_the_plan_costs_what_its_steps_do() -> None:
    """At the price of the time point; and the alternatives are compared by it."""
    points, query = (Point(0.25, output=False), Point(0.5, output=True)), joined(SALES, few(ITEMS))
    facts = {
        name: replace(known, inserted=(known.inserted[0], 2 * known.inserted[0]), deleted=(0, 0))
        for name, known in FACTS.items()
    }
    plan = make_plan(Problem(query, points, facts, prices=PRICES, as_written=frozenset({0, 1})), ("batch",))
    _, last = plan.steps
    assert last.asked
    assert plan.cost == round(0.5 * last.cost)
    assert [a.cost for a in plan.alternatives] == [plan.cost]


def test_a_plan_says_which_way_it_goes_and_what_the_other_is() -> None:
    lines = explain(planned(joined(SALES, ITEMS, "full"))).splitlines()
    (emit,) = (line for line in lines if line.startswith("emit"))
    assert "as written, planned by Spark" in emit
    assert emit.count("chosen") == 1
    assert "by these operators" not in explain(planned(counted(SALES), asked=False))


def test_a_part_that_is_no_other_than_what_it_is_made_of() -> None:
    """A law may find out that a filter leaves everything: then both are one class, in which one is not looked for below the other."""
    again = few(few(SALES))
    memo = Memo()
    classes: dict[Rel, Edge] = {again: memo.add(again.input)}
    query = joined(
        joined(again, ITEMS),
        renamed(ITEMS),
    )
    estimate = Estimator(FACTS, memo.representative)
    written = AsWritten(query, 0, FACTS, estimate, lambda rel: classes.get(rel) or memo.add(rel))
    never = replace(PRICES, spark_broadcast_bytes=-1)
    assert written.cost(never) > 2 * never.shuffle(ROWS / 10, 8)


def total(rel: Rel, column: int) -> Aggregate:
    """A scalar sub-query over all rows."""
    values = rel.columns[column]
    call = AggregateCall("Max", (Ref(values),), values.type)
    return Aggregate(rel, (), (AggregateOutput(Column(f"of {values.id}", "m", values.type), call),))


def test_what_is_computed_of_all_of_the_same_rows_is_computed_together() -> None:
    """As Spark merges scalar sub-queries: also where they read other columns, not where they read other rows."""
    again = renamed(SALES)
    one, same, other = total(few(SALES), 0), total(few(again), 1), total(SALES, 1)
    both, apart = (step_of(joined(one, second, "full")) for second in (same, other))
    assert step_of(one).cost < both.cost < apart.cost
    assert both.cost < 1.2 * step_of(one).cost


def test_totals_that_a_plan_finds_in_one_pass_are_asked_of_spark_one_by_one() -> None:
    """Of the same rows under different conditions: Spark reads them for each."""
    others = renamed(SALES)
    numbers = [
        Aggregate(rows, (), (AggregateOutput(Column(name, "n", "bigint"), AggregateCall("Count", (), "bigint")),))
        for name, rows in (
            ("n1", few(SALES)),
            ("n2", Filter(others, equal(Ref(others.columns[-1]), Literal("b", "string")))),
        )
    ]
    step, one = step_of(Join(numbers[0], numbers[1], "inner", TRUE)), step_of(numbers[0])
    assert not step.asked
    assert step.otherwise is not None
    assert step.otherwise > 1.9 * one.cost
    assert step.cost < 1.3 * one.cost


class TestOnlyAsking:
    """A view of which all results may be asked of Spark."""

    QUERY = counted(joined(SALES, few(ITEMS)))

    @staticmethod
    def problem(query: Rel = QUERY, asked: bool = True) -> Problem:
        grown = {
            name: replace(facts, inserted=(facts.inserted[0], facts.inserted[0] + 10), deleted=(0, 0), static=False)
            for name, facts in FACTS.items()
        }
        points = frozenset((0, 1)) if asked else frozenset[int]()
        prices = replace(PRICES, spark_broadcast_bytes=10**9, broadcast_bytes=0)
        return Problem(query, (Point(1.0, output=True),) * 2, grown, prices=prices, as_written=points)

    def test_what_is_kept_has_to_save_more_than_estimates_are_off(self) -> None:
        plan = make_plan(self.problem(), ("batch",))
        assert [step.asked for step in plan.steps] == [True, True]
        assert not any(step.saves for step in plan.steps)
        assert plan.cost == sum(step.cost for step in plan.steps)
        free = make_plan(self.problem(asked=False), ("batch",))
        assert not any(step.asked for step in free.steps)

    def test_it_is_followed_without_a_search(self) -> None:
        plan = make_plan(self.problem(), ("batch",))
        assert plan.course
        assert plan.course.asked
        again = make_plan(self.problem(), ("batch",), course=plan.course)
        assert again.course is plan.course
        assert again.steps == plan.steps
        for step in again.steps:
            assert step.otherwise is not None
            assert step.otherwise > step.cost, "the price of the other way"
        assert again.effort.plans_costed == 0
        lost = make_plan(self.problem(asked=False), ("batch",), course=plan.course)
        assert lost.course is not plan.course, "nobody may be asked any more"

    def test_who_does_not_recompute_does_not_ask(self) -> None:
        plan = make_plan(self.problem(), ("im1",), strict=True)
        assert not any(step.asked for step in plan.steps)

    def test_its_operators_are_the_querys(self) -> None:
        """They are run where Spark turns out not to be able to answer."""
        plan = make_plan(self.problem(), ("batch",))
        random = Random(5)
        rows = {
            name: SignedBag.of((random.randrange(3), random.randrange(3), random.choice("ab"))[-width:] for _ in "1234")
            for name, width in (("sales", 3), ("items", 2))
        }

        def leaf(rel: Rel) -> SignedBag:
            scan = rel.scan if isinstance(rel, Read) else rel
            assert isinstance(scan, Scan)
            return rows[scan.table]

        for step in plan.steps:
            assert step.emit is not None
            assert {rel.at for rel in step.emit.walk() if isinstance(rel, Read)} == {Snapshot(step.time)}
            assert evaluate(step.emit, leaf) == evaluate(self.QUERY, leaf)
            assert len(evaluate(step.emit, leaf))
