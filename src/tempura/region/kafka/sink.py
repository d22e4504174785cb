"""A topic of Kafka as a sink of a region, exactly once: a transaction per snapshot holds its rows and, as an offset of a consumer group of
the sink's own, its number. Whoever goes on asks the broker for that number."""

import os
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tempura.errors import TempuraError
from tempura.region.kafka.clients import ANSWER, Address, Looks, while_moving
from tempura.region.kafka.records import Writer
from tempura.region.sinks import Epochs

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message

LASTS = 300.0
"""Seconds that the transaction of a snapshot may last, after which the broker ends it; brokers allow 900 unless told otherwise."""

DELIVERY = 60.0
"""Seconds in which a record has to be delivered, and the broker has to answer what concerns a transaction."""


class KafkaSink(Epochs):
    """Rows as records of a topic, one JSON object each, with ``_change`` where it is a column. Who reads what is committed sees the rows of
    a snapshot at once, each once, in each partition in the order of the job.

    ``key`` are columns whose values make the key of a record, and choose its partition as Kafka's clients do; without them all values
    choose it, so that the insert and the delete of the same row lie in one partition. ``name`` tells jobs and workers apart: a worker that
    takes over ends what the one before it has begun, and that one cannot write any more. ``folder`` keeps rows until they are written.

    Raises TempuraError BAD_SOURCE, BAD_OPTION, NO_PACKAGE; when it writes WRONG_SCHEMA for a key that is no column, NO_SECRET,
    BROKER_UNREACHABLE, BROKER_REFUSED, UNKNOWN_TOPIC, TOPIC_NOT_WRITTEN. A snapshot is written by ``retry`` then, or by who goes on.
    """

    def __init__(self, folder: Path, name: str, address: Address, key: Sequence[str] = ()) -> None:
        super().__init__(folder, name)
        address.check()
        self._address, self._key = address, tuple(key)
        self._begun = folder / f".{name}.begun"
        self._open: Transactions | None = None

    def store(self, rows: pa.Table, path: Path) -> None:
        pq.write_table(rows, path)

    def take_over(self, path: Path, id: str) -> None:
        from confluent_kafka import KafkaException

        number = int(id.rpartition("-")[2])
        try:
            if self._open is None:
                self._open = Transactions(self._address, f"tempura-{self._name}")
            if self._open.committed is None:
                self._check_not_begun(number)
            if number >= (self._open.committed or 0):
                self._write(self._open, path, number)
        except BaseException as error:
            given_up, self._open = self._open, None  # what became of the transaction is asked anew
            if given_up is not None:
                given_up.abort()
            if isinstance(error, KafkaException):
                raise self._not_written(error.args[0]) from None
            raise

    def _write(self, open: "Transactions", path: Path, number: int) -> None:
        with pq.ParquetFile(path) as file:
            writer = Writer(file.schema_arrow, self._key)
            if open.committed is None:
                open.begin()
                open.commit(0)  # from now on the broker knows a number, unless it forgets it
            self._note(number)
            open.begin()
            for batch in file.iter_batches():
                for key, value, row in writer.records(batch):
                    open.send(key, value, row)
        open.commit(number + 1)

    def _note(self, number: int) -> None:
        new = self._begun.with_suffix(".new")
        new.write_text(str(number), encoding="utf-8")
        os.replace(new, self._begun)

    def _check_not_begun(self, number: int) -> None:
        """The broker knows no number of this sink: none was written, or it has forgotten that one was."""
        if self._begun.exists() and int(self._begun.read_text(encoding="utf-8")) >= number:
            what = f"{self._address.who}: snapshot {number} may have been written to topic {self._address.topic}, and the broker has "
            what += (
                f"forgotten: the offsets of the group tempura-{self._name} have expired, or the topic was made anew."
            )
            remedy = f"If the topic lacks its rows, remove {self._begun} and retry. A broker keeps offsets for offsets.retention.minutes."
            raise TempuraError("TOPIC_NOT_WRITTEN", what, remedy)

    def _not_written(self, error: "KafkaError") -> TempuraError:
        found = self._address.refused(error)
        if found is not None:
            return found
        said = f"{error.name()}: {self._address.said(error)}"
        what = f"{self._address.who}: a snapshot cannot be written to topic {self._address.topic} ({said})."
        remedy = "Mend that, and retry."
        if error.name() == "MSG_SIZE_TOO_LARGE":
            remedy = "Let the topic take larger records (max.message.bytes), and retry."
        return TempuraError("TOPIC_NOT_WRITTEN", what, remedy)


class Transactions:
    """The transactions of one sink, whose number is the offset of the topic's first partition in a group of its own. ``committed`` is that
    number, None where the broker knows none. To make one ends what another of this name has begun, and shuts it out.

    Raises KafkaException, and TempuraError as :meth:`~tempura.region.kafka.clients.Looks.end` does.
    """

    def __init__(self, address: Address, name: str) -> None:
        from confluent_kafka import Consumer, Producer

        self._address = address
        self._error: KafkaError | None = None
        self._partitions = len(Looks(address).look().partitions)
        self._producer: Producer = Producer(
            address.settings()
            | {
                "transactional.id": name,
                "transaction.timeout.ms": int(LASTS * 1000),
                "message.timeout.ms": int(DELIVERY * 1000),
                "message.max.bytes": 100_000_000,  # the topic's own limit counts
                "partitioner": "murmur2_random",  # as Java's clients have it
            }
        )
        self._producer.init_transactions(DELIVERY)
        settings = {"group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        # With this isolation the answer waits for transactions that are being committed.
        self._consumer: Consumer = Consumer(address.settings() | settings)
        self.committed: int | None = while_moving(self._number, DELIVERY)

    def _number(self) -> int | None:
        from confluent_kafka import KafkaException, TopicPartition

        (found,) = self._consumer.committed([TopicPartition(self._address.topic, 0)], DELIVERY)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def abort(self) -> None:
        """Give up a transaction, so that nobody waits for its end, as far as the broker answers."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):
            self._producer.abort_transaction(ANSWER)

    def send(self, key: bytes | None, value: bytes, row: bytes) -> None:
        """Send a record within a transaction."""
        partition = zlib.crc32(row) % self._partitions if key is None else -1
        end = time.monotonic() + DELIVERY
        while time.monotonic() < end:
            self._producer.poll(0)
            self._check_delivered()
            try:
                self._producer.produce(self._address.topic, value, key, partition, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)
        raise undelivered(len(self._producer))

    def commit(self, number: int) -> None:
        """Commit the transaction, and with it a number."""
        from confluent_kafka import TopicPartition

        left = self._producer.flush(DELIVERY)
        self._check_delivered()
        if left:
            raise undelivered(left)
        offset = [TopicPartition(self._address.topic, 0, number)]
        self._producer.send_offsets_to_transaction(offset, self._consumer.consumer_group_metadata(), DELIVERY)
        self._producer.commit_transaction(DELIVERY)
        self.committed = number

    def _delivered(self, error: "KafkaError | None", message: "Message") -> None:
        self._error = self._error or error

    def _check_delivered(self) -> None:
        from confluent_kafka import KafkaException

        if self._error is not None:
            raise KafkaException(self._error)


def undelivered(count: int) -> "KafkaException":
    """The error of records that the broker has not taken in time."""
    from confluent_kafka import KafkaError, KafkaException

    return KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, f"{count} records are not delivered"))
