"""Tables of a lake, Delta or Iceberg, as feeds: all rows at first, then what their feed says has changed, if it can be trusted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql.types import StructType

from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.declared.declare import TableSpec
from tempura.warehouse.engine import Changes, Engine, Fit, Source
from tempura.warehouse.sources import delta, iceberg
from tempura.warehouse.sources.feed import Advance, Batch, Widen
from tempura.warehouse.sources.widening import Unknown

LAKES: Mapping[str, Callable[[str, Path, str], Advance | None]] = {"delta": delta.advance, "iceberg": iceberg.advance}
"""Per format, what is to be read to come from a position to the table as it is now."""


WHOLE: Mapping[str, Callable[[str, Path], Advance]] = {"delta": delta.whole, "iceberg": iceberg.whole}
"""Per format, how to read all rows that the table holds now."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The feed of a table that lies in a lake."""

    engine: Engine
    table: str
    spec: TableSpec
    path: Path

    def pending(self, arrivals: Sequence[Arrival], schema: StructType, widen: Widen | None = None) -> Iterator[Batch]:
        """All that is new as one arrival. That the rows which it deletes are there is checked as for any other.

        Raises TempuraError FOLDER_MISSING, FEED_REPLACED, FEED_EXPIRED, FEED_OFF, FEED_NOT_APPENDED; NO_PACKAGE, FEED_UNREADABLE when
        the rows are read; WRONG_SCHEMA for new columns that are refused.
        """
        if not arrivals:
            self.check_followed()
        found = LAKES[self.format](self.table, self.path, arrivals[-1].position if arrivals else "")
        if found:
            yield self._batch(found, schema, widen)

    def whole(self, schema: StructType, widen: Widen) -> Batch:
        """All rows that the table holds now, to be compared with what has arrived. Raises as :meth:`pending` does."""
        found = WHOLE[self.format](self.table, self.path)
        batch = self._batch(found, schema, widen) if found.position else Batch(changes=lambda present: Changes())

        def changes(present: Source) -> Changes:
            rows = batch.changes(present).inserts if batch.changes else None
            return self.engine.difference([] if rows is None else [rows], present)

        return replace(batch, changes=changes, refreshed=True, trust=True)

    def _batch(self, found: Advance, schema: StructType, widen: Widen | None) -> Batch:
        unknown = self._unknown(schema)
        if self.spec.on_new_columns == "refuse":
            unknown.refuse("take the column from the table in the lake")
        added = unknown.fields(schema) if widen and self.spec.on_new_columns == "add" else []
        schema = widen(added) if widen and added else schema
        optional = (*self.spec.added, *(field.name for field in added))
        fit = Fit(schema, optional, drop=self.spec.on_new_columns != "refuse")
        return Batch(
            changes=lambda present: self.engine.load_lake(self.format, self.path, found.options, fit),
            position=found.position,
            ignored=() if added else tuple(unknown.places),
        )

    def waits(self, arrivals: Sequence[Arrival]) -> bool:
        """Whether the log has something new. Raises TempuraError FOLDER_MISSING, FEED_REPLACED, FEED_EXPIRED, FEED_OFF,
        FEED_NOT_APPENDED."""
        return self._advance(arrivals) is not None

    def _advance(self, arrivals: Sequence[Arrival]) -> Advance | None:
        if not arrivals:
            self.check_followed()
        return LAKES[self.format](self.table, self.path, arrivals[-1].position if arrivals else "")

    @property
    def format(self) -> str:
        """That of the lake."""
        return self.spec.format

    def check_followed(self) -> None:
        """Raises TempuraError FEED_OFF when nothing would say what changes after the rows that are there, and something may."""
        if self.format == "delta" and not self.spec.static:
            delta.check_feed_on(self.table, self.path)

    def _unknown(self, schema: StructType) -> Unknown:
        new = (name for name in self._schema(self.path).names if name not in schema.names)
        return Unknown(self.table, dict.fromkeys(new, self.path), self._schema)

    def _schema(self, place: Path) -> StructType:
        return self.engine.lake_schema(self.format, place)
