"""What was found of a table's promises, noted beside it, so that only what has come since is looked at again.

``tables/NAME/KIND.json`` is a cache: a file that is missing, damaged, or of another version is as one in which nothing is noted. Who reads
it looks whether the table is still the one that was looked at.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from tempura.errors import TempuraError
from tempura.warehouse.commits.manifests import Entry, read_manifest, sealed, to_bytes
from tempura.warehouse.tables.table import Arrivals

VERSION = 1
"""The version of what is stored; others are made anew."""

_REMEMBERED = 64
"""So many findings are kept of a promise, the newest: queries that run apart have looked at different versions."""

_UNREADABLE = (OSError, TempuraError, LookupError, ValueError, TypeError)

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Notes(Generic[Found]):
    """Notes of a ``kind`` of promise; ``made`` reads what a file holds, by :func:`findings`."""

    kind: str
    made: Callable[[Mapping[str, Any]], dict[str, list[Found]]]

    def of(self, table: Arrivals, promise: str) -> list[Found]:
        """What was found of a promise, the last at the end."""
        return self._read(table).get(promise, [])

    def add(self, table: Arrivals, promise: str, found: Found) -> None:
        """Note what was found. Of two processes that write at once one wins; a mixture has no checksum that fits."""
        known = self._read(table)
        kept = {**known, promise: [*known.get(promise, []), found][-_REMEMBERED:]}
        data = {name: [asdict(one) for one in of] for name, of in kept.items()}  # type: ignore[call-overload]
        path, files = table.home / f"{self.kind}.json", table.site.files
        temporary = path.with_suffix(".new")
        files.make_folder(path.parent)  # a table in which nothing has arrived has none
        files.write(temporary, to_bytes(sealed(Entry({self.kind: VERSION, "kept": data}))))
        with suppress(FileNotFoundError):
            files.replace(temporary, path)

    def _read(self, table: Arrivals) -> dict[str, list[Found]]:
        path = table.home / f"{self.kind}.json"
        with suppress(*_UNREADABLE):
            if path.exists():
                return read_manifest(path).made(self.made)
        return {}


def findings(kind: str, of: Callable[..., Found], entry: Mapping[str, Any]) -> dict[str, list[Found]]:
    """What a file says was found of each promise."""
    if entry.get(kind) != VERSION:
        return {}
    return {name: [of(**one) for one in found] for name, found in entry["kept"].items()}
