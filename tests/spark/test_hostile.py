"""What hostile users and bad nights do: odd names and types, sessions that must not change, errors that must be readable."""

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import ArrayType, StructType, VarcharType

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.warehouse import Warehouse


@pytest.fixture
def wh(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return tp.open(tmp_path / "wh", spark=spark, clock=lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))


def test_columns_may_have_the_names_that_tempura_uses(wh: Warehouse, spark: SparkSession) -> None:
    schema = "`_w` BIGINT, `_v` DOUBLE, `_t0` STRING, `x1` INT, `s0` INT, `_copy` INT, `c0` INT"
    rows = [(5, 0.0, "a", 1, 2, 3, 4), (5, -0.0, "a", 1, 2, 3, 4), (-2, None, None, 7, 7, 7, 7)]
    table = wh.add_table("t", schema=schema, keys=["_w", "_v", "_t0"])
    table.append(spark.createDataFrame(rows[::2], schema))
    query = wh.add_query("q", sql="SELECT *, _w + 1 AS _change FROM t")
    total = wh.add_query("total", sql="SELECT sum(_w) AS _w, count(s0) AS c0 FROM t")
    for change in (table.delete, table.append, table.delete):
        query.run(methods="im1")
        total.run(methods="im1")
        change(spark.createDataFrame(rows[:1], schema))
    query.run(methods="im1")
    total.run(methods="im1")
    assert query.verify(), str(query.verify())
    assert [tuple(row) for row in query.result().collect()] == [(*rows[2], -1)]
    assert query.result().columns == ["_w", "_v", "_t0", "x1", "s0", "_copy", "c0", "_change"]
    assert [tuple(row) for row in total.result().collect()] == [(-2, 1)]
    with pytest.raises(TempuraError) as error:
        table.delete(spark.createDataFrame(rows[:1], schema))
    assert error.value.code == "DELETE_OF_MISSING"
    assert "'_w': 5" in str(error.value)
    with pytest.raises(TempuraError) as error:
        table.append(spark.createDataFrame(rows[2:], schema))
    assert error.value.code == "DUPLICATE_KEY"
    assert "'_w': -2" in str(error.value)


