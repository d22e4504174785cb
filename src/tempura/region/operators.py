"""What a user writes: operators, sources and sinks as plain classes. They know of batches, and of nothing else: not where they run, who
sends, or that there are others of them.

An operator is deterministic: the same batches in the same order, and the same calls between them, give the same batches. What is not (the
time, what a folder holds, what a broker has) is a source's business, whose positions are logged.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

Batch: TypeAlias = pa.RecordBatch

State = Mapping[str, Any]
"""Saved fields: plain data as JSON has it, and Arrow record batches."""


CHANGE, TIME = "_change", "_time"
"""Columns of rows that are changes: ``_change`` is insert or delete, insert where it is not; ``_time``, in seconds, says when."""

KINDS = ("insert", "delete")


class FailedRow(Exception):  # noqa: N818 - it is a place, not an error of its own
    """Raised by an operator that knows which row of its batch it cannot process; ``row`` counts from 0, the cause is the error.

    What it has yielded before stands, and the rows before this one are processed.
    """

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row}")
        self.row = row


class Operator:
    """Batches in, batches out. ``state`` names the attributes that are its state: plain data as JSON has it, or record batches; an
    operator with none may be asked again for rows that it has seen.

    ``process`` and ``finish`` may be generators: between two of their yields the worker looks at what it is told, so a step should
    take some milliseconds. A step that has nothing to give yields None.
    """

    state: ClassVar[tuple[str, ...]] = ()

    def open(self) -> None:
        """Called once, in the worker, before anything else: load models, connect."""

    def process(self, batch: Batch, port: int) -> Iterable[Batch | None]:
        """What follows from the rows that come at a port."""
        raise NotImplementedError(type(self).__name__)

    def finish(self, port: int) -> Iterable[Batch | None]:
        """What follows from the end of a port's input."""
        return ()

    def save(self) -> State:
        """The declared fields as they are now."""
        return {name: getattr(self, name) for name in self.state}

    def restore(self, state: State) -> None:
        """Take back what :meth:`save` gave."""
        for name, value in state.items():
            setattr(self, name, value)

    def inspect(self) -> Mapping[str, Any]:
        """What a user sees of the state: short texts."""
        return {name: shown(getattr(self, name)) for name in self.state}


class RowOperator(Operator):
    """An operator that processes row by row, each a mapping; ``schema`` is that of its output. A row that fails is known exactly."""

    schema: pa.Schema

    def each(self, row: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
        """What follows from one row."""
        raise NotImplementedError(type(self).__name__)

    def process(self, batch: Batch, port: int) -> Iterator[Batch | None]:
        found: list[Mapping[str, Any]] = []
        for n, row in enumerate(batch.to_pylist()):
            try:
                found += self.each(row)
            except Exception as error:
                yield self._batch(found)
                raise FailedRow(n) from error
        yield self._batch(found)

    def _batch(self, rows: list[Mapping[str, Any]]) -> Batch | None:
        return pa.RecordBatch.from_pylist(rows, schema=self.schema) if rows else None


@dataclass(frozen=True, slots=True)
class Read:
    """What a source has read: rows, and a position, plain data, from which the same rows can be read again."""

    batch: Batch
    position: Any


class Source(Operator):
    """Where rows come from. ``poll`` is asked when there is room; ``reread`` gives the same rows again, and leaves the source in the
    state that it was in after it had read them."""

    def poll(self, rows: int) -> Read | None:
        """At most so many rows that are there now; None when there are none. Raises StopIteration at the end.

        It must not block for longer than some milliseconds.
        """
        raise NotImplementedError(type(self).__name__)

    def reread(self, position: Any) -> Batch:
        """The rows of a position."""
        raise NotImplementedError(type(self).__name__)

    def completed(self, state: State | None) -> None:
        """What was read before this state was saved will not be asked for again."""


class Sink(Operator):
    """Where rows go. It keeps what it gets until a snapshot: ``prepare`` makes that durable and is part of the snapshot, ``commit`` lets
    it be seen when the snapshot is complete. Both may be called again with the same id, and then change nothing more.

    A sink whose effects are seen at once, as a callback's, needs neither.
    """

    def process(self, batch: Batch, port: int) -> Iterable[Batch | None]:
        self.write(batch)
        return ()

    def write(self, batch: Batch) -> None:
        """Keep rows, or let them be seen at once."""
        raise NotImplementedError(type(self).__name__)

    def prepare(self, id: str) -> None:
        """Make what was written since the last call durable, under an id."""

    def commit(self, id: str) -> None:
        """Let be seen what was prepared under an id."""


def shown(value: Any, most: int = 200) -> str:
    """A value as a short text."""
    text = f"{value.num_rows} rows" if isinstance(value, pa.RecordBatch) else repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def failing_row(operator: Operator, batch: Batch, port: int) -> int | None:
    """The first row that an operator without state cannot process; None where it is not known, or no single row fails."""
    if operator.state:
        return None
    for n in range(batch.num_rows):
        try:
            for _ in operator.process(batch.slice(n, 1), port):
                pass
        except Exception:
            return n
    return None
