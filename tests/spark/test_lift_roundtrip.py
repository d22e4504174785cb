"""What `bind` gives back to Spark computes what Spark computes."""

import random
from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import DecimalType, IntegerType, StructField, StructType

from tempura.algebra.scalar import AggregateCall, Call, Column, Expr, Literal, Ref, conjunction, equal
from tempura.errors import TempuraError
from tempura.frontend.catalyst import jvm_of
from tempura.frontend.expressions import bind, bind_aggregate, column
from tempura.frontend.later import made
from tempura.frontend.literals import jvm_type, literal_later, python_value
from tests.spark.lifting import answer, data, lift

QUERIES = [
    "SELECT * FROM sales WHERE cat LIKE 'a/_c' ESCAPE '/' OR qty > 1",
    "SELECT o_id + 1, qty * 2L, price - 1.5, -f, o_id % 2, price / 3, f / 2 FROM sales",
    "SELECT TRY_CAST(cat AS INT), CAST(day AS TIMESTAMP), CAST(price AS STRING), try_divide(o_id, 0), 1.5F + o_id FROM sales",
    "SELECT CASE WHEN o_id > 3 THEN cat WHEN qty IS NULL THEN 'none' END, coalesce(cat, upper('x')), if(f > 0, 1, 2) FROM sales",
    "SELECT o_id IN (1, 3), o_id NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), cat IN ('a', 'b') FROM sales",
    "SELECT date_format(day, 'yyyy/MM'), year(day), date_add(day, 3), day - DATE'2024-01-01', add_months(day, 1) FROM sales",
    "SELECT transform(xs, x -> x + o_id), filter(xs, (x, i) -> i > 0), xs[0], size(xs), exists(xs, x -> x = 6) "
    "FROM sales WHERE size(xs) > 0",
    "SELECT named_struct('a', o_id, 'b', cat), array(o_id, 2), concat(cat, '!', cat), substring(cat, 1, 2) FROM sales",
    "SELECT cat, SUM(price), AVG(price), COUNT(*), COUNT(price), MIN(day), MAX(qty), COUNT(DISTINCT o_id) FROM sales GROUP BY cat",
    "SELECT SUM(price) / COUNT(price) + 1, AVG(qty), SUM(qty) FILTER (WHERE o_id > 2), COUNT(DISTINCT o_id, cat) FROM sales",
    "SELECT f, COUNT(*) AS n FROM sales GROUP BY f HAVING COUNT(*) > 0",
    "SELECT year(day) AS y, o_id % 2, SUM(price) FROM sales GROUP BY year(day), o_id % 2",
    "SELECT s.cat, r.cost FROM sales s JOIN returns r ON s.o_id = r.o_id AND s.price > r.cost",
    "SELECT s.o_id, r.cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id",
    "SELECT s.cat, r.* FROM sales s RIGHT JOIN returns r ON s.o_id = r.o_id",
    "SELECT s.cat, r.* FROM sales s FULL JOIN returns r ON s.o_id = r.o_id",
    "SELECT cat FROM sales WHERE o_id NOT IN (SELECT o_id FROM returns WHERE o_id IS NOT NULL)",
    "SELECT cat FROM sales WHERE o_id NOT IN (SELECT o_id FROM returns)",
    "SELECT o_id FROM sales s WHERE EXISTS (SELECT 1 FROM returns r WHERE r.o_id = s.o_id AND r.cost >= "
    "(SELECT AVG(cost) FROM returns x WHERE x.o_id = r.o_id))",
    "SELECT o_id, o_id IN (SELECT o_id FROM returns), o_id NOT IN (SELECT o_id FROM returns WHERE cost > 1) FROM sales",
    "SELECT cat FROM sales s WHERE price IS NULL OR EXISTS (SELECT 1 FROM returns r WHERE r.o_id = s.o_id AND r.cost < s.price)",
    "SELECT cat, COUNT(*) FROM sales WHERE qty > 3 OR o_id NOT IN (SELECT o_id FROM returns) GROUP BY cat",
    "SELECT s.cat, r.cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id AND (r.cost > 1 OR r.o_id IN (SELECT qty FROM sales))",
    "SELECT cat FROM sales WHERE o_id IN (SELECT o_id FROM returns) OR EXISTS (SELECT 1 FROM returns WHERE cost > 3.5)",
    "SELECT o_id, (SELECT MAX(cost) FROM returns) - price, (SELECT cat FROM sales WHERE o_id = 77) FROM sales",
    "SELECT cat, SUM(IF(price > (SELECT AVG(cost) FROM returns), 1, 0)) * (SELECT COUNT(*) FROM returns) AS x FROM sales "
    "GROUP BY cat HAVING COUNT(*) <= (SELECT MAX(o_id) FROM sales) OR MAX(qty) > (SELECT MIN(qty) FROM sales WHERE 1 = 0)",
    "SELECT COUNT(*) FILTER (WHERE qty > (SELECT MIN(o_id) FROM returns)), (SELECT MAX(cost) FROM returns) FROM sales",
    "SELECT s.o_id, r.cost FROM sales s LEFT JOIN returns r ON s.o_id = r.o_id AND s.price > r.cost + (SELECT MIN(cost) FROM returns)",
    "SELECT s.o_id, r.cost FROM sales s RIGHT JOIN returns r ON s.o_id + r.o_id > (SELECT MAX(o_id) FROM returns)",
    "SELECT s.o_id, r.cost FROM sales s FULL JOIN returns r ON s.o_id = r.o_id AND s.price - r.cost < (SELECT MAX(price) FROM sales)",
    "SELECT o_id FROM sales s WHERE EXISTS (SELECT 1 FROM returns r WHERE r.o_id + s.o_id > (SELECT MAX(o_id) FROM returns))",
    "SELECT (SELECT MAX(o_id) FROM sales WHERE price > (SELECT AVG(cost) FROM returns)) AS m, o_id FROM returns",
    "SELECT CASE WHEN (SELECT COUNT(*) FROM sales) > 3 THEN (SELECT AVG(cost) FROM returns) ELSE (SELECT 1) END",
    "SELECT cat, qty, SUM(price), COUNT(*), GROUPING(cat), GROUPING_ID(cat, qty) FROM sales GROUP BY ROLLUP (cat, qty)",
    "SELECT cat, o_id % 2 AS odd, COUNT(DISTINCT qty), MAX(cat) FROM sales GROUP BY CUBE (cat, o_id % 2) HAVING COUNT(*) > 1",
    "SELECT cat, day, AVG(price) FROM sales GROUP BY GROUPING SETS ((cat, day), (cat), (cat), ())",
    "SELECT o_id FROM sales UNION ALL SELECT o_id + 1 FROM returns UNION ALL SELECT 5",
    "SELECT o_id FROM sales UNION SELECT o_id FROM returns",
    "SELECT o_id FROM sales INTERSECT SELECT o_id FROM returns",
    "SELECT o_id FROM sales EXCEPT SELECT o_id FROM returns",
    "SELECT COUNT(*) FROM sales, returns",
    "SELECT COUNT(*) FROM (SELECT 1 FROM sales UNION ALL SELECT 2 FROM returns)",
    "SELECT r.* FROM sales CROSS JOIN returns r",
    "SELECT * FROM VALUES (1, 'a', 1.5, DATE'2024-01-01'), (2, NULL, 2.5, NULL) AS t(a, b, c, d)",
    "SELECT DISTINCT cat, qty FROM sales",
    "SELECT COUNT(*), SUM(cost) FROM returns WHERE 1 = 0",
    "WITH t AS (SELECT o_id, SUM(cost) AS c FROM returns GROUP BY o_id) SELECT a.o_id, b.c FROM t a JOIN t b ON a.o_id = b.o_id",
]
ORDERED = [
    "SELECT price, cat FROM sales ORDER BY price DESC NULLS LAST, cat",
    "SELECT cat FROM sales ORDER BY qty + 1 DESC, cat NULLS LAST",
    "SELECT cat AS c, o_id FROM sales ORDER BY c, o_id DESC LIMIT 3",
    "SELECT o_id FROM sales ORDER BY abs(o_id - (SELECT MAX(o_id) FROM returns)) DESC NULLS LAST, price LIMIT 3",
    "SELECT o_id FROM sales ORDER BY abs(o_id - (SELECT MAX(o_id) FROM returns)) DESC NULLS LAST, price",
    "SELECT o_id + 1 AS n FROM sales ORDER BY price DESC, o_id LIMIT 4",
    "SELECT * FROM (SELECT o_id, cost FROM returns ORDER BY cost NULLS LAST LIMIT 2) ORDER BY o_id DESC",
]


