"""Tables as they are declared and stored: their columns, their feed, their versions, and what readers get of these."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from pyspark.sql.types import StructField, StructType

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, Rows
from tempura.warehouse.batches.compaction import Blocks
from tempura.warehouse.batches.content import Content, content, last_reset, live
from tempura.warehouse.commits.ledger import Attempt, Ledger
from tempura.warehouse.commits.reads import check_whole
from tempura.warehouse.declared.declare import TableSpec, check_keys
from tempura.warehouse.engine import Source
from tempura.warehouse.sources.aside import Aside
from tempura.warehouse.sources.feed import Derived, Feed, anew
from tempura.warehouse.sources.folder import Folder
from tempura.warehouse.sources.held import Held
from tempura.warehouse.sources.lake import LAKES, Lake
from tempura.warehouse.sources.topic import Topic
from tempura.warehouse.sources.widening import add_columns, beginning, check_arrived, width, widths
from tempura.warehouse.tables.recorded import Recorded
from tempura.warehouse.tables.shelf import Shelf
from tempura.warehouse.tables.site import Site


class Arrivals:
    """The stored side of a table: its arrivals, which are ``recorded`` in its ``ledger``, its versions, and its files, the ``shelf``. They
    come from a ``feed``: from ``upstream`` if ``derived`` gives one, else from a topic or the files of a folder; a managed table has none,
    its rows are pushed. ``aside`` is what came and is no row. ``home`` is the folder of a table that is not declared.

    A declared table is what is declared under its name at the moment: :meth:`adopt` looks, before anything arrives, and a commit
    happens in :func:`holding`."""

    def __init__(
        self,
        site: Site,
        name: str,
        spec: TableSpec,
        derived: Callable[[TableSpec], Derived | None] = lambda spec: None,
        home: Path | None = None,
    ) -> None:
        self.site = site
        self.name = name
        self.is_declared = home is None
        self.home = home or site.root / "tables" / name
        self.aside = Aside(name, self.home / "aside", site.files, site.engine)
        self.ledger = Ledger(self.home / "arrivals", site.files, site.fates.settled)
        self.recorded = Recorded(name, self.ledger, site.fates)
        self.blocks = Blocks(self.home / "blocks", site.files, name)
        self._derived = derived
        self._take_over(spec)

    def _take_over(self, spec: TableSpec) -> None:
        self.spec = spec
        self.upstream = self._derived(spec)
        copies, held = self.home / "data", Held(self.home / "held", self.site.files)
        folder = (self.site.root / spec.path).resolve() if spec.path else copies
        is_fed = bool(self.upstream or spec.path or spec.kafka)
        self.shelf = Shelf(self.name, folder, copies, held, is_fed, lambda: self.schema, self.committed)
        self.feed = self.upstream or (self._feed() if is_fed else None)

    def _feed(self) -> Feed:
        if self.spec.kafka:
            return Topic(self.site.engine, self.name, self.spec)
        if self.spec.format in LAKES:
            return Lake(self.site.engine, self.name, self.spec, self.shelf.folder)
        return Folder(self.site.engine, self.name, self.spec, self.shelf.folder)

    # --- what is declared -------------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """Go by what is declared of the table now, by another process perhaps. Raises TempuraError UNKNOWN_TABLE."""
        if self.is_declared:
            found = self.site.declarations.read().table(self.name)
            if found != self.spec:
                self._redeclared(found)

    def check_declared(self) -> None:
        """Raises TempuraError UNKNOWN_TABLE, and COMMIT_LOST when what arrives was held to another declaration than that of now."""
        if _held_to(self.site.declarations.read().table(self.name)) != _held_to(self.spec):
            what = f"Table {self.name} was declared otherwise meanwhile; nothing was changed."
            raise TempuraError("COMMIT_LOST", what, "Call again to work from what is declared now.")

    # --- columns ----------------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> StructType:
        """The table's columns; all may be NULL. Raises TempuraError BAD_KEYS, BAD_SCHEMA."""
        return self._parsed(self.spec)

    def _parsed(self, spec: TableSpec) -> StructType:
        """The columns that are declared. Its keys are looked up here as well: ``tempura.toml`` is edited by hand, too, and only Spark
        reads columns."""
        schema = self.site.engine.given_schema(spec.schema)
        check_keys(self.name, spec.keys, schema)
        return schema

    def schema_at(self, version: int) -> StructType:
        """The columns with which the last rows of a version arrived; all when nothing had."""
        arrived = self.arrivals()[:version]
        return beginning(self.schema, width(arrived[-1].schema, self.schema) or 0) if arrived else self.schema

    def widen(self, columns: Sequence[StructField]) -> StructType:
        """Give the table more columns. Returns all. Raises TempuraError SCHEMA_CHANGED, COMMIT_LOST."""
        self.adopt()
        self._redeclared(add_columns(self.site.declarations, self.site.engine, self.name, self.spec, columns))
        return self.schema

    def _redeclared(self, spec: TableSpec) -> None:
        schema = self._parsed(spec)
        self._take_over(spec)
        self.schema = schema

    # --- versions ---------------------------------------------------------------------------------------------------

    def arrivals(self) -> tuple[Arrival, ...]:
        """All committed arrivals. Raises TempuraError SCHEMA_CHANGED when they were checked against a schema that the declared one
        does not only add columns to, and as :meth:`committed` does."""
        return self._as_declared(self.committed())

    def _as_declared(self, arrivals: tuple[Arrival, ...]) -> tuple[Arrival, ...]:
        if None in widths(live(arrivals), self.schema).values():
            self.adopt()
        check_arrived(self.name, live(arrivals), self.schema)
        return arrivals

    def committed(self) -> tuple[Arrival, ...]:
        """All committed arrivals as they were, whatever is declared today; those of a transaction once it is committed; those before a
        reset are forgotten. Raises TempuraError LEDGER_BROKEN when runs have read more, LEDGER_CORRUPT."""
        arrivals = self.recorded.arrivals()
        self.check_whole(len(arrivals))
        return arrivals

    def check_whole(self, version: int) -> None:
        """Raises TempuraError LEDGER_BROKEN when runs have read a later version than the one that there is."""
        check_whole(self.site.root, self.site.files, self.name, version)

    def version(self) -> int:
        """The number of arrivals. Raises TempuraError as :meth:`committed` does."""
        return len(self.committed())

    def opened(self) -> tuple[tuple[Arrival, ...], int]:
        """All committed arrivals, and the number under which the ledger takes the next. Raises TempuraError COMMIT_LOST while a
        transaction of another process is about to add one, UNKNOWN_TABLE."""
        self.adopt()
        arrivals, number = self.recorded.settled()
        self.check_whole(len(arrivals))
        return self._as_declared(arrivals), number

    def append(self, work: Attempt, number: int, arrival: Arrival) -> None:
        """Commit the next arrival, in :func:`holding`, under the number that the ledger takes. Raises TempuraError COMMIT_LOST."""
        home = self.shelf.home_of(arrival)
        written = (*arrival.inserted, *arrival.deleted) if home == self.shelf.copies else ()
        if self.ledger.last() < number - 1 or not all((home / file.path).exists() for file in written):
            what = f"Table {self.name} was removed and added anew meanwhile; nothing was changed."
            raise TempuraError("COMMIT_LOST", what, "Call again to work from what is there now.")
        self.ledger.append(work, number, arrival.to_json())

    def mark(self, version: int) -> str:
        """What tells a version from that of another table which had the same name."""
        return self.recorded.mark(version)

    def follows(self, version: int, mark: str | None) -> bool:
        """Whether what was computed from a version, with its mark if that is known, can be brought up to date by what came since:
        the table is the same, and was not reset."""
        arrivals = self.committed()
        if any(arrival.reset for arrival in arrivals[version:]):
            return False
        return mark is None or version > len(arrivals) or mark == self.mark(version)

    # --- what readers get -------------------------------------------------------------------------------------------

    def source(self, after: int, upto: int) -> Source:
        """The rows of the arrivals after one version up to another. Raises TempuraError ROWS_DAMAGED when the warehouse's own files
        are no longer what was committed, ROWS_FORGOTTEN for a version before a reset, ROWS_UNKNOWN when the source's files are gone."""
        while True:
            arrivals = self.arrivals()
            since = last_reset(arrivals)
            if upto < since or 0 < after < since:
                version = upto if upto < since else after
                what = f"Version {version} of table {self.name} was forgotten when the table was reset."
                raise TempuraError(
                    "ROWS_FORGOTTEN", what, "Run the query first: it is computed from what is there now."
                )
            wanted = self.wanted(arrivals, after, upto)
            wrong = self.shelf.damage(wanted.arrivals)
            if not wrong:
                return Source(self.schema, self.shelf.rows(wanted) if after else self.shelf.rows_of_version(wanted))
            # What was given up meanwhile is read from a block.
            if self.wanted(self.arrivals(), after, upto) == wanted:
                undo = "Restore it from a backup" + ("" if self.feed else " (these rows are kept nowhere else)")
                raise TempuraError("ROWS_DAMAGED", f"Table {self.name}: {wrong}.", *anew(self.name, undo))

    def wanted(self, arrivals: Sequence[Arrival], after: int, upto: int) -> Content:
        """What the rows that arrived after one version up to another are read from: of what is stored together, that. Raises TempuraError
        VERSION_COLLECTED when they cannot be read."""
        if after:
            return Content(None, self.blocks.read(arrivals, after, upto))
        return content(arrivals[:upto], partial(self.blocks.read, arrivals))

    def present(self, arrivals: Sequence[Arrival]) -> Source:
        """The rows of the version after these arrivals. Raises TempuraError VERSION_COLLECTED, ROWS_UNKNOWN."""
        return Source(self.schema, self.shelf.rows_of_version(self.wanted(arrivals, 0, len(arrivals))))

    def rows_of(self, arrival: Arrival) -> Rows:
        """The rows of one arrival. Raises TempuraError ROWS_UNKNOWN."""
        return self.shelf.rows(Content(None, (arrival,)))

    def inserted_files(self, after: int, upto: int) -> list[tuple[str, int]]:
        """The files of rows that were inserted after one version up to another, and how many each holds, as far as anything is read from
        them; whether they are what was committed is not looked at. Raises TempuraError ROWS_UNKNOWN."""
        wanted, shelf = self.wanted(self.arrivals()[:upto], after, upto), self.shelf
        sides = [(file, shelf.home_of(a)) for a in wanted.arrivals for file in a.inserted]
        homes = [*((file, shelf.folder) for file in wanted.whole), *sides]
        rows = {str(home / file.path): file.rows for file, home in homes}
        return [(path, rows.get(path, 0)) for path in shelf.rows(wanted).inserted]

    def deletions(self, version: int) -> tuple[int, int]:
        """How many deletions are among the rows that those of a version are read from: those that have to be set off against others, and
        those whose places are left out. Raises TempuraError VERSION_COLLECTED when they cannot be read."""
        wanted = self.wanted(self.arrivals(), 0, version)
        deleted = wanted.rows[1]
        return (0, deleted) if wanted.is_placed else (deleted, 0)

    def files(self, after: int, upto: int) -> int:
        """Of how many files the rows are read that arrived after one version up to another. Raises TempuraError VERSION_COLLECTED when they
        cannot be read."""
        return len(self.wanted(self.arrivals(), after, upto).files)

    @property
    def notes_places(self) -> bool:
        """Whether it is noted where deleted rows lie: when they are looked for, and only in files that the warehouse wrote."""
        if self.upstream or isinstance(self.feed, Folder):
            return False
        return self.site.engine.can_place(self.schema)


def _held_to(spec: TableSpec) -> TableSpec:
    """What an arrival is held to."""
    return replace(spec, expect=None, stats={}, references={})


@contextmanager
def holding(*tables: Arrivals) -> Iterator[None]:
    """Keep what is declared of tables as it is while something is committed to them: nobody removes, renames or changes one meanwhile.
    Raises TempuraError as :meth:`Arrivals.check_declared` does."""
    declared = [table for table in tables if table.is_declared]
    with declared[0].site.declarations.holding() if declared else nullcontext():
        for table in declared:
            table.check_declared()
        yield
