"""Where results may be published: not into the warehouse's own folders, a table's source, or another output."""

from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.query import Query
from tempura.warehouse.times.schedule import Schedule
from tests.unit.bag_engine import COUNT
from tests.unit.test_warehouse import FIRST, RETURNS, World

TAKEN = {
    ".tempura": "own folder",
    ".tempura/out": "own folder",
    "tables": "own folder",
    "tables/returns/data/out": "own folder",
    "queries/n/attempts": "own folder",
    ".": "own folder",
    "..": "own folder",
    "/": "own folder",
    "../lake/sales": "the folder of table sales",
    "../lake/sales/day=1": "the folder of table sales",
    "../lake": "the folder of table sales",
    "../marts/other": "where query n is published",
    "../marts/other/inner": "where query n is published",
    "../marts": "where query n is published",
    "../marts/.other.tempura/x": "where query n is published",
    "../link/sales": "the folder of table sales",
    "../link": "the folder of table sales",
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lake.mkdir(parents=True)
    world.put("a", FIRST)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    return world


@pytest.fixture
def query(world: World) -> Query:
    query = world.query(Schedule.view())
    other = world.wh.add_query("n", COUNT, schedule=Schedule.view())
    other.run()
    other.output(world.folder / "marts" / "other")
    query.run()
    return query


@pytest.mark.parametrize("mode", ["replace", "changes"])
@pytest.mark.parametrize("place", TAKEN)
def test_outputs_are_not_published_into_places_of_others(world: World, query: Query, place: str, mode: str) -> None:
    before = sorted(world.folder.rglob("*"))
    with pytest.raises(TempuraError, match=TAKEN[place]) as error:
        query.output(world.wh.path / place, mode)
    assert error.value.code == "OUTPUT_TAKEN"
    assert sorted(world.folder.rglob("*")) == before
    assert not world.wh._site.declarations.read().queries["summary"].outputs


def test_nor_when_the_declarations_were_edited(world: World, query: Query) -> None:
    query.output(world.folder / "marts" / "mine")
    path = world.wh.path / "tempura.toml"
    path.write_text(path.read_text().replace("marts/mine", "lake/sales/mine"))
    with pytest.raises(TempuraError, match="the folder of table sales") as error:
        world.open().query("summary").run()
    assert error.value.code == "OUTPUT_TAKEN"
    assert not (world.lake / "mine").exists()


def test_places_side_by_side_are_free(world: World, query: Query) -> None:
    for place in ("marts/other2", "marts/mine", "lake/summary", "wh/summary"):
        assert query.output(world.folder / place).is_symlink()
    # The same place again, in another way.
    with pytest.raises(TempuraError, match=r"is there already|holds something else"):
        query.output(world.folder / "marts/mine", "changes")


@pytest.mark.parametrize("place", ["marts/other", "marts", "marts/other/inner", "marts/.other.tempura"])
def test_a_table_is_not_made_of_an_output(world: World, query: Query, place: str) -> None:
    with pytest.raises(TempuraError, match="query n is published") as error:
        world.wh.add_table("again", path=world.folder / place, schema=RETURNS)
    assert error.value.code == "BAD_SOURCE"
    assert "--from-query n" in error.value.command
