"""A topic of Kafka as a source of a region: its partitions by offsets, from which the same records are read again."""

import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tempura.errors import TempuraError
from tempura.kafka import TopicOffsets, check_start
from tempura.region.kafka.clients import Address, Looks
from tempura.region.kafka.reader import OffsetGoneError, PartitionReader
from tempura.region.kafka.records import BadRecord, Reader
from tempura.region.operators import CHANGE, Batch, Read, Source, State

if TYPE_CHECKING:
    from confluent_kafka import Message

LOOK = 3.0
"""Seconds between two looks at a topic: whether it is the same one, and has more partitions."""

PATIENCE = 20.0
"""Seconds in which a broker that is away may come back before that is an error."""

AGAIN = 0.5
"""Seconds between two looks at a broker that is away."""

KEEP = "Let topics keep records for longer than a job may stand still. The job begins anew without its folder."


class Topic(Source):
    """The records of a topic, one JSON object each, as rows of a schema; ``_change`` is added to it. Those of a partition are in order.

    ``start`` is earliest, latest, or offsets by partition, of which others begin with their earliest. Partitions that are added later are
    read from their beginning. ``follow``: wait for more; else it ends with what was there when it was opened. ``ignore``: leave out
    fields that are no columns.

    Position: a partition, the offset of the first record, the one after the last, and how many they are (offsets have gaps where
    transactions end); or, before all others, where the topic begins and ends. What was not read, or is to be read again, and is not there
    any more is refused. Nothing is read before the broker has been asked, in a thread: neither waiting for it nor for records blocks.

    Raises TempuraError BAD_SOURCE, BAD_OPTION, WRONG_SCHEMA, NO_PACKAGE; when it is read NO_SECRET, BROKER_UNREACHABLE, BROKER_REFUSED,
    UNKNOWN_TOPIC, NO_KEYS for a compacted topic, FEED_EXPIRED, FEED_REPLACED, BAD_RECORD.
    """

    def __init__(
        self,
        address: Address,
        schema: pa.Schema,
        start: str | Mapping[int, int] = "earliest",
        follow: bool = True,
        ignore: bool = False,
    ) -> None:
        address.check()
        check_start(address.who, start)
        columns = [field for field in schema if field.name != CHANGE]
        self.schema = pa.schema([*columns, (CHANGE, pa.string())])
        self._address, self._start, self._follow = address, start, follow
        self._rows = Reader(self.schema, ignore)
        self._looks = Looks(address)
        self._reader: PartitionReader | None = None
        self._next_look = self._since = 0.0
        self._turn = 0
        self.id: str | None = None
        self.offsets: dict[int, int] = {}
        self.ends: dict[int, int] | None = None
        self.left_out: set[tuple[int, int]] = set()

    # --- what a worker asks --------------------------------------------------------------------------------------------

    def poll(self, rows: int) -> Read | None:
        found = self._looked()
        if self._reader is None:
            if found is None:
                return None
            if self.id is None:
                position = self._beginning(found)
                return Read(self.reread(position), position)
            self._begin(found)
        elif found is not None:
            self._check_known(found)
            if self.ends is None and found.partitions.keys() - self.offsets.keys():
                self._begin(found)
        return self._next(rows)

    def reread(self, position: Any) -> Batch:
        if isinstance(position, Mapping):
            self.id, self.offsets = position["topic"], dict(position["offsets"])
            self.ends = None if position["ends"] is None else dict(position["ends"])
            self._next_look = 0.0
            return self._rows.batch([])
        partition, first, upto, count = position
        reader = self._reader or self._open()
        if partition not in reader.waiting:
            raise self._replaced(f"partition {partition} is not there")
        try:
            there = reader.wait_for(partition, upto, PATIENCE)
        except OffsetGoneError:
            self._reader = None
            self._open()  # says which records are gone, if they are not there again
            return self.reread(position)
        if not there:
            what = f"{self._address.who}: Kafka at {self._address.servers} does not give records of topic {self._address.topic} in time."
            raise TempuraError("BROKER_UNREACHABLE", what, "Look at the broker, or correct servers.")
        taken = list(islice(reader.waiting[partition], count))
        if len(taken) < count or (taken[0].offset(), taken[-1].offset()) != (first, upto - 1):
            what = f"{self._address.who}: {count} records from offset {first} to {upto - 1} of partition {partition} of topic "
            what += (
                f"{self._address.topic} have been read, and cannot be read again: some of them are not there any more."
            )
            raise TempuraError("FEED_EXPIRED", what, KEEP)
        rows, good, why = self._rows_of(partition, taken)
        if good < count:
            raise self._bad(partition, taken[good], why)
        self._took(partition, count, upto)
        return self._rows.batch(rows)

    def leave_out(self, partition: int, offset: int) -> None:
        """Go on without a record that does not fit (a method to ``call``; then ``retry``)."""
        self.left_out.add((partition, offset))

    def save(self) -> State:
        ends = None if self.ends is None else sorted(self.ends.items())
        left_out = sorted(place for place in self.left_out if place[1] >= self.offsets.get(place[0], 0))
        return {"id": self.id, "offsets": sorted(self.offsets.items()), "ends": ends, "left_out": left_out}

    def restore(self, state: State) -> None:
        self.id, self.offsets = state["id"], dict(state["offsets"])
        self.ends = None if state["ends"] is None else dict(state["ends"])
        self.left_out = {(partition, offset) for partition, offset in state["left_out"]}

    def inspect(self) -> Mapping[str, Any]:
        return {"offsets": str(self.offsets)} | ({} if self.ends is None else {"ends": str(self.ends)})

    # --- records -------------------------------------------------------------------------------------------------------

    def _next(self, rows: int) -> Read | None:
        reader = self._reader
        assert reader is not None
        ready = self._ready(reader)
        if not ready:
            try:
                reader.fill()
            except OffsetGoneError:
                self._reader, self._next_look = None, 0.0  # the next look says what is gone
                return None
            except TempuraError:
                self._reader = None  # another client knows other secrets
                raise
            ready = self._ready(reader)
        if not ready:
            if self.ends is not None and all(self.offsets[p] >= end for p, end in self.ends.items()):
                raise StopIteration
            return None
        self._turn += 1
        partition = ready[self._turn % len(ready)]
        end = None if self.ends is None else self.ends[partition]
        taken = [m for m in islice(reader.waiting[partition], rows) if end is None or _offset(m) < end]
        found, good, why = self._rows_of(partition, taken)
        if not good:
            raise self._bad(partition, taken[0], why)
        first, upto = _offset(taken[0]), _offset(taken[good - 1]) + 1
        self._took(partition, good, upto)
        return Read(self._rows.batch(found), [partition, first, upto, good])

    def _ready(self, reader: PartitionReader) -> list[int]:
        """The partitions of which records wait. Offsets go on over what is no record, such as the ends of transactions: the broker may
        keep them no longer than the records before."""
        ready = []
        for partition, waiting in reader.waiting.items():
            offset = _offset(waiting[0]) if waiting else reader.reached.get(partition, 0)
            self.offsets[partition] = max(self.offsets[partition], offset)
            if waiting and (self.ends is None or offset < self.ends[partition]):
                ready.append(partition)
        return ready

    def _rows_of(self, partition: int, messages: Sequence["Message"]) -> tuple[list[list[Any]], int, str]:
        """The rows of records up to the first that does not fit; how many records these are, and what is wrong with that one."""
        rows = []
        for n, message in enumerate(messages):
            if (partition, message.offset()) not in self.left_out:
                try:
                    rows.append(self._rows.row(message.value()))
                except BadRecord as error:
                    return rows, n, str(error)
        return rows, len(messages), ""

    def _took(self, partition: int, count: int, upto: int) -> None:
        assert self._reader is not None
        self._reader.take(partition, count)
        self.offsets[partition] = upto

    def _bad(self, partition: int, message: "Message", why: str) -> TempuraError:
        where = f"partition {partition}, offset {message.offset()}"
        what = f"{self._address.who}: the record of topic {self._address.topic}, {where} does not fit: {why}."
        return TempuraError(
            "BAD_RECORD", what, "Correct the columns, or call leave_out with partition and offset; then retry."
        )

    # --- where it is ---------------------------------------------------------------------------------------------------

    def _looked(self) -> TopicOffsets | None:
        """What a look has found, now and then; None between. Raises TempuraError."""
        now = time.monotonic()
        try:
            found = self._looks.end()
        except TempuraError as error:
            self._next_look = now + AGAIN
            self._since = self._since or now
            if error.code != "BROKER_UNREACHABLE" or now - self._since > PATIENCE:
                self._since = 0.0
                raise
            return None
        if found is not None:
            self._since, self._next_look = 0.0, now + LOOK
        elif now >= self._next_look:
            self._looks.begin()
        return found

    def _open(self) -> PartitionReader:
        """Begin to read, and wait for the broker."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self._begin(self._looks.look())
            except TempuraError as error:
                if error.code != "BROKER_UNREACHABLE" or time.monotonic() > end:
                    raise
                time.sleep(AGAIN)

    def _beginning(self, found: TopicOffsets) -> dict[str, Any]:
        """The first position: where the topic begins and ends."""
        offsets = {p: first for p, (first, _) in found.partitions.items()}
        ends = {p: end for p, (_, end) in found.partitions.items()}
        if self._start == "latest":
            offsets = dict(ends)
        for partition, offset in (
            {} if isinstance(self._start, str) else {int(p): o for p, o in self._start.items()}.items()
        ):
            if partition not in ends or offset > ends[partition]:
                what = f"{self._address.who} starts at offset {offset} of partition {partition} of topic {self._address.topic}, "
                raise TempuraError("BAD_OPTION", f"{what}which there is not.", "Correct start.")
            offsets[partition] = offset
        return {
            "topic": found.id,
            "offsets": sorted(offsets.items()),
            "ends": None if self._follow else sorted(ends.items()),
        }

    def _begin(self, found: TopicOffsets) -> PartitionReader:
        self._check_known(found)
        if found.compacted:
            what = f"{self._address.who}: topic {self._address.topic} is compacted: of records with a key the broker keeps only the last, "
            what += "so what is read depends on when, and cannot be read again."
            raise TempuraError("NO_KEYS", what, "Set the topic's cleanup.policy to delete.")
        for partition in found.partitions if self.ends is None else self.ends:
            self.offsets.setdefault(partition, 0)
        for partition, offset in sorted(self.offsets.items()):
            first, end = found.partitions[partition]
            if offset < first:
                what = f"{self._address.who}: offsets {offset} to {first - 1} of partition {partition} of topic {self._address.topic} have "
                what += "not been read, or are to be read again, and the broker keeps them no longer."
                raise TempuraError("FEED_EXPIRED", what, KEEP)
            if offset > end:
                raise self._replaced(f"partition {partition} ends at offset {end}, before {offset}")
        reader = self._reader or PartitionReader(self._address)
        reader.begin(self.offsets)
        self._reader = reader
        return reader

    def _check_known(self, found: TopicOffsets) -> None:
        if found.id != self.id:
            raise self._replaced(f"its id is {found.id}, and was {self.id}")
        gone = sorted(self.offsets.keys() - found.partitions.keys())
        if gone:
            raise self._replaced(f"partition {gone[0]} is not there")

    def _replaced(self, because: str) -> TempuraError:
        what = f"{self._address.who}: topic {self._address.topic} is not the one that was read: {because}."
        return TempuraError("FEED_REPLACED", what, "Restore it. The job begins anew without its folder.")


def _offset(message: "Message") -> int:
    offset = message.offset()
    assert offset is not None
    return offset
