"""A program for a process of its own: topics of a real Kafka broker as tables of a warehouse, in a session with the connector.

Prints DONE at the end. Arguments: a folder, the packages, and the parts; or, to be killed in a commit, the address of a broker that runs.
"""

import contextlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.avro.functions import to_avro

import tempura as tp
from tempura.cli.main import main as cli
from tempura.errors import TempuraError
from tempura.frontend.start import many_small_jobs, start_session
from tempura.region.kafka.clients import Address
from tempura.region.kafka.sink import KafkaSink
from tempura.region.kafka.topic import Topic
from tempura.streams.types import spark_type
from tempura.warehouse.commits.files import Files
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.table import Table
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.spark.broker import broker

SCHEMA = "id INT, name STRING, n BIGINT"
SECRET = "hunter2-is-not-to-be-seen"

Json = Mapping[str, object]


def session(packages: str) -> SparkSession:
    settings = many_small_jobs() | {"spark.jars.packages": packages, "spark.sql.shuffle.partitions": "1"}
    return start_session("kafka", cores=2, config=settings)


def jars(spark: SparkSession) -> list[str]:
    """What Ivy has found for the session."""
    listed = str(spark.sparkContext.getConf().get("spark.jars", ""))
    return ["/" + jar.removeprefix("file:").lstrip("/") for jar in listed.split(",") if jar]


