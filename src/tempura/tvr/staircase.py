"""Points of time: one time per changing table, restricted to those that a relation reads, on one staircase.

Between two times of a plan the tables move on one after the other, in one order. A point is the number ``t - 1 + i/m`` when the first
``i`` of ``m`` tables are seen at t and the others still at t - 1; at a whole number all are seen at the same time. So points are ordered.
A relation that reads some of the tables tells those points apart at which one of its own has moved (*projection*): with the order R, S
the snapshot ``R[:1/2]`` is ``R[:1]``, and ``S[:1/2]`` is ``S[:0]``. Work for a point is done at the greatest of its times.
"""

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

Time = int | Fraction
"""A whole number is an index into the time points of a plan: 0 is the first, whatever happened before it. Others lie between two
of these, on the plan's staircase."""


def whole(t: Time) -> int:
    """A time at which all tables are seen alike, as an index. Raises ValueError for a point between two times."""
    if t != int(t):
        raise ValueError(f"{t} is not a time of the plan")
    return int(t)


@dataclass(frozen=True, slots=True)
class Staircase:
    """The order in which the changing tables move on between two times. Tables that it does not name never change."""

    order: tuple[str, ...] = ()

    def seen(self, table: str, t: Time) -> int:
        """The time at which a table is seen at a point."""
        if isinstance(t, int):
            return t
        return ceil(t) if table in self.order[: self._moved(t)] else floor(t)

    def between(self, tables: Set[str], t: int) -> tuple[Time, ...]:
        """The points between t - 1 and t that relations over some tables tell apart: some of these have moved, but not all."""
        return tuple(t - 1 + Fraction(i, len(self.order)) for i in self._steps(tables)[:-1])

    def projected(self, tables: Set[str], t: Time) -> Time:
        """The one name of a point for a relation over some tables: the first at which the same of these have moved."""
        if isinstance(t, int):
            return t
        steps = self._steps(tables)
        done = [i for i in steps if i <= self._moved(t)]
        if len(done) == len(steps):
            return ceil(t)
        return floor(t) + Fraction(done[-1], len(self.order)) if done else floor(t)

    def _moved(self, t: Time) -> int:
        """How many tables have moved on at a point between two times."""
        return int((t - floor(t)) * len(self.order))

    def _steps(self, tables: Set[str]) -> list[int]:
        return [i for i, table in enumerate(self.order, 1) if table in tables]


TOGETHER = Staircase()
"""Where no table moves alone."""
