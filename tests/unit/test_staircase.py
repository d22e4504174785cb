"""Restricted vectors of time: every relation has one name for each point at which its own tables stand differently."""

from fractions import Fraction

import pytest

from tempura.algebra.rel import Join, Rel, Scan
from tempura.algebra.scalar import Column, Ref, equal
from tempura.cost.stats import TableFacts
from tempura.memo.memo import Memo
from tempura.rules.methods import TEMPURA
from tempura.search.facts import PlanFacts
from tempura.search.graph import Graph
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem, staircase
from tempura.search.rewrites import Rewriter
from tempura.search.space import Space
from tempura.tvr.staircase import TOGETHER, Staircase, Time, whole
from tempura.tvr.views import Delta, Snapshot, View

THIRD = Fraction(1, 3)
ORDER = Staircase(("r", "s", "t"))


def test_tables_move_on_one_after_the_other() -> None:
    points: tuple[Time, ...] = (0, THIRD, 2 * THIRD, 1, 1 + THIRD, 2)
    seen = {name: [ORDER.seen(name, p) for p in points] for name in "rst"}
    assert seen == {"r": [0, 1, 1, 1, 2, 2], "s": [0, 0, 1, 1, 1, 2], "t": [0, 0, 0, 1, 1, 2]}


@pytest.mark.parametrize(
    ("tables", "names"),
    [
        ("r", (1, 1)),
        ("t", (0, 0)),
        ("s", (0, 1)),
        ("rt", (THIRD, THIRD)),
        ("rs", (THIRD, 1)),
        ("st", (0, 2 * THIRD)),
        ("rst", (THIRD, 2 * THIRD)),
        ("", (0, 0)),
        ("never changes", (0, 0)),
    ],
)
def test_points_are_restricted_to_the_tables_that_are_read(tables: str, names: tuple[Time, Time]) -> None:
    read = {tables} if len(tables) > 3 else set(tables)
    first, second = (ORDER.projected(read, p) for p in (THIRD, 2 * THIRD))
    assert (first, second) == names or not read & set(ORDER.order)
    between = {p for p in (first, second) if p not in (0, 1)}
    assert set(ORDER.between(read, 1)) == between
    for name in read & set(ORDER.order):
        assert [ORDER.seen(name, p) for p in (first, second)] == [ORDER.seen(name, p) for p in (THIRD, 2 * THIRD)]


def test_only_times_of_the_plan_are_whole() -> None:
    assert whole(2) == 2
    with pytest.raises(ValueError, match="1/3 is not a time of the plan"):
        whole(THIRD)


# --- in a plan ---

_A, _B, _C, _D = (Column(name, name, "int") for name in "abcd")
R, S = Scan("r", ("a", "b"), (_A, _B)), Scan("s", ("c", "d"), (_C, _D))


def facts(*changes: int) -> TableFacts:
    """A table with 10 rows at first, and some more at each later time."""
    counts = tuple(10 + sum(changes[:i]) for i in range(len(changes) + 1))
    return TableFacts(inserted=counts, deleted=(1,) * len(counts), known=len(counts))


def rewriter(query: Rel, r: TableFacts, s: TableFacts) -> Rewriter:
    return Rewriter(space(query, r, s), (TEMPURA.rules_of(("im1",)),), 0)


def space(query: Rel, r: TableFacts, s: TableFacts) -> Space:
    return Space(Problem(query, (Point(1.0, output=True),) * len(r.inserted), {"r": r, "s": s}))


LEFT = Join(R, S, "left", equal(Ref(_A), Ref(_C)))


def test_the_table_with_the_fewest_changes_moves_first() -> None:
    tables = {"large": facts(9, 9), "static": facts(0, 0), "small": facts(1, 2), "also": facts(2, 1)}
    assert staircase(tables) == Staircase(("also", "small", "large"))


def test_a_snapshot_has_one_name_whatever_happened_to_other_tables() -> None:
    plan = rewriter(LEFT, facts(1, 1), facts(2, 2))
    half = Fraction(1, 2)
    assert plan.normalise(View(R, Snapshot(half))) == plan.normalise(View(R, Snapshot(1)))
    assert plan.normalise(View(S, Snapshot(half))) == plan.normalise(View(S, Snapshot(0)))
    assert plan.normalise(View(R, Delta(0, half))) == plan.normalise(View(R, Delta(0, 1)))
    assert plan.normalise(View(S, Delta(half, 1))) == plan.normalise(View(S, Delta(0, 1)))
    assert plan.facts.normal(LEFT, Delta(0, half)) == Delta(0, half)
    assert plan.facts.normal(S, Delta(0, half)) is None, "S has not moved yet"


def test_between_is_where_some_tables_have_moved_and_others_will() -> None:
    plan = rewriter(LEFT, facts(1, 1), facts(2, 0))
    assert plan.facts.between(LEFT, 0, 1) == (Fraction(1, 2),)
    assert plan.facts.between(LEFT, 1, 2) == (), "only r changes"
    assert plan.facts.between(LEFT, 0, 2) == (), "a wide delta leads from time to time"
    assert plan.facts.between(R, 0, 1) == ()


def deltas(query: Rel, r: TableFacts, s: TableFacts) -> set[str]:
    """What the rule that moves table by table makes of the first delta: the deltas that are needed."""
    known = space(query, r, s)
    found = Rewriter(known, (TEMPURA.rules_of(("im1",)),), 0).rewrites(View(known.memo.own(known.query), Delta(0, 1)))
    return {made.label for way in found if way.rule.name == "delta_join_table_by_table" for made in way.views}


def test_a_delta_is_the_sum_of_those_along_the_staircase() -> None:
    assert deltas(LEFT, facts(1), facts(2)) == {"(r ⟕ s)[0:1/2]", "(r ⟕ s)[1/2:1]"}


def test_a_relation_that_reads_one_changing_table_twice_has_no_points_between() -> None:
    again = Scan("r", ("a", "b"), (_C, _D))
    assert deltas(Join(R, again, "left", equal(Ref(_A), Ref(_C))), facts(1), facts(0)) == set()


def test_what_lies_between_times_is_never_stored() -> None:
    plan = Graph(space(LEFT, facts(1, 1), facts(2, 2)), TEMPURA.rules_of(("im1",)))
    halfway = plan.goal(View(plan.memo.own(plan.query), Snapshot(Fraction(1, 2))), 2)
    assert halfway.view.at.time == 1
    assert not [way for way in plan.alternatives(halfway) if way.rule is None]


def test_at_times_only_without_a_staircase() -> None:
    tables = {"r": facts(1), "s": facts(2)}
    assert PlanFacts(tables, Memo(), 0, TOGETHER).between(LEFT, 0, 1) == ()
    assert make_plan(Problem(LEFT, (Point(1.0, True),) * 2, tables), ("im1",)).cost > 0
