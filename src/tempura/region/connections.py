"""The controller's end of the control streams."""

import threading
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

import pyarrow.flight as flight

from tempura.region.wire import Listener, buffer_of, greeted, message_of


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
