"""Sub-queries and grouping sets end to end: rows arrive, change and go, and each output equals Spark's answer."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.warehouse.query import Query
from tempura.warehouse.warehouse import Warehouse

Make = Callable[[Sequence[tuple[object, ...]], str], DataFrame]

SALES = "o_id INT, cat STRING, qty BIGINT"
RETURNS = "o_id INT, cost INT"
INSERTED, DELETED = "insert", "delete"

Rows = tuple[list[tuple[object, ...]], ...]

SALES_ARRIVALS: Rows = (
    [(1, "a", 5), (2, "b", 1), (2, "b", 1), (None, "b", 2), (4, None, None)],
    [(5, "c", 3), (2, "b", 9), (7, "a", 0)],
    [(1, "b", 4)],
)
RETURNS_ARRIVALS: Rows = (
    [(1, 10, INSERTED), (1, 10, INSERTED), (None, 3, INSERTED)],
    [(1, 10, DELETED), (2, 4, INSERTED), (7, None, INSERTED), (None, 3, DELETED)],
    [(1, 10, DELETED), (2, 4, DELETED), (4, 2, INSERTED)],
)

EXISTENCE = (
    "SELECT o_id, cat, o_id IN (SELECT o_id FROM returns) AS returned FROM sales",
    "SELECT cat, COUNT(*) AS n, SUM(qty) AS q FROM sales s "
    "WHERE qty > 4 OR EXISTS (SELECT 1 FROM returns r WHERE r.o_id = s.o_id AND r.cost > s.qty) GROUP BY cat",
    "SELECT cat FROM sales WHERE qty IS NULL OR o_id NOT IN (SELECT o_id FROM returns)",
)

SCALAR = (
    "SELECT o_id, qty, (SELECT MAX(cost) FROM returns) AS m, (SELECT cost FROM returns WHERE o_id = 4) AS c FROM sales "
    "WHERE qty >= (SELECT AVG(o_id) FROM returns) OR (SELECT COUNT(*) FROM returns) = 2",
    "SELECT cat, SUM(qty * (SELECT COUNT(*) FROM returns)) - (SELECT MIN(o_id) FROM returns WHERE o_id > 1) AS x "
    "FROM sales GROUP BY cat HAVING COUNT(*) < (SELECT COUNT(*) FROM returns)",
    "SELECT o_id FROM sales WHERE qty > (SELECT MIN(cost) FROM returns WHERE cost < (SELECT MAX(qty) FROM sales))",
    "SELECT s.o_id, cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id AND r.cost + s.qty > (SELECT MIN(o_id) FROM returns)",
)

CTES = (
    "WITH x AS (SELECT cat, qty FROM sales WHERE qty > 0) SELECT a.cat, COUNT(*) AS n FROM x a JOIN x b ON a.qty = b.qty GROUP BY a.cat",
    "WITH x AS (SELECT o_id, SUM(cost) AS c FROM returns GROUP BY o_id), y AS (SELECT o_id FROM x UNION ALL SELECT o_id FROM sales) "
    "SELECT x.o_id, c, (SELECT COUNT(*) FROM y) AS n FROM x LEFT JOIN y ON x.o_id = y.o_id",
)

GROUPING_SETS = (
    "SELECT cat, o_id % 2 AS odd, COUNT(*) AS n, SUM(qty) AS q, GROUPING_ID() AS g FROM sales GROUP BY ROLLUP (cat, o_id % 2)",
    "SELECT cat, r.o_id, MAX(cost) AS m FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id "
    "GROUP BY CUBE (cat, r.o_id) HAVING COUNT(*) > 1",
    "SELECT o_id, COUNT(*) AS n FROM returns GROUP BY GROUPING SETS ((o_id), (o_id), ())",
)


@pytest.fixture
def make(spark: SparkSession) -> Make:
    return lambda rows, ddl: spark.createDataFrame(rows, ddl).coalesce(1)


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark, clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))


def run_through(wh: Warehouse, make: Make, texts: Sequence[str]) -> list[Query]:
    """Queries, added to a new warehouse, run and verified at each arrival, without recomputing what has a delta."""
    sales = wh.add_table("sales", schema=SALES)
    returns = wh.add_table("returns", schema=RETURNS)
    queries = [wh.add_query(f"q{i}", sql=text, schedule=tp.Schedule.view()) for i, text in enumerate(texts)]
    for sold, returned in zip(SALES_ARRIVALS, RETURNS_ARRIVALS, strict=True):
        sales.append(make(sold, SALES))
        returns.apply(make(returned, f"{RETURNS}, _change STRING"))
        for query in queries:
            query.run(methods="im1")
            found = query.verify()
            assert found, f"{query.name}: {found}"
    return queries


def codes(query: Query) -> set[str]:
    return {reason.code for reason in query.plan(methods="im1").plan.fallbacks}


CATALOGUE = {"existence": EXISTENCE, "scalar": SCALAR, "named": CTES, "grouping sets": GROUPING_SETS}
EACH_TIME = {"existence": (1,), "scalar": (0, 2), "named": (1,), "grouping sets": (1,)}
"""By kind, those with the most ways to go wrong: below an OR and an aggregate, in a SELECT and a WHERE, a sub-query in a sub-query, a named
query that reads another, a CUBE over an outer join."""


@pytest.mark.parametrize("kind", CATALOGUE)
def test_sub_queries_and_grouping_sets(wh: Warehouse, make: Make, kind: str) -> None:
    check(wh, make, kind, [CATALOGUE[kind][i] for i in EACH_TIME[kind]])


@pytest.mark.full
@pytest.mark.parametrize("kind", CATALOGUE)
def test_all_sub_queries_and_grouping_sets(wh: Warehouse, make: Make, kind: str) -> None:
    check(wh, make, kind, CATALOGUE[kind])


def check(wh: Warehouse, make: Make, kind: str, texts: Sequence[str]) -> None:
    """Nothing is recomputed; of scalar sub-queries an extreme that is deleted may be."""
    found = set().union(*map(codes, run_through(wh, make, texts)))
    assert (found & {"SUBQUERY", "JOIN_KIND"} if kind == "scalar" else found) == set()


def test_a_second_row_fails_as_in_spark(wh: Warehouse, make: Make) -> None:
    wh.add_table("sales", schema=SALES).append(make(SALES_ARRIVALS[0], SALES))
    returns = wh.add_table("returns", schema=RETURNS)
    sql = "SELECT o_id, (SELECT cost FROM returns) AS c FROM sales"
    query = wh.add_query("q", sql=sql, schedule=tp.Schedule.view())
    query.run(methods="im1")
    assert {row["c"] for row in query.result().collect()} == {None}
    returns.append(make([(1, 10)], RETURNS))
    query.run(methods="im1")
    assert {row["c"] for row in query.result().collect()} == {10}
    returns.append(make([(1, 10)], RETURNS))
    with pytest.raises(tp.TempuraError, match="More than one row") as error:
        query.run(methods="im1")
    assert error.value.code == "SCALAR_SUBQUERY_TOO_MANY_ROWS"
    returns.delete(make([(1, 10)], RETURNS))
    query.run(methods="im1")
    assert query.verify()
