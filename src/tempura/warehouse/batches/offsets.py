"""Positions in a topic of Kafka: per partition the offset of the next record. What lies between two positions never changes, as long as
the broker keeps it: a batch can be read again, and is known by where it ends."""

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Where the rows of an arrival end: in the topic of this ``id``, per partition before this offset."""

    id: str
    offsets: Mapping[int, int]

    @property
    def text(self) -> str:
        """For the ledger, and for people."""
        return json.dumps({"topic": self.id, "offsets": {str(p): o for p, o in sorted(self.offsets.items())}})

    @staticmethod
    def parse(text: str) -> "Position":
        """The inverse of :attr:`text`."""
        data = json.loads(text)
        return Position(data["topic"], {int(p): int(o) for p, o in data["offsets"].items()})


@dataclass(frozen=True, slots=True)
class Span:
    """The records of an arrival: from ``since``, per partition, up to ``upto``."""

    since: Mapping[int, int]
    upto: Position

    @property
    def parts(self) -> dict[int, tuple[int, int]]:
        """The partitions that have any, from where to where."""
        ends = self.upto.offsets
        return {p: (begin, ends[p]) for p, begin in self.since.items() if begin < ends[p]}
