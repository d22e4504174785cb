"""The best plan of each of several sets of methods: as choices in one graph, and as the steps that follow from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tempura.algebra.rel import Opaque, Rel
from tempura.errors import Reason
from tempura.plan.progressive import Course, ProgressivePlan
from tempura.rules.dsl import Rule
from tempura.search.alike import without_the_alike
from tempura.search.graph import Alternative, Graph, Search
from tempura.search.improve import Candidate, beside_seed, first_candidates, improve
from tempura.search.price import Pricing
from tempura.search.problem import Problem
from tempura.search.replay import named
from tempura.search.space import Keep, Space
from tempura.search.verdict import used_methods
from tempura.tvr.views import Delta, StateDelta, View

_BUDGET = 1_000
"""Whole plans priced per method set while improving one: about a second."""

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


def sets_of(space: Space, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The sets of methods to plan by: each method by itself, but for those that are like another here, and all together."""
    return (*((name,) for name in without_the_alike(space, names)), *((names,) if len(names) > 1 else ()))


def last_beginning(problem: Problem) -> int:
    """The last time point at which incremental work may begin: the one before the last, at which to begin is to recompute. That is left to
    methods that do nothing else."""
    return max(0, len(problem.points) - 2)


def found_by(graph: Graph, sets: Sequence[tuple[str, ...]]) -> list[Found]:
    """The best plan of each set of methods; of all together, which starts from the best of those and from its own."""
    found: list[Found] = []
    pricing, registry = Pricing(graph), graph.problem.registry
    for number, names in enumerate(sets):
        searches = [search for search in graph.searches if search.number == number]
        seed = min(found, key=lambda f: f.candidate.cost, default=None) if len(names) > 1 else None
        best = best_by(pricing, names, searches[:1] if registry.only_recomputes(names) else searches, seed)
        best = best or _at_the_last_point(graph, names)
        found += [best] if best else []
    return found


def _at_the_last_point(graph: Graph, names: tuple[str, ...]) -> Found | None:
    """The best plan of methods that have none unless work begins at the last time point."""
    last = len(graph.problem.points) - 1
    if graph.strict or graph.begins == last:
        return None
    late = Graph(graph.space, graph.space.rules_of(names), begins=last, keep=graph.keep, outline=graph.outline)
    return best_by(Pricing(late), names, late.searches)


def best_by(
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


def plan_of(found: Found, keep: Keep) -> ProgressivePlan:
    """The steps of a plan that was found where those states may be loaded."""
    names, built, space = found.names, found.candidate.built, found.graph.space
    steps, orders, registry = built.steps, space.orders.found, space.problem.registry
    weights = tuple(space.problem.points[step.time].weight for step in steps)
    fallbacks = _fallbacks(found.graph, built.used) if not registry.only_recomputes(names) else ()
    rules = tuple(sorted({rule.name for rule, _ in built.used}))
    chosen = named(found.graph, found.candidate.choices, built.reached)
    course = Course(_start(found), keep.name, rules, False, found.graph.scarcity, chosen, found.by, orders)
    methods = used_methods(registry, steps, names)
    storage = sum(round(space.problem.storage_price * size) for size in built.sizes)
    cost = sum(found.graph.weighted(step.cost + step.reading, step.time) for step in steps) + storage
    recomputes = registry.only_recomputes(methods)
    plan = ProgressivePlan(steps, weights, cost, "+".join(methods), fallbacks=fallbacks, course=course)
    return replace(plan, storage=storage, recomputes=recomputes)


def _start(found: Found) -> int:
    """The time point at which a plan's work begins: the first at which any can run, if it needs nothing of the past."""
    reached = ((goal.view, found.candidate.choices[goal]) for goal in found.candidate.built.reached)
    needs_past = any(_needs_past(found.graph, view, way) for view, way in reached)
    return max(found.search.since, 0 if needs_past else found.graph.problem.first)


def _needs_past(graph: Graph, view: View, way: Alternative) -> bool:
    if isinstance(view.at, Delta | StateDelta):
        return view.at.t < graph.problem.first
    return way.rule is None and not way.goals and not graph.is_kept(view)


def _fallbacks(graph: Graph, used: tuple[tuple[Rule, Rel], ...]) -> tuple[Reason, ...]:
    """Why parts of the query are recomputed rather than maintained."""
    reasons = [rule.why(graph.memo.tree(rel), graph.facts) for rule, rel in used if rule.why]
    reasons += [rel.reason for rel in graph.problem.query.walk() if isinstance(rel, Opaque)]
    return tuple(dict.fromkeys(reason for reason in reasons if reason))
