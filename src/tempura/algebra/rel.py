"""Relational operators over signed bags (``row -> integer weight``): WHAT is computed. Knows no time and no optimizer.

Every operator is immutable and hashable, so that equal expressions are equal keys of a memo. Columns have identities
(``Column.id``) that are unique within a query; the two sides of a join never share one.

**Linear** inputs accept any signed bag: the operator applied to a sum is the sum of its applications. **Set-like** inputs
must be *positive* (no negative weight): :attr:`Rel.set_like` says which, and the interpreter raises when it is violated.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import attrgetter
from typing import ClassVar, TypeVar
from typing import Literal as OneOf

from tempura.algebra.once import cached_property
from tempura.algebra.scalar import TRUE, AggregateOutput, Column, Expr, Output, Ref, SortKey
from tempura.errors import Reason

JoinKind = OneOf["inner", "left", "full", "semi", "anti", "exists", "single"]
"""Right joins are lifted as left joins with the inputs exchanged, cross joins as inner joins on TRUE."""


_STORED: dict[type, tuple[str, ...]] = {}
_COMPARED: dict[type, tuple[str, ...]] = {}
_PARTS: dict[type, Callable[[object], object]] = {}


def compared(node: type) -> tuple[str, ...]:
    """The fields of a class of nodes that take part in equality; looked up once per class."""
    if node not in _COMPARED:
        _COMPARED[node] = tuple(known.name for known in fields(node) if known.compare)
    return _COMPARED[node]


def _parts_of(node: type) -> Callable[[object], object]:
    """What gives the values of these fields, in one call; made once per class."""
    if node not in _PARTS:
        _PARTS[node] = attrgetter(*compared(node)) if compared(node) else lambda rel: ()
    return _PARTS[node]


Node = TypeVar("Node", bound="Rel")


def over(node: Node, **inputs: object) -> Node:
    """An operator with other inputs. ``dataclasses.replace`` makes the same, but looks at each field and sets each again."""
    kind, known = type(node), node.__dict__
    if kind not in _STORED:
        _STORED[kind] = tuple(field.name for field in fields(node))  # type: ignore[arg-type]  # subclasses are dataclasses
    made: Node = object.__new__(kind)
    made.__dict__.update({name: known[name] for name in _STORED[kind]}, **inputs)
    return made


class Hashed:
    """Has a slot for a hash, which is read faster than an attribute: searches look expressions up millions of times."""

    __slots__ = ("__dict__", "_hash")
    _hash: int


class Rel(Hashed):
    """A relational expression. Subclasses are frozen dataclasses; fields of type ``Rel`` (or tuples of them) are inputs."""

    row_by_row: ClassVar[bool] = False
    """Whether each row of an input gives rows of the result by itself: linear in all inputs, and growing where these grow."""

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (type(self), _parts_of(type(self))(self))

    def __hash__(self) -> int:
        # Plans are DAGs that share much: a node's hash is computed once, from its inputs' stored hashes.
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(self._key))
            return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Rel):
            return False
        if self._key is not other._key:
            if hash(self) != hash(other) or self._key != other._key:
                return False
            # From now on both have the same parts, so that they are not compared again, however deep they are.
            other.__dict__["_key"] = self._key
        return True

    @property
    def inputs(self) -> tuple["Rel", ...]:
        """The operator's input relations, left to right."""
        return ()

    def with_inputs(self, *inputs: "Rel") -> "Rel":
        """The same operator over other inputs that provide the same columns; itself over its own, so that its hash is kept."""
        return self

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result, in order."""
        raise NotImplementedError(type(self).__name__)

    @cached_property
    def column_set(self) -> frozenset[Column]:
        """The columns of the result."""
        return frozenset(self.columns)

    @property
    def set_like(self) -> tuple[bool, ...]:
        """Per input: whether it must be positive (True) or may be any signed bag (False). Of positive inputs the result is
        positive, but for Negate."""
        return tuple(False for _ in self.inputs)

    @property
    def computed(self) -> tuple[Expr, ...]:
        """The expressions that the operator computes of rows of its inputs; not those by which it presents them."""
        return ()

    def walk(self) -> Iterator["Rel"]:
        """This operator and all below it, top down; each once, however often it is shared."""
        return chain((self,), self._below)

    @cached_property
    def _below(self) -> tuple["Rel", ...]:
        # Looked for once; without the operator itself, or it would hold itself.
        found: dict[Rel, None] = {}
        stack = list(reversed(self.inputs))
        while stack:
            rel = stack.pop()
            if rel not in found:
                found[rel] = None
                stack.extend(reversed(rel.inputs))
        return tuple(found)

    @property
    def label(self) -> str:
        """The operator and its parameters in one line, for explain and goldens."""
        return type(self).__name__.lower()

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.inputs))
        return f"{self.label}({inner})" if inner else self.label


@dataclass(frozen=True, eq=False)
class Unary(Rel):
    """An operator with one input."""

    input: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)

    def with_inputs(self, *inputs: Rel) -> Rel:
        (only,) = inputs
        return self if only is self.input else over(self, input=only)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@dataclass(frozen=True, eq=False)
class Many(Rel):
    """An operator with any number of inputs of one kind."""

    terms: tuple[Rel, ...]

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return self.terms

    def with_inputs(self, *inputs: Rel) -> Rel:
        return over(self, terms=inputs)


# --- leaves ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scan(Rel):
    """A table that changes over time. ``fields`` gives, per column of ``outputs``, the table's column name: a scan may read
    only some columns, and every scan has column identities of its own."""

    table: str
    fields: tuple[str, ...]
    outputs: tuple[Column, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def label(self) -> str:
        return self.table


@dataclass(frozen=True, eq=False)
class Values(Rel):
    """A constant bag: one entry of ``rows`` per row. A query without FROM reads ``Values((), ((),))``, one row, no column."""

    outputs: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def label(self) -> str:
        return f"values({len(self.rows)} rows)"


def empty(columns: tuple[Column, ...]) -> Values:
    """The bag without rows."""
    return Values(columns, ())


@dataclass(frozen=True, eq=False)
class Opaque(Rel):
    """A query, or part of one, that Tempura cannot look into: run by the engine as it is over snapshots of ``tables``.

    ``handle`` is the engine's plan; ``key`` is its canonical text and makes equality.
    """

    tables: tuple[Rel, ...]
    outputs: tuple[Column, ...]
    key: str
    reason: Reason = field(compare=False)
    handle: object = field(default=None, compare=False)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return self.tables

    def with_inputs(self, *inputs: Rel) -> Rel:
        return over(self, tables=inputs)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def set_like(self) -> tuple[bool, ...]:
        return tuple(True for _ in self.tables)

    @property
    def label(self) -> str:
        return f"recompute {self.reason.code}"


# --- operators of queries -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Filter(Unary):
    """The rows for which ``predicate`` is TRUE (not FALSE, not NULL)."""

    row_by_row = True
    predicate: Expr

    @property
    def computed(self) -> tuple[Expr, ...]:
        return (self.predicate,)

    @property
    def label(self) -> str:
        return f"filter {self.predicate}"


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """One output row per input row."""

    row_by_row = True
    outputs: tuple[Output, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(output.column for output in self.outputs)

    @property
    def computed(self) -> tuple[Expr, ...]:
        return tuple(output.expr for output in self.outputs)

    @property
    def label(self) -> str:
        return f"project {', '.join(map(str, self.outputs))}"


@dataclass(frozen=True, eq=False)
class Join(Rel):
    """``left`` joined with ``right`` on a condition of any form (equalities, theta, null-aware).

    ``inner`` is bilinear. ``left`` (outer), ``semi``, ``anti``, ``exists`` are linear on the left and set-like on the right;
    ``full`` is set-like on both. ``semi`` and ``anti`` return the left columns only. ``exists`` returns each row of the left,
    with one more column, ``marker``: TRUE where the row matches some row of the right, else FALSE; never NULL. ``single`` is the left
    outer join of a correlated scalar sub-query: to compute it for a row that matches two rows, also equal ones, is an error.
    """

    left: Rel
    right: Rel
    kind: JoinKind
    on: Expr = TRUE
    marker: Column | None = None

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)

    def with_inputs(self, *inputs: Rel) -> Rel:
        left, right = inputs
        return self if left is self.left and right is self.right else over(self, left=left, right=right)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        if self.kind == "exists":
            assert self.marker is not None, "an existence join says where its answer goes"
            return (*self.left.columns, self.marker)
        return self.left.columns + (() if self.kind in ("semi", "anti") else self.right.columns)

    @property
    def set_like(self) -> tuple[bool, ...]:
        return (self.kind == "full", self.kind != "inner")

    @property
    def computed(self) -> tuple[Expr, ...]:
        return (self.on,)

    @property
    def label(self) -> str:
        return f"{self.kind}-join on {self.on}"


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """One row per group: the ``keys``, then the ``aggregates``. Groups compare NULL equal to NULL, and by SQL's equality
    otherwise. Without keys there is exactly one row, also over an empty input."""

    keys: tuple[Output, ...]
    aggregates: tuple[AggregateOutput, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(k.column for k in self.keys) + tuple(a.column for a in self.aggregates)

    @property
    def set_like(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def computed(self) -> tuple[Expr, ...]:
        return (
            *(key.expr for key in self.keys),
            *(part for output in self.aggregates for part in output.call.arguments),
        )

    @property
    def label(self) -> str:
        parts = [", ".join(map(str, part)) for part in (self.keys, self.aggregates)]
        return "aggregate " + " : ".join(parts)


@dataclass(frozen=True, eq=False)
class Union(Many):
    """The sum of bags (UNION ALL). All terms have the same columns, identities included."""

    row_by_row = True

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.terms[0].columns


@dataclass(frozen=True, eq=False)
class TopK(Unary):
    """The first ``limit`` rows in the order of ``order``. Ties are broken by all remaining columns, so that the result is a
    function of the input bag: whichever rows Spark would keep, Tempura keeps these until the input changes."""

    order: tuple[SortKey, ...]
    limit: int

    @property
    def set_like(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def computed(self) -> tuple[Expr, ...]:
        return tuple(key.expr for key in self.order)

    @property
    def label(self) -> str:
        return f"top {self.limit} by {', '.join(map(str, self.order)) or 'all columns'}"


@dataclass(frozen=True, eq=False)
class Sort(Unary):
    """The same bag: an order to present it in. Only the topmost one of a query has an effect, in ``result()``."""

    row_by_row = True
    order: tuple[SortKey, ...]

    @property
    def label(self) -> str:
        return f"sort {', '.join(map(str, self.order))}"


# --- operators that rules introduce ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Negate(Unary):
    """Every weight with the other sign."""


@dataclass(frozen=True, eq=False)
class Consolidate(Unary):
    """The same signed bag with one entry per distinct row and no zero weight.

    Rows are the same when they are *identical* (bits; NULL and NULL; ``-0.0`` and ``0.0`` differ; 'a' and 'A' differ under every
    collation), which is finer than SQL's equality. Makes a set-like input of a sum whose value is known to be positive.
    """


@dataclass(frozen=True, eq=False)
class Support(Unary):
    """Each row whose net weight is not 0, once, with weight 1: the rows that *changed*, whether inserted or deleted."""


# --- constructors that rules and front ends share -------------------------------------------------------------------


def keep(rel: Rel, columns: tuple[Column, ...]) -> Rel:
    """Project to some columns, unchanged; ``rel`` itself when these are its columns."""
    return rel if rel.columns == columns else Project(rel, tuple(Output(c, Ref(c)) for c in columns))


def where(rel: Rel, predicate: Expr) -> Rel:
    """The rows for which a predicate is TRUE; ``rel`` itself for the predicate TRUE."""
    return rel if predicate == TRUE else Filter(rel, predicate)


def renamed(rel: Rel, columns: tuple[Column, ...]) -> Rel:
    """The same rows with other column identities, by position; ``rel`` itself when these are its columns."""
    if rel.columns == columns:
        return rel
    return Project(rel, tuple(Output(c, Ref(old)) for c, old in zip(columns, rel.columns, strict=True)))


def is_renaming(rel: Project) -> bool:
    """Whether a projection only renames: it costs nothing."""
    sources = [output.expr.column for output in rel.outputs if isinstance(output.expr, Ref)]
    return len(sources) == len(rel.outputs) and tuple(sources) == rel.input.columns


def scans(rel: Rel) -> tuple[Scan, ...]:
    """The scans below ``rel``, left to right, each once."""
    return tuple(r for r in rel.walk() if isinstance(r, Scan))
