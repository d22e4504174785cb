"""The search for paces (Thrifty Query Execution via Incrementability, 4.2): greedy by marginal incrementability, for
either goal.

A pace is raised to the next one *that flushes later for the last time*: those between cost more and leave as much to
the last flush (of 100 paces at 100 steps, 19 remain). The strategy ``greedy`` is Algorithm 2 but for that. It stops
where no raise by one step saves final work. Often the second step would: to release a table's groups twice doubles
their changes, to release them twenty times leaves few to the end. So the strategy ``inqp`` then *leaps*: it raises a
path, alone or with those above it, by several steps at once, by the same measure. And it looks back: what was raised
on the way may not be needed any more, so paces are lowered while the goal stays met. What it comes to
is a tenth below the bound where that costs nothing, since expected work is not exactly what comes.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from math import inf

import numpy as np

from tempura.pace.goal import Goal, Point
from tempura.pace.simulate import FOLLOWS, Paces, Simulation

_NOTHING = 1e-9
"""Differences of this part of the batch's work are rounding."""

_NEAR = 0.01
"""Where a goal is out of reach, what is within this part of the nearest that is in reach will do."""

_MARGIN, _FREE = 0.1, 1e-4
"""By how much a bound on the final work is undercut, and what part of the batch's work may be spent on that."""


def incrementability(final: tuple[float, float], total: tuple[float, float], scale: float = 1.0) -> float:
    """(C_F(P1) - C_F(P2)) / (C_T(P2) - C_T(P1)), the final work that is saved per total work that is added; infinite
    if nothing is added (2.3, equation 1). ``scale`` is the size of work against which differences are rounding."""
    saved, added = final[0] - final[1], total[1] - total[0]
    small = _NOTHING * scale
    if abs(saved) <= small:
        return 0.0
    if added <= small:
        return inf if saved > 0 else -inf
    return saved / added


def ladder(simulation: Simulation, every: bool = False) -> tuple[int, ...]:
    """The paces that are worth a try: of those with the same flush before the last, the slowest. ``every``: all of them."""
    steps = simulation.arrivals.steps
    if every:
        return tuple(range(1, steps + 1))
    known: dict[int, int] = {}
    for pace in range(1, steps + 1):
        flushes = np.flatnonzero(simulation.arrivals.flushes(pace)[:-1])
        known.setdefault(int(flushes[-1]) if len(flushes) else -1, pace)
    return tuple(sorted(known.values()))


