"""Queries at paces: each path of a query is flushed as often as its pace says while rows arrive, all of them when the result is due.

A flush pins the versions of the tables, and goes through the segments in their order: what a due path has waiting is released, as an
arrival of a table of the path's own, and the segment is run over what its paths have released. Each of these is committed as any step or
arrival is; so a flush that is killed is begun again, and finds done what was done. The last flush, and one that is asked for now, release
all: their result is that of recomputing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.execute.failure import coded, errors_by_code
from tempura.execute.of_data import is_of_data
from tempura.frontend.clock import is_clock
from tempura.frontend.lift import Lifted
from tempura.pace import cut as cutting
from tempura.pace.cut import Cut
from tempura.pace.goal import Plan
from tempura.pace.strategies import paces_by_name
from tempura.warehouse.commits.ledger import Ledger, attempt
from tempura.warehouse.engine import Progress, Settings
from tempura.warehouse.following import EVERY, follow
from tempura.warehouse.paces.cycle import Cycle, expected_in, rows_since
from tempura.warehouse.paces.life import Born, Life
from tempura.warehouse.paces.moment import Moment
from tempura.warehouse.paces.pacing import Known, Paces, plan, search
from tempura.warehouse.paces.segments import stored_segments
from tempura.warehouse.query import Methods, Query
from tempura.warehouse.runs.entries import HistoryEntry, flushes_of
from tempura.warehouse.runs.query_plan import QueryPlan
from tempura.warehouse.runs.replace import ReplaceReport
from tempura.warehouse.runs.report import RunReport, report_of_flush
from tempura.warehouse.runs.required import Demand
from tempura.warehouse.runs.situation import names_read
from tempura.warehouse.runs.standing import standing
from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.transaction import untorn
from tempura.warehouse.tables.uses import Input, Use, version_to_read
from tempura.warehouse.times.deadline import Deadline
from tempura.warehouse.times.flushes import Flush
from tempura.warehouse.times.history import History, Replacement
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import zone_of
from tempura.warehouse.times.steps import StepManifest
from tempura.warehouse.together import Outcome

PARTS = 2
"""Which way a query is divided into segments: a life whose segments were made another way is not gone on with."""


class PacedQuery(Query):
    """A query whose result is due once, run path by path until then; made by :meth:`Warehouse.add_query` for a paced schedule."""

    @property
    def deadline(self) -> Deadline:
        """What is asked for."""
        assert self.schedule.deadline is not None, "a paced schedule has a deadline"
        return self.schedule.deadline

    @errors_by_code()
    def plan(
        self, methods: Methods | None = None, schedule: Schedule | None = None, require: str | None = None
    ) -> QueryPlan:
        """What would be planned under another schedule. Raises TempuraError NOT_PLANNED without one: each flush is planned when it is
        due, and :meth:`paces` says when that is."""
        if schedule is None:
            what = f"Query {self.name} runs at paces: the steps of a flush are planned when it is due."
            raise TempuraError("NOT_PLANNED", what, "Ask for paces().", f"Ask for: tempura explain {self.name}")
        return super().plan(methods, schedule, require)

    def check_unchanged(self) -> None:
        """As :meth:`Query.check_unchanged`; raises TempuraError BAD_PACES as well, for paces by name that the query cannot have."""
        super().check_unchanged()
        self._check_paces(self.lifted)

    def _check_paces(self, lifted: Lifted) -> None:
        chosen = self.deadline.chosen_by
        if not isinstance(chosen, str):
            paces_by_name(cutting.cut(lifted.rel), chosen, self.deadline.max_pace)

    @errors_by_code()
    def paces(self) -> Paces | None:
        """The paces in force, or those that would be planned now; None while nothing is known to plan them from. Writes nothing.

        Raises TempuraError BAD_PACES, and what is wrong with the query or its tables."""
        return self._moment(self._life(), dry=True).paces

    @errors_by_code()
    def paces_plan(self) -> Plan | None:
        """The paces as they would be planned now, with the points that the search comes by, and what a step more of each path would be
        worth: for :mod:`tempura.explain.paces`. None while nothing is known to plan them from. Writes nothing. Raises as :meth:`paces`."""
        found = search(self._known(self._looked_at(self._life(), dry=True)), self.deadline)
        return found.plan if found else None

    @errors_by_code()
    def cut(self) -> Cut:
        """Its segments and paths."""
        return self._life().cut

    @errors_by_code()
    def run(
        self,
        at: str | None = None,
        methods: Methods | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        require: str | None = None,
        now: bool = False,
        force: bool = False,
    ) -> RunReport:
        """Flush the paths that are due; all of them once the deadline has come, and with ``now``, whose result counts as none of the
        schedule's. ``dry_run`` only says which; the rest is as for :meth:`Query.run`.

        Raises TempuraError BAD_RUN for ``at`` and ``force``, RUN_IN_PROGRESS, BAD_PACES, and as :meth:`Query.run` does."""
        if at is not None or force:
            what = f"Query {self.name} runs at paces: its schedule has no times to name."
            raise TempuraError("BAD_RUN", what, "Leave out at= and force=.", "Leave out --at and --force.")
        self._check_declared()
        demand = Demand.of(self.name, self._spec, methods, require, self._rules)
        if dry_run:
            return self._would_flush(now)
        with self._alone():
            report = self._flushed(demand, now, progress)
        self.publish(progress)
        return report

    @errors_by_code()
    def follow(
        self,
        tell: Callable[[RunReport], None],
        every: float = EVERY,
        progress: Progress | None = None,
        wait: Callable[[float], None] | None = None,
        methods: Methods | None = None,
        require: str | None = None,
    ) -> None:
        """Look every few seconds what is due, and flush it, until the last flush has been. ``tell`` is called with each flush; ``wait``
        is slept by. While another process flushes the query it waits for that. ``progress``, ``methods`` and ``require`` are as
        for :meth:`run`. Raises TempuraError BAD_NUMBER, and as :meth:`run` does otherwise."""

        def told(outcome: Outcome[RunReport]) -> None:
            if outcome.error:
                raise outcome.error
            if outcome.found:
                tell(outcome.found)

        follow(lambda: (self,), told, every, wait, methods=methods, require=require, progress=progress)

    @property
    def may_be_due(self) -> bool:
        """To know whether a flush is due is to look what has come."""
        return True

    @property
    def is_over(self) -> bool:
        """Whether no flush will be due any more."""
        return self.is_done

    def until_next_look(self, every: float) -> float:
        """As for others; the deadline is met."""
        left = (self.deadline.moment(self._deadline_zone()) - self._site.clock()).total_seconds()
        return max(0.05, min(every, left)) if left > 0 else min(every, 1.0)

    @property
    def is_done(self) -> bool:
        """Whether the last flush for the deadline has been."""
        last = next((s.flush for s in reversed(self.committed().steps) if s.flush and s.flush.until), None)
        return last is not None and last.until == self.deadline.until

    @errors_by_code()
    def history(self) -> tuple[HistoryEntry, ...]:
        """The committed runs: of each flush what all of its segments did, oldest first."""
        return self._flushes(self.committed().runs)

    def _entries(self) -> tuple[HistoryEntry, ...]:
        return self._flushes(self.steps())

    def _flushes(self, own: Sequence[StepManifest]) -> tuple[HistoryEntry, ...]:
        others = [step for segment in stored_segments(self._site, self) for step in segment.committed().runs]
        return flushes_of(own, others)

    def _to_recompute(self) -> StepManifest:
        """The run that gave the last result, of everything that had come. Raises TempuraError NO_RESULT, and NOT_RELEASED for a result of
        less: it is that of no version of the tables."""
        last = super()._to_recompute()
        if last.flush and not last.flush.complete:
            what = f"The last result of query {self.name}, of {last.slot}, is of what was released by then, not of its tables."
            remedy = "Verify the last flush, or a flush of everything: run(now=True)."
            raise TempuraError(
                "NOT_RELEASED", what, remedy, f"Verify the last flush, or: tempura run {self.name} --now"
            )
        return last

    def _sources(self, versions: Mapping[str, int], time: datetime, settings: Settings) -> dict[str, Any]:
        found = next((s.flush for s in reversed(self.outputs()) if s.flush and dict(s.inputs) == dict(versions)), None)
        if found is None:
            return super()._sources(versions, time, settings)
        clocks = {name: Clock(name, time).version for name in names_read(self.lifted) if is_clock(name)}
        return super()._sources({**found.versions, **clocks}, time, settings)

    @errors_by_code()
    def replace(self, declare: Callable[[], None], dry_run: bool = False) -> ReplaceReport:
        """As :meth:`Query.replace`; what its segments have kept is dropped."""
        dropped = sorted(
            {
                s.label or s.expression[:12]
                for q in stored_segments(self._site, self)
                for r in q.committed().steps[-1:]
                for s in r.states
            }
        )
        with nullcontext() if dry_run else self._alone(replacing=True):
            lifted, history = self.lifted_anew, self.committed()
            self._check_paces(lifted)
            if not dry_run:
                now = self._site.clock().astimezone(UTC).isoformat()
                mark, schemas = fingerprint(lifted.rel), self._wording.schemas(lifted)
                declare()
                self._commit_replacement(Replacement(history.next, now, self._spec.sql, mark, (), schemas))
                self._begin_anew()
        return ReplaceReport(self.name, (), (), tuple(dropped), dry_run)

    @errors_by_code()
    def status(self) -> dict[str, Any]:
        """As :meth:`Query.status`."""
        flushes, kept = self.history(), [s.committed().steps[-1:] for s in (self, *stored_segments(self._site, self))]
        return standing(
            self._spec,
            ran=[flush.label for flush in flushes],
            following=None if self.is_done else f"the last flush at {self.deadline.until}",
            is_due=lambda: bool(self._would_flush(now=False).paths),
            outputs=self.outputs(),
            does=None,
            kept=[step for steps in kept for step in steps],
            published_at=self.published_at,
        )

    @errors_by_code()
    def states(self) -> list[dict[str, Any]]:
        """As :meth:`Query.states`, of all segments."""
        return [
            *super().states(),
            *(state for segment in stored_segments(self._site, self) for state in segment.states()),
        ]

    # --- lives ------------------------------------------------------------------------------------------------------

    @property
    def _lives(self) -> Ledger:
        return Ledger(self._folder / "paced", self._site.files)

    def _settings(self, history: History) -> Settings:
        """Those of the first flush of the life."""
        if history.last:
            return history.last.settings
        entry = self._entry(history)
        return dict(entry["settings"]) if entry else self._site.engine.settings()

    def _entry(self, history: History) -> Mapping[str, Any] | None:
        """What the present life began with; None when there is none since the query was replaced last."""
        entries = self._lives.entries()
        return entries[-1] if entries and entries[-1] and entries[-1]["after"] == _replaced(history) else None

    def _life(self) -> Life:
        """The present life, or the one that would begin now."""
        self._wording.look_again()
        history = self.committed()
        entry, lifted, settings = self._entry(history), self._wording.lifted(history), self._settings(history)
        mark, count = fingerprint(lifted.rel), self._lives.count()
        is_on = entry is not None and entry["fingerprint"] == mark and entry.get("parts", 1) == PARTS
        number = count if is_on else count + 1
        begun = datetime.fromisoformat(entry["time"]) if is_on and entry else None
        noted = self._wording.schemas(lifted)
        return Born(self._site, self.name, self._spec, self._folder, lifted, settings, noted).life(number, begun)

    def _begun(self, life: Life) -> Life:
        """The life, which is noted to have begun."""
        if life.begun is not None:
            return life
        now = self._site.clock().astimezone(UTC)
        mark, after = fingerprint(self.lifted.rel), _replaced(self.committed())
        entry = {
            "fingerprint": mark,
            "settings": dict(life.settings),
            "time": now.isoformat(),
            "after": after,
            "parts": PARTS,
        }
        with attempt(self._site.files, self._site.attempts) as work:
            self._lives.append(work, life.number, entry)
        return replace(life, begun=now)

    def _begin_anew(self) -> None:
        """Whatever the text, the next flush begins another life."""
        if self._lives.count():
            entry = {"fingerprint": "", "settings": {}, "time": "", "after": -1}
            with attempt(self._site.files, self._site.attempts) as work:
                self._lives.append(work, self._lives.count() + 1, entry)

    # --- how far it is ----------------------------------------------------------------------------------------------

    def _deadline_zone(self) -> tzinfo:
        return zone_of(self.schedule.timezone or self._settings(self.committed())["spark.sql.session.timeZone"])

    def _moment(self, life: Life, dry: bool = False) -> Moment:
        """Look what has come, and register it unless ``dry``; plan the paces if that is to be done, and note them."""
        moment = self._looked_at(life, dry)
        return replace(moment, paces=self._paces_at(moment, dry))

    def _looked_at(self, life: Life, dry: bool) -> Moment:
        now = self._now(life)
        tables = self._inputs(life, now, dry)
        zone = self._deadline_zone()
        since = self.deadline.beginning(zone) or life.begun or now
        cycle = self._cycle(life, since, self.deadline.moment(zone), tables)
        came = {name: rows_since(table.arrivals(), since) for name, table in tables.items() if isinstance(table, Use)}
        return Moment(now, life, tables, cycle.observed(came, now), came, self.deadline.until)

    def _now(self, life: Life) -> datetime:
        """The logical time of a flush: never before that of any step."""
        last = (segment.committed().last for segment in life.segments)
        times = (datetime.fromisoformat(step.logical_time) for step in last if step)
        return max(self._site.clock().astimezone(UTC), *times, datetime.min.replace(tzinfo=UTC))

    def _inputs(self, life: Life, now: datetime, dry: bool) -> dict[str, Input]:
        """The tables at their present versions, and the clocks. The versions of a dry run count what waits."""
        names = [name for name in life.cut.tables if not is_clock(name)]
        read = {name: Prospect(self._tables[name]) if dry else self._tables[name] for name in names}
        versions = {name: version_to_read(table) for name, table in read.items()}
        if not dry:
            versions |= untorn({name: self._tables[name] for name in names}, versions)
        clocks: dict[str, Input] = {name: Clock(name, now) for name in life.cut.tables if is_clock(name)}
        return clocks | {name: Use(name, read[name], version) for name, version in versions.items()}

    def _cycle(self, life: Life, since: datetime, until: datetime, tables: Mapping[str, Input]) -> Cycle:
        """The cycle with the rows that are known to be expected in it: of all tables that change, or of none."""
        before = self._cycle_before(life)
        uses = [table for table in tables.values() if isinstance(table, Use) and not table.spec.static]
        found = {use.name: expected_in(use, since, before) for use in uses}
        known = {name: rows for name, rows in found.items() if rows is not None}
        return Cycle(since, until, known if len(known) == len(found) else {})

    def _cycle_before(self, life: Life) -> Cycle | None:
        """The last cycle with another deadline."""
        others = (paces for paces in reversed(life.planned(self._site.files)) if paces.until != self.deadline.until)
        last, zone = next(others, None), self._deadline_zone()
        if last is None:
            return None
        return Cycle(datetime.fromisoformat(last.since), Deadline(last.until, final_work=1.0).moment(zone), {})

    def _known(self, moment: Moment) -> Known:
        return Known(
            cut=moment.life.cut,
            tables=moment.tables,
            cycle=moment.cycle,
            came=moment.came,
            now=moment.now,
            flushed=moment.flushed(),
            prices=self._site.engine.prices,
            seen=moment.seen(),
            counted=moment.counted(),
        )

    def _paces_at(self, moment: Moment, dry: bool) -> Paces | None:
        planned, known = moment.life.planned(self._site.files), self._known(moment)
        last = planned[-1] if planned else None
        why = known.why_again(last, self.deadline)
        if why is None:
            return last
        found = plan(known, self.deadline, why)
        if found is not None and not dry:
            with attempt(self._site.files, self._site.attempts) as work:
                moment.life.ledger(self._site.files).append(work, len(planned) + 1, found.to_json())
        return found

    # --- flushes ----------------------------------------------------------------------------------------------------

    def _done(self) -> RunReport:
        return RunReport(self.name, nothing=True, why=f"the result that was due at {self.deadline.until} is there")

    def _flush_at(self, moment: Moment, now: bool) -> Flush:
        """The flush that begins at a moment: of everything if that is asked for ``now``, or due; the last one if the result is."""
        is_last = moment.is_over and not self.is_done
        return moment.flush(now or moment.is_over, self.deadline.until if is_last else None)

    def _flushed(self, demand: Demand, now: bool, progress: Progress | None) -> RunReport:
        if self.is_done and not now:
            return self._done()
        moment = self._moment(self._begun(self._life()))
        flush = self._flush_at(moment, now)
        steps: list[StepManifest] = []
        failed: dict[int, str] = {}
        for segment in moment.life.segments:
            if {path.source for path in moment.life.paths(segment)} & set(failed):
                failed[segment.part.number] = "reads one that failed"
                continue
            due = set(moment.released_now(segment, flush.complete))
            pins = moment.pins(segment, due, flush.complete)
            if not moment.is_run(segment, pins, due, flush.complete) or moment.waits(segment, flush.complete):
                continue
            if progress:
                progress(f"{flush.label}: {moment.life.cut.segments[segment.part.number].name}")
            own = replace(flush, segment=segment.part.number, paths=tuple(sorted(due)))
            to_come = 0 if flush.until else moment.to_come(segment, flush.complete)
            try:
                ahead = None if flush.until else moment.ahead(segment, flush.complete)
                steps.append(segment.flush(pins, moment.now, own, to_come, demand, progress, ahead))
            except Exception as error:
                # Of rows that may be gone when the result is due, only that result fails.
                if flush.complete or not is_of_data(error):
                    raise
                known = coded(error)
                failed[segment.part.number] = known.code if known else str(error)
        told = tuple(f"FAILED_EARLY: segment {number}: {why}" for number, why in failed.items())
        if not steps:
            why = f"early work failed: {'; '.join(told)}" if failed else moment.why_nothing()
            return RunReport(self.name, nothing=True, why=why)
        return report_of_flush(self.name, steps, told)

    def _would_flush(self, now: bool) -> RunReport:
        if self.is_done and not now:
            return self._done()
        moment = self._moment(self._life(), dry=True)
        flush = self._flush_at(moment, now)
        if not flush.names:
            return RunReport(self.name, nothing=True, why=moment.why_nothing())
        return RunReport(
            self.name,
            label=flush.label,
            dry_run=True,
            n=flush.n,
            method="paces",
            inputs=moment.versions,
            paths=flush.names,
            progress=flush.progress,
            predicted_cost=flush.predicted,
            plan=moment.paces.text(moment.life.cut) if moment.paces else "",
        )


def _replaced(history: History) -> int:
    """The number of the last replacement of a query's text; 0 when there was none."""
    return max((entry.n for entry in history.entries if isinstance(entry, Replacement)), default=0)
