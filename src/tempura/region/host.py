"""A worker's process: it carries a :class:`~tempura.region.worker.Worker` on Arrow Flight. One thread steps the worker, and nothing else
touches it; threads that read and write streams hand over by queues, so the operator never waits for a stream, nor control for data.
"""

import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow.flight as flight

from tempura.region.graph import Graph
from tempura.region.log import FolderStore
from tempura.region.messages import Command, Item, Rows
from tempura.region.operators import Source
from tempura.region.settings import Settings
from tempura.region.wire import (
    EMPTY,
    Listener,
    bind_address,
    buffer_of,
    greeted,
    greeting,
    head_of,
    item_of,
    message_of,
)
from tempura.region.worker import Worker

IDLE = 0.005
"""Seconds after which a source that had nothing is asked again."""

SWITCH = 0.0005
"""Seconds after which Python lets another thread run: a command is read while the operator computes."""


class Incoming:
    """A stream of a channel that a sender has opened. Its writer is there as long as it is read."""

    def __init__(self, channel: str, writer: Any) -> None:
        self.channel = channel
        self.told = -1
        self._writer: Any | None = writer
        self._lock = threading.Lock()

    def acknowledge(self, received: int, used: int) -> None:
        """Say what was received and used up; a sender that is gone need not know."""
        self.told = used
        with self._lock:
            try:
                if self._writer is not None:
                    self._writer.write(buffer_of([received, used]))
            except (OSError, flight.FlightError, ValueError):
                self._writer = None

    def end(self) -> None:
        """Nothing is written any more."""
        with self._lock:
            self._writer = None


class DataServer(Listener):
    """Takes the streams of the senders."""

    def __init__(self, address: str, token: str, arrived: deque[Any], bell: threading.Event) -> None:
        super().__init__(address, token)
        self._arrived, self._bell = arrived, bell

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        incoming = Incoming(greeted(self._token, descriptor)["channel"], writer)
        self._hand_over((incoming, None))
        try:
            while True:
                self._hand_over((incoming, item_of(reader.read_chunk())))
        except (StopIteration, OSError, flight.FlightError):
            return
        finally:
            incoming.end()

    def _hand_over(self, what: tuple[Incoming, Item | None]) -> None:
        self._arrived.append(what)
        self._bell.set()


class Outgoing:
    """A channel to a receiver: a thread that writes, and one per stream that reads what the receiver acknowledges. A stream has one schema;
    another schema is another stream."""

    def __init__(self, channel: str, token: str, address: str, acknowledged: deque[Any], bell: threading.Event) -> None:
        self.channel, self.is_greeted = channel, False
        self._token, self._address = token, address
        self._acknowledged, self._bell = acknowledged, bell
        self._items: SimpleQueue[Item | None] = SimpleQueue()
        threading.Thread(target=self._write, name=f"send {channel}", daemon=True).start()

    def send(self, item: Item) -> None:
        """Write an item, when its turn comes."""
        self._items.put(item)

    def close(self) -> None:
        """Write no more."""
        self._items.put(None)

    def _write(self) -> None:
        client = flight.connect(self._address)
        writer = None
        try:
            schema = EMPTY
            writer = self._open(client, schema)
            while (item := self._items.get()) is not None:
                if isinstance(item, Rows):
                    if item.batch.schema != schema:
                        self._close(writer)
                        schema = item.batch.schema
                        writer = self._open(client, schema)
                    writer.write_with_metadata(item.batch, head_of(item))
                else:
                    writer.write_metadata(head_of(item))
        except (OSError, flight.FlightError):
            pass  # the receiver is gone: the controller knows, and begins again with both of them
        finally:
            if writer is not None:
                self._close(writer)
            client.close()

    def _open(self, client: Any, schema: Any) -> Any:
        writer, reader = client.do_put(greeting(self._token, channel=self.channel), schema)
        self._reading = threading.Thread(target=self._read, args=(reader,), name=f"acks {self.channel}", daemon=True)
        self._reading.start()
        return writer

    def _close(self, writer: Any) -> None:
        """End a stream when the receiver has read all of it: only then nobody reads it here."""
        try:
            writer.done_writing()
            self._reading.join()
            writer.close()
        except (OSError, flight.FlightError):
            return

    def _read(self, reader: Any) -> None:
        while True:
            try:
                said = reader.read()
            except (OSError, flight.FlightError, ValueError):
                return
            if said is None:
                return
            self._acknowledged.append((self, *message_of(said)))
            self._bell.set()


