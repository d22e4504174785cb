"""Values of columns that paths spell, as in ``day=2024-01-01/a.csv``: whether Spark reads each as the value that a reader takes it for."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

from tempura.errors import TempuraError

_NULL = "__HIVE_DEFAULT_PARTITION__"
_BITS: Mapping[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_DATE = re.compile(r"\s*\+?(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*", re.ASCII)
_LATER_DATE = re.compile(r"\s*(?:\+?\d{5,7}|-\d{4,7})(?:-.*)?", re.ASCII)
"""Of years that Python does not know."""


def check_spelt(path: Path, name: str, schema: StructType) -> None:
    """Raises TempuraError WRONG_SCHEMA when a folder in ``name``, the path of a file within its table's folder, spells no value of the
    column's type. Whole numbers, decimals, dates and booleans are judged here, the others by Spark."""
    types = {field.name: field.dataType for field in schema.fields}
    for column, value in _values(name):
        type = types.get(column)
        if type is not None and value != _NULL and not _fits(value, type):
            what = f"{path}: its path spells {column}={value}, but the table expects {type.simpleString()}."
            remedy = "with as many digits after the point as the type has, " if isinstance(type, DecimalType) else ""
            raise TempuraError(
                "WRONG_SCHEMA", what, f"Name the folder by such a value, {remedy}or take it out of the table's folder."
            )


def _values(name: str) -> Iterator[tuple[str, str]]:
    for part in Path(name).parts[:-1]:
        column, spells, value = part.partition("=")
        if spells:
            yield unquote(column), unquote(value)


def _fits(value: str, type: DataType) -> bool:
    judge = next((judge for kind, judge in _JUDGES.items() if isinstance(type, kind)), None)
    return value != "" and (judge is None or judge(value, type))


def _is_whole(value: str, type: DataType) -> bool:
    # Of a number with too many digits for a small type Spark keeps the last bits.
    half = 1 << (_BITS[type.__class__] - 1)
    return re.fullmatch(r"[+-]?\d{1,30}", value, re.ASCII) is not None and -half <= int(value) < half


def _is_decimal(value: str, type: DataType) -> bool:
    # Spark takes the digits, wherever the point is: 5 in a column DECIMAL(5,2) would be read as 0.05.
    assert isinstance(type, DecimalType)
    found = re.fullmatch(r"[+-]?0*(\d*)(?:\.(\d+))?", value, re.ASCII)
    if found is None or not value.strip("+-."):
        return False
    before, after = found[1], found[2] or ""
    return len(after) == type.scale and len(before) <= type.precision - type.scale


def _is_date(value: str, type: DataType) -> bool:
    found = _DATE.fullmatch(value)
    if found is None:
        return _LATER_DATE.fullmatch(value) is not None
    try:
        date(*(int(part or 1) for part in found.groups()))
    except ValueError:
        return value.strip().startswith("0000")
    return True


def _is_boolean(value: str, type: DataType) -> bool:
    return value.lower() in ("true", "false")


_JUDGES: Mapping[type[DataType], Callable[[str, DataType], bool]] = {
    **dict.fromkeys(_BITS, _is_whole),
    DecimalType: _is_decimal,
    DateType: _is_date,
    BooleanType: _is_boolean,
}
