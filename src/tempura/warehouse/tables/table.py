"""Tables: rows arrive by new files in a folder, or are pushed; every promise is checked before an arrival is committed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructField, StructType

from tempura.errors import TempuraError
from tempura.rules.methods import TEMPURA
from tempura.rules.modules import extended
from tempura.rules.registry import Registry
from tempura.warehouse.batches.arrivals import FORGOTTEN, Arrival, ColumnSummary, DataFile, Pushed, Rows
from tempura.warehouse.batches.compaction import Blocks
from tempura.warehouse.batches.content import Content, Placed, content, last_reset, live
from tempura.warehouse.batches.parquet import inspect, partition_columns
from tempura.warehouse.batches.places import files_hit, place_columns, with_places
from tempura.warehouse.commits.fates import COMMITTED, Fates
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Ledger, attempt, begins_anew, discarding, discarding_if_refused
from tempura.warehouse.commits.manifests import Entry
from tempura.warehouse.commits.reads import check_whole, last_read
from tempura.warehouse.commits.seals import any_damage, checksums
from tempura.warehouse.commits.spans import FAN, Span
from tempura.warehouse.declared.declare import DeclarationFile, TableSpec
from tempura.warehouse.engine import Changes, Engine, Source
from tempura.warehouse.sources import aside
from tempura.warehouse.sources.feed import Batch, Derived, Feed, anew
from tempura.warehouse.sources.folder import Folder, data_files
from tempura.warehouse.sources.held import Held
from tempura.warehouse.sources.lake import LAKES, Lake
from tempura.warehouse.sources.pushes import Push, check_id, check_same, version_of
from tempura.warehouse.sources.topic import Topic
from tempura.warehouse.sources.widening import add_columns, beginning, check_arrived, tell_ignored, width, widths

_ATTEMPTS_AT_REGISTERING = 3
_REPLACED = "replaced"
_PLACED = "placed"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Written:
    """Files that were written of rows inserted and deleted; ``places`` as in :class:`Arrival`."""

    inserted: tuple[Path, ...] = ()
    deleted: tuple[Path, ...] = ()
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """Where a warehouse is and what it works with. ``clock`` gives the time with its zone."""

    root: Path
    files: Files
    engine: Engine
    clock: Callable[[], datetime] = _now
    own_rules: Registry = TEMPURA

    @property
    def rules(self) -> Registry:
        """The rules to plan by: those given when the warehouse was opened, and those of the modules that it declares. Raises TempuraError
        BAD_RULES_MODULE, and as ``rules.registry`` does."""
        return extended(self.own_rules, self.declarations.read().rules)

    @property
    def declarations(self) -> DeclarationFile:
        """What the warehouse declares."""
        return DeclarationFile(self.root / "tempura.toml", self.root / ".tempura" / "declare.lock", self.files)

    @property
    def attempts(self) -> Path:
        """The locks and temporary files of work in progress."""
        return self.root / ".tempura" / "attempts"

    @property
    def fates(self) -> Fates:
        """What became of transactions."""
        return Fates(self.root / ".tempura" / "transactions", self.attempts, self.files)


class Arrivals:
    """The stored side of a table: its arrivals, versions and files. They come from a ``feed``: from ``upstream`` if there is one, else
    from a topic or the files of a folder; a managed table has none, its rows are pushed. ``aside`` is what came and is no row. ``home``
    is the folder of a table that is not declared."""

    def __init__(
        self, site: Site, name: str, spec: TableSpec, upstream: Derived | None = None, home: Path | None = None
    ) -> None:
        self.site = site
        self.name = name
        self.spec = spec
        self.home = home or site.root / "tables" / name
        self.copies = self.home / "data"
        self.held = Held(self.home / "held", site.files)
        self.aside = aside.Aside(name, self.home / "aside", site.files, site.engine)
        self.folder = (site.root / spec.path).resolve() if spec.path else self.copies
        self.ledger = Ledger(self.home / "arrivals", site.files, site.fates.settled)
        self.blocks = Blocks(self.home / "blocks", site.files, name)
        self._upstream = upstream
        self.feed = upstream or (self._feed() if spec.path or spec.kafka else None)
        self._known: tuple[tuple[Entry | None, ...], list[tuple[int, Arrival]]] = ((), [])

    def _feed(self) -> Feed:
        if self.spec.kafka:
            return Topic(self.site.engine, self.name, self.spec)
        if self.spec.format in LAKES:
            return Lake(self.site.engine, self.name, self.spec, self.folder)
        return Folder(self.site.engine, self.name, self.spec, self.folder)

    @cached_property
    def schema(self) -> StructType:
        """The table's columns; all may be NULL."""
        return self.site.engine.parse_schema(self.spec.schema)

    def arrivals(self) -> tuple[Arrival, ...]:
        """All committed arrivals. Raises TempuraError SCHEMA_CHANGED when they were checked against a schema that the declared one
        does not only add columns to, and as :meth:`committed` does."""
        return self._as_declared(self.committed())

    def _as_declared(self, arrivals: tuple[Arrival, ...]) -> tuple[Arrival, ...]:
        if None in widths(live(arrivals), self.schema).values():
            self._adopt_columns()
        check_arrived(self.name, live(arrivals), self.schema)
        return arrivals

    def committed(self) -> tuple[Arrival, ...]:
        """All committed arrivals as they were, whatever is declared today; those of a transaction once it is committed; those before a
        reset are forgotten. Raises TempuraError LEDGER_BROKEN when runs have read more, LEDGER_CORRUPT."""
        return self._committed(self.ledger.entries())

    def _committed(self, entries: Iterable[Entry | None]) -> tuple[Arrival, ...]:
        arrivals = tuple(arrival for _, arrival in self._numbered(entries))
        self.check_whole(len(arrivals))
        return arrivals

    def check_whole(self, version: int) -> None:
        """Raises TempuraError LEDGER_BROKEN when runs have read a later version than the one that there is."""
        check_whole(self.site.root, self.site.files, self.name, version)

    def _numbered(self, entries: Iterable[Entry | None]) -> list[tuple[int, Arrival]]:
        """The arrivals with their numbers in the ledger. The version that a reset makes is its number."""
        entries = tuple(entries)
        known, found = self._known
        if entries != known:
            found, open = self._found(entries)
            # What became of a transaction does not change; while that is open, it does.
            self._known = ((), []) if open else (entries, found)
        return found

    def _found(self, entries: Iterable[Entry | None]) -> tuple[list[tuple[int, Arrival]], bool]:
        """The arrivals with their numbers, and whether there is a transaction after them that is still open."""
        found, fates = list[tuple[int, Arrival]](), self.site.fates
        for number, entry in enumerate(entries, 1):
            if entry is None:
                continue
            if begins_anew(entry):
                found = [(n, FORGOTTEN) for n in range(1, number)]
            fate = fates.of(entry)
            if fate is None:
                return found, True
            found += [(number, entry.made(Arrival.from_json))] if fate == COMMITTED else []
        return found, False

    def schema_at(self, version: int) -> StructType:
        """The columns with which the last rows of a version arrived; all when nothing had."""
        arrived = self.arrivals()[:version]
        return beginning(self.schema, width(arrived[-1].schema, self.schema) or 0) if arrived else self.schema

    def version(self) -> int:
        """The number of arrivals. Raises TempuraError as :meth:`committed` does."""
        return len(self.committed())

    def opened(self) -> tuple[tuple[Arrival, ...], int]:
        """All committed arrivals, and the number under which the ledger takes the next. Raises TempuraError COMMIT_LOST while a
        transaction of another process is about to add one."""
        entries = self.settle()
        return self._as_declared(self._committed(entries)), len(entries) + 1

    def settle(self) -> tuple[Entry | None, ...]:
        """The entries of the ledger, none of which is open any more. Raises as :meth:`opened` does."""
        entries = self.ledger.entries()
        self.site.fates.settle(filter(None, entries), self.name)
        return entries

    def mark(self, version: int) -> str:
        """What tells a version from that of another table which had the same name."""
        return self.ledger.mark(self._numbered(self.ledger.entries())[version - 1][0]) if version else ""

    def follows(self, version: int, mark: str | None) -> bool:
        """Whether what was computed from a version, with its mark if that is known, can be brought up to date by what came since:
        the table is the same, and was not reset."""
        arrivals = self.committed()
        if any(arrival.reset for arrival in arrivals[version:]):
            return False
        return mark is None or version > len(arrivals) or mark == self.mark(version)

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
            wanted = self._wanted(arrivals, after, upto)
            wrong = self._damage(wanted.arrivals)
            if not wrong:
                return Source(self.schema, self._rows(wanted) if after else self._rows_of_version(wanted))
            # What was given up meanwhile is read from a block.
            if self._wanted(self.arrivals(), after, upto) == wanted:
                undo = "Restore it from a backup" + ("" if self.feed else " (these rows are kept nowhere else)")
                raise TempuraError("ROWS_DAMAGED", f"Table {self.name}: {wrong}.", *anew(self.name, undo))

    def _wanted(self, arrivals: Sequence[Arrival], after: int, upto: int) -> Content:
        """What the rows that arrived after one version up to another are read from: of what is stored together, that."""
        if after:
            return Content(None, self.blocks.read(arrivals, after, upto))
        whole = content(arrivals[:upto])
        # Beside a refresh of files that are read where they are nothing is stored together.
        return whole if whole.base else Content(None, self.blocks.read(arrivals, last_reset(arrivals[:upto]), upto))

    def deletions(self, version: int) -> tuple[int, int]:
        """How many deletions are among the rows that those of a version are read from: those that have to be set off against others, and
        those whose places are left out. Raises TempuraError VERSION_COLLECTED when they cannot be read."""
        wanted = self._wanted(self.arrivals(), 0, version)
        deleted = wanted.rows[1]
        return (0, deleted) if wanted.is_placed else (deleted, 0)

    @property
    def notes_places(self) -> bool:
        """Whether it is noted where deleted rows lie: when they are looked for, and only in files that the warehouse wrote."""
        if self._upstream or isinstance(self.feed, Folder):
            return False
        return self.site.engine.can_place(self.schema)

    def _damage(self, arrivals: Iterable[Arrival]) -> str | None:
        """What is wrong with the copies of some arrivals' rows; None when nothing is."""
        files = ((self.home_of(a), f) for a in arrivals for f in (*a.inserted, *a.deleted) if f.checksum)
        return any_damage((home / file.path, file.size, file.checksum) for home, file in files)

    def inserted_files(self, after: int, upto: int) -> list[tuple[str, int]]:
        """The files of rows that were inserted after one version up to another, and how many each holds, as far as anything is read from
        them; whether they are what was committed is not looked at. Raises TempuraError ROWS_UNKNOWN."""
        wanted = self._wanted(self.arrivals()[:upto], after, upto)
        sides = [(file, self.home_of(a)) for a in wanted.arrivals for file in a.inserted]
        rows = {str(home / file.path): file.rows for file, home in [*((f, self.folder) for f in wanted.whole), *sides]}
        return [(path, rows.get(path, 0)) for path in self._rows(wanted).inserted]

    def present(self, arrivals: Sequence[Arrival]) -> Source:
        """The rows of the version after these arrivals."""
        return Source(self.schema, self.rows(arrivals))

    def rows(self, arrivals: Sequence[Arrival]) -> Rows:
        """The rows of the version after these arrivals."""
        return self._rows_of_version(self._wanted(arrivals, 0, len(arrivals)))

    def _rows_of_version(self, wanted: Content) -> Rows:
        """The rows of a content that is all of a version."""
        rows = self._rows(wanted)
        return replace(rows, places=self._places(wanted.arrivals)) if wanted.is_placed else rows

    def _places(self, arrivals: Iterable[Arrival]) -> dict[str, tuple[str, ...]]:
        """Which columns of the files of deletions tell where the deleted rows lie."""
        return {str(self.copies / file.path): a.places for a in arrivals if a.places for file in a.deleted}

    def _rows_of(self, arrival: Arrival) -> Rows:
        """The rows of one arrival."""
        return self._rows(Content(None, (arrival,)))

    def _rows(self, wanted: Content) -> Rows:
        # Files without rows are left out: a push may write an empty file of deletions, which makes nothing signed.
        return self.in_place(wanted.in_place) + self.copies_of(a for a in wanted.arrivals if a.copied or a.deleted)

    def copies_of(self, arrivals: Iterable[Arrival]) -> Rows:
        """The rows of some arrivals that are in files of the warehouse's own."""
        arrivals = tuple(arrivals)
        inserted = tuple(str(self.copies / f.path) for a in arrivals if a.copied for f in a.inserted if f.rows)
        deleted = tuple(str(self.copies / f.path) for a in arrivals for f in a.deleted if f.rows)
        files = [(self.copies / f.path, a.schema) for a in arrivals for f in (*a.inserted, *a.deleted) if f.rows]
        return Rows(inserted, deleted, narrow=self._narrow(files))

    def _narrow(self, files: Sequence[tuple[Path, str]]) -> dict[str, int]:
        """Of files with the schemas under which they arrived, those from before columns were added, and how many columns they have.
        Files lying where they were written may have had a column of that name all along: of what arrived without it, it is NULL all
        the same."""
        known = {schema: width(schema, self.schema) for schema in {schema for _, schema in files}}
        full = len(self.schema.fields)
        return {str(path): n for path, schema in files if (n := known[schema]) is not None and n < full}

    def in_place(self, files: Iterable[Placed]) -> Rows:
        """The rows of files that are read where they are, or under their second names when they are there no more as they arrived.
        Raises TempuraError ROWS_UNKNOWN."""
        wanted = [(file, schema) for file, schema in files if file.rows]
        places = [self.folder / file.path for file, _ in wanted]
        if self.feed is None or all(_is_as_it_was(path, file) for path, (file, _) in zip(places, wanted, strict=True)):
            return self._below(self.folder, wanted, places)
        named = [self._named_otherwise(file) for file, _ in wanted]
        bases = {self.held.folder if path.is_relative_to(self.held.folder) else self.folder for path in named}
        if len(bases) > 1 and any(partition_columns(file.path) for file, _ in wanted):
            # Columns are read out of paths below one folder only.
            raise self._unknown(next(f for (f, _), p in zip(wanted, named, strict=True) if self.folder in p.parents))
        return self._below(min(bases), wanted, named)

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
        what = f"Table {self.name}: the rows of {self.folder / file.path}, which has arrived, are not known any more."
        return TempuraError("ROWS_UNKNOWN", what, *anew(self.name, "Put the file back"))

    def _below(self, base: Path, files: Sequence[Placed], paths: Sequence[Path]) -> Rows:
        partitioned = self.spec.path and any(partition_columns(file.path) for file, _ in files)
        narrow = self._narrow([(path, schema) for path, (_, schema) in zip(paths, files, strict=True)])
        return Rows(tuple(map(str, paths)), (), str(base) if partitioned else None, narrow=narrow)

    def home_of(self, arrival: Arrival) -> Path:
        """The folder that the paths of an arrival's files are relative to."""
        return self.copies if arrival.copied else self.folder

    # --- what arrives -----------------------------------------------------------------------------------------------

    def register(self) -> int:
        """Register what has come in the table's feed; nothing to do for a managed table. Returns the version.

        Raises TempuraError FOLDER_MISSING, FILE_CHANGED, FILE_GONE, WRONG_SCHEMA, BAD_CHANGE, and as :meth:`push` does for a broken
        promise.
        """
        for last in reversed(range(_ATTEMPTS_AT_REGISTERING)):
            try:
                return self._register()
            except TempuraError as error:
                # Another process registered the same at the same moment: look again at what is left to register.
                if error.code != "COMMIT_LOST" or not last:
                    raise
        raise AssertionError("unreachable")

    def _register(self) -> int:
        if self.feed is None:
            return self.version()
        arrivals, number = self.opened()
        for taken, batch in enumerate(self.feed.pending(live(arrivals), self.schema, self.widen)):
            tell_ignored(self.name, arrivals, batch.ignored)
            arrivals = (*arrivals, self.take(arrivals, number + taken, batch))
        self._store_anew(arrivals)
        return len(arrivals)

    def is_at(self, version: int) -> bool:
        """Whether a version is the last one, and nothing waits to be registered. What a run would be refused for counts as waiting."""
        arrivals = self.committed()
        try:
            return len(arrivals) == version and not (self.feed and self.feed.waits(live(arrivals)))
        except TempuraError:
            return False

    def widen(self, columns: Sequence[StructField]) -> StructType:
        """Give the table more columns. Returns all. Raises TempuraError SCHEMA_CHANGED, COMMIT_LOST."""
        self._adopt_columns()
        self._redeclared(add_columns(self.site.declarations, self.site.engine, self.name, self.spec, columns))
        return self.schema

    def _adopt_columns(self) -> None:
        """Take up columns that were added, by another process perhaps, since this object was made."""
        found = self.site.declarations.read().tables.get(self.name)
        if found and replace(found, schema=self.spec.schema, added=self.spec.added) == self.spec != found:
            self._redeclared(found)

    def _redeclared(self, spec: TableSpec) -> None:
        self.spec = spec
        self.schema = self.site.engine.parse_schema(spec.schema)
        if isinstance(self.feed, Folder | Lake | Topic):
            self.feed = self._feed()

    def push(self, push: Push, id: str | None = None) -> int:
        """Write rows and commit them as one arrival of a managed table. Returns the new version, or the one that a push of the same id
        has made.

        Raises TempuraError NOT_MANAGED, NO_KEYS, WRONG_SCHEMA, STATIC_TABLE, APPEND_ONLY, DELETE_OF_MISSING, DUPLICATE_KEY,
        BAD_ID, ID_REUSED, COMMIT_LOST.
        """
        check_id(id)
        self.check_managed()
        arrivals, number = self.opened()
        before = version_of(arrivals, id)
        if before is not None:
            check_same(self.name, arrivals[before - 1], push.kind, push.count())
            return before
        pushed = Pushed(id, push.kind, 0) if id is not None else None
        batch = Batch(changes=lambda present: push.changes(), trust=push.trust, pushed=pushed)
        self.take(arrivals, number, batch)
        return len(arrivals) + 1

    def check_managed(self) -> None:
        """Raises TempuraError NOT_MANAGED for a table that takes its rows from elsewhere."""
        if self.feed is not None:
            origin, remedy = f"the results of query {self.spec.query}", "Run that query."
            if self.spec.path:
                origin, remedy = f"the files in {self.folder}", "Put new files there."
            elif self.spec.kafka:
                origin, remedy = f"topic {self.spec.kafka.topic}", "Send records there."
            raise TempuraError("NOT_MANAGED", f"Table {self.name} takes its rows from {origin}.", remedy)

    def take(self, arrivals: Sequence[Arrival], number: int, batch: Batch) -> Arrival:
        """Make a batch the next arrival, under the next number of the ledger. ``arrivals`` are those that it comes after. Raises as
        :meth:`push` does."""
        if not batch.refreshed:
            self.check_static(arrivals)
        self.compact(arrivals)
        with attempt(self.site.files, self.site.attempts) as work:
            if batch.changes is None:
                arrival = replace(self.summarised(batch.in_place), ignored=batch.ignored)
                arrival = self._keyed(arrivals, arrival)
                self._hold(arrival.inserted)
                self.ledger.append(work, number, arrival.to_json())
                return arrival
            folder = self.copies / work.id
            beside = self.aside.folder / work.id
            with discarding(self.site.files, folder), discarding(self.site.files, beside):
                # A refresh of files that are read where they are looks at those that are there no more.
                present = Rows() if batch.whole is not None else self.rows(arrivals)
                changes = batch.changes(Source(self.schema, present))
                arrival = self.copied(folder, arrivals, batch, changes)
                self._hold(arrival.whole or ())
            with discarding_if_refused(self.site.files, folder), discarding_if_refused(self.site.files, beside):
                self.ledger.append(work, number, arrival.to_json())
        return arrival

    def _hold(self, files: Iterable[DataFile]) -> None:
        for file in files:
            self.held.hold(self.folder / file.path, file)

    def copied(self, folder: Path, arrivals: Sequence[Arrival], batch: Batch, changes: Changes) -> Arrival:
        """An arrival whose rows are written into a new folder, and keep all promises beside those of ``arrivals``: it can be
        committed. Raises as :meth:`push` does."""
        self.check_changes(changes)
        written = _Written() if changes.is_empty else self._written(folder, arrivals, changes)
        for origin in batch.origins:
            Folder(self.site.engine, self.name, self.spec, self.folder).check_unchanged(origin)
        summary = self._summarised(written.inserted, written.deleted, self.copies)
        summary = replace(summary, places=written.places, hit=files_hit(written.deleted, written.places))
        pushed = replace(batch.pushed, rows=_given(summary)) if batch.pushed else None
        summary = replace(summary, origins=batch.origins, position=batch.position, ignored=batch.ignored)
        beside = self.aside.put(folder.name, changes.aside)
        arrival = replace(summary, refreshed=batch.refreshed, pushed=pushed, aside=beside)
        if batch.refreshed and any(arrival.rows):
            self.check_static(arrivals)
        arrival = self._with_deletes_checked(folder, arrivals, arrival, batch.trust)
        arrival = self._keyed(arrivals, arrival)
        return arrival if batch.whole is None else self._with_whole(arrival, batch.whole)

    def _with_whole(self, arrival: Arrival, paths: Sequence[Path]) -> Arrival:
        """A refresh with the files that are read where they are; what is known of the columns is what these say."""
        known = {origin.path: origin.identity for origin in arrival.origins}
        found = self._summarised(paths, (), self.folder, known)
        return replace(arrival, whole=found.inserted, columns=found.columns)

    def reset(self) -> int:
        """Forget all arrivals, and begin anew with what the source holds now; empty, if rows are pushed. Returns the version.

        What is wrong with the source, as far as it is seen without reading all rows, is told before anything is forgotten. Raises
        TempuraError FOLDER_MISSING, WRONG_SCHEMA and what else :meth:`register` raises, COMMIT_LOST.
        """
        for batch in self.feed.pending((), self.schema) if self.feed else ():
            self._summarised(batch.in_place, (), self.folder, dict.fromkeys(self._names(batch.in_place), "-"))
        # Whatever became of its manifests: no version that a run has read is given again.
        version = max(self.ledger.last(), last_read(self.site.root, self.site.files, self.name)[0])
        if version:
            now = self.site.clock().astimezone(UTC).isoformat()
            begin = Arrival((), (), {}, self.schema.simpleString(), now, reset=True)
            with attempt(self.site.files, self.site.attempts) as work:
                self.ledger.append(work, version + 1, begin.to_json())
        return self.register()

    def _names(self, paths: Iterable[Path]) -> Iterable[str]:
        return (str(path.relative_to(self.folder)) for path in paths)

    def _written(self, folder: Path, arrivals: Sequence[Arrival], changes: Changes) -> "_Written":
        """The files of the rows inserted and of those deleted: by name, and because an update takes their place."""
        self.site.files.make_folder(folder)
        inserted = self._write_side(folder / "inserted", changes.inserts)
        deleted = self._write_side(folder / "deleted", changes.deletes)
        updated = self._write_side(folder / "updated", changes.updates)
        names = place_columns(self.schema.names)
        placed = self._write_side(folder / _PLACED, changes.placed, with_places(self.schema, names))
        if not updated:
            self.site.files.sync_tree(folder)
            return _Written(inserted, (*deleted, *placed), names if placed and not deleted else ())
        there = self.rows(arrivals)
        present = Source(self.schema, there + Rows(tuple(map(str, inserted)), tuple(map(str, deleted))))
        # What is found is found where it lies, unless rows are deleted by name as well.
        places = names if not deleted and self._can_place(there) else ()
        rows = self.site.engine.replaced(present, Rows(tuple(map(str, updated))), self.spec.keys, places)
        replaced = self._write_side(folder / _REPLACED, rows, with_places(self.schema, places))
        self.site.files.sync_tree(folder)
        return _Written((*inserted, *updated), (*deleted, *placed, *replaced), places)

    def _write_side(self, folder: Path, rows: Any | None, schema: StructType | None = None) -> tuple[Path, ...]:
        if rows is None:
            return ()
        self.site.engine.write(rows, schema or self.schema, folder, self.name)
        return tuple(data_files(folder))

    def compact(self, arrivals: Sequence[Arrival]) -> None:
        """Store arrivals together that were copied into the warehouse, when there are sixteen more: before the next one is taken, so
        that nothing is refused that has been committed, and what is killed or fails here has changed nothing."""
        # Of a folder's files a refresh has to tell what each has brought.
        if len(arrivals) % FAN == 0 and not isinstance(self.feed, Folder):
            since = last_reset(arrivals)
            for span in self.blocks.due(arrivals, since):
                pieces = self.blocks.read(arrivals, *span)
                before = self.blocks.read(arrivals, since, span[0]) if since < span[0] else ()
                wanted, beside = Content(None, pieces), Content(None, (*before, *pieces))
                # Places in files that are not read beside the block would be lost: then more files are read.
                if before and wanted.notes_places and not beside.holds_places:
                    continue
                # Of damaged rows whoever reads them is told.
                if not self._damage(pieces):
                    places = self._places(pieces) if wanted.notes_places and beside.is_placed else {}
                    source = Source(self.schema, replace(self._rows(wanted), places=places))
                    self._store_together(span, partial(self.site.engine.net, source, place_columns(self.schema.names)))

    def _store_anew(self, arrivals: Sequence[Arrival]) -> None:
        """Store the rows of a table that are stored elsewhere as a whole, too, when most that has arrived was deleted again: a result that
        changes as a whole is read as it is, not as the sum of its changes. Killed or failing here, all that arrived is committed."""
        since = last_reset(arrivals)
        if self._upstream and self.blocks.is_stale(arrivals, since) and (rows := self._upstream.present(arrivals)):
            self._store_together((since, len(arrivals)), rows)

    def _store_together(self, span: Span, found: Callable[[], Changes]) -> None:
        """Commit a block of the net changes of a range."""
        with attempt(self.site.files, self.site.attempts) as work:
            folder = self.copies / work.id
            with discarding(self.site.files, folder):
                self.site.files.make_folder(folder)
                net = found()
                sides = (("inserted", net.inserts), ("deleted", net.deletes))
                inserted, deleted = (self._write_side(folder / name, rows) for name, rows in sides)
                rows = self._summarised(inserted, deleted, self.copies)
                if net.placed is not None:
                    rows = self._with_placed(rows, folder / _PLACED, net.placed)
                self.site.files.sync_tree(folder)
            try:
                with discarding_if_refused(self.site.files, folder):
                    self.blocks.commit(work, span, replace(rows, position=f"arrivals {span[0] + 1} to {span[1]}"))
            except TempuraError as error:
                # Another process has stored the same.
                if error.code != "COMMIT_LOST":
                    raise

    # --- promises ---------------------------------------------------------------------------------------------------

    def check_changes(self, changes: Changes) -> None:
        """Whether the table takes changes of these kinds. Raises TempuraError NO_KEYS, APPEND_ONLY."""
        if changes.updates is not None and not self.spec.keys:
            what = f"Table {self.name} has no keys by which an update finds the row that it replaces."
            raise TempuraError("NO_KEYS", what, "Write a delete of the old row and an insert, or declare keys.")
        if (changes.deletes is not None or changes.placed is not None) and self.spec.append_only:
            raise self._append_only()

    def _append_only(self) -> TempuraError:
        remedy = "Take append_only from its declaration if rows may be deleted."
        return TempuraError("APPEND_ONLY", f"Table {self.name} is append-only; nothing was changed.", remedy)

    def check_static(self, arrivals: Sequence[Arrival]) -> None:
        """Whether another arrival may follow on these. Raises TempuraError STATIC_TABLE."""
        if self.spec.static and live(arrivals):
            remedy = "Take static from its declaration if it changes."
            raise TempuraError("STATIC_TABLE", f"Table {self.name} is static, and more rows come.", remedy)

    def _with_deletes_checked(
        self, folder: Path, arrivals: Sequence[Arrival], arrival: Arrival, trust: bool
    ) -> Arrival:
        """An arrival in ``folder`` whose deleted rows are there, and noted with their places if that can be. Raises TempuraError
        APPEND_ONLY, DELETE_OF_MISSING."""
        if self.spec.append_only and arrival.rows[1]:
            raise self._append_only()
        if trust or not arrival.rows[1] or arrival.places:
            return arrival
        placed = self._with_places(folder, arrivals, arrival)
        row = None if placed else self.site.engine.missing(self.present(arrivals), self._rows_of(arrival))
        if row is not None:
            what = f"Table {self.name}: a row to be deleted is not there, or not as often: {row}."
            remedy = "Nothing was changed. trust=True skips this check." if self.feed is None else "Correct the file."
            if isinstance(self.feed, Topic):
                remedy = "Declare keys, by which rows are deleted if they are there, in a table of another name."
            raise TempuraError("DELETE_OF_MISSING", what, remedy)
        return placed or arrival

    def _with_places(self, folder: Path, arrivals: Sequence[Arrival], arrival: Arrival) -> Arrival | None:
        """An arrival whose files of deletions tell where the deleted rows lie; None when they cannot, or some are not there."""
        present = self.present(arrivals)
        if not self._can_place(present.rows):
            return None
        found = self.site.engine.placed(present, self._rows_of(arrival), place_columns(self.schema.names))
        placed = self._with_placed(arrival, folder / _PLACED, found)
        if placed.rows[1] != arrival.rows[1]:
            self.site.files.remove_tree(folder / _PLACED)
            return None
        for home in {(self.copies / file.path).parent for file in arrival.deleted}:
            self.site.files.remove_tree(home)
        self.site.files.sync_tree(folder)
        return placed

    def _can_place(self, there: Rows) -> bool:
        """Whether it can be told where rows lie that are deleted from some that are there."""
        return self.notes_places and there.can_be_located

    def _with_placed(self, arrival: Arrival, folder: Path, rows: Any) -> Arrival:
        """An arrival whose files of deletions are new ones, of these rows with their places."""
        names = place_columns(self.schema.names)
        files = self._write_side(folder, rows, with_places(self.schema, names))
        deleted = self._summarised((), files, self.copies).deleted
        return replace(arrival, deleted=deleted, places=names, hit=files_hit(files, names))

    def _keyed(self, arrivals: Sequence[Arrival], arrival: Arrival) -> Arrival:
        """An arrival after which no two rows have one key, if there are keys. Raises TempuraError DUPLICATE_KEY."""
        if not self.spec.keys or not arrival.inserted:
            return arrival
        present = self.present(arrivals)
        key = self.site.engine.duplicate(present, self._rows_of(arrival), self.spec.keys)
        if key is not None:
            what = f"Table {self.name}: more than one row would have the key {key}."
            raise TempuraError("DUPLICATE_KEY", what, "Nothing was registered. Remove the row, or the keys promise.")
        return replace(arrival, unique=self.spec.keys)

    # --- summaries --------------------------------------------------------------------------------------------------

    def summarised(self, files: Sequence[Path]) -> Arrival:
        """The arrival that new files of the table's folder are. Raises TempuraError WRONG_SCHEMA, NOT_PARQUET."""
        return self._summarised(files, (), self.folder)

    def _summarised(
        self,
        inserted: Sequence[Path],
        deleted: Sequence[Path],
        home: Path,
        known: Mapping[str, str] | None = None,
    ) -> Arrival:
        """An arrival of these files. ``known`` are the checksums of some of them. Raises TempuraError WRONG_SCHEMA, NOT_PARQUET."""
        columns: dict[str, ColumnSummary] = {}
        told = known or {}
        # What the system says of a file is asked before its content is read: so a change meanwhile shows.
        seen = {path: (str(path.relative_to(home)), path.stat()) for path in (*inserted, *deleted)}

        with checksums(path for path, (name, _) in seen.items() if not told.get(name)) as read:

            def file(path: Path) -> DataFile:
                name, stat = seen[path]
                summary = inspect(path, self.schema, partition_columns(name), self.spec.added)
                for column, found in summary.columns.items():
                    columns[column] = columns[column] + found if column in columns else found
                written = DataFile(name, stat.st_size, stat.st_mtime_ns, summary.rows, summary.bytes)
                digest = told.get(name) or read(path)
                return replace(written, checksum=digest) if home == self.copies else replace(written, identity=digest)

            sides = [tuple(map(file, paths)) for paths in (inserted, deleted)]
        now = self.site.clock().astimezone(UTC).isoformat()
        return Arrival(sides[0], sides[1], columns, self.schema.simpleString(), now)

    def history(self) -> list[dict[str, Any]]:
        """The arrivals, as plain data."""
        return [
            {"version": n, "time": a.time, "inserted": a.rows[0], "deleted": a.rows[1], "kind": a.kind}
            | ({"set_aside": aside.count([a])} if a.aside else {})
            for n, a in enumerate(self.committed(), 1)
            if a is not FORGOTTEN
        ]

    def set_aside(self) -> Source:
        """The records that came and are no rows. Raises TempuraError ROWS_DAMAGED."""
        return self.aside.source(self.committed())

    def status(self) -> dict[str, Any]:
        """What is stored, as plain data."""
        arrivals = self.committed()
        inserted, deleted = content(arrivals).rows
        files = self._wanted(arrivals, 0, len(arrivals)).files
        return {
            "version": len(arrivals),
            "rows": inserted - deleted,
            "files": len(files),
            "bytes": sum(f.size for f in files),
            "last_arrival": arrivals[-1].time if arrivals else None,
            **({"set_aside": aside.count(arrivals)} if self.spec.kafka else {}),
            **self.spec.to_toml(),
        }


def _given(arrival: Arrival) -> int:
    """How many rows were pushed: those that an update replaces are found."""
    files = (*arrival.inserted, *arrival.deleted)
    return sum(f.rows for f in files if Path(f.path).parent.name != _REPLACED)


def _is_as_it_was(path: Path, file: DataFile) -> bool:
    """Whether a file has the size and time that it arrived with."""
    try:
        stat = path.stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (file.size, file.mtime)
