"""Which run is due: places in a schedule, told by the wall clock or named by the user."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tempura.errors import TempuraError
from tempura.warehouse.times.schedule import Schedule


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One run of a schedule. ``cycle`` is the day (ISO date) of a progressive schedule, else empty; ``index`` the position in the
    schedule's times, for a view the number of the refresh.

    ``extra``: a run outside the schedule, which marks no time of it as run. Its cycle and label say when it was asked for, its index
    which of the schedule's times comes next (their number, if none)."""

    cycle: str
    index: int
    label: str
    extra: bool = False

    def __str__(self) -> str:
        return f"{self.cycle} {self.label}".strip()

    def to_json(self) -> dict[str, Any]:
        """Plain data for a manifest."""
        plain = {"cycle": self.cycle, "index": self.index, "label": self.label}
        return plain | {"extra": True} if self.extra else plain

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Slot":
        """The inverse of :meth:`to_json`."""
        return Slot(data["cycle"], data["index"], data["label"], data.get("extra", False))


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be run: a slot, or None and ``why`` not; ``skipped`` are the slots that were missed before it."""

    slot: Slot | None
    why: str = ""
    skipped: tuple[Slot, ...] = ()


def zone_of(name: str) -> tzinfo:
    """A time zone by region or as an offset. Raises TempuraError BAD_TIMEZONE."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    try:
        offset = datetime.strptime(name.removeprefix("GMT").removeprefix("UTC"), "%z").utcoffset()
    except ValueError:
        offset = None
    if offset is None:
        raise TempuraError(
            "BAD_TIMEZONE", f"Time zone {name!r} is not known.", 'Name a region such as "Europe/Berlin".'
        )
    return timezone(offset)


def placed(schedule: Schedule, last: Slot | None) -> Slot | None:
    """The last run's place in a schedule, which may be another one by now: of times of a day the last that is not later, of labels the one
    of its name. None where it has no place in it: then nothing of it counts as run."""
    if last is None or schedule.kind in ("view", "paced"):
        return last
    if schedule.kind == "fixed":
        return replace(last, index=schedule.times.index(last.label)) if last.label in schedule.times else None
    return replace(last, index=sum(time <= last.label for time in schedule.times) - 1) if last.cycle else None


def due(schedule: Schedule, last: Slot | None, now: datetime, zone: tzinfo) -> Due:
    """The run that is due by the clock after ``last``: of a progressive schedule the latest time that has come, of the others
    the next."""
    if schedule.kind != "progressive":
        return _in_order(schedule, last)
    today = now.astimezone(zone).date()
    start = date.fromisoformat(last.cycle) if last else today
    passed = [s for s in _slots(schedule, start, today) if _instant(s, zone) <= now and (last is None or s > last)]
    if passed:
        return Due(passed[-1], skipped=tuple(passed[:-1]))
    return Due(None, f"nothing is due before {_to_come(schedule, last, now, zone)}")


def upcoming(schedule: Schedule, last: Slot | None, now: datetime, zone: tzinfo) -> Slot | None:
    """The run to plan for: the one that is due, else the next to come; None when the schedule is at its end."""
    slot = due(schedule, last, now, zone).slot
    if slot or schedule.kind != "progressive":
        return slot
    return _to_come(schedule, last, now, zone)


def unscheduled(schedule: Schedule, last: Slot | None, now: datetime, zone: tzinfo) -> Slot:
    """A run outside the schedule, now; of a view, which is refreshed at any time, the next refresh."""
    following = upcoming(schedule, last, now, zone)
    if schedule.kind == "view" and following:
        return following
    local = now.astimezone(zone)
    index = following.index if following else len(schedule.times)
    return Slot(local.date().isoformat(), index, f"{local:%H:%M} (now)", extra=True)


def named(schedule: Schedule, at: str, last: Slot | None, now: datetime, zone: tzinfo, force: bool = False) -> Due:
    """The run that the user names. It must come after ``last``; a time that was just run is not run again. ``force``: although it has
    not come by the clock.

    Raises TempuraError UNKNOWN_TIME, TIME_AHEAD, or TIME_PASSED when a later time of the same cycle has been run.
    """
    if at not in schedule.times:
        remedy = (
            f"Its times are {', '.join(schedule.times)}." if schedule.times else "A view has no times: leave it out."
        )
        raise TempuraError("UNKNOWN_TIME", f"The schedule has no time {at!r}.", remedy)
    index = schedule.times.index(at)
    if schedule.kind != "progressive":
        return _named_label(schedule, index, last)
    found = _named_clock(schedule, index, last, now, zone)
    if found.slot and not force and _instant(found.slot, zone) > now:
        raise _ahead(found.slot, now.astimezone(zone))
    return found


