"""And: a nested EXCEPT / INTERSECT ALL / anti-join query over tiny tables took 32 s to refresh and 2 s to recompute: in plans analysed at
each of their operators, and in a job for each small state."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.execute import jvm
from tempura.execute.metrics import Meter
from tempura.warehouse.query import Query

NESTED = """
SELECT k, count(*) n FROM (
    (SELECT k, v FROM t EXCEPT SELECT k, v FROM u WHERE v > 1)
    INTERSECT ALL
    (SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v > t.v)
     EXCEPT ALL
     SELECT k, v FROM u WHERE k NOT IN (SELECT k FROM t WHERE v = 2 AND k IS NOT NULL))
) GROUP BY k
EXCEPT
SELECT k, n FROM (SELECT k, count(*) n FROM u GROUP BY k HAVING count(*) > 3)
"""


class Shop:
    """The query over two tables into which twenty rows come at a time."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.random = spark, Random(1)
        self.wh = tp.open(folder, spark=spark)
        for name in "tu":
            self.wh.add_table(name, schema="k INT, v INT")
        self.arrive()
        self.query: Query = self.wh.add_query("nested", NESTED)

    def arrive(self) -> None:
        for name in "tu":
            rows = [(self.random.randrange(10), self.random.randrange(5)) for _ in range(20)]
            self.wh.table(name).append(self.spark.createDataFrame(rows, "k INT, v INT"))

    def jobs(self, work: Callable[[], object]) -> int:
        with Meter(self.spark.sparkContext) as meter:
            work()
        return meter.usage.jobs

    def recompute(self) -> None:
        for name in "tu":
            self.wh.table(name).df().createOrReplaceTempView(name)
        self.spark.sql(NESTED).collect()


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path / "wh")


@pytest.mark.slow
def test_a_nested_query_over_tiny_tables_is_refreshed_as_quickly_as_recomputed(shop: Shop) -> None:
    shop.query.run()
    shop.arrive()
    refresh = shop.jobs(shop.query.run)
    assert shop.query.verify()
    assert refresh <= shop.jobs(shop.recompute) + 1


@pytest.mark.slow
def test_a_refresh_by_deltas_analyses_a_plan_per_result_and_not_per_operator(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[object] = []
    of_plan = jvm.Jvm.of_plan

    def counting(self: jvm.Jvm, session: SparkSession, plan: object) -> DataFrame:
        analysed.append(plan)
        return of_plan(self, session, plan)

    shop.query.run(methods="im1")
    shop.arrive()
    step = shop.query.plan("im1").steps[0]
    monkeypatch.setattr(jvm.Jvm, "of_plan", counting)
    shop.query.run(methods="im1")
    monkeypatch.undo()
    written = len(step.saves) + 1
    assert len(list(step.operators)) > 4 * written, "there are many operators"
    # Each state and the result, and what several of them read: kept, and read as a leaf.
    assert len(analysed) <= 3 * written
    assert shop.query.verify()
