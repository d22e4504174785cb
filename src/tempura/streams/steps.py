"""The operators of a pipeline: joins with one input, look-ups in caches, updates of caches.

A step takes the tuples that reach it and gives those that leave it. A tuple's rows stand in the order of the step's *layout*.
Source: *Adaptive Caching for Continuous Queries*, sections 3.1 and 3.2.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import cast

from tempura.algebra.evaluate_scalar import is_true
from tempura.algebra.scalar import Column, Expr
from tempura.streams.cache import Cache
from tempura.streams.query import Class, JoinQuery
from tempura.streams.store import Row, Store, Table, Tuple

Layout = tuple[int, ...]
"""The inputs whose rows a tuple holds, in order."""

KEY = -1
"""In a layout, for a row that is nothing but the key by which a cache is filled."""

Step = Callable[[list[Tuple]], list[Tuple]]
KeyOf = Callable[[Tuple], object]
Test = Callable[[Tuple], bool]

NOTHING: tuple[Tuple, ...] = ()

MANY = 8
"""Passing tuples that are looked at in the time that one join takes."""


def sources_of(query: JoinQuery, layout: Layout, key: Sequence[Class], of_key: Sequence[Class] = ()) -> list[list[int]]:
    """Per class of ``key`` where a tuple has its value: a place in the layout, and one in that row's key. ``of_key`` are the classes of
    the row that stands for KEY."""
    found: list[list[int]] = []
    for c in key:
        for place, input in enumerate(layout):
            classes = of_key if input == KEY else query.classes[input]
            if c in classes:
                found.append([place, tuple(classes).index(c)])
                break
    return found


def key_of(sources: Sequence[Sequence[int]]) -> KeyOf:
    """The function that reads a key from a tuple: a value for one class, else the tuple of the values."""
    if len(sources) == 1:
        ((place, slot),) = sources
        return lambda t: t[place].key[slot]
    return lambda t: tuple([t[place].key[slot] for place, slot in sources])


def test_of(query: JoinQuery, layout: Layout, conditions: Sequence[Expr]) -> Test | None:
    """Whether a tuple meets all conditions; None when there are none."""
    if not conditions:
        return None
    wanted = frozenset[Column]().union(*(c.columns for c in conditions))
    reads = [(column, layout.index(query.owner[column])) for column in wanted]
    slots = [(c, place, query.inputs[query.owner[c]].columns.index(c)) for c, place in reads]

    def test(t: Tuple) -> bool:
        row = {column: t[place].values[n] for column, place, n in slots}
        return all(is_true(condition, row) for condition in conditions)

    return test


def probe(table: Table, sources: Sequence[Sequence[int]], test: Test | None) -> Step:
    """The join with an input by an index."""
    get = table.get
    if len(sources) == 1:
        ((place, slot),) = sources
        if place == 0 and test is None:

            def first(tuples: list[Tuple]) -> list[Tuple]:
                return [t + s for t in tuples for s in get(t[0].key[slot], NOTHING)]

            return first

        def single(tuples: list[Tuple]) -> list[Tuple]:
            return [t + s for t in tuples for s in get(t[place].key[slot], NOTHING)]

        return _tested(single, test)
    key = key_of(sources)

    def several(tuples: list[Tuple]) -> list[Tuple]:
        return [t + s for t in tuples for s in get(key(t), NOTHING)]

    return _tested(several, test)


def compare_all(store: Store, sources: Sequence[Sequence[int]], slots: Sequence[int], test: Test | None) -> Step:
    """The join with an input by comparing every one of its rows: without an index."""

    def nested(tuples: list[Tuple]) -> list[Tuple]:
        wanted = [(t, [t[place].key[slot] for place, slot in sources]) for t in tuples]
        return [t + s for t, key in wanted for s in store.rows() if [s[0].key[n] for n in slots] == key]

    return _tested(nested, test)


def _tested(step: Step, test: Test | None) -> Step:
    if test is None:
        return step
    return lambda tuples: [t for t in step(tuples) if test(t)]


Fill = Callable[[object], list[Tuple]]


def filling(steps: Sequence[Step], arrange: Callable[[Tuple], Tuple], single: bool) -> Fill:
    """The function that computes the value of a key by joins alone."""

    def fill(key: object) -> list[Tuple]:
        tuples: list[Tuple] = [(Row((), (key,) if single else cast(tuple[object, ...], key)),)]
        for step in steps:
            tuples = step(tuples)
            if not tuples:
                return tuples
        return [arrange(t) for t in tuples]

    return fill


def changing(steps: Sequence[Step], arrange: Callable[[Tuple], Tuple]) -> Callable[[Tuple], list[Tuple]]:
    """The function that computes what a row is joined with by ``steps``."""

    def changes(row: Tuple) -> list[Tuple]:
        tuples = [row]
        for step in steps:
            tuples = step(tuples)
            if not tuples:
                return tuples
        return [arrange(t) for t in tuples]

    return changes


def look_up(cache: Cache, sources: Sequence[Sequence[int]], fill: Fill, test: Test | None) -> Step:
    """CacheLookup, and the CacheUpdate at the end of its segment: on a miss the segment's joins are computed and kept."""
    get = cache.entries.get
    key_from = key_of(sources)
    place, slot = sources[0]

    def single(tuples: list[Tuple]) -> list[Tuple]:
        cache.probes += len(tuples)
        if len(tuples) == 1:
            (t,) = tuples
            key = t[place].key[slot]
            value = get(key)
            return [t + s for s in (_missed(cache, key, fill) if value is None else value)]
        values = [get(t[place].key[slot]) for t in tuples]
        if None in values:
            values = [_filled(cache, t[place].key[slot], fill) for t in tuples]
        return [t + s for t, value in zip(tuples, values, strict=True) if value for s in value]

    def several(tuples: list[Tuple]) -> list[Tuple]:
        cache.probes += len(tuples)
        values = [_filled(cache, key_from(t), fill) for t in tuples]
        return [t + s for t, value in zip(tuples, values, strict=True) for s in value]

    return _tested(single if len(sources) == 1 else several, test)


