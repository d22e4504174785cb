"""The planner: the cheapest progressive plan under a set of incremental methods, and what the others would have cost."""

import gc
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from tempura.algebra.rel import Opaque, Project, Rel, Scan, Values
from tempura.algebra.scalar import Output, Ref
from tempura.errors import Reason, TempuraError
from tempura.memo.events import Listener, ignore
from tempura.physical.operators import Load
from tempura.plan.progressive import Course, ProgressivePlan
from tempura.rules.dsl import Rule
from tempura.rules.one_pass import in_one_pass
from tempura.rules.prune import without_empty
from tempura.search.alike import without_the_alike
from tempura.search.asked import Asking
from tempura.search.budget import within_budget
from tempura.search.events import EffortCounter
from tempura.search.graph import Alternative as Way
from tempura.search.graph import Graph, Search
from tempura.search.improve import Candidate, beside_seed, first_candidates, improve
from tempura.search.outline import Outline, few_points
from tempura.search.price import Pricing
from tempura.search.problem import Problem
from tempura.search.replay import named, replayed
from tempura.search.saturate import ALL_ON, Switches
from tempura.search.space import Keep, Space
from tempura.search.told import told, used_methods
from tempura.search.verdict import best_of, stays
from tempura.tvr.views import Delta, StateDelta, View

_BUDGET = 1_000
"""Whole plans priced per method set while improving one: about a second."""

_DEEP = 5_000
"""Calls within calls that a process allows at least once it has planned something: a plan is looked at, drawn and executed operator by
operator. Of q14 of TPC-DS that is 400 deep, of a query a few times as large it would be more than the thousand that Python allows."""

_FIRST = 4
"""So many of the plans with which a search may begin are improved: the cheapest."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best plan of a set of methods, the search that found it, perhaps by some of them (``by``), and the graph of which it is a
    choice."""

    names: tuple[str, ...]
    by: tuple[str, ...]
    graph: Graph
    search: Search
    candidate: Candidate


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for cyclic garbage: all that is made while planning is needed to its end, and to look through it again and again takes a
    fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collection()
def make_plan(
    problem: Problem,
    methods: Sequence[str] = ("all",),
    listener: Listener = ignore,
    without: Collection[str] = (),
    switches: Switches = ALL_ON,
    strict: bool = False,
    margin: float = 0.0,
    doubt: float = 1.0,
    course: Course | None = None,
    usual: Course | None = None,
) -> ProgressivePlan:
    """The cheapest plan for the time points of a problem that are not done.

    ``methods`` are names of the problem's registry; several, or ``all``, let each part of the query use any of them. Such a plan
    never costs more than the best plan of a single method, because those are candidates too, unless there is a ``margin``: the part of
    what recomputing costs that work ahead has to promise to save, or it is not done; or ``doubt``, by which the cost of other plans is
    multiplied before it is compared with recomputing. ``listener`` is told what the search does
    (``search.events``). ``without`` names rules that are not to be used, ``switches`` turn off what makes the search fast. ``strict``:
    incremental work begins with the first point (a past one, if there is one), and what was current before a run is loaded by it, not
    computed, whatever that costs. ``course``: only what an earlier plan went about it by is tried, and nothing is compared, unless that
    leads nowhere here; such a plan has this very course. ``usual``: how the last run went about it, which stays unless what is cheapest
    promises to save the ``margin`` of what that costs: Spark has its code compiled, and another's has to be first.

    Raises TempuraError ``UNKNOWN_METHOD``, ``NO_PLAN`` when the methods cannot compute the query, and ``STATE_BUDGET`` when none of their
    plans keeps to that.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEP))
    names = problem.registry.names_of(methods)
    counter = EffortCounter()
    the_best = partial(best_of, margin=margin, doubt=doubt)
    written = without_empty(problem.query)
    planned = replace(problem, query=_as_operator(in_one_pass(written)))
    space = Space(planned, counter, listener, without=without, switches=switches)
    asking = Asking(space, _as_operator(written))
    along = _followed(course, asking, space, names, strict) if course else None
    if along and problem.allows(along.state_bytes):
        return told(along, [along], counter.effort, problem.registry)
    sets = _sets(space, names)
    begins = 0 if strict else _last_beginning(problem)
    few = few_points(problem)
    outline = _outlined(space.at(few), few, sets, strict) if few else None
    graph = Graph(space, *map(space.rules_of, sets), begins=begins, strict=strict, outline=outline)
    asked = asking.beside if "batch" in names and not strict else asking.plans

    def search(graph: Graph) -> list[ProgressivePlan]:
        plans = asked(_plans(graph, sets, Keep.BOTH))
        if not plans or not _loads_what_it_forgets(the_best(plans), problem):
            return plans
        either = (_plans(graph.keeping(keep), sets, keep) for keep in (Keep.NEW, Keep.PAST))
        both = [asked(found) for found in either if found]
        return min(both, key=lambda found: the_best(found).cost, default=plans)

    plans = search(graph)
    if not plans and outline:
        graph = Graph(space, *map(space.rules_of, sets), begins=begins, strict=strict)
        plans = search(graph)
    if not plans:
        raise TempuraError("NO_PLAN", f"no plan with methods {', '.join(names)}.", "Allow the method batch, or all.")

    def is_sound(plan: ProgressivePlan) -> bool:
        return not _loads_what_it_forgets(plan, problem)

    best = within_budget(problem, plans, lambda rent: search(graph.renting(rent)), the_best, is_sound)
    before = _followed(usual, asking, space, names, strict) if usual else None
    if before and problem.allows(before.state_bytes) and is_sound(before) and stays(before, best, margin, doubt):
        best = replace(before, cheapest=best.cost if best.cost < before.cost else None)
    return told(best, [p for p in plans if problem.allows(p.state_bytes)], counter.effort, problem.registry)


def _sets(space: Space, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Each method by itself, but for those that are like another here, and all together."""
    return (*((name,) for name in without_the_alike(space, names)), *((names,) if len(names) > 1 else ()))


