"""Measures several ways to compute one continuous join side by side: interleaved, in CPU seconds, without Python's garbage collector.

The collector is off because its full passes fall at random into one or the other; a join makes no reference cycles, so nothing is kept
that would have been freed.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from time import process_time

from tempura.streams.execution import Batch, ContinuousJoin
from tempura.streams.query import JoinQuery
from tempura.streams.xjoin import XJoin, show, trees


@contextmanager
def without_collector() -> Iterator[None]:
    """Run with Python's garbage collector off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def feed(join: ContinuousJoin, batches: Sequence[Batch]) -> float:
    """CPU seconds that a join takes for batches; the changes of the result are made and let go."""
    begin = process_time()
    for batch in batches:
        join.process(batch)
    return process_time() - begin


def rows_in(batches: Sequence[Batch]) -> int:
    """The rows that arrive."""
    return sum(len(batch.inserts) for batch in batches)


def race(joins: Mapping[str, ContinuousJoin], batches: Sequence[Batch], rounds: int) -> dict[str, list[float]]:
    """Rows per second of each join in each round: all process the same part of the batches, one after the other, every round in another
    order."""
    found: dict[str, list[float]] = {name: [] for name in joins}
    length = max(1, len(batches) // rounds)
    names = list(joins)
    with without_collector():
        for n in range(rounds):
            part = batches[n * length : (n + 1) * length]
            for name in names[n % len(names) :] + names[: n % len(names)]:
                found[name].append(rows_in(part) / feed(joins[name], part))
    return found


def medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each."""
    return {name: round(median(rates)) for name, rates in found.items()}


def best_tree(query: JoinQuery, warm: Sequence[Batch], trial: Sequence[Batch]) -> XJoin:
    """The XJoin that takes least for a trial, of all there are; it has processed the batches before and the trial."""
    best: tuple[float, XJoin] | None = None
    with without_collector():
        for tree in trees(query):
            join = XJoin(query, tree)
            feed(join, warm)
            taken = feed(join, trial)
            if best is None or taken < best[0]:
                best = (taken, join)
    assert best is not None
    return best[1]


def name_of(join: XJoin) -> str:
    """Its tree."""
    return show(join.query, join.tree)
