"""``tempura bench operators``: what Spark's operators cost per row, in CPU time of its tasks, and what jobs of few rows cost, in CPU
time of tasks and of the driver. The prices of :mod:`tempura.cost.model` were set from this; ``tempura calibrate``
(:mod:`tempura.bench.calibration`) measures those of a machine, with tables of its own.

Each job reads TPC-DS or TPC-H tables from Parquet and ends in a sink that drops the rows, so that a figure includes reading. ``over`` names
the job that is contained in another (for aggregates the one without a key, because few rows reach the sink); ``ns_per_row`` is
the price of what is left.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from tempura.bench.jobs import session_as_asked, usage_of
from tempura.data.tpcds import Dataset, generate
from tempura.execute.contract import Usage

Row = dict[str, Any]
_ON = "ss_item_sk = sr_item_sk AND ss_ticket_number = sr_ticket_number"
_ON_ONE = "ss_ticket_number = sr_ticket_number"
_ON_TEXT = "CAST(ss_ticket_number AS STRING) = CAST(sr_ticket_number AS STRING)"
_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Job:
    """A job to be measured. ``over``: the job that it contains. ``write``: into Parquet files. ``rows``: the table whose rows count."""

    name: str
    frame: Callable[["Tables"], DataFrame]
    over: str | None = None
    write: bool = False
    rows: str = "sales"


@dataclass(frozen=True)
class Tables:
    """The tables that the jobs read: three columns each of sales and returns, two of the items; of TPC-H order lines and orders."""

    spark: SparkSession
    dataset: Dataset
    tpch: Dataset

    def read(self, table: str) -> DataFrame:
        """A table from its file."""
        return self.spark.read.parquet(f"file:{self.dataset.file(table)}")

    def lines(self, *columns: str) -> DataFrame:
        """Columns of the order lines."""
        return self.spark.read.parquet(f"file:{self.tpch.file('lineitem')}").select(*columns)

    @cached_property
    def comments(self) -> DataFrame:
        """The comments of orders, texts of some 50 characters."""
        return self.spark.read.parquet(f"file:{self.tpch.file('orders')}").select("o_comment")

    @cached_property
    def few(self) -> DataFrame:
        """Twenty rows: what a job over them takes does not depend on rows."""
        return self.read("ship_mode").select("sm_ship_mode_sk", "sm_type")

    @cached_property
    def sales(self) -> DataFrame:
        """Sales by item and ticket."""
        return self.read("store_sales").select("ss_item_sk", "ss_ticket_number", "ss_net_paid")

    @cached_property
    def returns(self) -> DataFrame:
        """Returns by item and ticket."""
        return self.read("store_returns").select("sr_item_sk", "sr_ticket_number", "sr_return_amt")

    @cached_property
    def items(self) -> DataFrame:
        """Items and their categories."""
        return self.read("item").select("i_item_sk", "i_category")

    @cached_property
    def counts(self) -> dict[str, int]:
        """The rows of the tables."""
        own = {"sales": self.sales, "returns": self.returns, "items": self.items}
        own |= {"lines": self.lines("l_orderkey"), "orders": self.comments}
        return {name: frame.count() for name, frame in own.items()} | {"one": 1}


def _grouped(key: str, *aggregates: str) -> Callable[[Tables], DataFrame]:
    return lambda t: t.lines(key, *_SUMMED, *_TEXTS).groupBy(key).agg(*map(fn.expr, aggregates))


_SUMMED = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
_TEXTS = ("l_shipmode", "l_shipinstruct")
_SUMS = tuple(f"sum({name})" for name in _SUMMED)
_LARGEST = tuple(f"max({name})" for name in _TEXTS)


def _few_joined(t: Tables) -> DataFrame:
    frame = t.few
    for i in range(3):
        frame = frame.join(
            t.few.selectExpr(f"sm_ship_mode_sk AS k{i}").hint("broadcast"), fn.expr(f"sm_ship_mode_sk = k{i}")
        )
    return frame


def _few_grouped(t: Tables) -> DataFrame:
    by_both = t.few.groupBy("sm_ship_mode_sk", "sm_type").agg(fn.count("*").alias("n"))
    # Not a sum: Spark would count in one go.
    return by_both.groupBy("sm_type").agg(fn.max("n").alias("n")).groupBy("n").agg(fn.max("sm_type"))


def _few_projected(t: Tables) -> DataFrame:
    frame = t.few
    for i in range(9):
        # Each filter reads what the projection below it has computed.
        frame = frame.selectExpr(f"sm_ship_mode_sk + {i} AS sm_ship_mode_sk", "sm_type").filter(
            f"sm_ship_mode_sk > {i}"
        )
    return frame


def _joined(hint: str) -> Callable[[Tables], DataFrame]:
    return lambda t: t.sales.join(t.returns.hint(hint), fn.expr(_ON), "left")


def _found(hint: str, on: str) -> Callable[[Tables], DataFrame]:
    return lambda t: t.sales.join(t.returns.hint(hint), fn.expr(on), "left_semi")


JOBS = (
    Job("nothing", lambda t: t.spark.range(1).toDF("id"), rows="one"),
    Job("read, 1 column", lambda t: t.read("store_sales").select("ss_item_sk")),
    Job("read, 3 columns", lambda t: t.sales),
    Job("read, 10 columns", lambda t: t.read("store_sales").select(t.read("store_sales").columns[:10])),
    Job("filter", lambda t: t.sales.filter("ss_net_paid > 50"), "read, 3 columns"),
    Job(
        "filter and project",
        lambda t: t.sales.filter("ss_net_paid > 50").select("ss_item_sk", fn.expr("ss_net_paid * 2")),
        "read, 3 columns",
    ),
    Job(
        "broadcast join, small table",
        lambda t: t.sales.join(t.items.hint("broadcast"), fn.expr("ss_item_sk = i_item_sk")),
        "read, 3 columns",
    ),
    Job("broadcast join, large table", _joined("broadcast"), "read, 3 columns"),
    Job("sort-merge join", _joined("merge"), "read, 3 columns"),
    Job("shuffled hash join", _joined("shuffle_hash"), "read, 3 columns"),
    *(
        Job(f"{name} by {what}", _found(hint, on), "read, 3 columns")
        for name, hint in (("sort-merge join", "merge"), ("shuffled hash join", "shuffle_hash"))
        for what, on in (("one number", _ON_ONE), ("two numbers", _ON), ("a text", _ON_TEXT))
    ),
    Job("aggregate, one group", lambda t: t.sales.agg(fn.sum("ss_net_paid"), fn.max("ss_item_sk"))),
    Job(
        "aggregate, ten groups",
        lambda t: t.sales.groupBy(fn.expr("ss_item_sk % 10")).agg(fn.sum("ss_net_paid")),
        "aggregate, one group",
    ),
    Job(
        "aggregate, a group per item",
        lambda t: t.sales.groupBy("ss_item_sk").agg(fn.sum("ss_net_paid"), fn.count("*")),
        "aggregate, one group",
    ),
    Job(
        "aggregate, a group per ticket",
        lambda t: t.sales.groupBy("ss_ticket_number").agg(fn.sum("ss_net_paid")),
        "aggregate, one group",
    ),
    Job("distinct rows", lambda t: t.sales.distinct(), "read, 3 columns"),
    Job("shuffle", lambda t: t.sales.repartition(4, "ss_ticket_number"), "read, 3 columns"),
    Job("write, 3 columns", lambda t: t.sales, "read, 3 columns", write=True),
    Job(
        "write, 10 columns",
        lambda t: t.read("store_sales").select(t.read("store_sales").columns[:10]),
        "read, 10 columns",
        write=True,
    ),
    Job("read, 1 text", lambda t: t.comments, rows="orders"),
    Job("LIKE", lambda t: t.comments.filter("o_comment LIKE '%special%requests%'"), "read, 1 text", rows="orders"),
    Job("LIKE '%…%'", lambda t: t.comments.filter("o_comment LIKE '%special%'"), "read, 1 text", rows="orders"),
    Job("RLIKE", lambda t: t.comments.filter("o_comment RLIKE 'special.*requests'"), "read, 1 text", rows="orders"),
    Job("read, 2 decimals", lambda t: t.lines("l_extendedprice", "l_discount"), rows="lines"),
    Job(
        "product of decimals beyond 18 digits",
        lambda t: t.lines("l_extendedprice", "l_discount").select(fn.expr("l_extendedprice * (1 - l_discount)")),
        "read, 2 decimals",
        rows="lines",
    ),
    Job("count, one group", lambda t: t.lines("l_suppkey").agg(fn.count("l_suppkey")), rows="lines"),
    Job("count, ten thousand groups", _grouped("l_suppkey", "count(*)"), "count, one group", rows="lines"),
    Job("count, 200 thousand groups", _grouped("l_partkey", "count(*)"), "count, one group", rows="lines"),
    Job("count, seven groups", _grouped("l_linenumber", "count(*)"), "count, one group", rows="lines"),
    *(
        job
        for key, groups in (("l_linenumber", "seven"), ("l_suppkey", "ten thousand"), ("l_partkey", "200 thousand"))
        for job in (
            Job(
                f"sum of decimals, {groups} groups", _grouped(key, *_SUMS[:1]), f"count, {groups} groups", rows="lines"
            ),
            Job(
                f"four sums of decimals, {groups} groups",
                _grouped(key, *_SUMS),
                f"sum of decimals, {groups} groups",
                rows="lines",
            ),
        )
    ),
    Job(
        "largest text, ten thousand groups",
        _grouped("l_suppkey", *_LARGEST[:1]),
        "count, ten thousand groups",
        rows="lines",
    ),
    Job(
        "two largest texts, ten thousand groups",
        _grouped("l_suppkey", *_LARGEST),
        "largest text, ten thousand groups",
        rows="lines",
    ),
    Job("few rows, written", lambda t: t.few, write=True, rows="one"),
    Job("few rows, three broadcast joins", _few_joined, "few rows, written", write=True, rows="one"),
    Job("few rows, three aggregations", _few_grouped, "few rows, written", write=True, rows="one"),
    Job("few rows, nine filters and projections", _few_projected, "few rows, written", write=True, rows="one"),
    Job("write one row", lambda t: t.spark.range(1).toDF("id"), "nothing", write=True, rows="one"),
)


def measure(
    spark: SparkSession, scale: float, repeats: int = 5, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Run every job to warm up and ``repeats`` times to measure; plain data with the median of each."""
    tables = Tables(session_as_asked(spark), generate(scale), generate(scale, suite="tpch"))
    with tempfile.TemporaryDirectory(prefix="tempura-bench-") as folder:
        usages = {}
        for job in JOBS:
            progress(job.name)
            usages[job.name] = _median(tables, job, repeats, Path(folder))
    rows = [_row(job, usages, tables.counts) for job in JOBS]
    return {"meta": _meta(spark, scale, repeats, tables.counts), "operators": rows}


