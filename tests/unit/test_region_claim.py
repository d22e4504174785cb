"""A region's folder: one process at a time has it, and no other region goes on from what it holds."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tempura as tp
from tempura.errors import TempuraError
from tempura.region.carriers import Processes
from tempura.region.claim import check_same, described, is_taken
from tempura.region.job import RegionJob
from tempura.region.operators import Batch
from tempura.streams.continuous import job_id
from tests.unit.region_programs import Count, Graph, Kept, Link, Node, UpTo


class Renamed(Count):
    """Another state than before."""

    state = ("counted",)
    counted = 0

    def process(self, batch: Batch, port: int) -> Iterator[Batch]:
        yield batch


def graph(workers: int = 1, operator: type[Count] = Count, port: int = 0) -> Graph:
    nodes = (
        Node("source", lambda _: UpTo(1000), place="driver"),
        Node("count", lambda _: operator(), workers=workers, place="driver"),
        Node("sink", lambda _: Kept([]), place="driver"),
    )
    return Graph(nodes, (Link("source", "count", port=port, by=("n",)), Link("count", "sink")))


def test_two_programs_do_not_run_the_job_of_one_folder(tmp_path: Path) -> None:
    first, second = (RegionJob(graph(), Processes(), tmp_path) for _ in range(2))
    with first:
        assert is_taken(tmp_path)
        with pytest.raises(TempuraError, match=r"RUN_IN_PROGRESS.*runs already, in process \d+"):
            second.start()
        assert first.wait(30)
    assert not is_taken(tmp_path)
    with second:  # made before the first one ended, and goes on after it
        assert second.wait(30)
        assert second._times == 2


HOLDS = """
import sys, time
from pathlib import Path
from tempura.region.claim import Claim
Claim(Path(sys.argv[1])).take()
print("taken", flush=True)
time.sleep(100)
"""


def test_the_folder_of_a_program_that_was_killed_is_free(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        with pytest.raises(TempuraError, match=f"RUN_IN_PROGRESS.*in process {other.pid}"):
            RegionJob(graph(), Processes(), tmp_path).start()
        other.kill()
    assert not is_taken(tmp_path)
    with RegionJob(graph(), Processes(), tmp_path) as job:
        assert job.wait(30)


def test_a_region_that_is_refused_leaves_the_folder_free(tmp_path: Path) -> None:
    nodes = (Node("source", lambda _: UpTo(1)), Node("sink", lambda _: Kept([]), place="driver"))
    with pytest.raises(TempuraError, match="NO_SLOTS"):
        RegionJob(Graph(nodes, (Link("source", "sink"),)), Processes(slots=0), tmp_path).start()
    assert not is_taken(tmp_path)
    assert not is_taken(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("other", "more", "differs"),
    [
        (graph(workers=2), {}, "operators"),
        (graph(operator=Renamed), {}, "operators"),
        (graph(port=1), {}, "links"),
        (graph(), {"join": "b"}, "join"),
    ],
)
def test_another_region_does_not_go_on_from_what_is_stored(
    tmp_path: Path, other: Graph, more: Mapping[str, Any], differs: str
) -> None:
    of: dict[str, Any] = {"join": "a"}
    check_same(tmp_path, described(other, {**of, **more}))  # nothing was done: it may still be another
    with RegionJob(graph(), Processes(), tmp_path, of=of) as job:
        assert job.wait(30)
    with pytest.raises(TempuraError, match=f"JOB_CHANGED.*is another one: what differs is {differs}"):
        RegionJob(other, Processes(), tmp_path, of={**of, **more}).start()
    with RegionJob(graph(), Processes(), tmp_path, of=of) as job:
        assert job.wait(30)


def test_a_folder_of_before_that_was_noted_is_gone_on_with(tmp_path: Path) -> None:
    with RegionJob(graph(), Processes(), tmp_path) as job:
        assert job.wait(30)
    (tmp_path / "of.json").write_text("")
    with RegionJob(graph(), Processes(), tmp_path) as job:
        assert job.wait(30)
    assert json.loads((tmp_path / "of.json").read_text())["links"]


@pytest.mark.parametrize("left", ["", "{", "[]", "{}", "\udcff"])
@pytest.mark.parametrize("name", ["complete", "begun"])
def test_a_note_of_which_a_part_is_left_is_told(tmp_path: Path, name: str, left: str) -> None:
    with RegionJob(graph(), Processes(), tmp_path) as job:
        assert job.wait(30)
    path = tmp_path / f"{name}.json"
    path.write_bytes(left.encode(errors="surrogateescape"))
    with pytest.raises(TempuraError, match=f"REGION_FAILED.*{name}.json, where a job notes how far it is, was cut"):
        RegionJob(graph(), Processes(), tmp_path).start()
    assert not is_taken(tmp_path)
    path.unlink()
    (tmp_path / "of.json").write_text("7")
    with RegionJob(graph(), Processes(), tmp_path) as job:
        assert job.wait(30)


@pytest.mark.parametrize("left", ["", '{"id"', "[]"])
def test_rows_are_not_handed_over_by_an_id_that_is_lost(tmp_path: Path, left: str) -> None:
    (tmp_path / "job.json").write_text(left)
    with pytest.raises(TempuraError, match=r"REGION_FAILED.*job.json"):
        job_id(tmp_path)


def test_several_workers_that_cannot_begin_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "complete.json").write_text('{"snapshot": 3}')  # of which nothing is left
    died: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    job = RegionJob(graph(), Processes(), tmp_path)
    with job, pytest.raises(TempuraError, match=r"REGION_FAILED.*cannot begin"):
        job.wait(30)
    assert not died


SPEC: dict[str, Any] = {
    "inputs": {
        "orders": {"columns": {"id": "bigint"}, "window": "1000 rows"},
        "payments": {"columns": {"order_id": "bigint", "amount": "bigint"}},
    },
    "on": ["orders.id = payments.order_id"],
}


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Any]:
    for name, columns in {"orders": {"id": [1, 2]}, "payments": {"order_id": [1, 2], "amount": [5, 6]}}.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "1.parquet")
    return {name: tp.streams.folder(tmp_path / name, follow=False) for name in ("orders", "payments")}


def test_a_join_with_another_condition_or_window_does_not_go_on_from_the_rows_of_this_one(
    tmp_path: Path, sources: dict[str, Any]
) -> None:
    def start(spec: Mapping[str, Any], memory: int | None = None) -> None:
        sink = tp.streams.parquet(tmp_path / "out")
        with tp.streams.join(spec, sources, sink, memory, folder=tmp_path / "job") as job:
            assert job.wait(60)

    start(SPEC)
    start(SPEC, memory=1000)
    inputs = {"orders": {"columns": {"id": "bigint"}}, "payments": SPEC["inputs"]["payments"]}
    for other in ({**SPEC, "on": [*SPEC["on"], "payments.amount > 5"]}, {**SPEC, "inputs": inputs}):
        with pytest.raises(TempuraError, match=r"JOB_CHANGED.*what differs is join"):
            start(other)
    assert sum(pq.read_table(path).num_rows for path in (tmp_path / "out").glob("*.parquet")) == 2


def test_programs_that_begin_at_once_have_one_id(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(job_id(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]
