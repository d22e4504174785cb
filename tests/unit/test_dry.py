"""Plans, dry runs and looks write nothing: the whole tree of the warehouse stays as it is, and yet they know what waits."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import register
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, PER_KEY, SUMMARY, BagEngine, Row, parse, write_rows
from tests.unit.test_warehouse_lakes import ON, add, commit

SALES = "o_id INT, cat STRING, price INT"
RETURNS = "o_id INT, cost INT"
FIRST: list[Row] = [(1, "c1", 100), (2, "c2", 150), (3, "c1", 120)]
MORE: list[Row] = [(5, "c2", 300), (6, "c1", 150)]
VIEW = Schedule.view()

Tree = dict[str, tuple[int, bytes]]


def tree(folder: Path) -> Tree:
    """All that can change in a folder: names, contents, times of writing."""
    paths = [folder, *folder.rglob("*")]
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in paths}


class World:
    """A warehouse whose table ``sales`` comes from a folder of files of some format, and ``returns`` is pushed."""

    def __init__(self, folder: Path, format: str = "parquet") -> None:
        self.engine = BagEngine()
        self.lake, self.format = folder / "lake", format
        self.lake.mkdir()
        self.now = datetime(2026, 3, 1, 15, tzinfo=UTC)
        self.wh: Warehouse = open_site(folder / "wh", self.engine, Files(), lambda: self.now)
        self.wh.add_table("sales", path=self.lake, schema=SALES, format=format)
        self.wh.add_table("returns", schema=RETURNS)

    def put(self, name: str, rows: list[Row], ddl: str = SALES) -> None:
        names = parse(ddl).names
        path = self.lake / f"{name}.{self.format}"
        match self.format:
            case "parquet":
                write_rows(path, parse(ddl), rows)
            case "json":
                path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
            case "csv":
                path.write_text("\n".join(",".join(map(str, row)) for row in (tuple(names), *rows)) + "\n")

    def query(self, schedule: Schedule = VIEW) -> Query:
        return self.wh.add_query("q", SUMMARY, schedule=schedule)

    def looked(self) -> tuple[str, ...]:
        """What was planned, after checking that nothing was written by anything that only looks."""
        before = tree(self.wh.path)
        plans = (
            self.wh.query("q").plan(),
            self.wh.query("q").run(dry_run=True),
            self.wh.replace_query("q", dry_run=True),
        )
        self.wh.query("q").plan(schedule=Schedule.progressive({"06:00": 0.1, "24:00": 1}))
        self.wh.gc(dry_run=True)
        self.wh.status()
        self.wh.query("q").history()
        if self.wh.query("q").outputs():
            self.wh.query("q").result()
            self.wh.query("q").changes()
            self.wh.query("q").verify()
        assert tree(self.wh.path) == before
        return tuple(map(str, plans))

    def registered(self) -> str:
        """The plan when all has been registered."""
        for table in self.wh.tables():
            register(table.arrivals)
        return str(self.wh.query("q").plan())


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_plans_and_dry_runs_write_nothing_and_plan_with_the_files_that_wait(tmp_path: Path, format: str) -> None:
    world = World(tmp_path, format)
    world.put("a", FIRST * 10)
    world.query()
    world.wh.table("returns").append([(1, 10)])  # type: ignore[arg-type]
    plan, run, _ = world.looked()
    assert "reads: returns version 1, sales version 1" in run
    assert "waiting: sales: 30 rows more, not yet registered" in run
    world.wh.query("q").run()
    world.put("b", MORE * 7)
    plan, run, _ = world.looked()
    assert "waiting: sales: 14 rows more, not yet registered\n" in run
    assert rows_read(plan) == rows_read(world.registered())


def rows_read(plan: str) -> list[str]:
    """The lines of a plan that read tables, with their rows."""
    return [line.split("cost")[0].split("bytes")[0] for line in plan.splitlines() if "[" in line]


def test_a_plan_of_files_that_wait_is_the_plan_of_the_run(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a", FIRST * 10)
    world.query()
    (plan, *_) = world.looked()
    assert plan == world.registered()


def test_change_files_are_counted_and_updates_estimated(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.wh.add_table("keyed", path=tmp_path / "keyed", schema=RETURNS, keys=["o_id"])
    (tmp_path / "keyed").mkdir()
    changes = [(1, 5, "insert"), (2, 5, "insert"), (3, 1, "delete"), (1, 6, "update")]
    write_rows(tmp_path / "keyed" / "a.parquet", parse(f"{RETURNS}, _change STRING"), changes)
    world.query()
    before = tree(world.wh.path)
    arrivals: Arrivals = world.wh.table("keyed").arrivals
    (batch,) = arrivals.feed.pending((), arrivals.schema)  # type: ignore[union-attr]
    from tempura.warehouse.tables.prospect import Prospect

    prospect = Prospect(arrivals)
    assert (prospect.version, prospect.arrivals()[0].rows) == (1, (3, 2))
    assert (
        prospect.waiting
        == "keyed: 3 rows more, 2 less, not yet registered (an estimate: as if each update replaced a row)"
    )
    assert batch.changes is not None
    assert tree(world.wh.path) == before


@pytest.mark.parametrize("fits", [True, False])
def test_change_files_that_follow_each_other_are_counted_together(tmp_path: Path, fits: bool) -> None:
    world = World(tmp_path)
    table = world.wh.add_table("keyed", path=tmp_path / "keyed", schema=RETURNS, keys=["o_id"])
    (tmp_path / "keyed").mkdir()
    for name, row in (("a", (1, 5, "insert")), ("b", (1, 6, "update")), ("c", (2 if fits else 1, 7, "insert"))):
        write_rows(tmp_path / "keyed" / f"{name}.parquet", parse(f"{RETURNS}, _change STRING"), [row])
    from tempura.warehouse.tables.prospect import Prospect

    prospect = Prospect(table.arrivals)
    assert [arrival.rows for arrival in prospect.arrivals()] == ([(2, 0)] if fits else [(1, 0), (1, 1), (1, 0)])
    assert prospect.waiting.startswith("keyed: 2 rows more, not" if fits else "keyed: 3 rows more, 1 less, not")


def test_views_over_views_and_lakes_write_nothing_either(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a", FIRST)
    world.wh.add_query("below", SUMMARY, schedule=VIEW).run()
    world.wh.add_table("sums", query="below")
    world.wh.add_query("q", PER_KEY, schedule=VIEW)
    assert "waiting: sums: 2 rows more" in world.looked()[1]
    world.wh.query("q").run()
    world.wh.table("returns").append([(1, 10)])  # type: ignore[arg-type]
    world.wh.query("below").run()
    assert "waiting: sums: 1 rows more, 1 less" in world.looked()[1]
    assert world.wh.status()["tables"]["sums"]["version"] == 1


def test_a_lake_is_counted_where_it_is(tmp_path: Path) -> None:
    engine = BagEngine()
    wh = open_site(tmp_path / "wh", engine, Files(), lambda: datetime(2026, 3, 1, tzinfo=UTC))
    commit(tmp_path / "sales", 0, ON, add("a"))
    engine.lake_columns = "o_id INT, cat STRING, price INT"
    engine.lakes["0"] = [(1, "c1", 5, "insert"), (2, "c1", 6, "insert")]
    wh.add_table("sales", path=tmp_path / "sales", schema=SALES, format="delta")
    query = wh.add_query("n", COUNT)
    before = tree(wh.path)
    assert "waiting: sales: 2 rows more" in str(query.run(dry_run=True))
    assert tree(wh.path) == before


@pytest.mark.parametrize("schema", ["o_id INT, cat STRING, price STRING"])
def test_what_a_run_would_refuse_is_refused_by_a_plan(tmp_path: Path, schema: str) -> None:
    world = World(tmp_path)
    query = world.query()
    world.put("a", FIRST)
    query.run()
    world.put("b", [(1, "x", "y")], schema)
    before = tree(world.wh.path)
    with pytest.raises(TempuraError) as error:
        query.run(dry_run=True)
    assert error.value.code == "WRONG_SCHEMA"
    (world.lake / "b.parquet").unlink()
    world.put("a", MORE)
    for ask in (query.plan, lambda: world.wh.replace_query("q", dry_run=True)):
        with pytest.raises(TempuraError) as error:
            ask()
        assert error.value.code == "FILE_CHANGED"
    world.wh.add_table("fixed", path=tmp_path / "fixed", schema=RETURNS, static=True)
    assert tree(world.wh.path).keys() == before.keys()


def test_a_static_table_takes_no_second_arrival_in_a_plan_either(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.wh.path / "tempura.toml"
    query = world.query()
    world.put("a", FIRST)
    query.run()
    path.write_text(path.read_text().replace("[tables.sales]\n", "[tables.sales]\nstatic = true\n"))
    world.put("b", MORE)
    with pytest.raises(TempuraError) as error:
        world.wh.query("q").plan()
    assert error.value.code == "STATIC_TABLE"
