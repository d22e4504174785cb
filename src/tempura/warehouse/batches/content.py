"""What the rows of a version are made of: arrivals, of which resets forget all before them and refreshes replace the files."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tempura.warehouse.batches.arrivals import Arrival, DataFile, Origin, totals

MOST_PLACES = 1_000_000
"""So many places take some hundred megabytes in each task. Of a table that has lost more, rows are set off against each other."""

Placed = tuple[DataFile, str]
"""A file that is read where it is, and the schema under which it arrived."""


@dataclass(frozen=True, slots=True)
class Content:
    """The rows of a version: those of the files that the refresh ``base`` found where they are, and what ``arrivals`` did besides."""

    base: Arrival | None
    arrivals: tuple[Arrival, ...]

    @property
    def whole(self) -> tuple[DataFile, ...]:
        """The files of the base."""
        return self.base.whole or () if self.base else ()

    @property
    def in_place(self) -> tuple[Placed, ...]:
        """The files in the table's folder that hold rows."""
        taken = ((file, self.base.schema) for file in self.whole) if self.base else ()
        return (*taken, *((file, a.schema) for a in self.arrivals if not a.copied for file in a.inserted))

    @property
    def rows(self) -> tuple[int, int]:
        """Rows inserted and rows deleted."""
        inserted, deleted = totals(self.arrivals)
        return inserted + sum(file.rows for file in self.whole), deleted

    @property
    def is_placed(self) -> bool:
        """Whether there are deletions, no more than can be sent to every task, and it was noted of all where the deleted rows lie: in files
        from which these rows are read."""
        return self.notes_places and self.holds_places and self.rows[1] <= MOST_PLACES

    @property
    def holds_places(self) -> bool:
        """Whether all places that were noted are in files from which these rows are read."""
        # Spark tells the names of files, not their folders.
        names = Counter(Path(file.path).name for a in self.arrivals for file in a.inserted)
        return not self.base and all(names[name] == 1 for a in self.arrivals for name in a.hit)

    @property
    def notes_places(self) -> bool:
        """Whether there are deletions, and it was noted of all where the deleted rows lie, which may be elsewhere."""
        deleting = [a for a in self.arrivals if a.rows[1]]
        return bool(deleting) and all(a.places for a in deleting)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files."""
        return (*self.whole, *(file for a in self.arrivals for file in (*a.inserted, *a.deleted)))


def last_reset(arrivals: Sequence[Arrival]) -> int:
    """The version at which a table was reset last; 0 when it never was."""
    return max((n for n, arrival in enumerate(arrivals, 1) if arrival.reset), default=0)


def live(arrivals: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """The arrivals since the last reset."""
    return tuple(arrivals[last_reset(arrivals) :])


def content(arrivals: Sequence[Arrival], read: Callable[[int, int], Sequence[Arrival]] | None = None) -> Content:
    """What the rows of the version after these arrivals are read from. ``read`` gives the arrivals after one version up to another as they
    are read, some of them together; unless given, one by one."""
    since, upto = last_reset(arrivals), len(arrivals)
    pieces = read or (lambda after, upto: arrivals[after:upto])
    base = _base(arrivals[since:])
    if base is None:
        return Content(None, tuple(pieces(since, upto)))
    # The files before were taken as they are then; what files of changes did remains.
    told = (a for a in pieces(since, since + base) if a.copied and not a.refreshed)
    return Content(arrivals[since + base], (*told, *pieces(since + base + 1, upto)))


def described(arrivals: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """The arrivals whose columns describe the rows of the version after all of them."""
    counting = live(arrivals)
    return counting[_base(counting) or 0 :]


def _base(counting: Sequence[Arrival]) -> int | None:
    """Where the last refresh stands that names the files which are read where they are."""
    return max((i for i, arrival in enumerate(counting) if arrival.whole is not None), default=None)


def seeing(arrivals: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """The arrivals that say which files of the table's folder have arrived: those from the last refresh on."""
    counting = live(arrivals)
    return counting[max((i for i, arrival in enumerate(counting) if arrival.refreshed), default=0) :]


def seen_files(arrivals: Sequence[Arrival]) -> Mapping[str, Origin]:
    """The files of the table's folder that have arrived, by path, as they have to be now."""
    return {origin.path: origin for arrival in seeing(arrivals) for origin in arrival.seen}


def cumulative(arrivals: Sequence[Arrival], pinned: Sequence[int]) -> list[tuple[int, int]]:
    """Rows inserted and deleted up to each of some versions, counted from what the first and least of them is read from."""
    first = pinned[0]
    later = (arrival.rows for arrival in arrivals[first:])
    counts = list(accumulate(later, _both, initial=content(arrivals[:first]).rows))
    return [counts[version - first] for version in pinned]


def _both(before: tuple[int, int], more: tuple[int, int]) -> tuple[int, int]:
    return before[0] + more[0], before[1] + more[1]
