"""What an exchange may at most relieve a plan of, besides operators: most exchanges add more than that, and need no price."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Protocol

from tempura.search.graph import Alternative
from tempura.search.space import Goal
from tempura.search.walk import Exchange, Numbered, Walk, WholePlan


class Priced(Numbered, Protocol):
    """What operators and loads cost."""

    def load(self, plan: Walk, goal: Goal, way: Alternative, readers: int) -> int:
        """What it costs to load a view for so many who read it, at weight one."""


class Relief:
    """Of a plan, what hangs on each of its goals: all that it takes to load, to save and to read what may be loaded, saved or read in
    another way if that goal is reached in another way, or by more or fewer others. So nothing that an exchange leaves alone gets
    cheaper by it."""

    def __init__(self, priced: Priced, plan: WholePlan) -> None:
        self._priced = priced
        self._graph = priced.graph
        self._hanging: dict[Goal, int] = defaultdict(int)
        saved = (goal for way in plan.loaded.values() for goal in way.goals)
        self._written = {*saved, *self._graph.outputs}
        for goal, way in plan.loaded.items():
            self._hang(plan, goal, self._loading(plan, goal, way))
        for goal in self._written:
            self._hang(plan, goal, self._writing(plan, goal))
        self._shared = sum(self._counted_by_others(plan, goal) for goal in self._written)

    def at_most(self, plan: Exchange) -> int:
        """What a plan that differs so is relieved of at most, of all that is no operator of a goal that comes or goes."""
        loads = (way for goal in plan.touched if (way := plan.loaded.get(goal)))
        written = {saved for way in loads for saved in way.goals} - self._written
        written |= {plan.goal} & self._written
        hanging = sum(self._hanging[goal] for goal in plan.touched if goal in self._hanging)
        return self._shared + hanging + sum(self._left_out(plan, goal) for goal in written)

    def _hang(self, plan: WholePlan, goal: Goal, cost: int) -> None:
        for other in self._trail(plan, goal):
            self._hanging[other] += cost

    def _trail(self, plan: WholePlan, goal: Goal) -> Iterator[Goal]:
        """The goals that settle how a view lies that is loaded or saved: itself, what was saved for it, what that grows from."""
        yield goal
        way = plan.chosen(goal)
        below = way.goals if way.rule is None else self._base(goal, way)
        for other in below:
            if way.rule is None or plan.chosen(other).rule is None:
                yield from self._trail(plan, other)
            else:  # nothing grows from what is not loaded; but it may be, in another plan
                yield other

    def _base(self, goal: Goal, way: Alternative) -> Iterable[Goal]:
        """What a view grows from that is reached in this way, if it does."""
        grown = self._graph.growth_by(goal, way)
        return (self._graph.base(grown, goal.time),) if grown else ()

    def _loading(self, plan: Walk, goal: Goal, way: Alternative) -> int:
        """What it takes to load a view, and to keep it until then."""
        load = self._graph.weighted(self._priced.load(plan, goal, way, plan.uses[goal]), goal.time)
        return load + (self._graph.charged(self._graph.size(goal.view)) if self._graph.rent else 0)

    def _writing(self, plan: WholePlan, goal: Goal) -> int:
        """What it takes to save a view, or a result and to read that, and what is not done if it is only appended to."""
        graph = self._graph
        cost = graph.save_cost(goal.view, None)
        cost += graph.reading(goal, plan.chosen) if graph.is_result(goal) else 0
        rent = graph.charged(graph.own_size(goal)) if graph.rent else 0
        return graph.weighted(cost, goal.time) + rent + self._left_out(plan, goal)

    def _left_out(self, plan: Walk, goal: Goal) -> int:
        """What need not be done for a view at most, if all of it that is needed is appended to what is stored."""
        way = plan.chosen(goal)
        base = next(iter(self._base(goal, way)), None)
        if base is None:
            return 0
        load = plan.loaded.get(base)
        done = self._graph.weighted(sum(self._priced.operators(way).values()), goal.time)
        return done + (self._loading(plan, base, load) if load else 0)

    def _counted_by_others(self, plan: Walk, goal: Goal) -> int:
        """What need not be done for a view, or only because it is appended to, once others do it no longer, or do it, too."""
        way = plan.chosen(goal)
        grown = self._graph.growth_by(goal, way)
        if grown is None:
            return 0
        whole = self._priced.operators(way)
        some = self._priced.operators(self._graph.appended(way, grown, goal.time))
        shared = sum(cost for number, cost in whole.items() if plan.counts[goal.time][number] > 1)
        added = sum(cost for number, cost in some.items() if number not in whole)
        return self._graph.weighted(shared + added, goal.time)
