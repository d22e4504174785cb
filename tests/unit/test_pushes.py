"""Pushes that may be repeated: the same id is one arrival, and several tables are pushed into at once, all or nothing."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tempura.algebra.bag import SignedBag
from tempura.errors import TempuraError
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Ledger
from tempura.warehouse.commits.manifests import sealed, to_bytes
from tempura.warehouse.query import Query
from tempura.warehouse.times import follow
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, SUMMARY, BagEngine, Row, parse, write_rows
from tests.unit.dying import fork
from tests.unit.planned import planning_once
from tests.unit.test_commit import at_operation, counting, die, overtaken

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SALES, RETURNS = "o_id INT, cat STRING, price INT", "o_id INT, cost INT"


class Pushing:
    """A warehouse of two managed tables."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        self.wh = open_site(folder / "wh", BagEngine(), files or Files(), lambda: NOON)
        self.sales = self.wh.add_table("sales", schema=SALES, keys=["o_id"])
        self.returns = self.wh.add_table("returns", schema=RETURNS)

    def query(self) -> Query:
        return self.wh.add_query("q", SUMMARY, schedule=Schedule.view())

    @property
    def versions(self) -> tuple[int, int]:
        tables = self.wh.status()["tables"]
        return tables["sales"]["version"], tables["returns"]["version"]

    def rows(self, table: str) -> SignedBag:
        found: object = self.wh.table(table).df()
        assert isinstance(found, SignedBag)
        return found


def df(*rows: Row) -> Any:
    return list(rows)


planned = planning_once()


@pytest.fixture(autouse=True)
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same few plans at each operation."""
    monkeypatch.setattr(follow, "make_plan", planned)


@pytest.fixture
def at(tmp_path: Path) -> Pushing:
    return Pushing(tmp_path)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestIds:
    """Line 5 of "stuck for good": the same id twice is one arrival."""

    @pytest.mark.parametrize("call", ["append", "delete", "upsert", "apply"])
    def test_the_same_id_twice_is_one_arrival(self, at: Pushing, call: str) -> None:
        at.sales.append(df((1, "a", 10), (2, "b", 20)))
        rows = {
            "append": df((3, "c", 30)),
            "delete": df((1, "a", 10)),
            "upsert": df((2, "b", 21), (4, "d", 40)),
            "apply": df((1, "a", 10, "delete"), (2, "c", 5, "update"), (9, "z", 1, "insert")),
        }[call]
        assert getattr(at.sales, call)(rows, id="batch-17") == 2
        at.sales.append(df((50, "x", 1)))
        before, rows_before = files_of(at.wh.path), at.rows("sales")
        assert getattr(at.sales, call)(rows, id="batch-17") == 2
        assert files_of(at.wh.path) == before, "nothing is written"
        assert at.rows("sales") == rows_before
        assert at.versions == (3, 0)

    def test_another_table_has_ids_of_its_own(self, at: Pushing) -> None:
        assert at.sales.append(df((1, "a", 10)), id="x") == at.returns.append(df((1, 1)), id="x") == 1

    def test_an_id_used_for_something_else_is_refused(self, at: Pushing) -> None:
        at.returns.append(df((1, 1), (2, 2)), id="x")
        with pytest.raises(TempuraError) as error:
            at.returns.delete(df((1, 1), (2, 2)), id="x")
        assert error.value.code == "ID_REUSED"
        with pytest.raises(TempuraError, match="ID_REUSED"):
            at.returns.append(df((1, 1)), id="x")
        with pytest.raises(TempuraError, match="ID_REUSED"), at.wh.transaction(id="x") as t:
            t.table("returns").append(df((1, 1), (2, 2)))
        assert at.versions == (0, 1)

    @pytest.mark.parametrize("id", ["", " ", "a\nb", "x" * 201, 17])
    def test_a_bad_id_is_refused(self, at: Pushing, id: Any) -> None:
        with pytest.raises(TempuraError) as error:
            at.returns.append(df((1, 1)), id=id)
        assert error.value.code == "BAD_ID"
        with pytest.raises(TempuraError, match="BAD_ID"):
            at.wh.transaction(id=id)

    def test_a_push_that_is_refused_leaves_its_id_free(self, at: Pushing) -> None:
        with pytest.raises(TempuraError, match="DELETE_OF_MISSING"):
            at.returns.delete(df((1, 1)), id="x")
        assert at.returns.append(df((1, 1)), id="x") == 1

    def test_manifests_from_before_there_were_ids_are_read(self, at: Pushing) -> None:
        at.returns.append(df((1, 1)))
        path = at.wh.path / "tables/returns/arrivals/1.json"
        old = {k: v for k, v in json.loads(path.read_bytes()).items() if k not in ("pushed", "transaction", "checksum")}
        path.write_bytes(to_bytes(sealed(old)))
        assert at.returns.append(df((2, 2)), id="x") == 2
        assert at.rows("returns") == SignedBag.of([(1, 1), (2, 2)])

    @pytest.mark.slow
    def test_killed_at_every_file_operation_and_called_again(self, tmp_path: Path) -> None:
        def push(at: Pushing) -> None:
            at.returns.append(df((1, 1), (2, 2)), id="one")
            at.returns.apply(df((1, 1, "delete"), (3, 3, "insert")), id="two")

        for folder in killed_everywhere(tmp_path, push):
            at = Pushing(folder)
            assert at.versions == (0, 2)
            assert at.rows("returns") == SignedBag.of([(2, 2), (3, 3)])
            at.wh.gc()
            assert at.wh.gc() == ()


class TestFeeds:
    """Of feeds a file's name, or a position, is the id."""

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["parquet", "csv", "changes", "query"])
    def test_a_file_registered_twice_is_one_arrival_also_after_being_killed(self, tmp_path: Path, kind: str) -> None:
        def table(at: Pushing) -> str:
            if kind == "query":
                at.query()
                at.wh.add_table("sums", query="q")
                return "sums"
            folder = at.wh.path.parent / "lake"
            format = "csv" if kind == "csv" else "parquet"
            at.wh.add_table("fed", path=folder, schema=RETURNS, format=format)
            return "fed"

        def prepare(at: Pushing) -> None:
            lake = at.wh.path.parent / "lake"
            lake.mkdir(exist_ok=True)
            changes = [(1, 1, "insert"), (2, 2, "insert")]
            if kind == "parquet":
                write_rows(lake / "a.parquet", parse(RETURNS), [row[:2] for row in changes])
            elif kind == "csv":
                (lake / "a.csv").write_text("o_id,cost\n1,1\n2,2\n")
            elif kind == "changes":
                write_rows(lake / "a.parquet", parse(f"{RETURNS}, _change STRING"), changes)
            else:
                at.sales.append(df((1, "a", 10), (2, "b", 20)))
                at.query().run()

        for folder in killed_everywhere(tmp_path, lambda at: at.wh.table(table(at)).df(), prepare):
            at = Pushing(folder)
            name = table(at)
            at.wh.table(name).df()
            assert at.wh.status()["tables"][name]["version"] == 1
            assert at.rows(name).size == 2


