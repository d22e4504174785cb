"""Processes that are killed in the middle of what they do to files."""

import os
import select
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree

from tempura.warehouse.commits.files import Files

_COMES_OUT = 20.0
"""Seconds in which a child comes out of the fork."""


def fork() -> int:
    """``os.fork`` of a process with threads. If another thread begins or ends at that moment, CPython 3.11 may leave the child waiting for
    a lock that nobody holds any more, in ``fork`` itself: then another is made."""
    while True:
        heard, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(tell, b".")
            os.close(heard)
            os.close(tell)
            return 0
        os.close(tell)
        has_come = select.select([heard], [], [], _COMES_OUT)[0]
        os.close(heard)
        if has_come:
            return child
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def killed(scenario: Callable[[Files], object], n: int) -> bool:
    """Run a scenario in a process that is killed at its n-th file operation. Returns whether it came that far; a scenario that fails is
    no such end."""
    seen = [0]

    def before(operation: str, path: Path) -> None:
        seen[0] += 1
        if seen[0] == n:
            os.kill(os.getpid(), signal.SIGKILL)

    child = fork()
    if child == 0:
        try:
            scenario(Files(before))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL


@dataclass(frozen=True)
class Calm:
    """A ``scenario`` in a folder that came to its end: its file operations, and what ``finished`` found then."""

    scenario: Callable[[Path, Files], object]
    sound: Callable[[Path], None]
    finished: Callable[[Path], object]
    operations: tuple[str, ...]
    found: object

    @staticmethod
    def of(
        scenario: Callable[[Path, Files], object],
        sound: Callable[[Path], None],
        finished: Callable[[Path], object],
        folder: Path,
    ) -> "Calm":
        """Run a scenario in a folder when nothing goes wrong."""
        operations: list[str] = []
        scenario(folder, Files(lambda operation, path: operations.append(f"{operation} {path.name}")))
        return Calm(scenario, sound, finished, tuple(operations), finished(folder))

    def kill_at(self, points: Iterable[int], folder: Path) -> None:
        """Kill it at some of its operations: what is there then is ``sound``, and it comes to the same end when it is done again."""
        for n in points:
            place = folder / str(n)
            assert killed(partial(self.scenario, place), n), self.operations[n - 1]
            self.sound(place)
            self.scenario(place, Files())
            assert self.finished(place) == self.found, self.operations[n - 1]
            rmtree(place)
