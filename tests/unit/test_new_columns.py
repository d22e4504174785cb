"""Columns that appear in a source after its table was declared: they are ignored, refused, or added."""

import json
import os
import time
import warnings
from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError, TempuraWarning
from tempura.warehouse.commits.files import Files
from tempura.warehouse.table import Table
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import ALL, COUNT, BagEngine, Row, parse, write_rows
from tests.unit.test_warehouse_lakes import OFF, ON, add, commit, metadata

NARROW = "o_id INT, cat STRING"
WIDE = f"{NARROW}, price INT"


@pytest.fixture
def engine() -> BagEngine:
    return BagEngine()


@pytest.fixture
def wh(tmp_path: Path, engine: BagEngine) -> Warehouse:
    return open_site(tmp_path / "wh", engine, Files())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def put(path: Path, rows: list[Row], ddl: str) -> None:
    """A file of Parquet or JSON, by its name."""
    if path.suffix == ".json":
        names = parse(ddl).names
        path.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
    else:
        write_rows(path, parse(ddl), rows)
    aged = time.time() - 100 + len(list(path.parent.iterdir()))
    os.utime(path, (aged, aged))


def held(table: Table) -> object:
    return table.df()


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


@pytest.mark.parametrize("format", ["parquet", "json"])
class TestFiles:
    def test_added_columns_are_null_in_what_was_before(self, wh: Warehouse, lake: Path, format: str) -> None:
        table = wh.add_table("sales", path=lake, format=format, schema=NARROW, new_columns="add")
        put(lake / f"a.{format}", [(1, "x")], NARROW)
        assert held(table) == SignedBag.of([(1, "x")])
        put(lake / f"b.{format}", [(2, "y", 5)], WIDE)
        put(lake / f"c.{format}", [(3, "z")], NARROW)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert held(table) == SignedBag.of([(1, "x", None), (2, "y", 5), (3, "z", None)])
        assert wh.table("sales").schema == parse(WIDE)
        put(lake / f"d.{format}", [(4, "z")], NARROW)
        assert held(wh.table("sales")) == SignedBag.of([(1, "x", None), (2, "y", 5), (3, "z", None), (4, "z", None)])

    def test_they_are_added_before_anything_has_arrived(self, wh: Warehouse, lake: Path, format: str) -> None:
        put(lake / f"a.{format}", [(1, "x")], NARROW)
        put(lake / f"b.{format}", [(2, "y", 5)], WIDE)
        table = wh.add_table("sales", path=lake, format=format, schema=NARROW, new_columns="add")
        assert held(table) == SignedBag.of([(1, "x", None), (2, "y", 5)])

    def test_refused_columns_refuse_the_file(self, wh: Warehouse, lake: Path, format: str) -> None:
        table = wh.add_table("sales", path=lake, format=format, schema=NARROW, new_columns="refuse")
        put(lake / f"a.{format}", [(1, "x")], NARROW)
        put(lake / f"b.{format}", [(2, "y", 5)], WIDE)
        with pytest.raises(TempuraError, match="there is a column price that table sales does not have") as error:
            held(table)
        assert code(error) == "WRONG_SCHEMA"
        assert wh.status()["tables"]["sales"]["version"] == 0

    @pytest.mark.parametrize("new_columns", ["ignore", ""])
    def test_ignored_columns_are_told_once(self, wh: Warehouse, lake: Path, format: str, new_columns: str) -> None:
        table = wh.add_table("sales", path=lake, format=format, schema=NARROW, new_columns=new_columns)
        put(lake / f"a.{format}", [(1, "x", 5)], WIDE)
        with pytest.warns(TempuraWarning, match=r"Table sales: .* not read: price\."):
            assert held(table) == SignedBag.of([(1, "x")])
        put(lake / f"b.{format}", [(2, "x", 5)], WIDE)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert held(wh.table("sales")) == SignedBag.of([(1, "x"), (2, "x")])
        put(lake / f"c.{format}", [(3, "x", 5, 6)], f"{WIDE}, cost INT")
        with pytest.warns(TempuraWarning, match=r"not read: cost\."):
            held(wh.table("sales"))

    def test_a_column_that_differs_by_case_only_is_not_added(self, wh: Warehouse, lake: Path, format: str) -> None:
        table = wh.add_table("sales", path=lake, format=format, schema=NARROW, new_columns="add")
        put(lake / f"a.{format}", [(1, "x", "y")], f"{NARROW}, CAT STRING")
        with pytest.raises(TempuraError) as error:
            held(table)
        assert code(error) == "SCHEMA_CHANGED"


