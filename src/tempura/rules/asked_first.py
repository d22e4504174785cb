"""What is asked for something is joined first.

    (R ⋈ S) ⋈ σ_p T = (R ⋈ σ_p T) ⋈ S        where the condition joins T with R only, and T is not larger

The rows of a join are found in whatever order is cheapest (:mod:`tempura.search.joins`), but a query's own joins are what has states and
changes. Where the query names two tables that change and then asks for the days of one month, what would be kept of the first, to be joined
with changes of the second, are the rows of all days; R ⋈ σ_p T are those of the month. So a query is rewritten by this law before it is
planned. Where only one relation of a join changes, nothing has to be kept of the others: such joins stay as they are, and so do those that
a query joins with something as a whole.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from tempura.algebra.failing import can_fail
from tempura.algebra.rel import Join, Project, Rel, is_renaming, keep, scans, where
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, conjunction, conjuncts, substitute
from tempura.rules.common import Conditions, Meaning, Peeled


def asked_first(query: Rel, rows: Mapping[str, int], static: Collection[str]) -> Rel:
    """A query whose inner joins begin with those that leave few rows. ``rows`` are how many each table has, ``static`` those that never
    change."""
    known: dict[Rel, Rel] = {}

    def rewritten(rel: Rel) -> Rel:
        if rel not in known:
            spine = _Spine.of(rel)
            changing = sum(any(scan.table not in static for scan in scans(term)) for term in spine.terms)
            pieces = _pieces(spine, rows) if changing > 1 and spine.can_be_changed else None
            if pieces and pieces != _as_written(spine.terms):
                known[rel] = spine.joined(tuple(map(rewritten, spine.terms)), pieces)
            else:
                known[rel] = rel.with_inputs(*map(rewritten, rel.inputs)) if rel.inputs else rel
        return known[rel]

    return rewritten(query)


# --- a join of many -----------------------------------------------------------------------------------------------------


Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""How terms are joined, by their numbers."""


@dataclass(frozen=True, eq=False)
class _Spine:
    """Inner joins, each of which is the left side of the next one, as the ``terms`` on their right sides and the first left one: all
    combinations of them that meet the conditions, and what the ``columns`` of the last join are."""

    terms: tuple[Rel, ...]
    asked: Conditions
    columns: tuple[Column, ...]
    values: Meaning

    @staticmethod
    def of(rel: Rel) -> "_Spine":
        """Conditions and projections between joins are taken in where nothing is computed that may fail for other rows."""
        bare = Peeled.of(rel)
        join = bare.core
        if not (isinstance(join, Join) and join.kind == "inner" and _are_sure((join.on, *bare.asked))):
            return _Spine((rel,), (), rel.columns, {column: Ref(column) for column in rel.columns})
        if not all(isinstance(value, Ref) for value in bare.values.values()):
            return _Spine((rel,), (), rel.columns, {column: Ref(column) for column in rel.columns})
        left = _Spine.of(join.left)
        values = {**left.values, **{column: Ref(column) for column in join.right.columns}}
        asked = (substitute(part, values) for part in (*conjuncts(join.on), *bare.asked))
        seen = {column: substitute(value, values) for column, value in bare.values.items()}
        return _Spine((*left.terms, join.right), (*left.asked, *asked), rel.columns, seen)

    @property
    def can_be_changed(self) -> bool:
        """Whether there is anything to be changed, and the terms can be told apart by names."""
        names = [column for term in self.terms for column in term.columns]
        return len(self.terms) > 2 and len(set(names)) == len(names)

    def joined(self, terms: Sequence[Rel], tree: Tree) -> Rel:
        """The terms, joined as the tree has it; each condition is asked as soon as its columns are there, and columns that nothing reads
        any more are left out, as Catalyst does."""
        read = frozenset[Column]().union(*(value.columns for value in self.values.values()))

        def made(tree: Tree, open: Conditions) -> tuple[Rel, Conditions]:
            if isinstance(tree, int):
                here, later = _decided(open, terms[tree].column_set)
                return where(terms[tree], conjunction(*here)), later
            left, open = made(tree[0], open)
            right, open = made(tree[1], open)
            on, later = _decided(open, left.column_set | right.column_set)
            join = Join(left, right, "inner", conjunction(*on))
            needed = read.union(*(part.columns for part in later))
            return keep(join, tuple(column for column in join.columns if column in needed)), later

        rel, _ = made(tree, self.asked)
        named = Project(rel, tuple(Output(column, self.values[column]) for column in self.columns))
        return rel if is_renaming(named) and rel.columns == self.columns else named


def _are_sure(conditions: Sequence[Expr]) -> bool:
    return all(part.deterministic and not can_fail(part) for part in conditions)


def _decided(open: Conditions, columns: frozenset[Column]) -> tuple[Conditions, Conditions]:
    """The conditions that these columns decide, and the others."""
    here = tuple(part for part in open if part.reads_only(columns))
    return here, tuple(part for part in open if part not in here)


# --- what comes first ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Piece:
    """Some terms, joined: the columns that they have, whether any of them is asked for something, the rows of the largest table."""

    tree: Tree
    columns: frozenset[Column]
    is_asked: bool
    rows: int

    def with_(self, other: "_Piece") -> "_Piece":
        return _Piece((self.tree, other.tree), self.columns | other.columns, True, max(self.rows, other.rows))


def _pieces(spine: _Spine, rows: Mapping[str, int]) -> Tree:
    """What is asked for something, or has been joined with that, goes to the one other piece that a condition joins it with, the smallest
    first, as long as there are such; those that are left are joined as they are written, as far as conditions join them."""
    left = [
        _Piece(i, term.column_set, _is_asked(term), max((rows[scan.table] for scan in scans(term)), default=0))
        for i, term in enumerate(spine.terms)
    ]
    while free := list(_that_go_to_one(left, spine.asked)):
        piece, other = min(free, key=lambda pair: pair[0].rows)
        left[left.index(other)] = other.with_(piece)
        left.remove(piece)
    first, *others = left
    while others:
        next_one = next((other for other in others if _is_joined(first, other, spine.asked)), others[0])
        others.remove(next_one)
        first = first.with_(next_one)
    return first.tree


def _that_go_to_one(pieces: Sequence[_Piece], asked: Conditions) -> Iterator[tuple[_Piece, _Piece]]:
    for piece in pieces:
        joined = [other for other in pieces if other is not piece and _is_joined(piece, other, asked)]
        if piece.is_asked and len(joined) == 1 and piece.rows <= joined[0].rows:
            yield piece, joined[0]


def _is_joined(one: _Piece, other: _Piece, asked: Conditions) -> bool:
    return any(part.columns & one.columns and part.columns & other.columns for part in asked)


def _is_asked(term: Rel) -> bool:
    """Whether a relation, or one that it joins, is asked for more than that there is a value."""
    bare = Peeled.of(term)
    if isinstance(bare.core, Join) and bare.core.kind == "inner" and any(map(_is_asked, bare.core.inputs)):
        return True
    return any(not (isinstance(part, Call) and part.function == "IsNotNull") for part in bare.asked)


def _as_written(terms: Sequence[Rel]) -> Tree:
    return reduce(lambda left, right: (left, right), range(1, len(terms)), 0)  # type: ignore[arg-type, return-value]
