"""Random regions, random turns, workers that die at random: nothing is lost or doubled, what was seen stays; wrong runtimes are refuted."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempura.errors import TempuraError
from tempura.region.alignment import Alignment
from tempura.region.channels import Inlet, Outlet
from tempura.region.coordinator import Coordinator
from tempura.region.graph import Graph, Link, Node
from tempura.region.messages import Item, Marker, Rows
from tempura.region.operators import Batch, Operator
from tempura.region.settings import Settings
from tempura.region.simulation import Simulation
from tempura.region.worker import Worker
from tests.unit.region_cases import Case, Epochs, Whim, World, batch_of, faults_of, rows_of

SMALL = Settings(credit=12, slice=3)

seeds = st.integers(0, 10**6)


@settings(max_examples=60)
@given(seeds, st.sampled_from([0.0, 0.03, 0.15]), st.sampled_from([0.0, 0.005, 0.05]))
def test_nothing_is_lost_or_doubled(seed: int, deaths: float, snapshots: float) -> None:
    faults, simulation = faults_of(seed, settings=SMALL, deaths=deaths, snapshots=snapshots, most_deaths=6)
    assert faults == []
    assert simulation.overdrawn <= 0


@settings(max_examples=60)
@given(seeds, st.sampled_from([0.0, 0.03]), st.sampled_from([0.005, 0.02]))
def test_nothing_is_lost_or_doubled_by_a_region_that_is_started_again(seed: int, deaths: float, endings: float) -> None:
    options: dict[str, Any] = {"deaths": deaths, "snapshots": 0.02, "most_deaths": 6, "endings": endings}
    assert faults_of(seed, settings=SMALL, **options)[0] == []


class SnapshotForgotten(Simulation):
    """A region that is started again knows nothing of the snapshot that was under way, and gives its number to another."""

    def end(self) -> None:
        self._begun = None
        super().end()


def test_a_region_that_is_started_again_and_forgets_is_refuted() -> None:
    for seed in range(200):
        case = Case(seed)
        region = SnapshotForgotten(case.graph, seed, SMALL, 0.0, 6, snapshots=0.02, endings=0.02)
        try:
            region.run(20_000)
        except (AssertionError, TempuraError):
            return
        if not region.coordinator.is_done or case.faults():
            return
    raise AssertionError("it was not refuted")


@pytest.mark.full
@pytest.mark.parametrize("part", range(20))
def test_two_thousand_random_regions(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        assert faults_of(seed, settings=SMALL, deaths=0.05, snapshots=0.01, most_deaths=6)[0] == []
        assert faults_of(seed, settings=SMALL, deaths=0.02, snapshots=0.02, most_deaths=6, endings=0.01)[0] == []


def test_workers_do_die_in_these_runs() -> None:
    runs = [faults_of(seed, settings=SMALL, deaths=0.03, snapshots=0.01, most_deaths=6)[1] for seed in range(20)]
    assert sum(run.deaths for run in runs) > 40
    assert sum(run.coordinator.complete for run in runs) > 20


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (faults_of(7, settings=SMALL, deaths=0.1)[1] for _ in range(2))
    assert first.deaths == second.deaths
    assert first.random.random() == second.random.random()


# --- wrong runtimes ---------------------------------------------------------------------------------------------------


class LogForgotten(Worker):
    """A worker that is restarted takes its input in any order, and not as the log says."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._replay.clear()


class ReleasedBeforeLogged(Worker):
    """Output leaves before the log has what explains it."""

    def _release(self) -> None:
        for outlet in self.outlets.values():
            outlet.release()


