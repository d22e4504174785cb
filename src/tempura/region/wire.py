"""How items and messages are written on Arrow Flight streams, and who may open one."""

import hmac
import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from tempura.region.messages import End, Item, Mark, Marker, Rows

LOOPBACK = "127.0.0.1"

_HEAD = struct.Struct("<cQ")
EMPTY = pa.schema([])


def greeting(token: str, **about: Any) -> flight.FlightDescriptor:
    """How a stream begins: with the token of the execution, and what it is for."""
    return flight.FlightDescriptor.for_command(json.dumps({"token": token, **about}).encode())


def greeted(token: str, descriptor: flight.FlightDescriptor) -> dict[str, Any]:
    """What a stream is for. Raises FlightUnauthenticatedError without the token of this execution."""
    try:
        about = dict(json.loads(descriptor.command or b"{}"))
    except ValueError:
        about = {}
    if not hmac.compare_digest(str(about.pop("token", "")), token):
        raise flight.FlightUnauthenticatedError("this stream has not the token of the execution")
    return about


def head_of(item: Item) -> bytes:
    """An item's metadata: its kind and offset, and a marker."""
    match item:
        case Rows():
            return _HEAD.pack(b"r", item.offset)
        case Mark():
            return _HEAD.pack(b"m", item.offset) + json.dumps(item.marker.to_json()).encode()
        case End():
            return _HEAD.pack(b"e", item.offset)


def item_of(chunk: Any) -> Item:
    """The inverse: an item from what a stream gives."""
    head = chunk.app_metadata.to_pybytes()
    kind, offset = _HEAD.unpack(head[: _HEAD.size])
    if kind == b"r":
        return Rows(offset, chunk.data)
    return End(offset) if kind == b"e" else Mark(offset, Marker.from_json(json.loads(head[_HEAD.size :])))


def buffer_of(message: Mapping[str, Any] | list[int]) -> pa.Buffer:
    """A message as a stream carries it."""
    return pa.py_buffer(json.dumps(message, default=str).encode())


def message_of(buffer: pa.Buffer) -> Any:
    """The inverse of :func:`buffer_of`."""
    return json.loads(buffer.to_pybytes())


def bind_address(controller: str) -> str:
    """Where a worker listens: on the loopback if its controller does, else where it is reached from there."""
    if controller in (LOOPBACK, "localhost"):
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((controller, 9))
        return str(probe.getsockname()[0])


class Listener(flight.FlightServerBase):  # type: ignore[misc]
    """What is common to both ends: a server that only takes streams with the token."""

    def __init__(self, address: str, token: str) -> None:
        super().__init__(f"grpc://{address}:0")
        self.address = address
        self._token = token
