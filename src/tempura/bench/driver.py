"""What the driver takes for steps of Tempura, against prices whose proportions are known from jobs of plain Spark.

Such jobs tell what one more scan or exchange takes. A step takes more of each: its plan is built from Python, and its files are named one
by one. So a few small views are refreshed in a warehouse of their own, and all prices of the driver are multiplied by what that took
against them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from tempura.cost.fit import OF_MEDIAN, spread
from tempura.cost.model import CostModel
from tempura.warehouse.commits.files import Files
from tempura.warehouse.spark.spark_engine import SparkEngine
from tempura.warehouse.times.schedule import Schedule
from tempura.warehouse.times.steps import StepManifest
from tempura.warehouse.warehouse import Warehouse, open_site

_QUERIES = {
    "per_shop": "SELECT shop, sum(price) AS total, count(*) AS n FROM sales GROUP BY shop",
    "star": "SELECT category, city, sum(price) AS total FROM sales JOIN items USING (item) JOIN shops USING (shop) "
    "WHERE price > 3 GROUP BY category, city",
    "best": "SELECT city, max(total) AS best FROM (SELECT shop, item, sum(price) AS total FROM sales GROUP BY shop, item) "
    "JOIN shops USING (shop) GROUP BY city",
}
_METHODS = ("batch", "im1")
_LOAD, _MORE = 2_000, 200
"""Rows: next to nothing."""

_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Level:
    """By what the driver's prices are to be multiplied, and how far that may be off."""

    factor: float
    error: float


def level_of(
    spark: SparkSession, prices: CostModel, folder: Path, rounds: int, progress: Callable[[str], None] = lambda _: None
) -> Level:
    """Refresh the views so many times after warming up; the median over steps of different kinds."""
    warehouse = open_site(folder, SparkEngine(lambda: spark, prices), Files())
    _declare(warehouse, spark)
    ratios: dict[str, list[float]] = {}
    for round in range(_WARM_UP + rounds):
        rows = _LOAD if round == 0 else _MORE
        first = _LOAD * min(round, 1) + _MORE * max(0, round - 1)
        numbers = spark.range(first, first + rows)
        warehouse.table("sales").append(
            numbers.selectExpr("id", "id * 7 % 500 item", "id * 13 % 50 shop", "id % 100 price")
        )
        for name, step in _refreshed(warehouse):
            progress(f"{'warming up' if round < _WARM_UP else f'step {round - _WARM_UP + 1}'}: {name}")
            if round >= _WARM_UP and step.estimated_fixed:
                ratios.setdefault(name, []).append(step.driver_seconds * 1e9 / step.estimated_fixed)
    found = [median(of_one) for of_one in ratios.values()]
    return Level(median(found), OF_MEDIAN * spread(found) / len(found) ** 0.5)


def _declare(warehouse: Warehouse, spark: SparkSession) -> None:
    warehouse.add_table("sales", schema="id BIGINT, item BIGINT, shop BIGINT, price BIGINT")
    warehouse.add_table("items", schema="item BIGINT, category STRING")
    warehouse.add_table("shops", schema="shop BIGINT, city STRING")
    warehouse.table("items").append(spark.range(500).selectExpr("id AS item", "concat('c', id % 7) AS category"))
    warehouse.table("shops").append(spark.range(50).selectExpr("id AS shop", "concat('t', id % 9) AS city"))
    for name, sql in _QUERIES.items():
        for method in _METHODS:
            warehouse.add_query(f"{name}_{method}", sql, schedule=Schedule.view())


def _refreshed(warehouse: Warehouse) -> Iterator[tuple[str, StepManifest]]:
    for name in _QUERIES:
        for method in _METHODS:
            query = warehouse.query(f"{name}_{method}")
            query.run(methods=method)
            yield query.name, query.steps()[-1]
