"""The continuous join as an operator of a region: a port per input, changes in and changes out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from tempura.algebra.bag import Row as Values
from tempura.algebra.evaluate_scalar import evaluate
from tempura.algebra.scalar import Ref
from tempura.errors import TempuraError
from tempura.region.operators import CHANGE, KINDS, TIME, FailedRow, Operator, State
from tempura.streams.adaptive import AdaptiveJoin
from tempura.streams.execution import Batch, Changes
from tempura.streams.settings import Settings
from tempura.streams.sql import Plan
from tempura.streams.types import arrow_type


class JoinOperator(Operator):
    """A continuous join, whose windows of time ``_time`` moves.

    Its state is what is in the windows: orders and caches are chosen anew when it is restored. They decide in which
    order a change's rows are found, so these are sorted, that a run that is repeated gives the same rows at the same places.

    Raises FailedRow for a row that cannot be processed, such as a deletion of what is not there; nothing of it counts then.
    """

    def __init__(self, plan: Plan, memory: int | None = None, settings: Settings | None = None) -> None:
        self._plan = plan
        self._memory = memory
        self._settings = settings or Settings()
        self._join = AdaptiveJoin(plan.query, memory, self._settings)
        self._now = float("-inf")
        self._schema = plan.schema
        self._project = projection(plan)

    def process(self, batch: pa.RecordBatch, port: int) -> Iterator[pa.RecordBatch | None]:
        rows, kinds, times = self._read(batch, port)
        for time, group in groupby(range(batch.num_rows), key=times.__getitem__):
            self._now = max(self._now, time)
            for part in runs(list(group), kinds):
                yield from self._part(port, part, rows, kinds)

    def _read(self, batch: pa.RecordBatch, port: int) -> tuple[list[Values], list[str], list[float]]:
        columns = [batch.column(field).to_pylist() for field in self._plan.fields[port]]
        rows = list(zip(*columns, strict=True))
        names = batch.schema.names
        kinds = batch.column(CHANGE).to_pylist() if CHANGE in names else ["insert"] * batch.num_rows
        odd = next((n for n, kind in enumerate(kinds) if kind not in KINDS), None)
        if odd is not None:
            cause = TempuraError("BAD_CHANGE", f"{CHANGE} is {kinds[odd]!r}.", "It is insert or delete.")
            raise FailedRow(odd) from cause
        return rows, kinds, batch.column(TIME).to_pylist() if TIME in names else [0.0] * batch.num_rows

    def _part(
        self, port: int, part: Sequence[int], rows: Sequence[Values], kinds: Sequence[str]
    ) -> Iterator[pa.RecordBatch | None]:
        inserts = [rows[n] for n in part if kinds[n] == "insert"]
        deletes = [rows[n] for n in part if kinds[n] == "delete"]
        try:
            changes = self._join.process(Batch(port, inserts, deletes, self._now))
        except TempuraError as error:
            if len(part) == 1:
                raise FailedRow(part[0]) from error
            for n in part:  # nothing of them was done: which of them is it?
                yield from self._part(port, [n], rows, kinds)
        else:
            yield self._given(changes)

    def _given(self, changes: Iterable[Changes]) -> pa.RecordBatch | None:
        found: list[tuple[Any, ...]] = []
        for change in changes:
            for kind, weight in (("insert", 1), ("delete", -1)):
                own = [(*self._project(row), kind) for row, w in change.rows() if w == weight]
                found += sorted(own, key=repr) if len(own) > 1 else own
        if not found:
            return None
        columns = zip(*found, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
        return pa.record_batch(arrays, schema=self._schema)

    # --- state ---------------------------------------------------------------------------------------------------------

    def save(self) -> State:
        windows = self._join.windows()
        return {"now": self._now} | {f"input{n}": self._stored(n, rows) for n, rows in enumerate(windows)}

    def _stored(self, n: int, rows: Sequence[tuple[float, Values]]) -> pa.RecordBatch:
        schema = pa.schema(
            [
                *((f"c{i}", arrow_type(c.type)) for i, c in enumerate(self._plan.query.inputs[n].columns)),
                (TIME, pa.float64()),
            ]
        )
        columns = list(zip(*((*values, time) for time, values in rows), strict=True)) or [()] * len(schema)
        return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    def restore(self, state: State) -> None:
        self._join = AdaptiveJoin(self._plan.query, self._memory, self._settings)
        self._now = state["now"]
        count = len(self._plan.query.inputs)
        stored = [list(zip(*state[f"input{n}"].to_pydict().values(), strict=True)) for n in range(count)]
        self._join.refill([[(row[-1], row[:-1]) for row in rows] for rows in stored])

    # --- what is asked -------------------------------------------------------------------------------------------------

    def inspect(self) -> Mapping[str, Any]:
        return {"rows": sum(len(window) for window in self._join.windows()), "processed": self._join.processed}

    def status(self) -> dict[str, Any]:
        """As :meth:`~tempura.streams.adaptive.AdaptiveJoin.status`."""
        return self._join.status()

    def explain(self) -> str:
        """Each pipeline as text."""
        return explained(self._join)

    def set_memory(self, memory: int | None) -> None:
        """The bytes that caches may take from now on."""
        self._memory = memory
        self._join.memory = memory


def runs(places: Sequence[int], kinds: Sequence[str]) -> Iterator[list[int]]:
    """Rows in parts that are inserts, and deletes after them: what the join takes at once, in the order in which it was sent."""
    part: list[int] = []
    for n in places:
        if part and kinds[n] == "insert" and kinds[part[-1]] == "delete":
            yield part
            part = []
        part.append(n)
    if part:
        yield part


def projection(plan: Plan) -> Callable[[Values], Values]:
    """The function that makes a row of the result from the inputs' columns."""
    columns = [c for i in plan.query.inputs for c in i.columns]
    exprs = [expr for _, expr, _ in plan.outputs]
    if all(isinstance(expr, Ref) for expr in exprs):
        places = [columns.index(expr.column) for expr in exprs if isinstance(expr, Ref)]
        if places == list(range(len(columns))):
            return lambda row: row
        return lambda row: tuple([row[place] for place in places])

    def computed(row: Values) -> Values:
        values = dict(zip(columns, row, strict=True))
        return tuple([evaluate(expr, values) for expr in exprs])

    return computed


def explained(join: AdaptiveJoin) -> str:
    """Each pipeline as text: its joins in order, cached segments in brackets."""
    names = [input.name for input in join.query.inputs]
    lines = []
    for n, order in enumerate(join.orders):
        steps = [names[other] for other in order]
        for c in join.used:
            if c.pipeline == n:
                steps[c.start] = "[" + steps[c.start]
                steps[c.end - 1] += "]"
        lines.append(f"{names[n]}: {' ⋈ '.join(steps)}")
    return "\n".join(lines)
