"""A lifted query run by the executor over whole tables: what comes back from the algebra."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.rel import Consolidate, Rel, Scan
from tempura.execute.contract import StoredState
from tempura.execute.draft import Draft
from tempura.execute.naming import attribute
from tempura.execute.spark import SparkExecutor
from tempura.frontend.lift import Lifted
from tempura.physical.operators import Read, StateKey
from tempura.tvr.views import Snapshot


def over_reads(rel: Rel, signed: bool) -> Rel:
    """A relation whose tables are read whole, ``signed``: with weights."""
    if isinstance(rel, Scan):
        read = Read(rel, Snapshot(0), signed)
        return Consolidate(read) if signed else read
    return rel.with_inputs(*(over_reads(input, signed) for input in rel.inputs))


def computed(session: SparkSession, rel: Rel, tables: Mapping[str, DataFrame], signed: bool = False) -> DataFrame:
    """The rows of a relation, at execution time."""

    def read(leaf: Read) -> Draft:
        rows = tables[leaf.scan.table].select(*map(attribute, leaf.scan.fields))
        return Draft.of(rows.selectExpr("*", "1L AS _w") if leaf.signed else rows)

    return SparkExecutor(session, read, _no_state).dataframe(over_reads(rel, signed))


def _no_state(key: StateKey) -> StoredState:
    raise AssertionError(f"a query reads no state, and this one reads {key}")


def result(session: SparkSession, lifted: Lifted, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The result of a lifted query, columns named by their identities."""
    rows = computed(session, lifted.rel, tables)
    return rows.select(*(attribute(c.id) for c in lifted.rel.columns[: lifted.visible]))
