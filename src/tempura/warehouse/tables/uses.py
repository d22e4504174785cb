"""What queries read: tables as they are stored, as they would be, as one use of it in a query sees it, and clocks."""

from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.declared.declare import TableSpec
from tempura.warehouse.engine import Source
from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import register


@dataclass(frozen=True, slots=True)
class Use:
    """A table at a version, whatever has arrived since. ``name`` is what the query calls this use, which may be one of several of the
    table. ``next_rows``: how many rows are expected to come until the use is at its next version, if that is known of it alone."""

    name: str
    table: Arrivals | Prospect
    version: int
    next_rows: int | None = None

    @property
    def spec(self) -> TableSpec:
        """The table's declaration. What has not been released of a static table will come."""
        spec = self.table.spec
        spec = spec if self.next_rows is None else replace(spec, expect=str(self.next_rows))
        return spec if self.version else replace(spec, static=False)

    @property
    def schema(self) -> StructType:
        """The table's columns."""
        return self.table.schema

    def arrivals(self) -> tuple[Arrival, ...]:
        """The arrivals that count."""
        return self.table.arrivals()[: self.version]

    def mark(self, version: int) -> str:
        """As :meth:`Arrivals.mark`."""
        return self.table.mark(version)

    def follows(self, version: int, mark: str | None) -> bool:
        """As :meth:`Arrivals.follows`."""
        return self.table.follows(version, mark)

    def deletions(self, version: int) -> tuple[int, int]:
        """As :meth:`Arrivals.deletions`."""
        return self.table.deletions(version)

    def files(self, after: int, upto: int) -> int:
        """As :meth:`Arrivals.files`."""
        return self.table.files(after, upto)

    @property
    def notes_places(self) -> bool:
        """As :meth:`Arrivals.notes_places`."""
        return self.table.notes_places

    def source(self, after: int, upto: int) -> Source:
        """As :meth:`Arrivals.source`."""
        return self.table.source(after, upto)


Input = Arrivals | Prospect | Clock | Use
"""What a query reads."""


def version_to_read(table: Input) -> int:
    """The version that a run reads: of a table with all that has come, which is registered. Raises TempuraError as :func:`register`
    does, BAD_TIMEZONE for a clock."""
    return register(table) if isinstance(table, Arrivals) else table.version
