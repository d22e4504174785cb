"""What becomes of an input's changes: rows that are inserted, rows that are deleted, and rows that leave a window.

Source: *Adaptive Caching for Continuous Queries*, section 7.1: a window over a stream is a relation, and a row that leaves it is a deletion
as any other.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from tempura.algebra.bag import Row as Values
from tempura.algebra.bag import identity
from tempura.errors import TempuraError
from tempura.streams.query import Input, JoinQuery, LastRows, LastTime
from tempura.streams.store import Row, Tuple, key_maker

_PLAIN = ("tinyint", "smallint", "int", "bigint", "string", "boolean", "date", "binary")


@dataclass(slots=True)
class Changed:
    """What a batch does to a relation: the rows that came, and those that went. A row may be in both, and comes first then."""

    inserted: list[Tuple] = field(default_factory=list)
    deleted: list[Tuple] = field(default_factory=list)


class WindowOperator:
    """Turns the changes of one input into the changes of its window. State: the rows in the window with their times, and which of
    them can be deleted by value.

    Rows that cannot match (NULL in a key) take their place in a window and are no part of what it gives. An explicit deletion takes
    away the oldest of equal rows.
    """

    def __init__(self, query: JoinQuery, input: int) -> None:
        self._input: Input = query.inputs[input]
        self._key = key_maker(query, input)
        self._identity = _identity_of(self._input)
        self._rows: deque[tuple[float, Values, Tuple | None]] = deque()
        self._gone: dict[Hashable, int] = {}
        self._absent = 0
        self._deletes = self._input.window is None
        self._stored: dict[Hashable, deque[Tuple]] = {}

    def apply(self, inserts: Sequence[Values], deletes: Sequence[Values] = (), time: float = 0.0) -> Changed:
        """The window's changes when rows are inserted, then others deleted, all at one time.

        Raises TempuraError DELETE_OF_MISSING for a row that is not in the window, and changes nothing then.
        """
        if deletes:
            self._check(inserts, deletes)
        changed = Changed()
        for values in inserts:
            key = self._key(values)
            row = None if key is None else (Row(values, key),)
            if row is not None:
                changed.inserted.append(row)
            if self._deletes:
                self._store(values, row)
            if self._input.window is not None:
                self._rows.append((time, values, row))
        for values in deletes:
            self._delete(values, changed)
        if isinstance(self._input.window, LastRows):
            self._shrink(len(self._rows) - self._absent - self._input.window.count, changed)
        return changed

    def expire(self, time: float) -> Changed:
        """The rows that have left the window at a time."""
        changed = Changed()
        if isinstance(self._input.window, LastTime):
            while self._rows and self._rows[0][0] + self._input.window.span <= time:
                self._leave(changed)
        return changed

    def rows(self) -> Iterator[tuple[float, Values]]:
        """The rows in the window with their times, as they came: to insert them anew makes the same window."""
        if self._input.window is None:
            yield from ((0.0, row[0].values) for rows in self._stored.values() for row in rows)
            return
        gone = dict(self._gone)
        for time, values, _ in self._rows:
            mark = self._identity(values) if gone else None
            if gone.get(mark):
                gone[mark] -= 1
            else:
                yield time, values

    def _check(self, inserts: Sequence[Values], deletes: Sequence[Values]) -> None:
        """Refuse deletions of rows that are not there before anything is changed."""
        if not self._deletes:
            self._track()
        coming = Counter(map(self._identity, inserts))
        wanted: Counter[Hashable] = Counter()
        for values in deletes:
            mark = self._identity(values)
            wanted[mark] += 1
            if wanted[mark] > coming[mark] + len(self._stored.get(mark, ())):
                what = f"{values} is to be deleted from {self._input.name}, and is not there."
                raise TempuraError("DELETE_OF_MISSING", what, "Correct the delete.")

    def _track(self) -> None:
        """From the first explicit deletion on, know the rows by their values."""
        self._deletes = True
        for _, values, row in self._rows:
            self._store(values, row)

    def _store(self, values: Values, row: Tuple | None) -> None:
        self._stored.setdefault(self._identity(values), deque()).append(row or (Row(values, ()),))

    def _delete(self, values: Values, changed: Changed) -> None:
        mark = self._identity(values)
        self._take(mark, changed)
        if self._input.window is not None:
            # Its place in the order stays until it comes to the front: equal rows leave the window in their order.
            self._gone[mark] = self._gone.get(mark, 0) + 1
            self._absent += 1

    def _take(self, mark: Hashable, changed: Changed) -> None:
        rows = self._stored[mark]
        row = rows.popleft()
        if not rows:
            del self._stored[mark]
        if row[0].key:  # a row without a key matches nothing, and was no part of what the window gives
            changed.deleted.append(row)

    def _shrink(self, surplus: int, changed: Changed) -> None:
        while surplus > 0:
            surplus -= self._leave(changed)

    def _leave(self, changed: Changed) -> bool:
        """Let the front row go; False when it had been deleted before."""
        _, values, row = self._rows.popleft()
        if not self._deletes:
            if row is not None:
                changed.deleted.append(row)
            return True
        mark = self._identity(values)
        if self._gone.get(mark):
            self._gone[mark] -= 1
            self._absent -= 1
            if not self._gone[mark]:
                del self._gone[mark]
            return False
        self._take(mark, changed)
        return True


def _identity_of(input: Input) -> Callable[[Values], Hashable]:
    """What tells rows apart: the values themselves where equal values of a column's type are identical."""
    plain = all(c.type in _PLAIN or c.type.startswith("decimal") for c in input.columns)
    return (lambda values: values) if plain else identity
