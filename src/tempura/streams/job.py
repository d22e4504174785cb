"""A continuous join over a source, in this process: changes go in, changes of the result go to a callback."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tempura.algebra.bag import Row as Values
from tempura.errors import TempuraError
from tempura.streams.adaptive import AdaptiveJoin
from tempura.streams.execution import Batch
from tempura.streams.operator import explained
from tempura.streams.query import JoinQuery
from tempura.streams.settings import Settings
from tempura.streams.spec import query_of

Sink = Callable[[Values, int], None]
"""Called with each changed row of the result and 1 or -1, in order."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Changes of one input, by name, at one time in seconds: rows that are inserted, then rows that are deleted."""

    input: str
    inserts: Sequence[Values] = ()
    deletes: Sequence[Values] = ()
    time: float = 0.0


class StreamJob:
    """What :func:`join` gives; ``run`` does the work, and another thread may ask for ``status`` or ``stop`` it."""

    def __init__(self, query: JoinQuery, source: Iterable[Arrival], sink: Sink, memory: int | None) -> None:
        self._join = AdaptiveJoin(query, memory, Settings())
        self._source = iter(source)
        self._sink = sink
        self._place = {input.name: n for n, input in enumerate(query.inputs)}
        self._is_stopped = False
        self._undelivered: deque[tuple[Values, int]] = deque()
        self.delivered = 0

    def run(self, arrivals: int | None = None) -> int:
        """Process what the source gives, until it ends, the job is stopped, or so many arrivals are done. Returns how many were.

        Raises TempuraError BAD_STREAM_JOIN for an input that is not in the query or a row of another width, DELETE_OF_MISSING,
        TIME_GOES_BACK; nothing of that arrival counts then. Raises SINK_FAILED when the sink raises: the rows after those that it has
        taken are kept, and the next call begins with them.
        """
        self._deliver()
        done = 0
        while not self._is_stopped and done != arrivals:
            arrival = next(self._source, None)
            if arrival is None:
                break
            for changes in self._join.process(self._batch(arrival)):
                self._undelivered.extend(changes.rows())
            self._deliver()
            done += 1
        return done

    def _deliver(self) -> None:
        """Give the sink each changed row once; one that it raises for counts as not taken."""
        while self._undelivered:
            row, weight = self._undelivered[0]
            try:
                self._sink(row, weight)
            except Exception as error:
                what = f"The sink took {self.delivered} changed rows, and raised for the next one, {row} with weight {weight}: "
                what += f"{type(error).__name__}: {error}. {len(self._undelivered)} rows wait for it."
                raise TempuraError(
                    "SINK_FAILED", what, "Mend the sink and call run again: it goes on with that row."
                ) from error
            self._undelivered.popleft()
            self.delivered += 1

    def _batch(self, arrival: Arrival) -> Batch:
        if arrival.input not in self._place:
            known = ", ".join(self._place)
            raise TempuraError(
                "BAD_STREAM_JOIN", f"{arrival.input!r} is no input of the join.", f"Name one of {known}."
            )
        place = self._place[arrival.input]
        width = len(self._join.query.inputs[place].columns)
        odd = next((row for row in (*arrival.inserts, *arrival.deletes) if len(row) != width), None)
        if odd is not None:
            what = f"{odd} has {len(odd)} values; {arrival.input} has {width} columns."
            raise TempuraError("BAD_STREAM_JOIN", what, "Give a value for each column, in their order.")
        return Batch(place, arrival.inserts, arrival.deletes, arrival.time)

    @property
    def memory(self) -> int | None:
        """The bytes that caches may take; may be set while the job runs."""
        return self._join.memory

    @memory.setter
    def memory(self, budget: int | None) -> None:
        self._join.memory = budget

    def status(self) -> dict[str, Any]:
        """Rates, the join order of each pipeline, caches in use with hits, benefit, cost and memory, and the last decisions."""
        return self._join.status()

    def explain(self) -> str:
        """Each pipeline as text: its joins in order, cached segments in brackets."""
        return explained(self._join)

    def stop(self) -> None:
        """Take no more arrivals; the one that is processed is finished."""
        self._is_stopped = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def join(
    spec: JoinQuery | Mapping[str, Any], source: Iterable[Arrival], sink: Sink, memory: int | None = None
) -> StreamJob:
    """A continuous join of the inputs of a specification (:func:`tempura.streams.spec.query_of`), whose caches may take ``memory``
    bytes. Nothing is read before ``run``."""
    return StreamJob(spec if isinstance(spec, JoinQuery) else query_of(spec), source, sink, memory)
