"""A step that only recomputes asks Spark the user's own query; what that may not answer is left to the step."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tempura as tp
from tempura.execute.draft import Draft
from tempura.warehouse.spark import spark_engine
from tempura.warehouse.spark.whole import answered

OWN, BY_STEP = "asked as it was written", "by the step"
QUERIES = {
    "grouped": ("SELECT g, sum(v) AS s FROM t GROUP BY g ORDER BY s DESC", OWN),
    "ties at the limit": ("SELECT g, v FROM t ORDER BY g LIMIT 3", OWN),
    "limit without order": ("SELECT v FROM t LIMIT 2", OWN),
    "limit of a common table": (
        "WITH c AS (SELECT g, count(*) AS n FROM t GROUP BY g) SELECT n FROM c ORDER BY n LIMIT 1",
        OWN,
    ),
    "no rows": ("SELECT g FROM t LIMIT 0", OWN),
    "one row": ("SELECT count(*) AS n FROM t ORDER BY n LIMIT 5", OWN),
    "sub-query": ("SELECT g FROM t WHERE v > (SELECT avg(v) FROM t) AND g IN (SELECT g FROM u)", OWN),
    "clock": ("SELECT g, current_date() >= DATE'2000-01-01' AS late FROM t", OWN),
    "table twice": ("SELECT a.g, b.v FROM t a JOIN t b ON a.v = b.v", OWN),
    "limit below": ("SELECT g FROM (SELECT g, v FROM t ORDER BY g LIMIT 3) ORDER BY g", BY_STEP),
    "ordered by what is not shown": ("SELECT g FROM t ORDER BY v LIMIT 2", BY_STEP),
    "ranked": ("SELECT g, v, row_number() OVER (ORDER BY g) AS n FROM t", BY_STEP),
}
ROWS = [("a", 1), ("a", 2), ("b", 2), (None, 3), ("b", None), ("a", 1)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of Spark as a whole."""
    texts: list[str] = []

    def recording(session: SparkSession, query: str, *rest: object) -> Draft | None:
        found = answered(session, query, *rest)  # type: ignore[arg-type]
        texts.extend([query] if found else [])
        return found

    monkeypatch.setattr(spark_engine, "answered", recording)
    return texts


def test_a_recomputation_asks_the_query_as_it_was_written(
    spark: SparkSession, tmp_path: Path, asked: list[str]
) -> None:
    wh = tp.open(tmp_path, spark=spark)
    t, u = wh.add_table("t", schema="g STRING, v INT"), wh.add_table("u", schema="g STRING")
    t.append(spark.createDataFrame(ROWS, "g STRING, v INT"))
    u.append(spark.createDataFrame([("a",), (None,)], "g STRING"))
    found = {}
    for name, (sql, _) in QUERIES.items():
        query = wh.add_query(name.replace(" ", "_").replace("-", "_"), sql=sql)
        query.run(methods="batch")
        found[name] = OWN if sql in asked else BY_STEP
        assert query.verify(), f"{name}: {query.verify()}"
    assert found == {name: way for name, (_, way) in QUERIES.items()}


def test_ties_are_broken_alike_by_a_recomputation_and_by_maintenance(
    spark: SparkSession, tmp_path: Path, asked: list[str]
) -> None:
    wh = tp.open(tmp_path, spark=spark)
    t = wh.add_table("t", schema="g STRING, v INT")
    rows = [("a", v) for v in (5, 3, 9, 1, 7)]
    t.append(spark.createDataFrame(rows, "g STRING, v INT"))
    queries = [wh.add_query(name, sql="SELECT g, v FROM t ORDER BY g LIMIT 3") for name in ("whole", "maintained")]
    for query, methods in zip(queries, ("batch", "im1"), strict=True):
        query.run(methods=methods)
        t.append(spark.createDataFrame([("b", 0)], "g STRING, v INT"))
        query.run(methods=methods)
    assert asked
    first, second = ({tuple(row) for row in query.result().collect()} for query in queries)
    assert first == second == {("a", 1), ("a", 3), ("a", 5)}


def test_with_deletions_the_step_computes_with_signed_rows(
    spark: SparkSession, tmp_path: Path, asked: list[str]
) -> None:
    wh = tp.open(tmp_path, spark=spark)
    t = wh.add_table("t", schema="g STRING, v INT")
    t.append(spark.createDataFrame(ROWS, "g STRING, v INT"))
    query = wh.add_query("q", sql="SELECT g, sum(v) AS s FROM t GROUP BY g")
    t.delete(spark.createDataFrame([("a", 1)], "g STRING, v INT"))
    query.run(methods="batch")
    assert not asked
    assert query.verify()
