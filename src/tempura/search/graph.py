"""The plan space as a graph: goals (a view, computed at a time) and the alternatives by which each can be reached.

Alternatives come from rules (an expression over views that have to be there at the same time) or from loading what was
saved at an earlier time. The graph is cyclic (snapshot = snapshot + delta, delta = snapshot - snapshot); choosing copes with that.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Rel, Scan, Values, empty, renamed
from tempura.cost.estimate import width
from tempura.memo.edge import Edge
from tempura.physical.operators import Load, StateKey
from tempura.rules import core, delta_aggregate, im2
from tempura.rules.dsl import Rule
from tempura.rules.helpers import is_order_sensitive
from tempura.rules.prune import prune
from tempura.search.begun import Rewritten
from tempura.search.events import GroupCreated, RuleApplied, RuleMatched
from tempura.search.links import ClassLinks
from tempura.search.space import Goal, Space
from tempura.tvr.staircase import Time, whole
from tempura.tvr.views import Delta, Snapshot, State, StateDelta, View, ViewKind

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
        self._begun = space.begun(start)
        self.facts = self._begun.facts
        self.links = ClassLinks(rules, self.facts, space.memo, space.tell)
        self._rules = tuple(rule for rule in rules if not rule.splits)
        self._rules_for: dict[tuple[type[Rel], type[ViewKind]], tuple[Rule, ...]] = {}
        self._deltas: dict[View, bool] = {}
        self._alternatives: dict[Goal, tuple[Alternative, ...]] = {}
        self._rewritten: dict[View, tuple[Rewritten, ...]] = {}
        self._prepared = self._begun.prepared

    @cached_property
    def outputs(self) -> tuple[Goal, ...]:
        """The goals to have the query's result when it is due."""
        points = self.problem.points
        return tuple(self.output(t) for t in range(self.problem.first, len(points)) if points[t].output)

    def output(self, t: int) -> Goal:
        """The goal to have the query's result at t."""
        query = View(self.memo.own(self.query), Snapshot(t))
        view = self.normalise(query)
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
        late = goal.time > max(view.at.time, self.problem.first)
        sensitive = any(map(is_order_sensitive, self._operators(view)))
        if late and sensitive:
            return  # values that depend on the physical order of the input are computed once
        for made in self._one_lineage(view) if sensitive else self.rewrites(view):
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
        rows, row_bytes = self.estimate.rows(view), width(view)
        cost = self.weighted(self.model.read(rows, row_bytes), goal.time)
        if key in self.problem.states:
            yield Alternative(None, load, (), cost)
        if made >= self.problem.first:
            save = self.weighted(self.model.write(rows, row_bytes), made)
            yield Alternative(None, load, (self.goal(view, made),), cost + save)

    def key(self, view: View) -> StateKey:
        """The name under which a view is stored."""
        kind = "snapshot" if isinstance(view.at, Snapshot) else "state"
        return StateKey(self.memo.fingerprint(view.tvr), kind, whole(view.at.t))

    def _one_lineage(self, view: View) -> tuple[Rewritten, ...]:
        """What may be made of values that depend on the physical order of the input: they follow from the stored ones by a delta, where
        there is one, and are computed from scratch otherwise. Both in one plan would retract values that were never emitted."""
        rewrites = self.rewrites(view)
        merged = tuple(made for made in rewrites if made.rule is core.merge_snapshot)
        if any(map(self._has_deltas, merged)):
            return merged
        return tuple(made for made in rewrites if made not in merged)

    def _has_deltas(self, made: Rewritten) -> bool:
        """Whether rules lead from tables to the deltas that an alternative needs. One that needs itself is not there."""
        return all(self._has_delta(view) for view in made.views if isinstance(view.at, Delta))

    def _has_delta(self, view: View) -> bool:
        if view not in self._deltas:
            self._deltas[view] = False
            self._deltas[view] = any(map(self._has_deltas, self.rewrites(view)))
        return self._deltas[view]

    # --- rules ---

    def rewrites(self, view: View) -> tuple[Rewritten, ...]:
        """What the rules make of the operators that compute a view."""
        if view not in self._rewritten:
            found: dict[tuple[Rule, Rel], Rewritten] = {}
            for member in self._operators(view):
                for made in self._apply_all(View(member, view.at), view):
                    found.setdefault((made.rule, made.rhs), made)
            self._rewritten[view] = tuple(found.values())
        return self._rewritten[view]

    def _operators(self, view: View) -> tuple[Rel, ...]:
        """The operators that a rule may match: all members of a class, and a cluster of inner joins as one. A state belongs to one
        aggregation."""
        tvr = view.tvr
        if not isinstance(tvr, Edge):
            return (tvr,)
        joined = self._space.clusters.of(tvr)
        return (*(member.rel for member in self.memo.members(tvr)), *([joined] if joined else []))

    def _apply_all(self, matched: View, view: View) -> Iterator[Rewritten]:
        for rule in self._dispatched(type(matched.tvr), type(view.at)):
            yield from self._begun.applied((rule, matched, view), partial(self._apply, rule, matched, view))

    def _apply(self, rule: Rule, matched: View, view: View) -> tuple[Rewritten, ...]:
        bindings = rule.match(matched)
        bound = self._completed(rule, bindings, view) if bindings is not None else ()
        return tuple(made for all_bound in bound if (made := self._made(rule, all_bound, matched.tvr, view)))

    def _made(self, rule: Rule, bound: dict[str, object], member: Rel, view: View) -> Rewritten | None:
        self.tell(RuleMatched(rule.name, view))
        law = rule.apply(**bound)
        logical = self.links.resolve(law.rhs) if law.where and rule.reads_links else law.rhs
        if not law.where or logical is None:
            return None
        rhs = self._ready(logical, view)
        views = tuple(rel for rel in rhs.walk() if isinstance(rel, View))
        if view in views:
            return None
        self.tell(RuleApplied(rule.name, view))
        return Rewritten(rule, member, rhs, views, sum(self.model.operator(r, self.estimate) for r in rhs.walk()))

    def _dispatched(self, operator: type[Rel], kind: type[ViewKind]) -> tuple[Rule, ...]:
        """The rules whose left side is such a view of such an operator."""
        if (operator, kind) not in self._rules_for:
            fit = (rule for rule in self._rules if isinstance(rule.pattern, View) and type(rule.pattern.at) is kind)
            self._rules_for[operator, kind] = tuple(rule for rule in fit if rule.operator in (None, operator))
        return self._rules_for[operator, kind]

    def _completed(self, rule: Rule, bindings: dict[str, object], view: View) -> Iterator[dict[str, object]]:
        """Bind facts and links, and an earlier time where one stands on the right side only."""
        given = {"Facts": self.facts, "Links": self.links}
        bound = bindings | {name: given[kind] for name, kind in rule.parameters.items() if kind in given}
        free = {
            name: kind for name, kind in rule.parameters.items() if kind in ("Time", "Between") and name not in bindings
        }
        if not free:
            yield bound
        for name, kind in free.items():
            for t in self._earlier(view) if kind == "Time" else self._between(view):
                yield bound | {name: t}

    def _earlier(self, view: View) -> tuple[Time, ...]:
        """The times from which a view may be brought up to date: the one before, and the first, for those who were in no hurry. Values
        that depend on the physical order of rows go through every time: what was emitted at one of them must not be computed again."""
        now = view.at.time
        if now <= self.start:
            return ()
        if now != view.at.until:
            return (now - 1, *self.facts.between(view.tvr, now - 1, view.at.until))[-1:]
        lazy = self.start < now - 1 and not self.facts.has_order_sensitive_values(view.tvr)
        return (now - 1, self.start) if lazy else (now - 1,)

    def _between(self, view: View) -> tuple[Time, ...]:
        """The last point between the two times of a delta, if there is one. Values that depend on the physical order of rows are
        computed at times only: no other has its rows stored."""
        if not isinstance(view.at, Delta) or self.facts.has_order_sensitive_values(view.tvr):
            return ()
        return self.facts.between(view.tvr, view.at.t, view.at.u)[-1:]

    def _ready(self, logical: Rel, view: View) -> Rel:
        """The right side of a law as something to be computed: in the view's columns, and positive where the view is."""
        rhs = renamed(self._prepare(logical), view.columns)
        return self.facts.positive(rhs) if self.facts.has_positive_value(view) else rhs

    def _prepare(self, rel: Rel) -> Rel:
        """An expression with normal views, reads of tables, without what is empty, set-like inputs enforced."""
        if rel not in self._prepared:
            if isinstance(rel, View):
                self._prepared[rel] = self._space.shared(self.normalise(rel))
            else:
                inputs = tuple(map(self._prepare, rel.inputs))
                pruned = prune(rel.with_inputs(*inputs) if inputs else rel)
                ordered = self._space.orders.ordered(pruned) if isinstance(pruned, MultiJoin) else pruned
                self._prepared[rel] = self._space.shared(self.facts.enforce(self.facts.without_support(ordered)))
        return self._prepared[rel]

    def normalise(self, view: View) -> Rel:
        """A view under its one name, which is of a class or (of states) of an aggregation in their own columns, at the first of the
        times at which it is the same; a read when it is of a table; the empty bag when it is an empty delta."""
        at = self.facts.normal(view.tvr, view.at)
        if at is None:
            return empty(view.columns)
        if isinstance(at, State | StateDelta):
            return renamed(View(self.memo.operator(view.tvr), at), view.columns)
        edge = self.memo.add(view.tvr)
        match self.memo.representative(edge):
            case Scan() as scan:
                return self.facts.read(replace(scan, outputs=view.columns), at)
            case Values() as values:
                return replace(values, outputs=view.columns)
        return renamed(View(self.memo.own(edge), at), view.columns)
