"""Blocking operators that are computed from all of their input: the first rows in an order, windows, the one row of a scalar
sub-query. What comes out is the difference from what came out last."""

from collections.abc import Callable
from functools import total_ordering
from heapq import nsmallest
from typing import Any

from tempura.algebra.bag import EMPTY, Row, SignedBag
from tempura.algebra.evaluate import Evaluation
from tempura.algebra.one import One
from tempura.algebra.rel import Rel, Sort, TopK
from tempura.algebra.sql_order import ordering_key
from tempura.algebra.window import Window
from tempura.pace.rowwise import function_of
from tempura.pace.run_linear import Change, Running, net, tuples


class Whole(Running):
    """The interpreter's operator over all rows. Every flush looks at all of them."""

    def __init__(self, rel: Rel) -> None:
        self._rel = rel
        self._rows: dict[Row, int] = {}
        self._given: Change = []

    def apply(self, *changes: Change) -> Change:
        (change,) = changes
        _accumulate(self._rows, change)
        new = list(self._compute().items())
        out = net([*new, *((row, -weight) for row, weight in self._given)])
        self._given = new
        return out

    def _compute(self) -> SignedBag:
        self.reread += sum(self._rows.values())
        return Evaluation(lambda rel: EMPTY).operator(self._rel, (SignedBag(self._rows.items()),))


class First(Running):
    """The first rows in an order. They are found by a heap over keys that are remembered, so that a flush looks
    through the rows that it gives out only, as one over a sorted array would."""

    def __init__(self, rel: TopK) -> None:
        self._limit = rel.limit
        self._rank = _ranking(rel)
        self._rows: dict[Row, int] = {}
        self._ranks: dict[Row, Any] = {}
        self._given: Change = []

    def apply(self, *changes: Change) -> Change:
        (change,) = changes
        _accumulate(self._rows, change)
        ranks = self._ranks
        for row, _ in change:
            if row not in ranks:
                ranks[row] = self._rank(row)
        new: Change = []
        free = self._limit
        for row in nsmallest(self._limit, self._rows, key=ranks.__getitem__):
            new.append((row, min(free, self._rows[row])))
            free -= new[-1][1]
            if not free:
                break
        self.reread += tuples(new)
        out = net([*new, *((row, -weight) for row, weight in self._given)])
        self._given = new
        return out


def _accumulate(rows: dict[Row, int], change: Change) -> None:
    for row, weight in change:
        rows[row] = rows.get(row, 0) + weight
        if not rows[row]:
            del rows[row]


@total_ordering
class _Descending:
    """A key that sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: object) -> None:
        self.key: Any = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.key == other.key)

    def __lt__(self, other: "_Descending") -> bool:
        return bool(other.key < self.key)


def _ranking(rel: TopK) -> Callable[[Row], Any]:
    """The place of a row: its sort keys, then all columns ascending, then its text, as the interpreter breaks ties."""
    keys = [(function_of(key.expr, rel.input.columns), key.ascending, key.nulls_first) for key in rel.order]

    def rank(row: Row) -> Any:
        place: list[Any] = []
        for function, ascending, nulls_first in keys:
            value = function(row)
            if value is None:
                place.append((0 if nulls_first else 2,))
            else:
                place.append((1, ordering_key(value) if ascending else _Descending(ordering_key(value))))
        return (*place, ordering_key(row), repr(row))

    return rank


class Passing(Running):
    """A sort: a bag has no order, so rows pass."""

    def apply(self, *changes: Change) -> Change:
        return changes[0]


def whole(rel: Rel) -> Running | None:
    """An operator of this module; None for others."""
    match rel:
        case TopK():
            return First(rel)
        case Window() | One():
            return Whole(rel)
        case Sort():
            return Passing()
    return None
