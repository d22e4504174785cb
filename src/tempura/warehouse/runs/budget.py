"""What the states of a query may take on disk: what is more is neither kept nor loaded, whatever was expected of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tempura.display import bytes_text
from tempura.errors import Reason
from tempura.execute.contract import StoredOutput, StoredState
from tempura.search.budget import STATE_BUDGET
from tempura.warehouse.commits.files import Files
from tempura.warehouse.times.steps import Name, StepManifest

K = TypeVar("K")

_LEAST, _MOST = 0.01, 10.0
"""Between these is what a byte of rows may take on disk."""


def fitting(
    states: Mapping[K, StoredState], budget: int | None, result: StoredOutput | None = None
) -> dict[K, StoredState]:
    """The states that may stay beside a result: all, or those that are left when the largest go, one after the other, until the rest
    fits."""
    kept, sizes = dict(states), {key: state.bytes_beside(result) for key, state in states.items()}
    while budget is not None and sum(sizes.values()) > budget:
        largest = max(sizes, key=sizes.__getitem__)
        del kept[largest], sizes[largest]
    return kept


def stored_share(steps: Sequence[StepManifest]) -> float:
    """The bytes that a byte of rows takes on disk, by the last step that has saved something; 1 before there is one."""
    held = next((step.held for step in reversed(steps) if step.held and step.held[0] > 0), None)
    return min(max(held[1] / held[0], _LEAST), _MOST) if held else 1.0


def past_within(past: StepManifest | None, budget: int | None) -> tuple[StepManifest | None, dict[Name, Reason]]:
    """A step of the past with those of its states that are within a budget, None without any; and why others are not loaded, by name."""
    if past is None:
        return None, {}
    kept = fitting({state.name: state.stored for state in past.states}, budget, past.output)
    if len(kept) == len(past.states):
        return past, {}
    left = [state for state in past.states if state.name not in kept]
    reasons = {
        s.name: Reason(STATE_BUDGET, not_kept(s.label or s.expression[:12], s.stored, budget or 0)) for s in left
    }
    states = tuple(state for state in past.states if state.name in kept)
    return (replace(past, states=states) if states else None), reasons


def not_kept(name: str, state: StoredState, budget: int) -> str:
    """That a state is not kept, and why."""
    return f"{name} takes {bytes_text(state.bytes)}, with which states are over their budget of {bytes_text(budget)}"


def remove(files: Files, states: Iterable[StoredState], folder: Path, used: Iterable[str]) -> None:
    """Remove what states have below a folder, but for the paths that are ``used``."""
    paths = {part.path for state in states for part in state.parts} - set(used)
    for path in sorted(paths):
        if Path(path).is_relative_to(folder):
            files.remove_tree(Path(path))