def test_rows_with_maps_and_intervals_are_deleted_by_identity(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("t", schema="k INT, m MAP<STRING, DOUBLE>, i INTERVAL DAY")
    rows = spark.sql(
        "SELECT * FROM VALUES (1, map('a', 0.0D, 'b', NULL), INTERVAL 1 DAY), (1, map('b', NULL, 'a', 0.0D), INTERVAL 1 DAY),"
        " (1, map('a', -0.0D, 'b', NULL), INTERVAL 1 DAY), (2, NULL, NULL) AS t(k, m, i)"
    )
    table.append(rows)
    query = wh.add_query("q", sql="SELECT k, map_keys(m) AS ks, CAST(m['a'] AS STRING) AS a, i FROM t")
    query.run()
    table.delete(rows.limit(1))
    query.run()
    assert query.verify(), str(query.verify())
    assert sorted((r["ks"], r["a"]) for r in query.result().collect() if r["ks"]) == [
        (["a", "b"], "-0.0"),
        (["b", "a"], "0.0"),
    ]
    with pytest.raises(TempuraError) as error:
        table.delete(rows.limit(1))
    assert error.value.code == "DELETE_OF_MISSING"


def test_sessions_are_merged_by_rows_that_come_between(wh: Warehouse, spark: SparkSession) -> None:
    """Spark merges windows that overlap when it plans, by a mark on a column: to group by them as by any other value is wrong."""
    table = wh.add_table("t", schema="k INT, at TIMESTAMP")
    per_key = wh.add_query(
        "per_key",
        sql="""SELECT k, session_window.start AS began, session_window.end AS ended, count(*) AS n FROM t
               GROUP BY k, session_window(at, '2 days')""",
    )
    of_all = wh.add_query(
        "of_all",
        sql="""SELECT n, count(*) AS sessions FROM (SELECT count(DISTINCT k) AS n FROM t
               GROUP BY session_window(at, CASE WHEN k = 1 THEN '1 day' ELSE '2 days' END)) GROUP BY n""",
    )
    assert {r.code for query in (per_key, of_all) for r in query.lifted.reasons} == {"SESSION_WINDOW"}

    def days(*rows: tuple[int | None, int]) -> DataFrame:
        texts = ", ".join(f"({'NULL' if k is None else k}, TIMESTAMP'2024-03-{day:02} 10:00:00')" for k, day in rows)
        return spark.sql(f"SELECT * FROM VALUES {texts} AS t(k, at)")

    table.append(days((1, 1), (1, 4), (None, 1), (2, 9)))
    sessions = []
    for change in (
        lambda: None,
        lambda: table.append(days((1, 2), (1, 3))),
        lambda: table.delete(days((1, 2), (1, 3), (2, 9))),
    ):
        change()
        for query in (per_key, of_all):
            query.run(methods="im1")
            assert query.verify(), str(query.verify())
        sessions.append(sorted(row["n"] for row in per_key.result().collect() if row["k"] == 1))
    assert sessions == [[1, 1], [4], [1, 1]]


def test_maps_whose_numbers_are_null_are_the_same_however_they_were_made(wh: Warehouse, spark: SparkSession) -> None:
    """Spark sorts the entries of maps that it groups by, and takes a NULL for the number that was there before."""
    table = wh.add_table("t", schema="k INT, s STRING, m MAP<STRING, INT>")
    query = wh.add_query("q", sql="SELECT m, map(s, k) AS made FROM t")

    def rows(*keys: int | None) -> DataFrame:
        texts = ", ".join(f"({k or 'NULL'}, 'y')" for k in keys)
        return spark.sql(f"SELECT k, s, map(s, k) AS m FROM VALUES {texts} AS t(k, s)").coalesce(1)

    # So many that the file has a dictionary, the first entry of which lies where there is NULL.
    table.append(rows(*[2] * 40, None, 7, None))
    table.append(rows(None, 3))
    query.run()
    assert query.verify(), str(query.verify())
    table.delete(rows(None, None, 7, *[2] * 39))
    query.run()
    assert query.verify(), str(query.verify())
    found = query.result().collect()
    assert sorted(str(row["m"]) for row in found) == ["{'y': 2}", "{'y': 3}", "{'y': None}"]
    assert all(row["m"] == row["made"] for row in found)


def test_maps_inside_others_whose_numbers_are_null(wh: Warehouse, spark: SparkSession) -> None:
    """As maps that are columns; a struct that is NULL is none of NULLs, and the order of entries is seen."""
    table = wh.add_table(
        "t", schema="k INT, a ARRAY<MAP<STRING, INT>>, r STRUCT<`x y`: MAP<STRING, STRUCT<n: MAP<INT, INT>>>>"
    )
    query = wh.add_query("q", sql="SELECT a, r, array(map('y', k)) AS made FROM t")

    def rows(*keys: int | None) -> DataFrame:
        texts = ", ".join(f"({k or 'NULL'})" for k in keys)
        return spark.sql(
            f"""SELECT k, array(map('y', k)) AS a, named_struct('x y', map('y', struct(map(1, k) AS n))) AS r
            FROM VALUES {texts} AS t(k)"""
        ).coalesce(1)

    def odd(two: str, one: str) -> DataFrame:
        struct = "STRUCT<`x y`: MAP<STRING, STRUCT<n: MAP<INT, INT>>>>"
        return spark.sql(
            f"""SELECT 2 AS k, array(map({two}, {one})) AS a, CAST(NULL AS {struct}) AS r
            UNION ALL SELECT 2, array(map({one}, {two})), named_struct('x y', NULL)"""
        )

    table.append(rows(*[2] * 40, None, 7, None))
    table.append(rows(None, 3))
    table.append(odd("'b', 2", "'a', 1"))
    query.run()
    assert query.verify(), str(query.verify())
    table.delete(rows(None, None, 7, *[2] * 39))
    table.delete(odd("'b', 2", "'a', 1").where("r IS NULL"))
    query.run()
    assert query.verify(), str(query.verify())
    found = query.result().collect()
    assert sorted(str(row["a"]) for row in found) == [
        "[{'a': 1, 'b': 2}]", "[{'y': 2}]", "[{'y': 3}]", "[{'y': None}]",
    ]  # fmt: skip
    assert [row["r"] for row in found if row["a"] == [{"a": 1, "b": 2}]] == [Row(**{"x y": None})]
    assert all(row["r"]["x y"]["y"]["n"] == {1: row["a"][0]["y"]} for row in found if row["r"]["x y"])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s, count(*) AS n FROM t GROUP BY s",
        "SELECT DISTINCT s FROM t",
        "SELECT max(s) AS s FROM t",
        "SELECT struct(s, k) AS u FROM t GROUP BY s, k",
        "SELECT s FROM t INTERSECT SELECT s FROM t",
    ],
)
def test_values_that_a_collation_holds_for_equal(wh: Warehouse, spark: SparkSession, sql: str) -> None:
    """Which of them stands for a group is open, so that a result with another of them is no wrong one; of other groups it is."""
    table = wh.add_table("t", schema="k INT, s STRING COLLATE UTF8_LCASE")
    query = wh.add_query("q", sql=sql)
    for values in ("(1, 'a'), (2, 'B')", "(1, 'A'), (1, 'b'), (3, NULL)", "(1, 'a'), (2, 'b')"):
        table.append(
            spark.sql(f"SELECT k, CAST(s AS STRING COLLATE UTF8_LCASE) AS s FROM VALUES {values} AS t(k, s)").coalesce(
                1
            )
        )
        query.run()
        assert query.verify(), str(query.verify())
    table.delete(spark.sql("SELECT 1 AS k, CAST('a' AS STRING COLLATE UTF8_LCASE) AS s"))
    query.run()
    assert query.verify(), str(query.verify())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT hex(CAST(CAST(X'FF61' AS STRING) || s AS BINARY)) AS h, count(*) AS n FROM t GROUP BY 1",
        "SELECT CAST(max(CAST(X'FF' AS STRING)) AS BINARY) AS m, s FROM t GROUP BY s",
        "SELECT count(*) AS n FROM t WHERE CAST(b AS STRING) = CAST(X'FF' AS STRING)",
        """SELECT s, CAST(c.x AS BINARY) AS x FROM t JOIN VALUES (CAST(X'FE' AS STRING)), (CAST(X'FF' AS STRING)) AS c(x)
           ON c.x = CAST(b AS STRING)""",
        "SELECT CAST(b AS STRING) IN (CAST(X'FE' AS STRING), CAST(X'FD' AS STRING)) AS i, array(CAST(X'FE' AS STRING)) AS a FROM t",
    ],
)
def test_constant_texts_that_are_not_utf8(wh: Warehouse, spark: SparkSession, sql: str) -> None:
    """Python has no text of such bytes; neither are two of them the same."""
    table = wh.add_table("t", schema="s STRING, b BINARY")
    query = wh.add_query("q", sql=sql)
    for rows in ("('a', X'FF'), ('b', X'FE')", "('a', X'EFBFBD'), ('b', X'FF')"):
        table.append(spark.sql(f"SELECT s, b FROM VALUES {rows} AS t(s, b)"))
        query.run(methods="im1")
        assert query.verify(), str(query.verify())


