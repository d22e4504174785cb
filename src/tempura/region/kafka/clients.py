"""Kafka's clients for workers: librdkafka under the names that Kafka's own clients have for settings, asked with bounded patience."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from tempura.errors import TempuraError
from tempura.kafka import (
    SILENT,
    TopicOffsets,
    check_connection,
    check_place,
    check_reachable,
    connected,
    refusal,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

ANSWER = 5.0
"""Seconds in which a broker has to answer a question."""

_MOVING = (
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"),
)
"""What a broker says of a group, or of a partition, that is another one's by now, or nobody's yet."""

OTHERWISE = {
    "sasl.jaas.config": "Say sasl.username and sasl.password.",
    "sasl.client.callback.handler.class": "Leave it out.",
    "sasl.login.callback.handler.class": "Say sasl.oauthbearer.method and what goes with it.",
    "ssl.truststore.location": "Say ssl.ca.location, a file of PEM certificates.",
    "ssl.truststore.password": "Leave it out: ssl.ca.location is a file of PEM certificates.",
    "ssl.truststore.type": "Leave it out: ssl.ca.location is a file of PEM certificates.",
    "ssl.truststore.certificates": "Say ssl.ca.pem.",
    "ssl.keystore.type": "Leave it out: ssl.keystore.location is a PKCS#12 file.",
    "ssl.keystore.key": "Say ssl.key.pem.",
    "ssl.keystore.certificate.chain": "Say ssl.certificate.pem.",
}
"""Settings of Kafka's Java clients that librdkafka does not know, and what to say instead."""


@dataclass(frozen=True, slots=True)
class Address:
    """A topic, and how its broker is reached; ``who`` uses it begins each message. ``connection`` holds references, not secrets: they are
    looked up when a client is made, in the process that makes it."""

    who: str
    servers: str
    topic: str
    connection: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises TempuraError BAD_SOURCE, BAD_OPTION, NO_PACKAGE for what no client can be made of."""
        check_place(self.who, self.servers, self.topic)
        check_connection(self.who, self.connection)
        for name in (name for name in self.connection if name in OTHERWISE):
            what = f"{self.who}: the setting {name} is of Kafka's Java clients, and not known to librdkafka, which workers use."
            raise TempuraError("BAD_OPTION", what, OTHERWISE[name])
        if find_spec("confluent_kafka") is None:
            what = f"{self.who} needs the package confluent-kafka, which is not installed."
            raise TempuraError("NO_PACKAGE", what, 'Run: pip install "tempura[streams]"')

    def settings(self) -> dict[str, Any]:
        """Of a client. Raises TempuraError NO_SECRET."""
        own = {"log_level": 0, "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 1_000}
        return {**connected(self.who, self.servers, self.connection).settings, **own}

    def refused(self, error: "KafkaError") -> TempuraError | None:
        """What librdkafka says, if it is about the broker or the topic as a whole."""
        if error.name() in SILENT:
            try:
                check_reachable(self.who, self.servers)
            except TempuraError as unreachable:
                return unreachable
        return refusal(self.who, self.servers, self.topic, error.name(), self.said(error))

    def said(self, error: "KafkaError") -> str:
        """The text of an error, without secrets."""
        return connected(self.who, self.servers, self.connection).redacted(error.str())


class Looks:
    """What the broker says of a topic, asked in a thread of its own: who asks goes on meanwhile."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._admin: AdminClient | None = None
        self._error: KafkaError | None = None
        self._done = threading.Event()
        self._found: TopicOffsets | BaseException | None = None
        self._runs = False

    def begin(self) -> None:
        """Ask, unless it is being asked."""
        if not self._runs:
            self._runs = True
            self._done.clear()
            threading.Thread(target=self._run, name="look", daemon=True).start()

    def end(self, timeout: float = 0.0) -> TopicOffsets | None:
        """What was found since ``begin``; None as long as there is no answer.

        Raises TempuraError BROKER_UNREACHABLE, BROKER_REFUSED, UNKNOWN_TOPIC, NO_SECRET, FEED_UNREADABLE.
        """
        if not self._runs or not self._done.wait(timeout):
            return None
        self._runs = False
        found = self._found
        if isinstance(found, BaseException):
            raise found
        return found

    def _run(self) -> None:
        try:
            self._found = self.look()
        except BaseException as error:
            self._found = error
        self._done.set()

    def look(self) -> TopicOffsets:
        """Ask, and wait for the answer. The end of a partition is where transactions that are open begin: what is before it stays. Raises
        TempuraError as :meth:`end` does."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            if self._admin is None:
                self._admin = AdminClient(self._address.settings() | {"error_cb": self._hear})
            return while_moving(partial(self._asked, self._admin), ANSWER)
        except KafkaException as error:
            if self._admin is not None:
                self._admin.poll(0)  # calls _hear
            heard, self._error, self._admin = self._error, None, None  # another one knows other secrets
            said = error.args[0]
            if said.name() in SILENT and heard is not None:
                said = heard  # that nobody answers has a reason, such as a password
            found = self._address.refused(said)
            if found is None:
                what = f"{self._address.who}: topic {self._address.topic} cannot be read ({said.name()}: {self._address.said(said)})."
                found = TempuraError("FEED_UNREADABLE", what, "Mend that.")
            raise found from None

    def _hear(self, error: "KafkaError") -> None:
        if error.name() not in SILENT or self._error is None:
            self._error = error

    def _asked(self, admin: "AdminClient") -> TopicOffsets:
        from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        topic = self._address.topic
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER)[topic].result()
        partitions = sorted(p.id for p in described.partitions)

        kinds: Any = OffsetSpec

        def offsets(spec: OffsetSpec) -> dict[int, int]:
            wanted = {TopicPartition(topic, number): spec for number in partitions}
            level = IsolationLevel.READ_COMMITTED
            asked = admin.list_offsets(wanted, isolation_level=level, request_timeout=ANSWER)
            return {place.partition: future.result().offset for place, future in asked.items()}

        first, end = offsets(kinds.earliest()), offsets(kinds.latest())
        ranges = {number: (first[number], max(first[number], end[number])) for number in partitions}
        return TopicOffsets(str(described.topic_id), ranges, self._is_compacted(admin))

    def _is_compacted(self, admin: "AdminClient") -> bool:
        """Whether the topic's records are compacted; not, where this user may not know."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource(ConfigResource.Type.TOPIC, self._address.topic)
        try:
            found = admin.describe_configs([resource], request_timeout=ANSWER)[resource].result()
        except KafkaException as error:
            if "AUTHORIZATION" in error.args[0].name():
                return False
            raise
        return "compact" in str(found["cleanup.policy"].value)


def while_moving(ask: Callable[[], T], lasts: float, pause: float = 0.2) -> T:
    """What a broker answers to a question about a group or partitions, which is asked again, for so many seconds, while these move to
    another broker, as those that are new do. Raises KafkaException."""
    from confluent_kafka import KafkaException

    end = time.monotonic() + lasts
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].name() not in _MOVING or time.monotonic() >= end:
                raise
        time.sleep(pause)
