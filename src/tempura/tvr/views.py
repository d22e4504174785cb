"""WHEN a relation is seen: time points, and the views of a time-varying relation (TVR; Tempura, section 3).

A TVR is written like a Python sequence: ``R[:t]`` is its snapshot at t, ``R[t:u]`` its delta, and ``R[:u] = R[:t] + R[t:u]``.
Aggregations have a second pair of views, in the attribute perspective: ``R.state[:t]`` and ``R.state[t:u]``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.once import cached_property
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Sort, TopK, Union
from tempura.algebra.scalar import Column
from tempura.algebra.states import state_layout
from tempura.algebra.window import Window
from tempura.tvr.staircase import Time


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows at a time, as a positive bag."""

    t: Time

    @property
    def until(self) -> Time:
        """The point that the view leads to."""
        return self.t

    @property
    def time(self) -> int:
        """The first time of the plan at which the view can be known."""
        return ceil(self.until)

    def __str__(self) -> str:
        return f"[:{self.t}]"


@dataclass(frozen=True, slots=True)
class Delta:
    """What has to be added, with signed weights, to the snapshot at t to get the snapshot at u."""

    t: Time
    u: Time

    @property
    def until(self) -> Time:
        return self.u

    @property
    def time(self) -> int:
        return ceil(self.until)

    def __str__(self) -> str:
        return f"[{self.t}:{self.u}]"


@dataclass(frozen=True, slots=True)
class State:
    """The aggregation state of the input's snapshot at a time."""

    t: Time

    @property
    def until(self) -> Time:
        return self.t

    @property
    def time(self) -> int:
        return ceil(self.until)

    def __str__(self) -> str:
        return f".state[:{self.t}]"


@dataclass(frozen=True, slots=True)
class StateDelta:
    """The aggregation state of the input's delta: what has to be merged into the state at t to get the state at u."""

    t: Time
    u: Time

    @property
    def until(self) -> Time:
        return self.u

    @property
    def time(self) -> int:
        return ceil(self.until)

    def __str__(self) -> str:
        return f".state[{self.t}:{self.u}]"


ViewKind = Snapshot | Delta | State | StateDelta


@dataclass(frozen=True, eq=False)
class View(Rel):
    """A view of the TVR that ``tvr`` (a time-free expression) denotes: a leaf of time-bound expressions."""

    tvr: Rel
    at: ViewKind

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        if isinstance(self.at, Snapshot | Delta):
            return self.tvr.columns
        assert isinstance(self.tvr, Aggregate), "only an aggregation has states"
        return state_layout(self.tvr.keys, self.tvr.aggregates).columns

    @property
    def label(self) -> str:
        return f"{short_name(self.tvr)}{self.at}"


SYMBOLS: Mapping[JoinKind, str] = {
    "inner": "⋈",
    "left": "⟕",
    "full": "⟗",
    "semi": "⋉",
    "anti": "▷",
    "exists": "∃",
    "single": "⟕₁",
}
"""How joins are written."""


def short_name(rel: Rel) -> str:
    """A TVR in a few characters, for people: tables and how they are combined, without conditions and columns."""
    match rel:
        case Join():
            return f"({short_name(rel.left)} {SYMBOLS[rel.kind]} {short_name(rel.right)})"
        case MultiJoin():
            return f"({' ⋈ '.join(map(short_name, rel.terms))})"
        case Aggregate():
            return f"agg({short_name(rel.input)})"
        case One():
            return f"one({short_name(rel.input)})"
        case Window():
            return f"window({short_name(rel.input)})"
        case TopK():
            return f"top{rel.limit}({short_name(rel.input)})"
        case Union(terms=(only,)):
            return short_name(only)
        case Union():
            return f"({' + '.join(map(short_name, rel.terms))})"
        case Generate():
            return f"generate({short_name(rel.input)})"
        case Filter() | Project() | Expand() | Sort():
            return short_name(rel.input)
        case _:
            return rel.label
