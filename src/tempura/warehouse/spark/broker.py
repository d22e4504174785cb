"""A Kafka broker, asked through the clients that Spark's connector brings: which offsets a topic has, and its records by offsets."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tempura.errors import TempuraError
from tempura.frontend.catalyst import first_line
from tempura.kafka import Connection, TopicOffsets, check_reachable
from tempura.warehouse.declared.kafka import KafkaSpec, connection, refusal
from tempura.warehouse.engine import TopicRead
from tempura.warehouse.sources.feed import anew

_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"

_ANSWER = 20
"""Seconds in which a broker has to answer; its client gives up before that."""

_PATIENCE = {"request.timeout.ms": "6000", "default.api.timeout.ms": "15000"}

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What brokers say that give topics no ids."""


def look(session: SparkSession, table: str, kafka: KafkaSpec) -> TopicOffsets:
    """What the broker says of a topic. The end of a partition is where transactions that are open begin: what is before it stays.

    Raises TempuraError NO_PACKAGE, NO_SECRET, BROKER_UNREACHABLE, BROKER_REFUSED, UNKNOWN_TOPIC, FEED_UNREADABLE.
    """
    jvm: Any = session._jvm
    clients = jvm.org.apache.kafka.clients.admin
    if isinstance(clients.AdminClient, JavaPackage):
        raise no_package(session, "topics of Kafka", _PACKAGE)
    found = connection(table, kafka)
    check_reachable(f"Table {table}", kafka.servers)
    with _translated(table, kafka, found):
        admin = clients.AdminClient.create(_java_map(jvm, {**found.settings, **_PATIENCE}))
        try:
            return _asked(jvm, admin, kafka.topic)
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(2))


def _asked(jvm: Any, admin: Any, topic: str) -> TopicOffsets:
    clients, common = jvm.org.apache.kafka.clients.admin, jvm.org.apache.kafka.common
    names = jvm.java.util.ArrayList()
    names.add(topic)
    described = _answer(jvm, admin.describeTopics(names).allTopicNames())[topic]
    partitions = {int(p.partition()): common.TopicPartition(topic, p.partition()) for p in described.partitions()}
    options = clients.ListOffsetsOptions(common.IsolationLevel.READ_COMMITTED)

    def offsets(spec: Any) -> dict[int, int]:
        wanted = jvm.java.util.HashMap()
        for partition in partitions.values():
            wanted.put(partition, spec)
        said = _answer(jvm, admin.listOffsets(wanted, options).all())
        return {number: int(said[partition].offset()) for number, partition in partitions.items()}

    first, end = offsets(clients.OffsetSpec.earliest()), offsets(clients.OffsetSpec.latest())
    id = str(described.topicId().toString())
    ranges = {number: (first[number], max(first[number], end[number])) for number in sorted(partitions)}
    return TopicOffsets("" if id == _NO_ID else id, ranges, _is_compacted(jvm, admin, topic))


def _is_compacted(jvm: Any, admin: Any, topic: str) -> bool:
    """Whether the topic's records are compacted; not, where this user may not know."""
    config = jvm.org.apache.kafka.common.config
    # Of a class within a class the gateway knows the name in Java's own spelling.
    resource = config.ConfigResource(getattr(config, "ConfigResource$Type").TOPIC, topic)
    names = jvm.java.util.ArrayList()
    names.add(resource)
    try:
        said = _answer(jvm, admin.describeConfigs(names).all())[resource]
    except Py4JJavaError as error:
        if "Authorization" in _kind(error):
            return False
        raise
    return "compact" in str(said.get("cleanup.policy").value())


def _answer(jvm: Any, future: Any) -> Any:
    return future.get(_ANSWER, jvm.java.util.concurrent.TimeUnit.SECONDS)


def read(session: SparkSession, asked: TopicRead) -> DataFrame:
    """The records: ``partition``, ``offset``, ``timestamp``, ``key`` and ``value`` as bytes. Of transactions those that are committed."""
    topic, parts, found = asked.kafka.topic, asked.span.parts, connection(asked.table, asked.kafka)
    starts, ends = ({str(p): part[side] for p, part in parts.items()} for side in (0, 1))
    options = {f"kafka.{name}": value for name, value in found.settings.items()} | {
        "assign": json.dumps({topic: sorted(parts)}),
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "kafkaConsumer.pollTimeoutMs": "60000",
    }
    with translated_read(session, asked):
        records = session.read.format("kafka").options(**options).load()
        return records.select("partition", "offset", "timestamp", "key", "value")


# --- what Java says ---------------------------------------------------------------------------------------------------


@contextmanager
def _translated(table: str, kafka: KafkaSpec, found: Connection) -> Iterator[None]:
    """Errors of Kafka's clients by code. Neither their text nor what they were made of has a secret in it, so the cause is dropped."""
    try:
        yield
    except Py4JJavaError as error:
        raise refusal(table, kafka, _kind(error), found.redacted(_message(error))) from None


_LOST = re.compile(r"KAFKA_DATA_LOSS|OffsetOutOfRange|may have been lost|Cannot fetch records", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"org\.apache\.kafka\.\w[\w.]*(TimeoutException|DisconnectException)|Cannot fetch record .* in \d+ milli"
)


@contextmanager
def translated_read(session: SparkSession, asked: TopicRead) -> Iterator[None]:
    """Errors of jobs that read records by code; others pass. Raises TempuraError NO_PACKAGE, FEED_EXPIRED, BROKER_UNREACHABLE."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if isinstance(error, PySparkException) and error.getCondition() == "DATA_SOURCE_NOT_FOUND":
            raise no_package(session, "topics of Kafka", _PACKAGE) from error
        text, found = str(error), connection(asked.table, asked.kafka)
        if _NO_ANSWER.search(text):
            raise refusal(asked.table, asked.kafka, "TimeoutException", found.redacted(first_line(error))) from None
        if _LOST.search(text):
            what = f"Table {asked.table}: records of topic {asked.kafka.topic} went while they were read."
            raise TempuraError(
                "FEED_EXPIRED", what, *anew(asked.table, "Run more often than records are kept")
            ) from None
        if any(secret in text for secret in found.secrets):
            what = f"Table {asked.table}: {found.redacted(first_line(error))}"
            raise TempuraError("FEED_UNREADABLE", what, "Mend that.") from None
        raise


def no_package(session: SparkSession, what: str, package: str) -> TempuraError:
    """The error of a session without what is needed."""
    remedy = f"Start it with spark.jars.packages={package}:VERSION, of the version of this Spark."
    return TempuraError("NO_PACKAGE", f"This session of Spark {session.version} cannot read {what}.", remedy)


def _cause(error: Py4JJavaError) -> Any:
    """The exception within what a future, and a client that could not be made, put around it."""
    found = error.java_exception
    around = ("ExecutionException", "KafkaException", "CompletionException")
    while found.getCause() is not None and found.getClass().getSimpleName() in around:
        found = found.getCause()
    return found


def _kind(error: Py4JJavaError) -> str:
    return str(_cause(error).getClass().getSimpleName())


def _message(error: Py4JJavaError) -> str:
    return str(_cause(error).getMessage() or "no reason given").splitlines()[0]


def _java_map(jvm: Any, settings: Mapping[str, str]) -> Any:
    found = jvm.java.util.HashMap()
    for name, value in settings.items():
        found.put(name, value)
    return found
