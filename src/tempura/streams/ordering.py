"""A-Greedy: in each pipeline the join that leaves least is done first, by what is measured of rows that have come.

Source: Babu, Motwani, Munagala, Nishizawa and Widom, *Adaptive Ordering of Pipelined Stream Filters*, which *Adaptive Caching for
Continuous Queries* uses for its orders (section 4). A join is ranked by (fanout - 1) / cost, for a filter its drop rate per cost: the
greedy invariant says that at each place no later join has a lower rank there. Fanouts are conditional: measured on tuples that reach the
place.
"""

from collections.abc import Callable

from tempura.streams.profiler import Joins

MARGIN = 0.25
"""A join moves only if its fanout is smaller by this share, so that orders do not change back and forth (thrashing)."""


def improved(order: tuple[int, ...], joins: Joins, looks: Callable[[int], int]) -> tuple[int, ...]:
    """The order with the first violation of the greedy invariant repaired; the same order when there is none. What comes after the
    place is not known for the new order, so it stays and is measured anew."""
    for place, current in enumerate(order[:-1]):
        known = {
            other: found.value
            for other in order[place:]
            if (found := joins.fanouts.get((place, other))) is not None and found.is_complete
        }
        if current not in known:
            return order
        ranks = {other: (fanout - 1) / looks(other) for other, fanout in known.items()}
        best = min(ranks, key=lambda other: ranks[other])
        if best != current and (ranks[current] - ranks[best]) * looks(best) > MARGIN * max(known[current], 0.05):
            return (*order[:place], best, *(other for other in order[place:] if other != best))
    return order
