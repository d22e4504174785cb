"""Scalar expressions: the face of an expression that rules see.

The other face is ``handle``: the expression of the engine that a front end lifted (a JVM expression for Spark). It is
carried along for execution and takes no part in equality, so a front end puts everything that distinguishes two
expressions into ``function``, ``args``, ``type`` and ``detail``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from tempura.algebra.once import cached_property


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation. ``id`` is its identity within a query; ``name`` is for people; ``type`` is Spark's
    ``simpleString`` (``int``, ``decimal(7,2)``, ``array<string>``)."""

    id: str
    name: str = field(compare=False)
    type: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and self.id == other.id and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.id)

    def primed(self) -> "Column":
        """The same column under another identity: for a second use of a relation inside one rule."""
        return replace(self, id=self.id + "'")

    def derived(self, suffix: str, type: str) -> "Column":
        """A column that a rule makes from this one, for instance a part of an aggregation state."""
        return Column(f"{self.id}.{suffix}", f"{self.name}.{suffix}", type)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Scalar:
    """Common part of all scalar expressions."""

    @property
    def args(self) -> tuple["Expr", ...]:
        return ()

    @property
    def deterministic(self) -> bool:
        return all(arg.deterministic for arg in self.args)

    def walk(self) -> Iterator["Expr"]:
        """This expression and all below it, top down."""
        assert isinstance(self, Ref | Literal | Call)
        yield self
        for arg in self.args:
            yield from arg.walk()

    @property
    def columns(self) -> frozenset[Column]:
        """The columns that the expression reads."""
        return frozenset(e.column for e in self.walk() if isinstance(e, Ref))

    def reads_only(self, columns: Iterable[Column]) -> bool:
        """Whether every column that the expression reads is one of ``columns``; a frozenset saves making one."""
        return self.columns <= frozenset(columns)


@dataclass(frozen=True, slots=True)
class Ref(Scalar):
    """The value of a column."""

    column: Column

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and self.column == other.column

    def __hash__(self) -> int:
        return hash(self.column)

    @property
    def columns(self) -> frozenset[Column]:
        return frozenset((self.column,))

    @property
    def type(self) -> str:
        return self.column.type

    def __str__(self) -> str:
        return self.column.name


@dataclass(frozen=True, slots=True)
class Literal(Scalar):
    """A constant. ``value`` is a Python value as ``DataFrame.collect`` would return it; None is NULL."""

    value: object
    type: str

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are equal in Python and -0.0 is equal to 0.0: constants are compared as written.
        return isinstance(other, Literal) and (self.type, repr(self.value)) == (other.type, repr(other.value))

    def __hash__(self) -> int:
        return hash((self.type, repr(self.value)))


@dataclass(frozen=True)
class Call(Scalar):
    """A function or operator applied to arguments.

    ``function`` is the name of Catalyst's expression class (``EqualTo``, ``Add``, ``If``); ``detail`` holds whatever else
    distinguishes the expression (evaluation mode, format, escape character, values of an IN list). ``operands`` correspond
    one to one to the children of ``handle``; a call that a rule makes has no handle, and executors know those functions.
    """

    function: str
    operands: tuple["Expr", ...]
    type: str
    detail: str = ""
    stable: bool = True
    handle: object = field(default=None, compare=False, repr=False)

    @cached_property
    def _hash(self) -> int:
        # Like a relation's: computed once, whatever the depth.
        return hash((self.function, self.operands, self.type, self.detail, self.stable))

    def __hash__(self) -> int:
        return self._hash

    @property
    def args(self) -> tuple["Expr", ...]:
        return self.operands

    @cached_property
    def columns(self) -> frozenset[Column]:
        return frozenset[Column]().union(*(operand.columns for operand in self.operands))

    @cached_property
    def _conjuncts(self) -> tuple["Expr", ...]:
        """Of a conjunction its parts, looked for once (:func:`conjuncts`)."""
        return tuple(part for operand in self.operands for part in conjuncts(operand))

    @property
    def deterministic(self) -> bool:
        return self.stable and all(arg.deterministic for arg in self.operands)

    def __str__(self) -> str:
        infix = _INFIX.get(self.function)
        if infix and len(self.operands) == 2:
            return f"({self.operands[0]} {infix} {self.operands[1]})"
        tail = f"; {self.detail}" if self.detail else ""
        return f"{self.function}({', '.join(map(str, self.operands))}{tail})"


