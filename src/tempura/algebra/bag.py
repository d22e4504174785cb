"""Signed bags: the values that relational expressions denote.

A signed bag gives each row an integer weight: n > 0 means n equal rows, n < 0 that n rows are taken away. Rows are compared by
*identity* (type and bits), which is finer than SQL's equality: ``-0.0`` is not ``0.0``, ``1`` is neither ``1.0`` nor ``True``, but
NULL is NULL and NaN is NaN. So a deletion takes away exactly the row that was inserted.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal

Row = tuple[object, ...]
"""The values of one row, in the order of a relation's columns."""

_PLAIN = (int, bool, str, type(None), bytes, Decimal)


def identity(value: object) -> Hashable:
    """A hashable key, equal for two values of one column exactly if they are identical.

    Decimals of one column have one scale, so they are compared as numbers; the entries of a map are compared in their order.
    """
    kind = type(value)
    if kind in _PLAIN:
        return (kind, value)
    if isinstance(value, float):
        return (float, "nan" if math.isnan(value) else value.hex())
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple, tuple(map(identity, value)))
    if isinstance(value, dict):
        return (dict, tuple((identity(k), identity(v)) for k, v in value.items()))
    if isinstance(value, datetime):
        # Equal wall-clock times before and after the end of daylight saving differ only in fold.
        return (kind, value, value.fold)
    return (kind, bytes(value) if isinstance(value, bytearray) else value)


class SignedBag:
    """An immutable mapping from rows to non-zero integer weights, made of ``(row, weight)`` pairs; the weights of identical rows
    add up. Iteration is in the order of first occurrence. ``repr`` can be pasted back."""

    __slots__ = ("_rows", "_weights")

    def __init__(self, pairs: Iterable[tuple[Row, int]] = ()) -> None:
        weights: dict[Hashable, int] = {}
        rows: dict[Hashable, Row] = {}
        for row, weight in pairs:
            key = identity(row)
            rows.setdefault(key, row)
            weights[key] = weights.get(key, 0) + weight
        self._weights = {key: weight for key, weight in weights.items() if weight}
        self._rows = rows

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "SignedBag":
        """The positive bag with each of ``rows`` once per occurrence."""
        return cls((row, 1) for row in rows)

    def items(self) -> Iterator[tuple[Row, int]]:
        """The distinct rows, each with its weight, which is never 0."""
        return ((self._rows[key], weight) for key, weight in self._weights.items())

    def weight(self, row: Row) -> int:
        """The weight of a row; 0 when it does not occur."""
        return self._weights.get(identity(row), 0)

    def rows(self) -> Iterator[Row]:
        """Each row as often as its weight says. Raises ValueError when a weight is negative."""
        if not self.is_positive:
            raise ValueError("a bag with negative weights has no expansion into rows")
        return (row for row, weight in self.items() for _ in range(weight))

    @property
    def is_positive(self) -> bool:
        """Whether no weight is negative."""
        return all(weight > 0 for weight in self._weights.values())

    @property
    def size(self) -> int:
        """The number of tuples that a reader of this bag sees, deletions included: the sum of the absolute weights."""
        return sum(map(abs, self._weights.values()))

    def scale(self, factor: int) -> "SignedBag":
        """Every weight times ``factor``."""
        return self.reweigh(lambda weight: weight * factor)

    def reweigh(self, change: Callable[[int], int]) -> "SignedBag":
        """Every weight replaced by ``change(weight)``."""
        return SignedBag((row, change(weight)) for row, weight in self.items())

    def __add__(self, other: "SignedBag") -> "SignedBag":
        return SignedBag((*self.items(), *other.items()))

    def __neg__(self) -> "SignedBag":
        return self.scale(-1)

    def __sub__(self, other: "SignedBag") -> "SignedBag":
        return self + (-other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SignedBag) and self._weights == other._weights

    def __hash__(self) -> int:
        return hash(frozenset(self._weights.items()))

    def __len__(self) -> int:
        return len(self._weights)

    def __repr__(self) -> str:
        return f"SignedBag([{', '.join(map(repr, self.items()))}])"


EMPTY = SignedBag()
"""The bag without rows."""
