"""The paces of a query in a warehouse: planned from what is known of its tables, kept in a ledger, and planned again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np

from tempura.algebra.rel import Aggregate, Scan
from tempura.cost.model import CostModel
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.explain.paces import cut_tree
from tempura.pace.arrivals import following
from tempura.pace.cut import Cut, Operator
from tempura.pace.flow import Mask
from tempura.pace.goal import Plan
from tempura.pace.simulate import Simulation
from tempura.pace.statistics import Statistics, corrected, estimated, groups_in_the_end, groups_there, rows_in_the_end
from tempura.pace.strategies import paces_by_name, plan_paces
from tempura.pace.work import nanoseconds
from tempura.search.counts import Rows
from tempura.warehouse.paces.cycle import Cycle
from tempura.warehouse.tables.clock import Clock, clock_facts
from tempura.warehouse.tables.facts import table_facts
from tempura.warehouse.tables.sketches import sketches_for
from tempura.warehouse.tables.uses import Input, Use
from tempura.warehouse.times.deadline import Deadline
from tempura.warehouse.times.forecast import Forecast

_OFF = 0.25
"""By which part of the rows that were expected other expectations make another plan."""

_MORE = 2.0
"""With so many times the rows of the last planning statistics say something new."""

_OTHER_GROUPS = 2.0
"""By such a factor the groups of a segment differ from what was expected when paces are planned again."""

_OTHER_ROWS = 2.0
"""By such a factor the rows of a condition or a join are off when paces are planned again ..."""

_MATTERS = 0.01
"""... if that is at least this part of the rows that have come."""

_UNIQUE = 0.9
"""A column with so many values per row has more when there are more rows."""


@dataclass(frozen=True, slots=True)
class Paces:
    """Paces of all paths, planned at a time for a deadline (``until``; rows counted ``since``). ``names`` are where the paths start.
    ``expected`` are the rows that were to come, by table (empty: time tells), ``came`` how many had. ``work`` is what all flushes at
    each of as many steps of equal progress are expected to take, ``batch``, ``final`` and ``total`` that of one flush of all rows, of the
    last flush and of all, in nanoseconds; ``meets``: whether the goal is expected to be met. ``why`` it was planned then. ``before`` is the
    share of all rows that was there before the cycle; ``groups`` tells of each segment that groups rows how many groups it is expected to
    have in the end, of how many rows; ``off`` how many times as many rows as the tables let expect conditions and joins were taken to
    have, by the names of :meth:`Known.rates`."""

    time: str
    since: str
    until: str
    strategy: str
    goal: str
    names: tuple[str, ...]
    paces: tuple[int, ...]
    expected: Mapping[str, int]
    came: int
    work: tuple[float, ...]
    batch: float
    final: float
    total: float
    meets: bool
    why: str
    before: float = 0.0
    groups: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    off: Mapping[str, float] = field(default_factory=dict)

    def predicted(self, before: float, now: float) -> int | None:
        """What flushes after one progress up to another are expected to take."""
        if not self.work:
            return None
        steps = np.arange(1, len(self.work) + 1) / len(self.work)
        wanted = (steps > before + 1e-9) & (steps <= now + 1e-9)
        return int(np.asarray(self.work)[wanted].sum())

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Paces":
        """The inverse of :meth:`to_json`."""
        lists: dict[str, Any] = {name: tuple(data[name]) for name in ("names", "paces", "work")}
        lists["groups"] = {segment: tuple(found) for segment, found in data["groups"].items()}
        return Paces(**{known.name: data[known.name] for known in fields(Paces) if known.name in data} | lists)

    def text(self, made: Cut) -> str:
        """For people: the segments and paths of the query with their paces, and what is expected."""
        expected = f"final work {self.final / self.batch:.3f}, total work {self.total / self.batch:.3f} of one batch"
        met = (
            f"{'met' if self.meets else 'not met'}, expected: {expected}" if self.batch else "nothing is known of work"
        )
        head = f"paces by {self.strategy} for {self.goal} until {self.until}: {met}"
        return "\n".join([head, f"planned at {self.time}: {self.why}", *cut_tree(made, self.paces).lines()])


@dataclass(frozen=True)
class Known:
    """What a plan of paces is made from: a cut query, its ``tables`` at present, the ``cycle`` with what ``came`` in it by ``now``, and
    the flushes that have been in it, as the numbers of the paths and the progress then. ``seen`` are the rows that segments have given
    out by their last steps, and the progress then; ``counted`` those of conditions and joins, and how many were expected."""

    cut: Cut
    tables: Mapping[str, Input]
    cycle: Cycle
    came: Mapping[str, int]
    now: datetime
    flushed: Sequence[tuple[tuple[int, ...], float]]
    prices: CostModel
    seen: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    counted: Mapping[Operator, Rows] = field(default_factory=dict)

    @property
    def off(self) -> dict[Operator, float]:
        """How many times as many rows as were expected were counted: of few rows nobody knows, so there is one more of each."""
        return {op: (rows + 1) / (expected + 1) for op, (rows, expected) in self.counted.items()}

    def rates(self) -> Iterator[tuple[str, Operator]]:
        """The operators that were counted, by segment and place in it."""
        for segment in self.cut.segments:
            for place, op in enumerate(segment.operators):
                if op in self.counted:
                    yield f"s{segment.number}.{place}", op

    @property
    def progress(self) -> float:
        """How far the cycle has come."""
        return self.cycle.progress(self.came, self.now)

    def why_again(self, last: Paces | None, deadline: Deadline) -> str | None:
        """Why paces are to be planned (again); None when those that there are will do."""
        if last is None or last.until != deadline.until:
            return "nothing was planned yet"
        if (last.strategy, last.goal) != (_said(deadline), str(deadline.goal)):
            return "something else is asked for"
        if not isinstance(deadline.strategy, str):
            return None
        before, now = sum(last.expected.values()), sum(self.cycle.total(self.came, self.now).values())
        if self.cycle.expected and abs(sum(self.cycle.expected.values()) - before) > _OFF * before:
            return f"{now:,} rows are expected, not {before:,}"
        if sum(self.came.values()) > _MORE * last.came:
            return f"{sum(self.came.values()):,} rows have come, {last.came:,} had"
        return next(chain(self._other_rates(last), self._other_groups(last)), None)

    def _other_rates(self, last: Paces) -> Iterator[str]:
        """The conditions and joins of which far more or fewer rows were counted than they were taken to have, by enough to matter."""
        matters = _MATTERS * sum(self.came.values())
        for name, op in self.rates():
            rows, expected = self.counted[op]
            taken = (expected + 1) * last.off.get(name, 1.0) - 1
            if abs(rows - taken) > matters and not 1 / _OTHER_ROWS <= (rows + 1) / (taken + 1) <= _OTHER_ROWS:
                yield f"{op.rel.label} in segment {name.split('.')[0]} gave {rows:,.0f} rows, {taken:,.0f} were expected"

    def _other_groups(self, last: Paces) -> Iterator[str]:
        """The segments whose groups are far more or fewer than were expected by now."""
        for number, (groups, rows) in last.groups.items():
            found, progress = self.seen.get(int(number), (0, 0.0))
            expected = groups_there(groups, rows, last.before + (1 - last.before) * progress)
            if found and progress and not expected / _OTHER_GROUPS <= found <= expected * _OTHER_GROUPS:
                yield f"segment s{number} has {found:,} rows, {expected:,.0f} were expected by now"


@dataclass(frozen=True)
class Searched:
    """Paces that were looked for: the ``plan`` with the points that the search came by, and the ``steps`` of equal progress, the work of
    all flushes at each; by ``statistics`` of the operators, with so many ``rows`` of each table in the end, of which the share ``before``
    was there before the cycle."""

    plan: Plan
    steps: tuple[int, ...]
    statistics: Statistics
    rows: Mapping[str, float]
    before: float


def search(known: Known, deadline: Deadline) -> Searched | None:
    """Look for paces by what is known; None while no rows are there or expected. Raises TempuraError BAD_PACES."""
    made, total, chosen = known.cut, known.cycle.total(known.came, known.now), deadline.chosen_by
    facts = {
        name: _in_the_end(table, total.get(name, 0) - known.came.get(name, 0), _used(made, name))
        for name, table in known.tables.items()
    }
    if not any(found.rows(0) for name, found in facts.items() if not isinstance(known.tables[name], Clock)):
        return None
    rows = {name: float(max(1, found.rows(0))) for name, found in facts.items()}
    before = max(0.0, 1 - sum(total.values()) / sum(rows.values()))
    arrivals = following(rows, before, deadline.max_pace)
    statistics = _with_groups(known, corrected(estimated(made, facts), known.off), rows, before)
    work = nanoseconds(made, facts, known.prices, statistics)
    whole = Simulation(made, statistics, arrivals, work)
    batch = float(whole.run([[1] * len(made.paths)]).total[0])
    simulation = replace(whole, past=_past(known, deadline.max_pace)) if isinstance(chosen, str) else whole
    found = plan_paces(simulation, deadline.goal, chosen, batch=batch)
    steps = tuple(round(float(nanos)) for nanos in simulation.run([found.paces]).steps[0])
    return Searched(found, steps, statistics, rows, before)


def plan(known: Known, deadline: Deadline, why: str) -> Paces | None:
    """Paces for what is known; None while no rows are there or expected, unless they are given. Raises TempuraError BAD_PACES."""
    made, cycle, chosen = known.cut, known.cycle, deadline.chosen_by
    paces = Paces(
        time=known.now.isoformat(timespec="seconds"),
        since=cycle.since.isoformat(),
        until=deadline.until,
        strategy=_said(deadline),
        goal=str(deadline.goal),
        names=tuple(path.name for path in made.paths),
        paces=() if isinstance(chosen, str) else paces_by_name(made, chosen, deadline.max_pace),
        expected=dict(cycle.expected),
        came=sum(known.came.values()),
        work=(),
        batch=0.0,
        final=0.0,
        total=0.0,
        meets=True,
        why=why,
    )
    found = search(known, deadline)
    if found is None:
        return paces if paces.paces else None
    grouping = _grouping(made, found.statistics, found.rows).items()
    return replace(
        paces,
        paces=found.plan.paces,
        work=found.steps,
        batch=found.plan.batch,
        final=found.plan.chosen.final,
        total=found.plan.chosen.total,
        meets=found.plan.meets,
        before=found.before,
        groups={str(n): (found.statistics[op].factor, given) for n, (op, given) in grouping},
        off={name: known.off[op] for name, op in known.rates()},
    )


def _grouping(made: Cut, statistics: Statistics, rows: Mapping[str, float]) -> dict[int, tuple[Operator, float]]:
    """The aggregations by key at the tops of segments, and how many rows they are given in the end."""
    given = rows_in_the_end(made, statistics, rows)
    roots = ((segment.number, segment.root) for segment in made.segments if not segment.is_result)
    found = ((n, root) for n, root in roots if isinstance(root, Operator))
    return {n: (op, given[op.inputs[0]]) for n, op in found if isinstance(op.rel, Aggregate) and op.rel.keys}


def _with_groups(known: Known, statistics: Statistics, rows: Mapping[str, float], before: float) -> Statistics:
    """Statistics with the numbers of groups that follow from those that segments have given out."""
    found = dict(statistics)
    for number, (op, given) in _grouping(known.cut, statistics, rows).items():
        groups, progress = known.seen.get(number, (0, 0.0))
        share = before + (1 - before) * progress
        if groups and share:
            found[op] = replace(found[op], factor=groups_in_the_end(groups, max(round(given * share), groups), share))
    return found


def _said(deadline: Deadline) -> str:
    paces = deadline.strategy
    return paces if isinstance(paces, str) else ", ".join(f"{name}={pace}" for name, pace in paces)


def _past(known: Known, steps: int) -> Mask | None:
    """The flushes that have been, per path and step of progress."""
    over = int(known.progress * steps + 1e-9)
    if not over:
        return None
    past = np.zeros((len(known.cut.paths), over), dtype=bool)
    for paths, progress in known.flushed:
        at = min(over, max(1, int(np.ceil(progress * steps - 1e-9)))) - 1
        for number in paths:
            past[number, at] = True
    return past


def _used(made: Cut, table: str) -> set[str]:
    """The columns of a table that a query uses."""
    scanned = (path.rel for path in made.paths if path.table == table)
    return {name for scan in scanned if isinstance(scan, Scan) for name in scan.fields}


def _in_the_end(table: Input, to_come: int, used: set[str]) -> TableFacts:
    """What is known of a table as it will be when the result is due, of the columns that are ``used``."""
    if isinstance(table, Clock):
        return clock_facts([table.version], 1)
    assert isinstance(table, Use)
    nothing = Forecast(table.name, (), "")
    found = table_facts(table, [table.version], nothing, sketches_for(table, table.version, used))
    rows = found.rows(0)
    grown = {name: _grown(stats, rows, rows + to_come) for name, stats in found.columns.items()}
    return replace(found, inserted=(rows + to_come,), deleted=(0,), columns=grown)


def _grown(stats: ColumnStats, rows: int, then: int) -> ColumnStats:
    is_unique = rows and stats.distinct >= _UNIQUE * rows
    return replace(stats, distinct=stats.distinct * then / rows) if is_unique else stats
