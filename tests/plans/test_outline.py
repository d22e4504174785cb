"""Many time points: plans for three of them say which rules are tried for all."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Rel
from tempura.cost.stats import TableFacts
from tempura.plan.progressive import ProgressivePlan
from tempura.search import found, planner
from tempura.search.graph import Graph
from tempura.search.outline import FAR, Outline, asked_of_few, few_points
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.rewrites import Rewriter
from tempura.tvr.staircase import Time
from tempura.tvr.views import View
from tests.plans import simulate
from tests.plans.random_queries import QueryGenerator, Table, random_row
from tests.plans.test_lineage import QUERIES
from tests.plans.test_planner import facts, problem

TIMES = 6


def rising(times: int = TIMES) -> tuple[Point, ...]:
    return tuple(Point(0.3 + 0.7 * t / (times - 1), t == times - 1) for t in range(times))


def growing(times: int = TIMES, step: int = 100_000) -> TableFacts:
    return facts(*(10_000_000 + step * t for t in range(times)))


def searched_wholly(asked: Problem, monkeypatch: pytest.MonkeyPatch) -> ProgressivePlan:
    with monkeypatch.context() as patch:
        patch.setattr(planner, "few_points", lambda problem: None)
        return make_plan(asked)


def test_the_first_and_the_last_two_are_planned_for_first() -> None:
    assert few_points(problem(growing(), growing(), rising())) == (0, 4, 5)
    four = tuple(Point(0.3 + 0.2 * t, t == 3) for t in range(4))
    assert few_points(problem(growing(4), growing(4), four)) is None, "so few are searched at once"


def test_the_past_is_no_time_of_work() -> None:
    rows, points = facts(*range(100, 107), known=2), (Point(0.0, False, done=True), *rising())
    assert few_points(problem(rows, rows, points)) == (0, 1, 5, 6)


def of_a_day_with_a_result_at_noon() -> Problem:
    return problem(growing(), growing(), tuple(replace(p, output=t in (2, 5)) for t, p in enumerate(rising())))


def where_rows_leave_for_a_while() -> Problem:
    leaving = replace(growing(), deleted=(0, 10, 20, 20, 20, 20), append_only=False)
    return problem(growing(), leaving, rising())


def where_a_table_comes_late() -> Problem:
    return problem(growing(), facts(10, 10, 10, 10, 10, 5_000_000), rising())


@pytest.mark.parametrize(
    "asked", [of_a_day_with_a_result_at_noon(), where_rows_leave_for_a_while(), where_a_table_comes_late()]
)
def test_times_that_are_not_alike_are_searched_at_once(asked: Problem) -> None:
    assert few_points(asked) is None


def asked_at_random(seed: int) -> Problem:
    """Tables that gain 1 % each time, and lose some rows in every second problem."""
    random = Random(seed)
    query = QueryGenerator(random, ("r", "s", "t")).query(1 + seed % 3)
    lost = tuple(25_000 * t * (seed % 2) for t in range(TIMES))
    table = replace(growing(), deleted=lost, append_only=False)
    return Problem(query, rising(), dict.fromkeys(("r", "s", "t"), table))


@pytest.mark.parametrize("seed", range(24))
def test_nothing_is_lost_by_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan of all rules at all times is cheaper, by more than one exchange may find that the other does not."""
    asked = asked_at_random(seed)
    assert few_points(asked)
    assert make_plan(asked).cost <= 1.01 * searched_wholly(asked, monkeypatch).cost


@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_little_is_gained_by_going_on_from_any_earlier_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before, first and of results are offered: the others make more alternatives, and no plan that is much cheaper."""
    asked = asked_at_random(seed)
    offered = Rewriter._earlier

    def all_earlier(rewriter: Rewriter, view: View) -> tuple[Time, ...]:
        now, some = view.at.time, offered(rewriter, view)
        whole = isinstance(now, int) and now == view.at.until
        is_free = whole and some and not rewriter.facts.has_order_sensitive_values(view.tvr)
        return tuple(range(int(now) - 1, -1, -1)) if is_free else some

    found = make_plan(asked)
    with monkeypatch.context() as patch:
        patch.setattr(Rewriter, "_earlier", all_earlier)
        free = make_plan(asked)
    assert found.cost <= 1.01 * free.cost
    assert found.effort.alternatives <= free.effort.alternatives


def with_a_result_each_time(seed: int) -> Problem:
    return replace(asked_at_random(seed), points=tuple(Point(1.0, True) for _ in range(TIMES)))


@pytest.mark.parametrize("seed", [*range(12), 38])
def test_nothing_is_lost_where_each_time_has_a_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that pays for itself in six results need not do so in three: the last but one of these counts for those left out."""
    asked = with_a_result_each_time(seed)
    assert make_plan(asked).cost <= 1.01 * searched_wholly(asked, monkeypatch).cost


