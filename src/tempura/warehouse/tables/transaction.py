"""Pushes into several tables, all or nothing.

While the block runs, rows are written and checked, and nobody sees them. At its end the transaction takes the next number in the ledger
of each table, in the order of their names; then its fate is committed, which is one file (``fates.py``). If a number is taken
already, or another process has decided that the transaction is dead, nothing of it counts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Membership, Pushed, united
from tempura.warehouse.commits.fates import ABORTED, COMMITTED
from tempura.warehouse.commits.ledger import Attempt, attempt, is_refused
from tempura.warehouse.sources import pushes
from tempura.warehouse.sources.feed import Batch
from tempura.warehouse.sources.pushes import TRANSACTION, Push, check_same, reused, version_of
from tempura.warehouse.tables.compact import compact
from tempura.warehouse.tables.promises import check_managed, check_static
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals, holding
from tempura.warehouse.tables.take import copied


@dataclass
class _Staged:
    """What a transaction is about to do to a table: ``before`` are the arrivals that it comes after, ``number`` is the one that it will
    take in the ledger. ``parts`` are written and checked, one per push."""

    table: Arrivals
    before: tuple[Arrival, ...]
    number: int
    parts: list[Arrival] = field(default_factory=list)

    @property
    def version(self) -> int:
        """The version that the transaction makes."""
        return len(self.before) + 1


class Transaction:
    """Pushes that are committed together; made by :meth:`Warehouse.transaction`."""

    def __init__(
        self, site: Site, find: Callable[[str], Arrivals], work: Attempt, id: str | None, done: Mapping[str, Arrivals]
    ) -> None:
        self._site = site
        self._find = find
        self._work = work
        self._id = id
        self._done = done
        self._repeated: dict[str, int] = {}
        self._staged: dict[str, _Staged] = {}
        self._ended = False

    def table(self, name: str) -> "TransactionTable":
        """A managed table to push into. Raises TempuraError UNKNOWN_TABLE."""
        return TransactionTable(self, self._find(name))

    def push(self, table: Arrivals, push: Push) -> int:
        """Write and check rows, beside those pushed before. Returns the version that the table will have."""
        if self._ended:
            what = f"A push into table {table.name} comes after the end of its transaction."
            raise TempuraError("TRANSACTION_ENDED", what, "Push inside of the with-block.")
        if self._done:
            return self._again(table, push)
        staged = self._stage(table)
        folder = table.shelf.copies / self._work.id / str(len(staged.parts) + 1)
        present = (*staged.before, *staged.parts)
        batch = Batch(trust=push.trust, pushed=Pushed(self._id, TRANSACTION, 0) if self._id is not None else None)
        staged.parts.append(copied(table, folder, present, batch, push.changes()))
        return staged.version

    def _stage(self, table: Arrivals) -> _Staged:
        if table.name not in self._staged:
            check_managed(table)
            before, number = table.opened()
            known = version_of(before, self._id)
            if known is not None:
                raise self._known(table, before[known - 1])
            check_static(table, before)
            compact(table, before)
            self._staged[table.name] = _Staged(table, before, number)
        return self._staged[table.name]

    def _known(self, table: Arrivals, arrival: Arrival) -> TempuraError:
        assert arrival.pushed is not None
        if arrival.pushed.kind != TRANSACTION:
            return reused(table.name, arrival.pushed, f"this is a {TRANSACTION}")
        what = f"Another process has committed transaction {self._id!r} meanwhile; this attempt changed nothing."
        return TempuraError("COMMIT_LOST", what, "Call again: there is nothing left to do.")

    # --- the same once more -----------------------------------------------------------------------------------------

    def _again(self, table: Arrivals, push: Push) -> int:
        """The version that a push of the committed transaction of the same id has made."""
        if table.name not in self._done:
            known = next(iter(self._done.values()))
            raise reused(table.name, _pushed(known, self._id), f"not for table {table.name}")
        self._repeated[table.name] = self._repeated.get(table.name, 0) + push.count()
        return version_of(table.committed(), self._id) or 0

    def _check_repeated(self) -> None:
        for name, table in self._done.items():
            before = table.committed()[(version_of(table.committed(), self._id) or 1) - 1]
            check_same(name, before, TRANSACTION, self._repeated.get(name, 0))

    # --- commit -----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Commit all pushes, or none. Raises TempuraError COMMIT_LOST, UNKNOWN_TABLE."""
        self._ended = True
        if self._done:
            self._check_repeated()
            return
        staged = [self._staged[name] for name in sorted(self._staged) if self._staged[name].parts]
        if not staged:
            return
        member = Membership(self._work.id, {s.table.name: s.version for s in staged})
        try:
            with holding(*(s.table for s in staged)):
                for s in staged:
                    s.table.append(self._work, s.number, replace(united(s.parts), transaction=member))
                fate = self._site.fates.decide(self._work, self._work.id, COMMITTED)
        except TempuraError as error:
            if is_refused(error):
                self._abort()
            raise
        if fate != COMMITTED:
            self.discard()
            what = "Another process took this one for dead, and its transaction is void; nothing was changed."
            raise TempuraError("COMMIT_LOST", what, "Call again to work from what is committed now.")

    def _abort(self) -> None:
        self._site.fates.decide(self._work, self._work.id, ABORTED)
        self.discard()

    def discard(self) -> None:
        """Remove the rows that were written."""
        self._ended = True
        for staged in self._staged.values():
            folder = staged.table.shelf.copies / self._work.id
            if folder.is_dir():
                self._site.files.remove_tree(folder)


