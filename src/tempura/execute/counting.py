"""How many rows came out of the joins, aggregations and filters of a step, as Spark counts them anyway, and how it joined."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.rel import Aggregate, Consolidate, Filter, Join, Negate, Project, Rel, Sort, Support, Union
from tempura.algebra.states import Partial
from tempura.execute.contract import Joins
from tempura.execute.sharing import shared, sinks_of
from tempura.frontend.compiled import END, compiled
from tempura.plan.progressive import Step
from tempura.search.counts import COUNTED

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """What became of an operator: its rows, and the names of the joins that it ran over."""

    rows: int
    below: frozenset[str]


class RowCounter:
    """Counts the rows of the operators of a step that is computed in a session inside a ``with`` block. ``names`` are to be given to
    what is rendered (:meth:`Draft.named`)."""

    def __init__(self, session: SparkSession, step: Step) -> None:
        self._session = session
        self._step = step
        self._apart = shared(sinks_of(step)) | {save.rel for save in step.saves}
        noted = (rel for rel, note in step.notes.items() if note.sizes and isinstance(rel, COUNTED))
        self.names: Mapping[Rel, str] = {rel: f"o{i}" for i, rel in enumerate(noted)}
        self._listener: Any = None
        self._found: dict[Rel, Found] = {}
        self._ways: dict[str, tuple[str, ...]] = {}
        self._known: dict[Rel, int | None] = {}

    def __enter__(self) -> "RowCounter":
        if self.names:
            self._listener = compiled(self._session, "Rows").listen(self._session._jsparkSession)
        return self

    def look_at(self, frames: Sequence[DataFrame]) -> None:
        """Count in what is computed once, apart from what reads it."""
        for frame in frames if self._listener is not None else ():
            self._listener.also(frame._jdf.queryExecution())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is None:
            return
        try:
            if error is not None:
                self._listener.end(self._session._jsparkSession)
                return
            counted, joined = str(self._listener.told(self._session._jsparkSession)).split(END)
            self._found = self._as_planned(dict(_parsed(counted)))
            self._ways = {name: tuple(ways) for name, *ways in (line.split("\t") for line in joined.splitlines())}
        except Py4JError:
            # What is not known makes estimates worse, and no run fails for that.
            _log.debug("rows were not counted", exc_info=True)

    def counted(self) -> dict[str, tuple[float, float]]:
        """By name of a size (``Note.sizes``) the rows, and those that were expected, once the block has ended."""
        rows = {rel: self._rows(rel) for rel in self._step.notes}
        sizes = ((size, found) for rel, found in rows.items() for size in self._step.notes[rel].sizes)
        return {size.name: (float(found), size.expected) for size, found in sizes if found is not None}

    def joins(self) -> Joins:
        """How Spark carried out the joins that it ran over the inputs of the plan, once the block has ended. A hint is a wish, and Spark
        sends what turns out to be small, whatever was planned."""
        ran = ((rel, self._step.notes[rel].join, self._ways.get(self.names[rel], ())) for rel in self._found)
        told = [(rel, planned, ways) for rel, planned, ways in ran if isinstance(rel, Join) and ways]
        other = [
            f"{rel.label}: {' and '.join(ways)}, planned {planned}" for rel, planned, ways in told if ways != (planned,)
        ]
        return Joins(len(told) - len(other), tuple(other))

    def _rows(self, rel: Rel) -> int | None:
        """The rows of an operator: counted, or those of its inputs; None when they are not known."""
        if rel not in self._known:
            self._known[rel] = self._find_rows(rel)
        return self._known[rel]

    def _find_rows(self, rel: Rel) -> int | None:
        if rel in self._found:
            return self._found[rel].rows
        inputs = [self._rows(input) for input in rel.inputs]
        if isinstance(rel, Project | Negate | Sort | Union):
            known = [rows for rows in inputs if rows is not None]
            return sum(known) if len(known) == len(inputs) else None
        return 0 if is_empty(rel, [rows == 0 for rows in inputs]) else None

    def _as_planned(self, found: Mapping[str, Found]) -> dict[Rel, Found]:
        """What was computed as it was planned. Spark's optimizer moves joins, semi-joins above all: one that ran over other joins than in
        the plan had other rows. Those that did not run at all, for one side was empty, are missed nowhere."""
        ran = {rel: found[name] for rel, name in self.names.items() if name in found}
        missing = {name for rel, name in self.names.items() if isinstance(rel, Join) and name not in found}
        return {rel: one for rel, one in ran.items() if self._joins_below(rel) - missing == one.below}

    def _joins_below(self, rel: Rel) -> set[str]:
        """The names of the joins that are computed for an operator: not those below what is saved or kept, and read again."""
        found: set[str] = set()
        stack = [input for input in rel.inputs if input not in self._apart]
        while stack:
            node = stack.pop()
            if isinstance(node, Join) and node in self.names:
                found.add(self.names[node])
            stack += [input for input in node.inputs if input not in self._apart]
        return found


def is_empty(rel: Rel, inputs: Sequence[bool]) -> bool:
    """Whether an operator has no rows because some inputs have none. Spark does not run such an operator, once it has seen that."""
    match rel:
        case Join(kind="inner" | "semi"):
            return any(inputs)
        case Join(kind="full"):
            return all(inputs)
        case Join():
            return inputs[0]
        case Filter() | Consolidate() | Support():
            return inputs[0]
        case Aggregate() | Partial():
            return bool(rel.keys) and inputs[0]
    return False


def _parsed(text: str) -> Iterator[tuple[str, Found]]:
    for line in text.splitlines():
        name, rows, *below = line.split(" ")
        yield name, Found(int(rows), frozenset(below))
