"""The fates of transactions: one file per transaction, whose appearance decides for all tables at once.

A transaction first takes the next number in the ledger of each of its tables, by entries that name it; then its fate is committed
under its identity. Until then nobody sees the entries, and nobody can take their numbers. Whoever comes upon entries of a process that
is gone commits the other fate, so that they never count.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Attempt, attempt, commit
from tempura.warehouse.commits.manifests import Json, read_manifest

COMMITTED, ABORTED = "committed", "aborted"


@dataclass(frozen=True, slots=True)
class Fates:
    """The fates of the transactions of a warehouse. ``attempts`` are the locks of those at work."""

    folder: Path
    attempts: Path
    files: Files

    def of(self, entry: Json) -> str | None:
        """What became of an entry of a ledger; None while nobody knows."""
        transaction = entry.get("transaction")
        if not transaction:
            return COMMITTED
        return transaction.get("fate") or self._found(transaction["id"])

    def settled(self, entry: Json) -> Json:
        """An entry with its fate, if that is known, written into it."""
        fate = self.of(entry) if entry.get("transaction") else None
        return {**entry, "transaction": {**entry["transaction"], "fate": fate}} if fate else entry

    def decide(self, work: Attempt, id: str, fate: str) -> str:
        """Commit the fate of a transaction, unless it has one. Returns the one that counts."""
        try:
            commit(self.files, work, self._path(id), {"fate": fate})
        except TempuraError as error:
            if error.code != "COMMIT_LOST":
                raise
        return self._found(id) or fate

    def settle(self, entries: Iterable[Json], table: str) -> None:
        """Let no entry be open. Raises TempuraError COMMIT_LOST while a living process works on the transaction of one."""
        for entry in entries:
            if self.of(entry) is not None:
                continue
            id = str(entry["transaction"]["id"])
            if self.files.is_locked(self.attempts / f"{id}.lock"):
                what = (
                    f"A transaction of another process is about to change table {table}; this attempt changed nothing."
                )
                raise TempuraError("COMMIT_LOST", what, "Call again to work from what is committed then.")
            with attempt(self.files, self.attempts) as work:
                self.decide(work, id, ABORTED)

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.json"

    def _found(self, id: str) -> str | None:
        path = self._path(id)
        return str(read_manifest(path)["fate"]) if path.exists() else None
