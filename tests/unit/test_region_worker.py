"""One worker at a time: what a failing operator says, mini-steps, pause as a set of reasons, who waits for whom, what is refused."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tempura.errors import TempuraError
from tempura.region.graph import Graph, Link, Node
from tempura.region.log import FolderStore, MemoryStore, Store, entries_in, lines_of, recorded
from tempura.region.operators import Batch, Operator, Read, RowOperator, Sink, Source
from tempura.region.settings import Settings
from tempura.region.simulation import Simulation

NUMBERS = pa.schema([("n", pa.int64())])


def numbers(values: Iterable[int]) -> Batch:
    return pa.record_batch([pa.array(list(values), pa.int64())], schema=NUMBERS)


class UpTo(Source):
    state = ("next",)

    def __init__(self, count: int) -> None:
        self.next, self.count = 0, count

    def poll(self, rows: int) -> Read:
        if self.next == self.count:
            raise StopIteration
        end = min(self.count, self.next + rows)
        position = [self.next, end]
        return Read(self.reread(position), position)

    def reread(self, position: Any) -> Batch:
        self.next = position[1]
        return numbers(range(*position))


class Kept(Sink):
    def __init__(self, kept: list[int]) -> None:
        self.kept = kept

    def write(self, batch: Batch) -> None:
        self.kept += batch.column(0).to_pylist()


class Inverse(RowOperator):
    schema = NUMBERS
    fallback: int | None = None

    def each(self, row: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        n = row["n"]
        if n == 5 and self.fallback is not None:
            return [{"n": self.fallback}]
        return [{"n": 100 // (n - 5)}]

    def mend(self, value: int) -> None:
        self.fallback = value


class WholeBatch(Operator):
    """Fails as a whole; whether it has a state decides whether its row can be found."""

    def process(self, batch: Batch, port: int) -> Iterable[Batch]:
        return [numbers(100 // (n - 5) for n in batch.column(0).to_pylist())]


class WithState(WholeBatch):
    state = ("count",)
    count = 0


def region(make: Any, count: int = 10) -> tuple[Simulation, list[int]]:
    kept: list[int] = []
    nodes = (Node("source", lambda _: UpTo(count)), Node("op", lambda _: make()), Node("sink", lambda _: Kept(kept)))
    graph = Graph(nodes, (Link("source", "op"), Link("op", "sink")))
    return Simulation(graph, 0, Settings(credit=100, slice=4)), kept


GOOD = [100 // (n - 5) for n in range(10) if n != 5]


@pytest.mark.parametrize(("make", "exact"), [(Inverse, True), (WholeBatch, True), (WithState, False)])
def test_a_failing_operator_reports_its_row_and_the_traceback(make: Any, exact: bool) -> None:
    simulation, kept = region(make)
    simulation.run()
    assert not simulation.coordinator.is_done
    failure = simulation.coordinator.failures["op/0"]
    assert failure["exact"] == exact
    assert "ZeroDivisionError" in failure["trace"]
    assert "{'n': 5}" in failure["rows"] if exact else failure["rows"] == ["{'n': 4}", "{'n': 5}", "{'n': 6}"]
    assert simulation.why().startswith("op/0 failed at ")
    assert "sink/0 waits for input from op/0" in simulation.why()
    simulation.coordinator.ask(["op/0"], "skip")
    simulation.run()
    assert simulation.coordinator.is_done
    # Without a state the row is found, and only that is left out; with one all rows of its slice are.
    assert kept == (GOOD if exact else [100 // (n - 5) for n in (0, 1, 2, 3)])


@pytest.mark.parametrize("deaths", [0.0, 0.1])
def test_an_operator_is_mended_and_goes_on_at_the_same_row(deaths: float) -> None:
    kept: list[int] = []
    nodes = (Node("source", lambda _: UpTo(10)), Node("op", lambda _: Inverse()))
    simulation = Simulation(Graph(nodes, (Link("source", "op"),)), 3, Settings(credit=100, slice=4), deaths, 5)
    del kept
    simulation.run()
    simulation.coordinator.ask(["op/0"], "call", {"method": "mend", "arguments": {"value": -1}})
    simulation.coordinator.ask(["op/0"], "retry")
    simulation.run()
    assert simulation.coordinator.is_done
    assert simulation.workers["op/0"].processed == 10


class Away(UpTo):
    """A source that begins somewhere, and whose broker may be away."""

    is_away = False
    begins = 0

    def poll(self, rows: int) -> Read:
        if self.next < 0:
            return Read(self.reread([self.begins, self.begins]), [self.begins, self.begins])
        return super().poll(rows)

    def reread(self, position: Any) -> Batch:
        if Away.is_away:
            raise TempuraError("BROKER_UNREACHABLE", "It does not answer.")
        return super().reread(position)


def away(seed: int) -> tuple[Simulation, list[int]]:
    def begin() -> Away:
        source = Away(30)
        source.next, Away.is_away, Away.begins = -1, False, Away.begins + 1
        return source

    kept: list[int] = []
    Away.begins = 0
    nodes = (Node("source", lambda _: begin()), Node("sink", lambda _: Kept(kept), place="driver"))
    graph = Graph(nodes, (Link("source", "sink"),))
    return Simulation(graph, seed, Settings(credit=4, slice=2), snapshots=0.05), kept


@pytest.mark.parametrize("seed", range(20))
def test_a_source_that_cannot_read_again_waits_for_retry(seed: int) -> None:
    simulation, kept = away(seed)
    while len(kept) < 12:
        simulation.turn()
    began = kept[0]
    simulation._kill("source/0")
    Away.is_away = True
    simulation.coordinator.ask(["source/0"], "pause", {"reason": "user"})  # is done when it has read again
    simulation.run()
    assert "BROKER_UNREACHABLE" in simulation.coordinator.failures["source/0"]["trace"]
    assert simulation.workers["source/0"].condition == "failed"
    simulation.coordinator.ask(["source/0"], "skip")  # there is nothing to leave out
    simulation.run()
    assert simulation.coordinator.failures
    Away.is_away = False
    simulation.coordinator.ask(["source/0"], "retry")
    simulation.run()
    assert "source/0 is paused: user" in simulation.why()
    simulation._kill("source/0")
    simulation.coordinator.ask(["source/0"], "resume", {"reason": "user"})
    simulation.run()
    assert simulation.coordinator.is_done
    assert kept == list(range(began, 30))


def test_where_a_source_begins_is_stored_before_it_reads() -> None:
    simulation, kept = away(0)
    while simulation.workers["source/0"].operator.next < 0:  # type: ignore[attr-defined]
        simulation.workers["source/0"].step()
    began = Away.begins
    simulation._kill("source/0")
    simulation.run()
    assert Away.begins > began
    assert kept[0] == began


def test_pause_is_a_set_of_reasons_and_only_an_empty_one_goes_on() -> None:
    simulation, kept = region(lambda: WithState(), count=5)
    ask = simulation.coordinator.ask
    for reason in ("user", "breakpoint"):
        ask(["op/0"], "pause", {"reason": reason})
    simulation.run()
    assert kept == []
    assert "op/0 is paused: breakpoint, user" in simulation.why()
    ask(["op/0"], "resume", {"reason": "user"})
    simulation.run()
    assert kept == []
    ask(["op/0"], "resume", {"reason": "breakpoint"})
    simulation.run()
    assert kept == GOOD[:5]


def test_commands_are_not_taken_for_those_of_a_former_execution() -> None:
    simulation, _ = region(lambda: WithState(), count=5)
    for name in ("pause", "resume"):
        simulation.coordinator.ask(["op/0"], name, {"reason": "user"})
    while simulation.workers["op/0"].processed < 1:
        simulation.turn()
    simulation.end()
    simulation.coordinator.ask(["op/0"], "pause", {"reason": "user"})
    simulation.run()
    assert "op/0 is paused: user" in simulation.why()
    simulation.coordinator.ask(["op/0"], "resume", {"reason": "user"})
    simulation.run()
    assert simulation.coordinator.is_done


def test_a_paused_worker_answers_and_does_single_steps() -> None:
    simulation, kept = region(lambda: WithState(), count=5)
    answers: list[Mapping[str, Any]] = []
    simulation.coordinator.ask(["op/0"], "pause", {"reason": "user"})
    simulation.run()
    simulation.coordinator.ask(["op/0"], "inspect", {}, lambda found: answers.append(found["op/0"]))
    simulation.coordinator.ask(["op/0"], "step", {"steps": 1})
    simulation.run()
    assert answers[0]["is"] == "paused"
    assert answers[0]["state"] == {"count": "0"}
    assert list(answers[0]["waiting"].values()) == [6]  # five rows, and the end
    assert kept == GOOD[:4]  # the slice of that step
    assert simulation.workers["op/0"].is_replaying is False


def test_an_unknown_command_and_a_method_that_fails_are_answered() -> None:
    simulation, _ = region(lambda: Inverse())
    answers: list[Mapping[str, Any]] = []
    simulation.coordinator.ask(["op/0"], "dance", {}, answers.append)
    simulation.coordinator.ask(["op/0"], "call", {"method": "mend", "arguments": {}}, answers.append)
    simulation.run()
    assert [list(found["op/0"]) for found in answers] == [["error"], ["error"]]


class Slow(Operator):
    """Many mini-steps for one batch."""

    def process(self, batch: Batch, port: int) -> Iterator[Batch | None]:
        for n in range(batch.num_rows):
            yield batch.slice(n, 1)

    def finish(self, port: int) -> Iterator[Batch | None]:
        yield numbers([-port])


def test_control_comes_between_the_mini_steps_of_one_batch() -> None:
    simulation, kept = region(lambda: Slow(), count=4)
    worker = simulation.workers["op/0"]
    while worker._steps < 2:
        simulation.turn()
    simulation.coordinator.ask(["op/0"], "pause", {"reason": "user"})
    simulation.run()
    assert len(kept) < 4
    assert worker.inspect()["is"] == "paused"
    simulation.coordinator.ask(["op/0"], "resume", {"reason": "user"})
    simulation.run()
    assert kept == [0, 1, 2, 3, 0]


def test_who_waits_for_whom() -> None:
    simulation, _ = region(lambda: Slow(), count=10_000)
    simulation.coordinator.ask(["sink/0"], "pause", {"reason": "user"})
    simulation.run()
    first, *others = simulation.why().splitlines()
    assert first == "sink/0 is paused: user"  # nobody keeps it waiting: it is the cause
    assert sorted(others) == [
        "op/0 waits for room: sink/0 has not processed what was sent",
        "source/0 waits for room: op/0 has not processed what was sent",
    ]


def nodes(*names: str, workers: int = 1) -> tuple[Node, ...]:
    return tuple(Node(name, lambda _: Slow(), workers) for name in names)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Graph(()), "no operator"),
        (lambda: Graph(nodes("a", "a")), "two operators have the name 'a'"),
        (lambda: Graph(nodes("a/b")), "no name of an operator"),
        (lambda: Graph(nodes("a"), (Link("a", "b"),)), "names 'b', which is no operator"),
        (lambda: Graph(nodes("a", "b"), (Link("a", "b"), Link("b", "a"))), "form a circle"),
        (lambda: Graph((*nodes("a"), *nodes("b", workers=2)), (Link("a", "b"),)), "2 workers of b to go to"),
        (lambda: Graph(nodes("a", workers=65)), "at most 64"),
        (lambda: Graph(nodes("a")).make("a/0"), "a/0 has no input, and its operator is no source"),
        (lambda: Simulation(Graph((Node("a", lambda _: UpTo(1)),))).coordinator.send_marker(["x"], {}), "names 'x'"),
    ],
)
def test_what_is_no_region_is_refused(make: Any, says: str) -> None:
    with pytest.raises(TempuraError, match=f"BAD_REGION.*{says}"):
        make()


def test_a_region_that_does_not_end_says_so() -> None:
    simulation, _ = region(lambda: Slow(), count=1000)
    with pytest.raises(TempuraError, match=r"REGION_FAILED.*after 20 turns"):
        simulation.run(20)


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FolderStore(tmp_path)


def test_a_store_keeps_logs_and_snapshots(store: Store) -> None:
    entries = [("d", 0, 4)] * 1000 + [("c", -1, {"id": 1}), ("m", 0)]
    store.append("op/0", 0, lines_of(entries))
    store.append("op/0", 1, lines_of([("e", 0)]))
    assert len(store.lines("op/0", 0)) == 3
    assert recorded(store, "op/0", 0) == [*entries, ("e", 0)]
    store.save("op/0", 1, {"operator": {"rows": numbers([1, 2]), "count": 2}, "ended": False})
    found = store.load("op/0", 1)
    assert found is not None
    assert found["operator"]["rows"].column(0).to_pylist() == [1, 2]
    assert found["operator"]["count"] == 2
    store.forget("op/0", 1)
    assert store.lines("op/0", 0) == []
    assert recorded(store, "op/0", 1) == [("e", 0)]
    assert store.load("op/0", 1) is not None
    store.forget("op/0", 2)
    assert store.load("op/0", 1) is None


def test_a_line_that_was_written_in_part_is_none(tmp_path: Path) -> None:
    first = FolderStore(tmp_path)
    first.append("op/0", 0, ['[1,"e",0]', '[1,"e'])
    path = tmp_path / "op-0" / "life-1" / "0.log"
    path.write_text(path.read_text()[:-1])
    second = FolderStore(tmp_path)
    assert list(entries_in(second.lines("op/0", 0))) == [("e", 0)]
    second.append("op/0", 0, ['[1,"e",1]'])
    assert recorded(FolderStore(tmp_path), "op/0", 0) == [("e", 0), ("e", 1)]


def test_a_line_for_which_there_is_no_room_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, write, room = FolderStore(tmp_path), os.write, [4, 100]
    store.append("op/0", 0, ['[1,"e",0]'])

    def written(file: int, data: Any) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: room.pop(0)])

    monkeypatch.setattr("tempura.region.log.os.write", written)
    store.append("op/0", 0, ['[1,"e",1]'])  # in two parts
    room.append(4)
    with pytest.raises(OSError, match="No space left"):
        store.append("op/0", 0, ['[1,"e",2]'])
    monkeypatch.undo()
    store.append("op/0", 0, ['[1,"e",3]'])
    assert recorded(store, "op/0", 0) == [("e", 0), ("e", 1), ("e", 3)]


def test_what_a_process_writes_that_was_given_up_is_not_read(tmp_path: Path) -> None:
    given_up = FolderStore(tmp_path)
    given_up.append("op/0", 0, ['[1,"e",0]'])
    heir = FolderStore(tmp_path)
    assert recorded(heir, "op/0", 0) == [("e", 0)]
    given_up.append("op/0", 0, ['[1,"e",1]'])
    heir.append("op/0", 0, ['[1,"e",2]'])
    assert recorded(heir, "op/0", 0) == [("e", 0), ("e", 2)]
    assert recorded(FolderStore(tmp_path), "op/0", 0) == [("e", 0), ("e", 2)]


def test_a_snapshot_of_another_version_is_refused(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.save("op/0", 1, {"operator": {}})
    path = tmp_path / "op-0" / "1.snapshot" / "snapshot.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 0'))
    with pytest.raises(TempuraError, match=r"REGION_FAILED.*version 0"):
        store.load("op/0", 1)
