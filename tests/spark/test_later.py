"""Objects of the JVM that are made together, in one call: as by a call for each."""

import math
from decimal import Decimal

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import NumberFormatException, ParseException
from pyspark.sql import SparkSession

from tempura.frontend.catalyst import jvm_of
from tempura.frontend.later import Later, call, made, seq, static
from tempura.frontend.literals import type_later

VALUES = [
    True,
    0,
    -1,
    2**31 - 1,
    2**31,
    -(2**31),
    -(2**31) - 1,
    2**63 - 1,
    0.1,
    -0.0,
    1e300,
    math.inf,
    -math.inf,
    Decimal("1.50"),
    Decimal("-1E+3"),
    "",
    "'text' #0 @o1 [2 -",
    "a\0b\1c\0\1\0011\x010",
    "zwei\nZeilen, \U0001f600 \\n",
    b"\x00\x01\xff",
]


def number(value: int) -> Later:
    return static("java.math.BigInteger", "valueOf", value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_to_java_what_py4j_makes_of_it(spark: SparkSession, value: object) -> None:
    by_itself, together = (
        jvm_of(spark).static("java.util.List", "of")(value),
        made(static("java.util.List", "of", value)),
    )
    assert together.get(0) == value
    assert together.toArray()[0] == by_itself.toArray()[0]
    kinds = [made(static("java.lang.reflect.Array", "get", of.toArray(), 0).getClass()) for of in (by_itself, together)]
    assert kinds[0].getName() == kinds[1].getName()


def test_not_a_number_and_nothing(spark: SparkSession) -> None:
    found = made(seq(math.nan, None, [1, [2, None]]))
    assert math.isnan(found.apply(0))
    assert found.apply(1) is None
    assert found.apply(2).toString() == "[1, [2, null]]"


def test_what_gives_no_object_is_asked_once(spark: SparkSession) -> None:
    """A text, a number and nothing are Python's, and may be given to others."""
    clock = static("java.lang.System", "nanoTime")
    assert made(clock) == made(clock)
    nothing, text = static("java.lang.System", "getProperty", "tempura.none"), static("java.lang.String", "valueOf", 7)
    assert (made(nothing), made(text)) == (None, "7")
    assert made(seq(clock, nothing, text)).mkString(" ") == f"{made(clock)} null 7"


def test_what_is_needed_twice_is_made_once(spark: SparkSession) -> None:
    id = static("org.apache.spark.sql.catalyst.expressions.NamedExpression", "newExprId")
    pair = made(seq(id, id, static("org.apache.spark.sql.catalyst.expressions.NamedExpression", "newExprId")))
    assert pair.apply(0).equals(pair.apply(1))
    assert not pair.apply(0).equals(pair.apply(2))


def test_a_call_takes_what_was_not_made_yet(spark: SparkSession) -> None:
    five = number(2).add(number(3))
    assert jvm_of(spark).static("java.util.Objects", "toString")(five) == "5"
    assert made(five.multiply(five)).toString() == "25", "of the object that there is"


def test_an_error_is_the_one_of_the_call(spark: SparkSession) -> None:
    with pytest.raises(NumberFormatException, match='"x"'):
        made(seq(static("java.lang.Integer", "parseInt", "x")))
    with pytest.raises(ParseException):
        made(type_later(jvm_of(spark), "no type"))
    with pytest.raises(Py4JError, match="hash"):
        made(static("java.util.Objects", "hash", 1, 2))


def test_what_is_no_value_of_java_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match="object"):
        made(seq(object()))


def test_a_plan_may_be_deeper_than_calls_of_python(spark: SparkSession) -> None:
    total = number(0)
    for n in range(5_000):
        total = call(total, "add", number(n))
    assert made(total).toString() == str(sum(range(5_000)))