class Cluster:
    """What a program that fills topics does, with Java's clients."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self.spark, self.servers = spark, servers
        jvm: Any = spark._jvm
        self.jvm = jvm
        self.admin = self.jvm.org.apache.kafka.clients.admin.AdminClient.create(self._settings())
        self.producer = self._producer()

    def _settings(self, **more: str) -> Any:
        found = self.jvm.java.util.HashMap()
        for name, value in {"bootstrap.servers": self.servers, **more}.items():
            found.put(name.replace("_", "."), value)
        return found

    def _producer(self, **more: str) -> Any:
        kind = "org.apache.kafka.common.serialization.ByteArraySerializer"
        settings = self._settings(key_serializer=kind, value_serializer=kind, linger_ms="0", **more)
        return self.jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)

    def _list(self, *values: object) -> Any:
        found = self.jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    def _done(self, future: Any) -> None:
        future.get(20, self.jvm.java.util.concurrent.TimeUnit.SECONDS)

    def topic(self, name: str, partitions: int = 2, **config: str) -> str:
        new = self.jvm.org.apache.kafka.clients.admin.NewTopic(name, partitions, 1)
        settings = self.jvm.java.util.HashMap()
        for key, value in config.items():
            settings.put(key.replace("_", "."), value)
        self._done(self.admin.createTopics(self._list(new.configs(settings))).all())
        return name

    def remove(self, name: str) -> None:
        self._done(self.admin.deleteTopics(self._list(name)).all())
        while name in self.admin.listTopics().names().get():
            time.sleep(0.05)

    def widen(self, name: str, partitions: int) -> None:
        wanted = self.jvm.java.util.HashMap()
        wanted.put(name, self.jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions))
        self._done(self.admin.createPartitions(wanted).all())

    def delete_before(self, name: str, partition: int, offset: int) -> None:
        wanted = self.jvm.java.util.HashMap()
        wanted.put(self.jvm.org.apache.kafka.common.TopicPartition(name, partition), self._before(offset))
        self._done(self.admin.deleteRecords(wanted).all())

    def _before(self, offset: int) -> Any:
        """RecordsToDelete.beforeOffset(offset): the gateway does not find it beside a method of an object with this name."""
        machine = self.jvm.java.lang
        loader = machine.Thread.currentThread().getContextClassLoader()
        kind = loader.loadClass("org.apache.kafka.clients.admin.RecordsToDelete")
        gateway: Any = self.spark.sparkContext._gateway
        types, values = gateway.new_array(machine.Class, 1), gateway.new_array(machine.Object, 1)
        types[0], values[0] = machine.Long.TYPE, offset
        return kind.getMethod("beforeOffset", types).invoke(None, values)

    def send(self, topic: str, partition: int, *values: Json | bytes | str | None, key: str | None = None) -> None:
        self._sent(self.producer, topic, partition, values, key)
        self.producer.flush()

    def _sent(self, producer: Any, topic: str, partition: int, values: Any, key: str | None) -> None:
        kind = self.jvm.org.apache.kafka.clients.producer.ProducerRecord
        for value in values:
            text = json.dumps(value) if isinstance(value, dict) else value
            data = text.encode() if isinstance(text, str) else text
            producer.send(kind(topic, partition, key.encode() if key is not None else None, data))

    def transaction(self, topic: str, partition: int, *values: Json, commit: bool) -> None:
        producer = self._producer(transactional_id=f"t{commit}")
        producer.initTransactions()
        producer.beginTransaction()
        self._sent(producer, topic, partition, values, None)
        producer.flush()
        (producer.commitTransaction if commit else producer.abortTransaction)()
        producer.close()


def row(id: int, name: str | None = None, n: int | None = None, **more: object) -> dict[str, object]:
    return {"id": id, "name": name, "n": n, **more}


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(found) for found in table.df().collect())


def refused(call: Callable[[], object]) -> TempuraError:
    try:
        call()
    except TempuraError as error:
        return error
    raise AssertionError("not refused")


def adder(wh: Warehouse, cluster: Cluster) -> Callable[..., Table]:
    def add(name: str, topic: str, **options: Any) -> Table:
        declared = {"schema": SCHEMA} | options
        return wh.add_table(name, format="kafka", servers=cluster.servers, topic=topic, **declared)

    return add


# --- what is checked --------------------------------------------------------------------------------------------------


def appended(wh: Warehouse, cluster: Cluster) -> None:
    """Inserts, deletes told by ``_change``, partitions that are added, records of transactions; the topic is not needed for versions."""
    topic = cluster.topic("plain")
    add = adder(wh, cluster)
    table = add("plain", topic)
    query = wh.add_query("of_plain", "SELECT name, count(*) AS c, sum(n) AS s FROM plain GROUP BY name")
    cluster.send(topic, 0, row(1, "a", 1), row(2, "b", 2))
    cluster.send(topic, 1, row(3, "a", 3))
    query.run(methods="im1")
    cluster.send(topic, 1, row(1, "a", 1, _change="delete"), row(4, "c", 4))
    cluster.widen(topic, 3)
    cluster.send(topic, 2, row(5, "c", 5))
    cluster.transaction(topic, 2, row(6, "d", 6), commit=False)
    cluster.transaction(topic, 2, row(7, "e", 7), commit=True)
    query.run(methods="im1")
    assert rows(table) == [(2, "b", 2), (3, "a", 3), (4, "c", 4), (5, "c", 5), (7, "e", 7)]
    assert sorted(map(tuple, query.result().collect())) == [("a", 1, 3), ("b", 1, 2), ("c", 2, 9), ("e", 1, 7)]
    assert query.verify()
    assert [entry["inserted"] for entry in table.history()] == [3, 3]
    assert table.status()["version"] == 2, "a look at nothing new is no arrival"
    cluster.send(topic, 0, row(9, "z", 9, _change="delete"))
    assert refused(table.df).code == "DELETE_OF_MISSING"
    assert add("late", topic, start="latest").df().count() == 0


def updated(wh: Warehouse, cluster: Cluster) -> None:
    """Random changes by key against a dictionary, and a view over them against its recomputation."""
    topic, dice = cluster.topic("keyed"), random.Random(3)
    table = adder(wh, cluster)("keyed", topic, keys=["id"])
    query = wh.add_query("of_keyed", "SELECT name, count(*) AS c, sum(n) AS s FROM keyed GROUP BY name")
    model: dict[int, tuple[object, ...]] = {}
    for turn in range(3):
        for _ in range(16):
            id, kind = dice.randrange(8), dice.choice(["put", "put", "update", "tombstone", "delete"])
            name, n = dice.choice("abc"), dice.randrange(100)
            if kind in ("put", "update"):
                cluster.send(topic, id % 2, row(id, name, n, **({"_change": "update"} if kind == "update" else {})))
                model[id] = (id, name, n)
            else:
                cluster.send(topic, id % 2, None if kind == "tombstone" else row(id, _change="delete"), key=str(id))
                model.pop(id, None)
        query.run(methods="im1")
        assert rows(table) == sorted(model.values()), turn
        assert query.verify(), turn
    assert table.status()["version"] == 3
    set_off, left_out = table.arrivals.deletions(3)
    assert (set_off, left_out > 0) == (0, True), "it is noted where the rows lie that are there no more"


def badly_spelt(wh: Warehouse, cluster: Cluster, folder: Path) -> None:
    """Records that do not fit refuse a run, naming the first; or they are set aside, once, wherever the process is killed."""
    topic = cluster.topic("bad")
    bad = [
        '{"id":"x"}',
        '{"id":1} {"id":2}',
        '[{"id":1}]',
        "",
        "null",
        b'{"id":\xff}',
        '{"id":1,"other":2}',
        '{"id":',
        None,
    ]
    bad += ['{"id":1,"_change":"update"}', '{"id":3000000000}']
    cluster.send(topic, 0, row(1, "a", 1))
    add = adder(wh, cluster)
    strict = add("strict", topic)
    assert rows(strict) == [(1, "a", 1)]
    cluster.send(topic, 1, row(2, "b", 2), *bad, row(3, "c", 3))
    error = refused(strict.df)
    assert error.code == "BAD_RECORD", error
    said = "topic bad, partition 1, offset 1 does not fit: column id has the value 'x', but the table expects int"
    assert said in str(error), error
    assert f"{len(bad) - 1} more" in str(error), error
    assert strict.status()["version"] == 1
    options: dict[str, Any] = {"format": "kafka", "servers": cluster.servers, "topic": topic, "schema": SCHEMA}

    def lenient(files: Files, place: Path) -> Table:
        opened = open_site(place, SparkEngine(lambda: cluster.spark), files)
        return opened.add_table("lenient", on_bad_record="quarantine", **options)

    def whole(place: Path) -> None:
        table = lenient(Files(), place)
        assert rows(table) == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
        found = sorted(table.set_aside().collect(), key=lambda r: r["offset"])
        assert [(r["partition"], r["offset"]) for r in found] == [(1, i + 1) for i in range(len(bad))]
        assert [r["value"] for r in found] == [v.encode() if isinstance(v, str) else v for v in bad]
        assert all(r["why"] for r in found)
        assert table.status()["set_aside"] == len(bad)
        opened = tp.open(place, spark=cluster.spark)
        opened.gc()
        assert opened.gc() == ()
        assert len([*(place / "tables" / "lenient" / "aside").iterdir()]) == 1
        assert table.set_aside().count() == len(bad)

    place = folder / "killed" / "wh"
    lenient(Files(), place)
    copies: list[Path] = []

    def copy(operation: str, path: Path) -> None:
        copies.append(place.parent / str(len(copies)))
        shutil.copytree(place, copies[-1], symlinks=True)

    lenient(Files(copy), place).df()
    whole(place)
    shown = CliRunner().invoke(cli, ["-C", str(place), "table", "set-aside", "lenient", "--limit", "2", "--json"])
    assert shown.exit_code == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert (found["set_aside"], [r["offset"] for r in found["records"]]) == (len(bad), [1, 2])
    registering = copies[len(copies) // 3 :: 8]
    assert len(registering) > 2, len(copies)
    for killed in registering:
        whole(killed)


def other_formats(wh: Warehouse, cluster: Cluster) -> None:
    add = adder(wh, cluster)
    topic = cluster.topic("keys", 1)
    table = add("keys", topic, keys=["id", "name"], key_format="json", on_bad_record="quarantine")
    cluster.send(topic, 0, row(1, "a", 1), row(1, "b", 2), row(1), row(2, "b", 3))
    cluster.send(topic, 0, None, key='{"name":"a","id":1}')
    cluster.send(topic, 0, None, key='{"name":"b"}')
    cluster.send(topic, 0, None)
    assert rows(table) == [(1, "b", 2), (2, "b", 3)]
    said = [r["why"] for r in table.set_aside().orderBy("offset").collect()]
    assert said[0] == "column name, of the key, is NULL", said
    assert said[1].startswith("it has no value, and its key says '{"), said
    assert said[2].startswith("it has no value, and its key says nothing, not id, name"), said
    topic = cluster.topic("csv", 1)
    cluster.send(topic, 0, '1;"a;b";10', "2;b;", "2;b;;delete", "3;c;x", "4;d", "5;e;5;insert;6")
    table = add("csv", topic, value_format="csv", options={"sep": ";"}, on_bad_record="quarantine")
    assert rows(table) == [(1, "a;b", 10)], rows(table)
    assert {r["offset"] for r in table.set_aside().collect()} == {3, 4, 5}
    topic = cluster.topic("avro", 1)
    table = add("avro", topic, value_format="avro", keys=["id"], on_bad_record="quarantine")
    schema = tp.open(wh.path, spark=cluster.spark).table("avro").status()["kafka"]["avro_schema"]
    made = cluster.spark.createDataFrame([(1, "a", 10), (2, None, None), (1, "z", 11)], SCHEMA).coalesce(1)
    values = [bytes(r[0]) for r in made.select(to_avro(fn.struct("id", "name", "n"), schema)).collect()]
    cluster.send(topic, 0, *values, b"", values[0] + b"\0", b"\0\0\0\0\1" + values[0], values[0][:-1])
    assert rows(table) == [(1, "z", 11), (2, None, None)]
    assert [r["offset"] for r in table.set_aside().orderBy("offset").collect()] == [3, 4, 5, 6]
    record = (
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "_change", "type": "string"},
    )
    given = json.dumps({"type": "record", "name": "r", "fields": record})
    from_schema = add("avro2", topic, value_format="avro", schema=None, avro_schema=given)
    assert from_schema.schema.simpleString() == "struct<id:int,name:string>"
    for wrong, code in (({"schema": "id STRING"}, "BAD_SCHEMA"), ({"avro_schema": "[]", "schema": None}, "BAD_SCHEMA")):
        error = refused(lambda w=wrong: add("avro3", topic, value_format="avro", **({"avro_schema": given} | w)))  # type: ignore[misc]
        assert error.code == code, error


def sources_that_changed(wh: Warehouse, cluster: Cluster) -> None:
    add = adder(wh, cluster)
    topic = cluster.topic("gone", 1)
    table = add("gone", topic)
    query = wh.add_query("of_gone", "SELECT count(*) AS c FROM gone")
    cluster.send(topic, 0, row(1), row(2))
    query.run()
    cluster.send(topic, 0, *map(row, range(3, 8)))
    cluster.delete_before(topic, 0, 2)
    assert len(rows(table)) == 7
    cluster.send(topic, 0, *map(row, range(8, 12)))
    cluster.delete_before(topic, 0, 9)
    error = refused(table.df)
    assert error.code == "FEED_EXPIRED", error
    assert "offsets 7 to 8 of partition 0 of topic gone" in str(error), error
    assert query.verify(), "what has arrived is the warehouse's own"
    assert table.reset() == 4
    assert [r[0] for r in rows(table)] == [10, 11]
    cluster.remove(topic)
    error = refused(table.df)
    assert error.code == "UNKNOWN_TOPIC", error
    cluster.topic(topic, 1)
    cluster.send(topic, 0, *map(row, range(30)))
    error = refused(table.df)
    assert error.code == "FEED_REPLACED", error
    compacted = cluster.topic("compacted", 1, cleanup_policy="compact")
    assert refused(add("compacted", compacted).df).code == "NO_KEYS"
    start = time.monotonic()
    nowhere = wh.add_table("nowhere", format="kafka", servers="127.0.0.1:1", topic="t", schema=SCHEMA)
    assert refused(nowhere.df).code == "BROKER_UNREACHABLE"
    assert time.monotonic() - start < 10
    for name in ("gone", "compacted", "nowhere", "plain", "strict"):
        with contextlib.suppress(TempuraError):
            wh.remove_table(name)


def secrets(wh: Warehouse, cluster: Cluster) -> None:
    """A setting that is secret is used, and shown nowhere."""
    os.environ["TEMPURA_TEST_JAAS"] = f'org.x.No required password="{SECRET}"'
    topic = cluster.topic("secret", 1)
    cluster.send(topic, 0, row(1))
    plain = {"ssl.key.password": "env:TEMPURA_TEST_JAAS"}
    assert len(rows(adder(wh, cluster)("secret", topic, connection=plain))) == 1
    sasl = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "env:TEMPURA_TEST_JAAS",
    }
    error = refused(adder(wh, cluster)("denied", topic, connection=sasl).df)
    assert error.code == "BROKER_REFUSED", error
    assert SECRET not in f"{error}{error.__cause__}"
    texts = [f.read_bytes() for f in wh.path.rglob("*") if f.is_file() and f.suffix in (".json", ".toml")]
    assert not any(SECRET.encode() in text for text in texts)
    assert SECRET not in json.dumps(wh.status())


OF_ALL_TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("single", pa.float32()),
        ("wide", pa.float64()),
        ("price", pa.decimal128(38, 8)),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("_change", pa.string()),
    ]
)


def streamed(wh: Warehouse, cluster: Cluster, folder: Path) -> None:
    """What the sink of a region writes is a table, and its source reads it: values of all types, and changes."""
    moment = datetime(2024, 2, 29, 23, 59, 59, 999999)
    values = (
        True,
        -128,
        0.1,
        1e-300,
        Decimal("123456789012345678901234567890.12345678"),
        'ä"\u2028\\',
        b"\0\xff",
        moment.date(),
    )
    some = (1, *values, moment.replace(tzinfo=UTC), moment, "insert")
    odd = (
        2,
        False,
        127,
        math.inf,
        -0.0,
        Decimal(0),
        "",
        b"",
        date(1, 1, 1),
        datetime(9999, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1),
        "insert",
    )
    none = (3, *[None] * 10, "insert")
    changes = [some, odd, none, some, (*some[:-1], "delete")]
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(OF_ALL_TYPES.names, row, strict=True)) for row in changes], OF_ALL_TYPES
    )
    topic = cluster.topic("streamed", 3)
    sink = KafkaSink(folder / "sink", "job", Address("The sink", cluster.servers, topic))
    sink.write(batch)
    sink.prepare("1")
    sink.commit("1")
    schema = ", ".join(f"{f.name} {spark_type(f.type)}" for f in OF_ALL_TYPES if f.name != "_change")
    table = adder(wh, cluster)("streamed", topic, schema=schema, options={"timeZone": "UTC"})
    kept = table.df().toArrow().sort_by("id")
    expected = pa.Table.from_batches([batch.slice(0, 3)]).drop_columns("_change")
    assert kept.cast(expected.schema).to_pylist() == expected.to_pylist()
    source, read = (
        Topic(Address("The source", cluster.servers, topic), OF_ALL_TYPES, follow=False),
        list[dict[str, Any]](),
    )
    with contextlib.suppress(StopIteration):
        while True:
            found = source.poll(100)
            read += found.batch.to_pylist() if found else []
    assert sorted(map(str, read)) == sorted(map(str, batch.to_pylist()))


# --- killed -----------------------------------------------------------------------------------------------------------


def dying(folder: Path, packages: str, servers: str) -> None:
    """Look at a topic, and be killed before the arrival is committed."""
    spark = session(packages)

    def before(operation: str, path: Path) -> None:
        if operation == "link" and path.parent.name == "arrivals" and path.name == "2.json":
            print("DYING", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    wh = open_site(folder, SparkEngine(lambda: spark), Files(before))
    table = wh.add_table("t", format="kafka", servers=servers, topic="dying", schema=SCHEMA, keys=["id"])
    table.df()
    Cluster(spark, servers).send("dying", 0, row(1, "b"), row(3, "c"))
    table.df()


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - start:.1f} s", flush=True)


def killed(folder: Path, packages: str, cluster: Cluster) -> None:
    """A process that is killed in a commit: another goes on, and each record counts once."""
    topic = cluster.topic("dying", 1)
    cluster.send(topic, 0, row(1, "a"), row(2, "a"))
    command = [sys.executable, __file__, str(folder), packages, cluster.servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    table = tp.open(folder, spark=cluster.spark).table("t")
    assert table.status()["version"] == 1
    assert rows(table) == [(1, "b", None), (2, "a", None), (3, "c", None)]
    assert table.status()["version"] == 2


PARTS: Mapping[str, Callable[[Warehouse, Cluster, Path, str], None]] = {
    "appended": lambda wh, cluster, folder, packages: appended(wh, cluster),
    "updated": lambda wh, cluster, folder, packages: updated(wh, cluster),
    "bad": lambda wh, cluster, folder, packages: badly_spelt(wh, cluster, folder),
    "formats": lambda wh, cluster, folder, packages: other_formats(wh, cluster),
    "changed": lambda wh, cluster, folder, packages: sources_that_changed(wh, cluster),
    "secrets": lambda wh, cluster, folder, packages: secrets(wh, cluster),
    "streamed": lambda wh, cluster, folder, packages: streamed(wh, cluster, folder),
    "killed": lambda wh, cluster, folder, packages: killed(folder / "dying", packages, cluster),
}


def main(folder: Path, packages: str, parts: str) -> None:
    with timed("session"):
        spark = session(packages)
    with broker(folder / "broker", jars(spark)) as running:
        cluster, wh = Cluster(spark, running.servers), tp.open(folder / "wh", spark=spark)
        for part in parts.split(","):
            with timed(part):
                PARTS[part](wh, cluster, folder, packages)
    spark.stop()
    print("DONE", flush=True)


if __name__ == "__main__":
    (dying if sys.argv[3].startswith("127.") else main)(Path(sys.argv[1]), *sys.argv[2:])
