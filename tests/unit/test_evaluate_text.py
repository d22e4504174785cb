"""The interpreter's functions of text and dates, against what Spark gives."""

from datetime import date

import pytest

from tempura.algebra.evaluate_scalar import evaluate
from tempura.algebra.scalar import Call, Literal
from tempura.errors import TempuraError


def call(function: str, type: str, *values: object, detail: str = "") -> object:
    types = {int: "int", str: "string", date: "date", type: "string"}
    operands = tuple(Literal(value, "string" if value is None else types[value.__class__]) for value in values)
    return evaluate(Call(function, operands, type, detail), {})


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("special requests", "%special%requests%", True),
        ("a special\nline of requests", "%special%requests%", True),
        ("requests special", "%special%requests%", False),
        ("abc", "a_c", True),
        ("ac", "a_c", False),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("50%", "50\\%", True),
        ("500", "50\\%", False),
        ("a\\b", "a\\\\b", True),
    ],
)
def test_like(text: str, pattern: str, expected: bool) -> None:
    assert call("Like", "boolean", text, pattern, detail="escapeChar='\\\\'") is expected


def test_like_with_another_escape_character() -> None:
    assert call("Like", "boolean", "50%", "50/%", detail="escapeChar='/'") is True


def test_a_pattern_that_spark_refuses_is_refused() -> None:
    with pytest.raises(TempuraError, match="NOT_INTERPRETED"):
        call("Like", "boolean", "abc", "a\\bc", detail="escapeChar='\\\\'")


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(1, 2, "13"), (0, 2, "13"), (2, 3, "3-6"), (-2, 5, "89"), (-9, 3, "1"), (9, 2, "")],
)
def test_substring(start: int, length: int, expected: str) -> None:
    assert call("Substring", "string", "13-6789", start, length) == expected


def test_parts_of_text_and_years() -> None:
    assert call("StartsWith", "boolean", "PROMO TIN", "PROMO") is True
    assert call("EndsWith", "boolean", "PROMO TIN", "BRASS") is False
    assert call("Contains", "boolean", "dark green", "green") is True
    assert call("Year", "int", date(1995, 12, 31)) == 1995
    assert call("StartsWith", "boolean", None, "x") is None
