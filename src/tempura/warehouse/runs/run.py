"""Executing one step of a plan and committing it whole."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tempura.errors import Reason, TempuraError
from tempura.execute.contract import NO_JOINS, Part, StepOutcome, StoredState
from tempura.execute.failure import coded, errors_by_code
from tempura.execute.of_data import is_of_data
from tempura.explain.character import AS_WRITTEN, BY_OPERATORS, Character
from tempura.physical.operators import StateKey
from tempura.plan.progressive import NO_WORK, ProgressivePlan, Step
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import attempt, discarding, discarding_if_refused
from tempura.warehouse.commits.locks import HeldError
from tempura.warehouse.commits.seals import sealed
from tempura.warehouse.engine import Progress, Settings, WholeQuery, Work
from tempura.warehouse.runs.budget import fitting, not_kept, remove
from tempura.warehouse.runs.query_plan import does_now, plan_of
from tempura.warehouse.runs.report import RunReport
from tempura.warehouse.runs.required import refused_retry
from tempura.warehouse.runs.situation import Situation
from tempura.warehouse.tables.site import Site
from tempura.warehouse.times.flushes import Flush
from tempura.warehouse.times.follow import Choice
from tempura.warehouse.times.history import ledger_of_runs
from tempura.warehouse.times.phases import COMPUTING, STORING, Stopwatch
from tempura.warehouse.times.slots import Due, Slot
from tempura.warehouse.times.steps import SavedState, StepManifest, relative


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is about to be executed: the ``n``-th step of a query in ``folder``. ``flush``: what it is a part of, of a query at
    paces."""

    site: Site
    folder: Path
    n: int
    due: Due
    slot: Slot
    situation: Situation
    plan: ProgressivePlan
    settings: Settings
    fingerprint: str
    sql: str | None
    schemas: Mapping[str, str]
    explained: str
    does: Character
    uses: int
    watch: Stopwatch
    incremental: bool = False
    choice: Choice | None = None
    query: Callable[[], WholeQuery | None] = lambda: None
    flush: Flush | None = None

    @property
    def step(self) -> Step:
        """The step to execute; empty when there is nothing to do now."""
        return first_step(NO_WORK if self.situation.idle else self.plan, self.situation)

    @property
    def is_due(self) -> bool:
        """Whether the run gives a result."""
        return self.situation.point.output

    def recomputed(self, error: Exception) -> "Run":
        """The run with its result computed from the tables, after incremental work has failed for a row."""
        reason = Reason("FAILED_INCREMENTALLY", f"computed from the tables: {_said(error)}")
        problem = self.situation.problem
        plan = make_plan(problem, _recomputing(problem))
        return self._instead(replace(plan, fallbacks=(*plan.fallbacks, reason)))

    def left_out(self, error: Exception) -> "Run":
        """The run without work, after early work has failed for a row."""
        reason = Reason("FAILED_EARLY", f"nothing is due, and nothing was done: {_said(error)}")
        return self._instead(replace(NO_WORK, fallbacks=(reason,)))

    def _instead(self, plan: ProgressivePlan) -> "Run":
        shown = plan_of(plan, self.situation, first=False)
        does = does_now(shown, self.situation)
        return replace(self, plan=plan, explained=shown.explain(), does=does, choice=None)

    def execute(self, progress: Progress | None = None) -> StepManifest:
        """Execute the step and commit its manifest. The caller holds the lock of the query (:func:`alone`). Raises TempuraError
        COMMIT_LOST when another process was first."""
        files = self.site.files
        ledger = ledger_of_runs(self.folder, files)
        with attempt(files, self.site.attempts) as work:
            ledger.check_next(self.n)
            folder = self.folder / "attempts" / work.id
            with discarding(files, folder):
                files.make_folder(folder)
                with self.watch.phase(COMPUTING):
                    outcome = self._executed(folder, progress)
                with self.watch.phase(STORING):
                    kept = self._kept(outcome, folder)
                    files.sync_tree(folder)
                    manifest = self._manifest(work.id, outcome, kept)
                manifest = replace(manifest, phases=self.watch.phases)
            with discarding_if_refused(files, folder):
                ledger.append(work, self.n, manifest.to_json())
        return manifest

    def _executed(self, folder: Path, progress: Progress | None) -> StepOutcome | None:
        if self.step.is_empty:
            return None
        query = self.query() if self.step.asked else None
        source, state = self.situation.source, self.situation.state
        work = Work(self.step, source, state, folder, self.settings, progress, self.uses, query)
        return self.site.engine.execute(work)

    def _kept(self, outcome: StepOutcome | None, folder: Path) -> Mapping[StateKey, StoredState]:
        """The states that are within the budget; what the others have in the run's folder is removed."""
        if outcome is None:
            return {}
        kept = fitting(outcome.states, self.situation.problem.state_budget, outcome.output)
        dropped = [state for key, state in outcome.states.items() if key not in kept]
        used = [part.path for state in kept.values() for part in state.parts]
        remove(self.site.files, dropped, folder, [*used, *(outcome.output.paths if outcome.output else ())])
        return kept

    def _manifest(self, id: str, outcome: StepOutcome | None, kept: Mapping[StateKey, StoredState]) -> StepManifest:
        output = outcome.output if outcome else None
        problem = self.situation.problem
        saved = outcome.states if outcome else {}
        committed = cache(self._committed)  # a part may be of a state and of the result
        return StepManifest(
            n=self.n,
            slot=self.slot,
            skipped=self.due.skipped,
            logical_time=self.situation.time.isoformat(),
            inputs=dict(self.situation.versions),
            states=tuple(self._saved(*item, committed) for item in kept.items()),
            output=output.with_parts(map(committed, output.parts)) if output else None,
            attempt=id,
            method=self.plan.method,
            weight=self.situation.price,
            estimated_cost=self.step.cost,
            estimated_fixed=self.situation.correction.before(self.step),
            prices=self.situation.problem.prices.origin,
            steps_run=self.situation.steps_run,
            correction=self.situation.correction.fixed,
            cpu_seconds=outcome.cpu_seconds if outcome else 0.0,
            driver_seconds=outcome.usage.driver_seconds if outcome else 0.0,
            wall_seconds=outcome.wall_seconds if outcome else 0.0,
            rows=dict(outcome.rows) if outcome else {},
            plan=self.explained,
            settings=dict(self.settings),
            engine=self.site.engine.version,
            fingerprint=self.fingerprint,
            sql=self.sql,
            does=self._done(outcome),
            schemas=self.schemas,
            pins={name: self.situation.tables[name].mark(n) for name, n in self.situation.versions.items()},
            choice=self.choice,
            counted=dict(outcome.counted) if outcome else {},
            joins=outcome.joins if outcome else NO_JOINS,
            begun=self.situation.begins is not None and bool(kept),
            flush=self.flush,
            held=(self.step.state_bytes / problem.stored_share, sum(s.bytes_beside(output) for s in saved.values()))
            if saved
            else None,
            not_kept=tuple(
                not_kept(label_of(self.step, key), state, problem.state_budget or 0)
                for key, state in saved.items()
                if key not in kept
            ),
            recomputing=_recomputing(problem),
            given_up=() if kept else self.situation.given_up,
        )

    def _done(self, outcome: StepOutcome | None) -> Character:
        """What the run does to the result, as it was done: where Spark could not be asked, the operators were run."""
        if outcome and self.does.way == AS_WRITTEN and not outcome.answered:
            return replace(self.does, way=BY_OPERATORS)
        return self.does

    def _saved(self, key: StateKey, stored: StoredState, committed: Callable[[Part], Part]) -> SavedState:
        sealed = stored.with_parts(map(committed, stored.parts))
        return SavedState(key.expression, key.kind, sealed, label_of(self.step, key))

    def _committed(self, part: Part) -> Part:
        """A part as the manifest names it. Parts of earlier steps are sealed already."""
        return relative(part if part.seals else sealed(part), self.site.root)


