"""Tables and queries that are removed, renamed and altered; killed at any moment, they are the old or the new."""

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import attempt, commit
from tempura.warehouse.commits.locks import HeldError, hold
from tempura.warehouse.declared.declare import QuerySpec
from tempura.warehouse.query import Query
from tempura.warehouse.runs.run import alone
from tempura.warehouse.table import Table
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse
from tests.unit.bag_engine import COUNT, PER_KEY
from tests.unit.dying import fork
from tests.unit.planned import planning_once
from tests.unit.test_commit import shape
from tests.unit.test_refresh import FIRST, MANY, SALES, World, code, go_on, joins_are_dear, world
from tests.unit.test_warehouse_sources import aged

__all__ = ["joins_are_dear", "world"]


class TestTables:
    def test_a_table_that_is_read_is_neither_removed_nor_renamed(self, world: World) -> None:
        world.begun()
        for change in (world.wh.remove_table, lambda name: world.wh.rename_table(name, "other")):
            with pytest.raises(TempuraError, match="read by summary") as error:
                change("sales")
            assert code(error) == "TABLE_IN_USE"
            assert "tempura query" in error.value.command
            assert "query(" not in error.value.command
        assert world.wh.table("sales").read_by == ("summary",)

    def test_a_removed_table_leaves_nothing(self, world: World) -> None:
        world.begun()
        world.wh.remove_query("summary")
        world.wh.remove_table("sales")
        world.wh.remove_table("returns")
        assert world.wh.tables() == ()
        assert [path for path in shape(world.folder) if path.startswith(("tables/", "queries/"))] == []
        assert (world.lake / "a.parquet").exists()
        assert "sales" not in (world.wh.path / "tempura.toml").read_text()
        world.wh.add_table("sales", path=world.lake, schema=SALES)
        assert world.wh.status()["tables"]["sales"]["version"] == 0

    def test_a_renamed_table_keeps_its_rows(self, world: World) -> None:
        world.wh.add_table("old", schema="o_id INT", keys=["o_id"]).append([(1,)])  # type: ignore[arg-type]
        world.wh.rename_table("old", "new").append([(2,)])  # type: ignore[arg-type]
        assert [table.name for table in world.wh.tables()] == ["new"]
        assert world.wh.status()["tables"]["new"]["version"] == 2
        with pytest.raises(TempuraError) as error:
            world.wh.table("old")
        assert code(error) == "UNKNOWN_TABLE"

    def test_names_that_are_refused(self, world: World) -> None:
        world.wh.add_table("a", schema="o_id INT")
        world.wh.add_table("b", schema="o_id INT")
        with pytest.raises(TempuraError) as error:
            world.wh.rename_table("a", "../x")
        assert code(error) == "BAD_NAME"
        with pytest.raises(TempuraError) as error:
            world.wh.rename_table("a", "b")
        assert code(error) == "NAME_TAKEN"
        (world.wh.path / "tables/c").mkdir(parents=True)
        with pytest.raises(TempuraError) as error:
            world.wh.rename_table("a", "c")
        assert code(error) == "NAME_TAKEN"

    def test_files_in_another_folder(self, world: World) -> None:
        query = world.begun()
        other = world.folder / "moved"
        shutil.copytree(world.lake, other)  # with the times of the files
        shutil.rmtree(world.lake)
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "FOLDER_MISSING"
        assert "tempura table alter sales --path" in error.value.command
        aged(other / "a.parquet", 3)
        with pytest.raises(TempuraError) as error:
            world.wh.alter_table("sales", path=world.folder / "nowhere")
        assert code(error) == "FOLDER_MISSING"
        world.wh.alter_table("sales", path=other)
        go_on(world, world.wh.query("summary"))

    def test_another_folder_without_the_files_is_refused(self, world: World) -> None:
        world.begun()
        other = world.folder / "other"
        other.mkdir()
        shutil.copy(world.lake / "b.parquet", other / "a.parquet")
        with pytest.raises(TempuraError) as error:
            world.wh.alter_table("sales", path=other)
        assert code(error) == "FILE_CHANGED"
        (other / "a.parquet").unlink()
        with pytest.raises(TempuraError) as error:
            world.wh.alter_table("sales", path=other)
        assert code(error) == "FILE_GONE"
        with pytest.raises(TempuraError) as error:
            world.wh.alter_table("returns", path=other)
        assert code(error) == "BAD_SOURCE"
        assert world.wh.status()["tables"]["sales"]["path"] == str(world.lake)

    def test_added_columns(self, world: World) -> None:
        query = world.begun()
        world.wh.alter_table("returns", add_columns="why STRING")
        world.wh.table("returns").append([(3, 3, "torn")])  # type: ignore[arg-type]
        query = world.wh.query("summary")
        query.run(methods="im1")
        assert query.verify()
        found: object = world.wh.table("returns").df()
        assert (3, 3, "torn") in dict(found.items())  # type: ignore[attr-defined]
        assert (1, 10, None) in dict(found.items())  # type: ignore[attr-defined]
        with pytest.raises(TempuraError) as error:
            world.wh.alter_table("returns", add_columns="cost STRING")
        assert code(error) == "SCHEMA_CHANGED"

    def test_folders_that_nobody_declares_are_told(self, world: World) -> None:
        world.begun()
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace("[tables.returns]", "[tables.refunds]"))
        assert world.wh.status()["undeclared"] == ["tables/returns"]
        assert world.wh.gc() == ()
        with pytest.raises(TempuraError) as error:
            world.wh.rename_table("returns", "sales")
        assert code(error) == "NAME_TAKEN"
        world.wh.rename_table("returns", "refunds")
        assert world.wh.status()["undeclared"] == []
        assert world.wh.status()["tables"]["refunds"]["rows"] == 2
        path.write_text(path.read_text().replace("[tables.refunds]", "[tables.returns]"))
        world.wh.remove_table("refunds")
        assert world.wh.undeclared() == ()
        with pytest.raises(TempuraError) as error:
            world.wh.table("returns").df()
        assert code(error) == "LEDGER_BROKEN"
        world.wh.table("returns").reset()
        query = world.wh.query("summary")
        query.run()
        assert query.verify()


