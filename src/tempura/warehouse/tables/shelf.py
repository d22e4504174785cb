"""The files that the arrivals of a table lie in, and the rows that are read from them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, DataFile, Rows
from tempura.warehouse.batches.content import Content, Placed, content
from tempura.warehouse.batches.parquet import partition_columns
from tempura.warehouse.commits.seals import any_damage
from tempura.warehouse.sources.feed import anew
from tempura.warehouse.sources.held import Held
from tempura.warehouse.sources.widening import width


@dataclass(frozen=True, slots=True)
class Shelf:
    """The files of a table: its own ``copies``, those that are read where they are, in its ``folder``, and their second names. ``is_fed``:
    rows are not pushed, so that others may change files of the folder. ``schema`` gives the table's columns, ``committed`` all arrivals."""

    table: str
    folder: Path
    copies: Path
    held: Held
    is_fed: bool
    schema: Callable[[], StructType]
    committed: Callable[[], Sequence[Arrival]]

    def home_of(self, arrival: Arrival) -> Path:
        """The folder that the paths of an arrival's files are relative to."""
        return self.copies if arrival.copied else self.folder

    def hold(self, files: Iterable[DataFile]) -> None:
        """Give files that are read where they are their second names."""
        for file in files:
            self.held.hold(self.folder / file.path, file)

    def damage(self, arrivals: Iterable[Arrival]) -> str | None:
        """What is wrong with the copies of some arrivals' rows; None when nothing is."""
        files = ((self.home_of(a), f) for a in arrivals for f in (*a.inserted, *a.deleted) if f.checksum)
        return any_damage((home / file.path, file.size, file.checksum) for home, file in files)

    def places(self, arrivals: Iterable[Arrival]) -> dict[str, tuple[str, ...]]:
        """Which columns of the files of deletions tell where the deleted rows lie."""
        return {str(self.copies / file.path): a.places for a in arrivals if a.places for file in a.deleted}

    # --- rows -------------------------------------------------------------------------------------------------------

    def rows_of_version(self, wanted: Content) -> Rows:
        """The rows of a content that is all of a version. Raises as :meth:`rows` does."""
        rows = self.rows(wanted)
        return replace(rows, places=self.places(wanted.arrivals)) if wanted.is_placed else rows

    def rows(self, wanted: Content) -> Rows:
        """The rows of a content, or changes to rows. Raises TempuraError ROWS_UNKNOWN."""
        # Files without rows are left out: a push may write an empty file of deletions, which makes nothing signed.
        return self.in_place(wanted.in_place) + self.copies_of(a for a in wanted.arrivals if a.copied or a.deleted)

    def copies_of(self, arrivals: Iterable[Arrival]) -> Rows:
        """The rows of some arrivals that are in files of the warehouse's own."""
        arrivals = tuple(arrivals)
        inserted = tuple(str(self.copies / f.path) for a in arrivals if a.copied for f in a.inserted if f.rows)
        deleted = tuple(str(self.copies / f.path) for a in arrivals for f in a.deleted if f.rows)
        files = [(self.copies / f.path, a.schema) for a in arrivals for f in (*a.inserted, *a.deleted) if f.rows]
        return Rows(inserted, deleted, narrow=self._narrow(files))

    def in_place(self, files: Iterable[Placed]) -> Rows:
        """The rows of files that are read where they are, or under their second names when they are there no more as they arrived.
        Raises TempuraError ROWS_UNKNOWN."""
        wanted = [(file, arrived) for file, arrived in files if file.rows]
        places = [self.folder / file.path for file, _ in wanted]
        if not self.is_fed or all(_is_as_it_was(path, file) for path, (file, _) in zip(places, wanted, strict=True)):
            return self._below(self.folder, wanted, places)
        named = [self._named_otherwise(file) for file, _ in wanted]
        bases = {self.held.folder if path.is_relative_to(self.held.folder) else self.folder for path in named}
        if len(bases) > 1 and any(partition_columns(file.path) for file, _ in wanted):
            # Columns are read out of paths below one folder only.
            raise self._unknown(next(f for (f, _), p in zip(wanted, named, strict=True) if self.folder in p.parents))
        return self._below(min(bases), wanted, named)

    def _below(self, base: Path, files: Sequence[Placed], paths: Sequence[Path]) -> Rows:
        partitioned = self.folder != self.copies and any(partition_columns(file.path) for file, _ in files)
        narrow = self._narrow([(path, arrived) for path, (_, arrived) in zip(paths, files, strict=True)])
        return Rows(tuple(map(str, paths)), (), str(base) if partitioned else None, narrow=narrow)

    def _narrow(self, files: Sequence[tuple[Path, str]]) -> dict[str, int]:
        """Of files with the schemas under which they arrived, those from before columns were added, and how many columns they have.
        Files lying where they were written may have had a column of that name all along: of what arrived without it, it is NULL all
        the same."""
        schema = self.schema()
        known = {arrived: width(arrived, schema) for arrived in {arrived for _, arrived in files}}
        full = len(schema.fields)
        return {str(path): n for path, arrived in files if (n := known[arrived]) is not None and n < full}

    def _named_otherwise(self, file: DataFile) -> Path:
        """A file under its second name, or under the one that a refresh has found it under."""
        found = self.held.find(file)
        if found is not None:
            return found
        for other in content(self.committed()).whole:
            path = self.folder / other.path
            if other.identity == file.identity != "" and _is_as_it_was(path, other):
                return path
        raise self._unknown(file)

    def _unknown(self, file: DataFile) -> TempuraError:
        what = f"Table {self.table}: the rows of {self.folder / file.path}, which has arrived, are not known any more."
        return TempuraError("ROWS_UNKNOWN", what, *anew(self.table, "Put the file back"))


def _is_as_it_was(path: Path, file: DataFile) -> bool:
    """Whether a file has the size and time that it arrived with."""
    try:
        stat = path.stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (file.size, file.mtime)
