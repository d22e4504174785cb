"""A continuous join from SQL: the front end lifts it by Spark's analyzer, and what is inner joins, conditions and projections over the
sources becomes a join query, with the projection of its result."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tempura.algebra.evaluate_scalar import evaluate
from tempura.algebra.rel import Filter, Join, Project, Rel, Scan
from tempura.algebra.scalar import TRUE, Call, Column, Expr, Ref, conjuncts, substitute
from tempura.errors import TempuraError
from tempura.frontend.lift import lift_sql
from tempura.streams.query import Input, JoinQuery, Window
from tempura.streams.types import arrow_type


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs: the join, for each of its inputs the source's name and the fields that are read, and the result's columns as
    expressions over the inputs' columns."""

    query: JoinQuery
    sources: tuple[str, ...]
    fields: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, Expr, str], ...]

    @property
    def schema(self) -> pa.Schema:
        """Of the result's changes: its columns, and ``_change``, which is insert or delete."""
        return pa.schema([*((name, arrow_type(type)) for name, _, type in self.outputs), ("_change", pa.string())])


def plan_of(query: JoinQuery) -> Plan:
    """A join as it stands: all columns of all inputs, with the input's name before those that several have."""
    names = Counter(c.name for i in query.inputs for c in i.columns)
    outputs = tuple(
        (c.name if names[c.name] == 1 else f"{i.name}_{c.name}", Ref(c), c.type)
        for i in query.inputs
        for c in i.columns
    )
    fields = tuple(tuple(c.name for c in i.columns) for i in query.inputs)
    return Plan(query, tuple(i.name for i in query.inputs), fields, outputs)


def plan_sql(session: SparkSession, sql: str, schemas: Mapping[str, StructType], windows: Mapping[str, Window]) -> Plan:
    """The plan of a SELECT over sources.

    Raises TempuraError BAD_STREAM_JOIN for what is no inner join of sources, and what :func:`~tempura.frontend.lift.lift_sql` raises.
    """
    lifted = lift_sql(session, sql, schemas)
    if lifted.order:
        raise _bad("a stream of changes has no order.", "Leave ORDER BY out.")
    scans, conditions, values = _parts(lifted.rel)
    taken: Counter[str] = Counter()
    inputs = []
    for scan in scans:
        taken[scan.table] += 1
        name = scan.table if taken[scan.table] == 1 else f"{scan.table}_{taken[scan.table]}"
        inputs.append(Input(name, scan.outputs, windows.get(scan.table)))
    query = JoinQuery(tuple(inputs), reduce(_and, map(bare, conditions), cast(Expr, TRUE)))
    shown = lifted.rel.columns[: lifted.visible]
    twice = [name for name, count in Counter(lifted.names).items() if count > 1]
    if twice:
        raise _bad(f"two columns of the result have the name {twice[0]}.", "Rename one with AS.")
    outputs = tuple((name, bare(values[c]), c.type) for name, c in zip(lifted.names, shown, strict=True))
    for expr in (*(expr for _, expr, _ in outputs), *query.conditions):
        _check_computed(expr)
    for column in query.owner:
        arrow_type(column.type)
    return Plan(query, tuple(s.table for s in scans), tuple(s.fields for s in scans), outputs)


def _parts(rel: Rel) -> tuple[list[Scan], list[Expr], dict[Column, Expr]]:
    """The sources of a relation, the conditions of its joins and filters, and its columns as expressions over theirs."""
    match rel:
        case Scan():
            return [rel], [], {c: Ref(c) for c in rel.outputs}
        case Filter():
            scans, conditions, values = _parts(rel.inputs[0])
            return scans, [*conditions, *(substitute(p, values) for p in conjuncts(rel.predicate))], values
        case Project():
            scans, conditions, values = _parts(rel.inputs[0])
            return scans, conditions, {o.column: substitute(o.expr, values) for o in rel.outputs}
        case Join(kind="inner"):
            scans, conditions, values = _parts(rel.left)
            others, more, columns = _parts(rel.right)
            both = values | columns
            return [*scans, *others], [*conditions, *more, *(substitute(p, both) for p in conjuncts(rel.on))], both
    raise _bad(
        f"the query has {rel.label or type(rel).__name__!r}, which is no inner join.", "Join sources by equalities."
    )


def bare(expr: Expr) -> Expr:
    """An expression without the engine's: what is computed by the interpreter, in another process, needs none."""
    if not isinstance(expr, Call):
        return expr
    return replace(expr, operands=tuple(bare(operand) for operand in expr.operands), handle=None)


def _check_computed(expr: Expr) -> None:
    """Refuse what is not computed here before anything runs. Over NULLs every function that is known gives NULL, or a value."""
    nulls: dict[Column, object] = dict.fromkeys(expr.columns)
    try:
        evaluate(expr, nulls)
    except TempuraError as error:
        raise _bad(f"{expr} is not computed in a continuous join.", "Compute it before, or from the result.") from error


def _and(left: Expr, right: Expr) -> Expr:
    return right if left == TRUE else Call("And", (left, right), "boolean")


def _bad(what: str, remedy: str) -> TempuraError:
    return TempuraError("BAD_STREAM_JOIN", what, remedy)


def schema_of(columns: Sequence[tuple[str, str]]) -> StructType:
    """Names and types as Spark's schema."""
    found = StructType.fromDDL(", ".join(f"`{name}` {type}" for name, type in columns))
    assert isinstance(found, StructType)
    return found
