"""Fact tables cut into arrivals: by a hash of the order number, each table apart or all together, or by date, with duplicates, and with
rows that leave again.

Every decision about a row is a hash of the row's place in the generated file, so that a benchmark is the same whenever it runs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from tempura.bench.suites import Fact, Suite
from tempura.data.tpcds import Dataset

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FIRST = {"append-big": 1.0, "append-small": 4.0, "retract-sales": 2.0, "retract-both": 2.0}
"""The patterns: how much larger the first arrival is than each later one."""

TOGETHER = "together"
SPLITS = ("hash", TOGETHER, "date")

CHANGE = "_change"
DELETED_SHARE = 0.05
"""The share of the rows that leave again, sooner or later, under a pattern with deletions."""

_GRAIN = 1_000_003


@dataclass(frozen=True, slots=True)
class Cut:
    """How fact tables are cut into arrivals. ``sizes`` of the arrivals, in proportion; ``duplicates``: the share of rows that occur
    twice; ``deleted``: the share of rows that leave at a later arrival, of the tables from which the pattern deletes, at the arrival
    ``leaving`` at the earliest."""

    pattern: str
    split: str
    sizes: tuple[float, ...]
    duplicates: float = 0.0
    deleted: float = DELETED_SHARE
    leaving: int = 1

    @staticmethod
    def of(pattern: str, split: str, times: int, duplicates: float) -> "Cut":
        """So many arrivals of the sizes that the pattern gives them."""
        return Cut(pattern, split, (FIRST[pattern], *[1.0] * (times - 1)), duplicates)

    @property
    def times(self) -> int:
        """How many arrivals there are."""
        return len(self.sizes)

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the rows that has arrived by each arrival but the last."""
        return tuple(total / sum(self.sizes) for total in accumulate(self.sizes))[:-1]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A fact table cut up: the file of each arrival, and the files that hold the rows which are there after each. Where rows leave
    again, ``signed``, the arrivals have a column ``_change``."""

    arrivals: tuple[Path, ...]
    present: tuple[tuple[Path, ...], ...]
    signed: bool


def cut_facts(dataset: Dataset, suite: Suite, cut: Cut, folder: Path) -> dict[str, Waiting]:
    """Every fact table of a suite cut into arrivals."""
    folder.mkdir(parents=True, exist_ok=True)
    with tables_of(dataset) as connection, _on_disk(connection, folder):
        days = _cut_days(connection, suite, cut)
        return {
            table: _cut_table(connection, dataset.file(table), table, suite, cut, days, folder) for table in suite.facts
        }


@contextmanager
def _on_disk(connection: "DuckDBPyConnection", folder: Path) -> Iterator[None]:
    """A database ``cutting`` for as long as the context lasts: a table of a large scale does not fit into memory beside Spark."""
    file = folder / "cutting.duckdb"
    connection.execute(f"ATTACH '{file}' AS cutting")
    try:
        yield
    finally:
        connection.execute("DETACH cutting")
        file.unlink()


@contextmanager
def tables_of(dataset: Dataset) -> Iterator["DuckDBPyConnection"]:
    """A DuckDB that sees the tables under their names."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")  # the command has one of its own
        for table in dataset.tables:
            connection.read_parquet(str(dataset.file(table))).create_view(table)
        yield connection


def _cut_days(connection: "DuckDBPyConnection", suite: Suite, cut: Cut) -> Sequence[object]:
    """The days at whose end each arrival but the last is complete."""
    if cut.split != "date" or not cut.shares:
        return ()
    day = suite.facts[suite.dated].day
    row = connection.execute(
        f"SELECT quantile_disc(day, ?::DOUBLE[]) FROM (SELECT {day} AS day FROM {suite.dated})", [list(cut.shares)]
    ).fetchone()
    return tuple(row[0]) if row else ()


def _cut_table(
    connection: "DuckDBPyConnection",
    file: Path,
    table: str,
    suite: Suite,
    cut: Cut,
    days: Sequence[object],
    folder: Path,
) -> Waiting:
    (folder / table).mkdir(parents=True)
    signed = table in suite.deletable(cut.pattern)
    connection.execute(_placed(file, table, suite.facts[table], cut, days, signed))
    files = tuple(folder / table / f"arrival-{i}.parquet" for i in range(cut.times))
    for i, path in enumerate(files):
        connection.sql(_arrival(i, signed)).write_parquet(str(path))
    if not signed:
        return Waiting(files, tuple(files[: i + 1] for i in range(cut.times)), signed)
    present = tuple(folder / table / f"present-{i}.parquet" for i in range(cut.times))
    for i, path in enumerate(present):
        connection.sql(_present(i)).write_parquet(str(path))
    return Waiting(files, tuple((path,) for path in present), signed)


def _placed(file: Path, table: str, fact: Fact, cut: Cut, days: Sequence[object], signed: bool) -> str:
    """A table ``placed``: each row, the arrival with which it comes, and the one with which it leaves or NULL."""
    read = f"SELECT * RENAME (file_row_number AS _n), {{}} AS _copy FROM read_parquet('{file}', file_row_number = true)"
    again = f"{_share('file_row_number', 'twice')} < {cut.duplicates}"
    # A return and its sale may arrive apart: each table hashes the order number with its own name, unless they are to come together.
    salt = TOGETHER if cut.split == TOGETHER else table
    comes = _after_days(fact.day, days) if cut.split == "date" else _after_shares(fact.order, salt, cut)
    last = cut.times - 1
    begins = f"greatest(_comes + 1, {cut.leaving})"
    leaves = f"{begins} + hash(_n, _copy, 'when') % greatest({last} + 1 - {begins}, 1)"
    gone = f"_comes < {last} AND {_share('_n, _copy', 'leaves')} < {cut.deleted if signed else 0}"
    return (
        "CREATE OR REPLACE TABLE cutting.placed AS "
        f"WITH facts AS ({read.format(0)} UNION ALL {read.format(1)} WHERE {again}), "
        f"coming AS (SELECT *, {comes} AS _comes FROM facts) "
        f"SELECT *, CASE WHEN {gone} THEN {leaves} END AS _leaves FROM coming"
    )


def _share(values: str, salt: str) -> str:
    """A number in [0, 1) that depends on values and a word."""
    return f"(hash({values}, '{salt}') % {_GRAIN} / {_GRAIN}.0)"


def _after_shares(order: str, salt: str, cut: Cut) -> str:
    return " + ".join(["0", *(f"({_share(order, salt)} >= {share})::INT" for share in cut.shares)])


def _after_days(day: str, days: Sequence[object]) -> str:
    """Rows without a day come last."""
    return " + ".join(["0", *(f"coalesce({day} > DATE '{limit}', true)::INT" for limit in days)])


_OWN = "* EXCLUDE (_n, _copy, _comes, _leaves)"


def _arrival(i: int, signed: bool) -> str:
    if not signed:
        return f"SELECT {_OWN} FROM cutting.placed WHERE _comes = {i}"
    return (
        f"SELECT {_OWN}, 'insert' AS {CHANGE} FROM cutting.placed WHERE _comes = {i} "
        f"UNION ALL SELECT {_OWN}, 'delete' AS {CHANGE} FROM cutting.placed WHERE _leaves = {i}"
    )


def _present(i: int) -> str:
    return f"SELECT {_OWN} FROM cutting.placed WHERE _comes <= {i} AND (_leaves IS NULL OR _leaves > {i})"
