"""What a worker saves at a snapshot, and takes back when it is made anew."""

from typing import Any, Protocol

from tempura.region.channels import Inlet, Outlet
from tempura.region.log import Store
from tempura.region.operators import Operator
from tempura.region.settings import Settings

FINAL = 10**9
"""The number of the snapshot of a worker that has ended."""


class Stateful(Protocol):
    """What of a worker is state."""

    name: str
    settings: Settings
    operator: Operator
    inlets: dict[str, Inlet]
    outlets: dict[str, Outlet]
    reasons: set[str]
    ended: bool
    processed: int


def saved(worker: Stateful) -> dict[str, Any]:
    """The state of a worker between two slices of its input."""
    return {
        "operator": dict(worker.operator.save()),
        "inlets": {i.id: [i.used, i.ended] for i in worker.inlets.values()},
        "outlets": {o.id: [o.offset, o.ended] for o in worker.outlets.values()},
        "reasons": sorted(worker.reasons),
        "ended": worker.ended,
        "processed": worker.processed,
    }


def restore(worker: Stateful, store: Store, snapshot: int) -> None:
    """Take back a snapshot; the last one of a worker that had ended before it was taken."""
    found = store.load(worker.name, snapshot) or store.load(worker.name, FINAL)
    assert found is not None, f"{worker.name} has no snapshot {snapshot}"
    worker.operator.restore(found["operator"])
    for inlet in worker.inlets.values():
        used, ended = found["inlets"][inlet.id]
        worker.inlets[inlet.id] = Inlet(inlet.id, inlet.port, used, ended)
    for outlet in worker.outlets.values():
        offset, ended = found["outlets"][outlet.id]
        worker.outlets[outlet.id] = Outlet(outlet.id, worker.settings.credit, offset)
        worker.outlets[outlet.id].ended = ended
    worker.reasons, worker.ended, worker.processed = set(found["reasons"]), found["ended"], found["processed"]
