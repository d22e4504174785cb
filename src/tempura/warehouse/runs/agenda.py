"""What is to be run of a query: what its schedule says, and what has come since it was run last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from tempura.errors import TempuraError
from tempura.frontend.clock import is_clock
from tempura.warehouse.declared.declare import QuerySpec
from tempura.warehouse.engine import Settings
from tempura.warehouse.runs.situation import Situation, is_followed
from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import is_at
from tempura.warehouse.times.history import History
from tempura.warehouse.times.slots import Due, Slot, due, named, placed, unscheduled, upcoming, zone_of
from tempura.warehouse.times.steps import StepManifest


@dataclass(frozen=True)
class Agenda:
    """A query by its name, declaration and tables. ``settings`` gives those under which it is run, by what is committed of it."""

    site: Site
    name: str
    spec: QuerySpec
    tables: Mapping[str, Arrivals]
    settings: Callable[[History], Settings]

    # --- by the clock -----------------------------------------------------------------------------------------------

    def next(self, history: History) -> Slot | None:
        """The run that is due, or the next one; None when no run remains."""
        return upcoming(self.spec.schedule, self._last(history), self.site.clock(), self._zone(history))

    def upcoming(self, history: History) -> Slot:
        """The same. Raises TempuraError SCHEDULE_ENDED when no run remains."""
        slot = self.next(history)
        if slot is None:
            raise TempuraError("SCHEDULE_ENDED", f"Query {self.name}: all times have been run.", "Add it anew.")
        return slot

    def due(self, history: History, at: str | None, now: bool, force: bool) -> Due:
        """The run that is asked for, as by :meth:`Query.run`. Raises TempuraError BAD_RUN, UNKNOWN_TIME, TIME_PASSED, TIME_AHEAD."""
        if at is not None and now:
            what = f"Query {self.name} is to be run at {at}, and outside its schedule."
            raise TempuraError("BAD_RUN", what, "Give at= or now=True.", "Give --at or --now.")
        schedule, time, zone, last = self.spec.schedule, self.site.clock(), self._zone(history), self._last(history)
        if now:
            return Due(unscheduled(schedule, last, time, zone))
        if at is None:
            return due(schedule, last, time, zone)
        return named(schedule, at, last, time, zone, force)

    def _last(self, history: History) -> Slot | None:
        return placed(self.spec.schedule, history.last_slot)

    def _zone(self, history: History) -> tzinfo:
        if self.spec.schedule.kind != "progressive":
            # Only times of day have a zone; the session's is not asked for in vain.
            return UTC
        return zone_of(self.spec.schedule.timezone or self.settings(history)["spark.sql.session.timeZone"])

    # --- by what has come -------------------------------------------------------------------------------------------

    def is_due(self, history: History) -> bool:
        """Whether a run is due, and would find something: other than at a time of a schedule, a view's only when something has come."""
        now, last = self.site.clock(), history.last
        if due(self.spec.schedule, self._last(history), now, self._zone(history)).slot is None:
            return False
        if self.spec.schedule.kind != "view" or last is None:
            return True
        return not all(self._is_at(name, version, now) for name, version in last.inputs.items())

    def _is_at(self, name: str, version: int, now: datetime) -> bool:
        if is_clock(name):
            return Clock(name, now).version == version
        return name in self.tables and is_at(self.tables[name], version)

    def told_early(self, history: History, slot: Slot) -> tuple[StepManifest | None, bool]:
        """What can be said of a run without Spark, whose start takes longer than many a refresh: the same as :meth:`current`, of the same
        text over tables of the same columns, in which nothing waits; or None, and whether the run computes something whatever its plan is:
        it gives a result, and rows have come since the last one."""
        last = self._last_result(history, slot)
        if last is None:
            return None, self._gives_result(slot)
        # A clock is no table: it has gone on.
        tables = {name: self.tables[name] for name in last.inputs if name in self.tables}
        if not all(is_at(table, last.inputs[name]) for name, table in tables.items()):
            return None, True
        is_same = history.current is last and last.sql is not None and last.sql == self.spec.sql
        as_read = len(tables) == len(last.inputs) and all(_is_as_read(table, last) for table in tables.values())
        is_told = is_same and as_read and is_followed(last, tables) and last.damage(self.site.root) is None
        return last if is_told else None, False

    def current(self, history: History, slot: Slot, situation: Situation) -> StepManifest | None:
        """The last result, if it is of the present rows and there, and there is no other reason to run."""
        last = self._last_result(history, slot)
        if last is None:
            return None
        if dict(last.inputs) != dict(situation.versions) or not is_followed(last, situation.tables):
            return None
        return last if last.damage(self.site.root) is None else None

    def _gives_result(self, slot: Slot) -> bool:
        return slot.extra or self.spec.schedule.kind == "view" or self.spec.schedule.outputs[slot.index]

    def _last_result(self, history: History, slot: Slot) -> StepManifest | None:
        """The last result, unless a run gives another one whether anything has come or not."""
        return history.outputs[-1] if history.outputs and (slot.extra or self.spec.schedule.kind == "view") else None


def _is_as_read(table: Arrivals, last: StepManifest) -> bool:
    """Whether what is declared of a table now is as a run has read it, and cannot refuse one."""
    spec = table.spec
    may_refuse = bool(spec.references) or (spec.static and not last.inputs[table.name])
    return not may_refuse and spec.schema == last.schemas.get(table.name)
