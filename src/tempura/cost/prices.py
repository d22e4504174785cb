"""What it costs Spark to do the things of which operators consist, in nanoseconds of one core: CPU time of its tasks and of the driver."""

from dataclasses import dataclass, replace
from math import log10
from typing import Self

BUILT_IN = "built in"
FIXED = ("node", "scan", "job", "exchange")
"""The prices that do not depend on rows, nor on how many files these are in: the driver's for the greater part."""

BESIDE_TASKS = 0.2
"""What ``Prices.beside_tasks`` is where tasks run in the driver's process (docs/benchmarks/prices.md)."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in nanoseconds of one core. ``*_row``: per row; ``*_byte``: per byte; ``file``: for each that a task opens, or writes; the
    others once each, ``node`` for any operator, ``scan`` for files that are read together. Up to ``broadcast_bytes`` a side of a join is
    sent to every task, up to ``counted_bytes`` if that is more and its rows were counted; where it could have more than
    ``broadcast_bound``, Spark decides. Of a query as it is written it sends what it takes to have up to ``spark_broadcast_bytes``
    (``cost.as_written``). With ``hashed_joins`` a plan's joins of two shuffled sides by what is not one number are made by a table of the
    smaller one. To find its group takes a row ``group_row``, and ``many_row`` or more where a task has more than ``few_groups``: they leave
    its fast map. So many ``tasks`` run at once. ``sort_row`` is of windows whose rows are sorted by two numbers, ``merge_row`` of joins
    whose sides are sorted, by one number, and merged. ``beside_tasks`` is the part of its CPU time that a task makes the driver's process
    spend, too: on collecting garbage and compiling code. It is in no estimate, but what the driver took is told from it
    (``times.correction``). ``origin``: where the prices come from, for people; prices of two origins are not those of one machine."""

    read_row: int = 5
    read_byte: float = 0.7
    write_row: int = 20
    write_byte: float = 6.2
    node: int = 8_000_000
    scan: int = 20_000_000
    file: int = 3_000_000
    job: int = 120_000_000
    exchange: int = 80_000_000
    shuffle_row: int = 160
    shuffle_byte: float = 3.7
    expression_row: int = 2
    build_row: int = 300
    probe_row: int = 20
    hash_row: int = 40
    output_row: int = 10
    group_row: int = 28
    many_row: int = 130
    few_groups: int = 60_000
    tasks: int = 2
    sort_row: int = 600
    merge_row: int = 100
    broadcast_bytes: int = 30_000_000
    counted_bytes: int = 0
    broadcast_bound: int = 500_000_000
    spark_broadcast_bytes: int = 10_485_760
    hashed_joins: bool = True
    beside_tasks: float = 0.0
    origin: str = BUILT_IN

    def scaled(self, fixed: float) -> Self:
        """Prices with those that do not depend on rows multiplied."""
        return replace(self, **{name: round(getattr(self, name) * fixed) for name in FIXED})

    def read(self, rows: float, row_bytes: float, files: int = 1) -> int:
        """Read rows from so many Parquet files."""
        return self.scan + (files - 1) * self.file + round(rows * (self.read_row + self.read_byte * row_bytes))

    def rewrite(self, rows: float, row_bytes: float) -> float:
        """Read rows from files and write them into others that are written anyway."""
        read, write = self.read_row + self.read_byte * row_bytes, self.write_row + self.write_byte * row_bytes
        return rows * (read + write)

    def shuffle(self, rows: float, row_bytes: float) -> int:
        """Put rows into the tasks to which they belong by some columns."""
        return self.exchange + round(rows * (self.shuffle_row + self.shuffle_byte * row_bytes))

    def looked_up(self, groups: float) -> float:
        """What it takes a row to find its group, or to begin one, in a table of so many: the larger it is, the less of it is in the
        processor's cache."""
        if groups <= self.few_groups:
            return float(self.group_row)
        return self.many_row * (1 + log10(groups / max(1, self.few_groups)))

    def write(self, rows: float, row_bytes: float, shuffled: bool = False) -> int:
        """A job that writes rows to Parquet files, shuffled into buckets or as they are."""
        shuffle = self.shuffle(rows, row_bytes) if shuffled else 0
        return self.job + self.file + round(rows * (self.write_row + self.write_byte * row_bytes)) + shuffle
