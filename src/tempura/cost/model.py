"""The cost model: one line per operator, in integer nanoseconds of one core (CPU time of Spark's tasks).

Integers, because comparing floats would let rounding noise decide between plans. The constants describe Spark 4 on local
Parquet files; what they were fitted on is said in docs/benchmarks.md.
"""

from dataclasses import dataclass

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
)  # fmt: skip
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.cost.estimate import Estimator, width
from tempura.physical.operators import Load, Read
from tempura.tvr.views import View


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices in nanoseconds of one core. ``*_row``: per row; ``*_byte``: per byte; the others once each."""

    read_row: int = 60
    read_byte: float = 1.0
    write_row: int = 300
    write_byte: float = 3.0
    file: int = 2_000_000
    job: int = 15_000_000
    exchange: int = 8_000_000
    shuffle_row: int = 250
    shuffle_byte: float = 1.5
    expression_row: int = 15
    build_row: int = 200
    probe_row: int = 120
    group_row: int = 150
    sort_row: int = 120
    broadcast_bytes: int = 10_000_000

    def operator(self, rel: Rel, estimate: Estimator) -> int:
        """The cost of one operator, without its inputs."""
        rows_in = [estimate.rows(i) for i in rel.inputs]
        rows_out = estimate.rows(rel)
        match rel:
            case View() | Values():
                return 0
            case Read() | Load():
                return self.read(rows_out, width(rel))
            case Filter() | Sort() | Negate():
                return round(rows_in[0] * self.expression_row)
            case Project() | Finalize():
                return round(rows_in[0] * self.expression_row * max(1, len(rel.columns)))
            case Union():
                return round(rows_out * self.expression_row)
            case Join():
                return self._join(rel, rows_in[0], rows_in[1], rows_out)
            case Aggregate() | Partial() | MergeStates() | Consolidate() | Support():
                return self._group(sum(rows_in), rows_out, width(rel))
            case TopK() | Opaque():
                return round(sum(rows_in) * self.sort_row) + self.exchange
            case _:
                raise TypeError(f"no price for {type(rel).__name__}")

    def read(self, rows: float, row_bytes: float) -> int:
        """Read rows from Parquet files."""
        return self.file + round(rows * (self.read_row + self.read_byte * row_bytes))

    def write(self, rows: float, row_bytes: float) -> int:
        """A job that writes rows to Parquet files."""
        return self.job + self.file + round(rows * (self.write_row + self.write_byte * row_bytes))

    def _shuffle(self, rows: float, row_bytes: float) -> int:
        return self.exchange + round(rows * (self.shuffle_row + self.shuffle_byte * row_bytes))

    def _join(self, join: Join, left: float, right: float, out: float) -> int:
        """Broadcast the right side (of an inner join: the smaller one) if it is small, else shuffle and sort both."""
        sides = [(left, width(join.left)), (right, width(join.right))]
        small = min(sides, key=lambda s: s[0] * s[1]) if join.kind == "inner" else sides[1]
        rows = round(out * self.probe_row)
        if join.kind != "full" and small[0] * small[1] <= self.broadcast_bytes:
            return self.exchange + rows + round(small[0] * self.build_row + (left + right) * self.probe_row)
        shuffled = sum(self._shuffle(*side) for side in sides)
        return shuffled + rows + round((left + right) * self.sort_row)

    def _group(self, rows: float, groups: float, row_bytes: float) -> int:
        return round(rows * self.group_row) + self._shuffle(groups, row_bytes)
