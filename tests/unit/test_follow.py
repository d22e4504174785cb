"""A run is planned as the last one was where what is known is much the same, and by comparing all plans where it is not."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tempura.explain.character import BUILT
from tempura.plan.progressive import Course, ProgressivePlan
from tempura.rules.methods import IM1, TEMPURA
from tempura.rules.registry import Registry
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.times import follow
from tempura.warehouse.times.follow import Choice, Follower
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import SUMMARY, BagEngine, Row
from tests.unit.test_churn import PRICES


class World:
    """A warehouse in which sales arrive, and a view of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wh = self.open()
        self.wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
        self.wh.add_table("returns", schema="o_id INT, cost INT")
        self.wh.add_query("q", SUMMARY, schedule=Schedule.view())
        self._next = 0
        self.arrive(4000)
        self.wh.table("returns").append([(n, n % 7) for n in range(0, 4000, 5)])  # type: ignore[arg-type]

    def open(self, rules: Registry = TEMPURA) -> Warehouse:
        engine = BagEngine(prices=PRICES)
        return open_site(self.folder, engine, Files(), lambda: datetime(2026, 3, 1, tzinfo=UTC), rules)

    @property
    def query(self) -> Query:
        return self.wh.query("q")

    def arrive(self, rows: int) -> None:
        new: list[Row] = [(n, "abc"[n % 3], n % 100) for n in range(self._next, self._next + rows)]
        self._next += rows
        self.wh.table("sales").append(new)  # type: ignore[arg-type]

    def refresh(self, rows: int = 100) -> Choice | None:
        """Rows arrive, and the view is brought up to date."""
        self.arrive(rows)
        return self.run()

    def run(self) -> Choice | None:
        self.query.run()
        assert self.query.verify().equal
        return self.query.steps()[-1].choice

    def settled(self) -> Choice:
        """The choice that runs follow once arrivals are what they are expected to be."""
        for _ in range(8):
            choice = self.refresh()
            if choice and choice.n < len(self.query.steps()):
                return choice
        raise AssertionError("no run has followed another")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "wh")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Course | None]:
    """The courses for which plans were made, None for each time that all were compared."""
    found: list[Course | None] = []

    def noting(problem: Problem, methods: object, course: Course | None = None, **known: Any) -> ProgressivePlan:
        found.append(course)
        return make_plan(problem, methods, course=course, **known)  # type: ignore[arg-type]

    monkeypatch.setattr(follow, "make_plan", noting)
    return found


def test_refreshes_that_are_alike_follow_one_comparison(world: World, asked: list[Course | None]) -> None:
    choice = world.settled()
    asked.clear()
    for _ in range(3):
        assert world.refresh() == choice
    assert asked == [choice.course] * 3
    assert "recompute_snapshot" not in choice.course.rules, "the view is maintained"


def test_a_plan_says_whose_choice_it_follows(world: World) -> None:
    choice = world.settled()
    world.arrive(100)
    plan = world.query.plan()
    assert plan.followed == choice.n
    assert plan.to_json()["followed"] == choice.n
    assert f"goes on as run {choice.n} chose" in plan.explain()
    compared = {a.method for a in plan.plan.alternatives if not a.chosen}
    assert compared == {other.method for other in choice.others} != set()
    world.run()
    assert f"goes on as run {choice.n} chose" in world.query.steps()[-1].plan


def test_a_run_that_builds_states_is_not_followed(world: World) -> None:
    """Its plan would build them again and again."""
    assert world.run() is None
    does = world.query.steps()[-1].does
    assert does is not None
    assert does.kind == BUILT


def test_another_process_follows_it_too(world: World) -> None:
    choice = world.settled()
    world.wh = world.open()
    assert world.refresh() == choice


def more_at_once(world: World) -> None:
    world.arrive(4000)


def rows_that_leave(world: World) -> None:
    world.wh.table("sales").delete([(0, "a", 0)])  # type: ignore[arg-type]


def rows_of_the_other_table(world: World) -> None:
    world.wh.table("returns").append([(1, 1)])  # type: ignore[arg-type]


def lost_states(world: World) -> None:
    for part in (part for state in world.query.steps()[-1].states for part in state.stored.parts):
        shutil.rmtree(world.wh.path / part.path)


