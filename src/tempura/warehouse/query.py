"""Queries: planned over all the times at which work may run, run step by step, each step committed whole."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.execute.contract import StoredOutput
from tempura.execute.failure import errors_by_code
from tempura.frontend.clock import NOW, is_clock, today
from tempura.frontend.lift import Lifted
from tempura.plan.progressive import NO_WORK, ProgressivePlan
from tempura.rules.registry import Registry
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.commits.ledger import Ledger, attempt
from tempura.warehouse.commits.seals import damage, read_all_again
from tempura.warehouse.declared.declare import OutputSpec, QuerySpec, check_output, declared_path
from tempura.warehouse.declared.places import check_output_place
from tempura.warehouse.engine import Check, Progress, Settings, Source, Verification, WholeQuery, schema_of
from tempura.warehouse.runs.publish import Publication, Result, publications
from tempura.warehouse.runs.replace import ReplaceReport, usable
from tempura.warehouse.runs.replace import report_of as replaced
from tempura.warehouse.runs.report import (
    HistoryEntry,
    QueryPlan,
    RunReport,
    does_now,
    history_of,
    or_error,
    plan_of,
    report_of,
)
from tempura.warehouse.runs.required import ANY, Demand, assuming_deletes
from tempura.warehouse.runs.run import Run, alone, executed, first_step
from tempura.warehouse.runs.situation import Situation, assess, is_followed, names_read
from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.inputs import Input, version_to_read
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.take import is_at
from tempura.warehouse.times.follow import Follower
from tempura.warehouse.times.history import History, Replacement, names_of
from tempura.warehouse.times.phases import LOOKING, PLANNING, Stopwatch
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import Due, Slot, due, named, unscheduled, upcoming, zone_of
from tempura.warehouse.times.steps import StepManifest, absolute, last_with_states

_CORRECTION = timedelta(minutes=5)
"""How far a clock may be set back without being called wrong: until it has caught up, logical time stands still."""

Schemas = Mapping[str, StructType]

Methods = str | Sequence[str]
"""``"all"``, or names of incremental methods."""


class Planned(NamedTuple):
    """A plan, the situation that it was made for, and who made it by cost."""

    situation: Situation
    plan: ProgressivePlan
    follower: Follower


class Query:
    """A query of a warehouse; made by :meth:`Warehouse.add_query` and :meth:`Warehouse.query`."""

    def __init__(
        self,
        site: Site,
        name: str,
        spec: QuerySpec,
        tables: Mapping[str, Arrivals],
        frame: DataFrame | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self._site = site
        self._spec = spec
        self._tables = tables
        self._frame = frame
        self._folder = folder or site.root / "queries" / name
        self._lifted: tuple[Settings, Schemas, Lifted] | None = None

    @property
    def sql(self) -> str | None:
        """The query's text; None for a query from a DataFrame."""
        return self._spec.sql

    @property
    def folder(self) -> Path:
        """Where its runs are kept."""
        return self._folder

    @property
    def schedule(self) -> Schedule:
        """When work may run, and when the result is due."""
        return self._spec.schedule

    @cached_property
    def _rules(self) -> Registry:
        return self._site.rules

    @errors_by_code()
    def plan(
        self, methods: Methods | None = None, schedule: Schedule | None = None, require: str | None = None
    ) -> QueryPlan:
        """Plan the run that is due, or the next one, and those that remain, with what has arrived by now. Executes and writes nothing.

        ``schedule``: what would be planned under another one, over all of its times; ``methods`` and ``require`` as for :meth:`run`.
        Raises TempuraError SCHEDULE_ENDED when no run remains, UNKNOWN_METHOD, BAD_REQUIRE, NOT_INCREMENTAL.
        """
        demand = Demand.of(self.name, self._spec, methods, require, self._rules)
        history = self.committed()
        asked = schedule or self.schedule
        slot = self._upcoming(history) if schedule is None else Slot("", 0, (*schedule.times, "refresh 1")[0])
        situation = self._situation(history, slot, asked, demand, dry=True)
        situation, plan, follower = self._planned(situation, demand, history)
        return plan_of(plan, situation, not history.outputs, follower.followed, demand.methods)

    def _upcoming(self, history: History) -> Slot:
        slot = upcoming(self.schedule, history.last_slot, self._site.clock(), self._zone(history))
        if slot is None:
            raise TempuraError("SCHEDULE_ENDED", f"Query {self.name}: all times have been run.", "Add it anew.")
        return slot

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
        """Execute the run that is due by the clock, or the one named ``at``; a run that was committed is not run again.

        ``now``: a run outside the schedule, which takes all that has arrived and gives a result; no time of the schedule counts as run
        by it. ``force``: run ``at`` although that time has not come; what arrives until then misses it. ``dry_run`` plans only, and
        writes nothing. ``progress`` is called with what is being done. ``methods`` and ``require`` stand for this run in the place of
        what is declared: with ``"incremental"`` it is refused rather than to recompute the whole query; where that is declared,
        ``"none"`` computes all of it anew for once.

        Raises TempuraError COMMIT_LOST when another process committed this run first, UNKNOWN_TIME, TIME_PASSED or TIME_AHEAD for
        ``at``, BAD_RUN for ``at`` with ``now``, UNKNOWN_METHOD, BAD_REQUIRE, NOT_INCREMENTAL, and whatever is wrong with the tables'
        new files.
        """
        demand = Demand.of(self.name, self._spec, methods, require, self._rules)
        report = self._ran(partial(self._due, at=at, now=now, force=force), demand, dry_run, progress)
        if not dry_run:
            self.publish(progress)
        return report

    def _ran(
        self, asked: Callable[[History], Due], demand: Demand, dry_run: bool, progress: Progress | None
    ) -> RunReport:
        history = self.committed()
        found = asked(history)
        if found.slot is None:
            return RunReport(self.name, nothing=True, why=found.why)
        # Where Spark runs already, to look twice for what has come would take longer than to ask it.
        if not self._site.engine.is_started:
            still, computes = self._told_early(history, found.slot)
            if still:
                return RunReport(self.name, nothing=True, why=f"nothing has arrived since {still.slot}")
            if computes and not dry_run:
                self._site.engine.start_early()
        watch = Stopwatch(self._site.engine.clocks)
        with watch.phase(LOOKING):
            situation = self._situation(history, found.slot, self.schedule, demand, dry_run)
            result = self._current(history, found.slot, situation)
        if result:
            return RunReport(self.name, nothing=True, why=f"nothing has arrived since {result.slot}")
        with watch.phase(PLANNING):
            # There is a plan by cost at each later time, too; whether others meet a demand is told early.
            if situation.idle and demand.is_by_cost and not dry_run:
                planned = Planned(situation, NO_WORK, self._follower(situation, history))
            else:
                planned = self._sound_plan(situation, demand, history)
            run = self._run(history, found, *planned, demand.incremental, watch)
        if dry_run:
            return self._dry(run)
        if not run.step.is_empty and not self._is_understood(history, watch):
            return self._ran(asked, demand, dry_run, progress)
        run, manifest = executed(run, progress)
        return report_of(self.name, manifest, (*run.situation.lost, *run.plan.fallbacks))

    def _is_understood(self, history: History, watch: Stopwatch) -> bool:
        """Whether Spark, which has to run now, understands the query as it was noted: by what an earlier process has asked it."""
        before = self._lift(history)
        if not self._site.engine.start():
            return True
        self._lifted = None
        with watch.phase(LOOKING):
            return self._lift(history).rel == before.rel

    @errors_by_code()
    def result(self) -> DataFrame:
        """The last committed result, in the query's order and under its column names. Raises TempuraError NO_RESULT."""
        outputs = self.outputs()
        if not outputs:
            raise TempuraError(
                "NO_RESULT", f"Query {self.name} has no result yet.", "Run it up to a time that outputs."
            )
        return self._site.engine.result(self.stored(outputs[-1]), self._lift(self.committed()))  # type: ignore[no-any-return]

    @errors_by_code()
    def changes(self) -> DataFrame:
        """What changed from the result before to the last one: rows, ``_change`` (``insert`` or ``delete``) and ``_count``.

        Raises TempuraError NO_RESULT.
        """
        outputs = self.outputs()
        if not outputs:
            raise TempuraError(
                "NO_RESULT", f"Query {self.name} has no result yet.", "Run it up to a time that outputs."
            )
        old = self.stored(outputs[-2]) if len(outputs) > 1 else None
        return self._site.engine.changes(old, self.stored(outputs[-1]), self._lift(self.committed()))  # type: ignore[no-any-return]

    @errors_by_code()
    def output(self, path: str | Path, mode: str = "replace", keys: Sequence[str] = ()) -> Path:
        """Publish the result at a path, now and after each run: Parquet files under the query's column names, for anything to read.

        ``replace``: the path shows the last result. ``upsert``: so, too, but only files with changed keys are written anew;
        ``keys`` name columns that are unique in the result. ``changes``: a folder to which each result adds what it changed, with
        ``_change`` (``insert`` or ``delete``). docs/guide.md says how to read them while a run publishes. Returns the path. The same
        declaration again changes nothing, another one for the same path replaces it.

        Raises TempuraError BAD_OUTPUT, UNSUPPORTED_PATH, OUTPUT_TAKEN for what is there already, DUPLICATE_KEY, OUTPUT_LOST.
        """
        spec = check_output(OutputSpec(declared_path(self._site.root, path), mode, tuple(keys)))
        self._check_output(spec)
        # What cannot be published is not declared.
        self._publish([spec])
        others = tuple(output for output in self._spec.outputs if output.path != spec.path)
        self._spec = replace(self._spec, outputs=(*others, spec))
        self._site.declarations.put_query(self.name, self._spec)
        return self._site.root / spec.path

    @property
    def published_at(self) -> tuple[Path, ...]:
        """The paths at which its results are published."""
        return tuple(self._site.root / output.path for output in self._spec.outputs)

    @errors_by_code()
    def publish(self, progress: Progress | None = None) -> tuple[Path, ...]:
        """Publish the last result where :meth:`output` has declared it, unless it is there: after a run that was interrupted.
        Returns the paths that changed. Raises as :meth:`output` does."""
        return self._publish(self._spec.outputs, progress) if self._spec.outputs else ()

    def _publish(self, specs: Sequence[OutputSpec], progress: Progress | None = None) -> tuple[Path, ...]:
        declared = self._site.declarations.read()
        for publication in self._publications(specs):
            check_output_place(self._site.root, self.name, publication.spec, declared)
            publication.published()
        outputs = self.outputs()
        if not outputs or all(p.shows(outputs[-1]) for p in self._publications(specs)):
            return ()
        with self._site.files.lock(self._folder / "outputs.lock"):
            last, lifted = self.outputs()[-1], self.lifted
            result = Result(last, self.stored(last), lifted, schema_of(self._site.engine, lifted))
            return tuple(p.path for p in self._publications(specs) if self._published(p, result, progress))

    def _published(self, publication: Publication, result: Result, progress: Progress | None) -> bool:
        before = publication.published()
        if progress and before != result.step:
            progress(f"publishing {publication.path}")
        return publication.publish(result, self.kept(before))

    def _publications(self, specs: Sequence[OutputSpec]) -> list[Publication]:
        return publications(self._site, self.name, specs, self.committed().runs)

    def compared(self) -> tuple[StepManifest, ...]:
        """The runs with whose results the next ones are compared when they are published."""
        found = (p.published() for p in self._publications(self._spec.outputs) if p.spec.mode == "changes")
        return tuple(step for step in found if step)

    def _check_output(self, spec: OutputSpec) -> None:
        names = schema_of(self._site.engine, self.lifted).names
        if not set(spec.keys) <= set(names):
            what = f"Keys {list(spec.keys)} are not all columns of the result: {', '.join(names)}."
            raise TempuraError("BAD_OUTPUT", what, "Name columns of the result.")

    @errors_by_code()
    def history(self) -> tuple[HistoryEntry, ...]:
        """The committed runs, oldest first; also those of a query that this one replaced."""
        return tuple(history_of(step) for step in self.committed().runs)

    @errors_by_code()
    def verify(self, rows: Mapping[str, Rows] | None = None) -> Verification:
        """Compare the last result with a recomputation over the same versions of the tables. ``rows`` that a table is known to have
        are read in the place of what arrived in it. Files are read for their checksums, whenever that was done last. Raises TempuraError
        NO_RESULT."""
        read_all_again()
        outputs = self.outputs()
        if not outputs:
            raise TempuraError(
                "NO_RESULT", f"Query {self.name} has no result yet.", "Run it up to a time that outputs."
            )
        step = outputs[-1]
        wrong = self._damage(step)
        if wrong:
            return Verification(False, 0, (), (wrong,), "checksums of the files")
        # What a run may have gone by, where deleted rows lie, is not believed here.
        found = self._sources(step.inputs, datetime.fromisoformat(step.logical_time), step.settings)
        sources = {name: source.without_places() for name, source in found.items()}
        sources |= {name: Source(self._tables[name].schema, known) for name, known in (rows or {}).items()}
        query = self._spec.sql if self._spec.sql is not None else self._body()
        lifted = self._lift(self.committed())
        return self._site.engine.verify(Check(query, lifted, sources, self.stored(step), step.settings))

    def _sources(self, versions: Mapping[str, int], time: datetime, settings: Settings) -> dict[str, Source]:
        """The tables at some versions, and the clocks. The query's text may name tables that its plan does not read, because nothing
        of them can matter: they are empty here."""
        sources = {name: Source(table.schema, Rows()) for name, table in self._tables.items()}
        clocks = (Clock(NOW, time), Clock(today(settings["spark.sql.session.timeZone"]), time))
        sources |= {clock.name: clock.source(0, clock.version) for clock in clocks}
        return sources | {name: self._input(name, time).source(0, n) for name, n in versions.items()}

    def committed(self) -> History:
        """All that is committed of the query."""
        return History.from_json(filter(None, self.ledger.entries())).at(self.name)

    @property
    def ledger(self) -> Ledger:
        """What the query's runs committed."""
        return Ledger(self._folder / "steps", self._site.files)

    def steps(self) -> tuple[StepManifest, ...]:
        """The manifests of the query's committed runs, oldest first."""
        return self.committed().steps

    @errors_by_code()
    def replace(self, declare: Callable[[], None], dry_run: bool = False) -> ReplaceReport:
        """Make this the query from now on, whatever the committed runs computed; ``declare`` writes that into the declarations. Its
        history begins anew, from the states that it can use.

        Raises TempuraError RUN_IN_PROGRESS, and what is wrong with the query or its tables.
        """
        with nullcontext() if dry_run else alone(self._site.files, self._folder):
            history, now = self.committed(), self._site.clock().astimezone(UTC).isoformat()
            lifted = self.lifted_anew
            states = names_of([state for run in history.loadable for state in run.states])
            mark, schemas = fingerprint(lifted.rel), self._schemas(lifted)
            entry = Replacement(history.next, now, self._spec.sql, mark, states, schemas)
            after = History((*history.entries, entry))
            demand, upcoming = Demand.of(self.name, self._spec, None, None, self._rules), self._upcoming(after)
            situation = self._situation(after, upcoming, self.schedule, demand, dry_run)
            situation, plan, _ = self._sound_plan(situation, demand, after)
            step = first_step(plan, situation)
            kept = usable(lifted.rel, situation, step)
            if not dry_run:
                declare()
                self._commit_replacement(replace(entry, kept=names_of(kept)))
            return replaced(self.name, situation, step, kept, dry_run)

    def _commit_replacement(self, entry: Replacement) -> None:
        """Nothing is to be replaced before the first run."""
        if entry.n > 1:
            with attempt(self._site.files, self._site.attempts) as work:
                self.ledger.append(work, entry.n, entry.to_json())

    @property
    def lifted(self) -> Lifted:
        """The query in the algebra, as its runs compute it. Raises TempuraError for what is wrong with it."""
        return self._lift(self.committed())

    @property
    def lifted_anew(self) -> Lifted:
        """The same, whatever the committed runs computed."""
        return self._lift(History(()))

    @property
    def reads(self) -> tuple[Arrivals, ...]:
        """The tables that the query reads, whatever its committed runs computed; none when this process does not know its
        DataFrame."""
        if self._spec.sql is None and self._frame is None:
            return ()
        lifted = self._lifted[-1] if self._lifted else self.lifted_anew
        return tuple(self._tables[name] for name in names_read(lifted) if name in self._tables)

    @property
    def known_reads(self) -> tuple[Arrivals, ...]:
        """The tables that the query reads: as its last run has noted them, so that Spark is not started to look, or, if it has not run, by
        what it says. Raises TempuraError for what is wrong with it then."""
        known = self.committed().current
        if known and known.schemas and known.sql == self._spec.sql and set(known.schemas) <= set(self._tables):
            return tuple(self._tables[name] for name in sorted(known.schemas))
        return self.reads

    def read_names(self) -> list[str]:
        """Their names. Raises as :attr:`known_reads` does."""
        return sorted(table.name for table in self.known_reads)

    def names(self, table: str) -> bool:
        """Whether the query reads a table, or cannot be understood without it."""
        try:
            if any(read.name == table for read in self.reads):
                return True
            if self._spec.sql is not None:
                others = {name: t.schema for name, t in self._tables.items() if name != table}
                self._site.engine.lift(self._spec.sql, others, self._settings(History(())))
        except TempuraError:
            # What cannot be understood may read whatever its text has a word for.
            return bool(re.search(rf"\b{table}\b", self._spec.sql or "", re.IGNORECASE))
        last = self.committed().last
        return self._spec.sql is None and self._frame is None and last is not None and table in last.inputs

    def check_unchanged(self) -> None:
        """Raises TempuraError QUERY_CHANGED when the query's committed runs computed another query, BAD_TIMEZONE when it asks for
        the date in a time zone that is not known."""
        for clock in filter(is_clock, names_read(self.lifted)):
            version_to_read(Clock(clock, self._site.clock()))

    @errors_by_code()
    def status(self) -> dict[str, Any]:
        """Where the query stands, as plain data. Where a table that it reads is broken, nobody knows whether it is ``due``, and ``error``
        says why."""
        history = self.committed()
        steps, outputs, last = history.steps, history.outputs, history.last_slot
        now, zone = self._site.clock(), self._zone(history)
        following = upcoming(self.schedule, last, now, zone)
        kept = last_with_states(steps)
        is_due = or_error(lambda: {"due": self._is_due(history, now, zone)})
        return {
            "runs": len(steps),
            "last": str(steps[-1].slot) if steps else None,
            "next": str(following) if following else None,
            "due": None,
            **is_due,
            "result_rows": outputs[-1].output.rows if outputs and outputs[-1].output else None,
            "result_of": str(outputs[-1].slot) if outputs else None,
            "does": steps[-1].does.kind if steps and steps[-1].does else None,
            "states": len(kept.states) if kept else 0,
            "state_bytes": kept.state_bytes if kept else 0,
            "methods": list(self._spec.methods) or ["all"],
            "require": self._spec.require,
            "state_budget": self._spec.state_budget,
            "storage_price": self._spec.storage_price,
            "schedule": self.schedule.to_json(),
            "outputs": [str(path) for path in self.published_at],
        }

    @errors_by_code()
    def states(self) -> list[dict[str, Any]]:
        """The states that the last run which left some has saved, as plain data: what each holds, its kind, rows, parts, and the bytes
        that it takes beside the result."""
        step = last_with_states(self.steps())
        if step is None:
            return []
        return [
            {
                "holds": state.label,
                "kind": state.kind,
                "rows": state.stored.rows,
                "bytes": state.stored.bytes_beside(step.output),
                "parts": len(state.stored.parts),
            }
            for state in step.states
        ]

    # --- how a run comes about --------------------------------------------------------------------------------------

    def _due(self, history: History, at: str | None, now: bool, force: bool) -> Due:
        if at is not None and now:
            what = f"Query {self.name} is to be run at {at}, and outside its schedule."
            raise TempuraError("BAD_RUN", what, "Give at= or now=True.", "Give --at or --now.")
        time, zone, last = self._site.clock(), self._zone(history), history.last_slot
        if now:
            return Due(unscheduled(self.schedule, last, time, zone))
        if at is None:
            return due(self.schedule, last, time, zone)
        return named(self.schedule, at, last, time, zone, force)

    def _is_due(self, history: History, now: datetime, zone: tzinfo) -> bool:
        return due(self.schedule, history.last_slot, now, zone).slot is not None and self._has_new(history.last, now)

    def _has_new(self, last: StepManifest | None, now: datetime) -> bool:
        """Whether a run would find something: other than at a time of a schedule, a view's only when something has come."""
        if self.schedule.kind != "view" or last is None:
            return True
        return not all(self._is_at(name, version, now) for name, version in last.inputs.items())

    def _is_at(self, name: str, version: int, now: datetime) -> bool:
        if is_clock(name):
            return Clock(name, now).version == version
        return name in self._tables and is_at(self._tables[name], version)

    def _situation(
        self, history: History, slot: Slot, schedule: Schedule, demand: Demand = ANY, dry: bool = False
    ) -> Situation:
        lifted, settings, time = self._lift(history), self._settings(history), self._logical_time(history)
        input = partial(self._input, time=time, dry=dry)
        steps, anew, budget = history.loadable, demand.anew, self._spec.budget
        may_ask = self._is_text and self._site.engine.answers_alike(lifted)
        about = (lifted, schedule, slot, steps, input, self._site, settings, time)
        found = assess(*about, anew, self._rules, may_ask, budget, self._spec.price_per_byte)
        if self._lift(history) is not lifted:
            # What has arrived has brought columns, and with them perhaps another meaning of the text.
            return self._situation(history, slot, schedule, demand, dry)
        return assuming_deletes(found) if demand.incremental or anew else found

    def _input(self, name: str, time: datetime, dry: bool = False) -> Input:
        """What the query reads under a name in a run at a logical time; ``dry``: with what waits, which is not registered."""
        if is_clock(name):
            return Clock(name, time)
        return Prospect(self._tables[name]) if dry else self._tables[name]

    def _told_early(self, history: History, slot: Slot) -> tuple[StepManifest | None, bool]:
        """What can be said of a run without Spark, whose start takes longer than many a refresh: the same as :meth:`_current`, of the same
        text over tables of the same columns, in which nothing waits; or None, and whether the run computes something whatever its plan is:
        it gives a result, and rows have come since the last one."""
        last = self._last_result(history, slot)
        if last is None:
            return None, self._gives_result(slot)
        # A clock is no table: it has gone on.
        tables = {name: self._tables[name] for name in last.inputs if name in self._tables}
        if not all(is_at(table, last.inputs[name]) for name, table in tables.items()):
            return None, True
        is_same = history.current is last and last.sql is not None and last.sql == self._spec.sql
        as_read = len(tables) == len(last.inputs) and all(self._is_as_read(table, last) for table in tables.values())
        is_told = is_same and as_read and is_followed(last, tables) and self._damage(last) is None
        return last if is_told else None, False

    @staticmethod
    def _is_as_read(table: Arrivals, last: StepManifest) -> bool:
        """Whether what is declared of a table now is as a run has read it, and cannot refuse one."""
        spec = table.spec
        may_refuse = bool(spec.references) or (spec.static and not last.inputs[table.name])
        return not may_refuse and spec.schema == last.schemas.get(table.name)

    def _gives_result(self, slot: Slot) -> bool:
        return slot.extra or self.schedule.kind == "view" or self.schedule.outputs[slot.index]

    def _last_result(self, history: History, slot: Slot) -> StepManifest | None:
        """The last result, unless a run gives another one whether anything has come or not."""
        return history.outputs[-1] if history.outputs and (slot.extra or self.schedule.kind == "view") else None

    def _current(self, history: History, slot: Slot, situation: Situation) -> StepManifest | None:
        """The last result, if it is of the present rows and there, and there is no other reason to run."""
        last = self._last_result(history, slot)
        if last is None:
            return None
        if dict(last.inputs) != dict(situation.versions) or not is_followed(last, situation.tables):
            return None
        return last if self._damage(last) is None else None

    def _sound_plan(self, situation: Situation, demand: Demand, history: History) -> Planned:
        """A plan that loads no damaged state."""
        while True:
            found = self._planned(situation, demand, history)
            sound = situation.without_damaged(first_step(found.plan, found.situation))
            if sound is situation:
                return found
            situation = sound

    def _planned(self, situation: Situation, demand: Demand, history: History) -> Planned:
        """A plan. Where a refresh that compared all plans would recompute, it is asked whether to begin with states now, as a first run is
        asked: once for about what is known, and only if it may be worth it."""
        found, beginning = self._planned_once(situation, demand, history), situation.beginning
        if beginning is None or not found.follower.is_news or not beginning.may_be_worth(found.plan):
            return found
        begun = self._planned_once(situation.as_first(beginning), demand, history)
        return begun if beginning.is_worth(begun.plan, found.plan) else found

    def _planned_once(self, situation: Situation, demand: Demand, history: History) -> Planned:
        follower = self._follower(situation, history)
        plan = demand.plan(self.name, situation.problem, bool(history.outputs), situation.lost, follower)
        return Planned(situation, plan, follower)

    @staticmethod
    def _follower(situation: Situation, history: History) -> Follower:
        choices = (run.choice for run in history.steps if run.choice)
        uses = situation.beginning.uses if situation.beginning else 1
        return Follower(history.next, choices, situation.correction.fixed, situation.doubt.factor, uses=uses)

    def _run(
        self,
        history: History,
        found: Due,
        situation: Situation,
        plan: ProgressivePlan,
        follower: Follower,
        incremental: bool,
        watch: Stopwatch,
    ) -> Run:
        self._check_clock(situation.time)
        assert found.slot
        shown = plan_of(plan, situation, not history.outputs, follower.followed)
        return Run(
            site=self._site,
            folder=self._folder,
            n=history.next,
            due=found,
            slot=found.slot,
            situation=situation,
            plan=plan,
            settings=self._settings(history),
            fingerprint=fingerprint(self._lift(history).rel),
            sql=self._spec.sql,
            schemas=self._schemas(self._lift(history)),
            explained=shown.explain(),
            does=does_now(shown, situation),
            uses=self.schedule.uses,
            watch=watch,
            incremental=incremental,
            choice=follower.choice,
            query=partial(self._whole, history, situation),
        )

    @property
    def _is_text(self) -> bool:
        """Whether there is a text that Spark could be asked."""
        return self._spec.sql is not None

    def _whole(self, history: History, situation: Situation) -> WholeQuery:
        """The query to be asked of the tables as a run finds them."""
        assert self._spec.sql is not None
        sources = self._sources(situation.versions, situation.time, self._settings(history))
        return WholeQuery(self._spec.sql, self._lift(history), sources)

    def _logical_time(self, history: History) -> datetime:
        """The time of a run: never before the last one."""
        now = self._site.clock().astimezone(UTC)
        return max(now, datetime.fromisoformat(history.last.logical_time)) if history.last else now

    def _check_clock(self, last: datetime) -> None:
        """Raises TempuraError CLOCK_WENT_BACK when the clock is before a time by more than clocks are corrected."""
        now = self._site.clock().astimezone(UTC)
        if last - now > _CORRECTION:
            what = (
                f"The clock says {now:%Y-%m-%d %H:%M} UTC, but query {self.name} was run at {last:%Y-%m-%d %H:%M} UTC."
            )
            wrong = "Set the clock. If it was wrong at the earlier run, begin the query anew with"
            command = f"{wrong}: tempura query replace {self.name}"
            raise TempuraError("CLOCK_WENT_BACK", what, f"{wrong} replace_query.", command)

    def _dry(self, run: Run) -> RunReport:
        return RunReport(
            query=self.name,
            label=str(run.slot),
            dry_run=True,
            method=run.plan.method,
            does=run.does,
            weight=run.situation.point.weight,
            plan=run.explained,
            estimated_cost=run.step.cost,
            inputs=dict(run.situation.versions),
            states=len(run.step.saves),
            skipped=tuple(str(slot) for slot in run.due.skipped),
            fallbacks=tuple(str(reason) for reason in run.plan.fallbacks),
            waiting=run.situation.waiting,
        )

    def _settings(self, history: History) -> Settings:
        """Those of the first run: a query means the same in every run, whatever the session says today."""
        return history.last.settings if history.last else self._site.engine.settings()

    def _zone(self, history: History) -> tzinfo:
        if self.schedule.kind != "progressive":
            # Only times of day have a zone; the session's is not asked for in vain.
            return UTC
        return zone_of(self.schedule.timezone or self._settings(history)["spark.sql.session.timeZone"])

    def _lift(self, history: History) -> Lifted:
        settings = self._settings(history)
        schemas = {name: table.schema for name, table in self._tables.items()}
        if self._lifted is None or self._lifted[:2] != (settings, schemas):
            self._lifted = (settings, schemas, self._site.engine.lift(self._body(), schemas, settings))
        self._check(self._lifted[-1], history)
        return self._lifted[-1]

    def _schemas(self, lifted: Lifted) -> dict[str, str]:
        """The schemas of the tables that the query reads."""
        read = ((name, self._tables[name]) for name in names_read(lifted) if not is_clock(name))
        return {name: self._site.engine.schema_text(table.schema) for name, table in read}

    def _body(self) -> str | DataFrame:
        if self._spec.sql is not None:
            return self._spec.sql
        if self._frame is None:
            what = f"Query {self.name} was made from a DataFrame, which this process does not know."
            remedy = "Call add_query with the same DataFrame again."
            raise TempuraError("QUERY_NOT_REGISTERED", what, remedy, "Add it, and run it, in a program.")
        return self._frame

    def _check(self, lifted: Lifted, history: History) -> None:
        known = history.current
        if known is None or known.fingerprint == fingerprint(lifted.rel):
            return
        same_text = self._spec.sql is not None and known.sql == self._spec.sql
        if not same_text or self._reads_added(known, lifted, history):
            what = f"Query {self.name} differs from the one that its {len(history.runs)} committed runs computed."
            remedy = "Restore it, or replace it with replace_query."
            command = f"Restore it, or replace it with: tempura query replace {self.name} …"
            raise TempuraError("QUERY_CHANGED", what, remedy, command)

    def _reads_added(self, known: StepManifest | Replacement, lifted: Lifted, history: History) -> bool:
        """Whether the same text means another query because its tables have got columns (``SELECT *``). A new version of Spark may
        write the same query otherwise; so the text is lifted over the columns of then as well."""
        now = {name: table.schema for name, table in self._tables.items()}
        then = now | {name: self._schema_then(known, name) for name in names_read(lifted) if name in now}
        if then == now:
            return False
        old = self._site.engine.lift(self._body(), then, self._settings(history))
        return fingerprint(old.rel) != fingerprint(lifted.rel)

    def _schema_then(self, known: StepManifest | Replacement, name: str) -> StructType:
        """The columns that a table had at a run. Runs of before they were noted read what had arrived by then, and no more."""
        if name in known.schemas:
            return self._site.engine.parse_schema(known.schemas[name])
        version = known.inputs.get(name, 0) if isinstance(known, StepManifest) else 0
        return self._tables[name].schema_at(version)

    def outputs(self) -> tuple[StepManifest, ...]:
        """The committed runs that gave a result, oldest first."""
        return self.committed().outputs

    def kept(self, step: StepManifest | None) -> StoredOutput | None:
        """The result of a run; None when there is no run, no result, or it was collected or damaged since."""
        return self.stored(step) if step and step.output and not self._damage(step) else None

    def stored(self, step: StepManifest) -> StoredOutput:
        """A result whose files are what was committed. Raises TempuraError RESULT_DAMAGED."""
        wrong = self._damage(step)
        if wrong:
            remedy = "Restore it from a backup, or run the query again: the next result is written anew."
            raise TempuraError("RESULT_DAMAGED", f"The result of query {self.name} of {step.slot}: {wrong}.", remedy)
        assert step.output is not None
        return step.output.with_parts(absolute(part, self._site.root) for part in step.output.parts)

    def _damage(self, step: StepManifest) -> str | None:
        """What is wrong with the files of a step's result; None when there is nothing, or no result."""
        parts = step.output.parts if step.output else ()
        return next(filter(None, (damage(absolute(part, self._site.root)) for part in parts)), None)
