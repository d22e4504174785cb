"""The executor of a continuous join: windows, rows, pipelines, and the caches in use.

Source: *Adaptive Caching for Continuous Queries*, section 3. Orders and caches may be changed between any two batches: the rows are always
there, and a cache begins empty.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from tempura.algebra.bag import Row as Values
from tempura.errors import TempuraError
from tempura.streams.cache import Cache, Group
from tempura.streams.candidates import Candidate, Orders, is_possible
from tempura.streams.pipeline import Pipeline
from tempura.streams.query import JoinQuery, LastTime
from tempura.streams.steps import Layout
from tempura.streams.store import Store, Tuple
from tempura.streams.window import WindowOperator


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive changes of one input, all at one time: rows that are inserted, then rows that are deleted."""

    input: int
    inserts: Sequence[Values] = ()
    deletes: Sequence[Values] = ()
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the result: tuples, whose rows stand in the order of ``layout``, that come, then tuples that go."""

    layout: Layout
    inserted: list[Tuple]
    deleted: list[Tuple]

    def rows(self) -> Iterator[tuple[Values, int]]:
        """The changed rows of the result, each with 1 or -1: the columns of the inputs in the query's order."""
        places = [self.layout.index(n) for n in range(len(self.layout))]
        for tuples, weight in ((self.inserted, 1), (self.deleted, -1)):
            for t in tuples:
                yield tuple(chain.from_iterable([t[place].values for place in places])), weight


class ContinuousJoin:
    """What every way to compute a continuous join has in common: windows over the inputs. ``counts`` are the changes of rows of
    each input so far, those that windows make included."""

    def __init__(self, query: JoinQuery) -> None:
        self.query = query
        self.counts = [0] * len(query.inputs)
        self._windows = [WindowOperator(query, n) for n in range(len(query.inputs))]
        self._timed = [n for n, input in enumerate(query.inputs) if isinstance(input.window, LastTime)]
        self._now = float("-inf")
        self._unsent: list[Changes] = []

    def process(self, batch: Batch) -> list[Changes]:
        """The changes of the result that a batch makes, in order.

        Raises TempuraError DELETE_OF_MISSING, and TIME_GOES_BACK for a batch older than the one before. Such a batch changes nothing;
        what left windows by its time comes with the next one.
        """
        if self._timed:
            self._unsent += self._advance(batch.time)
        changed = self._windows[batch.input].apply(batch.inserts, batch.deletes, batch.time)
        if changed.inserted or changed.deleted:
            self._unsent.append(self.change(batch.input, changed.inserted, changed.deleted))
        found, self._unsent = self._unsent, []
        return found

    def windows(self) -> list[list[tuple[float, Values]]]:
        """What is in each window, with its time: all there is of state that has to outlive a process."""
        return [list(window.rows()) for window in self._windows]

    def refill(self, windows: Sequence[Sequence[tuple[float, Values]]]) -> None:
        """Fill the windows of a new join with what :meth:`windows` gave; the result's changes are those that were given then."""
        rows = [(time, n, values) for n, window in enumerate(windows) for time, values in window]
        for time, input, values in sorted(rows, key=lambda row: row[0]):
            self.process(Batch(input, [values], time=time))

    @property
    def processed(self) -> int:
        """The changes of rows so far."""
        return sum(self.counts)

    def _advance(self, time: float) -> Iterator[Changes]:
        if time < self._now:
            what = f"a batch of time {time} comes after one of time {self._now}."
            raise TempuraError("TIME_GOES_BACK", what, "Give batches in the order of their times.")
        self._now = time
        for input in self._timed:
            gone = self._windows[input].expire(time).deleted
            if gone:
                yield self.change(input, [], gone)

    def change(self, input: int, inserted: Sequence[Tuple], deleted: Sequence[Tuple]) -> Changes:
        """The changes of the result that rows make that come into a window, or leave it."""
        raise NotImplementedError(type(self).__name__)


