"""Inserts, deletes and updates on four views on Spark: exact after each step, and a step takes as many jobs and writes as much late as
early. Counts, because times depend on the machine."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.execute.contract import StepOutcome, Usage
from tempura.execute.metrics import Meter
from tempura.warehouse.commits.files import Files
from tempura.warehouse.engine import Work
from tempura.warehouse.query import Query
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.tables.take import register
from tempura.warehouse.warehouse import Warehouse, open_site

VIEWS = {
    "totals": "SELECT cat, SUM(price) AS total, COUNT(cost) AS back FROM sales s JOIN returns r ON s.o_id = r.r_id GROUP BY cat",
    "outer": "SELECT * FROM sales s LEFT JOIN returns r ON s.o_id = r.r_id",
    "ranks": "SELECT o_id, cat, SUM(price) OVER (PARTITION BY cat) AS total FROM sales s JOIN returns r ON s.o_id = r.r_id",
    "above": "SELECT back, COUNT(*) AS n FROM sums GROUP BY back",
}
CHANGE = "insert", "delete"
SALES, RETURNS = "o_id INT, cat STRING, price INT", "r_id INT, cost INT"


class Counting(SparkEngine):
    """What each step took."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(lambda: spark)
        self.took: list[Usage] = []

    def execute(self, work: Work) -> StepOutcome:
        outcome = super().execute(work)
        self.took.append(outcome.usage)
        return outcome


class Shop:
    """Two tables whose rows come, go, and get another key."""

    def __init__(self, wh: Warehouse, spark: SparkSession) -> None:
        self._spark, self._random, self._key = spark, Random(11), 0
        self._tables = {
            "sales": wh.add_table("sales", schema=SALES),
            "returns": wh.add_table("returns", schema=RETURNS),
        }
        self._ddl = {"sales": SALES, "returns": RETURNS}
        self._rows: dict[str, list[tuple[object, ...]]] = {"sales": [], "returns": []}

    @property
    def live(self) -> int:
        """Rows in the larger table."""
        return max(map(len, self._rows.values()))

    def change(self, inserted: int, gone: int) -> None:
        for table, make in (("sales", self._sale), ("returns", self._back)):
            deleted = self._random.sample(self._rows[table], 2 * gone)
            moved = [(self._random.randint(1, self._key), *row[1:]) for row in deleted[:gone]]
            added = [make() for _ in range(inserted)] + moved
            changes = [(*row, kind) for rows, kind in zip((added, deleted), CHANGE, strict=True) for row in rows]
            frame = self._spark.createDataFrame(changes, f"{self._ddl[table]}, _change STRING")
            self._tables[table].apply(frame.coalesce(1), trust=True)
            for row in deleted:
                self._rows[table].remove(row)
            self._rows[table] += added

    def _sale(self) -> tuple[object, ...]:
        self._key += 1
        return self._key, f"c{self._random.randrange(6)}", self._random.randrange(100)

    def _back(self) -> tuple[object, ...]:
        return self._random.randint(1, max(1, self._key)), self._random.randrange(20)


def declared(wh: Warehouse, views: Sequence[str]) -> dict[str, Query]:
    queries = {}
    for name in views:
        queries[name] = wh.add_query(name, sql=VIEWS[name], schedule=tp.Schedule.view())
        if name == "totals":
            wh.add_table("sums", query=name)
    return queries


def churned(spark: SparkSession, folder: Path, steps: int, views: Sequence[str]) -> dict[str, list[Usage]]:
    """What each step of each view took; each result was exact, and states stayed in proportion to the tables."""
    engine = Counting(spark)
    wh = open_site(folder / "wh", engine, Files())
    shop, took = Shop(wh, spark), {name: list[Usage]() for name in views}
    shop.change(100, 0)
    queries = declared(wh, views)
    for step in range(steps):
        if step:
            shop.change(1, 1)
        for name, query in queries.items():
            engine.took.clear()
            query.run(methods="im1")
            assert query.verify(), (name, step)
            took[name].append(sum_of(engine.took))
            assert sum(state.stored.rows for state in query.steps()[-1].states) < 8 * shop.live, (name, step)
        if step % 10 == 9:
            wh.gc()
    return took


def sum_of(took: list[Usage]) -> Usage:
    """A view without news takes nothing."""
    jobs, written = sum(usage.jobs for usage in took), sum(usage.output_bytes for usage in took)
    return Usage(jobs=jobs, output_bytes=written, input_bytes=sum(usage.input_bytes for usage in took))


