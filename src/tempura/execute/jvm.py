"""Calls into Spark's JVM classes that pyspark does not wrap."""

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession


class Jvm:
    """The JVM of a session: Scala collections, and methods whose list of parameters depends on the Spark version."""

    def __init__(self, session: SparkSession) -> None:
        self.gateway: Any = session.sparkContext._jvm

    def seq(self, items: Iterable[object]) -> Any:
        """An immutable Scala Seq."""
        array = self.gateway.java.util.ArrayList()
        for item in items:
            array.add(item)
        return self.gateway.scala.jdk.javaapi.CollectionConverters.asScala(array).toSeq()

    def map(self, entries: dict[str, str]) -> Any:
        """An immutable Scala Map."""
        made = self.companion("scala.collection.immutable.Map").empty()
        for key, value in entries.items():
            made = made.updated(key, value)
        return made

    def option(self, value: object = None) -> Any:
        """Some(value), or None."""
        return self.gateway.scala.Option.apply(value)

    def construct(self, name: str, *given: object) -> Any:
        """A new object; parameters after the given ones take their Scala defaults (newer Spark versions have more of them)."""
        made, companion = self._class(name), self.companion(name)
        wanted = made.getConstructors()[0].getParameterCount()
        defaults = (getattr(companion, f"$lessinit$greater$default${i + 1}")() for i in range(len(given), wanted))
        return self._package(name)(*given, *defaults)

    def call_with_defaults(self, target: Any, method: str, *given: object) -> Any:
        """Call a method; parameters after the given ones take their Scala defaults."""
        (found,) = (m for m in target.getClass().getMethods() if m.getName() == method)
        wanted = range(len(given), found.getParameterCount())
        return getattr(target, method)(*given, *(getattr(target, f"{method}$default${i + 1}")() for i in wanted))

    def in_session(self, session: SparkSession, frame: DataFrame) -> DataFrame:
        """The same DataFrame in another session of the application, under that session's configuration."""
        return self._of_plan(session, frame._jdf.queryExecution().analyzed())

    def leaf(self, frame: DataFrame) -> DataFrame:
        """A persisted DataFrame as a leaf: what it was computed from is no part of the new one's plan. Runs the jobs up to the last
        exchange."""
        rows = frame._jdf.queryExecution().toRdd()
        leaves = self.companion("org.apache.spark.sql.execution.LogicalRDD")
        return self._of_plan(
            frame.sparkSession, self.call_with_defaults(leaves, "fromDataset", rows, frame._jdf, False)
        )

    def _of_plan(self, session: SparkSession, plan: Any) -> DataFrame:
        return DataFrame(
            self.gateway.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session
        )

    def _class(self, name: str) -> Any:
        loader = self.gateway.java.lang.Thread.currentThread().getContextClassLoader()
        return self.gateway.java.lang.Class.forName(name, True, loader)

    def companion(self, name: str) -> Any:
        """The Scala object of a name."""
        return getattr(self._package(f"{name}$"), "MODULE$")

    def _package(self, name: str) -> Any:
        found = self.gateway
        for part in name.split("."):
            found = getattr(found, part)
        return found
