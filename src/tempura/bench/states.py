"""``tempura bench states``: what it takes to write states and to read them again, and how large they are, by how Parquet packs them.

States are what :class:`tempura.execute.files.Files` saves: rows in the order in which a shuffle leaves them, in buckets by the columns that
later steps match. How they are packed (``execute.files.PACKED``) was chosen from this. Ways to pack are measured in turns, each round in
another order, so that what a machine does meanwhile falls on all of them.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.scalar import Column
from tempura.bench.exactness import described_run
from tempura.bench.jobs import session_as_asked, usage_of
from tempura.data.tpcds import Dataset, generate
from tempura.execute.contract import StoredState
from tempura.execute.draft import Draft
from tempura.execute.files import Files
from tempura.execute.metrics import Meter
from tempura.execute.relation import Relation

Row = dict[str, Any]

WAYS: Mapping[str, Mapping[str, str]] = {
    "snappy": {"compression": "snappy"},
    "lz4": {"compression": "lz4_raw"},
    "zstd": {"compression": "zstd"},
    "not packed": {"compression": "uncompressed"},
    "snappy, no dictionary": {"compression": "snappy", "parquet.enable.dictionary": "false"},
    "lz4, no dictionary": {"compression": "lz4_raw", "parquet.enable.dictionary": "false"},
    "lz4, differences": {"compression": "lz4_raw", "parquet.writer.version": "PARQUET_2_0"},
}
"""Codecs and encodings, as options of Spark's writer: *differences* are Parquet's newer encodings of numbers and texts."""

_WARM_UP = 1


@dataclass(frozen=True, slots=True)
class Kind:
    """States of a kind: a query over TPC-DS tables, and the positions of the columns by which they are bucketed."""

    name: str
    query: str
    bucket: tuple[int, ...] = ()


KINDS = (
    Kind(
        "groups",
        "SELECT ss_item_sk, ss_customer_sk, SUM(ss_net_paid), COUNT(ss_net_paid), COUNT(*) FROM store_sales GROUP BY 1, 2",
        (0, 1),
    ),
    Kind(
        "groups by texts",
        "SELECT c_last_name, c_first_name, i_brand, SUM(ss_quantity), COUNT(*) FROM store_sales"
        " JOIN customer ON ss_customer_sk = c_customer_sk JOIN item ON ss_item_sk = i_item_sk GROUP BY 1, 2, 3",
        (0, 1, 2),
    ),
    Kind(
        "rows",
        "SELECT ss_ticket_number, ss_item_sk, ss_customer_sk, ss_quantity, ss_net_paid, ss_net_profit FROM store_sales",
        (0, 1),
    ),
    Kind(
        "joined rows",
        "SELECT ss_customer_sk, d_date, i_category, i_class, s_store_name, ss_ext_sales_price FROM store_sales"
        " JOIN item ON ss_item_sk = i_item_sk JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN store ON ss_store_sk = s_store_sk",
    ),
)
"""A large aggregation, one by texts, rows of a table that a join keeps, and rows of a join."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What is measured: states over TPC-DS at a scale, each so often."""

    scale: float
    repeats: int

    def meta(self) -> Row:
        """The options and where it runs."""
        return described_run("states", asdict(self))


def pack_all(spark: SparkSession, asked: Packing, progress: Callable[[str], None] = lambda _: None) -> Iterator[Row]:
    """A row per kind of state and way to pack it: rows, MB, and the CPU seconds of tasks that write and read it, without those that give
    the rows; the median of the repeats."""
    session = session_as_asked(spark)
    dataset = generate(asked.scale)
    with tempfile.TemporaryDirectory(prefix="tempura-bench-") as folder:
        for kind in KINDS:
            progress(kind.name)
            yield from _of_kind(session, dataset, kind, asked.repeats, Path(folder))


def _of_kind(session: SparkSession, dataset: Dataset, kind: Kind, repeats: int, folder: Path) -> Iterator[Row]:
    rows = _rows(session, dataset, kind)
    columns = tuple(Column(f"c{i}", f.name, f.dataType.simpleString()) for i, f in enumerate(rows.schema.fields))
    source = Relation(Draft.of(rows.toDF(*(c.id for c in columns))), weighted=False)
    given = Files(session).save(source, columns, kind.bucket, folder / kind.name)
    took: dict[str, list[tuple[float, float, StoredState]]] = {way: [] for way in WAYS}
    alone: list[float] = []
    for turn in range(_WARM_UP + repeats):
        alone.append(_read(session, given, columns))
        for way in _turned(list(WAYS), turn):
            took[way].append(_once(session, given, columns, WAYS[way], folder / "tried"))
    before = median(alone[_WARM_UP:])
    for way, runs in took.items():
        _, _, stored = runs[-1]
        yield {
            "state": kind.name,
            "packed": way,
            "rows": stored.rows,
            "mb": round(stored.bytes / 1e6, 2),
            "write_s": round(median(write for write, _, _ in runs[_WARM_UP:]) - before, 3),
            "read_s": round(median(read for _, read, _ in runs[_WARM_UP:]), 3),
        }


def _once(
    session: SparkSession, given: StoredState, columns: Sequence[Column], packed: Mapping[str, str], folder: Path
) -> tuple[float, float, StoredState]:
    """CPU seconds of the tasks that write a state anew from one that is there, and of those that read it then; and the state."""
    files = Files(session, packed=packed)
    with Meter(session.sparkContext) as meter:
        stored = files.save(files.load(given, columns), columns, given.bucket, folder)
    read = _read(session, stored, columns)
    shutil.rmtree(folder)
    return meter.usage.cpu_seconds, read, stored


def _read(session: SparkSession, stored: StoredState, columns: Sequence[Column]) -> float:
    return usage_of(Files(session).load(stored, columns).draft.dataframe()).cpu_seconds


def _rows(session: SparkSession, dataset: Dataset, kind: Kind) -> DataFrame:
    for table in ("store_sales", "customer", "item", "date_dim", "store"):
        session.read.parquet(f"file:{dataset.file(table)}").createOrReplaceTempView(table)
    return session.sql(kind.query)


def _turned(ways: list[str], turn: int) -> list[str]:
    return ways[turn % len(ways) :] + ways[: turn % len(ways)]


def by_way(rows: Sequence[Row], reads: int = 1) -> Row:
    """Per way to pack, CPU seconds and MB of all kinds together, where what is written once is read so many times."""
    ways = dict.fromkeys(row["packed"] for row in rows)
    of = {way: [row for row in rows if row["packed"] == way] for way in ways}
    return {
        way: {
            "cpu_s": round(sum(row["write_s"] + reads * row["read_s"] for row in found), 3),
            "mb": round(sum(row["mb"] for row in found), 1),
        }
        for way, found in of.items()
    }