_INFIX = {
    "And": "AND", "Or": "OR", "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=",
    "GreaterThan": ">", "GreaterThanOrEqual": ">=", "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/",
}  # fmt: skip


Expr = Ref | Literal | Call
"""A scalar expression."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function over the rows of a group: ``SUM(DISTINCT arg) FILTER (WHERE filter)``.

    ``function`` is Catalyst's class name (``Sum``, ``Count``, ``Average``, ``Min``, ``Max``, ``First`` …). ``COUNT(*)`` has no
    operand. ``handle`` is the engine's expression, which takes no part in equality.
    """

    function: str
    operands: tuple[Expr, ...]
    type: str
    distinct: bool = False
    filter: Expr | None = None
    detail: str = ""
    handle: object = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> frozenset[Column]:
        """The columns that the arguments and the filter read."""
        return frozenset().union(*(e.columns for e in self.arguments))

    @property
    def arguments(self) -> tuple["Expr", ...]:
        """The operands, and the filter if there is one."""
        return (*self.operands, *((self.filter,) if self.filter else ()))

    def __str__(self) -> str:
        inner = ("DISTINCT " if self.distinct else "") + (", ".join(map(str, self.operands)) or "*")
        tail = f" FILTER {self.filter}" if self.filter else ""
        return f"{self.function}({inner}{'; ' + self.detail if self.detail else ''}){tail}"


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a projection or aggregation and the expression that gives its value: ``expr AS column``."""

    column: Column
    expr: Expr

    def __str__(self) -> str:
        if isinstance(self.expr, Ref) and self.expr.column.name == self.column.name:
            return self.column.name
        return f"{self.expr} AS {self.column.name}"


@dataclass(frozen=True, slots=True)
class AggregateOutput:
    """A column of an aggregation and the aggregate that gives its value."""

    column: Column
    call: AggregateCall

    def __str__(self) -> str:
        return f"{self.call} AS {self.column.name}"


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of an ORDER BY."""

    expr: Expr
    ascending: bool = True
    nulls_first: bool = True

    def __str__(self) -> str:
        direction = "ASC" if self.ascending else "DESC"
        return f"{self.expr} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


TRUE, FALSE = Literal(True, "boolean"), Literal(False, "boolean")


def equal(left: Expr, right: Expr) -> Call:
    """``left = right``: NULL when a side is NULL."""
    return Call("EqualTo", (left, right), "boolean")


def same(left: Expr, right: Expr) -> Call:
    """``left <=> right``: NULL equals NULL, never NULL itself."""
    return Call("EqualNullSafe", (left, right), "boolean")


def conjunction(*predicates: Expr) -> Expr:
    """The AND of predicates; TRUE when there is none."""
    proper = [p for p in predicates if p != TRUE]
    return reduce(lambda a, b: Call("And", (a, b), "boolean"), proper) if proper else TRUE


def disjunction(first: Expr, *others: Expr) -> Expr:
    """The OR of predicates."""
    return reduce(lambda a, b: Call("Or", (a, b), "boolean"), others, first)


def conjuncts(predicate: Expr) -> tuple[Expr, ...]:
    """The parts of a conjunction; none for TRUE."""
    if isinstance(predicate, Call) and predicate.function == "And":
        return predicate._conjuncts
    return () if predicate == TRUE else (predicate,)


def substitute(expr: Expr, new: Mapping[Column, Expr]) -> Expr:
    """Replace columns by expressions. Handles stay: an executor rebuilds each call's engine expression over its own
    rendering of ``operands`` (which correspond one to one to the engine expression's children)."""
    if isinstance(expr, Ref):
        return new.get(expr.column, expr)
    if not isinstance(expr, Call):
        return expr
    return replace(expr, operands=tuple(substitute(arg, new) for arg in expr.operands))


def substitute_in_call(call: AggregateCall, new: Mapping[Column, Expr]) -> AggregateCall:
    """Replace columns by expressions in the arguments of an aggregate."""
    operands = tuple(substitute(arg, new) for arg in call.operands)
    return replace(call, operands=operands, filter=substitute(call.filter, new) if call.filter else None)