def one(*keys: int) -> Any:
    """Rows of a table of one column."""
    return [(key,) for key in keys]


PUSHES: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(one(2)),
    "append with an id": lambda table: table.append(one(2), id="b-1"),
    "upsert": lambda table: table.upsert(one(1)),
    "delete": lambda table: table.delete(one(1)),
    "reset": lambda table: table.reset(),
    "refresh": lambda table: table.refresh(),
    "set_stats": lambda table: table.set_stats("o_id", distinct=1),
    "unset_stats": lambda table: table.unset_stats(),
    "df": lambda table: table.df(),
}


class TestHandlesOfTables:
    """A program holds a table while another process changes what is declared of it."""

    @pytest.mark.parametrize("call", PUSHES)
    def test_one_that_was_renamed_or_removed_is_not_known(self, world: World, call: str) -> None:
        for name in ("renamed", "removed"):
            world.wh.add_table(name, schema="o_id INT", keys=["o_id"]).append(one(1))
        renamed, removed = world.wh.table("renamed"), world.wh.table("removed")
        other = world.open()
        other.rename_table("renamed", "new")
        other.remove_table("removed")
        before = shape(world.folder)
        for table in (renamed, removed):
            with pytest.raises(TempuraError, match=f"no table {table.name!r}") as error:
                PUSHES[call](table)
            assert code(error) == "UNKNOWN_TABLE"
        assert shape(world.folder) == before
        assert other.undeclared() == ()
        assert other.table("new").append(one(2)) == 2

    def test_nor_is_one_that_goes_while_rows_are_pushed(self, world: World) -> None:
        world.wh.add_table("spare", schema="o_id INT").append(one(1))
        pushing = world.open(Files(once("share", lambda: world.wh.remove_table("spare"))))
        with pytest.raises(TempuraError) as error:
            pushing.table("spare").append(one(2))
        assert code(error) == "UNKNOWN_TABLE"
        assert [path for path in shape(world.folder) if path.endswith((".json", ".parquet"))] == [
            ".tempura/format.json"
        ]
        assert world.wh.add_table("spare", schema="o_id INT").append(one(3)) == 1

    @pytest.mark.parametrize("rows", [(), (1,)])
    def test_a_push_belongs_to_the_table_that_it_was_checked_against(self, world: World, rows: tuple[int, ...]) -> None:
        spare = world.wh.add_table("spare", schema="o_id INT")
        if rows:
            spare.append(one(*rows))

        def made_anew() -> None:
            world.wh.remove_table("spare")
            world.wh.add_table("spare", schema="o_id INT")

        with pytest.raises(TempuraError, match="added anew meanwhile") as error:
            world.open(Files(once("share", made_anew))).table("spare").append(one(2))
        assert code(error) == "COMMIT_LOST"
        assert spare.append(one(3)) == 1
        found: object = spare.df()
        assert found == SignedBag.of([(3,)])

    def test_a_transaction_is_refused_as_a_whole(self, world: World) -> None:
        world.wh.add_table("spare", schema="o_id INT")
        world.wh.add_table("other", schema="o_id INT").append(one(1))
        pushes = world.wh.transaction()
        pushed = pushes.__enter__()
        for name in ("other", "spare"):
            pushed.table(name).append(one(2))
        world.open().remove_table("spare")
        with pytest.raises(TempuraError) as error:
            pushes.__exit__(None, None, None)
        assert code(error) == "UNKNOWN_TABLE"
        assert world.wh.status()["tables"]["other"]["version"] == 1
        assert world.wh.gc() == ()

    def test_who_commits_keeps_others_from_removing_it(self, world: World) -> None:
        """A removal waits for the commit, and takes the rows along."""
        world.wh.add_table("spare", schema="o_id INT")
        lock, held = world.wh.path / ".tempura/declare.lock", []
        wh = world.open(Files(once("link", lambda: held.append(is_held_by_sharers(lock)))))
        wh.table("spare").append(one(1))
        assert held == [True]

    def test_another_one_of_the_name_is_meant_from_then_on(self, world: World) -> None:
        spare = world.wh.add_table("spare", schema="o_id INT")
        spare.append(one(1))
        world.wh.remove_table("spare")
        world.open().add_table("spare", schema="o_id INT, cost INT", keys=["o_id"])
        assert spare.schema.names == ["o_id", "cost"]
        assert spare.append([(1, 2)]) == 1  # type: ignore[arg-type]
        with pytest.raises(TempuraError) as error:
            spare.append([(1, 3)])  # type: ignore[arg-type]
        assert code(error) == "DUPLICATE_KEY"
        world.wh.remove_table("spare")
        world.put("a.parquet", FIRST)
        world.open().add_table("spare", path=world.lake, schema=SALES)
        with pytest.raises(TempuraError) as error:
            spare.append([(1, 3)])  # type: ignore[arg-type]
        assert code(error) == "NOT_MANAGED"
        found: object = spare.df()
        assert found == SignedBag.of(FIRST)

    @pytest.mark.parametrize(
        ("promise", "push", "refusal"),
        [
            ('keys = ["o_id"]', lambda table: table.append(one(1)), "DUPLICATE_KEY"),
            ("append_only = true", lambda table: table.delete(one(1)), "APPEND_ONLY"),
            ("static = true", lambda table: table.append(one(2)), "STATIC_TABLE"),
        ],
    )
    def test_promises_count_from_when_they_are_declared(
        self, world: World, promise: str, push: Callable[[Table], object], refusal: str
    ) -> None:
        spare = world.wh.add_table("spare", schema="o_id INT")
        spare.append(one(1))
        toml = world.wh.path / "tempura.toml"
        without = toml.read_text()
        toml.write_text(without.replace("[tables.spare]", f"[tables.spare]\n{promise}"))
        with pytest.raises(TempuraError) as error:
            push(spare)
        assert code(error) == refusal
        toml.write_text(without)
        assert push(spare) == 2

    def test_and_not_in_the_middle_of_a_push(self, world: World) -> None:
        world.wh.add_table("spare", schema="o_id INT").append(one(1))
        toml = world.wh.path / "tempura.toml"
        promised = toml.read_text().replace("[tables.spare]", '[tables.spare]\nkeys = ["o_id"]')
        with pytest.raises(TempuraError, match="declared otherwise meanwhile") as error:
            world.open(Files(once("share", lambda: toml.write_text(promised)))).table("spare").append(one(1))
        assert code(error) == "COMMIT_LOST"
        assert world.wh.table("spare").status()["rows"] == 1

    def test_a_run_registers_what_is_declared_now(self, world: World) -> None:
        query = world.begun()
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace("[tables.sales]", '[tables.sales]\nkeys = ["o_id"]'))
        world.put("c.parquet", FIRST, age=80)
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "DUPLICATE_KEY"


