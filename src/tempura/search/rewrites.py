"""What the rules make of a view: right sides over views of classes that have to be there at the same time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Rel, Scan, Values, empty, renamed
from tempura.memo.edge import Edge
from tempura.rules.dsl import Rule, times_of
from tempura.rules.prune import prune
from tempura.search.events import RuleApplied, RuleMatched
from tempura.search.links import ClassLinks
from tempura.search.outline import Outline
from tempura.search.space import Space
from tempura.tvr.staircase import Time
from tempura.tvr.views import Delta, State, StateDelta, View, ViewKind


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """What a rule makes of a view: ``rhs`` over reads and ``views``, which are needed at the same time. ``sets`` are the sets of rules that
    allow it, a bit each."""

    rule: Rule
    member: Rel
    rhs: Rel
    views: tuple[View, ...]
    sets: int


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    """A rule whose left side is some view of an operator at all times, and what its metavariables stand for but for times. ``idle``: with
    these links its guard holds at no time."""

    rule: Rule
    bindings: dict[str, object]
    idle: set[ClassLinks]


class Rewriter:
    """Applies rules to the operators of classes, on demand, and remembers what they made: once for all ``sets`` of rules that are
    searched. What asks for links is applied once for each way to split. Incremental work begins at ``start`` or later, at ``begins`` at
    the latest. Of the rules only those of an ``outline`` are tried, where there is one."""

    def __init__(
        self,
        space: Space,
        sets: Sequence[tuple[Rule, ...]],
        begins: int,
        start: int = 0,
        outline: Outline | None = None,
    ) -> None:
        self._space = space
        self._memo = space.memo
        self._start = start
        self.facts = space.facts.beginning_by(begins)
        rules = dict.fromkeys(rule for rules in sets for rule in rules if not rule.splits and self._may_hold(rule))
        self._sets = {rule: sum(1 << i for i, rules in enumerate(sets) if rule in rules) for rule in rules}
        # Only a rule that speaks of a table can ask for a part by table: the others share links with searches without such parts.
        self._links = {by_table: _by_links(space, sets, by_table, begins) for by_table in (False, True)}
        self._rules_for: dict[tuple[type[Rel], type[ViewKind]], tuple[Rule, ...]] = {}
        self._matches: dict[tuple[Rel, Rel, type[ViewKind]], tuple[_Match, ...]] = {}
        self._rewritten: dict[View, tuple[Rewritten, ...]] = {}
        self._given: dict[str, object] = {"Facts": self.facts, **space.given}
        self._prepared = space.prepared
        self._outline = outline

    def rewrites(self, view: View) -> tuple[Rewritten, ...]:
        """What the rules make of the operators that compute a view."""
        if view not in self._rewritten:
            found: dict[tuple[Rule, Rel], Rewritten] = {}
            for member in self.operators(view):
                for made in self._apply_all(View(member, view.at), view):
                    _add(found, made)
            for seen in self._over_join(view):
                for made in self._apply_all(View(seen, view.at), view, deep=True):
                    _add(found, made)
            self._rewritten[view] = tuple(found.values())
        return self._rewritten[view]

    def is_outlined(self, outline: Outline | None, rule: Rule, view: View) -> bool:
        """Whether an outline has a rule for such views of a class; if there is none, any may be used."""
        if outline is None:
            return True
        return rule in outline.rules.get((self._memo.fingerprint(view.tvr), type(view.at)), ())

    def operators(self, view: View) -> tuple[Rel, ...]:
        """The operators that a rule may match: all members of a class, and a cluster of inner joins as one. A state belongs to one
        aggregation."""
        tvr = view.tvr
        if not isinstance(tvr, Edge):
            return (tvr,)
        members = tuple(member.rel for member in self.facts.members(tvr))
        joined = self._space.clusters.of(tvr)
        return (*members, joined) if joined and self.facts.lineage(joined) == self.facts.lineage(tvr) else members

    def _may_hold(self, rule: Rule) -> bool:
        """Whether a rule's guard may hold of anything here."""
        return not rule.by_reference or self.facts.knows_references()

    def _over_join(self, view: View) -> tuple[Rel, ...]:
        """The aggregation of a state, seen over the join below it, for rules that look so deep."""
        is_sum = isinstance(view.at, StateDelta) and not self.facts.has_order_sensitive_values(view.tvr)
        if not is_sum or not any(rule.depth > 1 for rule in self._dispatched(Aggregate, StateDelta)):
            return ()
        assert isinstance(view.tvr, Aggregate)
        seen = self._space.clusters.below(view.tvr)
        # Two arguments may be one expression there: then its state has fewer columns.
        return (seen,) if seen and View(seen, view.at).columns == view.columns else ()

    def _apply_all(self, matched: View, view: View, deep: bool = False) -> Iterator[Rewritten]:
        for match in self._matching(matched, view):
            rule = match.rule
            if deep and rule.depth < 2:
                continue
            bindings = match.bindings | rule.times_in(matched)
            shared = self._links[rule.by_table]
            for links, sets in shared if rule.asks_links else shared[:1]:
                allowed = self._sets[rule] & (sets if rule.asks_links else -1)
                if not allowed or links in match.idle:
                    continue
                for bound in self._completed(rule, bindings, view, links):
                    if made := self._made(match, bound, matched.tvr, view, links, allowed):
                        yield made

    def _matching(self, matched: View, view: View) -> tuple[_Match, ...]:
        """The rules that may be used for such views of a class, and match an operator that computes it. An operator matches at all times or
        at none, so it is looked at once."""
        key = matched.tvr, view.tvr, type(view.at)
        if key not in self._matches:
            rules = self._dispatched(type(matched.tvr), type(view.at))
            outlined = (rule for rule in rules if self.is_outlined(self._outline, rule, view))
            found = ((rule, rule.match(matched)) for rule in outlined)
            self._matches[key] = tuple(_Match(rule, known, set()) for rule, known in found if known is not None)
        return self._matches[key]

    def _made(
        self, match: _Match, bound: dict[str, object], member: Rel, view: View, links: ClassLinks, sets: int
    ) -> Rewritten | None:
        rule = match.rule
        self._space.tell(RuleMatched(rule.name, view))
        law = rule.apply(**bound)
        if not law.where and rule.is_guarded_at_all_times:
            match.idle.add(links)
        logical = links.resolve(law.rhs) if law.where and rule.reads else law.rhs
        if not law.where or logical is None:
            return None
        rhs = self._ready(logical, view)
        views = tuple(rel for rel in rhs.walk() if isinstance(rel, View))
        if view in views:
            return None
        self._space.tell(RuleApplied(rule.name, view))
        return Rewritten(rule, member, rhs, views, sets)

    def _dispatched(self, operator: type[Rel], kind: type[ViewKind]) -> tuple[Rule, ...]:
        """The rules whose left side is such a view of such an operator."""
        if (operator, kind) not in self._rules_for:
            fit = (rule for rule in self._sets if isinstance(rule.pattern, View) and type(rule.pattern.at) is kind)
            self._rules_for[operator, kind] = tuple(rule for rule in fit if rule.operator in (None, operator))
        return self._rules_for[operator, kind]

    def _completed(
        self, rule: Rule, bindings: dict[str, object], view: View, links: ClassLinks
    ) -> Iterator[dict[str, object]]:
        """Bind facts and links, the points that stand on the right side only, one that is earlier, or between, and the table that
        moves."""
        given = self._given | {"Links": links}
        bound = bindings | {name: given[kind] for name, kind in rule.given}
        free = {name: kind for name, kind in rule.times if name not in bindings}
        points = [self._earlier(view) if kind == "Time" else self._between(view) for kind in free.values()]
        for chosen in product(*points):
            all_bound = bound | dict(zip(free, chosen, strict=True))
            yield from self._with_tables(rule, all_bound, view) if rule.by_table else (all_bound,)

    def _with_tables(self, rule: Rule, bound: dict[str, object], view: View) -> Iterator[dict[str, object]]:
        """Bind the table of which a rule speaks: the only one that moves between its times; any that changes, when it has one time. Values
        that depend on the physical order of rows are there at times only, so no table moves alone."""
        if self.facts.has_order_sensitive_values(view.tvr):
            return
        times = times_of(rule, bound)
        since, until = (min(times), max(times)) if len(times) > 1 else (self._start, self.facts.last)
        moving = self.facts.moving(view.tvr, since, until)
        if len(times) == 1 or len(moving) == 1:
            name = next(name for name, kind in rule.parameters.items() if kind == "Table")
            yield from (bound | {name: table} for table in moving)

    def _earlier(self, view: View) -> tuple[Time, ...]:
        """The times from which a view may be brought up to date: the one before, the first, and those at which a result was due, for those
        who were in no hurry. Values that depend on the physical order of rows go through every time: what was emitted at one of them must
        not be computed again."""
        now = view.at.time
        if now <= self._start:
            return ()
        if now != view.at.until:
            return (now - 1, *self.facts.between(view.tvr, now - 1, view.at.until))[-1:]
        if self.facts.has_order_sensitive_values(view.tvr):
            return (now - 1,)
        points = self._space.problem.points
        return tuple(t for t in range(now - 1, -1, -1) if t in (now - 1, 0) or points[t].output)

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


def _add(found: dict[tuple[Rule, Rel], Rewritten], made: Rewritten) -> None:
    known = found.get((made.rule, made.rhs))
    found[made.rule, made.rhs] = replace(known, sets=known.sets | made.sets) if known else made


def _by_links(
    space: Space, sets: Sequence[tuple[Rule, ...]], by_table: bool, begins: int
) -> tuple[tuple[ClassLinks, int], ...]:
    """The links that splits give, those ``by_table`` among them or not, each with the sets of rules that have just these splits. What never
    loses a row may differ by when work begins: then there are links for each such beginning."""
    found: dict[ClassLinks, int] = {}
    for i, rules in enumerate(sets):
        splits = tuple(rule for rule in rules if rule.splits and (by_table or not rule.by_table))
        for since in space.facts.beginnings(begins) if splits else (0,):
            links = space.links(splits, since)
            found[links] = found.get(links, 0) | 1 << i
    return tuple(found.items())
