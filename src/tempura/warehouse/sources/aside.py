"""Records that were set aside because they are no rows of their table: Parquet files beside its rows, committed with the arrival."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, DataFile, Rows
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.seals import any_damage, file_checksum
from tempura.warehouse.engine import Engine, Source
from tempura.warehouse.sources.folder import data_files

ASIDE = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("time", TimestampType()),
        StructField("why", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("text", StringType()),
    ]
)
"""What is kept of a record: where it is, what is wrong with it, its bytes, and its value as text (in hexadecimal, if it is none)."""


@dataclass(frozen=True, slots=True)
class Aside:
    """The folder of what was set aside from a table, one folder in it per arrival."""

    table: str
    folder: Path
    files: Files
    engine: Engine

    def put(self, attempt: str, records: Any | None) -> tuple[DataFile, ...]:
        """Write records durably; they count once their arrival is committed."""
        if records is None:
            return ()
        target = self.folder / attempt
        self.files.make_folder(self.folder)
        self.engine.write(records, ASIDE, target, self.table)
        self.files.sync_tree(target)
        return tuple(map(self._file, data_files(target)))

    def _file(self, path: Path) -> DataFile:
        stat, found = path.stat(), pq.read_metadata(path)
        size = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
        name = str(path.relative_to(self.folder))
        return DataFile(name, stat.st_size, stat.st_mtime_ns, found.num_rows, size, file_checksum(path))

    def source(self, arrivals: Sequence[Arrival]) -> Source:
        """All records that these arrivals have set aside. Raises TempuraError ROWS_DAMAGED."""
        files = [(self.folder / file.path, file) for arrival in arrivals for file in arrival.aside]
        wrong = any_damage((path, file.size, file.checksum) for path, file in files)
        if wrong:
            remedy = "Restore it from a backup; the rows of the table are not concerned."
            raise TempuraError("ROWS_DAMAGED", f"Table {self.table}: {wrong}.", remedy)
        return Source(ASIDE, Rows(tuple(str(path) for path, _ in files)))


def count(arrivals: Sequence[Arrival]) -> int:
    """How many records were set aside."""
    return sum(file.rows for arrival in arrivals for file in arrival.aside)
