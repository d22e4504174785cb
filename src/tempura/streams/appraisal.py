"""What a cache is worth: its benefit and cost by the model of *Adaptive Caching for Continuous Queries*, section 4.1."""

from dataclasses import dataclass
from statistics import fmean

from tempura.streams.cache import Group
from tempura.streams.candidates import Candidate, update_point
from tempura.streams.clock import Clock
from tempura.streams.profiler import Profiler
from tempura.streams.query import JoinQuery
from tempura.streams.steps import MANY


@dataclass(frozen=True, slots=True)
class Appraisal:
    """Per change of any input: what a cache saves in its pipeline (``benefit``), what its pipeline's segment costs with it (``proc``),
    and what keeping it up to date costs (``upkeep``). ``misses`` is the share of probes that miss, ``keys`` and ``tuples`` the expected
    entries and tuples of an entry."""

    benefit: float
    proc: float
    upkeep: float
    misses: float
    keys: float
    tuples: float

    def numbers(self) -> dict[str, float]:
        """For an event."""
        return {
            "benefit": self.benefit,
            "cost": self.upkeep,
            "misses": round(self.misses, 4),
            "keys": round(self.keys),
            "tuples": round(self.tuples, 2),
        }


def appraise(profiler: Profiler, clock: Clock, query: JoinQuery, c: Candidate, misses: float, keys: float) -> Appraisal:
    """What a cache is worth with the profiler's join orders, for so many misses and keys."""
    segment = sum(profiler.joining_cost(c.pipeline, n) for n in range(c.start, c.end))
    reaching, leaving = profiler.reaching(c.pipeline, c.start), profiler.reaching(c.pipeline, c.end)
    tuples = profiler.entry_tuples(c)
    share = max(profiler.rates.shares()[c.pipeline], 1e-12)
    looked = share * clock.looks(reaching / share) + reaching * tuples * clock.item
    proc = looked + misses * (segment + reaching * clock.update + leaving * clock.item)
    return Appraisal(
        segment - proc, proc, upkeep(profiler, clock, query, c.group, tuples), misses, max(keys, 1.0), tuples
    )


def upkeep(profiler: Profiler, clock: Clock, query: JoinQuery, group: Group, tuples: float) -> float:
    """The cost of updates of a cache whose entries have so many tuples: of each tuple that passes where it learns of changes. Half of
    the changes are taken to be deletions, which look through an entry."""
    shares = profiler.rates.shares()
    total = 0.0
    for n in group.inputs:
        point = update_point(query, profiler.orders, group, n)
        if point is None:
            return float("inf")
        passing = profiler.joins[n].tuples[point.joins].value
        if point.exact:
            each = passing * clock.update
        else:
            joined, own = _apart(profiler, clock, group, n)
            seen = passing * clock.item if 0 < passing <= MANY * len(group.inputs) else joined
            tuples = max(tuples, own * fmean(profiler.fanout(m, n) for m in group.inputs if m != n))
            each = clock.witness + (min(seen, joined) + 2 * own * clock.item) / 2
        total += shares[n] * (each + tuples * clock.item / 2)
    return total


def _apart(profiler: Profiler, clock: Clock, group: Group, input: int) -> tuple[float, float]:
    """The cost of joining a row with the rest of its group apart, and how many tuples that gives."""
    cost, tuples = 0.0, 1.0
    for other in group.inputs:
        if other != input:
            cost += clock.looks(tuples)
            tuples *= profiler.fanout(input, other)
    return cost + tuples * clock.item, tuples
