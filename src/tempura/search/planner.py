"""The planner: the cheapest progressive plan under a set of incremental methods, and what the others would have cost."""

import gc
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf

from tempura.algebra.rel import Project, Rel, Scan, Union, Values, is_renaming
from tempura.errors import TempuraError
from tempura.memo.events import Listener, ignore
from tempura.physical.operators import Load
from tempura.plan.progressive import Course, ProgressivePlan
from tempura.rules.dsl import Rule
from tempura.rules.filtered_first import filtered_first
from tempura.rules.grouped_once import grouped_once
from tempura.rules.one_pass import in_one_pass
from tempura.rules.prune import without_empty
from tempura.rules.registry import ALL
from tempura.search.asked import Asking
from tempura.search.budget import within_budget
from tempura.search.events import EffortCounter
from tempura.search.found import Found, best_by, found_by, last_beginning, plan_of, sets_of
from tempura.search.graph import Graph
from tempura.search.outline import FAR, Outline, as_one_of_all, asked_of_few, few_points
from tempura.search.price import Pricing
from tempura.search.problem import Problem
from tempura.search.replay import replayed
from tempura.search.saturate import ALL_ON, Switches
from tempura.search.space import Keep, Space
from tempura.search.verdict import best_of, stays, told

_DEEP = 5_000
"""Calls within calls that a process allows at least once it has planned something: a plan is looked at, drawn and executed operator by
operator. Of q14 of TPC-DS that is 400 deep, of a query a few times as large it would be more than the thousand that Python allows."""


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
    uses: int = 1,
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
    promises to save the ``margin`` of what that costs: Spark has its code compiled, and another's has to be first. ``uses``: of a plan
    up to the next result it is also asked what would be cheapest if so many paid for its first run (``ProgressivePlan.begun``).

    Raises TempuraError ``UNKNOWN_METHOD``, ``NO_PLAN`` when the methods cannot compute the query, and ``STATE_BUDGET`` when none of their
    plans keeps to that.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEP))
    registry = problem.registry
    names = registry.names_of(methods)
    counter = EffortCounter()
    the_best = partial(best_of, margin=margin, doubt=doubt)
    written = without_empty(problem.query)
    planned = replace(problem, query=_as_operator(_rewritten(written, problem)))
    space = Space(planned, counter, listener, without=without, switches=switches)
    asking = Asking(space, _as_operator(written))
    along = _followed(course, asking, space, names, strict) if course else None
    if along and problem.allows(along.state_bytes):
        return told(along, [along], counter.effort, registry)
    sets = sets_of(space, names)
    begins = 0 if strict else last_beginning(problem)
    asked = asking.beside if not registry.recomputing.isdisjoint(names) and not strict else asking.plans

    def search(graph: Graph, sets: Sequence[tuple[str, ...]]) -> list[ProgressivePlan]:
        plans = asked(_plans(graph, sets, Keep.BOTH))
        if not plans or not _loads_what_it_forgets(the_best(plans), problem):
            return plans
        either = (_plans(graph.keeping(keep), sets, keep) for keep in (Keep.NEW, Keep.PAST))
        both = [asked(found) for found in either if found]
        return min(both, key=lambda found: the_best(found).cost, default=plans)

    few, far = few_points(problem), list[ProgressivePlan]()
    ways: list[tuple[Outline | None, Sequence[tuple[str, ...]]]] = [(None, sets)]
    if few:
        outline, far = _outlined(space, few, sets, strict)
        ways.insert(0, (outline, outline.sets))
    for outlined, tried in ways:
        graph = Graph(space, *map(space.rules_of, tried), begins=begins, strict=strict, outline=outlined)
        if plans := search(graph, tried):
            break
    else:
        remedy = f"Allow {' or '.join((ALL, *sorted(registry.recomputing)))}."
        raise TempuraError("NO_PLAN", f"no plan with methods {', '.join(names)}.", remedy)

    def is_sound(plan: ProgressivePlan) -> bool:
        return not _loads_what_it_forgets(plan, problem)

    best = within_budget(problem, plans, lambda rent: search(graph.renting(rent), tried), the_best, is_sound)
    before = _followed(usual, asking, space, names, strict) if usual else None
    if before and problem.allows(before.state_bytes) and is_sound(before) and stays(before, best, margin, doubt):
        best = replace(before, cheapest=best.cost if best.cost < before.cost else None)
    compared = [plan for plan in (*plans, *far) if problem.allows(plan.state_bytes)]
    best = told(best, compared, counter.effort, registry)
    is_asked = uses > 1 and not registry.only_recomputes(names)
    return replace(best, begun=_begun(graph, tried, uses)) if is_asked else best


