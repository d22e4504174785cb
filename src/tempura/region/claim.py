"""A region's folder is of one region, and one process at a time: what others log there, or take from it, would be taken for its own."""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tempura.errors import TempuraError
from tempura.region.graph import Graph

LOCK = "lock"
OF = "of.json"


class Claim:
    """A folder that this process has for itself until it gives it back; the system does when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    def take(self) -> None:
        """Have it. Raises TempuraError RUN_IN_PROGRESS when another process does, or another region of this one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        except BlockingIOError:
            who = os.pread(file, 20, 0).decode(errors="replace")
            os.close(file)
            what = f"The job in {self._folder} runs already{f', in process {who}' if who else ''}."
            raise TempuraError(
                "RUN_IN_PROGRESS", what, "Stop that one first, or give this one a folder of its own."
            ) from None
        except OSError:
            os.close(file)
            raise
        self._file = file

    def give_back(self) -> None:
        """Let others have it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_taken(folder: Path) -> bool:
    """Whether a process has a folder for itself."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def described(graph: Graph, more: Mapping[str, Any]) -> dict[str, Any]:
    """What of a region has to stay for what is stored of it to fit: operators with their workers and what is saved of them, links, and
    ``more``, which the region is told. As plain data."""
    operators = {
        node.name: [node.workers, node.place, list(getattr(graph.make(f"{node.name}/0"), "state", ()))]
        for node in graph.nodes
    }
    links = [[link.sender, link.receiver, link.port, list(link.by), link.broadcast] for link in graph.links]
    found: dict[str, Any] = json.loads(json.dumps({"operators": operators, "links": links, **more}))
    return found


def check_same(folder: Path, of: Mapping[str, Any]) -> None:
    """Note what a folder's region is, and refuse another one that would go on from what is stored there. Raises TempuraError
    JOB_CHANGED."""
    path = folder / OF
    noted: object = {}
    with suppress(FileNotFoundError, ValueError):  # one of before this was noted, or a note of which nothing is left
        noted = json.loads(path.read_text(encoding="utf-8"))
    before = noted if isinstance(noted, dict) else {}
    other = [name for name in of if name in before and before[name] != of[name]]
    if other and _has_state(folder):
        what = f"The job in {folder} is another one: what differs is {', '.join(other)}. What is stored there does not fit."
        raise TempuraError("JOB_CHANGED", what, "Restore it; or give this one another folder, in which it begins anew.")
    new = path.with_suffix(".new")
    new.write_text(json.dumps(of), encoding="utf-8")
    new.replace(path)


def read_note(path: Path, otherwise: Mapping[str, Any]) -> dict[str, Any]:
    """What a file in a job's folder notes under the names that ``otherwise`` has, which is what there is to say without the file. Nothing
    is flushed, so a machine that stopped may have left a part of it. Raises TempuraError REGION_FAILED."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return dict(otherwise)
    except ValueError:
        found = None
    if isinstance(found, dict) and otherwise.keys() <= found.keys():
        return found
    what = f"{path}, where a job notes how far it is, was cut short or altered."
    raise TempuraError("REGION_FAILED", what, "Restore the job's folder from a backup; or remove it: it begins anew.")


def _has_state(folder: Path) -> bool:
    """Whether a region has done anything."""
    return any(path.stat().st_size for path in folder.glob("*/life-*/*.log")) or any(folder.glob("*/*.snapshot"))
