"""What a plan, a run and a history look like to the user."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tempura.cost.prices import BUILT_IN
from tempura.errors import Reason, TempuraError
from tempura.execute.contract import Clocks
from tempura.execute.failure import errors_by_code
from tempura.explain.character import NOTHING, RECOMPUTED, Character
from tempura.explain.html import save_html
from tempura.explain.origin import SECTIONS, section, section_json
from tempura.explain.text import SHOW, explain, seconds, to_json
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.registry import ALL
from tempura.search.problem import Problem
from tempura.warehouse.runs.required import character_of
from tempura.warehouse.runs.situation import Situation
from tempura.warehouse.tables.clock import version_text
from tempura.warehouse.times import phases
from tempura.warehouse.times.correction import NONE, Correction
from tempura.warehouse.times.doubt import NO_DOUBT, Doubt
from tempura.warehouse.times.forecast import Forecast
from tempura.warehouse.times.phases import Phases
from tempura.warehouse.times.steps import StepManifest

_PUT_OFF = "it may as well be done at {}, at no higher price"
_THE_NEXT = _PUT_OFF.format("the next time")


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A plan of a query. ``labels`` name its time points; ``does`` says what its steps do, by time point; ``forecasts`` are what is
    assumed to arrive after the first of them; ``waiting`` are rows that it counts on and that have not been registered; ``correction``:
    what its prices were multiplied by. ``followed`` is the number of the run that compared all plans, where this one goes on as that chose
    (``times.follow``). ``problem`` is what it was planned for, by which ``methods``; ``prices`` are built in, or were calibrated
    at some time; ``doubt`` is what earlier runs say of plans with states. ``put_off`` are times that are no time points, because what could
    be done then may as well be done at the next one."""

    plan: ProgressivePlan
    labels: tuple[str, ...]
    does: Mapping[int, Character] = field(default_factory=dict)
    forecasts: tuple[Forecast, ...] = ()
    waiting: tuple[str, ...] = ()
    correction: Correction = NONE
    followed: int | None = None
    problem: Problem | None = None
    methods: tuple[str, ...] = (ALL,)
    prices: str = BUILT_IN
    doubt: Doubt = NO_DOUBT
    put_off: tuple[str, ...] = ()

    @property
    def cost(self) -> int:
        """The weighted sum of the steps' estimated costs, in nanoseconds of one core."""
        return self.plan.cost

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step per time point that remains."""
        return self.plan.steps

    @property
    def method(self) -> str:
        """The incremental method, or set of methods, that the plan uses."""
        return self.plan.method

    def label(self, time: int) -> str:
        """The name of a time point."""
        return self.labels[time] if time < len(self.labels) else str(time)

    def explain(self, show: str | Collection[str] = "cost,rows", step: str | None = None) -> str:
        """The plan per time point as text. ``show`` names what is said of each operator: cost, rows, method, rule, view; and what is told
        below the steps: rules, which of them made each part; memo, the classes of equal expressions; steps, what each rule does to the
        best plan, for which it is planned once for each rule. ``step`` is the label of the only time point to show.

        Raises TempuraError UNKNOWN_SHOW, UNKNOWN_TIME.
        """
        only = None if step is None else self._time(step)
        beside, below = _shown(show)
        text = explain(self.plan, beside, self.labels, only, self.does, self.assumed, self.remarks)
        plan = self.plan if only is None else replace(self.plan, steps=(self.plan.step_at(only),))
        sections = (section(name, plan, self._problem, self.methods, self.labels) for name in below)
        return "\n".join([text, *("\n".join(["", *lines]) for lines in sections)])

    @property
    def _problem(self) -> Problem:
        if self.problem is None:
            raise TempuraError("UNKNOWN_SHOW", "Of this plan nothing but its steps is known.", "Plan anew.")
        return self.problem

    @property
    def remarks(self) -> tuple[str, ...]:
        """From what prices it is, what they were multiplied by, whether it was compared with others, and at which times nothing is to be
        done, a line for each."""
        stays = (
            f"goes on as the last run did: the cheapest plan, of {seconds(self.plan.cheapest)}, promises to save too little"
            if self.plan.cheapest is not None
            else ""
        )
        follows = f"goes on as run {self.followed} chose, which compared all: the others' costs are of then"
        return tuple(
            filter(
                None,
                (
                    f"prices: {self.prices}",
                    self.correction.text,
                    self.doubt.text,
                    follows if self.followed else "",
                    stays,
                    f"nothing at {', '.join(self.put_off)}: {_THE_NEXT}" if self.put_off else "",
                ),
            )
        )

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is assumed to arrive, and why: a line per table."""
        return tuple(f.text(self.labels[-len(f.arrivals) :]) for f in self.forecasts if f.arrivals)

    def __str__(self) -> str:
        return self.explain()

    def save_html(self, path: str | Path, show: str | Collection[str] = "cost,rows,method,rule") -> None:
        """Write the plan as an HTML page."""
        save_html(self.explain(show), path)

    def to_json(self, show: str | Collection[str] = ()) -> dict[str, Any]:
        """The plan as plain data: costs in nanoseconds of one core. ``show``: memo, steps and rules as for :meth:`explain`."""
        _, below = _shown(show)
        assumed = [asdict(forecast) for forecast in self.forecasts]
        found = to_json(self.plan, self.labels, self.does) | {"assumed": assumed, "waiting": list(self.waiting)}
        found |= {
            "correction": asdict(self.correction),
            "followed": self.followed,
            "prices": self.prices,
            "put_off": list(self.put_off),
            "doubt": asdict(self.doubt),
        }
        return found | {name: section_json(name, self.plan, self._problem, self.methods) for name in below}

    def _time(self, label: str) -> int:
        for time, known in enumerate(self.labels):
            if _is_named(known, label):
                return time
        if any(_is_named(known, label) for known in self.put_off):
            raise TempuraError(
                "UNKNOWN_TIME", f"Nothing is planned for {label}: {_THE_NEXT}.", f"See {self.labels[-1]}."
            )
        remedy = f"Its times are {', '.join(self.labels)}."
        raise TempuraError("UNKNOWN_TIME", f"The plan has no time {label!r}.", remedy)


