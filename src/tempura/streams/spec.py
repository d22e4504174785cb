"""A continuous join as plain data, such as a TOML file holds: inputs with their columns and windows, and conditions as text."""

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref
from tempura.errors import TempuraError
from tempura.streams.query import Input, JoinQuery, LastRows, LastTime, Window

_FUNCTIONS = {
    "=": "EqualTo",
    "<": "LessThan",
    "<=": "LessThanOrEqual",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
}
_CONDITION = re.compile(r"\s*(\w+)\.(\w+)\s*(<=|>=|=|<|>)\s*(?:(\w+)\.([A-Za-z_]\w*)|(-?\d+)|'([^']*)')\s*")
_WINDOW = re.compile(r"\s*(\d+)\s+rows\s*|\s*(\d+(?:\.\d+)?)\s+(seconds|minutes|hours)\s*")
_SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}


def query_of(spec: Mapping[str, Any]) -> JoinQuery:
    """The join that a specification describes: ``inputs`` by name, each with ``columns`` (name to type) and perhaps a ``window``
    (``1000 rows``, ``2 hours``), and ``on``, a list of comparisons ``a.x = b.y``, ``a.x > 5``, ``a.x = 'text'``.

    Raises TempuraError BAD_STREAM_JOIN.
    """
    if not isinstance(spec, Mapping):
        raise _bad(f"{spec!r} is no specification, which has inputs and on.")
    unknown = set(spec) - {"inputs", "on"}
    if unknown or not spec.get("inputs") or not spec.get("on"):
        raise _bad(f"a specification has inputs and on, not {', '.join(sorted(spec)) or 'nothing'}.")
    if not isinstance(spec["inputs"], Mapping):
        raise _bad(f"inputs is {spec['inputs']!r}, and no table by name.")
    if isinstance(spec["on"], str) or not isinstance(spec["on"], Sequence):
        raise _bad(f"on is {spec['on']!r}, and no list of conditions.")
    inputs = tuple(_input(name, about) for name, about in spec["inputs"].items())
    columns = {(i.name, c.name): c for i in inputs for c in i.columns}
    return JoinQuery(inputs, _all([_condition(text, columns) for text in spec["on"]]))


def _input(name: str, about: Mapping[str, Any]) -> Input:
    if not isinstance(about, Mapping):
        raise _bad(f"input {name} is {about!r}; it has columns and perhaps a window.")
    unknown = set(about) - {"columns", "window"}
    if unknown or not about.get("columns"):
        raise _bad(f"input {name} has columns and perhaps a window, not {', '.join(sorted(about)) or 'nothing'}.")
    if not isinstance(about["columns"], Mapping) or not all(isinstance(t, str) for t in about["columns"].values()):
        raise _bad(f"columns of input {name} are {about['columns']!r}, and no types by name.")
    columns = tuple(Column(f"{name}.{column}", column, type) for column, type in about["columns"].items())
    return Input(name, columns, window_of(name, about.get("window")))


def window_of(name: str, text: str | None) -> Window:
    """The window that a text means; None is everything. Raises TempuraError BAD_STREAM_JOIN."""
    if text is None:
        return None
    found = _WINDOW.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise _bad(f"the window of {name} is {text!r}: write 1000 rows, 30 seconds, 5 minutes or 2 hours.")
    rows, span, unit = found.groups()
    return LastRows(int(rows)) if rows else LastTime(float(span) * _SECONDS[unit])


def _condition(text: str, columns: Mapping[tuple[str, str], Column]) -> Expr:
    found = _CONDITION.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise _bad(f"the condition {text!r} cannot be read: write a.x = b.y, a.x > 5 or a.x = 'text'.")
    table, name, operator, other, other_name, number, word = found.groups()
    for named in ((table, name), (other, other_name)):
        if named[0] and named not in columns:
            raise _bad(f"the condition {text!r} names {'.'.join(named)}, which no input has.")
    left = Ref(columns[table, name])
    if other:
        right: Expr = Ref(columns[other, other_name])
    else:
        right = Literal(int(number), left.type) if number else Literal(word, "string")
    return Call(_FUNCTIONS[operator], (left, right), "boolean")


def _all(parts: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: Call("And", (a, b), "boolean"), parts[1:], parts[0])


def _bad(what: str) -> TempuraError:
    return TempuraError("BAD_STREAM_JOIN", what, "Correct the specification.")
