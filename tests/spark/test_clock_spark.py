"""Queries about the present: in each run ``current_date()`` and the like mean the logical time of the run, though no row arrived."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tempura as tp
from tempura.frontend.session import clone
from tempura.warehouse.query import Query
from tempura.warehouse.warehouse import Warehouse

ZONE = "America/New_York"
SALES = "o_id INT, day DATE, at TIMESTAMP, qty BIGINT"
START = datetime(2026, 3, 1, 2, 30, 0, 123456, tzinfo=UTC)
"""The evening of 28 February in New York."""

TODAY, NOW, LOCAL = "current_date()", "current_timestamp()", "localtimestamp()"

REPRESENTATIVE = (
    f"SELECT o_id, qty FROM sales WHERE day >= date_sub({TODAY}, 1)",
    f"SELECT day < {TODAY} AS past, COUNT(*) AS n, SUM(qty) AS q FROM sales GROUP BY day < {TODAY}",
    f"SELECT {NOW} AS asked, {TODAY} AS today, {LOCAL} AS local",
)
QUERIES = (
    f"SELECT o_id, {NOW} AS asked, date_trunc('HOUR', {NOW}) AS hour, {LOCAL} AS local FROM sales",
    f"SELECT s.o_id, r.qty FROM sales s LEFT JOIN sales r ON s.o_id = r.o_id + 1 AND r.at < {NOW} WHERE s.qty > 0",
    f"SELECT o_id FROM sales WHERE day IN (SELECT {TODAY}) OR EXISTS (SELECT 1 FROM sales t WHERE t.at > {NOW} AND t.qty > sales.qty)",
    f"WITH t AS (SELECT date_sub({TODAY}, 2) AS d) SELECT MAX(qty) AS m, MAX({TODAY}) AS today FROM sales, t WHERE day > d",
    # Recomputed, by its reason, over the clock as one of its inputs.
    f"SELECT o_id, qty FROM sales WHERE day <= {TODAY} ORDER BY o_id, at LIMIT 3 OFFSET 1",
)


class Clock:
    now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    made = clone(spark)
    made.conf.set("spark.sql.session.timeZone", ZONE)
    return made


@pytest.fixture
def wh(session: SparkSession, tmp_path: Path, clock: Clock) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=session, clock=clock)


def sold(session: SparkSession, *rows: tuple[int, int, float, int]) -> DataFrame:
    """Rows by number, days and hours after the start, and quantity."""
    made = ", ".join(
        f"({o}, DATE'2026-02-28' + {d}, timestamp_micros({int((START + timedelta(hours=h)).timestamp() * 1e6)}), {q}L)"
        for o, d, h, q in rows
    )
    return session.sql(f"SELECT * FROM VALUES {made} AS t(o_id, day, at, qty)")


def expected(wh: Warehouse, session: SparkSession, sql: str, now: datetime) -> Counter[tuple[object, ...]]:
    """What Spark says when the time is written as constants."""
    work = clone(session)
    work.createDataFrame(wh.table("sales").df().collect(), SALES).createOrReplaceTempView("sales")
    instant = f"timestamp_micros({int(now.timestamp()) * 10**6 + now.microsecond})"
    for function, constant in (
        (TODAY, f"CAST({instant} AS DATE)"),
        (LOCAL, f"CAST({instant} AS TIMESTAMP_NTZ)"),
        (NOW, instant),
    ):
        sql = sql.replace(function, constant)
    return Counter(map(tuple, work.sql(sql).collect()))


def checked(wh: Warehouse, session: SparkSession, queries: list[Query], now: datetime) -> None:
    for query in queries:
        query.run(methods="im1")
        assert Counter(map(tuple, query.result().collect())) == expected(wh, session, str(query.sql), now), query.sql
        assert query.verify(), query.sql


@pytest.mark.slow
@pytest.mark.parametrize("texts", [REPRESENTATIVE, pytest.param(QUERIES, marks=pytest.mark.full)], ids=["some", "more"])
def test_each_run_has_its_own_present(
    wh: Warehouse, session: SparkSession, clock: Clock, texts: tuple[str, ...]
) -> None:
    sales = wh.add_table("sales", schema=SALES)
    queries = [wh.add_query(f"q{i}", sql=sql) for i, sql in enumerate(texts)]
    sales.append(sold(session, (1, -1, -2, 5), (2, 0, 0.5, 1), (3, 0, 3, 2), (3, 1, 30, 2), (4, 2, 50, 7)))
    checked(wh, session, queries, clock.now)
    clock.now += timedelta(hours=3)  # the next day there, with no row more
    checked(wh, session, queries, clock.now)
    sales.append(sold(session, (5, 1, 4, 9), (6, 3, 70, 0)))
    sales.delete(sold(session, (3, 0, 3, 2)))
    clock.now += timedelta(days=1)
    checked(wh, session, queries, clock.now)


def test_a_day_is_one_version_and_an_instant_is_another(wh: Warehouse, session: SparkSession, clock: Clock) -> None:
    wh.add_table("sales", schema=SALES).append(sold(session, (1, 0, 0, 5)))
    by_day, by_time = (wh.add_query(n, sql=f"SELECT {f} AS x, o_id FROM sales") for n, f in (("d", TODAY), ("t", NOW)))
    assert not by_day.run().nothing
    assert not by_time.run().nothing
    clock.now += timedelta(hours=1)
    assert by_day.run().nothing
    assert not by_time.run().nothing
    assert by_day.result().collect() == [(date(2026, 2, 28), 1)]
    clock.now += timedelta(hours=2)
    by_day.run()
    assert by_day.result().collect() == [(date(2026, 3, 1), 1)]
    clock.now += timedelta(days=1)
    assert by_day.verify(), "of the run, not of today"


def test_from_a_dataframe(wh: Warehouse, session: SparkSession, clock: Clock) -> None:
    sales = wh.add_table("sales", schema=SALES)
    sales.append(sold(session, (1, 0, 0, 5), (2, 1, 0, 5)))
    query = wh.add_query("q", df=sales.df().where(f"day < {TODAY}").select("o_id"))
    query.run()
    assert query.result().collect() == []
    clock.now += timedelta(days=1)
    query.run()
    assert query.result().collect() == [(1,)]
    assert query.verify()


def test_a_conversion_from_the_sessions_zone_is_from_that_of_the_query(
    wh: Warehouse, session: SparkSession, clock: Clock
) -> None:
    """Its zone is one for all runs, also when a later session has another; in an array's elements, and twice in one expression."""
    sales = wh.add_table("sales", schema=SALES)
    sales.append(sold(session, (1, 0, 0, 5), (2, 1, 0, 5)))
    at = "CAST(at AS TIMESTAMP_NTZ)"
    queries = [
        wh.add_query(f"q{i}", sql=f"SELECT o_id, {value} AS v FROM sales")
        for i, value in enumerate((
            f"convert_timezone('UTC', {at})",
            f"transform(array({at}), t -> convert_timezone('Asia/Tokyo', t))[0]",
            f"convert_timezone('UTC', convert_timezone('America/New_York', {at}))",
        ))
    ]  # fmt: skip
    checked(wh, session, queries, clock.now)
    zone = session.conf.get("spark.sql.session.timeZone")
    before = [query.result().collect() for query in queries]
    session.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        sales.append(sold(session, (3, 0, 0, 5)))
        for query, rows in zip(queries, before, strict=True):
            query.run()
            assert query.verify(), query.sql
            found = dict(map(tuple, query.result().collect()))
            assert found == dict(map(tuple, rows)) | {3: dict(map(tuple, rows))[1]}, query.sql
    finally:
        session.conf.set("spark.sql.session.timeZone", str(zone))
