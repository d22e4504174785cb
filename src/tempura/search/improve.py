"""From the choices of dynamic programming, which counts shared work as often as it is used, to a plan that is cheap as a whole."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from tempura.algebra.rel import Rel
from tempura.plan.progressive import Step
from tempura.rules.dsl import Rule
from tempura.search.best import Best
from tempura.search.events import PlanCosted
from tempura.search.extract import Extraction
from tempura.search.graph import ONE_PART, Alternative, Graph, Search
from tempura.search.price import Pricing
from tempura.search.space import Goal

Choices = dict[Goal, Alternative]

_GOOD_PART = 0.01
"""What the rows of a result have to take of a plan's price to be read, if that may be what decides."""


@dataclass(frozen=True, slots=True)
class Built:
    """The steps of a plan, and the rules by which they were made. ``cost`` is weighted and has the graph's rent of what is kept: states of
    ``sizes`` bytes."""

    steps: tuple[Step, ...]
    cost: int
    reached: tuple[Goal, ...]
    used: tuple[tuple[Rule, Rel], ...]
    sizes: tuple[float, ...]


class Candidate:
    """A plan as choices, and its price. It is built when somebody asks, and may cost something else then: ``least`` if all that takes
    deletions out is left out (``search.consolidation``), more by what buckets cost."""

    def __init__(self, graph: Graph, choices: Choices, price: int, least: int) -> None:
        self.graph = graph
        self.choices = choices
        self.price = price
        self.least = least

    @cached_property
    def built(self) -> Built:
        """The plan, built."""
        graph, extraction = self.graph, Extraction(self.graph, self.choices)
        steps = extraction.steps()
        sizes = extraction.kept_sizes()
        rent = sum(map(graph.charged, sizes)) if graph.rent else 0
        cost = sum(graph.weighted(step.cost + step.reading, step.time) for step in steps) + rent
        graph.tell(PlanCosted(cost))
        return Built(steps, cost, extraction.reached, tuple(extraction.used), sizes)

    @property
    def cost(self) -> int:
        """What it costs as it is built."""
        return self.built.cost


Begun = tuple[Search, Candidate]
"""A plan, and the search that goes on from it."""


def first_candidate(pricing: Pricing, search: Search) -> Candidate | None:
    """The plan that dynamic programming chooses; None when the rules cannot reach an output."""
    return next(iter(first_candidates(pricing, search, (None,))), None)


def first_candidates(pricing: Pricing, search: Search, beginnings: Sequence[int | None]) -> list[Candidate]:
    """The plans that dynamic programming chooses where all work begins at some time point, or each class at its own (None): those that
    reach all outputs, each once. Where each class begins at its own and that costs as much as another, it is left out."""
    graph, found = pricing.graph, list[tuple[int | None, Candidate]]()
    reached: set[frozenset[tuple[Goal, Alternative]]] = set()

    def look(begin: int | None, goes_on: bool) -> None:
        best = Best(graph, graph.outputs, search, begin, goes_on)
        if not all(goal in best.chosen for goal in graph.outputs) or (price := pricing.price(best.chosen)) is None:
            return
        plan = frozenset((goal, best.chosen[goal]) for goal in price.reached)
        if plan not in reached:
            found.append((begin, Candidate(graph, best.chosen, price.cost, price.least)))
        reached.add(plan)

    for begin in beginnings:
        look(begin, goes_on=False)
    first = min((begin for begin in beginnings if begin is not None), default=None)
    if first is not None and _is_dear_to_read(graph, min((candidate.price for _, candidate in found), default=0)):
        look(first, goes_on=True)
    known = {candidate.price for begin, candidate in found if begin is not None}
    return [candidate for begin, candidate in found if begin is not None or candidate.price not in known]


def _is_dear_to_read(graph: Graph, price: int) -> bool:
    """Whether a result can be appended to, and to read it takes a good part of what a plan costs. That this need not be done is not taken
    out of the price of what the result grows from before that is settled; until then to compute it anew may look cheaper."""
    loads = ((goal, *graph.load_parts(goal.view, ONE_PART)) for goal in graph.outputs)
    read = sum(graph.weighted(cost - fixed, goal.time) for goal, cost, fixed in loads)
    ways = ((goal, way) for goal in graph.outputs for way in graph.alternatives(goal))
    return read > _GOOD_PART * price and any(graph.growth_by(goal, way) for goal, way in ways)