class Search:
    """Searches over the paces of one simulation. ``batch`` is the work of one flush of all data, where
    the simulation has flushes behind it already."""

    def __init__(self, simulation: Simulation, goal: Goal, every: bool = False, batch: float | None = None) -> None:
        self.simulation = simulation
        self.goal = goal
        self.rungs = ladder(simulation, every)
        self._next = dict(zip(self.rungs, self.rungs[1:], strict=False))
        self._previous = dict(zip(self.rungs[1:], self.rungs, strict=False))
        self._known: dict[tuple[int, ...], tuple[float, float]] = {}
        self.batch = self.point([1] * len(simulation.cut.paths)).total if batch is None else batch

    def relaxed(self, points: Sequence[Point]) -> "Search":
        """A search for the bound that the nearest of points that miss the goal comes to, and a little more."""
        nearest = self.best(points)
        made = copy(self)
        if self.goal.final_work is not None:
            made.goal = Goal(final_work=min(1.0, nearest.final / self.batch * (1 + _NEAR)))
        return made

    def point(self, paces: Sequence[int]) -> Point:
        """A configuration with its work."""
        return self.points([tuple(paces)])[0]

    def points(self, configurations: Sequence[Sequence[int]]) -> list[Point]:
        """Configurations with their work, simulated together."""
        wanted = list(dict.fromkeys(tuple(paces) for paces in configurations))
        new = [paces for paces in wanted if paces not in self._known]
        if new:
            found = self.simulation.run(new)
            for paces, total, final in zip(new, found.total, found.final, strict=True):
                self._known[paces] = float(total), float(final)
        return [Point(tuple(paces), *self._known[tuple(paces)]) for paces in configurations]

    def is_met(self, point: Point) -> bool:
        """Whether a configuration is within the goal's bound."""
        return self.goal.is_met(point.total, point.final, self.batch)

    def best(self, points: Sequence[Point]) -> Point:
        """Of several configurations the best that meets the goal; if none does, the one that comes nearest."""
        meeting = [point for point in points if self.is_met(point)]
        if meeting:
            return min(meeting, key=lambda point: self.goal.score(point.total, point.final))
        return min(points, key=lambda p: (p.final, p.total) if self.goal.final_work is not None else (p.total, p.final))

    # --- Algorithm 2 ---

    def greedy(self, only_leaves: bool = False, leaps: bool = False) -> list[Point]:
        """The points on the way of Algorithm 2, the last is its answer. ``only_leaves``: paces of tables' paths are
        chosen, and the others follow (the paper's Leaf, after He et al., ICDE 2005). ``leaps``: go on by several
        steps where one is worth nothing."""
        start = [FOLLOWS if only_leaves and path.source is not None else 1 for path in self.simulation.cut.paths]
        way = [self.point(start)]
        while not self._ends(way[-1]):
            raised = self._raised(way[-1], list(self.moves(way[-1], only_leaves)))
            if leaps and (raised is None or (raised.incrementability or 0.0) <= 0):
                raised = self._raised(way[-1], list(self._leaps(way[-1])))
                if raised is None or (raised.incrementability or 0.0) <= 0:
                    break
            if raised is None or (raised.incrementability or 0.0) < 0:
                break
            way.append(raised)
        return way

    def _ends(self, point: Point) -> bool:
        return self.goal.final_work is not None and self.is_met(point)

    def _raised(self, at: Point, moves: Sequence[tuple[int, tuple[int, ...]]]) -> Point | None:
        """The raise of highest marginal incrementability; None where nothing can be raised."""
        tried = self.points([paces for _, paces in moves])
        worth = [self._worth(at, point) for point in tried]
        allowed = [
            i for i, point in enumerate(tried) if self.goal.total_work is None or self.is_met(point)
        ]  # a raise beyond the bound on the total work is none
        if not allowed:
            return None
        # Among raises that cost nothing the one that saves most.
        i = max(allowed, key=lambda i: (worth[i], at.final - tried[i].final, -tried[i].total))
        return Point(tried[i].paces, tried[i].total, tried[i].final, moves[i][0], worth[i])

    def _worth(self, at: Point, to: Point) -> float:
        return incrementability((at.final, to.final), (at.total, to.total), self.batch)

    def moves(self, at: Point, only_leaves: bool = False) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The paths that can be raised, with the configuration that this gives: not beyond the paths below."""
        for path in self.simulation.cut.paths:
            pace = at.paces[path.number]
            higher = self._next.get(pace)
            if higher is None or (only_leaves and path.source is not None):
                continue
            if all(higher <= at.paces[child.number] for child in self.simulation.cut.below(path)):
                yield path.number, _with(at.paces, path.number, higher)

    def _leaps(self, at: Point) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each path to each higher pace that the paths below allow, alone, and with the paths above it as far as
        theirs allow."""
        seen = {at.paces}
        for path in self.simulation.cut.paths:
            most = min((at.paces[child.number] for child in self.simulation.cut.below(path)), default=self.rungs[-1])
            for pace in self.rungs:
                if at.paces[path.number] < pace <= most:
                    alone = _with(at.paces, path.number, pace)
                    for made in (alone, self._lifted(alone, path.number, pace)):
                        if made not in seen:
                            seen.add(made)
                            yield path.number, made

    def _lifted(self, paces: tuple[int, ...], number: int, pace: int) -> tuple[int, ...]:
        """The same with the paths above one raised to its pace, where all paths below these are as fast."""
        made = list(paces)
        above = {self.simulation.cut.paths[number].into}
        for path in self.simulation.cut.paths:
            if path.source in above:
                above.add(path.into)
                least = min(made[child.number] for child in self.simulation.cut.below(path))
                made[path.number] = max(made[path.number], min(pace, least))
        return tuple(made)

    def marginal(self, at: Point) -> dict[int, float]:
        """What raising each path that can be raised would be worth."""
        moves = list(self.moves(at))
        return {
            number: self._worth(at, to)
            for (number, _), to in zip(moves, self.points([paces for _, paces in moves]), strict=True)
        }

    # --- looking back ---

    def lowered(self, at: Point) -> Point:
        """A configuration with paces lowered for as long as the goal is met and less is done."""
        small = _NOTHING * self.batch
        while True:
            now = self.goal.score(at.total, at.final)[0] - small
            tried = self.points(list(self._descents(at)))
            better = [p for p in tried if self.is_met(p) and self.goal.score(p.total, p.final)[0] < now]
            if not better:
                return at
            at = min(better, key=lambda point: self.goal.score(point.total, point.final))

    def with_margin(self, at: Point) -> Point:
        """A configuration that stays below a bound on the final work, as far as that is free: expected work is not
        what comes."""
        if self.goal.final_work is None or not self.is_met(at):
            return at
        limit, enough = at.total + _FREE * self.batch, (1 - _MARGIN) * self.goal.final_work * self.batch
        while at.final > enough:
            tried = self.points([paces for _, paces in self.moves(at)])
            free = [point for point in tried if point.total <= limit and point.final < at.final]
            if not free:
                break
            at = min(free, key=lambda point: (point.final, point.total))
        return at

    def _descents(self, at: Point) -> Iterator[tuple[int, ...]]:
        """Each path by a step, and by many, with those above it that would be faster."""
        for path in self.simulation.cut.paths:
            pace = at.paces[path.number]
            for lower in {self._previous.get(pace, 1), 1} if pace > 1 else ():
                yield self._pressed(_with(at.paces, path.number, lower))

    def _pressed(self, paces: tuple[int, ...]) -> tuple[int, ...]:
        """Paces lowered so that none is faster than one below."""
        made = list(paces)
        for path in self.simulation.cut.paths:
            made[path.number] = min([made[path.number], *(made[c.number] for c in self.simulation.cut.below(path))])
        return tuple(made)

    # --- all and some ---

    def uniform(self) -> list[Point]:
        """One pace for all paths, each possible one."""
        paths = len(self.simulation.cut.paths)
        return self.points([[pace] * paths for pace in range(1, self.simulation.arrivals.steps + 1)])

    def all(self, paces: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """All configurations of the given paces in which no path is faster than one below."""
        return self._extended((), lambda path: paces)

    def _extended(self, made: tuple[int, ...], choices: Callable[[int], Sequence[int]]) -> Iterator[tuple[int, ...]]:
        paths = self.simulation.cut.paths
        if len(made) == len(paths):
            yield made
            return
        most = min((made[child.number] for child in self.simulation.cut.below(paths[len(made)])), default=inf)
        for pace in choices(len(made)):
            if pace <= most:
                yield from self._extended((*made, pace), choices)

    def random(self, number: int, pick: Callable[[Sequence[int]], int]) -> Paces:
        """So many configurations, drawn path by path."""
        drawn = []
        for _ in range(number):
            made: list[int] = []
            for path in self.simulation.cut.paths:
                most = min((made[child.number] for child in self.simulation.cut.below(path)), default=inf)
                made.append(pick([pace for pace in self.rungs if pace <= most]))
            drawn.append(made)
        return np.asarray(drawn, dtype=np.int64)


def _with(paces: tuple[int, ...], number: int, pace: int) -> tuple[int, ...]:
    return (*paces[:number], pace, *paces[number + 1 :])
