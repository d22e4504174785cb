"""``tempura stream``: what a file says, what is refused, a run in processes and its status."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tempura.cli.main import main
from tempura.errors import TempuraError
from tempura.streams.continuous import join
from tempura.streams.file import memory_of, read

FILE = """
memory = "64 MB"
every = 0.5

[join]
on = ["orders.id = payments.order_id"]

[join.inputs.orders]
columns = {id = "bigint", region = "string"}
window = "2 hours"

[join.inputs.payments]
columns = {order_id = "bigint", amount = "bigint"}

[sources.orders]
folder = "orders"
follow = false

[sources.payments]
folder = "payments"
follow = false

[sink]
SINK
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tables = {"orders": {"id": [1, 2], "region": ["n", "s"]}, "payments": {"order_id": [1, 1], "amount": [5, 6]}}
    for name, columns in tables.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "1.parquet")
    path = tmp_path / "paid.toml"
    path.write_text(FILE.replace("SINK", "print = true"))
    return path


def test_a_file_is_run_and_says_how_it_is(file: Path) -> None:
    runner = CliRunner()
    before = runner.invoke(main, ["stream", "status", str(file)])
    assert before.exit_code == 1
    assert "[NO_STREAM] There is no job in" in before.stderr
    done = runner.invoke(main, ["stream", "run", str(file), "--workers", "processes"])
    assert done.exit_code == 0, done.output
    assert sorted(done.stdout.splitlines()) == ["+ 1, n, 1, 5", "+ 1, n, 1, 6"]
    told = runner.invoke(main, ["stream", "status", str(file)])
    assert told.exit_code == 0
    assert told.stdout.startswith("paid has ended; snapshot ")
    assert "join/0" in told.stdout
    found = json.loads(runner.invoke(main, ["stream", "status", str(file), "--json"]).stdout)
    assert found["workers"]["join/0"]["processed"] == 4


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[join]", "tables = 1\n[join]", "it has tables"),
        ("[join]\n", 'sql = "SELECT 1"\n[join]\n', "it lacks sql or"),
        ('folder = "orders"', 'queue = "orders"', r"\[sources.orders\] has queue, follow"),
        ("print = true", "print = false", r"\[sink\] has print"),
        ('"64 MB"', '"64 XB"', "memory is '64 XB'"),
        ("every = 0.5", "every = ", "cannot be read"),
        ("every = 0.5", "every = 'x'", "every is 'x', not seconds"),
        ("every = 0.5", "every = [1]", "every is \\[1\\]"),
        ("every = 0.5", "every = true", "every is True"),
        ("every = 0.5", "every = 0", "every is 0"),
        ("every = 0.5", "every = -1", "every is -1"),
        ("every = 0.5", "every = nan", "every is nan"),
        ("every = 0.5", "every = 1\nfolder = 5", "folder is 5"),
        ('"64 MB"', "[1]", "memory is \\[1\\]"),
        ("follow = false", 'follow = "no"', r"\[sources.orders\] has folder, follow"),
        ('folder = "orders"\nfollow = false', "rate = true", r"\[sources.orders\] has rate"),
        ('folder = "orders"\nfollow = false', 'rate = 5\ncount = "x"', r"\[sources.orders\] has rate, count"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(file: Path, old: str, new: str, says: str) -> None:
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(TempuraError, match=rf"BAD_TOML.*{says}"):
        read(file)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('sources = "x"', "sources is 'x', not a table"),
        ("sources = [1]", "sources is"),
        ("sources = {orders = 1}", r"\[sources.orders\] has 1"),
        ('sink = "x"', "sink is 'x', not a table"),
        ("sink = [1]", "sink is"),
        ('join = "x"', "join is 'x', not a table"),
        ("sql = 5", "sql is 5, not a text"),
    ],
)
def test_sections_are_tables(file: Path, more: str, says: str) -> None:
    key = more.partition(" ")[0]
    rest = {
        "join": "join = {on = [], inputs = {}}",
        "sources": "sources = {a = {rate = 1}}",
        "sink": "sink = {print = true}",
    }
    rest.pop("join" if key == "sql" else key)
    file.write_text("\n".join([more, *rest.values()]))
    with pytest.raises(TempuraError, match=f"BAD_TOML.*{says}"):
        read(file)