def _ahead(slot: Slot, now: datetime) -> TempuraError:
    what = f"{slot} has not come: it is {now:%Y-%m-%d %H:%M}. What arrives until then would miss its run."
    remedy = "Use run(now=True), which runs outside the schedule; force=True runs that time all the same."
    command = "Use --now, which runs outside the schedule; --force runs that time all the same."
    return TempuraError("TIME_AHEAD", what, remedy, command)


def _in_order(schedule: Schedule, last: Slot | None) -> Due:
    index = last.index + 1 if last else 0
    if schedule.kind == "view":
        return Due(Slot("", index, f"refresh {index + 1}"))
    if index == len(schedule.times):
        return Due(None, "all times of the schedule have been run")
    return Due(Slot("", index, schedule.times[index]))


def _named_label(schedule: Schedule, index: int, last: Slot | None) -> Due:
    at = schedule.times[index]
    if last and index == last.index:
        return Due(None, f"{at} has been run")
    if last and index < last.index:
        raise TempuraError("TIME_PASSED", f"{at} comes before {last.label}, which has been run.", "Name a later time.")
    between = range(last.index + 1 if last else 0, index)
    return Due(Slot("", index, at), skipped=tuple(Slot("", i, schedule.times[i]) for i in between))


def _named_clock(schedule: Schedule, index: int, last: Slot | None, now: datetime, zone: tzinfo) -> Due:
    """The latest cycle in which the named time has come; else, ahead of the clock, the first cycle in which it may come."""
    at = schedule.times[index]
    today = now.astimezone(zone).date()
    start = date.fromisoformat(last.cycle) if last else today
    slots = [Slot(day.isoformat(), index, at) for day in _days(start, max(today, start + timedelta(days=1)))]
    after = [slot for slot in slots if last is None or slot > last]
    passed = [slot for slot in after if _instant(slot, zone) <= now]
    if not passed and last and index == last.index:
        return Due(None, f"{last} has been run")
    if not passed and last and index < last.index < len(schedule.times) - 1:
        remedy = f"Run {', '.join(schedule.times[last.index + 1 :])} first."
        raise TempuraError("TIME_PASSED", f"{at} comes before {last}, which has been run.", remedy)
    slot = passed[-1] if passed else after[0]
    between = _slots(schedule, start, date.fromisoformat(slot.cycle))
    return Due(slot, skipped=tuple(s for s in between if s < slot and (last is None or s > last)))


def _to_come(schedule: Schedule, last: Slot | None, now: datetime, zone: tzinfo) -> Slot:
    today = now.astimezone(zone).date()
    # Runs named by the user may be ahead of the clock; the cycle of yesterday may still have its 24:00 to come.
    start = max(date.fromisoformat(last.cycle), today - timedelta(days=1)) if last else today
    slots = _slots(schedule, start, start + timedelta(days=2))
    return next(s for s in slots if (last is None or s > last) and _instant(s, zone) > now)


def day_after(slot: Slot, schedule: Schedule) -> list[Slot]:
    """The runs of the day after that of a run, on no day where that is on none, because a plan is only asked for."""
    following = (date.fromisoformat(slot.cycle) + timedelta(days=1)).isoformat() if slot.cycle else ""
    return [Slot(following, index, label) for index, label in enumerate(schedule.times)]


def result_after(slot: Slot, schedule: Schedule) -> str:
    """What the last of these is called."""
    last = day_after(slot, schedule)[-1]
    return str(last) if last.cycle else f"{last} of the next day"


def _days(first: date, last: date) -> Iterator[date]:
    return (first + timedelta(days=i) for i in range((last - first).days + 1))


def _slots(schedule: Schedule, first: date, last: date) -> Iterator[Slot]:
    """All runs of the cycles from one day to another, in order."""
    for day in _days(first, last):
        for index, label in enumerate(schedule.times):
            yield Slot(day.isoformat(), index, label)


def _instant(slot: Slot, zone: tzinfo) -> datetime:
    """When the slot comes, in UTC: of a time that occurs twice the first, of one that clocks leave out when they do."""
    hour, minute = map(int, slot.label.split(":"))
    day = date.fromisoformat(slot.cycle) + timedelta(days=hour // 24)
    local = datetime(day.year, day.month, day.day, hour % 24, minute, tzinfo=zone)
    moment = local.astimezone(UTC)
    return moment if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None) else _gap_end(local)


def _gap_end(local: datetime) -> datetime:
    """The moment to which clocks are put forward over a time that does not occur, so that times come in their order."""
    # With fold=1 the offset after the gap is taken, which is a moment before it.
    moment = local.replace(fold=1).astimezone(UTC)
    before = moment.astimezone(local.tzinfo).utcoffset()
    while moment.astimezone(local.tzinfo).utcoffset() == before:
        moment += timedelta(minutes=1)
    return moment
