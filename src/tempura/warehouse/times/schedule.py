"""Schedules: at which times work may run, what it costs there, and when the result is due."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, SupportsFloat
from typing import Literal as OneOf

from tempura.errors import TempuraError
from tempura.pace.goal import MOST_PACE
from tempura.search.problem import Point
from tempura.warehouse.times.deadline import Deadline
from tempura.warehouse.times.objective import Cost, weights_of

Kind = OneOf["fixed", "progressive", "view", "paced"]

_LEXICOGRAPHIC = 1e12
"""The price of a time point against the one before under ``c_v``: a nanosecond later outweighs a quarter of an hour before."""

_MOST_REFRESHES = 10**9

_DAYS = 30
"""So many days are expected to use the states that one of them begins with, as refreshes of a view unless it says otherwise."""

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times in order, the price of work at each, and whether the result is due there.

    ``Schedule(times, weights, outputs, objective)`` is the general form with a fixed horizon: times are labels, run in order,
    once. ``objective`` (Tempura, section 6.2) is ``c_w``: the weighted sum of the costs of all runs; or ``c_v``: the cost of the last
    run, among plans of equal cost there that of the run before, and so on, whatever the weights. Raises TempuraError
    BAD_SCHEDULE.
    """

    times: tuple[str, ...]
    weights: tuple[float, ...]
    outputs: tuple[bool, ...]
    objective: str = "c_w"
    kind: Kind = "fixed"
    timezone: str | None = None
    n: int = field(default=0)
    deadline: Deadline | None = None

    def __init__(
        self,
        times: Iterable[str],
        weights: Iterable[float],
        outputs: Iterable[bool],
        objective: str = "c_w",
        kind: Kind = "fixed",
        timezone: str | None = None,
        n: int = 0,
        deadline: Deadline | None = None,
    ) -> None:
        for name, value in (
            ("times", tuple(str(t) for t in _listed("times", times))),
            ("weights", tuple(_weight(w) for w in _listed("weights", weights))),
            ("outputs", tuple(_is_due(o) for o in _listed("outputs", outputs))),
            ("objective", objective),
            ("kind", kind),
            ("timezone", timezone),
            ("n", n),
            ("deadline", deadline),
        ):
            object.__setattr__(self, name, value)
        problem = _problem(self)
        if problem:
            raise _bad(problem)

    @staticmethod
    def progressive(prices: Mapping[str, float], timezone: str | None = None) -> "Schedule":
        """Runs before a daily deadline, with the price of work at each: ``{"14:00": 0.25, "24:00": 1.0}``. The result is due at
        the last. Times increase; ``24:00`` is the end of the day; ``timezone`` is the session's unless given. Raises TempuraError
        BAD_SCHEDULE."""
        if not isinstance(prices, Mapping):
            raise _bad(f"The prices of a schedule are {prices!r}.", 'Give them by time: {"14:00": 0.25, "24:00": 1.0}.')
        times = list(prices)
        outputs = [i == len(times) - 1 for i in range(len(times))]
        return Schedule(times, [prices[t] for t in times], outputs, kind="progressive", timezone=timezone)

    @staticmethod
    def weights_of(cost: Cost, times: int) -> tuple[float, ...]:
        """The weights that are a cost of one's own: a function of the CPU seconds at each of so many times, which has to have optimal
        substructure (``times.objective``). Raises TempuraError BAD_SCHEDULE, with a counter-example."""
        return weights_of(cost, times)

    @staticmethod
    def view(n: int = 30) -> "Schedule":
        """A view, refreshed at each run. The first build is amortised over ``n`` refreshes. Raises TempuraError BAD_SCHEDULE."""
        return Schedule((), (), (), kind="view", n=n)

    @staticmethod
    def paced(
        until: str | datetime,
        final_work: float | None = None,
        total_work: float | None = None,
        max_pace: int = MOST_PACE,
        strategy: str | Mapping[str, int] = "inqp",
        since: str | datetime | None = None,
        timezone: str | None = None,
    ) -> "Schedule":
        """One result, due at ``until`` (ISO text such as ``2026-03-01T18:00``, a datetime, or ``18:00`` for today), before which each part
        of the query runs at a pace of its own: as often as it takes to leave at most ``final_work`` of what a recomputation takes to the
        last flush, with the least work in all; or to make the last flush as small as ``total_work``, the work of all flushes in
        multiples of that, allows (Thrifty Query Execution via Incrementability). A path of pace k is flushed whenever another 1/k
        of the rows has come that are expected ``since`` then (the time of the declaration) ``until`` then; k is at most ``max_pace``.
        ``strategy`` is a name of ``pace.goal.STRATEGIES``, or paces by the names of tables and segments, which need no bound.

        Raises TempuraError BAD_SCHEDULE, BAD_PACES."""
        given = {"until": until, "since": since, "final_work": final_work, "total_work": total_work}
        deadline = Deadline.from_json(given | {"max_pace": max_pace, "strategy": strategy})
        return Schedule((), (), (), kind="paced", timezone=timezone, deadline=deadline)

    @property
    def uses(self) -> int:
        """How often a state is expected to be read: at each refresh that pays for it, or at each time of a cycle."""
        return self.n if self.kind == "view" else len(self.times)

    @property
    def results_to_come(self) -> int:
        """Of how many results to come a part of what states are begun at is taken to be paid."""
        return self.n if self.kind == "view" else _DAYS if self.kind == "progressive" else 1

    def points_from(self, index: int, done: bool, extra: bool = False) -> tuple[Point, ...]:
        """The planning points of the run at ``times[index]`` and those up to the next result: for a view the refresh and the next one,
        for the times of a day those that remain, for the last of them that and the last of the next day. A fixed horizon ends with its
        times. ``done``: a point of the past, whose states can be loaded, comes first. ``extra``: a run outside the schedule comes before
        these, with a result, at the price of the time that comes next.

        Views and days go on for ever, so a horizon must not show in their plans. From one result to the next, what is saved pays if the
        next one gets cheaper by more, and that one will ask the same of its own saves: each loads what the one before left. A
        longer horizon lets a plan recompute now in the hope of harvesting later, at every result again."""
        past = (Point(0.0, False, done=True),) if done else ()
        if self.kind == "view":
            first = 1.0 if done else 1.0 / self.n
            return (*past, Point(first, True), Point(1.0, True))
        rest = range(index, len(self.times))
        weights = self.weights if self.objective == "c_w" else [_LEXICOGRAPHIC**i for i in range(len(self.times))]
        before = (Point(weights[min(index, len(weights) - 1)], True),) if extra else ()
        next_day = (Point(weights[-1], True),) if self.ends_a_day(index, extra) else ()
        return (*past, *before, *(Point(weights[i], self.outputs[i]) for i in rest), *next_day)

    def is_cheapest(self, index: int) -> bool:
        """Whether work costs nowhere less than at ``times[index]``."""
        return self.weights[index] == min(self.weights)

    def ends_a_day(self, index: int, extra: bool = False) -> bool:
        """Whether the run at ``times[index]`` gives the result of its day, so that the next one is the next day's."""
        return self.kind == "progressive" and index == len(self.times) - 1 and not extra

    def to_json(self) -> dict[str, Any]:
        """Plain data, as kept in ``tempura.toml``."""
        if self.kind == "view":
            return {"kind": "view", "n": self.n}
        if self.deadline:
            zone = {"timezone": self.timezone} if self.timezone else {}
            return {"kind": "paced", **self.deadline.to_json(), **zone}
        if self.kind == "progressive":
            zone = {"timezone": self.timezone} if self.timezone else {}
            return {"kind": "progressive", "times": dict(zip(self.times, self.weights, strict=True)), **zone}
        lists = {"times": list(self.times), "weights": list(self.weights), "outputs": list(self.outputs)}
        return {"kind": "fixed", **lists, "objective": self.objective}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Schedule":
        """The inverse of :meth:`to_json`. Raises TempuraError BAD_SCHEDULE, BAD_PACES."""
        if not isinstance(data, Mapping):
            raise _bad(f"A schedule is {data!r}.", _KINDS)
        try:
            match data.get("kind"):
                case "view":
                    return Schedule.view(data.get("n", 30))
                case "progressive":
                    return Schedule.progressive(data["times"], data.get("timezone"))
                case "paced":
                    given = {key: value for key, value in data.items() if key not in ("kind", "timezone")}
                    deadline, zone = Deadline.from_json(given), data.get("timezone")
                    return Schedule((), (), (), kind="paced", timezone=zone, deadline=deadline)
                case "fixed":
                    objective = data.get("objective", "c_w")
                    return Schedule(data["times"], data["weights"], data["outputs"], objective)
        except (KeyError, TypeError, ValueError) as error:
            raise TempuraError("BAD_SCHEDULE", f"A schedule cannot be read: {error!r}.", _KINDS) from error
        raise TempuraError("BAD_SCHEDULE", f"A schedule has kind {data.get('kind')!r}.", _KINDS)