def check_flat(took: dict[str, list[Usage]], window: int) -> None:
    for name, usages in took.items():
        early, late = usages[1 : 1 + window], usages[-window:]
        assert sum(u.jobs for u in late) <= 1.5 * sum(u.jobs for u in early) + 3, (name, [u.jobs for u in usages])
        written = [u.output_bytes for u in usages]
        assert sum(u.output_bytes for u in late) <= 2 * sum(u.output_bytes for u in early), (name, written)


@pytest.mark.slow
def test_some_steps_of_churn_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """A view and one over it; ``script/test-full`` has all four."""
    check_flat(churned(spark, tmp_path, 5, ("totals", "above")), 2)


@pytest.mark.full
@pytest.mark.sweep
def test_fifty_steps_of_churn_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    check_flat(churned(spark, tmp_path, 50, list(VIEWS)), 10)


def test_many_files_take_no_more_jobs_than_a_few(spark: SparkSession, tmp_path: Path) -> None:
    """Spark looks at more than 32 files by a job, unless it is told not to."""
    jobs = []
    for files in (3, 40):
        engine, folder = Counting(spark), tmp_path / f"{files} files"
        folder.mkdir()
        for i in range(files):
            pq.write_table(pa.table({"k": pa.array([i, i + 1], pa.int32())}), folder / f"{i}.parquet")
        wh = open_site(tmp_path / f"wh {files}", engine, Files())
        wh.add_table("t", path=folder, schema="k INT")
        query = wh.add_query("q", sql="SELECT k, COUNT(*) AS n FROM t GROUP BY k", schedule=tp.Schedule.view())
        query.run(methods="im1")
        assert query.result().count() == files + 1
        jobs.append(sum_of(engine.took).jobs)
    assert jobs[0] == jobs[1]


@pytest.mark.slow
@pytest.mark.parametrize("methods", ["im1", "batch"])
def test_a_refresh_by_many_files_takes_no_more_jobs_than_by_a_few(
    spark: SparkSession, tmp_path: Path, methods: str
) -> None:
    """All jobs of a run, those included that look at what has come; whether it reads the new files or all of them."""
    jobs = []
    for files in (3, 40):
        folder = tmp_path / f"{files} files"
        folder.mkdir()
        pq.write_table(pa.table({"k": pa.array(range(9), pa.int32())}), folder / "first.parquet")
        wh = tp.open(tmp_path / f"wh {files}", spark=spark)
        wh.add_table("t", path=folder, schema="k INT", append_only=True)
        query = wh.add_query("q", sql="SELECT k, COUNT(*) AS n FROM t GROUP BY k", schedule=tp.Schedule.view())
        query.run(methods=methods)
        for i in range(files):
            pq.write_table(pa.table({"k": pa.array([i, i + 1], pa.int32())}), folder / f"{i}.parquet")
        with Meter(spark.sparkContext) as meter:
            query.run(methods=methods)
        assert query.verify()
        jobs.append(meter.usage.jobs)
    assert jobs[0] == jobs[1] > 0


@pytest.mark.slow
def test_changes_of_many_files_take_no_more_jobs_than_of_a_few(spark: SparkSession, tmp_path: Path) -> None:
    """All jobs that compare an update and a delete with the rows that are there, in however many files these are."""
    jobs = []
    for files in (3, 40):
        folder = tmp_path / f"{files} files"
        folder.mkdir()
        for i in range(files):
            pq.write_table(keyed(range(i, i + 1)), folder / f"{i}.parquet")
        table = tp.open(tmp_path / f"wh {files}", spark=spark).add_table("t", path=folder, schema="k INT", keys=["k"])
        assert table.df().count() == files
        pq.write_table(keyed(range(3), ["update", "delete", "update"]), folder / "changes.parquet")
        with Meter(spark.sparkContext) as meter:
            register(table.arrivals)
        assert table.df().count() == files - 1
        jobs.append(meter.usage.jobs)
    assert jobs[0] == jobs[1] > 0


def keyed(keys: Sequence[int], kinds: Sequence[str] | None = None) -> pa.Table:
    columns = {"k": pa.array(keys, pa.int32())}
    return pa.table(columns if kinds is None else columns | {"_change": pa.array(kinds)})