def _outlined(space: Space, points: tuple[int, ...], sets: Sequence[tuple[str, ...]], strict: bool) -> Outline:
    """How the best plans by some sets of methods go about a problem of a few time points of another one."""
    begins = 0 if strict else _last_beginning(space.problem)
    found = _found(Graph(space, *map(space.rules_of, sets), begins=begins, strict=strict), sets)
    used = (
        ((space.memo.fingerprint(goal.view.tvr), type(goal.view.at)), rule)
        for candidate in (best.candidate for best in found)
        for goal in candidate.built.reached
        if (rule := candidate.choices[goal].rule)
    )
    return Outline.of(used, (points[best.search.since] for best in found))


def _last_beginning(problem: Problem) -> int:
    """The last time point at which incremental work may begin: the one before the last, at which to begin is to recompute. That is left to
    the method ``batch``."""
    return max(0, len(problem.points) - 2)


def _plans(graph: Graph, sets: Sequence[tuple[str, ...]], keep: Keep) -> list[ProgressivePlan]:
    return [_plan(found, keep) for found in _found(graph, sets)]


def _followed(
    course: Course, asking: Asking, space: Space, names: tuple[str, ...], strict: bool
) -> ProgressivePlan | None:
    """The plan that goes by a course, if that leads anywhere."""
    if course.asked:
        only = asking.only()
        return replace(only, course=course) if only else None
    found = _along(course, space.knowing(dict(course.orders)) if course.orders else space, names, strict)
    return asking.plan(found) if found else None


def _along(course: Course, space: Space, names: tuple[str, ...], strict: bool) -> ProgressivePlan | None:
    """The plan for all methods that goes by a course of operators, if that leads anywhere: by the same choices, or if there are not the
    same, by the best. They may be those of a method that had to begin at the last time point."""
    keep, last = Keep[course.keep], len(space.problem.points) - 1
    usual = 0 if strict else _last_beginning(space.problem)
    its_own = tuple(rule for rule in space.rules_of(names) if rule.splits or rule.name in course.rules)
    # Which way is the one of values that are computed once depends on all rules that there are.
    all_then = space.rules_of(course.methods or names) if space.has_values_computed_once else its_own

    def beginning_by(t: int, rules: tuple[Rule, ...]) -> Pricing:
        return Pricing(Graph(space, rules, begins=t, strict=strict, keep=keep).renting(course.scarcity))

    for begins in (usual,) if strict else (usual, last):
        if found := _again(beginning_by(begins, all_then), names, course):
            return replace(_plan(found, keep), course=course)
    pricing = beginning_by(usual, its_own)
    best = _best_of(pricing, names, pricing.graph.searches)
    return replace(_plan(best, keep), course=course) if best else None


def _again(pricing: Pricing, names: tuple[str, ...], course: Course) -> Found | None:
    """The plan by the same choices as a course's, if they are all there."""
    graph = pricing.graph
    again = ((search, replayed(pricing, search, course.chosen)) for search in graph.searches if course.chosen)
    return next((Found(names, names, graph, search, candidate) for search, candidate in again if candidate), None)


def _loads_what_it_forgets(plan: ProgressivePlan, problem: Problem) -> bool:
    """Whether a plan's first step saves something, so that the next one goes on from that, and a later step loads what was saved before
    and not kept with it."""
    first, *later = plan.steps
    saved = {save.key for save in first.saves}
    loads = (rel.key for step in later for rel in step.operators if isinstance(rel, Load))
    return bool(saved) and not (problem.states - saved).isdisjoint(loads)


