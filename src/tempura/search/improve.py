"""From the choices of dynamic programming, which counts shared work as often as it is used, to a plan that is cheap as a whole."""

from dataclasses import dataclass

from tempura.plan.progressive import Step
from tempura.search.best import Best
from tempura.search.extract import CyclicPlanError, Extraction
from tempura.search.graph import Alternative, Goal, Graph
from tempura.tvr.views import View

Choices = dict[Goal, Alternative]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan as choices and as steps; ``cost`` is weighted and counts shared work once."""

    choices: Choices
    steps: tuple[Step, ...]
    cost: int
    reached: tuple[Goal, ...]
    used: tuple[tuple[str, View], ...]


def first_candidate(graph: Graph) -> Candidate | None:
    """The plan that dynamic programming chooses; None when the rules cannot reach an output."""
    best = Best(graph, graph.outputs)
    return _extract(graph, best.chosen) if all(goal in best.chosen for goal in graph.outputs) else None


def improve(graph: Graph, candidate: Candidate, budget: int) -> Candidate:
    """Exchange one choice at a time while the plan as a whole gets cheaper. ``budget``: goals that plans tried may reach, all
    together; counted, not timed, so that runs repeat."""
    improved = True
    while improved:
        improved = False
        for goal in candidate.reached:
            for way in graph.alternatives(goal):
                if budget <= 0:
                    return candidate
                tried = _exchange(graph, candidate, goal, way)
                if tried is None:
                    continue
                budget -= len(tried.reached)
                if tried.cost < candidate.cost:
                    candidate, improved = tried, True
    return candidate


def _exchange(graph: Graph, candidate: Candidate, goal: Goal, way: Alternative) -> Candidate | None:
    choices = candidate.choices
    if way == choices.get(goal) or any(g not in choices for g in way.goals):
        return None
    try:
        return _extract(graph, {**choices, goal: way})
    except CyclicPlanError:
        return None


def _extract(graph: Graph, choices: Choices) -> Candidate:
    extraction = Extraction(graph, choices)
    steps = extraction.steps()
    cost = sum(graph.weighted(step.cost, step.time) for step in steps)
    return Candidate(choices, steps, cost, extraction.reached, tuple(extraction.used))
