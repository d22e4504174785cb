"""Caches that are wrong in one way each, planted: the comparison with the interpreter must refute every one of them."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from random import Random

import pytest

from tempura.algebra.scalar import Call, Column, Expr
from tempura.streams import candidates, pipeline, steps
from tempura.streams.cache import Cache, Group
from tempura.streams.candidates import Candidate
from tempura.streams.execution import CachedJoin
from tempura.streams.query import Input, JoinQuery, equal
from tempura.streams.store import Row, Tuple
from tests.unit.stream_histories import first_difference, random_caches, random_history, random_query, shake

SEEDS = range(80)
ENOUGH = 3

Shake = Callable[[Random, CachedJoin], None]


def is_refuted(make: Callable[[Random], CachedJoin], between: Shake = shake) -> bool:
    """Whether several histories refute a join."""
    found = 0
    for seed in SEEDS:
        rng = Random(seed)
        join = make(rng)
        batches = list(random_history(rng, join.query, 40))
        found += first_difference(join, batches, partial(between, rng, join)) is not None
        if found == ENOUGH:
            return True
    return False


def with_random_caches(kind: type[CachedJoin]) -> Callable[[Random], CachedJoin]:
    def make(rng: Random) -> CachedJoin:
        join = kind(random_query(rng))
        join.use(random_caches(rng, join))
        return join

    return make


class IgnoresDeletes(Cache):
    def remove(self, key: object, place: int, row: Row) -> None:
        pass


class IgnoresInserts(Cache):
    """What it is told to add goes into lists that nobody reads."""

    def create(self, key: object, value: list[Tuple]) -> None:
        super().create(key, Frozen(value))

    def extend(self, key: object, tuples: list[Tuple]) -> None:
        pass


class Frozen(list[Tuple]):
    def append(self, tuple: Tuple) -> None:
        pass


class ForgetsKeysOfItsValues(Cache):
    """After a collision a bucket's old value is served for the new key."""

    def create(self, key: object, value: list[Tuple]) -> None:
        bucket = hash(key) & self._mask
        old = self.entries.get(self._occupant[bucket], value) if bucket in self._occupant else value
        super().create(key, list(old))


@pytest.mark.parametrize("kind", [IgnoresDeletes, IgnoresInserts, ForgetsKeysOfItsValues])
def test_a_wrong_cache_is_refuted(kind: type[Cache]) -> None:
    class Join(CachedJoin):
        def new_cache(self, group: Group) -> Cache:
            return kind(group, buckets=2)

    assert is_refuted(with_random_caches(Join))


class ServesAfterADrop(CachedJoin):
    """Caches that are not in use are kept, are not told of changes, and are used again as they are."""

    def _set(self, used: Sequence[Candidate]) -> None:
        kept = self.__dict__.setdefault("kept", {})
        kept.update(self.caches)
        super()._set(used)

    def new_cache(self, group: Group) -> Cache:
        kept: dict[Group, Cache] = self.__dict__["kept"]
        return kept.get(group) or super().new_cache(group)


def use_and_drop(rng: Random, join: CachedJoin) -> None:
    if rng.random() < 0.3:
        join.use([] if join.used else random_caches(rng, join))


def test_a_cache_that_serves_what_it_held_before_it_was_dropped_is_refuted() -> None:
    assert is_refuted(with_random_caches(ServesAfterADrop), use_and_drop)


def test_a_cache_without_the_prefix_invariant_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updated where the invariant holds, and used although it does not hold elsewhere."""
    true = candidates.update_point

    def lax(*args: object, **options: object) -> object:
        return true(*args, **options) or candidates.UpdatePoint(-1, exact=True)  # type: ignore[arg-type]

    monkeypatch.setattr(candidates, "update_point", lax)
    monkeypatch.setattr(pipeline, "update_point", lax)
    assert is_refuted(with_random_caches(CachedJoin))


def test_a_witness_that_knows_too_little_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """X and Y meet in more than the key, so what passes is not all of X: r1 ⋈ r2 by a, and r3 meets r2 in c."""
    columns = {name: Column(name, name, "int") for name in ("r0.a", "r0.d", "r1.a", "r2.a", "r2.c", "r3.c", "r3.d")}
    inputs = [Input(f"r{n}", tuple(c for name, c in columns.items() if name[:2] == f"r{n}")) for n in range(4)]
    pairs = [("r0.a", "r1.a"), ("r1.a", "r2.a"), ("r2.c", "r3.c"), ("r0.d", "r3.d")]
    parts: list[Expr] = [equal(columns[left], columns[right]) for left, right in pairs]
    query = JoinQuery(tuple(inputs), reduce(lambda a, b: Call("And", (a, b), "boolean"), parts[1:], parts[0]))
    orders = ((1, 2, 3), (0, 3, 2), (1, 0, 3), (0, 1, 2))
    cache = candidates.candidate(query, orders, 0, 0, 2)
    assert not candidates.is_possible(query, orders, [cache])
    monkeypatch.setattr(candidates, "_meets_by_key", lambda *args: True)
    assert is_refuted(lambda rng: CachedJoin(query, orders, [cache]), lambda rng, join: None)


def test_a_witness_that_keeps_what_it_did_not_see_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def insert(self: steps.Witness, rows: Sequence[Tuple], tuples: Sequence[Tuple]) -> None:
        for row, key in self._present(rows):
            own = [t for t in tuples if t[0] is row[0]]
            if own and key in self._cache.entries:
                self._cache.extend(key, self._changes(row))

    monkeypatch.setattr(steps.Witness, "insert", insert)
    assert is_refuted(with_random_caches(CachedJoin))


def test_a_witness_that_counts_matches_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tuple of X once for each match in Y."""

    def all_of(self: steps.Witness, tuples: Sequence[Tuple]) -> list[Tuple]:
        return [self._arrange(t) for t in tuples]

    monkeypatch.setattr(steps.Witness, "_of_one_match", all_of)
    assert is_refuted(with_random_caches(CachedJoin))


def test_updates_inside_of_a_cached_segment_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up that hits passes by the place where another cache would have learned of a change."""
    true = candidates.update_point

    def blind(*args: object) -> object:
        return true(*args[:4])  # type: ignore[arg-type]

    monkeypatch.setattr(candidates, "update_point", blind)
    monkeypatch.setattr(pipeline, "update_point", blind)
    assert is_refuted(with_random_caches(CachedJoin))


def probes(joins: Iterator[CachedJoin]) -> int:
    return sum(cache.probes - cache.misses for join in joins for cache in join.caches.values())


def test_the_histories_have_hits() -> None:
    """Otherwise nothing above would say anything."""

    def run(seed: int) -> CachedJoin:
        rng = Random(seed)
        join = with_random_caches(CachedJoin)(rng)
        assert first_difference(join, list(random_history(rng, join.query, 40))) is None
        return join

    assert probes(map(run, range(20))) > 300
