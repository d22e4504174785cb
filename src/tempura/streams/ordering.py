"""A-Greedy: in each pipeline the join that leaves least is done first, by what is measured of rows that have come.

Source: Babu, Motwani, Munagala, Nishizawa and Widom, *Adaptive Ordering of Pipelined Stream Filters*, which *Adaptive Caching for
Continuous Queries* uses for its orders (section 4). A join is ranked by (fanout - 1) / cost, for a filter its drop rate per cost: the
greedy invariant says that at each place no later join has a lower rank there. Fanouts are conditional: measured on tuples that reach the
place.
"""

from collections.abc import Callable
from math import hypot

from tempura.streams.profiler import Joins

MARGIN = 0.15
"""A join moves only if its fanout is smaller by this share, so that orders do not change back and forth (thrashing)."""

ERRORS = 3.5
"""And by so many standard errors: rows differ, and a pipeline has many pairs of joins."""

ENOUGH = 20
"""Observations before a fanout counts."""


def improved(order: tuple[int, ...], joins: Joins, looks: Callable[[int, int], int]) -> tuple[int, ...]:
    """The order with the first violation of the greedy invariant repaired; the same order when there is none. What comes after the
    place is not known for the new order, so it stays and is measured anew."""
    for place, current in enumerate(order[:-1]):
        seen = {other: joins.fanouts.get((place, other)) for other in order[place:]}
        known = {other: found for other, found in seen.items() if found is not None and len(found) >= ENOUGH}
        if current not in known:
            return order
        ranks = {other: (fanout.value - 1) / looks(place, other) for other, fanout in known.items()}
        best = min(ranks, key=lambda other: ranks[other])
        least = max(MARGIN * known[current].value, ERRORS * hypot(known[current].error, known[best].error))
        if best != current and (ranks[current] - ranks[best]) * looks(place, best) > least:
            return (*order[:place], best, *(other for other in order[place:] if other != best))
    return order
