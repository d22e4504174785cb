"""Sources of regions: a folder of Parquet files, a rate, batches that a program gives. Positions are plain data, from which the same rows
are read again."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tempura.errors import TempuraError
from tempura.region.operators import Batch, Read, Source, State

LOOK = 0.2
"""Seconds between two looks at a folder."""


class Folder(Source):
    """The rows of the Parquet files of a folder, in the order of their names among those that are new at a look. A file must be whole
    when it appears (written elsewhere and renamed), and must not change: what was read of it may be read again. ``follow``: wait for
    more files; else the source ends after those that are there. Position: a file, the first row, and the one after the last.

    Raises TempuraError FOLDER_MISSING, and WRONG_SCHEMA for a file without the columns.
    """

    state: ClassVar[tuple[str, ...]] = ("done", "begun")

    def __init__(self, path: str, schema: pa.Schema, follow: bool = True) -> None:
        self.path, self.schema, self.follow = Path(path), schema, follow
        self.done: list[str] = []
        self.begun: tuple[str, int] | None = None  # a file of which the first so many rows were read
        self._waiting: deque[str] = deque()
        self._table: tuple[str, pa.Table] | None = None
        self._next_look = 0.0

    def open(self) -> None:
        if not self.path.is_dir():
            raise TempuraError("FOLDER_MISSING", f"There is no folder {self.path}.", "Make it, or name another.")

    def poll(self, rows: int) -> Read | None:
        name, begin = self.begun or ("", 0)
        if not name:
            if not self._waiting and not self._look():
                return None
            name = self._waiting.popleft()
        position = [name, begin, min(self._read(name).num_rows, begin + rows)]
        return Read(self.reread(position), position)

    def _look(self) -> bool:
        """Whether there are new files. Raises StopIteration when none will be waited for."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK
        known = set(self.done)
        names = (p.name for p in self.path.glob("*.parquet") if not p.name.startswith((".", "_")))
        self._waiting.extend(sorted(name for name in names if name not in known))
        if not self._waiting and not self.follow:
            raise StopIteration
        return bool(self._waiting)

    def reread(self, position: Any) -> Batch:
        name, begin, end = position
        table = self._read(name)
        if end == table.num_rows:
            self.begun = None
            self.done.append(name)
        else:
            self.begun = name, end
        parts = table.slice(begin, end - begin).combine_chunks().to_batches()
        return parts[0] if parts else pa.RecordBatch.from_pylist([], schema=self.schema)

    def _read(self, name: str) -> pa.Table:
        if self._table is None or self._table[0] != name:
            try:
                self._table = name, pq.read_table(self.path / name, columns=self.schema.names).cast(self.schema)
            except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError, KeyError, ValueError) as error:
                reason = str(error).splitlines()[0]
                what = f"{self.path / name} does not have the columns {', '.join(self.schema.names)}: {reason}."
                raise TempuraError("WRONG_SCHEMA", what, "Remove the file, or correct it.") from error
        return self._table[1]


class Rate(Source):
    """So many rows per second: ``n`` counts from 0, ``time`` is when a row was due, in seconds since 1970. ``count`` ends it."""

    schema = pa.schema([("n", pa.int64()), ("time", pa.float64())])
    state: ClassVar[tuple[str, ...]] = ("next", "began")

    def __init__(self, rows_per_second: float, count: int | None = None) -> None:
        self.rate, self.count = rows_per_second, count
        self.next = 0
        self.began = 0.0

    def poll(self, rows: int) -> Read | None:
        if self.next == self.count:
            raise StopIteration
        now = time.time()
        began = self.began or now
        due = int((now - began) * self.rate) + 1
        end = min(due, self.next + rows, due if self.count is None else self.count)
        if end <= self.next:
            return None
        position = [self.next, end, began]
        return Read(self.reread(position), position)

    def reread(self, position: Any) -> Batch:
        begin, self.next, self.began = position
        numbers = range(begin, self.next)
        return pa.record_batch(
            [pa.array(numbers, pa.int64()), pa.array([self.began + n / self.rate for n in numbers], pa.float64())],
            schema=self.schema,
        )


class Given(Source):
    """Batches that an iterable gives, in the process of the controller. They are kept until a snapshot is complete: an iterable gives
    nothing twice, so this source does not outlive its process."""

    state: ClassVar[tuple[str, ...]] = ("next",)

    def __init__(self, batches: Callable[[], Iterable[Batch]]) -> None:
        self._make = batches
        self._iterator: Iterator[Batch] | None = None
        self._kept: dict[int, Batch] = {}
        self.next = 0

    def poll(self, rows: int) -> Read | None:
        if self._iterator is None:
            self._iterator = iter(self._make())
        if self.next not in self._kept:
            self._kept[self.next] = next(self._iterator)
        return Read(self.reread(self.next), self.next)

    def reread(self, position: Any) -> Batch:
        self.next = position + 1
        return self._kept[position]

    def completed(self, state: State | None) -> None:
        upto = self.next if state is None else state["next"]
        for n in [n for n in self._kept if n < upto]:
            del self._kept[n]
