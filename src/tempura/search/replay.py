"""The choices of a plan by names that other problems of the same shape have too: so that it is found there again without a search."""

from collections.abc import Iterable

from tempura.search.counts import hashed
from tempura.search.graph import Alternative, Graph, Search
from tempura.search.improve import Candidate, Choices
from tempura.search.price import Pricing
from tempura.search.space import Goal

Named = tuple[tuple[str, str], ...]
"""The names of goals, and of the ways in which a plan reaches them."""


def named(graph: Graph, choices: Choices, reached: Iterable[Goal]) -> Named:
    """What is chosen for the goals that a plan reaches."""
    names = _Names(graph)
    return tuple((names.goal(goal), names.way(choices[goal])) for goal in reached)


def replayed(pricing: Pricing, search: Search, chosen: Named) -> Candidate | None:
    """The plan in which each goal is reached as it was chosen; None where there is none any more. Only what it needs is looked at."""
    graph, names, wanted = pricing.graph, _Names(pricing.graph), dict(chosen)
    choices: Choices = {}
    needed = list(graph.outputs)
    while needed:
        goal = needed.pop()
        if goal not in choices:
            way = _chosen(graph, search, goal, names, wanted.get(names.goal(goal)))
            if way is None:
                return None
            choices[goal] = way
            needed += way.goals
    price = pricing.price(choices)
    return Candidate(graph, choices, price.cost, price.least) if price else None


def _chosen(graph: Graph, search: Search, goal: Goal, names: "_Names", wanted: str | None) -> Alternative | None:
    """The way of a name, the cheapest if several have it."""
    ways = [way for way in graph.alternatives(goal) if way.searches & search.mask and names.way(way) == wanted]
    if len(ways) < 2:  # nearly always: then nobody asks what it costs
        return next(iter(ways), None)
    return min(ways, key=lambda way: graph.work(goal, way) if way.rule else 0)


class _Names:
    """Names of goals by what they compute and when, and of ways by their rules and what they need."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._of: dict[Goal, str] = {}

    def goal(self, goal: Goal) -> str:
        if goal not in self._of:
            view = goal.view
            what = f"{self._graph.memo.fingerprint(view.tvr)} {type(view.at).__name__}{view.at} at {goal.time}"
            self._of[goal] = hashed(what)
        return self._of[goal]

    def way(self, way: Alternative) -> str:
        rule = way.rule.name if way.rule else ""
        return hashed(" ".join((rule, *sorted(map(self.goal, way.goals)))))
