"""Which versions of tables the committed runs have read: what a table has to have, whatever was restored from a backup."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Ledger
from tempura.warehouse.commits.manifests import read_manifest


def last_read(root: Path, files: Files, table: str) -> tuple[int, str]:
    """The last version of a table that the newest run of any query has read, and that query; 0 and "" when none has."""
    queries = files.names(root / "queries")
    found = ((_inputs(Ledger(root / "queries" / query / "steps", files)).get(table, 0), query) for query in queries)
    return max(found, key=lambda read: read[0], default=(0, ""))


def check_whole(root: Path, files: Files, table: str, version: int) -> None:
    """Raises TempuraError LEDGER_BROKEN when a run has read a later version of a table than the one that it has."""
    read, query = last_read(root, files, table)
    if read > version:
        what = (
            f"Table {table} has {version} arrivals, but query {query} has read version {read}: the last are lost from "
        )
        what += f"{root / 'tables' / table / 'arrivals'}."
        remedy = "Restore them from a backup, or begin the table anew"
        program, command = f'{remedy}: table("{table}").reset().', f"{remedy}: tempura table reset {table}"
        raise TempuraError("LEDGER_BROKEN", what, program, command)


def _inputs(ledger: Ledger) -> Mapping[str, int]:
    """The versions that the newest run in a ledger has read. What is wrong with a ledger is told when its query is looked at."""
    try:
        return next((found for found in _newest_first(ledger) if found is not None), {})
    except TempuraError:
        return {}


def _newest_first(ledger: Ledger) -> Iterator[Mapping[str, int] | None]:
    """What the runs have read; None of what is no run."""
    return (read_manifest(ledger.folder / f"{n}.json").get("inputs") for n in range(ledger.count(), 0, -1))
