"""Strategies: ways to choose the pace of each path (Thrifty Query Execution via Incrementability, 4 and 5); and again while data comes,
where the paper plans once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from random import Random

import numpy as np

from tempura.errors import TempuraError
from tempura.pace.arrivals import Arrivals
from tempura.pace.cut import Cut
from tempura.pace.flow import Array, Mask
from tempura.pace.goal import STRATEGIES, Goal, Plan, Point, StrategyName
from tempura.pace.search import Search
from tempura.pace.simulate import Simulation
from tempura.pace.statistics import Statistics

_MOST = 100_000
"""Configurations that an exhaustive search goes through."""

_CHUNK = 256

Chooser = Callable[[Search], list[Point]]
"""Gives points of which the last is chosen."""


def plan_paces(
    simulation: Simulation,
    goal: Goal,
    strategy: StrategyName | Mapping[str, int] = "inqp",
    seed: int = 0,
    batch: float | None = None,
) -> Plan:
    """Paces for a goal. ``strategy`` is a name, or paces by the names of tables, and segments (``s0``), that paths
    start at; ``hand`` is the inverse of the bound on the final work. ``seed`` is for ``sample``; ``batch`` is the
    work of one flush of all data, where flushes have been already.

    Raises TempuraError BAD_PACES for a strategy that does not exist, hand-set paces that do not fit the query or
    break the rule that no path is faster than one below, and for an exhaustive search that would not end.
    """
    search = Search(simulation, goal, batch=batch)
    if isinstance(strategy, str):
        if strategy not in STRATEGIES:
            what = f"There is no strategy {strategy!r}."
            raise TempuraError("BAD_PACES", what, f"Choose of {', '.join(STRATEGIES)}.")
        points = _CHOOSERS[strategy](search) if strategy != "sample" else _sampled(search, seed)
        name: StrategyName = strategy
    else:
        points, name = [search.point(paces_by_name(simulation.cut, strategy, simulation.arrivals.steps))], "hand"
    return _plan(search, name, points)


def planned_again(cut: Cut, statistics: Statistics, arrivals: Arrivals, goal: Goal, flushes: Mask, step: int) -> Mask:
    """The flushes of all steps, after so many of them: those that have been stay as they were, and paces of those to come are chosen anew.
    What has come by then is known; what is to come is expected to come steadily."""
    known = replace(arrivals, shares=_expected(arrivals, step))
    whole = Simulation(cut, statistics, known)
    batch = float(whole.run([[1] * len(cut.paths)]).total[0])
    simulation = Simulation(cut, statistics, known, past=flushes[:, :step])
    plan = plan_paces(simulation, goal, batch=batch)
    return simulation.flushes(plan.paces)


def _expected(arrivals: Arrivals, step: int) -> Array:
    rest = np.linspace(arrivals.shares[step - 1], 1.0, arrivals.steps - step + 1)[1:]
    return np.concatenate((arrivals.shares[:step], rest))


def _plan(search: Search, name: StrategyName, points: list[Point]) -> Plan:
    cut, chosen = search.simulation.cut, points[-1]
    marginal = search.marginal(chosen) if name != "leaf" else {}
    return Plan(
        cut=cut,
        goal=search.goal,
        strategy=name,
        chosen=chosen,
        batch=search.batch,
        meets=search.is_met(chosen),
        curve=tuple(points),
        marginal={path: marginal.get(path.number) for path in cut.paths},
        effort=search.simulation.effort,
    )


def _greedy(search: Search) -> list[Point]:
    return search.greedy()


def _inqp(search: Search) -> list[Point]:
    """Algorithm 2 with leaps, looked back upon; the best uniform pace, which is a configuration like any other, is
    another start."""
    way = search.greedy(leaps=True)
    uniform = search.best(search.uniform())
    starts = [way[-1], uniform]
    if not any(map(search.is_met, starts)):
        search = search.relaxed(starts)
    chosen = search.best([search.lowered(point) if search.is_met(point) else point for point in starts])
    chosen = search.with_margin(chosen)
    return way if chosen.paces == way[-1].paces else [*way, chosen]


def _leaf(search: Search) -> list[Point]:
    return search.greedy(only_leaves=True)


def _uniform(search: Search) -> list[Point]:
    """The best of all uniform paces (the paper's IncObv)."""
    points = search.uniform()
    return [*points, search.best(points)]


def _by_hand(search: Search) -> list[Point]:
    """The inverse of the bound on the final work, for all paths."""
    share, most = search.goal.final_work, search.simulation.arrivals.steps
    if share is None:
        raise TempuraError("BAD_PACES", "Paces by hand follow from final_work.", "Give it, or a pace per table.")
    return [search.point([min(most, round(1 / share))] * len(search.simulation.cut.paths))]


def _exhaustive(search: Search) -> list[Point]:
    """The best of all configurations."""
    best: Point | None = None
    if sum(1 for _ in islice(search.all(search.rungs), _MOST + 1)) > _MOST:
        what = f"There are more than {_MOST:,} pace configurations."
        raise TempuraError("BAD_PACES", what, "Give a smaller max_pace, or use the strategy inqp.")
    for chunk in _chunks(search.all(search.rungs)):
        best = search.best([*search.points(chunk), *([best] if best else [])])
    assert best is not None, "all ones is a configuration"
    return [best]


def _chunks(configurations: Iterator[tuple[int, ...]]) -> Iterator[Sequence[tuple[int, ...]]]:
    while chunk := list(islice(configurations, _CHUNK)):
        yield chunk


def _sampled(search: Search, seed: int) -> list[Point]:
    """The best of as many random configurations as the greedy search simulates (5.6)."""
    before = search.simulation.effort.simulated
    search.greedy()
    number = search.simulation.effort.simulated - before
    drawn = search.random(max(1, number), Random(seed).choice)
    return [search.best(search.points([tuple(map(int, row)) for row in drawn]))]


_CHOOSERS: Mapping[str, Chooser] = {
    "inqp": _inqp,
    "greedy": _greedy,
    "leaf": _leaf,
    "uniform": _uniform,
    "hand": _by_hand,
    "exhaustive": _exhaustive,
}


def paces_by_name(cut: Cut, paces: Mapping[str, int], most: int) -> tuple[int, ...]:
    """Paces of all paths from those by name; a path that is not named has the slowest pace of the paths below, a
    table's pace is 1.

    Raises TempuraError BAD_PACES for a name at which no path starts, a pace that is not between 1 and ``most``, and
    for a path that would be faster than one below.
    """
    names = {path.name for path in cut.paths}
    unknown = next((name for name in paces if name not in names), None)
    if unknown is not None:
        what = f"A pace is given for {unknown!r}, at which no path of the query starts."
        raise TempuraError("BAD_PACES", what, f"Paths start at {', '.join(sorted(names))}.")
    made: list[int] = []
    for path in cut.paths:
        below = min((made[child.number] for child in cut.below(path)), default=most)
        pace = paces.get(path.name, 1 if path.source is None else below)
        if not 1 <= pace <= most:
            raise TempuraError("BAD_PACES", f"{path.name} has pace {pace}.", f"Paces are from 1 to {most}.")
        if pace > below:
            what = (
                f"{path.name} has pace {pace}, and a path below it {below}: it would be flushed without anything new."
            )
            raise TempuraError("BAD_PACES", what, f"Give {path.name} at most {below}.")
        made.append(pace)
    return tuple(made)
