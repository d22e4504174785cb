"""Tables: rows arrive by new files in a folder, or are pushed; every promise is checked before an arrival is committed."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.warehouse.arrivals import Arrival, ColumnSummary, DataFile, Rows, totals
from tempura.warehouse.declare import TableSpec
from tempura.warehouse.engine import Engine, Source
from tempura.warehouse.files import Files
from tempura.warehouse.ledger import Ledger, attempt, discarding, discarding_if_refused
from tempura.warehouse.parquet import inspect

_ATTEMPTS_AT_REGISTERING = 3


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a warehouse is and what it works with. ``clock`` gives the time with its zone."""

    root: Path
    files: Files
    engine: Engine
    clock: Callable[[], datetime] = _now

    @property
    def attempts(self) -> Path:
        """The locks and temporary files of work in progress."""
        return self.root / ".tempura" / "attempts"


class Arrivals:
    """The stored side of a table: its arrivals, versions and files."""

    def __init__(self, site: Site, name: str, spec: TableSpec) -> None:
        self.site = site
        self.name = name
        self.spec = spec
        self.home = site.root / "tables" / name
        self.folder = (site.root / spec.path).resolve() if spec.path else self.home / "data"
        self.ledger = Ledger(self.home / "arrivals", site.files)

    @cached_property
    def schema(self) -> StructType:
        """The table's columns; all may be NULL."""
        return self.site.engine.parse_schema(self.spec.schema)

    def arrivals(self) -> tuple[Arrival, ...]:
        """All committed arrivals. Raises TempuraError SCHEMA_CHANGED when they were checked against another schema."""
        arrivals = self.committed()
        declared = self.schema.simpleString()
        if arrivals and arrivals[-1].schema != declared:
            what = f"Table {self.name} is declared as {declared}, but its rows arrived as {arrivals[-1].schema}."
            raise TempuraError("SCHEMA_CHANGED", what, "Restore the schema, or add a table of another name.")
        return arrivals

    def committed(self) -> tuple[Arrival, ...]:
        """All committed arrivals as they were, whatever is declared today."""
        return tuple(Arrival.from_json(entry) for entry in self.ledger.entries())

    def version(self) -> int:
        """The number of arrivals."""
        return self.ledger.count()

    def source(self, after: int, upto: int) -> Source:
        """The rows of the arrivals after one version up to another."""
        return Source(self.schema, self._rows(self.arrivals()[after:upto]))

    def _rows(self, arrivals: Iterable[Arrival]) -> Rows:
        # Files without rows are left out: a push may write an empty file of deletions, which makes nothing signed.
        arrivals = tuple(arrivals)
        inserted = tuple(str(self.folder / f.path) for a in arrivals for f in a.inserted if f.rows)
        deleted = tuple(str(self.folder / f.path) for a in arrivals for f in a.deleted if f.rows)
        partitioned = self.spec.path and any(partition_columns(f.path) for a in arrivals for f in a.inserted)
        return Rows(inserted, deleted, str(self.folder) if partitioned else None)

    # --- external folders -------------------------------------------------------------------------------------------

    def register(self) -> int:
        """Register the new files of a folder as one arrival; nothing to do for a managed table. Returns the version.

        Raises TempuraError FOLDER_MISSING, FILE_CHANGED, FILE_GONE, WRONG_SCHEMA, STATIC_TABLE, DUPLICATE_KEY.
        """
        if self.spec.path is None:
            return self.version()
        for last in reversed(range(_ATTEMPTS_AT_REGISTERING)):
            try:
                return self._register()
            except TempuraError as error:
                # Another process registered files at the same moment: look again at what is left to register.
                if error.code != "COMMIT_LOST" or not last:
                    raise
        raise AssertionError("unreachable")

    def _register(self) -> int:
        arrivals = self.arrivals()
        new = self._new_files(arrivals)
        if not new:
            return len(arrivals)
        self._check_static(arrivals)
        with attempt(self.site.files, self.site.attempts) as work:
            arrival = self._summarised(new, ())
            self._check_keys(arrivals, arrival)
            self.ledger.append(work, len(arrivals) + 1, arrival.to_json())
        return len(arrivals) + 1

    def _new_files(self, arrivals: Sequence[Arrival]) -> list[Path]:
        if not self.folder.is_dir():
            remedy = "Make the folder, or correct its path in tempura.toml."
            raise TempuraError("FOLDER_MISSING", f"Table {self.name}: there is no folder {self.folder}.", remedy)
        known = {f.path: f for a in arrivals for f in a.inserted}
        present = {str(path.relative_to(self.folder)): path for path in data_files(self.folder)}
        for file in known.values():
            self._check_known(file, present.get(file.path))
        newest = time.time() - self.spec.settle
        return [path for name, path in sorted(present.items()) if name not in known and path.stat().st_mtime <= newest]

    def _check_known(self, file: DataFile, path: Path | None) -> None:
        what = f"Table {self.name}: file {self.folder / file.path}, which has arrived,"
        if path is None:
            raise TempuraError(
                "FILE_GONE", f"{what} is gone.", "Put it back; rows that arrived cannot leave by a file."
            )
        stat = path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (file.size, file.mtime):
            remedy = "Restore it, and write changed rows to new files."
            raise TempuraError("FILE_CHANGED", f"{what} was written again.", remedy)

    # --- managed tables ---------------------------------------------------------------------------------------------

    def push(self, inserts: Any | None, deletes: Any | None, trust: bool) -> int:
        """Write inserts and deletes and commit them as one arrival. Returns the new version."""
        self._check_push(deletes is not None)
        arrivals = self.arrivals()
        self._check_static(arrivals)
        with attempt(self.site.files, self.site.attempts) as work:
            folder = self.folder / work.id
            with discarding(self.site.files, folder):
                arrival = self._written(folder, inserts, deletes)
                self._check_deletes(arrivals, arrival, trust)
                self._check_keys(arrivals, arrival)
            with discarding_if_refused(self.site.files, folder):
                self.ledger.append(work, len(arrivals) + 1, arrival.to_json())
        return len(arrivals) + 1

    def _check_push(self, deletes: bool) -> None:
        if self.spec.path is not None:
            what = f"Table {self.name} takes its rows from the files in {self.folder}."
            raise TempuraError("NOT_MANAGED", what, "Put new files there.")
        if deletes and self.spec.append_only:
            remedy = "Take append_only from its declaration if rows may be deleted."
            raise TempuraError("APPEND_ONLY", f"Table {self.name} is append-only; nothing was deleted.", remedy)

    def _written(self, folder: Path, inserts: Any | None, deletes: Any | None) -> Arrival:
        self.site.files.make_folder(folder)
        sides = [self._write_side(folder / "inserted", inserts), self._write_side(folder / "deleted", deletes)]
        self.site.files.sync_tree(folder)
        return self._summarised(*sides)

    def _write_side(self, folder: Path, rows: Any | None) -> list[Path]:
        if rows is None:
            return []
        self.site.engine.write(rows, self.schema, folder, self.name)
        return list(data_files(folder))

    # --- promises ---------------------------------------------------------------------------------------------------

    def _check_static(self, arrivals: Sequence[Arrival]) -> None:
        if self.spec.static and arrivals:
            remedy = "Take static from its declaration if it changes."
            raise TempuraError("STATIC_TABLE", f"Table {self.name} is static, and more rows come.", remedy)

    def _check_deletes(self, arrivals: Sequence[Arrival], arrival: Arrival, trust: bool) -> None:
        if trust or not arrival.deleted:
            return
        row = self.site.engine.missing(Source(self.schema, self._rows(arrivals)), self._rows([arrival]))
        if row is not None:
            what = f"Table {self.name}: a row to be deleted is not there, or not as often: {row}."
            raise TempuraError("DELETE_OF_MISSING", what, "Nothing was changed. trust=True skips this check.")

    def _check_keys(self, arrivals: Sequence[Arrival], arrival: Arrival) -> None:
        if not self.spec.keys:
            return
        present = Source(self.schema, self._rows(arrivals))
        key = self.site.engine.duplicate(present, self._rows([arrival]), self.spec.keys)
        if key is not None:
            what = f"Table {self.name}: more than one row would have the key {key}."
            raise TempuraError("DUPLICATE_KEY", what, "Nothing was registered. Remove the row, or the keys promise.")

    # --- summaries --------------------------------------------------------------------------------------------------

    def _summarised(self, inserted: Sequence[Path], deleted: Sequence[Path]) -> Arrival:
        columns: dict[str, ColumnSummary] = {}
        sides = [tuple(self._file(p, columns, sample=p == paths[0]) for p in paths) for paths in (inserted, deleted)]
        now = self.site.clock().astimezone(UTC).isoformat()
        return Arrival(sides[0], sides[1], columns, self.schema.simpleString(), now)

    def _file(self, path: Path, columns: dict[str, ColumnSummary], sample: bool) -> DataFile:
        stat = path.stat()
        name = str(path.relative_to(self.folder))
        summary = inspect(path, self.schema, partition_columns(name) if self.spec.path else (), sample)
        for column, found in summary.columns.items():
            columns[column] = columns[column] + found if column in columns else found
        return DataFile(name, stat.st_size, stat.st_mtime_ns, summary.rows, summary.bytes)

    def status(self) -> dict[str, Any]:
        """What is stored, as plain data."""
        arrivals = self.committed()
        inserted, deleted = totals(arrivals)
        files = [f for a in arrivals for f in (*a.inserted, *a.deleted)]
        return {
            "version": len(arrivals),
            "rows": inserted - deleted,
            "files": len(files),
            "bytes": sum(f.size for f in files),
            "last_arrival": arrivals[-1].time if arrivals else None,
            **self.spec.to_toml(),
        }


def data_files(folder: Path) -> Iterable[Path]:
    """The files below a folder that count: neither their names nor a folder's begin with ``_`` or ``.``."""
    for parent, folders, names in os.walk(folder):
        # A folder such as _year=2024 spells a partition column.
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")) or "=" in name)
        yield from (Path(parent) / name for name in sorted(names) if not name.startswith((".", "_")))


def partition_columns(path: str) -> tuple[str, ...]:
    """The columns that a relative path spells: ``("day",)`` for ``day=2024-01-01/part-0.parquet``."""
    return tuple(unquote(part.split("=", 1)[0]) for part in Path(path).parts[:-1] if "=" in part)
