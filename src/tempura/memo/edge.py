"""Classes of equal expressions as leaves, so that an operator over classes is an operator like any other."""

from dataclasses import dataclass, field

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Rel
from tempura.algebra.scalar import Column


@dataclass(frozen=True, eq=False)
class Edge(Rel):
    """A use of a class: ``outputs[i]`` is what the user calls column i of the class. Two edges to one class with other columns are
    two uses of one TVR, as the sides of a self-join are. ``name`` is for people."""

    id: int
    outputs: tuple[Column, ...]
    name: str = field(default="", compare=False)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def label(self) -> str:
        return self.name or f"class {self.id}"
