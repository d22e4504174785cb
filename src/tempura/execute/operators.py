"""Operators that Spark has ways of its own for: several rows from each row, scalar sub-queries, windows, and what runs as it is."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession

from tempura.algebra.expand import Expand
from tempura.algebra.one import One
from tempura.algebra.rel import Opaque
from tempura.algebra.scalar import Column, Expr
from tempura.algebra.window import Window
from tempura.errors import TempuraError
from tempura.execute import functions as fn
from tempura.execute.draft import Draft, JavaObject
from tempura.execute.identity import is_exact, is_ordered
from tempura.execute.naming import attribute, attributes, ids
from tempura.execute.relation import Relation, expand
from tempura.frontend.bind_window import bind_place, bind_window, in_range, tie_breaks
from tempura.frontend.expressions import column


def expanded(rel: Expand, input: Relation, scalar: Callable[[Expr], SparkColumn]) -> Relation:
    """For each row one row per projection, with the row's weight."""
    rows = [fn.struct(*(scalar(o.expr).alias(o.column.id) for o in p)) for p in rel.projections]
    return Relation(input.draft.select(fn.inline(fn.array(*rows)), *input.carry()), input.weighted)


def one_row(rel: One, input: Relation) -> Relation:
    """The only row of the input, or NULLs. The job fails with SCALAR_SUBQUERY_TOO_MANY_ROWS when there are two."""
    rows = expand(input, rel.columns)
    packed = rows.select(fn.struct(*attributes(rel.columns)).alias("_row"))
    value = Draft.of(rows.session.range(0, 1, 1, 1)).select(packed.scalar().alias("_row"))
    fields = [attribute("_row").getField(column.id).alias(column.id) for column in rel.columns]
    return Relation(value.select(*fields), weighted=False)


_PLACE = "_place"


def window(rel: Window, input: Relation) -> Relation:
    """The rows of a window, a plain bag: ties have the order of all columns, as in the interpreter."""
    rows = expand(input, rel.input.columns)
    ties = tie_breaks(rel.input.columns, is_ordered, is_exact)
    if any(map(in_range, rel.functions)):
        rows = rows.extended(column(bind_place(rel, ties, _name)).alias(_PLACE))
    values = [column(bind_window(rel, f, ties, _name, _PLACE)).alias(f.column.id) for f in rel.functions]
    return Relation(rows.select(*ids(rel.input.columns), *values), weighted=False)


def _name(column: Column) -> str:
    return column.id


@runtime_checkable
class Answering(Protocol):
    """The handle of an ``Opaque``."""

    def answer(self, session: SparkSession, rows: Sequence[JavaObject]) -> JavaObject:
        """The plan of what Spark answers when the inputs have the rows of these plans, column by column."""


def recompute(session: SparkSession, rel: Opaque, inputs: Sequence[Relation]) -> Relation:
    """The result over the given rows of the inputs, as a plain bag.

    ``rel.handle`` answers it. Raises TempuraError ``NOT_EXECUTABLE`` when there is none.
    """
    if not isinstance(rel.handle, Answering):
        raise TempuraError("NOT_EXECUTABLE", f"nothing says how to run {rel.label}.", "Lift the query anew.")
    rows = [expand(given, i.columns).select(*ids(i.columns)).plan for given, i in zip(inputs, rel.inputs, strict=True)]
    result = Draft(session, rel.handle.answer(session, rows))
    return Relation(result.renamed(*ids(rel.outputs)), weighted=False)
