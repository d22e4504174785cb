"""References of tables in a warehouse: declared, looked at by what is new, refused when broken, noted with versions."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tempura.algebra.rel import Aggregate, Join, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref, equal
from tempura.cost.stats import TableFacts
from tempura.errors import TempuraError
from tempura.memo.references import NO_KEYS, Keys, Reference
from tempura.search.problem import Problem
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.runs import situation
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import BagEngine, columns_of, parse, write_rows
from tests.unit.dying import killed
from tests.unit.test_killed import planned

JOINED = "price of lines per customer of their orders"
ORDERS, LINES = "o_id INT, cust INT", "l_id INT, o_id INT, price INT"
REFERENCES = {"o_id": "orders.o_id"}
FACT = Reference(("o_id",), "orders", ("o_id",), total=True)


def joined_rel() -> Rel:
    orders = columns_of("o", ("o_id", "int"), ("cust", "int"))
    lines = columns_of("l", ("o_id", "int"), ("price", "int"))
    scans = Scan("lines", ("o_id", "price"), lines), Scan("orders", ("o_id", "cust"), orders)
    joined = Join(*scans, "inner", equal(Ref(lines[0]), Ref(orders[0])))
    total = AggregateCall("Sum", (Ref(lines[1]),), "bigint", detail="ansi")
    output = AggregateOutput(Column("total", "total", "bigint"), total)
    return Aggregate(joined, (Output(Column("key", "cust", "int"), Ref(orders[1])),), (output,))


class World:
    """A warehouse with orders and their lines, and the facts that its last plan was made with."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        patch.setitem(bag_engine.QUERIES, JOINED, joined_rel)
        self.facts: dict[str, TableFacts] = {}
        patch.setattr(situation, "Problem", self._posed)
        self.open()

    def _posed(self, query: Rel, points: Any, tables: dict[str, TableFacts], *others: Any, **more: Any) -> Problem:
        self.facts = tables
        return Problem(query, points, tables, *others, **more)

    def open(self, files: Files | None = None) -> Warehouse:
        self.engine = BagEngine()
        self.wh = open_site(self.folder / "wh", self.engine, files or Files())
        return self.wh

    def tables(self, references: dict[str, str] | None = None) -> Query:
        self.wh.add_table("orders", schema=ORDERS, keys=["o_id"])
        self.wh.add_table("lines", schema=LINES, references=references)
        return self.wh.add_query("q", sql=JOINED, schedule=Schedule.view())

    def push(self, table: str, *rows: tuple[object, ...]) -> None:
        self.wh.table(table).append(list(rows))  # type: ignore[arg-type]

    def keys(self, table: str) -> Keys:
        return self.facts[table].keys

    def begun(self, references: dict[str, str] | None = None) -> Query:
        """Two orders with three lines, and a run."""
        query = self.tables(REFERENCES if references is None else references)
        self.push("orders", (1, 10), (2, 20))
        self.push("lines", (1, 1, 5), (2, 1, 6), (3, 2, 7))
        query.run()
        return query


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(follow, "make_plan", planned)
    return World(tmp_path, monkeypatch)


def refused(query: Query) -> TempuraError:
    with pytest.raises(TempuraError) as error:
        query.run()
    assert error.value.code == "REFERENCE_BROKEN"
    return error.value