@pytest.mark.parametrize("methods", ["all", "im1", "im2"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(10 / k) AS s FROM t WHERE v / (k - 2) > 0",
        "SELECT x, count(*) AS n FROM (SELECT v / (k - 2) AS x FROM t) WHERE x > 0 GROUP BY x",
        "SELECT x, count(*) AS n FROM (SELECT v / (k - 2) AS x FROM t) GROUP BY x HAVING x > 0",
        "SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.k AND a.v / (a.k - 2) > 0",
        "SELECT k, nth_value(v, 2) OVER (PARTITION BY k ORDER BY v) AS n FROM t WHERE 10 / (k - 2) > 0",
    ],
)
def test_no_condition_fails_for_a_row_that_is_gone(wh: Warehouse, spark: SparkSession, sql: str, methods: str) -> None:
    """Spark moves conditions down to where rows are read, below what takes the deleted ones out."""
    table = wh.add_table("t", schema="k INT, v INT")
    query = wh.add_query("q", sql=sql)

    def rows(values: str) -> DataFrame:
        return spark.sql(f"SELECT k, v FROM VALUES {values} AS t(k, v)")

    table.append(rows("(2, 10), (1, 3)"))
    with pytest.raises(TempuraError, match="DIVIDE_BY_ZERO"):
        query.run(methods=methods)
    for change, values in ((table.delete, "(2, 10)"), (table.append, "(3, 3), (3, 4)"), (table.delete, "(1, 3)")):
        change(rows(values))
        query.run(methods=methods)
        assert query.verify(), str(query.verify())


