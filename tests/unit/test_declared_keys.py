"""Declared keys in a warehouse: facts for every query that joins the table, at the versions at which no two rows have the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tempura.algebra.rel import Join, Rel, Scan
from tempura.algebra.scalar import Ref, equal
from tempura.errors import TempuraError
from tempura.memo.references import NO_KEYS, Keys
from tempura.rules.ojv_deltas import delta_left_join_of_stored
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.engine import Source
from tempura.warehouse.query import Query
from tempura.warehouse.tables.kept import kept
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.uses import Use
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse
from tests.unit import bag_engine
from tests.unit.bag_engine import columns_of
from tests.unit.test_killed import planned
from tests.unit.test_references import LINES, ORDERS, REFERENCES, World

LINES_OF_ORDERS = "orders with their lines, if they have any"
CUSTOMERS_OF_ORDERS = "customers of orders with lines"
ALL_ORDERS = "all orders"
DECLARED = 'keys = ["o_id"]'
UNIQUE = Keys(("o_id",))


def left_joined(*fields: str) -> Rel:
    orders = Scan("orders", fields, columns_of("o", *((name, "int") for name in fields)))
    lines = Scan("lines", ("o_id", "price"), columns_of("l", ("o_id", "int"), ("price", "int")))
    return Join(orders, lines, "left", equal(Ref(orders.columns[0]), Ref(lines.columns[0])))


def all_orders() -> Rel:
    return Scan("orders", ("o_id", "cust"), columns_of("o", ("o_id", "int"), ("cust", "int")))


class Orders(World):
    """Orders, which may have a key, and their lines."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, patch)
        patch.setitem(bag_engine.QUERIES, LINES_OF_ORDERS, lambda: left_joined("o_id", "cust"))
        patch.setitem(bag_engine.QUERIES, CUSTOMERS_OF_ORDERS, lambda: left_joined("cust"))
        patch.setitem(bag_engine.QUERIES, ALL_ORDERS, all_orders)

    def begun(self, sql: str = LINES_OF_ORDERS, keys: tuple[str, ...] = ("o_id",)) -> Query:  # type: ignore[override]
        """Two orders, one of which has lines, and a run."""
        self.wh.add_table("orders", schema=ORDERS, keys=list(keys))
        self.wh.add_table("lines", schema=LINES)
        query = self.wh.add_query("q", sql=sql, schedule=Schedule.view())
        self.push("orders", (1, 10), (2, 20))
        self.push("lines", (1, 1, 5), (2, 1, 6))
        query.run(methods=["ojv"])
        return query

    def declare(self) -> Query:
        """Declare the key, as one does by hand."""
        toml = self.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace("[tables.orders]", f"[tables.orders]\n{DECLARED}"))
        return self.open().query("q")

    def ran(self, query: Query) -> tuple[int, ...]:
        """Run a query, whose result is right. How many rows were looked at for their keys."""
        looked = list[int]()
        plain = type(self.engine).duplicate

        def watched(present: Source, arriving: Rows, keys: tuple[str, ...]) -> str | None:
            looked.append(bag_engine.bag(Source(present.schema, arriving), present.schema.names).size)
            return plain(self.engine, present, arriving, keys)

        self.engine.duplicate = watched  # type: ignore[method-assign,assignment]
        try:
            query.run(methods=["ojv"], now=True)
        finally:
            del self.engine.duplicate
        assert query.verify()
        return tuple(looked)

    def apply(self, *changes: tuple[object, ...]) -> None:
        self.wh.table("orders").apply(list(changes))  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    monkeypatch.setattr(follow, "make_plan", planned)
    return Orders(tmp_path, monkeypatch)


def refused(act: Callable[[], object]) -> TempuraError:
    with pytest.raises(TempuraError) as error:
        act()
    assert error.value.code == "DUPLICATE_KEY"
    return error.value


