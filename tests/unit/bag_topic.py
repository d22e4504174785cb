"""Topics of Kafka in memory, for an engine without a JVM: JSON records with whole numbers and texts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tempura.errors import TempuraError
from tempura.kafka import TopicOffsets
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import Changes, TopicRead

Record = tuple[str | None, str | None]


@dataclass
class BagTopic:
    """``partitions`` hold records, key and value; ``first`` are the offsets before which none is kept any more."""

    id: str = "id-1"
    partitions: dict[int, list[Record]] = field(default_factory=lambda: {0: [], 1: []})
    first: dict[int, int] = field(default_factory=dict)
    compacted: bool = False
    looks: int = 0

    def offsets(self) -> TopicOffsets:
        self.looks += 1
        found = {p: (self.first.get(p, 0), len(records)) for p, records in self.partitions.items()}
        return TopicOffsets(self.id, found, self.compacted)

    def send(self, partition: int, *values: Mapping[str, object] | str | None, key: str | None = None) -> None:
        texts = (value if isinstance(value, str) or value is None else json.dumps(value) for value in values)
        self.partitions[partition] += [(key, text) for text in texts]

    def changes(self, asked: TopicRead, present: list[tuple[object, ...]]) -> Changes:
        """As ``records.py`` finds them, over rows that are there."""
        bad, judged = [], []
        for partition, (begin, end) in sorted(asked.span.parts.items()):
            for offset in range(begin, end):
                key, value = self.partitions[partition][offset]
                why, *said = judge(key, value, asked)
                if why:
                    place = (partition, offset, None, why, key and key.encode(), value and value.encode(), value)
                    bad.append(place)
                else:
                    judged.append(said)
        if bad and asked.kafka.on_bad_record == "fail":
            what = f"Table {asked.table}: partition {bad[0][0]}, offset {bad[0][1]}: {bad[0][3]}."
            raise TempuraError("BAD_RECORD", what, "Correct it.")
        aside = bad or None
        if not asked.keys:
            sides = [[row for gone, _, row in judged if gone == side] or None for side in (False, True)]
            return Changes(inserts=sides[0], deletes=sides[1], aside=aside)
        last = {key: (gone, row) for gone, key, row in judged}
        at = [asked.schema.names.index(name) for name in asked.keys]
        deletes = [row for row in present if last.get(tuple(row[i] for i in at), (False,))[0]]
        updates = [row for gone, row in last.values() if not gone]
        return Changes(updates=updates or None, deletes=deletes or None, aside=aside)


def judge(key: str | None, value: str | None, asked: TopicRead) -> tuple[Any, ...]:
    """Why a record does not fit, "" if it does; whether its row is gone, its key and the row."""
    names = asked.schema.names
    types = {f.name: int if f.dataType.simpleString() in ("int", "bigint") else str for f in asked.schema.fields}
    if value is None:
        if not asked.keys or key is None:
            return ("no value",)
        return "", True, (types[asked.keys[0]](key),), None
    try:
        found = json.loads(value)
    except ValueError:
        return ("no JSON",)
    wrong = [n for n in names if found.get(n) is not None and type(found[n]) is not types[n]]
    if wrong or (asked.refuse and set(found) - {*names, CHANGE}):
        return (f"column {wrong or found}",)
    gone = found.get(CHANGE) == "delete"
    return "", gone, tuple(found.get(n) for n in asked.keys), tuple(found.get(n) for n in names)
