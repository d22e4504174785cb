"""Schedules and the runs that are due, told by a clock."""

from datetime import UTC, datetime, timedelta

import pytest

from tempura.errors import TempuraError
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import Due, Slot, due, named, placed, upcoming, zone_of

DAILY = Schedule.progressive({"14:00": 0.25, "19:00": 0.3, "24:00": 1.0})
BERLIN = zone_of("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def slot(cycle: str, label: str) -> Slot:
    return Slot(cycle, DAILY.times.index(label), label)


def due_at(last: Slot | None, now: str) -> Due:
    return due(DAILY, last, at(now), UTC)


def code(error: pytest.ExceptionInfo[TempuraError]) -> str:
    return error.value.code


class TestDue:
    def test_nothing_before_the_first_time(self) -> None:
        found = due_at(None, "2026-03-01T13:59")
        assert found.slot is None
        assert "2026-03-01 14:00" in found.why

    def test_the_latest_time_that_has_come_and_what_was_missed(self) -> None:
        found = due_at(None, "2026-03-01T19:30")
        assert found.slot == slot("2026-03-01", "19:00")
        assert found.skipped == (slot("2026-03-01", "14:00"),)

    def test_a_run_is_not_due_twice(self) -> None:
        assert due_at(slot("2026-03-01", "19:00"), "2026-03-01T23:59").slot is None

    def test_midnight_ends_the_day_before(self) -> None:
        assert due_at(slot("2026-03-01", "19:00"), "2026-03-02T00:00").slot == slot("2026-03-01", "24:00")

    def test_the_next_cycle_begins_after_the_deadline(self) -> None:
        last = slot("2026-03-01", "24:00")
        assert due_at(last, "2026-03-02T13:00").slot is None
        assert due_at(last, "2026-03-02T14:00").slot == slot("2026-03-02", "14:00")

    def test_a_missed_deadline_is_recorded(self) -> None:
        found = due_at(slot("2026-03-01", "14:00"), "2026-03-02T15:00")
        assert found.slot == slot("2026-03-02", "14:00")
        assert found.skipped == (slot("2026-03-01", "19:00"), slot("2026-03-01", "24:00"))

    def test_times_are_local(self) -> None:
        # 14:00 in Berlin is 13:00 UTC in winter and 12:00 UTC in summer.
        assert due(DAILY, None, at("2026-01-10T13:00"), BERLIN).slot == slot("2026-01-10", "14:00")
        assert due(DAILY, None, at("2026-01-10T12:30"), BERLIN).slot is None
        assert due(DAILY, None, at("2026-07-10T12:00"), BERLIN).slot == slot("2026-07-10", "14:00")

    def test_the_hour_that_occurs_twice_is_run_once(self) -> None:
        night = Schedule.progressive({"02:30": 0.5, "24:00": 1.0})
        first = due(night, None, at("2026-10-25T00:30"), BERLIN).slot
        assert first == Slot("2026-10-25", 0, "02:30")
        assert due(night, first, at("2026-10-25T01:30"), BERLIN).slot is None

    def test_an_hour_that_clocks_leave_out_comes_when_they_do(self) -> None:
        # On 2026-03-29 at 01:00 UTC clocks in Berlin go from 02:00 to 03:00.
        night = Schedule.progressive({"02:15": 0.1, "02:30": 0.2, "03:00": 0.5, "24:00": 1.0})
        last = Slot("2026-03-28", 3, "24:00")
        assert due(night, last, at("2026-03-29T00:59"), BERLIN).slot is None
        found = due(night, last, at("2026-03-29T01:00"), BERLIN)
        assert found.slot == Slot("2026-03-29", 2, "03:00")
        assert [str(slot) for slot in found.skipped] == ["2026-03-29 02:15", "2026-03-29 02:30"]
        assert due(night, found.slot, at("2026-03-29T01:45"), BERLIN).slot is None
        half = zone_of("Australia/Lord_Howe")
        one = due(Schedule.progressive({"02:15": 1}), None, at("2026-10-03T15:30"), half)
        assert one.slot == Slot("2026-10-04", 0, "02:15")

    def test_a_day_that_is_longer_or_shorter_ends_at_its_end(self) -> None:
        for day, end in (("2026-03-29", "2026-03-29T22:00"), ("2026-10-25", "2026-10-25T23:00")):
            last = slot(day, "19:00")
            almost = at(end) - timedelta(minutes=1)
            assert due(DAILY, last, almost, BERLIN).slot is None
            assert due(DAILY, last, at(end), BERLIN).slot == slot(day, "24:00")

    def test_upcoming(self) -> None:
        assert upcoming(DAILY, None, at("2026-03-01T10:00"), UTC) == slot("2026-03-01", "14:00")
        assert upcoming(DAILY, None, at("2026-03-01T15:00"), UTC) == slot("2026-03-01", "14:00")
        assert upcoming(DAILY, slot("2026-03-01", "14:00"), at("2026-03-01T15:00"), UTC) == slot("2026-03-01", "19:00")
        assert upcoming(DAILY, slot("2026-03-05", "24:00"), at("2026-03-01T15:00"), UTC) == slot("2026-03-06", "14:00")
        assert upcoming(DAILY, slot("2025-03-05", "14:00"), at("2026-03-01T10:00"), UTC) == slot("2026-02-28", "24:00")


class TestNamed:
    def run(self, label: str, last: Slot | None, now: str = "2026-03-01T12:00", force: bool = False) -> Due:
        return named(DAILY, label, last, at(now), UTC, force)

    def test_ahead_of_the_clock_day_after_day_by_force(self) -> None:
        last = None
        seen = []
        for label in DAILY.times * 2:
            last = self.run(label, last, force=True).slot
            seen.append(str(last))
        days = ("2026-03-01", "2026-03-02")
        assert seen == [f"{day} {label}" for day in days for label in DAILY.times]

    def test_a_time_that_has_not_come_is_refused_and_one_that_has_is_run(self) -> None:
        with pytest.raises(TempuraError) as error:
            self.run("19:00", slot("2026-03-01", "14:00"), "2026-03-01T18:59")
        assert code(error) == "TIME_AHEAD"
        assert "2026-03-01 19:00 has not come: it is 2026-03-01 18:59" in error.value.what
        assert "--force" in error.value.command
        assert self.run("19:00", slot("2026-03-01", "14:00"), "2026-03-01T19:00").slot == slot("2026-03-01", "19:00")
        assert self.run("14:00", None, "2026-03-01T23:00").slot == slot("2026-03-01", "14:00")
        with pytest.raises(TempuraError) as error:
            self.run("14:00", slot("2026-03-01", "24:00"), "2026-03-02T00:30")
        assert code(error) == "TIME_AHEAD", "tomorrow is not today"

    def test_twice_is_once(self) -> None:
        for label in DAILY.times:
            found = self.run(label, slot("2026-03-01", label))
            assert (found.slot, found.why) == (None, f"2026-03-01 {label} has been run")

    def test_the_same_time_a_day_later_is_another_run(self) -> None:
        found = self.run("24:00", slot("2026-03-01", "24:00"), "2026-03-03T00:10")
        assert found.slot == slot("2026-03-02", "24:00")
        assert found.skipped == (slot("2026-03-02", "14:00"), slot("2026-03-02", "19:00"))

    def test_late_deadline_belongs_to_the_day_before(self) -> None:
        found = self.run("24:00", slot("2026-03-01", "19:00"), "2026-03-02T00:05")
        assert found.slot == slot("2026-03-01", "24:00")

    def test_an_earlier_time_of_the_cycle_is_refused(self) -> None:
        with pytest.raises(TempuraError) as error:
            self.run("14:00", slot("2026-03-01", "19:00"))
        assert code(error) == "TIME_PASSED"

    def test_an_unknown_time_is_refused(self) -> None:
        with pytest.raises(TempuraError) as error:
            self.run("15:00", None)
        assert code(error) == "UNKNOWN_TIME"


class TestOtherKinds:
    def test_a_view_is_always_due(self) -> None:
        view = Schedule.view()
        first = due(view, None, at("2026-03-01T10:00"), UTC).slot
        assert first is not None
        assert str(due(view, first, at("2026-03-01T10:00"), UTC).slot) == "refresh 2"

    def test_a_fixed_horizon_runs_once_and_in_order(self) -> None:
        fixed = Schedule(("a", "b", "c"), (1, 2, 3), (False, True, True))
        now, last, seen = at("2026-03-01T10:00"), None, []
        while slot := due(fixed, last, now, UTC).slot:
            seen.append(slot.label)
            last = slot
        assert seen == ["a", "b", "c"]
        assert named(fixed, "c", Slot("", 0, "a"), now, UTC).skipped == (Slot("", 1, "b"),)
        assert named(fixed, "b", Slot("", 1, "b"), now, UTC).slot is None
        with pytest.raises(TempuraError):
            named(fixed, "a", Slot("", 1, "b"), now, UTC)


class TestPoints:
    def test_progressive(self) -> None:
        points = DAILY.points_from(1, done=True)
        assert [(p.weight, p.output, p.done) for p in points] == [
            (0.0, False, True),
            (0.3, False, False),
            (1.0, True, False),
        ]

    def test_the_last_of_a_day_looks_at_the_result_of_the_next_one(self) -> None:
        points = DAILY.points_from(2, done=True)
        assert [(p.weight, p.output, p.done) for p in points] == [
            (0.0, False, True),
            (1.0, True, False),
            (1.0, True, False),
        ]
        assert [p.weight for p in DAILY.points_from(2, done=False, extra=True)] == [1.0, 1.0], (
            "what comes first is this day's"
        )

    def test_a_fixed_horizon_ends(self) -> None:
        assert len(Schedule(("a", "b"), (1, 2), (False, True)).points_from(1, done=False)) == 1

    def test_view(self) -> None:
        assert [p.weight for p in Schedule.view(4).points_from(0, done=False)] == [0.25, 1.0]
        assert [p.weight for p in Schedule.view(4).points_from(3, done=True)] == [0.0, 1.0, 1.0]
        assert [p.output for p in Schedule.view(4).points_from(3, done=True)] == [False, True, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schedule.progressive({}),
        lambda: Schedule.progressive({"25:00": 1}),
        lambda: Schedule.progressive({"9:00": 1}),
        lambda: Schedule.progressive({"19:00": 0.3, "14:00": 0.25, "24:00": 1}),
        lambda: Schedule.progressive({"09:00": -1}),
        lambda: Schedule.progressive({"09:00": float("nan")}),
        lambda: Schedule.view(0),
        lambda: Schedule(("a", "a"), (1, 1), (True, True)),
        lambda: Schedule(("a", "b"), (1,), (True, True)),
        lambda: Schedule(("a", "b"), (1, 1), (True, False)),
        lambda: Schedule(("a",), (1,), (True,), objective="c_x"),
        lambda: Schedule.from_json({"kind": "hourly"}),
        lambda: Schedule.from_json({"kind": "progressive"}),
    ],
)
def test_bad_schedules_are_refused(make: object) -> None:
    with pytest.raises(TempuraError) as error:
        make()  # type: ignore[operator]
    assert code(error) == "BAD_SCHEDULE"


