"""Commands that look at tables and queries and lead on from any state, over a warehouse without a JVM."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

import tempura as tp
from tempura.cli.main import main
from tests.unit.bag_engine import SUMMARY
from tests.unit.test_refresh import FIRST, MANY, SECOND, World, joins_are_dear, world

__all__ = ["joins_are_dear", "world"]

Tempura = Callable[..., Result]


@pytest.fixture
def tempura(world: World, monkeypatch: pytest.MonkeyPatch) -> Tempura:
    """Run the command on the world's warehouse, with what is typed."""
    monkeypatch.setattr(tp, "open", lambda folder, spark=None: world.open())
    folder = str(world.wh.path)
    return lambda *arguments, input="": CliRunner().invoke(main, ["-C", folder, *arguments], input=input)


def test_table_list_and_show(world: World, tempura: Tempura) -> None:
    world.begun()
    world.wh.add_table("sums", query="summary")
    listed = tempura("table", "list").stdout
    assert "programs" in listed
    assert "query summary" in listed
    assert f"{world.lake} (parquet)" in listed
    found = json.loads(tempura("table", "list", "--json").stdout)
    assert list(found) == ["sales", "returns", "sums"]
    assert found["sales"]["rows"] == len(FIRST + MANY + SECOND)
    shown = json.loads(tempura("table", "show", "sales", "--json").stdout)
    assert (shown["name"], shown["read_by"], shown["version"]) == ("sales", ["summary"], 1)
    assert shown["arrivals"][0]["kind"] == "arrival"
    text = tempura("table", "show", "sales").stdout
    assert "summary" in text
    assert "o_id INT" in text
    missing = tempura("table", "show", "nothing")
    assert missing.exit_code == 1
    assert "[UNKNOWN_TABLE]" in missing.stderr


def test_the_remedy_of_a_refused_run_is_a_command_that_leads_on(world: World, tempura: Tempura) -> None:
    world.begun()
    (world.lake / "b.parquet").unlink()
    refused = tempura("run", "summary", "--methods", "im1")
    assert refused.exit_code == 1
    assert "[FILE_GONE]" in refused.stderr
    assert "tempura table refresh sales" in refused.stderr
    assert "refresh()" not in refused.stderr
    told = tempura("table", "refresh", "sales")
    assert told.exit_code == 0
    assert "version 2 (refresh): 0 rows inserted, 3 deleted" in told.stdout
    assert tempura("run", "summary", "--methods", "im1").exit_code == 0
    assert "its source is what has arrived" in tempura("table", "refresh", "sales").stdout
    assert json.loads(tempura("table", "refresh", "sales", "--json").stdout)["arrivals"] == []


def test_reset_asks_where_rows_are_kept_nowhere_else(world: World, tempura: Tempura) -> None:
    world.begun()
    assert tempura("table", "reset", "sales").exit_code == 0
    asked = tempura("table", "reset", "returns", input="n\n")
    assert asked.exit_code == 1
    assert "2 rows of returns are kept nowhere else" in asked.stderr
    assert world.wh.status()["tables"]["returns"]["rows"] == 2
    assert tempura("table", "reset", "returns", "--force").exit_code == 0
    assert world.wh.status()["tables"]["returns"]["rows"] == 0


def test_reset_leads_on_when_arrivals_are_lost(world: World, tempura: Tempura) -> None:
    world.begun()
    for name in ("sales", "returns"):
        (world.wh.path / "tables" / name / "arrivals" / "1.json").unlink()
    refused = tempura("run", "summary")
    assert "[LEDGER_BROKEN]" in refused.stderr
    assert tempura("table", "reset", "sales").exit_code == 0
    asked = tempura("table", "reset", "returns", input="n\n")
    assert asked.exit_code == 1
    assert "rows (LEDGER_BROKEN) of returns are kept nowhere else" in asked.stderr
    assert tempura("table", "reset", "returns", "--force").exit_code == 0
    assert tempura("run", "summary").exit_code == 0


def test_remove_and_rename(world: World, tempura: Tempura) -> None:
    world.begun()
    refused = tempura("table", "remove", "returns", "--force")
    assert refused.exit_code == 1
    assert "[TABLE_IN_USE]" in refused.stderr
    assert "tempura query remove" in refused.stderr
    world.wh.query("summary").output(world.folder / "mart")
    assert tempura("query", "rename", "summary", "totals").exit_code == 0
    removed = tempura("query", "remove", "totals")
    assert f"what it published stays: {world.folder / 'mart'}" in removed.stdout
    assert tempura("table", "rename", "returns", "refunds").exit_code == 0
    assert tempura("table", "remove", "refunds", input="n\n").exit_code == 1
    assert tempura("table", "remove", "refunds", input="y\n").exit_code == 0
    assert tempura("table", "remove", "sales").exit_code == 0
    assert json.loads(tempura("table", "list", "--json").stdout) == {}


