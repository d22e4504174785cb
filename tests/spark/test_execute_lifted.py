"""Lifted queries run by the executor give what Spark gives for their SQL."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra.bag import SignedBag
from tempura.frontend.lift import lift_sql
from tests.spark.bags import signed_bag
from tests.spark.roundtrip import computed

SALES = """SELECT * FROM VALUES (1, 'x', 10.50BD), (2, 'x', 1.25BD), (2, NULL, NULL), (3, 'y', -0.05BD), (3, 'y', -0.05BD),
           (NULL, 'y', 7.00BD) AS t(o_id, category, price)"""
RETURNS = "SELECT * FROM VALUES (2, 0.5D), (3, 1e0D), (4, NULL) AS t(o_id, cost)"

QUERIES = (
    """SELECT category, sum(IF(cost IS NULL, price, -CAST(cost AS DECIMAL(7,2)))) AS gross, avg(price) AS a, count(DISTINCT s.o_id) AS n
       FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id GROUP BY category HAVING count(*) >= 1""",
    """SELECT upper(category) AS c, max(price) AS m, min(o_id) AS l, count(*) FILTER (WHERE price > 0) AS n FROM sales
       GROUP BY upper(category)""",
    "SELECT * FROM sales s FULL JOIN returns r ON s.o_id = r.o_id AND s.price > r.cost",
    """SELECT o_id, price FROM sales WHERE o_id IN (SELECT o_id FROM returns)
       UNION ALL SELECT o_id, cost FROM returns WHERE cost < 1 OR cost IS NULL""",
    "SELECT o_id, price FROM sales WHERE o_id NOT IN (SELECT o_id FROM returns WHERE cost > 0.7)",
    "SELECT o_id, substring(category, 1, 1) AS s FROM sales ORDER BY price DESC, o_id LIMIT 3",
    "SELECT round(avg(price), 9) AS a, round(stddev(price), 9) AS s, sum(o_id) AS t FROM sales WHERE category LIKE 'x%'",
    "SELECT o_id, (SELECT cost FROM returns r WHERE r.o_id = s.o_id) AS c FROM sales s",
    "SELECT category, round(price / sum(price) OVER (PARTITION BY category), 9) AS share, "
    "round(stddev(price) OVER (PARTITION BY category), 9) AS s FROM sales",
    "SELECT x.o_id, category FROM (SELECT * FROM returns ORDER BY o_id LIMIT 2 OFFSET 1) x JOIN sales s ON x.o_id = s.o_id",
    "SELECT category, row_number() OVER (PARTITION BY category ORDER BY price, o_id) AS r FROM sales",
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, DataFrame]:
    return {"sales": spark.sql(SALES), "returns": spark.sql(RETURNS)}


@pytest.mark.parametrize(("sql", "signed"), [(QUERIES[0], False), *((sql, True) for sql in QUERIES)])
def test_a_lifted_query_gives_the_rows_of_its_sql(
    spark: SparkSession, tables: dict[str, DataFrame], sql: str, signed: bool
) -> None:
    for name, table in tables.items():
        table.createOrReplaceTempView(name)
    lifted = lift_sql(spark, sql, {name: table.schema for name, table in tables.items()})

    rows = computed(spark, lifted.rel, tables, signed)
    expected = spark.sql(sql)
    assert [type for _, type in rows.dtypes][: lifted.visible] == [type for _, type in expected.dtypes]
    width = len(lifted.rel.columns)
    visible = SignedBag((row[: lifted.visible], weight) for row, weight in signed_bag(rows, width).items())
    assert visible == signed_bag(expected, lifted.visible)


def test_a_correlated_sub_query_with_two_rows_is_an_error(spark: SparkSession, tables: dict[str, DataFrame]) -> None:
    sql = "SELECT (SELECT price FROM sales s WHERE s.o_id = r.o_id) AS p FROM returns r"
    lifted = lift_sql(spark, sql, {name: table.schema for name, table in tables.items()})
    assert not lifted.reasons
    for signed in (False, True):
        with pytest.raises(PySparkException, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
            computed(spark, lifted.rel, tables, signed).collect()
