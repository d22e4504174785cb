"""Rows as records of a topic, and records as rows: a JSON object each, spelt as Spark's ``to_json`` and ``from_json`` have it, so that a
table of a warehouse reads what is written here.

Numbers and decimals are numbers; NaN and infinities, dates, times and bytes (in Base64) are texts. A time with a zone is in UTC, with
``Z``; one without zone has none. What is read is strict: no value is rounded, cut or taken for one of another type.
"""

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tempura.errors import TempuraError
from tempura.region.operators import CHANGE, KINDS, TIME

_SHOWN = 200
"""Characters of a value that a message quotes."""

_WORDS = {word: float(word) for word in ("NaN", "+INF", "INF", "+Infinity", "Infinity", "-INF", "-Infinity")}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


class BadRecord(Exception):  # noqa: N818 - it is a reason, which becomes an error where the record is known
    """Why a record is no row."""


# --- rows as records --------------------------------------------------------------------------------------------------


def spelling(type: pa.DataType) -> Callable[[Any], str]:
    """The function that spells a value of a type as JSON. Raises TempuraError WRONG_SCHEMA for one that is not written."""
    if pa.types.is_boolean(type):
        return lambda v: "null" if v is None else "true" if v else "false"
    if pa.types.is_floating(type):
        return _spelt_float
    if pa.types.is_decimal(type):
        return lambda v: "null" if v is None else format(v, "f")
    if pa.types.is_date(type):
        return lambda v: "null" if v is None else f'"{v.isoformat()}"'
    if pa.types.is_timestamp(type) and type.unit != "ns":
        if type.tz is None:
            return lambda v: "null" if v is None else f'"{v.isoformat(timespec="microseconds")}"'
        return lambda v: "null" if v is None else f'"{v.astimezone(UTC).isoformat(timespec="microseconds")[:-6]}Z"'
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return lambda v: "null" if v is None else f'"{base64.b64encode(v).decode()}"'
    if pa.types.is_signed_integer(type):
        return lambda v: "null" if v is None else str(v)
    if pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return lambda v: "null" if v is None else json.dumps(v, ensure_ascii=False)
    raise _unknown(type)


def _unknown(type: pa.DataType) -> TempuraError:
    what = f"Records of topics have no columns of type {type}."
    return TempuraError("WRONG_SCHEMA", what, "Leave it out, or use another.")


def _spelt_float(value: float | None) -> str:
    if value is None:
        return "null"
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


class Writer:
    """Spells rows of a schema: the record's value, and its key from some of the columns, plain text of one and an object of several, as
    the key formats ``text`` and ``json`` of a table have it.

    Raises TempuraError WRONG_SCHEMA for a key that is no column, and types that are not written.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str] = ()) -> None:
        self._fields = [(f"{json.dumps(f.name, ensure_ascii=False)}:", spelling(f.type)) for f in schema]
        self._row = [n for n, field in enumerate(schema) if field.name not in (CHANGE, TIME)]
        self._key = [schema.names.index(name) if name in schema.names else _no_column(name) for name in key]

    def records(self, batch: pa.RecordBatch) -> list[tuple[bytes | None, bytes, bytes]]:
        """Of each row the key, None without one; the value; and what is the same of an insert and the delete of the same row."""
        columns = [[spell(value) for value in batch.column(n).to_pylist()] for n, (_, spell) in enumerate(self._fields)]
        names = [name for name, _ in self._fields]
        found = []
        for texts in zip(*columns, strict=True):
            value = f"{{{','.join(map(str.__add__, names, texts))}}}"
            row = ",".join([texts[n] for n in self._row])
            found.append((self._spelt_key(texts), value.encode(), row.encode()))
        return found

    def _spelt_key(self, texts: Sequence[str]) -> bytes | None:
        if len(self._key) == 1:
            text = texts[self._key[0]]
            return None if text == "null" else str(json.loads(text)).encode() if text[0] == '"' else text.encode()
        if not self._key:
            return None
        return f"{{{','.join(self._fields[n][0] + texts[n] for n in self._key)}}}".encode()


def _no_column(name: str) -> int:
    raise TempuraError("WRONG_SCHEMA", f"The key of records is to be {name}, which is no column.", "Name columns.")


# --- records as rows --------------------------------------------------------------------------------------------------


class Reader:
    """Reads values of records as rows of a schema. A field that is not there is NULL, and ``_change`` insert; one that is not a column is
    refused unless ``ignore``. Raises TempuraError WRONG_SCHEMA for types that are not read."""

    def __init__(self, schema: pa.Schema, ignore: bool = False) -> None:
        self.schema = schema
        self._fields = [(f.name, _meaning(f.type), f.type) for f in schema if f.name != CHANGE]
        self._known = {CHANGE, *schema.names}
        self._ignore = ignore

    def row(self, value: bytes | None) -> list[Any]:
        """The columns of one row, ``_change`` last. Raises BadRecord."""
        if value is None:
            raise BadRecord("it has no value, which deletes by key, and there are no keys")
        found = _parsed(value)
        if not self._ignore and not found.keys() <= self._known:
            other = ", ".join(sorted(found.keys() - self._known))
            raise BadRecord(f"it has {other}, which is no column")
        row = []
        for name, meaning, type in self._fields:
            value_of = found.get(name)
            if value_of is not None:
                try:
                    value_of = meaning(value_of)
                except (ValueError, TypeError, ArithmeticError) as error:
                    raise BadRecord(f"column {name} has the value {_quoted(value_of)}, not {type}") from error
            elif name == TIME:
                raise BadRecord(f"it has no {TIME}")
            row.append(value_of)
        kind = found.get(CHANGE)
        if kind is not None and kind not in KINDS:
            raise BadRecord(f"{CHANGE} is {_quoted(kind)}, not insert or delete")
        row.append(kind or "insert")
        return row

    def batch(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Rows as a batch of the schema."""
        order = [name for name, _, _ in self._fields] + [CHANGE]
        columns = dict(zip(order, zip(*rows, strict=True) if rows else [()] * len(order), strict=True))
        return pa.record_batch([pa.array(columns[f.name], f.type) for f in self.schema], schema=self.schema)


