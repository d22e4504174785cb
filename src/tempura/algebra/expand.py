"""Several rows from each row: what GROUPING SETS, ROLLUP and CUBE are made of."""

from dataclasses import dataclass

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Unary
from tempura.algebra.scalar import Column, Expr, Output


@dataclass(frozen=True, eq=False)
class Expand(Unary):
    """For each input row one row per projection; linear. All ``projections`` have the same columns, which are new ones."""

    row_by_row = True
    projections: tuple[tuple[Output, ...], ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(output.column for output in self.projections[0])

    @property
    def computed(self) -> tuple[Expr, ...]:
        return tuple(output.expr for projection in self.projections for output in projection)

    @property
    def label(self) -> str:
        return "expand " + " | ".join(", ".join(map(str, projection)) for projection in self.projections)
