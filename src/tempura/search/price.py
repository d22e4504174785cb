"""What a plan costs, from its choices alone: a plan need not be built to be compared with another."""

from collections.abc import Collection, Mapping

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
        self._operators: dict[Alternative, tuple[tuple[int, int], ...]] = {}
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
        return Price(sum(self.graph.weighted(cost, t) for t, cost in plan.costs.items()), plan.reached)

    def operators(self, goal: Goal, way: Alternative) -> tuple[tuple[int, int], ...]:
        """The operators of an alternative, as numbers that are equal for equal operators, and their costs."""
        if way not in self._operators:
            costs = self._costs(goal, way).items()
            self._operators[way] = tuple(
                (self._numbers.setdefault(rel, len(self._numbers)), cost) for rel, cost in costs
            )
        return self._operators[way]

    def _costs(self, goal: Goal, way: Alternative) -> Mapping[Rel, int]:
        model, estimate = self.graph.model, self.graph.estimate
        if way.rule is None:
            return {way.rhs: self.graph.load_cost(goal.view)}
        return {rel: model.operator(rel, estimate) for rel in way.rhs.walk() if not isinstance(rel, View)}

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
        self.costs: dict[int, int] = {}
        self._counted: dict[int, set[int]] = {}

    def visit(self, goal: Goal) -> bool:
        """Count what a goal takes; False when it needs itself."""
        if goal in self.reached:
            return self.reached[goal]
        self.reached[goal] = False
        way = self._way(goal)
        if way.rule is None:
            self.saved.update(dict.fromkeys(way.goals))
            self.unbuilt.extend(way.goals)
        elif not all(map(self.visit, way.goals)):
            return False
        self._count(goal, way)
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
        """Count what else a time point takes."""
        self.costs[t] = self.costs.get(t, 0) + cost

    def _way(self, goal: Goal) -> Alternative:
        return self._exchanged.get(goal) or self._choices[goal]

    def _count(self, goal: Goal, way: Alternative) -> None:
        counted, cost = self._counted.setdefault(goal.time, set()), 0
        for number, price in self._pricing.operators(goal, way):
            if number not in counted:
                counted.add(number)
                cost += price
        self.add(goal.time, cost)
