"""Cardinalities of aggregations and DISTINCT (Thrifty Query Execution via Incrementability, 3.1.2, aggregate and distinct).

The paper knows two cases: unsaturated, where each tuple makes a group of its own, and saturated, where each updates
one. Between them lie most flushes. With G groups of k rows each in the end, and the share x of all rows there, a
group has a row with probability 1 - (1 - x)^k:

    groups there        g(x) = G (1 - (1 - x)^k)
    made by inserts     g(x + i) - g(x)
    touched, and there before    G (1 - (1 - x)^k - (1 - i)^k + (1 - x - i)^k)

for inserts of the share i, in any order. u updates and deletions touch 1 - exp(-u / g) of the groups there. What was
touched since a path was flushed last comes out once, as one update, however often it was touched: that is what a
slower pace saves.

Where a join gives a group its rows, they do not come in any order: before the one row of a table that has the group's
key, its *anchor*, none of them is there, and with it come all that wait for it, as one change of one group. Of the
groups whose anchor is there, a share a of all, the formulas hold with x / a in place of x.
"""

from dataclasses import dataclass

import numpy as np

from tempura.pace.flow import Array, Flow, Release


@dataclass(frozen=True)
class Groups:
    """``number`` groups in the end, of ``rows`` rows together. ``is_one``: without keys, so that there is always one.
    ``shows_updates``: a group that gets rows changes its values (not of DISTINCT). ``only_extremes``: all aggregates
    are MIN or MAX, which change when a new extreme comes, as one of n rows in any order is with probability 1 / n.
    ``has_extremes``: some are. ``sees_updates``: it reads columns that updates change."""

    number: float
    rows: float
    is_one: bool = False
    shows_updates: bool = True
    only_extremes: bool = False
    has_extremes: bool = False
    sees_updates: bool = True

    @property
    def each(self) -> float:
        """Rows of a group in the end."""
        return max(1.0, self.rows / max(self.number, 1e-9))

    def there(self, rows: Array, begun: Array | float = 1.0) -> Array:
        """Groups that have one of so many rows, all of them of a share of the groups that have begun."""
        return self.number * begun * (1.0 - (1.0 - self._share(rows, begun)) ** self.each)

    def _share(self, rows: Array, begun: Array | float) -> Array:
        """The share that is there of the rows of a group that has begun."""
        return np.clip(rows / np.maximum(self.rows * begun, 1e-9), 0.0, 1.0)

    def released(self, given: Flow, at: Release, anchored: Array | None = None) -> Flow:
        """What comes out of the changes that were ``given``, when a path is flushed. ``anchored``: the share, per step, of the groups
        that may have rows; all of them if not given."""
        inserted, updated, deleted = (at.since_last(kind) for kind in given.so_far)
        touching = (updated if self.sees_updates else 0.0) + deleted
        old = np.where(at.now, at.at_last(given.after), 0.0)
        if self.is_one:
            return self._one(at, inserted + touching, old)
        if anchored is None:
            return self._many(old, inserted, deleted, touching)
        begun = np.broadcast_to(anchored, at.now.shape)
        return self._many(old, inserted, deleted, touching, np.where(at.now, at.at_last(begun), 0.0), begun)

    def _one(self, at: Release, tuples: Array, old: Array) -> Flow:
        was = at.now & (at.last > 0)
        changed = np.where(was, np.minimum(1.0, tuples), 0.0)
        moved = np.minimum(1.0, tuples / np.maximum(old + tuples, 1.0))
        if self.only_extremes:
            changed = changed * moved
        return Flow(np.where(at.now & ~was, 1.0, 0.0), changed, np.zeros_like(old), moved)

    def _many(
        self,
        old: Array,
        inserted: Array,
        deleted: Array,
        touching: Array,
        begun: Array | float = 1.0,
        begun_now: Array | float = 1.0,
    ) -> Flow:
        most = old + inserted
        before, middle = self.there(old, begun), self.there(most, begun_now)
        after = self.there(most - deleted, begun_now)
        had, has = self._share(old, begun), self._share(most, begun_now)
        new = np.maximum(0.0, has - had)
        by_inserts = (
            self.number
            * begun
            * (
                1.0
                - (1.0 - had) ** self.each
                - (1.0 - new) ** self.each
                + np.clip(1.0 - had - new, 0.0, 1.0) ** self.each
            )
        )
        left_alone = 1.0 - np.clip(by_inserts / np.maximum(before, 1e-9), 0.0, 1.0)
        touched = before * (1.0 - left_alone * np.exp(-touching / np.maximum(middle, 1e-9)))
        dead = middle - after
        updated = np.maximum(0.0, touched - dead) if self.shows_updates else np.zeros_like(old)
        tuples = inserted + touching
        per_group = most / np.maximum(middle, 1e-9)
        moved = np.minimum(1.0, tuples / np.maximum(touched + middle - before, 1e-9) / np.maximum(per_group, 1.0))
        if self.only_extremes:
            updated = updated * moved
        return Flow(middle - before, updated, dead, moved)
