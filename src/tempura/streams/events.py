"""Decisions of an adaptive join, each with its numbers."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from tempura.streams.candidates import Candidate


@dataclass(frozen=True, slots=True)
class Event:
    """A decision: after how many changes of rows, of which kind, and the numbers that it was made by. Kinds: ``profile``, ``select``,
    ``drop``, ``reorder``, ``memory``."""

    at: int
    kind: str
    numbers: dict[str, Any]


class Events:
    """The last decisions; ``names`` are the inputs'."""

    def __init__(self, names: tuple[str, ...], keep: int = 500) -> None:
        self.names = names
        self.all: deque[Event] = deque(maxlen=keep)

    def add(self, at: int, kind: str, **numbers: Any) -> None:
        """One more decision."""
        self.all.append(Event(at, kind, numbers))

    def last(self, count: int = 10) -> list[dict[str, Any]]:
        """The last ones as plain data."""
        return [{"at": e.at, "kind": e.kind, **e.numbers} for e in list(self.all)[-count:]]

    def cache(self, c: Candidate) -> str:
        """A cache as people write it."""
        return f"{c.group.label(self.names)} in {self.names[c.pipeline]}"