@pytest.mark.parametrize("schedule", [DAILY, Schedule.view(7), Schedule(("x", "y"), (0, 2), (False, True))])
def test_schedules_survive_json(schedule: Schedule) -> None:
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_zones() -> None:
    now = at("2026-01-01T00:00")
    assert now.astimezone(zone_of("+05:30")).hour == 5
    assert now.astimezone(zone_of("GMT+02:00")).hour == 2
    with pytest.raises(TempuraError) as error:
        zone_of("Mars/Base")
    assert code(error) == "BAD_TIMEZONE"


class TestObjective:
    def test_c_w_takes_the_weights(self) -> None:
        schedule = Schedule(("a", "b"), (0.5, 2.0), (False, True), "c_w")
        assert [p.weight for p in schedule.points_from(0, done=False)] == [0.5, 2.0]

    def test_c_v_lets_the_last_run_decide(self) -> None:
        schedule = Schedule(("a", "b", "c"), (1.0, 1.0, 1.0), (False, False, True), "c_v")
        early, middle, last = (p.weight for p in schedule.points_from(0, done=False))
        hour = 3600e9
        assert last > middle * hour / 4
        assert middle > early * hour / 4

    def test_other_objectives_are_refused(self) -> None:
        with pytest.raises(TempuraError) as error:
            Schedule(("a",), (1.0,), (True,), "c_x")
        assert code(error) == "BAD_SCHEDULE"


