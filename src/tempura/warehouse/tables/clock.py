"""The clocks that queries read: tables whose only row is the time of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from pyspark.sql.types import StructType

from tempura.frontend.clock import clock_schema, is_clock, zone_of_today
from tempura.search.problem import ColumnStats, TableFacts
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.declared.declare import TableSpec
from tempura.warehouse.engine import Source
from tempura.warehouse.times.slots import zone_of

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock at the logical time of a run. The version *is* what it shows, in microseconds or days since 1970: nothing is stored, and
    what it showed at another run follows from the version that the run read."""

    name: str
    time: datetime
    spec = TableSpec("")

    @property
    def schema(self) -> StructType:
        """Its only column."""
        return clock_schema(self.name)

    @property
    def version(self) -> int:
        """The version at the logical time. Raises TempuraError BAD_TIMEZONE."""
        zone = zone_of_today(self.name)
        if zone:
            return (self.time.astimezone(zone_of(zone)).date() - _EPOCH.date()).days
        return (self.time.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)

    def mark(self, version: int) -> str:
        """A time is no other's."""
        return ""

    def follows(self, version: int, mark: str | None) -> bool:
        """One time follows on another."""
        return True

    def source(self, after: int, upto: int) -> Source:
        """What it shows at one version, in the place of what it showed at another (0: of nothing)."""
        signs = [(upto, 1), *([(after, -1)] if after else [])]
        rows = tuple(((_shown(self.name, version),), sign) for version, sign in signs if after != upto)
        return Source(self.schema, Rows(given=rows))


def _shown(clock: str, version: int) -> date | datetime:
    if zone_of_today(clock):
        return _EPOCH.date() + timedelta(days=version)
    return _EPOCH + timedelta(microseconds=version)


def version_text(name: str, version: int) -> str:
    """For people: the version of a table, or what a clock shows, in UTC."""
    return f"{name} = {_shown(name, version)}" if is_clock(name) else f"{name} version {version}"


def clock_facts(pinned: Sequence[int], points: int) -> TableFacts:
    """The facts of a clock whose versions at the first points are ``pinned``. It is expected to change at each of the rest."""
    changes = [0]
    for before, after in pairwise(pinned):
        changes.append(changes[-1] + (before != after))
    changes += [changes[-1] + i for i in range(1, points - len(pinned) + 1)]
    column = {field.name: ColumnStats(1.0) for field in clock_schema("").fields}
    return TableFacts(tuple(c + 1 for c in changes), tuple(changes), len(pinned), columns=column)
