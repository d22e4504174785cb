"""Expressions that differ in one detail are lifted to different trees; the same expression to equal ones."""

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.rel import Aggregate, Project
from tempura.algebra.scalar import AggregateCall, Column, Expr, Ref
from tests.spark.lifting import lift

IN_11 = ", ".join(str(i) for i in range(1, 12))
IN_12 = ", ".join(str(i) for i in range(2, 13))

PAIRS = [
    ("CAST(cat AS INT)", "TRY_CAST(cat AS INT)"),
    ("o_id + 1", "try_add(o_id, 1)"),
    ("qty * 2", "try_multiply(qty, 2)"),
    ("SUM(qty)", "try_sum(qty)"),
    ("AVG(price)", "try_avg(price)"),
    ("SUM(qty)", "SUM(DISTINCT qty)"),
    ("SUM(qty)", "SUM(qty) FILTER (WHERE o_id > 1)"),
    (f"o_id IN ({IN_11})", f"o_id IN ({IN_12})"),
    ("cat LIKE 'a/%_b'", "cat LIKE 'a/%_b' ESCAPE '/'"),
    ("date_format(day, 'yyyy')", "date_format(day, 'MM')"),
    ("to_date(cat, 'yyyy')", "to_date(cat, 'yyyy-MM')"),
    ("trunc(day, 'month')", "trunc(day, 'year')"),
    ("named_struct('a', o_id, 'b', qty + 1).a", "named_struct('a', qty, 'b', qty + 1).a"),
    ("xs[0]", "xs[1]"),
    ("get(xs, 0)", "xs[0]"),
    ("transform(xs, x -> x + 1)", "transform(xs, x -> x + 2)"),
    ("transform(xs, (x, i) -> x)", "transform(xs, (x, i) -> i)"),
    ("regexp_extract(cat, '(a)(b)', 1)", "regexp_extract(cat, '(a)(b)', 2)"),
    ("round(price, 1)", "bround(price, 1)"),
    ("percentile(qty, 0.5)", "percentile(qty, 0.25)"),
    ("0.0D + f", "-0.0D + f"),
    ("CAST(cat AS DECIMAL(7,2))", "CAST(cat AS DECIMAL(7,3))"),
    ("INTERVAL '1' DAY", "INTERVAL '2' DAY"),
    ("array(1, 2)", "array(1, 3)"),
    ("cat COLLATE UTF8_LCASE = 'a'", "cat COLLATE UNICODE = 'a'"),
]


AGGREGATES = [pair for pair in PAIRS if pair[0].startswith(("SUM", "AVG", "percentile"))]
SCALARS = [pair for pair in PAIRS if pair not in AGGREGATES]


def _values(spark: SparkSession, pairs: list[tuple[str, str]]) -> list[object]:
    """What the expressions of all pairs, in order, are lifted to."""
    expressions = [expression for pair in pairs for expression in pair]
    lifted = lift(spark, f"SELECT {', '.join(f'{e} AS x{i}' for i, e in enumerate(expressions))} FROM sales")
    assert not lifted.reasons
    made: dict[Column, Expr | AggregateCall] = {}
    for rel in lifted.rel.walk():
        if isinstance(rel, Aggregate):
            made |= {a.column: a.call for a in rel.aggregates}
        if isinstance(rel, Project):
            made |= {o.column: o.expr for o in rel.outputs if o.expr != Ref(o.column)}
    return [_origin(Ref(column), made) for column in lifted.rel.columns]


def _origin(value: object, made: dict[Column, Expr | AggregateCall]) -> object:
    """The expression that makes a column, through projections that only rename."""
    while isinstance(value, Ref) and value.column in made:
        value = made[value.column]
    return value


@pytest.mark.parametrize("pairs", [SCALARS, AGGREGATES], ids=["scalars", "aggregates"])
def test_pairs_differ_and_a_second_lift_is_equal(spark: SparkSession, pairs: list[tuple[str, str]]) -> None:
    values = _values(spark, pairs)
    same = [pair for pair, one, other in zip(pairs, values[::2], values[1::2], strict=True) if one == other]
    assert same == []
    again = _values(spark, pairs)
    assert again == values
    assert [hash(value) for value in again] == [hash(value) for value in values]


def _rel(spark: SparkSession, expression: str) -> object:
    return lift(spark, f"SELECT {expression} AS x FROM sales").rel


def test_equal_aggregates_are_one(spark: SparkSession) -> None:
    text = str(lift(spark, "SELECT SUM(qty) + 1 AS a, SUM(qty) + 2 AS b, COUNT(1) AS c, COUNT(*) AS d FROM sales").rel)
    assert text.count("Sum(") == 1
    assert text.count("Count(") == 1


def test_the_evaluation_mode_is_the_sessions(spark: SparkSession) -> None:
    sql = "SELECT SUM(qty) AS s, CAST(MAX(cat) AS INT) AS c, MAX(qty + 1) AS m FROM sales"
    texts = {}
    for ansi in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            texts[ansi] = lift(spark, sql).rel
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")
    assert texts["true"] != texts["false"]
    assert "; legacy" in str(texts["false"])
    assert "ansi" not in str(texts["false"])


def test_the_time_zone_counts_where_it_matters(spark: SparkSession) -> None:
    def rel(expression: str, zone: str) -> object:
        before = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            return _rel(spark, expression)
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(before))

    assert rel("CAST(day AS TIMESTAMP)", "UTC") != rel("CAST(day AS TIMESTAMP)", "Asia/Tokyo")
    assert rel("CAST(qty AS STRING)", "UTC") == rel("CAST(qty AS STRING)", "Asia/Tokyo")
