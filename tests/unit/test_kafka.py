"""Topics of Kafka as tables: declarations, positions, secrets and refusals. No broker and no Spark is needed."""

import json
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import tempura as tp
from tempura.algebra.bag import SignedBag
from tempura.cli.main import main
from tempura.errors import TempuraError
from tempura.kafka import TopicOffsets, check_reachable
from tempura.warehouse.batches.offsets import Position
from tempura.warehouse.commits.files import Files
from tempura.warehouse.declared.kafka import KafkaSpec, checked, connection, refusal
from tempura.warehouse.sources.topic import advance
from tempura.warehouse.table import Table
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, BagEngine
from tests.unit.bag_topic import BagTopic
from tests.unit.dying import killed

SERVERS = "127.0.0.1:9092"
SPEC = KafkaSpec(SERVERS, "orders")
SCHEMA = "o_id INT, cat STRING, price INT"
SECRET = "correct horse battery"


def opened(folder: Path, engine: BagEngine, files: Files | None = None) -> Warehouse:
    return open_site(folder / "wh", engine, files or Files())


def add(wh: Warehouse, **more: Any) -> Table:
    declared: dict[str, Any] = {"schema": SCHEMA, "servers": SERVERS, "topic": "orders"} | more
    return wh.add_table("sales", format="kafka", **declared)


def of(o_id: int, price: int = 0, **more: object) -> dict[str, object]:
    return {"o_id": o_id, "cat": "c", "price": price, **more}


def ids(table: Table) -> list[Any]:
    found: Any = table.df()
    assert isinstance(found, SignedBag)
    return sorted(row[0] for row, n in found.items() for _ in range(n))


