"""Relations as Parquet files without a catalog, bucketed where a later join or aggregation needs them by a key.

Spark reads a folder as bucketed when it is given a bucket specification and the files' names end in the bucket's number. It writes
such files only for tables of its catalog; here each task of a ``repartition(n, key)`` writes one bucket, because Spark hashes rows to
partitions and to buckets in the same way, and the files are renamed afterwards.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.scalar import Column
from tempura.errors import TempuraError
from tempura.execute import functions as fn
from tempura.execute.aggregates import merged_states
from tempura.execute.contract import WEIGHT, Merge, Part, StoredOutput, StoredState
from tempura.execute.draft import Draft, Item
from tempura.execute.identity import is_exact
from tempura.execute.naming import attribute, ids, one, weight
from tempura.execute.netting import net
from tempura.execute.parts import is_grouped, layout_of, signed_after_first, stored_facts
from tempura.execute.relation import Parts, Relation, plain, with_weight
from tempura.execute.writing import write, writer_of

_PART = re.compile(r"(\.?part-(\d+)-[0-9a-f-]{36})-(c\d+.*)")
_NOT_HASHED_ALIKE = re.compile(r"^(array|struct|map|void|variant|interval)")

_WRITING = {
    # A planned write hides the final repartition from adaptive execution, which may then merge partitions: buckets would
    # be written to the wrong files.
    "spark.sql.optimizer.plannedWrite.enabled": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.sources.partitionOverwriteMode": "static",
}

PACKED: Mapping[str, str] = {"compression": "lz4_raw", "parquet.writer.version": "PARQUET_2_0"}
"""How states are packed, as options of Spark's writer: by LZ4, and where a dictionary does not pay, numbers and texts as differences from
those before them. Of the ways that ``tempura bench states`` measures it took the least CPU time of those no larger than Spark's own."""


class Files:
    """Writes and reads relations as folders of Parquet files. The session itself is never changed: writes run in a clone, ``writer``.
    ``packed``: how states are; results are as the session writes files that others read (:meth:`of_results`). ``most``: as many tasks, and
    files of what is in no buckets, as there may be; 0 where it does not matter."""

    def __init__(
        self, session: SparkSession, buckets: int | None = None, packed: Mapping[str, str] = PACKED, most: int = 0
    ) -> None:
        self._session = session
        self._buckets = buckets or int(str(session.conf.get("spark.sql.shuffle.partitions")))
        self._packed = packed
        self._most = most
        self._counts = False
        self.writer = writer_of(session, also=_WRITING)

    def of_results(self) -> "Files":
        """The same for results: nothing is packed, and the rows that weighted parts stand for are counted."""
        other = copy(self)
        other._packed, other._counts = {}, True
        return other

    def save(self, rows: Relation, columns: Sequence[Column], bucket: tuple[int, ...], folder: Path) -> StoredState:
        """Write a state into a new folder. Columns of types that Spark does not hash as it groups them are not bucketed by."""
        bucket = possible_bucket(columns, bucket)
        types = tuple(column.type for column in columns)
        empty = StoredState(types, bucket, self._buckets if bucket else 0, "", ())
        return self._with_part(empty, rows, columns, folder)

    def append(
        self, base: StoredState, keep: int, merge: Merge, delta: Relation, columns: Sequence[Column], folder: Path
    ) -> StoredState:
        """Add ``delta`` to a state, in a new part that takes the place of all but the first ``keep`` of its parts."""
        old = base.with_parts(base.parts[keep:])
        kept = replace(base, parts=base.parts[:keep], merge=merge)
        if old.parts:
            weighted = old.weighted or delta.weighted
            sides = [with_weight(r) if weighted else r.draft for r in (self._raw(old, columns), delta)]
            names = [*ids(columns), *((WEIGHT,) if weighted else ())]
            united = sides[0].select(*names).union(sides[1].select(*names))
            delta = merged(Relation(united, weighted), merge, columns)
        return self._with_part(kept, delta, columns, folder)

    def _with_part(self, stored: StoredState, rows: Relation, columns: Sequence[Column], folder: Path) -> StoredState:
        # Parquet has no file without columns.
        rows = Relation(with_weight(rows), weighted=True) if not columns else rows
        if stored.bucket:
            keys = [columns[i].id for i in stored.bucket]
            rows = Relation(rows.draft.partitioned(stored.buckets, keys), rows.weighted)
        elif self._most:
            # What is computed of buckets is in as many partitions, of a few rows each.
            rows = Relation(rows.draft.gathered(self._most), rows.weighted)
        schema = self._write(rows, columns, folder)
        if stored.bucket:
            _name_buckets(folder)
        weight = weight_of(folder) if rows.weighted and self._counts else None
        part = Part(str(folder), *measure(folder), rows.weighted, weight=weight)
        # The weight is in the schema if some part has one.
        known = stored.schema if stored.weighted else schema
        return replace(stored, schema=known, parts=(*stored.parts, part))

    def save_output(self, rows: Relation, columns: Sequence[Column], folder: Path) -> StoredOutput:
        """Write a query's result, as a plain bag, into a new folder."""
        return StoredOutput.of(self.of_results().save(plain(rows, columns), columns, (), folder))

    def load(self, stored: StoredState, columns: Sequence[Column]) -> Relation:
        """A state under the given columns, which are as many as it has and of the same types; its parts are merged."""
        rows = self._raw(stored, columns)
        if stored.merge is None or not is_grouped(stored):
            return rows
        merge = partial(merged, merge=stored.merge, columns=columns, whole=True)
        return replace(merge(rows), parts=Parts(replace(rows, taken=None), stored.merge.keys, merge))

    def _raw(self, stored: StoredState, columns: Sequence[Column]) -> Relation:
        """The rows of all parts."""
        paths = [part.path for part in stored.parts]
        frame = self._read(paths, stored.schema, stored.bucket, stored.buckets)
        complete = all(part.weighted for part in stored.parts)
        weights = (WEIGHT if complete else fn.coalesce(weight(), one()).alias(WEIGHT),) if stored.weighted else ()
        return Relation(_restored(frame, columns, weights), stored.weighted, self._taken(stored, columns))

    def _taken(self, stored: StoredState, columns: Sequence[Column]) -> Draft | None:
        """The deletions in a bag of several parts, if they are few."""
        if stored_facts(stored).few is None:
            return None
        paths = [part.path for part in signed_after_first(stored)]
        return _restored(self._read(paths, stored.schema, (), 0).filter(weight() < 0), columns, (WEIGHT,))

    def load_output(self, stored: StoredOutput, columns: Sequence[Column]) -> DataFrame:
        """A result under the given columns."""
        return plain(self.load(stored.state, columns), columns).draft.dataframe()

    def load_parts(self, stored: StoredOutput, columns: Sequence[Column]) -> Draft:
        """What the parts of a result hold, as it lies, with weights."""
        return with_weight(self._raw(stored.state, columns))

    def _write(self, rows: Relation, columns: Sequence[Column], folder: Path) -> str:
        named = rows.draft.select(*_positional(columns), *rows.carry()).dataframe(self.writer)
        write(named, folder, self._packed)
        return named.schema.json()

    def _read(self, paths: Sequence[str], schema: str, bucket: tuple[int, ...], buckets: int) -> Draft:
        for path in paths:
            if not Path(path).is_dir():
                raise TempuraError(
                    "STATE_MISSING", f"There is no folder {path}.", "Restore it, or run the query again."
                )
        by = [f"s{i}" for i in bucket]
        return Draft.parquet(self._session, (str(Path(path).absolute()) for path in paths), schema, by, buckets)


