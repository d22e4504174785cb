"""Flushes of a query that runs at paces: what a step of one of its segments was a part of."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Flush:
    """One flush, as noted in each step that it took. ``n`` counts the flushes of ``life``, which is that of the query at paces;
    ``segment`` is what the step has run, and ``paths`` those that it released, by number, ``names`` all that the flush was to release.
    ``came``: how many rows of each table had come since the cycle began, ``progress`` what share that is. ``versions`` of the tables
    that were there. ``predicted`` is the expected work of the whole flush in nanoseconds (None: nothing was planned). ``complete``: it
    released everything; ``until``: the deadline that it was the last flush of."""

    n: int
    life: int
    segment: int
    paths: tuple[int, ...]
    names: tuple[str, ...]
    came: Mapping[str, int] = field(default_factory=dict)
    progress: float = 0.0
    versions: Mapping[str, int] = field(default_factory=dict)
    predicted: int | None = None
    complete: bool = False
    until: str | None = None

    @property
    def label(self) -> str:
        """For people."""
        return f"flush {self.n}" + (" (last)" if self.until else "")

    def to_json(self) -> dict[str, Any]:
        """Plain data for a manifest."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Flush":
        """The inverse of :meth:`to_json`."""
        return Flush(**{**data, "paths": tuple(data["paths"]), "names": tuple(data["names"])})
