"""A pipeline: how the changes of one input become changes of the join. It is compiled from a join order and the caches in use.

Source: *Adaptive Caching for Continuous Queries*, sections 3.1 and 3.2.
"""

from collections.abc import Iterable, Mapping, Sequence

from tempura.algebra.scalar import Expr
from tempura.streams.cache import Cache, Group
from tempura.streams.candidates import Candidate, Orders, update_point
from tempura.streams.query import Class, JoinQuery
from tempura.streams.steps import (
    KEY,
    Fill,
    Layout,
    Step,
    Update,
    Witness,
    arranger,
    compare_all,
    filling,
    look_up,
    probe,
    sources_of,
    test_of,
)
from tempura.streams.store import Row, Store, Tuple


class Pipeline:
    """The steps of one input. ``order`` is its join order, ``layout`` the inputs of the tuples that it gives, in their order; ``joins``
    are the steps that join or look up, without the updates of caches."""

    def __init__(
        self,
        query: JoinQuery,
        stores: Sequence[Store],
        orders: Orders,
        input: int,
        used: Sequence[Candidate],
        caches: Mapping[Group, Cache],
    ) -> None:
        self.input = input
        self.order = orders[input]
        self.layout: Layout = (input,)
        self.joins: list[Step] = []
        self._query = query
        self._stores = stores
        self._inserts: list[Step] = []
        self._deletes: list[Step] = []
        self._witnesses: list[tuple[int, Witness]] = []
        self._rows: Sequence[Row] = ()
        own = {c.start: c for c in used if c.pipeline == input}
        groups = {group: update_point(query, orders, group, input, own.values()) for group in caches}
        joined = 0
        while joined < len(self.order):
            if joined in own:
                self._add_look_up(own[joined], caches[own[joined].group])
                joined = own[joined].end
            else:
                self._add_join(self.order[joined])
                joined += 1
            for group, point in groups.items():
                if input in group.inputs and point is not None and point.joins == joined:
                    self._add_update(caches[group], point.exact)

    def insert(self, rows: Sequence[Row]) -> list[Tuple]:
        """The tuples of the join that come with rows of this input."""
        if self._witnesses:
            return self._insert_witnessed(rows)
        tuples: list[Tuple] = [(row,) for row in rows]
        for step in self._inserts:
            tuples = step(tuples)
            if not tuples:
                break
        return tuples

    def delete(self, rows: Sequence[Row]) -> list[Tuple]:
        """The tuples of the join that go with rows of this input."""
        tuples: list[Tuple] = [(row,) for row in rows]
        for step in self._deletes:
            tuples = step(tuples)
            if not tuples:
                break
        for _, witness in self._witnesses:
            witness.delete(rows)
        return tuples

    def _insert_witnessed(self, rows: Sequence[Row]) -> list[Tuple]:
        tuples: list[Tuple] = [(row,) for row in rows]
        self._rows = rows
        for at, step in enumerate(self._inserts):
            tuples = step(tuples)
            if not tuples:
                for place, witness in self._witnesses:
                    if place > at:
                        witness.insert(rows, tuples)
                break
        return tuples

    def _add(self, step: Step) -> None:
        self.joins.append(step)
        self._inserts.append(step)
        self._deletes.append(step)

    def _add_join(self, other: int) -> None:
        conditions = newly_bound(self._query, self.layout, (*self.layout, other))
        self._add(joining(self._query, self._stores, self.layout, other, conditions))
        self.layout = (*self.layout, other)

    def _add_look_up(self, c: Candidate, cache: Cache) -> None:
        query, group = self._query, c.group
        layout = (*self.layout, *group.inputs)
        within = newly_bound(query, (), group.inputs)
        test = test_of(query, layout, [x for x in newly_bound(query, self.layout, layout) if x not in within])
        fill = fill_of(query, self._stores, group, self.order[c.start : c.end])
        self._add(look_up(cache, sources_of(query, self.layout, group.key), fill, test))
        self.layout = layout

    def _add_update(self, cache: Cache, exact: bool) -> None:
        if exact:
            update = Update(cache, self.layout, sources_of(self._query, self.layout, cache.group.key))
            self._inserts.append(update.insert)
            self._deletes.append(update.delete)
            return
        classes = self._query.classes[self.input]
        witness = Witness(cache, self.layout, [classes.index(c) for c in cache.group.key])
        self._witnesses.append((len(self._inserts), witness))

        def step(tuples: list[Tuple]) -> list[Tuple]:
            witness.insert(self._rows, tuples)
            return tuples

        self._inserts.append(step)


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
    if query.inputs[other].name in query.scanned:
        return compare_all(stores[other], sources, [query.classes[other].index(c) for c in key], test)
    return probe(stores[other].tables[key], sources, test)


def key_with(query: JoinQuery, layout: Layout, other: int, of_key: Sequence[Class] = ()) -> tuple[Class, ...]:
    """The classes by which tuples are joined with one more input."""
    bound = {c for n in layout if n != KEY for c in query.classes[n]}.union(of_key)
    return tuple(c for c in query.classes[other] if c in bound)


def newly_bound(query: JoinQuery, before: Iterable[int], after: Iterable[int]) -> list[Expr]:
    """The conditions on several inputs that can be decided with the inputs ``after``, and could not be before."""
    known, all_known = frozenset(before), frozenset(after)
    reads = [(c, query.reads(c)) for c in query.conditions]
    return [c for c, read in reads if len(read) > 1 and read <= all_known and not read <= known]


def required_indexes(query: JoinQuery, orders: Orders) -> list[set[tuple[Class, ...]]]:
    """Per input the sets of classes by which pipelines of these orders look its rows up; fills of caches need no others."""
    needed: list[set[tuple[Class, ...]]] = [set() for _ in orders]
    for input, order in enumerate(orders):
        for n, other in enumerate(order):
            if query.inputs[other].name not in query.scanned:
                needed[other].add(key_with(query, (input, *order[:n]), other))
    return needed
