"""Writing Parquet files: by which settings, and into a folder that nobody looks at before all is there.

Hadoop starts a process, ``chmod``, for each folder and file that it makes on this machine: nine for a file of one row. In sessions
that Tempura starts it does not (``frontend/janino/Disk.java``). For others folders are made before, and what is of no use here is not
made: the mark that all was written, which a ledger is.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from tempura.frontend.compiled import compiled, ended
from tempura.frontend.session import clone

_WRITING = {
    # Values are stored as they are, whatever the session prefers for files that other systems read.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    # A task puts its files where they belong, and the job does not move them again: who writes drops the folder if anything fails.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
_UNMARKED = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}

_MADE_BY_HADOOP = Path("_temporary", "0", "_temporary")
"""Where tasks of a job have their folders until they end."""


def writer_of(
    session: SparkSession, marked: bool = False, also: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """A copy of a session for writing. ``marked``: a folder in which all was written has a file ``_SUCCESS``. ``also``: more settings."""
    writer = clone(session)
    given = _WRITING | ({} if marked else _UNMARKED) | dict(also)
    compiled(session, "Settings").add(writer._jsparkSession, ended(text for item in given.items() for text in item))
    return writer


def write(
    rows: DataFrame, folder: Path, options: Mapping[str, str] = MappingProxyType({}), by: str | None = None
) -> None:
    """Write rows of a writer's session into a folder, which must not be there. Raises FileExistsError if it is, and what Spark raises.
    ``options`` are of Spark's writer; the rows of each value of the column ``by`` come into a folder of their own there, without it."""
    folder.mkdir(parents=True)
    (folder / _MADE_BY_HADOOP).mkdir(parents=True)
    # Hadoop takes the text after the scheme as it is: nothing must be escaped.
    writer = rows.write.mode("append").options(**options)
    (writer.partitionBy(by) if by else writer).parquet(f"file://{folder.absolute()}")
