"""A continuous n-way join: its inputs, what their windows keep, and the conditions that rows have to meet.

Source: *Adaptive Caching for Continuous Queries*, section 3.1. Equalities are closed transitively: columns that are equal in every row of
the result are a *class*, and a row has one value for each class of its input.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

from tempura.algebra.equalities import classes
from tempura.algebra.rel import Join, Rel, Scan
from tempura.algebra.scalar import TRUE, Call, Column, Expr, Ref, conjuncts
from tempura.errors import TempuraError

Class = int
"""The number of a class of equal columns."""

MAX_INPUTS = 10

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_COMPARABLE = (*_WHOLE, "string", "boolean", "date", "binary", "float", "double", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class LastRows:
    """A sliding window of the ``count`` rows that came last."""

    count: int


@dataclass(frozen=True, slots=True)
class LastTime:
    """A sliding window of the rows not older than ``span``, in the units of the changes' times: a row that came at t is gone at
    t + span."""

    span: float


Window = LastRows | LastTime | None
"""What of an input takes part; None is everything that was not deleted."""


@dataclass(frozen=True, slots=True)
class Input:
    """A relation that changes: its name, its columns, and its window."""

    name: str
    columns: tuple[Column, ...]
    window: Window = None

    @property
    def scan(self) -> Scan:
        """The relation in the algebra."""
        return Scan(self.name, tuple(column.name for column in self.columns), self.columns)


@dataclass(frozen=True)
class JoinQuery:
    """The inner join of 2 to 10 inputs on a condition: equalities that connect them all, and any others. ``scanned`` are columns
    that have no index: who joins an input by those alone compares every row (section 7.2, figure 10).

    Raises TempuraError BAD_STREAM_JOIN when it is none.
    """

    inputs: tuple[Input, ...]
    on: Expr = TRUE
    scanned: frozenset[Column] = field(default=frozenset())

    def __post_init__(self) -> None:
        _check_inputs(self.inputs)
        _check_on(self)

    @cached_property
    def owner(self) -> Mapping[Column, int]:
        """The input of each column."""
        return {column: n for n, input in enumerate(self.inputs) for column in input.columns}

    @cached_property
    def equalities(self) -> tuple[tuple[Column, Column], ...]:
        """The conjuncts that equate columns of two inputs."""
        return tuple(pair for part in conjuncts(self.on) if (pair := _equated(part, self.owner)))

    @cached_property
    def conditions(self) -> tuple[Expr, ...]:
        """All other conjuncts."""
        return tuple(p for p in conjuncts(self.on) if p != TRUE and not _equated(p, self.owner))

    @cached_property
    def class_of(self) -> Mapping[Column, Class]:
        """The class of each column that is equated with another; classes are numbered in the order of their first columns."""
        first = {min(map(self._place, group)): group for group in classes(self.equalities)}
        return {column: n for n, place in enumerate(sorted(first)) for column in first[place]}

    @cached_property
    def classes(self) -> tuple[tuple[Class, ...], ...]:
        """Per input its classes, in their order."""
        return tuple(
            tuple(sorted({self.class_of[c] for c in input.columns if c in self.class_of})) for input in self.inputs
        )

    def shared(self, left: Iterable[int], right: Iterable[int]) -> tuple[Class, ...]:
        """The classes by which two sets of inputs are joined."""
        sides = [{c for n in side for c in self.classes[n]} for side in (left, right)]
        return tuple(sorted(sides[0] & sides[1]))

    def is_scanned(self, input: int, key: Iterable[Class]) -> bool:
        """Whether an input is joined without an index, when it is joined by these classes."""
        return set(key) <= {self.class_of.get(c) for c in self.scanned if self.owner[c] == input}

    def reads(self, condition: Expr) -> frozenset[int]:
        """The inputs whose columns a condition reads."""
        return frozenset(self.owner[column] for column in condition.columns)

    def between(self, left: Iterable[int], right: Iterable[int]) -> tuple[Expr, ...]:
        """The conditions, other than equalities of classes, that read both sets of inputs and nothing else."""
        one, other = frozenset(left), frozenset(right)
        found = ((c, self.reads(c)) for c in self.conditions)
        return tuple(c for c, read in found if read & one and read & other and read <= one | other)

    @cached_property
    def relation(self) -> Rel:
        """The join in the algebra."""
        rels: Sequence[Rel] = [input.scan for input in self.inputs]
        product = reduce(lambda left, right: Join(left, right, "inner"), rels[:-1])
        return Join(product, rels[-1], "inner", self.on)

    def _place(self, column: Column) -> tuple[int, int]:
        n = self.owner[column]
        return n, self.inputs[n].columns.index(column)


def equal(left: Column, right: Column) -> Expr:
    """The condition that two columns are equal."""
    return Call("EqualTo", (Ref(left), Ref(right)), "boolean")


def _equated(part: Expr, owner: Mapping[Column, int]) -> tuple[Column, Column] | None:
    match part:
        case Call("EqualTo", (Ref(left), Ref(right))) if owner.get(left) != owner.get(right):
            return (left, right)
    return None


def _bad(what: str, remedy: str) -> TempuraError:
    return TempuraError("BAD_STREAM_JOIN", what, remedy)


def _check_inputs(inputs: Sequence[Input]) -> None:
    if not 2 <= len(inputs) <= MAX_INPUTS:
        raise _bad(f"a continuous join has 2 to {MAX_INPUTS} inputs, not {len(inputs)}.", "Split it into several.")
    names = [input.name for input in inputs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise _bad(f"two inputs have the name {twice[0]!r}.", "Give each use of a source a name of its own.")
    for input in inputs:
        size = {LastRows: "count", LastTime: "span"}.get(type(input.window))
        if size and not getattr(input.window, size) > 0:
            raise _bad(f"the window of {input.name} is empty: {input.window}.", "Give it a positive size.")


def _check_on(query: JoinQuery) -> None:
    unknown = query.on.columns - query.owner.keys()
    if unknown:
        raise _bad(f"{min(map(str, unknown))} is a column of no input.", "Correct the condition.")
    for left, right in query.equalities:
        if _family(left.type) != _family(right.type):
            what = f"{left} of type {left.type} is compared with {right} of type {right.type}."
            raise _bad(what, "Join columns of one type; any two of the integer types will do.")
        if left.type not in _COMPARABLE and not left.type.startswith("decimal"):
            raise _bad(f"{left} of type {left.type} cannot be a key of a join.", "Join on columns of simple types.")
    apart = set(range(len(query.inputs))) - _reached(query)
    if apart:
        name = query.inputs[min(apart)].name
        raise _bad(f"no equality connects {name} with {query.inputs[0].name}.", "Add one: products are not maintained.")
    if not query.scanned <= query.owner.keys():
        raise _bad(f"{min(map(str, query.scanned - query.owner.keys()))} is a column of no input.", "Correct it.")


def _family(type: str) -> str:
    return "whole" if type in _WHOLE else type


def _reached(query: JoinQuery) -> set[int]:
    """The inputs that equalities connect with the first one."""
    reached = {0}
    for _ in query.inputs:
        reached |= {n for n in range(len(query.inputs)) if query.shared(reached, (n,))}
    return reached
