"""What a plan costs, from its choices alone: a plan need not be built to be compared with another."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from tempura.algebra.rel import Rel
from tempura.physical.growth import Growth
from tempura.search.events import PlanCosted
from tempura.search.graph import Alternative, Graph
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
        for goal in {(goal.time, self.graph.key(goal.view)): goal for goal in plan.saved}.values():
            plan.add(goal.time, self._save(goal.view, plan.growth(goal)))
        for root in roots:
            plan.add(root.time, self._emit(root.view))
        return Price(sum(self.graph.weighted(cost, t) for t, cost in plan.costs()), plan.reached)

    def operators(self, goal: Goal, way: Alternative) -> Mapping[int, int]:
        """The costs of an alternative's operators, which are numbered: equal ones have one number."""
        known = self._operators.get(way)
        if known is None:
            costs = self._costs(goal, way).items()
            known = {self._numbers.setdefault(rel, len(self._numbers)): cost for rel, cost in costs}
            self._operators[way] = known
        return known

    def _costs(self, goal: Goal, way: Alternative) -> Mapping[Rel, int]:
        if way.rule is None:
            return {way.rhs: self.graph.load_cost(goal.view)}
        return {rel: self.graph.cost(rel) for rel in way.rhs.walk() if not isinstance(rel, View)}

    def _save(self, view: View, grown: Growth | None) -> int:
        if (view, grown) not in self._saves:
            self._saves[view, grown] = self.graph.save_cost(view, grown)
        return self._saves[view, grown]

    def _emit(self, view: View) -> int:
        if view not in self._emits:
            estimate = self.graph.estimate
            self._emits[view] = self.graph.model.write(estimate.rows(view), estimate.width(view))
        return self._emits[view]


class Price:
    """A plan's weighted cost, and the goals that it reaches, each once."""

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
        self.unbuilt: list[Goal] = []
        self._operators: dict[int, dict[int, int]] = defaultdict(dict)
        self._more: dict[int, int] = defaultdict(int)

    def visit(self, goal: Goal) -> bool:
        """Count what a goal takes; False when it needs itself."""
        known = self.reached.get(goal)
        if known is not None:
            return known
        self.reached[goal] = False
        way = self._way(goal)
        if way.rule is None:
            self.saved.update(dict.fromkeys(way.goals))
            self.unbuilt.extend(way.goals)
        else:
            for needed in way.goals:
                if not (self.reached.get(needed) or self.visit(needed)):
                    return False
        self._operators[goal.time].update(self._pricing.operators(goal, way))
        self.reached[goal] = True
        return True

    def growth(self, goal: Goal) -> Growth | None:
        """How a view that is saved grows out of one that the step loads."""
        grown = self._pricing.graph.growth_by(goal, self._way(goal))
        if grown is None:
            return None
        assert isinstance(grown.base, View)
        return grown if self._way(self._pricing.graph.goal(grown.base, goal.time)).rule is None else None

    def add(self, t: int, cost: int) -> None:
        """Count what a time point takes besides operators."""
        self._more[t] += cost

    def costs(self) -> Iterator[tuple[int, int]]:
        """The time points, and what they take, at weight one."""
        for t in {**self._operators, **self._more}:
            yield t, sum(self._operators[t].values()) + self._more[t]

    def _way(self, goal: Goal) -> Alternative:
        return self._exchanged.get(goal) or self._choices[goal]
