"""What is committed of a query: its runs, and the replacements of its text, in one ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tempura.warehouse.commits.files import Files
from tempura.warehouse.commits.ledger import Ledger
from tempura.warehouse.commits.manifests import Entry, Json
from tempura.warehouse.times.slots import Slot
from tempura.warehouse.times.steps import Name, SavedState, StepManifest


@dataclass(frozen=True, slots=True)
class Replacement:
    """A committed replacement: from entry ``n`` on the query is another. ``kept`` are the states that occur in it as well,
    ``schemas`` as in :class:`StepManifest`."""

    n: int
    time: str
    sql: str | None
    fingerprint: str
    kept: tuple[Name, ...]
    schemas: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        return {"kind": "replacement", **asdict(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Replacement":
        """The inverse of :meth:`to_json`."""
        kept = tuple((str(expression), str(kind)) for expression, kind in data["kept"])
        return Replacement(data["n"], data["time"], data["sql"], data["fingerprint"], kept, data.get("schemas", {}))


@dataclass(frozen=True)
class History:
    """The entries of a query's ledger, oldest first."""

    entries: tuple[StepManifest | Replacement, ...]

    @staticmethod
    def from_json(entries: Iterable[Entry]) -> "History":
        """The history that a ledger holds."""
        return History(tuple(entry.made(_from_json) for entry in entries))

    def at(self, name: str) -> "History":
        """The history of a query that has another name by now: what it wrote lies in the folder of that name."""
        return History(tuple(e.at(name) if isinstance(e, StepManifest) else e for e in self.entries))

    @cached_property
    def runs(self) -> tuple[StepManifest, ...]:
        """All runs, those of replaced queries too."""
        return tuple(entry for entry in self.entries if isinstance(entry, StepManifest))

    @cached_property
    def steps(self) -> tuple[StepManifest, ...]:
        """The runs of the query as it is now."""
        return tuple(run for run in self.runs if not self._replaced or run.n > self._replaced.n)

    @cached_property
    def loadable(self) -> tuple[StepManifest, ...]:
        """The runs with the states that the query can use: all of its own, and what was kept of those before."""
        return tuple(map(self._with_kept, self.runs))

    @property
    def outputs(self) -> tuple[StepManifest, ...]:
        """The runs of the query as it is now that have a result."""
        return tuple(step for step in self.steps if step.output)

    @property
    def last(self) -> StepManifest | None:
        """The last run of the query as it is now."""
        return self.steps[-1] if self.steps else None

    @property
    def last_slot(self) -> Slot | None:
        """The last place in its schedule at which the query as it is now was run."""
        return next((step.slot for step in reversed(self.steps) if not step.slot.extra), None)

    @property
    def current(self) -> StepManifest | Replacement | None:
        """What says which query it is."""
        return self.entries[-1] if self.entries else None

    @property
    def next(self) -> int:
        """The number of the next entry."""
        return self.entries[-1].n + 1 if self.entries else 1

    @cached_property
    def _replaced(self) -> Replacement | None:
        """The last replacement."""
        return self._replacements[-1] if self._replacements else None

    @cached_property
    def _replacements(self) -> tuple[Replacement, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, Replacement))

    def _with_kept(self, run: StepManifest) -> StepManifest:
        for entry in self._replacements:
            if entry.n > run.n:
                kept: set[Name] = set(entry.kept)
                run = replace(run, states=tuple(state for state in run.states if state.name in kept))
        return run


def ledger_of_runs(folder: Path, files: Files) -> Ledger:
    """The ledger of the query that has this folder."""
    return Ledger(folder / "steps", files, _settled)


def _settled(entry: Json) -> Json:
    """What a checkpoint keeps of an entry: all but the text of the plan, for people, who find it in the manifest of the run."""
    return {**entry, "plan": ""} if "plan" in entry else entry


def _from_json(entry: Json) -> StepManifest | Replacement:
    return (Replacement if entry.get("kind") else StepManifest).from_json(entry)


def names_of(states: Sequence[SavedState]) -> tuple[Name, ...]:
    """The names of states, sorted, each once."""
    return tuple(sorted({state.name for state in states}))
