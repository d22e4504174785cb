"""The cost model: one line per operator, in integer nanoseconds of one core: CPU time of Spark's tasks, and of the driver, which plans,
generates code and starts jobs.

Integers, because comparing floats would let rounding noise decide between plans. The constants describe Spark 4 on local
Parquet files; `tempura calibrate` measures those of a machine (`cost/calibration.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log10

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
from tempura.cost.conditions import split_equalities
from tempura.cost.estimate import Estimator
from tempura.cost.expressions import accumulation, costly_conjuncts, evaluation
from tempura.cost.stats import StoredFacts
from tempura.physical.operators import Load, Read
from tempura.tvr.views import View

BUILT_IN = "built in"
FIXED = ("node", "scan", "file", "job", "exchange")
"""The prices that do not depend on rows."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices in nanoseconds of one core. ``*_row``: per row; ``*_byte``: per byte; the others once each, and those of ``node`` (any
    operator), ``scan`` (of files that are read together), ``exchange`` and ``job`` are the driver's for the greater part. Up to
    ``broadcast_bytes`` a side of a join is sent to every task; where it could have more than ``broadcast_bound``, Spark decides. With
    more than ``few_groups`` an aggregation takes ``many_row`` instead of ``group_row``: they leave its fast map. ``origin``: where
    the prices come from, for people; prices of two origins are not those of one machine."""

    read_row: int = 10
    read_byte: float = 2.0
    write_row: int = 20
    write_byte: float = 5.5
    node: int = 8_000_000
    scan: int = 20_000_000
    file: int = 3_000_000
    job: int = 120_000_000
    exchange: int = 80_000_000
    shuffle_row: int = 270
    shuffle_byte: float = 3.4
    expression_row: int = 4
    build_row: int = 300
    probe_row: int = 20
    hash_row: int = 40
    output_row: int = 10
    group_row: int = 15
    many_row: int = 350
    few_groups: int = 60_000
    group: int = 350
    sort_row: int = 400
    broadcast_bytes: int = 30_000_000
    broadcast_bound: int = 500_000_000
    origin: str = BUILT_IN

    def scaled(self, fixed: float) -> "CostModel":
        """Prices with those that do not depend on rows multiplied."""
        return replace(self, **{name: round(getattr(self, name) * fixed) for name in FIXED})

    def parts(self, price: Callable[["CostModel"], int]) -> tuple[int, int]:
        """A price, and the part of it that does not depend on rows: by that much it is higher where all such prices are twice as high."""
        cost = price(self)
        return cost, price(_twice_fixed(self)) - cost

    def operator(self, rel: Rel, estimate: Estimator) -> int:
        """The cost of one operator, without its inputs."""
        if isinstance(rel, View | Values) or (isinstance(rel, Project) and is_renaming(rel)):
            return 0
        return self.node + self._own(rel, estimate)

    def _own(self, rel: Rel, estimate: Estimator) -> int:
        """What an operator takes for its rows."""
        rows_in = [estimate.rows(i) for i in rel.inputs]
        rows_out = estimate.rows(rel)
        match rel:
            case Read() | Load():
                return self.read(rows_out, estimate.width(rel))
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
                return self._join(rel, estimate)
            case Aggregate() | Partial():
                keys = sum(evaluation(key.expr) for key in rel.keys)
                updates = sum(accumulation(a.call, bool(rel.keys)) for a in rel.aggregates)
                own = self._group(rows_in[0], rows_out, estimate.width(rel)) + round(rows_in[0] * (keys + updates))
                return own + self._distinct(rel, rows_in[0], estimate)
            case Consolidate() if (few := estimate.few_deleted(rel.input)) is not None:
                return self._net(rows_in[0], estimate.width(rel), few)
            case MergeStates() | Consolidate() | Support():
                return self._group(sum(rows_in), rows_out, estimate.width(rel))
            case TopK() | One() | Opaque():
                return round(sum(rows_in) * self.probe_row) + self.exchange
            case Window():
                return self._shuffle(rows_in[0], estimate.width(rel.input)) + round(rows_in[0] * self.sort_row)
            case _:
                raise TypeError(f"no price for {type(rel).__name__}")

    def read(self, rows: float, row_bytes: float) -> int:
        """Read rows from Parquet files."""
        return self.scan + round(rows * (self.read_row + self.read_byte * row_bytes))

    def load(self, rows: float, row_bytes: float, stored: StoredFacts) -> int:
        """Read a state of so many rows: all its parts, merged."""
        cost = self.read(rows, row_bytes) + (stored.parts - 1) * self.file
        if stored.grouped and stored.few is not None:
            return cost + self._net(rows, row_bytes, stored.few)
        cost += round(rows * (self.group_row + self.group)) if stored.grouped else 0
        return cost + (self._shuffle(rows, row_bytes) if stored.shuffled else 0)

    def grouping(self, rows: float, row_bytes: float) -> int:
        """Put rows together that are equal, nearly all of which differ."""
        return self.node + self._group(rows, rows, row_bytes)

    def _net(self, rows: float, row_bytes: float, few: float) -> int:
        """Find the rows that are like one of a few, and group these: the rows are read once more, and looked up both times."""
        looked_up = round(2 * rows * (self.hash_row + self.probe_row))
        return self.read(rows, row_bytes) + self.exchange + looked_up + self._group(2 * few, few, row_bytes)

    def write(self, rows: float, row_bytes: float, shuffled: bool = False) -> int:
        """A job that writes rows to Parquet files, shuffled into buckets or as they are."""
        shuffle = self._shuffle(rows, row_bytes) if shuffled else 0
        return self.job + self.file + round(rows * (self.write_row + self.write_byte * row_bytes)) + shuffle

    def broadcast_side(self, join: Join, estimate: Estimator) -> int | None:
        """The side, 0 or 1, that is sent to every task: the right one (of an inner join: the smaller one) if it is small enough. None when
        none is."""
        if join.kind == "full":
            return None
        sides = [estimate.rows(side) * estimate.width(side) for side in join.inputs]
        side = 0 if join.kind == "inner" and sides[0] < sides[1] else 1
        return side if sides[side] <= self.broadcast_bytes else None

    def _shuffle(self, rows: float, row_bytes: float) -> int:
        return self.exchange + round(rows * (self.shuffle_row + self.shuffle_byte * row_bytes))

    def _join(self, join: Join, estimate: Estimator) -> int:
        """Broadcast the small side, or shuffle and sort both."""
        left, right = (estimate.rows(side) for side in join.inputs)
        rest = sum(map(evaluation, split_equalities(join)[1]))
        out = round(estimate.rows(join) * (self.output_row + rest))
        side = self.broadcast_side(join, estimate)
        if side is not None:
            small = (left, right)[side]
            # The larger the table that is probed, the fewer of its rows are in the processor's cache.
            probe = self.probe_row * (1 + log10(max(1.0, small / 1000)))
            return self.exchange + out + round(small * self.build_row + (left + right - small) * probe)
        shuffled = sum(self._shuffle(estimate.rows(side), estimate.width(side)) for side in join.inputs)
        return shuffled + out + round((left + right) * self.sort_row)

    def _distinct(self, rel: Aggregate | Partial, rows: float, estimate: Estimator) -> int:
        """Spark groups by each list of DISTINCT arguments first: the rows once more per list."""
        lists = dict.fromkeys(a.call.operands for a in rel.aggregates if a.call.distinct)
        by = [(*rel.keys, *(Output(Column(str(arg), "", arg.type), arg) for arg in arguments)) for arguments in lists]
        return sum(self._group(rows, estimate.groups(rel.input, keys), estimate.width(rel)) for keys in by)

    def _group(self, rows: float, groups: float, row_bytes: float) -> int:
        row = self.group_row if groups <= self.few_groups else self.many_row
        return round(rows * row + groups * self.group) + self._shuffle(groups, row_bytes)


@lru_cache(maxsize=16)
def _twice_fixed(model: CostModel) -> CostModel:
    return model.scaled(2.0)


SPARK = CostModel()
"""Prices of Spark 4 on local Parquet files."""