class TestFacts:
    def test_a_key_is_a_fact_without_a_reference_and_nothing_is_looked_at(self, world: Orders) -> None:
        query = world.begun()
        assert world.keys("orders") == UNIQUE
        assert world.keys("lines") == NO_KEYS
        world.push("orders", (3, 10))
        world.wh.table("lines").delete([(2, 1, 6)])  # type: ignore[arg-type]
        assert world.ran(query) == ()
        assert world.keys("orders") == UNIQUE
        assert not list(world.wh.path.rglob("keys.json"))

    def test_a_left_join_is_maintained_by_it(self, world: Orders) -> None:
        """Of many lines few are of these orders."""
        query = world.begun()
        world.push("lines", *((n, n, n) for n in range(3, 5_000)))
        query.run(methods=["ojv"])
        world.wh.table("lines").delete([(1, 1, 5), (2, 1, 6)])  # type: ignore[arg-type]
        plan = query.plan(methods=["ojv"]).plan
        assert delta_left_join_of_stored.name in {note.rule for step in plan.steps for note in step.notes.values()}
        world.ran(query)

    @pytest.mark.parametrize("sql", [ALL_ORDERS, CUSTOMERS_OF_ORDERS])
    def test_it_is_none_where_no_law_could_use_it(self, world: Orders, sql: str) -> None:
        world.begun(sql)
        assert world.facts["orders"].keys == NO_KEYS

    def test_a_table_without_rows_has_its_key(self, world: Orders) -> None:
        world.wh.add_table("orders", schema=ORDERS, keys=["o_id"])
        world.wh.add_table("lines", schema=LINES)
        query = world.wh.add_query("q", sql=LINES_OF_ORDERS, schedule=Schedule.view())
        world.push("lines", (1, 1, 5))
        assert world.ran(query) == ()
        assert world.keys("orders") == UNIQUE

    def test_a_reference_to_it_is_told_beside_it(self, world: Orders) -> None:
        world.tables(REFERENCES)
        world.wh.add_query("left", sql=LINES_OF_ORDERS, schedule=Schedule.view()).run()
        assert world.keys("orders") == UNIQUE
        assert [reference.table for reference in world.keys("lines").references] == ["orders"]

    def test_uses_of_a_table_have_its_key_at_their_versions(self, world: Orders) -> None:
        world.begun(keys=())
        world.push("orders", (1, 11))
        world.declare()
        query = left_joined("o_id", "cust")
        lines, orders = (world.wh.table(name).arrivals for name in ("lines", "orders"))
        earlier = {"lines": Use("lines", lines, 1), "orders": Use("orders", orders, 1)}
        assert kept(query, earlier, [{"lines": 1, "orders": 1}]) == {"orders": UNIQUE}
        later = earlier | {"orders": Use("orders", orders, 2)}
        refused(lambda: kept(query, later, [{"lines": 1, "orders": 2}]))

    def test_plans_look_at_nothing(self, world: Orders) -> None:
        world.begun(keys=())
        world.push("orders", (1, 11))
        world.declare().plan()
        assert world.keys("orders") == UNIQUE


class TestArrivals:
    def test_a_second_row_of_a_key_is_refused_when_it_comes(self, world: Orders) -> None:
        query = world.begun()
        for push in ("append", "apply"):
            row = (1, 11) if push == "append" else (1, 11, "insert")
            refused(lambda push=push, row=row: getattr(world.wh.table("orders"), push)([row]))  # type: ignore[misc]
        world.ran(query)
        assert world.keys("orders") == UNIQUE

    def test_null_is_a_value_that_one_row_may_have(self, world: Orders) -> None:
        query = world.begun()
        world.push("orders", (None, 30))
        world.push("lines", (3, None, 7))
        refused(lambda: world.push("orders", (None, 31)))
        assert world.ran(query) == ()
        assert world.keys("orders") == UNIQUE

    def test_a_row_may_take_the_place_of_another_in_one_arrival(self, world: Orders) -> None:
        query = world.begun()
        world.apply((1, 10, "delete"), (1, 12, "insert"))
        world.ran(query)
        world.apply((1, 13, "update"), (2, 20, "delete"))
        world.push("orders", (2, 21))
        assert world.ran(query) == ()
        assert world.keys("orders") == UNIQUE

    def test_parts_of_a_transaction_are_compared_one_after_the_other(self, world: Orders) -> None:
        query = world.begun()
        with world.wh.transaction() as transaction:
            transaction.table("orders").append([(3, 30)])
            transaction.table("orders").delete([(1, 10)])
        assert world.ran(query) == ()
        assert world.keys("orders") == UNIQUE

    def test_a_table_that_begins_anew_keeps_its_promise(self, world: Orders) -> None:
        query = world.begun()
        world.wh.table("orders").reset()
        world.push("orders", (1, 11))
        assert world.ran(query) == ()
        assert world.keys("orders") == UNIQUE


