"""Folders whose new files are arrivals: which files count, which are new, and what kind of rows they hold."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Origin
from tempura.warehouse.batches.content import seen_files
from tempura.warehouse.batches.parquet import column_names, inspect, partition_columns
from tempura.warehouse.commits.seals import file_checksum
from tempura.warehouse.declared.declare import TableSpec
from tempura.warehouse.declared.text import CHANGE, header
from tempura.warehouse.engine import Engine, FileSet
from tempura.warehouse.sources.feed import Batch, Widen, ways_on
from tempura.warehouse.sources.source import SourceFiles, counts
from tempura.warehouse.sources.spelt import check_spelt
from tempura.warehouse.sources.widening import Unknown


class Kind(NamedTuple):
    """Files of one kind can be one arrival: whether they hold changes, and their columns in order, where a file may have its own."""

    changing: bool
    columns: tuple[str, ...] = ()


_TOGETHER = 256
"""So many files of changes are one arrival at most: each of their rows is told by the place of its file among them."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The feed of a table whose rows lie in the files of a folder."""

    engine: Engine
    table: str
    spec: TableSpec
    path: Path

    def pending(self, arrivals: Sequence[Arrival], schema: StructType, widen: Widen | None = None) -> Iterator[Batch]:
        """The new files, in the order in which they were written: those of one kind that follow each other together. Files with changes
        are one arrival if that comes to the same as one after the other.

        Raises TempuraError FOLDER_MISSING, FILE_CHANGED, FILE_GONE, WRONG_SCHEMA, NOT_PARQUET, and as :meth:`files` does.
        """
        new = self._new(arrivals)
        self._check_layout(new, arrivals)
        unknown = self._unknown(new, schema)
        added = unknown.fields(schema) if widen and self.spec.on_new_columns == "add" else []
        schema = widen(added) if widen and added else schema
        kinds = self.kinds(new, schema)
        if self.spec.format == "parquet" and any(kind.changing for kind in kinds.values()):
            # A file that does not fit is refused before the first of the arrivals, and changes are not looked at again.
            optional = {*self.spec.added, *(field.name for field in added)}
            for path in new:
                inspect(path, schema, partition_columns(self.name_of(path)), optional=optional)
        for kind, files in groupby(new, key=kinds.__getitem__):
            yield from self._batches(kind, list(files), schema, () if added else tuple(unknown.places))

    def waits(self, arrivals: Sequence[Arrival]) -> bool:
        """Whether there are new files. Raises TempuraError FOLDER_MISSING, FILE_CHANGED, FILE_GONE."""
        return bool(self._new(arrivals))

    def file_set(self, files: Iterable[Path], schema: StructType, columns: tuple[str, ...] = ()) -> FileSet:
        """Files of this folder as the engine is told of them."""
        paths = tuple(files)
        base = str(self.path) if any(partition_columns(self.name_of(p)) for p in paths) else None
        names = tuple(map(str, paths))
        return FileSet(self.table, schema, self.spec.format, self.spec.options, names, base, columns)

    def files(self) -> tuple[Path, ...]:
        """The files that count. Raises TempuraError LAKE_AS_FILES, UNSUPPORTED_FORMAT, LINK_LEADS_OUT, NOT_A_FILE,
        UNSUPPORTED_PATH."""
        return SourceFiles(self.table, self.path, self.spec.format, self.spec.follow_links).find()

    # --- which files ------------------------------------------------------------------------------------------------

    def _new(self, arrivals: Sequence[Arrival]) -> list[Path]:
        self.check_there()
        known = seen_files(arrivals)
        present = {self.name_of(path): path for path in self.files()}
        for origin in known.values():
            self.check_unchanged(origin)
        # Files carry the system's time, whatever clock the warehouse has.
        newest = time.time() - self.spec.settle
        new = [(path.stat().st_mtime_ns, name, path) for name, path in present.items() if name not in known]
        return [path for mtime, _, path in sorted(new) if mtime <= newest * 1e9]

    def check_there(self) -> None:
        """Raises TempuraError FOLDER_MISSING."""
        if not self.path.is_dir():
            remedy = "Make the folder, or name another"
            command = f"{remedy}: tempura table alter {self.table} --path FOLDER"
            what = f"Table {self.table}: there is no folder {self.path}."
            raise TempuraError("FOLDER_MISSING", what, f'{remedy}: alter_table("{self.table}", path=…).', command)

    def check_unchanged(self, origin: Origin) -> None:
        """Raises TempuraError FILE_GONE or FILE_CHANGED when a file is no longer as it was when it arrived."""
        path = self.path / origin.path
        what = f"Table {self.table}: file {path}, which has arrived,"
        try:
            stat = path.stat()
        except FileNotFoundError:
            raise TempuraError("FILE_GONE", f"{what} is gone.", *ways_on(self.table, "Put it back")) from None
        if (stat.st_size, stat.st_mtime_ns) != (origin.size, origin.mtime):
            raise TempuraError("FILE_CHANGED", f"{what} was written again.", *ways_on(self.table, "Restore it"))

    def name_of(self, path: Path) -> str:
        """The path of a file relative to the folder."""
        return str(path.relative_to(self.path))

    def _check_layout(self, new: Sequence[Path], arrivals: Sequence[Arrival]) -> None:
        """All files lie equally deep in folders that spell the same columns, as Spark needs it."""
        names = [self.name_of(path) for path in new]
        first = next(iter(seen_files(arrivals)), names[0] if names else "")
        wanted = partition_columns(first)
        for name in names:
            found = partition_columns(name)
            if found != wanted:
                spelt = [", ".join(columns) or "no column" for columns in (found, wanted)]
                what = f"{self.path / name}: its path spells {spelt[0]}, but that of {first} spells {spelt[1]}."
                raise TempuraError("WRONG_SCHEMA", what, "Move the file into a folder like those of the others.")

    # --- what they hold ---------------------------------------------------------------------------------------------

    def widened(self, files: Sequence[Path], schema: StructType, widen: Widen) -> bool:
        """Give the table the columns of some files that it does not have, if it is declared so. Raises TempuraError WRONG_SCHEMA."""
        found = self._unknown(files, schema).fields(schema) if self.spec.on_new_columns == "add" else []
        if found:
            widen(found)
        return bool(found)

    def _unknown(self, files: Sequence[Path], schema: StructType) -> Unknown:
        """The columns of files that the table does not have. Raises TempuraError WRONG_SCHEMA when they are refused."""
        found: dict[str, Path] = {}
        columns: dict[Path, StructType] = {}
        if self.spec.format == "json" and files:
            inferred = self.engine.infer_schema(self.file_set(files, schema))
            found = dict.fromkeys(inferred.names, files[0])
            columns = {files[0]: inferred}
        elif self.spec.format == "parquet":
            for path in files:
                found |= {name: path for name in column_names(path) if name not in found}
        known = {*schema.names, CHANGE, *(partition_columns(self.name_of(files[0])) if files else ())}
        unknown = Unknown(
            self.table,
            {n: path for n, path in found.items() if n not in known},
            lambda path: columns.get(path) or self._inferred(path),
        )
        if self.spec.on_new_columns == "refuse":
            unknown.refuse("take the file away")
        return unknown

    def _inferred(self, path: Path) -> StructType:
        return self.engine.infer_schema(self.file_set([path], StructType()))

    def kinds(self, files: Sequence[Path], schema: StructType) -> dict[Path, Kind]:
        """The kind of each file. Raises TempuraError WRONG_SCHEMA for a header, or values that a path spells, which do not fit, and
        NOT_PARQUET."""
        for path in files:
            check_spelt(path, self.name_of(path), schema)
        if self.spec.format == "csv":
            columns = {path: self._header(path, schema) for path in files}
            return {path: Kind(CHANGE in found, found) for path, found in columns.items()}
        if CHANGE in schema.names or not files:
            return dict.fromkeys(files, Kind(changing=False))
        if self.spec.format == "json":
            changing = self.engine.changing(self.file_set(files, schema))
            return {path: Kind(str(path) in changing) for path in files}
        return {path: Kind(CHANGE in column_names(path)) for path in files}

    def _header(self, path: Path, schema: StructType) -> tuple[str, ...]:
        partitions = partition_columns(self.name_of(path))
        return header(path, self.spec.options, [n for n in schema.names if n not in partitions])

    def _batches(
        self, kind: Kind, files: Sequence[Path], schema: StructType, ignored: tuple[str, ...]
    ) -> Iterator[Batch]:
        if kind.changing:
            each = [self._loaded([path], kind, schema, ignored) for path in files]
            # What comes and leaves again is not seen in what several come to, and that there are several is not, which such tables refuse.
            most = 1 if self.spec.append_only or self.spec.static else _TOGETHER
            for some in (each[i : i + most] for i in range(0, len(each), most)):
                yield self._in_order(some, kind.columns, schema) if len(some) > 1 else some[0]
        elif self.spec.format == "parquet":
            yield Batch(in_place=tuple(files), ignored=ignored)
        else:
            yield self._loaded(files, kind, schema, ignored)

    def _loaded(self, files: Sequence[Path], kind: Kind, schema: StructType, ignored: tuple[str, ...]) -> Batch:
        origins = tuple(self.origin(path, kind.changing) for path in files)
        wanted = self.file_set(files, schema, kind.columns)
        return Batch(changes=lambda present: self.engine.load(wanted, kind.changing), origins=origins, ignored=ignored)

    def _in_order(self, each: Sequence[Batch], columns: tuple[str, ...], schema: StructType) -> Batch:
        """Files of changes together."""
        origins = tuple(origin for batch in each for origin in batch.origins)
        wanted = self.file_set([self.path / origin.path for origin in origins], schema, columns)
        return Batch(
            changes=lambda present: self.engine.load_in_order(wanted, present, self.spec.keys),
            origins=origins,
            ignored=each[0].ignored,
            apart=tuple(each),
        )

    def origin(self, path: Path, changing: bool = False) -> Origin:
        """A file as it is now."""
        stat = path.stat()
        return Origin(self.name_of(path), stat.st_size, stat.st_mtime_ns, file_checksum(path), changing)


def data_files(folder: Path) -> Iterator[Path]:
    """The files below a folder of our own that count: neither their names nor a folder's begin with ``_`` or ``.``."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if counts(name, is_folder=True))
        yield from (Path(parent) / name for name in sorted(names) if counts(name, is_folder=False))
