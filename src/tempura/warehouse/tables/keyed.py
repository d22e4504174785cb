"""Declared keys: up to which version of a table it is known that no two rows have the same.

An arrival is compared with what is there when it comes, and says so (``Arrival.unique``). So of a table to which all rows came after its
keys were declared this is known at every version, and nothing is looked at. Where rows came before, these are looked at once, and
``tables/NAME/keys.json`` notes the version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Rows
from tempura.warehouse.engine import Source
from tempura.warehouse.tables.noted import Notes, findings
from tempura.warehouse.tables.table import Arrivals


@dataclass(frozen=True, slots=True)
class Looked:
    """A version, with its mark, in which no two rows had one key."""

    version: int
    mark: str


def _made(entry: Mapping[str, Any]) -> dict[str, list[Looked]]:
    return findings("keys", Looked, entry)


NOTES = Notes("keys", _made)


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """The ``key`` that is declared of a table."""

    table: Arrivals
    key: tuple[str, ...]

    def twice(self, version: int) -> str | None:
        """A key that more than one row of a version has; None when there is none, which is noted if it had to be looked at."""
        if self._is_known(version):
            return None
        nothing, rows = Source(self.table.schema, Rows()), self.table.source(0, version).rows
        found = self.table.site.engine.duplicate(nothing, rows, self.key)
        if found is None:
            NOTES.add(self.table, self._name, Looked(version, self.table.mark(version)))
        return found

    def was_kept(self, version: int) -> bool:
        """Whether no two rows of a past version have one key, as far as that can be found out: its rows may be there no more."""
        try:
            return self.twice(version) is None
        except TempuraError:
            return False

    @property
    def _name(self) -> str:
        return ", ".join(sorted(self.key))

    def _is_known(self, version: int) -> bool:
        """Whether all that has come since rows were looked at, if they were, was compared when it came."""
        before = (looked.version for looked in NOTES.of(self.table, self._name) if self._was_in(looked, version))
        return all(map(self._was_compared, self.table.arrivals()[max(before, default=0) : version]))

    def _was_in(self, looked: Looked, version: int) -> bool:
        """Whether a version has gone on from what was looked at: the table was neither reset nor made anew."""
        return looked.version <= version and self.table.follows(looked.version, looked.mark)

    def _was_compared(self, arrival: Arrival) -> bool:
        """Whether an arrival has no two rows of one key if none were there before."""
        return not arrival.inserted or set(arrival.unique) == set(self.key)