def _filled(cache: Cache, key: object, fill: Fill) -> list[Tuple]:
    value = cache.entries.get(key)
    return _missed(cache, key, fill) if value is None else value


def _missed(cache: Cache, key: object, fill: Fill) -> list[Tuple]:
    cache.misses += 1
    value = fill(key)
    cache.create(key, value)
    return value


def arranger(layout: Layout, wanted: Sequence[int]) -> Callable[[Tuple], Tuple]:
    """The function that takes the rows of ``wanted``, at least two, in that order, from a tuple."""
    return cast(Callable[[Tuple], Tuple], itemgetter(*(layout.index(n) for n in wanted)))


class Update:
    """CacheUpdate where a pipeline has just joined the cache's other inputs: what passes are the changes of the cached join."""

    def __init__(self, cache: Cache, layout: Layout, sources: Sequence[Sequence[int]]) -> None:
        self._cache = cache
        self._key = key_of(sources)
        self._arrange = arranger(layout, cache.group.inputs)
        self._place = cache.group.inputs.index(layout[0])

    def insert(self, tuples: list[Tuple]) -> list[Tuple]:
        """Add the tuples that pass to the entries there are."""
        get, key_of, added = self._cache.entries.get, self._key, 0
        for t in tuples:
            value = get(key_of(t))
            if value is not None:
                value.append(self._arrange(t))
                added += 1
        if added:
            self._cache.has_grown(added)
        return tuples

    def delete(self, tuples: list[Tuple]) -> list[Tuple]:
        """Take the tuples that pass from the entries there are."""
        entries, key_of = self._cache.entries, self._key
        if len(tuples) == 1:
            key = key_of(tuples[0])
            if key in entries:
                self._cache.remove(key, self._place, tuples[0][0])
            return tuples
        for key, row in dict.fromkeys([(key_of(t), t[0]) for t in tuples]):
            if key in entries:
                self._cache.remove(key, self._place, row)
        return tuples


class Witness:
    """CacheUpdate of a globally consistent cache: X is cached, and the tuples that pass are those of X ⋈ Y (section 6).

    A row's own key is the cache's key u, and whether a tuple of X has a match in Y depends on u alone. So if anything passes, every
    tuple of X with the row does. If nothing passes, the row may be part of tuples of X that have no match in Y: then, and where many
    more tuples pass than X has, the row's tuples of X are joined apart (``changes``). A deleted row is taken from the entry itself. All
    this is for keys that the cache holds; others cost one look.
    """

    def __init__(
        self, cache: Cache, layout: Layout, slots: Sequence[int], changes: Callable[[Tuple], list[Tuple]]
    ) -> None:
        self.inputs = frozenset(cache.group.inputs)
        self._cache = cache
        self._slot = slots[0] if len(slots) == 1 else None
        self._slots = tuple(slots)
        self._changes = changes
        self._many = MANY * len(cache.group.inputs)
        self._arrange = arranger(layout, cache.group.inputs)
        self._place = cache.group.inputs.index(layout[0])
        self._beyond = tuple(n for n, input in enumerate(layout) if input not in cache.group.inputs)

    def _present(self, rows: Sequence[Tuple]) -> list[tuple[Tuple, object]]:
        entries = self._cache.entries
        if self._slot is not None:
            slot = self._slot
            return [(row, row[0].key[slot]) for row in rows if row[0].key[slot] in entries]
        keys = ((row, tuple([row[0].key[n] for n in self._slots])) for row in rows)
        return [(row, key) for row, key in keys if key in entries]

    def insert(self, rows: Sequence[Tuple], tuples: Sequence[Tuple]) -> None:
        """Bring the entries of the rows' keys up to date with the tuples that pass."""
        for row, key in self._present(rows):
            own = tuples if len(rows) == 1 else [t for t in tuples if t[0] is row[0]]
            new = self._of_one_match(own) if 0 < len(own) <= self._many else self._changes(row)
            if key in self._cache.entries:  # it may have had to go for a row of the same batch
                self._cache.extend(key, new)

    def delete(self, rows: Sequence[Tuple]) -> None:
        """Take deleted rows from the entries of their keys."""
        for row, key in self._present(rows):
            self._cache.remove(key, self._place, row[0])

    def _of_one_match(self, tuples: Sequence[Tuple]) -> list[Tuple]:
        """The tuples of X: those with the first tuple's match in Y, so that each is there once."""
        first, arrange = tuples[0], self._arrange
        if len(self._beyond) == 1:
            (place,) = self._beyond
            match = first[place]
            return [arrange(t) for t in tuples if t[place] is match]
        matches = [(place, first[place]) for place in self._beyond]
        return [arrange(t) for t in tuples if all(t[place] is match for place, match in matches)]