def _is_named(time: str, label: str) -> bool:
    """Whether a time is meant, with its day or without."""
    return label in (time, time.split(" ")[-1])


def plan_of(
    plan: ProgressivePlan,
    situation: Situation,
    first: bool,
    followed: int | None = None,
    methods: tuple[str, ...] = (ALL,),
) -> QueryPlan:
    """A plan as the user sees it. ``first``: the query has no result yet; ``followed`` and ``methods`` as in :class:`QueryPlan`."""
    does: dict[int, Character] = {}
    for step in plan.steps:
        found = character_of(step, situation.problem, first)
        does[step.time] = (
            replace(found, why=(*found.why, *_why_recomputed(plan, situation))) if found.kind == RECOMPUTED else found
        )
        first = first and step.emit is None
    known = (situation.forecasts, situation.waiting, situation.correction)
    prices = situation.problem.prices.origin
    told = (prices, situation.doubt, situation.put_off)
    return QueryPlan(plan, situation.labels, does, *known, followed, situation.problem, methods, *told)


def does_now(shown: QueryPlan, situation: Situation) -> Character:
    """What the run does that is to be executed, by the plan that was made for it."""
    if situation.idle:
        return Character(NOTHING, why=(_PUT_OFF.format(situation.labels[situation.now]),))
    return shown.does.get(situation.now, Character(NOTHING))


def _why_recomputed(plan: ProgressivePlan, situation: Situation) -> tuple[str, ...]:
    """Why a step recomputes the whole query: what was lost, what cannot be maintained, and what it does not pay to."""
    lost = () if situation.states else ("no state of a run before can be loaded",)
    others = [a for a in plan.alternatives if not a.chosen and a.states]
    chosen = next((a for a in plan.alternatives if a.chosen), None)
    if chosen is None or chosen.states or not others:
        return (*lost, *map(str, plan.fallbacks))
    cheapest = min(others, key=lambda a: a.cost)
    compared = f"{seconds(cheapest.cost)} by {cheapest.method}, against {seconds(plan.cost)}"
    unsure = f"by under {situation.problem.margin:.0%}, which estimates may be wrong by"
    if situation.doubt.runs:
        unsure = f"not by the factor of {situation.doubt.factor:.1f} by which that took more than was promised before"
    less = "more" if cheapest.cost >= plan.cost else f"less, but {unsure}"
    return (*lost, *map(str, plan.fallbacks), f"to maintain it is estimated to cost {less}: {compared}")


