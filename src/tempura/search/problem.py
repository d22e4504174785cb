"""What the planner is asked: a query, the time points, and what is known or expected of the tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tempura.algebra.rel import Rel
from tempura.physical.operators import StateKey


@dataclass(frozen=True, slots=True)
class Point:
    """A time point of the plan. ``weight`` is the price of work there; ``output`` says that the result is due; ``done`` marks
    a point of the past (only the first point may be), at which nothing can run but whose states can be loaded."""

    weight: float
    output: bool
    done: bool = False


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of a table's column. ``distinct`` values (estimate), fraction of NULLs, least and greatest value as numbers
    where the type has an order that maps to numbers."""

    distinct: float
    null_fraction: float = 0.0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table over the plan's time points.

    ``inserted[i]``, ``deleted[i]``: rows inserted and deleted in all arrivals up to point i, cumulative. For the first
    ``known`` points these are facts (pinned inputs), after that expectations, which change cost but never correctness.
    ``static`` and ``append_only`` are promises that the warehouse enforces, so they are facts for all points.
    """

    inserted: tuple[int, ...]
    deleted: tuple[int, ...]
    known: int
    static: bool = False
    append_only: bool = False
    row_bytes: float = 64.0
    columns: Mapping[str, ColumnStats] = field(default_factory=dict)

    def is_unchanged(self, t: int, u: int) -> bool:
        """Whether it is a fact that nothing arrives after point t up to point u."""
        known = u < self.known and (self.inserted[t], self.deleted[t]) == (self.inserted[u], self.deleted[u])
        return self.static or known

    def is_insert_only(self, t: int, u: int) -> bool:
        """Whether it is a fact that no row is deleted after point t up to point u. From before the first point: t = -1."""
        before = self.deleted[t] if t >= 0 else 0
        return self.static or self.append_only or (u < self.known and before == self.deleted[u])


@dataclass(frozen=True, slots=True)
class Problem:
    """A planning problem. ``states`` are the stored states that can be loaded (their ``time`` is a point of this problem)."""

    query: Rel
    points: tuple[Point, ...]
    tables: Mapping[str, TableFacts]
    states: frozenset[StateKey] = frozenset()
