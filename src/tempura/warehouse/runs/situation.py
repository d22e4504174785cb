"""Where a query stands: the run to be planned, its pinned inputs, and the states that can be loaded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tempura.algebra.canonical import fingerprint
from tempura.algebra.equalities import known_together
from tempura.algebra.rel import scans
from tempura.errors import Reason, TempuraError
from tempura.execute.contract import StoredState
from tempura.execute.parts import stored_facts
from tempura.frontend.clock import is_clock
from tempura.frontend.lift import Lifted
from tempura.memo.references import NO_KEYS
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.search.problem import MARGIN, MARGIN_OF_VIEWS, Point, Problem, TableFacts
from tempura.tvr.staircase import whole
from tempura.tvr.views import Delta
from tempura.warehouse.batches.sample import several
from tempura.warehouse.batches.sketch import ColumnSketch
from tempura.warehouse.commits.seals import damage_of
from tempura.warehouse.engine import Engine, Settings, Source
from tempura.warehouse.runs.budget import past_within, stored_share
from tempura.warehouse.tables.facts import Versions, forecast_of, table_facts
from tempura.warehouse.tables.kept import kept
from tempura.warehouse.tables.prospect import Prospect
from tempura.warehouse.tables.site import Site
from tempura.warehouse.tables.sketches import sketches_for
from tempura.warehouse.tables.table import Arrivals
from tempura.warehouse.tables.transaction import untorn
from tempura.warehouse.tables.uses import Input, version_to_read
from tempura.warehouse.times.correction import NONE, Correction, correction_of
from tempura.warehouse.times.doubt import NO_DOUBT, Doubt, doubt_of
from tempura.warehouse.times.forecast import Forecast, Rows, intervals, intervals_to_come, of_a_view
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.slots import Slot, result_after
from tempura.warehouse.times.steps import Name, SavedState, StepManifest, absolute, last_begun, last_with_states

LOOKED_BACK = 16
"""Of so many runs is known what they counted."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """How many results are expected to use what a run begins with: as many as there were since states were begun last, at
    most as many as the first one is expected to serve. So who changes its mind each time has to get back at the next what it
    builds. ``after``: the label of the result after the next; ``more``: what is expected to arrive before that, for all tables or as
    before the next. ``price``: what is charged for the run, where that is not what its cost is weighed by."""

    uses: int
    after: str
    margin: float
    more: Mapping[str, Rows] = field(default_factory=dict)
    price: float | None = None

    def may_be_worth(self, otherwise: ProgressivePlan) -> bool:
        """Whether it would be if nothing had to be kept for the result after the next: else nobody need look for such a plan."""
        return otherwise.begun is not None and self._saves(otherwise.begun, otherwise, self.uses)

    def is_worth(self, begun: ProgressivePlan, otherwise: ProgressivePlan) -> bool:
        """Whether a plan saves clearly against one that was not asked to begin with states, whose result after the next is taken to cost
        what the next one does. Where that does not go on from what it keeps, as where few rows come before the next result and many
        before each other, what it builds serves the next alone."""
        kept = {save.key for step in begun.steps for save in step.saves}
        if any(isinstance(rel, Load) and rel.key in kept for rel in begun.steps[-1].operators):
            return self._saves(begun.cost, otherwise, self.uses)
        unpaid = (self.uses - 1) * begun.weights[0] * begun.steps[0].cost
        return self._saves(begun.cost + unpaid, otherwise, 1)

    def _saves(self, cost: float, otherwise: ProgressivePlan, uses: int) -> bool:
        now, *later = (weight * step.cost for weight, step in zip(otherwise.weights, otherwise.steps, strict=True))
        return cost <= (1 - self.margin) * (now / uses + sum(later) + later[-1])


@dataclass(frozen=True, slots=True)
class Situation:
    """A planning problem and what its leaves mean. ``pinned`` gives the versions of the tables at the first points: at the point of
    the past when there is one, then now. ``lost`` says which states cannot be loaded any more. ``root`` is the warehouse's folder,
    ``time`` the logical time of the run. ``forecasts`` are what is assumed to arrive before the points to come; ``waiting``: the rows
    that a plan counts on and no one has registered yet. ``correction`` is what the prices were multiplied by; ``steps_run`` by the
    session before; ``doubt`` is what earlier runs say of plans with states; ``given_up`` are states that are over the budget;
    ``beginning``: what there is to know for a run to begin with states; None where it is not to be asked; ``begins``: by what it was asked
    that. ``put_off``: the times at which nothing is planned, because it may as well be done at the next one that is a time point. If that
    of the run is among them, it is ``idle``, and the plan is of what is expected at the next one."""

    problem: Problem
    pinned: tuple[Versions, ...]
    tables: Mapping[str, Input]
    states: Mapping[StateKey, SavedState]
    labels: tuple[str, ...]
    root: Path
    time: datetime
    lost: tuple[Reason, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    waiting: tuple[str, ...] = ()
    correction: Correction = NONE
    steps_run: int = 0
    doubt: Doubt = NO_DOUBT
    given_up: tuple[Name, ...] = ()
    beginning: Beginning | None = None
    begins: Beginning | None = None
    put_off: tuple[str, ...] = ()
    idle: Point | None = None

    @property
    def now(self) -> int:
        """The first time point of the plan: that of the run to be executed, unless it is idle."""
        return len(self.pinned) - 1

    @property
    def point(self) -> Point:
        """What the run to be executed is to give, and at what price."""
        return self.idle or self.problem.points[self.now]

    @property
    def price(self) -> float:
        """What is charged for work of the run to be executed. Of a view that begins with states, which are paid once, a part."""
        paid = self.begins.price if self.begins else None
        return self.point.weight if paid is None else paid

    @property
    def versions(self) -> Versions:
        """The versions that the run reads."""
        return self.pinned[-1]

    def source(self, read: Read) -> Source:
        """The rows that a read stands for. Raises TempuraError UNSIGNED_READ when deletions would be lost."""
        table = self.tables[read.scan.table]
        at = read.at
        after = self.pinned[whole(at.t)][table.name] if isinstance(at, Delta) else 0
        source = table.source(after, self.pinned[at.time][table.name])
        if source.rows.signed and not read.signed:
            what = f"The plan reads {read.label} as if nothing was deleted."
            raise TempuraError("UNSIGNED_READ", what, "This is a defect of the planner; please report it.")
        return source

    def state(self, key: StateKey) -> StoredState:
        """A stored state. Raises TempuraError UNKNOWN_STATE."""
        if key not in self.states:
            raise TempuraError("UNKNOWN_STATE", f"The plan loads {key}, which is not stored.", "Please report it.")
        stored = self.states[key].stored
        return stored.with_parts(absolute(part, self.root) for part in stored.parts)

    def ahead(self, weight: float) -> "Situation":
        """The same run without a result, at another price of work."""
        points = tuple(Point(weight, False) if t == self.now else point for t, point in enumerate(self.problem.points))
        return replace(self, problem=replace(self.problem, points=points))

    def as_first(self, begins: Beginning) -> "Situation":
        """The same run asked as a first one: whether to begin with states that earlier runs have not left. Of the times before the next
        result none but its own is looked at."""
        last = len(self.labels) - 1
        looked_at = (*range(self.now + 1), last)
        problem = self.problem.at(looked_at).beginning(begins.uses, begins.more)
        labels = (*(self.labels[t] for t in looked_at), begins.after)
        until = (forecast.before([last - self.now - 1]) for forecast in self.forecasts)
        forecasts = tuple(forecast.and_then(begins.more.get(forecast.table)) for forecast in until)
        return replace(self, problem=problem, labels=labels, forecasts=forecasts, beginning=None, begins=begins)

    def without_damaged(self, step: Step) -> "Situation":
        """The situation without those of the states that a step loads whose files are not what was committed; itself when all
        are."""
        keys = {rel.key for rel in step.operators if isinstance(rel, Load)} & set(self.states)
        lost = {key: wrong for key in sorted(keys, key=str) if (wrong := damage_of(self.state(key)))}
        if not lost:
            return self
        states = {key: state for key, state in self.states.items() if key not in lost}
        reasons = tuple(Reason("STATE_DAMAGED", f"{key} is computed anew: {wrong}") for key, wrong in lost.items())
        problem = replace(self.problem, states=frozenset(states))
        return replace(self, problem=problem, states=states, lost=(*self.lost, *reasons))


def assess(
    lifted: Lifted,
    schedule: Schedule,
    slot: Slot,
    steps: Sequence[StepManifest],
    input: Callable[[str], Input],
    site: Site,
    settings: Settings,
    time: datetime,
    anew: bool = False,
    rules: Registry = TEMPURA,
    may_ask: bool = False,
    budget: int | None = None,
    storage_price: float = 0.0,
) -> Situation:
    """Register what has arrived, pin the versions, and pose the planning problem of a run and those that remain. ``input`` gives what
    the query reads by name (a :class:`Prospect`: nothing is registered), ``time`` is the logical time of the run. ``anew``: no state of
    the past is used. ``rules`` are those to plan by. ``may_ask``: the engine may be asked the query as it is written. ``budget``: the
    bytes that states may take; ``storage_price``: nanoseconds for each of them."""
    read = {name: input(name) for name in names_read(lifted)}
    # Rows before their partners: of files that come meanwhile a partner is not missed.
    versions = {name: version_to_read(read[name]) for name in _rows_first(read)}
    versions |= untorn({n: t for n, t in read.items() if isinstance(t, Arrivals)}, versions)
    _check_static(read, versions)
    past, over = past_within(None if anew else _past(steps, site.engine, settings, read), budget)
    points = schedule.points_from(slot.index, done=past is not None, extra=slot.extra)
    # Of a table that the past did not read, no state was built either: nothing has arrived in it since.
    before = {name: past.inputs.get(name, versions[name]) for name in read} if past else {}
    pinned: tuple[Versions, ...] = (before, versions) if past else (versions,)
    past_runs = intervals(schedule, steps, slot, versions)
    count = len(points) - len(pinned)
    ahead = intervals_to_come(schedule, slot, count)
    ends = range(len(ahead) - count, len(ahead))

    def expected_in(intervals: Sequence[tuple[str, int]]) -> dict[str, Forecast]:
        return {name: forecast_of(table, versions[name], past_runs, intervals) for name, table in read.items()}

    forecasts = {name: found.before(ends) for name, found in expected_in(ahead).items()}
    forecasts = of_a_view(forecasts) if schedule.kind == "view" else forecasts
    keys = kept(lifted.rel, read, pinned)
    facts = {
        n: table_facts(t, [v[n] for v in pinned], forecasts[n], _sketches(t, versions[n], lifted), keys.get(n, NO_KEYS))
        for n, t in read.items()
    }
    states = {s.key(0): s for s in past.states} if past else {}
    stored = {key: stored_facts(state.stored) for key, state in states.items()}
    labels = (*((str(past.slot),) if past else ()), *_labels(schedule, slot))
    run, priced = site.engine.steps_run, site.engine.prices
    origin, beside = priced.origin, priced.beside_tasks
    correction = correction_of(steps, run, origin, beside) if site.engine.is_measured else NONE
    mark = fingerprint(lifted.rel)
    doubt = doubt_of([step for step in steps if step.fingerprint == mark], run, origin, correction, beside)
    prices = correction.of(priced)
    as_written = without_deletions(facts, len(points)) if may_ask else frozenset()
    counted = counted_by(steps)
    share = stored_share(steps[-LOOKED_BACK:])
    given = (lifted.rel, points, facts, frozenset(states), stored, prices, rules, counted, as_written)
    goes_on = schedule.kind == "view" or (schedule.kind == "progressive" and any(step.output for step in steps))
    margin = MARGIN_OF_VIEWS if goes_on else MARGIN
    problem = Problem(*given, state_budget=budget, stored_share=share, margin=margin, storage_price=storage_price)
    worth = problem.worth_working
    now = len(pinned) - 1
    idle = None if now in worth else points[now]
    put_off = tuple(label for t, label in enumerate(labels) if t not in worth)
    problem, labels = problem.at(worth), tuple(labels[t] for t in worth)
    to_come = [t - len(pinned) for t in worth if t > now]
    forecasts = {name: found.before(to_come) for name, found in forecasts.items()}
    waiting = tuple(table.waiting for table in read.values() if isinstance(table, Prospect) and table.waiting)
    known = (problem, pinned, read, states, labels, site.root, time)
    said = (tuple(over.values()), tuple(forecasts.values()), waiting, correction, run, doubt)
    beginning = None
    # A first refresh of a view is asked that anyway.
    if goes_on and not slot.extra and idle is None and (past is not None or schedule.kind != "view"):
        beginning = _beginning(schedule, slot, steps, margin, expected_in)
    return Situation(*known, *said, given_up=tuple(over), beginning=beginning, put_off=put_off, idle=idle)


def _beginning(
    schedule: Schedule,
    slot: Slot,
    steps: Sequence[StepManifest],
    margin: float,
    expected_in: Callable[[Sequence[tuple[str, int]]], Mapping[str, Forecast]],
) -> Beginning | None:
    """What there is to know for a refresh to begin with states, or for the run of a day at which work costs least."""
    uses = _uses(schedule.results_to_come, steps)
    if uses <= 1:
        return None
    if schedule.kind == "view":
        return Beginning(uses, _refresh(slot.index + 3), margin)
    if not schedule.is_cheapest(slot.index):
        return None
    day = intervals_to_come(schedule, replace(slot, index=len(schedule.times) - 1), 1)
    more = {name: found.before([len(day) - 1]).arrivals[0] for name, found in expected_in(day).items()}
    return Beginning(uses, result_after(slot, schedule), margin, more, schedule.weights[slot.index])


def _uses(n: int, steps: Sequence[StepManifest]) -> int:
    """How many results there were since states were begun last, at most ``n``; so many if they never were."""
    begun = last_begun(steps)
    return n if begun is None else min(n, sum(1 for step in steps[begun:] if step.output))


def without_deletions(facts: Mapping[str, TableFacts], points: int) -> frozenset[int]:
    """The time points at which no table has deletions, or it is known where the deleted rows lie: rows net of others take longer to find
    than signed rows take to be computed with."""
    tables = [table for name, table in facts.items() if not is_clock(name)]
    return frozenset(
        t for t in range(points) if all(table.deletions_read(t) == table.places_read(t) for table in tables)
    )


def counted_by(steps: Sequence[StepManifest]) -> dict[str, tuple[float, float]]:
    """What the last runs of a query counted, the newest of each."""
    return {name: rows for step in steps[-LOOKED_BACK:] for name, rows in step.counted.items()}


def _sketches(table: Input, version: int, lifted: Lifted) -> Mapping[str, ColumnSketch]:
    """The sketches of the columns that a query uses, and of those by several of which it joins or groups."""
    used = {name for scan in scans(lifted.rel) if scan.table == table.name for name in scan.fields}
    used |= {several(fields) for name, fields in known_together(lifted.rel) if name == table.name}
    return sketches_for(table, version, used)


def names_read(lifted: Lifted) -> tuple[str, ...]:
    """The names of the tables, and of the clocks, that a query reads."""
    return tuple(sorted({scan.table for scan in scans(lifted.rel)}))


def _past(
    steps: Sequence[StepManifest], engine: Engine, settings: Settings, tables: Mapping[str, Input]
) -> StepManifest | None:
    """The last step that left states which can be loaded now. Those of one before it are none, though it may have read the same rows:
    sums of floats that were computed apart must not meet. Nor are those over rows that a table has forgotten."""
    past = last_with_states([s for s in steps if s.given_up or s.is_loadable(engine.version, settings)])
    return past if past and is_followed(past, tables) else None


def is_followed(step: StepManifest, tables: Mapping[str, Input]) -> bool:
    """Whether the tables have gone on from what a step read of them: none was reset or made anew since."""
    read = ((tables[name], name, version) for name, version in step.inputs.items() if name in tables)
    return all(table.follows(version, step.pins.get(name)) for table, name, version in read)


def _rows_first(tables: Mapping[str, Input]) -> list[str]:
    """The names of tables, those that refer to others before these, as far as that can be."""
    left, found = list(tables), list[str]()
    refers = {name: set(tables[name].spec.partners) - {name} for name in tables}
    while left:
        free = [name for name in left if not any(name in refers[other] for other in left)]
        found.append((free or left)[0])
        left.remove(found[-1])
    return found


def _check_static(tables: Mapping[str, Input], versions: Versions) -> None:
    for name, table in tables.items():
        if table.spec.static and versions[name] == 0:
            what = f"Table {name} is static, but nothing has arrived in it yet."
            raise TempuraError("STATIC_EMPTY", what, "Put its rows in before the first run (an empty arrival counts).")


def _labels(schedule: Schedule, slot: Slot) -> tuple[str, ...]:
    if schedule.kind == "view":
        return tuple(_refresh(slot.index + i) for i in (1, 2))
    if schedule.ends_a_day(slot.index, slot.extra):
        return str(slot), result_after(slot, schedule)
    return (str(slot), *schedule.times[slot.index + (not slot.extra) :])


def _refresh(number: int) -> str:
    return f"refresh {number}"
