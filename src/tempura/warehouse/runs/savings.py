"""What the runs of a query took, against what plain Spark would have taken to recompute each of its results.

What a recomputation takes is measured, by Spark alone and over rows that were there; nothing is estimated. Tables grow: a result over fewer
rows than were measured is taken to cost in proportion, one over more to cost what was measured. A recomputation does not shrink in
proportion, for part of it does not depend on rows, and it grows; so what is said to be saved is rather less than what was. But where it
grows faster than rows do, as products of rows, results of long before are said to have saved more than they did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tempura.frontend.clock import is_clock
from tempura.warehouse.batches.arrivals import Arrival
from tempura.warehouse.batches.content import cumulative, last_reset
from tempura.warehouse.runs.entries import HistoryEntry

Versions = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What plain Spark took to recompute a result, as it was measured at a ``time`` (ISO, UTC), over ``versions`` of the tables, which had
    ``rows_read`` rows together. ``label`` names the run whose result it was, ``fingerprint`` the query, ``engine`` is the version of Spark.
    It is the fastest of so many ``runs``, which follow on each other until the session is warm; what takes a minute is not run again."""

    time: str
    label: str
    versions: Versions
    rows_read: int
    fingerprint: str
    engine: str
    rows: int = 0
    cpu_seconds: float = 0.0
    driver_seconds: float = 0.0
    wall_seconds: float = 0.0
    runs: int = 1

    @property
    def all_cpu_seconds(self) -> float:
        """CPU seconds of tasks and driver."""
        return self.cpu_seconds + self.driver_seconds

    def to_json(self) -> dict[str, Any]:
        """Plain data for a manifest."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Recomputation":
        """The inverse of :meth:`to_json`."""
        return Recomputation(**{part.name: data[part.name] for part in fields(Recomputation)})

    def __str__(self) -> str:
        of = f"the fastest of {self.runs} runs" if self.runs > 1 else "run once, not warmed up"
        took = f"{self.all_cpu_seconds:.2f} CPU s, {self.wall_seconds:.2f} s"
        return f"plain Spark took {took} to recompute {self.label} over {self.rows_read:,} rows ({of})"


@dataclass(frozen=True, slots=True)
class Savings:
    """The ``runs`` of a query ``since`` the first that counts (its time), which gave so many ``results``: CPU seconds of all of them, each
    at its price, and the seconds that those with results took, for which their readers waited. ``recomputed_cpu_seconds`` and
    ``recomputed_wall_seconds``: the same of plain Spark, had it recomputed each result; None while that was not measured. ``left_out``
    are runs of which it is not known how many rows the tables had."""

    query: str
    runs: int
    results: int
    left_out: int
    since: str | None
    cpu_seconds: float
    wall_seconds: float
    recomputed_cpu_seconds: float | None
    recomputed_wall_seconds: float | None
    measured: tuple[Recomputation, ...]

    @property
    def cpu_saved(self) -> float | None:
        """The part of the CPU seconds that was saved; negative when more was spent. None when that is not known."""
        return _saved(self.cpu_seconds, self.recomputed_cpu_seconds)

    @property
    def wall_saved(self) -> float | None:
        """The same of the seconds."""
        return _saved(self.wall_seconds, self.recomputed_wall_seconds)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"cpu_saved": self.cpu_saved, "wall_saved": self.wall_saved}


def _saved(taken: float, recomputed: float | None) -> float | None:
    return 1 - taken / recomputed if recomputed else None


def savings(
    query: str,
    entries: Sequence[HistoryEntry],
    rows: Mapping[str, Sequence[int | None]],
    measured: Sequence[Recomputation],
    is_priced: bool,
) -> Savings:
    """What runs took and recomputing would have taken. ``rows`` of each table at its versions, from 0; None where that is forgotten.
    ``is_priced``: the times at which work runs have prices."""
    known = [(entry, rows_read(entry.versions, rows)) for entry in entries]
    counted = [(entry, read, entry.weight if is_priced else 1.0) for entry, read in known if read is not None]
    results = [(entry, read, price) for entry, read, price in counted if entry.rows is not None and entry.complete]
    instead = [(*_instead(read, measured), price) for _, read, price in results] if measured else []
    return Savings(
        query=query,
        runs=len(counted),
        results=len(results),
        left_out=len(entries) - len(counted),
        since=counted[0][0].logical_time if counted else None,
        cpu_seconds=sum(entry.run_cpu_seconds * price for entry, _, price in counted),
        wall_seconds=sum(entry.run_wall_seconds for entry, _, _ in results),
        recomputed_cpu_seconds=sum(cpu * price for cpu, _, price in instead) if measured else None,
        recomputed_wall_seconds=sum(wall for _, wall, _ in instead) if measured else None,
        measured=tuple(measured),
    )


def _instead(read: int, measured: Sequence[Recomputation]) -> tuple[float, float]:
    """What plain Spark would have taken for a result over so many rows, CPU seconds and seconds: by the measurement over the fewest rows
    that are as many, the last of these, and in proportion; if all are over fewer, what was measured over the most."""
    newest = list(reversed(measured))
    larger = [found for found in newest if found.rows_read >= read]
    found = min(larger, key=lambda f: f.rows_read) if larger else max(newest, key=lambda f: f.rows_read)
    part = min(1.0, read / found.rows_read) if found.rows_read else 1.0
    return part * found.all_cpu_seconds, part * found.wall_seconds


def rows_read(versions: Versions, rows: Mapping[str, Sequence[int | None]]) -> int | None:
    """How many rows the tables have together at some versions; None when that is not known of all. Clocks are no tables."""
    known = ((rows.get(name, ()), n) for name, n in versions.items() if not is_clock(name))
    found = [counts[n] if n < len(counts) else None for counts, n in known]
    return None if None in found else sum(filter(None, found))


def rows_at_versions(arrivals: Sequence[Arrival]) -> list[int | None]:
    """How many rows a table has at each version, from 0; None for those that a reset made it forget."""
    since = last_reset(arrivals)
    known = cumulative(arrivals, range(since, len(arrivals) + 1))
    return [*[None] * since, *(inserted - deleted for inserted, deleted in known)]
