"""Queries followed: one process runs each of them when it is due, again and again.

To start Spark, and to warm it up, takes longer than most refreshes; who follows pays that once, and Spark is not asked whether something
has come.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import sleep
from typing import Unpack

from tempura.errors import TempuraError
from tempura.execute.failure import coded
from tempura.warehouse.declared.kinds import is_number
from tempura.warehouse.query import Query
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.together import Asked, Outcome, asked_of, outcome_of

EVERY = 5.0
"""Seconds between two looks, unless given."""

_LONGEST = 300.0
"""So many seconds, at most, a query is left alone that has failed."""

_SPARK_ENDED = "NO_SESSION"

_OTHERS = ("RUN_IN_PROGRESS", "COMMIT_LOST")
"""Another process runs the query, or was quicker: the next look will see."""

_WAITS_FOR_THE_CLOCK = "CLOCK_WENT_BACK"
"""Each time that it is told it names another time, and is the same error."""


def follow(
    choose: Callable[[], Sequence[Query]],
    tell: Callable[[Outcome[RunReport]], None],
    every: float = EVERY,
    wait: Callable[[float], None] | None = None,
    **asked: Unpack[Asked],
) -> None:
    """Look at the queries that ``choose`` gives, upstream first, and run those that are due, until none of them will be due any more; then
    wait so many seconds, by ``wait``, and look again. ``tell`` is called with each run, and with each error, once until the query fails
    otherwise. A query that failed is tried again after twice as long each time, and keeps no other from running. ``asked`` is as for
    :meth:`Query.run`; where there are several queries, progress names them. Raises TempuraError BAD_NUMBER, what ``choose`` raises the
    first time, what ``tell`` raises, and NO_SESSION when Spark has ended: whoever has started this process may start another, which has
    a session of its own."""
    if not is_number(every) or every <= 0:
        told = f"{every:g}" if is_number(every) else repr(every)
        raise TempuraError("BAD_NUMBER", f"To look every {told} seconds is not possible.", "Give more than 0.")
    troubles = _Troubles(every)

    def tell_news(outcome: Outcome[RunReport]) -> None:
        if isinstance(outcome.error, TempuraError) and outcome.error.code == _SPARK_ENDED:
            raise outcome.error
        if troubles.is_news(outcome):
            tell(outcome)

    def look(queries: Sequence[Query]) -> float | None:
        """Run what is due. Returns how many seconds to wait before the next look; None when there is nothing to wait for."""
        for query in queries:
            if troubles.is_to_be_tried(query.name):
                of_it = asked_of(query, asked) if len(queries) > 1 else asked
                tell_news(outcome_of(query, partial(_looked_at, asked=of_it)))
        left = (_until_next_look(query, every) for query in queries)
        return min((seconds for seconds in left if seconds is not None), default=None)

    seconds = look(choose())
    while seconds is not None:
        (wait or sleep)(seconds)
        troubles.wait()
        try:
            queries = choose()
        except (TempuraError, OSError) as error:  # somebody is editing tempura.toml, or moves it
            tell_news(Outcome("", error=coded(error)))
        else:
            troubles.forget("")
            seconds = look(queries)


def _looked_at(query: Query, asked: Asked) -> RunReport:
    if query.schedule.kind == "fixed":
        what = f"Query {query.name} cannot be followed: no clock shows the times of its schedule."
        raise TempuraError("BAD_RUN", what, "Call run() for each.", f"Run each: tempura run {query.name}")
    if not query.may_be_due:
        return RunReport(query.name, nothing=True)
    return query.run(**asked)


def _until_next_look(query: Query, every: float) -> float | None:
    """How many seconds to wait before a query is looked at again; None when it will not be due any more."""
    try:
        return None if query.is_over else query.until_next_look(every)
    except (TempuraError, OSError):  # which its next run will say
        return every


def _told_apart_by(error: BaseException) -> str:
    is_of_the_clock = isinstance(error, TempuraError) and error.code == _WAITS_FOR_THE_CLOCK
    return _WAITS_FOR_THE_CLOCK if is_of_the_clock else str(error)


@dataclass
class _Trouble:
    """A query that failed: how often in a row, what was told of it, and how many looks it is left alone for."""

    error: str
    times: int = 0
    left: int = 0


class _Troubles:
    """The queries that failed when they were looked at last, by their names."""

    def __init__(self, every: float) -> None:
        self._most = max(1, int(_LONGEST / every))
        self._of: dict[str, _Trouble] = {}

    def is_to_be_tried(self, name: str) -> bool:
        """Whether to look at a query now."""
        return name not in self._of or not self._of[name].left

    def is_news(self, outcome: Outcome[RunReport]) -> bool:
        """Take note of what became of a query, and say whether anybody wants to be told."""
        name, error = outcome.query, outcome.error
        if isinstance(error, TempuraError) and error.code in _OTHERS:
            return False
        if error is None:
            self.forget(name)
            return outcome.found is not None and not outcome.found.nothing
        known = self._of.get(name)
        trouble = self._of[name] = known or _Trouble("")
        trouble.times += 1
        trouble.left = min(2 ** (trouble.times - 1), self._most)
        told, trouble.error = trouble.error, _told_apart_by(error)
        return told != trouble.error

    def forget(self, name: str) -> None:
        """A query did not fail."""
        self._of.pop(name, None)

    def wait(self) -> None:
        """The time between two looks has passed."""
        for trouble in self._of.values():
            trouble.left = max(0, trouble.left - 1)