_KINDS = 'Its kind is "progressive", "view", "paced" or "fixed"; docs/guide.md shows each.'


def check_schedule(given: object) -> Schedule:
    """What a program gives for a schedule. Raises TempuraError BAD_SCHEDULE."""
    if not isinstance(given, Schedule):
        raise _bad(f"The schedule is {given!r}.", "Give one, such as Schedule.view().")
    return given


def _bad(what: str, remedy: str = "docs/guide.md shows schedules of each kind.") -> TempuraError:
    return TempuraError("BAD_SCHEDULE", what, remedy)


def _listed(name: str, values: object) -> Iterable[Any]:
    if not isinstance(values, Iterable):
        raise _bad(f"The {name} of a schedule are {values!r}.", "Give a list of them.")
    return values


def _weight(value: object) -> float:
    with suppress(OverflowError):
        # Not of texts and booleans, of which Python makes numbers, too.
        if isinstance(value, SupportsFloat) and not isinstance(value, bool):
            return float(value)
    raise _bad(f"The price of a time is {value!r}.", "Give a number, such as 0.25.")


def _is_due(value: object) -> bool:
    if not isinstance(value, bool):
        raise _bad(f"Whether the result is due at a time is {value!r}.", "Give True or False.")
    return value


def _problem(schedule: Schedule) -> str | None:
    if schedule.timezone is not None and not (isinstance(schedule.timezone, str) and schedule.timezone.strip()):
        return f"The time zone of a schedule is {schedule.timezone!r}, and not the name of a region."
    if schedule.kind == "view":
        is_whole = isinstance(schedule.n, int) and not isinstance(schedule.n, bool)
        told = f"A view needs n refreshes, a whole number from 1 to {_MOST_REFRESHES}, not {schedule.n!r}."
        return None if is_whole and 1 <= schedule.n <= _MOST_REFRESHES else told
    if schedule.kind == "paced":
        return None if schedule.deadline else "Paces need a time at which the result is due."
    times, weights, outputs = schedule.times, schedule.weights, schedule.outputs
    if not times or not len(times) == len(weights) == len(outputs):
        return f"A schedule needs as many weights and outputs as times: {len(times)}, {len(weights)}, {len(outputs)}."
    if len(set(times)) < len(times):
        return f"A time occurs twice in {', '.join(times)}."
    if not all(0 <= w < float("inf") for w in weights):
        return f"Weights are finite and not negative: {weights}."
    if not outputs[-1]:
        return f"The result must be due at the last time, {times[-1]}."
    wrong = [t for t in times if schedule.kind == "progressive" and not _CLOCK.fullmatch(t)]
    if wrong:
        return f"{wrong[0]!r} is not a time of day such as 09:30 or 24:00."
    if schedule.kind == "progressive" and list(times) != sorted(times):
        return f"The times of a day increase, but these do not: {', '.join(times)}."
    return None if schedule.objective in ("c_w", "c_v") else f"Objective {schedule.objective!r} is not c_w or c_v."
