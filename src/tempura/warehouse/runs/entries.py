"""The runs of a query as its history lists them: each by itself, or the steps of a flush together."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tempura.execute.contract import NO_JOINS, Clocks, Joins
from tempura.explain.character import Character
from tempura.warehouse.times import phases
from tempura.warehouse.times.phases import Phases
from tempura.warehouse.times.steps import StepManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """What its report and the history tell of a run. ``label`` names its time. ``estimated_cost`` is in nanoseconds of one core;
    ``cpu_seconds`` (of tasks), ``driver_seconds`` (CPU of the driver, Python included) and ``wall_seconds`` were measured, of the step;
    ``phases`` are those of the run, in which it is computing. ``rows`` of the result, None when none was due; ``does`` what the step did
    to it: maintained, or recomputed (``explain.character``). Of a flush of a query at paces: all figures are those of its steps together,
    ``paths`` what was released, ``progress`` the share of the expected rows that had come, ``predicted_cost`` what the paces were planned
    with. ``joins``: how Spark carried out those of the plan, as far as it can be told."""

    n: int = 0
    label: str = ""
    method: str = ""
    weight: float = 0.0
    estimated_cost: int = 0
    cpu_seconds: float = 0.0
    driver_seconds: float = 0.0
    wall_seconds: float = 0.0
    rows: int | None = None
    states: int = 0
    skipped: tuple[str, ...] = ()
    does: Character | None = None
    phases: Phases = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    progress: float | None = None
    predicted_cost: int | None = None
    joins: Joins = NO_JOINS

    @property
    def all_cpu_seconds(self) -> float:
        """CPU seconds of tasks and driver: what ``estimated_cost`` estimates."""
        return self.cpu_seconds + self.driver_seconds

    @property
    def beside(self) -> Clocks:
        """What passed beside the step: to look what has arrived, to plan, to store."""
        return phases.beside(self.phases)

    @property
    def run_cpu_seconds(self) -> float:
        """CPU seconds of the whole run: of the step, and of the driver beside it."""
        return self.all_cpu_seconds + self.beside.jvm_seconds + self.beside.python_seconds

    @property
    def run_wall_seconds(self) -> float:
        """Seconds that the whole run took."""
        return sum(spent.wall_seconds for spent in self.phases.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry(RunFigures):
    """A committed run. ``versions`` are those of the tables that it read; ``complete``: its result is of all that they have, as it is but
    of a flush of a query at paces that left some waiting."""

    logical_time: str
    versions: Mapping[str, int]
    complete: bool = True

    @property
    def beside_seconds(self) -> float | None:
        """Seconds that passed beside the step. None when they were not noted."""
        return self.beside.wall_seconds if self.phases else None

    @property
    def actual_cost(self) -> int:
        """What the run took, of tasks and driver, in nanoseconds of one core: what ``estimated_cost`` estimates."""
        return int(self.all_cpu_seconds * 1e9)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "actual_cost": self.actual_cost}


def history_of(step: StepManifest) -> HistoryEntry:
    """The entry of a committed step."""
    return HistoryEntry(
        n=step.n,
        label=str(step.slot),
        logical_time=step.logical_time,
        versions=dict(step.inputs),
        method=step.method,
        weight=step.weight,
        estimated_cost=step.estimated_cost,
        cpu_seconds=step.cpu_seconds,
        driver_seconds=step.driver_seconds,
        wall_seconds=step.wall_seconds,
        rows=step.output.rows if step.output else None,
        states=len(step.states),
        skipped=tuple(str(slot) for slot in step.skipped),
        does=step.does,
        phases=step.phases,
        joins=step.joins,
    )


def flushes_of(own: Sequence[StepManifest], others: Sequence[StepManifest]) -> tuple[HistoryEntry, ...]:
    """The entries of a query at paces, oldest first: one per flush, from the steps of all segments, and runs of other schedules as they
    are. ``own`` are those under the query's own name."""
    flushes: dict[tuple[int, int], list[StepManifest]] = {}
    for step in (*others, *own):
        if step.flush:
            flushes.setdefault((step.flush.life, step.flush.n), []).append(step)
    found = [*map(flush_entry, flushes.values()), *(history_of(step) for step in own if not step.flush)]
    return tuple(sorted(found, key=lambda entry: (entry.logical_time, entry.n)))


def flush_entry(steps: Sequence[StepManifest]) -> HistoryEntry:
    """A flush: the figures of its steps together."""
    ordered = sorted(steps, key=lambda step: step.flush.segment if step.flush else 0)
    last, flush = ordered[-1], ordered[-1].flush
    assert flush is not None, "a step of a flush says so"
    spent: dict[str, Clocks] = {}
    for name, clocks in (item for step in ordered for item in step.phases.items()):
        spent[name] = spent.get(name, Clocks()) + clocks
    return HistoryEntry(
        n=flush.n,
        label=flush.label,
        logical_time=last.logical_time,
        versions=dict(flush.versions),
        method=", ".join(dict.fromkeys(step.method for step in ordered)),
        weight=1.0,
        estimated_cost=sum(step.estimated_cost for step in ordered),
        cpu_seconds=sum(step.cpu_seconds for step in ordered),
        wall_seconds=sum(step.wall_seconds for step in ordered),
        rows=next((step.output.rows for step in ordered if step.output and step.schemas), None),
        states=sum(len(step.states) for step in ordered),
        skipped=(),
        driver_seconds=sum(step.driver_seconds for step in ordered),
        phases=spent,
        joins=sum((step.joins for step in ordered), NO_JOINS),
        paths=flush.names,
        complete=flush.complete,
        progress=flush.progress,
        predicted_cost=flush.predicted,
    )
