"""How far a query at paces has come: of the rows that are expected between two moments, how many have arrived."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.tables.uses import Use
from tempura.warehouse.times.forecast import declared_rows

_FULL = 1 - 1e-9
"""Before the deadline something may always come."""

_OFF = 2.0
"""What comes is as expected within this factor."""

_EARLY = 0.1
"""In the first part of the time nothing is made of what has come."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The time from ``since`` to ``until``, when a result is due. ``expected`` are the rows that come in it, by table; of none where
    nothing is known: then time tells how far it has come."""

    since: datetime
    until: datetime
    expected: Mapping[str, int]

    def time(self, now: datetime) -> float:
        """The share of the time that has passed."""
        passed = (now - self.since) / max(self.until - self.since, (self.until - self.since).resolution)
        return min(1.0, max(0.0, passed))

    def progress(self, came: Mapping[str, int], now: datetime) -> float:
        """The share of the rows that has come: below 1 until the deadline."""
        rows = sum(self.expected.values())
        if not rows:
            return min(_FULL, self.time(now))
        return min(_FULL, sum(min(came.get(table, 0), least) for table, least in self.expected.items()) / rows)

    def observed(self, came: Mapping[str, int], now: datetime) -> "Cycle":
        """With what is expected by now: of a table in which more came than was to come, or less than half or more than twice of what was
        to come by now, what came and, for the rest of the time, what was expected."""
        passed = self.time(now)

        def expected(table: str, rows: int) -> int:
            found, by_now = came.get(table, 0), rows * passed
            as_expected = passed < _EARLY or by_now / _OFF <= found <= by_now * _OFF
            return rows if as_expected and found <= rows else round(found + rows * (1 - passed))

        return replace(self, expected={table: expected(table, rows) for table, rows in self.expected.items()})

    def total(self, came: Mapping[str, int], now: datetime) -> dict[str, int]:
        """The rows that each table is expected to get in the cycle: as known, else as many in the rest of the time as so far."""
        passed = max(self.time(now), 1e-3)
        return {table: max(rows, self.expected.get(table, round(rows / passed))) for table, rows in came.items()}


def rows_since(arrivals: Iterable[Arrival], since: datetime, until: datetime | None = None) -> int:
    """How many rows came, or went, in the arrivals between two moments."""
    found = (a for a in arrivals if a.time and since <= datetime.fromisoformat(a.time))
    return sum(sum(a.rows) for a in found if until is None or datetime.fromisoformat(a.time) <= until)


def expected_in(table: Use, since: datetime, before: Cycle | None) -> int | None:
    """How many rows are expected in a table in a cycle that begins at a moment: as declared, or as many as in the cycle ``before``; None
    when neither is known."""
    arrivals = table.arrivals()
    if table.spec.expect is not None:
        there = sum(a.rows[0] - a.rows[1] for a in arrivals if a.time and datetime.fromisoformat(a.time) < since)
        return declared_rows(table.spec.expect, there)
    return rows_since(arrivals, before.since, before.until) if before else None
