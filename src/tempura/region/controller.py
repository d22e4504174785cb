"""The controller of a region that runs: it starts workers, carries commands and what workers say, and begins again with those that die.

One thread does all that; who asks something (:class:`RegionJob`'s methods) waits for it.
"""

import json
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

import pyarrow.flight as flight

from tempura.errors import TempuraError
from tempura.region.carriers import Carrier
from tempura.region.coordinator import Coordinator
from tempura.region.graph import Graph
from tempura.region.host import Host, described
from tempura.region.messages import Alignment, Command
from tempura.region.waiting import why
from tempura.region.wire import LOOPBACK, Listener, buffer_of, greeted, message_of
from tempura.region.worker import Settings

START = 60.0
"""Seconds in which a worker has to be there."""

RESTARTS = 20
"""How often a worker is started again before the region is given up."""


class Connection:
    """The control stream of a worker."""

    def __init__(self, about: Mapping[str, Any], writer: Any) -> None:
        self.worker, self.listens, self.pid = about["worker"], about["listens"], about["pid"]
        self.life = about["life"]
        self._writer: Any | None = writer
        self._lock = threading.Lock()

    def end(self) -> None:
        """The stream is over: its writer is not there any more."""
        with self._lock:
            self._writer = None

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message; if the worker is gone, its end says so elsewhere."""
        try:
            with self._lock:
                if self._writer is not None:
                    self._writer.write_metadata(buffer_of(message))
        except (OSError, flight.FlightError):
            return


class ControlServer(Listener):
    """Takes the control streams of workers. Their first message says that they are there, their end that they are gone."""

    def __init__(self, address: str, token: str, events: "SimpleQueue[tuple[str, Any, Any]]") -> None:
        super().__init__(address, token)
        self._events = events

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        connection = Connection(greeted(self._token, descriptor), writer)
        self._events.put(("there", connection, None))
        try:
            while True:
                self._events.put(("said", connection, message_of(reader.read_chunk().app_metadata)))
        except (StopIteration, OSError, flight.FlightError):
            return
        finally:
            connection.end()
            self._events.put(("gone", connection, None))


class RegionJob:
    """A region that runs. ``folder`` keeps logs and snapshots; where it has some, the region goes on from the last complete snapshot, else
    it is temporary. ``every``: seconds between snapshots. ``address``: where the controller listens.

    A context manager: it starts, and stops at the end of the block. Raises TempuraError NO_SLOTS, BAD_REGION, REGION_FAILED.
    """

    def __init__(
        self,
        graph: Graph,
        carrier: Carrier,
        folder: Path | None = None,
        settings: Settings | None = None,
        every: float | None = None,
        address: str = LOOPBACK,
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
        self._dead: set[str] = set()
        self._why_gone: dict[str, str] = {}
        self._stopping = False
        self._error: TempuraError | None = None
        self._over = threading.Event()
        self._next_snapshot = 0.0
        self.coordinator = Coordinator(graph, self._post, self._last_complete())
        self.coordinator.on_complete = self._note_complete

    # --- starting and stopping -----------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the workers, and let them go."""
        for worker in self.graph.workers:
            self.graph.make(worker)
        own = [worker for worker in self.graph.workers if self.graph.node_of[worker].place == "worker"]
        self.carrier.admit(len(own))
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
            self.carrier.start(worker, described(*given), lambda reason: self._gone(worker, life, reason))
        else:
            threading.Thread(target=lambda: Host(*given).run(), name=worker, daemon=True).start()

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

    # --- what users ask ------------------------------------------------------------------------------------------------

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
            if message["event"] == "ready":
                self._ready.add(worker)
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
            if self._all(again, self._connections.keys()):
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
        path = self._folder / "complete.json"
        return int(json.loads(path.read_text())["snapshot"]) if path.exists() else 0

    def _note_complete(self, snapshot: int) -> None:
        new = self._folder / "complete.new"
        new.write_text(json.dumps({"snapshot": snapshot}), encoding="utf-8")
        new.replace(self._folder / "complete.json")


LOST: Mapping[str, Any] = {"is": "lost", "waiting": {}, "unaligned": {}, "full": []}
