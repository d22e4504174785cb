"""Spark jobs that are measured by themselves: what is asked for is what is run."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tempura.execute.contract import Usage
from tempura.execute.metrics import Meter
from tempura.frontend.session import clone

_AS_ASKED = {
    # No change of plans on the way.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def session_as_asked(spark: SparkSession, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A copy of a session in which Spark does what it is asked, with some more settings."""
    session = clone(spark)
    for key, value in (_AS_ASKED | dict(settings or {})).items():
        session.conf.set(key, value)
    return session


def usage_of(frame: DataFrame, folder: Path | None = None) -> Usage:
    """What it takes to compute a frame and drop its rows, or to write them into ``folder``."""
    with Meter(frame.sparkSession.sparkContext) as meter:
        if folder:
            frame.write.mode("overwrite").parquet(f"file:{folder}/written")
        else:
            frame.write.format("noop").mode("overwrite").save()
    return meter.usage
