"""What a plan costs, from its choices alone: a plan need not be built to be compared with another, nor looked at as a whole to be compared
with one that differs in a few choices."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from tempura.algebra.rel import Consolidate, Rel
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
        self._consolidations: dict[int, int] = {}
        self._numbers: dict[Rel, int] = {}
        self._saves: dict[tuple[View, Growth | None], int] = {}
        self._emits: dict[View, int] = {}

    def price(self, choices: Choices, exchanged: Choices = NOTHING) -> "Price | None":
        """The price of the plan that is chosen, with what is ``exchanged`` in place of what is chosen there; None when the plan
        would depend on itself."""
        price = self.walk(choices, exchanged)
        self.graph.tell(PlanCosted(price.cost if price else None))
        return price

    def walk(self, choices: Choices, exchanged: Choices = NOTHING) -> "Price | None":
        """The same, and nobody is told."""
        plan = _Plan(self, {**choices, **exchanged})
        if not plan.is_made():
            return None
        cost = self._cost(plan)
        return Price(plan, cost, cost - self._consolidated(plan))

    def exchanged(self, price: "Price", goal: Goal, exchanged: Choices) -> int | None:
        """What a plan costs in which a goal that it reaches is reached in another way, which is among what is exchanged, and what that
        needs besides as it is exchanged, too; None when it would depend on itself. The same as its price, found by what comes and goes."""
        plan = _Exchange(price.plan, goal, exchanged)
        cost = self._cost(plan) if plan.is_made() else None
        self.graph.tell(PlanCosted(cost))
        return cost

    def _cost(self, plan: "_Walk") -> int:
        """What operators take, what is loaded and saved, the results, and the rent of what is kept."""
        graph, costs = self.graph, defaultdict(int, plan.costs)
        loads = {(goal.time, self._number(way.rhs)): (goal, way) for goal, way in plan.loaded.items()}
        for goal, way in loads.values():
            costs[goal.time] += self._load(goal, way, plan.chosen)
        saved = {(made.time, graph.key(made.view)): made for way in plan.loaded.values() for made in way.goals}
        for goal in saved.values():
            costs[goal.time] += self._save(goal.view, graph.grown(goal, plan.chosen))
        for root in graph.outputs:
            costs[root.time] += self.emit(root.view)
        rent = sum(graph.charged(graph.size(view)) for view in self._kept(plan, saved).values()) if graph.rent else 0
        return sum(graph.weighted(cost, t) for t, cost in costs.items()) + rent

    def _consolidated(self, plan: "_Walk") -> int:
        """What it takes to take deletions out."""
        asked = self._consolidations
        found = [(t, asked[number]) for (t, number), uses in plan.counts.items() if uses and number in asked]
        return sum(self.graph.weighted(cost, t) for t, cost in found)

    def _kept(self, plan: "_Walk", saved: Mapping[tuple[int, StateKey], Goal]) -> Mapping[tuple[int, StateKey], View]:
        """What takes storage: what is saved, and what of the past is kept with what the first step saves."""
        first, key = self.graph.problem.first, self.graph.key
        stay = (goal for goal, way in plan.loaded.items() if not way.goals and goal.time > first)
        kept = {(first, key(goal.view)): goal.view for goal in stay}
        return {**kept, **{name: goal.view for name, goal in saved.items()}}

    def operators(self, way: Alternative) -> Mapping[int, int]:
        """The costs of an alternative's operators, which are numbered: equal ones have one number."""
        known = self._operators.get(way)
        if known is None:
            rels = [rel for rel in way.rhs.walk() if not isinstance(rel, View)]
            known = self._operators[way] = {self._number(rel): self.graph.cost(rel) for rel in rels}
            grouped = (self._number(rel) for rel in rels if isinstance(rel, Consolidate))
            self._consolidations.update((number, known[number]) for number in grouped)
        return known

    def _load(self, goal: Goal, way: Alternative, chosen: Chosen) -> int:
        return self.graph.load_parts(goal.view, self.graph.lies(goal, way, chosen))[0]

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
    """A plan's weighted cost, with the rent of what it keeps, and the goals that it reaches, each once. ``least``: without what
    takes deletions out, which a plan may leave out when it is built (``search.consolidation``)."""

    def __init__(self, plan: "_Plan", cost: int, least: int) -> None:
        self.plan = plan
        self.cost = cost
        self.least = least

    @property
    def reached(self) -> Collection[Goal]:
        """Each goal that the plan reaches, once."""
        return self.plan.ranks.keys()


