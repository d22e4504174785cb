"""Random instances of the selection of caches, for comparing its algorithms with the optimum."""

from random import Random

from tempura.bench.stream_inputs import on_one_attribute
from tempura.streams.cache import Group
from tempura.streams.candidates import Orders, prefix_candidates
from tempura.streams.selection import Priced, Problem

MOST = 12
"""Candidates, so that all sets of them can be tried."""


def nested_orders(rng: Random, n: int) -> Orders:
    """Orders with many prefix caches: inputs stand on a line at random, and near ones are joined first."""
    place = [rng.random() for _ in range(n)]
    return tuple(
        tuple(sorted((m for m in range(n) if m != i), key=lambda m: abs(place[m] - place[i]))) for i in range(n)
    )


def random_problem(rng: Random, n: int, shared: bool) -> Problem:
    """The prefix caches of a join of ``n`` streams with random costs: upkeep up to 1.2 times what their joins cost. ``shared``: several
    caches of one group."""
    query, orders = on_one_attribute([f"r{i}" for i in range(n)], 10), nested_orders(rng, n)
    joins = {(i, k): rng.uniform(0.1, 10) for i in range(n) for k in range(n - 1)}
    upkeep: dict[Group, float] = {}
    priced: list[Priced] = []
    for c in prefix_candidates(query, orders)[:MOST]:
        if shared or c.group not in upkeep:
            full = sum(joins[c.pipeline, k] for k in range(c.start, c.end))
            cost = upkeep.setdefault(c.group, rng.uniform(0, 1.2) * full)
            priced.append(Priced(c, rng.uniform(0.05, 0.9) * full, cost))
    return Problem(joins, tuple(priced))
