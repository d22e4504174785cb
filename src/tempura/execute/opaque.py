"""Operators that Tempura cannot look into: run by Spark as they are, over snapshots of their inputs."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pyspark.sql import SparkSession

from tempura.algebra.rel import Opaque
from tempura.errors import TempuraError
from tempura.execute.draft import Draft, JavaObject
from tempura.execute.naming import ids
from tempura.execute.relation import Relation, expand


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