def _shown(show: str | Collection[str]) -> tuple[list[str], list[str]]:
    """What is shown beside operators, and below the plan."""
    names = [n.strip() for n in show.split(",")] if isinstance(show, str) else list(show)
    unknown = sorted(set(filter(None, names)) - {*SHOW, *SECTIONS})
    if unknown:
        choice = ", ".join((*SHOW, *SECTIONS))
        raise TempuraError("UNKNOWN_SHOW", f"explain cannot show {', '.join(unknown)}.", f"Choose of {choice}.")
    return [name for name in names if name in SHOW], [name for name in names if name in SECTIONS]


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did. ``nothing``: it had nothing to do, for the reason ``why``. Costs are estimates in nanoseconds of one core;
    ``cpu_seconds`` (of tasks), ``driver_seconds`` (CPU of the driver, Python included) and ``wall_seconds`` were measured; ``rows`` of
    the result, None when none was due; ``fallbacks`` say what the plan recomputes and why; ``does`` what this step did to the result:
    maintained, or recomputed (``explain.character``). The measured figures are those of the step; ``phases`` are those of the run, in
    which it is computing. Of a flush of a query at paces: all figures are those of its steps together, ``paths`` what was released,
    ``progress`` the share of the expected rows that had come, ``predicted_cost`` what the paces were planned with. ``not_kept``: the
    states that were saved and not kept, for they took more than the state budget."""

    query: str
    label: str = ""
    nothing: bool = False
    why: str = ""
    dry_run: bool = False
    n: int = 0
    method: str = ""
    weight: float = 0.0
    estimated_cost: int = 0
    cpu_seconds: float = 0.0
    driver_seconds: float = 0.0
    wall_seconds: float = 0.0
    rows: int | None = None
    inputs: Mapping[str, int] | None = None
    states: int = 0
    skipped: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    plan: str = ""
    does: Character | None = None
    waiting: tuple[str, ...] = ()
    phases: Phases = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    progress: float | None = None
    predicted_cost: int | None = None
    not_kept: tuple[str, ...] = ()

    @property
    def all_cpu_seconds(self) -> float:
        """CPU seconds of tasks and driver: what ``estimated_cost`` estimates."""
        return self.cpu_seconds + self.driver_seconds

    @property
    def run_cpu_seconds(self) -> float:
        """CPU seconds of the whole run: of the step, and of the driver beside it."""
        beside = phases.beside(self.phases)
        return self.all_cpu_seconds + beside.jvm_seconds + beside.python_seconds

    @property
    def run_wall_seconds(self) -> float:
        """Seconds that the whole run took."""
        return sum(spent.wall_seconds for spent in self.phases.values())

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def table(self) -> str:
        """Estimated against actual, as text."""
        if self.nothing:
            return f"{self.query}: nothing to do, {self.why}"
        head = (
            "query", "time", "method", "does", "weight", "estimated s", "tasks s", "driver s", "wall s",
            "rows", "states",
        )  # fmt: skip
        measured = (self.cpu_seconds, self.driver_seconds, self.wall_seconds)
        actual = ["-" if self.dry_run else f"{value:.2f}" for value in measured]
        rows = "-" if self.rows is None else str(self.rows)
        estimated = f"{self.estimated_cost / 1e9:.3f}"
        does = str(self.does) if self.does else ""
        figures = (f"{self.weight:g}", estimated, *actual, rows, str(self.states))
        skipped = f"\nskipped: {listed(self.skipped)}" if self.skipped else ""
        recomputed = "".join(f"\n{line}" for line in self.does.lines()) if self.does else ""
        table = columns_text(head, [(self.query, self.label, self.method, does, *figures)])
        beside = f"\n{phases.text(self.phases)}" if self.phases else ""
        released = f"\n{flush_text(self.paths, self.progress, self.predicted_cost)}" if self.paths else ""
        failed = "".join(f"\n{reason}" for reason in self.fallbacks) if self.paths else ""
        failed += "".join(f"\nnot kept: {text}" for text in self.not_kept)
        return table + beside + recomputed + released + failed + skipped + (self._not_done() if self.dry_run else "")

    def _not_done(self) -> str:
        """What a run would read, and its plan."""
        inputs = ", ".join(version_text(*pinned) for pinned in (self.inputs or {}).items())
        lines = ("", f"reads: {inputs}", *(f"waiting: {text}" for text in self.waiting))
        return "\n".join((*lines, "", self.plan, "", "nothing was done"))

    def __str__(self) -> str:
        return self.table()


def flush_text(paths: Sequence[str], progress: float | None, predicted: int | None) -> str:
    """In a line: what a flush released, when, and how much work it was expected to be."""
    expected = "" if predicted is None else f", predicted {seconds(predicted)}"
    return f"released at {progress or 0.0:.1%} of the rows: {', '.join(paths)}{expected}"


def report_of_flush(query: str, steps: Sequence[StepManifest], fallbacks: Sequence[str] = ()) -> RunReport:
    """The report of a flush: its steps together, which are at least one."""
    entry = _flush_entry(steps)
    return RunReport(
        query=query,
        label=entry.label,
        n=entry.n,
        method=entry.method,
        weight=entry.weight,
        estimated_cost=entry.estimated_cost,
        cpu_seconds=entry.cpu_seconds,
        driver_seconds=entry.driver_seconds,
        wall_seconds=entry.wall_seconds,
        rows=entry.rows,
        inputs=entry.versions,
        states=entry.states,
        fallbacks=tuple(fallbacks),
        phases=entry.phases,
        paths=entry.paths,
        progress=entry.progress,
        predicted_cost=entry.predicted_cost,
    )


def report_of(query: str, step: StepManifest, fallbacks: Iterable[Reason] = ()) -> RunReport:
    """The report of a committed step. ``fallbacks`` of its plan."""
    return RunReport(
        query=query,
        label=str(step.slot),
        n=step.n,
        method=step.method,
        weight=step.weight,
        estimated_cost=step.estimated_cost,
        cpu_seconds=step.cpu_seconds,
        driver_seconds=step.driver_seconds,
        wall_seconds=step.wall_seconds,
        rows=step.output.rows if step.output else None,
        inputs=dict(step.inputs),
        states=len(step.states),
        skipped=tuple(str(slot) for slot in step.skipped),
        fallbacks=tuple(str(reason) for reason in fallbacks),
        does=step.does,
        phases=step.phases,
        not_kept=step.not_kept,
    )


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A committed run. ``label`` names its time; ``versions`` are those of the tables that it read; the rest as in
    :class:`RunReport`."""

    n: int
    label: str
    logical_time: str
    versions: Mapping[str, int]
    method: str
    weight: float
    estimated_cost: int
    cpu_seconds: float
    wall_seconds: float
    rows: int | None
    states: int
    skipped: tuple[str, ...]
    does: Character | None = None
    driver_seconds: float = 0.0
    phases: Phases = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    progress: float | None = None
    predicted_cost: int | None = None

    @property
    def beside_seconds(self) -> float | None:
        """Seconds that passed beside the step: to look what has arrived, to plan, to store. None when they were not noted."""
        return phases.beside(self.phases).wall_seconds if self.phases else None

    @property
    def actual_cost(self) -> int:
        """What the run took, of tasks and driver, in nanoseconds of one core: what ``estimated_cost`` estimates."""
        return int((self.cpu_seconds + self.driver_seconds) * 1e9)

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
    )