def test_changes_may_bring_columns(wh: Warehouse, lake: Path) -> None:
    table = wh.add_table("sales", path=lake, schema=NARROW, keys=["o_id"], new_columns="add")
    put(lake / "a.parquet", [(1, "x"), (2, "y")], NARROW)
    held(table)
    put(lake / "b.parquet", [(1, "x", 7, "update")], f"{WIDE}, _change STRING")
    assert held(table) == SignedBag.of([(1, "x", 7), (2, "y", None)])


def test_a_file_of_changes_that_lacks_a_column_is_refused(wh: Warehouse, lake: Path) -> None:
    table = wh.add_table("sales", path=lake, schema=NARROW)
    put(lake / "a.parquet", [(1, "insert")], "o_id INT, _change STRING")
    with pytest.raises(TempuraError, match="column cat is missing") as error:
        held(table)
    assert code(error) == "WRONG_SCHEMA"


class TestQueries:
    def test_the_run_that_adds_a_column_tells_whom_it_concerns(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, schema=NARROW, new_columns="add")
        put(lake / "a.parquet", [(n, "x") for n in range(100)], NARROW)
        count, all_of_it = (
            wh.add_query(name, sql, schedule=Schedule.view()) for name, sql in (("n", COUNT), ("all", ALL))
        )
        for query in (count, all_of_it):
            query.run(methods="im1")
        put(lake / "b.parquet", [(200, "y", 5)], WIDE)
        # Both objects were made before the column came; the first registers it, the second finds it there.
        count.run(methods="im1")
        assert "load" in count.steps()[1].plan
        assert count.verify()
        with pytest.raises(TempuraError) as error:
            all_of_it.run()
        assert code(error) == "QUERY_CHANGED"
        assert wh.table("sales").schema == parse(WIDE)

    def test_a_query_that_reads_all_is_told_by_the_run_that_adds(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, schema=NARROW, new_columns="add")
        put(lake / "a.parquet", [(1, "x")], NARROW)
        query = wh.add_query("all", ALL, schedule=Schedule.view())
        query.run()
        put(lake / "b.parquet", [(2, "y", 5)], WIDE)
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "QUERY_CHANGED"
        wh.replace_query("all")
        query = wh.query("all")
        query.run()
        assert query.verify()
        found: object = query.result()
        assert found == SignedBag.of([(1, "x", None), (2, "y", 5)])

    def test_its_first_run_reads_the_columns_that_came_with_it(self, wh: Warehouse, lake: Path) -> None:
        wh.add_table("sales", path=lake, schema=NARROW, new_columns="add")
        query = wh.add_query("all", ALL, schedule=Schedule.view())
        put(lake / "a.parquet", [(1, "x", 5)], WIDE)
        query.run()
        found: object = query.result()
        assert found == SignedBag.of([(1, "x", 5)])
        assert query.verify()


