"""Generators: functions that make any number of rows of each row (explode, LATERAL VIEW, stack)."""

from dataclasses import dataclass

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Unary
from tempura.algebra.scalar import Call, Column, Expr

GENERATORS = frozenset(("Explode", "PosExplode", "Inline", "Stack", "ReplicateRows", "JsonTuple"))
"""Generators whose rows are a function of the row that they are made of, by Catalyst's class names."""


@dataclass(frozen=True, eq=False)
class Generate(Unary):
    """Each row once per row that ``generator`` makes of it, followed by that row's values in the columns ``outputs``. ``outer``:
    a row of which none is made stays, with NULLs. Linear."""

    row_by_row = True
    generator: Call
    outputs: tuple[Column, ...]
    outer: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + self.outputs

    @property
    def computed(self) -> tuple[Expr, ...]:
        return self.generator.operands

    @property
    def label(self) -> str:
        kind = "generate outer" if self.outer else "generate"
        return f"{kind} {', '.join(c.name for c in self.outputs)} by {self.generator}"
