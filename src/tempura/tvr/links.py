"""Links: the parts into which a TVR is split. A part is a TVR of its own (inter-TVR relationships; Tempura, section 4.2).

``Q.P`` in a rule is a *linked* relation, a leaf: whoever knows the links of Q says which expression it stands for.
"""

from dataclasses import dataclass
from functools import cached_property

from tempura.algebra.rel import Rel
from tempura.algebra.scalar import Column

LINKS: dict[str, str] = {}
"""The kinds of links: what each means for the TVR ``Q`` that has it."""


def link_kind(name: str, meaning: str) -> str:
    """Add a kind of link, for rules that split TVRs in another way. Returns its name.

    Raises ValueError when the name is taken with another meaning.
    """
    if LINKS.setdefault(name, meaning) != meaning:
        raise ValueError(f"a link {name} exists already: {LINKS[name]}")
    return name


P = link_kind("P", "the part of Q = P + N that never loses a row while the tables only grow (IM-2)")
N = link_kind("N", "the rest of Q = P + N, whose rows may be lost when more rows arrive (IM-2)")


@dataclass(frozen=True, eq=False)
class Linked(Rel):
    """The part of ``rel`` to which its link of a kind leads; it has the columns of ``rel``."""

    rel: Rel
    kind: str

    def __post_init__(self) -> None:
        if self.kind not in LINKS:
            raise ValueError(f"no kind of link is named {self.kind}: {', '.join(LINKS)}")

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.rel.columns

    @property
    def label(self) -> str:
        return f"{self.rel}.{self.kind}"