def _allows(graph: Graph, search: Search, seed: Candidate) -> bool:
    """Whether a search may use what another one has found: what is to be computed once is computed as it has it."""
    once = (goal for goal in seed.built.reached if graph.facts.is_computed_once(goal.view.tvr))
    return all(seed.choices[goal].searches & search.mask for goal in once)


def _seeded(candidate: Candidate, seed: Candidate) -> Candidate:
    """A plan that was found with fewer rules, with what is chosen here for the goals that it does not reach."""
    reached = {goal: seed.choices[goal] for goal in seed.built.reached}
    return Candidate(seed.graph, {**candidate.choices, **reached}, seed.price, seed.least)


def beside_seed(graph: Graph, begun: Sequence[Begun], seed: Candidate) -> list[Begun]:
    """What to go on from where a good plan is known: from that, and from the cheapest that was found without it, if it is another. From
    more there would be less to spend on each."""
    going_on = [(search, _seeded(own, seed)) for search, own in begun if _allows(graph, search, seed)][:1]
    others = [(search, own) for search, own in begun if own.price != seed.price]
    return [*going_on, *others[:1]] if going_on else list(begun)


def improve(pricing: Pricing, begun: Sequence[Begun], budget: int) -> Begun:
    """Exchange one choice of a plan at a time, and load what it needs where the plan makes that anyway, while the plan as a whole gets
    cheaper. Of several beginnings the cheapest plan that one leads to, or is. ``budget``: how many plans may be priced in all (counted,
    not timed, so that runs repeat)."""
    improved = [(search, _exchanged(pricing, search, first, budget // len(begun))) for search, first in begun]
    best, *others = sorted((*improved, *begun), key=lambda found: found[1].least)
    for other in others:  # most need not be built to know that they cost more
        if other[1].least < best[1].cost:
            best = min(best, other, key=lambda found: found[1].cost)
    return best


def _exchanged(pricing: Pricing, search: Search, candidate: Candidate, budget: int) -> Candidate:
    """A plan that no more exchange makes cheaper, as far as the budget goes."""
    graph, choices, price = pricing.graph, candidate.choices, pricing.walk(candidate.choices)
    assert price is not None, "what has a price does not depend on itself"
    improved = True
    while improved:
        improved = False
        for goal in price.reached:
            if goal not in price.reached:  # since an exchange before
                continue
            for way in _others(graph, search, choices, goal):
                for exchanged in _exchanges(graph, search, choices, goal, way, price.reached):
                    if budget <= 0:
                        return Candidate(graph, choices, price.cost, price.least)
                    cost = pricing.exchanged(price, goal, exchanged, below=price.cost)
                    budget -= 1
                    tried = pricing.walk(choices, exchanged) if cost is not None else None
                    if tried is not None:
                        choices, price, improved = {**choices, **exchanged}, tried, True
                        break
    return candidate if choices is candidate.choices else Candidate(graph, choices, price.cost, price.least)


def _others(graph: Graph, search: Search, choices: Choices, goal: Goal) -> Iterator[Alternative]:
    """The ways to reach a goal that do something else than the one that is chosen, and than each other: rules that say the same make ways
    that cost the same."""
    seen = {choices[goal].does}
    for way in graph.alternatives(goal):
        if way.does not in seen and _is_open(way, search, choices):
            seen.add(way.does)
            yield way


def _is_open(way: Alternative, search: Search, choices: Choices) -> bool:
    return bool(way.searches & search.mask) and all(goal in choices for goal in way.goals)


def _exchanges(
    graph: Graph, search: Search, choices: Choices, goal: Goal, way: Alternative, reached: Collection[Goal]
) -> Iterator[Choices]:
    """To reach a goal in this way. Of what that needs and the plan does not have, what can be loaded because the plan makes it earlier
    anyway; else it is reached as before, or, where that differs, computed of nothing but what the plan has. Dynamic programming does not
    know what is made anyway, and may compute it once more."""
    loads, computed = dict[Goal, Alternative](), dict[Goal, Alternative]()
    for needed in (needed for needed in way.goals if needed not in reached):
        ways = (a for a in graph.alternatives(needed) if a.searches & search.mask)
        at_hand = [a for a in ways if all(child in reached for child in a.goals)]
        loads.update((needed, a) for a in at_hand if a.rule is None)
        if at_hand and needed not in loads:
            computed[needed] = min(at_hand, key=partial(graph.work, needed))
    yield {**loads, goal: way}
    if any(choices[needed] is not way for needed, way in computed.items()):
        yield {**loads, **computed, goal: way}
