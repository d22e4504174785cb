"""The notation in which rules are written: TVRs and relations with the operators of the algebra as methods.

``Tvr`` and ``Bag`` terms are different types on purpose: ``L.join(R[:t], on)`` mixes a TVR with a snapshot and is
refused by the type checker.
"""

from abc import ABC, abstractmethod
from typing import Self

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    JoinKind,
    Negate,
    Project,
    Rel,
    Sort,
    Support,
    TopK,
    Union,
)
from tempura.algebra.scalar import AggregateOutput, Call, Column, Expr, Literal, Output, Ref, SortKey, conjunction, same
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.algebra.window import Window, WindowOutput
from tempura.tvr import links
from tempura.tvr.staircase import Time
from tempura.tvr.views import Delta, Snapshot, State, StateDelta, View


class Relational(ABC):
    """Operators shared by TVRs and by relations at a time. ``rel`` is the expression that the term denotes."""

    def __init__(self, rel: Rel) -> None:
        self.rel = rel

    @abstractmethod
    def _new(self, rel: Rel) -> Self: ...

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.rel.columns

    def filter(self, predicate: Expr) -> Self:
        """The rows for which the predicate is TRUE."""
        return self._new(Filter(self.rel, predicate))

    def project(self, outputs: tuple[Output, ...]) -> Self:
        """One row per row."""
        return self._new(Project(self.rel, outputs))

    def expand(self, projections: tuple[tuple[Output, ...], ...]) -> Self:
        """One row per row and projection."""
        return self._new(Expand(self.rel, projections))

    def join(self, other: Self, on: Expr, kind: JoinKind = "inner", marker: Column | None = None) -> Self:
        """Join; inner unless said otherwise."""
        return self._new(Join(self.rel, other.rel, kind, on, marker))

    def left_join(self, other: Self, on: Expr) -> Self:
        """Left outer join."""
        return self.join(other, on, "left")

    def single_join(self, other: Self, on: Expr) -> Self:
        """Left outer join in which no row may match two rows."""
        return self.join(other, on, "single")

    def full_join(self, other: Self, on: Expr) -> Self:
        """Full outer join."""
        return self.join(other, on, "full")

    def semi_join(self, other: Self, on: Expr) -> Self:
        """The rows that match some row of ``other``."""
        return self.join(other, on, "semi")

    def anti_join(self, other: Self, on: Expr) -> Self:
        """The rows that match no row of ``other``."""
        return self.join(other, on, "anti")

    def exists_join(self, other: Self, on: Expr, marker: Column) -> Self:
        """All rows, with a column that says whether the row matches some row of ``other``."""
        return self.join(other, on, "exists", marker)

    def with_column(self, column: Column, value: Expr) -> Self:
        """Each row with one more value."""
        return self.project((*(Output(c, Ref(c)) for c in self.columns), Output(column, value)))

    def pad_right(self, other: "Relational") -> Self:
        """Append the columns of ``other``, all NULL."""
        nulls = tuple(Output(c, Literal(None, c.type)) for c in other.columns)
        return self.project(tuple(Output(c, Ref(c)) for c in self.columns) + nulls)

    def pad_left(self, other: "Relational") -> Self:
        """Put the columns of ``other`` in front, all NULL."""
        nulls = tuple(Output(c, Literal(None, c.type)) for c in other.columns)
        return self.project(nulls + tuple(Output(c, Ref(c)) for c in self.columns))

    def aggregate(self, keys: tuple[Output, ...], aggregates: tuple[AggregateOutput, ...]) -> Self:
        """One row per group."""
        return self._new(Aggregate(self.rel, keys, aggregates))

    def top(self, order: tuple[SortKey, ...], limit: int) -> Self:
        """The first rows in an order."""
        return self._new(TopK(self.rel, order, limit))

    def one(self) -> Self:
        """The only row, or NULLs."""
        return self._new(One(self.rel))

    def generate(self, generator: Call, outputs: tuple[Column, ...], outer: bool = False) -> Self:
        """Each row once per row that a generator makes of it."""
        return self._new(Generate(self.rel, generator, outputs, outer))

    def window(
        self, partition: tuple[Expr, ...], order: tuple[SortKey, ...], functions: tuple[WindowOutput, ...]
    ) -> Self:
        """Each row with the values of window functions."""
        return self._new(Window(self.rel, partition, order, functions))

    def sort(self, order: tuple[SortKey, ...]) -> Self:
        """The same bag, to be presented in an order."""
        return self._new(Sort(self.rel, order))

    def __add__(self, other: Self) -> Self:
        return self._new(Union((self.rel, other.rel)))

    def __str__(self) -> str:
        return str(self.rel)


