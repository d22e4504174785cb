"""What a command takes as seen from outside: until it ends, and of CPU, with the processes that it leaves behind."""

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tempura.errors import TempuraError

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of ``prctl``: processes that lose their parent become this one's, which is told what they took."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended: what it printed, ``wall_s`` seconds until then, and CPU seconds of it and all that it started in its own
    group, to the end of the last of these: Java ends after the program that has started it. ``cpu_s`` is None where a system does not
    tell (others than Linux)."""

    printed: str
    wall_s: float
    cpu_s: float | None


def run_outside(
    command: Sequence[str], folder: Path, changed: Mapping[str, str], allowed: Sequence[int] = (0,)
) -> Ended:
    """Run a command in a folder, with some variables of its environment ``changed``, and wait until it and all of its group have ended.
    Raises TempuraError BAD_BENCHMARK, with the end of what it said, for an exit code that is not ``allowed``."""
    is_told = _is_told_of_orphans()
    # Files and not pipes: Java has them, too, and is not to be waited for before the clock is read.
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        before = time.perf_counter()
        process = _started(command, folder, changed, printed, said)
        _, status, own = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - before
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu_s = _cpu(own) + sum(map(_cpu, _orphans(process.pid)))
        if process.returncode not in allowed:
            lines = _text(said).strip().splitlines()
            what = f"{' '.join(command)} ended with {process.returncode}: {' '.join(lines[-3:])}"
            raise TempuraError("BAD_BENCHMARK", what, "Run the command by itself.")
        return Ended(_text(printed), wall_s, cpu_s if is_told else None)


@dataclass(frozen=True, slots=True)
class Staying:
    """A command that goes on until it is terminated. ``said`` is what it says on standard error."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]

    def line(self) -> str:
        """The next line that it prints, when it is there. Raises TempuraError BAD_BENCHMARK, with the end of what it said, when it has
        ended instead."""
        assert self.process.stdout
        if found := self.process.stdout.readline():
            return found.decode(errors="replace")
        lines = _text(self.said).strip().splitlines()
        raise TempuraError("BAD_BENCHMARK", f"The command ended: {' '.join(lines[-3:])}", "Run it by itself.")

    def cpu_s(self) -> float | None:
        """CPU seconds that its group has taken so far, but for processes that have ended; None where a system does not tell (others than
        Linux)."""
        if not sys.platform.startswith("linux"):
            return None
        ticks = os.sysconf("SC_CLK_TCK")
        return sum(_ticks(stat, self.process.pid) for stat in Path("/proc").glob("[0-9]*/stat")) / ticks


@contextmanager
def staying(command: Sequence[str], folder: Path, changed: Mapping[str, str]) -> Iterator[Staying]:
    """A command in a folder, with some variables of its environment ``changed``, that is terminated in the end."""
    with tempfile.TemporaryFile() as said, _started(command, folder, changed, subprocess.PIPE, said) as process:
        try:
            yield Staying(process, said)
        finally:
            process.terminate()


def _started(
    command: Sequence[str], folder: Path, changed: Mapping[str, str], printed: IO[bytes] | int, said: IO[bytes]
) -> subprocess.Popen[bytes]:
    """A command in a folder and a group of its own, with some variables of its environment ``changed``."""
    environment, nothing = {**os.environ, **changed}, subprocess.DEVNULL
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=nothing, stdout=printed, stderr=said, start_new_session=True
    )


def _ticks(stat: Path, group: int) -> int:
    """What a process of a group has taken, in ticks of the clock; 0 for another."""
    try:
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0
    return int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _cpu(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def _orphans(group: int) -> Iterator[resource.struct_rusage]:
    """What the processes of a group took that have become this one's children, when they have ended."""
    while True:
        try:
            yield os.wait4(-group, 0)[2]
        except ChildProcessError:
            return


def _is_told_of_orphans() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    done: int = ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    return not done
