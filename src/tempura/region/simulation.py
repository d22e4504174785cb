"""A region in this process, in one thread: workers, channels and the controller take turns as a seed says. The same seed gives the same
run, in which workers may be killed at any moment; it is what tests look at, and what runs a small region where there is no Spark."""

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tempura.errors import TempuraError
from tempura.region.coordinator import Coordinator
from tempura.region.graph import Graph
from tempura.region.log import MemoryStore, Store
from tempura.region.messages import Command, Item, rows_in
from tempura.region.settings import Settings
from tempura.region.waiting import why
from tempura.region.worker import Worker

PATIENCE = 100
"""Turns in which nobody does anything, after which nobody will: a source that had nothing may have something when it is asked again."""


class Killed(BaseException):
    """A worker dies here."""


class DyingStore:
    """A store at whose operations a worker may die: before it is done, or after."""

    def __init__(self, store: Store, dies: Callable[[], bool]) -> None:
        self._store = store
        self._dies = dies

    def __getattr__(self, name: str) -> Any:
        done = getattr(self._store, name)
        if name in ("load", "lines"):
            return done

        def operation(*given: Any) -> None:
            if self._dies():
                raise Killed
            done(*given)
            if self._dies():
                raise Killed

        return operation


class Simulation:
    """A region whose parts take turns. ``deaths``: the probability that a worker dies at an operation of its store, and a tenth of that at
    any other moment; ``most_deaths`` end it. ``endings``: the probability of a turn that the whole region ends with its controller, and
    begins again from what is stored. ``make_worker`` makes one, which a test may want otherwise."""

    def __init__(
        self,
        graph: Graph,
        seed: int = 0,
        settings: Settings | None = None,
        deaths: float = 0.0,
        most_deaths: int = 10,
        snapshots: float = 0.0,
        make_worker: Callable[..., Worker] = Worker,
        endings: float = 0.0,
    ) -> None:
        self.graph = graph
        self.random = Random(seed)
        self.store = MemoryStore()
        self.deaths = 0
        self.overdrawn = 0
        self._settings = settings or Settings()
        self._death, self._most_deaths, self._snapshots = deaths, most_deaths, snapshots
        self._make_worker = make_worker
        self._endings = endings
        self._begun: Mapping[str, Any] | None = None
        self._mail: dict[str, deque[Command]] = {name: deque() for name in graph.workers}
        self._said: dict[str, deque[Mapping[str, Any]]] = {name: deque() for name in graph.workers}
        self._flying: dict[str, deque[Item]] = {c.id: deque() for c in graph.channels}
        self.coordinator = self._coordinator(0, 0)
        self.workers = {name: self._made(name) for name in graph.workers}

    def _coordinator(self, snapshot: int, first: int) -> Coordinator:
        found = Coordinator(
            self.graph, lambda worker, command: self._mail[worker].append(command), snapshot, self._begun, first
        )
        found.on_begun = lambda begun: setattr(self, "_begun", begun)
        return found

    def _made(self, name: str) -> Worker:
        said = self._said[name]
        while True:
            try:
                return self._make_worker(
                    self.graph,
                    name,
                    DyingStore(self.store, self._dies),
                    said.append,
                    self._settings,
                    self.coordinator.complete,
                    choose=self.random.choice,
                    clock=lambda: 0.0,
                )
            except Killed:
                self.deaths += 1

    def _dies(self) -> bool:
        return self._death > 0 and self.deaths < self._most_deaths and self.random.random() < self._death

    # --- taking turns --------------------------------------------------------------------------------------------------

    def run(self, turns: int = 1_000_000) -> None:
        """Take turns until all workers have ended and all is said, or nobody has done anything for a while. Raises TempuraError
        REGION_FAILED after too many turns."""
        idle = 0
        for _ in range(turns):
            idle = 0 if self.turn() else idle + 1
            if idle > (1 if self.coordinator.is_done else PATIENCE):
                return
        raise TempuraError("REGION_FAILED", f"The region has not ended after {turns} turns.", self.why())

    def turn(self) -> bool:
        """One part does something; whether any could."""
        is_idle = self.coordinator.under_way is None and not any(self._mail.values()) and not self.coordinator.is_done
        if self._snapshots and self.random.random() < self._snapshots and is_idle:
            self.coordinator.snapshot()
        if self._dies() and self.random.random() < 0.1:
            self._kill(self.random.choice(self.graph.workers))
        if self._endings and self.deaths < self._most_deaths and self.random.random() < self._endings:
            self.end()
        parts = [*self.graph.workers, *self._flying]
        self.random.shuffle(parts)
        return any(self._step(part) if part in self.workers else self._carry(part) for part in parts)

    def _step(self, name: str) -> bool:
        worker = self.workers[name]
        if self._said[name]:
            self.coordinator.heard(self._said[name].popleft())
            return True
        if self._mail[name]:
            worker.commands.append(self._mail[name].popleft())
        try:
            return worker.step()
        except Killed:
            self._kill(name)
            return True

    def _carry(self, channel: str) -> bool:
        sender, receiver = self._ends(channel)
        outlet, inlet, flying = sender.outlets[channel], receiver.inlets[channel], self._flying[channel]
        item = outlet.take() if not flying or self.random.random() < 0.5 else None
        if item is not None:
            flying.append(item)
        elif flying:
            inlet.accept(flying.popleft())
        elif outlet.used < inlet.used:
            outlet.acknowledge(inlet.used)
        else:
            return False
        self.overdrawn = max(self.overdrawn, inlet.waiting + rows_in(flying) - self._settings.credit)
        return True

    def _ends(self, channel: str) -> tuple[Worker, Worker]:
        ends = next(c for c in self.graph.channels if c.id == channel)
        return self.workers[ends.sender], self.workers[ends.receiver]

    # --- dying ---------------------------------------------------------------------------------------------------------

    def _kill(self, name: str) -> None:
        """A worker dies: it and its ancestors begin again. What they had in memory, what was on its way from them and what they said and
        was not heard is lost; they will say it again."""
        self.deaths += 1
        again = self.coordinator.to_restart([name])
        for worker in again:
            self._mail[worker].clear()
            self._said[worker].clear()
        for channel in self.graph.channels:
            if channel.sender in again:
                self._flying[channel.id].clear()
        for worker in sorted(again):
            self.workers[worker] = self._made(worker)
        for channel in self.graph.channels:
            if channel.sender in again:
                sender, receiver = self._ends(channel.id)
                sender.outlets[channel.id].greet(receiver.inlets[channel.id].received, receiver.inlets[channel.id].used)
        self.coordinator.restarted(again)

    def end(self) -> None:
        """The region ends, and begins again from what is stored: logs, snapshots, which is complete and which marker was under way."""
        self.deaths += 1
        self.coordinator = self._coordinator(self.coordinator.complete, self.deaths << 20)
        for queues in (self._mail, self._said, self._flying):
            for queue in queues.values():
                queue.clear()
        self.workers = {name: self._made(name) for name in self.graph.workers}
        for channel in self.graph.channels:
            sender, receiver = self._ends(channel.id)
            sender.outlets[channel.id].greet(receiver.inlets[channel.id].received, receiver.inlets[channel.id].used)
        self.coordinator.restarted(self.graph.workers)

    # --- telling -------------------------------------------------------------------------------------------------------

    def why(self) -> str:
        """Who waits for whom."""
        return why(self.graph, {name: worker.inspect() for name, worker in self.workers.items()})