def flushes_of(own: Sequence[StepManifest], others: Sequence[StepManifest]) -> tuple[HistoryEntry, ...]:
    """The entries of a query at paces, oldest first: one per flush, from the steps of all segments, and runs of other schedules as they
    are. ``own`` are those under the query's own name."""
    flushes: dict[tuple[int, int], list[StepManifest]] = {}
    for step in (*others, *own):
        if step.flush:
            flushes.setdefault((step.flush.life, step.flush.n), []).append(step)
    found = [*map(_flush_entry, flushes.values()), *(history_of(step) for step in own if not step.flush)]
    return tuple(sorted(found, key=lambda entry: (entry.logical_time, entry.n)))


def _flush_entry(steps: Sequence[StepManifest]) -> HistoryEntry:
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
        paths=flush.names,
        progress=flush.progress,
        predicted_cost=flush.predicted,
    )


def or_error(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is told of a table or a query; of one that is broken, what is wrong with it under ``error``. So one that is hides no other."""
    try:
        with errors_by_code():
            return look()
    except TempuraError as error:
        return {"error": told(error)}


def told(error: TempuraError) -> dict[str, str]:
    """An error as plain data."""
    return {"code": error.code, "what": error.what, "remedy": error.remedy, "command": error.command}


def listed(times: Sequence[str]) -> str:
    """Times in words: all of a few, else how many there are, the first and the last."""
    return ", ".join(times) if len(times) <= _FEW else f"{len(times):,} times, {times[0]} to {times[-1]}"


_FEW = 4


def columns_text(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in plain text, columns aligned."""
    table = [tuple(head), *map(tuple, lines)]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    return "\n".join("  ".join(v.ljust(w) for v, w in zip(line, widths, strict=True)).rstrip() for line in table)
