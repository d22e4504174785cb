"""The rows of one input that can take part in the join, and hash indexes on their keys.

A :class:`Row` is one occurrence of a row: two equal rows are two objects. Everything else, indexes, intermediate results, caches and
results, refers to these objects and never copies their values, so rows are compared by ``is``.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from tempura.algebra.bag import Row as Values
from tempura.algebra.evaluate_scalar import is_true
from tempura.algebra.scalar import Column, Expr
from tempura.streams.query import Class, JoinQuery

Key = tuple[object, ...]
Table = dict[object, "dict[Row, None]"]
"""An index: the rows of each key. A key of one class is its value, else the tuple of the values."""

_NAN = object()
"""In a key, for every NaN: SQL's equality takes them as equal, Python's does not."""


class Row:
    """One occurrence of a row: its values, and its value for each class of its input."""

    __slots__ = ("key", "values")

    def __init__(self, values: Values, key: Key) -> None:
        self.values = values
        self.key = key


Tuple = tuple[Row, ...]
"""An intermediate result: a row of each of some inputs, by reference."""


def key_maker(query: JoinQuery, input: int) -> Callable[[Values], Key | None]:
    """The function that gives a row's key; None for a row that matches nothing: a NULL in a class, two columns of one class that
    differ, or a condition on this input alone that is not met."""
    own = [c for c in query.conditions if query.reads(c) <= {input}]
    if own:
        return _tested(_equated(query, input), own, query.inputs[input].columns)
    return _equated(query, input)


def _tested(
    key: Callable[[Values], Key | None], own: Sequence[Expr], columns: Sequence[Column]
) -> Callable[[Values], Key | None]:
    def tested(values: Values) -> Key | None:
        row = dict(zip(columns, values, strict=True))
        return key(values) if all(is_true(condition, row) for condition in own) else None

    return tested


def _equated(query: JoinQuery, input: int) -> Callable[[Values], Key | None]:
    columns = query.inputs[input].columns
    places = [
        tuple(n for n, column in enumerate(columns) if query.class_of.get(column) == c) for c in query.classes[input]
    ]
    floats = any(columns[n].type in ("float", "double") for group in places for n in group)
    if not floats and all(len(group) == 1 for group in places):
        return _simple_key([group[0] for group in places])

    def key(values: Values) -> Key | None:
        found = [{_normal(values[n]) for n in group} for group in places]
        if any(len(each) > 1 or None in each for each in found):
            return None
        return tuple(each.pop() for each in found)

    return key


def _simple_key(places: Sequence[int]) -> Callable[[Values], Key | None]:
    if len(places) == 1:
        (only,) = places
        return lambda values: None if values[only] is None else (values[only],)

    def key(values: Values) -> Key | None:
        found = tuple([values[n] for n in places])
        return None if None in found else found

    return key


def _normal(value: object) -> object:
    return _NAN if isinstance(value, float) and math.isnan(value) else value


class Store:
    """The rows of one input, under an index for each set of classes by which some operator looks rows up.

    The tables of the indexes are the same objects as long as they are required, so that operators may hold them.
    """

    def __init__(self, classes: tuple[Class, ...]) -> None:
        self._classes = classes
        self.tables: dict[tuple[Class, ...], Table] = {classes: {}}
        self._single: list[tuple[int, Table]] = []
        self._several: list[tuple[tuple[int, ...], Table]] = []
        self.require([classes])

    def rows(self) -> Iterator[Row]:
        """All rows, in the order of their keys' first occurrence."""
        return chain.from_iterable(next(iter(self.tables.values())).values())

    def __len__(self) -> int:
        return sum(map(len, next(iter(self.tables.values())).values()))

    def require(self, wanted: Iterable[tuple[Class, ...]]) -> None:
        """Have an index on each of these sets of classes, and no other; on all of the input's where none is wanted."""
        keep = dict.fromkeys(wanted) or {self._classes: None}
        rows = list(self.rows())
        old = self.tables
        self.tables = {classes: old.get(classes, {}) for classes in keep}
        self._single, self._several = [], []
        new_single, new_several = list[tuple[int, Table]](), list[tuple[tuple[int, ...], Table]]()
        for classes, table in self.tables.items():
            places = tuple(self._classes.index(c) for c in classes)
            known = classes in old
            if len(places) == 1:
                self._single.append((places[0], table))
                new_single += [] if known else [(places[0], table)]
            else:
                self._several.append((places, table))
                new_several += [] if known else [(places, table)]
        _insert(rows, new_single, new_several)

    def insert(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        _insert(rows, self._single, self._several)

    def delete(self, rows: Iterable[Row]) -> None:
        """Take rows away, which must be there."""
        for place, table in self._single:
            for row in rows:
                _drop(table, row.key[place], row)
        for places, table in self._several:
            for row in rows:
                _drop(table, tuple([row.key[n] for n in places]), row)


def _insert(
    rows: Iterable[Row], single: Sequence[tuple[int, Table]], several: Sequence[tuple[tuple[int, ...], Table]]
) -> None:
    for place, table in single:
        for row in rows:
            key = row.key[place]
            if key in table:
                table[key][row] = None
            else:
                table[key] = {row: None}
    for places, table in several:
        for row in rows:
            table.setdefault(tuple([row.key[n] for n in places]), {})[row] = None


def _drop(table: Table, key: object, row: Row) -> None:
    found = table[key]
    if len(found) == 1:
        assert row in found, "a row is deleted that is not stored"
        del table[key]
    else:
        del found[row]
