"""Cardinalities of the first rows in an order, windows, sorts, and of what is computed from all rows.

**First rows.** The paper's sort gives all rows anew and its limit the first N of them. Ours gives out the difference:
if rows come in any order, the share of the first rows that is new since the last flush is the share of all rows that is new.

**Windows.** All rows of a partition that gets or loses one may change their values.

**Sorts** have no effect on a bag, and pass changes on (the paper: K deletes and K + I - D inserts). What Spark
recomputes gives all it gave before as deletes, and all it gives now as inserts.
"""

from dataclasses import dataclass

import numpy as np

from tempura.pace.flow import Array, Flow, Release
from tempura.pace.flow_groups import Groups


@dataclass(frozen=True)
class FirstRows:
    """The first ``limit`` rows."""

    limit: float

    def released(self, given: Flow, at: Release) -> Flow:
        """What comes out when a path is flushed."""
        inserted, updated, deleted = (at.since_last(kind) for kind in given.so_far)
        old = np.where(at.now, at.at_last(given.after), 0.0)
        now = np.maximum(old + inserted - deleted, 0.0)
        size_before, size = np.minimum(self.limit, old), np.minimum(self.limit, now)
        new = np.minimum(1.0, (inserted + deleted) / np.maximum(old + inserted, 1e-9))
        entering = np.maximum(size * new, size - size_before)
        stirred = 1.0 - np.exp(-updated / np.maximum(old, 1e-9))
        return Flow(entering, (size - entering) * stirred, entering - size + size_before, given.moved)


@dataclass(frozen=True)
class Partitions:
    """The rows of windows over ``groups`` as partitions."""

    groups: Groups

    def released(self, given: Flow, at: Release) -> Flow:
        """What comes out when a path is flushed."""
        inserted, _, deleted = (at.since_last(kind) for kind in given.so_far)
        old = np.where(at.now, at.at_last(given.after), 0.0)
        changed = self.groups.released(given, at)
        there = self.groups.there(old)
        stirred = np.clip((changed.upd + changed.dele) / np.maximum(there, 1e-9), 0.0, 1.0)
        return Flow(inserted, np.maximum(0.0, old - deleted) * stirred, deleted, np.ones_like(old))


@dataclass(frozen=True)
class Unchanged:
    """A sort."""

    def released(self, given: Flow, at: Release) -> Flow:
        """What comes out when a path is flushed."""
        inserted, updated, deleted = (at.since_last(kind) for kind in given.so_far)
        return Flow(inserted, updated, deleted, given.moved)


@dataclass(frozen=True)
class Recomputed:
    """What Spark computes as it is: ``share`` rows per row of the input."""

    share: float

    def released(self, given: Flow, at: Release) -> Flow:
        """What comes out when a path is flushed."""
        now = np.where(at.now, given.after, 0.0) * self.share
        old = np.where(at.now, at.at_last(given.after), 0.0) * self.share
        return Flow(now, np.zeros_like(now), old, np.ones_like(now))


Blocking = Groups | FirstRows | Partitions | Unchanged | Recomputed
"""What a blocking operator gives out for what it was given."""


def looked_through(kind: Blocking, given: Flow) -> Array:
    """Kept tuples that a flush of the operator's own segment looks through again, beyond looking rows up: of MIN and
    MAX the group whose extreme has gone, of the first rows themselves, of windows the partitions that changed, else
    all rows."""
    busy = given.tuples > 0
    match kind:
        case Groups(has_extremes=True):
            return np.minimum(given.dele + given.upd, given.after)
        case FirstRows(limit):
            return np.where(busy, np.minimum(limit, given.after), 0.0)
        case Groups() | Unchanged():
            return np.zeros_like(given.ins)
    return np.where(busy, given.after, 0.0)
