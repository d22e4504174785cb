"""A warehouse killed at every file operation: every verify passes, the work goes on, and gc leaves no garbage.

The scenario appends, deletes, refreshes a view whose state grows by parts that are merged, collects garbage and replaces the query.
"""

import itertools
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tempura.cost.model import CostModel
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, LARGE, SUMMARY, BagEngine
from tests.unit.dying import Calm, fork
from tests.unit.planned import planning_once
from tests.unit.test_churn import PRICES
from tests.unit.test_commit import shape

SALES = [[(i, f"c{i % 3}", 10 * i) for i in range(40)], [(40, "c1", 5)], [], [(41, "c2", 7)], [(42, "c2", 9)]]
RETURNS = [[(i, i) for i in range(0, 40, 2)], [(1, 1)], [(3, 3)], [(5, 5)], [(7, 7)]]
DELETED = [[], [(0, 0)], [(2, 2)], [], [(4, 4)]]
REPLACED_AFTER = 4


planned = planning_once(PRICES)
"""At prices by which incremental work pays for these few rows."""


@pytest.fixture(autouse=True)
def joins_are_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "make_plan", planned)


def opened(folder: Path, files: Files) -> Warehouse:
    # Files cost next to nothing, rows that occur again do: parts are merged every other time.
    engine = BagEngine(prices=CostModel(file=1))
    return open_site(folder / "wh", engine, files, lambda: datetime(2026, 3, 1, tzinfo=UTC))


def scenario(folder: Path, files: Files) -> None:
    """What a user's script does; it can be done again from wherever it was interrupted."""
    wh = opened(folder, files)
    sales = wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
    returns = wh.add_table("returns", schema="o_id INT, cost INT")
    if not wh.status()["queries"]:
        wh.add_query("q", SUMMARY, schedule=Schedule.view())
    for i in range(len(SALES)):
        version = {name: table["version"] for name, table in wh.status()["tables"].items()}
        if version["sales"] == i:
            sales.append(SALES[i])  # type: ignore[arg-type]
        if version["returns"] == i:
            changes = [(*r, "insert") for r in RETURNS[i]] + [(*r, "delete") for r in DELETED[i]]
            returns.apply(changes)  # type: ignore[arg-type]
        if i == REPLACED_AFTER and not replaced(wh):
            wh.replace_query("q", LARGE)
        if wh.query("q").committed().runs[-1:] == () or wh.query("q").committed().runs[-1].inputs["sales"] == i:
            wh.query("q").run(methods="im1")
        if i == 2:
            wh.gc()
    wh.gc()


def replaced(wh: Warehouse) -> bool:
    committed = wh.query("q").committed()
    return len(committed.entries) > len(committed.runs)


def sound(folder: Path) -> None:
    """Whatever was interrupted: what is committed is exact, and garbage is collected at once."""
    wh = opened(folder, Files())
    for name in wh.status()["queries"]:
        query = wh.query(name)
        try:
            assert not query.steps() or query.verify()
        except TempuraError as error:
            if error.code != "QUERY_CHANGED":  # declared, and not yet replaced
                raise
    expected = wh.gc(dry_run=True)
    assert set(wh.gc()) == set(expected)
    assert wh.gc() == ()
    left = {part for path in shape(folder) for part in path.split("/")}
    assert not [name for name in left if name.endswith((".tmp", ".lock")) and name != "declare.lock"]


def finished(folder: Path) -> list[str]:
    """The files of a warehouse in which the scenario came to its end, exactly."""
    wh = opened(folder, Files())
    assert wh.query("q").verify()
    assert wh.query("q").sql == LARGE
    assert [wh.status()["tables"][name]["version"] for name in ("sales", "returns")] == [len(SALES)] * 2
    assert wh.gc() == ()
    return shape(folder)


@pytest.fixture
def calm(tmp_path: Path) -> Calm:
    return Calm.of(scenario, sound, finished, tmp_path / "calm")


def test_the_scenario_does_what_it_is_for(tmp_path: Path, calm: Calm) -> None:
    assert len(calm.operations) > 300, len(calm.operations)
    kinds = {operation.split()[0] for operation in calm.operations}
    assert kinds >= {"lock", "create", "write", "sync", "link", "remove", "replace", "remove_tree"}
    wh = opened(tmp_path / "calm", Files())
    counts = [len(s.stored.parts) for run in wh.query("q").committed().runs for s in run.states]
    assert max(counts) > 1, "a state grew"
    assert any(later < earlier for earlier, later in itertools.pairwise(counts)), "parts were merged"


def test_killed_at_some_file_operations(tmp_path: Path, calm: Calm) -> None:
    calm.kill_at(range(7, len(calm.operations), 40), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("remainder", range(4))
def test_killed_at_every_file_operation(tmp_path: Path, calm: Calm, remainder: int) -> None:
    calm.kill_at(range(remainder + 1, len(calm.operations) + 1, 4), tmp_path)


def raced(folder: Path) -> list[str]:
    """Two processes run the same refresh at the same moment. Returns what each says: ``n`` of its run, or the code of its error."""
    start_read, start_write = os.pipe()
    said_read, said_write = os.pipe()
    children = []
    for _ in range(2):
        child = fork()
        if child == 0:
            try:
                os.close(start_write)
                query = opened(folder, Files()).query("q")
                os.read(start_read, 1)  # until the parent closes its end
                os.write(said_write, f"{outcome(query)}\n".encode())
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    os.close(start_read)
    os.close(start_write)
    os.close(said_write)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    with os.fdopen(said_read) as said:
        return said.read().split()


def outcome(query: Query) -> str:
    try:
        report = query.run(methods="im1")
    except TempuraError as error:
        return error.code
    return "nothing" if report.nothing else str(report.n)


def test_two_processes_racing_fifty_times(tmp_path: Path) -> None:
    """One commits; the other is told, or finds that nothing is left to do. Nothing is done twice, and nothing is left over."""
    wh = opened(tmp_path, Files())
    sales = wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
    wh.add_table("returns", schema="o_id INT, cost INT")
    query = wh.add_query("q", COUNT, schedule=Schedule.view())
    told: list[str] = []
    for i in range(50):
        sales.append([(i, "c", 1)])  # type: ignore[arg-type]
        said = raced(tmp_path)
        assert len(said) == 2
        assert str(i + 1) in said, said
        told += [other for other in said if other != str(i + 1)]
    assert set(told) <= {"RUN_IN_PROGRESS", "COMMIT_LOST", "nothing"}
    assert len(told) == 50
    assert len(query.steps()) == 50
    assert query.verify()
    wh.gc()
    assert wh.gc() == ()
    sound(tmp_path)
