"""``tempura stream``: what a file says, what is refused, a run in processes and its status."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tempura.cli.main import main
from tempura.errors import TempuraError
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
    ],
)
def test_a_file_that_makes_no_sense_is_refused(file: Path, old: str, new: str, says: str) -> None:
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(TempuraError, match=rf"BAD_TOML.*{says}"):
        read(file)


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