def executed(run: Run, progress: Progress | None = None) -> tuple[Run, StepManifest]:
    """Execute a run; where an expression of the query fails for a row, the one that takes its place. Raises what :meth:`Run.execute`
    raises.

    Only a recomputation of a result that is due fails as the query does: other work looks at rows that may be gone by then, or that are
    gone already. So early work that fails is not done, and the run is recorded with the reason; a result is then computed from the tables,
    unless the run is to be ``incremental``.
    """
    try:
        return run, run.execute(progress)
    except Exception as error:
        if not is_of_data(error) or (run.is_due and run.plan.recomputes):
            raise
        if run.is_due and run.incremental:
            raise refused_retry(run.folder.name, error) from error
        instead = run.recomputed(error) if run.is_due else run.left_out(error)
    return instead, instead.execute(progress)


def dry_report(query: str, run: Run) -> RunReport:
    """The report of a run that is not executed."""
    return RunReport(
        query=query,
        label=str(run.slot),
        dry_run=True,
        method=run.plan.method,
        does=run.does,
        weight=run.situation.price,
        plan=run.explained,
        estimated_cost=run.step.cost,
        inputs=dict(run.situation.versions),
        states=len(run.step.saves),
        skipped=tuple(str(slot) for slot in run.due.skipped),
        fallbacks=tuple(str(reason) for reason in run.plan.fallbacks),
        waiting=run.situation.waiting,
    )


def _recomputing(problem: Problem) -> tuple[str, ...]:
    """The methods that compute whatever is due from the tables."""
    return tuple(sorted(problem.registry.recomputing))


def first_step(plan: ProgressivePlan, situation: Situation) -> Step:
    """The step of a plan's first time point, which can be run now unless the run is idle; empty when the plan does nothing there."""
    return next((s for s in plan.steps if s.time == situation.now), Step(situation.now, (), None, 0))


def _said(error: Exception) -> str:
    """What an error says, in one line."""
    known = coded(error)
    return f"{known.code}: {known.what}" if known else str(error).strip().partition("\n")[0]


def label_of(step: Step, key: StateKey) -> str:
    """What a state that a step saves holds, for people."""
    rel = next(save.rel for save in step.saves if save.key == key)
    return step.notes[rel].view.split("[:")[0] if rel in step.notes else ""


@contextmanager
def alone(files: Files, folder: Path) -> Iterator[None]:
    """Hold the lock of the query in a folder: a second process is told now, and not after it has done the work as well.

    Raises TempuraError RUN_IN_PROGRESS, and DISK_FULL.
    """
    lock = folder / "run.lock"
    try:
        with errors_by_code():
            files.make_folder(folder)
            with files.lock(lock, wait=False):
                try:
                    yield
                finally:
                    files.remove(lock)
    except HeldError as held:
        what = f"Query {folder.name} is being run by {held}."
        raise TempuraError("RUN_IN_PROGRESS", what, "Wait until it has ended, then call again.") from None
