"""The interpreter agrees with Spark, value for value and type for type: it is the oracle of everything else."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import product
from math import inf, nan
from random import Random

import pytest
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.evaluate_scalar import evaluate as value_of
from tempura.algebra.rel import Aggregate, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Literal, Output, Ref
from tempura.errors import TempuraError

DOMAINS: dict[str, list[object]] = {
    "boolean": [None, True, False],
    "tinyint": [None, 0, 1, -128, 127],
    "int": [None, 0, 1, -3, 2**31 - 1, -(2**31)],
    "bigint": [None, 0, 7, -1, 2**63 - 1, -(2**63)],
    "decimal(5,2)": [None, Decimal("0.00"), Decimal("1.50"), Decimal("-0.07"), Decimal("999.99"), Decimal("-999.99")],
    "decimal(20,10)": [
        None,
        Decimal("0E-10"),
        Decimal("1E-10"),
        Decimal("9999999999.9999999999"),
        Decimal("-3.0000000000"),
    ],
    "decimal(38,18)": [
        None,
        Decimal("1E-18"),
        Decimal("99999999999999999999.500000000000000000"),
        Decimal("-7.000000000000000000"),
    ],
    "double": [None, 0.0, -0.0, 1.5, -2.25, 1e300, 0.1, 12345678.125, inf, -inf, nan],
    "float": [None, 0.0, 1.5, -2.25, 3.0000000054977558e38, 16777216.0, inf, nan],
    "string": [None, "", " 42 ", "-1.5", "1e2", "x", "A", "a", "true", "No", "1_0", "9999999999", "+7", "."],
    "date": [None, date(2024, 2, 29), date(1969, 12, 31)],
}
COMPARISONS = {
    "=": "EqualTo", "<=>": "EqualNullSafe", "<": "LessThan", "<=": "LessThanOrEqual", ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
}  # fmt: skip
ARITHMETIC = {"+": "Add", "-": "Subtract", "*": "Multiply"}
CAST_TARGETS = ["boolean", "tinyint", "int", "bigint", "decimal(5,2)", "decimal(20,10)", "double", "float", "string"]
A, B = "a", "b"


@pytest.fixture(scope="module")
def lenient(spark: SparkSession) -> SparkSession:
    """A session without ANSI mode, where overflow is a value and can be compared."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    return session


def table(session: SparkSession, type: str) -> tuple[DataFrame, list[Row]]:
    """All pairs of values of a type."""
    rows = list(product(DOMAINS[type], repeat=2))
    return session.createDataFrame(rows, f"a {type}, b {type}"), rows


def column_types(frame: DataFrame) -> list[str]:
    return [f.dataType.simpleString() for f in frame.schema.fields]


def assert_agree(frame: DataFrame, sql: list[str], calls: list[Call], rows: list[Row], type: str) -> None:
    """Each SQL text gives in Spark what its call gives in the interpreter, on every row."""
    columns = (Column(A, A, type), Column(B, B, type))
    answer = frame.selectExpr("a", "b", *(f"{text} AS x{i}" for i, text in enumerate(sql)))
    for row, result in zip(rows, answer.collect(), strict=True):
        env = dict(zip(columns, row, strict=True))
        for text, call, expected in zip(sql, calls, result[2:], strict=True):
            actual = value_of(call, env)
            assert SignedBag.of([(actual,)]) == SignedBag.of([(expected,)]), (text, type, row, actual, expected)


def operands(type: str, count: int = 2) -> tuple[Expr, ...]:
    return (Ref(Column(A, A, type)), Ref(Column(B, B, type)))[:count]


@pytest.mark.parametrize("type", DOMAINS)
def test_comparisons(lenient: SparkSession, type: str) -> None:
    frame, rows = table(lenient, type)
    sql = [f"a {operator} b" for operator in COMPARISONS] + ["a IS NULL", "a IN (b, NULL)", "coalesce(a, b) = b"]
    calls = [Call(function, operands(type), "boolean") for function in COMPARISONS.values()]
    calls.append(Call("IsNull", operands(type, 1), "boolean"))
    calls.append(Call("In", (*operands(type), Literal(None, type)), "boolean"))
    calls.append(Call("EqualTo", (Call("Coalesce", operands(type), type), operands(type)[1]), "boolean"))
    assert_agree(frame, sql, calls, rows, type)


