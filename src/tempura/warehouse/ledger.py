"""The ledger: numbered manifests, each committed atomically and never changed.

A commit writes a temporary file, flushes it, links it to its final name (which fails when another process was first), removes
the temporary name and flushes the folder. Work that leads to a commit happens under an :class:`Attempt`: an identity with a
lock that a living process holds, so that ``gc`` can tell work in progress from what a killed process left behind.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempura.errors import TempuraError
from tempura.execute.failure import errors_by_code
from tempura.warehouse.files import Files
from tempura.warehouse.seals import checksum
from tempura.warehouse.storage import LocalStorage

Json = Mapping[str, Any]

FORMAT = 2
"""The format of what is committed; others are refused."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Work in progress. ``id`` names its folders; ``temporary`` is the file that a commit links from."""

    id: str
    lock: Path
    temporary: Path


@contextmanager
def attempt(files: Files, folder: Path) -> Iterator[Attempt]:
    """Begin work whose traces carry one identity. What a killed process leaves of it is found by ``gc``."""
    id = uuid.uuid4().hex
    work = Attempt(id, folder / f"{id}.lock", folder / f"{id}.tmp")
    with errors_by_code():
        files.make_folder(folder)
        with files.lock(work.lock):
            try:
                yield work
            except BaseException:
                with tidying():
                    files.remove(work.temporary)
                    files.remove(work.lock)
                raise
            files.remove(work.lock)


def tidying() -> AbstractContextManager[None]:
    """Around what is removed after an error, which is the one to be told: what cannot be removed is left to ``gc``."""
    return suppress(OSError)


@contextmanager
def discarding(files: Files, folder: Path) -> Iterator[None]:
    """Remove a folder of an attempt when the work in it fails. Not around a commit, except for one that was refused: after an
    error of the system nobody knows whether the manifest counts."""
    try:
        yield
    except BaseException:
        with tidying():
            if folder.is_dir():
                files.remove_tree(folder)
        raise


@contextmanager
def discarding_if_refused(files: Files, folder: Path) -> Iterator[None]:
    """Remove a folder of an attempt when its commit is refused."""
    try:
        yield
    except TempuraError as error:
        if error.code == "COMMIT_LOST":
            with tidying():
                files.remove_tree(folder)
        raise


def to_bytes(data: Json) -> bytes:
    """JSON for people and programs: sorted, indented, no NaN."""
    return (json.dumps(data, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n").encode()


def sealed(data: Json) -> dict[str, Any]:
    """A manifest with its format, and the checksum of all the rest of it."""
    whole = {**data, "format": FORMAT}
    return {**whole, "checksum": checksum(to_bytes(whole))}


def commit(files: Files, work: Attempt, target: Path, data: Json) -> None:
    """Commit a manifest under its final name.

    Raises TempuraError COMMIT_LOST when the name is taken: another process committed first, and nothing was changed.
    """
    try:
        LocalStorage(files, work.temporary).create(str(target), to_bytes(sealed(data)))
    except FileExistsError:
        raise _lost(target) from None


def _lost(target: Path) -> TempuraError:
    name = "/".join(target.parts[-3:])
    what = f"Another process committed {name} first; this attempt changed nothing."
    return TempuraError("COMMIT_LOST", what, "Call again to work from what is committed now.")


def read_manifest(path: Path) -> dict[str, Any]:
    """Read what a commit wrote. Raises TempuraError LEDGER_CORRUPT when it is anything else, FORMAT_NEWER or FORMAT_OLDER
    when another version of Tempura wrote it."""
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, OSError) as error:
        raise _corrupt(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise _corrupt(f"{path} does not hold a manifest.")
    if data["format"] > FORMAT:
        what = f"{path} has format {data['format']}; this version of Tempura knows formats up to {FORMAT}."
        raise TempuraError("FORMAT_NEWER", what, "Use a newer version of Tempura.")
    if data["format"] < FORMAT:
        what = f"{path} has format {data['format']}, which only versions before the first release wrote."
        raise TempuraError("FORMAT_OLDER", what, "Make the warehouse anew.")
    if data.pop("checksum", None) != checksum(to_bytes(data)):
        raise _corrupt(f"{path} was altered: its checksum does not fit.")
    return data


def _corrupt(what: str) -> TempuraError:
    return TempuraError("LEDGER_CORRUPT", what, "Restore it from a backup; what later manifests say builds on it.")


@dataclass(frozen=True, slots=True)
class Ledger:
    """The manifests ``1.json``, ``2.json`` … of one folder."""

    folder: Path
    files: Files

    def count(self) -> int:
        """How many manifests are committed. Raises TempuraError LEDGER_BROKEN when one in between is missing."""
        names = self.files.names(self.folder)
        numbers = sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())
        if numbers != list(range(1, len(numbers) + 1)):
            missing = sorted(set(range(1, numbers[-1])) - set(numbers))
            what = f"{self.folder} lacks {', '.join(f'{n}.json' for n in missing)}."
            raise TempuraError(
                "LEDGER_BROKEN", what, "Restore what is missing from a backup: what comes after builds on it."
            )
        return len(numbers)

    def entries(self) -> tuple[dict[str, Any], ...]:
        """All manifests, oldest first."""
        return tuple(read_manifest(self.folder / f"{n}.json") for n in range(1, self.count() + 1))

    def check_next(self, n: int) -> None:
        """Raises TempuraError COMMIT_LOST when manifest ``n`` is committed already: there is no use in beginning to work for it."""
        if self.count() >= n:
            raise _lost(self.folder / f"{n}.json")

    def append(self, work: Attempt, n: int, data: Json) -> None:
        """Commit manifest ``n``, which the caller has taken for the next. Raises TempuraError COMMIT_LOST."""
        commit(self.files, work, self.folder / f"{n}.json", data)
