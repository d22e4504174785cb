"""Links: the parts into which a TVR is split. A part is a TVR of its own (inter-TVR relationships; Tempura, section 4.2).

``Q.P`` in a rule is a *linked* relation, a leaf: whoever knows the links of Q says which expression it stands for.
"""

from dataclasses import dataclass

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Rel
from tempura.algebra.scalar import Column


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of link: its name in rules, and what the part to which it leads means for the TVR ``Q`` that has it. ``grows``: such a part
    never loses a row, while nothing does that the rules which split ask to only grow. ``unaffected``, where TVRs are split by table: such
    a part stays as it is while nothing but the table changes."""

    name: str
    meaning: str
    grows: bool = False
    unaffected: bool = False


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Kinds of links that belong together: at all times the parts add up to the whole, and none has a row that it does not have.
    ``by_table``: a TVR has such parts for each table, and they may be others for another table."""

    parts: tuple[Part, ...]
    by_table: bool = False

    def __str__(self) -> str:
        table = "[T]" if self.by_table else ""
        return f"Q = {' + '.join(part.name + table for part in self.parts)}"


P, N = "P", "N"

STAYING_AND_LOOSE = Decomposition(
    (
        Part(P, "the part of Q = P + N that never loses a row while the tables only grow (IM-2)", grows=True),
        Part(N, "the rest of Q = P + N, whose rows may be lost when more rows arrive (IM-2)"),
    )
)
"""The decomposition of IM-2."""


DIRECT, INDIRECT, UNAFFECTED = "D", "I", "U"

AFFECTED_BY_TABLE = Decomposition(
    (
        Part(DIRECT, "the rows of Q = D + I + U that are made with a row of the table: directly affected (OJV)"),
        Part(
            INDIRECT, "the rows of Q = D + I + U without one, which may come and go with it: indirectly affected (OJV)"
        ),
        Part(UNAFFECTED, "the rows of Q = D + I + U that are there whatever the table has (OJV)", unaffected=True),
    ),
    by_table=True,
)
"""The decomposition of outer-join view maintenance."""


@dataclass(frozen=True, eq=False)
class Linked(Rel):
    """The part of ``rel`` to which its link of a kind, and for a table if it is split by table, leads; it has the columns of ``rel``."""

    rel: Rel
    kind: str
    table: str | None = None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.rel.columns

    @property
    def label(self) -> str:
        return f"{self.rel}.{self.kind}" + (f"[{self.table}]" if self.table else "")