def _pushed(table: Arrivals, id: str | None) -> Pushed:
    arrivals = table.committed()
    pushed = arrivals[(version_of(arrivals, id) or 1) - 1].pushed
    assert pushed is not None
    return pushed


@dataclass(frozen=True, slots=True)
class TransactionTable:
    """A table inside of a transaction. Its calls are those of :class:`~tempura.warehouse.table.Table`; each returns the version that
    the table will have."""

    transaction: Transaction
    arrivals: Arrivals

    def append(self, rows: Any) -> int:
        """Add rows."""
        return self.transaction.push(self.arrivals, pushes.append(self.arrivals.site.engine, rows))

    def upsert(self, rows: Any) -> int:
        """Put each row in the place of the one of the same key."""
        return self.transaction.push(self.arrivals, pushes.upsert(self.arrivals.site.engine, rows))

    def delete(self, rows: Any, trust: bool = False) -> int:
        """Delete rows, those pushed before in the transaction too."""
        return self.transaction.push(self.arrivals, pushes.delete(self.arrivals.site.engine, rows, trust))

    def apply(self, changes: Any, trust: bool = False) -> int:
        """Apply inserts, deletes and updates."""
        return self.transaction.push(self.arrivals, pushes.apply(self.arrivals.site.engine, changes, trust))


@contextmanager
def transaction(
    site: Site, find: Callable[[str], Arrivals], tables: Callable[[], Mapping[str, Arrivals]], id: str | None
) -> Iterator[Transaction]:
    """A transaction whose pushes are committed when the block ends, and discarded when it raises."""
    done = {} if id is None else {name: t for name, t in tables().items() if _has_done(t.committed(), id)}
    with attempt(site.files, site.attempts) as work:
        opened = Transaction(site, find, work, id, done)
        try:
            yield opened
        except BaseException:
            opened.discard()
            raise
        opened.end()


def _has_done(arrivals: Sequence[Arrival], id: str) -> bool:
    version = version_of(arrivals, id)
    pushed = arrivals[version - 1].pushed if version else None
    return pushed is not None and pushed.kind == TRANSACTION


def untorn(tables: Mapping[str, Arrivals], versions: Mapping[str, int]) -> dict[str, int]:
    """Versions of tables that were looked at one after the other, raised where a transaction was committed in between: of each
    transaction all tables show their part, or none does."""
    pinned = {name: versions[name] for name in tables}
    while True:
        arrivals = {name: table.committed() for name, table in tables.items()}
        parts = (a.transaction for name, found in arrivals.items() for a in found[: pinned[name]] if a.transaction)
        raised = dict(pinned)
        for part in parts:
            for name, version in part.versions.items():
                # A table may have been made anew under the name.
                if name in raised and _is_part(arrivals[name][version - 1 : version], part):
                    raised[name] = max(raised[name], version)
        if raised == pinned:
            return pinned
        pinned = raised


def _is_part(arrivals: Sequence[Arrival], of: Membership) -> bool:
    return any(a.transaction is not None and a.transaction.id == of.id for a in arrivals)
