"""What runs have counted: operators and views are found again one time later, and are expected to be off by as much as they were."""

from dataclasses import replace

import pytest

from tempura.algebra.rel import Filter, Join, Rel, Scan, Support
from tempura.algebra.scalar import Call, Column, Literal, Ref
from tempura.physical.operators import Read
from tempura.plan.progressive import ProgressivePlan, Size
from tempura.search.counts import counted_names
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tempura.tvr.views import Delta, Snapshot, View
from tests.plans.test_planner import facts, summary

REFRESHES = (Point(1.0, True, done=True), Point(1.0, True), Point(1.0, True))
SALES, RETURNS = facts(1_000_000, 1_010_000, 1_020_000, known=2), facts(200_000, 202_000, 204_000, known=2)


def refresh(**counted: tuple[float, float]) -> Problem:
    return Problem(summary(), REFRESHES, {"sales": SALES, "returns": RETURNS}, counted=counted)


def affected(space: Space, t: int) -> Rel:
    """The sales before t that match a return which changed up to then."""
    join = next(m.rel for edge in space.memo.classes for m in space.memo.members(edge) if isinstance(m.rel, Join))
    changed = Support(View(join.right, Delta(t - 1, t)))
    return Join(View(join.left, Snapshot(t - 1)), changed, "semi", join.on)


def sizes(plan: ProgressivePlan, time: int) -> dict[str, float]:
    """The names of what a step computes, and the rows expected of it."""
    step = plan.step_at(time)
    return {size.name: note.rows for note in step.notes.values() for size in note.sizes}


def test_an_operator_has_the_same_name_one_time_later() -> None:
    space = Space(refresh())
    now, later = (space.counts.name(affected(space, t)) for t in (1, 2))
    assert now is not None
    assert now == later
    assert space.counts.name(affected(space, 1).inputs[1]) is None, "what is grouped has the rows of its input"


def test_names_tell_views_apart() -> None:
    space = Space(refresh())
    join = affected(space, 1)
    assert isinstance(join, Join)
    left = join.left
    assert isinstance(left, View)
    others = [
        replace(join, kind="anti"),
        replace(join, left=View(left.tvr, Snapshot(1))),
        replace(join, right=Support(View(left.tvr, Delta(0, 1))), on=join.on),
    ]
    names = [space.counts.name(rel) for rel in (join, *others)]
    assert len(set(names)) == len(names)


def test_another_problem_finds_what_one_has_counted() -> None:
    size = counted_size(Space(refresh()))
    other = Space(refresh(**{size.name: (7.0, size.expected)}))
    assert round(other.estimate.rows(affected(other, 1))) == 8
    assert round(other.estimate.rows(affected(other, 2))) == 8


def counted_size(space: Space) -> Size:
    size = space.counts.size(affected(space, 1))
    assert size is not None
    assert size.expected > 1_000
    return size


def test_what_was_counted_grows_with_what_is_expected() -> None:
    size = counted_size(Space(refresh()))
    twice = {"sales": SALES, "returns": facts(200_000, 204_000, 208_000, known=2)}
    space = Space(replace(refresh(**{size.name: (99.0, size.expected)}), tables=twice))
    expected = space.estimate.rows(affected(space, 1))
    assert 180 < expected < 220


def test_a_plan_says_what_its_rows_are_remembered_as_and_which_were_counted() -> None:
    plan = make_plan(refresh(), ("im1",))
    names = sizes(plan, 1)
    assert names
    assert not any(note.counted for note in plan.step_at(1).notes.values())
    again = make_plan(refresh(**dict.fromkeys(names, (0.0, 1e6))), ("im1",))
    counted = [note for note in again.step_at(1).notes.values() if note.counted]
    assert counted
    assert all(note.rows < 10 for note in counted)
    assert again.cost < plan.cost


def new_matches(space: Space, t: int) -> Join:
    """The new sales of t with the returns that they match."""
    join = next(m.rel for edge in space.memo.classes for m in space.memo.members(edge) if isinstance(m.rel, Join))
    return Join(View(join.left, Delta(t - 1, t)), View(join.right, Snapshot(t)), "inner", join.on)


def test_what_is_new_is_expected_to_be_off_as_all_rows_were() -> None:
    """Until a run has counted it itself."""
    space = Space(refresh())
    new, all_rows = new_matches(space, 2), Join(*_all(new_matches(space, 2), 2), "inner", new_matches(space, 2).on)
    size = space.counts.size(all_rows)
    assert size is not None
    before = space.estimate.rows(new)
    told = refresh(**{size.name: (size.expected / 10, size.expected)})
    other = Space(told)
    assert other.estimate.rows(new_matches(other, 2)) == pytest.approx(before / 10, rel=0.01)
    assert not other.estimate.is_counted(new_matches(other, 2)), "that is a guess"
    assert other.estimate.is_counted(Join(*_all(new_matches(other, 2), 2), "inner", new_matches(other, 2).on))
    own = space.counts.size(new)
    assert own is not None
    both = Space(replace(told, counted={**told.counted, own.name: (before * 3, own.expected)}))
    assert both.estimate.rows(new_matches(both, 2)) == pytest.approx(before * 3, rel=0.01), "what was counted says more"


def _all(join: Join, t: int) -> tuple[View, View]:
    left, right = join.inputs
    assert isinstance(left, View)
    assert isinstance(right, View)
    return View(left.tvr, Snapshot(t)), View(right.tvr, Snapshot(t))


PRICE = Column("p", "price", "int")
DEAR = Call("GreaterThan", (Ref(PRICE), Literal(5, "int")), "boolean")


def dear(price: Column = PRICE) -> Filter:
    """What is dear of a table."""
    return Filter(Scan("sales", ("price",), (price,)), Call("GreaterThan", (Ref(price), Literal(5, "int")), "boolean"))


def test_a_condition_over_a_table_is_found_again_by_who_knows_no_times() -> None:
    counts, scan = Space(refresh()).counts, Scan("sales", ("price",), (PRICE,))
    whole, new = (counts.name(Filter(Read(scan, at), DEAR)) for at in (Snapshot(1), Delta(0, 1)))
    assert whole is not None
    assert new is not None
    assert whole != new
    assert whole == counts.name(Filter(Read(scan, Snapshot(2)), DEAR))
    renamed = dear(Column("q", "cost", "int"))
    assert counted_names(renamed) == (whole, new), "all rows tell more than the new ones"
    assert not {whole, new} & set(counted_names(Filter(renamed, DEAR)))
