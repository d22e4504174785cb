"""Queries at paces in a warehouse: when paths are flushed, what is said of it, how paces are planned and planned again."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Rel
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref
from tempura.errors import TempuraError
from tempura.pace.arrivals import following
from tempura.pace.cut import cut
from tempura.pace.simulate import FOLLOWS
from tempura.warehouse.commits.files import Files
from tempura.warehouse.paces import paced
from tempura.warehouse.paces.cycle import Cycle
from tempura.warehouse.paces.paced import PacedQuery
from tempura.warehouse.paces.pacing import Known, Paces, plan
from tempura.warehouse.paces.segments import stored_paths, stored_segments
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.runs.run import alone
from tempura.warehouse.times.deadline import Deadline
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.warehouse import Warehouse, open_site
from tests.unit import bag_engine
from tests.unit.bag_engine import LARGE, PAST_DAYS, SHARES, SUMMARY, BagEngine, large_rel, summary_rel

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIX = "2026-03-01T18:00"
BY_HAND = Schedule.paced(SIX, strategy={"sales": 4, "returns": 2, "s0": 2})


class World:
    """A warehouse with a clock that stands where a test puts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = BagEngine()
        self.now = NOON
        self.wh = self.open()

    def open(self) -> Warehouse:
        return open_site(self.folder / "wh", self.engine, Files(), lambda: self.now)

    def query(self, schedule: Schedule = BY_HAND, text: str = LARGE, expect: bool = True) -> PacedQuery:
        self.wh.add_table("sales", schema="o_id INT, cat STRING, price INT", expect=24 if expect else None)
        self.wh.add_table("returns", schema="o_id INT, cost INT", expect=12 if expect else None)
        found = self.wh.add_query("q", text, schedule=schedule)
        assert isinstance(found, PacedQuery)
        return found

    def hour(self, sales: int = 4, returns: int = 2) -> None:
        """An hour goes by, and rows come."""
        self.now += timedelta(hours=1)
        first = self.now.hour * 10
        rows: Any = [(first + i, f"c{i % 2}", 50) for i in range(sales)]
        back: Any = [(first + i, 5) for i in range(returns)]
        if sales:
            self.wh.table("sales").append(rows)
        if returns:
            self.wh.table("returns").append(back)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def result(query: PacedQuery) -> SignedBag:
    found: object = query.result()
    assert isinstance(found, SignedBag)
    return found


