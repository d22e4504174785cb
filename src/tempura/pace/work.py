"""The work of flushes: what processing expected changes takes, by one of two units.

``tuples``: tuples processed by all operators (Thrifty Query Execution via Incrementability, 1), the inputs of each
and what it looks through again. ``cpu``: nanoseconds of one core, by the prices of the cost model: a step over stored
states reads the state of the other side of a join and the groups of an aggregation from files, adds to them, and pays
for its jobs and plans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import Protocol

import numpy as np

from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, is_renaming
from tempura.cost.estimate import Estimator, width
from tempura.cost.expressions import accumulation, costly_conjuncts, evaluation
from tempura.cost.model import SPARK, CostModel
from tempura.cost.stats import TableFacts
from tempura.pace.cut import Cut, Operator, Path
from tempura.pace.flow import Array, Flow
from tempura.pace.statistics import Statistics

Unit = OneOf["tuples", "cpu"]
UNITS: tuple[Unit, ...] = ("tuples", "cpu")


class Work(Protocol):
    """Prices, per configuration and step."""

    def operator(self, op: Operator, given: Sequence[Flow], made: Flow | None, again: Array) -> Array:
        """Of an operator that was given changes. A blocking one gives none out by itself (``made`` is None);
        ``again``: kept tuples that it looks through once more."""

    def path(self, path: Path, released: Flow, is_read: bool) -> Array:
        """Of releasing what waited on a path. ``is_read``: it is the result, and somebody reads it."""


class Tuples:
    """Tuples processed."""

    def operator(self, op: Operator, given: Sequence[Flow], made: Flow | None, again: Array) -> Array:
        total = again
        for flow in given:
            total = total + flow.tuples
        return total

    def path(self, path: Path, released: Flow, is_read: bool) -> Array:
        return released.tuples if is_read else np.zeros_like(released.ins)


@dataclass(frozen=True)
class Nanoseconds:
    """CPU time of one core on Spark over stored states. ``widths`` are the bytes of a row of each operator and path; ``passing``: of paths
    from segments whose readers begin with a condition the share of the rows that pass, which alone are handed over."""

    widths: Mapping[Operator | Path, float]
    model: CostModel = SPARK
    passing: Mapping[Path, float] = field(default_factory=dict)

    def operator(self, op: Operator, given: Sequence[Flow], made: Flow | None, again: Array) -> Array:
        busy = np.zeros_like(again)
        for flow in given:
            busy = np.maximum(busy, flow.tuples > 0)
        rows = self._rows(op, given, made)
        return rows + again * self.model.probe_row + busy * self._fixed(op.rel)

    def path(self, path: Path, released: Flow, is_read: bool) -> Array:
        """A change is read from a file, and a job writes what its segment makes of it."""
        model, busy, size = self.model, released.tuples > 0, self.widths[path]
        tuples = released.tuples * self.passing.get(path, 1.0)
        read = tuples * (model.read_row + model.read_byte * size)
        written = tuples * (model.write_row + model.write_byte * size) if is_read else 0.0
        return read + written + self._handed_over(path, released, tuples) + busy * float(model.scan + model.job)

    def _handed_over(self, path: Path, released: Flow, tuples: Array) -> Array:
        """From a segment: its whole result is compared with the one that was released before, and what differs is written; the whole once
        more whenever as much has differed since it was."""
        if path.source is None:
            return np.zeros_like(tuples)
        model, busy, size = self.model, released.tuples > 0, self.widths[path]
        compared = np.where(released.before > 0, released.before + released.after, 0.0) * self.passing.get(path, 1.0)
        each = model.read_row + 2 * model.many_row + model.shuffle_row
        by_byte = (model.read_byte + model.shuffle_byte) * size
        whole = np.where(released.before > 0, released.after, 0.0) * self.passing.get(path, 1.0)
        written = (tuples + np.minimum(tuples, whole)) * (model.write_row + model.write_byte * size)
        return busy * (compared * (each + by_byte) + 2.0 * model.job) + written

    def _fixed(self, rel: Rel) -> float:
        """The driver's part, of every flush in which the operator has something to do."""
        if isinstance(rel, Project) and is_renaming(rel):
            return 0.0
        model = self.model
        if isinstance(rel, Join | Aggregate):
            return float(model.node + model.exchange + model.scan + model.file)
        return float(model.node if isinstance(rel, Filter | Project) else model.node + model.exchange)

    def _rows(self, op: Operator, given: Sequence[Flow], made: Flow | None) -> Array:
        model, rel = self.model, op.rel
        first = given[0].tuples if given else np.zeros(1)
        match rel:
            case Filter():
                return first * (model.expression_row + sum(map(evaluation, costly_conjuncts(rel.predicate))))
            case Project():
                return first * (model.expression_row + sum(evaluation(o.expr) for o in rel.outputs))
            case Join():
                return self._join(op, given, made)
            case Aggregate():
                keys = sum(evaluation(key.expr) for key in rel.keys)
                updates = accumulation((a.call for a in rel.aggregates), bool(rel.keys))
                # The state has a row per group, and at most one per row that was given.
                state = np.minimum(given[0].before, first + 1.0)
                return first * (model.group_row + model.many_row + keys + updates) + state * self._stored(op)
        return first * model.sort_row

    def _join(self, op: Operator, given: Sequence[Flow], made: Flow | None) -> Array:
        """The change of each side is sent to the state of the other, which is read, and is added to the state of its own."""
        model = self.model
        total = np.zeros_like(given[0].ins) if made is None else made.tuples * model.output_row
        for own, other, state, mine in ((0, 1, given[1].before, op.inputs[0]), (1, 0, given[0].after, op.inputs[1])):
            change = given[own].tuples
            read = model.read_row + model.read_byte * self.widths[op.inputs[other]] + model.probe_row
            total = total + (change > 0) * state * read
            total = total + change * (model.build_row + model.write_row + model.write_byte * self.widths[mine])
        return total

    def _stored(self, op: Operator) -> float:
        size = self.widths[op]
        return self.model.read_row + self.model.read_byte * size + self.model.write_row + self.model.write_byte * size


def nanoseconds(
    cut: Cut, tables: Mapping[str, TableFacts], model: CostModel = SPARK, statistics: Statistics | None = None
) -> Nanoseconds:
    """Prices for a query over tables of which so much is known; ``statistics`` tell what passes the conditions of who reads a segment."""
    estimator = Estimator(tables, cut.memo.representative)

    def size(node: Operator | Path) -> float:
        rel = node.rel
        return estimator.width(rel) if isinstance(rel, Scan) or rel.inputs else width(rel)

    passing = {
        path: min(1.0, sum(statistics[op].factor for op in readers))
        for segment in cut.segments
        if statistics and (readers := cut.readers(segment))
        for path in cut.users(segment)
    }
    return Nanoseconds({node: size(node) for segment in cut.segments for node in segment.nodes}, model, passing)
