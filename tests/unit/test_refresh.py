"""Sources that are no longer what has arrived from them, and the ways on: a refresh, or to begin anew."""

import os
import shutil
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.commits import manifests, seals
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, SUMMARY, BagEngine, Row, parse, read_rows, write_rows
from tests.unit.test_killed import planned
from tests.unit.test_warehouse_lakes import ON, add, commit, metadata
from tests.unit.test_warehouse_sources import aged

SALES = "o_id INT, cat STRING, price INT"
FIRST: list[Row] = [(1, "c1", 100), (2, "c2", 150), (3, "c1", 120), (4, "c1", 170), (4, "c1", 170)]
SECOND: list[Row] = [(5, "c2", 300), (6, "c1", 150), (7, None, 220)]
MANY: list[Row] = [(i, f"c{i % 3}", i) for i in range(100, 400)]


class World:
    """A view over a folder of sales and over returns that are pushed."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        self.folder = folder
        self.lake = folder / "lake"
        self.lake.mkdir(exist_ok=True)
        self.engine = BagEngine()
        self.wh = self.open(files)

    def open(self, files: Files | None = None) -> Warehouse:
        now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        return open_site(self.folder / "wh", self.engine, files or Files(), lambda: now)

    def put(self, name: str, rows: list[Row], age: float = 100, ddl: str = SALES) -> None:
        """A file as another program writes it: a new one, that takes the place of one of the same name."""
        written = self.folder / "new.parquet"
        write_rows(written, parse(ddl), rows)
        aged(written, age)
        (self.lake / name).parent.mkdir(exist_ok=True)
        written.replace(self.lake / name)

    def query(self, **promises: object) -> Query:
        self.wh.add_table("sales", path=self.lake, schema=SALES, **promises)  # type: ignore[arg-type]
        self.wh.add_table("returns", schema="o_id INT, cost INT")
        self.wh.table("returns").append([(1, 10), (5, 5)])  # type: ignore[arg-type]
        return self.wh.add_query("summary", SUMMARY, schedule=Schedule.view())

    def begun(self, **promises: object) -> Query:
        self.put("a.parquet", FIRST + MANY)
        self.put("b.parquet", SECOND, age=90)
        query = self.query(**promises)
        query.run(methods="im1")
        return query

    def arrived(self) -> tuple[int, int]:
        """The rows that came and that left with the last arrival."""
        return self.wh.table("sales").arrivals.committed()[-1].rows

    def identities(self) -> list[str]:
        """The checksums of the files that have arrived."""
        return [origin.identity for a in self.wh.table("sales").arrivals.committed() for origin in a.seen]


@pytest.fixture(autouse=True)
def joins_are_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """By these prices incremental work pays for a few rows."""
    monkeypatch.setattr(follow, "make_plan", planned)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


def refused(query: Query) -> str:
    with pytest.raises(TempuraError) as error:
        query.run(methods="im1")
    assert 'table("sales").refresh()' in error.value.remedy
    assert "tempura table refresh sales" in error.value.command
    return error.value.code


def go_on(world: World, query: Query) -> None:
    """The next run uses the states, and so does one after it."""
    for rows in ([(1, 7)], [(2, 7)]):
        world.wh.table("returns").append(rows)  # type: ignore[arg-type]
        loaded = len(world.engine.read)
        query.run(methods="im1")
        assert len(world.engine.read) > loaded
        assert query.verify()


class TestRefresh:
    def test_a_compacted_folder(self, world: World) -> None:
        query = world.begun(append_only=True)
        world.put("all.parquet", FIRST + SECOND + MANY, age=10)
        for name in ("a.parquet", "b.parquet"):
            (world.lake / name).unlink()
        assert refused(query) == "FILE_GONE"
        assert world.wh.table("sales").refresh() == 2
        assert world.arrived() == (0, 0)
        go_on(world, query)

    def test_an_expired_file(self, world: World) -> None:
        query = world.begun()
        (world.lake / "b.parquet").unlink()
        assert refused(query) == "FILE_GONE"
        world.wh.table("sales").refresh()
        assert world.arrived() == (0, len(SECOND))
        go_on(world, query)
        assert world.wh.status()["tables"]["sales"]["rows"] == len(FIRST + MANY)

    def test_a_touched_file(self, world: World) -> None:
        query = world.begun(static=True)
        aged(world.lake / "a.parquet", 1)
        assert refused(query) == "FILE_CHANGED"
        world.wh.table("sales").refresh()
        assert world.arrived() == (0, 0)
        go_on(world, query)

    def test_a_renamed_file(self, world: World) -> None:
        query = world.begun(append_only=True)
        (world.lake / "a.parquet").rename(world.lake / "c.parquet")
        assert refused(query) == "FILE_GONE"
        world.wh.table("sales").refresh()
        assert world.arrived() == (0, 0)
        go_on(world, query)

    def test_a_file_that_was_replaced(self, world: World) -> None:
        query = world.begun()
        world.put("b.parquet", [(5, "c2", 301), *SECOND[1:]], age=5)
        assert refused(query) == "FILE_CHANGED"
        world.wh.table("sales").refresh()
        assert world.arrived() == (1, 1)
        go_on(world, query)

    def test_new_files_come_with_it_and_later_ones_after_it(self, world: World) -> None:
        query = world.begun()
        (world.lake / "b.parquet").unlink()
        world.put("c.parquet", [(8, "c8", 8)], age=80)
        world.wh.table("sales").refresh()
        assert world.arrived() == (1, len(SECOND))
        world.put("d.parquet", [(9, "c8", 9)], age=70)
        go_on(world, query)
        assert world.wh.table("sales").refresh() == 3
        assert world.wh.status()["tables"]["sales"]["version"] == 3

    def test_twice(self, world: World) -> None:
        query = world.begun()
        (world.lake / "b.parquet").unlink()
        world.wh.table("sales").refresh()
        world.put("b.parquet", SECOND, age=1)
        world.put("a.parquet", FIRST + MANY[:-5], age=1)
        world.wh.table("sales").refresh()
        assert world.arrived() == (len(SECOND), 5)
        go_on(world, query)

    def test_nothing_has_changed(self, world: World) -> None:
        world.begun()
        assert world.wh.table("sales").refresh() == 1

    def test_rows_are_not_known_when_a_file_was_written_over(self, world: World) -> None:
        query = world.begun()
        write_rows(world.lake / "b.parquet", parse(SALES), SECOND[:1])  # the same file, other bytes
        assert refused(query) == "FILE_CHANGED"
        with pytest.raises(TempuraError, match=r"ROWS_UNKNOWN.*b\.parquet") as error:
            world.wh.table("sales").refresh()
        assert code(error) == "ROWS_UNKNOWN"
        assert 'table("sales").reset()' in error.value.remedy
        assert "tempura table reset sales" in error.value.command
        assert world.wh.table("sales").reset() == 3
        query.run(methods="im1")
        assert query.verify()
        go_on(world, query)

    def test_where_files_have_no_second_names(self, world: World) -> None:
        query = world.begun()
        shutil.rmtree(world.wh.path / "tables/sales/held")
        aged(world.lake / "a.parquet", 1)
        (world.lake / "b.parquet").rename(world.lake / "z.parquet")
        world.wh.table("sales").refresh()
        assert world.arrived() == (0, 0)
        go_on(world, query)

    @pytest.mark.parametrize("promise", ["append_only", "static"])
    def test_promises_hold(self, world: World, promise: str) -> None:
        world.begun(**{promise: True})
        (world.lake / "b.parquet").unlink()
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").refresh()
        assert code(error) == {"append_only": "APPEND_ONLY", "static": "STATIC_TABLE"}[promise]
        assert error.value.remedy
        assert world.wh.status()["tables"]["sales"]["version"] == 1

    def test_keys_hold(self, world: World) -> None:
        world.put("a.parquet", [(1, "c1", 1), (2, "c1", 1)])
        world.query(keys=["o_id"]).run()
        world.put("a.parquet", [(1, "c1", 2), (2, "c1", 1), (2, "c1", 2)], age=5)
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").refresh()
        assert code(error) == "DUPLICATE_KEY"
        world.put("a.parquet", [(1, "c1", 2), (2, "c1", 1)], age=4)
        world.wh.table("sales").refresh()
        assert world.arrived() == (1, 1)

    def test_files_of_changes_stay_applied(self, world: World) -> None:
        query = world.begun()
        changes = f"{SALES}, _change STRING"
        world.put("c.parquet", [(1, "c1", 100, "delete"), (8, "c8", 8, "insert")], 50, changes)
        world.put("d.parquet", [(9, "c8", 9, "insert")], 40, changes)
        query.run(methods="im1")
        (world.lake / "c.parquet").unlink()
        (world.lake / "d.parquet").rename(world.lake / "e.parquet")
        (world.lake / "b.parquet").unlink()
        assert refused(query) == "FILE_GONE"
        world.wh.table("sales").refresh()
        assert world.arrived() == (0, len(SECOND))
        go_on(world, query)
        assert world.wh.status()["tables"]["sales"]["rows"] == len(FIRST + MANY) + 1
        world.put("e.parquet", [(9, "c8", 10, "insert")], 1, changes)
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").refresh()
        assert code(error) == "ROWS_UNKNOWN"

    @pytest.mark.parametrize("format", ["csv", "json"])
    def test_text_files(self, world: World, format: str) -> None:
        world.wh.add_table("sales", path=world.lake, format=format, schema=SALES)
        query = world.wh.add_query("n", COUNT, schedule=Schedule.view())
        lines = {
            "csv": ["o_id,cat,price\n1,x,1\n2,y,2\n", "o_id,cat,price\n3,z,3\n", "price,cat,o_id\n2,y,2\n4,w,4\n"],
            "json": ['{"o_id":1}\n{"o_id":2}', '{"o_id":3}', '{"o_id":2}\n{"o_id":4}'],
        }[format]
        (world.lake / "a").write_text(lines[0])
        (world.lake / "b").write_text(lines[1])
        query.run(methods="im1")
        os.utime(world.lake / "a", (5, 5))
        assert refused(query) == "FILE_CHANGED"
        world.wh.table("sales").refresh()
        assert world.arrived() == (0, 0)
        (world.lake / "a").unlink()
        (world.lake / "c").write_text(lines[2])
        assert refused(query) == "FILE_GONE"
        world.wh.table("sales").refresh()
        assert world.arrived() == (1, 1)
        query.run(methods="im1")
        assert query.verify()
        assert world.wh.status()["tables"]["sales"]["rows"] == 3

    @pytest.mark.filterwarnings("ignore::tempura.errors.TempuraWarning")
    def test_columns_that_files_always_had(self, world: World) -> None:
        world.put("a.parquet", [(1, "x"), (2, None)], ddl="o_id INT, cat STRING")
        world.wh.add_table("sales", path=world.lake, schema="o_id INT")
        world.wh.table("sales").df()
        world.wh.alter_table("sales", add_columns="cat STRING")
        assert held(world) == SignedBag.of([(1, None), (2, None)])
        world.wh.table("sales").refresh()
        assert world.arrived() == (1, 1)
        assert held(world) == SignedBag.of([(1, "x"), (2, None)])

    def test_a_managed_table_has_no_source(self, world: World) -> None:
        world.query()
        with pytest.raises(TempuraError) as error:
            world.wh.table("returns").refresh()
        assert code(error) == "NO_SOURCE"

    def test_gc_frees_second_names_when_no_query_needs_them(self, world: World) -> None:
        query = world.begun()
        (world.lake / "b.parquet").unlink()
        world.wh.table("sales").refresh()
        assert not [path for path in world.wh.gc() if "held" in path]
        go_on(world, query)
        assert (
            [path for path in world.wh.gc(dry_run=True) if "held" in path]
            == [path for path in world.wh.gc() if "held" in path]
            != []
        )
        assert query.verify()
        go_on(world, query)


def held(world: World) -> SignedBag:
    found: object = world.wh.table("sales").df()
    assert isinstance(found, SignedBag)
    return found


@pytest.mark.parametrize(
    ("change", "second_names"),
    [*product(["touched", "renamed", "moved"], [True, False]), ("gone and back", True)],
)
def test_files_that_arrived_with_checksums_of_another_kind(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str, second_names: bool
) -> None:
    """As they had until there were faster ones: they are told by those, and what is known of them is kept."""
    with monkeypatch.context() as before:
        before.setattr(seals, "_OF_FILES", "")
        before.setattr(manifests, "FORMAT", 2)
        query = world.begun()
    assert not any(map(_is_of_now, world.identities()))
    file, came = world.lake / "b.parquet", (0, 0)
    if change == "touched":
        aged(file, 1)
    elif change == "renamed":
        file.rename(world.lake / "z.parquet")
    elif change == "gone and back":
        file.rename(world.folder / "elsewhere")
        world.wh.table("sales").refresh()
        (world.folder / "elsewhere").rename(file)
        aged(file, 1)
        came = (len(SECOND), 0)
    else:
        world.lake = world.lake.rename(world.folder / "moved")
        for path in world.lake.iterdir():
            aged(path, 1)
        world.wh.alter_table("sales", path=world.lake)
        query = world.wh.query("summary")
    if not second_names:
        shutil.rmtree(world.wh.path / "tables/sales/held")
    world.wh.table("sales").refresh()
    assert world.arrived() == came
    world.put("c.parquet", [(8, "c8", 8)], age=80)
    go_on(world, query)
    assert any(map(_is_of_now, world.identities()))
    world.put("c.parquet", [(8, "c8", 9)], age=70)
    assert refused(query) == "FILE_CHANGED"


def _is_of_now(identity: str) -> bool:
    return identity.startswith("xxh3-")


class TestLakes:
    def test_a_vacuumed_delta_table(self, world: World) -> None:
        lake, engine = world.folder / "delta", world.engine
        table = world.wh.add_table("t", path=lake, format="delta", schema="id INT")
        commit(lake, 0, ON, add("a"))
        engine.lake_columns = "id INT"
        engine.lakes = {"0": [(1, "insert"), (2, "insert")], "2": [(2, "insert"), (3, "insert")]}
        table.df()
        commit(lake, 1, add("b"))
        commit(lake, 2, add("c"))
        (lake / "b").unlink()
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "FEED_EXPIRED"
        assert "tempura table refresh t" in error.value.command
        assert table.refresh() == 2
        found: object = table.df()
        assert found == SignedBag.of([(2,), (3,)])
        assert world.wh.table("t").arrivals.committed()[-1].rows == (1, 1)
        engine.lakes = {"3": [(4, "insert")]}
        commit(lake, 3, add("d"))
        found = table.df()
        assert found == SignedBag.of([(2,), (3,), (4,)])

    def test_expired_and_overwritten_iceberg_snapshots(self, world: World) -> None:
        lake, engine = world.folder / "iceberg", world.engine
        table = world.wh.add_table("t", path=lake, format="iceberg", schema="id INT")
        metadata(lake, 1, ["append"])
        engine.lake_columns = "id INT"
        engine.lakes = {"1": [(1, "insert"), (2, "insert")], "4": [(2, "insert"), (3, "insert")]}
        table.df()
        metadata(lake, 2, ["append", "append", "overwrite", "append"])
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "FEED_NOT_APPENDED"
        metadata(lake, 3, ["append"] * 4, first=4)
        with pytest.raises(TempuraError) as error:
            table.df()
        assert code(error) == "FEED_EXPIRED"
        assert "tempura table refresh t" in error.value.command
        table.refresh()
        found: object = table.df()
        assert found == SignedBag.of([(2,), (3,)])
        assert table.refresh() == 2
        # Rolled back to before the first snapshot.
        metadata(lake, 4, [])
        table.refresh()
        found = table.df()
        assert found == SignedBag()
        metadata(lake, 5, ["append"])
        found = table.df()
        assert found == SignedBag.of([(1,), (2,)])


class TestReset:
    def test_a_query_is_recomputed_and_goes_on(self, world: World) -> None:
        query = world.begun()
        query.output(world.folder / "feed", mode="changes")
        before = published(world)
        world.put("a.parquet", FIRST, age=5)
        table = world.wh.table("sales")
        assert table.reset() == 3
        result: object = query.result()
        assert result == before
        with pytest.raises(TempuraError) as error:
            query.verify()
        assert code(error) == "ROWS_FORGOTTEN"
        loaded = len(world.engine.read)
        query.run(methods="im1")
        assert len(world.engine.read) == loaded
        assert query.verify()
        result = query.result()
        assert published(world) == result
        assert len(list((world.folder / "feed").glob("step=*"))) == 2
        go_on(world, query)
        assert len(query.history()) == 4
        world.wh.gc()
        go_on(world, query)

    def test_a_managed_table_is_empty_and_its_rows_are_garbage(self, world: World) -> None:
        query = world.begun()
        world.wh.table("returns").reset()
        query.run(methods="im1")
        assert query.verify()
        assert world.wh.status()["tables"]["returns"]["rows"] == 0
        assert [path for path in world.wh.gc() if path.startswith("tables/returns/data/")]
        world.wh.table("returns").append([(1, 1)])  # type: ignore[arg-type]
        query.run(methods="im1")
        assert query.verify()

    @pytest.mark.filterwarnings("ignore::tempura.errors.TempuraWarning")
    def test_a_changed_schema(self, world: World) -> None:
        world.begun()
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace("o_id INT, cat STRING, price INT", "o_id INT, cat STRING"))
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").df()
        assert code(error) == "SCHEMA_CHANGED"
        assert "tempura table reset sales" in error.value.command
        world.wh.table("sales").reset()
        assert held(world).size == len(FIRST + MANY + SECOND)

    def test_a_static_table(self, world: World) -> None:
        query = world.begun(static=True)
        world.put("a.parquet", FIRST, age=5)
        world.wh.table("sales").reset()
        query.run()
        assert query.verify()

    def test_nothing_is_forgotten_when_the_source_cannot_be_read(self, world: World) -> None:
        world.begun()
        world.put("z.parquet", [("1", "x", 1)], ddl="o_id STRING, cat STRING, price INT")
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").reset()
        assert code(error) == "WRONG_SCHEMA"
        shutil.rmtree(world.lake)
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").reset()
        assert code(error) == "FOLDER_MISSING"
        assert world.wh.status()["tables"]["sales"]["version"] == 1

    def test_a_table_of_query_results(self, world: World) -> None:
        query = world.begun()
        world.wh.add_table("sums", query="summary")
        world.wh.table("sums").df()
        world.wh.table("sums").reset()
        found: object = world.wh.table("sums").df()
        assert found == query.result()

    @pytest.mark.parametrize("harm", ["the last is lost", "all are lost", "one in between is lost", "one was altered"])
    def test_arrivals_that_are_lost(self, world: World, harm: str) -> None:
        query = world.begun()
        for i in (1, 2):
            world.put(f"c{i}.parquet", [(100 + i, "c", i)], age=50 - i)
            query.run(methods="im1")
        folder = world.wh.path / "tables/sales/arrivals"
        lost = {"the last is lost": [3], "all are lost": [1, 2, 3], "one in between is lost": [2]}.get(harm, [])
        for n in lost:
            (folder / f"{n}.json").unlink()
        if not lost:
            (folder / "2.json").write_text("{}")
        with pytest.raises(TempuraError) as error:
            query.run(methods="im1")
        assert code(error) == ("LEDGER_BROKEN" if lost else "LEDGER_CORRUPT")
        world.wh.table("sales").reset()
        loaded = len(world.engine.read)
        query.run(methods="im1")
        assert len(world.engine.read) == loaded
        assert query.verify()
        assert world.wh.status()["tables"]["sales"]["version"] == 5
        go_on(world, query)
        world.wh.gc()

    def test_damaged_rows_of_a_source_are_read_again(self, world: World) -> None:
        world.wh.add_table("sales", path=world.lake, format="csv", schema="o_id INT")
        query = world.wh.add_query("n", COUNT, schedule=Schedule.view())
        (world.lake / "a.csv").write_text("o_id\n1\n2\n")
        query.run(methods="im1")
        (rows,) = (world.wh.path / "tables/sales/data").glob("*/*/*.parquet")
        rows.write_bytes(b"")
        with pytest.raises(TempuraError) as error:
            query.verify()
        assert code(error) == "ROWS_DAMAGED"
        assert "tempura table reset sales" in error.value.command
        world.wh.table("sales").reset()
        query.run()
        assert query.verify()

    def test_a_query_whose_ledger_is_damaged_is_removed(self, world: World) -> None:
        query = world.begun()
        (world.wh.path / "queries/summary/steps/1.json").write_text("{")
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "LEDGER_CORRUPT"
        world.wh.remove_query("summary")
        query = world.wh.add_query("summary", SUMMARY, schedule=Schedule.view())
        query.run()
        assert query.verify()

    def test_states_of_a_table_that_was_made_anew_are_not_loaded(self, world: World) -> None:
        """A folder of another warehouse was put in its place, and the rows are others under the same version."""
        query = world.begun()
        (world.folder / "other").mkdir()
        other = World(world.folder / "other").wh
        other.add_table("returns", schema="o_id INT, cost INT").append([(1, 99)])  # type: ignore[arg-type]
        shutil.rmtree(world.wh.path / "tables/returns")
        shutil.copytree(other.path / "tables/returns", world.wh.path / "tables/returns")
        assert query.run(methods="im1").nothing is False
        assert query.verify()


def published(world: World) -> SignedBag:
    """What a consumer of the changes holds."""
    bag = SignedBag()
    for file in sorted((world.folder / "feed").glob("step=*/*.parquet")):
        rows = [tuple(row.values()) for row in read_rows([str(file)])]
        bag += SignedBag([(row[:-1], 1 if row[-1] == "insert" else -1) for row in rows])
    return bag
