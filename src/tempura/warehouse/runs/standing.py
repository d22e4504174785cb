"""Where a query stands, and which states it keeps, as plain data."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tempura.warehouse.declared.declare import QuerySpec
from tempura.warehouse.runs.report import or_error
from tempura.warehouse.times.steps import StepManifest


def standing(
    spec: QuerySpec,
    *,
    ran: Sequence[str],
    following: str | None,
    is_due: Callable[[], bool],
    outputs: Sequence[StepManifest],
    does: str | None,
    kept: Sequence[StepManifest],
    published_at: Iterable[Path],
) -> dict[str, Any]:
    """Where a query stands that ``ran`` at these times and gave these ``outputs``. ``does``: what its last run did to the result;
    ``kept``: the runs whose states it keeps. Where a table that it reads is broken, nobody knows whether it is ``due``, and ``error``
    says why."""
    return {
        "runs": len(ran),
        "last": ran[-1] if ran else None,
        "next": following,
        "due": None,
        **or_error(lambda: {"due": is_due()}),
        "result_rows": outputs[-1].output.rows if outputs and outputs[-1].output else None,
        "result_of": str(outputs[-1].slot) if outputs else None,
        "does": does,
        "states": sum(len(step.states) for step in kept),
        "state_bytes": sum(step.state_bytes for step in kept),
        "methods": list(spec.methods) or ["all"],
        "require": spec.require,
        "state_budget": spec.state_budget,
        "storage_price": spec.storage_price,
        "schedule": spec.schedule.to_json(),
        "outputs": [str(path) for path in published_at],
    }


def states_of(step: StepManifest) -> list[dict[str, Any]]:
    """The states that a run has saved: what each holds, its kind, rows, parts, and the bytes that it takes beside the result."""
    return [
        {
            "holds": state.label,
            "kind": state.kind,
            "rows": state.stored.rows,
            "bytes": state.stored.bytes_beside(step.output),
            "parts": len(state.stored.parts),
        }
        for state in step.states
    ]
