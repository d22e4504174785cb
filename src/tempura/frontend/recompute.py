"""What an executor needs to run a query as it is, over snapshots of its tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from tempura.errors import Reason
from tempura.frontend.catalyst import EXPRESSIONS, PLANS, JavaObject, items, jvm_of
from tempura.frontend.checks import plans
from tempura.frontend.marker import marked_table


@dataclass(frozen=True, slots=True)
class Recompute:
    """The handle of an ``Opaque`` query: ``plan`` is its analysed plan over leaves that stand for tables. ``sql`` tells it from
    others."""

    sql: str
    plan: JavaObject = field(compare=False, repr=False)

    def answer(self, session: SparkSession, rows: Mapping[str, DataFrame]) -> DataFrame:
        """What Spark answers when the tables have these rows, whose columns are the tables' by position.

        Leaves are replaced, also those of views and sub-queries: a temporary view that the user made of a DataFrame keeps the
        files that the table had then, and must not be asked.
        """
        jvm = jvm_of(session)
        replaced = jvm.scala.collection.immutable.HashMap()
        for plan in plans(self.plan):
            for leaf in items(plan.collectLeaves()):
                table = marked_table(leaf)
                replaced = replaced.updated(leaf, _in_place_of(jvm, leaf, rows[table])) if table else replaced
        answered = self.plan.transformUpWithSubqueries(replaced)
        dataset = getattr(jvm, "org.apache.spark.sql.classic.Dataset")
        return DataFrame(dataset.ofRows(session._jsparkSession, answered), session)


def _in_place_of(jvm: JavaObject, leaf: JavaObject, rows: DataFrame) -> JavaObject:
    """A plan with the columns of ``leaf``, identities included."""
    plan = rows._jdf.queryExecution().analyzed()
    pairs = zip(items(plan.output()), items(leaf.output()), strict=True)
    alias, nothing = getattr(jvm, f"{EXPRESSIONS}.Alias"), jvm.PythonUtils.toSeq([])
    named = [alias(own, a.name(), a.exprId(), nothing, jvm.scala.Option.empty(), nothing) for own, a in pairs]
    return getattr(jvm, f"{PLANS}.Project")(jvm.PythonUtils.toSeq(named), plan)


class NotLiftableError(Exception):
    """Inside the front end: the algebra has no expression for this.

    Becomes a recompute with this reason, or the user's error NOT_LIFTABLE.
    """

    def __init__(self, code: str, detail: str) -> None:
        self.reason = Reason(code, detail)
        super().__init__(str(self.reason))
