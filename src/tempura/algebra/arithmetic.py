"""Spark's arithmetic and casts on Python values: exact numbers first, then fitted into the declared type."""

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Literal as OneOf

from tempura.algebra.states import decimal_of
from tempura.errors import TempuraError

Exact = int | Fraction | float
"""A number without rounding: integers and decimals are exact, floats are as the machine has them."""

Mode = OneOf["ANSI", "LEGACY", "TRY"]
"""What an impossible result does: raise; wrap around (integers) or NULL (decimals); NULL."""

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DIVISION_SCALE = 39
"""The scale at which Spark's ``Decimal`` divides before it rounds to the type of the result."""
_DOUBLE_AVERAGE = 11
"""The greatest precision for which Spark computes AVG of decimals through doubles (its rule DecimalAggregates)."""


def mode_of(detail: str) -> Mode:
    """The evaluation mode named in a call's ``detail``; ANSI, which hides nothing, when there is none."""
    words = re.findall(r"\w+", detail.upper())
    return "TRY" if "TRY" in words else "LEGACY" if "LEGACY" in words else "ANSI"


def exact(value: object) -> Exact:
    """A number of SQL as a number that Python computes with exactly."""
    if isinstance(value, Decimal):
        return Fraction(value)
    assert isinstance(value, int | float | Fraction), f"not a number: {value!r}"
    return value


def impossible(code: str, what: str, mode: Mode) -> object:
    """The result of what cannot be computed: NULL, or TempuraError ``code`` in ANSI mode."""
    if mode == "ANSI":
        raise TempuraError(code, what, "Spark fails here too, in ANSI mode.")
    return None


def fit(value: object, type: str, mode: Mode) -> object:
    """The value of ``type`` nearest to a number: decimals round half up. NULL or an error on overflow, as ``mode`` says."""
    if type in ("float", "double"):
        return _float(float(exact(value)), type)
    if type in _BITS:
        return _integer(int(exact(value)), type, mode)
    precision, scale = decimal_of(type) or _unknown(type)
    unscaled = _half_up(Fraction(exact(value)) * 10**scale)
    if abs(unscaled) >= 10**precision:
        return impossible("ARITHMETIC_OVERFLOW", f"{value} does not fit into {type}.", mode)
    return _decimal(unscaled, scale)


def _unknown(type: str) -> tuple[int, int]:
    raise TempuraError("NOT_INTERPRETED", f"the interpreter does not compute with {type}.", "Run it on Spark.")


