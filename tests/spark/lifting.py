"""The small tables that the tests of the front end share."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from tempura.frontend.lift import Lifted, lift_sql
from tests.spark.naive import name_of, run, sort_key

_COLUMNS = {
    "sales": "o_id INT, cat STRING, price DECIMAL(7,2), day DATE, qty BIGINT, f DOUBLE, xs ARRAY<INT>",
    "returns": "o_id INT, cost DECIMAL(7,2)",
    "odd": "id INT, m MAP<STRING,INT>, v VARIANT, `s t` STRUCT<`a b`: INT>, c STRING COLLATE UTF8_LCASE",
}


def schemas() -> dict[str, StructType]:
    """The tables' schemas (their parser needs a running session)."""
    parsed = {table: StructType.fromDDL(columns) for table, columns in _COLUMNS.items()}
    return {table: schema for table, schema in parsed.items() if isinstance(schema, StructType)}


_SALES = """VALUES
  (1, 'a', 10.00, DATE'2024-01-01', 1L, 1.5D, array(1, 2)), (2, 'b', 20.50, DATE'2024-02-01', 2L, -0.0D, array()),
  (2, 'b', 20.50, DATE'2024-02-01', 2L, -0.0D, array()), (3, 'a_c', NULL, NULL, NULL, NULL, NULL),
  (NULL, NULL, 7.25, DATE'2023-12-31', 9L, double('NaN'), array(NULL, 5)), (5, 'abc', -3.10, DATE'2024-03-05', 4L, 0.0D, array(7)),
  (6, 'A', 99.99, DATE'2024-03-05', -4L, 2.5D, array(6, 6))"""
_RETURNS = "VALUES (1, 1.00), (1, 1.00), (2, 0.50), (NULL, 4.00), (7, 3.00), (6, NULL)"


def data(session: SparkSession) -> Mapping[str, DataFrame]:
    sources = {"sales": _SALES, "returns": _RETURNS}
    declared = schemas()
    rows = {t: session.sql(f"SELECT * FROM {text}") for t, text in sources.items()}
    return {t: df.toDF(*declared[t].names).to(declared[t]) for t, df in rows.items()}


def lift(session: SparkSession, sql: str) -> Lifted:
    return lift_sql(session, sql, schemas())


def tree(session: SparkSession, sql: str) -> str:
    lifted = lift(session, sql)
    assert not lifted.reasons
    return str(lifted.rel)


def answer(session: SparkSession, lifted: Lifted) -> list[Row]:
    """The result of a lifted query over :func:`data`, in its order, through ``bind``."""
    df = run(session, lifted.rel, data(session))
    if lifted.order:
        df = df.orderBy(*[sort_key(key) for key in lifted.order])
    visible = [name_of(c) for c in lifted.rel.columns[: lifted.visible]]
    return df.select(["`" + name.replace("`", "``") + "`" for name in visible]).collect()
