"""Catalyst's Aggregate, whose result expressions mix keys and aggregates, as the algebra's Aggregate with a Project on
top."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tempura.algebra.rel import Aggregate, Project, Rel
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref, conjunction
from tempura.frontend.scalars import ScalarLifter, Scope, refuse
from tempura.frontend.tree import Node
from tempura.frontend.unliftable import NotLiftableError

_NUMBER = re.compile(r"#\d+L?")
"""Of an expression id, in the names that Spark 4.0 makes up; another one in each process."""

_COMPARING = frozenset(("Min", "Max", "HyperLogLogPlusPlus"))
_SESSION = "spark.sessionWindow"
"""The mark in a column's metadata by which alone Spark knows, when it plans, to merge windows that overlap."""


@dataclass(slots=True)
class Names:
    """Gives out columns: ``c0``, ``c1`` … in the order of lifting, so that every process lifts the same expressions."""

    count: int = 0

    def column(self, name: str, type: str) -> Column:
        """A new column."""
        column = Column(f"c{self.count}", name, type)
        self.count += 1
        return column


@dataclass(slots=True)
class Split:
    """An aggregation being taken apart: the keys and aggregates found so far."""

    names: Names
    scalars: ScalarLifter
    scope: Scope
    keys: list[Output] = field(default_factory=list)
    aggregates: list[AggregateOutput] = field(default_factory=list)

    def add_key(self, node: Node) -> None:
        """A grouping expression. A plain column keeps its identity; a repeated key is one key."""
        _refuse_session(node)
        expr = self.scalars.lift(node, self.scope)
        refuse_grouping(expr.type)
        if any(key.expr == expr for key in self.keys):
            return
        column = expr.column if isinstance(expr, Ref) else self.names.column(f"key{len(self.keys)}", expr.type)
        self.keys.append(Output(column, expr))

    def result(self, node: Node, more: Scope) -> tuple[str, Expr]:
        """Name and expression of a result column, over keys, aggregates and the columns ``more``."""
        expr = self.scalars.lift(node, {**self.scope, **more}, {"AggregateExpression": self.aggregate})
        known: dict[Expr, Column] = {key.expr: key.column for key in self.keys if not isinstance(key.expr, Literal)}
        return _NUMBER.sub("", node.label), over_columns(expr, known)

    def aggregate(self, node: Node) -> Expr:
        """The column of an AggregateExpression; equal aggregates share one."""
        call = aggregate_call(node, self.scalars, self.scope)
        for output in self.aggregates:
            if output.call == call:
                return Ref(output.column)
        name = f"{call.function.lower()}({', '.join(map(str, call.operands)) or '*'})"
        column = self.names.column(name, call.type)
        self.aggregates.append(AggregateOutput(column, call))
        return Ref(column)


def lift_aggregate(
    node: Node,
    input: Rel,
    scope: Scope,
    names: Names,
    scalars: ScalarLifter,
    more: Scope | None = None,
    above: Callable[[Rel], Rel] = lambda rel: rel,
) -> Rel:
    """The relation of an Aggregate over its lifted input; columns as the node's output. ``above`` adds the columns ``more``, which
    results may read beside keys and aggregates, to the aggregation. Raises NotLiftableError."""
    split = Split(names, scalars, scope)
    for key in node.nodes("groupingExpressions"):
        split.add_key(key)
    results = [split.result(result, more or {}) for result in node.nodes("aggregateExpressions")]
    aggregate = _named(Aggregate(input, tuple(split.keys), tuple(split.aggregates)), results)
    own: dict[Expr, Column] = {Ref(column): column for column in aggregate.columns}
    return project(above(aggregate), [(name, over_columns(expr, own)) for name, expr in results], names)


def project(input: Rel, results: list[tuple[str, Expr]], names: Names) -> Rel:
    """Results by name over ``input``: a Project, or ``input`` itself when it has exactly these columns. A plain column
    keeps its identity the first time."""
    outputs: list[Output] = []
    for name, expr in results:
        taken = {output.column for output in outputs}
        own = isinstance(expr, Ref) and expr.column.name == name and expr.column not in taken
        outputs.append(Output(expr.column if own and isinstance(expr, Ref) else names.column(name, expr.type), expr))
    same = tuple(output.column for output in outputs) == input.columns
    return input if same and all(isinstance(expr, Ref) for _, expr in results) else Project(input, tuple(outputs))


def _named(aggregate: Aggregate, results: list[tuple[str, Expr]]) -> Aggregate:
    """The same aggregation; a column that it makes is named as the first result that is this column."""
    names: dict[Column, str] = {}
    for name, expr in results:
        if isinstance(expr, Ref):
            names.setdefault(expr.column, name)

    def named(column: Column) -> Column:
        return replace(column, name=names.get(column, column.name))

    keys = tuple(k if isinstance(k.expr, Ref) else replace(k, column=named(k.column)) for k in aggregate.keys)
    return Aggregate(aggregate.input, keys, tuple(replace(a, column=named(a.column)) for a in aggregate.aggregates))


def over_columns(expr: Expr, known: dict[Expr, Column]) -> Expr:
    """Replace whole sub-expressions by columns that hold their values."""
    if expr in known:
        return Ref(known[expr])
    if not isinstance(expr, Call):
        return expr
    return replace(expr, operands=tuple(over_columns(operand, known) for operand in expr.operands))


def aggregate_call(node: Node, scalars: ScalarLifter, scope: Scope) -> AggregateCall:
    """The call of an AggregateExpression; rules know which depend on the order of rows. Raises NotLiftableError for functions that
    users defined."""
    function, distinct = node["aggregateFunction"], node["isDistinct"]
    name = function.name
    refuse(function, node)
    operands = scalars.operands(function, scope)
    condition = node.optional("filter")
    filter = scalars.lift(condition, scope) if condition else None
    if name in _COMPARING or distinct:
        for operand in operands:
            refuse_grouping(operand.type)
    if name == "Count" and len(operands) > 1 and not distinct:
        # COUNT(a, b) counts the rows in which neither is NULL.
        present = (Call("IsNotNull", (operand,), "boolean") for operand in operands)
        return AggregateCall("Count", (), "bigint", filter=conjunction(*([filter] if filter else ()), *present))
    return AggregateCall(
        name,
        () if name == "Count" and _counts_rows(operands) else operands,
        function.type,
        distinct,
        filter,
        _detail(name, function, scalars),
        handle=node.handle,
    )


def _counts_rows(operands: tuple[Expr, ...]) -> bool:
    return all(isinstance(operand, Literal) and operand.value is not None for operand in operands)


def _detail(name: str, function: Node, scalars: ScalarLifter) -> str:
    return scalars.mode(function) if name in ("Sum", "Average") else scalars.detail(function)


def _refuse_session(key: Node) -> None:
    """Raises NotLiftableError for a grouping by ``session_window``."""
    marks = (key[argument] for argument in ("metadata", "explicitMetadata") if argument in key.form.arguments)
    if any(_SESSION in str(mark) for mark in marks):
        raise NotLiftableError("SESSION_WINDOW", "sessions, of which a row that comes may make one of two")


def refuse_grouping(type: str) -> None:
    """Raise NotLiftableError for a type with values that are equal and look different: which of 'a' and 'A' stands for
    a group would depend on the order of rows."""
    if " collate " in type:
        raise NotLiftableError(
            "COLLATED_GROUPING", f"groups by values of type {type}, which differ and compare as equal"
        )