def _float(value: float, type: str) -> float:
    if type == "double" or not math.isfinite(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _integer(value: int, type: str, mode: Mode) -> object:
    half = 1 << (_BITS[type] - 1)
    if -half <= value < half:
        return value
    if mode == "LEGACY":
        return _wrapped(value, half)
    return impossible("ARITHMETIC_OVERFLOW", f"{value} does not fit into {type}.", mode)


def _wrapped(value: int, half: int) -> int:
    return (value + half) % (2 * half) - half


def _half_up(value: Fraction) -> int:
    magnitude = math.floor(abs(value) + Fraction(1, 2))
    return magnitude if value >= 0 else -magnitude


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def divide(left: object, right: object, type: str, mode: Mode) -> object:
    """``left / right`` on doubles or decimals; division by zero is an error or NULL."""
    if right == 0:
        return impossible("DIVIDE_BY_ZERO", f"{left} is divided by 0.", mode)
    if type in ("float", "double"):
        return _float(float(exact(left)) / float(exact(right)), type)
    quotient = Fraction(exact(left)) / Fraction(exact(right))
    return fit(Fraction(_half_up(quotient * 10**_DIVISION_SCALE), 10**_DIVISION_SCALE), type, mode)


def average(total: object, count: object, argument: str, type: str, mode: Mode) -> object:
    """AVG from the exact total of ``count`` > 0 values of type ``argument``, to the last digit as Spark computes it."""
    decimal = decimal_of(argument)
    if decimal is None:
        return divide(float(exact(total)), float(exact(count)), type, mode)
    precision, scale = decimal
    if precision > _DOUBLE_AVERAGE:
        return divide(total, count, type, mode)
    unscaled = float(exact(total) * 10**scale)
    return _from_double(unscaled / float(exact(count)) / 10.0**scale, type, mode)


# --- casts ------------------------------------------------------------------------------------------------------------


def cast(value: object, source: str, target: str, mode: Mode) -> object:
    """``CAST(value AS target)`` of a value that is not NULL.

    Raises TempuraError ``NOT_INTERPRETED`` for types other than numbers, strings, booleans and dates (to strings).
    """
    if source == target:
        return value
    kind = "integer" if target in _BITS else "decimal" if decimal_of(target) else target
    known = isinstance(value, int | float | Decimal | str) or target == "string"
    if kind not in _CASTS or not known:
        raise TempuraError(
            "NOT_INTERPRETED", f"the interpreter does not cast {source} to {target}.", "Run it on Spark."
        )
    return _CASTS[kind](value, target, mode)


def _to_integer(value: object, target: str, mode: Mode) -> object:
    match value:
        case str():
            return _integer_of_text(value, target, mode)
        case float() if not math.isfinite(value) or abs(value) >= 2.0 ** (_BITS[target] - 1):
            impossible("ARITHMETIC_OVERFLOW", f"{value} does not fit into {target}.", mode)
            return _saturated(value, target) if mode == "LEGACY" else None
    return fit(exact(value), target, mode)


def _saturated(value: float, target: str) -> int:
    """What the JVM makes of a double that an integer cannot hold. Types below 32 bits then keep the lowest bits."""
    half = 1 << (max(_BITS[target], 32) - 1)
    wide = 0 if math.isnan(value) else int(max(-half, min(half - 1, value)))
    return _wrapped(wide, 1 << (_BITS[target] - 1))


def _integer_of_text(text: str, target: str, mode: Mode) -> object:
    pattern = r"([+-]?)(\d*)(\.\d*)?" if mode == "LEGACY" else r"([+-]?)(\d+)"
    match = re.fullmatch(pattern, text.strip(), re.ASCII)
    if match is None or match[0] == match[1]:
        return _bad_text(text, target, mode)
    number, half = int(match[1] + (match[2] or "0")), 1 << (_BITS[target] - 1)
    return number if -half <= number < half else _bad_text(text, target, mode)


def _to_decimal(value: object, target: str, mode: Mode) -> object:
    match value:
        case str():
            return _decimal_of_text(value, target, mode)
        case float():
            return _from_double(value, target, mode)
    return fit(exact(value), target, mode)


def _from_double(value: float, target: str, mode: Mode) -> object:
    """Spark goes through the shortest decimal text of a double."""
    if not math.isfinite(value):
        return impossible("ARITHMETIC_OVERFLOW", f"{value} does not fit into {target}.", mode)
    return fit(Fraction(repr(value)), target, mode)


def _decimal_of_text(text: str, target: str, mode: Mode) -> object:
    try:
        number = Decimal(text.strip().replace("_", "x"))
    except InvalidOperation:
        return _bad_text(text, target, mode)
    return fit(number, target, mode) if number.is_finite() else _bad_text(text, target, mode)


def _to_double(value: object, target: str, mode: Mode) -> object:
    if not isinstance(value, str):
        return fit(exact(value), target, mode)
    try:
        return _float(float(value.strip().replace("_", "x")), target)
    except ValueError:
        return _bad_text(value, target, mode)


def _to_boolean(value: object, target: str, mode: Mode) -> object:
    if not isinstance(value, str):
        return value != 0
    word = value.strip().lower()
    if word in ("t", "true", "y", "yes", "1"):
        return True
    return False if word in ("f", "false", "n", "no", "0") else _bad_text(value, target, mode)


def _bad_text(text: str, target: str, mode: Mode) -> object:
    return impossible("CAST_INVALID_INPUT", f"{text!r} is no {target}.", mode)


def _to_string(value: object, target: str, mode: Mode) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return str(value) if mode == "LEGACY" else f"{value:f}"
        case int() | str():
            return str(value)
        case date() if not isinstance(value, datetime):
            return value.isoformat()
    raise TempuraError(
        "NOT_INTERPRETED", f"the interpreter does not spell a {type(value).__name__}.", "Run it on Spark."
    )


_CASTS: Mapping[str, Callable[[object, str, Mode], object]] = {
    "integer": _to_integer,
    "decimal": _to_decimal,
    "float": _to_double,
    "double": _to_double,
    "boolean": _to_boolean,
    "string": _to_string,
}
