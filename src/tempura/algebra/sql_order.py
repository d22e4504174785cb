"""SQL's equality and order of values, which are coarser than identity: ``-0.0 = 0.0``, ``NaN = NaN``, NaN is the greatest."""

import math
import re
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from tempura.errors import TempuraError

_COARSE_EQUALITY = re.compile(r"float|double|\bcollate (?!UTF8_BINARY\b)|map<|variant|interval")

_ORDERED = (int, Decimal, str, bytes, bytearray, date, time, timedelta)


Ordered = tuple[Any, ...]
"""A hashable key that can be compared with those of other values of the same column."""


def equality_is_identity(type: str) -> bool:
    """Whether two values of a type that SQL holds for equal are the same: not -0.0 and 0.0, nor 'a' and 'A' where case is ignored."""
    return not _COARSE_EQUALITY.search(type)


def ordering_key(value: object) -> Ordered:
    """A key by which two values of one type compare as Spark compares them.

    NULL, which only occurs here inside of an array or struct or in a sort key, is equal to NULL and less than any value.
    Raises TempuraError ``NOT_INTERPRETED`` for values without order (maps, intervals of months ...).
    """
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, (1, 0.0) if math.isnan(value) else (0, value))
    if isinstance(value, int | Decimal):
        return (1, (0, value))
    if isinstance(value, list | tuple):
        return (1, tuple(map(ordering_key, value)))
    if isinstance(value, _ORDERED):
        return (1, bytes(value) if isinstance(value, bytearray) else value)
    kind = type(value).__name__
    raise TempuraError("NOT_INTERPRETED", f"the interpreter cannot compare values of type {kind}.", "Run it on Spark.")


def normalized(value: object) -> object:
    """The value that stands for all values equal to it when Spark groups: ``0.0`` for ``-0.0``, also inside arrays and structs."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, list):
        return [normalized(item) for item in value]
    if isinstance(value, tuple):
        return tuple(normalized(item) for item in value)
    return value
