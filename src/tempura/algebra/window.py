"""Window functions: values of a row that depend on other rows of its partition."""

from dataclasses import dataclass, field
from typing import Literal as OneOf

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Rel, Unary
from tempura.algebra.scalar import AggregateCall, Column, Expr, Literal, Output, SortKey

RANKS = frozenset(("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "NTile"))
"""Functions of a row's place in its partition."""

OFFSETS = frozenset(("Lag", "Lead"))
"""Functions of another row, found by its distance."""

ENDS = frozenset(("First", "Last", "NthValue"))
"""Functions of one row of the frame."""

BY_PEERS = frozenset(("Rank", "DenseRank", "PercentRank", "CumeDist"))
"""Those that are equal for rows which the order cannot tell apart."""

CURRENT_ROW = Literal(0, "int")
"""The bound of a frame at the row itself; in a RANGE frame at all rows that the order cannot tell from it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows that a function looks at: from ``lower`` to ``upper``, each a distance from the row (negative: before it) in rows
    or in the value of the only sort key; None is the end of the partition. ``handle`` is the engine's frame."""

    kind: OneOf["rows", "range"] = "rows"
    lower: Expr | None = None
    upper: Expr | None = None
    handle: object = field(default=None, compare=False, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole partition."""
        return self.lower is None and self.upper is None

    def __str__(self) -> str:
        if self.is_whole:
            return ""
        ends = ("start" if self.lower is None else str(self.lower), "end" if self.upper is None else str(self.upper))
        return f" {self.kind} {ends[0]}..{ends[1]}"


@dataclass(frozen=True, slots=True)
class WindowOutput:
    """A column of a window and the function that gives its value: an aggregate function, or one of ``RANKS``, ``OFFSETS``,
    ``ENDS``, over a frame."""

    column: Column
    call: AggregateCall
    frame: Frame = Frame()

    @property
    def depends_on_ties(self) -> bool:
        """Whether the value depends on the order of rows that ORDER BY cannot tell apart."""
        name = self.call.function
        if name in BY_PEERS:
            return False
        if name in RANKS or name in OFFSETS or name in ENDS:
            return True
        return self.frame.kind == "rows" and not self.frame.is_whole

    def __str__(self) -> str:
        call = f"{self.call.function}()" if self.call.function in RANKS and not self.call.operands else str(self.call)
        return f"{call}{self.frame} AS {self.column.name}"


@dataclass(frozen=True, eq=False)
class Window(Unary):
    """The input's rows, each with the values of ``functions`` over the rows of its partition in the order of ``order``.

    Partitions compare NULL equal to NULL. Rows that the order cannot tell apart are put in the order of all columns, so that the
    result is a function of the input bag. For RANGE frames and ranks such rows remain peers.
    """

    partition: tuple[Expr, ...]
    order: tuple[SortKey, ...]
    functions: tuple[WindowOutput, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(f.column for f in self.functions)

    @property
    def set_like(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def computed(self) -> tuple[Expr, ...]:
        arguments = (part for output in self.functions for part in output.call.arguments)
        return (*self.partition, *(key.expr for key in self.order), *arguments)

    @property
    def label(self) -> str:
        parts = [f"partition by {', '.join(map(str, self.partition))}"] if self.partition else []
        parts += [f"order by {', '.join(map(str, self.order))}"] if self.order else []
        return " ".join(("window", *parts, ":", ", ".join(map(str, self.functions))))


def partition_keys(partition: tuple[Expr, ...], functions: tuple[WindowOutput, ...]) -> tuple[Output, ...]:
    """The expressions that a window partitions by, as columns with identities of their own."""
    return tuple(Output(functions[0].column.derived(f"p{i}", e.type), e) for i, e in enumerate(partition))


def windows(rel: Rel) -> tuple[Window, ...]:
    """The windows of an expression."""
    return tuple(r for r in rel.walk() if isinstance(r, Window))