def prices_were_measured(world: World) -> None:
    engine = world.wh.query("q")._site.engine
    assert isinstance(engine, BagEngine)
    engine.prices = replace(engine.prices, origin="calibrated 2026-11-22 19:30 UTC")


@pytest.mark.parametrize(
    "happen", [more_at_once, rows_that_leave, rows_of_the_other_table, lost_states, prices_were_measured]
)
def test_all_are_compared_when_something_else_happens(world: World, happen: Callable[[World], None]) -> None:
    choice = world.settled()
    world.arrive(100)
    happen(world)
    found = world.run()
    assert found is None or found.n > choice.n


def test_all_are_compared_for_other_methods(world: World) -> None:
    choice = world.settled()
    world.arrive(100)
    world.query.run(methods="im2")
    found = world.query.steps()[-1].choice
    assert found
    assert found.n > choice.n


def test_all_are_compared_when_there_is_a_new_method(world: World) -> None:
    choice = world.settled()
    world.wh = world.open(TEMPURA.with_method("mine", IM1))
    assert world.refresh() != choice


def test_all_are_compared_when_a_method_has_other_rules(world: World) -> None:
    choice = world.settled()
    fewer = {**TEMPURA.methods, "im1": tuple(rule for rule in IM1 if rule.name != "delta_full_join")}
    world.wh = world.open(replace(TEMPURA, methods=fewer))
    assert world.refresh() != choice


def test_a_choice_is_followed_by_another_process_with_the_same_rules(world: World) -> None:
    choice = world.settled()
    world.wh = world.open(replace(TEMPURA))
    assert world.refresh() == choice


def test_all_are_compared_from_time_to_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_MOST", 3)
    choice = world.settled()
    found = [world.refresh() for _ in range(6)]
    assert found[-1] != choice


@pytest.mark.parametrize("times", [1.0, 1.3])
def test_all_are_compared_when_it_costs_more_than_was_promised(
    world: World, asked: list[Course | None], monkeypatch: pytest.MonkeyPatch, times: float
) -> None:
    choice = world.settled()
    asked.clear()
    real = Choice.taken
    monkeypatch.setattr(Choice, "taken", lambda c, plan, d: real(c, replace(plan, cost=round(times * plan.cost)), d))
    found = world.refresh()
    assert asked == ([choice.course] if times == 1 else [choice.course, None])
    assert (found == choice) == (times == 1)


def test_a_plan_is_not_taken_where_another_would_have_cost_clearly_less(world: World) -> None:
    choice = world.settled()
    world.arrive(100)
    plan = world.query.plan().plan
    assert choice.taken(plan)
    near = replace(choice, others=(replace(choice.others[0], cost=round(0.9 * plan.cost)),))
    assert near.taken(plan)
    below = replace(choice, others=(replace(choice.others[0], cost=round(0.8 * plan.cost)),))
    assert below.taken(plan) is None


def test_what_makes_a_plan_dearer_from_run_to_run_makes_others_with_states_dearer_too(world: World) -> None:
    choice = world.settled()
    world.arrive(100)
    plan = world.query.plan().plan
    dearer = replace(plan, cost=round(1.2 * choice.cost))
    as_cheap = replace(choice.others[0], cost=choice.cost)
    assert replace(choice, others=(replace(as_cheap, states=2),)).taken(dearer)
    assert replace(choice, others=(replace(as_cheap, states=0),)).taken(dearer) is None
    cheaper = replace(as_cheap, states=2, cost=round(0.8 * choice.cost))
    assert replace(choice, others=(cheaper,)).taken(dearer) is None
    recomputed = ProgressivePlan((), (), dearer.cost, "batch")
    assert replace(choice, others=(replace(as_cheap, states=2),)).taken(recomputed) is None, "it has no states"


def test_what_comes_in_turns_is_planned_as_it_was_at_its_turn(world: World) -> None:
    found: list[Choice | None] = []
    for n in range(14):
        world.arrive(100)
        if n % 2:
            world.wh.table("returns").append([(n, 1)])  # type: ignore[arg-type]
        found.append(world.run())
    assert None not in found[-4:]
    assert all(choice in found[:-4] for choice in found[-4:])
    assert found[-1] != found[-2]