class TestFlushes:
    def test_each_path_is_flushed_at_its_pace(self, world: World) -> None:
        query, released = world.query(), {}
        for hour in range(1, 7):
            world.hour()
            report = query.run()
            released[hour] = report.paths
        assert released == {
            1: (),
            2: ("sales to s0",),  # a third of the rows
            3: ("sales to s0", "returns to s0", "s0 to result"),
            4: (),
            5: ("sales to s0",),
            6: ("sales to s0", "returns to s0", "s0 to result"),
        }
        assert result(query) == SignedBag.of([("c0", 600, 6), ("c1", 600, 6)])
        assert query.verify()
        assert query.is_done
        assert query.run().why == f"the result that was due at {SIX} is there"

    def test_a_path_that_follows_is_flushed_with_each_flush_below_it(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The strategy ``leaf`` chooses paces of tables only."""

        def followed(known: Known, deadline: Deadline, why: str) -> Paces | None:
            found = plan(known, deadline, why)
            return found and replace(found, paces=(6, 3, FOLLOWS))

        monkeypatch.setattr(paced, "plan", followed)
        query, released = world.query(Schedule.paced(SIX, final_work=0.5, strategy="leaf")), []
        for _ in range(6):
            world.hour()
            released.append(query.run().paths)
        alone = ("sales to s0", "s0 to result")
        both = ("sales to s0", "returns to s0", "s0 to result")
        assert released == [alone, both, alone, both, alone, both]
        assert query.verify()

    def test_a_result_before_the_last_is_that_of_what_was_released(self, world: World) -> None:
        query = world.query()
        for _ in range(3):
            world.hour()
        query.run()
        assert result(query) == SignedBag.of([("c0", 300, 3), ("c1", 300, 3)])
        with pytest.raises(TempuraError, match="of what was released by then") as error:
            query.verify()
        assert error.value.code == "NOT_RELEASED"
        for _ in range(2):
            world.hour()
            query.run()
        assert result(query) == SignedBag.of([("c0", 300, 3), ("c1", 300, 3)]), "the result is not due"

    def test_everything_is_released_when_asked_for(self, world: World) -> None:
        query = world.query()
        world.hour(8)
        report = query.run(now=True)
        assert report.rows == 0
        assert query.verify()
        assert not query.is_done
        world.now += timedelta(hours=9)
        assert query.run().label == "flush 2 (last)"
        assert query.verify()

    def test_maintenance_is_demanded_of_each_segment(self, world: World) -> None:
        world.query()
        query = world.wh.add_query("q", LARGE, require="incremental")
        for _ in range(6):
            world.hour()
            query.run()
        assert query.verify()
        (segment,) = stored_segments(query._site, query)
        done = [step.does.kind for step in segment.steps() if step.does]
        assert "recomputed" not in done
        assert query.states(), "of all segments"

    def test_a_missed_deadline_is_made_up_for(self, world: World) -> None:
        query = world.query()
        world.hour()
        world.now += timedelta(days=3)
        assert query.run().label == "flush 1 (last)"
        assert query.verify()

    def test_no_step_is_named(self, world: World) -> None:
        query = world.query()
        for asked in ({"at": "14:00"}, {"force": True}):
            with pytest.raises(TempuraError, match="no times to name") as error:
                query.run(**asked)
            assert error.value.code == "BAD_RUN"
        with pytest.raises(TempuraError, match="planned when it is due") as error:
            query.plan()
        assert error.value.code == "NOT_PLANNED"
        assert query.plan(schedule=Schedule.view()).steps

    def test_a_dry_run_says_what_is_due_and_does_nothing(self, world: World) -> None:
        query = world.query()
        world.hour(8)
        before = sorted(world.folder.rglob("*"))
        report = query.run(dry_run=True)
        assert report.paths == ("sales to s0",)
        assert "nothing was done" in report.table()
        assert sorted(world.folder.rglob("*")) == before
        assert world.wh.status()["queries"]["q"]["due"] is True
        assert query.run().paths == report.paths
        assert query.run(dry_run=True).nothing

    def test_a_clock_is_read_when_a_segment_is_run(self, world: World) -> None:
        """In Honolulu, where the date decides, it is 1 March until ten o'clock on the next day."""
        query = world.query(Schedule.paced("2026-03-02T12:00", strategy={"sales": 3}), PAST_DAYS, expect=False)
        counts = []
        for _ in range(6):
            world.hour()
            world.now += timedelta(hours=3)
            query.run(now=True)
            counts.append(result(query))
        assert counts == [SignedBag.of([(n,)]) for n in (0, 0, 0, 0, 0, 24)]
        assert query.is_done
        assert query.verify()

    def test_early_work_that_fails_for_a_row_is_not_done(self, world: World) -> None:
        query = world.query(Schedule.paced(SIX, strategy={"returns": 4}), SHARES)
        world.hour(0, 4)
        wrong: Any = [(1, 0, "insert")]
        world.wh.table("returns").apply(wrong)
        report = query.run()
        assert report.nothing
        assert "early work failed: FAILED_EARLY: segment 0: DIVIDE_BY_ZERO" in report.why
        gone: Any = [(1, 0, "delete")]
        world.wh.table("returns").apply(gone)
        world.now = datetime(2026, 3, 1, 18, tzinfo=UTC)
        query.run()
        assert query.verify()

    def test_only_the_last_flush_fails_as_the_query_does(self, world: World) -> None:
        query = world.query(Schedule.paced(SIX, strategy={"returns": 1}), SHARES)
        wrong: Any = [(1, 0, "insert")]
        world.wh.table("returns").apply(wrong)
        world.now = datetime(2026, 3, 1, 18, tzinfo=UTC)
        with pytest.raises(TempuraError):
            query.run()
        assert not query.is_done


def numbers_rel() -> Rel:
    """How many categories have each number of returns."""
    below = summary_rel()
    number = AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint"))
    return Aggregate(below, (Output(Column("key", "back", "bigint"), Ref(below.columns[2])),), (number,))


class TestAhead:
    """Flushes of segments whose result nobody reads yet."""

    def test_nothing_is_done_that_is_done_again_later(self, world: World) -> None:
        query = world.query(Schedule.paced(SIX, strategy={"sales": 6, "returns": 6, "s0": 1}))
        reports = []
        for _ in range(6):
            world.hour()
            reports.append(query.run())
        (segment,) = stored_segments(query._site, query)
        # Groups of a few rows are not worth keeping. It is looked at again when twice as many rows have come, and at the last chance.
        assert [report.label for report in reports] == [
            "flush 1",
            "flush 2",
            "",
            "flush 3",
            "flush 4",
            "flush 5 (last)",
        ]
        assert "no work ahead pays yet" in (reports[2].why or "")
        steps = segment.committed().steps
        assert [bool(step.output) for step in steps] == [False, False, False, False, True]
        assert [step.does.kind for step in steps[:-1] if step.does] == ["nothing done"] * 4
        assert query.verify()

    def test_no_result_is_made_for_a_segment_that_does_nothing(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(bag_engine.QUERIES, "numbers", numbers_rel)
        paces = {"sales": 6, "returns": 6, "s0": 6, "s1": 1}
        query = world.query(Schedule.paced(SIX, strategy=paces), "numbers")
        for _ in range(6):
            world.hour()
            query.run()
        below, above = stored_segments(query._site, query)
        first = above.committed().steps[0]
        assert first.does
        assert first.does.kind == "nothing done"
        made = [bool(step.output) for step in below.committed().steps]
        assert (made[0], made[-1]) == (True, True), "the first time nobody knows"
        assert not any(made[1:-1])
        assert query.verify()

    def test_a_result_that_was_not_made_is_when_it_is_asked_for(self, world: World) -> None:
        """Nothing has come since, and the segment is run all the same."""
        query = world.query(Schedule.paced(SIX, strategy={"sales": 6, "returns": 6, "s0": 1}))
        world.hour(10)
        assert query.run().rows is None
        report = query.run(now=True)
        assert report.rows == 2
        assert result(query) == SignedBag.of([("c0", 250, 1), ("c1", 250, 1)])
        assert query.verify()

    def test_a_use_is_expected_to_get_what_is_left_of_the_cycle(self, world: World) -> None:
        """Not all that is expected in the cycle, each time."""
        query = world.query(Schedule.paced(SIX, strategy={"sales": 6, "returns": 3, "s0": 1}))
        for _ in range(2):
            world.hour()
        life = query._life()
        moment = query._moment(query._begun(life))
        pins = moment.pins(life.segments[0], {0, 1}, complete=False)
        assert {name: pin.spec.expect for name, pin in pins.items()} == {"sales": "16", "returns": "8"}, (
            "until it is read"
        )
        pins = moment.pins(life.segments[0], {0, 1}, complete=True)
        assert {name: pin.spec.expect for name, pin in pins.items()} == {"sales": "4", "returns": "4"}


class TestHistory:
    def test_flushes_are_told_with_their_paths_and_work(self, world: World) -> None:
        query = world.query()
        for _ in range(6):
            world.hour()
            query.run()
        history = query.history()
        assert [entry.label for entry in history] == ["flush 1", "flush 2", "flush 3", "flush 4 (last)"]
        assert [entry.rows for entry in history] == [None, 2, None, 2]
        assert history[0].paths == ("sales to s0",)
        assert all(entry.predicted_cost for entry in history)
        assert [round(entry.progress or 0, 2) for entry in history] == [0.33, 0.5, 0.83, 1.0]
        # Nobody reads what the first gives, and nothing is worth keeping. Then two segments are run: the measured work is that of both.
        assert history[0].actual_cost == 0
        assert history[1].actual_cost == 2 * 625_000_000
        assert history[1].versions == {"sales": 3, "returns": 3}
        assert history[1].to_json()["predicted_cost"] == history[1].predicted_cost

    def test_runs_of_another_schedule_stay_in_the_history(self, world: World) -> None:
        world.wh.add_table("sales", schema="o_id INT, cat STRING, price INT")
        world.wh.add_table("returns", schema="o_id INT, cost INT")
        world.wh.add_query("q", LARGE).run()
        query = world.query(expect=False)
        world.hour(40)
        query.run(now=True)
        assert [entry.label for entry in query.history()] == ["refresh 1", "flush 1"]
        view = world.wh.add_query("q", LARGE, schedule=Schedule.view())
        world.hour()
        view.run()
        assert view.verify()
        again = world.wh.add_query("q", LARGE, schedule=BY_HAND)
        world.hour()
        again.run(now=True)
        assert again.verify()


class TestStored:
    def test_segments_are_nobodys_tables_and_go_with_the_query(self, world: World) -> None:
        query = world.query()
        world.hour(8)
        query.run(now=True)
        assert [table.name for table in world.wh.tables()] == ["sales", "returns"]
        assert [q.name for q in world.wh.queries()] == ["q"]
        assert len(stored_segments(query._site, query)) == len(stored_paths(query._site, query)) == 1
        renamed = world.wh.rename_query("q", "r")
        world.hour()
        renamed.run(now=True)
        assert renamed.verify()
        world.wh.remove_query("r")
        assert not (world.folder / "wh" / "queries" / "r").exists()
        assert world.wh.undeclared() == ()

    def test_a_name_of_a_path_is_no_name(self, world: World) -> None:
        for name in ("path 1 of 1", "sales (2)"):
            with pytest.raises(TempuraError, match="is not a name") as error:
                world.wh.add_table(name, schema="x INT")
            assert error.value.code == "BAD_NAME"

    def test_a_replaced_query_begins_another_life(self, world: World) -> None:
        query = world.query()
        for _ in range(3):
            world.hour()
            query.run()
        world.wh.replace_query("q", SUMMARY)
        other = world.wh.query("q")
        assert other.run(now=True).rows == 2
        assert other.verify()
        assert any("paced/1" in path for path in world.wh.gc())
        assert world.wh.gc() == ()
        world.hour()
        assert other.run(now=True)
        assert other.verify()

    def test_segments_that_were_made_another_way_begin_another_life(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        query = world.query()
        world.hour(12)
        query.run()
        assert query._life().number == 1
        monkeypatch.setattr("tempura.warehouse.paces.paced.PARTS", 99)
        world.hour(12)
        report = query.run(now=True)
        assert not report.nothing
        assert query._life().number == 2
        assert query.verify(), str(query.verify())
        assert query._life().number == 2, "and goes on with it"

    def test_a_table_is_begun_anew(self, world: World) -> None:
        query = world.query()
        for _ in range(3):
            world.hour()
            query.run()
        world.wh.table("returns").reset()
        world.hour(4, 1)
        query.run()
        for _ in range(2):
            world.hour()
            query.run()
        assert query.is_done
        assert query.verify()

    def test_lost_arrivals_of_a_path_are_told(self, world: World) -> None:
        query = world.query()
        for _ in range(3):
            world.hour()
            query.run()
        for manifest in (world.folder / "wh" / "queries" / "q" / "paced").rglob("paths/*/arrivals/*.json"):
            manifest.unlink()
        with pytest.raises(TempuraError, match="the last are lost") as error:
            query.run(now=True)
        assert error.value.code == "LEDGER_BROKEN"
        world.wh.replace_query("q")
        assert world.wh.query("q").run(now=True).rows == 2
        assert world.wh.query("q").verify()

    def test_versions_that_segments_have_read_are_missed(self, world: World) -> None:
        query = world.query()
        for _ in range(2):
            world.hour()
        query.run()
        (world.folder / "wh" / "tables" / "sales" / "arrivals" / "2.json").unlink()
        with pytest.raises(TempuraError, match="query q has read version 2") as error:
            world.open().query("q").run(now=True)
        assert error.value.code == "LEDGER_BROKEN"


class TestDeclaring:
    def test_the_same_declaration_again_changes_nothing(self, world: World) -> None:
        world.query(Schedule.paced("18:00", final_work=0.2))
        file = world.folder / "wh" / "tempura.toml"
        text = file.read_text()
        assert 'until = "2026-03-01T18:00", since = "2026-03-01T12:00:00+00:00", final_work = 0.2' in text
        world.now += timedelta(hours=9)
        world.query(Schedule.paced("18:00", final_work=0.2))
        assert file.read_text() == text
        assert world.open().query("q").schedule == world.wh.query("q").schedule

    @pytest.mark.parametrize(
        ("schedule", "what", "code"),
        [
            (Schedule.paced("2026-02-28T18:00", final_work=0.1), "which is over", "BAD_SCHEDULE"),
            (Schedule.paced("11:59", final_work=0.1), "which is over", "BAD_SCHEDULE"),
            (Schedule.paced(SIX, final_work=0.1, since="2026-03-01T19:00"), "not before", "BAD_SCHEDULE"),
            (Schedule.paced(SIX, final_work=0.1, timezone="Nowhere"), "is not known", "BAD_TIMEZONE"),
            (Schedule.paced(SIX, strategy={"elsewhere": 3}), "at which no path", "BAD_PACES"),
            (Schedule.paced(SIX, strategy={"s0": 3}), "a path below it 1", "BAD_PACES"),
        ],
    )
    def test_a_deadline_that_makes_no_sense_is_refused(
        self, world: World, schedule: Schedule, what: str, code: str
    ) -> None:
        with pytest.raises(TempuraError, match=what) as error:
            world.query(schedule)
        assert error.value.code == code
        assert "q" not in world.wh.status_of_queries()

    @pytest.mark.parametrize(
        ("given", "what"),
        [
            ({"until": "tomorrow", "final_work": 0.1}, "no date with a time"),
            ({"until": "2026-03-01", "final_work": 0.1}, "no date with a time"),
            ({"until": SIX, "final_work": 0.0}, "above 0, at most 1"),
            ({"until": SIX, "final_work": 1.5}, "above 0, at most 1"),
            ({"until": SIX, "total_work": 0.5}, "at least 1"),
            ({"until": SIX}, "not on both or none"),
            ({"until": SIX, "final_work": 0.1, "total_work": 2}, "not on both or none"),
            ({"until": SIX, "final_work": 0.1, "max_pace": 0}, "from 1 to"),
            ({"until": SIX, "final_work": 0.1, "strategy": "best"}, "no strategy"),
            ({"until": SIX, "total_work": 1.5, "strategy": "hand"}, "follow from final_work"),
            ({"until": SIX, "strategy": {"sales": 0}}, "has pace 0"),
            ({"until": SIX, "strategy": {"sales": 200}}, "has pace 200"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, given: dict[str, Any], what: str) -> None:
        with pytest.raises(TempuraError) as error:
            Schedule.paced(**given)
        assert error.value.code in ("BAD_SCHEDULE", "BAD_PACES")
        assert what in f"{error.value.what} {error.value.remedy}"

    def test_a_time_is_one_in_the_zone_of_the_schedule(self) -> None:
        given = Schedule.paced("2026-07-01T18:00", final_work=0.5, timezone="Europe/Berlin")
        assert Schedule.from_json(given.to_json()) == given
        assert Deadline("2026-07-01T18:00", final_work=0.5).moment(ZoneInfo("Europe/Berlin")).hour == 16
        with_offset = Schedule.paced("2026-07-01T18:00+00:00", final_work=0.5).deadline
        assert with_offset
        assert with_offset.moment(ZoneInfo("Europe/Berlin")).hour == 18
        assert Schedule.paced(datetime(2026, 7, 1, 18), final_work=0.5).deadline == Deadline(
            "2026-07-01T18:00:00", final_work=0.5
        )


class TestPlanning:
    def test_paces_are_planned_with_the_first_rows(self, world: World) -> None:
        query = world.query(Schedule.paced(SIX, final_work=0.1), expect=False)
        assert query.paces() is None
        assert "none are known to come" in query.run().why
        world.hour()
        query.run()
        paces = query.paces()
        assert paces is not None
        assert paces.paces == (1, 1, 1), "so few rows are cheapest at once, whatever the bound"
        assert not paces.meets
        assert "s0" in paces.text(query.cut())

    def test_many_rows_are_released_often(self, world: World) -> None:
        world.wh.add_table("sales", schema="o_id INT, cat STRING, price INT", expect=50_000_000)
        world.wh.add_table("returns", schema="o_id INT, cost INT", expect=1_000_000)
        query = world.wh.add_query("q", SUMMARY, schedule=Schedule.paced(SIX, final_work=0.2))
        world.hour()
        assert isinstance(query, PacedQuery)
        paces = query.paces()
        assert paces is not None
        assert paces.meets
        assert max(paces.paces) > 2
        assert cut(large_rel()).respects(paces.paces)
        assert paces.batch * 0.2 >= paces.final
        assert sum(paces.work) == pytest.approx(paces.total, rel=1e-6)

    def test_paces_are_planned_again_when_more_comes_than_expected(self, world: World) -> None:
        query = world.query(Schedule.paced(SIX, final_work=0.5))
        world.hour()
        query.run()
        first = query.paces()
        world.hour(40)
        query.run()
        again = query.paces()
        assert first is not None
        assert again is not None
        assert again.expected["sales"] > 44 > first.expected["sales"] == 24
        assert again.why == "86 rows are expected, not 36" or "rows are expected, not" in again.why
        for _ in range(4):
            world.hour()
            query.run()
        assert query.verify()

    def test_paces_are_planned_again_when_there_are_other_groups_than_expected(self, world: World) -> None:
        """The first rows are of one category, as somebody has said that all are, the others each of their own."""
        world.query(Schedule.paced(SIX, final_work=0.5, strategy="hand"), SUMMARY)
        world.wh.table("sales").set_stats("cat", distinct=1)
        query = world.wh.query("q")
        assert isinstance(query, PacedQuery)
        for hour in range(1, 7):
            world.now += timedelta(hours=1)
            rows: Any = [(10 * hour + i, "c" if hour < 3 else f"c{hour}{i}", 50) for i in range(6)]
            world.wh.table("sales").append(rows)
            query.run()
            if hour == 2:
                world.wh.table("returns").append([(1, 1)] * 6)  # type: ignore[arg-type]
        life = query._life()
        why = [paces.why for paces in life.planned(Files())]
        assert any(text.startswith("segment s0 has ") for text in why), why
        first, last = life.planned(Files())[0], life.planned(Files())[-1]
        assert last.groups["0"][0] > 3 * first.groups["0"][0]
        assert query.verify()

    def test_another_goal_is_planned_for(self, world: World) -> None:
        query = world.query(Schedule.paced(SIX, final_work=0.5))
        world.hour()
        query.run()
        other = world.query(Schedule.paced(SIX, total_work=1.5))
        other.run()
        paces = other.paces()
        assert paces is not None
        assert paces.goal == "total work 1.5"
        assert paces.why == "something else is asked for"

    def test_another_deadline_is_another_cycle_of_which_the_last_tells(self, world: World) -> None:
        query = world.query(Schedule.paced(SIX, strategy={"sales": 2, "returns": 2, "s0": 2}), expect=False)
        for _ in range(6):
            world.hour()
            query.run()
        assert query.is_done
        world.now += timedelta(hours=1)
        second = Schedule.paced("2026-03-02T01:00", strategy={"sales": 2, "returns": 2, "s0": 2})
        query = world.query(second, expect=False)
        world.now = datetime(2026, 3, 1, 22, tzinfo=UTC)
        world.hour(14, 7)
        report = query.run()
        assert report.progress == pytest.approx(21 / 36), "of as many rows as came in the cycle before"
        assert query.run().nothing
        world.now = datetime(2026, 3, 2, 1, tzinfo=UTC)
        assert query.run().label == "flush 6 (last)" or query.is_done
        assert query.verify()

    def test_rows_that_were_there_before_are_released_with_the_first_flush(self) -> None:
        arrivals = following({"sales": 1000.0}, 0.75, 4)
        assert [round(rows) for rows in arrivals.of("sales")] == [812, 875, 938, 1000]
        assert arrivals.flushes(2).tolist() == [False, True, False, True]
        assert arrivals.flushes(1).tolist() == [False, False, False, True]

    def test_what_is_predicted_is_that_of_the_steps_between_two_flushes(self, world: World) -> None:
        query = world.query()
        world.hour()
        query.run()
        paces = query.paces()
        assert paces is not None
        steps = [paces.predicted(i / 10, (i + 1) / 10) for i in range(10)]
        assert sum(step or 0 for step in steps) == paces.predicted(0.0, 1.0) == sum(paces.work)
        assert steps[2], "a quarter of the rows, and with it a flush"
        assert steps[0] == 0


class TestCycles:
    CYCLE = Cycle(NOON, NOON + timedelta(hours=10), {"a": 100, "b": 300})

    def test_progress_is_a_share_of_the_expected_rows(self) -> None:
        at = NOON + timedelta(hours=5)
        assert self.CYCLE.progress({"a": 100, "b": 100}, at) == 0.5
        assert self.CYCLE.progress({"a": 900, "b": 0}, at) == 0.25
        assert 0.99 < self.CYCLE.progress({"a": 900, "b": 900}, at) < 1
        assert Cycle(NOON, NOON + timedelta(hours=10), {}).progress({"a": 5}, at) == 0.5

    def test_what_comes_as_expected_changes_nothing(self) -> None:
        at = NOON + timedelta(hours=5)
        assert self.CYCLE.observed({"a": 40, "b": 200}, at) == self.CYCLE

    def test_what_does_not_changes_what_is_expected(self) -> None:
        at = NOON + timedelta(hours=5)
        assert self.CYCLE.observed({"a": 120, "b": 10}, at).expected == {"a": 170, "b": 160}

    def test_at_the_beginning_nothing_is_made_of_what_came(self) -> None:
        assert self.CYCLE.observed({"a": 40, "b": 0}, NOON + timedelta(minutes=30)) == self.CYCLE


class TestFollowing:
    def test_flushes_are_told_until_the_last(self, world: World) -> None:
        query, told, waited = world.query(), list[RunReport](), list[float]()

        def wait(seconds: float) -> None:
            waited.append(seconds)
            if world.now.hour < 18:
                world.hour()

        query.follow(told.append, every=7.0, wait=wait)
        assert [report.label for report in told] == ["flush 1", "flush 2", "flush 3", "flush 4 (last)"]
        assert query.verify()
        assert set(waited) == {7.0}

    def test_it_does_not_sleep_beyond_the_deadline(self, world: World) -> None:
        query, waited = world.query(), list[float]()
        world.now = NOON + timedelta(hours=5, minutes=59, seconds=58)

        def wait(seconds: float) -> None:
            waited.append(seconds)
            world.now += timedelta(seconds=seconds)

        query.follow(lambda report: None, every=60.0, wait=wait)
        assert waited == [2.0]
        assert query.is_done

    def test_a_query_that_is_done_is_not_followed(self, world: World) -> None:
        query = world.query()
        world.now += timedelta(hours=6)
        query.run()
        query.follow(lambda report: pytest.fail("nothing is left to do"))
        with pytest.raises(TempuraError, match="not possible") as error:
            query.follow(lambda report: None, every=0)
        assert error.value.code == "BAD_NUMBER"

    def test_it_waits_while_another_process_flushes(self, world: World) -> None:
        query, told = world.query(), list[RunReport]()
        world.now += timedelta(hours=6)
        with alone(Files(), query.folder):
            with pytest.raises(TempuraError) as error:
                query.run()
            assert error.value.code == "RUN_IN_PROGRESS"
        held = ExitStack()
        held.enter_context(alone(Files(), query.folder))
        query.follow(told.append, wait=lambda seconds: held.close())
        assert [report.label for report in told] == ["flush 1 (last)"]

    def test_one_that_goes_meanwhile_is_followed_no_more(self, world: World) -> None:
        query = world.query()

        def wait(seconds: float) -> None:
            world.wh.rename_query("q", "other")

        with pytest.raises(TempuraError) as error:
            query.follow(lambda report: None, wait=wait)
        assert error.value.code == "UNKNOWN_QUERY"
        assert world.wh.undeclared() == ()
