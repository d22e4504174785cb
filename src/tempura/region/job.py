"""A region that runs, as its user sees it."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from tempura.errors import TempuraError
from tempura.region.controller import START, Controller
from tempura.region.messages import Alignment
from tempura.region.waiting import why

LOST: Mapping[str, Any] = {"is": "lost", "waiting": {}, "unaligned": {}, "full": []}


class RegionJob(Controller):
    """A region that runs. ``folder`` keeps logs and snapshots; where it has some, the region goes on from the last complete snapshot, else
    it is temporary. ``every``: seconds between snapshots. ``address``: where the controller listens.

    A context manager: it starts, and stops at the end of the block. Raises TempuraError NO_SLOTS, BAD_REGION, REGION_FAILED.
    """

    def ask(
        self, workers: Iterable[str], name: str, arguments: Mapping[str, Any] | None = None, timeout: float = START
    ) -> dict[str, Mapping[str, Any]]:
        """Send a command to workers and wait for their answers. Raises TempuraError BAD_REGION for an unknown worker, REGION_FAILED when
        they do not answer in time."""
        wanted = list(workers)
        unknown = set(wanted) - set(self.graph.workers)
        if unknown:
            known = ", ".join(self.graph.workers)
            raise TempuraError("BAD_REGION", f"There is no worker {min(unknown)!r}.", f"Name one of {known}.")
        return self._waited(lambda done: self.coordinator.ask(wanted, name, arguments, done), name, timeout)

    def pause(self, reason: str = "user", workers: Collection[str] | None = None) -> None:
        """Let workers, all unless named, stop after their mini-step, for a reason. They go on when no reason is left."""
        self.ask(self.graph.workers if workers is None else workers, "pause", {"reason": reason})

    def resume(self, reason: str = "user", workers: Collection[str] | None = None) -> None:
        """Take a reason back."""
        self.ask(self.graph.workers if workers is None else workers, "resume", {"reason": reason})

    def call(self, worker: str, method: str, **arguments: Any) -> Any:
        """Call a method of a worker's operator between two of its mini-steps; a restart repeats it at the same place. Raises TempuraError
        REGION_FAILED when it fails."""
        return self._result(worker, self.ask([worker], "call", {"method": method, "arguments": arguments})[worker])

    def _result(self, worker: str, answer: Mapping[str, Any]) -> Any:
        if "error" in answer:
            raise TempuraError("REGION_FAILED", f"{worker}: {answer['error']}.", "Correct the call.")
        return answer.get("result")

    def marker(
        self,
        channels: Iterable[str],
        commands: Mapping[str, tuple[str, Mapping[str, Any]]],
        alignment: Alignment = "all",
        timeout: float = START,
    ) -> dict[str, Mapping[str, Any]]:
        """Let workers call methods of their operators at one place of the streams, and wait until all have."""
        wanted = list(channels)
        return self._waited(
            lambda done: self.coordinator.send_marker(wanted, commands, alignment, done), "a marker", timeout
        )

    def snapshot(self, timeout: float = START) -> int:
        """Let all workers save their state at one place of the streams; the snapshot's number."""
        self._waited(self.coordinator.snapshot, "a snapshot", timeout)
        return self.coordinator.complete

    def inspect(self, workers: Collection[str] | None = None, timeout: float = 5.0) -> dict[str, Mapping[str, Any]]:
        """What workers say of themselves; of one that does not answer in time it is said that it is lost."""
        found: dict[str, Mapping[str, Any]] = {}
        wanted = list(self.graph.workers if workers is None else workers)
        over = threading.Event()

        def heard(answers: Mapping[str, Mapping[str, Any]]) -> None:
            found.update(answers)
            if len(found) == len(wanted):
                over.set()

        for worker in wanted:
            self._events.put(("do", partial(self.coordinator.ask, [worker], "inspect", {}, heard), None))
        over.wait(timeout)
        return {worker: found.get(worker, LOST) for worker in wanted}

    def why(self) -> str:
        """Who waits for whom, and who keeps them waiting."""
        return why(self.graph, self.inspect())

    def status(self) -> dict[str, Any]:
        """Workers with their processes, what they do, rows processed; snapshots, restarts, failures."""
        told = self.inspect()
        return {
            "workers": {
                name: {
                    "is": about["is"],
                    "pid": self._connections[name].pid if name in self._connections else None,
                    "processed": about.get("processed"),
                    "reasons": about.get("reasons"),
                    "waiting": sum((about.get("waiting") or {}).values()),
                }
                for name, about in told.items()
            },
            "snapshot": self.coordinator.complete,
            "restarts": self.restarts,
            "failures": dict(self.coordinator.failures),
            "done": self.coordinator.is_done,
        }

    def pid(self, worker: str) -> int:
        """The process of a worker."""
        return int(self._connections[worker].pid)

    def _waited(
        self, begin: Callable[[Callable[[Mapping[str, Mapping[str, Any]]], None]], Any], what: str, timeout: float
    ) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        over = threading.Event()

        def done(answers: Mapping[str, Mapping[str, Any]]) -> None:
            found.update(answers)
            over.set()

        raised: list[Exception] = []

        def guarded() -> None:
            try:
                begin(done)
            except Exception as error:
                raised.append(error)
                over.set()

        self._events.put(("do", guarded, None))
        end = time.monotonic() + timeout
        while not over.wait(0.2) and time.monotonic() < end:
            self.wait(0)
        if not over.is_set():
            raise TempuraError("REGION_FAILED", f"After {timeout} s not all have answered to {what}.", self.why())
        if raised:
            raise raised[0]
        return found