INPUTS = '{a = {columns = {id = "bigint"}}, b = {columns = {id = "bigint"}}}'


@pytest.mark.parametrize(
    ("on", "inputs", "says"),
    [
        ('"a.id = b.id"', INPUTS, "on is 'a.id = b.id', and no list"),
        ("3", INPUTS, "on is 3"),
        ("[1]", INPUTS, "the condition 1 cannot be read"),
        ('["a.id = b.id"]', "3", "inputs is 3, and no table"),
        ('["a.id = b.id"]', "{a = 3, b = 4}", "input a is 3; it has columns"),
        ('["a.id = b.id"]', '{a = {columns = "id bigint"}}', "columns of input a are 'id bigint'"),
        ('["a.id = b.id"]', "{a = {columns = {id = 1}}}", "columns of input a are {'id': 1}"),
        ('["a.id = b.id"]', INPUTS.replace("}}, b", "}, window = 5}, b"), "the window of a is 5"),
    ],
)
def test_a_specification_of_wrong_kinds_is_refused(file: Path, on: str, inputs: str, says: str) -> None:
    file.write_text(f"join = {{on = {on}, inputs = {inputs}}}\nsources = {{a = {{rate = 1}}}}\nsink = {{print = true}}")
    found = CliRunner().invoke(main, ["stream", "run", str(file), "--workers", "processes"])
    assert f"[BAD_STREAM_JOIN] {says}" in found.stderr


@pytest.mark.parametrize(
    ("rate", "says"), [("-5", "a rate of -5"), ("0", "a rate of 0"), ("nan", "nan"), ("5\ncount = -1", "a count of -1")]
)
def test_a_rate_is_a_number_above_0(file: Path, rate: str, says: str) -> None:
    file.write_text(file.read_text().replace('folder = "orders"\nfollow = false', f"rate = {rate}"))
    with pytest.raises(TempuraError, match=f"BAD_OPTION.*{says}"):
        read(file)


def test_a_window_that_a_specification_does_not_have_is_refused(file: Path) -> None:
    runner = CliRunner()
    text = file.read_text()
    file.write_text(text.replace("follow = false", 'follow = false\nwindow = "5 rows"', 1))
    found = runner.invoke(main, ["stream", "run", str(file), "--workers", "processes"])
    assert "[BAD_STREAM_JOIN] the window of orders is 5 rows of its source, and LastTime" in found.stderr
    file.write_text(text.replace("follow = false", 'follow = false\nwindow = "120 minutes"', 1))
    assert runner.invoke(main, ["stream", "run", str(file), "--workers", "processes"]).exit_code == 0


def test_snapshots_are_some_time_apart(file: Path) -> None:
    described = read(file)
    with pytest.raises(TempuraError, match=r"BAD_NUMBER.*0 seconds apart"):
        join(described.query, described.sources, described.target(lambda: None, print), every=0)


def test_paths_are_relative_to_the_file(file: Path) -> None:
    file.write_text(file.read_text().replace("print = true", 'parquet = "out"'))
    described = read(file)
    assert described.sink == ("parquet", str(file.parent / "out"))
    assert described.folder == file.parent / "paid.job"
    assert described.memory == 64 << 20
    assert memory_of("4096") == 4096


def test_a_folder_without_files_is_refused(file: Path) -> None:
    (file.parent / "orders" / "1.parquet").unlink()
    with pytest.raises(TempuraError, match=r"FOLDER_MISSING.*There is no Parquet file in"):
        read(file)


TOPIC = 'servers = "127.0.0.1:1"\ntopic = "orders"\ncolumns = {id = "bigint", region = "string"}'


def with_topic(file: Path, more: str = "", sink: str = "print = true") -> Path:
    """The file with a topic in place of the folder of orders."""
    text = file.read_text().replace('folder = "orders"\nfollow = false', f"{TOPIC}\n{more}")
    file.write_text(text.replace("print = true", sink))
    return file


