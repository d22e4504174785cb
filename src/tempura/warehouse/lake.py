"""Tables of a lake, Delta or Iceberg, as feeds: all rows at first, then what their feed says has changed, if it can be trusted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import StructType

from tempura.warehouse import delta, iceberg
from tempura.warehouse.arrivals import Arrival
from tempura.warehouse.engine import Engine
from tempura.warehouse.feed import Advance, Batch

LAKES: Mapping[str, Callable[[str, Path, str], Advance | None]] = {"delta": delta.advance, "iceberg": iceberg.advance}
"""Per format, what is to be read to come from a position to the table as it is now."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The feed of a table that lies in a lake."""

    engine: Engine
    table: str
    format: str
    path: Path

    def pending(self, arrivals: Sequence[Arrival], schema: StructType) -> Iterator[Batch]:
        """All that is new as one arrival. That the rows which it deletes are there is checked as for any other.

        Raises TempuraError FOLDER_MISSING, FEED_REPLACED, FEED_EXPIRED, FEED_OFF, FEED_NOT_APPENDED; NO_PACKAGE, FEED_UNREADABLE when
        the rows are read.
        """
        found = self._advance(arrivals)
        if found:
            yield Batch(
                changes=lambda present: self.engine.load_lake(self.format, self.path, found.options),
                position=found.position,
            )

    def waits(self, arrivals: Sequence[Arrival]) -> bool:
        """Whether the log has something new. Raises TempuraError FOLDER_MISSING, FEED_REPLACED, FEED_EXPIRED, FEED_OFF,
        FEED_NOT_APPENDED."""
        return self._advance(arrivals) is not None

    def _advance(self, arrivals: Sequence[Arrival]) -> Advance | None:
        return LAKES[self.format](self.table, self.path, arrivals[-1].position if arrivals else "")
