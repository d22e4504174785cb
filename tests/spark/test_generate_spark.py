"""Generators, lifted and run by the executor, give Spark's rows, and those of the interpreter where it knows the functions."""

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.generate import Generate
from tests.spark.lifting import lift
from tests.spark.test_windows import computed, expected, interpreted

INTERPRETED = [
    "SELECT o_id, explode_outer(xs) FROM sales WHERE o_id > 1",
    "SELECT o_id, p, x + o_id FROM sales LATERAL VIEW OUTER posexplode(xs) t AS p, x",
    "SELECT stack(2, o_id, o_id + 1, 7) AS (a, b) FROM sales",
]
QUERIES = [
    *INTERPRETED,
    "SELECT o_id, explode(xs) AS x FROM sales",
    "SELECT posexplode(xs) FROM sales",
    "SELECT x, y FROM (SELECT xs, explode(xs) x FROM sales) LATERAL VIEW explode(xs) u AS y WHERE x < y",
    "SELECT cat, COUNT(x), SUM(x) FROM sales LATERAL VIEW explode(xs) t AS x GROUP BY cat",
    "SELECT o_id, a, b FROM sales LATERAL VIEW inline(array(named_struct('a', o_id, 'b', cat), named_struct('a', 2, 'b', 'y'))) t AS a, b",
    "SELECT stack(2, o_id, cat, 1, 'one') FROM sales",
    "SELECT json_tuple('{\"a\": 1, \"b\": 2}', cat, 'b') FROM sales",
    "SELECT o_id FROM sales INTERSECT ALL SELECT o_id FROM returns",
    "SELECT o_id, NULL FROM returns EXCEPT ALL SELECT o_id, NULL FROM sales",
    "SELECT k, v FROM sales LATERAL VIEW explode(map('a', o_id, 'b', qty)) t AS k, v",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_the_rows_are_sparks(spark: SparkSession, sql: str) -> None:
    lifted = lift(spark, sql)
    assert not lifted.reasons
    assert any(isinstance(rel, Generate) for rel in lifted.rel.walk())
    bag = computed(spark, lifted.rel)
    assert bag == expected(spark, sql)
    if sql in INTERPRETED:
        assert bag == interpreted(spark, lifted.rel)


def test_a_generator_of_a_constant_array(spark: SparkSession) -> None:
    assert lift(spark, "SELECT o_id, x FROM returns LATERAL VIEW explode(array(1, 2)) t AS x").reasons == ()