class TestDeclaredLater:
    """Rows that came before their key was declared were compared with none."""

    def test_they_are_looked_at_once(self, world: Orders) -> None:
        world.begun(keys=())
        query = world.declare()
        world.push("orders", (3, 30))
        assert world.ran(query) == (3, 2), "the version of the run, and that of the states"
        assert world.keys("orders") == UNIQUE
        world.push("orders", (4, 40))
        assert world.ran(query) == ()
        assert world.keys("orders") == UNIQUE
        other = world.wh.add_query("other", sql=LINES_OF_ORDERS, schedule=Schedule.view())
        assert world.ran(other) == (), "nor for another query"

    def test_two_of_a_key_refuse_the_run_and_nothing_is_lost(self, world: Orders) -> None:
        query = world.begun(keys=())
        world.push("orders", (1, 11))
        query.run(methods=["ojv"])
        query = world.declare()
        world.push("lines", (3, 2, 7))
        error = refused(lambda: query.run(now=True))
        assert "Table orders: more than one row has the key (1,)" in error.what
        assert len(query.history()) == 2
        refused(lambda: query.run(now=True))
        world.wh.table("orders").delete([(1, 11)])  # type: ignore[arg-type]
        world.ran(query)
        assert world.keys("orders") == NO_KEYS, "the states are of a past in which two rows had one key"
        world.push("orders", (3, 30))
        world.ran(query)
        assert world.keys("orders") == UNIQUE

    def test_a_query_that_cannot_use_the_key_is_not_held_up(self, world: Orders) -> None:
        world.begun(ALL_ORDERS, keys=())
        world.push("orders", (1, 11))
        assert world.ran(world.declare()) == ()

    def test_what_is_taken_back_is_not_asked(self, world: Orders) -> None:
        world.begun(keys=())
        world.push("orders", (1, 11))
        query = world.declare()
        refused(lambda: query.run(now=True))
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace(DECLARED, ""))
        assert world.ran(world.open().query("q")) == ()
        assert world.keys("orders") == NO_KEYS

    def test_what_came_while_it_was_not_declared_is_looked_at(self, world: Orders) -> None:
        world.begun()
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace(DECLARED, ""))
        world.open().table("orders").append([(1, 11)])  # type: ignore[arg-type]
        refused(lambda: world.declare().run(now=True))

    def test_another_key_is_another_promise(self, world: Orders) -> None:
        world.begun()
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace('["o_id"]', '["cust"]'))
        query = world.open().query("q")
        world.push("orders", (3, 30))
        assert world.ran(query) == (3, 2)
        assert world.keys("orders") == Keys(("cust",))

    def test_a_note_that_is_damaged_is_made_anew(self, world: Orders) -> None:
        world.begun(keys=())
        query = world.declare()
        world.push("orders", (3, 30))
        world.ran(query)
        note = world.wh.path / "tables/orders/keys.json"
        whole = note.read_text()
        assert '"version": 2' in whole
        for damaged in (whole.replace('"version": 2', '"version": 3'), whole[:40], ""):
            note.write_text(damaged)
            world.push("orders", (len(world.wh.table("orders").arrivals.arrivals()) + 9, 0))
            assert len(world.ran(query)) == 2
            assert '"version"' in note.read_text()
        note.unlink()
        world.push("orders", (99, 0))
        assert len(world.ran(query)) == 2

    def test_a_note_of_a_table_that_was_made_anew_counts_no_more(self, world: Orders) -> None:
        world.begun(keys=())
        query = world.declare()
        world.push("orders", (3, 30))
        world.ran(query)
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace(DECLARED, ""))
        wh: Warehouse = world.open()
        wh.table("orders").reset()
        wh.table("orders").append([(1, 10), (1, 11)])  # type: ignore[arg-type]
        refused(lambda: world.declare().run(now=True))

    def test_a_past_whose_rows_are_gone_is_no_error(self, world: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
        world.begun(keys=())
        query = world.declare()
        world.push("orders", (3, 30))
        whole = Arrivals.source

        def gone(table: Arrivals, after: int, upto: int) -> Source:
            if (table.name, after, upto) == ("orders", 0, 1):
                raise TempuraError("ROWS_UNKNOWN", "They are gone.", "")
            return whole(table, after, upto)

        monkeypatch.setattr(Arrivals, "source", gone)
        query.run(methods=["ojv"], now=True)
        assert world.keys("orders") == NO_KEYS
