"""The cheapest way to reach each goal: dynamic programming over (view, time) on a cyclic graph.

Costs of alternatives only grow with the costs of what they need, so Knuth's generalisation of Dijkstra's algorithm (Information
Processing Letters 6, 1977) settles goals from cheap to expensive, and no plan can depend on itself. (What is appended to need not be
read, so its price may fall once it is known that it is: ``search.improve`` begins with a plan more where that may decide.) A goal that is
needed twice is counted twice here; the plan's own cost (``search.extract``) counts it once, and ``search.improve`` goes by that.
"""

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush

from tempura.physical.growth import Growth
from tempura.search.graph import Alternative, Graph, Search
from tempura.search.space import Goal


class Best:
    """The alternative that a search chooses, and its cost, for every goal that the roots may need and that can be reached; if ``begin`` is
    a time point, by work that begins there: before it there is only what rules compute at any time, and after it nothing is computed from
    scratch, but what rules compute at any time unless it ``goes_on``."""

    def __init__(
        self, graph: Graph, roots: Iterable[Goal], search: Search, begin: int | None = None, goes_on: bool = False
    ) -> None:
        self.chosen: dict[Goal, Alternative] = {}
        self.cost: dict[Goal, int] = {}
        self._graph = graph
        self._choose(explore(graph, roots, search.mask, begin, goes_on))

    def _choose(self, alternatives: dict[Goal, tuple[Alternative, ...]]) -> None:
        users: dict[Goal, list[tuple[Goal, int, Alternative]]] = defaultdict(list)
        missing: dict[Alternative, int] = {}
        queue: list[tuple[int, int, int, Goal, Alternative]] = []
        order = {goal: i for i, goal in enumerate(alternatives)}
        found: dict[Goal, int] = {}
        is_result = self._graph.is_result  # reached in any case: whoever loads it does not cost that

        def offer(goal: Goal, number: int, way: Alternative) -> None:
            """Queue an alternative, of which all is there that it needs, unless that alone costs more than another in the queue: many do,
            and need no price."""
            if goal in self.cost:
                return
            needed = sum(self.cost[child] for child in way.goals if way.rule or not is_result(child))
            needed += self._written(goal, way) - (0 if way.rule else sum(map(self._left_out, way.goals)))
            if needed > found.get(goal, needed):
                return
            total = needed + (self._graph.work(goal, way) if way.rule else self._kept(goal, way))
            found[goal] = min(total, found.get(goal, total))
            heappush(queue, (total, order[goal], number, goal, way))

        for goal, ways in alternatives.items():
            unlike: dict[int, Alternative] = {}  # of those that do the same one is offered, the first
            for way in ways:
                unlike.setdefault(way.does, way)
            for number, way in enumerate(unlike.values()):
                missing[way] = len(way.goals)
                for child in way.goals:
                    users[child].append((goal, number, way))
                if not way.goals:
                    offer(goal, number, way)
        while queue:
            cost, _, _, goal, way = heappop(queue)
            if goal in self.cost:
                continue
            self.cost[goal], self.chosen[goal] = cost, way
            for user, number, waiting in users[goal]:
                missing[waiting] -= 1
                if missing[waiting] == 0:
                    offer(user, number, waiting)

    def _kept(self, goal: Goal, load: Alternative) -> int:
        """What it costs to load a view, and to save it if that is done for it."""
        graph, chosen = self._graph, self.chosen.__getitem__
        left = (saved for saved in load.goals if not graph.is_result(saved))
        saves = ((saved.time, graph.save_cost(saved.view, graph.grown(saved, chosen))) for saved in left)
        stays = not load.goals and goal.time > graph.problem.first
        rent = sum(graph.charged(graph.own_size(saved)) for saved in load.goals)
        rent += graph.charged(graph.size(goal.view)) if stays else 0
        return self._read(goal, load) + sum(graph.weighted(save, t) for t, save in saves) + rent

    def _written(self, goal: Goal, way: Alternative) -> int:
        """What it costs to write a result and to read it as it lies then, less what need not be done for that; nothing for another goal."""
        graph = self._graph
        if not graph.is_result(goal):
            return 0
        chosen = self.chosen.__getitem__
        if way.rule is None and graph.stays(goal, way, chosen):
            return graph.weighted(graph.reading(goal, chosen, way), goal.time) - self._read(goal, way)
        grown = graph.grown(goal, chosen, way)
        cost = graph.save_cost(goal.view, grown) + graph.reading(goal, chosen, way)
        return graph.weighted(cost, goal.time) - self._superfluous(goal, way, grown)

    def _left_out(self, saved: Goal) -> int:
        """What need not be done of that by which a view is reached, if it is only saved, by appending to what is stored."""
        if self._graph.is_result(saved):
            return 0
        chosen = self.chosen.__getitem__
        return self._superfluous(saved, chosen(saved), self._graph.grown(saved, chosen))

    def _superfluous(self, goal: Goal, way: Alternative, grown: Growth | None) -> int:
        """What a way does more than what is appended takes."""
        if grown is None:
            return 0
        graph, base = self._graph, self._graph.base(grown, goal.time)
        appended = graph.appended(way, grown, goal.time)
        read = 0 if base in appended.goals else self._read(base, self.chosen[base])
        return graph.work(goal, way) - graph.work(goal, appended) + read

    def _read(self, goal: Goal, load: Alternative) -> int:
        """What it costs to load a view as a whole."""
        graph = self._graph
        cost, _ = graph.load_parts(goal.view, graph.lies(goal, load, self.chosen.__getitem__))
        return graph.weighted(cost, goal.time)


def explore(
    graph: Graph, roots: Iterable[Goal], searches: int = -1, begin: int | None = None, goes_on: bool = False
) -> dict[Goal, tuple[Alternative, ...]]:
    """All goals that may be needed, each with its alternatives, as far as some searches may use them; ``begin`` and ``goes_on`` as in
    :class:`Best`."""
    found: dict[Goal, tuple[Alternative, ...]] = {}
    stack = list(roots)
    while stack:
        goal = stack.pop()
        if goal not in found:
            ways = (way for way in graph.alternatives(goal) if way.searches & searches)
            found[goal] = tuple(way for way in ways if begin is None or _is_begun(goal, way, begin, goes_on))
            stack.extend(child for way in found[goal] for child in way.goals)
    return found


def _is_begun(goal: Goal, way: Alternative, begin: int, goes_on: bool) -> bool:
    by_definition = way.rule is not None and way.rule.by_definition
    any_time = way.rule is not None and way.rule.any_time
    if goal.time < begin:
        return any_time
    return goal.time == begin or not by_definition or (any_time and not goes_on)
