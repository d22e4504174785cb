"""After a loss the next plan knows: where plans with states took more than was promised, they have to promise as much more."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tempura.execute.contract import Usage
from tempura.explain.character import BUILT, MAINTAINED, NOTHING, RECOMPUTED, Character
from tempura.plan.progressive import Alternative, Course, ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import MARGIN, Point, Problem
from tempura.warehouse.query import Query
from tempura.warehouse.times.correction import NONE, WARM_STEPS, Correction
from tempura.warehouse.times.doubt import NO_DOUBT, Doubt, doubt_of
from tempura.warehouse.times.follow import Choice, Known
from tempura.warehouse.times.steps import StepManifest
from tests.unit import test_follow
from tests.unit.bag_engine import COUNT
from tests.unit.test_churn import VIEWS
from tests.unit.test_follow import World
from tests.unit.test_reports import facts
from tests.unit.test_steady import as_if_large

S = 1_000_000_000
KNOWN = Correction(1.0, 5)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "wh")


@pytest.fixture
def step(world: World) -> StepManifest:
    world.run()
    known = {"estimated_cost": S, "estimated_fixed": S // 10, "steps_run": WARM_STEPS, "driver_seconds": 0.1}
    return replace(world.query.steps()[0], **known)  # type: ignore[arg-type]


Runs = Callable[..., list[StepManifest]]


@pytest.fixture
def runs(step: StepManifest) -> Runs:
    """Runs of a kind that took so many times what was estimated, a second each."""

    def made(kind: str, *taken: float, **known: Any) -> list[StepManifest]:
        states = step.states if kind == MAINTAINED else ()
        one = replace(step, does=Character(kind), states=states)
        return [replace(one, cpu_seconds=factor - 0.1, **known) for factor in taken]

    return made


def doubt(found: list[StepManifest], correction: Correction = KNOWN) -> Doubt:
    return doubt_of(found, WARM_STEPS, "built in", correction)


def said(found: list[StepManifest]) -> tuple[float, int]:
    return round(doubt(found).factor, 6), doubt(found).runs


def test_a_loss_is_doubt(runs: Runs) -> None:
    first = runs(MAINTAINED, 9.0)
    assert said([*first, *runs(MAINTAINED, 2.0, 2.0)]) == (2.0, 2)
    # The middle of the last ones, bounded.
    assert said([*first, *runs(MAINTAINED, 90.0, 1.0, 2.0, 2.0, 3.0, 2.5)]) == (2.0, 5)
    assert said([*first, *runs(MAINTAINED, 90.0, 90.0)]) == (8.0, 2)


@pytest.mark.parametrize("taken", [(1.0, 1.0, 1.0), (1.2, 1.25, 1.3), (0.3, 0.4), (5.0,), ()])
def test_promises_that_are_kept_are_none(runs: Runs, taken: tuple[float, ...]) -> None:
    assert doubt([*runs(MAINTAINED, 9.0), *runs(MAINTAINED, *taken)]) == NO_DOUBT


def test_a_slow_machine_is_none(runs: Runs) -> None:
    """All plans take twice as much: that is no reason to choose another."""
    both = [*runs(RECOMPUTED, 2.0, 2.0, 2.1), *runs(MAINTAINED, 2.0, 1.9, 2.0)]
    assert doubt([*runs(MAINTAINED, 9.0), *both]) == NO_DOUBT
    quick = [*runs(RECOMPUTED, 0.5, 0.5), *runs(MAINTAINED, 1.0, 1.0)]
    assert said([*runs(MAINTAINED, 9.0), *quick]) == (2.0, 2)


def test_one_result_from_the_tables_tells_what_all_plans_take(runs: Runs) -> None:
    """Days of which only the first computed its result from the tables: it took as many times what was estimated."""
    lost = runs(MAINTAINED, 1.8, 1.7, 1.8)
    nothing = runs(NOTHING, 0.1)
    assert said([*nothing, *lost]) == (1.8, 3)
    assert doubt([*nothing, *runs(BUILT, 1.5), *lost]) == NO_DOUBT
    assert said([*nothing, *runs(BUILT, 0.9), *lost]) == (2.0, 3)


def test_what_the_driver_takes_is_corrected_apart(runs: Runs) -> None:
    """The driver took ten times what was expected: a second of two in all. As corrected by now, nothing was wrong."""
    slow = runs(MAINTAINED, 9.0, 1.0, 1.0, 1.0, driver_seconds=1.0)
    assert doubt(slow, NONE) == NO_DOUBT
    assert doubt(slow, Correction(8.0, 3)) == NO_DOUBT
    assert doubt(slow, KNOWN).factor == pytest.approx(1.9)
    # Those that were estimated with that correction say the same.
    again = [replace(run, correction=8.0, estimated_cost=S + 7 * (S // 10)) for run in slow]
    assert doubt(again, Correction(8.0, 3)) == NO_DOUBT


def test_what_tasks_make_the_driver_take_does_not_count(runs: Runs) -> None:
    """Tasks took 1.2 s and the driver 0.24 s more than was estimated, a fifth of that."""
    slow = runs(MAINTAINED, 9.0, 1.3, 1.3, 1.3, driver_seconds=0.34)
    assert doubt(slow).factor == pytest.approx(1.54)
    assert doubt_of(slow, WARM_STEPS, "built in", KNOWN, beside_tasks=0.2) == NO_DOUBT
    # What they took themselves does.
    lost = runs(MAINTAINED, 9.0, 2.1, 2.1, 2.1, driver_seconds=0.5)
    assert doubt_of(lost, WARM_STEPS, "built in", KNOWN, beside_tasks=0.2).factor == pytest.approx(2.1)


def test_other_sessions_and_old_runs_do_not_count(runs: Runs) -> None:
    lost = runs(MAINTAINED, *[3.0] * 4)
    assert doubt([*lost, *runs(RECOMPUTED, *[1.0] * 13)]).factor == pytest.approx(3.0)
    assert doubt([*lost, *runs(RECOMPUTED, *[1.0] * 16)]) == NO_DOUBT, "it is tried again"
    for known in ({"steps_run": 0}, {"steps_run": None}, {"prices": "calibrated"}):
        assert doubt(runs(MAINTAINED, *[3.0] * 4, **known)) == NO_DOUBT


# --- plans ----------------------------------------------------------------------------------------------------------


def test_what_is_doubted_has_to_promise_as_much_more() -> None:
    points = (Point(0.25, False), Point(1.0, True))
    tables = {"sales": facts(40_000_000, 44_000_000), "returns": facts(3_900_000, 4_000_000)}
    tables = {name: replace(table, known=1) for name, table in tables.items()}
    asked = Problem(VIEWS["inner"](), points, tables)
    free, batch = make_plan(asked), make_plan(asked, ("batch",))
    gain = batch.cost / free.cost
    assert gain > 1.5, "work ahead is worth it"
    just, more = (1 - MARGIN) * gain * 0.99, (1 - MARGIN) * gain * 1.01
    assert make_plan(asked, margin=MARGIN, doubt=just).cost == free.cost
    doubted = make_plan(asked, margin=MARGIN, doubt=more)
    assert (doubted.method, doubted.cost) == ("batch", batch.cost)


def taking(world: World, factor: float) -> None:
    """From now on plans with states take so many times what they promise; to recompute takes what was promised."""
    engine: Any = world.wh.query("q")._site.engine
    engine.is_measured, engine.steps_run = True, 50
    execute = type(engine).execute

    def executed(work: Any) -> Any:
        step = work.step
        of_rows = (step.cost - step.fixed) / 1e9 * (1.0 if step.is_recomputation else factor)
        return replace(execute(engine, work), usage=Usage(cpu_seconds=of_rows, driver_seconds=step.fixed / 1e9))

    engine.execute = executed


def kinds(query: Query) -> list[str]:
    return [run.does.kind for run in query.steps() if run.does]


@pytest.fixture
def paying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A view that is maintained, because that is estimated to save a fifth."""
    monkeypatch.setattr(test_follow, "PRICES", as_if_large(1000))
    world = World(tmp_path / "paying")
    world.run()
    return world


