"""A view over tables that fill up: where states did not pay at first, a later refresh begins with them as soon as they do."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import pytest

from tempura.algebra.rel import Aggregate, Rel
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref
from tempura.algebra.window import Window, WindowOutput
from tempura.plan.progressive import ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem, TableFacts
from tempura.warehouse.commits.files import Files
from tempura.warehouse.runs import situation
from tempura.warehouse.runs.situation import Beginning, Situation
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.steps import StepManifest
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import BagEngine, Row
from tests.unit.test_churn import outer, sums
from tests.unit.test_steady import as_if_large

FEW, MANY, A_FEW = 1, 400, 4
"""Rows that come: at first, then as a load, then with each refresh."""


def of_shares() -> Rel:
    """By order that came back, what sales of its category amount to. The sums of a static table are kept by recomputing,
    too; to keep the joined rows pays after more than one refresh."""
    joined = sums()
    order, category, price = joined.columns[:3]
    of_category = WindowOutput(Column("w", "w", "bigint"), AggregateCall("Sum", (Ref(price),), "bigint", detail="ansi"))
    shares = Window(joined, (Ref(category),), (), (of_category,))
    total = AggregateCall("Sum", (Ref(of_category.column),), "bigint", detail="ansi")
    key = Output(Column("key", "key", order.type), Ref(order))
    return Aggregate(shares, (key,), (AggregateOutput(Column("total", "total", "bigint"), total),))


@pytest.fixture
def wh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.setattr(bag_engine, "QUERIES", {"q": of_shares})
    monkeypatch.setattr(
        follow, "_FEW", 0.5
    )  # a row counts as twenty thousand, for those who follow an earlier choice, too
    # What the window takes, by a text, leaves more than a tenth to be saved, whatever Spark is found to take.
    engine = BagEngine(prices=replace(as_if_large(20_000), sort_row=200 * 20_000))
    wh = open_site(tmp_path / "wh", engine, Files(), lambda: datetime(2026, 3, 1, tzinfo=UTC))
    wh.add_table("sales", schema="o_id INT, cat STRING, price INT", append_only=True)
    returns = wh.add_table("returns", schema="o_id INT, cost INT", static=True)
    returns.append([(n % 500, n % 20) for n in range(2_000)])  # type: ignore[arg-type]
    wh.add_query("q", "q", schedule=Schedule.view())
    return wh


def filled(wh: Warehouse, *arrivals: int) -> list[StepManifest]:
    """The steps of refreshes, before each of which so many sales came."""
    sales, query, at = wh.table("sales"), wh.query("q"), 0
    for rows in arrivals:
        new: list[Row] = [(n % 500, f"c{n % 6}", n % 100) for n in range(at, at + rows)]
        sales.append(new)  # type: ignore[arg-type]
        at += rows
        query.run()
        assert query.verify()
    return list(query.steps())


def begun_by(steps: list[StepManifest]) -> list[int]:
    return [i for i, step in enumerate(steps) if step.has_begun]


def test_states_are_begun_once_little_comes_to_much(wh: Warehouse) -> None:
    steps = filled(wh, FEW, MANY, *[A_FEW] * 5)
    assert steps[0].states, "sums that never change are kept, and nothing else"
    (begun,) = begun_by(steps)
    assert {step.method for step in steps[:begun]} == {"batch"}
    assert steps[begun].weight == pytest.approx(1 / 30), "what it takes is paid once"
    assert steps[begun].estimated_cost > steps[begun - 1].estimated_cost
    later = steps[begun + 1 :]
    assert len(later) > 1
    assert all(step.method != "batch" for step in later)
    assert all(step.estimated_cost < 0.9 * steps[begun - 1].estimated_cost for step in later)


def test_days_begin_with_states_while_work_is_cheap(wh: Warehouse) -> None:
    """Once, at the first time of a day, for many days: what it takes is charged at the price of then."""
    query = wh.add_query("days", "q", schedule=Schedule.progressive({"14:00": 0.5, "24:00": 1.0}))
    sales, at = wh.table("sales"), 0
    for rows in (FEW, MANY, *[A_FEW] * 5):
        for time in ("14:00", "24:00"):
            sales.append([(n % 500, f"c{n % 6}", n % 100) for n in range(at, at + rows)])  # type: ignore[arg-type]
            at += rows
            query.run(at=time, force=True)
        assert query.verify()
    steps = list(query.steps())
    (begun,) = (i for i, step in enumerate(steps) if step.begun)
    assert steps[begun].slot.label == "14:00"
    assert steps[begun].weight == 0.5
    assert [i for i, step in enumerate(steps) if "begins with states for 30 results" in step.plan] == [begun]
    assert StepManifest.from_json(steps[begun].to_json()) == steps[begun]
    results = [step for step in steps if step.output]
    before = [step for step in results if step.n < steps[begun].n]
    later = [step for step in results if step.n > steps[begun].n]
    assert {step.method for step in before} == {"batch"}
    assert len(later) > 1
    assert all(step.method != "batch" for step in later)
    assert all(step.estimated_cost < 0.9 * before[-1].estimated_cost for step in later)


def test_without_asking_they_never_are(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(situation, "_uses", lambda n, steps: 1)
    steps = filled(wh, FEW, MANY, *[A_FEW] * 5)
    assert begun_by(steps) == []
    assert {step.method for step in steps} == {"batch"}


def test_to_begin_is_looked_for_only_where_it_may_pay(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for it takes longer than to compare all plans, and what these cost tells most of it."""
    said: list[bool] = []
    asked: list[int] = []
    may_be_worth, as_first = Beginning.may_be_worth, Situation.as_first

    def noted(self: Beginning, otherwise: ProgressivePlan) -> bool:
        said.append(may_be_worth(self, otherwise))
        return said[-1]

    def begun(self: Situation, begins: Beginning) -> Situation:
        asked.append(len(said))
        return as_first(self, begins)

    monkeypatch.setattr(Beginning, "may_be_worth", noted)
    monkeypatch.setattr(Situation, "as_first", begun)
    filled(wh, FEW, MANY)
    assert (said, asked) == ([False], [])
    filled(wh, A_FEW, A_FEW)
    assert (said, asked) == ([False, True], [2])


