"""How a run comes to its plan: where the query stands, which plan is best of that, and that it loads nothing which is damaged."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.plan.progressive import NO_WORK, ProgressivePlan
from tempura.rules.registry import Registry
from tempura.warehouse.declared.declare import QuerySpec
from tempura.warehouse.engine import WholeQuery
from tempura.warehouse.runs.meaning import Meaning
from tempura.warehouse.runs.query_plan import does_now, plan_of
from tempura.warehouse.runs.required import Demand, assuming_deletes
from tempura.warehouse.runs.run import Run, first_step
from tempura.warehouse.runs.situation import Situation, assess
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.uses import Input
from tempura.warehouse.times.follow import Follower
from tempura.warehouse.times.history import History
from tempura.warehouse.times.phases import Stopwatch
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import Due, Slot

_CORRECTION = timedelta(minutes=5)
"""How far a clock may be set back without being called wrong: until it has caught up, logical time stands still."""


class Planned(NamedTuple):
    """A plan, the situation that it was made for, and who made it by cost."""

    situation: Situation
    plan: ProgressivePlan
    follower: Follower


@dataclass(frozen=True)
class Planning:
    """The planning of one run: of a query by name, declaration, folder and ``meaning``, after the runs in ``history``, under a ``demand``,
    at a logical ``time``. ``input`` gives what the query reads by name, ``whole`` the query to be asked as it is written of the
    tables as a run finds them; None when there is no text that Spark could be asked."""

    site: Site
    name: str
    spec: QuerySpec
    folder: Path
    rules: Registry
    meaning: Meaning
    history: History
    demand: Demand
    time: datetime
    input: Callable[[str], Input]
    whole: Callable[[Situation], WholeQuery] | None = None

    def situation(self, slot: Slot, schedule: Schedule) -> Situation:
        """Where the query stands in a run: what has arrived is registered, as far as ``input`` does that."""
        history, demand = self.history, self.demand
        lifted, settings = self.meaning.lifted(history), self.meaning.settings(history)
        may_ask = self.whole is not None and self.site.engine.answers_alike(lifted)
        about = (lifted, schedule, slot, history.loadable, self.input, self.site, settings, self.time)
        found = assess(*about, demand.anew, self.rules, may_ask, self.spec.budget, self.spec.price_per_byte)
        if self.meaning.lifted(history) is not lifted:
            # What has arrived has brought columns, and with them perhaps another meaning of the text.
            return self.situation(slot, schedule)
        return assuming_deletes(found) if demand.incremental or demand.anew else found

    def sound(self, situation: Situation) -> Planned:
        """A plan that loads no damaged state."""
        while True:
            found = self.best(situation)
            sound = situation.without_damaged(first_step(found.plan, found.situation))
            if sound is situation:
                return found
            situation = sound

    def best(self, situation: Situation) -> Planned:
        """A plan. Where a refresh that compared all plans would recompute, it is asked whether to begin with states now, as a first run is
        asked: once for about what is known, and only if it may be worth it."""
        found, beginning = self._once(situation), situation.beginning
        if beginning is None or not found.follower.is_news or not beginning.may_be_worth(found.plan):
            return found
        begun = self._once(situation.as_first(beginning))
        return begun if beginning.is_worth(begun.plan, found.plan) else found

    def nothing(self, situation: Situation) -> Planned:
        """No plan, of a run that is idle."""
        return Planned(situation, NO_WORK, self._follower(situation))

    def _once(self, situation: Situation) -> Planned:
        follower, begun = self._follower(situation), bool(self.history.outputs)
        plan = self.demand.plan(self.name, situation.problem, begun, situation.lost, follower)
        return Planned(situation, plan, follower)

    def _follower(self, situation: Situation) -> Follower:
        choices = (run.choice for run in self.history.steps if run.choice)
        uses = situation.beginning.uses if situation.beginning else 1
        return Follower(self.history.next, choices, situation.correction.fixed, situation.doubt.factor, uses=uses)

    def run(self, found: Due, planned: Planned, watch: Stopwatch) -> Run:
        """The run that a plan was made for, to be executed. Raises TempuraError CLOCK_WENT_BACK."""
        situation, plan, follower = planned
        self._check_clock(situation.time)
        assert found.slot
        shown = plan_of(plan, situation, not self.history.outputs, follower.followed)
        lifted = self.meaning.lifted(self.history)
        return Run(
            site=self.site,
            folder=self.folder,
            n=self.history.next,
            due=found,
            slot=found.slot,
            situation=situation,
            plan=plan,
            settings=self.meaning.settings(self.history),
            fingerprint=fingerprint(lifted.rel),
            sql=self.spec.sql,
            schemas=self.meaning.schemas(lifted),
            explained=shown.explain(),
            does=does_now(shown, situation),
            uses=self.spec.schedule.uses,
            watch=watch,
            incremental=self.demand.incremental,
            choice=follower.choice,
            query=partial(self.whole, situation) if self.whole else lambda: None,
        )

    def _check_clock(self, last: datetime) -> None:
        """Raises TempuraError CLOCK_WENT_BACK when the clock is before a time by more than clocks are corrected."""
        now = self.site.clock().astimezone(UTC)
        if last - now > _CORRECTION:
            what = (
                f"The clock says {now:%Y-%m-%d %H:%M} UTC, but query {self.name} was run at {last:%Y-%m-%d %H:%M} UTC."
            )
            wrong = "Set the clock. If it was wrong at the earlier run, begin the query anew with"
            command = f"{wrong}: tempura query replace {self.name}"
            raise TempuraError("CLOCK_WENT_BACK", what, f"{wrong} replace_query.", command)


def logical_time(site: Site, history: History) -> datetime:
    """The time of a run: never before the last one."""
    now = site.clock().astimezone(UTC)
    return max(now, datetime.fromisoformat(history.last.logical_time)) if history.last else now