def _rewritten(query: Rel, problem: Problem) -> Rel:
    """A query as it is planned: by laws that hold at all times, and after which others need not look for what they have found."""
    rows = {name: table.inserted[-1] for name, table in problem.tables.items()}
    static = {name for name, table in problem.tables.items() if table.static}
    return filtered_first(grouped_once(in_one_pass(query)), rows, static)


def _begun(graph: Graph, sets: Sequence[tuple[str, ...]], uses: int) -> int:
    """What the cheapest plan up to the next result costs if the first run is paid by so many, and that result is made twice: for the one
    after it, too. All ways and their sizes are known, only prices are others."""
    points = list(graph.problem.points)
    first, last = graph.problem.first, len(points) - 1
    points[first] = replace(points[first], weight=points[first].weight / uses)
    points[last] = replace(points[last], weight=2 * points[last].weight)
    return min(found.candidate.cost for found in found_by(graph.weighing(tuple(points)), sets))


def _outlined(
    space: Space, few: Sequence[int], sets: Sequence[tuple[str, ...]], strict: bool
) -> tuple[Outline, list[ProgressivePlan]]:
    """How the best plans by some sets of methods go about a few of a problem's time points; and those plans that are far
    dearer than the cheapest, by methods that are not looked at again: unless states have a budget, to which only these may keep."""
    problem, asked = space.problem, space.asked(asked_of_few(space.problem, few))
    begins = 0 if strict else last_beginning(asked.problem)
    found = found_by(Graph(asked, *map(asked.rules_of, sets), begins=begins, strict=strict), sets)
    limit = FAR * min((best.candidate.cost for best in found), default=0)
    limit = limit if problem.state_budget is None else inf
    always = {names for names in sets if problem.registry.only_recomputes(names)} | {sets[-1]}
    near = [best for best in found if best.candidate.cost <= limit or best.names in always]
    used = (
        ((space.memo.fingerprint(goal.view.tvr), type(goal.view.at)), rule)
        for candidate in (best.candidate for best in near)
        for goal in candidate.built.reached
        if (rule := candidate.choices[goal].rule)
    )
    outline = Outline.of(used, (few[best.search.since] for best in near), (best.names for best in near))
    far = (plan_of(best, Keep.BOTH) for best in found if best.names not in outline.sets)
    return outline, [as_one_of_all(plan, problem, few) for plan in far]


def _plans(graph: Graph, sets: Sequence[tuple[str, ...]], keep: Keep) -> list[ProgressivePlan]:
    return [plan_of(found, keep) for found in found_by(graph, sets)]


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
    usual = 0 if strict else last_beginning(space.problem)
    its_own = tuple(rule for rule in space.rules_of(names) if rule.splits or rule.name in course.rules)
    # Which way is the one of values that are computed once depends on all rules that there are.
    all_then = space.rules_of(course.methods or names) if space.has_values_computed_once else its_own

    def beginning_by(t: int, rules: tuple[Rule, ...]) -> Pricing:
        return Pricing(Graph(space, rules, begins=t, strict=strict, keep=keep).renting(course.scarcity))

    for begins in (usual,) if strict else (usual, last):
        if found := _again(beginning_by(begins, all_then), names, course):
            return replace(plan_of(found, keep), course=course)
    pricing = beginning_by(usual, its_own)
    best = best_by(pricing, names, pricing.graph.searches)
    return replace(plan_of(best, keep), course=course) if best else None


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


def _as_operator(query: Rel) -> Rel:
    """A query that is just columns of a table, or a constant, as the only term of a union: a class of its own, so that its result is
    something that can be appended to, where the table itself is always read."""
    source = query.input if isinstance(query, Project) and is_renaming(query) else query
    return Union((query,)) if isinstance(source, Scan | Values) else query