class CreditIgnored(Worker):
    """Sends whatever there is."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        for outlet in self.outlets.values():
            outlet.credit = 10**6


class NotAligned(Alignment):
    """Acts on a marker as soon as it comes."""

    def _waits(self, marker: Marker, met: set[str]) -> list[set[str]]:
        return [met]


class MarkersNotAligned(Worker):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._alignment = NotAligned({inlet.id: inlet.port for inlet in self.inlets.values()})


class KeepsAll(Inlet):
    """Takes what it has already."""

    def accept(self, item: Item) -> None:
        self._items.append(item)
        self.received = max(self.received, item.end)


class SendsAll(Outlet):
    """Does not ask what the receiver has."""

    def greet(self, received: int, used: int) -> None:
        self.used = max(self.used, used)


class Doubles(Worker):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.inlets = {i.id: KeepsAll(i.id, i.port, i.used, i.ended) for i in self.inlets.values()}
        for outlet in self.outlets.values():
            outlet.__class__ = SendsAll


def is_refuted(
    seed: int, make_worker: Callable[..., Worker] = Worker, deaths: float = 0.05, snapshots: float = 0.02
) -> bool:
    try:
        options: dict[str, Any] = {"settings": SMALL, "deaths": deaths, "snapshots": snapshots, "most_deaths": 6}
        faults, simulation = faults_of(seed, make_worker=make_worker, **options)
    except (ValueError, AssertionError):
        return True
    return bool(faults) or simulation.overdrawn > 0


@pytest.mark.parametrize("wrong", [LogForgotten, ReleasedBeforeLogged, CreditIgnored, MarkersNotAligned, Doubles])
def test_a_wrong_worker_is_refuted(wrong: Callable[..., Worker]) -> None:
    assert any(is_refuted(seed, wrong) for seed in range(60))


def test_restarting_the_dead_alone_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "to_restart", lambda self, dead: frozenset(dead))
    assert any(is_refuted(seed) for seed in range(30))


def test_a_snapshot_that_forgets_who_is_behind_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def restarted(self: Coordinator, workers: Iterable[str]) -> None:
        for worker, command, _ in list(self._unanswered.values()):
            if worker in set(workers):
                self._post(worker, command)

    monkeypatch.setattr(Coordinator, "restarted", restarted)
    # One run in fifty: a worker has to die, be heard of late, and its sender has to die before it has caught up.
    assert any(is_refuted(seed, deaths=0.03, snapshots=0.2) for seed in (25, 119, *range(150)))


# --- control while workers die ----------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(seeds, st.sampled_from([0.0, 0.05]))
def test_pauses_and_calls_at_random_change_nothing_of_the_rows(seed: int, deaths: float) -> None:
    case, rng = Case(seed), Random(seed)
    simulation = Simulation(case.graph, seed, SMALL, deaths=deaths, snapshots=0.01, most_deaths=4)
    answers: list[Any] = []
    asked = 0
    numbered = [w for w in case.graph.workers if w.startswith("numbers")]
    for _ in range(rng.randint(1, 8)):
        for _ in range(rng.randint(0, 60)):
            simulation.turn()
        simulation.coordinator.ask(rng.sample(case.graph.workers, 1), "pause", {"reason": "user"}, answers.append)
        simulation.coordinator.ask(
            numbered, "call", {"method": "set_version", "arguments": {"version": 1}}, answers.append
        )
        asked += 2
    for _ in range(200):
        simulation.turn()
    simulation.coordinator.ask(case.graph.workers, "resume", {"reason": "user"}, answers.append)
    simulation.run(60_000)
    assert len(answers) == asked + 1
    assert simulation.coordinator.is_done, simulation.why()
    assert case.faults() == []


class Tagged(Operator):
    """Appends its version to a row's number."""

    state = ("version",)

    def __init__(self) -> None:
        self.version = 1

    def process(self, batch: Batch, port: int) -> Iterable[Batch]:
        return [batch_of((s, n, 10 * seen + self.version) for s, n, seen in rows_of(batch))]

    def set_version(self, version: int) -> None:
        self.version = version


def versions_seen(seed: int, deaths: float, make_worker: Callable[..., Worker] = Worker) -> list[int]:
    """A source whose rows take one of two ways of unlike speed to one operator; all three get a new version by a marker."""
    world, rng = World(), Random(seed)
    nodes = (
        Node("source", lambda _: Whim("s", 120, rng)),
        Node("first", lambda _: Tagged()),
        Node("left", lambda _: Tagged()),
        Node("right", lambda _: Tagged(), workers=2),
        Node("last", lambda _: Tagged()),
        Node("sink", lambda _: Epochs("sink", world)),
    )
    ways = (
        ("source", "first"), ("first", "left"), ("first", "right"), ("left", "last"), ("right", "last"), ("last", "sink"),
    )  # fmt: skip
    links = tuple(Link(a, b, by=("n",) if b == "right" else ()) for a, b in ways)
    simulation = Simulation(Graph(nodes, links), seed, SMALL, deaths, make_worker=make_worker)
    for _ in range(rng.randint(0, 150)):
        simulation.turn()
    graph = simulation.graph
    changed = {
        w: ("set_version", {"version": 2}) for w in graph.workers if isinstance(simulation.workers[w].operator, Tagged)
    }
    scope = [c.id for c in graph.channels if c.sender in changed and c.receiver in changed]
    simulation.coordinator.send_marker(scope, changed)
    simulation.run(60_000)
    assert simulation.coordinator.is_done, simulation.why()
    seen = [row[2] for row in world.seen("sink")]
    assert len(seen) == 240
    return seen


@settings(max_examples=40)
@given(seeds, st.sampled_from([0.0, 0.05]))
def test_no_row_sees_an_old_and_a_new_version(seed: int, deaths: float) -> None:
    assert set(versions_seen(seed, deaths)) <= {111, 222}


def test_the_change_does_happen_in_between() -> None:
    assert any(set(versions_seen(seed, 0.0)) == {111, 222} for seed in range(10))


def test_a_marker_that_is_not_aligned_splits_rows() -> None:
    seen = (set(versions_seen(seed, 0.0, MarkersNotAligned)) for seed in range(20))
    assert any(found - {111, 222} for found in seen)


# --- channels ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 6), st.randoms())
@settings(max_examples=60)
def test_credit_bounds_what_is_on_its_way(sizes: list[int], credit: int, random: Random) -> None:
    outlet, inlet, on_its_way, got = Outlet("c", credit), Inlet("c", 0), [], []
    given: list[tuple[str, int, int]] = []
    todo = list(sizes)
    while todo or outlet.offset > inlet.used:
        if todo and outlet.room:
            rows = [("s", len(given) + i, 0) for i in range(todo.pop())]
            given += rows
            outlet.put(batch_of(rows))
            outlet.release()
        item = outlet.take()
        if item is not None:
            on_its_way.append(item)
        assert outlet.sent - inlet.used <= credit
        if on_its_way and random.random() < 0.7:
            inlet.accept(on_its_way.pop(0))
        if isinstance(inlet.head, Rows):
            got += rows_of(inlet.pop_rows(random.randint(1, inlet.head.batch.num_rows)))
        outlet.acknowledge(inlet.used)
    assert got == given
