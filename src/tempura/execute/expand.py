"""Several rows from each row on Spark: the projections as an array of structs, and one row per element. The input is read once."""

from collections.abc import Callable

from pyspark.sql import Column as SparkColumn

from tempura.algebra.expand import Expand
from tempura.algebra.scalar import Expr
from tempura.execute import functions as fn
from tempura.execute.relation import Relation


def expanded(rel: Expand, input: Relation, scalar: Callable[[Expr], SparkColumn]) -> Relation:
    """For each row one row per projection, with the row's weight."""
    rows = [fn.struct(*(scalar(o.expr).alias(o.column.id) for o in p)) for p in rel.projections]
    return Relation(input.draft.select(fn.inline(fn.array(*rows)), *input.carry()), input.weighted)
