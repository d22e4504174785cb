"""Sources read again what they have read, sinks let be seen each row once; links that split and copy."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tempura.errors import TempuraError
from tempura.region.alignment import Alignment
from tempura.region.channels import partition
from tempura.region.graph import Graph, Link, Node
from tempura.region.messages import Marker
from tempura.region.operators import Source
from tempura.region.simulation import Simulation
from tempura.region.sinks import Callback, Epochs, ParquetFolder, Pushed
from tempura.region.sources import Folder, Given, Rate
from tests.unit.region_programs import NUMBERS, Kept, UpTo


def numbers(values: Iterable[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(list(values), pa.int64())], schema=NUMBERS)


def read(source: Source, rows: Callable[[], int], looks: int = 40) -> tuple[list[Any], list[Any]]:
    """What a source gives, and the positions."""
    found, positions = [], []
    for _ in range(looks):
        try:
            one = source.poll(rows())
        except StopIteration:
            break
        if one is not None:
            found.append(one.batch.to_pylist())
            positions.append(one.position)
    return found, positions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for n, count in enumerate((5, 0, 9, 1)):
        pq.write_table(
            pa.table({"n": pa.array(range(count), pa.int64()), "more": [n] * count}), tmp_path / f"{n}.parquet"
        )
    (tmp_path / ".hidden.parquet").write_bytes(b"nothing")
    return tmp_path


@pytest.mark.parametrize("seed", range(10))
def test_a_folder_is_read_again_by_its_positions_from_any_state(folder: Path, seed: int) -> None:
    rng = Random(seed)

    def make() -> Folder:
        return Folder(str(folder), NUMBERS, follow=False)

    found, positions = read(make(), lambda: rng.randint(1, 6))
    assert [row["n"] for rows in found for row in rows] == [*range(5), *range(9), 0]
    cut = rng.randint(0, len(positions))
    first = make()
    for position in positions[:cut]:
        first.reread(position)
    again = make()
    again.restore(first.save())
    assert [again.reread(position).to_pylist() for position in positions[cut:]] == found[cut:]
    with pytest.raises(StopIteration):
        again.poll(10)


def test_a_folder_is_followed_from_where_it_was_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempura.region.sources.LOOK", 0.0)
    source = Folder(str(folder), NUMBERS)
    assert sum(map(len, read(source, lambda: 100)[0])) == 15
    assert source.poll(100) is None
    pq.write_table(pa.table({"n": [7], "more": [0]}), folder / "new.parquet")
    one = source.poll(100)
    assert one is not None
    assert one.batch.to_pylist() == [{"n": 7}]


def test_a_folder_that_is_not_there_and_a_file_that_does_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TempuraError, match=r"FOLDER_MISSING.*no folder"):
        Folder(str(tmp_path / "x"), NUMBERS).open()
    pq.write_table(pa.table({"other": [1]}), tmp_path / "1.parquet")
    with pytest.raises(TempuraError, match=r"WRONG_SCHEMA.*1.parquet does not have the columns n"):
        Folder(str(tmp_path), NUMBERS).poll(1)


def test_a_rate_gives_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    source = Rate(10, count=25)
    assert [r["n"] for r in read(source, lambda: 100, 2)[0][0]] == [0]
    clock[0] = 101.0
    one = source.poll(100)
    assert one is not None
    assert one.batch.column(0).to_pylist() == list(range(1, 11))
    assert one.batch.column(1).to_pylist()[-1] == 101.0
    again = Rate(10, count=25)
    assert again.reread(one.position) == one.batch
    clock[0] = 200.0
    assert [row["n"] for rows in read(source, lambda: 9)[0] for row in rows] == list(range(11, 25))


def test_given_batches_are_kept_until_a_snapshot_is_complete() -> None:
    source = Given(lambda: iter([numbers([1]), numbers([2]), numbers([3])]))
    assert [rows[0]["n"] for rows in read(source, lambda: 1)[0]] == [1, 2, 3]
    assert source.reread(0).column(0).to_pylist() == [1]
    source.completed({"next": 2})
    assert source.reread(2).column(0).to_pylist() == [3]
    with pytest.raises(KeyError):
        source.reread(1)


def test_files_appear_with_their_snapshot_and_once(tmp_path: Path) -> None:
    def seen() -> list[int]:
        return sorted(n for p in tmp_path.glob("*.parquet") for n in pq.read_table(p).column(0).to_pylist())

    sink = ParquetFolder(tmp_path, "part-0")
    sink.write(numbers([1, 2]))
    sink.prepare("1")
    assert seen() == []
    sink.commit("1")
    sink.commit("1")
    assert seen() == [1, 2]
    sink.write(numbers([3]))
    sink.prepare("2")  # and it dies here: it begins again after snapshot 1
    again = ParquetFolder(tmp_path, "part-0")
    again.commit("1")
    assert seen() == [1, 2]
    again.write(numbers([3]))
    again.prepare("2")
    again.prepare("3")
    again.commit("3")
    assert seen() == [1, 2, 3]


def test_what_is_pushed_twice_has_the_same_id(tmp_path: Path) -> None:
    pushed: list[tuple[str, list[int]]] = []

    def push(rows: pa.Table, id: str) -> None:
        pushed.append((id, rows.column(0).to_pylist()))
        if len(pushed) == 1:
            raise OSError("the warehouse is busy")

    sink: Epochs = Pushed(tmp_path, "job", push)
    sink.write(numbers([4]))
    sink.prepare("7")
    with pytest.raises(OSError, match="busy"):
        sink.commit("7")
    sink.commit("7")
    sink.commit("7")
    assert pushed == [("job-0000000007", [4])] * 2


def test_rows_are_split_by_value_the_same_way_everywhere_and_copied_by_broadcast() -> None:
    batch = pa.record_batch({"a": [1, None, 1, 2], "b": ["x", "y", "x", "x"]})
    places = partition(batch, ["a", "b"], 4)
    assert places[0] == places[2]
    assert places == [1, 1, 1, 3]  # by checksums of their text: no seed of the process is in it
    for link, most in ((Link("source", "sink", by=("n",)), 1), (Link("source", "sink", broadcast=True), 3)):
        kept: list[int] = []
        nodes = (Node("source", lambda _: UpTo(100)), Node("sink", lambda _: Kept(kept), workers=3))  # noqa: B023
        simulation = Simulation(Graph(nodes, (link,)), 1)
        simulation.run()
        assert sorted(kept) == sorted([*range(100)] * most)


def test_a_marker_is_aligned_by_port() -> None:
    alignment = Alignment({"a": 0, "b": 0, "c": 1})
    marker = Marker("m", frozenset("abc"), "port")
    assert not alignment.meet(marker, "a", set())
    assert alignment.blocked == {"a"}
    assert alignment.meet(marker, "b", set())
    assert alignment.blocked == set()
    assert not alignment.meet(marker, "c", set())
    other = Marker("n", frozenset("ac"))
    assert not alignment.meet(other, "a", set())
    assert alignment.waiting_for == {"n": ["c"]}
    assert alignment.after_end("c", {"c"}) == [other]


def test_a_callback_that_raises_gets_the_batch_again() -> None:
    taken: list[int] = []

    def take(batch: pa.RecordBatch) -> None:
        taken.append(batch.num_rows)
        if len(taken) == 2:
            raise OSError("not now")

    nodes = (Node("source", lambda _: UpTo(1000)), Node("sink", lambda _: Callback(take)))
    simulation = Simulation(Graph(nodes, (Link("source", "sink"),)), 1)
    simulation.run()
    assert simulation.why().startswith("sink/0 failed at ")
    simulation.coordinator.ask(["sink/0"], "retry")
    simulation.run()
    assert simulation.coordinator.is_done
    assert taken[1] == taken[2]
    assert sum(taken) - taken[1] == 1000
