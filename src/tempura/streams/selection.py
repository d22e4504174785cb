"""Which caches to use, given what each costs: the offline selection of *Adaptive Caching for Continuous Queries*, section 4.4.

Costs are per unit of time. A join that is in no cache costs its processing; a cache costs ``proc`` in its pipeline, and each group of
shared caches its upkeep once. Sought are caches that do not overlap and cost least together with the joins they leave over. The greedy
algorithm and the rounding of the linear program are in ``approximation.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tempura.streams.cache import Group
from tempura.streams.candidates import Candidate

Operator = tuple[int, int]
"""A join: its pipeline, and its place there."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A candidate with its cost in its pipeline (``proc``), and that of keeping its group up to date (``upkeep``)."""

    candidate: Candidate
    proc: float
    upkeep: float

    @property
    def group(self) -> Group:
        """What is shared."""
        return self.candidate.group

    @property
    def operators(self) -> frozenset[Operator]:
        """The joins that it covers."""
        c = self.candidate
        return frozenset((c.pipeline, n) for n in range(c.start, c.end))


@dataclass(frozen=True)
class Problem:
    """The cost of each join, the candidates, and which may be used together beyond not overlapping."""

    joins: Mapping[Operator, float]
    candidates: tuple[Priced, ...]
    may: Callable[[Sequence[Candidate]], bool] = lambda used: True

    def total(self, chosen: Sequence[Priced]) -> float:
        """The cost of everything when these are used."""
        covered = frozenset[Operator]().union(*(p.operators for p in chosen))
        left = sum(cost for join, cost in self.joins.items() if join not in covered)
        upkeep = {p.group: p.upkeep for p in chosen}
        return left + sum(p.proc for p in chosen) + sum(upkeep.values())

    def gain(self, p: Priced) -> float:
        """The benefit of a candidate: the cost of its joins less its own in the pipeline."""
        return sum(self.joins[join] for join in p.operators) - p.proc

    @property
    def is_shared(self) -> bool:
        """Whether two candidates are of one group."""
        return len({p.group for p in self.candidates}) < len(self.candidates)


def recursive(problem: Problem) -> list[Priced]:
    """The optimum when no caches are shared (theorems 4.1 and 4.2): overlapping prefix caches of a pipeline contain one another, and of
    a cache and the best of those inside of it the better one is taken, bottom up."""
    chosen: list[Priced] = []
    in_order = sorted(problem.candidates, key=lambda p: (p.candidate.pipeline, p.candidate.end, -p.candidate.start))
    for _, own in groupby(in_order, key=lambda p: p.candidate.pipeline):
        best: list[tuple[float, list[Priced], Candidate]] = []
        for p in own:
            inside: list[tuple[float, list[Priced], Candidate]] = []
            while best and p.candidate.covers(best[-1][2]):
                inside.append(best.pop())
            gain = problem.gain(p) - p.upkeep
            within = sum(g for g, _, _ in inside)
            better = [p] if gain > max(within, 0.0) else [q for _, found, _ in reversed(inside) for q in found]
            best.append((max(gain, within, 0.0), better, p.candidate))
        chosen += [p for _, found, _ in best for p in found]
    return chosen


def exhaustive(problem: Problem) -> list[Priced]:
    """The optimum, by trying every set of caches that do not overlap; a branch ends where even all that is left would not pay."""
    ordered = sorted(problem.candidates, key=lambda p: -problem.gain(p))
    rest = [0.0]
    for p in reversed(ordered):
        rest.append(rest[-1] + max(0.0, problem.gain(p)))
    rest.reverse()
    best: tuple[float, list[Priced]] = (0.0, [])

    def search(
        at: int, saved: float, chosen: list[Priced], groups: frozenset[Group], covered: frozenset[Operator]
    ) -> None:
        nonlocal best
        if saved > best[0] and problem.may([p.candidate for p in chosen]):
            best = (saved, chosen)
        if at == len(ordered) or saved + rest[at] <= best[0]:
            return
        p = ordered[at]
        if not p.operators & covered:
            net = problem.gain(p) - (0.0 if p.group in groups else p.upkeep)
            search(at + 1, saved + net, [*chosen, p], groups | {p.group}, covered | p.operators)
        search(at + 1, saved, chosen, groups, covered)

    search(0, 0.0, [], frozenset(), frozenset())
    return best[1]
