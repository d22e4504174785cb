"""What is expected to arrive in a table before the runs to come: an assumption, learned from what arrived between former runs.

Expectations decide what is worth keeping for later, never what is right. They are robust rather than clever: the median of a few
intervals between runs, those in which nothing came among them, so that a table that has been silent is expected to stay silent. Where
more came each time than the time before, or less, that is expected to go on. What was there before the query's first run, or came into an
empty table, was loaded: it says nothing about how the table grows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import pairwise
from math import ceil
from statistics import median

from tempura.errors import TempuraError
from tempura.warehouse.batches.arrivals import Arrival, totals
from tempura.warehouse.batches.content import content
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import Slot, day_after
from tempura.warehouse.times.steps import StepManifest

INTERVALS = 5
"""Of how many intervals between runs the median is taken: two odd ones do not matter. That as many are in order is a trend: by chance it
happens once in sixty times."""

UNKNOWN = Fraction(1, 100)
"""The part of its rows by which a table is expected to grow when nothing is known but its first load. Tables that are worth maintaining a
query over change by little between runs; who expects none keeps no state, and who expects as much as is there recomputes."""

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_MINUTES_OF_A_DAY = 24 * 60

Rows = tuple[int, int]
"""Rows inserted, and rows deleted."""


def check_expect(table: str, expect: object) -> str | None:
    """What a declaration expects to arrive from run to run, as text: ``"1%"`` of the table's rows, or a number of rows. Raises TempuraError
    BAD_EXPECT."""
    if expect is None:
        return None
    text = str(expect).strip()
    if isinstance(expect, bool) or not (_PERCENT.fullmatch(text) or text.isdecimal()):
        what = f"Table {table}: expect is {expect!r}, neither a share of its rows nor a number of rows."
        raise TempuraError("BAD_EXPECT", what, 'Say "1%" or 5000: what arrives from one run to the next.')
    return text


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected to arrive in a table before each of the time points to come, and ``why``. Never a fact. ``mean``: what has come
    before each run, taken over those that are looked at."""

    table: str
    arrivals: tuple[Rows, ...]
    why: str
    mean: Rows = (0, 0)

    def text(self, labels: Sequence[str]) -> str:
        """One line for people; ``labels`` name the time points."""
        parts = (f"{_rows(rows)} by {label}" for rows, label in zip(self.arrivals, labels, strict=True))
        return f"{self.table}: {', '.join(parts)} ({self.why})"

    def before(self, points: Sequence[int]) -> "Forecast":
        """The same for some of the points to come, in order, the last among them: before each all that comes since the one before it."""
        ends = pairwise((-1, *points))
        parts = [self.arrivals[begin + 1 : end + 1] for begin, end in ends]
        return replace(self, arrivals=tuple((sum(i for i, _ in part), sum(d for _, d in part)) for part in parts))

    def and_then(self, rows: Rows | None = None) -> "Forecast":
        """The same with one point more, before which so much is expected, or as much as before the last."""
        return replace(self, arrivals=(*self.arrivals, *((rows,) if rows else self.arrivals[-1:])))

    def on_average(self) -> "Forecast":
        """The mean in the place of the median: of a table in which something comes at times."""
        why = "the mean of what came before each of the last runs: a view is refreshed when something has come"
        return replace(self, arrivals=(self.mean,) * len(self.arrivals), why=why) if any(self.mean) else self

    def with_deletes(self) -> "Forecast":
        """The same with one row more that goes, and another in its place: for plans that must not rely on that none does."""
        arrivals = tuple((inserted + 1, deleted + 1) for inserted, deleted in self.arrivals)
        return Forecast(self.table, arrivals, f"{self.why}; and a row is replaced, as nothing promises that none is")


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between two runs: ``end`` is the label of the later one, ``length`` in minutes of a daily schedule, else 1; ``before`` and
    ``after`` are the versions that the two read of each table."""

    end: str
    length: int
    before: dict[str, int]
    after: dict[str, int]


def intervals(
    schedule: Schedule, steps: Sequence[StepManifest], slot: Slot, versions: dict[str, int]
) -> list[Interval]:
    """The intervals between the runs of a query, oldest first; the last ends with the run in ``slot``, which reads ``versions``. A view
    is not refreshed when nothing has come: where nothing did is no interval of it."""
    daily = schedule.kind == "progressive"
    cycle = max(1, len(schedule.times)) if daily else 1
    runs = [*((s.slot, dict(s.inputs)) for s in steps[-INTERVALS * cycle - 1 :]), (slot, versions)]
    # Runs under another kind of schedule, and those that are asked about and may never be, are none of this one's.
    pairs = pairwise((run, inputs) for run, inputs in runs if bool(run.cycle) == daily)
    return [
        Interval(end.label, _minutes(begin, end) if daily else 1, before, after)
        for (begin, before), (end, after) in pairs
        if schedule.kind != "view" or before != after
    ]


def forecast(
    table: str,
    arrivals: Sequence[Arrival],
    expect: str | None,
    past: Sequence[Interval],
    to_come: Sequence[tuple[str, int]],
) -> Forecast:
    """What is expected to arrive in a table whose ``arrivals`` the run reads, before each of the points ``to_come`` (a label, and the
    length of the interval before it). ``expect`` is what its declaration says."""
    inserted, deleted = content(arrivals).rows
    seen = list(_seen(table, arrivals, past))
    if expect is not None:
        came = [(i.length, (0, rows[1])) for i, rows in seen]
        declared = declared_rows(expect, inserted - deleted)
        growth = [(declared, _lately(came[-INTERVALS:], length)[1]) for _, length in to_come]
        return Forecast(table, tuple(growth), f"as declared: expect = {expect}")
    if not seen:
        rows = inserted - deleted
        growth = [(max(1, round(rows * UNKNOWN)) if rows else 0, 0)] * len(to_come)
        why = f"{float(UNKNOWN):.0%} of its rows: nothing is known but its first load" if rows else "nothing ever came"
        return Forecast(table, tuple(growth), why)
    found = [_learned(seen, label, length) for label, length in to_come]
    why = "; ".join(dict.fromkeys(why for _, why in found))
    last = [rows for _, rows in seen][-INTERVALS:]
    mean = ceil(Fraction(sum(i for i, _ in last), len(last))), ceil(Fraction(sum(d for _, d in last), len(last)))
    return Forecast(table, tuple(rows for rows, _ in found), why, mean)


def of_a_view(forecasts: Mapping[str, Forecast]) -> dict[str, Forecast]:
    """What is expected in the tables of a view, which is refreshed when something has come: so not nothing in all of them."""
    silent = not any(any(rows) for found in forecasts.values() for rows in found.arrivals)
    return {table: found.on_average() if silent else found for table, found in forecasts.items()}


def intervals_to_come(schedule: Schedule, slot: Slot, count: int) -> list[tuple[str, int]]:
    """The intervals after a run in ``slot``, by label of the end and length: one before each of the ``count`` points of its plan that
    come after it, or where the next one is the next day's result, those of that day."""
    if schedule.kind != "progressive":
        return [("", 1)] * count
    if schedule.ends_a_day(slot.index, slot.extra):
        slots = [slot, *day_after(slot, schedule)]
    else:
        # A run outside the schedule has the index of the time that comes next.
        following = slot.index + (not slot.extra)
        slots = [slot, *(Slot(slot.cycle, i, schedule.times[i]) for i in range(following, following + count))]
    return [(after.label, _minutes(before, after)) for before, after in pairwise(slots)]