class TestLakes:
    @pytest.fixture
    def table(self, wh: Warehouse, lake: Path, engine: BagEngine, request: pytest.FixtureRequest) -> Table:
        """A Delta table of one column, of which a version has arrived, and which then got a second."""
        commit(lake, 0, ON, add("a"))
        engine.lake_columns = "id INT"
        engine.lakes = {"0": [(1, "insert")], "1": [(2, 20, "insert"), (1, None, "delete")]}
        table = wh.add_table("t", path=lake, format="delta", new_columns=request.param)
        assert held(table) == SignedBag.of([(1,)])
        commit(lake, 1, add("b"))
        engine.lake_columns = "id INT, price INT"
        return table

    @pytest.mark.parametrize("table", ["add"], indirect=True)
    def test_added(self, wh: Warehouse, table: Table) -> None:
        assert held(table) == SignedBag.of([(2, 20)])
        assert wh.table("t").schema == parse("id INT, price INT")

    @pytest.mark.parametrize("table", ["ignore"], indirect=True)
    def test_ignored(self, table: Table, lake: Path, engine: BagEngine) -> None:
        with pytest.warns(TempuraWarning, match="not read: price"):
            assert held(table) == SignedBag.of([(2,)])
        commit(lake, 2, add("c"))
        engine.lakes["2"] = [(3, 30, "insert")]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert held(table) == SignedBag.of([(2,), (3,)])

    @pytest.mark.parametrize("table", ["refuse", ""], indirect=True)
    def test_refused(self, wh: Warehouse, table: Table) -> None:
        """What is refused names the option, in a program and on the command line."""
        with pytest.raises(TempuraError, match="there is a column price that table t does not have") as error:
            held(table)
        assert code(error) == "WRONG_SCHEMA"
        for remedy in (error.value.remedy, error.value.command):
            assert 'new_columns = "add" or "ignore" in tempura.toml' in remedy
        assert 'alter_table("t", add_columns="price …")' in error.value.remedy
        assert 'tempura table alter t --add-column "price …"' in error.value.command
        assert wh.status()["tables"]["t"]["version"] == 1

    @pytest.mark.parametrize("static", [False, True])
    def test_a_delta_table_without_its_feed_is_refused_at_once(self, wh: Warehouse, lake: Path, static: bool) -> None:
        commit(lake, 0, OFF, add("a"))
        if static:
            wh.add_table("t", path=lake, format="delta", schema="id INT", static=True)
            return
        with pytest.raises(TempuraError, match=r"the change feed of the Delta table at .* is off") as error:
            wh.add_table("t", path=lake, format="delta", schema="id INT")
        assert code(error) == "FEED_OFF"
        assert "delta.enableChangeDataFeed = true" in error.value.remedy
        assert "--static" in error.value.command
        assert not wh.status()["tables"]

    def test_also_when_it_is_made_after_it_was_declared(self, wh: Warehouse, lake: Path) -> None:
        table = wh.add_table("t", path=lake, format="delta", schema="id INT")
        commit(lake, 0, OFF, add("a"))
        with pytest.raises(TempuraError) as error:
            held(table)
        assert code(error) == "FEED_OFF"
        assert wh.status()["tables"]["t"]["version"] == 0

    def test_iceberg(self, wh: Warehouse, lake: Path, engine: BagEngine) -> None:
        metadata(lake, 1, ["append"])
        engine.lake_columns = "id INT"
        engine.lakes = {"1": [(1, "insert")], "2": [(2, 20, "insert")]}
        table = wh.add_table("t", path=lake, format="iceberg", new_columns="add")
        assert held(table) == SignedBag.of([(1,)])
        metadata(lake, 2, ["append", "append"])
        engine.lake_columns = "id INT, price INT"
        assert held(table) == SignedBag.of([(1, None), (2, 20)])


def test_what_cannot_be_said_of_new_columns(wh: Warehouse, lake: Path) -> None:
    for options in (
        {"path": lake, "format": "csv", "new_columns": "add"},
        {"new_columns": "add"},
        {"path": lake, "new_columns": "x"},
    ):
        with pytest.raises(TempuraError) as error:
            wh.add_table("sales", schema=NARROW, **options)
        assert code(error) == "BAD_OPTION"
    wh.add_table("sales", path=lake, schema=NARROW, new_columns="refuse")
    path = wh.path / "tempura.toml"
    path.write_text(path.read_text().replace('"refuse"', '"rename"'))
    with pytest.raises(TempuraError, match="new_columns = 'rename'") as error:
        wh.table("sales")
    assert code(error) == "BAD_TOML"
