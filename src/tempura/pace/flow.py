"""Expected changes: how many tuples are inserted, updated and deleted at each step, for several pace configurations at once.

All arrays have a row per configuration and a column per step of the simulation; a step at which nothing is flushed
has zeros. An update is one tuple taken away and one put in its place, which is what an operator processes, and is
counted apart because it meets filters and groups in another way than a deletion and an insertion of rows that have
nothing to do with each other (Thrifty Query Execution via Incrementability, 3.1.1).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal as OneOf

import numpy as np
from numpy.typing import NDArray

from tempura.algebra.scalar import Call, Expr, conjuncts

Array = NDArray[np.float64]
Steps = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Flow:
    """Tuples per configuration and step. ``moved`` says how far an update moves the values that it changes, from 0
    (they stay nearly what they were) to 1 (they are drawn anew)."""

    ins: Array
    upd: Array
    dele: Array
    moved: Array

    @cached_property
    def after(self) -> Array:
        """Rows that are there after each step: the state that the changes leave."""
        return np.cumsum(self.ins - self.dele, axis=-1)

    @cached_property
    def before(self) -> Array:
        """Rows that are there before each step."""
        return self.after - self.ins + self.dele

    @cached_property
    def tuples(self) -> Array:
        """Tuples that a reader processes."""
        return self.ins + self.dele + 2.0 * self.upd

    @cached_property
    def so_far(self) -> tuple[Array, Array, Array]:
        """Sums of all steps up to each one, of the three kinds."""
        return tuple(np.cumsum(kind, axis=-1) for kind in (self.ins, self.upd, self.dele))  # type: ignore[return-value]


@dataclass(frozen=True)
class Release:
    """When a path is flushed: ``now`` per configuration and step, and, where it is, the step of the flush before (1
    is the first step, 0 that there was none)."""

    now: Mask
    last: Steps

    def since_last(self, so_far: Array) -> Array:
        """What of a running sum came after the last flush; 0 where there is none now."""
        return np.where(self.now, so_far - self.at_last(so_far), 0.0)

    def at_last(self, so_far: Array) -> Array:
        """A running quantity as it was at the last flush; 0 before the first."""
        padded = np.concatenate((np.zeros((so_far.shape[0], 1)), so_far), axis=1)
        return np.take_along_axis(np.broadcast_to(padded, (len(self.last), padded.shape[1])), self.last, axis=1)


def release_at(now: Mask) -> Release:
    """Flushes at given steps."""
    steps = np.where(now, np.arange(1, now.shape[1] + 1), 0)
    latest = np.maximum.accumulate(steps, axis=1)
    return Release(now, np.concatenate((np.zeros((len(now), 1), dtype=np.int64), latest[:, :-1]), axis=1))


Sensitivity = OneOf["none", "range", "exact"]
"""How a condition looks at values that updates change: not at all; by order, so that small moves seldom matter; otherwise."""

_RANGES = ("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")


def sensitivity(condition: Expr, changing: frozenset[str]) -> Sensitivity:
    """How a condition depends on the columns, by identity, that updates change. Tests for NULL do not count: an
    aggregate of a group that lives is NULL seldom."""
    found: Sensitivity = "none"
    for part in conjuncts(condition):
        if not isinstance(part, Call) or part.function in ("IsNotNull", "IsNull"):
            continue
        if not any(column.id in changing for column in part.columns):
            continue
        if part.function not in _RANGES:
            return "exact"
        found = "range"
    return found


def flips(kind: Sensitivity, moved: Array) -> Array:
    """The share of updates for which a condition is decided anew."""
    if kind == "none":
        return np.zeros_like(moved)
    return np.ones_like(moved) if kind == "exact" else moved
