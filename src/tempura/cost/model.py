"""The cost model: one line per operator, in integer nanoseconds of one core: CPU time of Spark's tasks, and of the driver, which plans,
generates code and starts jobs.

Integers, because comparing floats would let rounding noise decide between plans. The constants describe Spark 4 on local
Parquet files; `tempura calibrate` measures those of a machine (`cost/calibration.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import expm1

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    Negate,
    Opaque,
    Project,
    Rel,
    Sort,
    Support,
    TopK,
    Union,
    Values,
    is_renaming,
)  # fmt: skip
from tempura.algebra.scalar import Column, Output
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.algebra.window import Window
from tempura.cost.estimate import Estimator
from tempura.cost.expressions import accumulation, costly_conjuncts, evaluation, sorting
from tempura.cost.joins import joins_of
from tempura.cost.prices import Prices
from tempura.cost.stats import StoredFacts
from tempura.physical.operators import Load, Read
from tempura.tvr.views import View

_TASK_BYTES = 128_000_000
"""What a task reads at most (``spark.sql.files.maxPartitionBytes``)."""


@dataclass(frozen=True, slots=True)
class CostModel(Prices):
    """What operators cost by these prices."""

    def parts(self, price: Callable[["CostModel"], int]) -> tuple[int, int]:
        """A price, and the part of it that does not depend on rows."""
        cost = price(self)
        return cost, self.fixed(price, cost)

    def fixed(self, price: Callable[["CostModel"], int], cost: int) -> int:
        """The part of a price, which is known, that does not depend on rows: by that much it is higher where all such prices are twice as
        high."""
        return price(_twice_fixed(self)) - cost

    def operator(self, rel: Rel, estimate: Estimator) -> int:
        """The cost of one operator, without its inputs."""
        if isinstance(rel, View | Values) or (isinstance(rel, Project) and is_renaming(rel)):
            return 0
        return self.node + self._own(rel, estimate)

    def _own(self, rel: Rel, estimate: Estimator) -> int:
        """What an operator takes for its rows."""
        rows_in = [estimate.entries(i) for i in rel.inputs]
        rows_out = estimate.rows(rel)
        match rel:
            case Load():
                return self.read(estimate.entries(rel), estimate.width(rel))
            case Read():
                # Read without deletions, as by Spark alone, are rows that are left out by their places.
                left_out = 0.0 if rel.signed else estimate.left_out(rel) or 0.0
                sift = self._sift(estimate.rows(rel) + left_out, left_out) if left_out else 0
                return self.read(estimate.entries(rel) + left_out, estimate.width(rel), estimate.files(rel)) + sift
            case Filter():
                parts = costly_conjuncts(rel.predicate)
                return round(rows_in[0] * (self.expression_row + sum(map(evaluation, parts)))) if parts else 0
            case Sort() | Negate():
                return round(rows_in[0] * self.expression_row)
            case Generate():
                return round(rows_out * self.expression_row * len(rel.columns))
            case Project():
                return round(rows_in[0] * (self.expression_row + sum(evaluation(o.expr) for o in rel.outputs)))
            case Finalize():
                return round(rows_in[0] * self.expression_row * max(1, len(rel.columns)))
            case Expand():
                return round(rows_out * self.expression_row * len(rel.columns))
            case Union():
                return round(rows_out * self.expression_row)
            case Join():
                return joins_of(self, estimate).cost(rel)
            case Aggregate() | Partial():
                keys = sum(evaluation(key.expr) for key in rel.keys)
                updates = accumulation((a.call for a in rel.aggregates), bool(rel.keys))
                grouped = self._grouped(rel.input, rel.keys, rows_out, estimate.width(rel), estimate)
                return grouped + round(rows_in[0] * (keys + updates)) + self._distinct(rel, estimate)
            case Consolidate() if placed := estimate.left_out(rel.input):
                return self._sift(estimate.rows(rel) + placed, placed)
            case Consolidate() if (few := estimate.few_deleted(rel.input)) is not None:
                return self._net(rows_in[0], estimate.width(rel), few)
            case MergeStates() | Consolidate() | Support():
                return self._group(sum(rows_in), rows_out, estimate.width(rel))
            case TopK() | One() | Opaque():
                return round(sum(rows_in) * self.probe_row) + self.exchange
            case Window():
                sorted_by = (*rel.partition, *(key.expr for key in rel.order))
                shuffled = self.shuffle(rows_in[0], estimate.width(rel.input))
                return shuffled + round(rows_in[0] * self.sort_row * sorting(sorted_by))
            case _:
                raise TypeError(f"no price for {type(rel).__name__}")

    def load(self, rows: float, row_bytes: float, stored: StoredFacts, whole: bool = True, selected: int = 0) -> int:
        """Read a state of so many rows: all its parts, merged as a ``whole``, or only the groups of which so many are ``selected``."""
        cost = self.read(rows, row_bytes, stored.parts)
        if not stored.grouped:
            return cost
        if selected:
            cost += self._group(selected, selected, row_bytes, lies=not stored.shuffled)
        if whole and stored.few is not None:
            return cost + self._net(rows, row_bytes, stored.few)
        return cost + (self._group(rows, rows, row_bytes, lies=not stored.shuffled) if whole else 0)

    def grouping(self, rows: float, row_bytes: float) -> int:
        """Put rows together that are equal, nearly all of which differ."""
        return self.node + self._group(rows, rows, row_bytes)

    def _net(self, rows: float, row_bytes: float, few: float) -> int:
        """Find the rows that are like one of a few, and group these: the rows are read once more, and looked up both times."""
        looked_up = round(2 * rows * (self.hash_row + self.probe_row))
        return self.read(rows, row_bytes) + self.exchange + looked_up + self._group(2 * few, few, row_bytes)

    def _sift(self, rows: float, left_out: float) -> int:
        """Leave out rows by their places, which are sent to every task: each row tells its own, and is looked up."""
        return self.scan + self.exchange + round(rows * (self.hash_row + self.probe_row) + left_out * self.build_row)

    def broadcast_sides(self, join: Join, estimate: Estimator) -> list[int]:
        """The sides of a join, 0 or 1, of which one is sent to every task, the first if it can be; none when both are merged."""
        return joins_of(self, estimate).small(join)

    def held_side(self, join: Join, estimate: Estimator) -> int | None:
        """The side of a join, 0 or 1, of which each task makes a table, when none is sent to every task; None when both are merged."""
        return joins_of(self, estimate).held(join)

    def _distinct(self, rel: Aggregate | Partial, estimate: Estimator) -> int:
        """Spark groups by each list of DISTINCT arguments first: the rows once more per list."""
        lists = dict.fromkeys(a.call.operands for a in rel.aggregates if a.call.distinct)
        by = [(*rel.keys, *(Output(Column(str(arg), "", arg.type), arg) for arg in arguments)) for arguments in lists]
        groups = ((keys, estimate.groups(rel.input, keys)) for keys in by)
        return sum(self._grouped(rel.input, keys, number, estimate.width(rel), estimate) for keys, number in groups)

    def _grouped(self, rel: Rel, by: Sequence[Output], groups: float, row_bytes: float, estimate: Estimator) -> int:
        """Put the rows of a relation together by some keys."""
        keys, layout = [key.expr for key in by], joins_of(self, estimate)
        lies = layout.lies(rel, keys) is not None
        return self._group(estimate.entries(rel), groups, row_bytes, layout.adjacent(rel, keys), lies)

    def _group(self, rows: float, groups: float, row_bytes: float, adjacent: float = 1.0, lies: bool = False) -> int:
        """Each task puts together what it has of a group, and these pieces are shuffled and put together. ``adjacent`` rows of a group
        come one after the other, so that all but the first of them find it in the processor's cache; ``lies``: a group is in one task."""
        tasks, groups = max(1, self.tasks, rows * row_bytes / _TASK_BYTES), max(1.0, groups)
        per_task = groups / tasks if lies else -groups * expm1(-rows / tasks / groups)
        pieces = min(rows / adjacent, tasks * per_task)
        elsewhere = rows / adjacent
        cost = (rows - elsewhere) * self.group_row + elsewhere * self.looked_up(pieces / tasks)
        if not lies:
            cost += pieces * self.looked_up(groups / tasks) + self.shuffle(pieces, row_bytes)
        return round(cost)


@lru_cache(maxsize=16)
def _twice_fixed(model: CostModel) -> CostModel:
    return model.scaled(2.0)


SPARK = CostModel()
"""Prices of Spark 4 on local Parquet files."""
