"""Published results and views over views, over an engine without a JVM."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Project, Rel, Scan
from tempura.algebra.scalar import Column, Output, Ref
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.query import Query
from tempura.warehouse.tables.take import register
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import PER_KEY, SUMMARY, read_rows
from tests.unit.test_warehouse import FIRST, SECOND, World

VIEW = Schedule.view()
EARLY = [("c1", 390 + 170, 1), ("c2", 150, 0)]
LATE = [("c1", 560 + 150, 1), ("c2", 450, 0), (None, 220, 0)]


class Stopped(BaseException):
    """A process that ends: no handler of the code under test sees it as one of its errors."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lake.mkdir(parents=True)
    world.put("a", FIRST)
    return world


def first_run(world: World) -> Query:
    query = world.query(VIEW)
    world.push([(1, 10)])
    query.run()
    return query


def one_above_another(folder: Path) -> World:
    """A view, and one over its results; both have run."""
    world = World(folder)
    world.lake.mkdir(parents=True)
    world.put("a", FIRST)
    first_run(world)
    world.wh.add_table("sums", query="summary")
    world.wh.add_query("above", PER_KEY, schedule=VIEW).run()
    return world


def second_run(world: World, query: Query) -> None:
    if not (world.lake / "b.parquet").exists():
        world.put("b", SECOND)
    query.run()


def shown(path: Path) -> list[tuple[object, ...]]:
    """The rows that a reader of a folder sees, which goes by no rules of ours."""
    files = sorted(p for p in path.resolve().rglob("*") if p.is_file() and not p.name.startswith(("_", ".")))
    visible = [str(p) for p in files if not any(n.startswith(".") for n in p.relative_to(path.resolve()).parts)]
    return sorted((tuple(row.values()) for row in read_rows(visible)), key=str)