@pytest.mark.parametrize("type", [t for t in DOMAINS if t not in ("boolean", "string", "date")])
def test_arithmetic(lenient: SparkSession, type: str) -> None:
    frame, rows = table(lenient, type)
    operators = dict(ARITHMETIC)
    if "int" not in type:
        operators["/"] = "Divide"
    if type == "float":
        del operators["/"]  # Spark divides floats as doubles, after a cast
    sql = [f"a {operator} b" for operator in operators] + ["-a"]
    types = column_types(frame.selectExpr(*sql))
    calls = [Call(f, operands(type), t, "LEGACY") for f, t in zip(operators.values(), types, strict=False)]
    assert_agree(frame, sql, [*calls, Call("UnaryMinus", operands(type, 1), type, "LEGACY")], rows, type)


@pytest.mark.parametrize("type", DOMAINS)
def test_casts(lenient: SparkSession, type: str) -> None:
    frame, rows = table(lenient, type)
    verbs = [
        (v, m, t) for v, m in (("CAST", "LEGACY"), ("TRY_CAST", "TRY")) for t in CAST_TARGETS if _interpreted(type, t)
    ]
    sql = [f"{verb}(a AS {target})" for verb, _, target in verbs]
    assert_agree(frame, sql, [Call("Cast", operands(type, 1), t, mode) for _, mode, t in verbs], rows, type)


def _interpreted(source: str, target: str) -> bool:
    """Whether the interpreter claims to know a cast."""
    try:
        value_of(
            Call("Cast", (Ref(Column(A, A, source)),), target, "LEGACY"), {Column(A, A, source): DOMAINS[source][1]}
        )
    except TempuraError:
        return False
    return True


AGGREGATES = {
    "count(*)": ("Count", 0, False),
    "count(a)": ("Count", 1, False),
    "count(DISTINCT a)": ("Count", 1, True),
    "min(a)": ("Min", 1, False),
    "max(a)": ("Max", 1, False),
    "sum(a)": ("Sum", 1, False),
    "avg(a)": ("Average", 1, False),
    "sum(DISTINCT a)": ("Sum", 1, True),
    "avg(DISTINCT a)": ("Average", 1, True),
}
VALUES: dict[str, list[object]] = {
    "int": [None, 0, 1, 7, -3, 2**31 - 1],
    "bigint": [None, 0, 1, -7, 2**40],
    "decimal(5,2)": [None, Decimal("0.01"), Decimal("-999.99"), Decimal("3.33")],
    "decimal(11,5)": [None, Decimal("0.00001"), Decimal("999999.99999"), Decimal("123456.78901")],
    "decimal(12,5)": [None, Decimal("0.00001"), Decimal("9999999.99999"), Decimal("123456.78901")],
    "decimal(38,10)": [None, Decimal("0.0000000001"), Decimal("9999999999999999.3333333333")],
    "double": [None, 0.0, -0.0, 0.5, -1024.25, nan],
    "string": [None, "", "a", "A", "é"],
}


def groups(type: str) -> Iterator[Row]:
    """Rows of 40 groups of different sizes; group -1 is NULL, group 0 has only NULLs."""
    rng = Random(type)
    for group in range(-1, 40):
        for _ in range(rng.choice((1, 2, 3, 7, 32, 96, 160))):
            yield (None if group < 0 else group, None if group == 0 else rng.choice(VALUES[type]))


@pytest.mark.parametrize("type", VALUES)
def test_aggregates(lenient: SparkSession, type: str) -> None:
    k, a = Column("k", "k", "int"), Column(A, A, type)
    sql = [text for text in AGGREGATES if type != "string" or not text.startswith(("sum", "avg"))]
    rows = list(groups(type))
    frame = lenient.createDataFrame(rows, f"k int, a {type}").groupBy("k").agg(*map(_named, sql))
    outputs = tuple(
        AggregateOutput(Column(text, text, out), _aggregate(text, a, out))
        for text, out in zip(sql, column_types(frame)[1:], strict=True)
    )
    rel = Aggregate(Scan("T", ("k", A), (k, a)), (Output(k, Ref(k)),), outputs)
    assert evaluate(rel, lambda _: SignedBag.of(rows)) == SignedBag.of(map(tuple, frame.collect()))


def _named(text: str) -> SparkColumn:
    return expr(text).alias(text)


def _aggregate(text: str, argument: Column, type: str) -> AggregateCall:
    function, count, distinct = AGGREGATES[text]
    return AggregateCall(function, (Ref(argument),)[:count], type, distinct, None, "LEGACY")


def test_average_of_short_decimals(lenient: SparkSession) -> None:
    numbers = [Decimal("549187.39617")] * 123 + [Decimal("549187.39618")] * 37
    for type, expected in (("decimal(11,5)", "549187.396172312"), ("decimal(12,5)", "549187.396172313")):
        frame = lenient.createDataFrame([(n,) for n in numbers], f"a {type}")
        assert str(frame.selectExpr("avg(a)").collect()[0][0]) == expected