class World:
    """A warehouse, and a topic with two partitions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topic = BagTopic()
        self.engine = BagEngine(topics={"orders": self.topic})
        self.wh = opened(folder, self.engine)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class TestDeclarations:
    @pytest.mark.parametrize(
        ("given", "code"),
        [
            ({"servers": "localhost"}, "BAD_SOURCE"),
            ({"servers": "a:1,b"}, "BAD_SOURCE"),
            ({"servers": "a:0"}, "BAD_SOURCE"),
            ({"servers": "a:70000"}, "BAD_SOURCE"),
            ({"servers": "http://a:1"}, "BAD_SOURCE"),
            ({"servers": ""}, "BAD_SOURCE"),
            ({"topic": "a b"}, "BAD_SOURCE"),
            ({"topic": ".."}, "BAD_SOURCE"),
            ({"topic": ""}, "BAD_SOURCE"),
            ({"path": "/tmp"}, "BAD_SOURCE"),
            ({"value_format": "xml"}, "BAD_OPTION"),
            ({"key_format": "avro"}, "BAD_OPTION"),
            ({"on_bad_record": "skip"}, "BAD_OPTION"),
            ({"start": "first"}, "BAD_OPTION"),
            ({"start": {0: -1}}, "BAD_OPTION"),
            ({"start": {}}, "BAD_OPTION"),
            ({"static": True}, "BAD_OPTION"),
            ({"settle": 5}, "BAD_OPTION"),
            ({"avro_schema": "{}"}, "BAD_OPTION"),
            ({"options": {"multiLine": "true"}}, "BAD_OPTION"),
            ({"new_columns": "add"}, "BAD_OPTION"),
            ({"value_format": "csv", "new_columns": "ignore"}, "BAD_OPTION"),
            ({"keys": ["o_id", "cat"]}, "BAD_OPTION"),
            ({"connection": {"group.id": "g"}}, "BAD_OPTION"),
            ({"connection": {"sasl.jaas.config": SECRET}}, "BAD_OPTION"),
            ({"connection": {"ssl.keystore.password": "env:"}}, "BAD_OPTION"),
            ({"schema": None}, "BAD_SCHEMA"),
            ({"format": "json"}, "BAD_SOURCE"),
        ],
        ids=str,
    )
    def test_what_cannot_be_is_refused(self, world: World, given: Mapping[str, Any], code: str) -> None:
        declared = {"format": "kafka", "schema": SCHEMA, "servers": SERVERS, "topic": "orders", **given}
        with pytest.raises(TempuraError) as error:
            world.wh.add_table("sales", **declared)
        assert error.value.code == code
        assert SECRET not in str(error.value)
        assert "sales" not in (world.wh.path / "tempura.toml").read_text()

    def test_it_is_kept_as_it_was_declared(self, world: World) -> None:
        secret = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "env:JAAS"}
        more: dict[str, Any] = {"start": {0: 3}, "keys": ["o_id"], "on_bad_record": "quarantine", "connection": secret}
        for _ in range(2):
            add(world.wh, **more)
        spec = opened(world.folder, world.engine).table("sales").arrivals.spec
        wanted = KafkaSpec(SERVERS, "orders", start={"0": 3}, on_bad_record="quarantine", connection=secret)
        assert spec.kafka == wanted
        assert spec.options == {"timeZone": "UTC"}
        with pytest.raises(TempuraError, match="declared otherwise"):
            add(world.wh, **more | {"start": "latest"})

    @pytest.mark.parametrize(
        "toml",
        [
            'format = "kafka"',
            "kafka = {servers = 'a:1', topic = 't'}",
            'format = "kafka"\nkafka = {servers = "a:1"}',
            'format = "kafka"\nkafka = {servers = "a:1", topic = "t", group = "g"}',
        ],
    )
    def test_what_the_file_says_is_checked(self, world: World, toml: str) -> None:
        (world.wh.path / "tempura.toml").write_text(f'[tables.sales]\nschema = "id INT"\n{toml}\n')
        with pytest.raises(TempuraError) as error:
            world.wh.tables()
        assert error.value.code == "BAD_TOML"

    def test_addresses(self) -> None:
        spec = checked("t", KafkaSpec("a.b-c:1, [::1]:65535", "t"))
        assert spec.addresses == (("a.b-c", 1), ("::1", 65535))

    def test_rows_are_not_pushed(self, world: World) -> None:
        with pytest.raises(TempuraError, match="topic orders") as error:
            add(world.wh).append([(1, "a", 2)])  # type: ignore[arg-type]
        assert error.value.code == "NOT_MANAGED"


class TestSecrets:
    def test_references_are_looked_up_and_not_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "key").write_text(f"{SECRET} 2\n")
        monkeypatch.setenv("JAAS", SECRET)
        settings = {
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "env:JAAS",
            "ssl.key.password": f"file:{tmp_path}/key",
        }
        found = connection("t", KafkaSpec("a:1, b:2", "t", connection=settings))
        assert found.settings["sasl.jaas.config"] == SECRET
        assert found.settings["ssl.key.password"] == f"{SECRET} 2"
        assert found.settings["bootstrap.servers"] == "a:1,b:2"
        assert found.redacted(f"bad {SECRET} 2, {SECRET}: PLAIN") == "bad ***, ***: PLAIN"

    @pytest.mark.parametrize("reference", ["env:TEMPURA_NOT_SET", "file:/none/such"])
    def test_one_that_leads_nowhere(self, reference: str) -> None:
        with pytest.raises(TempuraError) as error:
            connection("t", KafkaSpec("a:1", "t", connection={"ssl.key.password": reference}))
        assert error.value.code == "NO_SECRET"
        assert reference.partition(":")[2] in str(error.value)


class TestPositions:
    """The law: whatever happens to a topic, spans follow on one another and hold each offset once, or the look is refused."""

    @given(st.dictionaries(st.integers(0, 20), st.integers(0, 1 << 62)), st.text(max_size=22))
    def test_a_position_is_its_text(self, offsets: dict[int, int], id: str) -> None:
        assert Position.parse(Position(id, offsets).text) == Position(id, offsets)

    @given(st.data())
    def test_each_record_arrives_once(self, data: st.DataObject) -> None:
        ends, arrived, position = {0: 0}, dict[int, list[int]](), ""
        for _ in range(data.draw(st.integers(1, 6))):
            partitions = data.draw(st.integers(len(ends), len(ends) + 1))
            ends = {p: ends.get(p, 0) + data.draw(st.integers(0, 3)) for p in range(partitions)}
            span = advance("t", SPEC, position, TopicOffsets("i", {p: (0, end) for p, end in ends.items()}))
            if span:
                for partition, (begin, end) in span.parts.items():
                    arrived.setdefault(partition, []).extend(range(begin, end))
                position = span.upto.text
        assert arrived == {p: list(range(end)) for p, end in ends.items() if end}

    @pytest.mark.parametrize(
        ("found", "code", "said"),
        [
            (TopicOffsets("i", {0: (6, 9), 1: (0, 7)}), "FEED_EXPIRED", "offsets 5 to 5 of partition 0"),
            (TopicOffsets("i", {0: (0, 4), 1: (0, 7)}), "FEED_REPLACED", "partition 0 ends at offset 4, before 5"),
            (TopicOffsets("i", {0: (0, 9)}), "FEED_REPLACED", "partition 1 is not there"),
            (TopicOffsets("j", {0: (0, 9), 1: (0, 9)}), "FEED_REPLACED", "its id is j, and was i"),
            (TopicOffsets("i", {0: (0, 5), 1: (0, 7), 2: (1, 3)}), "FEED_EXPIRED", "offsets 0 to 0 of partition 2"),
        ],
    )
    def test_what_is_gone_is_refused(self, found: TopicOffsets, code: str, said: str) -> None:
        with pytest.raises(TempuraError) as error:
            advance("t", SPEC, Position("i", {0: 5, 1: 7}).text, found)
        assert error.value.code == code
        assert said in str(error.value)

    def test_records_that_have_arrived_may_go(self) -> None:
        position = Position("i", {0: 5}).text
        assert advance("t", SPEC, position, TopicOffsets("i", {0: (5, 5)})) is None
        span = advance("t", SPEC, position, TopicOffsets("i", {0: (5, 6)}))
        assert span is not None
        assert span.parts == {0: (5, 6)}

    def test_where_it_starts(self) -> None:
        found = TopicOffsets("i", {0: (3, 9), 1: (0, 2)})

        def parts(start: str | Mapping[str, int]) -> dict[int, tuple[int, int]] | None:
            span = advance("t", KafkaSpec("a:1", "t", start=start), "", found)
            return span.parts if span else None

        assert parts("earliest") == {0: (3, 9), 1: (0, 2)}
        assert parts("latest") == {}, "an arrival without rows, which says where the end was"
        assert parts({"0": 8}) == {0: (8, 9), 1: (0, 2)}
        assert parts({"0": 9, "1": 2}) is None
        for start, code in (({"0": 2}, "FEED_EXPIRED"), ({"0": 10}, "BAD_OPTION"), ({"7": 0}, "BAD_OPTION")):
            with pytest.raises(TempuraError) as error:
                parts(start)
            assert error.value.code == code


class TestTables:
    def test_inserts_and_deletes(self, world: World) -> None:
        table = add(world.wh)
        assert ids(table) == []
        assert table.status()["version"] == 0
        world.topic.send(0, of(1), of(2))
        world.topic.send(1, of(3))
        assert ids(table) == [1, 2, 3]
        world.topic.send(1, of(2, _change="delete"), of(4))
        other = opened(world.folder, world.engine).table("sales")
        assert (ids(other), ids(table)) == ([1, 3, 4], [1, 3, 4])
        assert table.status()["version"] == 2
        position = table.arrivals.arrivals()[-1].position
        assert Position.parse(position) == Position("id-1", {0: 2, 1: 3})

    def test_a_key_has_its_last_row(self, world: World) -> None:
        table = add(world.wh, keys=["o_id"])
        world.topic.send(0, of(1, 1), of(1, 2), of(2, 1))
        assert ids(table) == [1, 2]
        world.topic.send(0, None, key="1")
        world.topic.send(0, None, of(5), of(2, 7), key="9")
        assert ids(table) == [2, 5]
        assert [(e["inserted"], e["deleted"]) for e in table.history()] == [(2, 0), (2, 2)]
        assert table.arrivals.deletions(2) == (0, 2), "where they lie is noted"

    def test_a_topic_without_news_is_no_arrival_and_is_told_apart(self, world: World) -> None:
        world.topic.send(0, of(1))
        world.wh.add_table("returns", schema="o_id INT, cost INT")
        add(world.wh)
        query = world.wh.add_query("q", COUNT)
        assert not query.run().nothing
        assert query.run().nothing
        world.topic.send(1, of(2))
        assert not query.run().nothing
        assert query.verify()

    def test_old_versions_need_no_broker(self, world: World) -> None:
        world.topic.send(0, of(1), of(2))
        table = add(world.wh)
        query = world.wh.add_query("q", COUNT)
        query.run()
        del world.engine.topics["orders"]
        assert query.verify()
        with pytest.raises(TempuraError) as error:
            ids(table)
        assert error.value.code == "UNKNOWN_TOPIC"

    def test_a_compacted_topic_needs_keys(self, world: World) -> None:
        world.topic.compacted = True
        with pytest.raises(TempuraError, match="is compacted") as error:
            ids(add(world.wh))
        assert error.value.code == "NO_KEYS"

    def test_the_columns_are_pinned(self, world: World) -> None:
        world.topic.send(0, of(1))
        assert ids(add(world.wh)) == [1]
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace("price INT", "price STRING"))
        with pytest.raises(TempuraError) as error:
            ids(opened(world.folder, world.engine).table("sales"))
        assert error.value.code == "SCHEMA_CHANGED"

    def test_a_topic_that_is_made_anew_while_it_is_read(self, world: World) -> None:
        table, topic = add(world.wh), world.topic
        topic.send(0, of(1))
        looks = topic.looks

        def offsets() -> TopicOffsets:
            topic.looks += 1
            return TopicOffsets("id-1" if topic.looks == looks + 1 else "id-2", {0: (0, 1), 1: (0, 0)})

        topic.offsets = offsets  # type: ignore[method-assign]
        with pytest.raises(TempuraError) as error:
            ids(table)
        assert error.value.code == "FEED_REPLACED"
        assert table.status()["version"] == 0


class TestBadRecords:
    def test_a_run_is_refused(self, world: World) -> None:
        table = add(world.wh)
        world.topic.send(1, of(1), '{"o_id": "x"}')
        with pytest.raises(TempuraError, match="partition 1, offset 1") as error:
            ids(table)
        assert error.value.code == "BAD_RECORD"
        assert table.status()["version"] == 0

    def test_they_are_set_aside_and_found_again(self, world: World) -> None:
        table = add(world.wh, on_bad_record="quarantine")
        world.topic.send(0, of(1), '{"o_id": "x"}', of(2))
        world.topic.send(1, "no JSON", None)
        assert ids(table) == [1, 2]
        world.topic.send(0, "again")
        assert ids(table) == [1, 2]
        assert [entry.get("set_aside") for entry in table.history()] == [3, 1]
        assert table.status()["set_aside"] == 4
        records: Any = table.set_aside()
        places = sorted((r["partition"], r["offset"], r["value"]) for r in records if r["value"])
        assert places == [(0, 1, b'{"o_id": "x"}'), (0, 3, b"again"), (1, 0, b"no JSON")]
        world.wh.gc()
        assert len(list(table.set_aside())) == 4  # type: ignore[call-overload]
        next((world.wh.path / "tables/sales/aside").rglob("*.parquet")).write_bytes(b"short")
        with pytest.raises(TempuraError) as error:
            table.set_aside()
        assert error.value.code == "ROWS_DAMAGED"
        assert ids(table) == [1, 2]

    def test_a_reset_sets_aside_anew(self, world: World) -> None:
        table = add(world.wh, on_bad_record="quarantine")
        world.topic.send(0, of(1), "bad")
        ids(table)
        table.reset()
        world.wh.gc()
        assert table.status()["set_aside"] == 1
        assert len([*(world.wh.path / "tables/sales/aside").iterdir()]) == 1

    def test_columns_that_the_table_has_not(self, world: World) -> None:
        world.topic.send(0, of(1, other=5))
        with pytest.raises(TempuraError):
            ids(add(world.wh))
        other = world.wh.add_table(
            "more", format="kafka", servers=SERVERS, topic="orders", schema=SCHEMA, new_columns="ignore"
        )
        assert ids(other) == [1]


def scenario(folder: Path, topic: Callable[[int], BagTopic], files: Files) -> None:
    """Records come, and are looked at; can be done again from wherever it was interrupted."""
    for turn in range(3):
        wh = opened(folder, BagEngine(topics={"orders": topic(turn)}), files)
        add(wh, keys=["o_id"], on_bad_record="quarantine").df()
    wh.gc()


def filled(turn: int) -> BagTopic:
    topic = BagTopic()
    for i in range(turn + 1):
        topic.send(0, of(i), of(10 + i), f"bad {i}")
        topic.send(1, of(20, i))
        topic.send(0, None, key=str(9 + i))
    return topic


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.full)])
def test_killed_at_file_operations(tmp_path: Path, every: int) -> None:
    """Each record counts once, and each bad one is set aside once, wherever the process is killed."""
    operations: list[str] = []
    scenario(tmp_path / "calm", filled, Files(lambda operation, path: operations.append(operation)))
    assert len(operations) > 60
    for n in range(1, len(operations) + 1, every):
        folder = tmp_path / str(n)
        assert killed(partial(scenario, folder, filled), n), n
        # Meanwhile the topic has all that will come.
        scenario(folder, lambda turn: filled(2), Files())
        wh = opened(folder, BagEngine(topics={"orders": filled(2)}))
        table = wh.table("sales")
        assert ids(table) == [0, 1, 2, 12, 20], n
        found: Any = table.set_aside()
        assert sorted(r["text"] for r in found) == ["bad 0", "bad 1", "bad 2"], n
        assert wh.gc() == (), n


class TestCommands:
    @pytest.fixture
    def tempura(self, world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
        monkeypatch.setattr(tp, "open", lambda folder, spark=None: opened(world.folder, world.engine))
        folder = str(world.wh.path)
        return lambda *arguments, input="": CliRunner().invoke(main, ["-C", folder, *arguments], input=input)

    def test_a_table_is_declared_and_listed(self, world: World, tempura: Callable[..., Result]) -> None:
        of_topic = ("--format", "kafka", "--servers", SERVERS, "--topic", "orders", "--schema", SCHEMA, "--key", "o_id")
        more = ("--start", "0=1,1=0", "--on-bad-record", "quarantine", "--connection", "sasl.jaas.config=env:JAAS")
        added = tempura("table", "add", "sales", *of_topic, *more)
        assert added.exit_code == 0, added.stderr
        spec = world.wh.table("sales").arrivals.spec
        settings = {"sasl.jaas.config": "env:JAAS"}
        start = {"0": 1, "1": 0}
        assert spec.kafka == KafkaSpec(SERVERS, "orders", start=start, on_bad_record="quarantine", connection=settings)
        assert spec.keys == ("o_id",)
        world.topic.send(0, of(1), of(2), "bad")
        assert ids(world.wh.table("sales")) == [2]
        found = json.loads(tempura("table", "list", "--json").stdout)["sales"]
        assert (found["set_aside"], found["rows"]) == (1, 1)
        assert "topic orders (kafka)" in tempura("table", "list").stdout

    @pytest.mark.parametrize("wrong", ["0=1,1", "0=x", "a=1"])
    def test_offsets_that_are_none(self, tempura: Callable[..., Result], wrong: str) -> None:
        assert tempura("table", "add", "sales", "--format", "kafka", "--start", wrong).exit_code == 2

    def test_rows_that_a_topic_may_have_forgotten_are_asked_for(
        self, world: World, tempura: Callable[..., Result]
    ) -> None:
        add(world.wh)
        world.topic.send(0, of(1), of(2))
        ids(world.wh.table("sales"))
        world.topic.first[0] = 1
        asked = tempura("table", "reset", "sales", input="n\n")
        assert "2 rows of sales may be kept nowhere else" in asked.stderr
        assert world.wh.table("sales").status()["rows"] == 2
        assert tempura("table", "reset", "sales", "--force").exit_code == 0
        assert ids(world.wh.table("sales")) == [2]


class TestRefusals:
    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            ("UnknownTopicOrPartitionException", "UNKNOWN_TOPIC"),
            ("TimeoutException", "BROKER_UNREACHABLE"),
            ("TopicAuthorizationException", "BROKER_REFUSED"),
            ("SaslAuthenticationException", "BROKER_REFUSED"),
            ("ConfigException", "BROKER_REFUSED"),
            ("IllegalArgumentException", "BROKER_REFUSED"),
            ("CorruptRecordException", "FEED_UNREADABLE"),
        ],
    )
    def test_what_a_client_says_has_a_code(self, kind: str, code: str) -> None:
        with pytest.raises(TempuraError) as error:
            raise refusal("t", SPEC, kind, "because")
        assert error.value.code == code
        assert "because" in str(error.value)

    def test_a_server_that_does_not_listen_is_told_at_once(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with pytest.raises(TempuraError, match=f"127.0.0.1:{port}: .*refused") as error:
                check_reachable("Table t", f"127.0.0.1:{port}")
        assert error.value.code == "BROKER_UNREACHABLE"


def test_the_ledger_says_which_records_have_arrived(world: World) -> None:
    world.topic.send(1, of(1))
    ids(add(world.wh))
    manifest = json.loads((world.wh.path / "tables/sales/arrivals/1.json").read_text())
    assert json.loads(manifest["position"]) == {"topic": "id-1", "offsets": {"0": 0, "1": 1}}
