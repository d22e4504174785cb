"""What a query at paces is asked for: a deadline, a bound on work, and how paces are chosen."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

from tempura.errors import TempuraError
from tempura.pace.goal import MOST_PACE, STRATEGIES, Goal, StrategyName

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_FORM = 'Write until="2026-03-01T18:00", or "18:00" for today.'


@dataclass(frozen=True, slots=True)
class Deadline:
    """``until``: when the result is due, as ISO text, in the schedule's time zone unless it has an offset; ``since``: from when on rows
    are counted. The bounds are those of :class:`~tempura.pace.goal.Goal`; ``strategy`` is one of its names, or paces by the names of
    tables and segments. Raises TempuraError BAD_SCHEDULE, BAD_PACES."""

    until: str
    since: str | None = None
    final_work: float | None = None
    total_work: float | None = None
    max_pace: int = MOST_PACE
    strategy: str | tuple[tuple[str, int], ...] = "inqp"

    def __post_init__(self) -> None:
        for text in filter(None, (self.until, self.since)):
            _read(text)
        for name, bound in (("final_work", self.final_work), ("total_work", self.total_work)):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float)):
                raise TempuraError("BAD_PACES", f"{name} is {bound!r}.", f"Give a number, as {name}=1.0.")
        if isinstance(self.max_pace, bool) or not isinstance(self.max_pace, int) or not 1 <= self.max_pace <= 10_000:
            raise TempuraError("BAD_PACES", f"max_pace is {self.max_pace!r}.", "Give a number from 1 to 10000.")
        if isinstance(self.strategy, str) and self.strategy not in STRATEGIES:
            what = f"There is no strategy {self.strategy!r}."
            raise TempuraError("BAD_PACES", what, f"Choose of {', '.join(STRATEGIES)}, or give paces by name.")
        if not isinstance(self.strategy, str):
            self._check_paces(dict(self.strategy))
        if self.strategy == "hand" and self.goal.final_work is None:
            raise TempuraError("BAD_PACES", "Paces by hand follow from final_work.", "Give it, or a pace per table.")
        assert self.goal

    def _check_paces(self, paces: Mapping[str, int]) -> None:
        for name, pace in paces.items():
            if isinstance(pace, bool) or not isinstance(pace, int) or not 1 <= pace <= self.max_pace:
                raise TempuraError("BAD_PACES", f"{name} has pace {pace!r}.", f"Paces are from 1 to {self.max_pace}.")

    @property
    def goal(self) -> Goal:
        """The bound on work. Paces that are given have none unless one is told. Raises TempuraError BAD_PACES."""
        if self.final_work is None and self.total_work is None and not isinstance(self.strategy, str):
            return Goal(final_work=1.0)
        return Goal(self.final_work, self.total_work)

    @property
    def chosen_by(self) -> StrategyName | dict[str, int]:
        """The strategy as ``pace.strategies`` takes it."""
        return cast(StrategyName, self.strategy) if isinstance(self.strategy, str) else dict(self.strategy)

    def moment(self, zone: tzinfo) -> datetime:
        """When the result is due, in UTC. Raises TempuraError BAD_SCHEDULE for a time of an unknown day."""
        return _moment(self.until, zone)

    def beginning(self, zone: tzinfo) -> datetime | None:
        """From when on rows are counted, in UTC; None when that is not said."""
        return _moment(self.since, zone) if self.since else None

    def declared(self, now: datetime, zone: tzinfo) -> "Deadline":
        """The same as it is declared ``now``: a time of day is one of today, and rows count from now on. Raises TempuraError
        BAD_SCHEDULE for a deadline that has passed."""
        local = now.astimezone(zone)
        until = f"{local:%Y-%m-%d}T{self.until}" if _CLOCK.fullmatch(self.until) else self.until
        made = replace(self, until=until, since=self.since or now.astimezone(UTC).isoformat(timespec="seconds"))
        begin = made.beginning(zone)
        if made.moment(zone) <= now:
            what = f"The result would be due at {made.until}, which is over: it is {local:%Y-%m-%d %H:%M} there."
            raise TempuraError("BAD_SCHEDULE", what, "Give a time that is to come.")
        if begin and begin >= made.moment(zone):
            what = f"Rows count since {made.since}, which is not before the result is due, at {made.until}."
            raise TempuraError("BAD_SCHEDULE", what, "Give an earlier time as since.")
        return made

    def is_as(self, declared: "Deadline") -> bool:
        """Whether this is what was declared, when it was: whatever it does not say itself is as it was then."""
        until = declared.until if _CLOCK.fullmatch(self.until) and self.until == declared.until[11:] else self.until
        return replace(self, until=until, since=self.since or declared.since) == declared

    def to_json(self) -> dict[str, Any]:
        """Plain data: what differs from the default."""
        given = {name: getattr(self, name) for name in ("until", "since", "final_work", "total_work")}
        given |= {"max_pace": None if self.max_pace == MOST_PACE else self.max_pace}
        paces = self.strategy if isinstance(self.strategy, str) else dict(self.strategy)
        given |= {"strategy": None if paces == "inqp" else paces}
        return {name: value for name, value in given.items() if value is not None}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Deadline":
        """The inverse of :meth:`to_json`; moments may be datetimes. Raises TempuraError BAD_SCHEDULE, BAD_PACES, and TypeError for what it
        does not know."""
        strategy, since = data.get("strategy", "inqp"), data.get("since")
        if not isinstance(strategy, str) and not (
            isinstance(strategy, Mapping) and all(isinstance(name, str) for name in strategy)
        ):
            raise TempuraError("BAD_PACES", f"The strategy is {strategy!r}.", "Give its name, or paces by name.")
        paces = strategy if isinstance(strategy, str) else tuple(sorted(strategy.items()))
        moments = {"until": _written(data["until"]), "since": None if since is None else _written(since)}
        return Deadline(**{**data, **moments, "strategy": paces})


def _written(moment: object) -> str:
    return moment.isoformat() if isinstance(moment, datetime) else str(moment)


def _read(text: str) -> datetime | None:
    """A moment, or None for a time of day. Raises TempuraError BAD_SCHEDULE."""
    if _CLOCK.fullmatch(text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or len(text) < len("2026-03-01T18:00"):
        raise TempuraError("BAD_SCHEDULE", f"{text!r} is no date with a time.", _FORM)
    return found


def _moment(text: str, zone: tzinfo) -> datetime:
    found = _read(text)
    if found is None:
        what = f"The result is due at {text}, and nothing says of which day."
        raise TempuraError("BAD_SCHEDULE", what, _FORM)
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
