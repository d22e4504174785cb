"""Spark's types as Arrow's, for rows that travel between processes."""

import re

import pyarrow as pa

from tempura.errors import TempuraError

_SIMPLE = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def arrow_type(type: str) -> pa.DataType:
    """The Arrow type of a Spark type. Raises TempuraError BAD_STREAM_JOIN for one whose values do not travel."""
    found = _DECIMAL.fullmatch(type)
    if found:
        return pa.decimal128(int(found[1]), int(found[2]))
    if type not in _SIMPLE:
        what = f"a column of type {type} cannot take part in a continuous join."
        raise TempuraError("BAD_STREAM_JOIN", what, f"Use one of {', '.join(_SIMPLE)} and decimal.")
    return _SIMPLE[type]


def spark_type(type: pa.DataType) -> str:
    """The inverse. Raises TempuraError BAD_STREAM_JOIN."""
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if pa.types.is_timestamp(type):
        return "timestamp_ntz" if type.tz is None else "timestamp"
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return "string"
    for name, known in _SIMPLE.items():
        if known == type:
            return name
    what = f"a column of Arrow's type {type} cannot take part in a continuous join."
    raise TempuraError("BAD_STREAM_JOIN", what, f"Use one of {', '.join(_SIMPLE)} and decimal.")
