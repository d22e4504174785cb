"""Opening a warehouse on Spark."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tempura.frontend.session import current, require_classic
from tempura.frontend.start import OwnSession, start_session
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.declare import local_path
from tempura.warehouse.spark.notes import Notes
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.warehouse import Warehouse, open_site


def open(
    path: str | Path,
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    clock: Callable[[], datetime] | None = None,
    rules: Registry = TEMPURA,
) -> Warehouse:
    """Open the warehouse in a local folder, which is made if it is missing.

    ``spark`` is the session to work in (never changed); this process's active session when not given, or a new local one, which
    is started, by ``spark`` if that is a function, when it is first needed: to look at what was run needs none. By an ``OwnSession``
    what Spark says is noted for later processes, which plan without it.
    ``clock`` gives the time with its zone, by which schedules fall due; the system's when not given.
    ``rules`` are those to plan by, beside those of the modules that ``tempura.toml`` names.

    Raises TempuraError FORMAT_NEWER, FORMAT_OLDER, UNSUPPORTED_PATH, NO_ATOMIC_COMMIT, BAD_CLOCK, SPARK_CONNECT; NO_JAVA when Spark is
    started.
    """
    start = spark if callable(spark) else None
    session = current() if spark is None or callable(spark) else spark
    if session is not None:
        require_classic(session)
    # Where somebody else has started Spark, he may have set what he likes in it.
    is_own = isinstance(start, OwnSession) and SparkContext._active_spark_context is None
    notes = Notes(local_path(path).resolve() / ".tempura" / "noted") if is_own else None
    engine = SparkEngine(lambda: session or (start or start_session)(), notes=notes)
    return open_site(path, engine, Files(), clock, rules)
