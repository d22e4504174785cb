"""The jobs of ``tempura calibrate``, what each consists of, and which price each difference of two gives.

Spark makes the tables: whole numbers in eight columns. Each job is described by the formulas of :mod:`tempura.cost.model`, as if a
plan had it. Jobs over rows end in one group, so that no rows have to be handed on; to make that group counts as reading.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import expm1, log10
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from tempura.cost.fit import Described, Equation
from tempura.cost.model import SPARK

ROWS = 1_000_000
_COLUMNS = "abcdefgh"
_GROUPS, _FEW_GROUPS = 100_000, 1_000
_SIMPLE = 3.0
"""What the model takes for one expression, or one aggregate function, of numbers (``cost/expressions.py``)."""


@dataclass(frozen=True)
class Tables:
    """The tables, as files in ``folder``: ``rows`` of eight numbers each, of which ``a`` is unique, ``b`` and ``c`` have few and many
    values; ``keys`` to join with; and a few rows, in one file and in many. ``few`` is the session of a small step."""

    spark: SparkSession
    few: SparkSession
    folder: Path
    rows: int = ROWS

    def make(self) -> None:
        """Write them."""
        numbers = self.spark.range(self.rows)
        spread = numbers.selectExpr(
            # A prime step: each number once, and in no order.
            f"pmod(id * 7368787, {self.rows}) AS a",
            f"pmod(xxhash64(id), {_FEW_GROUPS}) AS b",
            f"pmod(xxhash64(id, 1), {self.groups}) AS c",
            *(f"pmod(xxhash64(id, {i}), {10**i}) AS {name}" for i, name in enumerate(_COLUMNS[3:], 2)),
        )
        self._write(spread, "rows")
        for name, size in (("few_keys", _FEW_GROUPS), ("keys", self.keys)):
            self._write(self.spark.range(size).selectExpr("id AS k", "id + 1 AS x").coalesce(1), name)
        for name, files in (("small", 1), ("parts", 17)):
            self._write(self.few.range(0, 17, 1, files).selectExpr("id AS k", "id % 3 AS x"), name)

    def _write(self, frame: DataFrame, name: str) -> None:
        frame.write.mode("overwrite").parquet(f"file:{self.folder}/{name}")

    @property
    def groups(self) -> int:
        """The values of ``c``: more than the fast map of an aggregation holds."""
        return min(_GROUPS, max(_FEW_GROUPS, self.rows // 10))

    @property
    def keys(self) -> int:
        """The rows of the larger table to join with."""
        return self.rows // 2

    def read(self, name: str, columns: str, session: SparkSession | None = None) -> DataFrame:
        """Columns of a table, whose types Spark does not have to look up."""
        schema = ", ".join(f"{column} BIGINT" for column in columns)
        return (session or self.spark).read.schema(schema).parquet(f"file:{self.folder}/{name}")

    def numbers(self, count: int) -> DataFrame:
        """So many columns of the rows."""
        return self.read("rows", _COLUMNS[:count])

    def small(self, name: str = "small") -> DataFrame:
        """The few rows."""
        return self.read(name, "kx", self.few)

    @cached_property
    def tasks(self) -> int:
        """In how many tasks the rows are read: each of them makes groups of its own first."""
        return self.numbers(2).rdd.getNumPartitions()


@dataclass(frozen=True)
class Job:
    """A job, and what of it the model knows. ``write``: into Parquet files. ``times`` a round: those over few rows are short."""

    name: str
    frame: Callable[[Tables], DataFrame]
    consists: Callable[[Tables], Described]
    write: bool = False
    times: int = 1


def _maximum(frame: DataFrame, *names: str) -> DataFrame:
    return frame.agg(*(fn.max(name) for name in names or frame.columns))


def _row_bytes(columns: int) -> float:
    """Of a row of whole numbers, as the model counts them."""
    return 8.0 + 8.0 * columns


def _expressions(rows: float, number: int) -> Described:
    return Described({}, rows * number * _SIMPLE)


def read(rows: float, columns: int) -> Described:
    """``CostModel.read``."""
    return Described({"scan": 1, "read_row": rows, "read_byte": rows * _row_bytes(columns)})


def shuffle(rows: float, columns: int) -> Described:
    """``CostModel._shuffle``."""
    return Described({"exchange": 1, "shuffle_row": rows, "shuffle_byte": rows * _row_bytes(columns)})


def write(rows: float, columns: int) -> Described:
    """``CostModel.write``."""
    return Described({"job": 1, "file": 1, "write_row": rows, "write_byte": rows * _row_bytes(columns)})


def group(rows: float, groups: float, tasks: float) -> Described:
    """``CostModel._group`` over two columns, of rows in no order."""
    pieces = min(rows, -tasks * groups * expm1(-rows / tasks / groups))
    return _looked_up(rows, pieces / tasks) + _looked_up(pieces, groups / tasks) + shuffle(pieces, 2)


def _looked_up(rows: float, groups: float) -> Described:
    """``Prices.looked_up`` of so many rows."""
    if groups <= SPARK.few_groups:
        return Described({"group_row": rows})
    return Described({"many_row": rows * (1 + log10(groups / SPARK.few_groups))})


def probe(rows: float, table: float, out: float) -> Described:
    """``CostModel._join`` of a table that is sent to every task."""
    larger = 1 + log10(max(1.0, table / 1000))
    return Described({"exchange": 1, "build_row": table, "probe_row": rows * larger, "output_row": out})


def _read(columns: int) -> Callable[[Tables], Described]:
    return lambda t: read(t.rows, columns) + _expressions(t.rows, columns)


def _shuffled(columns: int) -> Callable[[Tables], Described]:
    return lambda t: _read(columns)(t) + shuffle(t.rows, columns)


def _grouped(t: Tables, groups: int) -> Described:
    return read(t.rows, 2) + group(t.rows, groups, t.tasks) + _expressions(t.rows + groups, 1)


def _grouped_at_once(t: Tables) -> Described:
    # In one task, however many cores there are: with fewer rows in each they would stay in the fast map. Without a shuffle they are
    # grouped once.
    return read(t.rows, 2) + _looked_up(t.rows, t.rows) + _expressions(2 * t.rows, 1)


def _joined(t: Tables, name: str, key: str, how: str = "broadcast") -> DataFrame:
    other = t.read(name, "kx").hint(how)
    return _maximum(t.numbers(2).join(other, fn.expr(f"{key} = k")), "a", "x")


def _some(t: Tables) -> Described:
    return Described({"node": 1, "scan": 1, "job": 1, "file": 1})


def _few_projected(t: Tables) -> DataFrame:
    frame = t.small()
    for i in range(8):
        # Each filter reads what the projection below it has computed.
        frame = frame.selectExpr(f"k + {i} AS k", "x").filter(f"k > {i}")
    return frame


def _few_united(t: Tables) -> DataFrame:
    frame = t.small()
    for _ in range(4):
        frame = frame.unionByName(t.small())
    return frame.coalesce(1)


def _few_grouped(t: Tables) -> DataFrame:
    by_both = t.small().groupBy("k", "x").agg(fn.count("*").alias("n"))
    # Not a sum: Spark would count in one go.
    return by_both.groupBy("x").agg(fn.max("n").alias("n")).groupBy("n").agg(fn.max("x")).coalesce(1)


def _numbered(t: Tables) -> DataFrame:
    numbered = t.read("rows", "ac").selectExpr("row_number() OVER (PARTITION BY c ORDER BY a) AS n")
    return _maximum(numbered)


JOBS = (
    Job("read, 1 column", lambda t: _maximum(t.numbers(1)), _read(1)),
    Job("read, 2 columns", lambda t: _maximum(t.numbers(2)), _read(2)),
    Job("read, 8 columns", lambda t: _maximum(t.numbers(8)), _read(8)),
    Job(
        "expressions",
        lambda t: _maximum(t.numbers(8).selectExpr(*(f"(({c} + 1) * 2 - a) AS {c}" for c in _COLUMNS))),
        # The model's price of an expression is in proportion to that of a row: one machine is as much slower in both.
        lambda t: _read(8)(t) + Described({"expression_row": t.rows * (1 + 24 * _SIMPLE / SPARK.expression_row)}),
    ),
    Job(
        "hash",
        lambda t: _maximum(t.numbers(8).selectExpr(f"xxhash64({', '.join(_COLUMNS)}) AS h")),
        lambda t: read(t.rows, 8) + Described({"hash_row": t.rows}) + _expressions(t.rows, 1),
    ),
    Job("shuffle, 1 column", lambda t: _maximum(t.numbers(1).repartition(4, "a")), _shuffled(1)),
    Job("shuffle, 8 columns", lambda t: _maximum(t.numbers(8).repartition(4, "a")), _shuffled(8)),
    Job(
        "few groups",
        lambda t: _maximum(t.numbers(2).groupBy("b").agg(fn.max("a").alias("n")), "n"),
        lambda t: _grouped(t, _FEW_GROUPS),
    ),
    Job(
        "a group per row",
        lambda t: _maximum(t.numbers(2).coalesce(1).groupBy("a").agg(fn.max("b").alias("n")), "n"),
        _grouped_at_once,
    ),
    Job(
        "sort",
        _numbered,
        lambda t: read(t.rows, 2) + shuffle(t.rows, 2) + Described({"sort_row": t.rows}) + _expressions(t.rows, 1),
    ),
    Job(
        "join, small table",
        lambda t: _joined(t, "few_keys", "b"),
        lambda t: _read(2)(t) + probe(t.rows, _FEW_GROUPS, t.rows) + read(_FEW_GROUPS, 2),
    ),
    Job(
        "join, large table",
        lambda t: _joined(t, "keys", "a"),
        lambda t: read(t.rows, 2) + probe(t.rows, t.keys, t.keys) + read(t.keys, 2) + _expressions(t.keys, 2),
    ),
    Job(
        "join, merged",
        lambda t: _joined(t, "keys", "a", "merge"),
        lambda t: (
            read(t.rows, 2)
            + read(t.keys, 2)
            + shuffle(t.rows, 2)
            + shuffle(t.keys, 2)
            + Described({"merge_row": t.rows + t.keys, "output_row": t.keys})
            + _expressions(t.keys, 2)
        ),
    ),
    Job("write, 1 column", lambda t: t.numbers(1), lambda t: read(t.rows, 1) + write(t.rows, 1), write=True),
    Job("write, 8 columns", lambda t: t.numbers(8), lambda t: read(t.rows, 8) + write(t.rows, 8), write=True),
    Job("few rows", lambda t: t.small().coalesce(1), _some, write=True, times=5),
    Job(
        "few rows, sixteen filters and projections",
        lambda t: _few_projected(t).coalesce(1),
        lambda t: _some(t) + Described({"node": 16}),
        write=True,
        times=5,
    ),
    Job(
        "few rows, five scans",
        _few_united,
        lambda t: _some(t) + Described({"node": 8, "scan": 4}),
        write=True,
        times=5,
    ),
    Job(
        "few rows, three aggregations",
        _few_grouped,
        lambda t: _some(t) + Described({"node": 3, "exchange": 3}),
        write=True,
        times=5,
    ),
    Job(
        "few rows, seventeen files",
        lambda t: t.small("parts").coalesce(1),
        lambda t: _some(t) + Described({"file": 16}),
        write=True,
        times=5,
    ),
)

EQUATIONS = (
    Equation("read_byte", "read, 8 columns", "read, 1 column"),
    Equation("read_row", "read, 1 column"),
    Equation("expression_row", "expressions", "read, 8 columns"),
    Equation("hash_row", "hash", "read, 8 columns"),
    Equation("shuffle_byte", "shuffle, 8 columns", "shuffle, 1 column"),
    Equation("shuffle_row", "shuffle, 1 column", "read, 1 column"),
    Equation("many_row", "a group per row", "read, 2 columns"),
    Equation("group_row", "few groups", "read, 2 columns"),
    Equation("sort_row", "sort", "shuffle, 1 column"),
    Equation("merge_row", "join, merged", "shuffle, 1 column"),
    Equation("probe_row", "join, small table", "read, 2 columns"),
    Equation("build_row", "join, large table", "join, small table", whole=True),
    Equation("write_byte", "write, 8 columns", "write, 1 column"),
    Equation("write_row", "write, 1 column", "read, 1 column"),
    Equation("node", "few rows, sixteen filters and projections", "few rows", whole=True),
    Equation("scan", "few rows, five scans", "few rows", whole=True),
    Equation("exchange", "few rows, three aggregations", "few rows", whole=True),
    Equation("file", "few rows, seventeen files", "few rows", whole=True),
    Equation("job", "few rows", whole=True),
)
"""The price that each difference gives, those first that others need."""