def _seen(table: str, arrivals: Sequence[Arrival], past: Sequence[Interval]) -> Iterator[tuple[Interval, Rows]]:
    """The intervals of which something is known of a table, and what came."""
    for interval in past:
        before, after = interval.before.get(table), interval.after.get(table)
        if before is None or after is None or not before <= after <= len(arrivals):
            continue
        inserted, deleted = content(arrivals[:before]).rows
        # What a reset or a refresh brings is no growth.
        if inserted > deleted and not any(a.reset or a.refreshed for a in arrivals[before:after]):
            yield interval, totals(arrivals[before:after])


def _learned(seen: Sequence[tuple[Interval, Rows]], label: str, length: int) -> tuple[Rows, str]:
    """The median of the same interval of former days if there are any, else of the last ones, in proportion to their length."""
    same = [(i.length, rows) for i, rows in seen if label and (i.end, i.length) == (label, length)][-INTERVALS:]
    if same:
        found = _middle(same, length)
        return _with_trend(same, length, found, f"median of {_times(len(same), 'day')} up to {label}")
    last = [(i.length, rows) for i, rows in seen][-INTERVALS:]
    proportion = ", in proportion to time" if label else ""
    why = f"median of what came before each of {_times(len(last), 'run')}{proportion}"
    usual, now = _middle(last, length), _lately(last, length)
    return _with_trend(last, length, now, why if now == usual else f"{why}; rows have begun to leave")


