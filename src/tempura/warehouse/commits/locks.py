"""Locks with an owner: held by a living process, taken over from a dead one.

A lock is a file. On one machine the system says whether its owner lives: it holds an advisory lock, which ends with the
process, however that ends. Owners on other machines are told by their heartbeat, the file's time of change.
"""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

HEARTBEAT = 10.0
"""Seconds between two heartbeats."""

PATIENCE = 60.0
"""Seconds without a heartbeat after which an owner on another machine is taken for dead."""

_LOOK = 1.0
"""Seconds after which a lock that is not free is no longer thought to be only looked at: to find out whether one is free is to take it for
a moment, which is longer on a busy machine."""

_STARTED = datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds a lock; ``started`` is when it began to use Tempura (ISO, UTC)."""

    host: str
    pid: int
    started: str

    @staticmethod
    def me() -> "Owner":
        """This process."""
        return Owner(socket.gethostname(), os.getpid(), _STARTED)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


class HeldError(Exception):
    """A living process holds the lock. ``owner`` is None when it has not yet written its name."""

    def __init__(self, owner: Owner | None) -> None:
        self.owner = owner
        super().__init__(str(owner or "another process"))


@contextmanager
def hold(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock; ``wait`` for it, or raise :class:`HeldError`. The lock of a dead process is taken over; who only looks at it is waited
    for."""
    with _taken(path, fcntl.LOCK_EX, wait) as file:
        _sign(file, Owner.me())
        try:
            with _heartbeat(path):
                yield
        finally:
            _sign(file, None)


@contextmanager
def share(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock together with all who share it; while a process holds it alone ``wait``, or raise :class:`HeldError`. Who wants it alone
    waits for those who share it."""
    with _taken(path, fcntl.LOCK_SH, wait):
        yield


@contextmanager
def _taken(path: Path, how: int, wait: bool) -> Iterator[IO[bytes]]:
    """The file of a lock, locked as ``fcntl`` says and at its place. Raises HeldError."""
    begun = time.monotonic()
    while True:
        with path.open("a+b") as file:
            free = _flock(file, how, wait) and not _lives_elsewhere(path)
            if free and _is_at(file.fileno(), path):
                yield file
                return
            if not free and not wait and not _may_be_looked_at(path, begun):
                raise HeldError(owner_of(path))
        if not free:
            time.sleep(0.2 if wait else 0.01)


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock."""
    begun = time.monotonic()
    while True:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return _lives_elsewhere(path)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            if not _may_be_looked_at(path, begun):
                return True
        time.sleep(0.01)


def remove_if_free(path: Path) -> bool:
    """Remove a lock that no living process holds. Returns whether it was removed."""
    try:
        with path.open("rb") as file:
            # Whoever waits for this lock finds that its file is gone, and makes another.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _lives_elsewhere(path):
                return False
            path.unlink()
    except (FileNotFoundError, BlockingIOError):
        return False
    return True


def owner_of(path: Path) -> Owner | None:
    """Who signed a lock last and has not released it; None when nobody has."""
    try:
        return Owner(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _flock(file: IO[bytes], how: int, wait: bool) -> bool:
    try:
        fcntl.flock(file, how if wait else how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _may_be_looked_at(path: Path, begun: float) -> bool:
    """Whether a lock that was not free may be so in a moment, because somebody only looks at it: who holds it signs it. ``begun``: since
    when it is tried, by the monotonic clock."""
    return not _is_signed(path) and time.monotonic() < begun + _LOOK


def _is_signed(path: Path) -> bool:
    """Whether a lock is signed by another process than one that has died on this machine without taking its name back."""
    owner = owner_of(path)
    if owner is None or owner.host != socket.gethostname():
        return owner is not None
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    return True


def _lives_elsewhere(path: Path) -> bool:
    """Whether the lock is signed by another machine's process whose heartbeat is recent."""
    owner = owner_of(path)
    if owner is None or owner.host == socket.gethostname():
        return False
    try:
        return time.time() - path.stat().st_mtime < PATIENCE
    except FileNotFoundError:
        return False


def _sign(file: IO[bytes], owner: Owner | None) -> None:
    file.truncate(0)
    if owner is not None:
        file.write(json.dumps(asdict(owner)).encode())
    file.flush()


@contextmanager
def _heartbeat(path: Path) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT):
            try:
                os.utime(path)
            except OSError:
                return  # the lock was removed by who holds it

    threading.Thread(target=beat, daemon=True, name="tempura-heartbeat").start()
    try:
        yield
    finally:
        done.set()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
