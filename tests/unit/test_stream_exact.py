"""After any prefix of the input, the changes that a continuous join has given are the join of what is there."""

from random import Random

import pytest

from tempura.streams.execution import CachedJoin
from tempura.streams.xjoin import XJoin, trees
from tests.unit.stream_histories import first_difference, random_caches, random_history, random_query, shake


def check(seed: int) -> None:
    rng = Random(seed)
    query = random_query(rng)
    batches = list(random_history(rng, query, 30))
    join = CachedJoin(query)
    join.use(random_caches(rng, join))
    assert first_difference(join, batches, lambda: shake(rng, join)) is None, f"seed {seed}: {query}"


@pytest.mark.parametrize("part", range(5))
def test_random_histories(part: int) -> None:
    for seed in range(part * 20, part * 20 + 20):
        check(seed)


@pytest.mark.full
@pytest.mark.parametrize("part", range(20))
def test_five_thousand_random_histories(part: int) -> None:
    for seed in range(1000 + part * 250, 1000 + part * 250 + 250):
        check(seed)


@pytest.mark.parametrize("seed", range(30))
def test_trees_of_joins(seed: int) -> None:
    rng = Random(seed)
    query = random_query(rng)
    batches = list(random_history(rng, query, 30))
    join = XJoin(query, rng.choice(list(trees(query))))
    assert first_difference(join, batches) is None