def test_query_list(world: World, tempura: Tempura) -> None:
    world.begun().output(world.folder / "mart")
    found = json.loads(tempura("query", "list", "--json").stdout)
    assert found["summary"]["runs"] == 1
    assert found["summary"]["outputs"] == [str(world.folder / "mart")]
    text = tempura("query", "list").stdout
    assert str(world.folder / "mart") in text
    assert "view" in text


def test_query_show(world: World, tempura: Tempura, monkeypatch: pytest.MonkeyPatch) -> None:
    query = world.begun()
    world.wh.add_query("new", SUMMARY)
    assert json.loads(tempura("query", "show", "new", "--json").stdout)["reads"] == ["returns", "sales"]
    query.output(world.folder / "mart")
    monkeypatch.setattr(world.engine, "lift", None)  # what is known of a query that has run needs no Spark
    found = json.loads(tempura("query", "show", "summary", "--json").stdout)
    assert (found["name"], found["sql"], found["reads"]) == ("summary", SUMMARY, ["returns", "sales"])
    assert (found["methods"], found["require"], found["schedule"]["kind"]) == (["all"], None, "view")
    assert found["outputs"] == [str(world.folder / "mart")]
    assert [entry["n"] for entry in found["history"]] == [1]
    assert len(found["states"]) == found["history"][0]["states"] > 0
    assert sum(state["bytes"] for state in found["states"]) == found["state_bytes"]
    assert all(state["rows"] and state["holds"] and state["parts"] == 1 for state in found["states"])
    text = tempura("query", "show", "summary").stdout
    for word in (SUMMARY, "returns, sales", "holds", "refresh 1", str(world.folder / "mart")):
        assert word in text
    missing = tempura("query", "show", "nothing")
    assert "[UNKNOWN_QUERY]" in missing.stderr


def test_status_and_lists_show_the_others_beside_a_broken_one(world: World, tempura: Tempura) -> None:
    world.begun()
    assert tempura("status").exit_code == 0
    (world.wh.path / "tables" / "returns" / "arrivals" / "1.json").unlink()
    for command in (("status",), ("table", "list")):
        shown = tempura(*command)
        assert "table returns: [LEDGER_BROKEN]" in shown.stdout
        assert "tempura table reset returns" in shown.stdout
        assert str(len(FIRST + MANY + SECOND)) in shown.stdout, "the rows of the other table"
    assert tempura("status").exit_code == 1
    assert "error" in json.loads(tempura("status", "--json").stdout)["tables"]["returns"]
    (world.wh.path / "queries" / "summary" / "steps" / "1.json").write_text("{")
    listed = tempura("query", "list")
    assert "query summary: [LEDGER_CORRUPT]" in listed.stdout
    assert tempura("table", "reset", "returns", "--force").exit_code == 0


def test_alter(world: World, tempura: Tempura) -> None:
    world.begun()
    assert tempura("table", "alter", "returns", "--add-column", "why STRING").exit_code == 0
    assert world.wh.table("returns").schema.names == ["o_id", "cost", "why"]
    assert tempura("table", "alter", "returns").exit_code == 2
    gone = tempura("table", "alter", "sales", "--path", str(world.folder / "nowhere"))
    assert "[FOLDER_MISSING]" in gone.stderr


def test_what_nobody_declares_is_told_with_the_ways_on(world: World, tempura: Tempura) -> None:
    world.begun()
    path = world.wh.path / "tempura.toml"
    path.write_text(path.read_text().replace("[tables.returns]", "[tables.refunds]"))
    for command in ("status", "gc"):
        told = tempura(command).stdout
        assert "tables/returns is kept, but not declared" in told
        assert "tempura table rename returns NEW" in told
    assert tempura("table", "rename", "returns", "refunds").exit_code == 0
    assert "not declared" not in tempura("status").stdout


def test_references(world: World, tempura: Tempura) -> None:
    world.begun()
    world.wh.add_table("orders", schema="a INT, b INT", keys=["a", "b"])
    referring = ("table", "alter", "returns", "--references", "o_id, cost=orders(a, b)")
    assert tempura(*referring).exit_code == 0
    assert "o_id, cost -> orders(a, b)" in tempura("table", "show", "returns").stdout
    found = json.loads(tempura("table", "show", "returns", "--json").stdout)
    assert found["references"] == {"o_id, cost": "orders(a, b)"}
    assert tempura("table", "alter", "returns", "--references", "o_id").exit_code == 2
    assert "BAD_REFERENCES" in tempura("table", "alter", "returns", "--references", "o_id=orders.a").stderr
    assert tempura("table", "alter", "returns", "--no-references").exit_code == 0
    assert "references" not in json.loads(tempura("table", "show", "returns", "--json").stdout)
    added = tempura("table", "add", "lines", "--schema", "a INT, b INT", "--references", "a,b=orders(a,b)")
    assert added.exit_code == 0
    assert world.wh.table("lines").status()["references"] == {"a, b": "orders(a, b)"}
