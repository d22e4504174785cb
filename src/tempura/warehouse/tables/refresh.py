"""Taking a source as it is now, when it is no longer what it was: what it differs by arrives, and later runs go on from there.

Rows are compared as bags. Files with the same bytes under another name or time are no change. Rows of files that are gone are read
from what the warehouse has: its own copies, or a second name of a file that was read where it is.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Origin
from tempura.warehouse.batches.content import Placed, content, live, seeing, seen_files
from tempura.warehouse.commits.seals import has_checksum
from tempura.warehouse.engine import Changes, Source
from tempura.warehouse.sources.feed import Batch, anew
from tempura.warehouse.sources.folder import Folder
from tempura.warehouse.sources.lake import Lake
from tempura.warehouse.sources.widening import widths
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import register, take


def refresh(table: Arrivals) -> int:
    """Take the source of a table as it is now. Returns the version.

    Raises TempuraError NO_SOURCE for a table whose rows are pushed, ROWS_UNKNOWN when the rows of files that are gone are not known,
    STATIC_TABLE, APPEND_ONLY, DUPLICATE_KEY when the source breaks a promise, and as registering does.
    """
    if table.feed is None:
        what = (
            f"Table {table.name} is managed: its rows are pushed, and there is no source that it could be taken from."
        )
        raise TempuraError(
            "NO_SOURCE", what, "Append, delete or upsert rows; or reset it, which begins anew without rows."
        )
    arrivals, number = table.opened()
    batch = _batch(table, arrivals) if live(arrivals) else None
    if batch:
        take(table, arrivals, number, batch)
    return register(table)


def check_moved(table: Arrivals) -> None:
    """Raises TempuraError FOLDER_MISSING, FILE_GONE, FILE_CHANGED when the files that have arrived are not all in the folder of a table,
    whatever their times; FEED_REPLACED and its like for a table of a lake."""
    arrivals = live(table.arrivals())
    if not isinstance(table.feed, Folder):
        list(table.feed.pending(arrivals, table.schema) if table.feed else ())
        return
    table.feed.check_there()
    for origin in seen_files(arrivals).values():
        path = table.feed.path / origin.path
        if not path.is_file() or (not _is_same(path, origin) and not has_checksum(path, origin.identity)):
            code, verb = ("FILE_CHANGED", "has other bytes") if path.is_file() else ("FILE_GONE", "is not there")
            what = f"Table {table.name}: file {path}, which has arrived from another folder, {verb}."
            raise TempuraError(code, what, "Bring it there as it was, or add a table of another name.")


def refresh_times(table: Arrivals) -> None:
    """Take files that were copied to another folder under the times that they have there."""
    if isinstance(table.feed, Folder) and live(table.arrivals()):
        refresh(table)


def _batch(table: Arrivals, arrivals: Sequence[Arrival]) -> Batch | None:
    match table.feed:
        case Folder() as folder:
            found = _Comparison.of(table, folder, arrivals)
            if folder.widened(found.came, table.schema, table.widen) and isinstance(table.feed, Folder):
                found = _Comparison.of(table, table.feed, arrivals)
            return found.batch()
        case Lake() as lake:
            batch = lake.whole(table.schema, table.widen)
            return batch if batch.position != arrivals[-1].position else None
    return None


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A folder compared with what has arrived from it: files that are ``known``, as they were and as they are, perhaps under another
    name or time; files that are ``lost``, with these bytes; and files that ``came``."""

    table: Arrivals
    folder: Folder
    arrivals: Sequence[Arrival]
    known: Sequence[tuple[Origin, Origin]]
    lost: Sequence[Origin]
    came: Sequence[Path]

    @staticmethod
    def of(table: Arrivals, folder: Folder, arrivals: Sequence[Arrival]) -> "_Comparison":
        """Compare. Raises TempuraError FOLDER_MISSING."""
        folder.check_there()
        free = {folder.name_of(path): path for path in folder.files()}
        known, rest, lost = [], [], []
        narrow = _narrow(table, arrivals)
        for origin in seen_files(arrivals).values():
            if origin.path in narrow:
                # Of columns that it may always have had nothing has arrived yet.
                lost.append(origin)
            elif origin.path in free and _is_same(free[origin.path], origin):
                known.append((origin, origin))
                del free[origin.path]
            else:
                rest.append(origin)
        for origin in rest:
            name = _found(origin, free)
            if name is None:
                lost.append(origin)
            else:
                stat = free.pop(name).stat()
                known.append((origin, replace(origin, path=name, mtime=stat.st_mtime_ns)))
        newest = (time.time() - folder.spec.settle) * 1e9
        came = [path for path in free.values() if path.stat().st_mtime_ns <= newest]
        return _Comparison(table, folder, arrivals, known, lost, came)

    def batch(self) -> Batch | None:
        """What is to arrive; None when nothing that has arrived is another."""
        if not self.lost and all(was == now for was, now in self.known):
            return None
        self._check_told()
        gone = [origin for origin in self.lost if self._is_plain(origin)]
        kinds = self.folder.kinds(self.came, self.table.schema)
        # When no rows leave, what is new arrives as always; files of changes always do.
        came = [path for path in self.came if gone and not kinds[path].changing]
        plain = [now for was, now in self.known if self._is_plain(was)]
        wholes = (*(self.folder.path / origin.path for origin in plain), *came)
        return Batch(
            changes=lambda present: self._changes(gone, came, plain) if gone else Changes(),
            origins=(*(now for _, now in self.known), *map(self.folder.origin, came)),
            refreshed=True,
            whole=wholes if self._in_place else None,
            # Rows that files of changes have deleted cannot leave once more.
            trust=not any(self._tells(arrival) for arrival in live(self.arrivals)),
        )

    @property
    def _in_place(self) -> bool:
        return self.folder.spec.format == "parquet"

    def _tells(self, arrival: Arrival) -> bool:
        """Whether an arrival is what a file of changes told."""
        return arrival.copied and not arrival.refreshed if self._in_place else arrival.changing

    def _is_plain(self, origin: Origin) -> bool:
        return origin.path in self._files() if self._in_place else not origin.changing

    def _files(self) -> Mapping[str, Placed]:
        return {file.path: (file, schema) for file, schema in content(self.arrivals).in_place}

    def _check_told(self) -> None:
        """A file of changes may go when they have arrived; one that was written again says that they were others."""
        came = set(map(self.folder.name_of, self.came))
        for origin in self.lost:
            if not self._is_plain(origin) and origin.path in came:
                what = f"Table {self.table.name}: {self.folder.path / origin.path}, whose changes have arrived, was written again."
                raise TempuraError("ROWS_UNKNOWN", what, *anew(self.table.name, "Restore it"))

    def _changes(self, gone: Sequence[Origin], came: Sequence[Path], plain: Sequence[Origin]) -> Changes:
        if self._in_place:
            files = self._files()
            before = self.table.shelf.in_place(files[origin.path] for origin in gone)
        else:
            # Which rows came from which file is not known: those of all of them are compared.
            came = [*(self.folder.path / origin.path for origin in plain), *came]
            before = self.table.shelf.copies_of(arrival for arrival in live(self.arrivals) if not arrival.changing)
        return self.folder.engine.difference(list(self._rows(came)), Source(self.table.schema, before))

    def _rows(self, files: Sequence[Path]) -> Iterator[Any]:
        columns = {path: kind.columns for path, kind in self.folder.kinds(files, self.table.schema).items()}
        for order, group in groupby(sorted(files, key=columns.__getitem__), key=columns.__getitem__):
            wanted = self.folder.file_set(group, self.table.schema, order)
            yield self.folder.engine.load(wanted, changing=False).inserts


def _narrow(table: Arrivals, arrivals: Sequence[Arrival]) -> set[str]:
    """The files that arrived before columns were added."""
    full = len(table.schema.fields)
    known = widths(seeing(arrivals), table.schema)
    older = (a for a in seeing(arrivals) if (known[a.schema] or full) < full)
    return {origin.path for arrival in older for origin in arrival.seen if not origin.changing}


def _is_same(path: Path, origin: Origin) -> bool:
    stat = path.stat()
    return (stat.st_size, stat.st_mtime_ns) == (origin.size, origin.mtime)


def _found(origin: Origin, free: Mapping[str, Path]) -> str | None:
    """The name under which the bytes of a file are now, its own first, in a folder that spells the same values."""
    names = sorted(free, key=lambda name: (name != origin.path, name))
    alike = (n for n in names if free[n].stat().st_size == origin.size and _values(n) == _values(origin.path))
    return next((name for name in alike if origin.identity and has_checksum(free[name], origin.identity)), None)


def _values(name: str) -> tuple[str, ...]:
    return tuple(part for part in Path(name).parts[:-1] if "=" in part)