def test_after_a_loss_the_next_plan_knows(paying: World) -> None:
    """Maintained runs take fifty times what they promise: once that is known, the view is recomputed, and says why."""
    taking(paying, 50.0)
    for _ in range(7):
        paying.refresh(300)
    lost = [run for run in paying.query.steps()[1:] if run.does and run.does.kind == MAINTAINED]
    assert 2 <= len(lost) <= 3
    assert set(kinds(paying.query)[-3:]) == {RECOMPUTED}
    paying.arrive(300)
    plan = paying.query.plan()
    assert (plan.method, plan.doubt) == ("batch", Doubt(8.0, len(lost)))
    assert "plans with states x 8.0 against recomputing" in plan.explain()
    assert plan.to_json()["doubt"] == {"factor": 8.0, "runs": len(lost)}
    others = [a.cost for a in plan.plan.alternatives if not a.chosen]
    assert min(others) < plan.cost, "it promises more than recomputing all the same"
    assert any("took more than was promised before" in why for why in plan.does[plan.steps[0].time].why)


def test_what_another_query_lost_does_not_count(paying: World) -> None:
    """The runs of before a replacement were of other plans."""
    taking(paying, 50.0)
    for _ in range(5):
        paying.refresh(300)
    assert paying.query.plan().doubt.runs
    paying.wh.replace_query("q", COUNT)
    paying.arrive(300)
    assert paying.query.plan().doubt == NO_DOUBT


def test_without_a_loss_it_goes_on(paying: World) -> None:
    taking(paying, 1.0)
    for _ in range(7):
        paying.refresh(300)
    assert set(kinds(paying.query)[-5:]) == {MAINTAINED}
    assert paying.query.plan().doubt == NO_DOUBT


def test_a_run_follows_no_choice_that_was_made_in_less_doubt_if_recomputing_is_cheaper_by_now(paying: World) -> None:
    known = Known.of(Problem(VIEWS["inner"](), (Point(1.0, True),), {}), ("all",), 1.0, 1.0)
    assert known.is_like(replace(known, doubt=1.2))
    choice = Choice(1, Course(0, "BOTH", ()), S, known, (Alternative("batch", round(1.5 * S), (), 0, recomputes=True),))
    by_states = ProgressivePlan((), (), S, "im1")
    assert choice.taken(by_states, doubt=1.2)
    assert choice.taken(by_states, doubt=1.45)
    assert choice.taken(by_states, doubt=1.55) is None
    in_doubt = replace(choice, known=replace(known, doubt=1.55))
    assert in_doubt.taken(by_states, doubt=1.55), "that had been thought of"
    data = choice.to_json()
    del data["known"]["doubt"]
    assert Choice.from_json(data) == choice, "what was chosen before there was doubt"