def _expected(spark: SparkSession, sql: str) -> list[Row]:
    session = spark.newSession()
    for table, df in data(session).items():
        df.createOrReplaceTempView(table)
    return session.sql(sql).collect()


def _bag(rows: list[Row]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


@pytest.mark.parametrize("sql", QUERIES)
def test_the_bag_is_sparks(spark: SparkSession, sql: str) -> None:
    lifted = lift(spark, sql)
    assert not lifted.reasons
    assert _bag(answer(spark, lifted)) == _bag(_expected(spark, sql))


@pytest.mark.parametrize("sql", ORDERED)
def test_the_order_is_sparks(spark: SparkSession, sql: str) -> None:
    assert [tuple(row) for row in answer(spark, lift(spark, sql))] == [tuple(row) for row in _expected(spark, sql)]


# --- constants --------------------------------------------------------------------------------------------------------

CONSTANTS = [
    (True, "boolean"), (-128, "tinyint"), (32767, "smallint"), (-(2**31), "int"), (-(2**63), "bigint"), (7, "bigint"),
    (1.100000023841858, "float"), (float("inf"), "float"), (-0.0, "double"), (1e-300, "double"), (Decimal("-1.50"), "decimal(7,2)"),
    (Decimal(10**38 - 1), "decimal(38,0)"), (Decimal("0E-10"), "decimal(20,10)"), ("it's \\ \n`x` %", "string"), ("", "string"),
    (b"\x00\xff", "binary"), (date(1, 1, 1), "date"), (date(9999, 12, 31), "date"),
    (datetime(1969, 12, 31, 23, 59, 59, 999999), "timestamp"),
    (datetime(2024, 2, 29, 12, 0, 0, 5), "timestamp_ntz"), ("a", "string collate UTF8_LCASE"),
    *((None, type) for type in ("int", "void", "decimal(7,2)", "struct<a:int,b:array<string>>", "interval day to second", "timestamp")),
]  # fmt: skip


@pytest.mark.parametrize(("value", "type"), CONSTANTS, ids=[f"{type} {value!r}" for value, type in CONSTANTS])
def test_a_constant_comes_back(spark: SparkSession, value: object, type: str) -> None:
    expression = made(literal_later(jvm_of(spark), value, type, jvm_type(jvm_of(spark), type)))
    assert expression.dataType().catalogString() == type
    internal = expression.eval(None) if type == "float" else expression.value()
    assert Literal(python_value(internal, type), type) == Literal(value, type)


# --- calls that rules make ---------------------------------------------------------------------------------------------

A, B, C = Column("a", "a", "int"), Column("b", "b", "int"), Column("c", "c", "boolean")


def _call(function: str, *operands: Expr, type: str = "boolean", detail: str = "") -> Call:
    return Call(function, operands, type, detail)


MADE = [
    (conjunction(equal(Ref(A), Ref(B)), _call("Not", Ref(C))), "a = b AND NOT c"),
    (_call("Or", Ref(C), _call("IsNull", Ref(A))), "c OR a IS NULL"),
    (_call("EqualNullSafe", Ref(A), Ref(B)), "a <=> b"),
    (_call("LessThan", Ref(A), Ref(B)), "a < b"),
    (_call("Sqrt", _call("Cast", Ref(A), type="double", detail="legacy"), type="double"), "sqrt(a)"),
    (_call("GreaterThanOrEqual", Ref(A), Literal(2, "int")), "a >= 2"),
    (_call("In", Ref(A), Literal(1, "int"), Ref(B)), "a IN (1, b)"),
    (_call("If", _call("IsNotNull", Ref(A)), Ref(A), Literal(0, "int"), type="int"), "if(a IS NOT NULL, a, 0)"),
    (_call("Coalesce", Ref(A), Ref(B), type="int"), "coalesce(a, b)"),
    (
        _call("Subtract", _call("Add", Ref(A), Ref(B), type="int", detail="ansi"), Literal(1, "int"), type="int"),
        "a + b - 1",
    ),
    (_call("Multiply", Ref(A), Literal(2**31 - 1, "int"), type="int", detail="try"), "try_multiply(a, 2147483647)"),
    (_call("Cast", Ref(A), type="decimal(7,2)", detail="legacy"), "CAST(a AS DECIMAL(7,2))"),
    (Literal(None, "array<int>"), "CAST(NULL AS ARRAY<INT>)"),
]


def test_calls_without_a_handle(spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT * FROM VALUES (1, 1, true), (1, 2, false), (NULL, 2, NULL), (NULL, NULL, true), (3, NULL, false) AS t(a, b, c)"
    )
    got = df.select([column(bind(expr, lambda c: c.id)).alias(f"x{i}") for i, (expr, _) in enumerate(MADE)])
    want = df.selectExpr(*[f"{sql} AS x{i}" for i, (_, sql) in enumerate(MADE)])
    assert [f.dataType for f in got.schema] == [f.dataType for f in want.schema]
    assert _bag(got.collect()) == _bag(want.collect())


def test_an_unknown_call_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TempuraError) as error:
        bind(_call("Cbrt", Ref(A)), lambda c: c.id)
    assert error.value.code == "NOT_EXECUTABLE"


