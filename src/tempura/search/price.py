"""What a plan costs, from its choices alone: a plan need not be built to be compared with another, nor looked at as a whole to be compared
with one that differs in a few choices."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from tempura.algebra.rel import Consolidate, Rel
from tempura.physical.growth import Growth
from tempura.physical.operators import StateKey
from tempura.search.events import PlanCosted
from tempura.search.graph import Alternative, Graph
from tempura.search.space import Goal
from tempura.tvr.views import View

Choices = Mapping[Goal, Alternative]
NOTHING: Choices = {}

Selection = tuple[View, tuple[int, ...], bool]
"""A view of which semi joins select groups, the numbers of these, and whether nothing else of it is read."""


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
        self._selected: dict[Alternative, tuple[Selection, ...]] = {}
        self._rows: dict[int, int] = {}

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
        savers = Counter(made for way in plan.loaded.values() for made in way.goals)
        grown = {goal: found for goal in savers if (found := graph.grown(goal, plan.chosen))}
        appended = {goal: found for goal, found in grown.items() if plan.uses[goal] == savers[goal]}
        for t, cost in self._left_out(plan, appended):
            costs[t] -= cost
        unread = Counter(base for goal, found in appended.items() if (base := self._unread(plan, goal, found)))
        unread.update({goal: uses for goal, uses in savers.items() if goal in plan.loaded})
        loads: dict[tuple[int, int], int] = defaultdict(int)
        for goal, way in plan.loaded.items():
            place = goal.time, self._number(way.rhs)
            loads[place] = max(loads[place], self._load(plan, goal, way, plan.uses[goal] - unread[goal]))
        for (t, _), cost in loads.items():
            costs[t] += cost
        saved = {(goal.time, graph.key(goal.view)): goal for goal in savers}
        for goal in saved.values():
            # What is stored already stays where it is.
            costs[goal.time] += 0 if goal in plan.loaded else self._save(goal.view, grown.get(goal))
        for root in graph.outputs:
            costs[root.time] += self.emit(root.view)
        rent = sum(graph.charged(graph.size(view)) for view in self._kept(plan, saved).values()) if graph.rent else 0
        return sum(graph.weighted(cost, t) for t, cost in costs.items()) + rent

    def _left_out(self, plan: "_Walk", appended: Mapping[Goal, Growth]) -> Iterator[tuple[int, int]]:
        """By time, what is not done of that by which views are reached, because they are saved by appending to what is stored, and nobody
        reads them then."""
        gone, come, costs = Counter[tuple[int, int]](), dict[tuple[int, int], int](), dict[int, int]()
        for goal, grown in appended.items():
            way = plan.chosen(goal)
            whole, some = self.operators(way), self.operators(self.graph.appended(way, grown, goal.time))
            costs.update(whole)
            gone.update((goal.time, number) for number in whole if number not in some)
            come.update(((goal.time, number), cost) for number, cost in some.items() if number not in whole)
        yield from ((place[0], costs[place[1]]) for place, ways in gone.items() if plan.counts[place] == ways)
        yield from ((place[0], -cost) for place, cost in come.items() if not plan.counts.get(place))

    def _unread(self, plan: "_Walk", goal: Goal, grown: Growth) -> Goal | None:
        """The goal that a view grows out of which is appended to, if what is appended does not depend on it."""
        base = self.graph.base(grown, goal.time)
        return None if base in self.graph.appended(plan.chosen(goal), grown, goal.time).goals else base

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

    def selected(self, way: Alternative) -> tuple[Selection, ...]:
        """The views of which an alternative selects groups, with the numbers of the joins that do."""
        known = self._selected.get(way)
        if known is None:
            known = self._selected[way] = tuple(
                (found.view, tuple(map(self._number, found.joins)), found.only) for found in self.graph.selected(way)
            )
            rows = self.graph.estimate.rows
            self._rows.update(
                (self._number(j), round(rows(j))) for found in self.graph.selected(way) for j in found.joins
            )
        return known

    def _load(self, plan: "_Walk", goal: Goal, way: Alternative, readers: int) -> int:
        """What it costs to load a view for so many who read it."""
        if not readers:
            return 0
        lies = self.graph.lies(goal, way, plan.chosen)
        joins = [join for (of, join), ways in plan.selecting.items() if of is goal and ways] if lies.grouped else []
        selected = sum(self._rows[join] for join in joins)
        whole = readers > plan.selectors.get(goal, 0)
        return self.graph.load_parts(goal.view, lies, whole, selected)[0]

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
    number: it costs something once; ``costs`` of operators at each time, at weight one; what is ``loaded``; how many ways read nothing of
    a goal but groups that are selected (``selectors``), and how many select them by the join of a number (``selecting``)."""

    def __init__(self, pricing: Pricing) -> None:
        self.pricing = pricing
        self.uses: dict[Goal, int] = {}
        self.counts: dict[tuple[int, int], int] = {}
        self.costs: dict[int, int] = {}
        self.loaded: dict[Goal, Alternative] = {}
        self.selectors: dict[Goal, int] = {}
        self.selecting: dict[tuple[Goal, int], int] = {}

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
        for view, joins, only in self.pricing.selected(way):
            of = self.pricing.graph.goal(view, t)
            self.selectors[of] = self.selectors.get(of, 0) + more * only
            for join in joins:
                self.selecting[of, join] = self.selecting.get((of, join), 0) + more


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
        self.selectors, self.selecting = dict(plan.selectors), dict(plan.selecting)

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
