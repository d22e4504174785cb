"""What plans reach: goals, operators, loads, and how often each is needed; of a whole plan, and of one that differs in a choice by what
comes and what goes."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

from tempura.search.graph import Alternative, Graph
from tempura.search.space import Goal
from tempura.tvr.views import View

Choices = Mapping[Goal, Alternative]

Selection = tuple[View, tuple[int, ...], bool]
"""A view of which semi joins select groups, the numbers of these, and whether nothing else of it is read."""


class Numbered(Protocol):
    """Operators by numbers, equal ones under one."""

    graph: Graph

    def operators(self, way: Alternative) -> Mapping[int, int]:
        """The numbers of an alternative's operators, and what these cost at weight one."""

    def selected(self, way: Alternative) -> tuple[Selection, ...]:
        """The views of which an alternative selects groups."""


class Walk:
    """What a plan reaches. ``uses``: how many others need a goal, or load it; ``counts``: by time, how many goals need the operator of a
    number: it costs something once; ``costs`` of operators at each time, at weight one; what is ``loaded``; how many ways read nothing
    of a goal but groups that are selected (``selectors``), and how many select them by the join of a number (``selecting``)."""

    def __init__(self, numbered: Numbered) -> None:
        self.numbered = numbered
        self.uses: dict[Goal, int] = {}
        self.counts: defaultdict[int, dict[int, int]] = defaultdict(dict)
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
        t, counts = goal.time, self.counts[goal.time]
        for number, cost in self.numbered.operators(way).items():
            before = counts.get(number, 0)
            counts[number] = after = before + more
            if not (before and after):
                self.costs[t] = self.costs.get(t, 0) + (cost if after else -cost)
        for view, joins, only in self.numbered.selected(way):
            of = self.numbered.graph.goal(view, t)
            self.selectors[of] = self.selectors.get(of, 0) + more * only
            for join in joins:
                self.selecting[of, join] = self.selecting.get((of, join), 0) + more


class WholePlan(Walk):
    """A walk over all goals of a plan. ``ranks``: those that are reached; each has a higher rank than what it needs at its time."""

    def __init__(self, numbered: Numbered, choices: Choices) -> None:
        super().__init__(numbered)
        self._choices = choices
        self.ranks: dict[Goal, int] = {}  # 0 while what a goal needs is being visited
        self._unbuilt: list[Goal] = []
        self._rank = 0

    def chosen(self, goal: Goal) -> Alternative:
        return self._choices[goal]

    def is_made(self) -> bool:
        """Visit all; False when something needs itself."""
        if not all(map(self._needs, self.numbered.graph.outputs)):
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
        elif all(map(self._needs, way.goals)):
            self.count(goal, way)
        else:
            return False
        self._rank += 1
        self.ranks[goal] = self._rank
        return True


class Exchange(Walk):
    """What comes and goes when a goal of a plan is reached in another way: no other is visited. ``touched``: that goal, and all that are
    used more or less often, or by others."""

    def __init__(self, plan: WholePlan, goal: Goal, exchanged: Choices) -> None:
        super().__init__(plan.numbered)
        self._plan = plan
        self.goal = goal
        self._exchanged = exchanged
        self._come: dict[Goal, bool] = {}  # False while what a goal needs is being visited
        self._above: dict[Goal, bool] = {goal: True}
        self.touched = {goal}
        self.uses = dict(plan.uses)
        self.counts.update((t, dict(counts)) for t, counts in plan.counts.items())
        self.costs, self.loaded = dict(plan.costs), dict(plan.loaded)
        self.selectors, self.selecting = dict(plan.selectors), dict(plan.selecting)

    def chosen(self, goal: Goal) -> Alternative:
        return self._exchanged.get(goal) or self._plan.chosen(goal)

    def use(self, goal: Goal, more: int = 1) -> int:
        self.touched.add(goal)
        return super().use(goal, more)

    def is_made(self) -> bool:
        """Visit what comes, then leave what goes; False when something would need itself."""
        self.loaded.pop(self.goal, None)
        made = self._enter(self.goal)
        if made:
            self._leave(self.goal)
        return made

    def _enter(self, goal: Goal) -> bool:
        way = self.chosen(goal)
        if way.rule is None:
            self.loaded[goal] = way
        else:
            self.count(goal, way)
        return all(map(self._needs, way.goals))

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
            may_be = goal.time == self.goal.time and way.rule is not None and ranks[goal] > ranks[self.goal]
            self._above[goal] = may_be and any(map(self._is_above, way.goals))
        return self._above[goal]

    def _leave(self, goal: Goal) -> None:
        """Take back what a goal needed as the plan reaches it."""
        way = self._plan.chosen(goal)
        if way.rule is not None:
            self.count(goal, way, -1)
        for needed in way.goals:
            if self.use(needed, -1) == 0:
                self.loaded.pop(needed, None)
                self._leave(needed)
