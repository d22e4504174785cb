"""The hybrid log of a worker: of control the content and the place, of data the order only. With it and the same input, a worker that is
made anew does again what it did.

Source: *Texera*, section 2.3.3. An entry is written before anything that depends on it leaves the worker. The log has a segment per
snapshot; a worker restarts from a snapshot and the segments since.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tempura.errors import TempuraError

Entry = tuple[Any, ...]
"""``("d", channel, rows)``, rows of a channel were processed; ``("m", channel)``, a marker was met; ``("e", channel)``, the end;
``("r", position)``, a source has read, ``("x",)`` it has ended; ``("c", steps, command)``, a command, after so many steps of what was
being processed. Channels are numbers."""


class Store(Protocol):
    """Where logs and snapshots lie."""

    def append(self, worker: str, segment: int, lines: Sequence[str]) -> None:
        """Add lines to a segment of a worker's log. What is written survives the worker."""

    def lines(self, worker: str, segment: int) -> list[str]:
        """The lines of a segment; none when there is no such segment."""

    def save(self, worker: str, snapshot: int, data: dict[str, Any]) -> None:
        """Keep a snapshot: plain data, with record batches as values of ``data["operator"]``."""

    def load(self, worker: str, snapshot: int) -> dict[str, Any] | None:
        """A snapshot; None when there is none."""

    def forget(self, worker: str, before: int) -> None:
        """Remove segments and snapshots older than a snapshot."""


class Log:
    """The log of a worker, from a snapshot on. Entries are appended in memory; :meth:`sync` stores them, equal ones in a run as one
    line, so that a worker with one busy input takes some bytes per thousand steps."""

    def __init__(self, store: Store, worker: str, segment: int) -> None:
        self._store = store
        self._worker = worker
        self.segment = segment
        self._unsynced: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """What the worker is about to do."""
        self._unsynced.append(entry)

    def sync(self) -> None:
        """Store what was added."""
        if self._unsynced:
            self._store.append(self._worker, self.segment, lines_of(self._unsynced))
            self._unsynced = []

    def turn(self, segment: int) -> None:
        """Begin the segment of a snapshot."""
        self.sync()
        self.segment = segment


def recorded(store: Store, worker: str, segment: int) -> list[Entry]:
    """All entries from a segment on. A segment that has none yet is the last one: each ends with the marker of the next."""
    found: list[Entry] = []
    while True:
        lines = store.lines(worker, segment)
        if not lines:
            return found
        found += entries_in(lines)
        segment += 1


def lines_of(entries: Sequence[Entry]) -> list[str]:
    """Entries as lines: how often, and what."""
    runs: list[tuple[int, Entry]] = []
    for entry in entries:
        if runs and runs[-1][1] == entry:
            runs[-1] = (runs[-1][0] + 1, entry)
        else:
            runs.append((1, entry))
    return [json.dumps([times, *entry], separators=(",", ":")) for times, entry in runs]


def entries_in(lines: Sequence[str]) -> Iterator[Entry]:
    """The inverse of :func:`lines_of`."""
    for line in lines:
        times, *entry = json.loads(line)
        for _ in range(times):
            yield tuple(entry)


