"""Cardinalities of joins (Thrifty Query Execution via Incrementability, 3.1.2, inner-join and semi-join, outer-join
and anti-join).

**Pairs.** With the join selectivity factor f a change of the left side meets the rows that the right side had, and a
change of the right side those that the left side has now: ``f dL R + f L' dR``, each tuple with its kind. An update
that changes what the condition looks at takes pairs away and adds others.

**Rows that match.** The paper takes a row to match none of |R| rows with probability (1 - p)^|R|. Rows differ: some
never match, and those that do have k matches in the end. If rows of the right side come in any order, a row has no
match yet, when the share x of them is there, with probability

    1 - m(x),    m(x) = c (1 - (1 - x)^k)

where c is the share of rows that match in the end: exact at x = 1, and the paper's formula for c = 1 and many rows.
Where it is known how the numbers k differ, m is the average over them: late in the day nearly all rows that find their
first match are those that have one only. Rows go from one state to the other by ``m`` after deletions and after
insertions, so both directions of one flush are seen.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tempura.algebra.rel import JoinKind
from tempura.pace.flow import Array, Flow


class Matching:
    """Which share of the rows of one side match something: ``covered`` in the end, by ``each`` rows on average of the
    ``total`` rows that the other side has then. ``unlike``: multiples of that average with the shares of the matching rows that have
    them."""

    def __init__(self, covered: float, each: float, total: float, unlike: Sequence[tuple[float, float]] = ()) -> None:
        self._covered = min(1.0, covered)
        self._each = [(max(1.0, each * times), share) for times, share in unlike or [(1.0, 1.0)]]
        self._total = total

    def share(self, rows: Array) -> Array:
        """The share that matches when the other side has so many rows."""
        if self._total <= 0:
            return np.zeros_like(rows)
        missing = np.clip(1.0 - rows / self._total, 0.0, 1.0)
        return self._covered * (
            1.0 - sum((share * missing**each for each, share in self._each), np.zeros_like(missing))
        )


def joined(
    kind: JoinKind,
    left: Flow,
    right: Flow,
    factor: float,
    flip: tuple[Array, Array],
    of: tuple[Matching, Matching],
    shows: tuple[bool, bool] = (True, True),
) -> Flow:
    """The changes of a join. ``flip[side]`` is the share of a side's updates that change what the condition looks at;
    ``of[side]`` says which of its rows match; ``shows[side]`` whether updates change a column that is still there. Where none is, a row
    that is updated is the same as before: pairs are taken away and added as they come, a row by itself stays."""
    if kind == "inner":
        return _pairs(left, right, factor, flip)
    kept = [
        side if shown else replace(side, upd=np.zeros_like(side.upd))
        for side, shown in zip((left, right), shows, strict=True)
    ]
    match kind:
        case "semi":
            return _kept(kept[0], right, of[0], flip[1])[0]
        case "anti":
            return _kept(kept[0], right, of[0], flip[1])[1]
        case "exists":
            return _marked(kept[0], right, of[0], flip[1])
    alone = [_kept(kept[0], right, of[0], flip[1])[1]]
    if kind == "full":
        alone.append(_kept(kept[1], left, of[1], flip[0])[1])
    total = _pairs(left, right, factor, flip)
    for part in alone:
        total = Flow(total.ins + part.ins, total.upd + part.upd, total.dele + part.dele, total.moved)
    return total


def _pairs(left: Flow, right: Flow, factor: float, flip: tuple[Array, Array]) -> Flow:
    """The pairs that come and go."""
    found, partners = left.after * factor, right.before * factor
    both = left.upd * partners, right.upd * found
    anew = both[0] * flip[0] + both[1] * flip[1]
    return Flow(
        left.ins * partners + right.ins * found + anew,
        both[0] + both[1] - anew,
        left.dele * partners + right.dele * found + anew,
        np.maximum(left.moved, right.moved),
    )


def _kept(own: Flow, other: Flow, of: Matching, flip: Array) -> tuple[Flow, Flow]:
    """The rows of a side that match something, and those that match nothing."""
    before, after, gained, lost = _moves(own, other, of, flip)
    matched = Flow(own.ins * after + gained, own.upd * before, own.dele * before + lost, own.moved)
    alone = Flow(own.ins * (1 - after) + lost, own.upd * (1 - before), own.dele * (1 - before) + gained, own.moved)
    return matched, alone


def _marked(own: Flow, other: Flow, of: Matching, flip: Array) -> Flow:
    """Each row with whether it matches: one that changes sides is updated."""
    _, _, gained, lost = _moves(own, other, of, flip)
    return Flow(own.ins, own.upd + gained + lost, own.dele, np.ones_like(own.moved))


def _moves(own: Flow, other: Flow, of: Matching, flip: Array) -> tuple[Array, Array, Array, Array]:
    """The shares that match before and after, and how many rows find a first match or lose their last."""
    anew = other.upd * flip
    before, after = of.share(other.before), of.share(other.after)
    between = of.share(np.maximum(other.before - other.dele - anew, 0.0))
    return before, after, own.before * np.maximum(after - between, 0.0), own.before * np.maximum(before - between, 0.0)
