"""Columns of relations as columns of Spark: a column's name is its identity."""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn

from tempura.algebra.scalar import Column
from tempura.execute import functions as fn
from tempura.execute.contract import WEIGHT


def attribute(name: str) -> SparkColumn:
    """The column of that name, whatever characters it has."""
    return fn.col("`" + name.replace("`", "``") + "`")


def ids(columns: Sequence[Column]) -> list[str]:
    """The names of the columns, in order."""
    return [column.id for column in columns]


def weight() -> SparkColumn:
    """The weight of a row."""
    return fn.col(WEIGHT)


def one() -> SparkColumn:
    """The weight of a row of a plain bag."""
    return fn.lit(1).cast("bigint")


def attributes(columns: Sequence[Column]) -> list[SparkColumn]:
    """The columns, in order, as arguments of functions."""
    return [attribute(column.id) for column in columns]
