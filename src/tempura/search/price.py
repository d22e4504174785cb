"""What a plan costs, from its choices alone: a plan need not be built to be compared with another, nor looked at as a whole to be compared
with one that differs in a few choices."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import inf

from tempura.algebra.rel import Consolidate, Rel
from tempura.physical.growth import Growth
from tempura.physical.operators import StateKey
from tempura.search.events import PlanCosted
from tempura.search.graph import Alternative, Graph
from tempura.search.relief import Relief
from tempura.search.space import Goal
from tempura.search.walk import Choices, Exchange, Selection, Walk, WholePlan
from tempura.tvr.views import View

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
        plan = WholePlan(self, {**choices, **exchanged})
        if not plan.is_made():
            return None
        cost = self._cost(plan)
        return Price(self, plan, cost, cost - self._consolidated(plan))

    def exchanged(self, price: "Price", goal: Goal, exchanged: Choices, below: float = inf) -> int | None:
        """What a plan costs in which a goal that it reaches is reached in another way, which is among what is exchanged, and what that
        needs besides as it is exchanged, too; None when it would depend on itself, or does not cost less than ``below``. The same as its
        price, found by what comes and goes."""
        plan = Exchange(price.plan, goal, exchanged)
        made = plan.is_made()
        if made and self._adds_too_much(price, plan, below):
            return None
        cost = self._cost(plan) if made else None
        self.graph.tell(PlanCosted(cost))
        return cost if cost is not None and cost < below else None

    def _adds_too_much(self, price: "Price", plan: Exchange, below: float) -> bool:
        """Whether an exchange adds so much by its operators that it costs no less, whatever else it may relieve the plan of."""
        weighted, before = self.graph.weighted, price.plan.costs
        added = sum(weighted(cost - before.get(t, 0), t) for t, cost in plan.costs.items())
        return added > 0 and price.cost + added - price.relief.at_most(plan) >= below

    def _cost(self, plan: Walk) -> int:
        """What operators take, what is loaded and saved, the results and what it takes to read them, and the rent of what is kept."""
        graph, costs = self.graph, defaultdict(int, plan.costs)
        savers = Counter(made for way in plan.loaded.values() for made in way.goals)
        anew = [
            goal
            for goal, way in plan.loaded.items()
            if graph.is_result(goal) and not graph.stays(goal, way, plan.chosen)
        ]
        # A result is written as what is saved is, and saved or not only once.
        writers = savers + Counter(goal for goal in graph.outputs if goal not in anew)
        grown = {goal: found for goal in writers if (found := graph.grown(goal, plan.chosen))}
        appended = {goal: found for goal, found in grown.items() if plan.uses[goal] == writers[goal]}
        for t, cost in self._left_out(plan, appended):
            costs[t] -= cost
        for t, cost in self._loaded(plan, writers, appended):
            costs[t] += cost
        for goal in {graph.place(goal): goal for goal in writers}.values():
            # What is stored already stays where it is.
            costs[goal.time] += 0 if goal in plan.loaded else self._save(goal.view, grown.get(goal))
        for goal in anew:
            costs[goal.time] += graph.save_cost(goal.view, None)
        for goal in graph.outputs:
            costs[goal.time] += graph.reading(goal, plan.chosen)
        rent = sum(map(graph.charged, self._kept(plan, savers).values())) if graph.rent else 0
        return sum(graph.weighted(cost, t) for t, cost in costs.items()) + rent

    def _loaded(
        self, plan: Walk, writers: Mapping[Goal, int], appended: Mapping[Goal, Growth]
    ) -> Iterator[tuple[int, int]]:
        """By time, what it costs to load what is read. What is appended to, or stays where it is, is not."""
        unread = Counter(base for goal, found in appended.items() if (base := self._unread(plan, goal, found)))
        unread.update({goal: uses for goal, uses in writers.items() if goal in plan.loaded})
        loads: dict[tuple[int, int], int] = defaultdict(int)
        for goal, way in plan.loaded.items():
            place = goal.time, self._number(way.rhs)
            loads[place] = max(loads[place], self.load(plan, goal, way, plan.uses[goal] - unread[goal]))
        yield from ((t, cost) for (t, _), cost in loads.items())

    def _left_out(self, plan: Walk, appended: Mapping[Goal, Growth]) -> Iterator[tuple[int, int]]:
        """By time, what is not done of that by which views are reached, because they are saved by appending to what is stored, and nobody
        reads them then."""
        gone, come, costs = Counter[tuple[int, int]](), dict[tuple[int, int], int](), dict[int, int]()
        for goal, grown in appended.items():
            way = plan.chosen(goal)
            whole, some = self.operators(way), self.operators(self.graph.appended(way, grown, goal.time))
            costs.update(whole)
            gone.update((goal.time, number) for number in whole if number not in some)
            come.update(((goal.time, number), cost) for number, cost in some.items() if number not in whole)
        yield from ((t, costs[number]) for (t, number), ways in gone.items() if plan.counts[t][number] == ways)
        yield from ((t, -cost) for (t, number), cost in come.items() if not plan.counts[t].get(number))

    def _unread(self, plan: Walk, goal: Goal, grown: Growth) -> Goal | None:
        """The goal that a view grows out of which is appended to, if what is appended does not depend on it."""
        base = self.graph.base(grown, goal.time)
        return None if base in self.graph.appended(plan.chosen(goal), grown, goal.time).goals else base

    def _consolidated(self, plan: Walk) -> int:
        """What it takes to take deletions out."""
        asked = self._consolidations
        needed = ((t, number) for t, counts in plan.counts.items() for number, uses in counts.items() if uses)
        return sum(self.graph.weighted(asked[number], t) for t, number in needed if number in asked)

    def _kept(self, plan: Walk, saved: Iterable[Goal]) -> Mapping[tuple[int, StateKey], float]:
        """The bytes that are taken: by what is saved, and by what of the past is kept with what the first step saves."""
        graph, first = self.graph, self.graph.problem.first
        stay = (goal for goal, way in plan.loaded.items() if not way.goals and goal.time > first)
        kept = {(first, graph.key(goal.view)): graph.size(goal.view) for goal in stay}
        return {**kept, **{(goal.time, graph.key(goal.view)): graph.own_size(goal) for goal in saved}}

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

    def load(self, plan: Walk, goal: Goal, way: Alternative, readers: int) -> int:
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


class Price:
    """A plan's weighted cost, with the rent of what it keeps, and the goals that it reaches, each once. ``least``: without what
    takes deletions out, which a plan may leave out when it is built (``search.consolidation``)."""

    def __init__(self, pricing: Pricing, plan: WholePlan, cost: int, least: int) -> None:
        self._pricing = pricing
        self.plan = plan
        self.cost = cost
        self.least = least

    @property
    def reached(self) -> Collection[Goal]:
        """Each goal that the plan reaches, once."""
        return self.plan.ranks.keys()

    @cached_property
    def relief(self) -> Relief:
        """What an exchange may relieve the plan of."""
        return Relief(self._pricing, self.plan)
