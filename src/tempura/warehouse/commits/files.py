"""Operations on local files, one method each, so that a test can stop the process before any of them.

Everything that a commit depends on goes through :class:`Files`. The rules of durability are kept here: a file is flushed
before a name points to it, and a folder is flushed after a name in it has changed.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tempura.warehouse.commits import locks

Observer = Callable[[str, Path], None]
"""Called with the operation and the path before each operation; a test raises or ends the process in it."""


def _nothing(operation: str, path: Path) -> None:
    """The observer of normal work."""


class Files:
    """Operations on a local file system that offers ``link`` (fails if the name is taken), ``fsync`` and ``flock``."""

    def __init__(self, before: Observer = _nothing) -> None:
        self._before = before

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, durably. No error when it is there; NotADirectoryError where something else is."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        self._before("make_folder", path)
        try:
            path.mkdir(exist_ok=True)
        except FileExistsError as error:  # which would mean that another process was first
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from error
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

    def symlink(self, target: str, path: Path) -> None:
        """Make a symbolic link. Raises FileExistsError when the name is taken."""
        self._before("symlink", path)
        path.symlink_to(target)

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
    def lock(self, path: Path, wait: bool = True) -> Iterator[None]:
        """Hold an exclusive lock, waiting for it, else raising :class:`~tempura.warehouse.commits.locks.HeldError`.
        It ends with the process, however that ends."""
        self._before("lock", path)
        with locks.hold(path, wait):
            yield

    @contextmanager
    def share(self, path: Path, wait: bool = True) -> Iterator[None]:
        """Hold a lock together with others, waiting for who holds it alone, else raising
        :class:`~tempura.warehouse.commits.locks.HeldError`. Nothing is written."""
        self._before("share", path)
        with locks.share(path, wait):
            yield

    def is_locked(self, path: Path) -> bool:
        """Whether a living process holds the lock."""
        return locks.is_held(path)

    def remove_lock(self, path: Path) -> bool:
        """Remove a lock that no process holds. Returns whether it was removed."""
        self._before("remove_lock", path)
        return locks.remove_if_free(path)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
