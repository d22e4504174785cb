"""A query at paces killed at each file operation: whatever was committed is exact, the work goes on, and the last flush is what recomputing
gives."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tempura.cost.model import CostModel
from tempura.warehouse.commits.files import Files
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.paces.segments import stored_segments
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import LARGE, BagEngine
from tests.unit.dying import Calm
from tests.unit.planned import planning_once
from tests.unit.test_churn import PRICES
from tests.unit.test_commit import shape

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
SALES = [[(4 * i + j, f"c{j % 3}", 60 + i) for j in range(4)] for i in range(6)]
RETURNS = [[(4 * i + j, i) for j in range(2)] for i in range(6)]
DELETED = [[], [(0, 0)], [], [(4, 1)], [(1, 0)], []]
DOES = {
    2: ["prepared", "built", "nothing done", "maintained"],
    3: ["built", "maintained", "nothing done", "maintained"],
}
"""By the pace at which the segment's result is read: what its steps do."""

planned = planning_once(PRICES)


@pytest.fixture(autouse=True)
def joins_are_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Incremental work pays for these few rows."""
    monkeypatch.setattr(follow, "make_plan", planned)


def opened(folder: Path, files: Files, hour: int) -> Warehouse:
    engine = BagEngine(prices=CostModel(file=1))
    return open_site(folder / "wh", engine, files, lambda: BEGIN + timedelta(hours=hour))


def versions(wh: Warehouse) -> dict[str, int]:
    return {table.name: table.arrivals.version() for table in wh.tables()}


def scenario(folder: Path, files: Files, pace: int) -> None:
    """What a user's script does; it can be done again from wherever it was interrupted."""
    wh = opened(folder, files, 0)
    wh.add_table("sales", schema="o_id INT, cat STRING, price INT", expect=24)
    wh.add_table("returns", schema="o_id INT, cost INT", expect=15)
    until = (BEGIN + timedelta(hours=len(SALES))).isoformat()
    schedule = Schedule.paced(until, strategy={"sales": 6, "returns": 3, "s0": pace})
    wh.add_query("q", LARGE, schedule=schedule, require="incremental")
    for i in range(len(SALES)):
        wh = opened(folder, files, i + 1)
        if versions(wh)["sales"] > i + 1:
            continue
        if versions(wh)["sales"] == i:
            wh.table("sales").append(SALES[i])  # type: ignore[arg-type]
        if versions(wh)["returns"] == i:
            changes = [(*r, "insert") for r in RETURNS[i]] + [(*r, "delete") for r in DELETED[i]]
            wh.table("returns").apply(changes)  # type: ignore[arg-type]
        wh.query("q").run(methods="im1")
        if i == 2:
            wh.gc()
    wh.gc()


def sound(folder: Path) -> None:
    """Whatever was interrupted: what is committed is exact, and garbage is collected at once."""
    wh = opened(folder, Files(), 0)
    for query in wh.queries():
        last = query.outputs()[-1:]
        if last and last[0].flush and last[0].flush.complete:
            assert query.verify()
    expected = wh.gc(dry_run=True)
    assert set(wh.gc()) == set(expected)
    assert wh.gc() == ()
    left = {part for path in shape(folder) for part in path.split("/")}
    assert not [name for name in left if name.endswith((".tmp", ".lock")) and name != "declare.lock"]


def finished(folder: Path) -> list[str]:
    """The files of a warehouse in which the scenario came to its end, exactly."""
    wh = opened(folder, Files(), len(SALES))
    query = wh.query("q")
    assert isinstance(query, PacedQuery)
    assert query.is_done
    assert query.verify()
    assert versions(wh) == {"sales": 6, "returns": 6}
    assert wh.gc() == ()
    return shape(folder)


@pytest.fixture(params=DOES)
def pace(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def calm(tmp_path: Path, pace: int) -> Calm:
    return Calm.of(partial(scenario, pace=pace), sound, finished, tmp_path / "calm")


def test_the_scenario_does_what_it_is_for(tmp_path: Path, calm: Calm, pace: int) -> None:
    assert len(calm.operations) > 300
    query = opened(tmp_path / "calm", Files(), len(SALES)).query("q")
    released = [entry.paths for entry in query.history()]
    assert ("sales to s0",) in released, "paths run at paces of their own"
    assert ("sales to s0", "returns to s0", "s0 to result") in released[:-1], "a result before the last"
    assert released[-1] == ("sales to s0", "returns to s0", "s0 to result")
    (segment,) = stored_segments(query._site, query)
    steps = segment.committed().steps
    assert len(steps) > 3
    assert [step.does.kind for step in steps if step.does] == DOES[pace]
    assert steps[0].states
    assert "load" in steps[-1].plan


def test_killed_at_some_file_operations(tmp_path: Path, calm: Calm) -> None:
    calm.kill_at(range(11, len(calm.operations), 60), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("remainder", range(4))
def test_killed_at_every_file_operation(tmp_path: Path, calm: Calm, remainder: int) -> None:
    calm.kill_at(range(remainder + 1, len(calm.operations) + 1, 4), tmp_path)