class Bag(Relational):
    """A relation at a time: a snapshot, a delta, or anything computed from those."""

    def _new(self, rel: Rel) -> "Bag":
        return Bag(rel)

    def __neg__(self) -> "Bag":
        return Bag(Negate(self.rel))

    def __sub__(self, other: "Bag") -> "Bag":
        return self + (-other)

    def consolidate(self) -> "Bag":
        """The same bag, one entry per distinct row."""
        return Bag(Consolidate(self.rel))

    def support(self) -> "Bag":
        """The rows that changed, each once."""
        return Bag(Support(self.rel))

    def partial(self, keys: tuple[Output, ...], aggregates: tuple[AggregateOutput, ...]) -> "Bag":
        """The aggregation state of this bag."""
        return Bag(Partial(self.rel, keys, aggregates))

    def merge(self, other: "Bag", keys: tuple[Output, ...], aggregates: tuple[AggregateOutput, ...]) -> "Bag":
        """Merge two aggregation states."""
        return Bag(MergeStates(self.rel, other.rel, keys, aggregates))

    def finalize(self, keys: tuple[Output, ...], aggregates: tuple[AggregateOutput, ...]) -> "Bag":
        """The rows of an aggregation from this state."""
        return Bag(Finalize(self.rel, keys, aggregates))

    def only_groups_of(self, changed: "Bag", keys: tuple[Output, ...]) -> "Bag":
        """The rows whose group occurs in ``changed``. Both have a column for each key; NULL keys are equal to each other."""
        columns = tuple(k.column for k in keys)
        groups = changed.project(tuple(Output(c.primed(), Ref(c)) for c in columns)).support()
        return self.semi_join(groups, conjunction(*(same(Ref(c), Ref(c.primed())) for c in columns)))


class Tvr(Relational):
    """A time-varying relation."""

    def _new(self, rel: Rel) -> "Tvr":
        return Tvr(rel)

    def __getitem__(self, interval: slice) -> Bag:
        """``R[:t]`` is the snapshot at t, ``R[t:u]`` the delta from t to u."""
        if interval.start is None:
            return Bag(View(self.rel, Snapshot(interval.stop)))
        return Bag(View(self.rel, Delta(interval.start, interval.stop)))

    def part(self, kind: str, table: str | None = None) -> "Tvr":
        """The TVR to which a link leads: a part of this one, where it is split by table the one for a table. Of which kinds there are, a
        registry knows (``rules.registry``)."""
        return Tvr(links.Linked(self.rel, kind, table))

    @property
    def P(self) -> "Tvr":
        """The part that never loses a row while the tables only grow (IM-2)."""
        return self.part(links.P)

    @property
    def N(self) -> "Tvr":
        """The part whose rows may be lost (IM-2)."""
        return self.part(links.N)

    @property
    def state(self) -> "StateViews":
        """The views in the attribute perspective; for aggregations only."""
        return StateViews(self.rel)


class StateViews:
    """``R.state[:t]`` is the aggregation state at t, ``R.state[t:u]`` what is merged into it."""

    def __init__(self, rel: Rel) -> None:
        self.rel = rel

    def __getitem__(self, interval: slice) -> Bag:
        if interval.start is None:
            return Bag(View(self.rel, State(interval.stop)))
        return Bag(View(self.rel, StateDelta(interval.start, interval.stop)))


__all__ = ["Bag", "Relational", "StateViews", "Time", "Tvr"]