def _found(graph: Graph, sets: Sequence[tuple[str, ...]]) -> list[Found]:
    """The best plan of each set of methods; of all together, which starts from the best of those and from its own."""
    found: list[Found] = []
    pricing = Pricing(graph)
    for number, names in enumerate(sets):
        searches = [search for search in graph.searches if search.number == number]
        seed = min(found, key=lambda f: f.candidate.cost, default=None) if len(names) > 1 else None
        best = _best_of(pricing, names, searches[:1] if names == ("batch",) else searches, seed)
        best = best or _at_the_last_point(graph, names)
        found += [best] if best else []
    return found


def _at_the_last_point(graph: Graph, names: tuple[str, ...]) -> Found | None:
    """The best plan of methods that have none unless work begins at the last time point."""
    last = len(graph.problem.points) - 1
    if graph.strict or graph.begins == last:
        return None
    late = Graph(graph.space, graph.space.rules_of(names), begins=last, keep=graph.keep, outline=graph.outline)
    return _best_of(Pricing(late), names, late.searches)


def _best_of(
    pricing: Pricing, names: tuple[str, ...], searches: Sequence[Search], seed: Found | None = None
) -> Found | None:
    """The best plan that some searches find, each from its own beginning and from a seed. None when they cannot reach the output."""
    graph = pricing.graph
    found = ((search, c) for search in searches for c in first_candidates(pricing, search, _beginnings(graph, search)))
    begun = sorted(found, key=lambda begun: begun[1].price)[:_FIRST]
    if seed and seed.graph is graph:
        begun = beside_seed(graph, begun, seed.candidate)
    best = [Found(names, names, graph, *improve(pricing, begun, _BUDGET))] if begun else []
    best += [replace(seed, names=names)] if seed else []
    return min(best, key=lambda found: found.candidate.cost, default=None)


def _beginnings(graph: Graph, search: Search) -> tuple[int | None, ...]:
    """Where the plans begin from which a search goes on: each class at a time of its own, or all at one; for to move all that is shared
    from one time to another takes more exchanges than one. Of many times the first is one."""
    if graph.space.has_values_computed_once:
        return None, search.since
    return (None, *range(1 if graph.outline else graph.begins + 1))


def _as_operator(query: Rel) -> Rel:
    """A query that is just a table or constant, as a projection of it."""
    if isinstance(query, Scan | Values):
        return Project(query, tuple(Output(c, Ref(c)) for c in query.columns))
    return query


def _plan(found: Found, keep: Keep) -> ProgressivePlan:
    names, built, space = found.names, found.candidate.built, found.graph.space
    steps, orders = built.steps, tuple(space.orders.found.items())
    weights = tuple(space.problem.points[step.time].weight for step in steps)
    fallbacks = _fallbacks(found.graph, built.used) if names != ("batch",) else ()
    rules = tuple(sorted({rule.name for rule, _ in built.used}))
    chosen = named(found.graph, found.candidate.choices, built.reached)
    course = Course(_start(found), keep.name, rules, False, found.graph.scarcity, chosen, found.by, orders)
    method = used_methods(space.problem.registry, steps, names)
    storage = sum(round(space.problem.storage_price * size) for size in built.sizes)
    cost = sum(found.graph.weighted(step.cost + step.reading, step.time) for step in steps) + storage
    return ProgressivePlan(steps, weights, cost, method, fallbacks=fallbacks, course=course, storage=storage)


def _start(found: Found) -> int:
    """The time point at which a plan's work begins: the first at which any can run, if it needs nothing of the past."""
    reached = ((goal.view, found.candidate.choices[goal]) for goal in found.candidate.built.reached)
    needs_past = any(_needs_past(found.graph, view, way) for view, way in reached)
    return max(found.search.since, 0 if needs_past else found.graph.problem.first)


def _needs_past(graph: Graph, view: View, way: Way) -> bool:
    if isinstance(view.at, Delta | StateDelta):
        return view.at.t < graph.problem.first
    return way.rule is None and not way.goals and not graph.is_kept(view)


def _fallbacks(graph: Graph, used: tuple[tuple[Rule, Rel], ...]) -> tuple[Reason, ...]:
    """Why parts of the query are recomputed rather than maintained."""
    reasons = [rule.why(graph.memo.tree(rel), graph.facts) for rule, rel in used if rule.why]
    reasons += [rel.reason for rel in graph.problem.query.walk() if isinstance(rel, Opaque)]
    return tuple(dict.fromkeys(reason for reason in reasons if reason))
