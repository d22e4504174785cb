"""Seals: what the files of a commit were, so that one that was altered, cut short or lost is noticed before it is used."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import xxhash

from tempura.execute.contract import FileSeal, Part, StoredState

_digest = partial(hashlib.blake2b, digest_size=16)
"""Of manifests, and of files that were committed when files had such checksums, too."""

_OF_FILES = "xxh3-"
"""What checksums of files begin with: they are XXH3's, of 128 bits. Disks and programs that write are watched, and nobody who would mean
to deceive: he could write manifests as well. A cryptographic one took eight times as long, more than half of a look."""

_LOOKED_AT_AGAIN = 3600.0
"""Seconds after which a file that nobody has touched is read again all the same: disks fail in silence."""

_SETTLED = 1_000_000_000
"""Nanoseconds since the last change of a file after which another one shows in its times."""

_MOST = 100_000
"""Of so many files is known what they were when they were read."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The checksum of a file when it was read, by this process, at a time of ``time.monotonic``; what the system said ``about`` it then."""

    about: tuple[int, ...]
    checksum: str
    at: float

    def is_of(self, about: tuple[int, ...], kind: str) -> bool:
        """Whether it is of a file as it is now, and of this kind."""
        return self.about == about and _kind(self.checksum) == kind


_READ: dict[Path, _Read] = {}


def checksum(data: bytes) -> str:
    """The checksum of bytes, as hexadecimal text."""
    return _digest(data).hexdigest()


def file_checksum(path: Path, like: str = _OF_FILES) -> str:
    """The checksum of a file's content, of the kind that another one is."""
    kind = _kind(like)
    with path.open("rb") as file:
        return kind + hashlib.file_digest(file, xxhash.xxh3_128 if kind else _digest).hexdigest()


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file's content is what it was when it had this checksum. Reads it."""
    return file_checksum(path, checksum) == checksum


def _kind(checksum: str) -> str:
    """What a checksum begins with; nothing, if it is of the kind that files had before."""
    return _OF_FILES if checksum.startswith(_OF_FILES) else ""


@contextmanager
def checksums(paths: Iterable[Path]) -> Iterator[Callable[[Path], str]]:
    """The checksums of files, which are read side by side while the caller goes on."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        found = {path: pool.submit(file_checksum, path) for path in paths}
        yield lambda path: found[path].result()
    finally:
        pool.shutdown(cancel_futures=True)


def sealed(part: Part) -> Part:
    """The part with a seal of each of its files."""
    folder = Path(part.path)
    seals = (FileSeal(str(f.relative_to(folder)), f.stat().st_size, file_checksum(f)) for f in _files(folder))
    return replace(part, seals=tuple(seals))


def damage(part: Part) -> str | None:
    """What is wrong with the files of a sealed part; None when they are what was committed. Reads them, as :func:`file_damage` does."""
    folder = Path(part.path)
    if not folder.is_dir():
        return f"folder {folder} is gone"
    return any_damage((folder / seal.name, seal.size, seal.checksum) for seal in part.seals)


def damage_of(stored: StoredState) -> str | None:
    """What is wrong with the files of a state; None when they are what was committed."""
    return next(filter(None, map(damage, stored.parts)), None)


def any_damage(files: Iterable[tuple[Path, int, str]]) -> str | None:
    """What is wrong with the first of some files, given by path, size and checksum, that is not what was committed; None when all are.
    They are read side by side."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return next(filter(None, pool.map(lambda file: file_damage(*file), files)), None)


def file_damage(path: Path, size: int, checksum: str) -> str | None:
    """What is wrong with a file; None when it is what was committed. Reads it, unless this process has done so within the last hour
    and nobody has touched it since."""
    if not path.is_file():
        return f"file {path} is gone"
    found = path.stat().st_size
    if found != size:
        return f"file {path} has {found:,} bytes where {size:,} were written"
    return None if _known_checksum(path, checksum) == checksum else f"file {path} was altered"


def read_all_again() -> None:
    """Whatever is checked from now on is read, also what this process has read a moment ago: for who asks whether files are sound."""
    _READ.clear()


def _known_checksum(path: Path, like: str) -> str:
    """The checksum of a file, of the kind that another one is: of when it was read, if that was not long ago and it has not been touched
    since."""
    about, at = _about(path), time.monotonic()
    known = _READ.get(path)
    if known and known.is_of(about, _kind(like)) and at - known.at < _LOOKED_AT_AGAIN:
        return known.checksum
    found = file_checksum(path, like)
    *_, changed = about
    if _about(path) == about and time.time_ns() - changed > _SETTLED:
        if len(_READ) >= _MOST:
            _READ.clear()
        _READ[path] = _Read(about, found, at)
    return found


def _about(path: Path) -> tuple[int, ...]:
    """What differs when a file is written again or takes the place of another. The last of it is the time of its last change, which,
    unlike that of its content, nobody can set."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(parent) / name for name in sorted(names))
