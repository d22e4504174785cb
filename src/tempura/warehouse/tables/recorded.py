"""What the ledger of a table records: which entries count as arrivals, under which numbers."""

from collections.abc import Iterable

from tempura.warehouse.batches.arrivals import FORGOTTEN, Arrival
from tempura.warehouse.commits.fates import COMMITTED, Fates
from tempura.warehouse.commits.ledger import Ledger, begins_anew
from tempura.warehouse.commits.manifests import Entry

Entries = tuple[Entry | None, ...]
Numbered = list[tuple[int, Arrival]]


class Recorded:
    """The arrivals that count: those of a transaction once it is committed; those before a reset are forgotten."""

    def __init__(self, table: str, ledger: Ledger, fates: Fates) -> None:
        self._table = table
        self._ledger = ledger
        self._fates = fates
        self._known: tuple[Entries, Numbered] = ((), [])

    def arrivals(self) -> tuple[Arrival, ...]:
        """All of them. Raises TempuraError LEDGER_CORRUPT."""
        return self._arrivals(self._ledger.entries())

    def settled(self) -> tuple[tuple[Arrival, ...], int]:
        """All of them when no transaction is open any more, and the number under which the ledger takes the next. Raises TempuraError
        COMMIT_LOST while a transaction of another process is about to add one."""
        entries = self._ledger.entries()
        self._fates.settle(filter(None, entries), self._table)
        return self._arrivals(entries), len(entries) + 1

    def mark(self, version: int) -> str:
        """What tells a version from that of another table which had the same name."""
        return self._ledger.mark(self._numbered(self._ledger.entries())[version - 1][0]) if version else ""

    def _arrivals(self, entries: Entries) -> tuple[Arrival, ...]:
        return tuple(arrival for _, arrival in self._numbered(entries))

    def _numbered(self, entries: Entries) -> Numbered:
        """The arrivals with their numbers in the ledger. The version that a reset makes is its number."""
        known, found = self._known
        if entries != known:
            found, open = self._found(entries)
            # What became of a transaction does not change; while that is open, it does.
            self._known = ((), []) if open else (entries, found)
        return found

    def _found(self, entries: Iterable[Entry | None]) -> tuple[Numbered, bool]:
        """The arrivals with their numbers, and whether there is a transaction after them that is still open."""
        found: Numbered = []
        for number, entry in enumerate(entries, 1):
            if entry is None:
                continue
            if begins_anew(entry):
                found = [(n, FORGOTTEN) for n in range(1, number)]
            fate = self._fates.of(entry)
            if fate is None:
                return found, True
            found += [(number, entry.made(Arrival.from_json))] if fate == COMMITTED else []
        return found, False
