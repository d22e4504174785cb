"""A step that only recomputes asks Spark the user's own query; what that may not answer is left to the step."""

from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import tempura as tp
from tempura.algebra.rel import Join
from tempura.bench.planning import Tables
from tempura.cost.as_written import SparkSizes
from tempura.cost.joins import small_sides
from tempura.data.tpcds import generate, query_texts
from tempura.errors import TempuraError
from tempura.execute.draft import Draft
from tempura.frontend import opaque
from tempura.frontend.lift import lift_sql
from tempura.warehouse.engine import WholeQuery
from tempura.warehouse.spark import spark_engine, whole
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

    def recording(session: SparkSession, query: WholeQuery) -> Draft | None:
        found = answered(session, query)
        texts.extend([query.text] if found else [])
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
        report = query.run(methods="batch")
        found[name] = OWN if sql in asked else BY_STEP
        assert (str(report.does) == "built as written") == (sql in asked), name
        assert str(query.history()[-1].does) == str(report.does)
        assert query.verify(), f"{name}: {query.verify()}"
    assert found == {name: way for name, (_, way) in QUERIES.items()}


def test_a_recomputation_has_spark_read_the_text_no_second_time(
    spark: SparkSession, tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wh = tp.open(tmp_path, spark=spark)
    t = wh.add_table("t", schema="g STRING, v INT")
    query = wh.add_query("q", sql=QUERIES["sub-query"][0].replace("FROM u", "FROM t"))
    monkeypatch.setattr(whole, "analysed", None)
    for _ in range(2):
        t.append(spark.createDataFrame(ROWS, "g STRING, v INT"))
        query.run(methods="batch")
    assert len(asked) == 2
    monkeypatch.undo()
    assert query.verify()


def test_as_many_columns_come_as_a_leaf_has(spark: SparkSession) -> None:
    columns = StructType().add("g", "string").add("v", "integer")
    made = opaque.whole(spark, lift_sql(spark, "SELECT g, v FROM t", {"t": columns}).analysed)
    assert made.tables == ("t",)
    rows = spark.createDataFrame(ROWS, columns)
    plan = made.answer(spark, [Draft.of(rows).plan])
    assert sorted(map(str, Draft(spark, plan).dataframe().collect())) == sorted(map(str, rows.collect()))
    with pytest.raises(IllegalArgumentException, match="1 columns in the place of 2"):
        made.answer(spark, [Draft.of(rows.select("g")).plan])


TWICE = """
    WITH sums AS (SELECT t.g, u.h, sum(t.v) AS s FROM t JOIN u ON t.k = u.k GROUP BY t.g, u.h)
    SELECT g, h, s FROM sums UNION SELECT g, NULL, sum(s) FROM sums GROUP BY g
"""
COLUMNS = {"t": "k INT, g STRING, v INT", "u": "k INT, h STRING"}


def test_what_spark_computes_once_it_computes_once(spark: SparkSession, tmp_path: Path) -> None:
    """Two parts of a query that are the same are the same over its tables' files."""
    session, texts = spark.newSession(), {"t": "0 AS k, 'a' AS g, 1 AS v", "u": "0 AS k, 'b' AS h"}
    session.conf.set("spark.sql.adaptive.enabled", "false")
    files = {name: str(tmp_path / name) for name in texts}
    for name, values in texts.items():
        session.sql(f"SELECT {values}").write.parquet(files[name])
        session.read.parquet(files[name]).createOrReplaceTempView(name)
    schemas = {name: session.read.schema(columns).parquet(files[name]).schema for name, columns in COLUMNS.items()}
    made = opaque.whole(session, lift_sql(session, TWICE, schemas).analysed)
    rows = [
        Draft.parquet(session, [files[table]], schemas[table].json()).select(*schemas[table].names)
        for table in made.tables
    ]
    answer = Draft(session, made.answer(session, [draft.plan for draft in rows])).dataframe()
    plans = [str(frame._jdf.queryExecution().executedPlan().toString()) for frame in (answer, session.sql(TWICE))]
    assert [plan.count("ReusedExchange") for plan in plans] == [1, 1]
    assert sorted(map(tuple, answer.collect()), key=str) == sorted(map(tuple, session.sql(TWICE).collect()), key=str)


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


QUERIES_OF_TPCH = ("q3", "q4", "q5", "q9", "q10", "q12", "q13", "q18", "q21")


@pytest.mark.parametrize("threshold", [20_000, 200_000, 2_000_000])
def test_spark_is_expected_to_send_what_it_sends(spark: SparkSession, threshold: int) -> None:
    """How many joins of a query as it is written have a side that Spark takes to be small, and how many have none."""
    dataset, session = generate(0.01, suite="tpch"), spark.newSession()
    tables = Tables.of(spark, dataset)
    for name in tables.facts:
        session.read.parquet(f"file:{dataset.file(name)}").createOrReplaceTempView(name)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", str(threshold))
    session.conf.set("spark.sql.adaptive.enabled", "false")
    sizes, found = SparkSizes(tables.facts, 0), {}
    for name in QUERIES_OF_TPCH:
        sql = query_texts("tpch")[name]
        plan = str(session.sql(sql)._jdf.queryExecution().executedPlan().toString())
        rel = lift_sql(spark, sql, tables.schemas).rel
        joins = [rel for rel in rel.walk() if isinstance(rel, Join)]
        sent = sum(bool(small_sides(join, [sizes.bytes(i) for i in join.inputs], threshold)) for join in joins)
        found[name] = (sent, len(joins) - sent), (plan.count("BroadcastHashJoin "), plan.count("SortMergeJoin"))
    assert {name: ours for name, (ours, _) in found.items()} == {name: sparks for name, (_, sparks) in found.items()}


def test_a_plan_that_knows_more_than_spark_is_run_instead(
    spark: SparkSession, tmp_path: Path, asked: list[str]
) -> None:
    """By values, of which Spark knows nothing, few rows of ``u`` are left: they are sent, and those of ``t`` stay where they are."""
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000")
    wh = tp.open(tmp_path, spark=session)
    numbers = spark.range(300_000).selectExpr("CAST(id AS INT) AS k", "CAST(id % 1000 AS INT) AS v")
    for name in ("t", "u"):
        wh.add_table(name, schema="k INT, v INT").append(numbers)
    sql = "SELECT t.v, count(*) AS n FROM t JOIN u ON t.k = u.k WHERE u.v = 7 GROUP BY t.v"
    query = wh.add_query("q", sql=sql)
    told = query.plan(methods="batch").explain()
    assert "by these operators" in told
    assert "as written, planned by Spark" in told
    query.run(methods="batch")
    assert not asked
    assert query.verify()
    assert [tuple(row) for row in query.result().collect()] == [(7, 300)]


def test_plain_spark_is_measured_over_the_rows_that_are_left(spark: SparkSession, tmp_path: Path) -> None:
    """All queries, of a table from which rows were deleted."""
    wh = tp.open(tmp_path, spark=spark)
    t, u = wh.add_table("t", schema="g STRING, v INT"), wh.add_table("u", schema="g STRING")
    t.append(spark.createDataFrame(ROWS, "g STRING, v INT"))
    u.append(spark.createDataFrame([("a",), (None,)], "g STRING"))
    t.delete(spark.createDataFrame([("a", 1), (None, 3)], "g STRING, v INT"))
    for name, (sql, _) in QUERIES.items():
        query = wh.add_query(name.replace(" ", "_").replace("-", "_"), sql=sql, schedule=tp.Schedule.view())
        query.run()
        measured, told = query.measure(), query.savings()
        assert measured.rows == query.result().count(), name
        assert measured.rows_read == sum({"t": 4, "u": 2}.get(table, 0) for table in measured.versions), name
        assert measured.wall_seconds > 0
        assert measured.driver_seconds > 0
        assert told.recomputed_wall_seconds == measured.wall_seconds
        assert not list((query.folder / "attempts").glob("*/[0-9]")), "what was written for it is gone"
    framed = wh.add_query("framed", df=wh.table("t").df().select("v"), schedule=tp.Schedule.view())
    framed.run()
    with pytest.raises(TempuraError) as error:
        framed.measure()
    assert error.value.code == "NO_TEXT"
    assert framed.savings().results == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(g) AS c, count(*) AS n FROM t GROUP BY upper(g)",
        "SELECT n, c, n AS again FROM (SELECT upper(g) AS c, count(*) AS n FROM t GROUP BY upper(g))",
        "SELECT x AS y FROM (SELECT g AS x, max(v) AS m FROM t GROUP BY g)",
    ],
)
def test_a_result_that_is_kept_as_a_state_is_asked_under_its_columns(
    spark: SparkSession, tmp_path: Path, asked: list[str], sql: str
) -> None:
    """A class has columns of its own, a query other names for them: over no rows the first run keeps its result and asks Spark for it."""
    wh = tp.open(tmp_path / "wh", spark=spark)
    table = wh.add_table("t", schema="g STRING, v INT")
    query = wh.add_query("q", sql=sql)
    for rows in ([], ROWS[:4], [], ROWS[4:]):
        if rows:
            table.append(spark.createDataFrame(rows, "g STRING, v INT"))
        query.run()
        assert query.verify(), str(query.verify())
    assert asked
