"""What runs took against recomputing: how it is reckoned, and what is measured and noted for it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tempura.errors import TempuraError
from tempura.execute.contract import Clocks, Usage
from tempura.frontend.clock import NOW
from tempura.warehouse.batches.arrivals import Arrival, DataFile
from tempura.warehouse.query import Query
from tempura.warehouse.runs.entries import HistoryEntry
from tempura.warehouse.runs.savings import Recomputation, rows_at_versions, savings
from tempura.warehouse.times.phases import COMPUTING, LOOKING
from tempura.warehouse.times.schedule import Schedule
from tests.unit.bag_engine import PAST_DAYS, SUMMARY, Row
from tests.unit.test_paced import SIX
from tests.unit.test_paced import World as PacedWorld
from tests.unit.test_warehouse import FIRST, SECOND, World, code, world

__all__ = ["world"]

ROWS = {"t": [0, 100, 200, 400]}


def entry(version: int, price: float = 1.0, rows: int | None = 1, complete: bool = True) -> HistoryEntry:
    """A run of a second of tasks and half a second of the driver, a tenth and a twentieth of Java and Python beside it."""
    spent = {LOOKING: Clocks(0.5, 0.1, 0.05), COMPUTING: Clocks(2.0, 1.4, 0.1)}
    return HistoryEntry(
        n=version,
        label=f"refresh {version}",
        logical_time=f"2026-03-0{version}T12:00:00+00:00",
        versions={"t": version, NOW: 7},
        weight=price,
        rows=rows,
        cpu_seconds=1.0,
        driver_seconds=0.5,
        wall_seconds=2.0,
        phases=spent,
        complete=complete,
    )


def measured(rows: int, cpu: float, wall: float) -> Recomputation:
    return Recomputation(
        time="2026-03-09T12:00:00+00:00",
        label="refresh",
        versions={"t": 1},
        rows_read=rows,
        fingerprint="f",
        engine="4.3.0",
        cpu_seconds=cpu - 0.5,
        driver_seconds=0.5,
        wall_seconds=wall,
    )


class TestReckoning:
    def test_all_cpu_of_all_runs_and_the_time_of_those_with_a_result(self) -> None:
        told = savings("q", [entry(1, rows=None), entry(2)], ROWS, [measured(200, 8.0, 5.0)], is_priced=False)
        assert (told.runs, told.results, told.left_out) == (2, 1, 0)
        assert told.since == "2026-03-01T12:00:00+00:00"
        assert told.cpu_seconds == pytest.approx(2 * (1.0 + 0.5 + 0.1 + 0.05))
        assert told.wall_seconds == pytest.approx(2.5)
        assert told.recomputed_cpu_seconds == pytest.approx(8.0)
        assert told.recomputed_wall_seconds == pytest.approx(5.0)
        assert told.cpu_saved == pytest.approx(1 - 3.3 / 8.0)
        assert told.wall_saved == pytest.approx(0.5)

    def test_each_run_counts_at_its_price_and_recomputing_at_that_of_the_result(self) -> None:
        day = [entry(1, 0.25, rows=None), entry(2, 0.5)]
        told = savings("q", day, ROWS, [measured(200, 8.0, 5.0)], is_priced=True)
        assert told.cpu_seconds == pytest.approx(1.65 * 0.75)
        assert told.recomputed_cpu_seconds == pytest.approx(4.0)
        assert told.recomputed_wall_seconds == pytest.approx(5.0)

    def test_fewer_rows_count_in_proportion_and_more_as_what_was_measured(self) -> None:
        runs = [entry(1), entry(2), entry(3)]
        told = savings("q", runs, ROWS, [measured(200, 8.0, 6.0)], is_priced=False)
        assert told.recomputed_cpu_seconds == pytest.approx(4.0 + 8.0 + 8.0)
        assert told.recomputed_wall_seconds == pytest.approx(3.0 + 6.0 + 6.0)

    def test_each_result_goes_by_the_measurement_over_the_fewest_rows_that_are_enough(self) -> None:
        known = [measured(100, 3.0, 1.0), measured(400, 20.0, 9.0), measured(100, 5.0, 2.0)]
        told = savings("q", [entry(1), entry(2), entry(3)], ROWS, known, is_priced=False)
        assert told.recomputed_cpu_seconds == pytest.approx(5.0 + 10.0 + 20.0)  # of two alike the last

    def test_what_costs_more_than_recomputing_is_a_negative_saving(self) -> None:
        told = savings("q", [entry(2)], ROWS, [measured(200, 1.0, 1.0)], is_priced=False)
        assert told.cpu_saved == pytest.approx(-0.65)
        assert told.wall_saved == pytest.approx(-1.5)

    def test_nothing_is_said_of_what_was_not_measured(self) -> None:
        told = savings("q", [entry(2)], ROWS, [], is_priced=False)
        assert (told.recomputed_cpu_seconds, told.cpu_saved, told.wall_saved) == (None, None, None)
        assert told.to_json()["cpu_saved"] is None
        empty = savings("q", [], ROWS, [measured(200, 1.0, 1.0)], is_priced=False)
        assert (empty.runs, empty.since, empty.cpu_saved) == (0, None, None)

    def test_a_flush_of_some_paths_gives_no_result_that_would_be_recomputed(self) -> None:
        runs = [entry(1, complete=False), entry(2)]
        assert savings("q", runs, ROWS, [measured(200, 8.0, 5.0)], is_priced=False).results == 1

    def test_runs_over_rows_that_nobody_knows_any_more_are_left_out(self) -> None:
        forgotten = {"t": [None, None, 200, 400]}
        told = savings("q", [entry(1), entry(2)], forgotten, [measured(200, 8.0, 5.0)], is_priced=False)
        assert (told.runs, told.left_out, told.since) == (1, 1, "2026-03-02T12:00:00+00:00")
        assert savings("q", [entry(1)], {}, [], is_priced=False).left_out == 1

    def test_over_no_rows_a_result_costs_what_was_measured_over_none(self) -> None:
        told = savings("q", [entry(1)], {"t": [0, 0]}, [measured(0, 2.0, 1.0)], is_priced=False)
        assert told.recomputed_cpu_seconds == pytest.approx(2.0)

    def test_rows_at_versions_less_what_was_deleted_and_anew_from_a_reset(self) -> None:
        def arrival(inserted: int, deleted: int = 0, reset: bool = False) -> Arrival:
            files = ([DataFile("f", 1, 0, n, 1)] if n else [] for n in (inserted, deleted))
            inserts, deletes = map(tuple, files)
            return Arrival(inserts, deletes, reset=reset)

        assert rows_at_versions([arrival(10), arrival(5, 3), arrival(0, 2)]) == [0, 10, 12, 10]
        assert rows_at_versions([arrival(10), arrival(0, reset=True), arrival(4)]) == [None, None, 0, 4]


def left(query: Query) -> list[str]:
    """What lies in the folder of its attempts beside what its runs have committed."""
    known = {step.attempt for step in query.steps()}
    home = query.folder / "attempts"
    return [folder.name for folder in home.iterdir() if folder.name not in known]


class TestMeasuring:
    def day(self, world: World) -> Query:
        """Work at 14:00, a result at 24:00; one row was deleted."""
        query = world.query()
        world.put("a", FIRST)
        world.push([(1, 10), (2, 20)])
        query.run(at="14:00", force=True)
        world.put("b", SECOND)
        world.push([], [(1, 10)])
        query.run(at="24:00", force=True)
        return query

    def test_the_fastest_recomputation_counts_and_is_noted(self, world: World) -> None:
        query, said = self.day(world), list[str]()
        found = query.measure(said.append)
        assert (found.cpu_seconds, found.driver_seconds, found.wall_seconds) == (4.0, 2.0, 3.0)
        assert (found.runs, found.rows_read, found.rows, found.label) == (3, 9, 3, "2026-03-01 24:00")
        assert len(said) == 4
        assert left(query) == []
        told = world.open().query("summary").savings()
        assert told.measured == (found,)
        assert (told.runs, told.results, told.recomputed_cpu_seconds) == (2, 1, 6.0)
        assert str(found) == (
            "plain Spark took 6.00 CPU s, 3.00 s to recompute 2026-03-01 24:00 over 9 rows (the fastest of 3 runs)"
        )

    @pytest.mark.parametrize(
        ("warming", "runs", "least"),
        [((1.0, 0.5, 0.4, 0.38), 4, 0.38), ((1.0, 0.95), 2, 0.95), ((1.0, 1.2), 2, 1.0), ((1.0, 0.5, 0.6), 3, 0.5)],
    )
    def test_it_is_done_until_it_takes_nearly_as_long_as_before(
        self, world: World, warming: tuple[float, ...], runs: int, least: float
    ) -> None:
        world.engine.warming = warming
        found = self.day(world).measure()
        assert (found.runs, found.wall_seconds, found.cpu_seconds) == (runs, 6.0 * least, 8.0 * least)

    def test_spark_is_given_tables_without_what_was_deleted(self, world: World) -> None:
        self.day(world).measure()
        asked = world.engine.recomputed[-1]
        assert asked.text == SUMMARY
        assert not any(source.rows.signed for source in asked.tables.values())

    def test_what_takes_a_minute_is_not_done_twice(self, world: World) -> None:
        world.engine.recomputing = Usage(100.0, 1.0, 60.0)
        found = self.day(world).measure()
        assert (found.cpu_seconds, found.runs, len(world.engine.recomputed)) == (100.0, 1, 1)
        assert "not warmed up" in str(found)

    def test_results_of_before_are_told_by_it_in_proportion(self, world: World) -> None:
        query = world.query(Schedule.view())
        rows: list[Row] = [(n, "c", 1) for n in range(10)]
        world.put("a", rows)
        query.run()
        world.put("b", [(n, "c", 1) for n in range(10, 40)])
        query.run()
        query.measure()
        assert query.savings().recomputed_cpu_seconds == pytest.approx(6.0 * (1 + 10 / 40))

    def test_of_a_view_no_price_counts(self, world: World) -> None:
        query = world.query(Schedule.view())
        world.put("a", FIRST)
        query.run()
        (first,) = query.history()
        assert first.weight < 1, "what begins a view is weighed as paid once"
        assert query.savings().cpu_seconds == pytest.approx(first.run_cpu_seconds)

    def test_a_query_that_took_its_place_is_measured_anew(self, world: World) -> None:
        query = self.day(world)
        query.measure()
        world.wh.replace_query("summary", PAST_DAYS)
        told = world.wh.query("summary").savings()
        assert (told.runs, told.measured) == (0, ())
        world.wh.query("summary").run(at="24:00", force=True)
        assert world.wh.query("summary").savings().measured == ()

    def test_it_goes_with_the_query_to_another_name(self, world: World) -> None:
        self.day(world).measure()
        world.wh.rename_query("summary", "sums")
        assert world.wh.query("sums").savings().recomputed_cpu_seconds == 6.0

    def test_without_a_result_there_is_nothing_to_recompute(self, world: World) -> None:
        query = world.query()
        with pytest.raises(TempuraError) as error:
            query.measure()
        assert code(error) == "NO_RESULT"
        outcomes = world.wh.measure()
        assert [outcome.is_without_result for outcome in outcomes] == [True]
        assert world.wh.savings()[0].found == query.savings()

    def test_runs_over_a_table_that_is_not_declared_any_more_are_left_out(self, world: World) -> None:
        query = self.day(world)
        query.measure()
        toml = world.folder / "wh" / "tempura.toml"
        before, _, after = toml.read_text().partition("[tables.returns]")
        toml.write_text(before + after[after.index("[") :])
        told = world.open().query("summary").savings()
        assert (told.runs, told.left_out, told.recomputed_cpu_seconds) == (0, 2, 0)

    def test_what_fails_leaves_nothing_behind(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        query = self.day(world)
        world.wh.gc()

        def fail(*_: object) -> None:
            raise TempuraError("SPARK_FAILED", "It failed.", "See the cause.")

        monkeypatch.setattr(world.engine, "recompute", fail)
        with pytest.raises(TempuraError) as error:
            query.measure()
        assert code(error) == "SPARK_FAILED"
        assert left(query) == []
        assert query.savings().measured == ()
        assert not world.wh.gc()

    def test_a_measurement_does_not_change_what_runs_do(self, world: World) -> None:
        query = self.day(world)
        world.wh.gc()
        before = query.committed()
        query.measure()
        assert query.committed() == before
        assert world.open().query("summary").verify()
        assert not world.wh.gc()


class TestPaces:
    def test_flushes_count_and_the_last_one_gives_the_result(self, tmp_path: Path) -> None:
        world = PacedWorld(tmp_path)
        query = world.query()
        for _ in range(3):
            world.hour()
            query.run()
        with pytest.raises(TempuraError) as error:
            query.measure()
        assert error.value.code == "NOT_RELEASED"
        assert query.savings().results == 0
        for _ in range(3):
            world.hour()
            query.run()
        assert world.now == datetime.fromisoformat(SIX).replace(tzinfo=UTC)
        found, told = query.measure(), query.savings()
        assert found.rows_read == 36
        assert (told.runs, told.results) == (len(query.history()), 1)
        assert told.recomputed_cpu_seconds == 6.0
