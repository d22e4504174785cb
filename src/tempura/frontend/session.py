"""Sessions: a copy of the user's Spark session to work in, so that the user's own is never changed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.frontend.catalyst import JavaObject
from tempura.frontend.compiled import compile_beforehand, compiled


def clone(spark: SparkSession) -> SparkSession:
    """A copy with the user's views, functions and configuration (``newSession`` would lose the views and the time
    zone).

    Raises TempuraError SPARK_CONNECT for a session without access to Catalyst, NO_SESSION for one that was stopped.
    """
    require_classic(spark)
    require_running(spark)
    with _same_rdd_methods():
        return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def started_in_background(start: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
    """Begin to start a session, and to compile Tempura's own Java in it, in a thread that a process does not end without. Returns what
    waits for the session, and raises what its start has raised."""

    def prepared() -> SparkSession:
        session = start()
        require_classic(session)
        compile_beforehand(session)
        return session

    pool = ThreadPoolExecutor(1, "tempura-start")
    starting = pool.submit(prepared)
    pool.shutdown(wait=False)

    def started() -> SparkSession:
        session = starting.result()
        # A thread of Python has a thread of Java to itself: the session is active in that of the one above.
        _sessions(session).setActiveSession(session._jsparkSession)
        return session

    return started


def current() -> SparkSession | None:
    """This thread's active session; None when there is none."""
    with _same_rdd_methods():
        return SparkSession.getActiveSession()


def no_rows(session: SparkSession, schema: StructType) -> DataFrame:
    """A DataFrame without rows and without partitions. ``session.createDataFrame`` would start Python workers to make it, and make
    the session the process's active one."""
    return DataFrame(compiled(session, "Tables").empty(session._jsparkSession, schema.json()), session)


@contextmanager
def _same_rdd_methods() -> Iterator[None]:
    """Making a SparkSession object rebinds RDD.toDF to it, for all sessions of the process: undo that."""
    to_dataframe = getattr(RDD, "toDF", None)
    try:
        yield
    finally:
        if to_dataframe is not None:
            RDD.toDF = to_dataframe  # type: ignore[method-assign]


def require_classic(spark: SparkSession) -> None:
    """Raise TempuraError SPARK_CONNECT unless the session runs in this process's JVM."""
    if getattr(spark, "_jsparkSession", None) is None:
        raise TempuraError(
            "SPARK_CONNECT",
            "This is a Spark Connect session, which gives no access to Spark's analyzer and optimizer.",
            "Use a classic session: SparkSession.builder.master(...).getOrCreate() without .remote(...).",
        )


def require_running(spark: SparkSession) -> None:
    """Raise TempuraError NO_SESSION for a session that its program has stopped, whether or not it has started another since."""
    if spark.sparkContext._jsc is None:
        raise TempuraError(
            "NO_SESSION",
            "The Spark session was stopped that the warehouse works in, or that a DataFrame is of.",
            "Keep it until results are read; or start another, and open the warehouse anew with that.",
        )


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Make a session the JVM thread's active one for a while: Catalyst's rules read their configuration from there."""
    sessions = _sessions(spark)
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _sessions(spark: SparkSession) -> JavaObject:
    """The JVM's object of all sessions."""
    return getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
