"""Operations on local files, one method each, so that a test can stop the process before any of them.

Everything that a commit depends on goes through :class:`Files`. The rules of durability are kept here: a file is flushed
before a name points to it, and a folder is flushed after a name in it has changed.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Observer = Callable[[str, Path], None]
"""Called with the operation and the path before each operation; a test raises or ends the process in it."""


def _nothing(operation: str, path: Path) -> None:
    """The observer of normal work."""


class Files:
    """Operations on a local file system that offers ``link`` (fails if the name is taken), ``fsync`` and ``flock``."""

    def __init__(self, before: Observer = _nothing) -> None:
        self._before = before

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, durably. No error when it is there."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        self._before("make_folder", path)
        path.mkdir(exist_ok=True)
        self.sync_folder(path.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file anew and flush it."""
        self._before("create", path)
        with path.open("wb") as file:
            self._before("write", path)
            file.write(data)
            file.flush()
            self._before("sync", path)
            os.fsync(file.fileno())

    def sync_file(self, path: Path) -> None:
        """Flush a file that something else wrote."""
        self._before("sync", path)
        _fsync(path)

    def sync_folder(self, path: Path) -> None:
        """Flush a folder: the names in it."""
        self._before("sync_folder", path)
        _fsync(path)

    def sync_tree(self, path: Path) -> None:
        """Flush every file and folder below ``path``, itself included."""
        for folder, _, names in os.walk(path, topdown=False):
            for name in sorted(names):
                self.sync_file(Path(folder) / name)
            self.sync_folder(Path(folder))
        self.sync_folder(path.parent)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name. Raises FileExistsError when the name is taken: the atomic decision of a commit."""
        self._before("link", target)
        os.link(source, target)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file over another."""
        self._before("replace", target)
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file; no error when it is gone."""
        self._before("remove", path)
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a folder and all that is in it."""
        self._before("remove_tree", path)
        shutil.rmtree(path, ignore_errors=False)

    def names(self, folder: Path) -> tuple[str, ...]:
        """The names in a folder, sorted; none when there is no such folder."""
        return tuple(sorted(os.listdir(folder))) if folder.is_dir() else ()

    @contextmanager
    def lock(self, path: Path) -> Iterator[None]:
        """Hold an exclusive lock, waiting for it. The system releases it when the process ends, however it ends."""
        self._before("lock", path)
        while True:
            with path.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if _is_at(file.fileno(), path):
                    yield
                    return

    def is_locked(self, path: Path) -> bool:
        """Whether a living process holds the lock."""
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def remove_lock(self, path: Path) -> bool:
        """Remove a lock that no process holds. Returns whether it was removed."""
        self._before("remove_lock", path)
        try:
            with path.open("rb") as file:
                # Whoever waits for this lock finds that its file is gone, and makes another.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        except (FileNotFoundError, BlockingIOError):
            return False
        return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
