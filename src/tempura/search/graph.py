"""The plan space as a graph: goals (a view, computed at a time) and the alternatives by which each can be reached.

Alternatives come from rules (an expression over views that have to be there at the same time) or from loading what was
saved at an earlier time. The graph is cyclic (snapshot = snapshot + delta, delta = snapshot - snapshot); choosing copes with that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tempura.algebra.rel import Aggregate, Rel
from tempura.cost.stats import StoredFacts
from tempura.physical.deletions import are_few
from tempura.physical.growth import Growth, growth
from tempura.physical.operators import Load, StateKey
from tempura.rules.dsl import Rule
from tempura.search.events import GroupCreated
from tempura.search.lineage import Lineage
from tempura.search.rewrites import Rewriter
from tempura.search.space import Goal, Keep, Space
from tempura.tvr.staircase import whole
from tempura.tvr.views import Snapshot, State, View

ONE_PART = StoredFacts()
"""How a stored state lies of which nothing else is said."""


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
        self.counts = space.counts
        self.tell = space.tell
        self.model = space.model
        self.cost = space.cost
        self.start = start
        self._rewriter = Rewriter(space, rules, start)
        self.facts = self._rewriter.facts
        self.lineage = Lineage(self._rewriter, self.problem, start, self.key)
        self._alternatives: dict[Goal, tuple[Alternative, ...]] = {}
        self._growths: dict[Alternative, Growth | None] = {}
        self._lying: dict[View, StoredFacts] = {}

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
            if not late or made.rule.any_time:
                needed = tuple(self.goal(v, goal.time) for v in made.views)
                yield Alternative(made.rule, made.rhs, needed, self.weighted(made.cost, goal.time), made.member)

    def _loads(self, goal: Goal) -> Iterator[Alternative]:
        """Load a snapshot or state that was saved when it became current."""
        view, made = goal.view, goal.view.at.time
        if made >= goal.time or not isinstance(view.at, Snapshot | State) or made != view.at.t:
            return
        key = self.key(view)
        load = Load(key, view.columns, view.label)
        cost = self.weighted(self.load_cost(view), goal.time)
        first, keep = self.problem.first, self._space.keep
        if key in self.problem.states and (goal.time == first or keep is not Keep.NEW or self.is_kept(view)):
            yield Alternative(None, load, (), cost)
        if made > first or (made == first and keep is not Keep.PAST):
            save = self.save_cost(view, self._least_growth(view))
            yield Alternative(None, load, (self.goal(view, made),), cost + self.weighted(save, made))

    def is_kept(self, view: View) -> bool:
        """Whether a view that was saved in the past is the same at the first point: a step that saves others keeps it with them, and
        need not write it again."""
        return self.key(view) in self.problem.states and self.facts.is_unchanged(view.tvr, 0, self.problem.first)

    # --- what it costs to keep a view ---

    def save_cost(self, view: View, grown: Growth | None) -> int:
        """What it costs to save a view, of what it grows from only the delta, at weight one."""
        rows = self.estimate.rows(grown.delta if grown else view)
        return self.model.write(rows, self.estimate.width(view), isinstance(view.at, State))

    def load_cost(self, view: View) -> int:
        """What it costs to load a view that was saved, at weight one."""
        return self.load_parts(view)[0]

    def load_parts(self, view: View) -> tuple[int, int]:
        """The same, and the part of it that does not depend on rows."""
        rows, width, lies = self.estimate.rows(view), self.estimate.width(view), self._lies(view)
        return self.model.parts(lambda model: model.load(rows, width, lies))

    def growth_by(self, goal: Goal, way: Alternative) -> Growth | None:
        """How a view that is reached in this way grows out of another, if that one is stored; None when it does not."""
        if way not in self._growths:
            found = growth(way.rhs, lambda rel: self._may_be_stored(rel, goal.time)) if way.rule else None
            self._growths[way] = found
        return self._growths[way]

    def _may_be_stored(self, rel: Rel, before: int) -> bool:
        if not isinstance(rel, View) or not isinstance(rel.at, Snapshot | State) or rel.at.time != rel.at.t:
            return False
        return rel.at.time < before and (rel.at.time >= self.problem.first or self.key(rel) in self.problem.states)

    def _least_growth(self, view: View) -> Growth | None:
        """How a view grows when it becomes current, in the way that adds the fewest rows."""
        goal = self.goal(view, view.at.time)
        found = (grown for way in self.alternatives(goal) if (grown := self.growth_by(goal, way)))
        return min(found, key=lambda grown: self.estimate.rows(grown.delta), default=None)

    def _lies(self, view: View) -> StoredFacts:
        """How a view lies on disk, or will once it is saved."""
        if view not in self._lying:
            self._lying[view] = self._lies_anew(view)
        return self._lying[view]

    def _lies_anew(self, view: View) -> StoredFacts:
        key = self.key(view)
        if key in self.problem.states:
            return self.problem.stored.get(key, ONE_PART)
        grown = self._least_growth(view)
        if grown is None:
            keys = len(view.tvr.keys) if isinstance(view.tvr, Aggregate) and isinstance(view.at, State) else 0
            return StoredFacts(bucket=tuple(range(keys)))
        assert isinstance(grown.base, View)
        added, rows, size = self.estimate.rows(grown.delta), self.estimate.rows(view), self.estimate.width(view)
        few = added if not grown.slots and are_few(added * size, rows * size) else None
        return self._lies(grown.base).grown(grown.is_merged, few)

    def key(self, view: View) -> StateKey:
        """The name under which a view is stored."""
        kind = "snapshot" if isinstance(view.at, Snapshot) else "state"
        return StateKey(self.memo.fingerprint(view.tvr), kind, whole(view.at.t))
