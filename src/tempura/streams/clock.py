"""What work costs: a deterministic count for tests, seconds for use.

A clock measures joins while they run, and says what a look into a cache and an update of one cost, which are not measured apart
(*Adaptive Caching for Continuous Queries*, appendix A: they follow from the sizes of keys and entries).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter, process_time

from tempura.streams.cache import Cache, Group
from tempura.streams.steps import Step, Update, Witness, look_up, probe
from tempura.streams.store import Row, Tuple


class Clock:
    """The deterministic clock: one unit per look into a hash table or comparison, half a unit per tuple made."""

    look = 1.0
    """A look into a cache without a tuple."""
    more = 1.0
    """A look for one more of the tuples that come together."""
    item = 0.5
    """A tuple that a look gives."""
    update = 1.5
    """A tuple that is put into an entry or taken from one."""
    witness = 1.5
    """A row whose entry a witness brings up to date, without what it joins and the tuples of the entry."""

    def measure(self, step: Step, tuples: list[Tuple], looks: int) -> tuple[list[Tuple], float]:
        """What a step makes of tuples, and its cost, when it makes ``looks`` looks per tuple."""
        out = step(tuples)
        return out, looks * len(tuples) + self.item * len(out)

    def looks(self, tuples: float) -> float:
        """Looks for so many tuples that come together, on average."""
        return self.look * min(tuples, 1.0) + self.more * max(0.0, tuples - 1)

    def now(self) -> float:
        """The time, of which profiling may take a share. Here it stands still: everything may be measured."""
        return 0.0


COLD = 1.3
"""Caches in use are larger than the one that is calibrated with, and stand in the way of each other in the processor's caches."""

ROUGH = 5.0
"""A step of a microsecond is measured with errors of this factor: it is interrupted, or what it needs was just read."""


class Seconds(Clock):
    """Seconds of this machine. What a look costs is measured once per process, of joins as well: a join that takes about what its
    looks and tuples do counts as that, so that it is compared with a cache by one measure; one that takes much more, because it
    compares all rows or has conditions, counts as measured."""

    def __init__(self) -> None:
        self._costs = found = calibrated()
        self.item = found.item  # a tuple takes the same to make, whether an index or a cache gives it
        self.look, self.more = COLD * found.look, COLD * found.more
        self.update, self.witness = COLD * found.update, COLD * found.witness

    def measure(self, step: Step, tuples: list[Tuple], looks: int) -> tuple[list[Tuple], float]:
        begin = perf_counter()
        out = step(tuples)
        taken = perf_counter() - begin
        known = self._costs
        counted = known.join + known.next_join * (len(tuples) - 1) + known.item * len(out)
        return out, taken if taken > ROUGH * counted else counted

    def now(self) -> float:
        return perf_counter()


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of a look into an index (``join``), and of one for one more of the tuples that come together (``next_join``); of a look into
    a cache (``look``, ``more``), of a tuple that a look gives, of an update of a tuple, and of one by a witness."""

    join: float
    next_join: float
    look: float
    more: float
    item: float
    update: float
    witness: float


@lru_cache(maxsize=1)
def calibrated() -> Costs:
    """What this machine takes: least of several measurements of each."""
    cache = Cache(Group((1, 2), (0,)))
    rows = [Row((n,), (n,)) for n in range(64)]
    tuples: list[Tuple] = [(row,) for row in rows]
    for row in rows:
        cache.create(row.key[0], [])
    join = probe({row.key[0]: {} for row in rows}, [[0, 0]], None)
    look = look_up(cache, [[0, 0]], lambda key: [], None)
    first_join, next_join = _apart_and_together(join, tuples)
    first_look, next_look = _apart_and_together(look, tuples)
    for row in rows:
        cache.extend(row.key[0], [(row, row)] * 16)
    full, _ = _apart_and_together(look, tuples)
    update = Update(cache, (1, 2), [[0, 0]])

    def update_all() -> None:
        for row in rows:
            update.insert([(row, row)])
            update.delete([(row, row)])

    updated = least(update_all) / len(rows) / 2
    witness = Witness(cache, (1, 0, 2), [0], lambda row: [(row[0], row[0])])
    for row in rows:
        cache.create(row.key[0], [])

    def witness_all() -> None:
        for row in rows:
            witness.insert([(row,)], [])
            witness.delete([(row,)])

    witnessed = least(witness_all) / len(rows) / 2
    item = (full - first_look) / 16
    return Costs(first_join, next_join, first_look, next_look, item, updated, witnessed)


def _apart_and_together(step: Step, tuples: list[Tuple]) -> tuple[float, float]:
    """What a tuple takes that comes alone, and one of many."""
    return least(lambda: [step([t]) for t in tuples]) / len(tuples), least(lambda: step(tuples)) / len(tuples)


def least(work: Callable[[], object], repeats: int = 15) -> float:
    """The least seconds of CPU time that work took."""

    def once() -> float:
        begin = process_time()
        work()
        return process_time() - begin

    return min(once() for _ in range(repeats))
