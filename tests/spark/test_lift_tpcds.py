"""All 99 TPC-DS queries are lifted whole."""

from collections import Counter
from importlib import resources
from time import process_time

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tempura.algebra.rel import Opaque, scans
from tempura.frontend.lift import Lifted, lift_sql
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem, TableFacts

TABLES, QUERIES = (
    "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal",
    "SELECT query FROM tpcds_queries()",
)


PLANNING_SECONDS = 15
"""No query takes longer to plan. The largest, q4 with its six sums of sales joined, takes about two."""

PLANNED = (3, 4, 5, 16, 51, 69, 72, 97)
"""The largest query and one of each kind: stars, unions, distinct values, windows, existence joins, many joins, full outer joins."""


def _texts() -> tuple[dict[str, str], list[str]]:
    """The tables' columns as DDL, and the query texts, from an empty database."""
    package = (
        resources.files("duckdb_extension_tpcds") / "extensions" / f"v{duckdb.__version__}" / "tpcds.duckdb_extension"
    )
    with resources.as_file(package) as file, duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.load_extension(str(file))
        connection.execute("CALL dsdgen(sf = 0)")
        columns: dict[str, list[str]] = {}
        for table, column, type in connection.execute(TABLES).fetchall():
            columns.setdefault(table, []).append(f"`{column}` {'STRING' if type == 'VARCHAR' else type}")
        queries = [text for (text,) in connection.execute(QUERIES).fetchall()]
    return {table: ", ".join(ddl) for table, ddl in columns.items()}, queries


def _schema(ddl: str) -> StructType:
    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    return parsed


def all_lifted(spark: SparkSession) -> list[Lifted]:
    ddl, queries = _texts()
    assert len(queries) == 99
    tables = {table: _schema(columns) for table, columns in ddl.items()}
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        return [lift_sql(spark, text, tables) for text in queries]
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


@pytest.mark.slow
def test_every_query_is_lifted(spark: SparkSession) -> None:
    lifted = all_lifted(spark)
    histogram = Counter(query.reasons[0].code if query.reasons else "lifted" for query in lifted)
    print(f"TPC-DS: {dict(histogram.most_common())}")
    assert histogram == {"lifted": 99}
    assert not any(isinstance(r, Opaque) for query in lifted for r in query.rel.walk())
    assert max(seconds_to_plan(lifted[number - 1]) for number in PLANNED) < PLANNING_SECONDS


@pytest.mark.full
def test_every_query_is_planned(spark: SparkSession) -> None:
    assert max(map(seconds_to_plan, all_lifted(spark))) < PLANNING_SECONDS


def seconds_to_plan(lifted: Lifted) -> float:
    """CPU seconds to plan two results, all tables growing and losing rows: the widest space of plans."""
    facts = {scan.table: TableFacts((20_000, 30_000), (0, 1_000), 1) for scan in scans(lifted.rel)}
    started = process_time()
    plan = make_plan(Problem(lifted.rel, (Point(1.0, True), Point(1.0, True)), facts), ("im1",))
    assert [step.emit is not None for step in plan.steps] == [True, True]
    return process_time() - started
