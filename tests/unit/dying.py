"""Processes that are killed in the middle of what they do to files."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tempura.warehouse.commits.files import Files


def killed(scenario: Callable[[Files], object], n: int) -> bool:
    """Run a scenario in a process that is killed at its n-th file operation. Returns whether it came that far; a scenario that fails is
    no such end."""
    seen = [0]

    def before(operation: str, path: Path) -> None:
        seen[0] += 1
        if seen[0] == n:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            scenario(Files(before))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL
