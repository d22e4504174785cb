"""Records of a topic's partitions, each read from an offset on. No consumer group takes part, and nothing is committed on anybody's behalf;
of transactions only records that are committed are read."""

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tempura.errors import TempuraError
from tempura.kafka import SILENT
from tempura.region.kafka.clients import Address

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

MOST = 16 << 20
"""Bytes of a partition's records that wait here. Of one that has more nothing is fetched until there is room: another may be waited for."""

OVERHEAD = 200
"""Bytes that a record takes beside its value."""

CHUNK = 2_000
"""Records that are taken from the client at once."""


class OffsetGoneError(Exception):
    """The broker has no record at the offset at which a partition was to be read, and none after it follows on."""


class PartitionReader:
    """``waiting`` are the records that came of each partition, in their order; ``reached`` is where there were no more: the offset of the
    next one, behind those that only end transactions."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._consumer: Consumer | None = None
        self._bytes: dict[int, int] = {}
        self._paused: set[int] = set()
        self._error: TempuraError | None = None
        self.waiting: dict[int, deque[Message]] = {}
        self.reached: dict[int, int] = {}

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Read partitions from these offsets on, and forget what came before. Raises TempuraError BROKER_REFUSED for settings that are
        none, NO_SECRET."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        if self._consumer is None:
            settings = self._address.settings() | {
                "group.id": "tempura",  # the client wants one; nothing is committed under it
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "error_cb": self._hear,
            }
            try:
                self._consumer = Consumer(settings)
            except KafkaException as error:
                raise self._address.refused(error.args[0]) or error from None
        self.waiting = {partition: deque() for partition in offsets}
        self.reached = {}
        self._bytes = dict.fromkeys(offsets, 0)
        self._paused = set()
        self._error = None
        self._consumer.assign([TopicPartition(self._address.topic, p, offset) for p, offset in offsets.items()])

    def fill(self, timeout: float = 0.0) -> None:
        """Take what has come; wait for it for some seconds at most.

        Raises OffsetGoneError, and TempuraError UNKNOWN_TOPIC, BROKER_REFUSED.
        """
        assert self._consumer is not None
        for message in self._consumer.consume(CHUNK, timeout):
            partition, error = message.partition(), message.error()
            if error is not None:
                self._failed(message, error)
            elif partition is not None and partition in self.waiting:
                self.waiting[partition].append(message)
                self._bytes[partition] += OVERHEAD + len(message.value() or b"")
                if self._bytes[partition] > MOST and partition not in self._paused:
                    self._pause(partition)
        if self._error is not None:
            refused, self._error = self._error, None
            raise refused

    def take(self, partition: int, count: int) -> None:
        """Let go of the first records of a partition that wait."""
        for _ in range(count):
            message = self.waiting[partition].popleft()
            self._bytes[partition] -= OVERHEAD + len(message.value() or b"")
        if partition in self._paused and self._bytes[partition] < MOST // 2:
            self._resume(partition)

    def wait_for(self, partition: int, upto: int, seconds: float) -> bool:
        """Wait until all records of a partition before an offset have come; whether they have. Raises as :meth:`fill` does."""
        end = time.monotonic() + seconds
        while True:
            waiting = self.waiting[partition]
            if (waiting and (waiting[-1].offset() or 0) >= upto - 1) or self.reached.get(partition, 0) >= upto:
                return True
            if time.monotonic() > end:
                return False
            if partition in self._paused:
                self._resume(partition)
            self.fill(0.1)

    def _failed(self, message: "Message", error: "KafkaError") -> None:
        name, partition = error.name(), message.partition()
        if name == "_PARTITION_EOF":
            self.reached[partition or 0] = message.offset() or 0
        elif name in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            raise OffsetGoneError
        else:
            self._hear(error)

    def _hear(self, error: "KafkaError") -> None:
        """Keep what waiting does not mend. That nobody answers it does; and the group is none of ours."""
        if error.name() not in SILENT and not error.name().startswith("GROUP_"):
            self._error = self._address.refused(error) or self._error

    def _pause(self, partition: int) -> None:
        from confluent_kafka import TopicPartition

        assert self._consumer is not None
        self._paused.add(partition)
        self._consumer.pause([TopicPartition(self._address.topic, partition)])

    def _resume(self, partition: int) -> None:
        from confluent_kafka import TopicPartition

        assert self._consumer is not None
        self._paused.discard(partition)
        self._consumer.resume([TopicPartition(self._address.topic, partition)])
