"""DataFrames to be: plans that Spark analyses when they are whole.

PySpark has Spark analyse a DataFrame at each operation, which for a step of a hundred operations takes longer than many a step's jobs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession

from tempura.errors import TempuraError
from tempura.execute.jvm import Jvm
from tempura.frontend.compiled import END, compiled, ended
from tempura.frontend.expressions import column
from tempura.frontend.later import call

JavaObject = Any
"""A py4j proxy."""

Item = str | tuple[str, str] | SparkColumn
"""A column of a selection: the name of one that stays, its name and its new name, or a value."""

_AS, _VALUE = "\1", "\2"
"""What the JVM is told of a selection: between a name and a new name; in the place of a value."""


@dataclass(frozen=True)
class Draft:
    """Rows of a logical plan that nobody has analysed yet. Operations are called in the JVM when the plan is needed, all in one call; a
    name means the column of exactly that name. Mistakes show in :meth:`dataframe`."""

    session: SparkSession
    plan: JavaObject

    @classmethod
    def of(cls, frame: DataFrame) -> "Draft":
        """The rows of a DataFrame."""
        return cls(frame.sparkSession, frame._jdf.queryExecution().analyzed())

    @classmethod
    def parquet(
        cls, session: SparkSession, paths: Iterable[str], schema: str, bucket: Iterable[str] = (), buckets: int = 0
    ) -> "Draft":
        """The rows of Parquet files of this machine, or of all in some folders, whose columns are those of ``schema`` (JSON of a
        StructType), in so many ``buckets`` by the columns ``bucket``, if any. Raises Java's FileNotFoundException when one is missing."""
        given = (ended(paths), schema, ended(bucket), buckets)
        return cls(session, compiled(session, "Leaves").parquet(session._jsparkSession, *given))

    def dataframe(self, session: SparkSession | None = None) -> DataFrame:
        """The rows as a DataFrame, of another session if one is given. Raises what Spark's analyzer raises."""
        return Jvm(self.session).of_plan(session or self.session, self.plan)

    def select(self, *items: Item) -> "Draft":
        """Some columns and values."""
        computed = [item._jc for item in items if isinstance(item, SparkColumn)]
        return self._made("project", ended(map(_encoded, items)), computed)

    def extended(self, *values: SparkColumn) -> "Draft":
        """All columns, and values after them."""
        return self._made("extended", _inner(values))

    def renamed(self, *names: str) -> "Draft":
        """All columns under other names."""
        return self._made("renamed", _names(names))

    def filter(self, condition: SparkColumn) -> "Draft":
        """The rows for which a condition is TRUE."""
        return self._made("filter", condition._jc)

    def join(self, other: "Draft", on: SparkColumn | None, kind: str) -> "Draft":
        """A join; kinds have Spark's names. The columns of both must have different names."""
        return self._made("join", other.plan, kind, None if on is None else on._jc)

    def exists(self, other: "Draft", on: JavaObject, marker: str) -> "Draft":
        """All columns, then a boolean column named ``marker``: whether some row of ``other`` makes ``on``, a Catalyst expression over
        the columns of both, TRUE."""
        return self._made("exists", other.plan, on, marker)

    def single(self, other: "Draft", on: JavaObject) -> "Draft":
        """The left outer join; the job fails when a row matches two rows of ``other``."""
        return self._made("single", other.plan, on)

    def union(self, *others: "Draft") -> "Draft":
        """The rows of all, column by column, with equal rows as often as there are."""
        if not others:
            return self
        return Draft(self.session, call(self._plans(), "union", [self.plan, *(other.plan for other in others)]))

    def aggregate(self, keys: Iterable[str], values: Iterable[SparkColumn]) -> "Draft":
        """A row per group: the columns grouped by, then the aggregates, of which there must be one at least where there are no keys."""
        return self._made("aggregate", _names(keys), _inner(values))

    def distinct(self) -> "Draft":
        """Each row once."""
        return self._made("distinct")

    def sort(self, *keys: SparkColumn) -> "Draft":
        """All rows in an order; keys have a direction."""
        return self._made("sort", _inner(keys))

    def limit(self, rows: int) -> "Draft":
        """The first rows."""
        return self._made("limit", rows)

    def broadcast(self) -> "Draft":
        """The same rows; Spark is told to send them to every task of a join."""
        return self._made("hint", "broadcast")

    def held(self) -> "Draft":
        """The same rows; Spark is told to make a table of them in each task of a join."""
        return self._made("hint", "shuffle_hash")

    def fenced(self) -> "Draft":
        """The same rows; Spark looks at no condition of what comes after for a row that was taken out before: it moves conditions down
        below joins and aggregations."""
        return self._made("fenced")

    def partitioned(self, partitions: int, keys: Iterable[str]) -> "Draft":
        """The same rows in so many partitions, by the hash of their keys."""
        return self._made("partitioned", partitions, _names(keys))

    def gathered(self, partitions: int) -> "Draft":
        """The same rows in no more than so many partitions: where there are more, one takes several as they are."""
        return self._made("gathered", partitions)

    def named(self, name: str) -> "Draft":
        """The same rows; what is at the top, a join, aggregation or filter, has a name under which its rows are found when it has run."""
        return Draft(self.session, call(compiled(self.session, "Rows"), "named", self.plan, name))

    def scalar(self) -> SparkColumn:
        """The value of the only row and column as a column of other rows: a scalar sub-query."""
        subquery = "org.apache.spark.sql.catalyst.expressions.ScalarSubquery"
        return column(Jvm(self.session).construct(subquery, self.plan))

    def _made(self, operation: str, *given: object) -> "Draft":
        return Draft(self.session, call(self._plans(), operation, self.plan, *given))

    def _plans(self) -> Any:
        return compiled(self.session, "Plans")


def _encoded(item: Item) -> str:
    match item:
        case str():
            return _checked(item)
        case (name, new):
            return _checked(name) if name == new else f"{_checked(name)}{_AS}{_checked(new)}"
    return _VALUE


def _names(names: Iterable[str]) -> str:
    return ended(map(_checked, names))


def _checked(name: str) -> str:
    if not {END, _AS, _VALUE}.isdisjoint(name):
        what = f"The name of column {name!r} has a control character."
        raise TempuraError("NOT_EXECUTABLE", what, "Give the column another name, as by AS or in the table's schema.")
    return name


def _inner(columns: Iterable[SparkColumn]) -> list[JavaObject]:
    return [column._jc for column in columns]