def test_the_last_but_one_counts_for_results_that_are_left_out() -> None:
    day, view = problem(growing(), growing(), rising()), with_a_result_each_time(0)
    assert [p.weight for p in asked_of_few(day, (0, 4, 5)).points] == [day.points[t].weight for t in (0, 4, 5)]
    assert [p.weight for p in asked_of_few(view, (0, 4, 5)).points] == [1.0, 4.0, 1.0]


def test_methods_that_are_far_dearer_are_not_tried_at_all_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they would cost by a plan for the few is told all the same."""
    asked = problem(facts(*range(100, 700, 100)), facts(*range(100, 700, 100)), rising())
    looked_for = list[tuple[tuple[str, ...], ...]]()

    def found_by(graph: Graph, sets: Sequence[tuple[str, ...]]) -> list[found.Found]:
        looked_for.append(tuple(sets))
        return found.found_by(graph, sets)

    monkeypatch.setattr(planner, "found_by", found_by)
    plan = make_plan(asked)
    few, all_times = looked_for[0], looked_for[1]
    assert (plan.method, all_times) == ("batch", (("batch",), few[-1]))
    told = {other.method: other for other in plan.alternatives}
    assert ("im1",) in few
    assert told["im1"].cost > FAR * plan.cost
    assert len(told["im1"].steps) == TIMES
    assert sum(cost > 0 for cost in told["im1"].steps) <= 3
    weighted = (round(point.weight * cost) for point, cost in zip(asked.points, told["im1"].steps, strict=True))
    assert sum(weighted) == pytest.approx(told["im1"].cost, abs=5)


def test_what_a_dearer_method_costs_counts_each_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does at the last but one of the three it does at those that are left out, too."""
    monkeypatch.setattr(planner, "FAR", 1.0)
    asked = problem(*(facts(*range(100, 700, 100)),) * 2, tuple(Point(1.0, True) for _ in range(TIMES)))
    plan = make_plan(asked)
    dearer = [other for other in plan.alternatives if other.cost > 1.05 * plan.cost]
    assert {other.method for other in dearer} >= {"im1"}
    for other in dearer:
        assert len(set(other.steps[1:5])) == 1
        assert sum(other.steps) == pytest.approx(other.cost, abs=TIMES)


def test_none_is_left_out_where_states_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """To that only the dearer ones may keep."""
    tables = facts(*range(100, 700, 100)), facts(*range(100, 700, 100))
    bound = replace(problem(*tables, rising()), state_budget=1_000_000)
    assert {a.method for a in make_plan(bound).alternatives} == {
        a.method for a in searched_wholly(bound, monkeypatch).alternatives
    }


def test_less_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nine times less than half of what all rules make, and fewer plans are priced."""
    tables = growing(9), growing(9, 1_000)
    asked = problem(*tables, rising(9))
    outlined, wholly = make_plan(asked).effort, searched_wholly(asked, monkeypatch).effort
    assert outlined.classes == wholly.classes
    assert 2 * outlined.alternatives < wholly.alternatives
    assert outlined.plans_costed < wholly.plans_costed


def test_all_is_tried_where_an_outline_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem(growing(), growing(), rising())
    wholly = searched_wholly(asked, monkeypatch)
    monkeypatch.setattr(planner, "_outlined", lambda *known: (Outline({}, frozenset((0,)), (("im1",),)), []))
    assert make_plan(asked).cost == wholly.cost


@pytest.mark.parametrize("name", QUERIES)
def test_nothing_is_lost_of_values_that_are_computed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Problem(QUERIES[name], rising(), {"r": growing(), "s": growing()})
    assert few_points(asked)
    assert make_plan(asked).cost <= 1.01 * searched_wholly(asked, monkeypatch).cost


def arriving(random: Random, name: str) -> Table:
    """A table to which rows come each time."""
    return Table(name, tuple(SignedBag.of(random_row(random) for _ in range(3)) for _ in range(TIMES)), False)


def query_at_random(random: Random, seed: int) -> Rel:
    return QueryGenerator(random, ("r", "s", "t")).query(1 + seed % 3)


@pytest.mark.parametrize("methods", [("all",), ("im1",), ("im2", "batch")], ids="+".join)
@pytest.mark.parametrize("seed", range(8))
def test_results_are_right(seed: int, methods: tuple[str, ...]) -> None:
    random = Random(seed)
    tables = {name: arriving(random, name) for name in ("r", "s", "t")}
    query = query_at_random(random, seed)
    points = rising() if seed % 2 else tuple(Point(1.0, True) for _ in range(TIMES))
    sizes = {name: table.facts(TIMES) for name, table in tables.items()}
    assert few_points(Problem(query, points, sizes))
    found = simulate.run_plan(query, tables, points, methods)
    expected = [simulate.truth(query, tables, t) if p.output else None for t, p in enumerate(points)]
    assert found == expected
