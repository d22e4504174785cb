"""Only tables that a query's text names become leaves; names are found as Spark finds them."""

from collections.abc import Iterator, Mapping

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tempura.algebra.rel import scans
from tempura.errors import TempuraError
from tempura.frontend.lift import lift_sql
from tempura.frontend.marker import view_tables
from tempura.frontend.session import clone

DDL = "id INT, v INT"
NAMES = ("a", "b", "c", "Mixed", "day")

NAMED = {
    "SELECT id FROM a": "a",
    "SELECT id FROM A JOIN `B` USING (id)": "a b",
    "SELECT id FROM mIXED": "Mixed",
    "SELECT (SELECT max(v) FROM b) AS m FROM a WHERE EXISTS (SELECT 1 FROM c WHERE c.id = a.id)": "a b c",
    "SELECT id FROM a WHERE v IN (SELECT v FROM (SELECT v FROM b WHERE v > (SELECT min(v) FROM c)))": "a b c",
    "WITH b AS (SELECT id FROM a) SELECT * FROM b": "a",
    "WITH a AS (SELECT id FROM a) SELECT * FROM a": "a",
    "WITH c AS (SELECT 1 AS id) SELECT * FROM (WITH b AS (SELECT * FROM c) SELECT * FROM b) x": "",
    "SELECT * FROM (WITH b AS (SELECT 1 AS id) SELECT * FROM b) x JOIN b USING (id)": "b",
    "WITH c AS (SELECT 1 AS id) SELECT id FROM a WHERE id IN (SELECT id FROM c)": "a",
    "WITH RECURSIVE b(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM b WHERE n < 3) SELECT n FROM b, a": "a",
    "FROM a |> WHERE v > 1 |> SELECT id": "a",
    "TABLE b": "b",
    "SELECT id FROM a UNION ALL (SELECT id FROM b MINUS SELECT id FROM c)": "a b c",
    "SELECT id FROM a LATERAL VIEW explode(array(v)) b AS c": "a",
    "SELECT a.id FROM a, LATERAL (SELECT v FROM b WHERE b.id = a.id) x": "a b",
    "SELECT day FROM (SELECT 1 AS day)": "",
    "SELECT id FROM over_b": "b",
    "SELECT id FROM over_over_b JOIN a USING (id)": "a b",
    "SELECT id FROM global_temp.over_c": "c",
}
HIDDEN = {
    "SELECT id FROM IDENTIFIER(lower('B'))": "b",
    "SELECT biggest() AS m FROM a": "a c",
}
UNKNOWN = (
    "SELECT * FROM nope",
    "SELECT * FROM `a `",
    "WITH x AS (SELECT id FROM y), y AS (SELECT 1 AS id) SELECT id FROM a JOIN x USING (id)",
)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    own = clone(spark)
    for name in NAMES:
        own.sql("SELECT 42 AS id, 42 AS v").createOrReplaceTempView(name)  # not those of the warehouse
    own.sql("CREATE TEMPORARY VIEW over_b AS SELECT * FROM b")
    own.sql("CREATE TEMPORARY VIEW over_over_b AS SELECT * FROM Over_B WHERE v > 0")
    own.sql("CREATE OR REPLACE GLOBAL TEMPORARY VIEW over_c AS SELECT * FROM c")
    own.sql("CREATE TEMPORARY FUNCTION biggest() RETURNS INT RETURN SELECT max(v) FROM c")
    yield own
    own.sql("DROP VIEW global_temp.over_c")


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tables that became leaves."""
    made: set[str] = set()

    def noted(session: SparkSession, tables: Mapping[str, StructType]) -> None:
        made.update(tables)
        view_tables(session, tables)

    monkeypatch.setattr("tempura.frontend.lift.view_tables", noted)
    return made


@pytest.mark.parametrize("sql", NAMED)
def test_only_named_tables_become_leaves(session: SparkSession, leaves: set[str], sql: str) -> None:
    wanted = set(NAMED[sql].split())
    lifted = lift_sql(session, sql, _tables())
    assert {scan.table for scan in scans(lifted.rel)} == wanted
    assert leaves == wanted


@pytest.mark.parametrize("sql", HIDDEN)
def test_where_a_name_may_be_hidden_all_tables_become_leaves(session: SparkSession, leaves: set[str], sql: str) -> None:
    lifted = lift_sql(session, sql, _tables())
    assert {scan.table for scan in scans(lifted.rel)} == set(HIDDEN[sql].split())
    assert leaves == set(NAMES)


@pytest.mark.parametrize("sql", UNKNOWN)
def test_other_names_stay_unknown(session: SparkSession, sql: str) -> None:
    with pytest.raises(TempuraError, match="UNKNOWN_TABLE"):
        lift_sql(session, sql, _tables())


def test_names_of_two_cases(session: SparkSession, leaves: set[str]) -> None:
    exact = clone(session)
    exact.conf.set("spark.sql.caseSensitive", "true")
    tables = {**_tables(), "A": _table()}
    lift_sql(exact, "SELECT id FROM A", tables)
    assert leaves == {"A"}
    with pytest.raises(TempuraError, match="UNKNOWN_TABLE"):
        lift_sql(exact, "SELECT id FROM MIXED", tables)


def _table() -> StructType:
    schema = StructType.fromDDL(DDL)
    assert isinstance(schema, StructType)
    return schema


def _tables() -> dict[str, StructType]:
    return {name: _table() for name in NAMES}
