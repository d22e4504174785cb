"""What a run looks like to the user, and what is told where something is broken."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tempura.errors import Reason, TempuraError
from tempura.execute.failure import coded_or_defect
from tempura.explain.text import seconds
from tempura.warehouse.runs.entries import HistoryEntry, RunFigures, flush_entry, history_of
from tempura.warehouse.tables.clock import version_text
from tempura.warehouse.times import phases
from tempura.warehouse.times.steps import StepManifest


@dataclass(frozen=True, slots=True)
class RunReport(RunFigures):
    """What a run did. ``nothing``: it had nothing to do, for the reason ``why``. ``inputs`` are the versions of the tables that it read;
    ``fallbacks`` say what the plan recomputes and why; ``waiting`` what has come and is not registered; ``not_kept``: the states that were
    saved and not kept, for they took more than the state budget."""

    query: str
    nothing: bool = False
    why: str = ""
    dry_run: bool = False
    inputs: Mapping[str, int] | None = None
    fallbacks: tuple[str, ...] = ()
    plan: str = ""
    waiting: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = ()

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


def report_of_flush(query: str, steps: Sequence[StepManifest], fallbacks: Iterable[str] = ()) -> RunReport:
    """The report of a flush: its steps together, which are at least one."""
    return _report(query, flush_entry(steps), fallbacks)


def report_of(query: str, step: StepManifest, fallbacks: Iterable[Reason] = ()) -> RunReport:
    """The report of a committed step. ``fallbacks`` of its plan."""
    return _report(query, history_of(step), map(str, fallbacks), step.not_kept)


def _report(query: str, entry: HistoryEntry, fallbacks: Iterable[str], not_kept: tuple[str, ...] = ()) -> RunReport:
    """What the history will say of a run, and what only its report does."""
    figures = {part.name: getattr(entry, part.name) for part in fields(RunFigures)}
    return RunReport(query, inputs=entry.versions, fallbacks=tuple(fallbacks), not_kept=not_kept, **figures)


def or_error(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is told of a table or a query; of one that is broken, what is wrong with it under ``error``. So one that is hides no other."""
    try:
        return look()
    except Exception as error:
        return {"error": told(coded_or_defect(error))}


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
