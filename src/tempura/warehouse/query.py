"""Queries: planned over all the times at which work may run, run step by step, each step committed whole."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.execute.contract import StoredOutput
from tempura.execute.failure import errors_by_code
from tempura.frontend.clock import NOW, is_clock, today
from tempura.frontend.lift import Lifted
from tempura.rules.registry import Registry
from tempura.warehouse.batches.arrivals import Rows
from tempura.warehouse.commits.ledger import Ledger, attempt
from tempura.warehouse.commits.seals import read_all_again
from tempura.warehouse.declared.declare import OutputSpec, QuerySpec, check_output, declared_path
from tempura.warehouse.declared.kinds import OUTPUT, check_given, listed
from tempura.warehouse.declared.text import CHANGE
from tempura.warehouse.engine import Check, Progress, Settings, Source, Verification, WholeQuery, schema_of
from tempura.warehouse.runs.agenda import Agenda
from tempura.warehouse.runs.entries import HistoryEntry, history_of
from tempura.warehouse.runs.meaning import Meaning, Wording
from tempura.warehouse.runs.measuring import Recomputations
from tempura.warehouse.runs.outputs import Outputs
from tempura.warehouse.runs.planning import Planning, logical_time
from tempura.warehouse.runs.publish import Result
from tempura.warehouse.runs.query_plan import QueryPlan, plan_of
from tempura.warehouse.runs.replace import ReplaceReport, usable
from tempura.warehouse.runs.replace import report_of as replaced
from tempura.warehouse.runs.report import RunReport, report_of
from tempura.warehouse.runs.required import Demand
from tempura.warehouse.runs.run import alone, dry_report, executed, first_step
from tempura.warehouse.runs.savings import Recomputation, Savings, rows_at_versions, rows_read, savings
from tempura.warehouse.runs.situation import Situation, names_read
from tempura.warehouse.runs.standing import standing, states_of
from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.uses import Input, version_to_read
from tempura.warehouse.times.history import History, Replacement, ledger_of_runs, names_of
from tempura.warehouse.times.phases import LOOKING, PLANNING, Stopwatch
from tempura.warehouse.times.schedule import Schedule, check_schedule
from tempura.warehouse.times.slots import Due, Slot
from tempura.warehouse.times.steps import StepManifest, absolute, last_with_states

Methods = str | Sequence[str]
"""``"all"``, or names of incremental methods."""


class Query:
    """A query of a warehouse; made by :meth:`Warehouse.add_query` and :meth:`Warehouse.query`.

    What it writes counts for the query that is declared under its name: after it was removed or renamed, by whichever process, each call
    that would write raises TempuraError UNKNOWN_QUERY, and QUERY_CHANGED when another one is declared by now.
    """

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
        self._folder = folder or site.root / "queries" / name
        self._agenda = Agenda(site, name, spec, tables, self._settings)
        self._wording = Wording(site.engine, name, spec.sql, frame, tables, self._settings)
        self._meaning: Meaning = self._wording
        self._outputs = Outputs(site, name, self._folder, self.committed, self._to_publish, self.kept)

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

    # --- what is declared -------------------------------------------------------------------------------------------

    def _check_declared(self, replacing: bool = False) -> None:
        """Raises TempuraError UNKNOWN_QUERY when the query was removed or renamed, QUERY_CHANGED when another one is declared by now,
        unless that is to be replaced."""
        found = self._site.declarations.read().query(self.name)
        if not replacing and (found.sql, found.fingerprint) != (self._spec.sql, self._spec.fingerprint):
            what = f"Another query is declared as {self.name} by now."
            raise TempuraError("QUERY_CHANGED", what, f'Take that: warehouse.query("{self.name}").')

    @contextmanager
    def _alone(self, replacing: bool = False) -> Iterator[None]:
        """Hold the lock of the query, which nobody removes or renames meanwhile; ``replacing``: it is to be declared in the place of the
        one that is. Raises TempuraError RUN_IN_PROGRESS, and as :meth:`_check_declared` does."""
        # Of one that is gone no folder is made either.
        self._check_declared(replacing)
        with alone(self._site.files, self._folder):
            self._check_declared(replacing)
            yield

    # --- runs -------------------------------------------------------------------------------------------------------

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
        asked = self.schedule if schedule is None else check_schedule(schedule)
        slot = self._agenda.upcoming(history) if schedule is None else Slot("", 0, (*schedule.times, "refresh 1")[0])
        planning = self._planning(history, demand, dry=True)
        situation, plan, follower = planning.best(planning.situation(slot, asked))
        return plan_of(plan, situation, not history.outputs, follower.followed, demand.methods)

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
        self._check_declared()
        demand = Demand.of(self.name, self._spec, methods, require, self._rules)
        due = partial(self._agenda.due, at=at, now=now, force=force)
        report = _while_others_collect(lambda: self._ran(due, demand, dry_run, progress))
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
            still, computes = self._agenda.told_early(history, found.slot)
            if still:
                return RunReport(self.name, nothing=True, why=f"nothing has arrived since {still.slot}")
            if computes and not dry_run:
                self._site.engine.start_early()
        watch = Stopwatch(self._site.engine.clocks)
        with watch.phase(LOOKING):
            planning = self._planning(history, demand, dry_run)
            situation = planning.situation(found.slot, self.schedule)
            result = self._agenda.current(history, found.slot, situation)
        if result:
            return RunReport(self.name, nothing=True, why=f"nothing has arrived since {result.slot}")
        with watch.phase(PLANNING):
            # There is a plan by cost at each later time, too; whether others meet a demand is told early.
            is_left_out = situation.idle and demand.is_by_cost(self._site.rules) and not dry_run
            planned = planning.nothing(situation) if is_left_out else planning.sound(situation)
            run = planning.run(found, planned, watch)
        if dry_run:
            return dry_report(self.name, run)
        if not run.step.is_empty and not self._is_understood(history, watch):
            return self._ran(asked, demand, dry_run, progress)
        with self._alone():
            run, manifest = executed(run, progress)
        return report_of(self.name, manifest, (*run.situation.lost, *run.plan.fallbacks))

    def _is_understood(self, history: History, watch: Stopwatch) -> bool:
        """Whether Spark, which has to run now, understands the query as it was noted: by what an earlier process has asked it."""
        before = self._wording.lifted(history)
        if not self._site.engine.start():
            return True
        self._wording.forget()
        with watch.phase(LOOKING):
            return self._wording.lifted(history).rel == before.rel

    @property
    def may_be_due(self) -> bool:
        """Whether a run may find something to do, as far as can be told without planning it."""
        return self._agenda.is_due(self.committed())

    @property
    def is_over(self) -> bool:
        """Whether no time comes at which a run is due: those of a fixed schedule are labels that no clock shows."""
        return self.schedule.kind == "fixed"

    def until_next_look(self, every: float) -> float:
        """How many seconds to wait before it is looked at again by who looks ``every`` so many."""
        return every

    def _planning(self, history: History, demand: Demand, dry: bool) -> Planning:
        """The planning of the next run; ``dry``: with what waits, which is not registered."""
        self._wording.look_again()
        time = logical_time(self._site, history)
        whole = partial(self._whole, history) if self._spec.sql is not None else None
        about = (self._site, self.name, self._spec, self._folder, self._rules, self._meaning)
        return Planning(*about, history, demand, time, partial(self._input, time=time, dry=dry), whole)

    def _input(self, name: str, time: datetime, dry: bool = False) -> Input:
        """What the query reads under a name in a run at a logical time; ``dry`` as for :meth:`_planning`."""
        if is_clock(name):
            return Clock(name, time)
        return Prospect(self._tables[name]) if dry else self._tables[name]

    def _whole(self, history: History, situation: Situation) -> WholeQuery:
        """The query to be asked of the tables as a run finds them."""
        assert self._spec.sql is not None
        sources = self._sources(situation.versions, situation.time, self._settings(history))
        return WholeQuery(self._spec.sql, self._wording.lifted(history), sources)

    def _settings(self, history: History) -> Settings:
        """Those of the first run: a query means the same in every run, whatever the session says today."""
        return history.last.settings if history.last else self._site.engine.settings()

    # --- results ----------------------------------------------------------------------------------------------------

    @errors_by_code()
    def result(self) -> DataFrame:
        """The last committed result, in the query's order and under its column names. Raises TempuraError NO_RESULT."""
        last = self._with_result()[-1]
        return self._site.engine.result(self.stored(last), self.lifted)  # type: ignore[no-any-return]

    @errors_by_code()
    def changes(self) -> DataFrame:
        """What changed from the result before to the last one: rows, ``_change`` (``insert`` or ``delete``) and ``_count``.

        Raises TempuraError NO_RESULT.
        """
        outputs = self._with_result()
        old = self.stored(outputs[-2]) if len(outputs) > 1 else None
        return self._site.engine.changes(old, self.stored(outputs[-1]), self.lifted)  # type: ignore[no-any-return]

    def _with_result(self) -> tuple[StepManifest, ...]:
        """The runs that gave a result, at least one. Raises TempuraError NO_RESULT, and as :meth:`_check_declared` does."""
        outputs = self.outputs()
        if not outputs:
            self._check_declared()
            raise TempuraError(
                "NO_RESULT", f"Query {self.name} has no result yet.", "Run it up to a time that outputs."
            )
        return outputs

    @errors_by_code()
    def output(self, path: str | Path, mode: str = "replace", keys: Collection[str] = ()) -> Path:
        """Publish the result at a path, now and after each run: Parquet files under the query's column names, for anything to read.

        ``replace``: the path shows the last result. ``upsert``: so, too, but only files with changed keys are written anew;
        ``keys`` name columns that are unique in the result. ``changes``: a folder to which each result adds what it changed, with
        ``_change`` (``insert`` or ``delete``). docs/guide.md says how to read them while a run publishes. Returns the path. The same
        declaration again changes nothing, another one for the same path replaces it.

        Raises TempuraError BAD_OUTPUT, UNSUPPORTED_PATH, OUTPUT_TAKEN for what is there already, DUPLICATE_KEY, OUTPUT_LOST.
        """
        self._check_declared()
        check_given(f"An output of query {self.name}", OUTPUT, {"mode": mode, "keys": listed(keys)})
        spec = check_output(OutputSpec(declared_path(self._site.root, path), mode, tuple(keys)))
        self._check_output(spec)
        # What cannot be published is not declared.
        self._outputs.publish([spec])
        declared = self._site.declarations.change_query(self.name, partial(_published_at, output=spec))
        self._spec = replace(self._spec, outputs=declared.outputs)
        return self._site.root / spec.path

    @property
    def published_at(self) -> tuple[Path, ...]:
        """The paths at which its results are published."""
        return tuple(self._site.root / output.path for output in self._spec.outputs)

    @errors_by_code()
    def publish(self, progress: Progress | None = None) -> tuple[Path, ...]:
        """Publish the last result where :meth:`output` has declared it, unless it is there: after a run that was interrupted.
        Returns the paths that changed. Raises as :meth:`output` does."""
        self._check_declared()
        return self._outputs.publish(self._spec.outputs, progress) if self._spec.outputs else ()

    def _to_publish(self, step: StepManifest) -> Result:
        lifted = self.lifted
        return Result(step, self.stored(step), lifted, schema_of(self._site.engine, lifted))

    def compared(self) -> tuple[StepManifest, ...]:
        """The runs with whose results the next ones are compared when they are published."""
        return self._outputs.compared(self._spec.outputs)

    def published(self) -> tuple[StepManifest, ...]:
        """The runs whose results can be read where they are published."""
        return self._outputs.published(self._spec.outputs)

    def _check_output(self, spec: OutputSpec) -> None:
        names = schema_of(self._site.engine, self.lifted).names
        if spec.mode == "changes" and CHANGE in map(str.lower, names):
            what = f"The result has a column {CHANGE}, by which changes say what became of a row."
            raise TempuraError("BAD_OUTPUT", what, "Name the column otherwise, or publish in another mode.")
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
        are read in the place of what arrived in it. Files are read for their checksums, whenever that was done last. A result that another
        process has collected meanwhile, because there is a newer one, is not waited for: that is verified. Raises TempuraError NO_RESULT,
        and NOT_RELEASED for a result of a query at paces that is of no version of its tables."""
        read_all_again()
        while True:
            step = self._to_recompute()
            try:
                found = self._verified(step, rows or {})
            except Exception:
                if self._is_last(step):
                    raise
            else:
                if found or self._is_last(step) or not step.damage(self._site.root):
                    return found

    def _to_recompute(self) -> StepManifest:
        """The run that gave the last result. Raises TempuraError NO_RESULT."""
        return self._with_result()[-1]

    def _is_last(self, step: StepManifest) -> bool:
        """Whether no run has given a newer result."""
        return [last.n for last in self.outputs()[-1:]] == [step.n]

    def _verified(self, step: StepManifest, rows: Mapping[str, Rows]) -> Verification:
        wrong = step.damage(self._site.root)
        if wrong:
            return Verification(False, 0, (), (wrong,), "checksums of the files")
        lifted, found = self._as_read(step)
        # What a run may have gone by, where deleted rows lie, is not believed here.
        sources = {name: source.without_places() for name, source in found.items()}
        sources |= {name: Source(self._tables[name].schema, known) for name, known in rows.items()}
        check = Check(self._wording.written(), lifted, sources, self.stored(step), step.settings)
        return self._site.engine.verify(check)

    @errors_by_code()
    def measure(self, progress: Progress = lambda text: None) -> Recomputation:
        """Let Spark alone recompute the last result, over the same versions of the tables, and note what that takes: by it :meth:`savings`
        tells what was saved. That is done again until it takes no less time, or a minute has passed, and the fastest counts. ``progress``
        is called with what is being done. Nothing that is computed is kept.

        Raises TempuraError NO_RESULT and NOT_RELEASED as :meth:`verify` does, NO_TEXT for a query from a DataFrame, COMMIT_LOST, and what
        Spark says of the query."""
        self._check_declared()
        step = self._to_recompute()
        if self._spec.sql is None:
            what = f"Query {self.name} was made from a DataFrame: there is no text that Spark could be asked."
            raise TempuraError("NO_TEXT", what, "Measure what your program takes without Tempura.")
        lifted, sources = self._as_read(step)
        entry = next(entry for entry in reversed(self._entries()) if entry.rows is not None)
        about = Recomputation(
            time=self._site.clock().astimezone(UTC).isoformat(),
            label=entry.label,
            versions=dict(entry.versions),
            rows_read=rows_read(entry.versions, self._rows_at_versions()) or 0,
            fingerprint=step.fingerprint,
            engine=self._site.engine.version,
        )
        asked = WholeQuery(self._spec.sql, lifted, sources)
        return self._recomputations.measure(asked, step.settings, about, progress)

    @errors_by_code()
    def savings(self) -> Savings:
        """What the runs of the query as it is now took, against what plain Spark would have taken to recompute each of their results, as
        far as that was measured (:meth:`measure`)."""
        last, prices = self.committed().last, self.schedule.kind != "view"
        measured = self._recomputations.of(last.fingerprint) if last else ()
        return savings(self.name, self._entries(), self._rows_at_versions(), measured, prices)

    @property
    def _recomputations(self) -> Recomputations:
        return Recomputations(self._site, self._folder)

    def _entries(self) -> tuple[HistoryEntry, ...]:
        """The runs of the query as it is now, as the history lists them."""
        return tuple(map(history_of, self.steps()))

    def _rows_at_versions(self) -> dict[str, list[int | None]]:
        return {name: rows_at_versions(table.committed()) for name, table in self._tables.items()}

    def _as_read(self, step: StepManifest) -> tuple[Lifted, dict[str, Source]]:
        """The query, and the tables as a run has read them. Raises TempuraError for what is wrong with them by now."""
        self._wording.look_again()
        lifted = self.lifted  # which says what is not declared any more
        return lifted, self._sources(step.inputs, datetime.fromisoformat(step.logical_time), step.settings)

    def _sources(self, versions: Mapping[str, int], time: datetime, settings: Settings) -> dict[str, Source]:
        """The tables at some versions, and the clocks. The query's text may name tables that its plan does not read, because nothing
        of them can matter: they are empty here."""
        sources = {name: Source(table.schema, Rows()) for name, table in self._tables.items()}
        clocks = (Clock(NOW, time), Clock(today(settings["spark.sql.session.timeZone"]), time))
        sources |= {clock.name: clock.source(0, clock.version) for clock in clocks}
        return sources | {name: self._input(name, time).source(0, n) for name, n in versions.items()}

    # --- what is committed ------------------------------------------------------------------------------------------

    def committed(self) -> History:
        """All that is committed of the query."""
        return History.from_json(filter(None, self.ledger.entries())).at(self.name)

    @property
    def ledger(self) -> Ledger:
        """What the query's runs committed."""
        return ledger_of_runs(self._folder, self._site.files)

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """All that is noted of it: what its runs committed, and measured recomputations."""
        return self.ledger, self._recomputations.ledger

    def steps(self) -> tuple[StepManifest, ...]:
        """The manifests of the query's committed runs, oldest first."""
        return self.committed().steps

    @errors_by_code()
    def replace(self, declare: Callable[[], None], dry_run: bool = False) -> ReplaceReport:
        """Make this the query from now on, whatever the committed runs computed; ``declare`` writes that into the declarations. Its
        history begins anew, from the states that it can use.

        Raises TempuraError RUN_IN_PROGRESS, and what is wrong with the query or its tables.
        """
        with nullcontext() if dry_run else self._alone(replacing=True):
            history, now = self.committed(), self._site.clock().astimezone(UTC).isoformat()
            lifted = self.lifted_anew
            states = names_of([state for run in history.loadable for state in run.states])
            mark, schemas = fingerprint(lifted.rel), self._wording.schemas(lifted)
            entry = Replacement(history.next, now, self._spec.sql, mark, states, schemas)
            after = History((*history.entries, entry))
            planning = self._planning(after, Demand.of(self.name, self._spec, None, None, self._rules), dry_run)
            situation = planning.situation(self._agenda.upcoming(after), self.schedule)
            situation, plan, _ = planning.sound(situation)
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

    # --- what it means ----------------------------------------------------------------------------------------------

    @property
    def lifted(self) -> Lifted:
        """The query in the algebra, as its runs compute it. Raises TempuraError for what is wrong with it."""
        return self._meaning.lifted(self.committed())

    @property
    def lifted_anew(self) -> Lifted:
        """The same, whatever the committed runs computed."""
        self._wording.look_again()
        return self._meaning.lifted(History(()))

    @property
    def reads(self) -> tuple[Arrivals, ...]:
        """The tables that the query reads, whatever its committed runs computed; none when this process does not know its
        DataFrame."""
        return self._wording.reads()

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
        if self._wording.is_known:
            return self._wording.needs(table)
        last = self.committed().last
        return last is not None and table in last.inputs

    def check_unchanged(self) -> None:
        """Raises TempuraError QUERY_CHANGED when the query's committed runs computed another query, BAD_TIMEZONE when it asks for
        the date in a time zone that is not known."""
        for clock in filter(is_clock, names_read(self.lifted)):
            version_to_read(Clock(clock, self._site.clock()))

    # --- where it stands --------------------------------------------------------------------------------------------

    @errors_by_code()
    def status(self) -> dict[str, Any]:
        """Where the query stands, as plain data. Where a table that it reads is broken, nobody knows whether it is ``due``, and ``error``
        says why."""
        history = self.committed()
        steps, following, kept = history.steps, self._agenda.next(history), last_with_states(history.steps)
        return standing(
            self._spec,
            ran=[str(step.slot) for step in steps],
            following=str(following) if following else None,
            is_due=partial(self._agenda.is_due, history),
            outputs=history.outputs,
            does=steps[-1].does.kind if steps and steps[-1].does else None,
            kept=[kept] if kept else [],
            published_at=self.published_at,
        )

    @errors_by_code()
    def states(self) -> list[dict[str, Any]]:
        """The states that the last run which left some has saved, as plain data: what each holds, its kind, rows, parts, and the bytes
        that it takes beside the result."""
        step = last_with_states(self.steps())
        return states_of(step) if step else []

    def outputs(self) -> tuple[StepManifest, ...]:
        """The committed runs that gave a result, oldest first."""
        return self.committed().outputs

    def kept(self, step: StepManifest | None) -> StoredOutput | None:
        """The result of a run; None when there is no run, no result, or it was collected or damaged since."""
        return self.stored(step) if step and step.output and not step.damage(self._site.root) else None

    def stored(self, step: StepManifest) -> StoredOutput:
        """A result whose files are what was committed. Raises TempuraError RESULT_DAMAGED."""
        wrong = step.damage(self._site.root)
        if wrong:
            remedy = "Restore it from a backup, or run the query again: the next result is written anew."
            raise TempuraError("RESULT_DAMAGED", f"The result of query {self.name} of {step.slot}: {wrong}.", remedy)
        assert step.output is not None
        return step.output.with_parts(absolute(part, self._site.root) for part in step.output.parts)


_MOST_TRIES = 3


def _while_others_collect(ran: Callable[[], RunReport]) -> RunReport:
    """What a run gives. Nothing tells ``gc`` of another process, before the run has the lock of its query, at which versions of the tables
    it has been planned; when these were given up meanwhile, because more has arrived, it is planned anew."""
    for _ in range(_MOST_TRIES - 1):
        try:
            return ran()
        except TempuraError as error:
            if error.code != "VERSION_COLLECTED":
                raise
    return ran()


def _published_at(spec: QuerySpec, output: OutputSpec) -> QuerySpec:
    """A declaration with one more output, in the place of another at the same path."""
    others = tuple(other for other in spec.outputs if other.path != output.path)
    return replace(spec, outputs=(*others, output))
