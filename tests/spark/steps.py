"""Progressive plans run on Spark, step by step, over tables in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tempura.algebra.bag import SignedBag
from tempura.execute.contract import WEIGHT, StoredState
from tempura.execute.draft import Draft
from tempura.execute.spark import SparkExecutor
from tempura.physical.operators import Read, StateKey
from tempura.plan.progressive import ProgressivePlan
from tempura.tvr.staircase import whole
from tempura.tvr.views import Snapshot
from tests.plans.random_queries import Table
from tests.spark.bags import frame, signed_bag


def schema_of(ddl: str) -> StructType:
    """Columns from their declaration."""
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    return parsed


@dataclass
class Run:
    """Steps in one folder, which read the arrivals of ``tables``; their columns are ``ddl``."""

    spark: SparkSession
    folder: Path
    tables: Mapping[str, Table]
    ddl: Mapping[str, str]
    _states: dict[StateKey, StoredState] = field(default_factory=dict)

    def rows(self, table: str, bag: SignedBag, signed: bool) -> DataFrame:
        """A bag of a table's rows."""
        fields = schema_of(self.ddl[table]).fields
        types = [field.dataType.simpleString() for field in fields]
        return frame(self.spark, bag, [field.name for field in fields], types, signed)

    def batch(self, sql: str, t: int) -> DataFrame:
        """What Spark makes of a query at a time."""
        for name, table in self.tables.items():
            self.rows(name, table.snapshot(t), signed=False).createOrReplaceTempView(name)
        return self.spark.sql(sql)

    def results(self, plan: ProgressivePlan, width: int) -> list[SignedBag]:
        """What the plan of a query with ``width`` columns gives at each time."""
        executor = SparkExecutor(self.spark, self._read, self._states.__getitem__, buckets=2)
        found = []
        for step in plan.steps:
            outcome = executor.run(step, self.folder / f"step {step.time}")
            self._states |= outcome.states
            assert outcome.output is not None
            assert step.emit is not None
            names = tuple(f"c{i}" for i in range(width))
            found.append(signed_bag(executor.result(outcome.output, step.emit.columns, names), width))
        return found

    def _read(self, leaf: Read) -> Draft:
        table, at = self.tables[leaf.scan.table], leaf.at
        bag = table.snapshot(whole(at.t)) if isinstance(at, Snapshot) else table.delta(whole(at.t), whole(at.u))
        rows = Draft.of(self.rows(leaf.scan.table, bag, leaf.signed))
        return rows.select(*leaf.scan.fields, *([WEIGHT] if leaf.signed else []))