class TestRuns:
    def test_what_was_looked_at_is_a_fact_and_only_what_is_new_is_looked_at_again(self, world: World) -> None:
        query = world.begun()
        assert world.keys("lines") == Keys((), (FACT,))
        assert world.keys("orders") == Keys(("o_id",))
        world.push("orders", (3, 10))
        world.push("lines", (4, 3, 1), (5, 1, 2))
        query.run()
        assert world.engine.lookups == [3, 2]
        assert query.verify()
        again = world.open().query("q")
        again.run(now=True)
        assert world.engine.lookups == [], "what a process has looked at, another does not"
        assert world.keys("lines") == Keys((), (FACT,))

    def test_another_query_does_not_look_again(self, world: World) -> None:
        world.begun()
        world.wh.add_query("other", sql=JOINED, schedule=Schedule.view()).run()
        assert world.engine.lookups == [3]
        assert world.keys("lines").references == (FACT,)

    def test_deltas_have_one_side(self, world: World) -> None:
        query = world.begun()
        world.push("orders", (3, 10))
        world.push("lines", (4, 3, 1), (5, 1, 2))
        plan = query.plan(methods=["im1"])
        rules = {note.rule for step in plan.plan.steps for note in step.notes.values()}
        assert rules & {"delta_join_by_reference", "delta_inner_join_left_old"}
        query.run(methods=["im1"])
        assert query.verify()

    def test_a_row_without_partner_is_refused_and_nothing_is_lost(self, world: World) -> None:
        query = world.begun()
        world.push("lines", (4, 7, 1), (5, None, 2), (6, 1, 3))
        error = refused(query)
        assert "o_id refers to orders.o_id" in error.what
        assert "(4, 7, 1)" in error.what
        assert "(6, 1, 3)" not in error.what
        refused(query)
        assert len(query.history()) == 1
        world.push("orders", (7, 70))
        query.run()
        assert query.verify()
        assert world.keys("lines").references == (Reference(("o_id",), "orders", ("o_id",), total=False),)

    def test_a_partner_that_goes_before_its_rows_is_refused(self, world: World) -> None:
        query = world.begun()
        world.wh.table("orders").delete([(2, 20)])  # type: ignore[arg-type]
        assert "(3, 2, 7)" in refused(query).what
        world.wh.table("lines").delete([(3, 2, 7)])  # type: ignore[arg-type]
        query.run()
        assert query.verify()

    def test_a_partner_may_be_put_in_the_place_of_another(self, world: World) -> None:
        query = world.begun()
        world.wh.table("orders").upsert([(2, 21)])  # type: ignore[arg-type]
        world.push("lines", (4, 2, 1))
        query.run()
        assert query.verify()

    def test_a_row_that_came_and_went_needs_no_partner(self, world: World) -> None:
        query = world.begun()
        world.push("lines", (4, 7, 1))
        world.wh.table("lines").delete([(4, 7, 1)])  # type: ignore[arg-type]
        query.run()
        assert query.verify()

    def test_rows_that_were_there_before_the_promise_are_looked_at(self, world: World) -> None:
        query = world.begun({})
        assert world.keys("lines") == NO_KEYS
        world.push("lines", (4, 7, 1))
        query.run()
        world.wh.alter_table("lines", references=REFERENCES)
        assert "(4, 7, 1)" in refused(world.wh.query("q")).what
        world.push("orders", (7, 70))
        query = world.wh.query("q")
        query.run()
        assert query.verify()

    def test_what_was_not_kept_in_the_past_is_no_fact_until_states_are_newer(self, world: World) -> None:
        query = world.begun({})
        world.push("lines", (4, 7, 1))
        query.run(methods=["im1"])
        assert any(step.states for step in query.committed().steps), (
            "there are states of a past in which it was not kept"
        )
        world.wh.alter_table("lines", references=REFERENCES)
        world.push("orders", (7, 70))
        query = world.wh.query("q")
        query.run(methods=["im1"])
        assert world.keys("lines") == NO_KEYS
        assert query.verify()
        world.push("lines", (5, 7, 2))
        query.run(methods=["im1"])
        assert world.keys("lines").references == (FACT,)
        assert query.verify()

    def test_keys_that_were_declared_later_are_looked_at(self, world: World) -> None:
        world.wh.add_table("orders", schema=ORDERS)
        world.push("orders", (1, 10), (1, 11))
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace("[tables.orders]", '[tables.orders]\nkeys = ["o_id"]'))
        world.wh.add_table("lines", schema=LINES, references=REFERENCES)
        world.push("lines", (1, 1, 5))
        query = world.wh.add_query("q", sql=JOINED, schedule=Schedule.view())
        assert "more than one row of orders has the key" in refused(query).what
        world.wh.table("orders").delete([(1, 11)])  # type: ignore[arg-type]
        query.run()
        assert query.verify()

    def test_a_note_that_is_damaged_is_made_anew(self, world: World) -> None:
        query = world.begun()
        note = world.folder / "wh/tables/lines/references.json"
        note.write_text(note.read_text().replace('"rows": 1', '"rows": 2'))
        world.push("lines", (4, 7, 1))
        refused(query)
        assert world.engine.lookups == [3, 4]

    def test_a_table_that_begins_anew_is_looked_at_anew(self, world: World) -> None:
        query = world.begun()
        world.wh.table("lines").reset()
        world.push("lines", (4, 7, 1))
        assert "(4, 7, 1)" in refused(query).what
        world.wh.table("orders").reset()
        world.push("orders", (7, 10))
        query.run()
        assert query.verify()

    def test_a_promise_that_is_taken_back_is_none(self, world: World) -> None:
        query = world.begun()
        world.push("lines", (4, 7, 1))
        refused(query)
        world.wh.alter_table("lines", references={})
        query = world.wh.query("q")
        query.run()
        assert world.keys("lines") == NO_KEYS
        assert query.verify()

    def test_files_of_folders(self, world: World) -> None:
        for name, ddl, rows in (("orders", ORDERS, [(1, 10)]), ("lines", LINES, [(1, 1, 5)])):
            write_rows(world.folder / name / "a.parquet", parse(ddl), rows)
            keys = ["o_id"] if name == "orders" else []
            references = {} if keys else REFERENCES
            world.wh.add_table(name, path=world.folder / name, schema=ddl, keys=keys, references=references)
        query = world.wh.add_query("q", sql=JOINED, schedule=Schedule.view())
        query.run()
        write_rows(world.folder / "lines/b.parquet", parse(LINES), [(2, 2, 5)])
        refused(query)
        write_rows(world.folder / "orders/b.parquet", parse(ORDERS), [(2, 10)])
        query.run()
        assert query.verify()

    def test_plans_and_dry_runs_look_at_nothing(self, world: World) -> None:
        query = world.tables(REFERENCES)
        world.push("lines", (1, 1, 5))
        query.plan()
        query.run(dry_run=True)
        assert world.engine.lookups == []
        assert not (world.folder / "wh/tables/lines/references.json").exists()


