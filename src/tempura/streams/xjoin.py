"""An XJoin: a tree of joins of two, each of which keeps its result; what caches are compared with.

Source: *Adaptive Caching for Continuous Queries*, section 1 and figure 1(b).
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tempura.algebra.scalar import Expr
from tempura.streams.execution import Changes, ContinuousJoin
from tempura.streams.pipeline import newly_bound
from tempura.streams.query import JoinQuery
from tempura.streams.steps import KeyOf, Layout, Test, key_of, sources_of, test_of
from tempura.streams.store import Tuple

Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""An input, or the join of two trees."""

Subresult = dict[object, dict[Tuple, None]]

NOTHING: tuple[Tuple, ...] = ()


class _Side:
    """One input of a join of two: what it has given so far, by the key of the join."""

    def __init__(self, query: JoinQuery, layout: Layout, key: tuple[int, ...]) -> None:
        self.layout = layout
        self.table: Subresult = {}
        self.key: KeyOf = key_of(sources_of(query, layout, key))

    def insert(self, tuples: list[Tuple]) -> None:
        table, key_of = self.table, self.key
        for t in tuples:
            key = key_of(t)
            if key in table:
                table[key][t] = None
            else:
                table[key] = {t: None}

    def delete(self, tuples: list[Tuple]) -> None:
        table, key_of = self.table, self.key
        for t in tuples:
            key = key_of(t)
            found = table[key]
            if len(found) == 1:
                del table[key]
            else:
                del found[t]


class _Hop:
    """From one side of a join to its result: join with the other side, and keep what came."""

    def __init__(self, own: _Side, other: _Side, is_left: bool, test: Test | None) -> None:
        self._own = own
        self._get = other.table.get
        self._is_left = is_left
        self._test = test

    def insert(self, tuples: list[Tuple]) -> list[Tuple]:
        self._own.insert(tuples)
        return self._join(tuples)

    def delete(self, tuples: list[Tuple]) -> list[Tuple]:
        self._own.delete(tuples)
        return self._join(tuples)

    def _join(self, tuples: list[Tuple]) -> list[Tuple]:
        get, key = self._get, self._own.key
        if self._is_left:
            joined = [t + s for t in tuples for s in get(key(t), NOTHING)]
        else:
            joined = [s + t for t in tuples for s in get(key(t), NOTHING)]
        test = self._test
        return joined if test is None else [t for t in joined if test(t)]


class XJoin(ContinuousJoin):
    """A continuous join by a tree. State: the result of every join of the tree but the last, and the rows of every input."""

    def __init__(self, query: JoinQuery, tree: Tree) -> None:
        super().__init__(query)
        self.tree = tree
        self._paths: list[list[_Hop]] = [[] for _ in query.inputs]
        self._sides: list[_Side] = []
        self._layout = self._build(tree)

    def _build(self, tree: Tree) -> Layout:
        if isinstance(tree, int):
            return (tree,)
        left, right = self._build(tree[0]), self._build(tree[1])
        key = self.query.shared(left, right)
        test = test_of(self.query, left + right, _bound_here(self.query, left, right))
        sides = _Side(self.query, left, key), _Side(self.query, right, key)
        self._sides += sides
        for n in left:
            self._paths[n].append(_Hop(*sides, is_left=True, test=test))
        for n in right:
            self._paths[n].append(_Hop(sides[1], sides[0], is_left=False, test=test))
        return left + right

    def change(self, input: int, inserted: Sequence[Tuple], deleted: Sequence[Tuple]) -> Changes:
        plus = list(inserted)
        minus = list(deleted)
        for hop in self._paths[input]:
            if not plus:
                break
            plus = hop.insert(plus)
        for hop in self._paths[input]:
            if not minus:
                break
            minus = hop.delete(minus)
        self.counts[input] += len(inserted) + len(deleted)
        return Changes(self._layout, plus, minus)

    @property
    def subresults(self) -> int:
        """The tuples kept of joins, rows of inputs not counted."""
        kept = (side for side in self._sides if len(side.layout) > 1)
        return sum(len(found) for side in kept for found in side.table.values())


def _bound_here(query: JoinQuery, left: Layout, right: Layout) -> list[Expr]:
    earlier = [*newly_bound(query, (), left), *newly_bound(query, (), right)]
    return [c for c in newly_bound(query, (), left + right) if c not in earlier]


def trees(query: JoinQuery, inputs: Sequence[int] | None = None) -> Iterator[Tree]:
    """All trees without products; of two trees that differ in left and right only, one."""
    found = tuple(range(len(query.inputs))) if inputs is None else tuple(inputs)
    if len(found) == 1:
        yield found[0]
        return
    first, *rest = found
    for chosen in range(1 << len(rest)):
        left = (first, *(n for bit, n in enumerate(rest) if chosen >> bit & 1))
        right = tuple(n for n in found if n not in left)
        if right and query.shared(left, right):
            for one in trees(query, left):
                for other in trees(query, right):
                    yield (one, other)


def show(query: JoinQuery, tree: Tree) -> str:
    """A tree as people write it."""
    if isinstance(tree, int):
        return query.inputs[tree].name
    return f"({show(query, tree[0])} ⋈ {show(query, tree[1])})"
