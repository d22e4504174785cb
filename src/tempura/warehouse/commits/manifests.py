"""Manifests: what is committed, as JSON with a format and a checksum of itself. A manifest never changes, so a process that reads one
again has it from memory as long as nothing touches the file."""

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from tempura.errors import TempuraError
from tempura.execute.failure import errors_by_code
from tempura.warehouse.commits.changes import change, changed
from tempura.warehouse.commits.seals import checksum

T = TypeVar("T")
Json = Mapping[str, Any]

FORMAT = 3
"""The format of what is committed. Since 3 checksums of files are of another kind (``seals.py``)."""

_FORMAT_OF_CHECKPOINTS = 4
"""The format of checkpoints, which tell entries by what changed; newer ones are refused. Versions that do not know it read the entries
themselves."""

_CHANGES = "changes"
"""Under this key the entries of a checkpoint are told."""

_OLDEST = 2
"""The oldest format that is read."""

_REMEMBERED = 64 << 20
"""How many bytes of manifests a process keeps in memory."""


class Entry(dict[str, Any]):
    """What a manifest says. It is shared by all that read it: nobody may change it."""

    def __init__(self, data: Json) -> None:
        super().__init__(data)
        self._made: dict[Callable[[Json], Any], Any] = {}

    def made(self, make: Callable[[Json], T]) -> T:
        """What a function makes of it, made once."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found


def to_bytes(data: Json) -> bytes:
    """JSON for people and programs: sorted, indented, no NaN."""
    return (json.dumps(data, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n").encode()


def sealed(data: Json) -> dict[str, Any]:
    """A manifest with its format, and the checksum of all the rest of it."""
    whole = {**data, "format": _FORMAT_OF_CHECKPOINTS if _CHANGES in data else FORMAT}
    return {**whole, "checksum": checksum(to_bytes(whole))}


def read_manifest(path: Path) -> Entry:
    """Read what a commit wrote. Raises TempuraError LEDGER_CORRUPT when it is anything else, FORMAT_NEWER or FORMAT_OLDER
    when another version of Tempura wrote it; NO_ACCESS or IO_FAILED when the system does not let it be read, which may be whole."""
    return _MEMORY.recall(path, _read)


def read_together(path: Path) -> tuple[Entry, ...]:
    """Read several entries that one manifest holds as text: see :func:`together`. Raises as :func:`read_manifest` does."""
    return _MEMORY.recall(path, _read_together)


def together(entries: Iterable[Json]) -> Json:
    """A manifest of several entries, each told by what it changes of the one before. They are one text, whose checksum is found at once,
    however many they are."""
    written = [json.loads(json.dumps(entry, allow_nan=False)) for entry in entries]
    changes = [change(before, entry) for before, entry in pairwise(({}, *written))]
    return {_CHANGES: json.dumps(changes, ensure_ascii=False, separators=(",", ":"))}


def corrupt(what: str) -> TempuraError:
    """The error of a manifest that is not what was committed."""
    return TempuraError("LEDGER_CORRUPT", what, "Restore it from a backup; what later manifests say builds on it.")


def _read(path: Path) -> Entry:
    try:
        # What the system does not let be read is not damaged: who took it for that, and began the table anew, would lose its rows.
        with errors_by_code(), _lost_is_damaged(path):
            written = path.read_bytes()
        data = json.loads(written)
    except ValueError as error:
        raise corrupt(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise corrupt(f"{path} does not hold a manifest.")
    if data["format"] > _FORMAT_OF_CHECKPOINTS:
        what = (
            f"{path} has format {data['format']}; this version of Tempura knows formats up to {_FORMAT_OF_CHECKPOINTS}."
        )
        raise TempuraError("FORMAT_NEWER", what, "Use a newer version of Tempura.")
    if data["format"] < _OLDEST:
        what = f"{path} has format {data['format']}, which only versions before the first release wrote."
        raise TempuraError("FORMAT_OLDER", what, "Make the warehouse anew.")
    if not _is_as_sealed(written, data.pop("checksum", None)):
        raise corrupt(f"{path} was altered: its checksum does not fit.")
    return Entry(data)


@contextmanager
def _lost_is_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise corrupt(f"{path} cannot be read: {error}.") from error


def _is_as_sealed(written: bytes, seal: object) -> bool:
    """Whether what was written, but for its checksum, is what that is of: each byte, not what the bytes say. A number may have another last
    digit and be the same."""
    return checksum(written.replace(f'\n "checksum": "{seal}",\n'.encode(), b"\n", 1)) == seal


def _read_together(path: Path) -> tuple[Entry, ...]:
    held = _read(path)
    if _CHANGES not in held:  # as format 3 tells them
        return tuple(map(Entry, json.loads(held["entries"])))
    before: dict[str, Any] = {}
    return tuple(Entry(before := changed(before, step)) for step in json.loads(held[_CHANGES]))


class _Memory:
    """What was read of files, until something touches them: the system notes the time of each change of a file, its name and its
    times, and nobody can set that. Those that were not asked for the longest are forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[tuple[Path, Any], tuple[tuple[int, ...], Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def recall(self, path: Path, read: Callable[[Path], T]) -> T:
        """What ``read`` gives for a file. Raises what it raises; an error is not remembered."""
        seen = _touched(path)
        key = (path, read)
        with self._lock:
            touched, value = self._known.get(key, ((), None))
            if seen and touched == seen:
                self._known.move_to_end(key)
                found: T = value
                return found
        made = read(path)
        # What changed while it was read is read again the next time.
        if seen and _touched(path) == seen:
            with self._lock:
                self._keep(key, seen, made)
        return made

    def _keep(self, key: tuple[Path, Any], seen: tuple[int, ...], made: Any) -> None:
        before, _ = self._known.pop(key, ((), None))
        self._bytes += seen[0] - (before[0] if before else 0)
        self._known[key] = (seen, made)
        while self._bytes > self._limit:
            _, (forgotten, _) = self._known.popitem(last=False)
            self._bytes -= forgotten[0]

    def forget(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()
            self._bytes = 0


def _touched(path: Path) -> tuple[int, ...]:
    """Size, identity and times of a file; nothing when there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return (stat.st_size, stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)


_MEMORY = _Memory(_REMEMBERED)


def forget_manifests() -> None:
    """Read every manifest from its file again, as another process would."""
    _MEMORY.forget()
