"""Calls into Spark's JVM classes that pyspark does not wrap."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tempura.frontend.java import java

DATASET = "org.apache.spark.sql.classic.Dataset"


class Jvm:
    """The JVM of a session: plans as DataFrames, and methods whose list of parameters depends on the Spark version."""

    def __init__(self, session: SparkSession) -> None:
        self.java = java(session.sparkContext._jvm)

    def construct(self, name: str, *given: object) -> Any:
        """A new object; parameters after the given ones take their Scala defaults (newer Spark versions have more of them)."""
        companion, wanted = self.companion(name), self._parameters(name, None)
        defaults = (getattr(companion, f"$lessinit$greater$default${i + 1}")() for i in range(len(given), wanted))
        return getattr(self.java, name)(*given, *defaults)

    def call_with_defaults(self, target: Any, method: str, *given: object) -> Any:
        """Call a method; parameters after the given ones take their Scala defaults."""
        wanted = range(len(given), self._parameters(target.getClass().getName(), method))
        return getattr(target, method)(*given, *(getattr(target, f"{method}$default${i + 1}")() for i in wanted))

    def _parameters(self, type: str, method: str | None) -> int:
        """How many parameters the only method of a name has in this version of Spark, or the constructor."""
        found: dict[tuple[str, str | None], int] = self.java.parameters
        if (type, method) not in found:
            loader = self.java.static("java.lang.Thread", "currentThread")().getContextClassLoader()
            made = self.java.static("java.lang.Class", "forName")(type, True, loader)
            of = made.getMethods() if method else made.getConstructors()[:1]
            (one,) = (m for m in of if method in (None, m.getName()))
            found[type, method] = one.getParameterCount()
        return found[type, method]

    def in_session(self, session: SparkSession, frame: DataFrame) -> DataFrame:
        """The same DataFrame in another session of the application, under that session's configuration."""
        return self.of_plan(session, frame._jdf.queryExecution().analyzed())

    def leaf(self, frame: DataFrame) -> DataFrame:
        """A persisted DataFrame as a leaf: what it was computed from is no part of the new one's plan. Runs the jobs up to the last
        exchange."""
        rows = frame._jdf.queryExecution().toRdd()
        leaves = self.companion("org.apache.spark.sql.execution.LogicalRDD")
        return self.of_plan(frame.sparkSession, self.call_with_defaults(leaves, "fromDataset", rows, frame._jdf, False))

    def of_plan(self, session: SparkSession, plan: Any) -> DataFrame:
        """The rows of a logical plan, which is analysed. Raises what Spark's analyzer raises."""
        return DataFrame(self.java.static(DATASET, "ofRows")(session._jsparkSession, plan), session)

    def companion(self, name: str) -> Any:
        """The Scala object of a name."""
        return self.java.static(f"{name}$", "MODULE$")
