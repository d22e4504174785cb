"""From the choices of dynamic programming, which counts shared work as often as it is used, to a plan that is cheap as a whole."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from tempura.algebra.rel import Rel
from tempura.plan.progressive import Step
from tempura.rules.dsl import Rule
from tempura.search.best import Best
from tempura.search.events import PlanCosted
from tempura.search.extract import Extraction
from tempura.search.graph import Alternative, Graph, Search
from tempura.search.price import Pricing
from tempura.search.space import Goal

Choices = dict[Goal, Alternative]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan as choices and as steps; ``cost`` is weighted, counts shared work once, and has the graph's rent of what is kept: states of
    ``sizes`` bytes."""

    choices: Choices
    steps: tuple[Step, ...]
    cost: int
    reached: tuple[Goal, ...]
    used: tuple[tuple[Rule, Rel], ...]
    sizes: tuple[float, ...] = ()


def first_candidate(graph: Graph, search: Search) -> Candidate | None:
    """The plan that dynamic programming chooses; None when the rules cannot reach an output."""
    return next(iter(first_candidates(graph, search, (None,))), None)


def first_candidates(graph: Graph, search: Search, beginnings: Iterable[int | None]) -> list[Candidate]:
    """The plans that dynamic programming chooses where all work begins at some time point, or each class at its own (None): those that
    reach all outputs. Where each class begins at its own and that costs as much as another, it is left out; others that cost the same
    may differ in what was chosen for goals that they do not need, from which exchanges go on."""
    found: list[tuple[int | None, Candidate]] = []
    for begin in beginnings:
        best = Best(graph, graph.outputs, search, begin)
        if all(goal in best.chosen for goal in graph.outputs):
            found.append((begin, _extract(graph, best.chosen)))
    known = {candidate.cost for begin, candidate in found if begin is not None}
    return [candidate for begin, candidate in found if begin is not None or candidate.cost not in known]


def allows(graph: Graph, search: Search, seed: Candidate) -> bool:
    """Whether a search may use what another one has found: what is to be computed once is computed as it has it."""
    once = (goal for goal in seed.reached if graph.facts.is_computed_once(goal.view.tvr))
    return all(seed.choices[goal].searches & search.mask for goal in once)


def seeded(candidate: Candidate, seed: Candidate) -> Candidate:
    """A plan that was found with fewer rules, with what is chosen here for the goals that it does not reach."""
    reached = {goal: seed.choices[goal] for goal in seed.reached}
    return replace(seed, choices={**candidate.choices, **reached})


def improve(graph: Graph, search: Search, candidate: Candidate, budget: int) -> Candidate:
    """Exchange one choice at a time, and load what it needs where the plan makes that anyway, while the plan as a whole gets cheaper.
    ``budget``: how many plans may be priced (counted, not timed, so that runs repeat)."""
    pricing = Pricing(graph)
    choices, price = candidate.choices, pricing.price(candidate.choices)
    improved = price is not None
    while improved and price is not None:
        improved = False
        for goal in price.reached:
            for way in graph.alternatives(goal):
                if budget <= 0:
                    return _cheaper(graph, candidate, choices)
                if way is choices.get(goal) or not _is_open(way, search, choices):
                    continue
                exchanged = {**_loads(graph, search, way, price.reached), goal: way}
                tried = pricing.price(choices, exchanged)
                budget -= 1
                if tried is not None and tried.cost < price.cost:
                    choices, price, improved = {**choices, **exchanged}, tried, True
    return _cheaper(graph, candidate, choices)


def _is_open(way: Alternative, search: Search, choices: Choices) -> bool:
    return bool(way.searches & search.mask) and all(goal in choices for goal in way.goals)


def _loads(graph: Graph, search: Search, way: Alternative, reached: Collection[Goal]) -> Choices:
    """Of what an alternative needs and the plan does not have, what can be loaded because the plan makes it earlier anyway. Dynamic
    programming does not know that it is made anyway, and may compute it once more."""
    needed = (goal for goal in way.goals if goal not in reached)
    found = (
        (goal, load)
        for goal in needed
        for load in graph.alternatives(goal)
        if load.rule is None and load.searches & search.mask
    )
    return {goal: load for goal, load in found if all(made in reached for made in load.goals)}


def _cheaper(graph: Graph, candidate: Candidate, choices: Choices) -> Candidate:
    """Build the plan that pricing led to: its price may be off by what buckets cost."""
    if choices is candidate.choices:
        return candidate
    return min(candidate, _extract(graph, choices), key=lambda c: c.cost)


def _extract(graph: Graph, choices: Choices) -> Candidate:
    extraction = Extraction(graph, choices)
    steps = extraction.steps()
    cost = sum(graph.weighted(step.cost, step.time) for step in steps)
    sizes = extraction.kept_sizes()
    cost += sum(map(graph.charged, sizes)) if graph.rent else 0
    graph.tell(PlanCosted(cost))
    return Candidate(choices, steps, cost, extraction.reached, tuple(extraction.used), sizes)
