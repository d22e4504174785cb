"""Sinks of regions: a callback, a folder of Parquet files, and what takes batches under an id, as a table of a warehouse does."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tempura.region.operators import Batch, Sink


class Callback(Sink):
    """Calls a function with each batch, in order, at once. It stands in the process of the controller (``place="driver"``), which no
    worker's death touches: each batch is given once, as long as that process lives. A function that raises pauses the region;
    ``retry`` calls it with the same batch again."""

    state: ClassVar[tuple[str, ...]] = ("taken",)

    def __init__(self, function: Callable[[Batch], object]) -> None:
        self._function = function
        self.taken = 0

    def write(self, batch: Batch) -> None:
        self._function(batch)
        self.taken += batch.num_rows


class Epochs(Sink):
    """What sinks have in common that let be seen a snapshot's rows at once: rows are kept, prepared under the snapshot's number in a
    folder of the sink's own, and taken over when the snapshot is complete, each number once."""

    state: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)

    def prepare(self, id: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        batches, self._batches = self._batches, []
        path = self._prepared(int(id))
        if batches:
            new = path.with_suffix(".new")
            self.store(pa.Table.from_batches(batches), new)
            os.replace(new, path)
        else:
            path.unlink(missing_ok=True)

    def commit(self, id: str) -> None:
        for path in sorted(self._folder.glob(f".{self._name}-*.prepared")):
            number = int(path.stem.rpartition("-")[2])
            if number <= int(id):
                self.take_over(path, f"{self._name}-{number:010d}")
                path.unlink(missing_ok=True)

    def _prepared(self, number: int) -> Path:
        return self._folder / f".{self._name}-{number:010d}.prepared"

    def store(self, rows: pa.Table, path: Path) -> None:
        """Write rows to a file, from which they are taken over."""
        raise NotImplementedError(type(self).__name__)

    def take_over(self, path: Path, id: str) -> None:
        """Let the rows of a file be seen, under an id: a second time changes nothing."""
        raise NotImplementedError(type(self).__name__)


class ParquetFolder(Epochs):
    """Parquet files in a folder, one per worker and snapshot, each by a rename: whoever reads the folder sees whole files only, each row
    once. ``name`` tells the files of a region's workers apart."""

    def store(self, rows: pa.Table, path: Path) -> None:
        pq.write_table(rows, path)

    def take_over(self, path: Path, id: str) -> None:
        os.replace(path, self._folder / f"{id}.parquet")


class Pushed(Epochs):
    """Pushes the rows of each snapshot with ``push(rows, id)``, which does nothing when it is called again with an id; it stands in the
    process of the controller. ``push`` gets an Arrow table; files in ``folder`` keep the rows until then. ``job`` is part of the ids."""

    def __init__(self, folder: Path, job: str, push: Callable[[pa.Table, str], object]) -> None:
        super().__init__(folder, job)
        self._push = push

    def store(self, rows: pa.Table, path: Path) -> None:
        pq.write_table(rows, path)

    def take_over(self, path: Path, id: str) -> None:
        self._push(pq.read_table(path), id)
