"""What travels: items of a data channel, and commands of the control channel.

A channel's items have offsets: a row counts one, and so do a marker and the end. So an offset says exactly what was sent, whatever batches
the rows were sent in; a receiver knows by it what it has already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

Alignment = Literal["none", "port", "all"]
"""When a worker acts on a marker: when it first comes, when it has come on all channels of one port, or on all."""

SNAPSHOT = "snapshot"
"""The command of a marker at which workers save their state."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A place in the streams: what is before it is told from what comes after. ``channels`` are those on which it travels, ``commands``
    what the workers do when it is aligned, by their names: a method of the operator and its arguments.

    Source: *Texera*, section 3.4: a reconfiguration by markers; ``snapshot`` and the end of input are aligned in the same way.
    """

    id: str
    channels: frozenset[str]
    alignment: Alignment = "all"
    kind: str = "command"
    commands: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "id": self.id,
            "channels": sorted(self.channels),
            "alignment": self.alignment,
            "kind": self.kind,
            "commands": {worker: [method, dict(given)] for worker, (method, given) in self.commands.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Marker":
        """The inverse of :meth:`to_json`."""
        commands = {worker: (method, given) for worker, (method, given) in data["commands"].items()}
        return Marker(data["id"], frozenset(data["channels"]), data["alignment"], data["kind"], commands)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows, the first of which has this offset."""

    offset: int
    batch: pa.RecordBatch

    @property
    def end(self) -> int:
        """The offset of what comes next."""
        return self.offset + int(self.batch.num_rows)

    def since(self, offset: int) -> "Rows":
        """Without what is before an offset."""
        return self if offset <= self.offset else Rows(offset, self.batch.slice(offset - self.offset))

    def first(self, count: int) -> "Rows":
        """The first so many rows."""
        return Rows(self.offset, self.batch.slice(0, count))


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker in a channel."""

    offset: int
    marker: Marker

    @property
    def end(self) -> int:
        """The offset of what comes next."""
        return self.offset + 1


@dataclass(frozen=True, slots=True)
class End:
    """The end of a channel."""

    offset: int

    @property
    def end(self) -> int:
        """The offset after which there is nothing."""
        return self.offset + 1


Item = Rows | Mark | End

LOGGED = ("pause", "resume", "call", "inject", "retry", "skip")
"""Commands that change what a worker does: they are in its log with their place. Others only look: ``inspect``, ``ask`` (a method that
changes nothing)."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the controller with its id; what a worker answers carries the id again."""

    id: int
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"id": self.id, "name": self.name, "arguments": dict(self.arguments)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Command":
        """The inverse of :meth:`to_json`."""
        return Command(data["id"], data["name"], data["arguments"])


def rows_in(items: Sequence[Item]) -> int:
    """How many offsets items take."""
    return sum(item.end - item.offset for item in items)
