"""The profiler: what passes through each pipeline, what it costs, and how often caches would miss.

Source: *Adaptive Caching for Continuous Queries*, section 4.3 and appendix A. Some rows go through their pipeline without its caches, and
each join is measured; statistics are averages of the last W of them.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from tempura.streams.candidates import Candidate, Orders
from tempura.streams.clock import Clock
from tempura.streams.pipeline import Pipeline, joining, key_with, newly_bound
from tempura.streams.query import Class, JoinQuery
from tempura.streams.statistics import Average, W
from tempura.streams.steps import Step
from tempura.streams.store import Store, Table, Tuple

SAMPLE = 8
"""The tuples at a place of a pipeline for which other joins are tried."""

FANOUTS = 100
"""The observations of a fanout: of single rows they differ much, and a changed order costs all caches of a pipeline."""


CHANCE = 4.0
"""Standard errors by which a rate differs if it has moved."""


@dataclass
class Joins:
    """What was measured in one pipeline: per join the tuples that reach it and its cost, for one row of the input; at the end of
    ``tuples`` the tuples of the result. ``fanouts``: at each place, for each input not yet joined, how many matches a tuple has.
    ``is_new``: whether a row was measured since its reader has looked."""

    tuples: list[Average]
    costs: list[Average]
    fanouts: dict[tuple[int, int], Average] = field(default_factory=dict)
    together: int = 4
    rows: list[list[float]] = field(default_factory=list)
    is_new: bool = False

    def add(self, found: Sequence[float]) -> None:
        """What was measured of one row: what reached each join, then what each cost. The mean of ``together`` rows is one
        observation."""
        self.is_new = True
        self.rows.append(list(found))
        if len(self.rows) == self.together:
            for average, values in zip((*self.tuples, *self.costs), zip(*self.rows, strict=True), strict=True):
                average.add(sum(values) / self.together)
            self.rows.clear()

    @property
    def is_complete(self) -> bool:
        """Whether there are W observations."""
        return self.tuples[0].is_complete


class Rates:
    """Per input its share of all changes of rows, over the last W ticks."""

    def __init__(self, inputs: int) -> None:
        self._ticks: deque[tuple[int, ...]] = deque([(0,) * inputs], maxlen=W + 1)
        self._shares: list[float] | None = None

    def tick(self, counts: Sequence[int]) -> None:
        """Close a tick; ``counts`` are the changes of each input since the beginning."""
        self._ticks.append(tuple(counts))
        self._shares = None

    def shares(self) -> Sequence[float]:
        """The rates: changes of each input per change of any."""
        if self._shares is None:
            sums = [new - old for new, old in zip(self._ticks[-1], self._ticks[0], strict=True)]
            self._shares = [one / max(1, sum(sums)) for one in sums]
        return self._shares

    def have_moved(self, known: Sequence[float], by: float) -> bool:
        """Whether some rate was another one than it is known to be, by a share ``by`` of it and more than chance would make it, in the
        last tick and in the one before, and the same one in both: rows that come in turns of an input each move no rate."""
        if len(self._ticks) < 3:
            return False
        first, second, third = (self._ticks[n] for n in (-3, -2, -1))
        before, last = max(1, sum(second) - sum(first)), max(1, sum(third) - sum(second))
        rows = min(before, last)
        for old, x, y, z in zip(known, first, second, third, strict=True):
            a, b = (y - x) / before, (z - y) / last
            away = min(abs(a - old), abs(b - old)) if (a < old) == (b < old) else 0.0
            if away > by * old and away > abs(a - b):
                chance = CHANCE * sqrt(max(old * (1 - old), 1 / rows) / rows)
                if away > chance:
                    return True
        return False

    def forget(self) -> None:
        """Know the last two ticks only: what came before them came at other rates."""
        self._ticks = deque(list(self._ticks)[-3:], maxlen=W + 1)
        self._shares = None


class Profiler:
    """Measures rows in pipelines without caches, for join orders that :meth:`renew` is told."""

    def __init__(self, query: JoinQuery, stores: Sequence[Store], clock: Clock, rows: int) -> None:
        self._query = query
        self._stores = stores
        self._clock = clock
        self._rows = rows
        self._tries: dict[tuple[int, int, int], tuple[Table | None, Step]] = {}
        self._keys: dict[tuple[int, int, int], tuple[tuple[Class, ...], bool]] = {}
        self.orders: Orders = ()
        self.joins: list[Joins] = []
        self.rates = Rates(len(query.inputs))

    def renew(self, orders: Orders) -> None:
        """Forget what was measured in pipelines whose orders have changed."""
        fresh = [
            Joins([Average() for _ in orders], [Average() for _ in orders[1:]], together=self._rows)
            if n >= len(self.orders) or old != order
            else self.joins[n]
            for n, (order, old) in enumerate(zip(orders, self.orders or orders, strict=True))
        ]
        self.orders, self.joins, self._tries, self._keys = orders, fresh, {}, {}

    @property
    def is_complete(self) -> bool:
        """Whether each join has W observations."""
        return all(joins.is_complete for joins in self.joins)

    @property
    def is_settled(self) -> bool:
        """Whether, besides, as many matches were counted as orders are chosen by."""
        return self.is_complete and all(f.is_complete for joins in self.joins for f in joins.fanouts.values())

    def measure(self, pipeline: Pipeline, first: list[Tuple]) -> list[Tuple]:
        """Send a row through a pipeline without caches, updates of caches included, and keep what each join took."""
        own = self.joins[pipeline.input]
        reached: list[float] = [0.0] * len(own.tuples)
        costs: list[float] = [0.0] * len(own.costs)
        place = 0

        def step(join: Step, tuples: list[Tuple]) -> list[Tuple]:
            nonlocal place
            reached[place] = len(tuples)
            if place + 1 < len(costs):
                self._try_others(pipeline.input, place, tuples)
            looks = self.looks(pipeline.input, place, pipeline.order[place])
            out, costs[place] = self._clock.measure(join, tuples, looks)
            place += 1
            return out

        out = pipeline.insert_by(first, step)
        if place == len(costs):
            reached[place] = len(out)
        own.add((*reached, *costs))
        return out

    def looks(self, input: int, place: int, other: int) -> int:
        """How many rows of another input are looked at for one tuple at a place of a pipeline."""
        _, is_scanned = self._key(input, place, other)
        return len(self._stores[other]) if is_scanned else 1

    def _key(self, input: int, place: int, other: int) -> tuple[tuple[Class, ...], bool]:
        """The classes by which tuples at a place of a pipeline are joined with another input, and whether all of its rows are compared."""
        known = self._keys.get((input, place, other))
        if known is None:
            key = key_with(self._query, (input, *self.orders[input][:place]), other)
            known = self._keys[input, place, other] = key, self._query.is_scanned(other, key)
        return known

    def _try_others(self, input: int, place: int, tuples: list[Tuple]) -> None:
        """How many matches tuples at a place have in each input that could be joined next (A-Greedy's profile)."""
        some = tuples[:SAMPLE]
        for other in self.orders[input][place:]:
            if self._key(input, place, other)[0]:
                found = len(self._try(input, place, other)(some)) / len(some)
                self.joins[input].fanouts.setdefault((place, other), Average(FANOUTS)).add(found)

    def _try(self, input: int, place: int, other: int) -> Step:
        key, _ = self._key(input, place, other)
        tables = self._stores[other].tables
        table, step = self._tries.get((input, place, other), (None, None))
        if step is None or tables.get(key) is not table:  # its index was dropped, with the pipelines that read it
            layout = (input, *self.orders[input][:place])
            conditions = newly_bound(self._query, layout, (*layout, other))
            step = joining(self._query, self._stores, layout, other, conditions)
            self._tries[input, place, other] = tables.get(key), step
        return step

    def reaching(self, input: int, place: int) -> float:
        """The tuples that reach a place of a pipeline, d, per change of any input."""
        return self.rates.shares()[input] * self.joins[input].tuples[place].value

    def joining_cost(self, input: int, place: int) -> float:
        """What a join costs, d · c, per change of any input."""
        return self.rates.shares()[input] * self.joins[input].costs[place].value

    def fanout(self, input: int, other: int) -> float:
        """How many rows of another input a row matches, as far as known."""
        found = self.joins[input].fanouts.get((0, other))
        return found.value if found is not None else 1.0

    def entry_tuples(self, c: Candidate) -> float:
        """The tuples of an entry of a cache, on average."""
        tuples = self.joins[c.pipeline].tuples
        return tuples[c.end].value / max(tuples[c.start].value, 1e-9)
