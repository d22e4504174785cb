"""What the controller knows and decides, without what carries it: commands that were not answered, the marker that is under way, the last
complete snapshot, and who has to be restarted with whom."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tempura.region.graph import Graph, bad_region
from tempura.region.messages import SNAPSHOT, Alignment, Command, Marker

Post = Callable[[str, Command], None]
"""Sends a command to a worker."""


@dataclass(slots=True)
class Asked:
    """Commands that belong together, by worker, and what was answered; ``done`` is called when all have answered."""

    waits: set[int]
    done: Callable[[Mapping[str, Mapping[str, Any]]], None]
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class UnderWay:
    """A marker, the workers that act on it, those that have not yet, and what the others found."""

    marker: Marker
    workers: frozenset[str]
    waits: set[str]
    done: Callable[[Mapping[str, Mapping[str, Any]]], None]
    found: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def nothing(_: Mapping[str, Mapping[str, Any]]) -> None:
    """For who does not wait for an answer."""


class Coordinator:
    """The state of a region's controller. One marker is under way at a time, others wait: two that cross would block each other's
    channels.

    What outlives it: ``snapshot``, the last complete one; ``begun``, the marker that was under way when the region ended (``on_begun``):
    it is in the logs of some workers, so it goes on, with the same commands. ``first`` is greater than the ids of former commands.
    """

    def __init__(
        self, graph: Graph, post: Post, snapshot: int = 0, begun: Mapping[str, Any] | None = None, first: int = 0
    ) -> None:
        self.graph = graph
        self.complete = snapshot
        self.ended: set[str] = set()
        self.failures: dict[str, Mapping[str, Any]] = {}
        self.under_way: UnderWay | None = None
        self.on_complete: Callable[[int], None] = lambda snapshot: None
        self.on_begun: Callable[[Mapping[str, Any] | None], None] = lambda begun: None
        self._post = post
        self._queued: deque[UnderWay] = deque()
        self._last_snapshot = snapshot
        self._next_id = first
        self._unanswered: dict[int, tuple[str, Command, Asked]] = {}
        if begun is not None:
            self._go_on(begun)

    # --- commands ------------------------------------------------------------------------------------------------------

    def ask(
        self,
        workers: Iterable[str],
        name: str,
        arguments: Mapping[str, Any] | None = None,
        done: Callable[[Mapping[str, Mapping[str, Any]]], None] = nothing,
    ) -> None:
        """Send a command to workers; ``done`` gets the answers by worker, when all have come."""
        self._send(self._commands(workers, name, arguments or {}, done))

    def _commands(
        self,
        workers: Iterable[str],
        name: str,
        arguments: Mapping[str, Any],
        done: Callable[[Mapping[str, Mapping[str, Any]]], None] = nothing,
    ) -> list[tuple[str, Command]]:
        asked = Asked(set(), done)
        sent = []
        for worker in workers:
            self._next_id += 1
            command = Command(self._next_id, name, arguments)
            asked.waits.add(command.id)
            self._unanswered[command.id] = (worker, command, asked)
            sent.append((worker, command))
        if not sent:
            done({})
        return sent

    def _send(self, commands: Iterable[tuple[str, Command]]) -> None:
        for worker, command in commands:
            self._post(worker, command)

    def heard(self, event: Mapping[str, Any]) -> None:
        """What a worker says. To hear the same twice changes nothing."""
        worker = event["worker"]
        match event["event"]:
            case "answer":
                self._answered(worker, event)
            case "marked":
                self._acted(worker, event)
            case "ended":
                self.ended.add(worker)
                if self.under_way is not None:
                    self.under_way.waits.discard(worker)
                    self._finish_marker()
            case "failed":
                self.failures[worker] = event["failure"]

    def _answered(self, worker: str, event: Mapping[str, Any]) -> None:
        known = self._unanswered.pop(event["id"], None)
        if known is None:
            return
        _, command, asked = known
        if command.name in ("retry", "skip"):
            self.failures.pop(worker, None)
        asked.answers[worker] = {k: v for k, v in event.items() if k not in ("event", "worker", "id")}
        asked.waits.discard(command.id)
        if not asked.waits:
            asked.done(asked.answers)

    # --- markers -------------------------------------------------------------------------------------------------------

    def send_marker(
        self,
        channels: Iterable[str],
        commands: Mapping[str, tuple[str, Mapping[str, Any]]],
        alignment: Alignment = "all",
        done: Callable[[Mapping[str, Mapping[str, Any]]], None] = nothing,
    ) -> str:
        """Let a marker travel these channels; each worker named in ``commands`` calls a method of its operator when it is aligned. Returns
        the marker's id. Raises TempuraError BAD_REGION for a channel or worker that there is not."""
        wanted = frozenset(channels)
        unknown = (wanted - {c.id for c in self.graph.channels}) | (set(commands) - set(self.graph.workers))
        if unknown:
            raise bad_region(f"a marker names {min(unknown)!r}, which the region does not have.", "Correct it.")
        self._next_id += 1
        marker = Marker(f"m{self._next_id}", wanted, alignment, "command", dict(commands))
        touched = {end for c in self.graph.channels if c.id in wanted for end in (c.sender, c.receiver)}
        self._queue(UnderWay(marker, frozenset(touched | set(commands)), set(), done))
        return marker.id

    def snapshot(self, done: Callable[[Mapping[str, Mapping[str, Any]]], None] = nothing) -> None:
        """Let all workers save their state at one place of all streams."""
        self._last_snapshot += 1
        marker = Marker(str(self._last_snapshot), frozenset(c.id for c in self.graph.channels), "all", SNAPSHOT)
        self._queue(UnderWay(marker, frozenset(self.graph.workers), set(), done))

    def _queue(self, wanted: UnderWay) -> None:
        self._queued.append(wanted)
        self._begin_marker()

    def _begin_marker(self) -> None:
        while self.under_way is None and self._queued:
            self.under_way = self._queued.popleft()
            marker = self.under_way.marker
            self.under_way.waits = set(self.under_way.workers - (self.ended - set(marker.commands)))
            reached = {c.receiver for c in self.graph.channels if c.id in marker.channels}
            senders = {c.sender for c in self.graph.channels if c.id in marker.channels} | set(marker.commands)
            heads = sorted((senders or set(self.graph.workers)) - reached)
            commands = self._commands(heads, "inject", {"marker": marker.to_json()})
            sent = {worker: command.to_json() for worker, command in commands}
            self.on_begun({"marker": marker.to_json(), "workers": sorted(self.under_way.workers), "commands": sent})
            self._send(commands)
            self._finish_marker()

    def _go_on(self, begun: Mapping[str, Any]) -> None:
        """A marker was under way when the region ended. Its commands are sent when the workers are there (:meth:`restarted`): those that
        have them in their logs know them by their ids."""
        marker = Marker.from_json(begun["marker"])
        if marker.kind == SNAPSHOT:
            self._last_snapshot = int(marker.id)
        self.under_way = UnderWay(marker, frozenset(begun["workers"]), set(begun["workers"]), nothing)
        for worker, data in begun["commands"].items():
            command = Command.from_json(data)
            self._unanswered[command.id] = (worker, command, Asked({command.id}, nothing))

    def _acted(self, worker: str, event: Mapping[str, Any]) -> None:
        if self.under_way is not None and self.under_way.marker.id == event["marker"]:
            self.under_way.waits.discard(worker)
            self.under_way.found[worker] = {k: v for k, v in event.items() if k in ("result", "error")}
            self._finish_marker()

    def _finish_marker(self) -> None:
        if self.under_way is None or self.under_way.waits:
            return
        done, self.under_way = self.under_way, None
        if done.marker.kind == SNAPSHOT:
            self.complete = int(done.marker.id)
            self.on_complete(self.complete)
        self.on_begun(None)
        if done.marker.kind == SNAPSHOT:
            self.ask(self.graph.workers, "completed", {"snapshot": self.complete})
        done.done(done.found)
        self._begin_marker()

    # --- restarting ----------------------------------------------------------------------------------------------------

    def to_restart(self, dead: Iterable[str]) -> frozenset[str]:
        """Who begins again from the last complete snapshot when some workers are dead: they, and all that send to them. The others keep
        their state, and drop what they get twice (*Texera*, section 2.3.3)."""
        return self.graph.with_ancestors(set(dead))

    def restarted(self, workers: Iterable[str]) -> None:
        """Workers were made anew: what they have not answered is sent again, and they will say again that they have acted on the marker
        or ended. Until they do it is not so: they are behind. What they said before must not be heard any more."""
        again = set(workers)
        self.ended -= again
        if self.under_way is not None:
            self.under_way.waits |= again & self.under_way.workers
        for worker, command, _ in list(self._unanswered.values()):
            if worker in again:
                self._post(worker, command)

    @property
    def is_done(self) -> bool:
        """Whether all workers have ended."""
        return self.ended == set(self.graph.workers)