WRITES: dict[str, Callable[[Query, Path], object]] = {
    "run": lambda query, path: query.run(),
    "dry run": lambda query, path: query.run(dry_run=True),
    "output": lambda query, path: query.output(path / "mart"),
    "publish": lambda query, path: query.publish(),
    "measure": lambda query, path: query.measure(),
    "replace": lambda query, path: query.replace(lambda: None),
    "verify": lambda query, path: query.verify(),
}


class TestHandlesOfQueries:
    """A program holds a query while another process changes what is declared of it."""

    @pytest.mark.parametrize("call", WRITES)
    def test_one_that_was_renamed_or_removed_is_not_known(self, world: World, call: str) -> None:
        renamed = world.begun()
        removed = world.wh.add_query("removed", COUNT, schedule=Schedule.view())
        removed.run()
        other = world.open()
        other.rename_query("summary", "totals")
        other.remove_query("removed")
        before, declared = shape(world.folder), (world.wh.path / "tempura.toml").read_bytes()
        for query in (renamed, removed):
            with pytest.raises(TempuraError, match=f"no query {query.name!r}") as error:
                WRITES[call](query, world.folder)
            assert code(error) == "UNKNOWN_QUERY"
        assert shape(world.folder) == before
        assert (world.wh.path / "tempura.toml").read_bytes() == declared
        go_on(world, other.query("totals"))

    def test_nor_is_one_that_goes_while_its_run_is_planned(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        query = world.begun()
        world.wh.table("returns").append([(2, 7)])  # type: ignore[arg-type]

        def planned(*given: Any, **asked: Any) -> Any:
            world.open().rename_query("summary", "totals")
            return planning_once()(*given, **asked)

        monkeypatch.setattr(follow, "make_plan", planned)
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "UNKNOWN_QUERY"
        assert world.wh.undeclared() == ()
        assert len(world.wh.query("totals").steps()) == 1

    def test_another_one_of_the_name_is_not_run_through_it(self, world: World) -> None:
        world.begun()
        query = world.wh.query("summary")
        other = world.open()
        other.remove_query("summary")
        other.add_query("summary", COUNT, schedule=Schedule.view())
        for call in (query.run, query.publish):
            with pytest.raises(TempuraError, match="Another query is declared") as error:
                call()
            assert code(error) == "QUERY_CHANGED"
        assert other.query("summary").run().n == 1

    def test_an_output_is_added_to_what_is_declared_now(self, world: World) -> None:
        query = world.begun()
        world.open().query("summary").output(world.folder / "a")
        world.open().add_query("summary", query.sql, schedule=Schedule.view(7))
        query.output(world.folder / "b")
        declared = world.open().query("summary")
        assert [path.name for path in declared.published_at] == ["a", "b"]
        assert declared.schedule == Schedule.view(7)


def once(operation: str, act: Callable[[], object]) -> Callable[[str, Path], None]:
    """What is done before an operation on files, the first time."""
    done: list[str] = []

    def before(found: str, path: Path) -> None:
        if found == operation and not done:
            done.append(found)
            act()

    return before


def is_held_by_sharers(lock: Path) -> bool:
    """Whether a process that wants a lock alone would have to wait."""
    with pytest.raises(HeldError), hold(lock, wait=False):
        pass
    return True


class TestQueries:
    def test_a_renamed_query_goes_on(self, world: World) -> None:
        query = world.begun()
        query.output(world.folder / "feed", mode="changes")
        world.wh.add_table("sums", query="summary")
        world.wh.table("sums").df()
        expected: object = query.result()
        renamed = world.wh.rename_query("summary", "totals")
        found: object = renamed.result()
        assert found == expected
        assert world.wh.status()["tables"]["sums"]["query"] == "totals"
        assert [entry.n for entry in renamed.history()] == [1]
        go_on(world, renamed)
        assert len(list((world.folder / "feed").glob("step=*"))) == 3
        world.wh.table("sums").df()
        assert world.wh.status()["tables"]["sums"]["version"] == 2
        world.wh.gc()
        assert world.wh.gc() == ()
        go_on(world, world.open().query("totals"))

    def test_a_query_whose_results_are_rows_is_not_removed(self, world: World) -> None:
        world.begun()
        world.wh.add_table("sums", query="summary")
        with pytest.raises(TempuraError, match="the rows of sums") as error:
            world.wh.remove_query("summary")
        assert code(error) == "QUERY_IN_USE"
        world.wh.remove_table("sums")
        world.wh.remove_query("summary")
        assert world.wh.queries() == ()

    def test_what_a_removed_query_published_stays(self, world: World) -> None:
        query = world.begun()
        path = query.output(world.folder / "mart")
        assert world.wh.remove_query("summary") == (path,)
        assert list(path.glob("*.parquet"))
        again = world.wh.add_query("summary", COUNT, schedule=Schedule.view())
        assert again.run().n == 1
        assert again.verify()

    def test_not_while_it_is_run(self, world: World) -> None:
        world.begun()
        with alone(Files(), world.wh.path / "queries/summary"):
            changes: list[Callable[[], object]] = [
                lambda: world.wh.remove_query("summary"),
                lambda: world.wh.rename_query("summary", "totals"),
                lambda: world.wh.table("sales").reset(),
            ]
            for change in changes:
                with pytest.raises(TempuraError) as error:
                    change()
                assert code(error) == "RUN_IN_PROGRESS"
        assert world.wh.rename_query("summary", "totals").name == "totals"

    def test_a_query_that_cannot_be_understood_reads_what_it_names(self, world: World) -> None:
        world.query()
        spec = QuerySpec(Schedule.view(), "SELECT * FROM returns r")
        world.wh._site.declarations.put_query("odd", spec)
        assert world.wh.table("returns").read_by == ("summary", "odd")
        assert world.wh.table("sales").read_by == ("summary",)

    def test_queries_over_results(self, world: World) -> None:
        world.begun()
        world.wh.add_table("sums", query="summary")
        world.wh.add_query("keys", PER_KEY, schedule=Schedule.view())
        with pytest.raises(TempuraError, match="read by keys"):
            world.wh.remove_table("sums")


def prepared(world: World) -> None:
    world.begun()
    world.wh.add_table("sums", query="summary")
    world.wh.table("sums").df()
    world.wh.add_table("spare", schema="o_id INT").append([(1,)])  # type: ignore[arg-type]


CHANGES: dict[str, Callable[[Warehouse], object]] = {
    "rename a table": lambda wh: wh.rename_table("spare", "new"),
    "remove a table": lambda wh: wh.remove_table("spare"),
    "rename a query": lambda wh: wh.rename_query("summary", "totals"),
    "reset a table": lambda wh: wh.table("sales").reset(),
    "refresh a table": lambda wh: wh.table("sales").refresh(),
}


def state(folder: Path) -> object:
    """What the next command finds, after gc."""
    wh = World(folder).wh
    wh.gc()
    assert wh.gc() == ()
    status = wh.status()
    assert status["undeclared"] == []
    for query in wh.queries():
        query.run(methods="im1")
        assert query.verify()
        wh.table("sums").df()
    rows = {name: (table["version"], table["rows"]) for name, table in wh.status()["tables"].items()}
    return rows, list(status["queries"]), [f for f in shape(folder) if "/held/" not in f and "/attempts/" not in f]


@pytest.mark.parametrize("change", CHANGES)
def test_killed_at_some_file_operations(tmp_path: Path, change: str) -> None:
    kill_at(tmp_path, change, 4)


@pytest.mark.full
@pytest.mark.parametrize("change", CHANGES)
def test_killed_at_every_file_operation(tmp_path: Path, change: str) -> None:
    kill_at(tmp_path, change, 1)


def kill_at(tmp_path: Path, change: str, every: int) -> None:
    """The next command finds the old or the new, and the change can be made again from the old."""
    (tmp_path / "begun").mkdir()
    prepared(World(tmp_path / "begun"))
    if change == "refresh a table":
        (tmp_path / "begun/lake/b.parquet").unlink()
    world = World(copied(tmp_path, "old")) if "refresh" not in change else None
    old = state(world.folder) if world else None
    operations: list[str] = []
    calm = copied(tmp_path, "calm")
    wh = World(calm).open(Files(lambda operation, path: operations.append(operation)))
    operations.clear()
    CHANGES[change](wh)
    count = len(operations)
    new = state(calm)
    assert count > 5
    for n in range(every, count + 1, every):
        folder = copied(tmp_path, str(n))
        kill(folder, change, n)
        if "refresh" not in change:
            found = state(copied(tmp_path, "look", folder))
            assert found in (old, new), operations[n - 1]
            if found == new:
                continue
        CHANGES[change](World(folder).wh)
        assert state(folder) == new, operations[n - 1]


def test_what_an_edit_has_left_where_a_link_leads_is_collected(world: World) -> None:
    toml, kept = world.wh.path / "tempura.toml", world.folder / "repository"
    kept.mkdir()
    toml.rename(kept / "ours.toml")
    toml.symlink_to(kept / "ours.toml")
    world.wh.add_table("spare", schema="o_id INT")
    (kept / ".ours.toml.0.tmp").touch()
    (kept / ".other.toml.0.tmp").touch()
    assert world.wh.gc(dry_run=True) == world.wh.gc() == ("../repository/.ours.toml.0.tmp",)
    assert sorted(path.name for path in kept.iterdir()) == [".other.toml.0.tmp", "ours.toml"]
    assert toml.is_symlink()
    assert [table.name for table in world.open().tables()] == ["spare"]


def test_keys_that_are_no_columns_are_told_before_anything_is_run(world: World) -> None:
    returns = world.wh.add_table("returns", schema="o_id INT, cost INT")
    returns.append([(1, 10)])  # type: ignore[arg-type]
    toml = world.wh.path / "tempura.toml"
    toml.write_text(toml.read_text().replace("[tables.returns]", '[tables.returns]\nkeys = ["o_id", "item", "day"]'))
    fresh = world.open()
    for act in (
        lambda: world.wh.add_table("spare", schema="o_id INT, cost INT", keys=["o_id", "item", "day"]),
        lambda: returns.append([(2, 10)]),  # type: ignore[arg-type]
        lambda: fresh.table("returns").append([(2, 10)]),  # type: ignore[arg-type]
        lambda: fresh.table("returns").df(),
        lambda: fresh.add_query("n", COUNT, schedule=Schedule.view()),
    ):
        with pytest.raises(
            TempuraError, match="no column is named item, day, as its keys are; it has o_id, cost"
        ) as error:
            act()
        assert error.value.code == "BAD_KEYS"
    toml.write_text(toml.read_text().replace('"o_id", "item", "day"', '"o_id"'))
    returns.append([(2, 10)])  # type: ignore[arg-type]
    assert len(returns.arrivals.committed()) == 2


def test_a_sweep_needs_no_room_on_the_disk(world: World) -> None:
    world.wh.add_table("spare", schema="o_id INT")
    world.wh.gc()
    full = False

    def before(operation: str, path: Path) -> None:
        if full and operation in ("create", "write", "lock", "make_folder", "link", "symlink"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    wh = world.open(Files(before))
    full = True
    assert wh.gc() == ()
    left = world.wh.path / ".tempura.toml.0.tmp"
    left.touch()
    with wh._site.files.share(wh._site.declarations.lock):
        assert wh.gc() == (left.name,), "who keeps the declarations as they are has left nothing"
    left.touch()
    with hold(wh._site.declarations.lock):
        assert wh.gc() == (), "whose it may be edits them"
    assert wh.gc() == (left.name,)


def test_what_another_process_left_undone_is_done_first(world: World) -> None:
    """A process that has the warehouse open does what one that was killed had noted, before what it is asked for."""
    world.wh.add_table("a", schema="o_id INT").append([(1,)])  # type: ignore[arg-type]
    world.wh.add_table("c", schema="o_id INT")
    site = world.wh._site
    with attempt(site.files, site.attempts) as work:
        commit(site.files, work, world.wh.path / ".tempura/move.json", {"section": "tables", "old": "a", "new": "b"})
    world.wh.remove_table("c")
    assert [table.name for table in world.wh.tables()] == ["b"]
    assert world.wh.status()["tables"]["b"]["rows"] == 1
    assert not (world.wh.path / ".tempura/move.json").exists()


def copied(tmp_path: Path, name: str, source: Path | None = None) -> Path:
    """A copy of a folder under the same absolute path as the original would be: its lake lies beside the warehouse."""
    target = tmp_path / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source or tmp_path / "begun", target, symlinks=True)
    toml = target / "wh/tempura.toml"
    toml.write_text(toml.read_text().replace(str(source or tmp_path / "begun"), str(target)))
    return target


def kill(folder: Path, change: str, n: int) -> None:
    """Make a change in a process that is killed at its n-th file operation."""
    wh_files = [0, False]

    def before(operation: str, path: Path) -> None:
        wh_files[0] += wh_files[1]
        if wh_files[1] and wh_files[0] == n:
            os.kill(os.getpid(), signal.SIGKILL)

    child = fork()
    if child == 0:
        try:
            wh = World(folder).open(Files(before))
            wh_files[1] = True
            CHANGES[change](wh)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == signal.SIGKILL, status


def test_a_table_that_grew_many_times_is_refreshed_exactly(world: World) -> None:
    """Arrivals, refreshes and resets in turn: each result is that of a recomputation."""
    query = world.begun()
    for i in range(3):
        world.put(f"n{i}.parquet", [(1000 + i, "c1", i)], age=50 - i)
        query.run(methods="im1")
        (world.lake / f"n{i}.parquet").rename(world.lake / f"m{i}.parquet")
        world.put("a.parquet", FIRST + MANY[: 300 - i], age=20 - i)
        world.wh.table("sales").refresh()
        query.run(methods="im1")
        assert query.verify()
        if i == 1:
            world.wh.table("sales").reset()
    query.run(methods="im1")
    assert query.verify()
