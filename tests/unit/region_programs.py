"""Operators for tests with real processes: a module that these can import."""

from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa

from tempura.region.graph import Graph, Link, Node
from tempura.region.operators import Batch, Operator, Read, Sink, Source

NUMBERS = pa.schema([("n", pa.int64())])

__all__ = ["Count", "Graph", "Kept", "Link", "Node", "UpTo"]


class UpTo(Source):
    """The numbers from 0."""

    state: ClassVar[tuple[str, ...]] = ("next",)

    def __init__(self, count: int) -> None:
        self.next, self.count = 0, count

    def poll(self, rows: int) -> Read:
        if self.next == self.count:
            raise StopIteration
        position = [self.next, min(self.count, self.next + rows)]
        return Read(self.reread(position), position)

    def reread(self, position: Any) -> Batch:
        self.next = position[1]
        return pa.record_batch([pa.array(range(*position), pa.int64())], schema=NUMBERS)


class Count(Operator):
    """Lets all pass, and counts it."""

    state: ClassVar[tuple[str, ...]] = ("seen",)

    def __init__(self) -> None:
        self.seen = 0

    def process(self, batch: Batch, port: int) -> Iterable[Batch]:
        self.seen += batch.num_rows
        return [batch]


class Kept(Sink):
    """Appends to a list of the process in which it runs."""

    def __init__(self, kept: list[int]) -> None:
        self.kept = kept

    def write(self, batch: Batch) -> None:
        self.kept += batch.column(0).to_pylist()
