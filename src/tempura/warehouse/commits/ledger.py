"""The ledger: numbered manifests, each committed atomically and never changed.

A commit writes a temporary file, flushes it, links it to its final name (which fails when another process was first), removes
the temporary name and flushes the folder. Work that leads to a commit happens under an :class:`Attempt`: an identity with a
lock that a living process holds, so that ``gc`` can tell work in progress from what a killed process left behind.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tempura.errors import TempuraError
from tempura.execute.failure import errors_by_code
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.manifests import Entry, Json, read_manifest, read_together, sealed, to_bytes, together
from tempura.warehouse.commits.seals import checksum
from tempura.warehouse.commits.spans import FAN, Span, spans
from tempura.warehouse.commits.storage import LocalStorage


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


_REFUSED = ("COMMIT_LOST", "UNKNOWN_TABLE")


def is_refused(error: TempuraError) -> bool:
    """Whether a commit is known not to count: another was first, or what it is for is gone."""
    return error.code in _REFUSED


@contextmanager
def discarding_if_refused(files: Files, folder: Path) -> Iterator[None]:
    """Remove a folder of an attempt when its commit is refused."""
    try:
        yield
    except TempuraError as error:
        if is_refused(error):
            with tidying():
                if folder.is_dir():
                    files.remove_tree(folder)
        raise


def commit(files: Files, work: Attempt, target: Path, data: Json) -> None:
    """Commit a manifest under its final name.

    Raises TempuraError COMMIT_LOST when the name is taken: another process committed first, and nothing was changed.
    """
    try:
        LocalStorage(files, work.temporary).create(str(target), to_bytes(sealed(data)))
    except FileExistsError:
        raise _lost(target) from None


@contextmanager
def whoever_is_first() -> Iterator[None]:
    """Around the commit of what another process would say in the same words."""
    try:
        yield
    except TempuraError as error:
        if error.code != "COMMIT_LOST":
            raise


def _lost(target: Path) -> TempuraError:
    name = "/".join(target.parts[-3:])
    what = f"Another process committed {name} first; this attempt changed nothing."
    return TempuraError("COMMIT_LOST", what, "Call again to work from what is committed now.")


def begins_anew(manifest: Json) -> bool:
    """Whether nothing before a manifest counts."""
    return bool(manifest.get("reset"))


def _mark(manifest: Json) -> str:
    return checksum(to_bytes(manifest))


@dataclass(frozen=True, slots=True)
class Ledger:
    """The manifests ``1.json``, ``2.json`` … of one folder.

    Many of them are read from few files: a checkpoint, such as ``1-16.json``, holds what several manifests say, each as
    ``settled`` gives it. It is written before the next manifest is; the manifests themselves stay, until they are forgotten: that the
    first so many are is committed by a manifest such as ``forgotten-32.json``, before their files go.
    """

    folder: Path
    files: Files
    settled: Callable[[Json], Json] = dict

    def count(self) -> int:
        """The number of the last manifest; 0 when there is none. Raises TempuraError LEDGER_BROKEN when one before it is missing, unless
        it was forgotten or a later one begins the ledger anew."""
        return self._count(self.files.names(self.folder))

    def _count(self, names: tuple[str, ...]) -> int:
        numbers, forgotten = _numbers(names), _forgotten(names)
        last = max(numbers, default=forgotten)
        if len(numbers) == last:
            return last
        numbers.sort()
        missing = sorted(set(range(forgotten + 1, last)) - set(numbers))
        whole = len(numbers)
        while whole and numbers[-whole] != last - whole + 1:
            whole -= 1
        if missing and not any(map(self._begins_anew, numbers[-whole:])):
            what = f"{self.folder} lacks {', '.join(f'{n}.json' for n in missing)}."
            raise TempuraError(
                "LEDGER_BROKEN", what, "Restore what is missing from a backup: what comes after builds on it."
            )
        return last

    def _begins_anew(self, n: int) -> bool:
        try:
            return begins_anew(read_manifest(self._file(n)))
        except TempuraError:
            return False

    def forget(self, work: Attempt, upto: int) -> None:
        """Commit that the first ``upto`` manifests are forgotten, a number that :func:`whole` gives; others follow them."""
        self._checkpoint(work, self.count(), upto)
        with whoever_is_first():
            commit(self.files, work, self._note(upto), {"forgotten": upto})

    def superseded(self, forgotten: int = 0) -> tuple[Path, ...]:
        """The files of which nothing is read any more: checkpoints of which a longer one says the same, and what is forgotten, or would be
        if the first so many manifests were."""
        names = self.files.names(self.folder)
        held, notes, to_come = named_spans(names), _all_forgotten(names), list[Span]()
        if forgotten > _forgotten(names):
            to_come = list(spans(self._count(names), forgotten))
        forgotten = max(forgotten, _forgotten(names))
        read = [*(span for span in held if span[0] >= forgotten), *to_come]
        not_read = (s for s in held if s not in read or any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in read))
        manifests = (n for n in _numbers(names) if n <= forgotten)
        said = (self._note(n) for n in notes if n < forgotten)
        return (*map(self._file, sorted(manifests)), *map(self._path, not_read), *said)

    def last(self) -> int:
        """The number of the last manifest, whatever is missing before it."""
        names = self.files.names(self.folder)
        return max(_numbers(names), default=_forgotten(names))

    def _file(self, n: int) -> Path:
        return self.folder / f"{n}.json"

    def mark(self, n: int) -> str:
        """The checksum of manifest ``n``, which tells it from that of another ledger. Raises TempuraError LEDGER_CORRUPT."""
        return read_manifest(self._file(n)).made(_mark)

    def entries(self) -> tuple[Entry | None, ...]:
        """All manifests, oldest first; None for those that are forgotten, and those before the last that begins the ledger anew: whatever
        became of them, they do not count."""
        while True:
            names = self.files.names(self.folder)
            try:
                return self._entries(names)
            except TempuraError:
                # They may have been forgotten while they were read.
                if _forgotten(self.files.names(self.folder)) == _forgotten(names):
                    raise

    def _entries(self, names: tuple[str, ...]) -> tuple[Entry | None, ...]:
        count, forgotten, newest_first = self._count(names), _forgotten(names), list[Entry]()
        longest = {upto: after for after, upto in named_spans(names) if after >= forgotten}
        while len(newest_first) < count - forgotten:
            n = count - len(newest_first)
            held = self._checkpointed((longest[n], n)) if n in longest else ()
            for entry in reversed(held or [read_manifest(self._file(n))]):
                newest_first.append(entry)
                if begins_anew(entry):
                    return (*[None] * (count - len(newest_first)), *reversed(newest_first))
        return (*[None] * forgotten, *reversed(newest_first))

    def check_next(self, n: int) -> None:
        """Raises TempuraError COMMIT_LOST when manifest ``n`` is committed already: there is no use in beginning to work for it."""
        if self.count() >= n:
            raise _lost(self.folder / f"{n}.json")

    def append(self, work: Attempt, n: int, data: Json) -> None:
        """Commit manifest ``n``, which the caller has taken for the next. Raises TempuraError COMMIT_LOST."""
        # What begins anew may do so because the manifests before it are damaged.
        if n > 1 and (n - 1) % FAN == 0 and not begins_anew(data):
            self._checkpoint(work, n - 1)
        commit(self.files, work, self.folder / f"{n}.json", data)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _checkpoint(self, work: Attempt, count: int, forgotten: int = 0) -> None:
        """Write the checkpoints that are missing for the first manifests, or those of them that are not forgotten."""
        names = self.files.names(self.folder)
        begins = max(forgotten, _forgotten(names))
        missing = [span for span in spans(count, begins) if span not in named_spans(names)]
        entries = self.entries() if missing else ()
        for after, upto in missing:
            held = [self.settled(entry) for entry in entries[after:upto] if entry is not None]
            if len(held) < upto - after:
                continue  # the ledger was begun anew
            with whoever_is_first():
                commit(self.files, work, self._path((after, upto)), together(held))

    def _checkpointed(self, span: Span) -> tuple[Entry, ...]:
        """What a checkpoint says; nothing if it was altered, or removed meanwhile: the manifests themselves say the same."""
        try:
            return read_together(self._path(span))
        except TempuraError:
            return ()

    def _note(self, forgotten: int) -> Path:
        return self.folder / f"{_FORGOTTEN}{forgotten}.json"

    def _path(self, span: Span) -> Path:
        return self.folder / span_name(span)


def whole(count: int) -> int:
    """At most so many, such that what follows is read from few checkpoints."""
    return count // FAN**2 * FAN**2


def _numbers(names: tuple[str, ...]) -> list[int]:
    return [int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdecimal()]


_FORGOTTEN = "forgotten-"


def _forgotten(names: tuple[str, ...]) -> int:
    """How many of the first manifests are forgotten."""
    return max(_all_forgotten(names), default=0)


def _all_forgotten(names: tuple[str, ...]) -> list[int]:
    """The same as it was told before, too."""
    return _numbers(tuple(name.removeprefix(_FORGOTTEN) for name in names if name.startswith(_FORGOTTEN)))


def span_name(span: Span) -> str:
    """The name of a manifest about the entries after one number up to another."""
    return f"{span[0] + 1}-{span[1]}.json"


def named_spans(names: tuple[str, ...]) -> list[Span]:
    """The inverse of :func:`span_name`, for those of the names that it gives; shorter ranges first."""
    parts = (name[:-5].split("-") for name in names if "-" in name and name.endswith(".json"))
    found = [(int(p[0]) - 1, int(p[1])) for p in parts if len(p) == 2 and all(map(str.isdecimal, p))]
    return sorted(found, key=lambda span: (span[1] - span[0], span))