class TestAnotherSchedule:
    """What counts as run when the schedule is another one than that of the last run."""

    LABELS = Schedule(("a", "b", "c"), (0.5, 0.5, 1.0), (False, False, True), "c_w")
    REFRESH = Slot("", 2, "refresh 3")

    @pytest.mark.parametrize("schedule", [DAILY, LABELS])
    def test_a_refresh_has_no_place_in_times_and_labels(self, schedule: Schedule) -> None:
        assert placed(schedule, self.REFRESH) is None
        assert placed(schedule, None) is None

    def test_a_view_goes_on_from_anything(self) -> None:
        for last in (self.REFRESH, Slot("", 0, "a"), slot("2026-03-01", "19:00")):
            assert placed(Schedule.view(), last) == last

    @pytest.mark.parametrize(
        ("label", "index"), [("12:00", -1), ("14:00", 0), ("16:30", 0), ("19:00", 1), ("23:00", 1), ("24:00", 2)]
    )
    def test_of_times_of_a_day_those_that_are_not_later_count(self, label: str, index: int) -> None:
        last = placed(DAILY, Slot("2026-03-01", 7, label))
        assert last == Slot("2026-03-01", index, label)
        assert due_at(last, "2026-03-01T23:59").slot == (slot("2026-03-01", "19:00") if index < 1 else None)

    def test_of_labels_the_one_of_the_name(self) -> None:
        assert placed(self.LABELS, Slot("", 0, "b")) == Slot("", 1, "b")
        assert placed(self.LABELS, Slot("", 1, "z")) is None
        assert placed(self.LABELS, Slot("2026-03-01", 0, "14:00")) is None