@pytest.mark.parametrize("methods", ["all", "im1", "ojv"])
def test_no_sub_query_has_two_rows_for_a_row_that_is_gone(wh: Warehouse, spark: SparkSession, methods: str) -> None:
    t, u = wh.add_table("t", schema="k INT"), wh.add_table("u", schema="k INT, w INT")
    query = wh.add_query("q", sql="SELECT k, (SELECT w FROM u WHERE u.k = t.k) AS x FROM t")
    t.append(spark.sql("SELECT k FROM VALUES (1), (2), (3) AS t(k)"))
    u.append(spark.sql("SELECT k, w FROM VALUES (1, 10), (2, 20) AS u(k, w)"))
    for k in (1, 2):
        u.append(spark.sql(f"SELECT {k} AS k, 0 AS w"))
        with pytest.raises(TempuraError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
            query.run(methods=methods)
        t.delete(spark.sql(f"SELECT {k} AS k"))
        query.run(methods=methods)
        assert query.verify(), str(query.verify())


def test_what_is_defined_anew_under_its_name_is_what_a_query_means(wh: Warehouse, spark: SparkSession) -> None:
    """Views, those that they read, and functions, in the session of a process that goes on."""

    def define(n: int) -> None:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW hostile_inner AS SELECT {n} AS n")
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW hostile_outer AS SELECT n FROM hostile_inner")
        spark.range(n, n + 1).toDF("m").createOrReplaceTempView("hostile_frame")
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION hostile_plus(x INT) RETURNS INT RETURN x + {n}")
        spark.udf.register("hostile_times", lambda x: x * n, "int")

    define(1)
    table = wh.add_table("t", schema="k INT")
    table.append(spark.sql("SELECT k FROM VALUES (1), (2) AS t(k)"))
    texts = {
        "view": "SELECT k, n FROM t, Hostile_Outer",
        "frame": "SELECT k, m FROM t JOIN hostile_frame ON k <= m",
        "function": "SELECT hostile_plus(k) AS x FROM t",
        "python": "SELECT hostile_times(k) AS x FROM t",
    }
    queries = [wh.add_query(name, sql=sql) for name, sql in texts.items()]
    for n in (1, 2, 2):
        define(n)
        table.append(spark.sql("SELECT 3 AS k"))
        for query in queries:
            query.run(methods="im1")
            assert sorted(query.result().collect()) == _asked(spark, str(query.sql), table.df()), query.name
            assert query.verify(), query.name


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ("named_struct()", "struct<>"),
        ("array(named_struct('a', named_struct()))", "struct<>"),
        ("TIME'10:00:00'", "time(6)"),
        ("map(1, TIME'10:00:00')", "time(6)"),
    ],
)
def test_results_that_no_file_keeps_are_refused(wh: Warehouse, spark: SparkSession, value: str, type: str) -> None:
    wh.add_table("t", schema="k INT")
    try:
        _ = spark.sql(f"SELECT {value}").schema
    except PySparkException:
        pytest.skip(f"Spark {spark.version} does not know it")
    with pytest.raises(TempuraError, match=rf"UNSUPPORTED_TYPE.*Column x .* values of {re.escape(type)} are"):
        wh.add_query("q", sql=f"SELECT k, {value} AS x FROM t")
    query = wh.add_query("q", sql=f"SELECT k, count({value}) AS n FROM t GROUP BY k")
    wh.table("t").append(spark.sql("SELECT 1 AS k"))
    query.run(methods="im1")
    assert query.verify()