def measure(folder: Path) -> tuple[int, int]:
    """Rows and bytes of the Parquet files in a folder, from their footers: no Spark job."""
    files = _data(folder)
    return sum(pq.read_metadata(file).num_rows for file in files), sum(file.stat().st_size for file in files)


def weight_of(folder: Path) -> int:
    """The sum of the weights in the Parquet files of a folder."""
    return sum(compute.sum(pq.read_table(file, columns=[WEIGHT])[WEIGHT]).as_py() or 0 for file in _data(folder))


def merged(rows: Relation, merge: Merge, columns: Sequence[Column], whole: bool = False) -> Relation:
    """The rows of several parts as those of one. Of the ``whole`` state groups without rows are left out; of some parts of it they
    may be what takes away the rows of others."""
    if merge.slots:
        return merged_states(rows, layout_of(merge, columns), whole)
    return net(rows, columns) if rows.weighted else rows


def _data(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


def possible_bucket(columns: Sequence[Column], bucket: tuple[int, ...]) -> tuple[int, ...]:
    """The positions to bucket by, if Spark hashes values of all these types as it groups them; else ()."""
    return bucket if all(_can_bucket(columns[i].type) for i in bucket) else ()


def _can_bucket(type: str) -> bool:
    return is_exact(type) and not _NOT_HASHED_ALIKE.match(type)


_STORED_AS = {"void": "boolean", "interval": "string"}
"""Types that Parquet does not keep, of a bare NULL and of intervals of months and seconds; their texts lose nothing."""


def _positional(columns: Sequence[Column]) -> Iterator[Item]:
    for i, column in enumerate(columns):
        if column.type in _STORED_AS:
            yield attribute(column.id).cast(_STORED_AS[column.type]).alias(f"s{i}")
        else:
            yield column.id, f"s{i}"


def _restored(rows: Draft, columns: Sequence[Column], weight: tuple[Item, ...]) -> Draft:
    return rows.select(*(_typed(f"s{i}", column) for i, column in enumerate(columns)), *weight)


def _typed(name: str, column: Column) -> Item:
    if column.type == "void":
        return fn.lit(None).alias(column.id)
    return attribute(name).cast(column.type).alias(column.id) if column.type in _STORED_AS else (name, column.id)


def _name_buckets(folder: Path) -> None:
    """Append the number of the task that wrote a file, which is its bucket, to the file's name; to its checksum's as well."""
    for file in sorted(folder.iterdir()):
        if match := _PART.fullmatch(file.name):
            file.rename(folder / f"{match[1]}_{match[2]}.{match[3]}")
