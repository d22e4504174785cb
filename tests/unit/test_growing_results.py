"""Results that share what they have in common: what a refresh writes, what the garbage collector keeps, and what is published."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.types import StructType

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Filter, Rel, Scan
from tempura.algebra.scalar import Call, Literal, Ref
from tempura.cost.model import SPARK
from tempura.errors import TempuraError
from tempura.warehouse.query import Query
from tempura.warehouse.times.schedule import Schedule
from tests.unit import bag_engine
from tests.unit.bag_engine import BagEngine, Row, columns_of, listed, write_rows
from tests.unit.test_warehouse import SALES, World
from tests.unit.test_warehouse_outputs import shown

DEAR = "sales above 100"
ABOVE = "all of those"
CHOSEN = "chosen columns of all sales"
ROWS = 2_000
FIRST: list[Row] = [(i, f"c{i % 7}", i) for i in range(ROWS)]


def dear(table: str = "sales") -> Rel:
    sales = columns_of("s", ("o_id", "int"), ("cat", "string"), ("price", "int"))
    above = Call("GreaterThan", (Ref(sales[2]), Literal(100, "int")), "boolean")
    return Filter(Scan(table, ("o_id", "cat", "price"), sales), above)


def chosen() -> Rel:
    return Scan("sales", ("cat", "price"), columns_of("s", ("cat", "string"), ("price", "int")))


def write(engine: BagEngine, rows: Any, schema: StructType, folder: Path, table: str) -> None:
    """As on Spark: no two files have one name."""
    write_rows(folder / f"part-{uuid4()}.parquet", schema, listed(rows))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setitem(bag_engine.QUERIES, DEAR, dear)
    monkeypatch.setitem(bag_engine.QUERIES, ABOVE, lambda: dear("dear_ones"))
    monkeypatch.setitem(bag_engine.QUERIES, CHOSEN, chosen)
    monkeypatch.setattr(BagEngine, "write", write)
    world = World(tmp_path)
    # To write a hundred rows again takes about as long as to open a file.
    world.engine.prices = replace(SPARK, file=20_000)
    world.wh.add_table("sales", schema=SALES)
    come(world, *FIRST)
    return world


def dear_sales(world: World) -> Query:
    return world.wh.add_query("dear", DEAR, schedule=Schedule.view())


def come(world: World, *rows: Row) -> None:
    world.wh.table("sales").append(list(rows))  # type: ignore[arg-type]


def go(world: World, *rows: Row) -> None:
    world.wh.table("sales").delete(list(rows))  # type: ignore[arg-type]


def parts(query: Query) -> list[int]:
    """The rows of each part of the last result."""
    output = query.steps()[-1].output
    assert output is not None
    return [part.rows for part in output.parts]


def rows_of(query: Query) -> SignedBag:
    found: object = query.result()
    assert isinstance(found, SignedBag)
    return found


def expected(*rows: Row) -> SignedBag:
    return SignedBag.of([row for row in (*FIRST, *rows) if isinstance(row[2], int) and row[2] > 100])


def test_rows_that_come_are_appended(world: World) -> None:
    query = dear_sales(world)
    query.run(methods="im1")
    new: list[Row] = [(1, "c1", 900), (1, "c1", 900), (2, None, 700), (3, "c3", 5)]
    for n, row in enumerate(new, 2):
        come(world, row)
        before = len(world.engine.results)
        report = query.run(methods="im1")
        assert (report.n, report.rows) == (n, ROWS - 101 + min(n - 1, 3))
        assert sum(world.engine.results[before:]) <= n
        assert query.verify()
    assert rows_of(query) == expected(*new)
    assert len(parts(query)) == 2
    assert parts(query)[0] == ROWS - 101
    assert world.engine.written == [], "the result is the state"
    assert query.status()["state_bytes"] == 0
    assert [state["bytes"] for state in query.states()] == [0]


@pytest.mark.parametrize("methods", ["im1", "im2", "ojv", "hov", "all"])
def test_a_view_that_is_columns_of_a_table_grows_with_it(world: World, methods: str) -> None:
    query = world.wh.add_query("chosen", CHOSEN, schedule=Schedule.view())
    query.run(methods=methods)
    for number in (1, 2):
        come(world, (number, None, 7), (number, None, 7))
        before = len(world.engine.results)
        query.run(methods=methods)
        assert sum(world.engine.results[before:]) <= 2 * number, "what has come, or the last small part once more"
        assert query.verify()
    assert parts(query) == [ROWS, 4]
    assert rows_of(query) == SignedBag.of([*(row[1:] for row in FIRST), *[(None, 7)] * 4])
    go(world, FIRST[0], (1, None, 7))
    query.run(methods=methods)
    assert query.verify()
    assert rows_of(query) == SignedBag.of([*(row[1:] for row in FIRST[1:]), *[(None, 7)] * 3])


def test_what_changed_is_what_both_do_not_share(world: World) -> None:
    query = dear_sales(world)
    query.run(methods="im1")
    come(world, (1, "c1", 900), (2, "c2", 7))
    query.run(methods="im1")
    assert query.changes() == SignedBag.of([(1, "c1", 900)])
    first, second = (query.stored(step) for step in query.outputs())
    assert second.extends(first)
    assert not first.extends(second)
    assert (second.beside(first).rows, first.beside(second).rows) == (1, 0)


def test_where_rows_go_the_result_is_written_as_a_whole(world: World) -> None:
    query = dear_sales(world)
    query.run(methods="im1")
    come(world, (1, "c1", 900))
    query.run(methods="im1")
    assert len(parts(query)) == 2
    go(world, FIRST[-1], (1, "c1", 900))
    query.run(methods="im1")
    assert parts(query) == [ROWS - 102]
    assert query.verify()
    # From this result the next ones go on: they open one file each of what comes.
    for number in (2, 3):
        come(world, (number, "c1", 901))
        query.run(methods="im1")
        assert query.verify()
    assert parts(query) == [ROWS - 102, 2]


def kept(query: Query) -> set[str]:
    """Where results lie that are there."""
    root = query.folder.parent.parent
    return {str(path.relative_to(root)) for path in (query.folder / "attempts").glob("*/output")}


@pytest.mark.parametrize("keep", [1, 2])
def test_the_garbage_collector_keeps_what_results_share(world: World, keep: int) -> None:
    query = dear_sales(world)
    for n in range(6):
        come(world, (n, "c1", 900 + n))
        query.run(methods="im1")
        world.wh.gc(keep=keep)
        assert query.verify()
    assert rows_of(query) == expected(*((n, "c1", 900 + n) for n in range(6)))
    assert kept(query) == {part.path for s in query.outputs()[-keep:] if s.output for part in s.output.parts}
    go(world, (0, "c1", 900))
    query.run(methods="im1")
    world.wh.gc(keep=1)
    last = query.outputs()[-1]
    assert last.output
    states = next((step.states for step in reversed(query.steps()) if step.states), ())
    stored = {part.path for state in states for part in state.stored.parts if part.path.endswith("output")}
    assert kept(query) == {part.path for part in last.output.parts} | stored, "nothing else of the results before"
    assert query.verify()
    # What the run before those left is of no use once a run has left something itself.
    come(world, (6, "c1", 906))
    query.run(methods="im1")
    world.wh.gc(keep=1)
    last = query.outputs()[-1]
    assert last.output
    assert kept(query) == {part.path for part in last.output.parts}, "nothing else of the results before is needed"
    assert query.verify()


def test_a_query_gets_another_name(world: World) -> None:
    query = dear_sales(world)
    for n in range(3):
        come(world, (n, "c1", 900 + n))
        query.run(methods="im1")
    named = world.wh.rename_query("dear", "dearest")
    assert named.verify()
    come(world, (9, "c1", 909))
    named.run(methods="im1")
    assert len(parts(named)) == 2
    assert named.verify()


@pytest.mark.parametrize("which", [0, 1])
def test_a_part_that_is_gone_is_a_damaged_result_which_is_written_anew(world: World, which: int) -> None:
    query = dear_sales(world)
    query.run(methods="im1")
    come(world, (1, "c1", 900))
    query.run(methods="im1")
    shutil.rmtree(query.stored(query.outputs()[-1]).paths[which])
    with pytest.raises(TempuraError) as error:
        query.result()
    assert error.value.code == "RESULT_DAMAGED"
    come(world, (2, "c1", 901))
    report = query.run(methods="im1")
    if which == 0:
        assert any("STATE_DAMAGED" in reason for reason in report.fallbacks)
        assert len(parts(query)) == 1
    assert query.verify()


def test_what_is_published_shares_its_files_too(world: World) -> None:
    query = dear_sales(world)
    path = query.output(world.folder / "mart")
    feed = query.output(world.folder / "feed", "changes")
    query.run(methods="im1")
    first = {file.name: file.stat().st_ino for file in path.resolve().glob("*.parquet")}
    come(world, (1, "c1", 900), (2, "c2", 3))
    query.run(methods="im1")
    second = {file.name: file.stat().st_ino for file in path.resolve().glob("*.parquet")}
    assert first.items() < second.items()
    assert SignedBag.of(shown(path)) == rows_of(query)
    assert [row for row in shown(feed) if row[0] in (1, 2)] == [(1, "c1", 900, "insert")]
    go(world, FIRST[-1])
    query.run(methods="im1")
    third = {file.name for file in path.resolve().glob("*.parquet")}
    assert not third & set(second)
    assert SignedBag.of(shown(path)) == rows_of(query)


def test_a_published_version_that_was_touched_is_not_linked_on(world: World) -> None:
    """A file that has other columns by now, or is gone, is not what a version was: all is written anew."""
    query = dear_sales(world)
    path = query.output(world.folder / "mart")
    query.run(methods="im1")
    for file in path.resolve().glob("*.parquet"):
        file.unlink()
    come(world, (1, "c1", 900))
    query.run(methods="im1")
    assert SignedBag.of(shown(path)) == rows_of(query)


def test_a_view_over_the_view_gets_what_came(world: World) -> None:
    query = dear_sales(world)
    query.run(methods="im1")
    world.wh.add_table("dear_ones", query="dear")
    above = world.wh.add_query("above", ABOVE, schedule=Schedule.view())
    above.run()
    come(world, (1, "c1", 900))
    query.run(methods="im1")
    above.run()
    arrivals = world.wh.table("dear_ones")._arrivals.arrivals()
    assert [arrival.rows for arrival in arrivals] == [(ROWS - 101, 0), (1, 0)]
    assert above.verify()