@pytest.mark.parametrize("type", ["STRUCT<>", "TIME(3)", "ARRAY<TIME(6)>"])
def test_columns_that_no_file_keeps_are_refused(wh: Warehouse, type: str) -> None:
    with pytest.raises(TempuraError, match=r"UNSUPPORTED_TYPE|BAD_SCHEMA"):
        wh.add_table("t", schema=f"k INT, x {type}")


def test_a_column_that_is_called_as_what_changes_say(wh: Warehouse, spark: SparkSession, tmp_path: Path) -> None:
    wh.add_table("t", schema="k INT")
    query = wh.add_query("q", sql="SELECT k, 'x' AS _Change FROM t")
    with pytest.raises(TempuraError, match=r"BAD_OUTPUT.*_change"):
        query.output(tmp_path / "out", mode="changes")
    query.output(tmp_path / "out", mode="replace")
    wh.table("t").append(spark.sql("SELECT 1 AS k"))
    query.run()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 1


def _asked(spark: SparkSession, sql: str, t: DataFrame) -> list[Row]:
    t.createOrReplaceTempView("t")
    try:
        return sorted(spark.sql(sql).collect())
    finally:
        spark.catalog.dropTempView("t")


def test_variants_are_rows_of_tables(wh: Warehouse, spark: SparkSession) -> None:
    """Spark stores them as structs, and since 4.1 parts of them in their own types."""
    table = wh.add_table("t", schema="k INT, v VARIANT, n STRUCT<a: ARRAY<VARIANT>>")
    query = wh.add_query("q", sql="SELECT k, CAST(v AS STRING) AS s, CAST(n.a[0] AS STRING) AS a FROM t")

    def rows(*texts: str) -> DataFrame:
        values = ", ".join(f"('{text}')" for text in texts)
        return spark.sql(
            f"""SELECT 1 AS k, parse_json(x) AS v, named_struct('a', array(parse_json(x))) AS n
            FROM VALUES {values} AS t(x)"""
        ).coalesce(1)

    table.append(rows("null", '{"a": 1, "b": [1, 2]}', '{"a": 1, "b": []}'))
    query.run()
    table.append(rows("1", '"x"'))
    query.run()
    assert query.verify(), str(query.verify())
    assert sorted(str(row["s"]) for row in query.result().collect()) == [
        "1", "None", "x", '{"a":1,"b":[1,2]}', '{"a":1,"b":[]}',
    ]  # fmt: skip