class Day:
    """A warehouse whose query is due at the end of the day, and for which work ahead never pays: it hardly costs less before."""

    def __init__(self, folder: Path, *prices: float) -> None:
        self.now = datetime(2026, 3, 1, 0, tzinfo=UTC)
        self.wh = open_site(folder, BagEngine(), Files(), lambda: self.now, TEMPURA)
        self.wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
        self.wh.add_table("returns", schema="o_id INT, cost INT")
        times = dict(zip(("06:00", "12:00", "18:00", "24:00"), prices, strict=True))
        self.wh.add_query("q", SUMMARY, schedule=Schedule.progressive(times, "UTC"))
        self._next = 0

    def run(self, hours: int, rows: int = 5000) -> None:
        new: list[Row] = [(n, "abc"[n % 3], n % 100) for n in range(self._next, self._next + rows)]
        self._next += rows
        self.wh.table("sales").append(new)  # type: ignore[arg-type]
        self.now += timedelta(hours=hours)
        self.wh.query("q").run()


@pytest.fixture
def day(tmp_path: Path) -> Day:
    return Day(tmp_path / "wh", 0.97, 0.98, 0.99, 1.0)


def test_a_run_that_did_nothing_has_planned_the_rest_of_the_day(day: Day, asked: list[Course | None]) -> None:
    day.run(6)
    day.run(6)
    day.run(6)
    day.run(6)
    query = day.wh.query("q")
    assert [step.output is None for step in query.steps()] == [True, True, True, False]
    _, second, third, last = (step.choice for step in query.steps())
    assert second is not None
    assert len(second.later) == 2
    assert third == second
    assert last is not None
    assert last.n == 4, "with the result, the next day is looked at, too"
    assert asked == [None, None, second.course, None], "nobody knew at first how many rows would come"
    assert query.verify().equal
    assert Choice.from_json(json.loads(json.dumps(second.to_json()))) == second


def test_which_plans_recompute_is_noted_apart_and_known_of_those_of_before(world: World) -> None:
    choice = world.settled()
    assert {other.method for other in choice.others if other.recomputes} == {"batch"}
    plain = json.loads(json.dumps(choice.to_json()))
    assert all("recomputes" not in other for other in plain["others"]), (
        "what an older version does not know, it cannot read"
    )
    del plain["recomputing"]
    assert Choice.from_json(plain) == choice


def test_nothing_was_planned_where_all_times_but_the_last_may_wait(tmp_path: Path, asked: list[Course | None]) -> None:
    day = Day(tmp_path / "wh", 1.0, 1.0, 1.0, 1.0)
    for _ in range(4):
        day.run(6)
    query = day.wh.query("q")
    assert [step.choice is None for step in query.steps()] == [True, True, True, False]
    assert len(asked) == 1, "nothing is planned before the end of the day"
    assert query.verify().equal


def test_not_if_other_than_expected_comes(day: Day, asked: list[Course | None]) -> None:
    day.run(6)
    day.run(6)
    day.run(6, rows=30_000)
    assert asked == [None] * 3


def test_not_if_rows_leave(day: Day, asked: list[Course | None]) -> None:
    day.run(6)
    day.run(6)
    day.wh.table("sales").delete([(n, "abc"[n % 3], n % 100) for n in range(2000)])  # type: ignore[arg-type]
    day.run(6)
    assert asked == [None] * 3


