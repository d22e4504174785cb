"""Plans of Catalyst's in this process's memory: told as one text by ``janino/Tree.java``, so that to read one takes no call.

A node is what py4j would show of the same object: its class, children, type, and constructor arguments by name. The object
itself stays in the JVM, and is fetched when it is needed, which is when a step runs.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession

from tempura.frontend.catalyst import JavaObject, simple_name
from tempura.frontend.compiled import compiled
from tempura.frontend.later import Later, call
from tempura.frontend.marker import MARKER

_IGNORED = (
    "origin", "context", "queryContext", "exprId", "resultId", "hint", "qualifier", "mutableAggBufferOffset",
    "inputAggBufferOffset", "nonInheritableMetadataKeys",
)  # fmt: skip
"""Constructor arguments that do not change an expression's value: positions in a text, ids, hints, buffers."""


class Text(str):
    """What a Java object of no known kind says of itself."""

    __slots__ = ()


class Unordered(list[Any]):
    """The elements of a set, in any order."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Some:
    """A value that might be missing, and is not; a missing one is the text ``None``."""

    value: Any


_MISSING = Text("None")


@dataclass(frozen=True, slots=True)
class Form:
    """What the nodes of a class have in common: its simple name, the traits of Catalyst's that it has, and its constructor
    arguments. ``detail`` are those that hold no node."""

    name: str
    traits: frozenset[str]
    arguments: dict[str, int]
    detail: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Handle:
    """An object of the JVM that is fetched on demand."""

    tree: JavaObject
    position: int

    def get(self) -> JavaObject:
        """The object."""
        return self.tree.at(self.position)

    def later(self) -> Later:
        """The object, when it is needed."""
        return call(self.tree, "at", self.position)


@dataclass(eq=False, slots=True)
class Node:
    """An operator or an expression. ``id`` is an expression's id and ``label`` its name, if it has them: a column, an alias, a
    sub-query."""

    form: Form
    handle: Handle
    children: list["Node"]
    id: int
    label: str
    _type: str = field(repr=False)
    _arguments: list[Any] = field(repr=False)
    _more: dict[str, Any] = field(repr=False)
    _nodes: Sequence["Node"] = field(repr=False)

    @property
    def name(self) -> str:
        """The simple name of the class."""
        return self.form.name

    @property
    def type(self) -> str:
        """The text of an expression's type. Raises Spark's error for a part of an expression that has no value of its own."""
        return self._type or str(self.handle.get().dataType().catalogString())

    @property
    def child(self) -> "Node":
        """The first child."""
        return self.children[0]

    def __getitem__(self, argument: str) -> Any:
        """A constructor argument: a number, text, ``Text``, node, or a list of such."""
        return self._value(self._arguments[self.form.arguments[argument]])

    def nodes(self, argument: str) -> list["Node"]:
        """A constructor argument that is a list of nodes; of a leaf ``output`` as well, of a Generate what is ``kept``."""
        if argument in self._more:
            return [self._nodes[i] for i in self._more[argument]]
        return list(self[argument])

    def optional(self, argument: str) -> "Node | None":
        """A constructor argument that is a node, or missing."""
        found = self[argument]
        return found.value if isinstance(found, Some) else None

    def known(self, fact: str) -> str:
        """``table`` of a leaf, ``zone`` of a cast, ``elements`` of a generator; "" when there is none."""
        return str(self._more.get(fact, ""))

    def rows(self) -> list[list[Any]]:
        """The rows of constants."""
        return [[self._value(value) for value in row] for row in self._more["rows"]]

    def sql(self) -> str:
        """The expression as SQL."""
        return str(self.handle.get().sql())

    def holds(self, name: str) -> bool:
        """Whether it is or has an operand of this class, plans in expressions left aside."""
        return self.name == name or any(child.holds(name) for child in self.children)

    def _value(self, told: Any) -> Any:
        if not isinstance(told, list):
            return told
        match told:
            case ["n", position]:
                return self._nodes[position]
            case ["l", elements]:
                return [self._value(element) for element in elements]
            case ["s", elements]:
                return Unordered(self._value(element) for element in elements)
            case ["o"]:
                return _MISSING
            case ["o", value]:
                return Some(self._value(value))
            case [mark, text]:
                return _READ[mark](text)
        raise AssertionError(told)


_READ: dict[str, Callable[[str], Any]] = {"t": Text, "u": str, "d": float, "D": Decimal, "b": base64.b64decode}


@dataclass(frozen=True, eq=False, slots=True)
class Awaited:
    """A handle of a query that was lifted by an earlier process: ``handles`` asks Spark for all of them, in the order of then."""

    handles: Callable[[], Sequence[object]]
    position: int

    def get(self) -> JavaObject:
        """The object."""
        return jvm_object(self._handle())

    def later(self) -> Later:
        """The object, when it is needed."""
        return object_later(self._handle())

    def _handle(self) -> object:
        return self.handles()[self.position]


def jvm_object(handle: object) -> JavaObject:
    """The object of a handle on a lifted expression."""
    assert isinstance(handle, Handle | Awaited)
    return handle.get()


def object_later(handle: object) -> Later:
    """The same, when it is needed."""
    assert isinstance(handle, Handle | Awaited)
    return handle.later()


class Tree:
    """The nodes of some plans of one session. The same object of the JVM is the same node."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._tree = compiled(spark, "Tree").make(MARKER, "\n".join(_IGNORED), gateway.java_gateway_server)
        self._nodes: list[Node] = []
        self._forms: list[Form] = []
        self._types: list[str] = []

    def node(self, plan: JavaObject) -> Node:
        """The node of a plan."""
        return self._told(self._tree.add(plan))[0]

    def output(self, operator: Node) -> list[Node]:
        """The attributes that an operator gives."""
        return self._told(self._tree.output(operator.handle.position))

    def _told(self, text: str) -> list[Node]:
        told = json.loads(text)
        self._forms += [_form(*form) for form in told["forms"]]
        self._types += told["types"]
        for form, type, children, arguments, more in told["nodes"]:
            self._nodes.append(
                Node(
                    self._forms[form],
                    Handle(self._tree, len(self._nodes)),
                    [self._nodes[i] for i in children],
                    more.get("id", -1),
                    more.get("name", ""),
                    self._types[type] if type >= 0 else "",
                    arguments,
                    more,
                    self._nodes,
                )
            )
        return [self._nodes[i] for i in told["at"]]


def _form(kind: str, traits: list[str], arguments: list[tuple[str, bool]]) -> Form:
    detail = tuple(name for name, is_detail in arguments if is_detail)
    return Form(simple_name(kind), frozenset(traits), {name: i for i, (name, _) in enumerate(arguments)}, detail)
