"""Warehouses over an engine without a JVM: tables, promises, schedules, runs and their ledger."""

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import scans
from tempura.errors import TempuraError
from tempura.execute.contract import StepOutcome
from tempura.physical.operators import Read, StateKey
from tempura.tvr.views import Snapshot
from tempura.warehouse.commits.files import Files
from tempura.warehouse.engine import Check, Verification, Work
from tempura.warehouse.query import Query
from tempura.warehouse.runs.required import Demand
from tempura.warehouse.times.history import History
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import Slot
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit.bag_engine import COUNT, LARGE, SUMMARY, BagEngine, Row, parse, summary_rel, write_rows
from tests.unit.test_churn import PRICES

SALES = "o_id INT, cat STRING, price INT"
RETURNS = "o_id INT, cost INT"
DAILY = Schedule.progressive({"14:00": 0.25, "19:00": 0.3, "24:00": 1.0})
SCHEDULES = {
    "view": Schedule.view(),
    "day": DAILY,
    "another day": Schedule.progressive({"08:00": 0.25, "12:30": 0.3, "15:00": 0.5, "23:00": 1.0}),
    "one label": Schedule(("a",), (1.0,), (True,), "c_w"),
    "three labels": Schedule(("a", "b", "c"), (0.25, 0.5, 1.0), (False, False, True), "c_w"),
}
ANY = Demand(("all",), incremental=False, anew=False)

FIRST: list[Row] = [(1, "c1", 100), (2, "c2", 150), (3, "c1", 120), (4, "c1", 170), (4, "c1", 170)]
SECOND: list[Row] = [(5, "c2", 300), (6, "c1", 150), (7, None, 220)]


class World:
    """A warehouse with a clock that stands where a test puts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = BagEngine()
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.lake = folder / "lake" / "sales"
        self.wh = self.open()

    def open(self) -> Warehouse:
        return open_site(self.folder / "wh", self.engine, Files(), lambda: self.now)

    def put(self, name: str, rows: list[Row], ddl: str = SALES) -> None:
        write_rows(self.lake / f"{name}.parquet", parse(ddl), rows)

    def query(self, schedule: Schedule = DAILY) -> Query:
        self.wh.add_table("sales", path=self.lake, schema=SALES)
        self.wh.add_table("returns", schema=RETURNS)
        return self.wh.add_query("summary", SUMMARY, schedule=schedule)

    def push(self, inserts: list[Row], deletes: list[Row] | None = None) -> None:
        changes = [(*r, "insert") for r in inserts] + [(*r, "delete") for r in deletes or []]
        self.wh.table("returns").apply(changes)  # type: ignore[arg-type]


def fails_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the next step fails for a row that is gone, and none after it."""
    execute, failed = world.engine.execute, list[Work]()

    def executed(work: Work) -> StepOutcome:
        if not failed:
            failed.append(work)
            raise TempuraError("DIVIDE_BY_ZERO", "a row that is gone", "")
        return execute(work)

    monkeypatch.setattr(world.engine, "execute", executed)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lake.mkdir(parents=True)
    return world


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


def result(query: Query) -> SignedBag:
    found: object = query.result()
    assert isinstance(found, SignedBag)
    return found


