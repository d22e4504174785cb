"""A warehouse that was restored from two moments: what runs have read and a table no longer has."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, LARGE, SUMMARY, BagEngine, parse, write_rows

SALES = "o_id INT, cat STRING, price INT"


class World:
    """A warehouse in which ``n`` and ``large`` have read two arrivals of ``sales``; ``late`` has not yet run."""

    def __init__(self, folder: Path, managed: bool) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        self.lake.mkdir()
        self.engine = BagEngine()
        wh = self.open()
        wh.add_table("sales", path=None if managed else self.lake, schema=SALES)
        wh.add_table("returns", schema="o_id INT, cost INT")
        wh.add_query("n", COUNT, schedule=Schedule.view())
        wh.add_query("large", LARGE, schedule=Schedule.view())
        wh.add_query("late", SUMMARY, schedule=Schedule.view())
        for i in (1, 2):
            rows = [(i, "c", 100), (10 + i, "d", 300)]
            if managed:
                wh.table("sales").append(rows)  # type: ignore[arg-type]
            else:
                write_rows(self.lake / f"{i}.parquet", parse(SALES), list(rows))
            wh.query("n").run()
            wh.query("large").run()

    def open(self) -> Warehouse:
        return open_site(self.folder / "wh", self.engine, Files(), lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))

    def lose(self, n: int) -> None:
        (self.open().path / "tables" / "sales" / "arrivals" / f"{n}.json").unlink()


@pytest.fixture(params=["managed", "of a folder"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    return World(tmp_path, request.param == "managed")


CALLS: dict[str, Callable[[Warehouse], object]] = {
    "run": lambda wh: wh.query("n").run(),
    "plan": lambda wh: wh.query("n").plan(),
    "dry run": lambda wh: wh.query("large").run(dry_run=True),
    "verify": lambda wh: wh.query("n").verify(),
    "run of a query that has not yet read it": lambda wh: wh.query("late").run(),
    "replace": lambda wh: wh.replace_query("n", COUNT),
    "rows": lambda wh: wh.table("sales").df(),
    "push": lambda wh: wh.table("sales").append([(9, "x", 1)]),  # type: ignore[arg-type]
    # What the lost manifest names would be taken for the remains of an interrupted push.
    "gc": lambda wh: wh.gc(),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_last_arrival_is_lost(world: World, call: str) -> None:
    if call == "push" and world.open().status()["tables"]["sales"].get("path"):
        pytest.skip("rows of a folder are not pushed")
    world.lose(2)
    with pytest.raises(TempuraError) as error:
        CALLS[call](world.open())
    assert error.value.code == "LEDGER_BROKEN"
    assert "sales has 1 arrivals, but query" in error.value.what
    assert "tempura table reset sales" in error.value.command
    assert not (world.open().path / "tables" / "sales" / "arrivals" / "2.json").exists()


@pytest.mark.parametrize("lost", [1, 2])
def test_status_shows_the_others_and_what_is_wrong_with_one(world: World, lost: int) -> None:
    world.open().add_table("other", schema="o_id INT, cost INT").append([(1, 2)])  # type: ignore[arg-type]
    before = world.open().status()
    world.lose(lost)
    found = world.open().status()
    assert found["tables"]["sales"]["error"]["code"] == "LEDGER_BROKEN"
    assert found["tables"]["sales"]["schema"] == before["tables"]["sales"]["schema"], "what is declared is told"
    assert found["tables"]["other"] == before["tables"]["other"]
    runs = ("runs", "last", "result_rows", "states")
    for name, about in before["queries"].items():
        assert [found["queries"][name][key] for key in runs] == [about[key] for key in runs]
    assert found["queries"]["n"]["due"] is None, "nobody knows what has come"
    assert "tempura table reset sales" in found["tables"]["sales"]["error"]["command"] or lost == 1


def test_a_query_whose_runs_are_lost_does_not_hide_the_others(world: World) -> None:
    world.open().query("n").run()
    for n in (1, 2):
        (world.open().path / "queries" / "n" / "steps" / f"{n}.json").write_text("{")
    found = world.open().status()
    assert found["queries"]["n"]["error"]["code"] == "LEDGER_CORRUPT"
    assert "error" not in found["queries"]["late"]
    assert found["tables"]["sales"]["rows"] > 0


def test_all_arrivals_are_lost(world: World) -> None:
    world.lose(1)
    world.lose(2)
    with pytest.raises(TempuraError, match="has 0 arrivals") as error:
        world.open().query("n").run()
    assert error.value.code == "LEDGER_BROKEN"


@pytest.mark.parametrize("call", CALLS)
def test_an_arrival_in_the_middle_is_lost(world: World, call: str) -> None:
    if call == "push" and world.open().status()["tables"]["sales"].get("path"):
        pytest.skip("rows of a folder are not pushed")
    world.lose(1)
    with pytest.raises(TempuraError, match=r"lacks 1\.json") as error:
        CALLS[call](world.open())
    assert error.value.code == "LEDGER_BROKEN"


def test_a_replaced_query_still_says_what_it_read(world: World) -> None:
    wh = world.open()
    wh.replace_query("large", COUNT)
    (wh.path / "queries" / "n" / "steps" / "2.json").unlink()
    world.lose(2)
    with pytest.raises(TempuraError, match="query large has read version 2"):
        world.open().query("n").run()


def test_the_damage_of_one_query_is_not_that_of_another(world: World) -> None:
    wh = world.open()
    (wh.path / "queries" / "large" / "steps" / "2.json").write_text("{")
    assert wh.query("n").verify()
    with pytest.raises(TempuraError) as error:
        wh.query("large").run()
    assert error.value.code == "LEDGER_CORRUPT"
