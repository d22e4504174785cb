"""Tables that get more columns, over an engine without a JVM: what arrived before holds NULL in them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import summarise
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.manifests import sealed, to_bytes
from tempura.warehouse.sources.widening import add_columns, beginning, summaries, width
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import ALL, COUNT, BagEngine, Row, parse, write_rows

NARROW = "o_id INT, cat STRING"
WIDE = f"{NARROW}, price INT"


class World:
    def __init__(self, folder: Path) -> None:
        self.engine = BagEngine()
        self.lake = folder / "lake"
        self.lake.mkdir()
        self.wh = self.open(folder / "wh")

    def open(self, folder: Path) -> Warehouse:
        return open_site(folder, self.engine, Files(), lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))

    def put(self, name: str, rows: list[Row], ddl: str) -> None:
        write_rows(self.lake / f"{name}.parquet", parse(ddl), rows)

    def widen(self, column: str = "price INT") -> None:
        stored = self.stored()
        add_columns(stored.site.declarations, self.engine, "sales", stored.spec, parse(column).fields)

    def stored(self) -> Arrivals:
        return self.wh.table("sales")._arrivals

    def held(self) -> object:
        return self.wh.table("sales").df()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


def schema(ddl: str) -> StructType:
    return parse(ddl)


def test_a_schema_is_a_beginning_of_another() -> None:
    wide = schema(WIDE)
    assert width(schema(NARROW).simpleString(), wide) == 2
    assert width(wide.simpleString(), wide) == 3
    assert width(schema("o_id INT, price INT").simpleString(), wide) is None
    assert width(schema(f"{WIDE}, x INT").simpleString(), wide) is None
    assert beginning(wide, 2) == schema(NARROW)


class TestRows:
    def test_older_rows_of_a_managed_table_hold_null(self, world: World) -> None:
        table = world.wh.add_table("sales", schema=NARROW, keys=["o_id"])
        table.append([(1, "a"), (2, "b")])  # type: ignore[arg-type]
        world.widen()
        assert world.held() == SignedBag.of([(1, "a", None), (2, "b", None)])
        table = world.wh.table("sales")
        table.upsert([(2, "b", 7), (3, "c", 8)])  # type: ignore[arg-type]
        table.delete([(1, "a", None)])  # type: ignore[arg-type]
        assert world.held() == SignedBag.of([(2, "b", 7), (3, "c", 8)])

    def test_older_files_hold_null_whatever_lies_in_them(self, world: World) -> None:
        world.wh.add_table("sales", path=world.lake, schema=NARROW)
        world.put("a", [(1, "a", "not a number")], f"{NARROW}, price STRING")
        world.held()
        world.widen()
        world.put("b", [(2, "b", 5)], WIDE)
        world.put("c", [(3, "c")], NARROW)
        assert world.held() == SignedBag.of([(1, "a", None), (2, "b", 5), (3, "c", None)])

    def test_files_lack_added_columns_only(self, world: World) -> None:
        world.wh.add_table("sales", path=world.lake, schema=NARROW)
        world.widen()
        world.put("a", [(1, 5)], "o_id INT, price INT")
        with pytest.raises(TempuraError, match="column cat is missing") as error:
            world.held()
        assert code(error) == "WRONG_SCHEMA"

    def test_statistics_count_the_nulls_of_before(self, world: World) -> None:
        world.wh.add_table("sales", path=world.lake, schema=NARROW)
        world.put("a", [(1, "a"), (2, "b")], NARROW)
        world.held()
        world.widen()
        world.put("b", [(3, "b", 5), (4, "b", 5)], WIDE)
        world.put("c", [(5, "b")], NARROW)
        world.held()
        stored = world.stored()
        found = summarise(summaries(stored.arrivals(), stored.schema))
        assert found["price"].nulls == 3
        assert found["price"].high == 5.0


class TestDeclarations:
    def test_the_edit_is_atomic_and_can_be_repeated(self, world: World) -> None:
        world.wh.add_table("sales", schema=NARROW)
        stored = world.stored()
        world.widen()
        text = world.stored().site.declarations.path.read_text()
        assert 'added = ["price"]' in text
        world.widen()
        assert world.stored().site.declarations.path.read_text() == text
        with pytest.raises(TempuraError) as error:
            add_columns(stored.site.declarations, world.engine, "sales", stored.spec, parse("cost INT").fields)
        assert code(error) == "COMMIT_LOST"

    @pytest.mark.parametrize("column", ["cat INT", "CAT STRING", "price INT, PRICE INT"])
    def test_a_column_of_that_name_is_refused(self, world: World, column: str) -> None:
        world.wh.add_table("sales", schema=NARROW)
        with pytest.raises(TempuraError) as error:
            world.widen(column)
        assert code(error) == "SCHEMA_CHANGED"

    def test_the_first_declaration_is_still_the_same_table(self, world: World) -> None:
        world.wh.add_table("sales", schema=NARROW, keys=["o_id"])
        world.widen()
        for ddl in (None, NARROW, WIDE):
            again = world.wh.add_table("sales", path=None, schema=ddl or WIDE, keys=["o_id"])
            assert again.schema == parse(WIDE)
        with pytest.raises(TempuraError) as error:
            world.wh.add_table("sales", schema="o_id INT", keys=["o_id"])
        assert code(error) == "TABLE_EXISTS"

    def test_columns_are_not_taken_away(self, world: World) -> None:
        world.wh.add_table("sales", schema=NARROW).append([(1, "a")])  # type: ignore[arg-type]
        path = world.stored().site.declarations.path
        path.write_text(path.read_text().replace(", cat STRING", ""))
        with pytest.raises(TempuraError) as error:
            world.held()
        assert code(error) == "SCHEMA_CHANGED"


class TestQueries:
    def test_a_query_that_does_not_read_the_column_keeps_its_states(self, world: World) -> None:
        world.wh.add_table("sales", schema=NARROW).append([(n, "a") for n in range(200)])  # type: ignore[arg-type]
        query = world.wh.add_query("n", COUNT, schedule=Schedule.view())
        query.run(methods="im1")
        world.widen()
        world.wh.table("sales").append([(200, "b", 1)])  # type: ignore[arg-type]
        query = world.wh.query("n")
        query.run(methods="im1")
        assert "load" in query.steps()[1].plan
        assert query.result() == SignedBag.of([(201,)])
        assert query.verify()

    def test_a_query_that_reads_all_columns_is_another(self, world: World) -> None:
        world.wh.add_table("sales", schema=NARROW).append([(1, "a")])  # type: ignore[arg-type]
        held = world.wh.add_query("all", ALL, schedule=Schedule.view())
        held.run()
        world.widen()
        with pytest.raises(TempuraError, match="differs") as error:
            world.wh.query("all").run()
        assert code(error) == "QUERY_CHANGED"
        assert "tempura query replace all" in error.value.command
        world.wh.replace_query("all")
        query = world.wh.query("all")
        query.run()
        assert query.result() == SignedBag.of([(1, "a", None)])
        assert query.verify()

    def test_so_it_is_when_its_runs_did_not_note_the_columns(self, world: World) -> None:
        world.wh.add_table("sales", schema=NARROW).append([(1, "a")])  # type: ignore[arg-type]
        query = world.wh.add_query("all", ALL, schedule=Schedule.view())
        query.run()
        step = query.steps()[0].to_json()
        del step["schemas"]
        forget(world, "all", step)
        assert not world.open(world.wh.path).query("all").steps()[0].schemas
        world.widen()
        with pytest.raises(TempuraError) as error:
            world.wh.query("all").run()
        assert code(error) == "QUERY_CHANGED"


def forget(world: World, query: str, step: dict[str, object]) -> None:
    """Put a manifest in the place of the first."""
    (world.wh.path / "queries" / query / "steps" / "1.json").write_bytes(to_bytes(sealed(step)))
