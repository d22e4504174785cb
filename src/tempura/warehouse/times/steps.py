"""Manifests of steps: what a committed run read, saved, emitted and took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tempura.cost.prices import BUILT_IN
from tempura.execute.contract import NO_JOINS, Joins, Part, StoredOutput, StoredState
from tempura.explain.character import Character
from tempura.physical.operators import StateKey
from tempura.warehouse.commits.seals import damage
from tempura.warehouse.times import phases
from tempura.warehouse.times.flushes import Flush
from tempura.warehouse.times.follow import Choice
from tempura.warehouse.times.phases import Phases
from tempura.warehouse.times.slots import Slot

Name = tuple[str, str]
"""What tells a state from the others of its step: fingerprint and kind of the view."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state in the store: fingerprint and kind of the view; it was current at the versions of its step. ``label`` is for people."""

    expression: str
    kind: str
    stored: StoredState
    label: str = ""

    @property
    def name(self) -> Name:
        """What tells it from the other states of its step."""
        return self.expression, self.kind

    def key(self, time: int) -> StateKey:
        """The state's name in a plan where its step is the given time point."""
        return StateKey(self.expression, self.kind, time)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        return {
            "expression": self.expression,
            "kind": self.kind,
            "label": self.label,
            **self.stored.to_json(),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "SavedState":
        """The inverse of :meth:`to_json`."""
        return SavedState(data["expression"], data["kind"], StoredState.from_json(data), data["label"])


_RECOMPUTING = ("batch",)
"""The methods that recompute, where none are noted: Tempura's own."""


@dataclass(frozen=True, slots=True)
class StepManifest:
    """A committed step. ``inputs`` are the versions of the tables it read; ``logical_time`` is ISO in UTC; ``estimated_cost`` in
    nanoseconds of one core, unweighted; ``settings``, ``engine``, ``fingerprint``, ``sql`` and the ``schemas`` of the tables that it
    read (DDL; not known of steps of earlier versions) say what could change its result. ``does``: whether
    it maintained the result or recomputed it (None in manifests of before that was told). ``pins`` tell the versions that it read from
    those of other tables of the same names. ``phases``: what the run took by phase, but for committing this. ``estimated_fixed``:
    what of the estimate does not depend on rows, by uncorrected prices (0 where it was not noted), which were of ``prices``
    (``CostModel.origin``). ``steps_run``: by the session before (None where it was not noted). ``correction``: what the driver's prices
    were multiplied by in ``estimated_cost``. ``choice``: when all plans were compared, and what was chosen (None where another run
    cannot follow that). ``flush``: what it was a part of, of a query at paces. ``counted``: the rows of operators by name, and how many
    were expected (``search.counts``). ``held``: the bytes that its states were expected to take as rows, and those that they took;
    ``not_kept`` says which of them it could not keep for the state budget; ``given_up`` are the names of those of earlier steps
    that are let go of for it, where the step saves none itself. ``joins``: how Spark carried them out. ``recomputing``: the methods
    that did nothing but recompute then. ``begun``: its states were built to be of use for many results (not noted of before that was).
    Paths of states and output are relative to the warehouse."""

    n: int
    slot: Slot
    skipped: tuple[Slot, ...]
    logical_time: str
    inputs: Mapping[str, int]
    states: tuple[SavedState, ...]
    output: StoredOutput | None
    attempt: str
    method: str
    weight: float
    estimated_cost: int
    cpu_seconds: float
    wall_seconds: float
    rows: Mapping[str, int]
    plan: str
    settings: Mapping[str, str]
    engine: str
    fingerprint: str
    sql: str | None
    does: Character | None = None
    schemas: Mapping[str, str] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    driver_seconds: float = 0.0
    phases: Phases = field(default_factory=dict)
    estimated_fixed: int = 0
    choice: Choice | None = None
    prices: str = BUILT_IN
    steps_run: int | None = None
    correction: float = 1.0
    counted: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    flush: Flush | None = None
    held: tuple[float, float] | None = None
    not_kept: tuple[str, ...] = ()
    given_up: tuple[Name, ...] = ()
    joins: Joins = NO_JOINS
    recomputing: tuple[str, ...] = _RECOMPUTING
    begun: bool = False

    def damage(self, root: Path) -> str | None:
        """What is wrong with the files of its result, in the warehouse at ``root``; None when there is nothing, or no result."""
        parts = self.output.parts if self.output else ()
        return next(filter(None, (damage(absolute(part, root)) for part in parts)), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return plain | {
            "pins": dict(self.pins),
            "driver_seconds": self.driver_seconds,
            "phases": phases.to_json(self.phases),
            "estimated_fixed": self.estimated_fixed,
            "prices": self.prices,
            "steps_run": self.steps_run,
            "correction": self.correction,
            "choice": self.choice.to_json() if self.choice else None,
            "counted": {name: list(rows) for name, rows in self.counted.items()},
            "slot": self.slot.to_json(),
            "skipped": [slot.to_json() for slot in self.skipped],
            "states": [state.to_json() for state in self.states],
            "output": self.output.to_json() if self.output else None,
            "does": self.does.to_json() if self.does else None,
            "schemas": dict(self.schemas),
            **({"flush": self.flush.to_json()} if self.flush else {}),
            **({"held": list(self.held)} if self.held else {}),
            **({"not_kept": list(self.not_kept)} if self.not_kept else {}),
            **({"given_up": [list(name) for name in self.given_up]} if self.given_up else {}),
            **({"recomputing": list(self.recomputing)} if self.recomputing != _RECOMPUTING else {}),
            **({"joins": self.joins.to_json()} if self.joins else {}),
            **({"begun": True} if self.begun else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "StepManifest":
        """The inverse of :meth:`to_json`."""
        return StepManifest(
            slot=Slot.from_json(data["slot"]),
            skipped=tuple(Slot.from_json(slot) for slot in data["skipped"]),
            states=tuple(map(SavedState.from_json, data["states"])),
            output=StoredOutput.from_json(data["output"]) if data["output"] else None,
            does=Character.from_json(data["does"]) if data.get("does") else None,
            schemas=data.get("schemas", {}),
            pins=data.get("pins", {}),
            driver_seconds=data.get("driver_seconds", 0.0),
            phases=phases.from_json(data.get("phases", {})),
            estimated_fixed=data.get("estimated_fixed", 0),
            prices=data.get("prices", BUILT_IN),
            steps_run=data.get("steps_run"),
            correction=data.get("correction", 1.0),
            choice=Choice.from_json(data["choice"]) if data.get("choice") else None,
            flush=Flush.from_json(data["flush"]) if data.get("flush") else None,
            held=(float(data["held"][0]), float(data["held"][1])) if data.get("held") else None,
            not_kept=tuple(data.get("not_kept", ())),
            given_up=tuple((expression, kind) for expression, kind in data.get("given_up", ())),
            joins=Joins.from_json(data["joins"]) if "joins" in data else NO_JOINS,
            recomputing=tuple(data.get("recomputing", _RECOMPUTING)),
            begun=data.get("begun", False),
            counted={name: (float(rows), float(of)) for name, (rows, of) in data.get("counted", {}).items()},
            **{name: data[name] for name in _PLAIN},
        )

    def at(self, query: str) -> "StepManifest":
        """The step of a query that has another name by now."""
        home = f"queries/{query}/"
        if all(path.startswith(home) for path in self.paths):
            return self
        output = self.output.with_parts(_renamed(part, query) for part in self.output.parts) if self.output else None
        stored = ((s, s.stored.with_parts(_renamed(part, query) for part in s.stored.parts)) for s in self.states)
        return replace(self, output=output, states=tuple(replace(state, stored=found) for state, found in stored))

    @property
    def paths(self) -> tuple[str, ...]:
        """The folders of its result and states, some of which earlier runs wrote."""
        return (*(self.output.paths if self.output else ()), *(p.path for s in self.states for p in s.stored.parts))

    @property
    def state_bytes(self) -> int:
        """The bytes that its states take beside the result."""
        return sum(state.stored.bytes_beside(self.output) for state in self.states)

    @property
    def recomputes(self) -> bool:
        """Whether its plan was by methods that do nothing but recompute."""
        return set(self.recomputing).issuperset(self.method.split("+"))

    @property
    def has_begun(self) -> bool:
        """Whether it built states to make many later results from, and its cost was weighed as one that is paid once. Or it kept some while
        work was cheap, of which nobody noted for how long: these have to show it first."""
        return self.begun or (self.weight < 1 and bool(self.states) and not self.recomputes)

    def is_loadable(self, engine: str, settings: Mapping[str, str]) -> bool:
        """Whether the step's states mean the same under a version of the engine and its settings: only patch releases may differ."""
        return _minor(self.engine) == _minor(engine) and dict(self.settings) == dict(settings)


def last_begun(steps: Sequence[StepManifest]) -> int | None:
    """The place of the last step that has begun with states: that left some which the ones before it had not left for it. To bring those
    that there are up to date is to go on with them. What is left by recomputing is nothing that was begun with."""
    found, left = None, frozenset[Name]()
    for i, step in enumerate(steps):
        names = frozenset(state.name for state in step.states)
        if step.begun or (step.has_begun and not names <= left):
            found = i
        left = frozenset() if step.recomputes else names or left - frozenset(step.given_up)
    return found


def last_with_states(steps: Sequence[StepManifest]) -> StepManifest | None:
    """The last of some steps that left states, with those that no later one has given up; None when none is left."""
    at = next((i for i in reversed(range(len(steps))) if steps[i].states), None)
    if at is None:
        return None
    gone = {name for step in steps[at + 1 :] for name in step.given_up}
    left = tuple(state for state in steps[at].states if state.name not in gone)
    return replace(steps[at], states=left) if left else None


_PLAIN = (
    "n", "logical_time", "inputs", "attempt", "method", "weight", "estimated_cost", "cpu_seconds", "wall_seconds", "rows",
    "plan", "settings", "engine", "fingerprint", "sql",
)  # fmt: skip


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])


def _renamed(part: Part, query: str) -> Part:
    """A part where it lies when its query has this name: in ``queries/NAME``."""
    section, _, *rest = Path(part.path).parts
    return replace(part, path=str(Path(section, query, *rest)))


def relative(part: Part, root: Path) -> Part:
    """A part whose path is relative to the warehouse, so that the warehouse can be moved."""
    return replace(part, path=str(Path(part.path).relative_to(root)))


def absolute(part: Part, root: Path) -> Part:
    """The inverse of :func:`relative`."""
    return replace(part, path=str(root / part.path))
