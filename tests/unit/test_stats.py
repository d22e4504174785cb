"""``tempura stats``: what is known of tables, what is said of them by hand, and that plans are made of it."""

import json
from datetime import date
from decimal import Decimal

import pytest

from tempura.cli.stats import end
from tempura.cost.stats import ColumnStats
from tempura.errors import TempuraError
from tempura.warehouse.declared.declared_stats import ColumnTold, told_of
from tempura.warehouse.tables.facts import forecast_of, table_facts
from tempura.warehouse.tables.take import register
from tests.unit.test_cli_tables import Tempura, tempura
from tests.unit.test_refresh import World, code, joins_are_dear, world

__all__ = ["joins_are_dear", "tempura", "world"]


def planned_with(world: World, column: str) -> ColumnStats:
    sales = world.wh.table("sales").arrivals
    version = sales.version()
    return table_facts(sales, [version], forecast_of(sales, version, (), ())).columns[column]


def test_what_is_known_and_from_what(world: World) -> None:
    world.begun()
    found = world.wh.table("sales").stats()
    assert (found["table"], found["version"], found["rows"]) == ("sales", 1, 308)
    cat, price, key = (found["columns"][name] for name in ("cat", "price", "o_id"))
    assert (cat["type"], cat["distinct"], cat["least"]) == ("string", 3, None)
    assert cat["nulls"] == pytest.approx(1 / 308)
    assert cat["from"] == {
        "distinct": "sketch of 308 of 308 rows",
        "frequent": "sketch of 308 of 308 rows",
        "nulls": "footer",
        "width": "footer",
    }
    assert {entry["value"] for entry in cat["frequent"]} == {"c0", "c1", "c2"}
    assert sum(entry["share"] for entry in cat["frequent"]) == pytest.approx(307 / 308)
    assert (price["least"], price["greatest"]) == (100, 399)
    assert key["distinct"] == len({1, 2, 3, 4, 5, 6, 7, *range(100, 400)})


def test_before_a_query_runs_columns_are_looked_at_and_nothing_is_kept(world: World) -> None:
    world.put("a.parquet", [(1, "a", 1), (2, "a", 1)])
    world.query()
    register(world.wh.table("sales").arrivals)
    about = world.wh.table("sales").stats()["columns"]["cat"]
    assert (about["distinct"], about["frequent"]) == (1, [{"value": "a", "share": 1.0}])
    assert about["from"]["distinct"] == "sketch of 2 of 2 rows"
    assert world.wh.table("returns").stats()["columns"]["cost"]["from"]["distinct"] == "sketch of 2 of 2 rows"
    assert not list(world.wh.path.rglob("sketches.json"))


def test_of_a_table_without_rows_nothing_is_known(world: World) -> None:
    world.query()
    about = world.wh.table("sales").stats()["columns"]["cat"]
    assert (about["distinct"], about["nulls"], about["from"]) == (None, None, {})


def test_what_is_said_by_hand_counts_in_plans_until_it_is_taken_back(world: World) -> None:
    world.begun()
    seen, sales = planned_with(world, "price"), world.wh.table("sales")
    sales.set_stats("price", distinct=12, least=-5)
    sales.set_stats("price", nulls=0.25, greatest=1e6)
    told = planned_with(world, "price")
    assert (told.distinct, told.null_fraction, told.low, told.high) == (12, 0.25, -5, 1e6)
    assert told.width == seen.width
    about = world.wh.table("sales").stats()["columns"]["price"]
    assert (about["distinct"], about["nulls"], about["least"], about["greatest"]) == (12, 0.25, -5, 1_000_000)
    assert [about["from"][name] for name in ("distinct", "nulls", "least")] == ["set by hand"] * 3
    text = (world.wh.path / "tempura.toml").read_text()
    assert "[tables.sales.stats.price]" in text
    assert "distinct = 12\n" in text
    assert world.wh.query("summary").run(methods="im1") is not None
    assert world.wh.query("summary").verify()
    world.wh.table("sales").unset_stats("price")
    assert planned_with(world, "price") == seen
    assert "stats" not in (world.wh.path / "tempura.toml").read_text()


def test_dates_are_said_as_dates() -> None:
    assert told_of("it", {"least": date(1970, 1, 11)}) == ColumnTold(least=10)
    assert end("2026-03-01") == date(2026, 3, 1)
    assert end("-1.5") == -1.5
    assert end(None) is None


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"distinct": 0}, "distinct is 0"),
        ({"nulls": 1.5}, "nulls is 1.5"),
        ({"width": 0}, "width is 0"),
        ({"least": 2, "greatest": 1}, "least is 2, greatest 1"),
        ({"distinct": float("nan")}, "distinct is nan"),
        ({"distinct": True}, "distinct is True"),
        ({"distinct": "many"}, "distinct is 'many'"),
        ({"distinct": 10**400}, "distinct is 1000"),
        ({"greatest": Decimal("1e400")}, "greatest is Decimal"),
        ({"least": -(10**400)}, "least is -1000"),
        ({"heavy": 1}, "unknown heavy"),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, object], what: str) -> None:
    with pytest.raises(TempuraError) as error:
        told_of("Column price", said)
    assert code(error) == "BAD_STATS"
    assert what in error.value.what


def test_a_column_that_is_not_there_is_refused_when_said_and_when_planned(world: World) -> None:
    world.begun()
    with pytest.raises(TempuraError) as error:
        world.wh.table("sales").set_stats("no such", distinct=1)
    assert code(error) == "BAD_STATS"
    toml = world.wh.path / "tempura.toml"
    toml.write_text(toml.read_text() + "\n[tables.sales.stats.nothing]\ndistinct = 4\n")
    with pytest.raises(TempuraError) as error:
        world.wh.query("summary").plan()
    assert code(error) == "BAD_STATS"
    toml.write_text(toml.read_text().replace("[tables.sales.stats.nothing]\ndistinct", "[tables.sales.stats]\nnothing"))
    with pytest.raises(TempuraError) as error:
        world.wh.query("summary").plan()
    assert code(error) == "BAD_TOML"


def test_the_commands(world: World, tempura: Tempura) -> None:
    world.begun()
    assert json.loads(tempura("stats", "sales", "--json").stdout) == world.wh.table("sales").stats()
    assert [about["table"] for about in json.loads(tempura("stats", "--json").stdout)] == ["sales", "returns"]
    shown = tempura("stats", "sales").stdout
    assert "table sales, version 1: 308 rows" in shown
    assert "sketch of 308 of 308 rows" in shown
    assert "c1 (" in shown
    said = tempura("stats", "set", "sales", "price", "--distinct", "12", "--nulls", "0.5", "--greatest", "700")
    assert (said.exit_code, said.stdout) == (0, "said of sales.price: distinct 12.0, nulls 0.5, greatest 700\n")
    assert "distinct, NULLs, greatest: set by hand" in tempura("stats", "show", "sales").stdout
    assert tempura("stats", "unset", "sales").exit_code == 0
    assert "by hand" not in tempura("stats", "sales").stdout
    refused = tempura("stats", "set", "sales", "price", "--nulls", "2")
    assert refused.exit_code == 1
    assert "[BAD_STATS]" in refused.stderr
    assert tempura("stats", "set", "sales", "price").exit_code == 2
    assert tempura("stats", "set", "sales", "price", "--least", "soon").exit_code == 2
    assert "[UNKNOWN_TABLE]" in tempura("stats", "nothing").stderr
