"""What runs have counted, as estimates of what runs to come will find.

A refresh is like the one before it: the same views of the same classes, one time later. So an operator over views is named by what it
computes and by how long before its own time each view is of: whoever computes it again, at a later time of the ledger or of the plan, finds
the name again. Its rows are expected to be off from what tables let expect by as much as they were when they were counted. Where nobody has
computed it of what is new, a condition or a join is expected to be off by as much as of all rows.
"""

import hashlib
from collections.abc import Mapping
from math import ceil

from tempura.algebra.canonical import fingerprint, operator_text
from tempura.algebra.rel import Aggregate, Filter, Join, Rel
from tempura.algebra.states import Partial
from tempura.cost.estimate import Estimator
from tempura.memo.memo import Memo
from tempura.physical.operators import Read
from tempura.plan.progressive import Size
from tempura.search.facts import PlanFacts
from tempura.tvr.staircase import Staircase, Time
from tempura.tvr.views import Delta, Snapshot, State, StateDelta, View, ViewKind

Rows = tuple[float, float]
"""Rows that were counted, and those that were expected then."""

COUNTED = (Join, Aggregate, Partial, Filter)
"""Operators whose rows are neither those of their input nor known. Spark counts what comes out of them anyway."""
_OF_SHARES = (Join, Filter)
"""Those that leave a share of the rows, or pairs, that there are: it says something of what is new among these, too."""
_WHOLE = "Snapshot 0"


class Counts:
    """Rows of operators and views, as ``counted`` by runs before: by name the rows, and how many were expected then. ``expected`` is an
    estimator that knows nothing of what was counted."""

    def __init__(
        self,
        counted: Mapping[str, Rows],
        expected: Estimator,
        memo: Memo,
        facts: PlanFacts,
        staircase: Staircase,
    ) -> None:
        self._counted = counted
        self._expected = expected
        self._memo = memo
        self._facts = facts
        self._order = ",".join(staircase.order)
        self._names: dict[Rel, str | None] = {}
        self._texts: dict[tuple[Rel, int | None], str] = {}

    def rows(self, rel: Rel) -> float | None:
        """How many rows an operator or a view is expected to have, if a run has counted them; else None."""
        return self._as_off(rel, self.name(rel)) if self._counted else None

    def rows_by_whole(self, rel: Rel) -> float | None:
        """How many rows a condition or a join is expected to have by what a run has counted of it over all rows of now; None where none
        has."""
        return (
            self._as_off(rel, hashed(self._text(rel, None)))
            if self._counted and isinstance(rel, _OF_SHARES) and self.name(rel)
            else None
        )

    def _as_off(self, rel: Rel, name: str | None) -> float | None:
        known = self._counted.get(name or "")
        if known is None:
            return None
        rows, expected = known
        # One more of each: of few rows nobody knows by how much an estimate is off.
        return self._expected.rows(rel) * (rows + 1) / (expected + 1)

    def size(self, rel: Rel) -> Size | None:
        """Under what name the rows of an operator or a view are to be remembered; None where they are not."""
        name = self.name(rel)
        return Size(name, self._expected.rows(rel)) if name else None

    def name_at_the_end(self, rel: Rel) -> str:
        """The name of any operator over views up to the last time point."""
        return hashed(self._text(rel, self._facts.last))

    def name(self, rel: Rel) -> str | None:
        """The name of an operator over views, or of a view; None of what is not counted."""
        if not isinstance(rel, COUNTED) and not (isinstance(rel, View) and isinstance(rel.at, Delta)):
            return None
        if rel not in self._names:
            self._names[rel] = self._find_name(rel)
        return self._names[rel]

    def _find_name(self, rel: Rel) -> str | None:
        leaves = [leaf for leaf in rel.walk() if not leaf.inputs]
        views = [view for leaf in leaves if (view := _viewed(leaf))]
        if not views or len(views) < len(leaves):
            return None
        return hashed(self._text(rel, max(ceil(at.until) for _, at in views)))

    def _text(self, rel: Rel, now: int | None) -> str:
        """What an operator computes, and how long before ``now`` its views are of; without it, as if they were all of now, and of all
        rows."""
        # Orders of a join are many, and what they are made of is the same.
        if (rel, now) not in self._texts:
            self._texts[rel, now] = self._find_text(rel, now)
        return self._texts[rel, now]

    def _find_text(self, rel: Rel, now: int | None) -> str:
        view = _viewed(rel)
        if view:
            return f"{self._memo.fingerprint(view[0])}{_WHOLE if now is None else self._at(*view, now)}"
        return operator_text(rel, [f"({self._text(input, now)})" for input in rel.inputs])

    def _at(self, tvr: Rel, at: ViewKind, now: int) -> str:
        match at:
            case Snapshot(t) | State(t):
                times: tuple[Time, ...] = (t,)
            case Delta(t, u) | StateDelta(t, u):
                times = (t, u)
        return f"{type(at).__name__} {' '.join(self._before(tvr, t, now) for t in times)}"

    def _before(self, tvr: Rel, t: Time, now: int) -> str:
        """How many times before now a point is: none where nothing has changed since."""
        if self._facts.is_unchanged(tvr, t, now):
            return "0"
        return f"{now - t}" if t == int(t) else f"{now - t} of {self._order}"


def _viewed(leaf: Rel) -> tuple[Rel, ViewKind] | None:
    """What a leaf is a view of: the rows of a table are one of its scan."""
    if isinstance(leaf, View):
        return leaf.tvr, leaf.at
    return (leaf.scan, leaf.at) if isinstance(leaf, Read) else None


def hashed(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def counted_names(rel: Rel) -> tuple[str, ...]:
    """Under which names :class:`Counts` remembers an operator over time-free inputs: applied to all of their rows and, of one input, to
    those that were new; what says more comes first."""
    kinds = (_WHOLE, "Delta 1 0")[: 1 + (len(rel.inputs) == 1)]
    return tuple(
        hashed(operator_text(rel, [f"({fingerprint(input)}{kind})" for input in rel.inputs])) for kind in kinds
    )
