"""Links: the parts into which a TVR is split. A part is a TVR of its own (inter-TVR relationships; Tempura, section 4.2).

``Q.P`` in a rule is a *linked* relation, a leaf: whoever knows the links of Q says which expression it stands for.
"""

from dataclasses import dataclass
from functools import cached_property

from tempura.algebra.rel import Rel
from tempura.algebra.scalar import Column


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of link: its name in rules, and what the part to which it leads means for the TVR ``Q`` that has it. ``grows``: such a part
    never loses a row, while nothing does that the rules which split ask to only grow."""

    name: str
    meaning: str
    grows: bool = False


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Kinds of links that belong together: at all times the parts add up to the whole, and none has a row that it does not have."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return f"Q = {' + '.join(part.name for part in self.parts)}"


P, N = "P", "N"

STAYING_AND_LOOSE = Decomposition(
    (
        Part(P, "the part of Q = P + N that never loses a row while the tables only grow (IM-2)", grows=True),
        Part(N, "the rest of Q = P + N, whose rows may be lost when more rows arrive (IM-2)"),
    )
)
"""The decomposition of IM-2."""


@dataclass(frozen=True, eq=False)
class Linked(Rel):
    """The part of ``rel`` to which its link of a kind leads; it has the columns of ``rel``."""

    rel: Rel
    kind: str

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.rel.columns

    @property
    def label(self) -> str:
        return f"{self.rel}.{self.kind}"
