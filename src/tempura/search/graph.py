"""The plan space as a graph: goals (a view, computed at a time) and the alternatives by which each can be reached.

Alternatives come from rules (an expression over views that have to be there at the same time) or from loading what was
saved at an earlier time. Each says which searches may use it: to plan by fewer rules is to pass over the same graph with a mask. The graph
is cyclic (snapshot = snapshot + delta, delta = snapshot - snapshot); choosing copes with that.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product

from tempura.algebra.rel import Aggregate, Rel
from tempura.cost.stats import StoredFacts
from tempura.memo.memo import Memo
from tempura.physical.deletions import are_few
from tempura.physical.growth import Growth, growth
from tempura.physical.narrowing import Selected, selected_views
from tempura.physical.operators import Load, StateKey
from tempura.rules.dsl import Rule
from tempura.search.events import GroupCreated
from tempura.search.lineage import Lineage
from tempura.search.outline import Outline
from tempura.search.problem import Point
from tempura.search.rewrites import Rewriter, Rewritten
from tempura.search.space import Goal, Keep, Space
from tempura.tvr.staircase import whole
from tempura.tvr.views import Snapshot, State, View

ONE_PART = StoredFacts()
"""How a stored state lies of which nothing else is said."""


@dataclass(frozen=True, slots=True)
class Search:
    """A pass over the graph: with the rules of one of its sets; values that are computed once begin at the time point ``since``. ``mask``
    is its bit."""

    number: int
    since: int
    mask: int


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """A way to reach a goal. ``rule`` made it of ``member``, an operator that computes the goal's TVR; both are None when the view is
    loaded; then ``goals`` is the goal that saves it, or nothing when it is stored already; what that costs depends on how it was saved.
    Of others ``goals`` are what ``rhs`` reads, each once.
    ``searches`` are the bits of those that may use it. Those of a goal that do the same, by whatever rule, have one number (``does``). It
    has no price until somebody asks (``Graph.work``)."""

    rule: Rule | None
    rhs: Rel
    goals: tuple[Goal, ...]
    searches: int
    member: Rel | None = None
    does: int = 0


Chosen = Callable[[Goal], Alternative]
"""How goals are reached in a plan."""


class Graph:
    """Goals and alternatives of one planning problem, made on demand and remembered, once for all of several ``sets`` of rules. Each
    class begins at a time of its own, at which its snapshots are computed from scratch: at ``begins`` at the latest. ``strict`` as in
    ``make_plan``; ``keep`` says which states may be loaded. ``scarcity``: what is charged for a byte that is kept beyond the problem's
    storage price, in nanoseconds, for a budget. Where there is an ``outline``, only its rules make alternatives, and values that are
    computed once begin when they do there."""

    def __init__(
        self,
        space: Space,
        *sets: tuple[Rule, ...],
        begins: int = 0,
        strict: bool = False,
        keep: Keep = Keep.BOTH,
        outline: Outline | None = None,
    ) -> None:
        self.space = space
        self.problem = space.problem
        self.query = space.query
        self.memo = space.memo
        self.estimate = space.estimate
        self.counts = space.counts
        self.facts = space.facts
        self.tell = space.tell
        self.model = space.model
        self.cost = space.cost
        self.begins = begins
        self.strict = strict
        self.keep = keep
        self.scarcity = 0.0
        self.outline = outline
        # Which way is the one of values that are computed once depends on all rules that there are.
        self._rewriter = Rewriter(space, sets, begins)
        self._outlined = Rewriter(space, sets, begins, outline=outline) if outline else self._rewriter
        since = tuple(t for t in range(begins + 1) if outline is None or t in outline.since) or (0,)
        self._sinces = since if space.has_values_computed_once else (0,)
        self.searches = tuple(self._searches(len(sets)))
        once = {since: Rewriter(space, sets, since, since) for since in self._sinces}
        key = partial(state_key, self.memo)
        self.lineages = {
            search: Lineage(once[search.since], self._rewriter, search.number, self.problem, search.since, key)
            for search in self.searches
        }
        self._goals: dict[tuple[View, int], Goal] = {}
        self._alternatives: dict[Goal, tuple[Alternative, ...]] = {}
        self._works: dict[Rel, int] = {}
        self._keys: dict[View, StateKey] = {}
        self._places: dict[Goal, int] = {}
        self._numbers: dict[tuple[int, StateKey], int] = {}
        self._growths: dict[Alternative, Growth | None] = {}
        self._appended: dict[Growth, Alternative] = {}
        self._selected: dict[Alternative, tuple[Selected, ...]] = {}
        self._loads_of: dict[tuple[View, StoredFacts, bool, int], tuple[int, int]] = {}

    def _searches(self, sets: int) -> Iterator[Search]:
        for i, (number, since) in enumerate(product(range(sets), self._sinces)):
            yield Search(number, since, 1 << i)

    def keeping(self, keep: Keep) -> "Graph":
        """The same graph where other states may be loaded."""
        other = copy(self)
        other.keep = keep
        other._alternatives = {}
        return other

    def renting(self, scarcity: float) -> "Graph":
        """The same graph where so much is charged for a byte beyond its price."""
        other = copy(self)
        other.scarcity = scarcity
        return other

    def weighing(self, points: tuple[Point, ...]) -> "Graph":
        """The same graph where work has other prices at the time points."""
        other = copy(self)
        other.space = self.space.weighing(points)
        other.problem = other.space.problem
        return other

    @property
    def rent(self) -> float:
        """What is charged for a byte that is kept, in nanoseconds, besides the work that it takes."""
        return self.problem.storage_price + self.scarcity

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
        key = (view, t)
        if key not in self._goals:
            self._goals[key] = Goal(view, t)
        return self._goals[key]

    def weighted(self, cost: int, t: int) -> int:
        """A cost at the price of a time point."""
        return round(cost * self.problem.points[t].weight)

    def work(self, goal: Goal, way: Alternative) -> int:
        """What the operators of a rule's right side cost, at the price of the goal's time."""
        if way.rhs not in self._works:
            self._works[way.rhs] = sum(map(self.cost, way.rhs.walk()))
        return self.weighted(self._works[way.rhs], goal.time)

    def alternatives(self, goal: Goal) -> tuple[Alternative, ...]:
        """All ways to reach a goal, whoever may use them."""
        if goal not in self._alternatives:
            self._alternatives[goal] = ways = tuple(way for way in self._ways(goal) if way.searches)
            self.tell(GroupCreated(goal.view, goal.time, len(ways)))
        return self._alternatives[goal]

    def _ways(self, goal: Goal) -> Iterator[Alternative]:
        late, numbers = self._is_late(goal), dict[tuple[Rel, tuple[Goal, ...]], int]()
        for load, saved, searches in self._loads(goal):
            yield Alternative(None, load, saved, searches, None, numbers.setdefault((load, saved), len(numbers)))
        for made, searches in self._made(goal):
            if not late or made.rule.any_time:
                needed = tuple(self.goal(v, goal.time) for v in made.views)
                does = numbers.setdefault((made.rhs, needed), len(numbers))
                yield Alternative(made.rule, made.rhs, needed, searches, made.member, does)

    def _is_late(self, goal: Goal) -> bool:
        """Whether a view is needed later than when it became current: work is done then, or, where nothing has changed since, as long as it
        may begin."""
        view = goal.view
        if goal.time <= max(view.at.time, 0 if self.strict else self.problem.first):
            return False
        return not self._may_begin(view, goal.time)

    def _may_begin(self, view: View, t: int) -> bool:
        is_whole = isinstance(view.at, Snapshot | State)
        return t <= self.begins and is_whole and self._is_unchanged(view, t)

    def _is_unchanged(self, view: View, t: int) -> bool:
        return self.facts.is_unchanged(view.tvr, view.at.t, t)

    def _made(self, goal: Goal) -> Iterable[tuple[Rewritten, int]]:
        """What rules make of a goal, and which searches may use it."""
        if not self.facts.is_computed_once(goal.view.tvr):
            return ((made, self._of_sets(made.sets)) for made in self._outlined.rewrites(goal.view))
        found: dict[tuple[Rule, Rel], tuple[Rewritten, int]] = {}
        for search, lineage in self.lineages.items():
            for made in lineage.rewrites(goal):
                first, searches = found.get((made.rule, made.rhs), (made, 0))
                found[made.rule, made.rhs] = first, searches | search.mask
        is_outlined = self._rewriter.is_outlined
        return [way for way in found.values() if is_outlined(self.outline, way[0].rule, goal.view)]

    def _of_sets(self, sets: int) -> int:
        """The searches with some of the sets of rules."""
        return sum(search.mask for search in self.searches if sets >> search.number & 1)

    def _loads(self, goal: Goal) -> Iterator[tuple[Load, tuple[Goal, ...], int]]:
        """Loads of a snapshot or state that was saved before: each with the goal that saves it, and the searches that may use it."""
        view, made = goal.view, goal.view.at.time
        if made >= goal.time or not isinstance(view.at, Snapshot | State) or made != view.at.t:
            return
        key, searches = self.key(view), self._begun_searches(view)
        load = Load(key, view.columns, view.label)
        if key in self.problem.states and (
            goal.time == self.problem.first or self.keep is not Keep.NEW or self.is_kept(view)
        ):
            yield load, (), searches
        for t in self._save_times(goal):
            yield load, (self.goal(view, t),), searches

    def _begun_searches(self, view: View) -> int:
        if not self.facts.is_computed_once(view.tvr):
            return -1
        return sum(search.mask for search, lineage in self.lineages.items() if lineage.has_begun(view))

    def _save_times(self, goal: Goal) -> Iterator[int]:
        """When a view may be saved that is loaded later: when it becomes current, or wherever it can be computed after that."""
        view, first = goal.view, self.problem.first
        made = max(view.at.time, first)
        if view.at.time < first and not self._is_unchanged(view, first):
            return
        for t in range(made, goal.time):
            if (t > first or self.keep is not Keep.PAST) and (t == made or self._can_be_made_late(view, t)):
                yield t

    def _can_be_made_late(self, view: View, t: int) -> bool:
        return self._may_begin(view, t) or any(way.rule.any_time for way in self._outlined.rewrites(view))

    def is_kept(self, view: View) -> bool:
        """Whether a view that was saved in the past is the same at the first point: a step that saves others keeps it with them, and
        need not write it again."""
        return self.key(view) in self.problem.states and self.facts.is_unchanged(view.tvr, 0, self.problem.first)

    # --- what it costs to keep a view ---

    def save_cost(self, view: View, grown: Growth | None) -> int:
        """What it costs to save a view, of what it grows from only the delta, at weight one."""
        rows = self.estimate.rows(grown.delta if grown else view)
        has_groups = isinstance(view.at, State) and isinstance(view.tvr, Aggregate) and bool(view.tvr.keys)
        return self.model.write(rows, self.estimate.width(view), shuffled=has_groups)

    def size(self, view: View) -> float:
        """The bytes that a view takes when it is stored."""
        return self.estimate.rows(view) * self.estimate.width(view) * self.problem.stored_share

    def own_size(self, saved: Goal) -> float:
        """The bytes that it takes to save a view, on top of what is written anyway: a result is, and stays."""
        return 0.0 if self.is_result(saved) else self.size(saved.view)

    def charged(self, bytes: float) -> int:
        """The rent of so many bytes, whatever work costs at the time."""
        return round(self.rent * bytes)

    def load_parts(self, view: View, lies: StoredFacts, whole: bool = True, selected: int = 0) -> tuple[int, int]:
        """What it costs to load a view that lies on disk in some way, as a whole or so many selected rows of it, at weight one, and the
        part of it that does not depend on rows."""
        key = (view, lies, whole, selected)
        if key not in self._loads_of:
            rows, width = self.estimate.rows(view), self.estimate.width(view)
            self._loads_of[key] = self.model.parts(lambda model: model.load(rows, width, lies, whole, selected))
        return self._loads_of[key]

    def selected(self, way: Alternative) -> tuple[Selected, ...]:
        """The views of which a way selects groups."""
        if way not in self._selected:
            self._selected[way] = selected_views(way.rhs) if way.rule else ()
        return self._selected[way]

    def lies(self, goal: Goal, load: Alternative, chosen: Chosen) -> StoredFacts:
        """How a view lies on disk that is loaded, where each goal is reached as it is ``chosen``."""
        if not load.goals:
            return self.problem.stored.get(self.key(goal.view), ONE_PART)
        (saved,) = load.goals
        view, grown = saved.view, self.grown(saved, chosen)
        if grown is None:
            keys = len(view.tvr.keys) if isinstance(view.tvr, Aggregate) and isinstance(view.at, State) else 0
            return _by_keys(keys)
        return self._lies_with(saved, grown, chosen)

    def _lies_with(self, goal: Goal, grown: Growth, chosen: Chosen) -> StoredFacts:
        """How a view lies on disk that is saved as it has grown."""
        base = self.base(grown, goal.time)
        return self.lies_grown(goal.view, grown, self.lies(base, chosen(base), chosen))

    def lies_grown(self, view: View, grown: Growth, base: StoredFacts) -> StoredFacts:
        """How a view lies on disk that has grown out of what lies as ``base`` does."""
        added, rows, size = self.estimate.rows(grown.delta), self.estimate.rows(view), self.estimate.width(view)
        few = added if not grown.slots and are_few(added * size, rows * size) else None
        return base.grown(grown.is_merged, few)

    def grown(self, goal: Goal, chosen: Chosen, way: Alternative | None = None) -> Growth | None:
        """How a view that is saved grows out of one that is loaded for it; None when it does not, or is so small that it is written anew. A
        result grows only as far as those who read it need not put all of it together."""
        found = self.growth_by(goal, way or chosen(goal))
        if found is None:
            return None
        base = self.base(found, goal.time)
        if chosen(base).rule is not None or self._is_written_anew(base.view):
            return None
        if not self.is_result(goal) or self.is_readable(goal.view, self._lies_with(goal, found, chosen)):
            return found
        return None

    def _is_written_anew(self, stored: View) -> bool:
        """Whether to write a stored view again, with what comes to it, takes less than to open one file more (``execute.parts``)."""
        return self.model.rewrite(self.estimate.rows(stored), self.estimate.width(stored)) < self.model.file

    def stays(self, result: Goal, load: Alternative, chosen: Chosen) -> bool:
        """Whether a result that is loaded is given as it is stored."""
        return self.is_readable(result.view, self.lies(result, load, chosen))

    def is_readable(self, result: View, lies: StoredFacts) -> bool:
        """Whether a result may lie so for its readers: they see few rows that are taken away, or none."""
        size = self.estimate.width(result)
        few = lies.few is not None and are_few(lies.few * size, self.estimate.rows(result) * size)
        return few or not lies.grouped

    def reading(self, result: Goal, chosen: Chosen, way: Alternative | None = None) -> int:
        """What it takes longer to read a result once, as it lies when it is reached so, than in one part, at weight one. No step does that,
        but somebody will."""
        way = way or chosen(result)
        if way.rule is None:
            lies = self.lies(result, way, chosen) if self.stays(result, way, chosen) else ONE_PART
        else:
            grown = self.grown(result, chosen, way)
            lies = self._lies_with(result, grown, chosen) if grown else ONE_PART
        return self.longer(result.view, lies)

    def longer(self, view: View, lies: StoredFacts) -> int:
        """What it costs more to load a view as it lies than in one part."""
        return self.load_parts(view, lies)[0] - self.load_parts(view, ONE_PART)[0]

    @cached_property
    def _results(self) -> frozenset[Goal]:
        return frozenset(self.outputs)

    def is_result(self, goal: Goal) -> bool:
        """Whether a goal is the query's result when it is due: then it is written, saved or not."""
        return goal in self._results

    def is_plain(self, view: View) -> bool:
        """Whether a view is the query's result at some time."""
        return isinstance(view.at, Snapshot) and view.tvr in {root.view.tvr for root in self.outputs}

    def growth_by(self, goal: Goal, way: Alternative) -> Growth | None:
        """How a view that is reached in this way grows out of another, if that one is stored; None when it does not."""
        if way not in self._growths:
            found = growth(way.rhs, lambda rel: self._may_be_stored(rel, goal.time)) if way.rule else None
            self._growths[way] = found
        return self._growths[way]

    def base(self, grown: Growth, t: int) -> Goal:
        """The goal of what a view grows from that is reached at t."""
        assert isinstance(grown.base, View)
        return self.goal(grown.base, t)

    def appended(self, way: Alternative, grown: Growth, t: int) -> Alternative:
        """What is left to be computed of a view that is reached in this way, and saved as it has ``grown``, if nobody reads it then."""
        if grown not in self._appended:
            needed = tuple(self.goal(rel, t) for rel in grown.delta.walk() if isinstance(rel, View))
            self._appended[grown] = Alternative(way.rule, grown.delta, needed, way.searches, way.member)
        return self._appended[grown]

    def _may_be_stored(self, rel: Rel, before: int) -> bool:
        if not isinstance(rel, View) or not isinstance(rel.at, Snapshot | State) or rel.at.time != rel.at.t:
            return False
        return rel.at.time < before and (rel.at.time >= self.problem.first or self.key(rel) in self.problem.states)

    def key(self, view: View) -> StateKey:
        """The name under which a view is stored."""
        if view not in self._keys:
            self._keys[view] = state_key(self.memo, view)
        return self._keys[view]

    def place(self, goal: Goal) -> int:
        """The number of what a goal saves: of goals that save the same state at the same time, one."""
        if goal not in self._places:
            self._places[goal] = self._numbers.setdefault((goal.time, self.key(goal.view)), len(self._numbers))
        return self._places[goal]


@cache
def _by_keys(number: int) -> StoredFacts:
    """How a view lies that is written anew: of a state by so many keys, of another by none."""
    return StoredFacts(bucket=tuple(range(number)))


def state_key(memo: Memo, view: View) -> StateKey:
    """The name under which a view of a memo's class is stored."""
    kind = "snapshot" if isinstance(view.at, Snapshot) else "state"
    return StateKey(memo.fingerprint(view.tvr), kind, whole(view.at.t))
