"""Seals: what the files of a commit were, so that one that was altered, cut short or lost is noticed before it is used."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from tempura.execute.contract import FileSeal, Part, StoredState

_digest = partial(hashlib.blake2b, digest_size=16)


def checksum(data: bytes) -> str:
    """The checksum of bytes, as hexadecimal text."""
    return _digest(data).hexdigest()


def file_checksum(path: Path) -> str:
    """The checksum of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, _digest).hexdigest()


def sealed(part: Part) -> Part:
    """The part with a seal of each of its files."""
    folder = Path(part.path)
    seals = (FileSeal(str(f.relative_to(folder)), f.stat().st_size, file_checksum(f)) for f in _files(folder))
    return replace(part, seals=tuple(seals))


def damage(part: Part) -> str | None:
    """What is wrong with the files of a sealed part; None when they are what was committed. Reads all of them."""
    folder = Path(part.path)
    if not folder.is_dir():
        return f"folder {folder} is gone"
    found = (file_damage(folder / seal.name, seal.size, seal.checksum) for seal in part.seals)
    return next(filter(None, found), None)


def damage_of(stored: StoredState) -> str | None:
    """What is wrong with the files of a state; None when they are what was committed."""
    return next(filter(None, map(damage, stored.parts)), None)


def file_damage(path: Path, size: int, checksum: str) -> str | None:
    """What is wrong with a file; None when it is what was committed. Reads it."""
    if not path.is_file():
        return f"file {path} is gone"
    found = path.stat().st_size
    if found != size:
        return f"file {path} has {found:,} bytes where {size:,} were written"
    return None if file_checksum(path) == checksum else f"file {path} was altered"


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(parent) / name for name in sorted(names))