class CachedJoin(ContinuousJoin):
    """An MJoin with caches: a pipeline for each input, in which segments may be cached. State: the rows of each input under indexes,
    and caches, which may be forgotten at any time.

    ``orders`` gives each input's join order, ``used`` the caches in use; ``caches`` holds one cache for each group of them.
    """

    def __init__(self, query: JoinQuery, orders: Orders | None = None, used: Sequence[Candidate] = ()) -> None:
        super().__init__(query)
        self.orders: Orders = orders or first_orders(query)
        self.used: tuple[Candidate, ...] = ()
        self.caches: dict[Group, Cache] = {}
        self.stores = [Store(classes) for classes in query.classes]
        self.pipelines: list[Pipeline] = []
        self._compiled: dict[tuple[int, tuple[Candidate, ...]], Pipeline] = {}
        self._compiled_for: tuple[Orders, dict[Group, Cache]] | None = None
        self._countdown = sys.maxsize
        self.reorder(self.orders)
        self.use(used)

    def reorder(self, orders: Orders) -> None:
        """Join in other orders from now on. Caches of pipelines whose order changes, and those that could not be kept up to date any
        more, are dropped. Raises TempuraError BAD_STREAM_JOIN for orders in which some join would be a product."""
        check_orders(self.query, orders)
        kept = [c for c in self.used if orders[c.pipeline] == self.orders[c.pipeline]]
        while not is_possible(self.query, orders, kept):
            kept.pop()
        self.orders = orders
        self._set(kept)

    def use(self, used: Iterable[Candidate]) -> None:
        """Use these caches from now on; those in use already keep their entries. Raises ValueError when they cannot be used together."""
        wanted = list(used)
        if not is_possible(self.query, self.orders, wanted):
            raise ValueError(f"these caches overlap, or one of them would not learn of every change: {wanted}")
        self._set(wanted)

    def _set(self, used: Sequence[Candidate]) -> None:
        self.used = tuple(used)
        self.caches = {g: self.caches.get(g) or self.new_cache(g) for g in self.groups_kept(used)}
        is_new = self._compiled_for != (self.orders, self.caches)
        if is_new:  # what was compiled before may read indexes that are dropped here
            self._compiled, self._compiled_for = {}, (self.orders, self.caches)
            for store in self.stores:
                store.forget_wants()
        self.pipelines = [self.compile(n, self.used) for n in range(len(self.orders))]
        if is_new:
            for store in self.stores:
                store.prune()

    def groups_kept(self, used: Sequence[Candidate]) -> list[Group]:
        """The groups that have a cache, each once."""
        return list(dict.fromkeys(c.group for c in used))

    def new_cache(self, group: Group) -> Cache:
        """An empty cache for a group."""
        return Cache(group)

    def compile(self, input: int, used: Sequence[Candidate]) -> Pipeline:
        """The pipeline of an input when it looks up in these caches; all caches are updated by it. It is compiled once as long as
        orders and caches are the same."""
        own = tuple(c for c in used if c.pipeline == input)
        if (input, own) not in self._compiled:
            self._compiled[input, own] = Pipeline(self.query, self.stores, self.orders, input, own, self.caches)
        return self._compiled[input, own]

    def change(self, input: int, inserted: Sequence[Tuple], deleted: Sequence[Tuple]) -> Changes:
        self._countdown -= 1
        if self._countdown < 0:
            return self.attend(input, inserted, deleted)
        pipeline, store = self.pipelines[input], self.stores[input]
        plus: list[Tuple] = []
        minus: list[Tuple] = []
        if inserted:
            plus = pipeline.insert(inserted)
            store.insert(inserted)
        if deleted:
            minus = pipeline.delete(deleted)
            store.delete(deleted)
        self.counts[input] += len(inserted) + len(deleted)
        return Changes(pipeline.layout, plus, minus)

    def attend(self, input: int, inserted: Sequence[Tuple], deleted: Sequence[Tuple]) -> Changes:
        """What is done with a batch when the countdown has ended, instead of :meth:`change`; here it never does."""
        raise NotImplementedError(type(self).__name__)

    @property
    def bytes_used(self) -> int:
        """What the caches take."""
        return sum(cache.bytes for cache in self.caches.values())


def first_orders(query: JoinQuery) -> Orders:
    """The first orders without products: for each input the others as the query names them, as soon as they are connected."""
    return tuple(_connected(query, n) for n in range(len(query.inputs)))


def _connected(query: JoinQuery, input: int) -> tuple[int, ...]:
    order: list[int] = []
    rest = [n for n in range(len(query.inputs)) if n != input]
    while rest:
        nearest = next(n for n in rest if query.shared((input, *order), (n,)))
        order.append(nearest)
        rest.remove(nearest)
    return tuple(order)


def check_orders(query: JoinQuery, orders: Orders) -> None:
    """Refuse orders that are none, or have a product. Raises TempuraError BAD_STREAM_JOIN."""
    for input, order in enumerate(orders):
        complete = sorted((input, *order)) == list(range(len(query.inputs)))
        if not complete or not all(query.shared((input, *order[:n]), (order[n],)) for n in range(len(order))):
            what = f"the pipeline of {query.inputs[input].name} cannot join in the order {order}."
            raise TempuraError("BAD_STREAM_JOIN", what, "Join each input by an equality with those before it.")
