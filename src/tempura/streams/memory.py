"""Memory for the caches that were chosen: by priority, in pages.

Source: *Adaptive Caching for Continuous Queries*, section 5. Caches are chosen as if there were memory for all, then get what there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tempura.streams.cache import Group

PAGE = 1024
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a group's cache gains per unit of time, upkeep deducted, and the bytes that it is expected to need."""

    net: float
    bytes: float

    @property
    def priority(self) -> float:
        """Gain per byte."""
        return self.net / max(self.bytes, 1.0)


def allocate(needs: Mapping[Group, Need], budget: int | None) -> dict[Group, int | None]:
    """The limit of each cache in bytes, whole pages, greatest priority first; None is no limit, 0 that there is nothing left for it.
    A cache may outgrow what was expected, so what is left over goes to the last that got something."""
    if budget is None:
        return dict.fromkeys(needs)
    left = budget // PAGE
    limits: dict[Group, int | None] = {}
    last: Group | None = None
    for group, need in sorted(needs.items(), key=lambda item: -item[1].priority):
        pages = min(left, -int(-need.bytes // PAGE))
        limits[group] = pages * PAGE
        left -= pages
        last = group if pages else last
    if last is not None and left:
        limits[last] = (limits[last] or 0) + left * PAGE
    return limits
