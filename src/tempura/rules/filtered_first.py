"""Filtered relations are joined first.

    (R ⋈ S) ⋈ σ_p T = (R ⋈ σ_p T) ⋈ S        where the condition joins T with R and not with S, and T is not larger than R

The rows of a join are found in whatever order is cheapest (:mod:`tempura.search.joins`), but a query's own joins are what has states and
changes. Where the query names two tables that change and then asks for the days of one month, what would be kept of the first, to be joined
with changes of the second, are the rows of all days; R ⋈ σ_p T are those of the month. So a query is rewritten by this law before it is
planned. Where only one relation of a join changes, nothing has to be kept of the others: such joins stay as they are, and so do those that
a query joins with something as a whole.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tempura.algebra.multi_join import connects, next_join
from tempura.algebra.rel import Join, Project, Rel, is_renaming, keep, scans, where
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, conjunction, conjuncts, substitute
from tempura.rules.common import Conditions, Meaning, Peeled, may_be_asked

Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""How terms are joined, by their numbers."""


def filtered_first(query: Rel, rows: Mapping[str, int], static: Collection[str]) -> Rel:
    """A query whose inner joins begin with those that leave few rows. ``rows`` are how many each table has, ``static`` those that never
    change."""
    known: dict[Rel, Rel] = {}

    def rewritten(rel: Rel) -> Rel:
        if rel not in known:
            spine = _Spine.of(rel)
            tree = _filtered_first(spine, rows) if spine.can_be_changed(static) else spine.as_written
            if tree != spine.as_written:
                known[rel] = spine.joined(tree, tuple(map(rewritten, spine.terms)))
            else:
                known[rel] = rel.with_inputs(*map(rewritten, rel.inputs)) if rel.inputs else rel
        return known[rel]

    return rewritten(query)


# --- a join of many -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Spine:
    """Inner joins, each of which is the left side of the next one, as the first left side and all right sides, the ``terms``: all
    combinations of these that meet the ``asked`` conditions, and what of them the ``columns`` of the last join are."""

    terms: tuple[Rel, ...]
    asked: Conditions
    columns: tuple[Column, ...]
    values: Meaning

    @staticmethod
    def of(rel: Rel) -> "_Spine":
        """What is no inner join is its only term. Conditions and projections between joins are taken in where nothing is computed that may
        fail for other rows."""
        bare = Peeled.of(rel)
        join = bare.core
        is_plain = may_be_asked(bare.asked) and all(isinstance(value, Ref) for value in bare.values.values())
        if not (is_plain and isinstance(join, Join) and join.kind == "inner" and may_be_asked((join.on,))):
            return _Spine((rel,), (), rel.columns, {column: Ref(column) for column in rel.columns})
        left = _Spine.of(join.left)
        values = {**left.values, **{column: Ref(column) for column in join.right.columns}}
        asked = (substitute(part, values) for part in (*conjuncts(join.on), *bare.asked))
        seen = {column: substitute(value, values) for column, value in bare.values.items()}
        return _Spine((*left.terms, join.right), (*left.asked, *asked), rel.columns, seen)

    @property
    def as_written(self) -> Tree:
        """How the query joins the terms."""
        tree: Tree = 0
        for i in range(1, len(self.terms)):
            tree = (tree, i)
        return tree

    def can_be_changed(self, static: Collection[str]) -> bool:
        """Whether another order may be of use, and the terms can be told apart by the names of their columns."""
        names = [column for term in self.terms for column in term.columns]
        changing = [term for term in self.terms if any(scan.table not in static for scan in scans(term))]
        return len(self.terms) > 2 and len(changing) > 1 and len(set(names)) == len(names)

    def joined(self, tree: Tree, terms: Sequence[Rel]) -> Rel:
        """The terms, joined as the tree has it; each condition is asked as soon as its columns are there, and columns that nothing reads
        any more are left out, as Catalyst does."""
        read = frozenset[Column]().union(*(value.columns for value in self.values.values()))

        def made(tree: Tree, open: Conditions) -> tuple[Rel, Conditions]:
            if isinstance(tree, int):
                term = terms[tree]
                here = where(term, conjunction(*(part for part in open if part.reads_only(term.column_set))))
                return here, _still_open(open, term)
            left, open = made(tree[0], open)
            right, open = made(tree[1], open)
            join = next_join(left, right, open)
            open = _still_open(open, join)
            needed = read.union(*(part.columns for part in open))
            return keep(join, tuple(column for column in join.columns if column in needed)), open

        rel, _ = made(tree, self.asked)
        named = Project(rel, tuple(Output(column, self.values[column]) for column in self.columns))
        return rel if is_renaming(named) and rel.columns == self.columns else named


def _still_open(parts: Conditions, made: Rel) -> Conditions:
    """The conditions that cannot be decided by the columns that there are."""
    return tuple(part for part in parts if not part.reads_only(made.column_set))


# --- what comes first ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Piece:
    """Some terms, joined: the columns that they have, whether any of them is filtered, the rows of the largest table."""

    tree: Tree
    columns: frozenset[Column]
    is_filtered: bool
    rows: int

    def joined_with(self, other: "_Piece") -> "_Piece":
        """This one on the left side."""
        is_filtered, rows = self.is_filtered or other.is_filtered, max(self.rows, other.rows)
        return _Piece((self.tree, other.tree), self.columns | other.columns, is_filtered, rows)


def _filtered_first(spine: _Spine, rows: Mapping[str, int]) -> Tree:
    """What is filtered, or has been joined with that, goes to the one other piece that a condition joins it with, the smallest first, as
    long as there are such; those that are left are joined as they are written, as far as conditions join them."""
    left = [
        _Piece(i, term.column_set, _is_filtered(term), max((rows[scan.table] for scan in scans(term)), default=0))
        for i, term in enumerate(spine.terms)
    ]
    while free := list(_that_go_to_one(left, spine.asked)):
        piece, other = min(free, key=lambda pair: pair[0].rows)
        left[left.index(other)] = other.joined_with(piece)
        left.remove(piece)
    first, *others = left
    while others:
        fit = (other for other in others if connects(spine.asked, first.columns, other.columns))
        next_one = next(fit, others[0])
        others.remove(next_one)
        first = first.joined_with(next_one)
    return first.tree


def _that_go_to_one(pieces: Sequence[_Piece], asked: Conditions) -> Iterator[tuple[_Piece, _Piece]]:
    for piece in pieces:
        others = [p for p in pieces if p is not piece and connects(asked, piece.columns, p.columns)]
        if piece.is_filtered and len(others) == 1 and piece.rows <= others[0].rows:
            yield piece, others[0]


def _is_filtered(term: Rel) -> bool:
    """Whether a relation, or one that it joins, is asked for some values of a column: not only that there is one, nor how columns compare,
    which tells little of how many rows are left."""
    bare = Peeled.of(term)
    if isinstance(bare.core, Join) and bare.core.kind == "inner" and any(map(_is_filtered, bare.core.inputs)):
        return True
    return any(len(part.columns) == 1 and not _is_that_there_is_one(part) for part in bare.asked)


def _is_that_there_is_one(part: Expr) -> bool:
    return isinstance(part, Call) and part.function == "IsNotNull"
