"""Relations as Parquet files without a catalog, bucketed where a later join or aggregation needs them by a key.

Spark reads a folder as bucketed when it is given a bucket specification and the files' names end in the bucket's number. It writes
such files only for tables of its catalog; here each task of a ``repartition(n, key)`` writes one bucket, because Spark hashes rows to
partitions and to buckets in the same way, and the files are renamed afterwards.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from tempura.algebra.scalar import Column
from tempura.errors import TempuraError
from tempura.execute.contract import WEIGHT, Part, StoredOutput, StoredState
from tempura.execute.identity import is_exact
from tempura.execute.jvm import Jvm
from tempura.execute.naming import attribute
from tempura.execute.relation import Relation, expand, with_weight
from tempura.frontend.session import clone

_PART = re.compile(r"(\.?part-(\d+)-[0-9a-f-]{36})-(c\d+.*)")
_NOT_HASHED_ALIKE = re.compile(r"^(array|struct|map|void|variant|interval)")

_WRITING = {
    # A planned write hides the final repartition from adaptive execution, which may then merge partitions: buckets would
    # be written to the wrong files.
    "spark.sql.optimizer.plannedWrite.enabled": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    # Values are stored as they are, whatever the session prefers for files that other systems read.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionOverwriteMode": "static",
}


class Files:
    """Writes and reads relations as folders of Parquet files. The session itself is never changed: writes run in a clone."""

    def __init__(self, session: SparkSession, buckets: int | None = None) -> None:
        self._session = session
        self._buckets = buckets or int(str(session.conf.get("spark.sql.shuffle.partitions")))
        self._jvm = Jvm(session)
        self._writer = clone(session)
        for name, value in _WRITING.items():
            self._writer.conf.set(name, value)

    def save(self, rows: Relation, columns: Sequence[Column], bucket: tuple[int, ...], folder: Path) -> StoredState:
        """Write a state into a new folder. Columns of types that Spark does not hash as it groups them are not bucketed by."""
        if bucket and all(_can_bucket(columns[i].type) for i in bucket):
            keys = [attribute(columns[i].id) for i in bucket]
            rows = Relation(rows.frame.repartition(self._buckets, *keys), rows.weighted)
        else:
            bucket = ()
        # Parquet has no file without columns.
        rows = Relation(with_weight(rows), weighted=True) if not columns else rows
        schema = self._write(rows, columns, folder)
        if bucket:
            _name_buckets(folder)
        part = Part(str(folder), *measure(folder), rows.weighted)
        types = tuple(column.type for column in columns)
        return StoredState(types, bucket, self._buckets if bucket else 0, schema, (part,))

    def save_output(self, rows: Relation, columns: Sequence[Column], folder: Path) -> StoredOutput:
        """Write a query's result, as a plain bag, into a new folder."""
        schema = self._write(Relation(expand(rows, columns), weighted=False), columns, folder)
        return StoredOutput(tuple(column.type for column in columns), schema, Part(str(folder), *measure(folder)))

    def load(self, stored: StoredState, columns: Sequence[Column]) -> Relation:
        """A state under the given columns, which are as many as it has and of the same types."""
        paths = [part.path for part in stored.parts]
        frame = self._read(paths, stored.schema, stored.bucket, stored.buckets)
        return Relation(_renamed(frame, columns, (WEIGHT,) if stored.weighted else ()), stored.weighted)

    def load_output(self, stored: StoredOutput, columns: Sequence[Column]) -> DataFrame:
        """A result under the given columns."""
        return _renamed(self._read([stored.path], stored.schema, (), 0), columns, ())

    def _write(self, rows: Relation, columns: Sequence[Column], folder: Path) -> str:
        named = rows.frame.select(*_positional(columns), *rows.carry())
        self._jvm.in_session(self._writer, named).write.mode("error").parquet(_uri(folder))
        return named.schema.json()

    def _read(self, paths: Sequence[str], schema: str, bucket: tuple[int, ...], buckets: int) -> DataFrame:
        for path in paths:
            if not Path(path).is_dir():
                raise TempuraError(
                    "STATE_MISSING", f"There is no folder {path}.", "Restore it, or run the query again."
                )
        jvm, session = self._jvm, self._session._jsparkSession
        typed = jvm.option(session.parseDataType(schema))
        # Paths are names, not patterns.
        options = jvm.map({"__globPaths__": "false"})
        given = (
            session,
            "parquet",
            jvm.seq([_uri(Path(path)) for path in paths]),
            typed,
            jvm.seq([]),
            self._spec(bucket, buckets),
            options,
        )
        source = jvm.construct("org.apache.spark.sql.execution.datasources.DataSource", *given)
        relation = jvm.call_with_defaults(source, "resolveRelation")
        return DataFrame(session.baseRelationToDataFrame(relation), self._session)

    def _spec(self, bucket: tuple[int, ...], buckets: int) -> Any:
        if not bucket:
            return self._jvm.option()
        names = self._jvm.seq([f"s{i}" for i in bucket])
        spec = "org.apache.spark.sql.catalyst.catalog.BucketSpec"
        return self._jvm.option(self._jvm.construct(spec, buckets, names, self._jvm.seq([])))


def measure(folder: Path) -> tuple[int, int]:
    """Rows and bytes of the Parquet files in a folder, from their footers: no Spark job."""
    files = sorted(folder.glob("part-*.parquet"))
    return sum(pq.read_metadata(file).num_rows for file in files), sum(file.stat().st_size for file in files)


def _can_bucket(type: str) -> bool:
    return is_exact(type) and not _NOT_HASHED_ALIKE.match(type)


_STORED_AS = {"void": "boolean", "interval": "string"}
"""Types that Parquet does not keep, of a bare NULL and of intervals of months and seconds; their texts lose nothing."""


def _positional(columns: Sequence[Column]) -> Iterator[Any]:
    for i, column in enumerate(columns):
        value = attribute(column.id)
        yield (value.cast(_STORED_AS[column.type]) if column.type in _STORED_AS else value).alias(f"s{i}")


def _renamed(frame: DataFrame, columns: Sequence[Column], weight: tuple[str, ...]) -> DataFrame:
    return frame.select(*(_restored(f"s{i}", c.type).alias(c.id) for i, c in enumerate(columns)), *weight)


def _restored(name: str, type: str) -> SparkColumn:
    if type == "void":
        return fn.lit(None)
    return attribute(name).cast(type) if type in _STORED_AS else attribute(name)


def _name_buckets(folder: Path) -> None:
    """Append the number of the task that wrote a file, which is its bucket, to the file's name; to its checksum's as well."""
    for file in sorted(folder.iterdir()):
        if match := _PART.fullmatch(file.name):
            file.rename(folder / f"{match[1]}_{match[2]}.{match[3]}")


def _uri(folder: Path) -> str:
    # Hadoop takes the text after the scheme as it is: nothing must be escaped.
    return f"file://{folder.absolute()}"