def test_topics_are_sources_and_sinks(file: Path, tmp_path: Path) -> None:
    connection = 'connection = {"sasl.username" = "me", "sasl.password" = "env:NOT_SET"}'
    more = f'start = {{"0" = 17}}\nfollow = false\nnew_columns = "ignore"\n{connection}\nwindow = "2 hours"'
    sink = f'servers = "a:1,b:2"\ntopic = "joined"\nkey = ["id"]\n{connection}'
    described = read(with_topic(file, more, sink))
    orders = described.sources["orders"]
    assert orders.columns == [("id", "bigint"), ("region", "string")]
    assert (orders.window, orders.place) == ("2 hours", "worker")
    assert orders.make(0).save() == {"id": None, "offsets": [], "ends": None, "left_out": []}
    target = described.target(lambda: None, print)
    made = target.make(tmp_path)(0)
    assert (target.place, type(made).__name__) == ("worker", "KafkaSink")
    assert "NOT_SET" not in (tmp_path / "job.json").read_text()


@pytest.mark.parametrize(
    ("more", "sink", "says"),
    [
        ('group = "g"', "print = true", r"BAD_TOML.*\[sources.orders\] has servers, topic, columns, group"),
        (
            "follow = 1",
            "print = true",
            r"BAD_TOML.*servers, topic and columns = {NAME = TYPE} \(and connection, follow",
        ),
        ('connection = "x"', "print = true", "BAD_TOML"),
        ('start = "first"', "print = true", "BAD_OPTION.*Source orders has start = 'first'"),
        ('start = {"0" = -1}', "print = true", "BAD_OPTION.*start"),
        ('new_columns = "add"', "print = true", "BAD_OPTION.*Source orders has new_columns = 'add'"),
        ('connection = {"group.id" = "g"}', "print = true", "BAD_OPTION.*'group.id' is not a setting"),
        ('connection = {"sasl.password" = "hunter2"}', "print = true", "BAD_OPTION.*holds a secret"),
        ('connection = {"ssl.key.pem" = "hunter2"}', "print = true", "BAD_OPTION.*holds a secret"),
        (
            'connection = {"sasl.jaas.config" = "env:X"}',
            "print = true",
            "BAD_OPTION.*Say sasl.username and sasl.password",
        ),
        ('connection = {"ssl.truststore.location" = "/x"}', "print = true", "BAD_OPTION.*Say ssl.ca.location"),
        ("", 'servers = "a:1"', r"BAD_TOML.*\[sink\] has servers"),
        ("", 'servers = "a:1"\ntopic = "t"\nkey = "id"', r"BAD_TOML.*and key = \["),
        ("", 'servers = "a:1"\ntopic = "t"\ncolumns = {}', "BAD_TOML"),
        ("", 'servers = "a"\ntopic = "t"', "BAD_SOURCE.*Sink t: 'a' is not the address"),
        ("", 'servers = "a:1"\ntopic = "a b"', "BAD_SOURCE.*'a b' is not the name of a topic"),
    ],
)
def test_what_is_no_topic_is_refused_and_no_secret_is_shown(file: Path, more: str, sink: str, says: str) -> None:
    with pytest.raises(TempuraError, match=says) as error:
        read(with_topic(file, more, sink)).target(lambda: None, print)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ('{id = "map<int,int>"}', "BAD_STREAM_JOIN.*type map"),
        ("{id = 1}", "BAD_TOML"),
        ('"id BIGINT"', "BAD_TOML"),
    ],
)
def test_columns_of_a_topic_have_types_that_travel(file: Path, columns: str, says: str) -> None:
    path = with_topic(file)
    path.write_text(path.read_text().replace(TOPIC, TOPIC.partition("columns")[0] + f"columns = {columns}"))
    with pytest.raises(TempuraError, match=says):
        read(path)


def test_topics_need_a_package(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempura.region.kafka.clients.find_spec", lambda name: None)
    with pytest.raises(TempuraError, match=r"NO_PACKAGE.*needs the package confluent-kafka.*tempura\[streams\]"):
        read(with_topic(file))