def test_results_of_types_without_a_file_format_or_an_order(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("t", schema="k INT, d DATE")
    sql = """SELECT k, make_interval(0, k, 0, 2, k, 0, 1.5) AS i, NULL AS n, map(k, 'x') AS m,
             parse_json('{"a": [1, null]}') AS v, d - DATE'2020-01-01' AS days FROM t WHERE k IS NOT NULL"""
    query = wh.add_query("q", sql=sql)
    for k in (1, -14, 1):
        table.append(spark.sql(f"SELECT {k} AS k, DATE'2024-02-29' AS d"))
        query.run()
        assert query.verify(), str(query.verify())
    found = query.result()
    assert [field.dataType.simpleString() for field in found.schema] == [
        "int", "interval", "void", "map<int,string>", "variant", "interval day",
    ]  # fmt: skip
    assert query.changes().count() == 1


def test_constant_and_empty_queries(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("t", schema="k INT, g STRING")
    queries = [
        wh.add_query(f"q{i}", sql=sql)
        for i, sql in enumerate(
            (
                "SELECT k, g FROM t WHERE 1 = 0",
                "SELECT g, count(*) FROM t WHERE false GROUP BY g",
                "SELECT count(*), max(g) FROM t WHERE false",
                "SELECT k, g FROM t ORDER BY k LIMIT 0",
            )
        )
    ]
    table.append(spark.sql("SELECT 1 AS k, 'a' AS g"))
    for query in queries:
        query.run(methods="im1")
        assert query.verify(), f"{query.sql}: {query.verify()}"


def test_spark_still_reports_errors_of_the_users_session(wh: Warehouse, spark: SparkSession) -> None:
    wh.add_table("t", schema="k INT")
    with pytest.raises(TempuraError):
        wh.add_query("q", sql="SELECT nope FROM t")
    assert type(logging.getLogger("SQLQueryContextLogger")).__name__ == "PySparkLogger"
    with pytest.raises(PySparkException):
        spark.sql("SELECT assert_true(id > 5, 'no') + 1 / 0 FROM range(2)").collect()


def test_messages_are_one_line_and_say_what(wh: Warehouse) -> None:
    for do, code, words in (
        (lambda: wh.add_table("t", schema="a INTT"), "BAD_SCHEMA", "INTT"),
        (lambda: wh.add_query("q", sql="SELEC 1"), "INVALID_SQL", "line 1"),
        (lambda: wh.add_query("q", sql="SELECT abs(1, 2)"), "INVALID_SQL", "abs"),
    ):
        with pytest.raises(TempuraError) as error:
            do()
        assert error.value.code == code
        assert words in str(error.value)
        assert "\n" not in str(error.value)
        assert ":  " not in str(error.value)


def persisted(spark: SparkSession) -> set[int]:
    """The ids of what is kept in the memory of a session."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def test_the_users_session_stays_as_it_is(wh: Warehouse, spark: SparkSession) -> None:
    spark.sql("SELECT 42 AS k").createOrReplaceTempView("t")
    spark.udf.register("twice", lambda k: k and k * 2, "int")
    before = (dict(spark.conf.getAll), spark.catalog.currentDatabase(), [t.name for t in spark.catalog.listTables()])
    # What other tests have evaluated once is there until Spark's cleaner has seen that nobody refers to it any more.
    held = persisted(spark)
    try:
        table = wh.add_table("t", schema="k INT")
        table.append(spark.sql("SELECT 1 AS k UNION ALL SELECT NULL"))
        query = wh.add_query("q", sql="SELECT sum(k) AS k, count(*) FROM t")
        udf = wh.add_query("udf", sql="SELECT twice(k) AS k FROM t")
        for each in (query, udf):
            each.run()
            assert each.verify()
        assert [r["k"] for r in udf.result().collect() if r["k"]] == [2]
        assert spark.sql("SELECT k FROM t").collect()[0]["k"] == 42
        after = (dict(spark.conf.getAll), spark.catalog.currentDatabase(), [t.name for t in spark.catalog.listTables()])
        assert after == before
        assert persisted(spark) <= held
    finally:
        spark.catalog.dropTempView("t")


def test_a_session_that_was_stopped_is_told_whatever_is_asked(
    wh: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = wh.add_table("t", schema="k INT, v INT")
    rows = spark.createDataFrame([(1, 2)], "k INT, v INT")
    table.append(rows)
    query = wh.add_query("q", sql="SELECT k, sum(v) AS v FROM t GROUP BY k")
    query.run()
    # As it is after spark.stop(), but for the sessions of the other tests.
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    asked: list[Callable[[], object]] = [
        table.df, query.result, query.verify, query.plan, query.measure, lambda: query.run(now=True), lambda: table.append(rows),
        lambda: wh.add_query("other", sql="SELECT k FROM t"), lambda: wh.add_table("other", schema="k INT"),
    ]  # fmt: skip
    codes = []
    for ask in asked:
        with pytest.raises(TempuraError) as error:
            ask()
        codes.append(error.value.code)
    assert codes == ["NO_SESSION"] * len(asked)
    assert [str(outcome.error)[:12] for outcome in wh.verify()] == ["[NO_SESSION]"]
    assert query.status()["runs"] == 1, "what needs no Spark is told"


def test_variables_of_the_session_are_refused_by_name(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("t", schema="k INT, a INT")
    table.append(spark.sql("SELECT 1 AS k, 2 AS a"))
    spark.sql("DECLARE OR REPLACE VARIABLE least INT DEFAULT 1")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW reading_least AS SELECT least AS v")
    try:
        for sql in (
            "SELECT k FROM t WHERE a > least",
            "SELECT k FROM t WHERE a > system.session.LEAST",
            "SELECT k FROM t ORDER BY k LIMIT least",
            "SELECT k FROM t, reading_least",
        ):
            with pytest.raises(TempuraError) as error:
                wh.add_query("q", sql=sql)
            assert error.value.code == "RUN_DEPENDENT", sql
            assert "least` is a variable" in error.value.what.replace("LEAST", "least")
            assert "table of one row" in error.value.remedy
        with pytest.raises(TempuraError) as error:
            wh.add_query("q", sql="SELECT k FROM t WHERE a > most")
        assert error.value.code == "UNKNOWN_COLUMN"
        column = wh.add_query("q", sql="SELECT k FROM (SELECT k, a AS least FROM t) WHERE least > 1")
        column.run()
        assert column.result().count() == 1, "a column goes before a variable"
    finally:
        spark.sql("DROP TEMPORARY VARIABLE least")
        spark.catalog.dropTempView("reading_least")


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ("arrays_zip(xs, xs, xs)", ["1", "1", "1"]),
        ("map('m', array(struct(k, k, k + 6 AS k_2), NULL))", ["1", "1", "7"]),
        ("named_struct('a b', k, 'A B', struct(d, d), 'r', k)", ["1", "2", "50", "2", "50", "1"]),
    ],
)
def test_fields_of_one_name_are_named_apart_by_the_cast_that_is_told(
    wh: Warehouse, spark: SparkSession, value: str, numbers: list[str]
) -> None:
    table = wh.add_table("t", schema="k INT, xs ARRAY<INT>, d DECIMAL(9, 2)")
    table.append(spark.sql("SELECT 1 AS k, array(1, NULL) AS xs, 2.5BD AS d"))
    with pytest.raises(TempuraError) as error:
        wh.add_query("q", sql=f"SELECT {value} AS z FROM t")
    assert error.value.code == "FIELDS_ALIKE"
    cast = error.value.remedy.removeprefix("Name them apart: ").removesuffix(".")
    query = wh.add_query("q", sql=f"SELECT {cast.replace('…', value)} AS z FROM t")
    query.run()
    assert query.verify(), str(query.verify())
    assert re.findall(r"\d+", query.result().selectExpr("CAST(z AS STRING)").collect()[0][0]) == numbers


def test_limits_of_columns_that_no_row_is_held_to_are_refused(wh: Warehouse, spark: SparkSession) -> None:
    table = wh.add_table("t", schema="k INT")
    struct = StructType().add("s", ArrayType(StructType().add("c", VarcharType(3))))
    toml = wh.path / "tempura.toml"

    def edited() -> None:
        toml.write_text(toml.read_text().replace('"k INT"', '"k INT NOT NULL"'))
        table.append(spark.sql("SELECT 1 AS k"))

    for act, said in (
        (lambda: wh.add_table("a", schema="k INT NOT NULL, s STRING"), "NOT NULL (k)"),
        (lambda: wh.add_table("a", schema="k INT, s VARCHAR(3), c CHAR(4)"), "VARCHAR(3) (s), CHAR(4) (c)"),
        (lambda: wh.add_table("a", schema="s STRUCT<a: INT NOT NULL, m: MAP<INT, CHAR(2)>>"), "NOT NULL (s.a), CHAR(2) (s.m)"),
        (lambda: wh.add_table("a", schema=struct), "VARCHAR(3) (s.c)"),
        (lambda: wh.alter_table("t", add_columns="b INT NOT NULL"), "NOT NULL (b)"),
        (edited, "NOT NULL (k)"),
    ):  # fmt: skip
        with pytest.raises(TempuraError) as error:
            act()
        assert (error.value.code, said in error.value.what) == ("BAD_SCHEMA", True), str(error.value)
        assert "Write" in error.value.remedy
    # What a DataFrame says of its own rows is no demand, nor is a name or a comment.
    numbers = spark.range(3)
    assert not numbers.schema.fields[0].nullable
    wh.add_table("b", schema=numbers.schema).append(numbers)
    wh.add_table("c", schema="`not null` INT COMMENT 'NOT NULL', `varchar` STRING")
    assert [table.name for table in wh.tables()] == ["t", "b", "c"]