@pytest.mark.parametrize("query", [of_shares, sums])
@pytest.mark.parametrize("uses", [3, 30])
@pytest.mark.parametrize("came", [3, 30, 300, 1_000])
def test_it_may_pay_wherever_it_does(query: Callable[[], Rel], uses: int, came: int) -> None:
    """What is known after two refreshes were compared, and what the search for three of them finds."""
    tables = {
        "sales": TableFacts((1_000, 1_000 + came, 1_000 + 2 * came), (0,) * 3, known=2, append_only=True),
        "returns": TableFacts((2_000,) * 3, (0,) * 3, known=2, static=True),
    }
    points = (Point(0.0, False, done=True), Point(1.0, True), Point(1.0, True))
    problem, beginning = Problem(query(), points, tables, prices=as_if_large(20_000)), Beginning(uses, "", 0.1)
    plan = make_plan(problem, uses=uses, doubt=inf)  # nothing is believed of states: it recomputes
    assert make_plan(problem, doubt=inf).begun is None
    is_worth = beginning.is_worth(make_plan(problem.beginning(uses)), plan)
    assert beginning.may_be_worth(plan) or not is_worth
    assert is_worth or came > 300 or query is of_shares, "or there would be nothing to tell"


def test_what_serves_the_next_result_alone_is_paid_by_it() -> None:
    """Sums are built before the next result is due. Where the one after it is computed from the tables again, thirty results are not what
    they are built for."""
    tables = {
        "sales": TableFacts((1_000, 1_040, 1_080), (0,) * 3, known=2, append_only=True),
        "returns": TableFacts((2_000,) * 3, (0,) * 3, known=2, static=True),
    }
    points = (Point(0.0, False, done=True), Point(1.0, False), Point(1.0, True))
    problem, beginning = Problem(sums(), points, tables, prices=as_if_large(20_000)), Beginning(30, "", 0.1)
    plan, begun = make_plan(problem, doubt=inf), make_plan(problem.beginning(30))
    assert plan.recomputes
    assert beginning.is_worth(begun, plan)
    *before, last = begun.steps
    anew = plan.steps[-1]
    alone = replace(begun, steps=(*before, replace(anew, time=last.time)), cost=begun.cost - last.cost + anew.cost)
    assert alone.cost < 0.9 * 2 * plan.cost
    assert not beginning.is_worth(alone, plan)


