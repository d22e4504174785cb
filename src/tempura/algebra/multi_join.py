"""Inner joins of any number of relations, in no particular order."""

from collections.abc import Sequence
from dataclasses import dataclass

from tempura.algebra.once import cached_property
from tempura.algebra.rel import Join, Many, Rel
from tempura.algebra.scalar import Column, Expr, conjunction, conjuncts


@dataclass(frozen=True, eq=False)
class MultiJoin(Many):
    """All combinations of a row of each of the ``terms`` that satisfy a condition; linear in each term. Which terms are joined first
    is left open: a delta is best joined starting from the change, a snapshot in another order."""

    on: Expr

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return sum((term.columns for term in self.terms), ())

    @property
    def computed(self) -> tuple[Expr, ...]:
        return (self.on,)

    @property
    def label(self) -> str:
        return f"multi-join on {self.on}"


def next_join(left: Rel, right: Rel, open_parts: Sequence[Expr]) -> Join:
    """``left ⋈ right`` on those parts of a condition that can be decided there."""
    known = left.column_set | right.column_set
    return Join(left, right, "inner", conjunction(*(part for part in open_parts if part.reads_only(known))))


def in_order(rel: MultiJoin) -> Rel:
    """As joins of two, from left to right, each part of the condition as soon as its columns are there."""
    made, parts = rel.terms[0], list(conjuncts(rel.on))
    for term in rel.terms[1:]:
        made = next_join(made, term, parts)
        known = made.column_set
        parts = [part for part in parts if not part.reads_only(known)]
    return made


def connects(parts: Sequence[Expr], known: frozenset[Column], new: frozenset[Column]) -> bool:
    """Whether some part of a condition joins relations with these columns to one with new ones."""
    return any(part.columns & known and part.columns & new and part.columns <= known | new for part in parts)
