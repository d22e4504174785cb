"""A query cut into segments at its blocking operators, and the paths between them (Thrifty Query Execution via
Incrementability, 2.2).

A *segment* is a tree of operators that pass rows on at once, up to and with the blocking operator at its top; the
last one is the query's result. A *path* is a leaf of a segment: what a table or another segment gives is collected
there, and released at a pace of the path's own. Equal sub-plans are one class of a memo, so a blocking operator that
is used twice is computed once, and has a path to each use.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tempura.algebra.multi_join import MultiJoin, in_order
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Opaque, Project, Rel, Scan, TopK
from tempura.algebra.scalar import Expr, Ref, substitute
from tempura.algebra.window import Window
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo

BLOCKING = (Aggregate, TopK, Window, Opaque, One)
"""Operators that keep what they give out: they hold their rows back until these are asked for. DISTINCT is an
aggregation without aggregates. A sort stays with what reads its order."""


@dataclass(frozen=True, eq=False)
class Path:
    """The way of rows from a table (``table``) or from a segment (``source``, by its number) into segment ``into``, a
    leaf of which it is. ``rel`` is what lies at its beginning: a scan, or an edge to the blocking operator."""

    number: int
    rel: Rel
    table: str | None
    source: int | None
    into: int

    @property
    def name(self) -> str:
        """What it starts at: a table's name or a segment's number."""
        return self.table or f"s{self.source}"

    def __str__(self) -> str:
        return f"p{self.number} {self.name}"


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator within a segment. ``rel`` is over edges, whose columns are those that its expressions read, in the
    order of the inputs' rows."""

    rel: Rel
    inputs: tuple["Operator | Path", ...]

    def walk(self) -> Iterator["Operator | Path"]:
        """Inputs first, then the operator itself: the order in which a segment is run."""
        for input in self.inputs:
            if isinstance(input, Operator):
                yield from input.walk()
            else:
                yield input
        yield self


@dataclass(frozen=True, eq=False)
class Segment:
    """The tree below a blocking operator, or below the query's result, down to its paths. ``root`` is a path where a
    blocking operator is the top of the query: its rows are the result."""

    number: int
    root: Operator | Path
    paths: tuple[Path, ...]
    is_result: bool

    @cached_property
    def nodes(self) -> tuple[Operator | Path, ...]:
        """Operators and paths, inputs first."""
        return (self.root,) if isinstance(self.root, Path) else tuple(self.root.walk())

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The operators, inputs first."""
        return tuple(node for node in self.nodes if isinstance(node, Operator))

    @property
    def name(self) -> str:
        """The blocking operator, or ``result``."""
        return "result" if self.is_result else self.root.rel.label


@dataclass(frozen=True, eq=False)
class Cut:
    """All segments, sources before those that read them, the result last; all paths by number. ``memo`` knows what
    edges stand for."""

    segments: tuple[Segment, ...]
    paths: tuple[Path, ...]
    memo: Memo

    def below(self, path: Path) -> tuple[Path, ...]:
        """The paths into the segment at which a path starts: its own pace is at most theirs. None of a table's."""
        return () if path.source is None else self.segments[path.source].paths

    def users(self, segment: Segment) -> tuple[Path, ...]:
        """The paths that start at a segment."""
        return tuple(path for path in self.paths if path.source == segment.number)

    def readers(self, segment: Segment) -> Mapping[Operator, Expr]:
        """The conditions by which all that read a segment's rows begin, over its columns. Rows that meet none of them are read by nobody.
        Empty where somebody reads all rows."""
        found = [_condition(self.segments[path.into], path, segment) for path in self.users(segment)]
        return dict(entry for entry in found if entry) if all(found) else {}

    @property
    def result(self) -> Segment:
        """The segment whose rows are the query's."""
        return self.segments[-1]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables at which paths start, each once, in the order of the paths."""
        return tuple(dict.fromkeys(path.table for path in self.paths if path.table is not None))

    def respects(self, paces: Sequence[int]) -> bool:
        """Whether no path is faster than one below it."""
        return all(paces[path.number] <= paces[child.number] for path in self.paths for child in self.below(path))


def _condition(into: Segment, path: Path, source: Segment) -> tuple[Operator, Expr] | None:
    """The filter that a path leads to, through what only picks columns, with its condition over the columns of the path's source."""
    below: Operator | Path = path
    columns: tuple[Expr, ...] = tuple(map(Ref, source.root.rel.columns))
    for op in into.operators:
        if below not in op.inputs:
            continue
        if not isinstance(op.rel, Filter | Project):
            return None
        meant = dict(zip(op.rel.input.columns, columns, strict=True))
        if isinstance(op.rel, Filter):
            return op, substitute(op.rel.predicate, meant)
        if not all(isinstance(output.expr, Ref) for output in op.rel.outputs):
            return None
        below, columns = op, tuple(substitute(output.expr, meant) for output in op.rel.outputs)
    return None


