"""What a plan costs, from its choices alone: a plan need not be built to be compared with another."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from tempura.algebra.rel import Rel
from tempura.physical.growth import Growth
from tempura.physical.operators import StateKey
from tempura.search.events import PlanCosted
from tempura.search.graph import Alternative, Chosen, Graph
from tempura.search.space import Goal
from tempura.tvr.views import View

Choices = Mapping[Goal, Alternative]
NOTHING: Choices = {}


class Pricing:
    """Prices plans of one graph. Shared work counts once, as in the plan itself: operators that are equal over equal views are the
    same. Whether a later join will want a snapshot in buckets is left out."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._operators: dict[Alternative, dict[int, int]] = {}
        self._numbers: dict[Rel, int] = {}
        self._saves: dict[tuple[View, Growth | None], int] = {}
        self._emits: dict[View, int] = {}

    def price(self, choices: Choices, exchanged: Choices = NOTHING) -> "Price | None":
        """The price of the plan that is chosen, with what is ``exchanged`` in place of what is chosen there; None when the plan
        would depend on itself."""
        price = self._price(choices, exchanged)
        self.graph.tell(PlanCosted(price.cost if price else None))
        return price

    def _price(self, choices: Choices, exchanged: Choices) -> "Price | None":
        plan = _Plan(self, choices, exchanged)
        roots = self.graph.outputs
        if not all(map(plan.visit, roots)):
            return None
        while plan.unbuilt:
            if not plan.visit(plan.unbuilt.pop()):
                return None
        saved = {(goal.time, self.graph.key(goal.view)): goal for goal in plan.saved}
        for goal in saved.values():
            plan.add(goal.time, self._save(goal.view, self.graph.grown(goal, plan.chosen)))
        for root in roots:
            plan.add(root.time, self.emit(root.view))
        stored = {**plan.kept, **{key: goal.view for key, goal in saved.items()}}
        rent = sum(self.graph.charged(self.graph.size(view)) for view in stored.values()) if self.graph.rent else 0
        return Price(sum(self.graph.weighted(cost, t) for t, cost in plan.costs()) + rent, plan.reached)

    def operators(self, way: Alternative) -> Mapping[int, int]:
        """The costs of an alternative's operators, which are numbered: equal ones have one number."""
        known = self._operators.get(way)
        if known is None:
            rels = (rel for rel in way.rhs.walk() if not isinstance(rel, View))
            known = self._operators[way] = {self._number(rel): self.graph.cost(rel) for rel in rels}
        return known

    def load(self, goal: Goal, way: Alternative, chosen: Chosen) -> Mapping[int, int]:
        """The same for what is loaded."""
        return {self._number(way.rhs): self.graph.load_parts(goal.view, self.graph.lies(goal, way, chosen))[0]}

    def _number(self, rel: Rel) -> int:
        return self._numbers.setdefault(rel, len(self._numbers))

    def _save(self, view: View, grown: Growth | None) -> int:
        if (view, grown) not in self._saves:
            self._saves[view, grown] = self.graph.save_cost(view, grown)
        return self._saves[view, grown]

    def emit(self, view: View) -> int:
        """What it costs to write a result, at weight one."""
        if view not in self._emits:
            estimate = self.graph.estimate
            self._emits[view] = self.graph.model.write(estimate.rows(view), estimate.width(view))
        return self._emits[view]


class Price:
    """A plan's weighted cost, with the rent of what it keeps, and the goals that it reaches, each once."""

    def __init__(self, cost: int, reached: Collection[Goal]) -> None:
        self.cost = cost
        self.reached = reached


class _Plan:
    """A walk over the goals that a plan reaches."""

    def __init__(self, pricing: Pricing, choices: Choices, exchanged: Choices) -> None:
        self._pricing = pricing
        self._choices = choices
        self._exchanged = exchanged
        self.reached: dict[Goal, bool] = {}  # False while what a goal needs is being visited
        self.saved: dict[Goal, None] = {}
        self.kept: dict[tuple[int, StateKey], View] = {}  # of the past, with what the first step saves
        self.unbuilt: list[Goal] = []
        self._operators: dict[int, dict[int, int]] = defaultdict(dict)
        self._more: dict[int, int] = defaultdict(int)

    def visit(self, goal: Goal) -> bool:
        """Count what a goal takes; False when it needs itself."""
        known = self.reached.get(goal)
        if known is not None:
            return known
        self.reached[goal] = False
        way = self.chosen(goal)
        if way.rule is None:
            self.saved.update(dict.fromkeys(way.goals))
            self.unbuilt.extend(way.goals)
            graph = self._pricing.graph
            if graph.rent and not way.goals and goal.time > graph.problem.first:
                self.kept[graph.problem.first, graph.key(goal.view)] = goal.view
            self._operators[goal.time].update(self._pricing.load(goal, way, self.chosen))
        else:
            for needed in way.goals:
                if not (self.reached.get(needed) or self.visit(needed)):
                    return False
            self._operators[goal.time].update(self._pricing.operators(way))
        self.reached[goal] = True
        return True

    def chosen(self, goal: Goal) -> Alternative:
        """How a goal is reached."""
        return self._exchanged.get(goal) or self._choices[goal]

    def add(self, t: int, cost: int) -> None:
        """Count what a time point takes besides operators."""
        self._more[t] += cost

    def costs(self) -> Iterator[tuple[int, int]]:
        """The time points, and what they take, at weight one."""
        for t in {**self._operators, **self._more}:
            yield t, sum(self._operators[t].values()) + self._more[t]