def _parsed(value: bytes) -> Mapping[str, Any]:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRecord("it is not text in UTF-8") from None
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_float=Decimal, parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, _TwiceError) else f"{_quoted(text)} is not one JSON object"
        raise BadRecord(what) from None
    if not isinstance(found, dict):
        raise BadRecord(f"{_quoted(text)} is not one JSON object")
    return found


class _TwiceError(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError("a field is there twice")
    return found


def _no_json(word: str) -> Any:
    raise ValueError(word)


def _quoted(value: Any) -> str:
    text = str(value) if isinstance(value, str | Decimal) else json.dumps(value, ensure_ascii=False, default=str)
    return f"'{text[:_SHOWN]}'"


def _meaning(type: pa.DataType) -> Callable[[Any], Any]:
    """The function that makes a value of a type from one of JSON; it raises ValueError, TypeError or ArithmeticError."""
    if pa.types.is_boolean(type):
        return lambda v: _of(bool, v)
    if pa.types.is_signed_integer(type):
        most = 1 << (type.bit_width - 1)
        return lambda v: v if -most <= _of(int, v) < most else _refuse()
    if pa.types.is_floating(type):
        return _float if type.bit_width == 64 else _float32
    if pa.types.is_decimal(type):
        return lambda v: _decimal(v, type.precision, type.scale)
    if pa.types.is_date(type):
        return lambda v: date.fromisoformat(v) if _DATE.fullmatch(v) else _refuse()
    if pa.types.is_timestamp(type) and type.unit != "ns":
        return lambda v: _timestamp(v, type.tz is not None)
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return lambda v: base64.b64decode(_of(str, v).encode("ascii"), validate=True)
    if pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return _text
    raise _unknown(type)


def _of(type: type, value: Any) -> Any:
    """A value that is of this very type: a boolean is no number."""
    return value if value.__class__ is type else _refuse()


def _refuse() -> Any:
    raise ValueError


def _text(value: Any) -> str:
    _of(str, value).encode()  # half of a surrogate pair is no text
    return str(value)


def _float(value: Any) -> float:
    if value.__class__ is str:
        return _WORDS[value] if value in _WORDS else _refuse()
    found = float(value) if value.__class__ in (int, Decimal) else _refuse()
    return found if math.isfinite(found) else _refuse()


def _float32(value: Any) -> float:
    found = _float(value)
    struct.pack("<f", found)  # OverflowError
    return found


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if value.__class__ is str and not _DECIMAL.fullmatch(value):
        _refuse()
    found = Decimal(value) if value.__class__ in (int, str, Decimal) else _refuse()
    sign, digits, exponent = found.as_tuple()
    assert isinstance(exponent, int)
    while exponent < -scale and digits and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if any(digits) and (exponent < -scale or len(digits) + exponent > precision - scale):
        _refuse()
    return Decimal((sign, digits, exponent)) if any(digits) else Decimal(0)


def _timestamp(value: Any, zoned: bool) -> datetime:
    found = _MOMENT.fullmatch(value)
    if not found or bool(found[2]) != zoned:
        _refuse()
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC) if zoned else moment
