"""One lineage for values that depend on the physical order of rows: sums of floats, FIRST, collected lists, an ``Opaque``.

A second computation of them may give others, so they are computed once. What was current at an earlier time is there as it was stored
then. And they are computed in one way: from a state that follows from a stored one, where there is such a state; else from the stored
values and their delta, where there is one; else from scratch. Two ways in one plan would take away values that were never emitted. So
they begin at one time in all of a plan, while of other values each class has a beginning of its own.
"""

from collections.abc import Callable

from tempura.physical.operators import StateKey
from tempura.rules.dsl import Origin
from tempura.search.problem import Problem
from tempura.search.rewrites import Rewriter, Rewritten
from tempura.search.space import Goal
from tempura.tvr.staircase import Time
from tempura.tvr.views import Delta, Snapshot, State, View


class Lineage:
    """Which of the things that one set of rules makes of such values may be used, when they begin at the time point ``since``. ``once``
    is the rewriter for such values, ``others`` that for all others; ``number`` is the set of rules among theirs; ``key`` names stored
    views."""

    def __init__(
        self,
        once: Rewriter,
        others: Rewriter,
        number: int,
        problem: Problem,
        since: int,
        key: Callable[[View], StateKey],
    ) -> None:
        self._once = once
        self._others = others
        self._set = 1 << number
        self._problem = problem
        self._since = since
        self._key = key
        self._reachable: dict[View, bool] = {}

    def has_begun(self, view: View) -> bool:
        """Whether a view is of a time since which such values are known."""
        t = view.at.t
        return t >= self._since or (
            isinstance(view.at, Snapshot | State) and self._once.facts.is_unchanged(view.tvr, t, self._since)
        )

    def rewrites(self, goal: Goal) -> tuple[Rewritten, ...]:
        """What the rules make of such a goal, as far as it is the one way."""
        view = goal.view
        if goal.time < self._since or not self.has_begun(view):
            return ()
        made = self._rewrites(view)
        of_states, merged = _by(made, Origin.STATE), _by(made, Origin.STORED)
        if goal.time > max(view.at.time, self._since):
            return of_states
        match view.at:
            case Snapshot() if self._comes_from_states(view, view.at.time):
                return of_states
            case Snapshot() if any(map(self._is_reachable, merged)):
                return merged
            case Delta():
                expected = self._comes_from_states(view, view.at.time)
                return tuple(way for way in made if (way in of_states) == expected)
        return tuple(way for way in made if way not in (*of_states, *merged))

    def _rewrites(self, view: View) -> tuple[Rewritten, ...]:
        rewriter = self._once if self._once.facts.is_computed_once(view.tvr) else self._others
        return tuple(made for made in rewriter.rewrites(view) if made.sets & self._set)

    def _comes_from_states(self, view: View, u: Time) -> bool:
        """Whether the values of an aggregation at a time, and their delta since the time before, can be had from its states."""
        finalized = _by(self._rewrites(View(view.tvr, Snapshot(u))), Origin.STATE)
        if not any(map(self._is_reachable, finalized)):
            return False
        if u <= self._since:
            return True
        deltas = self._rewrites(View(view.tvr, Delta(u - 1, u)))
        return any(map(self._is_reachable, _by(deltas, Origin.STATE)))

    def _is_reachable(self, way: Rewritten) -> bool:
        """Whether rules lead from tables, and from stored states, to the deltas and states that a right side needs."""
        return all(map(self._can_be_had, way.views))

    def _can_be_had(self, view: View) -> bool:
        """Whether there is a way to a delta or state. What needs itself cannot be had; a snapshot always can, from scratch."""
        if isinstance(view.at, Snapshot):
            return True
        if isinstance(view.at, State) and self._key(view) in self._problem.states:
            return True
        if view not in self._reachable:
            self._reachable[view] = False
            is_past = isinstance(view.at, State) and view.at.time < self._problem.first
            self._reachable[view] = not is_past and any(map(self._is_reachable, self._rewrites(view)))
        return self._reachable[view]


def _by(made: tuple[Rewritten, ...], origin: Origin) -> tuple[Rewritten, ...]:
    return tuple(way for way in made if way.rule.origin is origin)
