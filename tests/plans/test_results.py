"""Results are written as what changed: what comes and what goes is put beside the result that is there; where that is much, all of it is
written, but once, whether it is saved or not."""

from dataclasses import replace

import pytest

from tempura.algebra.rel import Filter, Project, Rel
from tempura.algebra.scalar import Column, Literal, Output, Ref, equal
from tempura.cost.model import SPARK
from tempura.cost.stats import StoredFacts, TableFacts
from tempura.explain.text import explain
from tempura.physical.operators import StateKey
from tempura.plan.progressive import ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans.test_kept import FIRST_LOAD, ORDER, PER_DAY, REFRESH, SALES, SALES_OF_A_KIND, left_by, tables

IS_FIRST = Output(Column("f", "is_first", "boolean"), equal(Ref(ORDER), Literal(1, "int")))
ALL_SALES = Project(
    SALES, (*(Output(Column(f"c{i}", c.name, c.type), Ref(c)) for i, c in enumerate(SALES.columns)), IS_FIRST)
)

EARLY = (Point(0.25, output=False), Point(1.0, output=True))


def planned(
    query: Rel,
    points: tuple[Point, ...],
    facts: dict[str, TableFacts],
    stored: dict[StateKey, StoredFacts] | None = None,
) -> ProgressivePlan:
    known = dict(stored or {})
    return make_plan(Problem(query, points, facts, frozenset(known), known))


def with_deletions(facts: dict[str, TableFacts], rows: int) -> dict[str, TableFacts]:
    """The same, but that so many sales are taken back at each point."""
    sales = facts["sales"]
    deleted = tuple(rows * t for t in range(len(sales.inserted)))
    return {**facts, "sales": replace(sales, deleted=deleted)}


def test_a_view_of_rows_keeps_its_result_and_then_appends() -> None:
    """60 million sales of which 3 million are of a kind; a hundredth comes with each refresh."""
    first = planned(SALES_OF_A_KIND, FIRST_LOAD, tables(0, 1, known=1))
    begun = first.steps[0]
    assert begun.kept_result is not None
    assert not begun.appends
    assert begun.kept_result.size == 0, "a result takes its bytes anyway"
    stored = left_by(begun)
    now, later = planned(SALES_OF_A_KIND, REFRESH, tables(0, 1, 2), stored).steps
    whole = SPARK.write(3_000_000, 20)
    for step in (now, later):
        assert step.appends
        assert step.cost - step.fixed < whole / 5
    assert now.kept_result is not None
    assert "emit, appended" in explain(first)


def test_few_rows_that_go_are_written_as_such_and_who_reads_pays() -> None:
    """What that costs them counts in the plan, but not as a cost of the step."""
    facts = with_deletions(tables(0, 1, 2), 20_000)
    first = planned(SALES_OF_A_KIND, FIRST_LOAD, with_deletions(tables(0, 1, known=1), 20_000))
    plan = planned(SALES_OF_A_KIND, REFRESH, facts, left_by(first.steps[0]))
    now = plan.steps[0]
    assert now.appends
    assert SPARK.write(3_000_000, 20) / 2 < now.reading < 2 * SPARK.write(3_000_000, 20)
    assert plan.cost == sum(step.cost + step.reading for step in plan.steps)
    assert "longer to read" in explain(plan)


def test_where_many_rows_go_the_result_is_written_as_a_whole_and_once() -> None:
    facts = with_deletions(tables(0, 1, 2), 20_000_000)
    first = planned(SALES_OF_A_KIND, FIRST_LOAD, with_deletions(tables(0, 1, known=1), 20_000_000))
    now, _ = planned(SALES_OF_A_KIND, REFRESH, facts, left_by(first.steps[0])).steps
    assert not now.appends
    assert now.reading == 0


def test_what_lies_with_deletions_in_it_is_written_as_a_whole() -> None:
    """Who reads a result does not merge parts: so one that was stored early, with deletions apart, is not appended to."""
    first = planned(SALES_OF_A_KIND, EARLY, tables(0, 1, known=1)).steps[0]
    (key,) = (save.key for save in first.saves if save.plain)
    done = (Point(0.0, output=False, done=True), Point(1.0, output=True))
    plain, merged = StoredFacts(), StoredFacts(parts=2, grouped=True)
    appending, writing = (
        planned(SALES_OF_A_KIND, done, tables(0, 1), {replace(key, time=0): lies}).steps[0] for lies in (plain, merged)
    )
    assert appending.appends
    assert not writing.appends
    assert appending.cost < writing.cost


def test_a_result_that_is_ready_early_is_not_written_again() -> None:
    """Nothing comes after the first point, so all is done while work is cheap."""
    for query in (SALES_OF_A_KIND, PER_DAY):
        early, due = planned(query, EARLY, tables(0, 0)).steps
        assert any(save.plain for save in early.saves)
        assert due.appends
        assert due.cost < 0.02 * early.cost


@pytest.mark.parametrize("query", [SALES_OF_A_KIND, ALL_SALES], ids=["a join", "all rows"])
@pytest.mark.parametrize("times", [2, 3, 4])
def test_the_result_of_a_day_is_written_early_and_appended_to(query: Rel, times: int) -> None:
    """What the result grows from is not read, so to go on is far cheaper than to compute it once at the end, though to read and to save it
    would cost as much."""
    points = tuple(Point(0.3 + 0.7 * t / (times - 1), t == times - 1) for t in range(times))
    plan = planned(query, points, tables(*range(times), known=1))
    assert any(save.plain for save in plan.steps[0].saves)
    assert plan.steps[-1].appends
    batch = make_plan(Problem(query, points, tables(*range(times), known=1)), ("batch",))
    assert plan.cost < 0.5 * batch.cost


@pytest.mark.parametrize("budget", [0, 1_000])
def test_a_result_that_is_kept_takes_nothing_of_a_budget(budget: int) -> None:
    query = Filter(SALES, equal(Ref(ORDER), Literal(7, "int")))
    facts = tables(0, 1, known=1)
    bound = make_plan(Problem(query, FIRST_LOAD, facts, state_budget=budget))
    assert bound.steps[0].kept_result is not None
    assert bound.state_bytes == 0
