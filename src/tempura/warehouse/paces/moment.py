"""A look at a query at paces: the time, what has come, and which of its paths are due by that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tempura.algebra.rel import Filter, Join
from tempura.pace import cut as cutting
from tempura.pace.cut import Cut, Operator
from tempura.pace.simulate import FOLLOWS
from tempura.search.counts import Rows, counted_names
from tempura.warehouse.commits.reads import table_of
from tempura.warehouse.paces.cycle import Cycle
from tempura.warehouse.paces.life import Life
from tempura.warehouse.paces.pacing import Paces
from tempura.warehouse.paces.segments import PathTable, Segment
from tempura.warehouse.tables.clock import Clock
from tempura.warehouse.tables.take import register
from tempura.warehouse.tables.uses import Input, Use
from tempura.warehouse.times.flushes import Flush
from tempura.warehouse.times.steps import StepManifest

_ROUNDING = 1e-9

AHEAD = 0.25
"""What work ahead counts, where the same when the result is read counts 1: chosen, not measured. Who asks for paces pays for less work
then; but what saves less than this part of what it takes is not worth it to anybody."""


@dataclass(frozen=True)
class Moment:
    """The ``tables`` as they are ``now``, how many rows ``came`` in the cycle, which ends at the declared time ``until``, and the paces
    in force (None: nothing could be planned yet)."""

    now: datetime
    life: Life
    tables: Mapping[str, Input]
    cycle: Cycle
    came: Mapping[str, int]
    until: str
    paces: Paces | None = None

    @property
    def versions(self) -> dict[str, int]:
        """The versions of the tables."""
        return {name: table.version for name, table in self.tables.items() if isinstance(table, Use)}

    @property
    def progress(self) -> float:
        """How far the cycle has come."""
        return self.cycle.progress(self.came, self.now)

    @property
    def is_over(self) -> bool:
        """Whether the result is due."""
        return self.now >= self.cycle.until

    def progress_at(self, step: StepManifest) -> float:
        """How far the cycle had come at a step, as it is seen now; nothing before the cycle."""
        when = datetime.fromisoformat(step.logical_time)
        if step.flush is None or when < self.cycle.since:
            return 0.0
        return self.cycle.progress(step.flush.came, when)

    def flushed(self) -> list[tuple[tuple[int, ...], float]]:
        """The flushes that have been in the cycle: the numbers of the paths, and the progress then. Of a step that has left nothing what
        was released is still to be processed."""
        steps = (step for segment in self.life.segments for step in self.life.steps(segment))
        worked = filter(is_of_use, steps)
        return [(step.flush.paths, self.progress_at(step)) for step in worked if step.flush and self.progress_at(step)]

    def seen(self) -> dict[int, tuple[int, float]]:
        """The rows that segments have given out by their last steps in the cycle, and how far it had come then; not of those that give
        out only what is read."""
        whole = (segment for segment in self.life.segments if not segment.part.is_filtered)
        last = ((segment.part.number, self._last_result(segment)) for segment in whole)
        return {n: (step.output.rows, self.progress_at(step)) for n, step in last if step and step.output}

    def _last_result(self, segment: Segment) -> StepManifest | None:
        return next((step for step in reversed(self.life.steps(segment)) if step.output), None)

    def counted(self) -> dict[Operator, Rows]:
        """The rows of conditions and joins as they were counted last in this life, and how many were expected then."""
        found: dict[Operator, Rows] = {}
        cut = self.life.cut
        # What is filtered before it is handed over passes the same condition as a whole.
        passed = {op for segment in cut.segments for op in cut.readers(segment)}
        for segment in self.life.segments:
            steps = [step.counted for step in reversed(self.life.steps(segment)) if step.counted]
            for op in cut.segments[segment.part.number].operators if steps else ():
                if isinstance(op.rel, Filter | Join) and op not in passed:
                    names = counted_names(segment.part.over_paths(op))
                    rows = next((counted[name] for counted in steps for name in names if name in counted), None)
                    found |= {op: rows} if rows else {}
        return found

    def flush(self, complete: bool, until: str | None) -> Flush:
        """What is noted of a flush that begins now: of everything if ``complete``, for the deadline ``until`` if it is the last."""
        life = self.life
        last = [step.flush for step in map(life.last, life.segments) if step and step.flush]
        n = max((flush.n for flush in last), default=0) + 1
        before = max((self.progress_at(step) for step in map(life.last, life.segments) if step), default=0.0)
        progress = 1.0 if until else self.progress
        due = [path.number for segment in life.segments for path in self.crossed(segment, complete)]
        names = tuple(_path_text(life.cut, number) for number in due)
        predicted = self.paces.predicted(before, progress) if self.paces else None
        return Flush(
            n=n,
            life=life.number,
            segment=-1,
            paths=(),
            names=names,
            came=dict(self.came),
            progress=progress,
            versions=self.versions,
            predicted=predicted,
            complete=complete,
            until=until,
        )

    def crossed(self, segment: Segment, complete: bool) -> Iterator[cutting.Path]:
        """The paths into a segment whose time has come: since their last flush another 1 / pace of the rows has come. A result is not made
        for a segment that does nothing before its own is read."""
        steps = self.life.steps(segment)
        is_idle = self._does_nothing(segment) and not self.is_read(segment, complete)
        for path in self.life.paths(segment):
            if is_idle and path.source is not None:
                continue
            last = next((s for s in reversed(steps) if s.flush and path.number in s.flush.paths), None)
            if complete or self._is_due(path, self.progress_at(last) if last else 0.0):
                yield path

    def _is_due(self, path: cutting.Path, before: float) -> bool:
        if self.paces is None:
            return False
        if self.paces.paces[path.number] == FOLLOWS:
            return any(self._is_due(below, before) for below in self.life.cut.below(path))
        return self._flushes(path, self.progress) > self._flushes(path, before)

    def _pace(self, path: cutting.Path) -> int:
        """The pace of a path; of one that follows those below it the fastest of these."""
        pace = self.paces.paces[path.number] if self.paces else 1
        return max(map(self._pace, self.life.cut.below(path)), default=1) if pace == FOLLOWS else pace

    def _flushes(self, path: cutting.Path, progress: float) -> int:
        """How many flushes of a path are due by a progress."""
        return int(progress * self._pace(path) + _ROUNDING)

    def released_now(self, segment: Segment, complete: bool) -> Iterator[int]:
        """The paths that are flushed now: whose time has come, and those of tables that do not go on from what was released."""
        crossed = {path.number for path in self.crossed(segment, complete)}
        last = self.life.last(segment)
        for name, number in segment.part.inputs.items():
            table = self.tables.get(table_of(name))
            gone = isinstance(table, Use) and last and not table.follows(last.inputs.get(name, 0), last.pins.get(name))
            if number in crossed or gone:
                yield number

    def pins(self, segment: Segment, due: set[int], complete: bool) -> dict[str, Input]:
        """What a segment reads: of the paths that are flushed all that waits, of the others what they have released."""
        last = self.life.last(segment)
        before = last.inputs if last else {}
        pins: dict[str, Input] = {}
        for name, number in segment.part.inputs.items():
            path = self.life.cut.paths[number]
            table = self.life.released.get(number) or self.tables[path.table or ""]
            if isinstance(table, Clock):
                pins[name] = table
            elif isinstance(table, PathTable):
                pins[name] = Use(name, table, register(table) if number in due else before.get(name, 0))
            else:
                assert isinstance(table, Use)
                version = table.version if number in due else before.get(name, 0)
                pins[name] = Use(name, table.table, version, self._next_rows(segment, path, complete))
        return pins

    def _next_rows(self, segment: Segment, path: cutting.Path, complete: bool) -> int | None:
        """What a path from a table is expected to release in its next flush, or until the segment's result is read, if that is not now."""
        expected, came = self.cycle.expected.get(path.table or ""), self.came.get(path.table or "", 0)
        if expected is None or self.paces is None:
            return None
        now, to_come = self.progress, max(0, expected - came)
        if self.is_read(segment, complete):
            return round(to_come / max(1, self._flushes(path, 1.0) - self._flushes(path, now)))
        return round(to_come * (self._read_at(segment) - now) / (1 - now)) if now < 1 else 0

    def is_run(self, segment: Segment, pins: Mapping[str, Input], due: set[int], complete: bool) -> bool:
        """Whether a segment is run: something was released for it, or its result is wanted of what was released before. When everything
        is, the result is always made, and a segment that never was, or reads a clock, is run as well."""
        last = self.life.last(segment)
        before = last.inputs if last else {}
        is_new = any(pin.version != before.get(name, 0) for name, pin in pins.items() if isinstance(pin, Use))
        if last and not last.output and self.is_read(segment, complete):
            return True
        if not complete:
            return bool(due) and (is_new or last is None)
        reads_clock = any(isinstance(pin, Clock) for pin in pins.values())
        return is_new or last is None or reads_clock or segment.part.number == self.life.cut.result.number

    def is_read(self, segment: Segment, complete: bool) -> bool:
        """Whether the result of a segment is read in this flush: that of the query, and what a path that is due leads on."""
        if segment.part.number == self.life.cut.result.number:
            return True
        above = self.life.cut.users(self.life.cut.segments[segment.part.number])
        return any(path in self.crossed(self.life.segments[path.into], complete) for path in above)

    def _does_nothing(self, segment: Segment) -> bool:
        """Whether nothing was worth doing when a segment was run last."""
        last = self.life.last(segment)
        return last is not None and not is_of_use(last)

    def waits(self, segment: Segment, complete: bool) -> bool:
        """Whether a segment that did nothing ahead of time is not even planned for again: it is when twice as many rows have come, and in
        the last flush before its result is read."""
        last = self.life.last(segment)
        if complete or last is None or last.flush is None or self.is_read(segment, complete):
            return False
        if any(map(is_of_use, self.life.steps(segment))):
            return False
        fastest = max(self.life.paths(segment), key=self._pace)
        read_at = self._read_at(segment)
        is_last_chance = self._flushes(fastest, read_at) - self._flushes(fastest, self.progress) <= 1
        return not is_last_chance and sum(self.came.values()) < 2 * sum(last.flush.came.values())

    def _read_at(self, segment: Segment) -> float:
        """The progress at which the result of a segment is read next: not before that of what reads it, if this does nothing until then."""
        found = []
        for path in self.life.cut.users(self.life.cut.segments[segment.part.number]):
            above = self.life.segments[path.into]
            next_flush = min(1.0, (self._flushes(path, self.progress) + 1) / self._pace(path))
            found.append(self._read_at(above) if self._does_nothing(above) else next_flush)
        return min(found, default=1.0)

    def ahead(self, segment: Segment, complete: bool) -> float | None:
        """What work of a segment counts in this flush against what it does when its result is read; None when that is now. The paces have
        decided that work is to be done ahead, whatever it takes; the step finds out what saves work then, and does nothing else."""
        return None if self.is_read(segment, complete) else AHEAD

    def to_come(self, segment: Segment, complete: bool) -> int:
        """How many flushes of a segment are to follow this one."""
        if self.paces is None:
            return 1
        done = 0.0 if complete else self.progress
        paths = self.life.paths(segment)
        return max((self._flushes(path, 1.0) - self._flushes(path, done) for path in paths), default=1)

    def why_nothing(self) -> str:
        """Why no path is flushed."""
        if self.paces is None:
            return "no rows are there, and none are known to come: paces are planned with the first"
        if any(any(self.crossed(segment, complete=False)) for segment in self.life.segments):
            return "paths are due, but no work ahead pays yet: that is looked at again when more rows have come"
        return f"no path is due: {self.progress:.1%} of what is expected until {self.until} has come"


def is_of_use(step: StepManifest) -> bool:
    """Whether a step has left something: a result, if one without rows, or a state with rows."""
    return bool(step.output) or any(state.stored.rows for state in step.states)


def _path_text(made: Cut, number: int) -> str:
    path = made.paths[number]
    into = "result" if made.segments[path.into].is_result else f"s{path.into}"
    return f"{path.name} to {into}"
