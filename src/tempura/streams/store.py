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
_NAN = object()
"""In a key, for every NaN: SQL's equality takes them as equal, Python's does not."""


class Row:
    """One occurrence of a row: its values, and its value for each class of its input."""

    __slots__ = ("key", "values")

    def __init__(self, values: Values, key: Key) -> None:
        self.values = values
        self.key = key


Tuple = tuple[Row, ...]
"""An intermediate result: a row of each of some inputs, by reference. A row on its own is a tuple of one."""


Table = dict[object, "dict[Tuple, None]"]
"""An index: the rows of each key, as tuples of one. A key of one class is its value, else the tuple of the values."""


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

    An index is one object as long as there is one, so that operators may hold it.
    """

    def __init__(self, classes: tuple[Class, ...]) -> None:
        self._classes = classes
        self._wanted: set[tuple[Class, ...]] = set()
        self.tables: dict[tuple[Class, ...], Table] = {}
        self._single: list[tuple[int, Table]] = []
        self._several: list[tuple[tuple[int, ...], Table]] = []
        self.index(classes)

    def rows(self) -> Iterator[Tuple]:
        """All rows, in the order of their keys' first occurrence."""
        some = next(iter(self.tables.values()), {})
        return chain.from_iterable(some.values())

    def __len__(self) -> int:
        return sum(map(len, next(iter(self.tables.values())).values()))

    def index(self, classes: tuple[Class, ...]) -> Table:
        """The index on a set of classes, made of the rows there are when it is first asked for."""
        self._wanted.add(classes)
        if classes not in self.tables:
            places = tuple(self._classes.index(c) for c in classes)
            table: Table = {}
            single, several = ([(places[0], table)], []) if len(places) == 1 else ([], [(places, table)])
            _insert(list(self.rows()), single, several)
            self.tables[classes] = table
            self._single += single
            self._several += several
        return self.tables[classes]

    def forget_wants(self) -> None:
        """From now on, count anew which indexes are asked for."""
        self._wanted.clear()

    def prune(self) -> None:
        """Drop the indexes that nobody has asked for since; one stays."""
        kept = {c: t for c, t in self.tables.items() if c in self._wanted}
        if kept:
            self.tables = kept
            of = [(tuple(self._classes.index(c) for c in classes), table) for classes, table in kept.items()]
            self._single = [(places[0], table) for places, table in of if len(places) == 1]
            self._several = [(places, table) for places, table in of if len(places) != 1]

    def insert(self, rows: Iterable[Tuple]) -> None:
        """Add rows."""
        _insert(rows, self._single, self._several)

    def delete(self, rows: Iterable[Tuple]) -> None:
        """Take rows away, which must be there."""
        for place, table in self._single:
            for row in rows:
                _drop(table, row[0].key[place], row)
        for places, table in self._several:
            for row in rows:
                _drop(table, tuple([row[0].key[n] for n in places]), row)


def _insert(
    rows: Iterable[Tuple], single: Sequence[tuple[int, Table]], several: Sequence[tuple[tuple[int, ...], Table]]
) -> None:
    for place, table in single:
        for row in rows:
            key = row[0].key[place]
            if key in table:
                table[key][row] = None
            else:
                table[key] = {row: None}
    for places, table in several:
        for row in rows:
            table.setdefault(tuple([row[0].key[n] for n in places]), {})[row] = None


def _drop(table: Table, key: object, row: Tuple) -> None:
    found = table[key]
    if len(found) == 1:
        assert row in found, "a row is deleted that is not stored"
        del table[key]
    else:
        del found[row]