def test_a_table_in_which_nothing_has_arrived_refers_to_one_with_rows(world: World) -> None:
    query = world.tables(REFERENCES)
    world.push("orders", (1, 10))
    assert query.run().rows == 0
    world.push("lines", (1, 1, 5))
    assert query.run().rows == 1
    assert world.keys("lines") == Keys(references=(FACT,))


def test_a_run_that_is_killed_is_run_again(world: World) -> None:
    world.begun()
    world.push("orders", (3, 10))
    world.push("lines", (4, 3, 1), (5, 1, 2))
    kept = world.folder / "kept"
    shutil.copytree(world.folder / "wh", kept)

    def scenario(files: Files) -> None:
        world.open(files).query("q").run(methods=["im1"])

    n = 0
    while killed(scenario, n := n + 1):
        wh = world.open()
        found = wh.query("q")
        found.run(methods=["im1"])
        assert found.verify(), n
        shutil.rmtree(world.folder / "wh")
        shutil.copytree(kept, world.folder / "wh")
    assert n > 10


class TestDeclarations:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"o_id": "order.o_id"}, "no table order"),
            ({"o_id": "orders.id"}, "no column id"),
            ({"id": "orders.o_id"}, "no column id"),
            ({"o_id": "orders.cust"}, "not the key of orders"),
            ({"o_id": "orders"}, "refers to 'orders'"),
            ({"o_id": "orders.o_id.x"}, "refers to 'orders.o_id.x'"),
            ({"o_id, l_id": "orders.o_id"}, "2 columns"),
            ({"o_id, o_id": "orders(o_id, cust)"}, "twice"),
            ({"name": "orders.o_id"}, "name is string, and o_id is int"),
            ({"o_id": 7}, "refers to 7"),
        ],
    )
    def test_what_cannot_be_is_refused(self, world: World, given: dict[str, str], told: str) -> None:
        world.wh.add_table("orders", schema=ORDERS, keys=["o_id"])
        with pytest.raises(TempuraError, match=told) as error:
            world.wh.add_table("lines", schema=LINES + ", name STRING", references=given)
        assert error.value.code == "BAD_REFERENCES"
        assert "lines" not in {table.name for table in world.wh.tables()}

    def test_several_columns_and_the_same_declaration_again(self, world: World) -> None:
        world.wh.add_table("pairs", schema="a INT, b INT", keys=["b", "a"])
        for spelled in ("pairs(a, b)", " pairs( a,b ) "):
            world.wh.add_table("lines", schema=LINES, references={"o_id,price": spelled})
        about = world.wh.table("lines").status()
        assert about["references"] == {"o_id, price": "pairs(a, b)"}

    def test_what_others_refer_to_is_neither_removed_nor_renamed(self, world: World) -> None:
        world.tables(REFERENCES)
        world.wh.remove_query("q")
        for change in (world.wh.remove_table, lambda name: world.wh.rename_table(name, "other")):
            with pytest.raises(TempuraError, match="lines refers to it") as error:
                change("orders")
            assert error.value.code == "TABLE_IN_USE"
        world.wh.alter_table("lines", references={})
        world.wh.remove_table("orders")

    def test_a_wrong_edit_is_told(self, world: World) -> None:
        world.begun()
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace('"orders.o_id"', '"orders.cust"'))
        with pytest.raises(TempuraError, match="not the key") as error:
            world.open().query("q").run(now=True)
        assert error.value.code == "BAD_REFERENCES"
