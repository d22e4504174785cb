"""What work costs: a deterministic count for tests, seconds for use.

A clock measures joins while they run, and says what a look into a cache and an update of one cost, which are not measured apart
(*Adaptive Caching for Continuous Queries*, appendix A: they follow from the sizes of keys and entries).
"""

from collections.abc import Callable
from functools import lru_cache
from time import perf_counter, process_time

from tempura.streams.cache import Cache, Group
from tempura.streams.steps import Step, Update, look_up
from tempura.streams.store import Row, Tuple


class Clock:
    """The deterministic clock: one unit per look into a hash table or comparison, half a unit per tuple made."""

    look = 1.0
    """A look into a cache without a tuple."""
    item = 0.5
    """A tuple that a look gives."""
    update = 1.5
    """A tuple that is put into an entry or taken from one."""

    def measure(self, step: Step, tuples: list[Tuple], looks: int) -> tuple[list[Tuple], float]:
        """What a step makes of tuples, and its cost, when it makes ``looks`` looks per tuple."""
        out = step(tuples)
        return out, looks * len(tuples) + self.item * len(out)

    def probe_cost(self, tuples: float) -> float:
        """A look that gives so many tuples."""
        return self.look + self.item * tuples


class Seconds(Clock):
    """Seconds of this machine. The constants are measured once per process."""

    def __init__(self) -> None:
        self.look, self.item, self.update, self._own = calibrated()

    def measure(self, step: Step, tuples: list[Tuple], looks: int) -> tuple[list[Tuple], float]:
        begin = perf_counter()
        out = step(tuples)
        return out, max(0.0, perf_counter() - begin - self._own)


@lru_cache(maxsize=1)
def calibrated() -> tuple[float, float, float, float]:
    """Seconds of a look into a cache, of a tuple that it gives, of an update of a tuple, and of reading the time: least of several."""
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

    timing = least(lambda: [perf_counter() for _ in rows]) / len(rows)
    return empty, (full - empty) / 16, least(update_all) / len(rows) / 2, timing


def least(work: Callable[[], object], repeats: int = 15) -> float:
    """The least seconds of CPU time that work took."""

    def once() -> float:
        begin = process_time()
        work()
        return process_time() - begin

    return min(once() for _ in range(repeats))
