"""Queries whose rows come in roundabout ways, through views, cached and self-joined DataFrames, and functions of the user's, are
maintained like others."""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import tempura as tp
from tempura.algebra.canonical import fingerprint
from tempura.errors import TempuraError
from tempura.frontend.lift import lift_sql
from tempura.frontend.session import active, clone
from tempura.warehouse.query import Query
from tempura.warehouse.warehouse import Warehouse
from tests.spark.test_hostile_queries import bag
from tests.spark.versions import batch_function, since

ARRIVALS = (
    ("(1, 'a', 5), (2, 'b', 1), (2, 'b', 1), (NULL, 'c', NULL)", "(2, 'b', 1)"),
    ("(3, 'a', 7)", "(1, 'a', 5), (2, 'b', 1)"),
)
"""Rows that come and then rows that go; twice."""  # fmt: skip


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = clone(spark)
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    with active(own):
        yield own


@pytest.fixture
def wh(session: SparkSession, tmp_path: Path) -> Warehouse:
    warehouse = tp.open(tmp_path / "wh", spark=session, clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
    warehouse.add_table("t", schema="k INT, g STRING, v INT")
    return warehouse


def rows(session: SparkSession, values: str) -> DataFrame:
    return session.sql(f"SELECT * FROM VALUES {values} AS t(k, g, v)")


def maintained(
    wh: Warehouse, session: SparkSession, queries: list[Query], wanted: Callable[[DataFrame], list[DataFrame]]
) -> None:
    """Run through all arrivals; at each, every query's result is what is ``wanted`` of the table's rows, by increments."""
    for i, change in enumerate(change for arrival in ARRIVALS for change in arrival):
        (wh.table("t").delete if i % 2 else wh.table("t").append)(rows(session, change))
        for query, expected in zip(queries, wanted(wh.table("t").df()), strict=True):
            query.run(methods="im1")
            assert bag(query.result()) == bag(expected), query.name
            found = query.verify()
            assert found, f"{query.name}: {found}"
            assert query.plan(methods="im1").plan.fallbacks == ()


def test_views_over_tables(wh: Warehouse, session: SparkSession) -> None:
    """A view of a DataFrame keeps the files that the table had when it was made; the query does not."""
    wh.table("t").df().where("v > 0").createOrReplaceTempView("positive")
    session.sql("CREATE TEMPORARY VIEW named AS SELECT g, sum(v) AS s FROM positive GROUP BY g")
    texts = [
        "SELECT p.k, n.s FROM positive p JOIN named n ON p.g = n.g",
        "SELECT k FROM t WHERE k NOT IN (SELECT k FROM positive)",
    ]
    queries = [wh.add_query(f"q{i}", sql=sql) for i, sql in enumerate(texts)]

    def wanted(t: DataFrame) -> list[DataFrame]:
        t.createOrReplaceTempView("now")
        positive, named = "(SELECT * FROM now WHERE v > 0)", "(SELECT g, sum(v) AS s FROM now WHERE v > 0 GROUP BY g)"
        return [
            session.sql(f"SELECT p.k, n.s FROM {positive} p JOIN {named} n ON p.g = n.g"),
            session.sql(f"SELECT k FROM now WHERE k NOT IN (SELECT k FROM {positive})"),
        ]

    maintained(wh, session, queries, wanted)


def test_a_recomputed_query_over_a_view_sees_new_rows(wh: Warehouse, session: SparkSession) -> None:
    wh.table("t").df().createOrReplaceTempView("seen")
    query = wh.add_query(
        "q", sql="SELECT count(*) AS n, size(collect_list(k)) AS l FROM seen WHERE k = (SELECT max(k) FROM seen)"
    )
    counts = []
    for i, change in enumerate(change for arrival in ARRIVALS for change in arrival):
        (wh.table("t").delete if i % 2 else wh.table("t").append)(rows(session, change))
        query.run(methods="im1")
        assert query.verify()
        counts += [tuple(row) for row in query.result().collect()]
    assert counts == [(2, 2), (1, 1), (1, 1), (1, 1)]


@pytest.mark.slow
def test_a_dataframe_that_is_recomputed_in_part(wh: Warehouse, session: SparkSession) -> None:
    def made(t: DataFrame) -> DataFrame:
        return t.orderBy("k", "g", "v").offset(1).join(t.groupBy("g").agg(fn.sum("v").alias("s")), "g")

    query = wh.add_query("q", df=made(wh.table("t").df()))
    for i, change in enumerate(change for arrival in ARRIVALS for change in arrival):
        (wh.table("t").delete if i % 2 else wh.table("t").append)(rows(session, change))
        query.run(methods="im1")
        assert bag(query.result()) == bag(made(wh.table("t").df()))
    assert query.verify()
    assert [reason.code for reason in query.plan(methods="im1").plan.fallbacks] == ["OFFSET"]
    another = tp.open(wh.path, spark=session, clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
    with pytest.raises(TempuraError, match="QUERY_NOT_REGISTERED"):
        another.query("q").run()
    assert another.add_query("q", df=made(another.table("t").df())).run().nothing, "the same query"


@pytest.mark.parametrize("chosen", [(0, 1), pytest.param((0, 1, 2, 3, 4), marks=pytest.mark.full)], ids=["some", "all"])
def test_cached_and_self_joined_dataframes(wh: Warehouse, session: SparkSession, chosen: tuple[int, ...]) -> None:
    t = wh.table("t").df()
    cached = t.where("v IS NOT NULL").cache()
    assert cached.count() == 0

    def queries(t: DataFrame) -> list[DataFrame]:
        some, totals = t.where("v IS NOT NULL"), t.groupBy("g").agg(fn.sum("v").alias("s"))
        joined = (
            some.alias("a")
            .join(some.alias("b"), fn.col("a.g") == fn.col("b.g"))
            .select("a.k", fn.col("b.v").alias("w"))
        )
        return [
            joined,
            t.join(totals, "g"),
            some.union(some).distinct(),
            t.withColumn("k", t.k + 1).join(t, "k", "left"),
        ]

    cached_too = [cached.groupBy("g").count(), *queries(t)[1:]]
    every = [queries(t)[0], *cached_too]
    added = [wh.add_query(f"q{i}", df=every[i]) for i in chosen]

    def wanted(t: DataFrame) -> list[DataFrame]:
        every = [queries(t)[0], t.where("v IS NOT NULL").groupBy("g").count(), *queries(t)[1:]]
        return [every[i] for i in chosen]

    try:
        maintained(wh, session, added, wanted)
    finally:
        cached.unpersist()


@pytest.fixture
def functions(session: SparkSession) -> Iterator[None]:
    session.udf.register("plus_one", lambda x: None if x is None else x + 1, "int")
    session.sql("CREATE TEMPORARY FUNCTION doubled(x INT) RETURNS INT RETURN x * 2")
    session.sql("CREATE TEMPORARY FUNCTION pair(x INT) RETURNS TABLE (a INT, b INT) RETURN SELECT x + 1, x * 2")
    yield
    for name in ("plus_one", "doubled", "pair"):
        session.sql(f"DROP TEMPORARY FUNCTION {name}")


CALLS = (
    "SELECT plus_one(k) AS p, doubled(v) AS d FROM {t} WHERE plus_one(v) > 2 OR g = 'c'",
    "SELECT plus_one(k) AS p, count(*) AS n, sum(plus_one(v)) AS s FROM {t} GROUP BY plus_one(k)",
    "SELECT a.k, b.v FROM {t} a JOIN {t} b ON plus_one(a.k) = b.k",
    "SELECT a.k, b.v FROM {t} a LEFT JOIN {t} b ON plus_one(a.k) = plus_one(plus_one(b.k)) AND doubled(b.v) > 2",
    "SELECT k, plus_one(v) AS m FROM {t} WHERE k IN (SELECT plus_one(k) FROM {t})",
    "SELECT g, max(plus_one(v)) AS m, plus_one(max(v)) AS n FROM {t} GROUP BY g",
)
EACH_TIME = (CALLS[1], CALLS[3])
"""Calls as keys, as arguments of aggregates, on both sides of a join and in the rest of its condition; ``script/test-full`` has all."""


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize("texts", [EACH_TIME, pytest.param(CALLS, marks=pytest.mark.full)], ids=["some", "all"])
def test_user_defined_functions(wh: Warehouse, session: SparkSession, texts: tuple[str, ...]) -> None:
    queries = [wh.add_query(f"q{i}", sql=text.format(t="t")) for i, text in enumerate(texts)]

    def wanted(t: DataFrame) -> list[DataFrame]:
        t.createOrReplaceTempView("now")
        return [session.sql(text.format(t="now")) for text in texts]

    maintained(wh, session, queries, wanted)


@pytest.mark.usefixtures("functions")
def test_a_function_that_returns_a_table(wh: Warehouse, session: SparkSession) -> None:
    query = wh.add_query("q", sql="SELECT g, p.a, p.b FROM t, LATERAL pair(v) p")
    maintained(wh, session, [query], lambda t: [t.select("g", (t.v + 1).alias("a"), (t.v * 2).alias("b"))])


@pytest.mark.skipif(find_spec("pandas") is None or find_spec("numpy") is None, reason="pandas is not installed")
def test_a_function_over_batches_of_rows(wh: Warehouse, session: SparkSession) -> None:
    session.udf.register("plus_two", batch_function("pandas_udf", lambda x: x + 2, "double"))
    query = wh.add_query("q", sql="SELECT plus_two(v) AS p FROM t")
    maintained(wh, session, [query], lambda t: [t.select((t.v + 2.0).alias("p"))])


@pytest.mark.skipif(not since(4, 1), reason="Spark 4.0 has no functions over Arrow arrays")
def test_a_function_over_arrow_arrays(wh: Warehouse, session: SparkSession) -> None:
    def negated(x):  # type: ignore[no-untyped-def]
        import pyarrow.compute

        return pyarrow.compute.negate(x)

    session.udf.register("negated", batch_function("arrow_udf", negated, "int"))
    query = wh.add_query("q", sql="SELECT g, min(negated(v)) AS m FROM t GROUP BY g")
    maintained(wh, session, [query], lambda t: [t.groupBy("g").agg(fn.min(-t.v).alias("m"))])


def test_functions_run_with_the_python_of_the_process(session: SparkSession) -> None:
    """Not with the first one on the PATH, which may lack what a function imports."""
    session.udf.register("interpreter", lambda: sys.prefix)
    assert session.sql("SELECT interpreter() AS found").collect()[0].found == sys.prefix


def test_functions_that_are_not_functions_of_a_row(wh: Warehouse, session: SparkSession) -> None:
    session.udf.register("dice", fn.udf(lambda: 4, "int").asNondeterministic())
    with pytest.raises(TempuraError) as error:
        wh.add_query("q", sql="SELECT k, dice() AS d FROM t")
    assert error.value.code == "NONDETERMINISTIC"
    assert "dice" in error.value.what


def test_another_function_of_the_same_name_is_another_query(wh: Warehouse, session: SparkSession) -> None:
    prints = []
    for step in (1, 2, 1):
        session.udf.register("stride", _stride(step), "int")
        lifted = lift_sql(session, "SELECT stride(k) AS s FROM t", {"t": wh.table("t").schema})
        prints.append(fingerprint(lifted.rel))
    assert prints[0] == prints[2] != prints[1]


def _stride(step: int) -> Callable[[int], int]:
    return lambda k: k + step
