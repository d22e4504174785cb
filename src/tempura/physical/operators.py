"""The leaves that a plan adds to the algebra: where rows come from when a step runs."""

from dataclasses import dataclass

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Rel, Scan
from tempura.algebra.scalar import Column
from tempura.tvr.views import Delta, Snapshot


@dataclass(frozen=True, slots=True)
class StateKey:
    """The identity of a stored state: ``expression`` is the fingerprint of the time-free expression (columns renumbered, see
    ``algebra.canonical``), ``kind`` says which view of it, ``time`` the plan's time point at which it was current."""

    expression: str
    kind: str  # "snapshot" or "state"
    time: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.expression[:12]}@{self.time}"


@dataclass(frozen=True, eq=False)
class Read(Rel):
    """The arrivals of a table: all up to a time, or those of an interval. ``signed`` says that some are deletions, so that the
    rows carry weights; a snapshot read that is signed is a sum that still has to be consolidated."""

    scan: Scan
    at: Snapshot | Delta
    signed: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.scan.columns

    @property
    def label(self) -> str:
        return f"read {self.scan.table}{self.at}"


@dataclass(frozen=True, eq=False)
class Load(Rel):
    """A state saved by this or an earlier step. Stored columns are positional: the i-th stored column is ``outputs[i]``."""

    key: StateKey
    outputs: tuple[Column, ...]
    name: str = ""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def label(self) -> str:
        return f"load {self.name or self.key}"