class MemoryStore:
    """A store in this process, for a region that lives in it. Everything is kept as text and bytes, as files would."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, int], list[str]] = {}
        self._snapshots: dict[tuple[str, int], tuple[str, dict[str, bytes]]] = {}

    def append(self, worker: str, segment: int, lines: Sequence[str]) -> None:
        self._logs.setdefault((worker, segment), []).extend(lines)

    def lines(self, worker: str, segment: int) -> list[str]:
        return list(self._logs.get((worker, segment), ()))

    def save(self, worker: str, snapshot: int, data: dict[str, Any]) -> None:
        plain, batches = apart(data)
        self._snapshots[worker, snapshot] = json.dumps(plain), batches

    def load(self, worker: str, snapshot: int) -> dict[str, Any] | None:
        if (worker, snapshot) not in self._snapshots:
            return None
        plain, batches = self._snapshots[worker, snapshot]
        return together(json.loads(plain), batches)

    def forget(self, worker: str, before: int) -> None:
        for kept in (self._logs, self._snapshots):
            for key in [key for key in kept if key[0] == worker and key[1] < before]:
                del kept[key]


class FolderStore:
    """A store in a folder that all workers see. A write survives the death of its process, not that of its machine: files are not
    flushed. A line that was written in part is none.

    Each process that takes a worker over has a copy of the log of its own, in a folder ``life-N``: one that was given up and is not dead
    yet, as the process of a cancelled task, writes where nobody reads.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives: dict[str, Path] = {}
        self._open: tuple[tuple[str, int], int] | None = None

    def _path(self, worker: str, name: str) -> Path:
        return self._folder / worker.replace("/", "-") / name

    def _life(self, worker: str) -> Path:
        """The folder of the log in this process's life: a copy of the last one's."""
        if worker not in self._lives:
            before = sorted(self._path(worker, "").glob("life-*[0-9]"), key=lambda path: int(path.name[5:]))
            life = self._path(worker, f"life-{int(before[-1].name[5:]) + 1 if before else 1}")
            new = life.with_name("life.new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            # The last segment first: the ones before it get no more lines.
            for path in sorted(before[-1].glob("*.log"), key=_segment, reverse=True) if before else ():
                content = path.read_bytes()
                (new / path.name).write_bytes(content[: content.rfind(b"\n") + 1])
            new.rename(life)
            for path in before:
                shutil.rmtree(path, ignore_errors=True)
            self._lives[worker] = life
        return self._lives[worker]

    def append(self, worker: str, segment: int, lines: Sequence[str]) -> None:
        if self._open is None or self._open[0] != (worker, segment):
            path = self._life(worker) / f"{segment}.log"
            if self._open is not None:
                os.close(self._open[1])
            self._open = (worker, segment), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        _append(self._open[1], "".join(f"{line}\n" for line in lines).encode())

    def lines(self, worker: str, segment: int) -> list[str]:
        path = self._life(worker) / f"{segment}.log"
        return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []

    def save(self, worker: str, snapshot: int, data: dict[str, Any]) -> None:
        plain, batches = apart(data)
        folder = self._path(worker, f"{snapshot}.snapshot")
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for name, content in batches.items():
            (new / f"{name}.arrow").write_bytes(content)
        (new / "snapshot.json").write_text(json.dumps(plain), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # of the same name is only the same content
        new.rename(folder)

    def load(self, worker: str, snapshot: int) -> dict[str, Any] | None:
        folder = self._path(worker, f"{snapshot}.snapshot")
        try:
            plain = json.loads((folder / "snapshot.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if plain.get("version") != VERSION:
            what = f"The snapshot {folder} has version {plain.get('version')}; this Tempura reads {VERSION}."
            raise TempuraError("REGION_FAILED", what, "Remove the job's folder: it begins anew.")
        return together(plain, {path.stem: path.read_bytes() for path in folder.glob("*.arrow")})

    def forget(self, worker: str, before: int) -> None:
        for path in self._life(worker).glob("*.log"):
            if _segment(path) < before:
                path.unlink()
        for path in self._path(worker, "").glob("*.snapshot"):
            if _segment(path) < before:
                shutil.rmtree(path)


def _append(file: int, data: bytes) -> None:
    """Write all of it, or nothing: on a disk that is full a part may be written, and a line that comes after it later would be one with
    it."""
    before, rest = os.fstat(file).st_size, memoryview(data)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        os.ftruncate(file, before)
        raise


def _segment(path: Path) -> int:
    return int(path.stem)


VERSION = 1


def apart(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A snapshot as plain data, and the bytes of its record batches by field."""
    fields = dict(data.get("operator") or {})
    batches = {name: value for name, value in fields.items() if isinstance(value, pa.RecordBatch)}
    plain = {name: value for name, value in fields.items() if name not in batches}
    return {**data, "version": VERSION, "operator": plain}, {name: to_bytes(batch) for name, batch in batches.items()}


def together(plain: dict[str, Any], batches: dict[str, bytes]) -> dict[str, Any]:
    """The inverse of :func:`apart`."""
    return {**plain, "operator": plain["operator"] | {name: from_bytes(data) for name, data in batches.items()}}


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """A record batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.RecordBatch:
    """The inverse of :func:`to_bytes`."""
    return pa.ipc.open_stream(data).read_next_batch()
