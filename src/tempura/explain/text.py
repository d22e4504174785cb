"""A plan as text, as plain data and as a page: what runs when, what is saved, and what the alternatives would have cost."""

import os
from collections.abc import Collection, Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tempura.algebra.rel import Join, Rel
from tempura.display import DisplayNode
from tempura.errors import TempuraError
from tempura.explain.character import Character
from tempura.physical.growth import named_otherwise
from tempura.physical.operators import Load
from tempura.plan.progressive import Alternative, Note, ProgressivePlan, Save, Step
from tempura.tvr.views import View

ASSUMED = "assumed to arrive, a forecast and not a fact:"
"""The heading of what is expected to arrive."""

NO_CHARACTERS: Mapping[int, Character] = {}

SHOW = ("cost", "rows", "join", "method", "rule", "view")
"""What can be shown beside an operator."""


def explain(
    plan: ProgressivePlan,
    show: Collection[str] = ("cost", "rows"),
    labels: Sequence[str] = (),
    only: int | None = None,
    characters: Mapping[int, Character] = NO_CHARACTERS,
    assumed: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> str:
    """The plan as text.

    ``show`` is any of ``SHOW``; ``labels`` are names of the time points (``14:00``), by index; ``only`` restricts the text to the step
    of one time point. Costs are CPU time of one core, of Spark's tasks and the driver; equal sub-trees are printed once and then referred
    to as ``#n``. ``characters`` say what the steps do, by time point; ``assumed``, a line per table, what is expected to arrive after
    the first of them; ``remarks``, a line each, how the plan came about.
    """
    stored = f", {seconds(plan.storage)} of it for storage" if plan.storage else ""
    lines = [f"method {plan.method}, weighted cost {seconds(plan.cost)}{stored}"]
    lines += ["alternatives:", *(f"  {line}" for line in _alternatives(plan))]
    lines += [f"fallback {reason}" for reason in plan.fallbacks]
    lines += [ASSUMED, *(f"  {line}" for line in assumed)] if assumed else []
    lines += remarks
    for step, weight in zip(plan.steps, plan.weights, strict=True):
        if only is None or step.time == only:
            guess = bool(assumed) and step is not plan.steps[0]
            lines += ["", _heading(step, weight, labels, guess, characters.get(step.time)), *step_tree(step, show)]
    return "\n".join(lines)


def seconds(cost: int) -> str:
    """A cost for people."""
    return f"{cost / 1e9:.3g} s"


def _label(time: int, labels: Sequence[str]) -> str:
    return labels[time] if time < len(labels) else f"t{time}"


def _heading(step: Step, weight: float, labels: Sequence[str], guess: bool, does: Character | None) -> str:
    work = "nothing to do" if step.is_empty else f"cost {seconds(step.cost)}"
    what = f", {does}" if does and not step.is_empty else ""
    after = ", if what is assumed arrives" if guess else ""
    return f"step {_label(step.time, labels)} (price {weight:g}): {work}{what}{after}"


def _alternatives(plan: ProgressivePlan) -> list[str]:
    return list(map(_alternative, plan.alternatives))


def _alternative(a: Alternative) -> str:
    steps = " + ".join(seconds(cost) for cost in a.steps)
    arrow = "  <- chosen" if a.chosen else ""
    return f"{a.method:<10} {seconds(a.cost):>8} = weighted {steps}; {a.states} states{arrow}"


def step_tree(step: Step, show: Collection[str]) -> list[str]:
    """The sinks of a step as trees."""
    drawing = _Drawing(step, show)
    sinks = [DisplayNode(_save_label(save, step), children=_saved(save, drawing)) for save in step.saves]
    if step.emit is not None:
        about = (*_two_ways(step), *((("longer to read", seconds(step.reading)),) if step.reading else ()))
        sinks.append(DisplayNode(_emit_label(step, step.emit), about, (drawing.node(step.emit),)))
    return [line for sink in sinks for line in sink.lines()]


def _emit_label(step: Step, emit: Rel) -> str:
    """How the result is written: as a whole, or only what comes to one that is stored; or it is that one."""
    if not step.appends:
        return "emit"
    return "emit as stored" if isinstance(named_otherwise(emit), Load) else "emit, appended"


def _two_ways(step: Step) -> tuple[tuple[str, str], ...]:
    """Of a recomputation, whether Spark is asked the query as it is written or the operators below are run, and what both cost."""
    if step.otherwise is None:
        return ()
    ways = (("as written, planned by Spark", step.asked), ("by these operators", not step.asked))
    return tuple((how, seconds(step.cost) + ", chosen" if chosen else seconds(step.otherwise)) for how, chosen in ways)


def _save_label(save: Save, step: Step) -> str:
    columns = save.rel.columns
    bucket = f" bucketed by {', '.join(columns[i].name for i in save.bucket)}" if save.bucket else ""
    name = step.notes[save.rel].view if save.rel in step.notes else str(save.key)
    return f"keep {name}" if isinstance(save.rel, Load) else f"save {name}{bucket}"


def _saved(save: Save, drawing: "_Drawing") -> tuple[DisplayNode, ...]:
    """How a state is computed; nothing where it stays what it was."""
    return () if isinstance(save.rel, Load) else (drawing.node(save.rel),)


class _Drawing:
    """Draws the operators of one step, each once."""

    def __init__(self, step: Step, show: Collection[str]) -> None:
        self._notes = step.notes
        self._show = show
        roots = [save.rel for save in step.saves] + ([step.emit] if step.emit is not None else [])
        self._uses = _count_uses(roots)
        self._numbers: dict[Rel, int] = {}

    def node(self, rel: Rel) -> DisplayNode:
        if rel in self._numbers:
            return DisplayNode(f"#{self._numbers[rel]}")
        number = ""
        if self._uses[rel] > 1 and rel.inputs:
            self._numbers[rel] = len(self._numbers) + 1
            number = f"#{self._numbers[rel]} "
        return DisplayNode(number + rel.label, self._notes_of(rel), tuple(map(self.node, rel.inputs)))

    def _notes_of(self, rel: Rel) -> tuple[tuple[str, str], ...]:
        note = self._notes.get(rel)
        if note is None or isinstance(rel, View):
            return ()
        told = ((name, _value(rel, note, name)) for name in SHOW if name in self._show)
        return tuple((name, value) for name, value in told if value)


def _value(rel: Rel, note: Note, name: str) -> str:
    match name:
        case "cost":
            return seconds(note.cost)
        case "rows":
            return f"{note.rows:.0f}{' as counted' if note.counted else ''}"
        case "join":
            return note.join if isinstance(rel, Join) else ""
        case "method":
            return note.method
        case "rule":
            return note.rule
        case _:
            return note.view


def _count_uses(roots: Sequence[Rel]) -> dict[Rel, int]:
    uses: dict[Rel, int] = {}
    for root in roots:
        uses[root] = uses.get(root, 0) + 1
    for rel in dict.fromkeys(rel for root in roots for rel in root.walk()):
        for child in rel.inputs:
            uses[child] = uses.get(child, 0) + 1
    return uses


def to_json(
    plan: ProgressivePlan, labels: Sequence[str] = (), characters: Mapping[int, Character] = NO_CHARACTERS
) -> dict[str, object]:
    """The plan as plain data: costs in nanoseconds of one core."""
    return {
        "method": plan.method,
        "cost": plan.cost,
        "storage": plan.storage,
        "registry": plan.registry,
        "alternatives": [
            {"method": a.method, "cost": a.cost, "steps": list(a.steps), "states": a.states, "fallbacks": _codes(a)}
            | {"chosen": a.chosen}
            for a in plan.alternatives
        ],
        "fallbacks": [{"code": r.code, "detail": r.detail} for r in plan.fallbacks],
        "steps": [
            _step_json(s, w, labels, characters.get(s.time)) for s, w in zip(plan.steps, plan.weights, strict=True)
        ],
    }


def _codes(alternative: Alternative) -> list[str]:
    return [reason.code for reason in alternative.fallbacks]


def _step_json(step: Step, weight: float, labels: Sequence[str], does: Character | None) -> dict[str, object]:
    drawing = _Drawing(step, SHOW)
    return {
        "time": _label(step.time, labels),
        "weight": weight,
        "cost": step.cost,
        "asked": step.asked,
        "otherwise": step.otherwise,
        "does": does.to_json() if does else None,
        "saves": [{"key": str(save.key), "plan": drawing.node(save.rel).to_json()} for save in step.saves],
        "emit": drawing.node(step.emit).to_json() if step.emit is not None else None,
        "appends": step.appends,
        "reading": step.reading,
    }


# --- as a page -------------------------------------------------------------------------------------------------------


def save_html(text: str, path: str | Path) -> None:
    """Write a plan's text as an HTML page that needs nothing else. Lines are as long as they are.

    Raises TempuraError FOLDER_MISSING when there is no folder for it.
    """
    if not Path(path).parent.is_dir():
        what = f"A page cannot be written to {path}: there is no folder {Path(path).parent}."
        raise TempuraError("FOLDER_MISSING", what, "Make the folder, or name another file.")
    lines = text.splitlines()
    console = Console(record=True, file=StringIO(), width=max(map(len, lines), default=80))
    for line in lines:
        heading = line.startswith(("method", "step", "alternatives"))
        console.print(Text(line, style="bold" if heading else ""), soft_wrap=True)
    temporary = Path(f"{path}.tmp")
    temporary.write_text(console.export_html(), encoding="utf-8")
    os.replace(temporary, path)


__all__ = ["ASSUMED", "NO_CHARACTERS", "SHOW", "explain", "save_html", "seconds", "step_tree", "to_json"]
