"""What is expected to arrive: learned from what came between runs, declared, or little. It is an assumption, and is told as one."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, DataFile
from tempura.warehouse.query import Query
from tempura.warehouse.times.forecast import Forecast, Interval, forecast, of_a_view
from tempura.warehouse.times.schedule import Schedule
from tests.unit.bag_engine import SUMMARY, Row
from tests.unit.test_warehouse import DAILY, RETURNS, SALES, World, code, world

__all__ = ["world"]


def arrival(inserted: int, deleted: int = 0) -> Arrival:
    files = ((DataFile("a", 1, 1, inserted, 8 * inserted),), (DataFile("b", 1, 1, deleted, 8 * deleted),))
    return Arrival(*files, {}, "", "2026-03-01T00:00:00+00:00")


def between(*versions: int, length: int = 1, end: str = "") -> list[Interval]:
    return [Interval(end, length, {"t": a}, {"t": b}) for a, b in pairwise(versions)]


def expected(arrivals: list[Arrival], past: list[Interval], expect: str | None = None) -> tuple[int, int]:
    return forecast("t", arrivals, expect, past, [("", 1)]).arrivals[0]


class TestLearning:
    def test_a_first_load_is_no_rate(self) -> None:
        """Silently wrong, 6: a dimension of 12 rows was planned at 36."""
        assert expected([arrival(12)], []) == (1, 0)
        assert expected([arrival(1_000_000)], []) == (10_000, 0)

    def test_what_comes_into_an_empty_table_is_a_first_load_too(self) -> None:
        assert expected([arrival(0), arrival(5_000)], between(1, 2)) == (50, 0)
        assert expected([arrival(0)], between(1, 1)) == (0, 0)

    def test_a_silent_table_is_expected_to_stay_silent(self) -> None:
        assert expected([arrival(12)], between(1, 1, 1, 1)) == (0, 0)

    def test_one_burst_is_no_habit(self) -> None:
        arrivals = [arrival(1_000), arrival(900_000)]
        assert expected(arrivals, between(1, 1, 1, 2, 2, 2)) == (0, 0)

    def test_a_steady_table_grows_as_it_did(self) -> None:
        arrivals = [arrival(1_000), arrival(90, 10), arrival(100, 12), arrival(110, 11)]
        assert expected(arrivals, between(1, 2, 3, 4)) == (100, 11)

    def test_what_is_declared_counts(self) -> None:
        arrivals = [arrival(1_000), arrival(90, 10)]
        assert expected(arrivals, between(1, 2), "2.5%") == (27, 10)
        assert expected([arrival(1_000)], [], "70") == (70, 0)

    def test_a_daily_schedule_looks_at_the_same_time_of_former_days(self) -> None:
        arrivals = [arrival(1_000), arrival(10), arrival(500), arrival(20), arrival(700)]
        day = [(840, "19:00"), (300, "24:00")]
        past = [between(i + 1, i + 2, length=day[i % 2][0], end=day[i % 2][1])[0] for i in range(4)]
        found = forecast("t", arrivals, None, past, [("19:00", 840), ("24:00", 300)])
        assert found.arrivals == ((15, 0), (600, 0))
        assert found.why == "median of the last 2 days up to 19:00; median of the last 2 days up to 24:00"

    def test_a_time_that_is_not_known_is_expected_in_proportion(self) -> None:
        past = between(1, 2, length=600, end="10:00")
        assert forecast("t", [arrival(1_000), arrival(60)], None, past, [("12:00", 120)]).arrivals == ((12, 0),)

    def test_rows_that_began_to_leave_are_expected_to_go_on(self) -> None:
        """A state that is of no use where rows leave is not to be built once they do."""
        arrivals = [arrival(1_000), *[arrival(10)] * 3, arrival(10, 4), arrival(10)]
        found = forecast("t", arrivals[:5], None, between(1, 2, 3, 4, 5), [("", 1)] * 2)
        assert found.arrivals == ((10, 4), (10, 4))
        assert found.why == "median of what came before each of the last 4 runs; rows have begun to leave"
        assert forecast("t", arrivals[:5], "1%", between(1, 2, 3, 4, 5), [("", 1)]).arrivals[0][1] == 4
        once = forecast("t", arrivals, None, between(1, 2, 3, 4, 5, 6), [("", 1)])
        assert once.arrivals == ((10, 0),), "once is not often"
        assert once.why == "median of what came before each of the last 5 runs"

    def test_a_table_that_brings_ever_more_is_expected_to_go_on_so(self) -> None:
        came = [100, 110, 125, 135, 150]
        arrivals = [arrival(1_000), *map(arrival, came)]
        found = forecast("t", arrivals, None, between(*range(1, 7)), [("", 1)])
        # One step, the median of 10, 15, 10 and 15, further than the last.
        assert found.arrivals == ((163, 0),)
        assert found.why == "median of what came before each of the last 5 runs; more came each time, and it goes on so"

    @pytest.mark.parametrize(
        ("came", "to_come"),
        [
            ([110, 125, 135, 150], 130),  # four in order are none of five
            ([100, 110, 125, 135, 135], 125),  # nor is it where one is as the one before
            ([100, 125, 110, 135, 150], 125),
            ([900, 100, 110, 125, 135, 150], 163),  # the last five
            ([150, 135, 125, 110, 100], 88),
            ([160, 80, 40, 20, 10], 5),  # a step would lead below nothing
        ],
    )
    def test_what_is_no_trend_is_the_median(self, came: list[int], to_come: int) -> None:
        arrivals = [arrival(1_000), *map(arrival, came)]
        assert expected(arrivals, between(*range(1, len(came) + 2))) == (to_come, 0)

    def test_a_trend_of_days_is_that_of_the_same_time(self) -> None:
        came = [10, 500, 20, 400, 30, 600, 40, 500, 50, 700]
        arrivals = [arrival(1_000), *map(arrival, came)]
        day = [(840, "19:00"), (300, "24:00")]
        past = [between(i + 1, i + 2, length=day[i % 2][0], end=day[i % 2][1])[0] for i in range(10)]
        found = forecast("t", arrivals, None, past, [("19:00", 840), ("24:00", 300)])
        assert found.arrivals == ((60, 0), (500, 0))

    def test_it_is_told_per_table_and_why(self) -> None:
        assert (
            Forecast("t", ((1_200, 3), (0, 0)), "why").text(["a", "b"]) == "t: +1,200 -3 rows by a, nothing by b (why)"
        )


def rows(day: int, n: int) -> list[Row]:
    return [(1_000 * day + i, f"c{i % 3}", 10) for i in range(n)]


def declared(world: World, **given: object) -> Query:
    world.wh.add_table("sales", path=world.lake, schema=SALES)
    world.wh.add_table("returns", schema=RETURNS, **given)  # type: ignore[arg-type]
    return world.wh.add_query("summary", SUMMARY, schedule=Schedule.view())


def days_up_to(world: World, query: Query, last: int, hour: int) -> None:
    """Days of which each brings the same by its times, followed by runs, but for the last time."""
    for day in range(last + 1):
        for hours, n in ((14, 30), (19, 7), (24, 11)):
            world.now = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day, hours=hours)
            world.put(f"{day} {hours}", rows(100 * day + hours, n))
            if (day, hours) == (last, hour):
                return
            query.run()


class TestInAWarehouse:
    def test_a_table_silent_for_days_is_not_planned_to_double(self, world: World) -> None:
        """Silently wrong, 6, as it was seen: a dimension that never changes beside a table that does."""
        query = declared(world)
        world.push([(i, 1) for i in range(12)])
        for day in range(4):
            world.put(f"day {day}", rows(day, 50))
            query.run()
        world.put("day 4", rows(4, 50))
        expected = {f.table: f.arrivals for f in query.plan().forecasts}
        assert expected == {"sales": ((50, 0),), "returns": ((0, 0),)}
        assert "returns: nothing by refresh 6 (median of what came before each of the last 4 runs)" in str(query.plan())

    def test_explain_and_its_json_say_that_it_is_assumed(self, world: World) -> None:
        query = declared(world, expect="500")
        world.put("a", rows(0, 200))
        world.push([(1, 1)])
        text = query.plan().explain()
        assert "assumed to arrive, a forecast and not a fact:" in text
        assert "returns: +500 rows by refresh 2 (as declared: expect = 500)" in text
        assert "sales: +2 rows by refresh 2 (1% of its rows: nothing is known but its first load)" in text
        assert "step refresh 2 (price 1)" in text
        now, later = (line for line in text.splitlines() if line.startswith("step"))
        assert ("if what is assumed arrives" in now, "if what is assumed arrives" in later) == (False, True)
        told = query.plan().to_json()["assumed"]
        assert {t["table"]: t["arrivals"] for t in told} == {"sales": ((2, 0),), "returns": ((500, 0),)}

    def test_a_daily_query_expects_of_each_time_what_came_there_before(self, world: World) -> None:
        query = world.query(DAILY)
        days_up_to(world, query, 3, 14)
        assert next(f for f in query.plan().forecasts if f.table == "sales").arrivals == ((7, 0), (11, 0))

    def test_the_last_run_of_a_day_expects_all_that_comes_the_next_day(self, world: World) -> None:
        query = world.query(DAILY)
        days_up_to(world, query, 2, 24)
        plan = query.plan()
        assert plan.labels[-2:] == ("2026-03-03 24:00", "2026-03-04 24:00")
        assert next(f for f in plan.forecasts if f.table == "sales").arrivals == ((30 + 7 + 11, 0),)
        assert "sales: +48 rows by 2026-03-04 24:00" in str(plan)
        assert "step 2026-03-03 24:00" in plan.explain(step="24:00"), "its own is meant, unless the next day's is named"
        assert "step 2026-03-04 24:00" in plan.explain(step="2026-03-04 24:00")

    def test_it_can_be_declared_in_the_file_and_nonsense_is_refused(self, world: World) -> None:
        declared(world, expect="1%")
        path = world.wh.path / "tempura.toml"
        assert 'expect = "1%"' in path.read_text()
        path.write_text(path.read_text().replace('expect = "1%"', "expect = 250"))
        assert world.wh.status()["tables"]["returns"]["expect"] == "250"
        for wrong in ("lots", "-1", "1.5", True):
            with pytest.raises(TempuraError) as error:
                world.wh.add_table("other", schema=RETURNS, expect=wrong)
            assert code(error) == "BAD_EXPECT"


def test_a_view_is_not_expected_to_be_refreshed_for_nothing() -> None:
    """Of two tables that change in turn the median of each may be nothing; a view is refreshed when something has come."""
    silent = Forecast("a", ((0, 0), (0, 0)), "median", mean=(3, 1))
    never = Forecast("b", ((0, 0), (0, 0)), "median")
    found = of_a_view({"a": silent, "b": never})
    assert found["a"].arrivals == ((3, 1), (3, 1))
    assert "mean" in found["a"].why
    assert found["b"] == never
    growing = Forecast("b", ((5, 0), (5, 0)), "median")
    assert of_a_view({"a": silent, "b": growing}) == {"a": silent, "b": growing}