def rows(*groups: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted((row for group in groups for row in group), key=str)


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


class TestOutputs:
    @pytest.mark.parametrize(("mode", "keys"), [("replace", []), ("upsert", ["cat"])])
    def test_the_path_shows_the_last_result(self, world: World, mode: str, keys: list[str]) -> None:
        query = first_run(world)
        path = query.output(world.folder / "marts/summary", mode, keys)
        assert shown(path) == rows(EARLY)
        before = path.resolve()
        second_run(world, query)
        assert shown(path) == rows(LATE)
        # Who reads the version before goes on reading it.
        assert shown(before) == rows(EARLY)
        assert query.publish() == ()

    def test_changes_add_up_to_the_result(self, world: World) -> None:
        query = first_run(world)
        path = query.output(world.folder / "feed", "changes")
        assert shown(path) == rows([(*row, "insert") for row in EARLY])
        second_run(world, query)
        assert sorted(p.name for p in path.iterdir()) == ["step=1", "step=2"]
        gone = [(*row, "delete") for row in EARLY]
        assert shown(path) == rows([(*row, "insert") for row in EARLY], gone, [(*row, "insert") for row in LATE])

    def test_a_feed_of_changes_is_a_table_of_another_warehouse(self, world: World) -> None:
        query = first_run(world)
        path = query.output(world.folder / "feed", "changes")
        other = open_site(world.folder / "other", world.engine, Files())
        table = other.add_table("sums", path=path, schema="cat STRING, total BIGINT, back BIGINT")
        second_run(world, query)
        found: object = table.df()
        assert found == SignedBag.of(LATE)

    def test_it_is_kept_with_the_query(self, world: World) -> None:
        query = first_run(world)
        inside = world.wh.path / "out"
        query.output(inside, "upsert", ["cat"])
        query.output(world.folder / "feed", "changes")
        again = world.open()
        text = (again.path / "tempura.toml").read_text()
        assert 'path = "out"\nmode = "upsert"\nkeys = ["cat"]\n' in text
        again.add_query("summary", SUMMARY, schedule=Schedule.view(5))
        second_run(world, again.query("summary"))
        assert shown(inside) == rows(LATE)
        assert len(list((world.folder / "feed").iterdir())) == 2

    def test_nothing_is_shown_before_the_first_result(self, world: World) -> None:
        query = world.query(VIEW)
        path = query.output(world.folder / "marts/summary")
        assert not path.exists()
        query.run()
        assert shown(path) == rows([("c1", 560, 0), ("c2", 150, 0)])

    def test_gc_keeps_what_the_next_changes_are_compared_with(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        query = first_run(world)
        path = query.output(world.folder / "feed", "changes")
        with monkeypatch.context() as patch:
            # As if each run had been killed before it published.
            patch.setattr(Query, "publish", lambda self, progress: ())
            for i in range(3):
                world.push([(2, i)])
                query.run()
        world.wh.gc()
        assert query.publish() == (path,)
        changes = [row for row in shown(path) if row[0] == "c2"]
        assert changes == rows([("c2", 150, 0, "insert"), ("c2", 150, 0, "delete"), ("c2", 450, 3, "insert")])

    def test_changes_to_a_result_that_is_gone(self, world: World) -> None:
        query = first_run(world)
        path = query.output(world.folder / "feed", "changes")
        shutil.rmtree(query.stored(query.outputs()[0]).paths[0])
        with pytest.raises(TempuraError) as error:
            second_run(world, query)
        assert code(error) == "OUTPUT_LOST"
        assert query.history()[-1].n == 2
        shutil.rmtree(path)
        assert query.publish() == (path,)
        assert shown(path) == rows([(*row, "insert") for row in LATE])

    def test_refusals(self, world: World) -> None:
        query = first_run(world)
        taken = world.folder / "taken"
        taken.mkdir()
        (taken / "theirs.csv").write_text("")
        query.output(world.folder / "mine")
        world.wh.add_query("other", SUMMARY, schedule=VIEW).run()
        refused: list[tuple[Callable[[], object], str]] = [
            (lambda: query.output(taken), "OUTPUT_TAKEN"),
            (lambda: query.output(taken, "changes"), "OUTPUT_TAKEN"),
            (lambda: world.wh.query("other").output(world.folder / "mine"), "OUTPUT_TAKEN"),
            (lambda: query.output(world.folder / "x", "append"), "BAD_OUTPUT"),
            (lambda: query.output(world.folder / "x", "upsert"), "BAD_OUTPUT"),
            (lambda: query.output(world.folder / "x", "replace", ["cat"]), "BAD_OUTPUT"),
            (lambda: query.output(world.folder / "x", "upsert", ["dog"]), "BAD_OUTPUT"),
            (lambda: query.output(world.folder / "x", "upsert", ["back"]), "DUPLICATE_KEY"),
        ]
        world.push([(2, 10)])
        query.run()
        for act, expected in refused:
            with pytest.raises(TempuraError) as error:
                act()
            assert code(error) == expected
        assert not (world.folder / "x").exists()

    def test_what_another_warehouse_published_is_not_overwritten(self, world: World) -> None:
        query = first_run(world)
        path = query.output(world.folder / "mine")
        shutil.rmtree(world.wh.path)
        world.wh = world.open()
        with pytest.raises(TempuraError) as error:
            first_run(world).output(path)
        assert code(error) == "OUTPUT_TAKEN"

    @pytest.mark.parametrize(("mode", "keys"), [("replace", []), ("upsert", ["cat"]), ("changes", [])])
    def test_stopped_at_every_file_operation(
        self, world: World, monkeypatch: pytest.MonkeyPatch, mode: str, keys: list[str]
    ) -> None:
        query = first_run(world)
        path = query.output(world.folder / "out", mode, keys)
        with monkeypatch.context() as patch:
            patch.setattr(Query, "publish", lambda self, progress: ())
            second_run(world, query)
        kept = world.folder / "kept"
        kept.mkdir()
        copy_output(world.folder, kept)
        old, new = shown(path), shown(path) if query.publish() else []
        assert new != old
        for stop in range(1, 1000):
            copy_output(kept, world.folder)
            try:
                open_site(world.wh.path, world.engine, stopping(stop)).query("summary").publish()
            except Stopped:
                # What is shown is one result or the other, and publishing again ends in the same place.
                assert shown(path) in (old, new)
                world.open().query("summary").publish()
                assert shown(path) == new
            else:
                assert stop > 6
                assert shown(path) == new
                return


def test_readers_see_a_whole_result_while_a_step_runs(world: World) -> None:
    """Another process that reads at any file operation of a run, or while it computes, finds the result before or the one after,
    and once the one after, for good."""
    path = first_run(world).output(world.folder / "out")
    reader = world.open().query("summary")
    seen: list[tuple[SignedBag, list[tuple[object, ...]]]] = []

    def look(*_: object) -> None:
        seen.append((held(reader), shown(path)))

    runner = open_site(world.wh.path, world.engine, Files(look), lambda: world.now).query("summary")
    second_run(world, runner)
    look()
    early, late = (SignedBag.of(EARLY), rows(EARLY)), (SignedBag.of(LATE), rows(LATE))
    committed = [result for result, _ in seen]
    published = [result for _, result in seen]
    assert committed == [early[0]] * committed.count(early[0]) + [late[0]] * committed.count(late[0])
    assert published == [early[1]] * published.count(early[1]) + [late[1]] * published.count(late[1])
    assert 10 < committed.count(early[0]) < published.count(early[1]), "published after it was committed"


def stopping(stop: int) -> Files:
    """Files of a process that ends before an operation."""
    seen = list[str]()

    def before(operation: str, at: Path) -> None:
        seen.append(operation)
        if len(seen) == stop:
            raise Stopped

    return Files(before)


def copy_output(source: Path, target: Path) -> None:
    for name in ("out", ".out.tempura"):
        old, new = source / name, target / name
        new.unlink() if new.is_symlink() else shutil.rmtree(new, ignore_errors=True)
        if old.is_symlink():
            new.symlink_to(old.readlink())
        elif old.exists():
            shutil.copytree(old, new)


class TestViewsOverViews:
    def test_each_result_arrives_as_what_it_changed(self, world: World) -> None:
        query = first_run(world)
        world.wh.add_table("sums", query="summary")
        above = world.wh.add_query("above", PER_KEY, schedule=VIEW)
        above.run()
        assert held(above) == SignedBag.of([(1, 1), (0, 1)])
        second_run(world, query)
        above.run(methods="im1")
        assert held(above) == SignedBag.of([(1, 1), (0, 2)])
        assert above.verify()
        about = world.wh.status()["tables"]["sums"]
        assert (about["version"], about["rows"], about["query"]) == (2, 3, "summary")
        assert above.run().nothing

    def test_also_when_the_result_was_recomputed_or_collected(self, world: World) -> None:
        query = first_run(world)
        table = world.wh.add_table("sums", query="summary", keys=["cat"])
        assert set(table.df().items()) == {(row, 1) for row in EARLY}  # type: ignore[operator]
        for i in range(3):
            world.push([(2, i)])
            query.run(methods="batch")
        assert world.wh.gc()
        found: object = table.df()
        assert found == SignedBag.of([("c1", 560, 1), ("c2", 450, 3)])
        # What did not change did not arrive again.
        assert [a.rows for a in table._arrivals.arrivals()] == [(2, 0), (1, 1)]

    def test_refusals(self, world: World) -> None:
        first_run(world)
        with pytest.raises(TempuraError) as error:
            world.wh.add_table("sums", query="nothing")
        assert code(error) == "UNKNOWN_QUERY"
        with pytest.raises(TempuraError) as error:
            world.wh.add_table("sums", query="summary", path=world.lake)
        assert code(error) == "BAD_SOURCE"
        table = world.wh.add_table("sums", query="summary")
        with pytest.raises(TempuraError, match="the results of query summary") as error:
            table.append([("c1", 1, 1)])  # type: ignore[arg-type]
        assert code(error) == "NOT_MANAGED"

    def test_a_recomputed_result_is_passed_on_as_a_net_delta(self, world: World) -> None:
        """The view above is maintained from what the recomputation changed, not from all of its rows."""
        query = first_run(world)
        world.wh.add_table("sums", query="summary")
        above = world.wh.add_query("above", PER_KEY, schedule=VIEW)
        above.run(methods="im1")
        second_run(world, query)
        world.push([(2, 5)])
        query.run(methods="batch")
        assert query.steps()[-1].method == "batch"
        above.run(methods="im1")
        assert "load" in above.steps()[-1].plan
        assert held(above) == SignedBag.of([(1, 2), (0, 1)])
        assert above.verify()
        assert [a.rows for a in above.reads[0].arrivals()] == [(2, 0), (3, 2)]

    def test_a_result_that_changes_as_a_whole_is_read_as_it_is(self, world: World) -> None:
        """By whoever reads it anew, not as the sum of its changes, which who maintains reads."""
        query = first_run(world)
        table = world.wh.add_table("sums", query="summary")
        above = world.wh.add_query("above", PER_KEY, schedule=VIEW)
        above.run()
        for key in range(20, 24):
            world.put(str(key), [(key, "c1", key), (key, "c2", key)])
            query.run()
            assert above.run(methods="im1" if key % 2 else "batch").rows
            assert held(above) == SignedBag.of([(1, 1), (0, 1)])
            assert above.verify()
        arrivals = table._arrivals
        assert [a.rows for a in arrivals.arrivals()] == [(2, 0), (2, 2), (2, 2), (2, 2), (2, 2)]
        read = arrivals.source(0, 5).rows
        assert (len(read.inserted), len(read.deleted), arrivals.deletions(5)) == (1, 0, (0, 0))
        assert arrivals.deletions(1) == (0, 0)
        assert arrivals.source(4, 5).rows.deleted, "what has changed is told all the same"
        stored = len(list(arrivals.shelf.copies.iterdir()))
        world.wh.gc(keep=1)
        assert len(list(arrivals.shelf.copies.iterdir())) < stored
        assert arrivals.deletions(5) == (0, 0)
        assert above.verify()

    def test_a_result_is_stored_as_it_is_by_whoever_looks_next(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Killed after the arrival: nothing is wrong, and the next look makes up for it."""
        query = first_run(world)
        table = world.wh.add_table("sums", query="summary")
        arrivals = table._arrivals
        register(arrivals)
        world.put("c", [(30, "c1", 1), (30, "c2", 2)])
        query.run()
        with monkeypatch.context() as patch:
            patch.setattr("tempura.warehouse.tables.take.store_anew", stop)
            with pytest.raises(Stopped):
                register(arrivals)
        assert (arrivals.version(), arrivals.deletions(2)) == (2, (2, 0))
        before: object = table.df()
        register(arrivals)
        assert (arrivals.version(), arrivals.deletions(2)) == (2, (0, 0))
        after: object = table.df()
        assert after == before

    def test_a_query_that_would_read_its_own_results(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(bag_engine.QUERIES, "over counts", counts_rel)
        query = world.query(VIEW)
        world.wh.add_table("sums", query="summary")
        for declare in (world.wh.add_query, world.wh.replace_query):
            with pytest.raises(TempuraError, match="it reads table sums, which is made from query summary") as error:
                declare("summary", PER_KEY)
            assert code(error) == "CYCLIC_QUERY"
        query.run()
        world.wh.add_query("above", PER_KEY, schedule=VIEW).run()
        world.wh.add_table("counts", query="above")
        with pytest.raises(
            TempuraError, match=r"table counts, .* query above, .* table sums, .* query summary"
        ) as error:
            world.wh.replace_query("summary", "over counts")
        assert code(error) == "CYCLIC_QUERY"
        assert query.sql == world.wh.query("summary").sql == SUMMARY
        assert world.wh.query("above").run().nothing

    def test_a_circle_that_the_declarations_were_edited_into(self, world: World) -> None:
        """Found when a result would come back, before any row of it arrives."""
        first_run(world)
        world.wh.add_table("sums", query="summary")
        world.wh.add_query("above", PER_KEY, schedule=VIEW)
        toml = world.wh.path / "tempura.toml"
        toml.write_text(toml.read_text().replace('query = "summary"', 'query = "above"'))
        again = world.open()
        again.query("above").run()
        with pytest.raises(TempuraError) as error:
            again.query("above").run()
        assert code(error) == "CYCLIC_QUERY"
        assert again.status()["tables"]["sums"]["version"] == 0


def stop(self: object, arrivals: object) -> None:
    raise Stopped


def counts_rel() -> Rel:
    """The categories' numbers of returns, from the results of the view that :func:`per_key_rel` is."""
    back = Column("c.back", "back", "bigint")
    return Project(Scan("counts", ("back",), (back,)), (Output(back, Ref(back)),))


def held(query: Query) -> SignedBag:
    found: object = query.result()
    assert isinstance(found, SignedBag)
    return found