def test_what_is_cheapest_is_compared_with_how_the_last_run_went(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many rows come: all plans are compared, and the one of the run before is still good enough."""
    usual: list[Course | None] = []

    def noting(problem: Problem, methods: object, **known: Any) -> ProgressivePlan:
        usual.append(known["usual"])
        found = make_plan(problem, methods, **known)  # type: ignore[arg-type]
        return replace(found, cheapest=found.cost - 1) if known["usual"] else found

    monkeypatch.setattr(follow, "make_plan", noting)
    choice = world.settled()
    usual.clear()
    world.arrive(4000)
    text = str(world.query.plan())
    assert usual == [choice.course]
    assert "goes on as the last run did: the cheapest plan" in text
    world.query.plan(methods="im2")
    assert usual[-1] is None, "other methods are another kind"


def test_a_choice_is_read_back(world: World) -> None:
    choice = world.settled()
    assert choice.others
    course = replace(choice.course, orders=(("a join of many", (1, 0, 2)),))
    followed = replace(choice, course=course, latest=choice.cost + 1)
    assert course.methods
    read = Choice.from_json(json.loads(json.dumps(followed.to_json())))
    assert read == followed
    assert read.latest == followed.latest


def counted_since(world: World, seconds: float, later: int, cost: float) -> Follower:
    """One for a run so much later than a choice that it took ``seconds`` to make, for a plan that cost so many times what it costs now:
    for operators have been counted since."""
    settled = world.settled()
    world.arrive(100)
    known = replace(settled.known, given={**settled.known.given, "counted": "fewer"})
    now = world.query.plan().plan.cost
    choice = replace(settled, known=known, seconds=seconds * now / 1e9, cost=round(cost * now), others=(), latest=None)
    return Follower(choice.n + later, [choice], settled.known.driver, settled.known.doubt)


def planned(world: World, follower: Follower, asked: list[Course | None]) -> list[bool]:
    """Of the plans that are made by one, in turn, whether all were compared for them."""
    plan = world.query.plan()
    asked.clear()
    assert plan.problem
    follower(plan.problem, plan.methods)
    return [course is None for course in asked]


@pytest.mark.parametrize(
    ("seconds", "later", "compares"), [(0.35, 1, False), (0.35, 2, False), (0.35, 3, True), (0.0, 1, True)]
)
def test_that_counts_change_what_a_plan_costs_is_a_reason_to_compare_all_when_that_is_cheap_beside_refreshes(
    world: World, asked: list[Course | None], seconds: float, later: int, compares: bool
) -> None:
    """A tenth of what plans were expected to cost."""
    follower = counted_since(world, seconds, later, cost=1.2)
    assert planned(world, follower, asked) == [False, True][: 1 + compares]
    assert (follower.followed is None) == compares


@pytest.mark.parametrize(("cost", "compares"), [(0.7, True), (0.85, True), (0.95, False), (1.05, False), (1.15, True)])
def test_counts_are_no_reason_to_compare_all_where_the_plan_costs_what_it_did(
    world: World, asked: list[Course | None], cost: float, compares: bool
) -> None:
    follower = counted_since(world, seconds=0.0, later=1, cost=cost)
    assert planned(world, follower, asked) == [False, True][: 1 + compares]


def test_what_creeps_from_run_to_run_is_no_news_of_counts(world: World, asked: list[Course | None]) -> None:
    """The plan costs 1.2 times what it did when all were compared, and 1.05 times what it did for the last run that followed."""
    follower = counted_since(world, seconds=0.0, later=2, cost=1 / 1.2)
    plan = world.query.plan()
    assert plan.problem
    (choice,) = follower._choices
    crept = replace(choice, latest=round(plan.plan.cost / 1.05))
    following = Follower(choice.n + 2, [choice, crept], choice.known.driver, choice.known.doubt)
    asked.clear()
    following(plan.problem, plan.methods)
    assert None not in asked
    assert following.choice
    assert following.choice.latest == plan.plan.cost, "what the next run compares with"
    jumped = replace(crept, latest=round(plan.plan.cost / 1.2))
    comparing = Follower(choice.n + 2, [choice, jumped], choice.known.driver, choice.known.doubt)
    comparing(plan.problem, plan.methods)
    assert None in asked


def test_comparing_takes_what_the_clock_says(world: World) -> None:
    world.settled()
    world.arrive(100)
    plan, ticks = world.query.plan(), iter((10.0, 12.5))
    follower = Follower(99, [], 1.0, cpu=lambda: next(ticks))
    assert plan.problem
    follower(plan.problem, plan.methods)
    assert follower.choice
    assert follower.choice.seconds == 2.5


@pytest.mark.parametrize(("times", "follows"), [(0.1, False), (1, True), (30, True)])
def test_more_may_have_changed_since_the_states_that_there_are(world: World, times: float, follows: bool) -> None:
    """Plans that go on from there only become dearer by it; less makes them cheaper than they were when all were compared."""
    known = world.settled().known
    assert known.since["inserted sales 1"] == 100
    assert known.since["inserted returns 1"] == 0
    rows = 10_000 * times
    then, now = (replace(known, since={**known.since, "inserted sales 1": n}) for n in (10_000, rows))
    assert then.is_like(now) == follows
    assert not known.is_like(replace(known, since={**known.since, "inserted returns 1": 1.0})), "rules ask for nothing"
    assert not known.is_like(replace(known, since={}))
    assert not known.is_like(replace(known, changes={**known.changes, "inserted sales 1": rows * 1_000}))


@pytest.mark.parametrize("then", [0.2, 5.0])
def test_other_prices_of_the_driver_are_no_reason_to_compare_all_where_the_plan_is_still_the_cheapest(
    world: World, asked: list[Course | None], then: float
) -> None:
    """Plans were compared when the driver took a fifth of what it takes now, or five times as much."""
    settled = world.settled()
    world.arrive(100)
    assert settled.fixed > 0
    assert all(other.fixed > 0 for other in settled.others)
    follower = Follower(settled.n + 1, [settled.at(then * settled.known.driver)], settled.known.driver)
    assert planned(world, follower, asked) == [False]
    assert follower.followed == settled.n
    assert follower.choice
    assert follower.choice.known.driver == settled.known.driver, (
        "what the next run goes on from is told at prices of now"
    )


def test_at_other_prices_of_the_driver_another_plan_may_be_cheaper(world: World, asked: list[Course | None]) -> None:
    """Of one of the others nearly all is the driver's: it cost twice as much, and now costs next to nothing."""
    settled = world.settled()
    world.arrive(100)
    driver = settled.known.driver
    of_driver = replace(
        settled.others[0], cost=2 * settled.at(100 * driver).cost, fixed=2 * settled.at(100 * driver).cost
    )
    then = replace(settled.at(100 * driver), others=(of_driver,))
    assert then.others[0].cost > then.cost
    assert then.at(driver).others[0].cost < then.at(driver).cost
    follower = Follower(settled.n + 1, [then], driver)
    assert planned(world, follower, asked) == [False, True]
    assert follower.followed is None


def test_a_choice_costs_at_the_same_prices_what_it_did(world: World) -> None:
    choice = replace(world.settled(), latest=1_000_000_000)
    there = choice.at(3 * choice.known.driver)
    assert there.cost - choice.cost == pytest.approx(2 * choice.fixed, abs=1)
    assert there.latest == pytest.approx(1_000_000_000 + 2 * choice.fixed, abs=1)
    back = there.at(choice.known.driver)
    assert (back.cost, back.fixed) == pytest.approx((choice.cost, choice.fixed), abs=2)
    for one, other in zip(choice.others, back.others, strict=True):
        assert (one.cost, one.fixed) == pytest.approx((other.cost, other.fixed), abs=2)


@pytest.mark.parametrize(("doubt", "compares"), [(1.0, False), (1.4, False), (2.2, True)])
def test_a_doubt_is_a_reason_to_compare_all_where_by_it_recomputing_may_be_cheaper(
    world: World, asked: list[Course | None], doubt: float, compares: bool
) -> None:
    settled = world.settled()
    world.arrive(100)
    now = world.query.plan().plan.cost
    batch = next(other for other in settled.others if other.method == "batch")
    choice = replace(settled, others=(replace(batch, cost=round(1.5 * now)),))
    follower = Follower(settled.n + 1, [choice], settled.known.driver, doubt)
    assert settled.known.doubt == 1.0
    assert planned(world, follower, asked) == [False, True][: 1 + compares]


def test_a_doubt_that_is_gone_is_a_reason_to_compare_all_where_recomputing_was_chosen_for_it(world: World) -> None:
    choice = world.settled()
    world.arrive(100)
    plan = replace(world.query.plan().plan, method="batch", recomputes=True)
    by_states = replace(choice.others[0], method="im1", recomputes=False, cost=round(0.7 * plan.cost))
    known = replace(choice.known, doubt=1.4)
    doubted = replace(choice, cost=plan.cost, known=known, others=(by_states,))
    assert doubted.taken(plan, doubt=1.4)
    assert doubted.taken(plan, doubt=1.0) is None
