"""The plan space as a graph: goals (a view, computed at a time) and the alternatives by which each can be reached.

Alternatives come from rules (an expression over views that have to be there at the same time) or from loading what was
saved at an earlier time. The graph is cyclic (snapshot = snapshot + delta, delta = snapshot - snapshot); choosing copes with that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tempura.algebra.rel import Rel
from tempura.cost.stats import StoredFacts
from tempura.physical.operators import Load, StateKey
from tempura.rules import core, delta_aggregate, im2
from tempura.rules.dsl import Rule
from tempura.search.events import GroupCreated
from tempura.search.lineage import Lineage
from tempura.search.rewrites import Rewriter
from tempura.search.space import Goal, Keep, Space
from tempura.tvr.staircase import whole
from tempura.tvr.views import Snapshot, State, View

ANY_TIME = (
    core.snapshot_of_inputs,
    core.recompute_snapshot,
    delta_aggregate.finalize_state,
    im2.merge_parts,
    im2.merge_states_of_parts,
    im2.hold_back,
    im2.hold_back_state,
)
"""Rules that may make a view later than when it becomes current. The others make it then, and who needs it later loads it:
incremental work is done once."""


_ONE_PART = StoredFacts()


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """A way to reach a goal. ``cost`` is weighted by the prices of the time points involved. ``rule`` made it of ``member``, an
    operator that computes the goal's TVR; both are None when the view is loaded; then ``goals`` is the goal that saves it, or
    nothing when it is stored already."""

    rule: Rule | None
    rhs: Rel
    goals: tuple[Goal, ...]
    cost: int
    member: Rel | None = None


class Graph:
    """Goals and alternatives of one planning problem under a set of rules, made on demand and remembered. Incremental work
    begins at the time point ``start``: there snapshots are computed from scratch."""

    def __init__(self, space: Space, rules: tuple[Rule, ...], start: int = 0) -> None:
        self._space = space
        self.problem = space.problem
        self.query = space.query
        self.memo = space.memo
        self.estimate = space.estimate
        self.tell = space.tell
        self.model = space.model
        self.start = start
        self._rewriter = Rewriter(space, rules, start)
        self.facts = self._rewriter.facts
        self.lineage = Lineage(self._rewriter, self.problem, start, self.key)
        self._alternatives: dict[Goal, tuple[Alternative, ...]] = {}

    @cached_property
    def outputs(self) -> tuple[Goal, ...]:
        """The goals to have the query's result when it is due."""
        points = self.problem.points
        return tuple(self.output(t) for t in range(self.problem.first, len(points)) if points[t].output)

    def output(self, t: int) -> Goal:
        """The goal to have the query's result at t."""
        query = View(self.memo.own(self.query), Snapshot(t))
        view = self._rewriter.normalise(query)
        # A query that is nothing but a table or a constant is read where others use it, and computed where it is the result.
        return self.goal(view if isinstance(view, View) else query, t)

    def goal(self, view: View, t: int) -> Goal:
        """The goal to have a view at t."""
        return self._space.goal(view, t)

    def weighted(self, cost: int, t: int) -> int:
        """A cost at the price of a time point."""
        return round(cost * self.problem.points[t].weight)

    def alternatives(self, goal: Goal) -> tuple[Alternative, ...]:
        """All ways to reach a goal."""
        if goal not in self._alternatives:
            self._alternatives[goal] = ways = tuple(self._ways(goal))
            self.tell(GroupCreated(goal.view, goal.time, len(ways)))
        return self._alternatives[goal]

    def _ways(self, goal: Goal) -> Iterator[Alternative]:
        view = goal.view
        yield from self._loads(goal)
        late = goal.time > (view.at.time if self._space.strict else max(view.at.time, self.problem.first))
        of_one_lineage = self.lineage.applies_to(goal)
        for made in self.lineage.rewrites(goal) if of_one_lineage else self._rewriter.rewrites(view):
            if not late or made.rule in ANY_TIME:
                needed = tuple(self.goal(v, goal.time) for v in made.views)
                yield Alternative(made.rule, made.rhs, needed, self.weighted(made.cost, goal.time), made.member)

    def _loads(self, goal: Goal) -> Iterator[Alternative]:
        """Load a snapshot or state that was saved when it became current."""
        view, made = goal.view, goal.view.at.time
        if made >= goal.time or not isinstance(view.at, Snapshot | State) or made != view.at.t:
            return
        key = self.key(view)
        load = Load(key, view.columns, view.label)
        rows, row_bytes = self.estimate.rows(view), self.estimate.width(view)
        cost = self.weighted(self.load_cost(view), goal.time)
        first, keep = self.problem.first, self._space.keep
        if key in self.problem.states and (goal.time == first or keep is not Keep.NEW):
            yield Alternative(None, load, (), cost)
        if made > first or (made == first and keep is not Keep.PAST):
            save = self.weighted(self.model.write(rows, row_bytes), made)
            yield Alternative(None, load, (self.goal(view, made),), cost + save)

    def load_cost(self, view: View) -> int:
        """What it costs to load a view that was saved, at weight one."""
        return self.load_parts(view)[0]

    def load_parts(self, view: View) -> tuple[int, int]:
        """The same, and the part of it that does not depend on rows."""
        stored = self.problem.stored.get(self.key(view), _ONE_PART)
        rows, width = self.estimate.rows(view), self.estimate.width(view)
        return self.model.parts(lambda model: model.load(rows, width, stored))

    def key(self, view: View) -> StateKey:
        """The name under which a view is stored."""
        kind = "snapshot" if isinstance(view.at, Snapshot) else "state"
        return StateKey(self.memo.fingerprint(view.tvr), kind, whole(view.at.t))