def test_one_aggregate_with_two_filters(spark: SparkSession) -> None:
    """A rule may use a lifted aggregate twice: each use has an identity of its own."""
    lifted = lift(spark, "SELECT SUM(cost) AS s FROM returns").rel
    call: AggregateCall = lifted.aggregates[0].call  # type: ignore[attr-defined]
    cost = call.operands[0]
    small = _call("LessThan", cost, Literal(Decimal("2.00"), "decimal(7,2)"))
    calls = [call, AggregateCall(call.function, call.operands, call.type, False, small, call.detail, call.handle)]
    df = data(spark)["returns"]
    row = df.agg(*[column(bind_aggregate(c, lambda c: c.name)).alias(f"x{i}") for i, c in enumerate(calls)]).first()
    assert row == (Decimal("9.50"), Decimal("2.50"))


# --- aggregates from their states -------------------------------------------------------------------------------------

TYPES = [(3, 0), (5, 2), (7, 2), (8, 8), (9, 3), (11, 0), (11, 4), (11, 11), (12, 2), (18, 6), (28, 9), (36, 12)]


@pytest.fixture(scope="module")
def decimals(spark: SparkSession) -> DataFrame:
    """Groups of 0 to 6 random decimals (one in six NULL) of each type, full of rounding cases."""
    source = random.Random(20241120)
    fields = [StructField("g", IntegerType())] + [StructField(f"d{p}_{s}", DecimalType(p, s)) for p, s in TYPES]
    rows = [(g, *(_decimal(source, p, s) for p, s in TYPES)) for g in range(400) for _ in range(source.randint(1, 6))]
    return spark.createDataFrame(rows, StructType(fields))


