"""A page of figures, or groups of several hours that are compared, each a sub-query of its own over the same rows: found in one pass, and
what Spark finds, at each time."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp

SALES = "k INT, shop INT, hour INT, price DECIMAL(7,2)"
SQL = """
SELECT (SELECT count(*) FROM sales WHERE hour BETWEEN 8 AND 11) AS morning,
       (SELECT avg(price) FROM sales WHERE hour BETWEEN 12 AND 17 AND price > 1) AS afternoon,
       (SELECT max(price) FROM sales) AS dearest,
       early.n, late.n AS late, late.total, CASE WHEN early.n = 0 THEN NULL ELSE late.n / early.n END AS ratio
FROM (SELECT count(*) AS n FROM sales JOIN shops ON shop = id WHERE town = 'Ulm' AND hour < 12) early
CROSS JOIN (SELECT count(hour) AS n, sum(price) AS total FROM sales JOIN shops ON shop = id WHERE town = 'Bonn' AND hour >= 12) late
"""


COMPARED = """
WITH by_hour AS (
  SELECT town, hour, sum(price) AS total, count(*) AS n FROM sales JOIN shops ON shop = id GROUP BY town, hour
)
SELECT a.town, a.total AS morning, b.total AS noon, c.n AS evening, b.total / nullif(a.total, 0) AS ratio
FROM by_hour a JOIN by_hour b ON a.town = b.town LEFT JOIN by_hour c ON c.town = a.town AND c.hour = 21
WHERE a.hour = 9 AND b.hour = 13 AND b.n > 0
"""


def sold(spark: SparkSession, numbers: Iterable[int]) -> DataFrame:
    rows = spark.createDataFrame([(n,) for n in numbers], "n INT")
    shop, hour = "NULLIF(n % 4, 0)", "IF(n % 7 = 0, NULL, n % 24)"
    price = "CAST(IF(n % 5 = 0, NULL, n / 4) AS DECIMAL(7,2))"
    return rows.selectExpr("n AS k", f"{shop} AS shop", f"{hour} AS hour", f"{price} AS price")


CHANGES = (((), ()), (range(60), ()), (range(60, 70), range(9)), (range(70, 80), range(9, 80)))
"""What comes and what goes each time."""


@pytest.mark.parametrize(
    ("sql", "rows", "reads"), [(SQL, (1, 1, 1, 1), 3), (COMPARED, (0, 1, 1, 0), 1)], ids=["figures", "compared"]
)
def test_figures_of_the_same_rows(
    spark: SparkSession, tmp_path: Path, sql: str, rows: tuple[int, ...], reads: int
) -> None:
    """``rows``: of the result each time; ``reads``: of the sales, at each step: of figures
    twice by themselves, for totals and for the extreme, and once with shops."""
    warehouse = tp.open(tmp_path / "wh", spark=spark)
    sales = warehouse.add_table("sales", schema=SALES)
    shops = warehouse.add_table("shops", schema="id INT, town STRING")
    shops.append(spark.sql("VALUES (1, 'Ulm'), (2, 'Bonn'), (3, NULL), (NULL, 'Ulm') AS t(id, town)"))
    query = warehouse.add_query("figures", sql=sql)
    for (arriving, leaving), found in zip(CHANGES, rows, strict=True):
        sales.append(sold(spark, arriving))
        sales.delete(sold(spark, leaving))
        assert query.run().rows == found
        assert query.verify().equal
        plan = query.steps()[-1].plan
        assert plan.count("read sales[:") <= reads * plan.count("\nstep ")
