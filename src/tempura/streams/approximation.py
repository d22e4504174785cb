"""Selection of shared caches in polynomial time, within O(log n) of the optimum.

Source: *Adaptive Caching for Continuous Queries*, appendix B. There every join is a cache of its own, without upkeep, and every join has to
be covered by exactly one cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log
from random import Random

from tempura.streams.cache import Group
from tempura.streams.selection import Operator, Priced, Problem


@dataclass(frozen=True, slots=True)
class _Cover:
    """A cache, or a join on its own, in a group of those that share their upkeep."""

    operators: frozenset[Operator]
    proc: float
    group: object
    upkeep: float
    cache: Priced | None


def _covers(problem: Problem) -> list[_Cover]:
    joins = [_Cover(frozenset([join]), cost, join, 0.0, None) for join, cost in problem.joins.items()]
    return joins + [_Cover(p.operators, p.proc, p.group, p.upkeep, p) for p in problem.candidates]


def greedy(problem: Problem) -> list[Priced]:
    """Again and again the group, and those of its caches, that cover what is left at the least cost per join."""
    covers = _covers(problem)
    left = set(problem.joins)
    chosen: list[_Cover] = []
    paid: set[object] = set()
    while left:
        best = min((_cheapest(group, left, paid) for group in _grouped(covers, left)), key=lambda found: found[0])
        chosen += best[1]
        paid |= {c.group for c in best[1]}
        left -= {join for c in best[1] for join in c.operators}
    return _largest(chosen)


def _grouped(covers: Sequence[_Cover], left: set[Operator]) -> list[list[_Cover]]:
    groups: dict[object, list[_Cover]] = {}
    for c in covers:
        if c.operators & left:
            groups.setdefault(c.group, []).append(c)
    return list(groups.values())


def _cheapest(group: Sequence[_Cover], left: set[Operator], paid: set[object]) -> tuple[float, list[_Cover]]:
    """The least cost per join at which some caches of a group cover joins that are left: a prefix of them in the order of their own
    costs per join (the claim of appendix B)."""
    ordered = sorted(group, key=lambda c: c.proc / len(c.operators & left))
    cost = 0.0 if ordered[0].group in paid else ordered[0].upkeep
    rates: list[tuple[float, list[_Cover]]] = []
    covered = 0
    for n, c in enumerate(ordered):
        cost += c.proc
        covered += len(c.operators & left)
        rates.append((cost / covered, ordered[: n + 1]))
    return min(rates, key=lambda rate: rate[0])


def _largest(chosen: Sequence[_Cover]) -> list[Priced]:
    """Of caches that overlap, the one that covers most joins."""
    kept: list[_Cover] = []
    for c in sorted(chosen, key=lambda c: -len(c.operators)):
        if not any(c.operators & other.operators for other in kept):
            kept.append(c)
    return [c.cache for c in kept if c.cache is not None]


def rounded(problem: Problem, rng: Random) -> list[Priced]:
    """Randomised rounding of the linear relaxation: 3 log m draws, m joins; joins that no draw covers are left on their own.

    Needs SciPy (``pip install "tempura[streams]"``).
    """
    covers = _covers(problem)
    shares = _relaxed(problem, covers)
    groups = list(dict.fromkeys(c.group for c in covers))
    chosen: dict[int, _Cover] = {}
    for _ in range(max(1, ceil(3 * log(len(problem.joins))))):
        threshold = {group: rng.random() for group in groups}
        chosen |= {n: c for n, c in enumerate(covers) if shares[n] > 0 and shares[n] >= threshold[c.group]}
    return _largest(list(chosen.values()))


def relaxed_cost(problem: Problem) -> float:
    """The optimum of the linear relaxation: no selection costs less."""
    covers = _covers(problem)
    shares = _relaxed(problem, covers)
    most: dict[object, float] = {}
    for share, c in zip(shares, covers, strict=True):
        most[c.group] = max(most.get(c.group, 0.0), share)
    upkeep = {c.group: c.upkeep for c in covers}
    return sum(s * c.proc for s, c in zip(shares, covers, strict=True)) + sum(most[g] * upkeep[g] for g in most)


def _relaxed(problem: Problem, covers: Sequence[_Cover]) -> list[float]:
    """The share of each cover in the optimum of the linear program: minimise proc · x + upkeep · z, each join covered by shares that
    add up to 1, z of a group at least each of its shares."""
    from scipy.optimize import linprog

    groups: list[object] = [g for g in dict.fromkeys(c.group for c in covers) if isinstance(g, Group)]
    upkeep = {c.group: c.upkeep for c in covers}
    width = len(covers) + len(groups)
    cost = [c.proc for c in covers] + [upkeep[g] for g in groups]
    equal = [[float(join in c.operators) for c in covers] + [0.0] * len(groups) for join in problem.joins]
    at_most = []
    for n, c in enumerate(covers):
        if c.group in upkeep and c.cache is not None:
            row = [0.0] * width
            row[n], row[len(covers) + groups.index(c.group)] = 1.0, -1.0
            at_most.append(row)
    found = linprog(
        cost,
        A_ub=at_most or None,
        b_ub=[0.0] * len(at_most) or None,
        A_eq=equal,
        b_eq=[1.0] * len(equal),
        bounds=(0, 1),
    )
    return [float(x) for x in found.x[: len(covers)]]
