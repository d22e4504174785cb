"""Rows of which a column says what happens to each: all kinds are written by one job, which looks at the rows once."""

import shutil
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from tempura.errors import TempuraError
from tempura.execute.jvm import Jvm
from tempura.execute.writing import write, writer_of
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import KINDS, Changes
from tempura.warehouse.spark.incoming import check_frame, conform

_AT_ONCE = {"spark.sql.maxConcurrentOutputFileWriters": str(len(KINDS) + 1)}
"""A task has the files of all kinds open at once; else its rows would be sorted by kind."""


def told(changes: DataFrame) -> Changes:
    """Rows that a caller gives, whose values are looked at when they are written. Raises TempuraError BAD_ROWS for no DataFrame,
    BAD_CHANGE where no column ``_change`` is."""
    check_frame(changes, "Changes")
    if CHANGE not in changes.columns:
        remedy = "Add it, with the values insert, delete and update."
        raise TempuraError("BAD_CHANGE", f"There is no column {CHANGE}.", remedy)
    return Changes(told=changes)


def split(changes: Changes) -> Changes:
    """As :meth:`~tempura.warehouse.engine.Engine.split`. All parts come from one evaluation, also when the rows are computed from random
    numbers or a moving source."""
    if changes.told is None:
        return changes
    rows = changes.told.localCheckpoint(eager=True)
    found = {row[0] for row in rows.select(CHANGE).distinct().collect()}
    if not found <= set(KINDS):
        raise _refused(rows)
    return Changes(*(rows.filter(fn.col(CHANGE) == kind).drop(CHANGE) if kind in found else None for kind in KINDS))


def write_told(rows: DataFrame, schema: StructType, folders: Mapping[str, Path], table: str) -> None:
    """As :meth:`~tempura.warehouse.engine.Engine.write_told`."""
    # Folders are named by numbers: a name could not be told from one in other letters everywhere, nor an empty one from none.
    kinds, other = list(folders), fn.lit(len(folders))
    number = reduce(lambda rest, n: fn.when(fn.col(CHANGE) == kinds[n], n).otherwise(rest), range(len(kinds)), other)
    fitting = conform(rows, schema, table, number)
    writer = writer_of(rows.sparkSession, also=_AT_ONCE)
    together = next(iter(folders.values())).with_name("told")
    write(Jvm(writer).in_session(writer, fitting), together, by=CHANGE)
    written = {place.name: place for place in together.glob(f"{CHANGE}=*")}
    if f"{CHANGE}={len(kinds)}" in written:
        raise _refused(rows)
    for n, kind in enumerate(kinds):
        if place := written.get(f"{CHANGE}={n}"):
            place.rename(folders[kind])
    shutil.rmtree(together)


def _refused(rows: DataFrame) -> TempuraError:
    """What is wrong with rows of which some are of no kind."""
    is_known: SparkColumn = fn.coalesce(fn.col(CHANGE).isin(*KINDS), fn.lit(False))
    bad = rows.filter(~is_known).agg(fn.count(fn.lit(1)), fn.min(CHANGE)).first()
    # Rows that are another each time they are looked at may all be right this time.
    value = f"the value {bad[1]!r}" if bad and bad[0] else "another value"
    return TempuraError(
        "BAD_CHANGE", f"Column {CHANGE} has {value}, not insert, delete or update.", "Correct it; nothing was changed."
    )
