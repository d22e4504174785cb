"""Replacing a query: which states the new one can go on using, and which have to be built."""

from dataclasses import asdict, dataclass
from typing import Any

from tempura.algebra.canonical import fingerprint
from tempura.algebra.rel import Rel
from tempura.physical.operators import Load
from tempura.plan.progressive import Step
from tempura.warehouse.runs.run import label_of
from tempura.warehouse.runs.situation import Situation
from tempura.warehouse.times.steps import Name, SavedState


@dataclass(frozen=True, slots=True)
class ReplaceReport:
    """What a replacement does to the states of a query: those it keeps, those that its first run builds, those that nothing can
    use any more. ``dry_run``: nothing was replaced."""

    query: str
    kept: tuple[str, ...]
    rebuilt: tuple[str, ...]
    dropped: tuple[str, ...]
    dry_run: bool

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def __str__(self) -> str:
        verb = "would be" if self.dry_run else "was"
        lists = (("kept", self.kept), ("to be built", self.rebuilt), ("dropped", self.dropped))
        return "\n".join((f"{self.query} {verb} replaced", *(f"{name}: {s}" for name, found in lists for s in found)))


def usable(lifted: Rel, situation: Situation, step: Step) -> tuple[SavedState, ...]:
    """The stored states that a query can use: those whose expressions occur in it, and whatever its next step loads."""
    occurring = {fingerprint(rel) for rel in lifted.walk()}
    loaded = {rel.key for rel in step.operators if isinstance(rel, Load)}
    return tuple(s for key, s in situation.states.items() if key.expression in occurring or key in loaded)


def report_of(
    query: str, situation: Situation, step: Step, kept: tuple[SavedState, ...], dry_run: bool
) -> ReplaceReport:
    """What to tell of a replacement whose first run executes ``step``."""
    names: set[Name] = {state.name for state in kept}
    dropped = (state for state in situation.states.values() if state.name not in names)
    saves = (save for save in step.saves if save != step.kept_result)
    new = (save.key for save in saves if (save.key.expression, save.key.kind) not in names)
    return ReplaceReport(
        query=query,
        kept=tuple(sorted(map(_text, kept))),
        rebuilt=tuple(sorted(label_of(step, key) or str(key) for key in new)),
        dropped=tuple(sorted(map(_text, dropped))),
        dry_run=dry_run,
    )


def _text(state: SavedState) -> str:
    return f"{state.label or state.expression[:12]} ({state.stored.rows:,} rows)"
