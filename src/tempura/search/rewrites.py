"""What the rules make of a view: right sides over views of classes that have to be there at the same time."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Rel, Scan, Values, empty, renamed
from tempura.memo.edge import Edge
from tempura.rules.dsl import Rule
from tempura.rules.prune import prune
from tempura.search.begun import Rewritten
from tempura.search.events import RuleApplied, RuleMatched
from tempura.search.joins import Clusters
from tempura.search.space import Space
from tempura.tvr.staircase import Time
from tempura.tvr.views import Delta, State, StateDelta, View, ViewKind


class Rewriter:
    """Applies a set of rules to the operators of classes, on demand, and remembers what they made. Incremental work begins at the
    time point ``start``."""

    def __init__(self, space: Space, rules: tuple[Rule, ...], start: int) -> None:
        self._space = space
        self._memo = space.memo
        self._start = start
        self._begun = space.begun(start)
        self.facts = self._begun.facts
        self._links = self._begun.links(rules)
        self._clusters = Clusters(space.memo)
        self._rules = tuple(rule for rule in rules if not rule.splits)
        self._rules_for: dict[tuple[type[Rel], type[ViewKind]], tuple[Rule, ...]] = {}
        self._rewritten: dict[View, tuple[Rewritten, ...]] = {}
        self._prepared = self._begun.prepared

    def rewrites(self, view: View) -> tuple[Rewritten, ...]:
        """What the rules make of the operators that compute a view."""
        if view not in self._rewritten:
            found: dict[tuple[Rule, Rel], Rewritten] = {}
            for member in self.operators(view):
                for made in self._apply_all(View(member, view.at), view):
                    found.setdefault((made.rule, made.rhs), made)
            for seen in self._over_join(view):
                for made in self._apply_all(View(seen, view.at), view, deep=True):
                    found.setdefault((made.rule, made.rhs), made)
            self._rewritten[view] = tuple(found.values())
        return self._rewritten[view]

    def operators(self, view: View) -> tuple[Rel, ...]:
        """The operators that a rule may match: all members of a class, and a cluster of inner joins as one. A state belongs to one
        aggregation."""
        tvr = view.tvr
        if not isinstance(tvr, Edge):
            return (tvr,)
        members = tuple(member.rel for member in self.facts.members(tvr))
        joined = self._clusters.of(tvr)
        return (*members, joined) if joined and self.facts.lineage(joined) == self.facts.lineage(tvr) else members

    def _over_join(self, view: View) -> tuple[Rel, ...]:
        """The aggregation of a state, seen over the join below it, for rules that look so deep."""
        is_sum = isinstance(view.at, StateDelta) and not self.facts.has_order_sensitive_values(view.tvr)
        if not is_sum or not any(rule.depth > 1 for rule in self._dispatched(Aggregate, StateDelta)):
            return ()
        assert isinstance(view.tvr, Aggregate)
        seen = self._clusters.below(view.tvr)
        # Two arguments may be one expression there: then its state has fewer columns.
        return (seen,) if seen and View(seen, view.at).columns == view.columns else ()

    def _apply_all(self, matched: View, view: View, deep: bool = False) -> Iterator[Rewritten]:
        for rule in self._dispatched(type(matched.tvr), type(view.at)):
            if deep and rule.depth < 2:
                continue
            what = (rule, matched, view, self._links if rule.asks_links else None)
            yield from self._begun.applied(what, partial(self._apply, rule, matched, view))

    def _apply(self, rule: Rule, matched: View, view: View) -> tuple[Rewritten, ...]:
        bindings = rule.match(matched)
        bound = self._completed(rule, bindings, view) if bindings is not None else ()
        return tuple(made for all_bound in bound if (made := self._made(rule, all_bound, matched.tvr, view)))

    def _made(self, rule: Rule, bound: dict[str, object], member: Rel, view: View) -> Rewritten | None:
        self._space.tell(RuleMatched(rule.name, view))
        law = rule.apply(**bound)
        logical = self._links.resolve(law.rhs) if law.where and rule.reads else law.rhs
        if not law.where or logical is None:
            return None
        rhs = self._ready(logical, view)
        parts = tuple(rhs.walk())
        views = tuple(rel for rel in parts if isinstance(rel, View))
        if view in views:
            return None
        self._space.tell(RuleApplied(rule.name, view))
        cost = sum(map(self._space.cost, parts))
        return Rewritten(rule, member, rhs, views, cost)

    def _dispatched(self, operator: type[Rel], kind: type[ViewKind]) -> tuple[Rule, ...]:
        """The rules whose left side is such a view of such an operator."""
        if (operator, kind) not in self._rules_for:
            fit = (rule for rule in self._rules if isinstance(rule.pattern, View) and type(rule.pattern.at) is kind)
            self._rules_for[operator, kind] = tuple(rule for rule in fit if rule.operator in (None, operator))
        return self._rules_for[operator, kind]

    def _completed(self, rule: Rule, bindings: dict[str, object], view: View) -> Iterator[dict[str, object]]:
        """Bind facts and links, and the points that stand on the right side only: one that is earlier, or between."""
        given = {"Facts": self.facts, "Links": self._links, **self._space.given}
        bound = bindings | {name: given[kind] for name, kind in rule.parameters.items() if kind in given}
        free = {n: kind for n, kind in rule.parameters.items() if kind in ("Time", "Between") and n not in bindings}
        points = [self._earlier(view) if kind == "Time" else self._between(view) for kind in free.values()]
        for chosen in product(*points):
            yield bound | dict(zip(free, chosen, strict=True))

    def _earlier(self, view: View) -> tuple[Time, ...]:
        """The times from which a view may be brought up to date: the one before, and the first, for those who were in no hurry. Values
        that depend on the physical order of rows go through every time: what was emitted at one of them must not be computed again."""
        now = view.at.time
        if now <= self._start:
            return ()
        if now != view.at.until:
            return (now - 1, *self.facts.between(view.tvr, now - 1, view.at.until))[-1:]
        lazy = self._start < now - 1 and not self.facts.has_order_sensitive_values(view.tvr)
        return (now - 1, self._start) if lazy else (now - 1,)

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
            return renamed(View(self._memo.operator(view.tvr), at), view.columns)
        edge = self._memo.add(view.tvr)
        match self._memo.representative(edge):
            case Scan() as scan:
                return self.facts.read(replace(scan, outputs=view.columns), at)
            case Values() as values:
                return replace(values, outputs=view.columns)
        return renamed(View(self._memo.own(edge), at), view.columns)