def _lately(last: Sequence[tuple[int, Rows]], length: int) -> Rows:
    """The median, but where rows have left for the first time in a while, as many again: what is kept for rows that only come may be of no
    use then."""
    inserted, deleted = _middle(last, length)
    return inserted, deleted or _middle(last[-1:], length)[1]


def _with_trend(last: Sequence[tuple[int, Rows]], length: int, found: Rows, why: str) -> tuple[Rows, str]:
    """What is ``found`` to come, unless all intervals say that ever more comes, or ever less: then one step further than the last, but
    never less than half of it: what shrinks evenly would soon be nothing, and for that nothing is kept."""
    rates = [Fraction(rows[0], max(1, of)) for of, rows in last]
    steps = [after - before for before, after in pairwise(rates)]
    if len(last) < INTERVALS or not (all(step > 0 for step in steps) or all(step < 0 for step in steps)):
        return found, why
    following = max(rates[-1] / 2, rates[-1] + median(steps)) * length
    said = "more came each time, and it goes on so" if steps[0] > 0 else "less came each time, and it goes on so"
    return (ceil(following), found[1]), f"{why}; {said}"


def _middle(came: Sequence[tuple[int, Rows]], length: int) -> Rows:
    """The median of what came in intervals, as if each had a given length."""
    if not came:
        return 0, 0
    inserted, deleted = (median(Fraction(rows[side] * length, max(1, of)) for of, rows in came) for side in (0, 1))
    return ceil(inserted), ceil(deleted)


def declared_rows(expect: str, rows: int) -> int:
    """The number of rows that a declaration expects to arrive in a table of ``rows`` rows."""
    share = _PERCENT.fullmatch(expect)
    return round(rows * Fraction(share[1]) / 100) if share else int(expect)


def _minutes(begin: Slot, end: Slot) -> int:
    """The minutes between two runs of a daily schedule, as its times say; a time that has passed comes on the next day."""
    passed = _moment(end) - _moment(begin)
    return passed if passed > 0 else passed % _MINUTES_OF_A_DAY or _MINUTES_OF_A_DAY


def _moment(slot: Slot) -> int:
    hour, minute = map(int, slot.label.split()[0].split(":"))
    day = date.fromisoformat(slot.cycle).toordinal() if slot.cycle else 0
    return day * _MINUTES_OF_A_DAY + hour * 60 + minute


def _times(n: int, what: str) -> str:
    return f"the last {n} {what}{'s' if n > 1 else ''}"


def _rows(rows: Rows) -> str:
    inserted, deleted = rows
    signs = [f"{sign}{n:,}" for sign, n in (("+", inserted), ("-", deleted)) if n]
    return f"{' '.join(signs)} rows" if signs else "nothing"