def cut(query: Rel, in_twos: bool = True) -> Cut:
    """Cut a lifted query. ``in_twos``: joins of several relations become joins of two, whose work is simulated; else they stay as they
    are, in segments and paths of the same numbers. Raises TempuraError NOT_CANONICAL for an expression that is bound to a time."""
    memo = Memo()
    cutter = _Cutter(memo)
    cutter.segment(memo.add(_in_joins_of_two(query) if in_twos else query), is_result=True)
    return Cut(tuple(cutter.segments), tuple(cutter.paths), memo)


def _in_joins_of_two(rel: Rel) -> Rel:
    made = rel.with_inputs(*map(_in_joins_of_two, rel.inputs)) if rel.inputs else rel
    return in_order(made) if isinstance(made, MultiJoin) else made


class _Cutter:
    """Goes down from the result. ``known`` are the segments of the blocking classes seen so far, by class."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self.segments: list[Segment] = []
        self.paths: list[Path] = []
        self._known: dict[int, int] = {}

    def segment(self, edge: Edge, is_result: bool = False) -> int:
        """The number of the segment that ends in a class."""
        leaves: list[tuple[Rel, str | None, int | None]] = []
        shape = self._leaf(edge, leaves) if is_result else self._operator(edge, leaves)
        number = len(self.segments)
        own = []
        for rel, table, source in leaves:
            own.append(Path(len(self.paths), rel, table, source, number))
            self.paths.append(own[-1])
        root = _with_paths(shape, own)
        self.segments.append(Segment(number, root, tuple(own), is_result))
        return number

    def _operator(self, edge: Edge, leaves: list[tuple[Rel, str | None, int | None]]) -> "_Shape":
        rel = self._memo.representative(edge)
        return rel, tuple(self._leaf(input, leaves) for input in rel.inputs)

    def _leaf(self, edge: Rel, leaves: list[tuple[Rel, str | None, int | None]]) -> "_Shape | int":
        """A use of a class: an operator of the same segment, or the position of a leaf."""
        assert isinstance(edge, Edge), "members are over classes"
        rel = self._memo.representative(edge)
        if isinstance(rel, Scan):
            leaves.append((rel, rel.table, None))
            return len(leaves) - 1
        if isinstance(rel, BLOCKING):
            if edge.id not in self._known:
                self._known[edge.id] = self.segment(edge)
            leaves.append((edge, None, self._known[edge.id]))
            return len(leaves) - 1
        return self._operator(edge, leaves)


_Shape = tuple[Rel, tuple["_Shape | int", ...]]
"""An operator over operators and positions of leaves."""


def _with_paths(shape: "_Shape | int", paths: Sequence[Path]) -> Operator | Path:
    if isinstance(shape, int):
        return paths[shape]
    rel, inputs = shape
    return Operator(rel, tuple(_with_paths(input, paths) for input in inputs))
