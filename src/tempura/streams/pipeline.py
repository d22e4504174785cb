"""A pipeline: how the changes of one input become changes of the join. It is compiled from a join order and the caches in use.

Source: *Adaptive Caching for Continuous Queries*, sections 3.1 and 3.2.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from tempura.algebra.scalar import Expr
from tempura.streams.cache import Cache, Group
from tempura.streams.candidates import Candidate, Orders, update_point
from tempura.streams.query import Class, JoinQuery
from tempura.streams.statistics import ProbeWindows
from tempura.streams.steps import (
    KEY,
    Fill,
    Layout,
    Step,
    Update,
    Witness,
    arranger,
    changing,
    compare_all,
    filling,
    key_of,
    look_up,
    probe,
    sources_of,
    test_of,
)
from tempura.streams.store import Store, Tuple


class Pipeline:
    """The steps of one input. ``order`` is its join order, ``layout`` the inputs of the tuples that it gives, in their order;
    ``watched`` are looked at by a step of their own where their segments begin."""

    def __init__(
        self,
        query: JoinQuery,
        stores: Sequence[Store],
        orders: Orders,
        input: int,
        used: Sequence[Candidate],
        caches: Mapping[Group, Cache],
        watched: Mapping[Candidate, ProbeWindows] = MappingProxyType({}),
    ) -> None:
        self.input = input
        self.order = orders[input]
        self.layout: Layout = (input,)
        self._query = query
        self._stores = stores
        self._inserts: list[Step] = []
        self._deletes: list[Step] = []
        self._witnesses: list[tuple[int, Witness]] = []
        self._joined: list[frozenset[int]] = []
        self._rows: Sequence[Tuple] = ()
        own = {c.start: c for c in used if c.pipeline == input}
        groups = {group: update_point(query, orders, group, input, own.values()) for group in caches}
        joined = 0
        while joined < len(self.order):
            for c, windows in watched.items():
                if c.start == joined:
                    observe = windows.observer(key_of(sources_of(query, self.layout, c.group.key)))
                    self._add_update_step(observe, observe)
            if joined in own:
                self._add_look_up(own[joined], caches[own[joined].group])
                joined = own[joined].end
            else:
                self._add_join(self.order[joined])
                joined += 1
            for group, point in groups.items():
                if input in group.inputs and point is not None and point.joins == joined:
                    self._add_update(caches[group], point.exact)

    def insert(self, rows: Sequence[Tuple]) -> list[Tuple]:
        """The tuples of the join that come with rows of this input."""
        if self._witnesses:
            return self._insert_witnessed(rows)
        tuples = list(rows)
        for step in self._inserts:
            tuples = step(tuples)
            if not tuples:
                break
        return tuples

    def delete(self, rows: Sequence[Tuple]) -> list[Tuple]:
        """The tuples of the join that go with rows of this input."""
        tuples = list(rows)
        for step in self._deletes:
            tuples = step(tuples)
            if not tuples:
                break
        for _, witness in self._witnesses:
            witness.delete(rows)
        return tuples

    def insert_by(self, tuples: list[Tuple], do: Callable[[Step, list[Tuple]], list[Tuple]]) -> list[Tuple]:
        """As :meth:`insert` for a single row, each join done by ``do``; updates of caches are not its business."""
        self._rows = tuples
        for at, step in enumerate(self._inserts):
            tuples = do(step, tuples) if self._joined[at] else step(tuples)
            if not tuples:
                self._nothing_passes(at, self._rows)
                break
        return tuples

    def _insert_witnessed(self, rows: Sequence[Tuple]) -> list[Tuple]:
        tuples = list(rows)
        self._rows = rows
        for at, step in enumerate(self._inserts):
            tuples = step(tuples)
            if not tuples:
                self._nothing_passes(at, rows)
                break
        return tuples

    def _nothing_passes(self, at: int, rows: Sequence[Tuple]) -> None:
        """Tell witnesses that stand after a step that rows get no further than there."""
        # Of one row, or of all at the first join, it is known what they did not match: nothing in X, and they change no tuple of X.
        unmatched = self._joined[at] if at == 0 or len(rows) == 1 else frozenset[int]()
        for place, witness in self._witnesses:
            if place > at and not (unmatched and unmatched <= witness.inputs):
                witness.insert(rows, [])

    def _add(self, step: Step, joined: Iterable[int]) -> None:
        self._joined.append(frozenset(joined))
        self._inserts.append(step)
        self._deletes.append(step)

    def _add_join(self, other: int) -> None:
        conditions = newly_bound(self._query, self.layout, (*self.layout, other))
        self._add(joining(self._query, self._stores, self.layout, other, conditions), (other,))
        self.layout = (*self.layout, other)

    def _add_look_up(self, c: Candidate, cache: Cache) -> None:
        query, group = self._query, c.group
        layout = (*self.layout, *group.inputs)
        within = newly_bound(query, (), group.inputs)
        test = test_of(query, layout, [x for x in newly_bound(query, self.layout, layout) if x not in within])
        fill = fill_of(query, self._stores, group, self.order[c.start : c.end])
        self._add(look_up(cache, sources_of(query, self.layout, group.key), fill, test), group.inputs)
        self.layout = layout

    def _add_update_step(self, insert: Step, delete: Step) -> None:
        """A step that lets everything pass."""
        self._inserts.append(insert)
        self._joined.append(frozenset())
        self._deletes.append(delete)

    def _add_update(self, cache: Cache, exact: bool) -> None:
        if exact:
            update = Update(cache, self.layout, sources_of(self._query, self.layout, cache.group.key))
            self._add_update_step(update.insert, update.delete)
            return
        classes = self._query.classes[self.input]
        slots = [classes.index(c) for c in cache.group.key]
        witness = Witness(cache, self.layout, slots, changes_of(self._query, self._stores, cache.group, self.input))
        self._witnesses.append((len(self._inserts), witness))

        def step(tuples: list[Tuple]) -> list[Tuple]:
            witness.insert(self._rows, tuples)
            return tuples

        self._inserts.append(step)
        self._joined.append(frozenset())


def changes_of(query: JoinQuery, stores: Sequence[Store], group: Group, input: int) -> Callable[[Tuple], list[Tuple]]:
    """The function that computes the tuples of a group that a row of one of its inputs is part of, by joins of their own. The group's
    key is known from the row, so each of the others can be joined."""
    layout: Layout = (input,)
    steps: list[Step] = []
    rest = [n for n in group.inputs if n != input]
    while rest:
        other = next(n for n in rest if key_with(query, layout, n))
        rest.remove(other)
        conditions = newly_bound(query, layout, (*layout, other))
        steps.append(joining(query, stores, layout, other, conditions))
        layout = (*layout, other)
    return changing(steps, arranger(layout, group.inputs))


def fill_of(query: JoinQuery, stores: Sequence[Store], group: Group, order: Sequence[int]) -> Fill:
    """The function that computes the value of a key of a group's cache, by joins in an order."""
    layout: Layout = (KEY,)
    steps: list[Step] = []
    for other in order:
        conditions = newly_bound(query, layout[1:], (*layout[1:], other))
        steps.append(joining(query, stores, layout, other, conditions, group.key))
        layout = (*layout, other)
    return filling(steps, arranger(layout, group.inputs), single=len(group.key) == 1)