class Host:
    """Runs one worker until the controller stops it or is gone. ``life`` counts how often it was started; ``folder`` is one that all
    workers see."""

    def __init__(
        self, graph: Graph, name: str, life: int, address: str, token: str, folder: Path, settings: Settings
    ) -> None:
        self._graph, self._name, self._token = graph, name, token
        self._store, self._settings = FolderStore(folder), settings
        self._bell = threading.Event()
        self._arrived: deque[tuple[Incoming, Item | None]] = deque()
        self._acknowledged: deque[tuple[Outgoing, int, int]] = deque()
        self._mail: deque[Mapping[str, Any]] = deque()
        self._incoming: dict[str, Incoming] = {}
        self._outgoing: dict[str, Outgoing] = {}
        self._worker: Worker | None = None
        self._goes = self._stopped = False
        self._incarnation = 0
        host = address.partition("://")[2].rpartition(":")[0]
        self._server = DataServer(bind_address(host), token, self._arrived, self._bell)
        self._client = flight.connect(address)
        listens = f"grpc://{self._server.address}:{self._server.port}"
        hello = greeting(token, worker=name, life=life, listens=listens, pid=os.getpid())
        self._control, self._reader = self._client.do_exchange(hello)
        self._tell({"event": "hello"})
        self._listening = threading.Thread(target=self._read_control, name="control", daemon=True)
        self._listening.start()

    def run(self) -> None:
        """Step the worker until it is told to stop."""
        while not self._stopped:
            self._bell.clear()
            self._take_over()
            did = self._worker.step() if self._worker is not None and self._goes else False
            made_room = self._hand_over(idle=not did)
            if not did and not made_room and not self._stopped:
                self._bell.wait(self._patience())
        self._close_streams()
        self._server.shutdown()
        try:
            self._control.done_writing()
            self._listening.join(5)
            self._control.close()
        except (OSError, flight.FlightError):
            pass  # the controller is gone
        self._client.close()

    def _patience(self) -> float | None:
        """How long to wait for something to come: a source is asked again, and nobody else is woken without cause."""
        worker = self._worker
        asks = worker is not None and self._goes and isinstance(worker.operator, Source) and worker.condition == "busy"
        return IDLE if asks else None

    # --- control -------------------------------------------------------------------------------------------------------

    def _read_control(self) -> None:
        while True:
            try:
                self._mail.append(message_of(self._reader.read_chunk().app_metadata))
            except (StopIteration, OSError, flight.FlightError):
                self._mail.append({"host": "stop"})
                self._bell.set()
                return
            self._bell.set()

    def _tell(self, event: Mapping[str, Any]) -> None:
        try:
            self._control.write_metadata(buffer_of({"worker": self._name, "incarnation": self._incarnation, **event}))
        except (OSError, flight.FlightError):
            self._stopped = True

    def _obey(self, message: Mapping[str, Any]) -> None:
        match message.get("host"):
            case None:
                if self._worker is not None:
                    self._worker.commands.append(Command.from_json(message))
            case "reset":
                self._reset(message["snapshot"], message["incarnation"])
            case "cut":
                for channel in self._graph.inputs(self._name):
                    if channel.sender in message["senders"]:
                        self._incoming.pop(channel.id, None)
                self._tell({"event": "cut"})
            case "go":
                for channel in self._graph.outputs(self._name):
                    address = message["addresses"][channel.receiver]
                    opened = Outgoing(channel.id, self._token, address, self._acknowledged, self._bell)
                    self._outgoing[channel.id] = opened
                self._goes = True
            case "stop":
                self._stopped = True

    def _reset(self, snapshot: int, incarnation: int) -> None:
        """Begin again from a snapshot, with nothing of what was."""
        self._close_streams()
        self._goes = False
        self._incarnation = incarnation
        try:
            self._worker = Worker(self._graph, self._name, self._store, self._tell, self._settings, snapshot)
        except Exception as error:
            self._tell({"event": "broken", "why": f"{type(error).__name__}: {error}"})
            return
        self._tell({"event": "ready"})

    def _close_streams(self) -> None:
        for outgoing in self._outgoing.values():
            outgoing.close()
        self._outgoing, self._incoming = {}, {}
        self._arrived.clear()
        self._acknowledged.clear()

    # --- data ----------------------------------------------------------------------------------------------------------

    def _take_over(self) -> None:
        """Take what the threads have read."""
        while self._mail:
            self._obey(self._mail.popleft())
        worker = self._worker
        if worker is None:
            return
        while self._acknowledged:
            outgoing, received, used = self._acknowledged.popleft()
            if self._outgoing.get(outgoing.channel) is outgoing:
                outlet = worker.outlets[outgoing.channel]
                if not outgoing.is_greeted:
                    outlet.greet(received, used)
                    outgoing.is_greeted = True
                outlet.acknowledge(used)
        while self._arrived:
            incoming, item = self._arrived.popleft()
            inlet = worker.inlets.get(incoming.channel)
            if inlet is None:
                continue
            if item is None:
                self._incoming[incoming.channel] = incoming
                incoming.acknowledge(inlet.received, inlet.used)
            elif self._incoming.get(incoming.channel) is incoming:
                inlet.accept(item)

    def _hand_over(self, idle: bool) -> bool:
        """Give the threads what is to be sent, and senders their credit. Whether there is more room now for what the operator gives: what
        a receiver has already is not sent, and nobody else would say so."""
        worker, made_room = self._worker, False
        if worker is None:
            return False
        for id, outgoing in self._outgoing.items():
            if outgoing.is_greeted:
                outlet = worker.outlets[id]
                before = outlet.sent
                while (item := outlet.take()) is not None:
                    outgoing.send(item)
                made_room = made_room or outlet.sent > before
        for id, incoming in self._incoming.items():
            inlet = worker.inlets[id]
            unsaid = inlet.used - incoming.told
            if unsaid > 0 and (unsaid * 4 >= self._settings.credit or idle):
                incoming.acknowledge(inlet.received, inlet.used)
        return made_room


def carry(code: bytes) -> None:
    """Run the worker that a text of code describes (:func:`described`), in this process, until it is told to stop."""
    from pyspark import cloudpickle

    graph, name, life, address, token, folder, settings, path = cloudpickle.loads(code)
    sys.path += [p for p in path if p not in sys.path]
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        Host(graph, name, life, address, token, Path(folder), settings).run()
    except Exception:
        traceback.print_exc()
        os._exit(1)  # it must not linger, with streams that nobody reads: whoever started it starts another
    finally:
        sys.setswitchinterval(before)
        time.sleep(0.01)  # threads that read streams see that these are closed


def described(graph: Graph, name: str, life: int, address: str, token: str, folder: Path, settings: Settings) -> bytes:
    """What :func:`carry` needs: the code of the worker's operator travels as Spark sends functions to its workers."""
    from pyspark import cloudpickle

    own = graph.only(graph.node_of[name].name)
    dumps: Any = cloudpickle.dumps
    return bytes(dumps((own, name, life, address, token, str(folder), settings, sys.path)))


if __name__ == "__main__":
    carry(sys.stdin.buffer.read())
