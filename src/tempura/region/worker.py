"""A worker: one operator, its channels, what it was told. It does one small thing at a time and never waits; who carries it (a thread, a
Spark task, a test) calls :meth:`Worker.step` again and again, and looks at the outlets for what is to be sent.

Source: *Texera*, sections 2.2 and 2.3: mini-steps, control first, pause as a set of reasons, the hybrid log.
"""

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from tempura.region.alignment import Alignment
from tempura.region.channels import Inlet, Outlet, Router
from tempura.region.graph import Graph
from tempura.region.log import Entry, Log, Store, recorded
from tempura.region.messages import LOGGED, SNAPSHOT, Command, Mark, Marker, Rows
from tempura.region.operators import Batch, FailedRow, Read, Sink, Source, failing_row, shown
from tempura.region.settings import Failure, Settings
from tempura.region.snapshots import FINAL, restore, saved

Tell = Callable[[Mapping[str, Any]], None]
"""Takes what a worker says to the controller: answers to commands, and events."""

KEPT_ANSWERS = 200


class Worker:
    """``step`` does the next thing. State: that of the operator, of the channels' ends, reasons to pause, and what is being processed."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        store: Store,
        tell: Tell,
        settings: Settings | None = None,
        snapshot: int = 0,
        choose: Callable[[list[Inlet]], Inlet] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.name = name
        self.settings = settings or Settings()
        self.operator = graph.make(name)
        self.commands: deque[Command] = deque()
        self.reasons: set[str] = set()
        self.failure: Failure | None = None
        self.ended = False
        self.processed = 0
        self._store, self._tell, self._clock = store, tell, clock
        self._choose = choose or self._next_in_turn
        self._turn = 0
        self._applied: dict[int, Mapping[str, Any]] = {}
        self._running: Iterator[Batch | None] | None = None
        self._current: tuple[int, Batch] | None = None
        self._after: Callable[[], None] | None = None
        self._steps = 0
        self._yielded = False
        self._slice = min(self.settings.slice, self.settings.credit)
        channels = graph.inputs(name)
        self.inlets = {c.id: Inlet(c.id, c.port) for c in channels}
        self._numbers = {c.id: n for n, c in enumerate(channels)}
        self.outlets = {c.id: Outlet(c.id, self.settings.credit) for c in graph.outputs(name)}
        self._alignment = Alignment({c.id: c.port for c in channels})
        self._single_steps = 0
        self._uncommitted: int | None = None
        self._unread = False
        self.operator.open()
        if snapshot:
            restore(self, store, snapshot)
        links = dict.fromkeys(c.link for c in graph.outputs(name))
        self._routers = [
            Router([self.outlets[c.id] for c in graph.outputs(name) if c.link == n], graph.links[n].by) for n in links
        ]
        self._replay: deque[Entry] = deque(recorded(store, name, snapshot))
        self._log = Log(store, name, snapshot)
        if snapshot and self._commit(FINAL if self.ended else snapshot) and self.ended:
            self._tell({"event": "ended", "worker": self.name})

    # --- what the carrier asks -----------------------------------------------------------------------------------------

    @property
    def is_replaying(self) -> bool:
        """Whether it does again what the log says."""
        return bool(self._replay)

    def step(self) -> bool:
        """Do the next small thing, control before data. Whether there was one; if not, it waits for input, room or a command."""
        did = self._command() or (self._again() if self._replay else self._work())
        self._release()
        return did

    def _release(self) -> None:
        """Let outputs go when the log that explains them is stored."""
        held = [outlet for outlet in self.outlets.values() if outlet.is_held]
        if held:
            self._log.sync()
            for outlet in held:
                outlet.release()

    # --- control -------------------------------------------------------------------------------------------------------

    def _command(self) -> bool:
        command = next((c for c in self.commands if self._may_apply(c)), None)
        if command is None:
            return False
        self.commands.remove(command)
        if command.id not in self._applied:
            if command.name in LOGGED:
                self._log.add(("c", self._steps if self._running else -1, command.to_json()))
            self._apply(command)
        self._log.sync()
        self._tell({"event": "answer", "worker": self.name, "id": command.id, **self._applied[command.id]})
        return True

    def _may_apply(self, command: Command) -> bool:
        """Logged commands keep their order. While a replay goes on only those that change nothing are done; a marker waits for a boundary
        between slices. A replay that cannot read again waits for ``retry``, which does not wait for it."""
        if command.name not in LOGGED or (self._unread and command.name in ("retry", "skip")):
            return True
        if self._replay or any(c.name in LOGGED for c in self.commands if c.id < command.id):
            return False
        return command.name != "inject" or (self._running is None and self.failure is None)

    def _apply(self, command: Command) -> None:
        given = command.arguments
        found: Mapping[str, Any] = {}
        try:
            match command.name:
                case "pause":
                    self.reasons.add(given["reason"])
                case "resume":
                    self.reasons.discard(given["reason"])
                case "step":
                    self._single_steps += given.get("steps", 1)
                case "inspect":
                    found = self.inspect()
                case "call" | "ask":
                    found = {"result": getattr(self.operator, given["method"])(**given["arguments"])}
                case "inject":
                    self._act(Marker.from_json(given["marker"]))
                case "retry":
                    self._retry(0)
                case "skip":
                    self._retry(1)
                case "completed":
                    self._completed(given["snapshot"])
                case _:
                    raise ValueError(f"there is no command {command.name!r}")
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        # Whoever has not heard the answer asks again; commands are few, and so are those that are kept.
        self._applied[command.id] = found
        for id in list(self._applied)[:-KEPT_ANSWERS]:
            del self._applied[id]

    def _retry(self, skipped: int) -> None:
        """Go on where the operator failed, without the row that failed or, where it is not known, without all rows of the slice."""
        failure, self.failure = self.failure, None
        self.reasons.discard("error")
        self._unread = False
        if failure is None:
            return
        if self._uncommitted is not None:
            if self._commit(self._uncommitted) and self.ended:
                self._tell({"event": "ended", "worker": self.name})
            return
        if self._after is not None:  # it failed at the end of a port
            if skipped:
                self._finished()
            else:
                self._begin(lambda: self.operator.finish(failure.port))
            return
        rows = failure.rows
        rest = rows.slice(rows.num_rows if skipped and not failure.is_exact else skipped)
        if rest.num_rows:
            self._run(rest, failure.port)

    def _completed(self, snapshot: int) -> None:
        self._commit(snapshot)
        if isinstance(self.operator, Source):
            saved = self._store.load(self.name, snapshot)
            self.operator.completed(saved["operator"] if saved else None)
        self._store.forget(self.name, snapshot)

    def _commit(self, snapshot: int) -> bool:
        """Let be seen what came before a snapshot; whether that was possible. If not, the worker has failed, and ``retry`` tries again."""
        if isinstance(self.operator, Sink):
            try:
                self.operator.commit(str(snapshot))
            except Exception:
                self._uncommitted = snapshot
                self._fail(0, pa.record_batch({}), False)
                return False
        self._uncommitted = None
        return True

    # --- data ----------------------------------------------------------------------------------------------------------

    def _work(self) -> bool:
        if self.ended or self.failure is not None or not all(o.room for o in self.outlets.values()):
            return False
        if self.reasons:
            if not self._single_steps or self.reasons != {"user"}:
                return False
            self._single_steps -= 1
        if self._running is not None:
            self._advance()
            return True
        if isinstance(self.operator, Source):
            return self._poll(self.operator)
        ready = self._ready()
        if not ready:
            return False
        inlet = self._choose(ready)
        number = self._numbers[inlet.id]
        if isinstance(inlet.head, Rows):
            count = min(inlet.head.batch.num_rows, self._slice)
            self._log.add(("d", number, count))
            self._run(inlet.pop_rows(count), inlet.port)
            self._advance()
        else:
            self._log.add(("m" if isinstance(inlet.head, Mark) else "e", number))
            self._meet(inlet)
        return True

    def _ready(self) -> list[Inlet]:
        blocked = self._alignment.blocked
        return [inlet for inlet in self.inlets.values() if inlet.head is not None and inlet.id not in blocked]

    def _next_in_turn(self, ready: list[Inlet]) -> Inlet:
        self._turn += 1
        return ready[self._turn % len(ready)]

    def _poll(self, source: Source) -> bool:
        try:
            read = source.poll(self._slice)
        except StopIteration:
            self._log.add(("x",))
            self._end()
            return True
        except Exception:
            self._fail(0, pa.record_batch({}), False)
            return True
        if read is None:
            return False
        self._log.add(("r", read.position))
        if not read.batch.num_rows:
            self._log.sync()  # where a source begins: nothing leaves that would have it stored
        self._took(read)
        return True

    def _took(self, read: Read) -> None:
        self.processed += read.batch.num_rows
        if read.batch.num_rows:
            self._put(read.batch)
        self._slice = min(self.settings.credit, self._slice * 2)

    def _run(self, batch: Batch, port: int) -> None:
        self._current = (port, batch)
        self._begin(lambda: self.operator.process(batch, port))

    def _begin(self, what: Callable[[], Any]) -> None:
        """Begin with what the operator does; ``what`` may fail at once, or at any of its steps."""

        def steps() -> Iterator[Batch | None]:
            yield from what()

        self._running, self._steps, self._yielded = steps(), 0, False

    def _advance(self) -> None:
        """One mini-step of what is being processed."""
        assert self._running is not None
        begin = self._clock()
        try:
            batch = next(self._running)
        except StopIteration:
            self._finished()
        except Exception as error:
            self._failed(error)
        else:
            self._steps += 1
            self._yielded = self._yielded or batch is not None
            if batch is not None and batch.num_rows:
                self._put(batch)
        self._adapt(self._clock() - begin)

    def _adapt(self, taken: float) -> None:
        if taken > self.settings.slow:
            self._slice = max(1, self._slice // 2)
        elif taken < self.settings.quick and self._running is None:
            self._slice = min(self.settings.credit, self._slice * 2)

    def _finished(self) -> None:
        self._running = None
        if self._current is not None:
            self.processed += self._current[1].num_rows
            self._current = None
        after, self._after = self._after, None
        if after is not None:
            after()

    def _put(self, batch: Batch) -> None:
        for router in self._routers:
            router.put(batch)

    # --- failing -------------------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> None:
        self._running = None
        port, batch = self._current or (0, pa.record_batch({}))
        row = error.row if isinstance(error, FailedRow) else None
        if row is None and not self._yielded and self._current is not None:
            row = failing_row(self.operator, batch, port)
            for done in self.operator.process(batch.slice(0, row), port) if row else ():
                if done is not None and done.num_rows:
                    self._put(done)
        self.processed += row or 0
        self._fail(port, batch.slice(row or 0), row is not None)

    def _fail(self, port: int, rows: Batch, is_exact: bool) -> None:
        self.failure = Failure(port, rows, is_exact, traceback.format_exc())
        self.reasons.add("error")
        self._tell({"event": "failed", "worker": self.name, "failure": self.failure.to_json()})

    # --- markers and ends ----------------------------------------------------------------------------------------------

    def _meet(self, inlet: Inlet) -> None:
        item = inlet.pop()
        ended = {other.id for other in self.inlets.values() if other.ended}
        if isinstance(item, Mark):
            if self._alignment.meet(item.marker, inlet.id, ended):
                self._act(item.marker)
            return
        for marker in self._alignment.after_end(inlet.id, ended):
            self._act(marker)
        if all(other.ended for other in self.inlets.values() if other.port == inlet.port):
            self._after = self._end_if_all
            self._current = (inlet.port, pa.record_batch({}))
            self._begin(lambda: self.operator.finish(inlet.port))

    def _end_if_all(self) -> None:
        if all(inlet.ended for inlet in self.inlets.values()):
            self._end()

    def _act(self, marker: Marker) -> None:
        """Do what a marker says, and send it on."""
        for outlet in self.outlets.values():
            if outlet.id in marker.channels and not outlet.ended:
                outlet.mark(marker)
        found: dict[str, Any] = {}
        if self.name in marker.commands:
            method, given = marker.commands[self.name]
            try:
                found["result"] = getattr(self.operator, method)(**given)
            except Exception as error:
                found["error"] = f"{type(error).__name__}: {error}"
        if marker.kind == SNAPSHOT and not self.ended:
            self._save(int(marker.id))
        self._log.sync()
        self._tell({"event": "marked", "worker": self.name, "marker": marker.id, **found})

    def _save(self, snapshot: int) -> None:
        if isinstance(self.operator, Sink):
            self.operator.prepare(str(snapshot))
        if snapshot != FINAL:
            self._log.turn(snapshot)
        self._log.sync()
        self._store.save(self.name, snapshot, saved(self))

    def _end(self) -> None:
        for outlet in self.outlets.values():
            outlet.end()
        self.ended = True
        self._save(FINAL)
        if self._commit(FINAL):
            self._tell({"event": "ended", "worker": self.name})

    # --- replay --------------------------------------------------------------------------------------------------------

    def _again(self) -> bool:
        """Do the next thing that the log says; whether that was possible: its input may not have come yet."""
        if self._unread or not all(o.room for o in self.outlets.values()):
            return False
        entry = self._replay[0]
        if self._running is not None and not (entry[0] == "c" and entry[1] == self._steps):
            self._advance()
            return True
        if entry[0] == "c":
            self._apply(Command.from_json(entry[2]))
            self._replay.popleft()
            return True
        return self._data_again(entry)

    def _data_again(self, entry: Entry) -> bool:
        kind, *what = entry
        if kind == "r":
            self._read_again(what[0])
            return True
        if kind == "x":
            self._replay.popleft()
            self._end()
            return True
        inlet = list(self.inlets.values())[what[0]]
        if kind == "d":
            batch = inlet.gather(what[1])
            if batch is None:
                return False
            self._replay.popleft()
            self._run(batch, inlet.port)
            self._advance()
            return True
        if inlet.head is None:
            return False
        self._replay.popleft()
        self._meet(inlet)
        return True

    def _read_again(self, position: Any) -> None:
        """Read what was read before. A source that cannot, since a broker is away, waits for ``retry``; there is nothing to skip."""
        assert isinstance(self.operator, Source)
        try:
            read = Read(self.operator.reread(position), position)
        except Exception:
            self._unread = True
            self._fail(0, pa.record_batch({}), False)
            return
        self._replay.popleft()
        self._took(read)

    # --- telling -------------------------------------------------------------------------------------------------------

    def inspect(self) -> dict[str, Any]:
        """What a user may want to see of it: state by field, queues, what is being processed, what it waits for."""
        return {
            "worker": self.name,
            "is": self.condition,
            "reasons": sorted(self.reasons),
            "processed": self.processed,
            "state": dict(self.operator.inspect()),
            "current": None if self._current is None else shown(self._current[1].slice(0, 1).to_pylist()),
            "waiting": {i.id: i.waiting for i in self.inlets.values()},
            "unsent": {o.id: o.offset - o.sent for o in self.outlets.values()},
            "full": [o.id for o in self.outlets.values() if not o.room or o.is_blocked],
            "unaligned": self._alignment.waiting_for,
            "failure": None if self.failure is None else self.failure.to_json(),
        }

    @property
    def condition(self) -> str:
        """In one word: failed, ended, paused, replaying, blocked (its output is full), aligning, starved (no input), or busy."""
        if self.failure is not None:
            return "failed"
        if self.ended:
            return "ended"
        if self.reasons:
            return "paused"
        if self._replay:
            return "replaying"
        if not all(o.room for o in self.outlets.values()):
            return "blocked"
        if self._running is None and self.inlets and not self._ready():
            return "aligning" if self._alignment.waiting_for else "starved"
        return "busy"
