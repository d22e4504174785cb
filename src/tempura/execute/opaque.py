"""Operators that Tempura cannot look into: run by Spark as they are, over snapshots of their inputs."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.rel import Opaque
from tempura.errors import TempuraError
from tempura.execute.draft import Draft
from tempura.execute.naming import ids
from tempura.execute.relation import Relation, expand


@runtime_checkable
class Answering(Protocol):
    """The handle of an ``Opaque``."""

    def answer(self, session: SparkSession, rows: Sequence[DataFrame]) -> DataFrame:
        """What Spark answers when the inputs have these rows, column by column."""


def recompute(session: SparkSession, rel: Opaque, inputs: Sequence[Relation]) -> Relation:
    """The result over the given rows of the inputs, as a plain bag.

    ``rel.handle`` answers it. Raises TempuraError ``NOT_EXECUTABLE`` when there is none.
    """
    if not isinstance(rel.handle, Answering):
        raise TempuraError("NOT_EXECUTABLE", f"nothing says how to run {rel.label}.", "Lift the query anew.")
    rows = [
        expand(given, i.columns).select(*ids(i.columns)).dataframe()
        for given, i in zip(inputs, rel.inputs, strict=True)
    ]
    result = rel.handle.answer(session, rows)
    return Relation(Draft.of(result).renamed(*ids(rel.outputs)), weighted=False)