def _median(tables: Tables, job: Job, repeats: int, folder: Path) -> Usage:
    to = folder if job.write else None
    runs = [usage_of(job.frame(tables), to) for _ in range(_WARM_UP + repeats)][_WARM_UP:]
    middle = median(run.cpu_seconds for run in runs)
    return min(runs, key=lambda run: abs(run.cpu_seconds - middle))


def _row(job: Job, usages: Mapping[str, Usage], counts: Mapping[str, int]) -> Row:
    usage, rows = usages[job.name], counts[job.rows]
    net = usage.cpu_seconds - (usages[job.over].cpu_seconds if job.over else 0.0)
    return {
        "operator": job.name,
        "over": job.over,
        "rows": rows,
        "cpu_s": round(usage.cpu_seconds, 4),
        "driver_s": round(usage.driver_seconds, 4),
        "wall_s": round(usage.wall_seconds, 3),
        "shuffle_mb": round(usage.shuffle_bytes / 1e6, 1),
        "ns_per_row": round(net * 1e9 / rows),
    }


def _meta(spark: SparkSession, scale: float, repeats: int, counts: Mapping[str, int]) -> Row:
    return {
        "benchmark": "operators",
        "scale": scale,
        "repeats": repeats,
        "rows": dict(counts),
        "spark": str(spark.version),
        "cores": os.cpu_count(),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }
