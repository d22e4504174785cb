"""Executing one step of a plan and committing it whole."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tempura.execute.contract import StepOutcome, StoredState
from tempura.physical.operators import StateKey
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.warehouse.engine import Progress, Settings, Work
from tempura.warehouse.ledger import Ledger, attempt, discarding, discarding_if_refused
from tempura.warehouse.situation import Situation
from tempura.warehouse.slots import Due, Slot
from tempura.warehouse.steps import SavedState, StepManifest, absolute, relative
from tempura.warehouse.table import Site


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is about to be executed: the ``n``-th step of a query in ``folder``."""

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
    explained: str

    @property
    def step(self) -> Step:
        """The step to execute; empty when the plan does nothing now."""
        now = self.situation.now
        return next((s for s in self.plan.steps if s.time == now), Step(now, (), None, 0))

    def execute(self, progress: Progress | None = None) -> StepManifest:
        """Execute the step and commit its manifest. Raises TempuraError COMMIT_LOST when another process was first."""
        files = self.site.files
        started = self.site.clock().astimezone(UTC)
        with attempt(files, self.site.attempts) as work:
            folder = self.folder / "attempts" / work.id
            with discarding(files, folder):
                files.make_folder(folder)
                outcome = self._executed(folder, progress)
                files.sync_tree(folder)
                manifest = self._manifest(work.id, outcome, started)
            with discarding_if_refused(files, folder):
                Ledger(self.folder / "steps", files).append(work, self.n, manifest.to_json())
        return manifest

    def _executed(self, folder: Path, progress: Progress | None) -> StepOutcome | None:
        if self.step.is_empty:
            return None
        work = Work(self.step, self.situation.source, self._state, folder, self.settings, progress)
        return self.site.engine.execute(work)

    def _state(self, key: StateKey) -> StoredState:
        return absolute(self.situation.state(key), self.site.root)

    def _manifest(self, id: str, outcome: StepOutcome | None, started: datetime) -> StepManifest:
        root = self.site.root
        output = outcome.output if outcome else None
        now = self.situation.now
        return StepManifest(
            n=self.n,
            slot=self.slot,
            skipped=self.due.skipped,
            logical_time=started.isoformat(),
            inputs=dict(self.situation.versions),
            states=_saved(outcome.states, root) if outcome else (),
            output=replace(output, path=str(Path(output.path).relative_to(root))) if output else None,
            attempt=id,
            method=self.plan.method,
            weight=self.situation.problem.points[now].weight,
            estimated_cost=self.step.cost,
            cpu_seconds=outcome.cpu_seconds if outcome else 0.0,
            wall_seconds=outcome.wall_seconds if outcome else 0.0,
            rows=dict(outcome.rows) if outcome else {},
            plan=self.explained,
            settings=dict(self.settings),
            engine=self.site.engine.version,
            fingerprint=self.fingerprint,
            sql=self.sql,
        )


def _saved(states: Mapping[StateKey, StoredState], root: Path) -> tuple[SavedState, ...]:
    return tuple(SavedState(key.expression, key.kind, relative(stored, root)) for key, stored in states.items())
