"""The controller of a region that runs: it starts workers, carries commands and what workers say, and begins again with those that die.

One thread does all that; who asks something (``region/job.py``) waits for it.
"""

import json
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Set
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from tempura.errors import TempuraError
from tempura.region.carriers import Carrier
from tempura.region.claim import Claim, check_same, described, read_note
from tempura.region.connections import Connection, ControlServer
from tempura.region.coordinator import Coordinator
from tempura.region.graph import Graph
from tempura.region.host import Host
from tempura.region.host import described as code_of
from tempura.region.messages import SNAPSHOT, Command
from tempura.region.settings import Settings
from tempura.region.wire import LOOPBACK

START = 60.0
"""Seconds in which a worker has to be there."""

COMMANDS = 40
"""Bits of the ids that one execution of a region may give to commands."""

RESTARTS = 20
"""How often a worker is started again before the region is given up."""


class Controller:
    """What :class:`~tempura.region.job.RegionJob` is to those who do not ask: it starts workers, hears them, and stops them."""

    def __init__(
        self,
        graph: Graph,
        carrier: Carrier,
        folder: Path | None = None,
        settings: Settings | None = None,
        every: float | None = None,
        address: str = LOOPBACK,
        of: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph, self.carrier = graph, carrier
        self.settings = settings or Settings()
        self.restarts = 0
        self.recoveries: list[float] = []
        self._own_folder = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="tempura-region-"))
        self._every, self._address = every, address
        self._token = secrets.token_urlsafe(32)
        self._events: SimpleQueue[tuple[str, Any, Any]] = SimpleQueue()
        self._connections: dict[str, Connection] = {}
        self._incarnations = dict.fromkeys(graph.workers, 0)
        self._lives = dict.fromkeys(graph.workers, 0)
        self._ready: set[str] = set()
        self._cut: set[str] = set()
        self._dead: set[str] = set()
        self._why_gone: dict[str, str] = {}
        self._stopping = False
        self._error: TempuraError | None = None
        self._over = threading.Event()
        self._next_snapshot = 0.0
        self._of, self._claim = dict(of or {}), Claim(self._folder)
        self._remember()

    def _remember(self) -> None:
        """Begin with what the folder has."""
        former = self._former()
        self._times = former["times"] + 1
        self.coordinator = Coordinator(
            self.graph, self._post, self._last_complete(), former["begun"], self._times << COMMANDS
        )
        self.coordinator.on_complete = self._note_complete
        self.coordinator.on_begun = self._note_begun

    # --- starting and stopping -----------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the workers, and let them go."""
        for worker in self.graph.workers:
            self.graph.make(worker)
        own = [worker for worker in self.graph.workers if self.graph.node_of[worker].place == "worker"]
        self._claim.take()
        try:
            check_same(self._folder, described(self.graph, self._of))
            self.carrier.admit(len(own))
            self._remember()  # another process may have gone on since
            self._note_begun(self._former()["begun"])
        except BaseException:
            self._claim.give_back()
            raise
        self._server = ControlServer(self._address, self._token, self._events)
        self._thread = threading.Thread(target=self._run, name="region controller", daemon=True)
        self._thread.start()
        return self

    def _start_worker(self, worker: str) -> None:
        address = f"grpc://{self._address}:{self._server.port}"
        self._lives[worker] += 1
        life = self._lives[worker]
        given = (self.graph, worker, life, address, self._token, self._folder, self.settings)
        if self.graph.node_of[worker].place == "worker":
            self.carrier.start(worker, code_of(*given), lambda reason: self._gone(worker, life, reason))
        else:

            def host() -> None:
                why = "its thread ended"
                try:
                    Host(*given).run()
                except Exception as error:
                    why = f"{type(error).__name__}: {error}"
                self._gone(worker, life, why)

            threading.Thread(target=host, name=worker, daemon=True).start()

    def _gone(self, worker: str, life: int, reason: str) -> None:
        self._why_gone[worker] = reason
        self._events.put(("ended", worker, life))

    def stop(self) -> None:
        """End all workers, whatever they are doing. What sinks have committed stays."""
        if not self._stopping:
            self._stopping = True
            self._events.put(("stop", None, None))
            self._thread.join(10)
            self.carrier.stop()
            self._server.shutdown()
            self._claim.give_back()
            if self._own_folder:
                shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all workers have ended; whether they have. Raises TempuraError REGION_FAILED when the region was given up."""
        ended = self._over.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    # --- the controller's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._begin(set(self.graph.workers))
            self._next_snapshot = time.monotonic() + (self._every or 0)
            while not self._stopping and not self.coordinator.is_done:
                self._handle(*self._next_event())
                if self._dead and not self._stopping:
                    self._count_restart(self._dead)
                    self._begin(set(self._dead))
                self._maybe_snapshot()
        except TempuraError as error:
            self._error = error
        except Exception as error:
            self._error = TempuraError(
                "REGION_FAILED", f"{type(error).__name__}: {error}.", "This is a defect of Tempura."
            )
        self._over.set()
        while not self._stopping:  # whoever looks at a region that has ended gets answers
            with suppress(TempuraError):  # another worker that cannot begin either: the first has been told
                self._handle(*self._next_event())
        for connection in self._connections.values():
            connection.send({"host": "stop"})

    def _next_event(self, timeout: float = 0.5) -> tuple[str, Any, Any]:
        if self._every and not self._over.is_set():
            timeout = min(timeout, max(0.0, self._next_snapshot - time.monotonic()))
        try:
            return self._events.get(timeout=timeout)
        except Empty:
            return ("nothing", None, None)

    def _handle(self, kind: str, what: Any, message: Any) -> None:
        match kind:
            case "there" if what.life == self._lives[what.worker]:
                self._connections[what.worker] = what
            case "there":
                what.send({"host": "stop"})
            case "said" if self._is_current(what):
                self._heard(message)
            case "gone" if self._is_current(what):
                del self._connections[what.worker]
                self._dead.add(what.worker)
            case "ended" if message == self._lives[what]:
                if what in self._connections:  # a cancelled task's process lives on for a while
                    self._connections.pop(what).send({"host": "stop"})
                self._dead.add(what)
            case "do":
                what()

    def _is_current(self, connection: Connection) -> bool:
        return self._connections.get(connection.worker) is connection

    def _heard(self, message: dict[str, Any]) -> None:
        worker, incarnation = message["worker"], message.pop("incarnation")
        if message["event"] == "broken":
            raise TempuraError(
                "REGION_FAILED", f"{worker} cannot begin: {message['why']}.", "Mend that, and begin again."
            )
        if incarnation == self._incarnations[worker]:
            if message["event"] in ("ready", "cut"):
                (self._ready if message["event"] == "ready" else self._cut).add(worker)
            else:
                self.coordinator.heard(message)

    def _begin(self, dead: set[str]) -> None:
        """Start workers, and let them and their ancestors begin from the last complete snapshot."""
        began = time.monotonic()
        begins: set[str] = set()  # with those that die while the others are waited for
        while True:
            self._dead -= dead
            begins |= dead
            for worker in sorted(dead):
                self._connections.pop(worker, None)
                self._start_worker(worker)
            again = self.coordinator.to_restart(begins)
            if self._all(again, self._connections.keys()) and self._cut_off(again):
                for worker in again:
                    self._incarnations[worker] += 1
                    self._ready.discard(worker)
                for worker in again:
                    reset = {"snapshot": self.coordinator.complete, "incarnation": self._incarnations[worker]}
                    self._connections[worker].send({"host": "reset", **reset})
                self.coordinator.restarted(again)  # what they are asked again comes after the reset
                if self._all(again, self._ready):
                    break
            if self._stopping:
                return
            self._count_restart(self._dead)
            dead = set(self._dead)
        addresses = {name: connection.listens for name, connection in self._connections.items()}
        for worker in again:
            self._connections[worker].send({"host": "go", "addresses": addresses})
        if len(again) < len(self.graph.workers) or self.restarts:
            self.recoveries.append(time.monotonic() - began)

    def _cut_off(self, again: Set[str]) -> bool:
        """Let the others take nothing more of what was sent in former lives: a process may be given up and not be dead yet."""
        others = {c.receiver for c in self.graph.channels if c.sender in again} - again
        self._cut.clear()
        for worker in others & self._connections.keys():
            self._connections[worker].send({"host": "cut", "senders": sorted(again)})
        return self._all(others, self._cut)

    def _all(self, wanted: Set[str], there: Set[str]) -> bool:
        """Wait until all that are wanted are there; not, when somebody dies before. Raises TempuraError REGION_FAILED after some time."""
        end = time.monotonic() + START
        while not wanted <= there:
            self._handle(*self._next_event(0.1))
            if self._dead or self._stopping:
                return False
            if time.monotonic() > end:
                missing = ", ".join(sorted(wanted - there))
                what = f"Workers do not come up in {START:.0f} s: {missing}."
                raise TempuraError("REGION_FAILED", what, "Look at Spark's log; are there slots for all?")
        return True

    def _count_restart(self, dead: Collection[str]) -> None:
        self.restarts += len(dead)
        if self.restarts > RESTARTS:
            said = "; ".join(f"{worker}: {self._why_gone.get(worker, 'unknown')}" for worker in sorted(dead))
            raise TempuraError("REGION_FAILED", f"Workers died {self.restarts} times ({said}).", "Mend the cause.")

    def _post(self, worker: str, command: Command) -> None:
        if worker in self._connections:
            self._connections[worker].send(command.to_json())

    # --- snapshots -----------------------------------------------------------------------------------------------------

    def _maybe_snapshot(self) -> None:
        if self._every and time.monotonic() >= self._next_snapshot:
            self._next_snapshot = time.monotonic() + self._every
            if self.coordinator.under_way is None and not self.coordinator.is_done:
                self.coordinator.snapshot()

    def _last_complete(self) -> int:
        return int(read_note(self._folder / "complete.json", {"snapshot": 0})["snapshot"])

    def _note_complete(self, snapshot: int) -> None:
        self._note("complete", {"snapshot": snapshot})

    def _former(self) -> dict[str, Any]:
        """How often the region was started, and the marker that was under way when it ended, unless that was completed."""
        found = read_note(self._folder / "begun.json", {"times": 0, "begun": None})
        marker = (found["begun"] or {}).get("marker")
        if marker and marker["kind"] == SNAPSHOT and int(marker["id"]) <= self._last_complete():
            found["begun"] = None
        return found

    def _note_begun(self, begun: Mapping[str, Any] | None) -> None:
        self._note("begun", {"times": self._times, "begun": begun})

    def _note(self, name: str, data: Mapping[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f"{name}.new"
        new.write_text(json.dumps(data), encoding="utf-8")
        new.replace(self._folder / f"{name}.json")
