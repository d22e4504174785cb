"""What work costs: a deterministic count for tests, seconds for use.

A clock measures joins while they run, and says what a look into a cache and an update of one cost, which are not measured apart
(*Adaptive Caching for Continuous Queries*, appendix A: they follow from the sizes of keys and entries).
"""

from collections.abc import Callable
from functools import lru_cache
from time import perf_counter, process_time

from tempura.streams.cache import Cache, Group
from tempura.streams.steps import Step, Update, Witness, look_up, probe
from tempura.streams.store import Row, Tuple


class Clock:
    """The deterministic clock: one unit per look into a hash table or comparison, half a unit per tuple made."""

    look = 1.0
    """A look into a cache without a tuple."""
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

    def probe_cost(self, tuples: float) -> float:
        """A look that gives so many tuples."""
        return self.look + self.item * tuples

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
        self._join, look, item, update, witness = calibrated()
        self._item = item
        self.look, self.item, self.update, self.witness = (COLD * cost for cost in (look, item, update, witness))

    def measure(self, step: Step, tuples: list[Tuple], looks: int) -> tuple[list[Tuple], float]:
        begin = perf_counter()
        out = step(tuples)
        taken = perf_counter() - begin
        counted = self._join * max(1, len(tuples)) + self._item * len(out)
        return out, taken if taken > ROUGH * counted else counted

    def now(self) -> float:
        return perf_counter()


@lru_cache(maxsize=1)
def calibrated() -> tuple[float, float, float, float, float]:
    """Seconds of a look into an index, of one into a cache, of a tuple that it gives, of an update of a tuple, and of one by a
    witness: least of several."""
    cache = Cache(Group((1, 2), (0,)))
    rows = [Row((n,), (n,)) for n in range(64)]
    for row in rows:
        cache.create(row.key[0], [])
    step = look_up(cache, [[0, 0]], lambda key: [], None)
    empty = least(lambda: [step([(row,)]) for row in rows]) / len(rows)
    for row in rows:
        cache.extend(row.key[0], [(row, row)] * 16)
    full = least(lambda: [step([(row,)]) for row in rows]) / len(rows)
    update = Update(cache, (1, 2), [[0, 0]])

    def update_all() -> None:
        for row in rows:
            update.insert([(row, row)])
            update.delete([(row, row)])

    join = probe({row.key[0]: {} for row in rows}, [[0, 0]], None)
    index = least(lambda: [join([(row,)]) for row in rows]) / len(rows)
    witness = Witness(cache, (1, 0, 2), [0], lambda row: [(row[0], row[0])])
    for row in rows:
        cache.create(row.key[0], [])

    def witness_all() -> None:
        for row in rows:
            witness.insert([(row,)], [])
            witness.delete([(row,)])

    apart = least(witness_all) / len(rows) / 2
    return index, empty, (full - empty) / 16, least(update_all) / len(rows) / 2, apart


def least(work: Callable[[], object], repeats: int = 15) -> float:
    """The least seconds of CPU time that work took."""

    def once() -> float:
        begin = process_time()
        work()
        return process_time() - begin

    return min(once() for _ in range(repeats))
