"""Constants: Catalyst's internal values as Python values, and back.

Python values are those of ``DataFrame.collect``, except that a ``timestamp`` is a naive datetime in UTC, so that it
means the same in every process. Types without a faithful Python value (intervals, arrays, maps, structs, dates outside
of years 1 to 9999) stay with the JVM.
"""

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from tempura.algebra.states import decimal_of
from tempura.frontend.catalyst import EXPRESSIONS, JavaObject
from tempura.frontend.java import Java
from tempura.frontend.later import Later, call, new, static

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)
_PARSER = ("org.apache.spark.sql.catalyst.parser.CatalystSqlParser$", "MODULE$")
_SQL_SUFFIX = {"tinyint": "Y", "smallint": "S", "bigint": "L"}
_AS_IS = ("boolean", "tinyint", "smallint", "int", "bigint", "double")


class NoPythonValueError(Exception):
    """A constant whose type has no faithful Python value."""


def python_value(internal: object, type: str) -> object:
    """The Python value of a Catalyst value as :mod:`~tempura.frontend.tree` tells it. Raises NoPythonValueError."""
    if internal is None or type in _AS_IS:
        return internal
    if type == "string" or type.startswith("string collate "):
        if isinstance(internal, bytes):  # not UTF-8
            raise NoPythonValueError(type)
        return str(internal)
    if decimal_of(type):
        return _decimal(internal, type)
    try:
        return _by_type(internal, type)
    except OverflowError as error:
        raise NoPythonValueError(type) from error


def _by_type(internal: object, type: str) -> object:
    match type, internal:
        case "float", float():
            # A float is told as its shortest text; collect() gives the nearest double of the 32 bits.
            return struct.unpack("f", struct.pack("f", internal))[0]
        case "binary", bytes() | bytearray():
            return bytes(internal)
        case "date", int():
            return _EPOCH_DAY + timedelta(days=internal)
        case "timestamp" | "timestamp_ntz", int():
            return _EPOCH + timedelta(microseconds=internal)
    raise NoPythonValueError(type)


def _decimal(internal: object, type: str) -> Decimal:
    _, scale = decimal_of(type) or (38, 0)
    # A tuple of digits, not quantize(): that would round to the precision of Python's current context.
    sign, digits, exponent = Decimal(str(internal)).as_tuple()
    assert isinstance(exponent, int)
    assert exponent >= -scale
    return Decimal((sign, digits + (0,) * (exponent + scale), -scale))


def literal_later(jvm: Java, value: object, type: str, data_type: JavaObject) -> Later:
    """The Catalyst expression of a constant: the inverse of :func:`python_value`."""
    literal = f"{EXPRESSIONS}.Literal"
    if value is None:
        return static(literal, "create", None, data_type)
    if type in _SQL_SUFFIX:
        # py4j chooses the Java type of a number by its size; the SQL text says which it is.
        return static(literal, "fromSQL", f"{value}{_SQL_SUFFIX[type]}")
    if type == "float":
        none, legacy = static("scala.Option", "empty"), static(f"{EXPRESSIONS}.EvalMode", "LEGACY")
        return new(
            f"{EXPRESSIONS}.Cast", static(literal, "create", value, type_later(jvm, "double")), data_type, none, legacy
        )
    return static(literal, "create", _java_value(jvm, value, type), data_type)


def _java_value(jvm: Java, value: object, type: str) -> object:
    if isinstance(value, datetime):
        seconds, rest = divmod(_naive(value) - _EPOCH, timedelta(seconds=1))
        nanos = rest.microseconds * 1000
        if type == "timestamp":
            return static("java.time.Instant", "ofEpochSecond", seconds, nanos)
        utc = jvm.static("java.time.ZoneOffset", "UTC")
        return static("java.time.LocalDateTime", "ofEpochSecond", seconds, nanos, utc)
    if isinstance(value, date):
        return static("java.time.LocalDate", "ofEpochDay", (value - _EPOCH_DAY).days)
    if decimal_of(type) and isinstance(value, int):
        return Decimal(value)
    return value


def _naive(value: datetime) -> datetime:
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def jvm_type(jvm: Java, type: str) -> JavaObject:
    """The Spark type of a type text. Raises Spark's ParseException for a text that is none."""
    return jvm.static(*_PARSER).parseDataType(type)


def type_later(jvm: Java, type: str) -> Later:
    """The same, when it is needed."""
    return call(jvm.static(*_PARSER), "parseDataType", type)