def killed_everywhere(
    folder: Path, act: Callable[[Pushing], object], prepare: Callable[[Pushing], object] = lambda at: None
) -> Sequence[Path]:
    """Folders in which a process was killed at its n-th file operation, for all n, and another did the same from the start."""
    prepare(Pushing(folder / "calm"))
    files, seen = counting()
    act(Pushing(folder / "calm", files))
    done = []
    for n in range(1, len(seen) + 1):
        place = folder / str(n)
        prepare(Pushing(place))
        child = fork()
        if child == 0:
            try:
                act(Pushing(place, at_operation(n, die)))
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 99, seen[n - 1]
        act(Pushing(place))
        done.append(place)
    return done


def push_both(wh: Warehouse, id: str | None = None) -> None:
    with wh.transaction(id=id) as t:
        t.table("sales").append(df((7, "g", 70)))
        t.table("returns").delete(df((1, 1)))
        t.table("returns").append(df((7, 7)))


class TestTransactions:
    """Line 5 of "stuck for good": one call that pushes several tables at once, atomically."""

    @pytest.fixture
    def filled(self, at: Pushing) -> Pushing:
        at.sales.append(df((1, "a", 10)))
        at.returns.append(df((1, 1)))
        return at

    def test_all_of_it_is_there_at_its_end(self, filled: Pushing) -> None:
        with filled.wh.transaction() as t:
            assert t.table("sales").append(df((7, "g", 70))) == 2
            assert t.table("returns").delete(df((1, 1))) == 2
            assert t.table("returns").append(df((7, 7))) == 2
            assert filled.versions == (1, 1), "nobody sees it before"
        assert filled.versions == (2, 2), "one arrival of each table"
        assert filled.rows("sales") == SignedBag.of([(1, "a", 10), (7, "g", 70)])
        assert filled.rows("returns") == SignedBag.of([(7, 7)])
        filled.query().run()
        assert filled.query().verify()

    def test_an_exception_inside_undoes_all(self, filled: Pushing) -> None:
        filled.wh.gc()
        before = files_of(filled.wh.path)

        def pushed() -> None:
            with filled.wh.transaction() as t:
                t.table("sales").append(df((7, "g", 70)))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            pushed()
        assert files_of(filled.wh.path) == before

    def test_an_empty_one_does_nothing(self, filled: Pushing) -> None:
        before = files_of(filled.wh.path)
        with filled.wh.transaction(id="x") as t:
            t.table("sales")
        assert files_of(filled.wh.path) == before

    def test_promises_are_checked_within_it(self, filled: Pushing) -> None:
        def pushed() -> None:
            with filled.wh.transaction() as t:
                t.table("sales").append(df((7, "g", 70)))
                t.table("sales").append(df((7, "g", 71)))

        with pytest.raises(TempuraError, match="DUPLICATE_KEY"):
            pushed()
        with filled.wh.transaction() as t:
            t.table("sales").append(df((7, "g", 70)))
            t.table("sales").upsert(df((7, "g", 71)))
            t.table("sales").delete(df((7, "g", 71)))
            with pytest.raises(TempuraError, match="DELETE_OF_MISSING"):
                t.table("sales").delete(df((7, "g", 71)))
        assert filled.versions == (2, 1)
        assert filled.rows("sales") == SignedBag.of([(1, "a", 10)])

    def test_what_it_cannot_push_into_is_refused(self, filled: Pushing, tmp_path: Path) -> None:
        (tmp_path / "lake").mkdir()
        filled.wh.add_table("fed", path=tmp_path / "lake", schema=RETURNS)
        filled.wh.add_table("still", schema=RETURNS, static=True).append(df((1, 1)))

        def pushed(name: str) -> None:
            with filled.wh.transaction() as t:
                t.table("sales").append(df((7, "g", 70)))
                t.table(name).append(df((2, 2)))

        for name, code in (("fed", "NOT_MANAGED"), ("still", "STATIC_TABLE"), ("none", "UNKNOWN_TABLE")):
            with pytest.raises(TempuraError, match=code):
                pushed(name)
        assert filled.versions == (1, 1)

    def test_a_push_after_its_end_is_refused(self, filled: Pushing) -> None:
        with filled.wh.transaction() as t:
            table = t.table("sales")
        with pytest.raises(TempuraError) as error:
            table.append(df((7, "g", 70)))
        assert error.value.code == "TRANSACTION_ENDED"

    def test_the_same_id_twice_is_one_transaction(self, filled: Pushing) -> None:
        push_both(filled.wh, "day-1")
        before = files_of(filled.wh.path)
        push_both(filled.wh, "day-1")
        assert files_of(filled.wh.path) == before
        with filled.wh.transaction(id="day-1") as t:
            assert t.table("sales").append(df((7, "g", 70))) == 2
            assert t.table("returns").append(df((7, 7), (8, 8))) == 2

    def test_the_same_id_for_other_pushes_is_refused(self, filled: Pushing) -> None:
        push_both(filled.wh, "day-1")
        with pytest.raises(TempuraError, match="ID_REUSED"), filled.wh.transaction(id="day-1") as t:
            t.table("sales").append(df((7, "g", 70)))
        filled.wh.add_table("other", schema=RETURNS)
        with pytest.raises(TempuraError, match="ID_REUSED"), filled.wh.transaction(id="day-1") as t:
            t.table("other").append(df((7, 7)))
        with pytest.raises(TempuraError, match="ID_REUSED"):
            filled.returns.append(df((1, 1), (7, 7)), id="day-1")
        assert filled.versions == (2, 2)

    @pytest.mark.slow
    def test_killed_at_every_file_operation_all_or_nothing(self, tmp_path: Path) -> None:
        def prepare(at: Pushing) -> None:
            at.sales.append(df((1, "a", 10)))
            at.returns.append(df((1, 1)))

        prepare(Pushing(tmp_path / "made"))
        shutil.copytree(tmp_path / "made", tmp_path / "calm")
        files, seen = counting()
        push_both(Pushing(tmp_path / "calm", files).wh)
        outcomes = []
        for n in range(1, len(seen) + 1):
            place = tmp_path / str(n)
            shutil.copytree(tmp_path / "made", place)
            child = fork()
            if child == 0:
                try:
                    push_both(Pushing(place, at_operation(n, die)).wh)
                finally:
                    os._exit(1)
            os.waitpid(child, 0)
            at = Pushing(place)
            outcomes.append(at.versions)
            query = at.query()
            query.run()
            assert query.steps()[-1].inputs == {"sales": at.versions[0], "returns": at.versions[1]}
            # The next push finds its way, whatever was left behind.
            at.returns.append(df((5, 5)))
            at.sales.append(df((5, "e", 5)))
            assert at.versions == (outcomes[-1][0] + 1, outcomes[-1][1] + 1)
            at.wh.gc()
            assert at.wh.gc() == ()
            query.run()
            assert query.verify()
            assert ((7, 7) in dict(at.rows("returns").items())) == (outcomes[-1] == (2, 2))
        assert set(outcomes) == {(1, 1), (2, 2)}, "all or nothing"
        assert outcomes == sorted(outcomes)

    @pytest.mark.slow
    def test_killed_at_every_file_operation_and_called_again(self, tmp_path: Path) -> None:
        def prepare(at: Pushing) -> None:
            at.sales.append(df((1, "a", 10)))
            at.returns.append(df((1, 1)))

        for folder in killed_everywhere(tmp_path, lambda at: push_both(at.wh, "day-1"), prepare):
            at = Pushing(folder)
            assert at.versions == (2, 2)
            assert at.rows("returns") == SignedBag.of([(7, 7)])

    @pytest.mark.slow
    def test_failing_at_every_file_operation_all_or_nothing(self, tmp_path: Path) -> None:
        """An error of the system, unlike a kill, runs the clean-up."""

        def fail() -> Any:
            raise OSError(5, "Input/output error")

        files, seen = counting()
        Pushing(tmp_path / "calm").returns.append(df((1, 1)))
        push_both(Pushing(tmp_path / "calm", files).wh)
        for n in range(1, len(seen) + 1):
            place = tmp_path / str(n)
            Pushing(place).returns.append(df((1, 1)))
            with suppress(OSError, TempuraError):
                push_both(Pushing(place, at_operation(n, fail)).wh, "day-1")
            at = Pushing(place)
            assert at.versions in ((0, 1), (1, 2)), seen[n - 1]
            push_both(at.wh, "day-1")
            assert at.versions == (1, 2)
            assert at.rows("sales") == SignedBag.of([(7, "g", 70)])

    @pytest.mark.parametrize("table", ["sales", "returns"])
    def test_another_process_pushes_at_the_same_moment(self, tmp_path: Path, table: str) -> None:
        Pushing(tmp_path).returns.append(df((1, 1)))
        number = "1.json" if table == "sales" else "2.json"

        def faster(folder: Path) -> None:
            row = (5, "e", 5) if table == "sales" else (5, 5)
            Pushing(folder).wh.table(table).append(df(row))

        with overtaken(tmp_path, "link", number, at_path=f"{table}/arrivals", act=faster) as files:
            with pytest.raises(TempuraError) as error:
                push_both(Pushing(tmp_path, files).wh)
            assert error.value.code == "COMMIT_LOST"
        at = Pushing(tmp_path)
        assert at.versions == ((1, 1) if table == "sales" else (0, 2)), "nothing of the transaction is visible"
        at.wh.gc()
        assert at.wh.gc() == ()
        push_both(at.wh)
        assert at.rows("returns").size == (1 if table == "sales" else 2)

    def test_a_push_between_two_of_its_tables_is_told(self, tmp_path: Path) -> None:
        """The transaction has taken its number in one table: whoever wants it is told, and the transaction goes on."""
        Pushing(tmp_path).returns.append(df((1, 1)))
        told: list[str] = []

        def late(folder: Path) -> None:
            with pytest.raises(TempuraError) as error:
                Pushing(folder).returns.append(df((5, 5)))
            told.append(error.value.code)

        with overtaken(tmp_path, "link", "1.json", at_path="sales/arrivals", act=late) as files:
            push_both(Pushing(tmp_path, files).wh)
        assert told == ["COMMIT_LOST"]
        assert Pushing(tmp_path).versions == (1, 2)

    def test_a_process_that_takes_it_for_dead_decides(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Pushing(tmp_path).returns.append(df((1, 1)))
        decided: list[int] = []

        def before(operation: str, path: Path) -> None:
            if operation == "link" and path.parent.name == "transactions" and not decided:
                with monkeypatch.context() as patch:
                    patch.setattr(Files, "is_locked", lambda self, path: False)
                    decided.append(Pushing(tmp_path).returns.append(df((5, 5))))

        with pytest.raises(TempuraError) as error:
            push_both(Pushing(tmp_path, Files(before)).wh)
        assert error.value.code == "COMMIT_LOST"
        assert decided == [2]
        at = Pushing(tmp_path)
        assert at.versions == (0, 2)
        assert at.rows("returns") == SignedBag.of([(1, 1), (5, 5)])

    def test_two_that_cross_each_other(self, tmp_path: Path) -> None:
        at = Pushing(tmp_path)
        at.returns.append(df((1, 1)))

        def pushed() -> None:
            with at.wh.transaction() as t:
                t.table("sales").append(df((8, "h", 80)))
                push_both(Pushing(tmp_path).wh)
                t.table("returns").append(df((8, 8)))

        with pytest.raises(TempuraError, match="COMMIT_LOST"):
            pushed()
        assert at.versions == (1, 2)

    def test_two_of_the_same_id_at_the_same_moment(self, tmp_path: Path) -> None:
        at = Pushing(tmp_path)
        at.returns.append(df((1, 1)))

        def pushed() -> None:
            with at.wh.transaction(id="day-1") as t:
                push_both(Pushing(tmp_path).wh, "day-1")
                t.table("sales").append(df((7, "g", 70)))

        with pytest.raises(TempuraError, match="COMMIT_LOST"):
            pushed()
        assert at.versions == (1, 2)

    @pytest.mark.parametrize("moment", range(1, 12))
    def test_a_run_sees_all_of_it_or_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
        """A transaction is committed between any two looks at a ledger while a run pins its versions."""
        at = Pushing(tmp_path)
        at.returns.append(df((1, 1)))
        query = at.query()
        real, looks = Ledger.entries, [0]

        def entries(self: Ledger) -> Any:
            found = real(self)
            if "arrivals" in self.folder.parts:
                looks[0] += 1
                if looks[0] == moment:
                    push_both(Pushing(tmp_path).wh)
            return found

        monkeypatch.setattr(Ledger, "entries", entries)
        query.run()
        pinned = dict(query.steps()[-1].inputs)
        assert pinned in ({"sales": 0, "returns": 1}, {"sales": 1, "returns": 2})
        assert query.verify()

    def test_a_table_made_anew_has_no_part_in_it(self, filled: Pushing) -> None:
        push_both(filled.wh)
        shutil.rmtree(filled.wh.path / "tables/returns")
        filled.query().run()
        assert filled.query().steps()[-1].inputs == {"sales": 2, "returns": 0}

    def test_a_count_goes_on_over_a_void_transaction(self, tmp_path: Path) -> None:
        at = Pushing(tmp_path)
        query = at.wh.add_query("n", COUNT, schedule=Schedule.view())
        at.returns.append(df((1, 1)))

        def pushed() -> None:
            with at.wh.transaction() as t:
                t.table("returns").delete(df((1, 1)))
                t.table("sales").append(df((8, "h", 80)))
                at.sales.append(df((5, "e", 5)))

        with pytest.raises(TempuraError, match="COMMIT_LOST"):
            pushed()
        query.run()
        at.sales.append(df((6, "f", 6)))
        query.run()
        assert query.verify()
        assert [step.inputs["sales"] for step in query.steps()] == [1, 2]


@pytest.mark.parametrize("kind", ["append", "upsert", "delete", "apply"])
def test_none_is_no_rows_that_were_pushed(at: Pushing, kind: str) -> None:
    """It is what a function gives that has forgotten to; the id is not used up."""
    with pytest.raises(TempuraError, match=rf"{kind}\(None\)") as error:
        getattr(at.sales, kind)(None, id="b1")
    assert error.value.code == "BAD_ROWS"
    assert at.versions == (0, 0)
    assert at.sales.append(df((1, "a", 10)), id="b1") == 1