class TestVerifyingWhileOthersWork:
    @pytest.mark.parametrize("before", [True, False], ids=["before it is read", "after it was read"])
    def test_a_result_that_is_collected_meanwhile_gives_way_to_the_next(
        self, world: World, monkeypatch: pytest.MonkeyPatch, before: bool
    ) -> None:
        query, verify = begun(world), world.engine.verify
        asked: list[int] = []

        def verified(check: Check) -> Verification:
            asked.append(len(asked))
            if len(asked) > 1:
                return verify(check)
            found = None if before else verify(check)
            world.push([(2, 7)])
            world.open().query("summary").run()
            world.open().gc(keep=1)
            return verify(check) if found is None else replace(found, equal=False)

        monkeypatch.setattr(world.engine, "verify", verified)
        assert query.verify()
        assert asked == [0, 1]

    @pytest.mark.parametrize("newer", [True, False])
    def test_what_is_wrong_with_a_result_that_is_there_is_told(
        self, world: World, monkeypatch: pytest.MonkeyPatch, newer: bool
    ) -> None:
        query = begun(world)

        def unequal(check: Check) -> Verification:
            if newer:
                world.push([(2, 7)])
                world.open().query("summary").run()
            return Verification(False, 1, (), ("a row",), "bags")

        monkeypatch.setattr(world.engine, "verify", unequal)
        assert query.verify().extra == ("a row",)

    def test_an_error_of_the_last_result_is_told(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(check: Check) -> Verification:
            raise TempuraError("STATE_MISSING", "There is no folder.")

        query = begun(world)
        monkeypatch.setattr(world.engine, "verify", fails)
        with pytest.raises(TempuraError) as error:
            query.verify()
        assert code(error) == "STATE_MISSING"


def begun(world: World) -> Query:
    """A view that has run once."""
    query = world.query(Schedule.view())
    world.put("a", FIRST)
    query.run()
    return query


class TestRuns:
    @pytest.mark.parametrize("methods", ["im1", "im2", "batch", "all"])
    def test_a_day_in_three_runs_and_another(self, world: World, methods: str) -> None:
        query = world.query()
        world.put("a", FIRST)
        world.push([(1, 10)])
        assert query.run(at="14:00", force=True, methods=methods).rows is None
        world.put("b", SECOND)
        world.push([(2, 20), (6, 15)], [(1, 10)])
        assert query.run(at="19:00", force=True, methods=methods).rows is None
        world.push([(7, 1), (7, 1)])
        assert query.run(at="24:00", force=True, methods=methods).rows == 3
        assert result(query) == SignedBag.of([("c1", 710, 1), ("c2", 450, 1), (None, 440, 2)])
        assert query.verify()
        world.push([], [(7, 1)])
        for label in DAILY.times:
            query.run(at=label, force=True, methods=methods)
        assert query.verify()
        assert world.wh.query("summary").changes() == SignedBag([((None, 440, 2), -1), ((None, 220, 1), 1)])
        assert [entry.label for entry in query.history()][3:] == [f"2026-03-02 {label}" for label in DAILY.times]

    def test_incremental_runs_load_the_states_of_the_cycle_before(self, world: World) -> None:
        world.engine.prices = PRICES
        query = world.query(Schedule.view())
        world.put("a", FIRST * 20)
        query.run(methods="im1")
        world.push([(1, 10)])
        query.run(methods="im1")
        assert query.steps()[1].states
        text = query.steps()[1].plan
        assert "load" in text
        assert query.verify()

    @pytest.mark.parametrize(("before", "after"), [*permutations(SCHEDULES, 2)])
    def test_a_schedule_takes_the_place_of_another(self, world: World, before: str, after: str) -> None:
        """What has run by the one counts in the other where it has a place in it, and hides nothing."""
        world.now = datetime(2026, 3, 1, 13, tzinfo=UTC)
        world.put("a", FIRST)
        query = world.query(SCHEDULES[before])
        for _ in range(3):
            query.run()
            world.push([(1, 10)])
        query = world.wh.add_query("summary", query.sql, schedule=SCHEDULES[after])
        assert "error" not in world.wh.status()["queries"]["summary"]
        world.now = datetime(2026, 3, 2, 0, tzinfo=UTC)
        while not query.run().nothing:
            world.wh.status()
        query.run(now=True)
        assert query.verify()
        ran = {step.slot.label for step in query.steps()}
        if after in ("one label", "three labels"):
            assert ran >= set(SCHEDULES[after].times), "each of its times was run"

    def test_the_same_run_twice_does_nothing(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        world.now = datetime(2026, 3, 1, 20, tzinfo=UTC)
        first = query.run()
        assert (first.label, first.skipped) == ("2026-03-01 19:00", ("2026-03-01 14:00",))
        again = query.run()
        assert again.nothing
        assert "2026-03-01 24:00" in again.why
        assert len(query.history()) == 1

    def test_a_view_is_refreshed_when_something_arrived(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        assert query.run().label == "refresh 1"
        assert query.run().nothing
        world.push([(1, 1)])
        assert query.run().label == "refresh 2"
        with pytest.raises(TempuraError) as error:
            query.run(at="14:00", force=True)
        assert code(error) == "UNKNOWN_TIME"

    def test_a_dry_run_says_what_would_be_read_and_done(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        text = query.run(at="19:00", force=True, methods="im1", dry_run=True).table()
        assert "reads: returns version 0, sales version 1" in text
        assert "skipped: 2026-03-01 14:00" in text
        assert "aggregate" in text
        assert text.endswith("nothing was done")

    def test_dry_run_leaves_no_step(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        report = query.run(at="24:00", force=True, dry_run=True)
        assert report.dry_run
        assert report.estimated_cost > 0
        assert query.history() == ()
        assert world.engine.executed == 0

    def test_a_plan_under_another_schedule_changes_nothing(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        plan = query.plan(schedule=Schedule.progressive({"06:00": 0.1, "08:00": 1.0}))
        assert plan.labels == ("06:00", "08:00")
        assert query.plan().labels == ("2026-03-01 14:00", "19:00", "24:00")

    def test_a_plan_reports_costs_per_time(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        plan = query.plan(methods=["im1"])
        assert plan.labels == ("2026-03-01 14:00", "19:00", "24:00")
        weighted = sum(step.cost * weight for step, weight in zip(plan.steps, plan.plan.weights, strict=True))
        assert plan.cost == pytest.approx(weighted, rel=1e-6)
        assert "24:00" in plan.explain(show="cost,method,rows")
        json.dumps(plan.to_json())
        with pytest.raises(TempuraError) as error:
            plan.explain(show="colour")
        assert code(error) == "UNKNOWN_SHOW"

    def test_a_fixed_horizon_ends(self, world: World) -> None:
        query = world.query(Schedule(("x", "y"), (0.5, 1), (True, True)))
        world.put("a", FIRST)
        assert query.run().rows == 2
        assert query.run().rows == 2
        assert query.run().nothing
        with pytest.raises(TempuraError) as error:
            query.plan()
        assert code(error) == "SCHEDULE_ENDED"

    def test_no_result_before_the_deadline(self, world: World) -> None:
        query = world.query()
        for ask in (query.result, query.changes, query.verify):
            with pytest.raises(TempuraError) as error:
                ask()
            assert code(error) == "NO_RESULT"

    def test_another_version_or_setting_of_the_engine(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run(methods="im1")
        world.engine.session["spark.sql.session.timeZone"] = "Asia/Tokyo"
        world.push([(1, 1)])
        query.run(methods="im1")
        assert query.steps()[1].settings == {"spark.sql.session.timeZone": "UTC"}
        world.engine.version = "4.4.0"
        world.push([(2, 1)])
        assert "load" not in query.plan(methods="im1").explain(step="refresh 3")
        query.run(methods="im1")
        assert query.verify()

    def test_states_of_two_runs_over_the_same_rows_do_not_meet(self, world: World) -> None:
        """They may be sums of floats that were computed apart."""
        query = world.query()
        world.put("a", FIRST)
        world.push([(1, 10)])
        query.run(at="14:00", force=True, methods="im1")
        (first,) = query.steps()
        assert first.states
        other = replace(first.states[0], expression="f" * 64)
        again = replace(first, n=2, states=(other,))
        planning = query._planning(History((first, again)), ANY, dry=False)
        situation = planning.situation(query._agenda.upcoming(query.committed()), DAILY)
        assert {key.expression for key in situation.states} == {other.expression}


class TestQueries:
    def test_the_same_declaration_changes_nothing(self, world: World) -> None:
        world.query()
        text = (world.wh.path / "tempura.toml").read_text()
        world.query()
        assert (world.wh.path / "tempura.toml").read_text() == text

    def test_a_changed_query_is_refused_once_it_has_runs(self, world: World) -> None:
        query = world.query()
        assert world.wh.add_query("summary", COUNT, schedule=DAILY).sql == COUNT
        query = world.wh.add_query("summary", SUMMARY)
        query.run(at="14:00", force=True)
        with pytest.raises(TempuraError) as error:
            world.wh.add_query("summary", COUNT)
        assert code(error) == "QUERY_CHANGED"
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace(SUMMARY, COUNT))
        with pytest.raises(TempuraError) as error:
            world.wh.query("summary").run(at="19:00", force=True)
        assert code(error) == "QUERY_CHANGED"

    def test_a_query_from_a_frame_is_registered_in_each_process(self, world: World) -> None:
        world.query()
        query = world.wh.add_query("counted", df=COUNT, schedule=DAILY)  # type: ignore[arg-type]
        world.put("a", FIRST)
        query.run(at="24:00", force=True)
        other = world.open()
        for ask in (other.query("counted").plan, other.query("counted").result):
            with pytest.raises(TempuraError) as error:
                ask()
            assert code(error) == "QUERY_NOT_REGISTERED"
        other.add_query("counted", df=COUNT, schedule=DAILY)  # type: ignore[arg-type]
        assert result(other.query("counted")) == SignedBag.of([(5,)])
        with pytest.raises(TempuraError) as error:
            other.add_query("counted", df=SUMMARY)  # type: ignore[arg-type]
        assert code(error) == "QUERY_CHANGED"

    def test_unknown_names(self, world: World) -> None:
        for ask, expected in ((world.wh.query, "UNKNOWN_QUERY"), (world.wh.table, "UNKNOWN_TABLE")):
            with pytest.raises(TempuraError) as error:
                ask("nope")
            assert code(error) == expected


class TestFolders:
    def test_new_files_are_one_arrival_and_old_ones_stay(self, world: World) -> None:
        world.query()
        sales = world.wh.table("sales")
        world.put("a", FIRST)
        world.put("b", SECOND)
        (world.lake / "_SUCCESS").touch()
        sales.df()
        world.put("c", SECOND)
        sales.df()
        sales.df()
        assert world.wh.status()["tables"]["sales"] | {"last_arrival": ""} == {
            "version": 2, "rows": 11, "files": 3, "last_arrival": "", "format": "parquet",
            "bytes": sum(p.stat().st_size for p in world.lake.glob("*.parquet")),
            "path": str(world.lake), "schema": SALES,
        }  # fmt: skip

    def test_a_wrong_file_is_refused_before_anything_arrives(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        world.put("b", [(1, "x", "y")], "o_id INT, cat STRING, price STRING")
        with pytest.raises(TempuraError) as error:
            query.run(at="14:00", force=True)
        assert code(error) == "WRONG_SCHEMA"
        assert "b.parquet: column price has type string, but the table expects int" in error.value.what
        assert world.wh.status()["tables"]["sales"]["version"] == 0

    def test_known_files_must_stay_as_they_are(self, world: World) -> None:
        query = world.query()
        world.put("a", FIRST)
        world.wh.table("sales").df()
        world.put("a", SECOND)
        with pytest.raises(TempuraError) as error:
            query.plan()
        assert code(error) == "FILE_CHANGED"
        (world.lake / "a.parquet").unlink()
        with pytest.raises(TempuraError) as error:
            query.plan()
        assert code(error) == "FILE_GONE"

    def test_files_settle(self, world: World) -> None:
        world.wh.add_table("sales", path=world.lake, schema=SALES, settle=60)
        world.put("a", FIRST)
        assert world.wh.table("sales").df() == SignedBag()
        old = datetime.now(UTC).timestamp() - 61
        os.utime(world.lake / "a.parquet", (old, old))
        assert world.wh.table("sales").df() == SignedBag.of(FIRST)

    def test_the_schema_is_taken_from_the_files_and_pinned(self, world: World) -> None:
        with pytest.raises(TempuraError) as error:
            world.wh.add_table("sales", path=world.lake)
        assert code(error) == "FOLDER_MISSING"
        world.put("a", FIRST)
        assert world.wh.add_table("sales", path=world.lake).schema == parse(SALES)
        assert world.wh.add_table("sales", path=world.lake).schema == parse(SALES)
        world.wh.table("sales").df()
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace("price INT", "price BIGINT"))
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").df()
        assert code(error) == "SCHEMA_CHANGED"

    def test_promises(self, world: World) -> None:
        world.wh.add_table("sales", path=world.lake, schema=SALES, keys=["o_id"], static=True)
        world.wh.add_query("n", COUNT, schedule=DAILY)
        with pytest.raises(TempuraError) as error:
            world.wh.query("n").run(at="14:00", force=True)
        assert code(error) == "STATIC_EMPTY"
        world.put("a", FIRST)
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").df()
        assert code(error) == "DUPLICATE_KEY"
        world.put("a", FIRST[:4])
        world.wh.table("sales").df()
        world.put("b", SECOND)
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").df()
        assert code(error) == "STATIC_TABLE"

    @pytest.mark.parametrize("promise", ["static", "append_only"])
    def test_a_promise_declared_late_does_not_rewrite_the_past(self, world: World, promise: str) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        world.push([(1, 1), (2, 2)])
        query.run(methods="im1")
        world.push([], [(1, 1)])
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace("[tables.returns]", f"[tables.returns]\n{promise} = true"))
        query = world.open().query("summary")
        query.run(methods="im1")
        assert query.verify()
        assert result(query) == SignedBag.of([("c1", 560, 0), ("c2", 150, 1)])


class TestManaged:
    def test_deletes_need_their_rows(self, world: World) -> None:
        world.query()
        table = world.wh.table("returns")
        world.push([(1, 10), (1, 10), (2, None)])
        with pytest.raises(TempuraError) as error:
            table.delete([(1, 10), (1, 10), (1, 10)])  # type: ignore[arg-type]
        assert code(error) == "DELETE_OF_MISSING"
        assert "(1, 10)" in error.value.what
        table.delete([(1, 10), (2, None)])  # type: ignore[arg-type]
        assert table.df() == SignedBag.of([(1, 10)])
        with pytest.raises(TempuraError):
            table.delete([(2, None)])  # type: ignore[arg-type]
        world.push([(9, 9)], [(9, 9)])
        assert table.df() == SignedBag.of([(1, 10)])
        assert not list((world.wh.path / ".tempura" / "attempts").iterdir())
        assert len(list((world.wh.path / "tables" / "returns" / "data").iterdir())) == 3

    def test_promises(self, world: World) -> None:
        log = world.wh.add_table("log", schema=RETURNS, append_only=True, keys=["o_id"])
        log.append([(1, 1), (None, 2)])  # type: ignore[arg-type]
        for rows in ([(1, 5)], [(2, 1), (2, 1)], [(None, 1)]):
            with pytest.raises(TempuraError) as error:
                log.append(rows)  # type: ignore[arg-type]
            assert code(error) == "DUPLICATE_KEY"
        with pytest.raises(TempuraError) as error:
            log.delete([(1, 1)])  # type: ignore[arg-type]
        assert code(error) == "APPEND_ONLY"
        fixed = world.wh.add_table("fixed", schema=RETURNS, static=True)
        fixed.append([])  # type: ignore[arg-type]
        with pytest.raises(TempuraError) as error:
            fixed.append([(1, 1)])  # type: ignore[arg-type]
        assert code(error) == "STATIC_TABLE"

    def test_an_update_keeps_its_key(self, world: World) -> None:
        table = world.wh.add_table("t", schema=RETURNS, keys=["o_id"])
        table.append([(1, 1)])  # type: ignore[arg-type]
        table.apply([(1, 1, "delete"), (1, 2, "insert")])  # type: ignore[arg-type]
        assert table.df() == SignedBag.of([(1, 2)])

    def test_a_folder_takes_no_pushes(self, world: World) -> None:
        world.query()
        with pytest.raises(TempuraError) as error:
            world.wh.table("sales").append([])  # type: ignore[arg-type]
        assert code(error) == "NOT_MANAGED"


class TestDeclaring:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({"name": "../x", "schema": RETURNS}, "BAD_NAME"),
            ({"name": "t"}, "BAD_SCHEMA"),
            ({"name": "t", "schema": "a INT, A INT"}, "BAD_SCHEMA"),
            ({"name": "t", "schema": RETURNS, "keys": ["id"]}, "BAD_KEYS"),
            ({"name": "t", "schema": RETURNS, "format": "orc"}, "UNSUPPORTED_FORMAT"),
            ({"name": "t", "schema": RETURNS, "options": {"sep": ";"}}, "BAD_OPTION"),
            ({"name": "t", "schema": RETURNS, "format": "csv", "options": {"mode": "DROPMALFORMED"}}, "BAD_OPTION"),
            ({"name": "t", "schema": RETURNS, "format": "csv", "options": {"sep": "::"}}, "BAD_OPTION"),
            ({"name": "t", "schema": RETURNS, "path": "s3://b/t"}, "UNSUPPORTED_PATH"),
        ],
    )
    def test_refusals(self, world: World, arguments: dict[str, object], expected: str) -> None:
        with pytest.raises(TempuraError) as error:
            world.wh.add_table(**arguments)  # type: ignore[arg-type]
        assert code(error) == expected
        assert (world.wh.path / "tempura.toml").read_text() == ""

    def test_another_declaration_of_a_table(self, world: World) -> None:
        world.wh.add_table("t", schema=RETURNS)
        with pytest.raises(TempuraError) as error:
            world.wh.add_table("t", schema=RETURNS, static=True)
        assert code(error) == "TABLE_EXISTS"

    def test_a_warehouse_of_a_newer_format(self, world: World) -> None:
        (world.wh.path / ".tempura" / "format.json").write_text('{"format": 99}')
        with pytest.raises(TempuraError) as error:
            world.open()
        assert code(error) == "FORMAT_NEWER"

    def test_a_warehouse_can_be_moved(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run(methods="im1")
        world.wh.path.rename(world.folder / "moved")
        moved = open_site(world.folder / "moved", world.engine, Files(), lambda: world.now)
        moved.table("returns").append([(1, 1)])  # type: ignore[arg-type]
        moved.query("summary").run(methods="im1")
        assert moved.query("summary").verify()


class TestDamage:
    """A file altered by one byte, cut short or lost; a manifest of the future; a clock that goes back."""

    @pytest.fixture
    def query(self, world: World) -> Query:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run(methods="im1")
        world.push([(1, 1)])
        query.run(methods="im1")
        return query

    @staticmethod
    def alter(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    @staticmethod
    def nothing(path: Path) -> None:
        pass

    @staticmethod
    def truncate(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-1])

    @pytest.mark.parametrize("harm", ["alter", "truncate", "unlink", "nothing"])
    def test_a_damaged_state_is_computed_anew(self, world: World, harm: str) -> None:
        query = world.query(Schedule(("14:00", "24:00"), (0.1, 1.0), (False, True)))
        world.put("a", FIRST)
        query.run(at="14:00", methods="im1")
        (state,) = (world.wh.path / "queries/summary/attempts").glob("*/states/*/rows.json")
        getattr(self, harm, Path.unlink)(state)
        world.push([(3, 3)])
        report = query.run(at="24:00", methods="im1")
        assert any("STATE_DAMAGED" in reason for reason in report.fallbacks) == (harm != "nothing")
        assert query.verify()

    @pytest.mark.parametrize("harm", ["alter", "truncate", "unlink"])
    def test_a_damaged_result_is_refused_and_written_anew(self, world: World, query: Query, harm: str) -> None:
        (output,) = (f for f in (world.wh.path / str(query.steps()[-1].output.paths[0])).iterdir())  # type: ignore[union-attr]
        getattr(self, harm, Path.unlink)(output)
        with pytest.raises(TempuraError) as error:
            query.result()
        assert code(error) == "RESULT_DAMAGED"
        assert not query.verify()
        assert query.run().n == 3
        assert query.verify()
        assert query.run().nothing

    @pytest.mark.parametrize("harm", ["alter", "truncate", "unlink"])
    def test_damaged_rows_of_a_managed_table_are_refused(self, world: World, query: Query, harm: str) -> None:
        (rows,) = (world.wh.path / "tables/returns/data").glob("*/*/*.parquet")
        good = rows.read_bytes()
        getattr(self, harm, Path.unlink)(rows)
        world.put("b", SECOND)
        for use in (query.run, query.verify, world.wh.table("returns").df):
            with pytest.raises(TempuraError) as error:
                use()
            assert code(error) == "ROWS_DAMAGED"
        rows.write_bytes(good)
        query.run()
        assert query.verify()

    def test_plans_that_cannot_be_meant(self, world: World, query: Query) -> None:
        """A defect of the planner is told, before it makes a wrong answer."""
        # Where this row lies is not looked for.
        world.wh.table("returns").delete([(1, 1)], trust=True)  # type: ignore[arg-type]
        planning = query._planning(query.committed(), ANY, dry=False)
        situation = planning.situation(Slot("", 2, "refresh 3"), query.schedule)
        with pytest.raises(TempuraError) as error:
            situation.state(StateKey("0" * 64, "snapshot", 0))
        assert code(error) == "UNKNOWN_STATE"
        scan = next(rel for rel in scans(summary_rel()) if rel.table == "returns")
        with pytest.raises(TempuraError) as error:
            situation.source(Read(scan, Snapshot(1), signed=False))
        assert code(error) == "UNSIGNED_READ"

    def test_a_state_without_its_folder(self, world: World, query: Query) -> None:
        for folder in (world.wh.path / "queries/summary/attempts").glob("*/states"):
            shutil.rmtree(folder)
        world.push([(3, 3)])
        query.run(methods="im1")
        assert query.verify()

    @pytest.mark.parametrize("name", ["queries/summary/steps/2.json", "tables/returns/arrivals/1.json"])
    def test_every_altered_byte_of_a_manifest_is_noticed(self, world: World, query: Query, name: str) -> None:
        path = world.wh.path / name
        good = path.read_bytes()
        for i in range(0, len(good), 7):
            path.write_bytes(good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :])
            with pytest.raises(TempuraError) as error:
                query.verify()
            assert code(error) in ("LEDGER_CORRUPT", "FORMAT_NEWER"), good[i - 20 : i + 20]
        path.write_bytes(good)
        assert query.verify()

    @pytest.mark.parametrize(("number", "expected"), [(99, "FORMAT_NEWER"), (1, "FORMAT_OLDER")])
    def test_a_manifest_of_another_version(self, world: World, query: Query, number: int, expected: str) -> None:
        path = world.wh.path / "queries/summary/steps/2.json"
        path.write_bytes(path.read_bytes().replace(b'"format": 3', f'"format": {number}'.encode()))
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == expected

    def test_a_clock_that_goes_back(self, world: World, query: Query) -> None:
        times = [step.logical_time for step in query.steps()]
        world.now -= timedelta(minutes=2)
        world.push([(3, 3)])
        query.run()
        assert query.steps()[-1].logical_time == times[-1], "corrected by a little: time stands still"
        world.now -= timedelta(days=1)
        world.push([(3, 4)])
        with pytest.raises(TempuraError) as error:
            query.run()
        assert code(error) == "CLOCK_WENT_BACK"
        assert len(query.steps()) == 3


class TestReplacedQueries:
    TWICE = Schedule.progressive({"14:00": 0.2, "24:00": 1.0})

    @pytest.fixture
    def query(self, world: World) -> Query:
        query = world.query(self.TWICE)
        world.put("a", FIRST)
        query.run(at="14:00", force=True, methods="im1")
        return query

    def test_states_that_still_occur_are_kept(self, world: World, query: Query) -> None:
        for dry_run in (True, False):
            report = world.wh.replace_query("summary", LARGE, dry_run=dry_run)
            assert report.kept == ("agg((sales ⟕ returns)).state (2 rows)",)
            # Nothing more is expected to come, so the result is made while work is cheap.
            assert report.rebuilt == ("agg((sales ⟕ returns))",)
            assert report.dropped == ()
            assert (world.wh.query("summary").sql == SUMMARY) == dry_run == bool(world.wh.query("summary").steps())
        replaced = world.wh.query("summary")
        assert world.wh.gc() == ()
        with pytest.raises(TempuraError) as error:
            replaced.result()
        assert code(error) == "NO_RESULT"
        world.push([(3, 3)])
        replaced.run(at="24:00", force=True, methods="im1")
        assert "load agg" in replaced.steps()[0].plan.split("step 2026-03-01 24:00")[1]
        assert result(replaced) == SignedBag.of([("c1", 560, 1)])
        assert replaced.verify()
        assert [entry.n for entry in replaced.history()] == [1, 3]
        world.wh.gc()
        assert result(world.open().query("summary")) == SignedBag.of([("c1", 560, 1)])

    def test_states_that_do_not_occur_are_dropped(self, world: World, query: Query) -> None:
        report = world.wh.replace_query("summary", COUNT)
        assert (report.kept, report.dropped) == ((), ("agg((sales ⟕ returns)).state (2 rows)",))
        assert len(world.wh.gc()) == 1
        counted = world.wh.query("summary")
        counted.run(at="24:00", force=True)
        assert result(counted) == SignedBag.of([(5,)])
        assert counted.verify()

    def test_what_the_declarations_say_by_now(self, world: World, query: Query) -> None:
        """Also how a replacement goes on that was killed between the declaration and the ledger."""
        path = world.wh.path / "tempura.toml"
        path.write_text(path.read_text().replace(SUMMARY, LARGE))
        with pytest.raises(TempuraError) as error:
            world.wh.query("summary").run(at="24:00", force=True)
        assert (code(error), "tempura query replace summary" in error.value.command) == ("QUERY_CHANGED", True)
        assert len(world.wh.replace_query("summary").kept) == 1
        world.wh.query("summary").run(at="24:00", force=True)
        assert world.wh.query("summary").verify()

    def test_the_same_query_begins_anew(self, world: World, query: Query) -> None:
        query.run(at="24:00", force=True)
        assert query.run(at="24:00", force=True).nothing
        world.wh.replace_query("summary")
        again = world.wh.query("summary")
        assert not again.run(at="24:00", force=True).nothing
        assert again.verify()

    def test_a_query_that_reads_a_table_which_the_old_one_did_not(self, world: World) -> None:
        world.query()
        world.put("a", FIRST)
        world.push([(1, 1)])
        query = world.wh.add_query("other", COUNT, schedule=self.TWICE)
        query.run(at="14:00", force=True, methods="im1")
        world.push([(2, 2)])
        world.put("b", SECOND)
        world.wh.replace_query("other", SUMMARY)
        world.wh.query("other").run(at="24:00", force=True, methods="im1")
        assert world.wh.query("other").verify()

    def test_refusals(self, world: World, query: Query) -> None:
        for arguments, expected in (
            ({"name": "nobody", "sql": COUNT}, "UNKNOWN_QUERY"),
            ({"name": "summary", "sql": COUNT, "df": COUNT}, "BAD_QUERY"),
        ):
            with pytest.raises(TempuraError) as error:
                world.wh.replace_query(**arguments)  # type: ignore[arg-type]
            assert code(error) == expected


class TestGarbage:
    def test_two_results_are_kept_and_the_states_that_can_be_loaded(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        for i in range(5):
            world.push([(i, i)])
            query.run(methods="im1")
        before = query.changes()
        assert world.wh.gc(keep=4, dry_run=True) != world.wh.gc(dry_run=True)
        assert set(world.wh.gc(dry_run=True)) == set(world.wh.gc())
        assert world.wh.gc() == ()
        with pytest.raises(TempuraError) as error:
            world.wh.gc(keep=0)
        assert code(error) == "BAD_NUMBER"
        assert query.changes() == before
        outputs = list((world.wh.path / "queries/summary/attempts").glob("*/output"))
        states = list((world.wh.path / "queries/summary/attempts").glob("*/states"))
        assert (len(outputs), len(states)) == (2, 1)
        world.push([(3, 3)])
        query.run(methods="im1")
        assert query.verify()

    def test_a_damaged_ledger_is_told(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run()
        world.push([(1, 1)])
        query.run()
        steps = world.wh.path / "queries/summary/steps"
        (steps / "2.json").write_text("{")
        with pytest.raises(TempuraError) as error:
            query.result()
        assert code(error) == "LEDGER_CORRUPT"
        (steps / "1.json").unlink()
        with pytest.raises(TempuraError) as error:
            query.result()
        assert code(error) == "LEDGER_BROKEN"
