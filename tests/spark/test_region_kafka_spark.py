"""Topics of a real broker as sources and sinks of regions and continuous joins: each record once, whoever is killed; and what is refused.

The broker's jars are found by Spark; the workers are processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import SparkSession

import tempura as tp
from tempura.errors import TempuraError
from tempura.region.carriers import Processes
from tempura.region.graph import Graph, Link, Node
from tempura.region.job import RegionJob
from tempura.region.kafka.clients import Address
from tempura.region.kafka.sink import KafkaSink, Transactions
from tempura.region.kafka.topic import Topic
from tempura.region.operators import Read, State
from tempura.region.settings import Settings
from tempura.region.simulation import Simulation
from tests.spark.broker import broker, jars_found

COLUMNS = pa.schema([("p", pa.int64()), ("n", pa.int64())])

_names = (f"topic-{n}" for n in count())


@dataclass
class Cluster:
    """A broker, and what programs do that fill and read topics."""

    servers: str
    group: int
    admin: AdminClient = field(init=False)
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self.producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 0})

    def topic(self, partitions: int = 2, name: str = "", **config: str) -> str:
        name = name or next(_names)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(20)
        return name

    def send(self, topic: str, partition: int, *values: Any) -> None:
        for value in values:
            self.producer.produce(
                topic, value if isinstance(value, bytes | None) else json.dumps(value), partition=partition
            )
        assert self.producer.flush(20) == 0

    def transaction(self, topic: str, partition: int, values: Sequence[Any], commit: bool) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": f"t-{topic}", "log_level": 0})
        producer.init_transactions(20)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, json.dumps(value), partition=partition)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)

    def remove_before(self, topic: str, partition: int, offset: int) -> None:
        place = TopicPartition(topic, partition, offset)
        self.admin.delete_records([place])[place].result(20)

    def remove(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(20)
        until(lambda: topic not in self.admin.list_topics(timeout=10).topics)

    def records(self, topic: str) -> dict[int, list[tuple[bytes | None, Any]]]:
        """Keys and values of what is committed, by partition."""
        settings = {
            "group.id": "test",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        consumer = Consumer({"bootstrap.servers": self.servers, "enable.auto.commit": False, **settings})
        partitions = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        found: dict[int, list[tuple[bytes | None, Any]]] = {p: [] for p in partitions}
        consumer.assign([TopicPartition(topic, p, 0) for p in found])
        open, end = set(found), time.monotonic() + 30
        while open:
            assert time.monotonic() < end
            for message in consumer.consume(1000, 0.2):
                if message.error():
                    open.discard(message.partition())
                else:
                    found[message.partition()].append((message.key(), json.loads(message.value() or b"")))  # type: ignore[index]
        consumer.close()
        return found

    def values(self, topic: str) -> list[Any]:
        return [value for part in self.records(topic).values() for _, value in part]

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The broker does not answer meanwhile."""
        os.killpg(self.group, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.group, signal.SIGCONT)

    def source(self, topic: str, **more: Any) -> Topic:
        return Topic(Address("The source", self.servers, topic), COLUMNS, **more)

    def sink(self, folder: Path, topic: str, key: Sequence[str] = (), name: str = "job") -> KafkaSink:
        return KafkaSink(folder, name, Address("The sink", self.servers, topic), key)


