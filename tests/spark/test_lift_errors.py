"""Refusals by code, and that the user's session is left alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow
import pytest
from pyspark import RDD
from pyspark.sql import SparkSession

from tempura.errors import TempuraError
from tempura.frontend.lift import lift_sql
from tempura.frontend.session import clone
from tests.spark.lifting import lift
from tests.spark.versions import batch_function, since

REFUSED = {
    "SELECT * FROM nope": "UNKNOWN_TABLE",
    "SELECT nope FROM sales": "UNKNOWN_COLUMN",
    "SELECT nope(o_id) FROM sales": "UNKNOWN_FUNCTION",
    "SELEC 1": "INVALID_SQL",
    "SELECT o_id FROM sales GROUP BY cat": "INVALID_SQL",
    "DROP TABLE sales": "NOT_A_QUERY",
    "INSERT INTO sales SELECT * FROM sales": "NOT_A_QUERY",
    "SET spark.sql.ansi.enabled = false": "NOT_A_QUERY",
    "CREATE TEMPORARY VIEW x AS SELECT 1": "NOT_A_QUERY",
    "SELECT rand() FROM sales": "NONDETERMINISTIC",
    "SELECT uuid() AS id FROM sales": "NONDETERMINISTIC",
    "SELECT monotonically_increasing_id() FROM sales": "NONDETERMINISTIC",
    "SELECT * FROM sales WHERE price > (SELECT MAX(cost) FROM returns WHERE cost > rand())": "NONDETERMINISTIC",
    "SELECT * FROM returns TABLESAMPLE (10 PERCENT) REPEATABLE (1)": "NONDETERMINISTIC",
    "SELECT * FROM sales WHERE o_id IN (SELECT o_id FROM returns TABLESAMPLE (BUCKET 1 OUT OF 4))": "NONDETERMINISTIC",
    "SELECT struct(s.o_id, r.o_id) AS z FROM sales s JOIN returns r ON s.o_id = r.o_id": "FIELDS_ALIKE",
    "SELECT array(named_struct('a', o_id, 'A', price)) AS z FROM sales": "FIELDS_ALIKE",
    "SELECT map(1, array(struct(o_id, o_id))) AS m FROM sales": "FIELDS_ALIKE",
    "SELECT current_user()": "RUN_DEPENDENT",
    "SELECT o_id FROM sales WHERE day = date'today'": "RUN_DEPENDENT",
    "SELECT o_id FROM sales WHERE day IN (SELECT DATE('to' || 'day') FROM returns)": "RUN_DEPENDENT",
    "SELECT o_id FROM sales WHERE day < ' yesterday'": "RUN_DEPENDENT",
    'SELECT Timestamp_NTZ " now " AS t FROM sales': "RUN_DEPENDENT",
    "SELECT current_timezone() FROM sales": "RUN_DEPENDENT",
    "SELECT * FROM sales WHERE o_id IN (SELECT o_id FROM returns WHERE current_database() = 'x')": "RUN_DEPENDENT",
    "SELECT transform(array(1), x -> current_date()) AS a FROM sales": "RUN_DEPENDENT",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_refused(spark: SparkSession, sql: str) -> None:
    with pytest.raises(TempuraError) as error:
        lift(spark, sql)
    assert error.value.code == REFUSED[sql]
    assert error.value.what
    assert len(str(error.value)) < 600


def test_an_error_says_where(spark: SparkSession) -> None:
    with pytest.raises(TempuraError, match=r"`nope` cannot be found.*line 1 pos 14"):
        lift(spark, "SELECT * FROM nope")
    with pytest.raises(TempuraError, match="or a literal"):
        lift(spark, "SELECT current_user()")


def test_words_that_are_no_times(spark: SparkSession) -> None:
    lift(spark, "SELECT 'today' AS a, date'epoch' AS d, CAST('2024-01-01' AS DATE) AS e FROM sales WHERE cat = 'now'")


def test_a_word_for_a_time_in_a_view(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW days AS SELECT date'yesterday' AS d")
    try:
        with pytest.raises(TempuraError, match="date'yesterday'"):
            lift(spark, "SELECT * FROM sales, days WHERE day = d")
    finally:
        spark.catalog.dropTempView("days")


def test_a_source_outside_of_the_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(f"file:{tmp_path}/rows")
    spark.read.parquet(f"file:{tmp_path}/rows").createOrReplaceTempView("foreign_rows")
    try:
        with pytest.raises(TempuraError) as error:
            lift(spark, "SELECT * FROM foreign_rows")
    finally:
        spark.catalog.dropTempView("foreign_rows")
    assert error.value.code == "UNKNOWN_SOURCE"


def test_a_python_function_is_lifted(spark: SparkSession) -> None:
    spark.udf.register("tempura_twice", lambda x: 2 * x, "int")
    lifted = lift(spark, "SELECT tempura_twice(o_id) AS x FROM returns")
    assert lifted.reasons == ()
    assert "PythonUDF(o_id; tempura_twice," in str(lifted.rel)


@pytest.mark.skipif(not since(4, 1), reason="Spark 4.0 has no functions over Arrow arrays")
def test_a_python_function_over_groups_is_not(spark: SparkSession) -> None:
    def longest(x: pyarrow.Array) -> int:
        return len(x)

    spark.udf.register("tempura_longest", batch_function("arrow_udf", longest, "int"))
    lifted = lift(spark, "SELECT tempura_longest(o_id) AS x FROM returns")
    assert [reason.code for reason in lifted.reasons] == ["UDF"]


def test_spark_connect_is_refused_by_name() -> None:
    connect = cast(SparkSession, SimpleNamespace(version="4.3.0"))
    with pytest.raises(TempuraError) as error:
        lift_sql(connect, "SELECT 1", {})
    assert error.value.code == "SPARK_CONNECT"


def test_the_users_session_is_not_changed(spark: SparkSession) -> None:
    spark.sql("SELECT 42 AS answer").createOrReplaceTempView("sales")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    views, to_dataframe, active = spark.catalog.listTables(), RDD.toDF, SparkSession.getActiveSession()
    before = _active(spark)
    try:
        lift(spark, "SELECT cat FROM sales")
        with pytest.raises(TempuraError):
            lift(spark, "SELECT * FROM nope")
        assert [tuple(row) for row in spark.sql("SELECT * FROM sales").collect()] == [(42,)]
        assert spark.catalog.listTables() == views
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
        assert RDD.toDF is to_dataframe
        assert _active(spark) == before
        assert SparkSession.getActiveSession() is active
    finally:
        spark.catalog.dropTempView("sales")
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def _active(spark: SparkSession) -> str:
    sessions = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    return str(sessions.getActiveSession().toString())


def test_a_clone_has_the_users_views_functions_and_configuration(spark: SparkSession) -> None:
    spark.sql("SELECT 42 AS answer").createOrReplaceTempView("mine")
    try:
        work = clone(spark)
        assert work.table("mine").first() == (42,)
        assert work.conf.get("spark.sql.shuffle.partitions") == spark.conf.get("spark.sql.shuffle.partitions")
        work.conf.set("spark.sql.shuffle.partitions", "7")
        work.catalog.dropTempView("mine")
        assert spark.conf.get("spark.sql.shuffle.partitions") != "7"
        assert spark.table("mine").first() == (42,)
    finally:
        spark.catalog.dropTempView("mine")
