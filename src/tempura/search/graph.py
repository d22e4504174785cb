"""The plan space as a graph: goals (a view, computed at a time) and the alternatives by which each can be reached.

Alternatives come from rules (an expression over views that have to be there at the same time) or from loading what was
saved at an earlier time. The graph is cyclic (snapshot = snapshot + delta, delta = snapshot - snapshot); choosing copes with that.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tempura.algebra.canonical import fingerprint
from tempura.algebra.rel import Rel, Scan, Values, empty
from tempura.cost.estimate import Estimator, width
from tempura.cost.model import CostModel
from tempura.physical.operators import Load, StateKey
from tempura.rules import core, delta_aggregate, im2
from tempura.rules.dsl import Rule
from tempura.rules.prune import prune
from tempura.search.facts import PlanFacts, must_run_at_its_time
from tempura.search.links import ClassLinks
from tempura.search.problem import Problem
from tempura.tvr.views import Delta, Snapshot, State, Time, View

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


@dataclass(frozen=True, slots=True)
class Goal:
    """A view that is needed at ``time``."""

    view: View
    time: Time

    def __str__(self) -> str:
        return f"{self.view.label} at {self.time}"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A way to reach a goal. ``cost`` is weighted by the prices of the time points involved. ``rule`` is None when the view is
    loaded; then ``goals`` is the goal that saves it, or nothing when it is stored already."""

    rule: Rule | None
    rhs: Rel
    goals: tuple[Goal, ...]
    cost: int


class Graph:
    """Goals and alternatives of one planning problem under a set of rules, made on demand and remembered. Incremental work
    begins at the time point ``start``: there snapshots are computed from scratch."""

    def __init__(self, problem: Problem, rules: tuple[Rule, ...], model: CostModel, start: Time = 0) -> None:
        self.problem = problem
        self.start = start
        self.facts = PlanFacts(problem.tables, start)
        self.estimate = Estimator(problem.tables)
        self.model = model
        self.links = ClassLinks(rules, self.facts)
        self._rules = tuple(rule for rule in rules if not rule.splits)
        self._rewritten: dict[View, tuple[tuple[Rule, Rel, int, tuple[View, ...]], ...]] = {}
        self._fingerprints: dict[Rel, str] = {}

    @cached_property
    def outputs(self) -> tuple[Goal, ...]:
        """The goals to have the query's result when it is due."""
        points = self.problem.points
        return tuple(self.output(t) for t in range(self.problem.first, len(points)) if points[t].output)

    def output(self, t: Time) -> Goal:
        """The goal to have the query's result at t."""
        view = self.normalise(View(self.problem.query, Snapshot(t)))
        assert isinstance(view, View), "a query is the result of an operator"
        return Goal(view, t)

    def weighted(self, cost: int, t: Time) -> int:
        """A cost at the price of a time point."""
        return round(cost * self.problem.points[t].weight)

    def alternatives(self, goal: Goal) -> Iterator[Alternative]:
        """All ways to reach a goal."""
        view = goal.view
        yield from self._loads(goal)
        late = goal.time > max(view.at.time, self.problem.first)
        for rule, rhs, cost, views in self.rewrites(view):
            if late and (rule not in ANY_TIME or must_run_at_its_time(view)):
                continue
            yield Alternative(rule, rhs, tuple(Goal(v, goal.time) for v in views), self.weighted(cost, goal.time))

    def _loads(self, goal: Goal) -> Iterator[Alternative]:
        """Load a snapshot or state that was saved when it became current."""
        view, made = goal.view, goal.view.at.time
        if made >= goal.time or not isinstance(view.at, Snapshot | State):
            return
        key = self.key(view)
        load = Load(key, view.columns, view.label)
        rows, row_bytes = self.estimate.rows(view), width(view)
        cost = self.weighted(self.model.read(rows, row_bytes), goal.time)
        if key in self.problem.states:
            yield Alternative(None, load, (), cost)
        if made >= self.problem.first:
            save = self.weighted(self.model.write(rows, row_bytes), made)
            yield Alternative(None, load, (Goal(view, made),), cost + save)

    def key(self, view: View) -> StateKey:
        """The name under which a view is stored."""
        if view.tvr not in self._fingerprints:
            self._fingerprints[view.tvr] = fingerprint(view.tvr)
        kind = "snapshot" if isinstance(view.at, Snapshot) else "state"
        return StateKey(self._fingerprints[view.tvr], kind, view.at.time)

    # --- rules ---

    def rewrites(self, view: View) -> tuple[tuple[Rule, Rel, int, tuple[View, ...]], ...]:
        """What the rules make of a view: rule, right side over reads and views, its unweighted cost, the views it needs."""
        if view not in self._rewritten:
            found = (self._apply(rule, view) for rule in self._rules)
            self._rewritten[view] = tuple(f for f in found if f is not None)
        return self._rewritten[view]

    def _apply(self, rule: Rule, view: View) -> tuple[Rule, Rel, int, tuple[View, ...]] | None:
        bindings = rule.match(view)
        if bindings is None or not self._bind_rest(rule, bindings, view):
            return None
        law = rule.apply(**bindings)
        if not law.where:
            return None
        logical = self.links.resolve(law.rhs) if rule.reads_links else law.rhs
        if logical is None:
            return None
        rhs = self._physical(logical, {})
        if self.facts.has_positive_value(view):
            rhs = self.facts.positive(rhs)
        views = tuple(rel for rel in rhs.walk() if isinstance(rel, View))
        if view in views:
            return None
        return rule, rhs, sum(self.model.operator(rel, self.estimate) for rel in rhs.walk()), views

    def _bind_rest(self, rule: Rule, bindings: dict[str, object], view: View) -> bool:
        """Bind facts, and the time before the one on the left side. False when there is no such time, or the metavariable
        stands for an operator and the view is of a table."""
        if isinstance(view.tvr, Scan | Values) and "Query" in rule.parameters.values():
            return False
        for name, kind in rule.parameters.items():
            if name in bindings:
                continue
            if kind in ("Facts", "Links"):
                bindings[name] = self.facts if kind == "Facts" else self.links
            elif kind == "Time":
                if view.at.time <= self.start:
                    return False
                bindings[name] = view.at.time - 1
        return True

    def _physical(self, rel: Rel, done: dict[Rel, Rel]) -> Rel:
        """The right side of a law with normal views, reads of tables, without what is empty, set-like inputs enforced."""
        if rel not in done:
            if isinstance(rel, View):
                done[rel] = self.normalise(rel)
            else:
                inputs = tuple(self._physical(i, done) for i in rel.inputs)
                pruned = prune(rel.with_inputs(*inputs) if inputs else rel)
                done[rel] = self.facts.enforce(self.facts.without_support(pruned))
        return done[rel]

    def normalise(self, view: View) -> Rel:
        """A view under its one name; a read when it is of a table; the empty bag when it is an empty delta."""
        rel, at = view.tvr, self.facts.normal(view.tvr, view.at)
        if isinstance(rel, Values):
            return rel if isinstance(at, Snapshot) else empty(rel.columns)
        if at is None:
            return empty(view.columns)
        if isinstance(rel, Scan) and isinstance(at, Snapshot | Delta):
            return self.facts.read(rel, at)
        return replace(view, at=at)
