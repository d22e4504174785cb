"""Tables as they would be if all that has come were registered now: for plans and dry runs, which write nothing."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, ColumnSummary, DataFile, totals
from tempura.warehouse.batches.content import live
from tempura.warehouse.batches.places import place_columns, with_places
from tempura.warehouse.batches.sketch import ColumnSketch
from tempura.warehouse.declared.declare import TableSpec
from tempura.warehouse.engine import Source
from tempura.warehouse.sources.feed import Batch
from tempura.warehouse.tables.promises import check_changes, check_static
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.writing import summarised_in_place


class Prospect:
    """A table and what waits in its feed. Files that are read in place are summarised as when they are registered; rows that would be
    copied are counted where they are. What a registration finds out by comparing rows (keys, deletes of missing rows) is not checked."""

    def __init__(self, table: Arrivals) -> None:
        self._table = table
        self._updates = False
        self._sketches: dict[str, ColumnSketch] = {}

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    @property
    def table(self) -> Arrivals:
        """What is stored of it."""
        return self._table

    @property
    def spec(self) -> TableSpec:
        """The table's declaration."""
        return self._table.spec

    @property
    def schema(self) -> StructType:
        """The table's columns."""
        return self._table.schema

    @property
    def version(self) -> int:
        """The version that registering would give. Raises TempuraError as ``take.register`` does, as far as it looks."""
        return len(self.arrivals())

    def arrivals(self) -> tuple[Arrival, ...]:
        """The arrivals that are committed, then those that would be."""
        return (*self._known, *self._coming)

    def follows(self, version: int, mark: str | None) -> bool:
        """As :meth:`Arrivals.follows`."""
        return self._table.follows(version, mark)

    def mark(self, version: int) -> str:
        """As :meth:`Arrivals.mark`; "" for what is not committed."""
        return self._table.mark(version) if version <= len(self._known) else ""

    def deletions(self, version: int) -> tuple[int, int]:
        """As :meth:`Arrivals.deletions`."""
        known = min(version, len(self._known))
        set_off, placed = self._table.deletions(known)
        coming = totals(self._coming[: version - known])[1]
        return (0, placed + coming) if self.notes_places and not set_off else (set_off + coming, placed)

    def files(self, after: int, upto: int) -> int:
        """As :meth:`Arrivals.files`."""
        known = len(self._known)
        coming = self._coming[max(0, after - known) : max(0, upto - known)]
        more = sum(len(arrival.inserted) + len(arrival.deleted) for arrival in coming)
        return more + (self._table.files(after, min(upto, known)) if after < min(upto, known) else 0)

    @property
    def notes_places(self) -> bool:
        """As :meth:`Arrivals.notes_places`."""
        return self._table.notes_places

    def source(self, after: int, upto: int) -> Source:
        """Raises TempuraError NOT_EXECUTABLE: a step is run over what is registered."""
        what = f"A step reads table {self.name} up to version {upto}, which is only looked at."
        raise TempuraError("NOT_EXECUTABLE", what, "This is a defect of Tempura; please report it.")

    @property
    def coming(self) -> tuple[Arrival, ...]:
        """The arrivals that would be registered."""
        return self._coming

    @property
    def sketches(self) -> Mapping[str, ColumnSketch]:
        """Those of what they would bring that is in no file yet."""
        return self._sketches if self._coming else {}

    @property
    def waiting(self) -> str:
        """For people: the rows that wait, and which of them are an estimate; empty when none do."""
        if not self._coming:
            return ""
        inserted, deleted = totals(self._coming)
        less = f", {deleted:,} less" if deleted else ""
        estimated = " (an estimate: as if each update replaced a row)" if self._updates else ""
        return f"{self.name}: {inserted:,} rows more{less}, not yet registered{estimated}"

    @cached_property
    def _known(self) -> tuple[Arrival, ...]:
        return self._table.arrivals()

    @cached_property
    def _coming(self) -> tuple[Arrival, ...]:
        return tuple(self._pending())

    def _pending(self) -> Iterator[Arrival]:
        arrivals = self._known
        feed = self._table.feed
        for batch in feed.pending(live(arrivals), self.schema) if feed else ():
            check_static(self._table, arrivals)
            found = batch.each(self._arrival)
            arrivals = (*arrivals, *found)
            yield from found

    def _arrival(self, batch: Batch) -> Arrival:
        return self._counted(batch) if batch.changes else summarised_in_place(self._table, batch.in_place)

    def _counted(self, batch: Batch) -> Arrival:
        assert batch.changes is not None
        changes = self._table.site.engine.split(batch.changes(self._table.present(self._known)))
        check_changes(self._table, changes)
        columns: dict[str, ColumnSummary] = {}
        inserted, deleted, updated = (
            self._side(rows, columns, stay)
            for rows, stay in ((changes.inserts, True), (changes.deletes, False), (changes.updates, True))
        )
        # Places are no columns of the table.
        placed = self._side(changes.placed, {}, False, with_places(self.schema, place_columns(self.schema.names)))
        self._updates = self._updates or bool(updated)
        # Of an update only reading all keys says whether it replaces a row.
        return Arrival(
            (*inserted, *updated),
            (*deleted, *placed, *updated),
            columns,
            origins=batch.origins,
            position=batch.position,
        )

    def _side(
        self, rows: object | None, columns: dict[str, ColumnSummary], stay: bool, schema: StructType | None = None
    ) -> tuple[DataFile, ...]:
        """Rows as a file that they would be; what is known of them is added to ``columns``, and to sketches if they ``stay``."""
        if rows is None:
            return ()
        found = self._table.site.engine.look(rows, schema or self.schema, self.name)
        for name, summary in found.columns.items():
            columns[name] = columns[name] + summary if name in columns else summary
        for name, sketch in found.sketches.items() if stay else ():
            self._sketches[name] = self._sketches[name] + sketch if name in self._sketches else sketch
        return (DataFile("", 0, 0, found.rows, found.bytes),) if found.rows else ()