def joining(
    query: JoinQuery,
    stores: Sequence[Store],
    layout: Layout,
    other: int,
    conditions: Sequence[Expr],
    of_key: Sequence[Class] = (),
) -> Step:
    """The join of tuples with one more input."""
    key = key_with(query, layout, other, of_key)
    sources = sources_of(query, layout, key, of_key)
    test = test_of(query, (*layout, other), conditions)
    if query.is_scanned(other, key):
        return compare_all(stores[other], sources, [query.classes[other].index(c) for c in key], test)
    return probe(stores[other].index(key), sources, test)


def key_with(query: JoinQuery, layout: Layout, other: int, of_key: Sequence[Class] = ()) -> tuple[Class, ...]:
    """The classes by which tuples are joined with one more input."""
    bound = {c for n in layout if n != KEY for c in query.classes[n]}.union(of_key)
    return tuple(c for c in query.classes[other] if c in bound)


def newly_bound(query: JoinQuery, before: Iterable[int], after: Iterable[int]) -> list[Expr]:
    """The conditions on several inputs that can be decided with the inputs ``after``, and could not be before."""
    known, all_known = frozenset(before), frozenset(after)
    reads = [(c, query.reads(c)) for c in query.conditions]
    return [c for c, read in reads if len(read) > 1 and read <= all_known and not read <= known]