@pytest.fixture(scope="module")
def cluster(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with broker(tmp_path_factory.mktemp("broker"), jars_found(spark)) as running:
        yield Cluster(running.servers, os.getpgid(running.process.pid))


def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def polled(source: Topic, rows: int = 100, seconds: float = 30.0) -> Read:
    """What a source reads next. Raises StopIteration at its end."""
    end = time.monotonic() + seconds
    while (read := source.poll(rows)) is None:
        assert time.monotonic() < end, "nothing comes"
        time.sleep(0.005)
    return read


def all_of(source: Topic, rows: int = 100) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        try:
            found += polled(source, rows).batch.to_pylist()
        except StopIteration:
            return found


def refused(call: Callable[[], object], code: str, *says: str) -> TempuraError:
    with pytest.raises(TempuraError) as error:
        call()
    assert error.value.code == code, error.value
    assert all(said in str(error.value) for said in says), error.value
    return error.value


# --- the source -------------------------------------------------------------------------------------------------------


class Anew(Topic):
    """A wrong source, which begins anew when it is restored."""

    def restore(self, state: State) -> None:
        super().restore({**state, "offsets": [[p, 0] for p, _ in state["offsets"]]})


def check_each_once(cluster: Cluster, kind: type[Topic], seed: int = 5) -> None:
    """Records, and transactions that are committed or aborted, which leave gaps; read in parts of random size, saved, restored and read
    again at random places."""
    dice = Random(seed)
    topic = cluster.topic(3)
    sent: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for turn in range(12):
        partition = dice.randrange(3)
        rows = [{"p": partition, "n": turn * 100 + n} for n in range(dice.randint(1, 30))]
        how = dice.choice(["plain", "commit", "abort"])
        if how == "plain":
            cluster.send(topic, partition, *rows)
        else:
            cluster.transaction(topic, partition, rows, how == "commit")
        if how != "abort":
            sent[partition] += [row["n"] for row in rows]
    source, found, saved = cluster.source(topic, follow=False), list[dict[str, Any]](), None
    since: list[Read] = []
    ended = False
    while not ended:
        try:
            since.append(polled(source, dice.randint(1, 20)))
            found += since[-1].batch.to_pylist()
        except StopIteration:
            ended = True
        if dice.random() < 0.15 or ended:  # it dies, begins from what was saved, and reads again
            source = kind(Address("The source", cluster.servers, topic), COLUMNS, follow=False)
            if saved is not None:
                source.restore(json.loads(json.dumps(saved)))
            for read in since:
                assert source.reread(json.loads(json.dumps(read.position))).equals(read.batch)
        elif dice.random() < 0.3:
            saved, since = source.save(), []
    assert {p: [row["n"] for row in found if row["p"] == p] for p in sent} == sent


def test_the_same_records_are_read_again_and_each_once(cluster: Cluster) -> None:
    check_each_once(cluster, Topic)


def test_a_source_that_begins_anew_is_refuted(cluster: Cluster) -> None:
    with pytest.raises((AssertionError, TempuraError)):
        check_each_once(cluster, Anew)


def test_where_it_starts_and_ends(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.send(topic, 0, *({"p": 0, "n": n} for n in range(5)))
    cluster.send(topic, 1, {"p": 1, "n": 0})
    assert len(all_of(cluster.source(topic, follow=False))) == 6
    assert all_of(cluster.source(topic, follow=False, start={0: 4, 1: 1})) == [{"p": 0, "n": 4, "_change": "insert"}]
    assert all_of(cluster.source(topic, follow=False, start="latest")) == []
    for start in ({0: 6}, {2: 0}):
        refused(lambda s=start: all_of(cluster.source(topic, start=s)), "BAD_OPTION", "which there is not")  # type: ignore[misc]
    refused(lambda: cluster.source(topic, start="first"), "BAD_OPTION", "The source has start = 'first'")
    # What comes after it was opened is not waited for, nor mixed in; with latest it is all that is read, also after a death.
    ends, latest = cluster.source(topic, follow=False), cluster.source(topic, start="latest")
    assert polled(ends).batch.num_rows == 0
    began = polled(latest)
    cluster.send(topic, 0, *({"p": 0, "n": n} for n in range(5, 9)))
    assert len(all_of(ends)) == 6
    again = cluster.source(topic, start="latest")
    again.reread(json.loads(json.dumps(began.position)))
    for source in (latest, again):
        assert [row["n"] for row in polled(source).batch.to_pylist()] == [5, 6, 7, 8]


def test_nothing_is_committed_and_no_group_is_left(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.send(topic, 0, {"n": 1})
    assert len(all_of(cluster.source(topic, follow=False))) == 1
    groups = cluster.admin.list_consumer_groups().result(20)
    assert "tempura" not in {group.group_id for group in groups.valid}


def test_partitions_that_are_added_are_read_from_their_beginning(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempura.region.kafka.topic.LOOK", 0.2)
    topic = cluster.topic(1)
    source = cluster.source(topic, start="latest")
    assert polled(source).batch.num_rows == 0
    cluster.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(20)
    until(lambda: len(cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2)
    cluster.send(topic, 1, {"p": 1, "n": 1})
    assert polled(source).batch.to_pylist() == [{"p": 1, "n": 1, "_change": "insert"}]


def test_a_record_that_fits_nothing_is_named_and_those_before_it_count(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.send(topic, 0, {"n": 1}, {"n": 2, "_change": "delete"}, {"n": "x"}, b"{", None, {"n": 3, "more": 1})
    source = cluster.source(topic, follow=False)
    assert polled(source).position["offsets"] == [(0, 0)]
    read = polled(source)
    assert [(row["n"], row["_change"]) for row in read.batch.to_pylist()] == [(1, "insert"), (2, "delete")]
    says = (f"topic {topic}, partition 0, offset 2 does not fit: column n has the value 'x', not int64",)
    for _ in range(2):
        refused(lambda: polled(source), "BAD_RECORD", *says)
    # Left out on demand, also by a source that begins again.
    for offset in (2, 3, 4):
        source.leave_out(0, offset)
    source.restore(json.loads(json.dumps(source.save())))
    assert polled(source).batch.num_rows == 0
    refused(lambda: polled(source), "BAD_RECORD", "offset 5 does not fit: it has more, which is no column")
    lenient = cluster.source(topic, follow=False, start={0: 5}, ignore=True)
    assert [row["n"] for row in all_of(lenient)] == [3]


def test_records_that_are_gone_are_refused(cluster: Cluster) -> None:
    topic = cluster.topic(1)
    cluster.send(topic, 0, *({"n": n} for n in range(10)))
    source = cluster.source(topic)
    began = polled(source)
    until(lambda: bool(source.poll(0)) or source._reader is not None)
    first, second = polled(source, 4), polled(source, 4)
    assert (first.position, second.position) == ([0, 0, 4, 4], [0, 4, 8, 4])
    cluster.remove_before(topic, 0, 6)
    for done, code in (((), "FEED_EXPIRED"), ((first,), "FEED_EXPIRED"), ((first, second), "")):
        again = cluster.source(topic)
        again.reread(began.position)
        again.offsets = {0: done[-1].position[2] if done else 0}
        rest = [first, second][len(done) :]
        if code:
            refused(lambda a=again, r=rest: a.reread(r[0].position), code, "offsets", "of partition 0")  # type: ignore[misc]
        else:
            assert [row["n"] for row in polled(again).batch.to_pylist()] == [8, 9]
    # What was not read yet, by one that goes on reading.
    late = cluster.source(topic)
    late.reread(began.position)
    refused(lambda: polled(late), "FEED_EXPIRED", "offsets 0 to 5 of partition 0")
    # Records that are read again are not fewer than before.
    more = cluster.source(topic)
    more.reread(began.position)
    more.offsets = {0: 6}
    refused(lambda: more.reread([0, 4, 8, 4]), "FEED_EXPIRED", "4 records from offset 4 to 7", "cannot be read again")


def test_the_ends_of_transactions_may_go(cluster: Cluster) -> None:
    """A topic of which everything was read, and nothing is left: its first offset is behind the end of the last transaction."""
    topic = cluster.topic(1)
    cluster.transaction(topic, 0, [{"n": 1}], commit=True)
    source = cluster.source(topic)
    polled(source)
    assert polled(source).position == [0, 0, 1, 1]
    until(lambda: source.poll(1) is None and source.offsets == {0: 2})
    cluster.remove_before(topic, 0, 2)
    again = cluster.source(topic)
    again.restore(source.save())
    cluster.send(topic, 0, {"n": 2})
    assert polled(again).position == [0, 2, 3, 1]


def test_a_topic_that_was_made_again_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempura.region.kafka.topic.LOOK", 0.2)
    topic = cluster.topic(1)
    cluster.send(topic, 0, {"n": 1})
    source = cluster.source(topic)
    polled(source)
    assert polled(source).batch.num_rows == 1
    saved = source.save()
    cluster.remove(topic)
    cluster.topic(1, topic)
    cluster.send(topic, 0, {"n": 2}, {"n": 3})
    again = cluster.source(topic)
    again.restore(saved)
    refused(lambda: polled(again), "FEED_REPLACED", "its id is")
    refused(lambda: [polled(source) for _ in range(3)], "FEED_REPLACED", "its id is")
    refused(lambda: polled(cluster.source("nowhere")), "UNKNOWN_TOPIC", "has no topic nowhere")
    compacted = cluster.topic(1, cleanup_policy="compact")
    refused(
        lambda: [polled(cluster.source(compacted)) for _ in range(2)] and all_of(cluster.source(compacted)), "NO_KEYS"
    )


# --- the sink ---------------------------------------------------------------------------------------------------------


def changes(*rows: tuple[int, int, str]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    return pa.record_batch({"p": list(columns[0]), "n": list(columns[1]), "_change": list(columns[2])})


def give(sink: KafkaSink, number: int, *rows: tuple[int, int, str]) -> None:
    sink.write(changes(*rows))
    sink.prepare(str(number))
    sink.commit(str(number))


class Forgetful(Transactions):
    """A wrong sink, which does not look which number was committed."""

    def __init__(self, address: Address, name: str) -> None:
        super().__init__(address, name)
        self.committed = 0


@pytest.mark.parametrize("forgets", [False, True])
def test_a_snapshot_is_written_once(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """Whoever goes on writes the same snapshot again when it does not know that it was written: the file is there still."""
    if forgets:
        monkeypatch.setattr("tempura.region.kafka.sink.Transactions", Forgetful)
    topic = cluster.topic(1)
    for number in (1, 2):
        give(cluster.sink(tmp_path, topic), number, (0, number, "insert"))
    for number in (2, 3):
        give(cluster.sink(tmp_path, topic), number, (0, number, "insert"))
    assert ([value["n"] for value in cluster.values(topic)] == [1, 2, 3]) == (not forgets)


def test_another_job_has_numbers_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic(1)
    for name in ("a", "b"):
        give(cluster.sink(tmp_path, topic, name=name), 1, (0, 1, "insert"))
    assert len(cluster.values(topic)) == 2


def test_who_takes_over_shuts_out_the_one_before(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic(1)
    address = Address("The sink", cluster.servers, topic)
    before = Transactions(address, "tempura-job")
    before.begin()
    before.send(None, b'{"n":0}', b"0")
    before._producer.flush(10)  # it lies in the topic, and was not committed
    give(cluster.sink(tmp_path, topic), 1, (0, 1, "insert"))
    with pytest.raises(KafkaException) as error:
        before.commit(2)
    assert error.value.args[0].name() in ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "_STATE")
    assert [value["n"] for value in cluster.values(topic)] == [1]
    again = cluster.sink(tmp_path, topic)
    give(again, 1, (0, 1, "insert"))
    give(again, 2, (0, 2, "insert"))
    assert [value["n"] for value in cluster.values(topic)] == [1, 2]


def test_changes_of_a_row_lie_in_one_partition_in_their_order(cluster: Cluster, tmp_path: Path) -> None:
    keyed, plain = cluster.topic(4), cluster.topic(4)
    rows = [(p, n, change) for change in ("insert", "delete", "insert") for n in range(25) for p in range(3)]
    give(cluster.sink(tmp_path, keyed, ["p"]), 1, *rows)
    give(cluster.sink(tmp_path, plain, name="other"), 1, *rows)
    for topic, by in ((keyed, ("p",)), (plain, ("p", "n"))):
        found = cluster.records(topic)
        assert sum(map(len, found.values())) == len(rows)
        assert sum(bool(part) for part in found.values()) > 1
        seen: dict[tuple[int, ...], int] = {}
        for partition, part in found.items():
            for key, value in part:
                assert key == (str(value["p"]).encode() if topic == keyed else None)
                assert seen.setdefault(tuple(value[name] for name in by), partition) == partition
            assert [tuple(v.values()) for _, v in part] == [
                row for row in rows if row in {tuple(v.values()) for _, v in part}
            ]


def test_what_the_broker_has_forgotten_is_not_guessed(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic(1)
    give(cluster.sink(tmp_path, topic), 5, (0, 5, "insert"))
    group = "tempura-job"
    cluster.admin.delete_consumer_groups([group])[group].result(20)  # as when its offsets expire
    error = refused(
        lambda: give(cluster.sink(tmp_path, topic), 5, (0, 5, "insert")), "TOPIC_NOT_WRITTEN", "snapshot 5", group
    )
    assert str(tmp_path / ".job.begun") in error.remedy
    give(cluster.sink(tmp_path, cluster.topic(1), name="new"), 1, (0, 1, "insert"))
    (tmp_path / ".job-0000000005.prepared").unlink()  # somebody has looked
    give(cluster.sink(tmp_path, topic), 6, (0, 6, "insert"))
    assert [value["n"] for value in cluster.values(topic)] == [5, 6]


def test_what_cannot_be_written_is_said_and_written_when_it_can(cluster: Cluster, tmp_path: Path) -> None:
    sink = cluster.sink(tmp_path, "not-yet")
    refused(lambda: give(sink, 1, (0, 1, "insert")), "UNKNOWN_TOPIC", "The sink", "has no topic not-yet", "Make it")
    cluster.topic(1, "not-yet", max_message_bytes="2000")
    sink.commit("1")
    sink.write(pa.record_batch({"s": ["x" * 5000, "y"]}))
    sink.prepare("2")
    for _ in range(2):
        with pytest.raises(TempuraError, match=r"TOPIC_NOT_WRITTEN.*MSG_SIZE_TOO_LARGE.*max.message.bytes"):
            sink.commit("2")
    assert len(cluster.values("not-yet")) == 1
    sink._key = ("z",)
    refused(lambda: sink.commit("2"), "WRONG_SCHEMA", "is to be z, which is no column")


# --- a broker that is away --------------------------------------------------------------------------------------------


def test_a_broker_that_is_away_is_an_error_after_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempura.region.kafka.topic.PATIENCE", 0.5)
    monkeypatch.setattr("tempura.region.kafka.clients.ANSWER", 0.3)
    (tmp_path / "password").write_text("hunter2-is-secret\n")
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": f"file:{tmp_path}/password",
    }
    source = Topic(Address("The source", "127.0.0.1:1", "t", settings), COLUMNS)
    begin = time.monotonic()
    assert source.poll(10) is None
    assert time.monotonic() - begin < 0.2, "it does not wait"
    error = refused(lambda: polled(source), "BROKER_UNREACHABLE", "127.0.0.1:1: Connection refused")
    refused(lambda: source.reread([0, 0, 1, 1]), "BROKER_UNREACHABLE")
    sink = KafkaSink(tmp_path, "job", Address("The sink", "127.0.0.1:1", "t", settings))
    other = refused(lambda: give(sink, 1, (0, 1, "insert")), "BROKER_UNREACHABLE", "The sink")
    assert "hunter2" not in f"{error} {error!r} {other} {source.__dict__} {sink.__dict__} {source.save()}"
    (tmp_path / "password").unlink()
    source = Topic(Address("The source", "127.0.0.1:1", "t", settings), COLUMNS)
    refused(lambda: polled(source), "NO_SECRET", "which holds sasl.password")


def test_a_broker_that_does_not_let_in_is_said_at_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "hunter2-is-secret")
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    settings["sasl.password"] = "env:SECRET_OF_TEST"
    monkeypatch.setattr("tempura.region.kafka.topic.PATIENCE", 3.0)
    monkeypatch.setattr("tempura.region.kafka.clients.ANSWER", 2.0)
    source = Topic(Address("The source", cluster.servers, "t", settings), COLUMNS)
    error = refused(lambda: polled(source), "BROKER_REFUSED")
    assert "hunter2" not in str(error)
    odd = Topic(Address("The source", cluster.servers, "t", {"ssl.fancy": "yes"}), COLUMNS)
    refused(lambda: polled(odd), "BROKER_REFUSED", "ssl.fancy")


def test_a_region_waits_for_a_broker_that_is_away_and_goes_on_when_it_is_asked(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers are in this process, so that their patience can be made short."""
    for name, seconds in (
        ("topic.PATIENCE", 1.0),
        ("topic.LOOK", 0.2),
        ("clients.ANSWER", 0.5),
        ("sink.DELIVERY", 1.0),
    ):
        monkeypatch.setattr(f"tempura.region.kafka.{name}", seconds)
    monkeypatch.setattr("tempura.region.kafka.sink.ANSWER", 0.5)
    given, taken = cluster.topic(1), cluster.topic(1)
    nodes = (
        Node("source", lambda _: cluster.source(given), place="driver"),
        Node("sink", lambda _: cluster.sink(tmp_path, taken), place="driver"),
    )
    with RegionJob(Graph(nodes, (Link("source", "sink"),)), Processes(), tmp_path / "job", every=0.3) as job:

        def until_asked(condition: Callable[[], bool]) -> None:
            """A broker that is there, and slow on a busy machine, may have been given up as well."""

            def asked() -> bool:
                for worker in job.status()["failures"]:
                    job.ask([worker], "retry")
                return condition()

            until(asked)

        cluster.send(given, 0, {"p": 0, "n": 0})
        until_asked(lambda: len(cluster.values(taken)) == 1)
        job.pause("user", ["sink/0"])
        cluster.send(given, 0, {"p": 0, "n": 1})
        until_asked(lambda: job.status()["workers"]["source/0"]["processed"] == 2)
        with cluster.stopped():
            job.resume("user", ["sink/0"])
            begin = time.monotonic()
            job.pause("user", ["source/0"])
            job.resume("user", ["source/0"])
            assert time.monotonic() - begin < 1.0, "it answers while it waits for the broker"
            until(lambda: {"source/0", "sink/0"} <= job.status()["failures"].keys())
            failures = job.status()["failures"]
        for worker in ("source/0", "sink/0"):
            assert "BROKER_UNREACHABLE" in failures[worker]["trace"], failures[worker]["trace"]
            job.ask([worker], "retry")
        cluster.send(given, 0, {"p": 0, "n": 2})
        until_asked(lambda: [value["n"] for value in cluster.values(taken)] == [0, 1, 2])


# --- regions in random turns ------------------------------------------------------------------------------------------


def copied_in_turns(cluster: Cluster, folder: Path, seed: int, source: type[Topic] = Topic) -> bool:
    """Copy a topic by a region in one thread, whose workers die before and after writes of logs and snapshots, until it has ended; whether
    the copy has each record once and in order."""
    given, taken = cluster.topic(2), cluster.topic(2)
    for begin in range(0, 60, 20):
        for p in (0, 1):
            cluster.transaction(given, p, [{"p": p, "n": n} for n in range(begin, begin + 20)], commit=True)
    nodes = (
        Node("source", lambda _: source(Address("The source", cluster.servers, given), COLUMNS, follow=False)),
        Node("sink", lambda _: cluster.sink(folder / str(seed), taken, ["p"], name=taken)),
    )
    graph = Graph(nodes, (Link("source", "sink"),))
    often = (0.004, 0.05)[seed % 2]  # with few snapshots the last one, at the end, has rows
    region = Simulation(
        graph, seed, Settings(credit=16, slice=4), deaths=0.08, most_deaths=6, snapshots=often, endings=0.01
    )
    end = time.monotonic() + 60
    for _ in range(2):
        while not region.coordinator.is_done:
            if not region.turn():
                time.sleep(
                    0.005
                )  # for the broker to answer, or there were many turns, and deaths, in which nothing happens
            assert time.monotonic() < end
            if region.coordinator.failures:
                return False
        region._kill("sink/0")  # it has ended, and nobody has heard of it
    assert region.deaths > 2
    found = [value for part in cluster.records(taken).values() for _, value in part]
    return all([v["n"] for v in found if v["p"] == p] == list(range(60)) for p in (0, 1))


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(n, marks=pytest.mark.full) for n in range(3, 30))])
def test_a_region_that_dies_at_random_copies_each_record_once(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    assert copied_in_turns(cluster, tmp_path, seed)


@pytest.mark.parametrize("wrong", ["source", "sink"])
def test_wrong_ends_of_a_region_are_refuted(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    if wrong == "sink":
        monkeypatch.setattr("tempura.region.kafka.sink.Transactions", Forgetful)
    for seed in range(12):
        if not copied_in_turns(cluster, tmp_path, seed, Anew if wrong == "source" else Topic):
            return
    raise AssertionError("it was not refuted")


# --- regions, with workers and jobs that are killed -------------------------------------------------------------------


def copied(servers: str, given: str, taken: str, folder: Path) -> Graph:
    """A region that copies a topic into another."""
    source, sink = Address("The source", servers, given), Address("The sink", servers, taken)
    nodes = (
        Node("source", lambda _: Topic(source, COLUMNS)),
        Node("sink", lambda n: KafkaSink(folder / "sink", f"copy-{taken}-{n}", sink, ["p"])),
    )
    return Graph(nodes, (Link("source", "sink"),))


def lost(job: RegionJob, worker: str) -> None:
    with suppress(KeyError, ProcessLookupError):  # it is being started again
        os.kill(job.pid(worker), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "turns"), [(1, 8), *(pytest.param(n, 40, marks=pytest.mark.full) for n in range(2, 8))]
)
def test_a_topic_is_copied_once_and_in_order_though_workers_and_jobs_are_killed(
    cluster: Cluster, tmp_path: Path, seed: int, turns: int
) -> None:
    dice = Random(seed)
    given, taken = cluster.topic(2), cluster.topic(3)
    sent = [0, 0]
    graph = copied(cluster.servers, given, taken, tmp_path)

    def write(rows: int) -> None:
        for partition in (0, 1):
            values = [{"p": partition, "n": sent[partition] + n} for n in range(rows)]
            if dice.random() < 0.3:
                cluster.transaction(given, partition, [{"p": partition, "n": -1}], commit=False)
                cluster.transaction(given, partition, values, commit=True)
            else:
                cluster.send(given, partition, *values)
            sent[partition] += rows

    def seen() -> dict[int, list[int]]:
        values = cluster.values(taken)
        return {p: [v["n"] for v in values if v["p"] == p] for p in (0, 1)}

    while turns:
        with RegionJob(graph, Processes(), tmp_path / "job", every=0.2) as job:
            for _ in range(min(turns, dice.randint(2, 5))):
                turns -= 1
                write(dice.randint(1, 300))
                time.sleep(dice.random() * 0.8)
                lost(job, dice.choice(["source/0", "sink/0"]))
            time.sleep(dice.random())
    with RegionJob(graph, Processes(), tmp_path / "job", every=0.2):
        until(lambda: sum(map(len, seen().values())) >= sum(sent))
        time.sleep(0.5)
    assert seen() == {p: list(range(sent[p])) for p in (0, 1)}


JOINED = """
every = 0.3

[join]
on = ["orders.id = payments.order_id"]

[join.inputs.orders]
columns = {id = "bigint", region = "string"}

[join.inputs.payments]
columns = {order_id = "bigint", amount = "decimal(10,2)"}

[sources.orders]
servers = "SERVERS"
topic = "orders"
columns = {id = "bigint", region = "string"}

[sources.payments]
servers = "SERVERS"
topic = "payments"
columns = {order_id = "bigint", amount = "decimal(10,2)"}

[sink]
servers = "SERVERS"
topic = "joined"
key = ["id"]
"""


@pytest.mark.slow
def test_two_topics_are_joined_into_a_third_though_the_job_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("orders", "payments", "joined"):
        cluster.topic(2, name)
    file = tmp_path / "joined.toml"
    file.write_text(JOINED.replace("SERVERS", cluster.servers))
    dice = Random(2)
    expected: Counter[tuple[Any, ...]] = Counter()

    def write(begin: int) -> None:
        for id in range(begin, begin + 20):
            cluster.producer.produce("orders", json.dumps({"id": id, "region": f"r{id % 3}"}), partition=id % 2)
            for amount in range(dice.randint(0, 2)):
                row = {"order_id": id, "amount": f"{amount}.50"}
                cluster.producer.produce("payments", json.dumps(row), partition=id % 2)
                if dice.random() < 0.3:
                    cluster.producer.produce("payments", json.dumps(row | {"_change": "delete"}), partition=id % 2)
                else:
                    expected[id, f"r{id % 3}", id, f"{amount}.50"] += 1
        cluster.producer.flush(20)

    command = [
        sys.executable,
        "-c",
        "from tempura.cli.main import main; main()",
        "stream",
        "run",
        str(file),
        "--workers",
        "processes",
    ]
    for turn in range(3):
        with subprocess.Popen(command, start_new_session=True) as process:
            before = len(cluster.values("joined"))
            write(turn * 40)
            until(lambda n=before: len(cluster.values("joined")) > n)  # type: ignore[misc]
            write(turn * 40 + 20)
            if turn < 2:
                time.sleep(dice.random() * 0.6)
            else:
                until(lambda: net(cluster.values("joined")) == expected)
                time.sleep(0.5)
            os.killpg(process.pid, signal.SIGKILL)
    assert net(cluster.values("joined")) == expected
    assert all(value["_change"] in ("insert", "delete") for value in cluster.values("joined"))
    # A second region reads what the first has written.
    found: list[pa.RecordBatch] = []
    columns = {"id": "bigint", "region": "string", "order_id": "bigint", "amount": "decimal(10,2)"}
    again = {
        "again": tp.streams.topic(cluster.servers, "joined", columns, follow=False),
        "ids": tp.streams.given(lambda: [pa.record_batch({"key": list(range(120))})], pa.schema([("key", pa.int64())])),
    }
    spec = {
        "inputs": {"again": {"columns": columns}, "ids": {"columns": {"key": "bigint"}}},
        "on": ["again.id = ids.key"],
    }
    with tp.streams.join(spec, again, tp.streams.callback(found.append)) as job:
        assert job.wait(30)
    assert net([row for batch in found for row in batch.to_pylist()]) == Counter(
        {(*row, row[0]): n for row, n in expected.items()}
    )


def net(changes: Sequence[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The rows that changes add up to, decimals as texts."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        values = [f"{value:.2f}" if name == "amount" else value for name, value in change.items() if name != "_change"]
        rows[tuple(values)] += 1 if change["_change"] == "insert" else -1
    return Counter({row: n for row, n in rows.items() if n})