def _decimal(source: random.Random, precision: int, scale: int) -> Decimal | None:
    if source.random() < 1 / 6:
        return None
    digits = source.randint(1, min(precision, 28))  # no average overflows: a test of its own sees to that
    return Decimal(source.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale)


@pytest.mark.parametrize("mode", ["ansi", "legacy", "try"])
@pytest.mark.parametrize("function", ["avg", "sum"])
def test_decimals_from_states_are_sparks(spark: SparkSession, decimals: DataFrame, function: str, mode: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", str(mode == "ansi").lower())
    try:
        prefix = "try_" if mode == "try" else ""
        sparks = [f"{prefix}{function}(d{p}_{s}) AS want{p}_{s}" for p, s in TYPES]
        totals = [f"coalesce(SUM(CAST(d{p}_{s} AS DECIMAL(38,{s}))), 0) AS total{p}_{s}" for p, s in TYPES]
        counts = [f"COUNT(d{p}_{s}) AS count{p}_{s}" for p, s in TYPES]
        decimals.createOrReplaceTempView("tempura_decimals")
        states = spark.sql(
            f"SELECT {', '.join(sparks + totals + counts)} FROM tempura_decimals GROUP BY g"
        ).localCheckpoint()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    for p, s in TYPES:
        want, total = (
            states.schema[f"want{p}_{s}"].dataType.simpleString(),
            Column("t", f"total{p}_{s}", f"decimal(38,{s})"),
        )
        operands = (Ref(total), Ref(Column("n", f"count{p}_{s}", "bigint")))
        call = Call("AverageOf" if function == "avg" else "SumOf", operands, want, f"decimal({p},{s});{mode}")
        pairs = states.select(column(bind(call, lambda c: c.name)).alias("got"), f"want{p}_{s}")
        assert pairs.schema["got"].dataType.simpleString() == want
        rows = pairs.collect()
        assert [row for row in rows if row[0] != row[1]] == []
        assert any(row[0] is not None for row in rows)


def test_an_average_that_overflows(spark: SparkSession) -> None:
    total, count = Column("t", "t", "decimal(38,12)"), Column("n", "n", "bigint")
    df = spark.sql("SELECT CAST(repeat('9', 24) AS DECIMAL(38,12)) AS t, 1L AS n")
    for mode in ("legacy", "try", "ansi"):
        call = Call("AverageOf", (Ref(total), Ref(count)), "decimal(38,16)", f"decimal(36,12);{mode}")
        average = df.select(column(bind(call, lambda c: c.name)))
        if mode == "ansi":
            with pytest.raises(PySparkException, match="OUT_OF_RANGE"):
                average.collect()
        else:
            assert average.first() == (None,)


def _integers(spark: SparkSession, values: list[int | None], mode: str, function: str) -> object:
    type = "double" if function == "AverageOf" else "bigint"
    total, count = Column("t", "t", "decimal(38,0)"), Column("n", "n", "bigint")
    call = Call(function, (Ref(total), Ref(count)), type, f"bigint;{mode}")
    rows = ", ".join("(CAST(NULL AS BIGINT))" if v is None else f"({v}L)" for v in values)
    df = spark.sql(f"SELECT coalesce(SUM(CAST(v AS DECIMAL(38,0))), 0) AS t, COUNT(v) AS n FROM VALUES {rows} AS x(v)")
    row = df.select(column(bind(call, lambda c: c.name))).first()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("mode", ["ansi", "legacy", "try"])
def test_integers_from_states(spark: SparkSession, mode: str) -> None:
    assert _integers(spark, [1, 2, None, 4], mode, "SumOf") == 7
    assert _integers(spark, [None], mode, "SumOf") is None
    assert _integers(spark, [1, 2, None, 4], mode, "AverageOf") == 7 / 3
    assert _integers(spark, [None], mode, "AverageOf") is None


def test_a_sum_of_bigints_overflows_as_sparks_does(spark: SparkSession) -> None:
    values: list[int | None] = [2**63 - 1, 2]
    assert _integers(spark, values, "legacy", "SumOf") == -(2**63) + 1
    assert _integers(spark, values, "try", "SumOf") is None
    with pytest.raises(PySparkException, match="OVERFLOW"):
        _integers(spark, values, "ansi", "SumOf")
