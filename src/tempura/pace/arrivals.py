"""How rows arrive: the share of each table that is there after each step."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tempura.errors import TempuraError
from tempura.pace.flow import Array, Mask, Release, release_at

RATES = ("steady", "burst-middle", "burst-end")

SPIKE_WIDTH = 0.1
"""The part of the time that a burst takes."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """``rows`` of each table in the end, and ``shares``, per step, of all of them: every table at the same rate.
    ``progress``, the paper's global indicator, is the share of all rows that is there: what paces are counted in. Where rows were there
    before the first step it is ``counted``, the share of those that come."""

    rows: Mapping[str, float]
    shares: Array
    counted: Array | None = None

    @property
    def steps(self) -> int:
        """How many steps there are: the maximal pace."""
        return len(self.shares)

    @property
    def progress(self) -> Array:
        """The share of all rows that has come, per step."""
        return self.shares if self.counted is None else self.counted

    def of(self, table: str) -> Array:
        """Rows of a table that have come, per step."""
        return self.rows[table] * self.shares

    def flushes(self, pace: int) -> Mask:
        """The steps at which a path of this pace is flushed: when at least another 1 / pace of the rows has come
        since the last flush (Thrifty Query Execution via Incrementability, Algorithm 1, line 6). What came in one
        step is flushed at once, however much."""
        done = np.floor(self.progress * pace + 1e-9)
        flushed: Mask = np.diff(done, prepend=0.0) > 0
        return flushed

    def release(self, pace: int) -> Release:
        """The flushes of one path."""
        return release_at(self.flushes(pace)[np.newaxis, :])


def following(rows: Mapping[str, float], before: float, steps: int) -> Arrivals:
    """Arrivals at a steady rate in so many steps, after which there are ``rows``, of which the share ``before`` was there."""
    counted = np.arange(1, steps + 1) / steps
    return Arrivals(rows, before + (1.0 - before) * counted, counted)


def arriving(rows: Mapping[str, float], steps: int, rate: str = "steady", spike: float = 5.0) -> Arrivals:
    """Arrivals in so many steps of equal length. ``steady``: the same number of rows in each; ``burst-middle``,
    ``burst-end``: ``spike`` times as many in a tenth of the steps as steadily, and the fewer in the others.

    Raises TempuraError BAD_PACES for a spike of more rows than there are.
    """
    rates = np.ones(steps)
    if rate != "steady":
        width = max(1, round(steps * SPIKE_WIDTH))
        if not 0 < spike * width < steps:
            what = f"A spike of {spike:g} times the rate in {width} of {steps} steps leaves no rows for the others."
            raise TempuraError("BAD_PACES", what, f"Give a spike below {steps / width:g}.")
        start = (steps - width) // 2 if rate == "burst-middle" else steps - width
        rates[:] = (steps - spike * width) / (steps - width)
        rates[start : start + width] = spike
    shares = np.cumsum(rates) / rates.sum()
    shares[-1] = 1.0
    return Arrivals(rows, shares)