class _Walk:
    """What a plan reaches. ``uses``: how many others need a goal, or load it; ``counts``: how many goals need an operator, by its time and
    number: it costs something once; ``costs`` of operators at each time, at weight one; what is ``loaded``."""

    def __init__(self, pricing: Pricing) -> None:
        self.pricing = pricing
        self.uses: dict[Goal, int] = {}
        self.counts: dict[tuple[int, int], int] = {}
        self.costs: dict[int, int] = {}
        self.loaded: dict[Goal, Alternative] = {}

    def chosen(self, goal: Goal) -> Alternative:
        """How a goal is reached."""
        raise NotImplementedError

    def use(self, goal: Goal, more: int = 1) -> int:
        """Count a use more of a goal, or less; how many there are now."""
        self.uses[goal] = uses = self.uses.get(goal, 0) + more
        return uses

    def count(self, goal: Goal, way: Alternative, more: int = 1) -> None:
        """Count the operators of a goal that is reached in some way; or take them back."""
        t, counts = goal.time, self.counts
        for number, cost in self.pricing.operators(way).items():
            before = counts.get((t, number), 0)
            counts[t, number] = after = before + more
            if not (before and after):
                self.costs[t] = self.costs.get(t, 0) + (cost if after else -cost)


class _Plan(_Walk):
    """A walk over all goals of a plan. ``ranks``: those that are reached; each has a higher rank than what it needs at its time."""

    def __init__(self, pricing: Pricing, choices: Choices) -> None:
        super().__init__(pricing)
        self._choices = choices
        self.ranks: dict[Goal, int] = {}  # 0 while what a goal needs is being visited
        self._unbuilt: list[Goal] = []
        self._rank = 0

    def chosen(self, goal: Goal) -> Alternative:
        return self._choices[goal]

    def is_made(self) -> bool:
        """Visit all; False when something needs itself."""
        if not all(map(self._needs, self.pricing.graph.outputs)):
            return False
        while self._unbuilt:
            if not self._needs(self._unbuilt.pop()):
                return False
        return True

    def _needs(self, goal: Goal) -> bool:
        self.use(goal)
        return self.ranks[goal] > 0 if goal in self.ranks else self._visit(goal)

    def _visit(self, goal: Goal) -> bool:
        self.ranks[goal] = 0
        way = self.chosen(goal)
        if way.rule is None:
            self.loaded[goal] = way
            self._unbuilt.extend(way.goals)
        elif all(map(self._needs, dict.fromkeys(way.goals))):
            self.count(goal, way)
        else:
            return False
        self._rank += 1
        self.ranks[goal] = self._rank
        return True


class _Exchange(_Walk):
    """What comes and goes when a goal of a plan is reached in another way: no other is visited."""

    def __init__(self, plan: _Plan, goal: Goal, exchanged: Choices) -> None:
        super().__init__(plan.pricing)
        self._plan = plan
        self._goal = goal
        self._exchanged = exchanged
        self._come: dict[Goal, bool] = {}  # False while what a goal needs is being visited
        self._above: dict[Goal, bool] = {goal: True}
        self.uses, self.counts = dict(plan.uses), dict(plan.counts)
        self.costs, self.loaded = dict(plan.costs), dict(plan.loaded)

    def chosen(self, goal: Goal) -> Alternative:
        return self._exchanged.get(goal) or self._plan.chosen(goal)

    def is_made(self) -> bool:
        """Visit what comes, then leave what goes; False when something would need itself."""
        self.loaded.pop(self._goal, None)
        made = self._enter(self._goal)
        if made:
            self._leave(self._goal)
        return made

    def _enter(self, goal: Goal) -> bool:
        way = self.chosen(goal)
        if way.rule is None:
            self.loaded[goal] = way
        else:
            self.count(goal, way)
        return all(map(self._needs, dict.fromkeys(way.goals)))

    def _needs(self, goal: Goal) -> bool:
        is_new = self.use(goal) == 1
        if goal in self._come:
            return self._come[goal]
        if not is_new:
            return not self._is_above(goal)
        self._come[goal] = False
        self._come[goal] = made = self._enter(goal)
        return made

    def _is_above(self, goal: Goal) -> bool:
        """Whether a goal that the plan reaches needs, at the same time, the one that is exchanged."""
        if goal not in self._above:
            way, ranks = self._plan.chosen(goal), self._plan.ranks
            may_be = goal.time == self._goal.time and way.rule is not None and ranks[goal] > ranks[self._goal]
            self._above[goal] = may_be and any(map(self._is_above, way.goals))
        return self._above[goal]

    def _leave(self, goal: Goal) -> None:
        """Take back what a goal needed as the plan reaches it."""
        way = self._plan.chosen(goal)
        if way.rule is not None:
            self.count(goal, way, -1)
        for needed in dict.fromkeys(way.goals):
            if self.use(needed, -1) == 0:
                self.loaded.pop(needed, None)
                self._leave(needed)
