"""How many rows a relation has at most, as far as anything says so: for decisions that go wrong badly when an estimate is too low."""

from collections.abc import Callable
from math import inf

from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    Negate,
    Project,
    Rel,
    Sort,
    Support,
    TopK,
    Union,
    Values,
)
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.algebra.window import Window
from tempura.cost.conditions import split_equalities
from tempura.physical.operators import Load, Read
from tempura.tvr.views import View

_MATCHES = 4
"""Rows of the one side that match a row of the other, at most: of joins by an equality nearly all are by a key of some side."""


class Bounds:
    """Bounds of relations. ``leaf`` says how many rows a read, a load or a view has at most. Filters and joins by an equality are trusted
    to leave few rows no more than keys warrant."""

    def __init__(self, leaf: Callable[[Read | Load | View], float]) -> None:
        self._leaf = leaf
        self._known: dict[Rel, float] = {}

    def rows(self, rel: Rel) -> float:
        """At most so many rows; infinite when nothing is known."""
        if rel not in self._known:
            self._known[rel] = self._bound(rel)
        return self._known[rel]

    def _bound(self, rel: Rel) -> float:
        match rel:
            case Read() | Load() | View():
                return self._leaf(rel)
            case Values():
                return len(rel.rows)
            case TopK():
                return min(rel.limit, self.rows(rel.input))
            case Join():
                return self._join(rel)
            case Union() | MergeStates():
                return sum(map(self.rows, rel.inputs))
            case (
                Filter()
                | Project()
                | Sort()
                | Negate()
                | Consolidate()
                | Support()
                | Aggregate()
                | Partial()
                | Finalize()
                | Window()
            ):
                # An aggregation without keys has one row over none.
                return max(1.0, self.rows(rel.inputs[0]))
        return inf

    def _join(self, rel: Join) -> float:
        left, right = map(self.rows, rel.inputs)
        if rel.kind in ("semi", "anti", "exists", "single"):
            return left
        pairs = split_equalities(rel)[0]
        matched = _MATCHES * max(left, right) if pairs else left * right
        return matched + (left if rel.kind in ("left", "full") else 0) + (right if rel.kind == "full" else 0)
