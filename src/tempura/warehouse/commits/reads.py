"""Which versions of tables the committed runs have read: what a table has to have, whatever was restored from a backup."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Ledger
from tempura.warehouse.commits.manifests import read_manifest

_FURTHER = re.compile(r" \(\d+\)$")


def use_of(table: str, n: int) -> str:
    """The name of the n-th use of a table, from 0, in a query whose uses are of versions of their own: no table's but the first."""
    return f"{table} ({n + 1})" if n else table


def table_of(use: str) -> str:
    """The table that a name of :func:`use_of` stands for."""
    return _FURTHER.sub("", use)


def version_read(inputs: Mapping[str, int], table: str) -> int:
    """The last version of a table that a run has read; 0 when it has read none."""
    return max((version for use, version in inputs.items() if table_of(use) == table), default=0)


def last_read(root: Path, files: Files, table: str) -> tuple[int, str]:
    """The last version of a table that the newest run of any query has read, and that query; 0 and "" when none has."""
    queries = files.names(root / "queries")
    ledgers = ((folder, query) for query in queries for folder in step_folders(root / "queries" / query, files))
    found = ((version_read(newest_inputs(Ledger(folder, files)), table), query) for folder, query in ledgers)
    return max(found, key=lambda read: read[0], default=(0, ""))


def step_folders(query: Path, files: Files) -> Iterator[Path]:
    """The ledgers of the steps of a query: its own, and those of the segments of the last of its lives at paces."""
    yield query / "steps"
    home = newest_life(query, files)
    if home is not None:
        yield from (home / "segments" / number / "steps" for number in files.names(home / "segments"))


def newest_life(query: Path, files: Files) -> Path | None:
    """The folder of the last life at paces of a query, numbered from 1; None when it had none."""
    found = (name.removesuffix(".json") for name in files.names(query / "paced") if name.endswith(".json"))
    last = max((int(number) for number in found if number.isdecimal()), default=0)
    return query / "paced" / str(last) if last else None


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


def newest_inputs(ledger: Ledger) -> Mapping[str, int]:
    """The versions that the newest run in a ledger has read. What is wrong with a ledger is told when its query is looked at."""
    try:
        return next((found for found in _newest_first(ledger) if found is not None), {})
    except TempuraError:
        return {}


def _newest_first(ledger: Ledger) -> Iterator[Mapping[str, int] | None]:
    """What the runs have read; None of what is no run."""
    return (read_manifest(ledger.folder / f"{n}.json").get("inputs") for n in range(ledger.count(), 0, -1))
