"""The interpreter's functions of text, and of the parts of a date, over values that are not NULL."""

import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import lru_cache

from tempura.algebra.scalar import Call
from tempura.errors import TempuraError


def _like(call: Call, text: str, pattern: str) -> bool:
    return _pattern(pattern, _escape_of(call.detail)).fullmatch(text) is not None


def _escape_of(detail: str) -> str:
    found = re.search(r"escapeChar='(\\\\|.)'", detail)
    return found[1][-1] if found else "\\"


@lru_cache(maxsize=256)
def _pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """LIKE's pattern: ``%`` any text, ``_`` any character, and either as it is after the escape character.

    Raises TempuraError ``NOT_INTERPRETED`` for a pattern in which something else is escaped, which Spark refuses.
    """
    parts, i = [], 0
    while i < len(pattern):
        if pattern[i] == escape:
            if pattern[i + 1 : i + 2] not in ("%", "_", escape):
                what = f"the interpreter does not know the pattern {pattern!r}."
                raise TempuraError("NOT_INTERPRETED", what, "Escape %, _ and the escape character only.")
            i += 1
            parts.append(re.escape(pattern[i]))
        else:
            parts.append({"%": ".*", "_": "."}.get(pattern[i]) or re.escape(pattern[i]))
        i += 1
    return re.compile("".join(parts), re.DOTALL)


def _substring(call: Call, text: str, start: int, length: int) -> str:
    """SQL's: the first character is 1, as is 0; a negative start counts from the end, and may lie before the beginning."""
    first = start - 1 if start > 0 else start + len(text) if start < 0 else 0
    return text[max(0, first) : max(0, first + length)]


OF_TEXT: Mapping[str, Callable[..., object]] = {
    "Like": _like,
    "StartsWith": lambda call, text, part: text.startswith(part),
    "EndsWith": lambda call, text, part: text.endswith(part),
    "Contains": lambda call, text, part: part in text,
    "Substring": _substring,
}
"""Functions of text by Catalyst's class names. Those that compare are of a type without collation: the caller sees to it."""


def year(call: Call, day: date) -> int:
    """The year of a date."""
    return day.year
