"""What is known, or expected, of the tables over the time points of a plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from math import ceil, expm1, inf, isfinite

from tempura.memo.references import NO_KEYS, Keys

_ALL_APART = 0.999
"""Where values are so large a part of the rows, rows are taken to have one of their own each."""
_HALVINGS = 40


def number(value: object) -> float | None:
    """A value as a number in the order of its type (days, microseconds for dates and times); None when there is none."""
    match value:
        case bool() | str() | bytes():
            return None
        case int() | float() | Decimal():
            return float(value) if isfinite(value) else None
        case datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return moment.timestamp() * 1e6
        case date():
            return float(value.toordinal() - date(1970, 1, 1).toordinal())
    return None


def found_among(rows: float, values: float) -> float:
    """How many of so many values are expected among some rows, if each comes as often as another."""
    # Not 1 - exp(-x), which is 0 for small x: several keys have far more combinations than there are rows.
    return rows if values == inf else -values * expm1(-rows / values)


def population(found: float, rows: float) -> float:
    """Of how many values so many are found among some rows (the inverse of :func:`found_among`); infinite if hardly one occurs again."""
    share = found / max(1.0, rows)
    if share > _ALL_APART:
        return inf
    # (1 - exp(-x)) / x falls with x, which is how often a value occurs, and is less than 1 / x.
    low, high = 0.0, 1 / share
    for _ in range(_HALVINGS):
        x = (low + high) / 2
        low, high = (x, high) if -expm1(-x) / x > share else (low, x)
    return rows / high


def outer(pick: Callable[[list[float]], float], left: float | None, right: float | None) -> float | None:
    """The end of two ranges together, of which either may not be known."""
    known = [value for value in (left, right) if value is not None]
    return pick(known) if known else None


_SPELLED = 64
"""Longer texts are not told apart by their frequency."""


def spelled(value: object) -> str | None:
    """A value as a text that is the same for equal values of a column, whatever type stands for them in Python; None for a long text, and
    for a value that is neither a number, a date or time, a truth value nor a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= _SPELLED else None
    found = number(value)
    return None if found is None else f"{found:.17g}"


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of a table's column. ``distinct`` values (estimate), fraction of NULLs, least and greatest value as numbers
    where the type has an order that maps to numbers, bytes of a value. ``frequent``: the fraction of rows that has a value, by how that
    is :func:`spelled`, of the most frequent ones. ``adjacent``: on average so many rows with a value come near each other in the
    files, ``run`` of them one after the other."""

    distinct: float
    null_fraction: float = 0.0
    low: float | None = None
    high: float | None = None
    width: float | None = None
    frequent: Mapping[str, float] = field(default_factory=dict)
    adjacent: float = 1.0
    run: float = 1.0

    def share(self, value: object) -> float | None:
        """The fraction of rows that has a value: as often as it was seen, or as any other that is not among the frequent ones; None when
        nothing is known of frequencies."""
        if not self.frequent:
            return None
        name = spelled(value)
        if name is not None and name in self.frequent:
            return self.frequent[name]
        left = max(_NEVER, 1 - self.null_fraction - sum(self.frequent.values()))
        return left / max(1.0, self.distinct - len(self.frequent))


_NEVER = 1e-4
"""The fraction of rows that have a value which was not seen, where those that were seen make up all."""


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """How a stored state lies on disk: the number of its ``parts``; whether their rows have to be ``grouped`` when they are read; the
    positions of the columns by which it is bucketed. ``rows`` were counted when it was written; None when they were not. ``few``: of
    the rows to be grouped only these and those like them are; None when all are."""

    parts: int = 1
    grouped: bool = False
    bucket: tuple[int, ...] = ()
    rows: float | None = None
    few: float | None = None

    @property
    def shuffled(self) -> bool:
        """Whether all of its rows have to be shuffled to be grouped."""
        return self.grouped and self.few is None and not self.bucket

    def grown(self, merged: bool, few: float | None = None) -> "StoredFacts":
        """The same with one part more; ``merged``: whose rows belong to groups of the others. ``few``: it takes away so many, and few."""
        if not merged:
            return replace(self, parts=self.parts + 1)
        before = self.few if self.grouped else 0.0
        return replace(
            self, parts=self.parts + 1, grouped=True, few=None if few is None or before is None else before + few
        )


@dataclass(frozen=True, slots=True)
class Files:
    """Of how many files the rows of a table are read at the known points: all that are there at each, and what came before it since the
    one before. After these one is expected to come for each ``rows`` that do."""

    present: tuple[int, ...]
    came: tuple[int, ...]
    rows: float = inf


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table over the plan's time points.

    ``inserted[i]``, ``deleted[i]``: rows inserted and deleted in all arrivals up to point i, cumulative. For the first
    ``known`` points these are facts (pinned inputs), after that expectations. ``static`` and ``append_only`` are promises that the
    warehouse enforces, so they are facts for all points.

    A step is planned when its inputs are pinned, and only that step of the plan is run: what a step relies on are facts, and
    expectations about later points decide what is worth keeping, never what is right.

    ``read_deleted``: how many deletions are among the rows that the snapshots at the known points are read from; less than all when the
    rows are also stored without what came and went. Empty: all. ``placed``: of how many of these it is known where the deleted rows lie,
    all or none, so that they can be left out; ``notes_places``: so it is expected to be of those to come.

    ``density``: the bytes of files for each that Spark takes the rows to have, by the types of all columns
    (:func:`tempura.cost.as_written.row_bytes`).

    ``keys`` are what was found to be so of all rows at each of the known points; at later ones no step is run unless it still is.

    ``together``: how many values some columns have together, for those by which a query joins.

    ``files``: of how many its rows are read; of one at any time where that is not known.
    """

    inserted: tuple[int, ...]
    deleted: tuple[int, ...]
    known: int
    static: bool = False
    append_only: bool = False
    density: float = 1.0
    columns: Mapping[str, ColumnStats] = field(default_factory=dict)
    keys: Keys = NO_KEYS
    read_deleted: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()
    notes_places: bool = False
    together: Mapping[frozenset[str], float] = field(default_factory=dict)
    files: Files | None = None

    def and_then(self, rows: tuple[int, int] | None = None) -> "TableFacts":
        """The same with one point more, before which so many rows are expected to come and to go, or as many as before the last."""
        inserted, deleted = self.inserted, self.deleted
        came, went = rows or (inserted[-1] - inserted[-2], deleted[-1] - deleted[-2])
        return replace(self, inserted=(*inserted, inserted[-1] + came), deleted=(*deleted, deleted[-1] + went))

    def at(self, points: Sequence[int]) -> "TableFacts":
        """The same over some of the points, in order. As many count as known as did: where one of these is left out, what is expected at
        the next one does."""
        inserted, deleted = (tuple(rows[t] for t in points) for rows in (self.inserted, self.deleted))
        known = points[: self.known]
        read_deleted = tuple(map(self.deletions_read, known)) if self.read_deleted else ()
        placed = tuple(map(self.places_read, known)) if self.placed else ()
        told = replace(self, read_deleted=read_deleted, placed=placed, files=self._files_at(known))
        return replace(told, inserted=inserted, deleted=deleted)

    def _files_at(self, points: Sequence[int]) -> Files | None:
        if self.files is None:
            return None
        came = (self._files_between(t, u) for t, u in pairwise(points))
        return replace(self.files, present=tuple(map(self._files_present, points)), came=(0, *came))

    def files_of_snapshot(self, t: int) -> int:
        """Of how many files the snapshot at point t is read."""
        return max(1, self._files_present(t))

    def files_of_delta(self, t: int, u: int) -> int:
        """Of how many files that is read which arrives after point t up to point u."""
        return max(1, self._files_between(t, u))

    def _files_present(self, t: int) -> int:
        if self.files is None:
            return 1
        known = min(t, len(self.files.present) - 1)
        return self.files.present[known] + self._files_between(known, t)

    def _files_between(self, t: int, u: int) -> int:
        if self.files is None:
            return 1
        last = max(t, len(self.files.came) - 1)
        expected = ceil(self.changed_rows(last, u) / self.files.rows) if last < u else 0
        return sum(self.files.came[t + 1 : u + 1]) + expected

    def deletions_read(self, t: int) -> int:
        """Deletions among the rows that the snapshot at point t is read from."""
        if t < len(self.read_deleted):
            return self.read_deleted[t]
        left_out = self.deleted[self.known - 1] - self.read_deleted[-1] if self.read_deleted else 0
        return self.deleted[t] - left_out

    def places_read(self, t: int) -> int:
        """Of how many of these deletions it is known where the deleted rows lie."""
        if t < len(self.placed):
            return self.placed[t]
        return self.deletions_read(t) if self.notes_places else 0

    def is_read_signed(self, t: int) -> bool:
        """Whether some of the rows that the snapshot at point t is read from are deletions."""
        return not self.append_only and self.deletions_read(t) > 0

    def rows(self, t: int) -> int:
        """Rows in the snapshot at point t."""
        return self.inserted[t] - self.deleted[t]

    def changed_rows(self, t: int, u: int) -> int:
        """Rows, inserted or deleted, that arrive after point t up to point u."""
        return 0 if self.static else self.inserted[u] - self.inserted[t] + self.deleted[u] - self.deleted[t]

    def is_unchanged(self, t: int, u: int) -> bool:
        """Whether nothing arrives after point t up to point u."""
        return self.changed_rows(t, u) == 0

    def is_insert_only(self, t: int, u: int) -> bool:
        """Whether no row is deleted after point t up to point u."""
        return self.static or self.append_only or self.deleted[t] == self.deleted[u]

    def is_delete_only(self, t: int, u: int) -> bool:
        """Whether no row is inserted after point t up to point u."""
        return self.static or self.inserted[t] == self.inserted[u]
