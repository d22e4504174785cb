"""Deletions among rows as they are read from tables: how many there are, and how many rows are left out where they lie."""

from collections.abc import Callable, Mapping
from functools import partial

from tempura.algebra.rel import Filter, Project, Rel, Union
from tempura.cost.origins import Rows
from tempura.cost.stats import TableFacts
from tempura.physical.operators import Read
from tempura.tvr.staircase import Staircase
from tempura.tvr.views import Snapshot


class Deletions:
    """Deletions of what is read of tables, seen at the times of a ``staircase``, and of what conditions leave of it."""

    def __init__(self, tables: Mapping[str, TableFacts], staircase: Staircase, rows: Rows) -> None:
        self._tables = tables
        self._staircase = staircase
        self._rows = rows

    def among(self, rel: Rel) -> float | None:
        """The deletions among rows that are as they were read, but for conditions; None where anything else was done to them."""
        return self._counted(rel, self._of_read)

    def that_came_and_went(self, rel: Rel) -> float | None:
        """The same of rows that had arrived by the time as of which they are read."""
        return self._counted(rel, lambda read: self._of_read(read) if isinstance(read.at, Snapshot) else 0.0)

    def left_out(self, rel: Rel) -> float | None:
        """How many rows can be left out of those of tables by their places, if it is known of all deletions where the rows lie; None when
        it is not, or anything else than conditions was applied."""
        return self._counted(rel, self._placed)

    def _counted(self, rel: Rel, of_read: Callable[[Read], float | None]) -> float | None:
        """What is counted of each read, in rows of which conditions leave a part; None where anything else was done to them."""
        match rel:
            case Read():
                return of_read(rel)
            case Filter():
                found = self._counted(rel.input, of_read)
                return None if found is None else found * self._rows(rel) / max(1.0, self._rows(rel.input))
            case Project():
                return self._counted(rel.input, of_read)
            case Union():
                known = [part for term in rel.terms if (part := self._counted(term, of_read)) is not None]
                return sum(known) if len(known) == len(rel.terms) else None
        return None

    def _placed(self, read: Read) -> float | None:
        if not isinstance(read.at, Snapshot):
            return None
        table, at = self._tables[read.scan.table], self._staircase.seen(read.scan.table, read.at.t)
        placed = table.places_read(at)
        return float(placed) if placed == table.deletions_read(at) else None

    def _of_read(self, read: Read) -> float:
        table, seen = self._tables[read.scan.table], partial(self._staircase.seen, read.scan.table)
        if not read.signed:
            return 0.0
        if isinstance(read.at, Snapshot):
            return table.deletions_read(seen(read.at.t))
        return table.deleted[seen(read.at.u)] - table.deleted[seen(read.at.t)]