@pytest.mark.parametrize("back", [2_000, 10_000])
def test_who_keeps_a_state_may_begin_with_another(back: int) -> None:
    """What one of two states is brought up to date from each time costs more than the other takes, over many results."""
    tables = {
        "sales": TableFacts((1_000, 1_040, 1_080), (0,) * 3, known=2, append_only=True),
        "returns": TableFacts((back,) * 3, (0,) * 3, known=2, static=True),
    }
    points = (Point(0.0, False, done=True), Point(1.0, True), Point(1.0, True))
    problem, beginning = Problem(outer(), points, tables, prices=as_if_large(20_000)), Beginning(30, "", 0.1)
    both = make_plan(problem.beginning(30)).steps[0].saves
    (one,) = (save for save in both if save.key.kind == "state")
    problem = replace(problem, states=frozenset({replace(one.key, time=0)}))
    plan, begun = make_plan(problem, uses=30, margin=0.1), make_plan(problem.beginning(30))
    assert not plan.recomputes
    assert [len(step.saves) for step in plan.steps] == [1, 0], "it goes on with the one"
    assert (len(both), len(begun.steps[0].saves)) == (2, 2)
    assert beginning.may_be_worth(plan)
    assert beginning.is_worth(begun, plan)


def test_to_bring_states_up_to_date_is_no_beginning(wh: Warehouse) -> None:
    steps = filled(wh, FEW, MANY, *[A_FEW] * 3)
    (at,) = begun_by(steps)
    two = replace(steps[at], weight=0.5, begun=False)
    assert len(two.states) > 1
    plain, one = replace(steps[0], states=()), replace(two, states=two.states[:1])
    none = replace(one, states=())
    assert situation._uses(30, [plain, one, one, none, one]) == 4
    assert situation._uses(30, [plain, one, two, two]) == 2
    assert situation._uses(30, [plain, two, one, one]) == 3, "fewer are none that is new"
    assert situation._uses(30, [plain, one, replace(none, given_up=(one.states[0].name,)), one]) == 1


def test_what_was_begun_and_given_up_is_taken_to_serve_as_long_as_it_did(wh: Warehouse) -> None:
    (first, *_) = filled(wh, FEW)
    plain, begun = first, replace(first, method="im1")
    assert [situation._uses(30, steps) for steps in ([first], [first, *[plain] * 40])] == [30, 30]
    assert [situation._uses(30, [first, begun, *[plain] * n]) for n in (0, 1, 5, 40)] == [1, 2, 6, 30]


def test_it_is_asked_once_for_about_what_is_known(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the first few runs counts operators that none has counted before; where all plans are compared again because of that, it
    tells nothing of whether to begin."""
    asked: list[int] = []
    as_first = Situation.as_first

    def noted(self: Situation, begins: Beginning) -> Situation:
        asked.append(self.now)
        return as_first(self, begins)

    monkeypatch.setattr(Situation, "as_first", noted)
    monkeypatch.setattr(Beginning, "is_worth", lambda self, begun, otherwise: False)
    monkeypatch.setattr(follow, "_NEWS", 0.0)  # any count is one
    counted = iter(range(100))
    monkeypatch.setattr(situation, "counted_by", lambda steps: {f"operator {next(counted)}": (1.0, 1.0)})
    filled(wh, FEW, MANY, *[A_FEW] * 2)
    before = len(asked)
    assert before
    filled(wh, *[A_FEW] * 3)
    steps = wh.query("q").steps()
    assert [step.choice.n for step in steps[-3:] if step.choice] == [step.n for step in steps[-3:]], "all were compared"
    assert len(asked) == before
