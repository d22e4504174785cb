"""Where deleted rows lie: a deletion is noted with the file and the number of the row that it takes away, when it arrives and is looked for
anyway. A version is then read once, as it lies, without the rows at these places; else its rows have to be set off against those deleted.

Of equal rows any may be taken. Places are in files that the warehouse wrote, which stay as they are; a name is that of one file only,
for Spark puts a random number into it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StringType, StructField, StructType


def place_columns(columns: Iterable[str]) -> tuple[str, str]:
    """Names for the columns of a file's name and of the number of a row in it, beside those of a table."""
    taken = {name.lower() for name in columns}
    file, row = "_file", "_row"
    while {file, row} & taken:
        file, row = f"_{file}", f"_{row}"
    return file, row


def with_places(schema: StructType, names: Sequence[str]) -> StructType:
    """The columns of a table and those of places, if there are some."""
    return StructType([*schema.fields, *places_only(names).fields])


def places_only(names: Sequence[str]) -> StructType:
    """The columns of places."""
    types = (StringType(), LongType())
    return StructType([StructField(name, type) for name, type in zip(names, types, strict=False)])


def files_hit(paths: Iterable[Path], names: Sequence[str]) -> tuple[str, ...]:
    """The names of the files in which rows lie, by the columns of places in Parquet files; none without such columns."""
    if not names:
        return ()
    found = (pq.read_table(path, columns=[names[0]])[names[0]].unique().to_pylist() for path in paths)
    return tuple(sorted({name for some in found for name in some}))
