"""What a run takes by phase: what it waits for besides Spark is told as well."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

from tempura.execute.contract import Clocks

LOOKING, PLANNING, COMPUTING, STORING = "looking", "planning", "computing", "storing"
"""To see what has arrived and what the query means; to find a plan; to run its step; to seal and flush what it wrote."""

Phases = Mapping[str, Clocks]
"""What each phase took, in the order of the run. Of a run before phases were noted, none."""


class Stopwatch:
    """Takes the time of the phases of a run; one that is entered again goes on."""

    def __init__(self, now: Callable[[], Clocks]) -> None:
        self._now = now
        self.phases: dict[str, Clocks] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens in the block as of a phase, also when it fails, if the clocks can still be asked then."""
        began = self._now()
        try:
            yield
        except Exception:
            with suppress(Exception):
                self._add(name, began)
            raise
        self._add(name, began)

    def _add(self, name: str, began: Clocks) -> None:
        self.phases[name] = self.phases.get(name, Clocks()) + (self._now() - began)


def to_json(phases: Phases) -> dict[str, Any]:
    """Plain data."""
    return {name: asdict(spent) for name, spent in phases.items()}


def from_json(data: Mapping[str, Any]) -> dict[str, Clocks]:
    """The inverse of :func:`to_json`."""
    return {name: Clocks(**spent) for name, spent in data.items()}


def beside(phases: Phases) -> Clocks:
    """What passed beside the step itself."""
    return sum((spent for name, spent in phases.items() if name != COMPUTING), Clocks())


def text(phases: Phases) -> str:
    """The phases in a line: seconds that passed, and CPU seconds of the driver where they are not the step's, which has columns."""
    return ", ".join(f"{name} {_told(name, spent)}" for name, spent in phases.items())


def _told(name: str, spent: Clocks) -> str:
    cpu = "" if name == COMPUTING else f" ({spent.jvm_seconds + spent.python_seconds:.2f} CPU s)"
    return f"{spent.wall_seconds:.2f} s{cpu}"
