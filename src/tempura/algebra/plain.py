"""Expressions of the algebra as plain data, and back: to be kept as JSON, read by people, and never executed.

Data is ``{"nodes": [[class, {field: value}], …], "root": value}``. A node follows those that it is made of, and what is shared is told
once. A value is null, true or false, a whole number, a text, a list of values (a tuple), or an object of one entry: ``{"node": place}``,
``{"array": values}``, ``{"float": text}``, ``{"decimal": text}``, ``{"date": text}``, ``{"datetime": text}``, ``{"bytes": text}`` (in
base 64). What an engine has for an expression, its ``handle``, is a number: the place among the handles in the order of the nodes.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Scan, Sort, TopK, Union, Values
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey
from tempura.algebra.window import Frame, Window, WindowOutput

_CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Aggregate, AggregateCall, AggregateOutput, Call, Column, Expand, Filter, Frame, Generate, Join, Literal, One, Output,
        Project, Ref, Scan, Sort, SortKey, TopK, Union, Values, Window, WindowOutput,
    )
}  # fmt: skip
"""What queries are made of that the algebra can express as a whole."""

_READ: dict[str, Callable[[str], object]] = {
    "float": float,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "bytes": base64.b64decode,
}


class NotPlainError(Exception):
    """There is something in an expression that is no plain data."""


def plain(root: object) -> tuple[dict[str, Any], list[object]]:
    """An expression, or a tuple of some, as data, and the handles in it. Raises NotPlainError."""
    writer = _Writer()
    try:
        told = writer.value(root)
    except RecursionError as error:
        raise NotPlainError("nested too deeply") from error
    return {"nodes": writer.nodes, "root": told}, writer.handles


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.handles: list[object] = []
        self._places: dict[int, int] = {}

    def value(self, value: object) -> Any:
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return {"float": repr(value)}
            case Decimal():
                return {"decimal": str(value)}
            case datetime():
                return {"datetime": value.isoformat()}
            case date():
                return {"date": value.isoformat()}
            case bytes():
                return {"bytes": base64.b64encode(value).decode()}
            case tuple():
                return [self.value(part) for part in value]
            case list():
                return {"array": [self.value(part) for part in value]}
        return {"node": self._place(value)}

    def _place(self, node: object) -> int:
        # By identity: what is equal may have handles of its own.
        if id(node) not in self._places:
            name = type(node).__name__
            if _CLASSES.get(name) is not type(node) or not is_dataclass(node):
                raise NotPlainError(name)
            told = {field.name: self._field(field.name, getattr(node, field.name)) for field in fields(node)}
            self._places[id(node)] = len(self.nodes)
            self.nodes.append([name, told])
        return self._places[id(node)]

    def _field(self, name: str, value: object) -> Any:
        if name != "handle" or value is None:
            return self.value(value)
        self.handles.append(value)
        return len(self.handles) - 1


def from_plain(data: Mapping[str, Any], handle: Callable[[int], object]) -> Any:
    """The inverse of :func:`plain`; ``handle`` gives the one at a place. Raises KeyError, IndexError, TypeError, ValueError or
    ArithmeticError for what is no such data."""
    nodes: list[object] = []

    def value(told: Any) -> object:
        if isinstance(told, list):
            return tuple(map(value, told))
        if not isinstance(told, dict):
            return told
        ((kind, about),) = told.items()
        match kind:
            case "node":
                return nodes[about]
            case "array":
                return [value(part) for part in about]
        return _READ[kind](about)

    for name, told in data["nodes"]:
        given = {
            field: handle(about) if field == "handle" and about is not None else value(about)
            for field, about in told.items()
        }
        nodes.append(_CLASSES[name](**given))
    return value(data["root"])
