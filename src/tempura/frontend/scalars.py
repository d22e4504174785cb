"""Catalyst expressions as :data:`~tempura.algebra.scalar.Expr` trees.

A call keeps its class, type, children, and in ``detail`` *every* constructor argument of the Catalyst class that is not
a child: found by reflection once per class, so that two expressions that differ in anything (evaluation mode, escape
character, values of a list, format) have different trees, whatever the class.
"""

from collections.abc import Callable, Mapping

from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref
from tempura.frontend.literals import NoPythonValueError, python_value
from tempura.frontend.tree import Node, Some, Text, Unordered
from tempura.frontend.udf import USER_DEFINED, user_function
from tempura.frontend.unliftable import NotLiftableError

Scope = Mapping[int, Column]
"""Columns by the id of Catalyst's expression id, which scalar sub-queries have, too."""

Hooks = Mapping[str, Callable[[Node], Expr]]
"""What expressions of some classes become, by simple name: aggregates in an aggregation, window functions in a window."""

_NO_HOOKS: Hooks = {}

_MODES = ("evalMode", "evalContext")

_REFUSED = {
    "OuterReference": ("CORRELATED", "a correlated sub-query is left"),
    "WindowExpression": ("WINDOW", "a window function"),
    "AggregateExpression": ("MISPLACED_AGGREGATE", "an aggregate outside of an aggregation"),
}
_REFUSED_TRAITS = {
    "PlanExpression": ("SUBQUERY", "a sub-query inside an expression"),
    "UserDefinedExpression": ("UDF", "a user-defined function that is not one of a row's values"),
    "Generator": ("GENERATE", "a function that returns several rows"),
}


def refuse(node: Node, whole: Node) -> None:
    """Raise NotLiftableError for an expression, a part of ``whole``, that no relation can compute from a row's values."""
    why = _REFUSED.get(node.name)
    if why is None and node.name not in USER_DEFINED:
        why = next((said for trait, said in _REFUSED_TRAITS.items() if trait in node.form.traits), None)
    if why:
        raise NotLiftableError(why[0], f"{why[1]}: {whole.sql()}")


class ScalarLifter:
    """Lifts expressions of one plan."""

    def __init__(self) -> None:
        self._variables: dict[int, int] = {}

    def lift(self, node: Node, scope: Scope, hooks: Hooks = _NO_HOOKS) -> Expr:
        """The tree of an expression whose attributes are in ``scope``. Raises NotLiftableError."""
        self._variables = {}
        return self._lift(node, scope, hooks)

    def operands(self, node: Node, scope: Scope) -> tuple[Expr, ...]:
        """The trees of a node's children."""
        return tuple(self.lift(child, scope) for child in node.children)

    def _lift(self, node: Node, scope: Scope, hooks: Hooks) -> Expr:
        if node.name in hooks:
            return hooks[node.name](node)
        if node.name == "ScalarSubquery" and node.id in scope:
            return Ref(_column(node, scope))
        refuse(node, node)
        match node.name:
            case "AttributeReference":
                return Ref(_column(node, scope))
            case "Alias":
                return self._lift(node.child, scope, hooks)
            case "Literal":
                return _literal(node)
        operands = tuple(self._lift(child, scope, hooks) for child in node.children)
        type = "boolean" if "Predicate" in node.form.traits else node.type
        return Call(node.name, operands, type, self.detail(node), handle=node.handle)

    def detail(self, node: Node) -> str:
        """Everything that distinguishes a node from others of its class with the same children and type."""
        match node.name:
            case "Cast":
                zone = node.known("zone")
                return mode_of(node["evalMode"]) + (f";{zone}" if zone else "")
            case "NamedLambdaVariable":
                return f"v{self._variables.setdefault(node.id, len(self._variables))}"
        if node.name in USER_DEFINED:
            return user_function(node.handle.get())
        return ",".join(_argument(name, node[name]) for name in node.form.detail)

    def mode(self, node: Node) -> str:
        """``ansi``, ``legacy`` or ``try``: how an aggregate computes, which it keeps under another name in each version."""
        modes = (mode_of(node[name]) for name in node.form.detail if name in _MODES)
        return next(modes).split()[0]


def _column(node: Node, scope: Scope) -> Column:
    try:
        return scope[node.id]
    except KeyError:
        raise NotLiftableError("HIDDEN_COLUMN", f"a column that no table of the query has: {node.sql()}") from None


def _literal(node: Node) -> Expr:
    internal = node["value"]
    try:
        return Literal(python_value(internal, node.type), node.type)
    except NoPythonValueError:
        literal = node.handle.get()
        text = str(literal.toString())
        # Bytes that are no UTF-8 all look alike.
        which = internal.hex() if isinstance(internal, bytes) else str(literal.hashCode()) if "\ufffd" in text else ""
        return Call("Literal", (), node.type, text + which, handle=node.handle)


# --- texts of constructor arguments -----------------------------------------------------------------------------------


def _argument(name: str, value: object) -> str:
    if name in _MODES and isinstance(value, Text):
        return mode_of(value)
    return f"{name}={_text(value)}"


def mode_of(value: Text) -> str:
    """``ansi``, ``legacy`` or ``try``; with a mark for arithmetic that may not lose digits of the scale."""
    return value.lower()


def _text(value: object) -> str:
    """A text of a value that is equal for equal values only."""
    match value:
        case Text():
            return str(value)
        case Node():
            return str(value.handle.get().toString())
        case Some(value=inner):
            return f"Some({_text(inner)})"
        case Unordered():
            return f"[{', '.join(sorted(map(_text, value)))}]"
        case list():
            return f"[{', '.join(map(_text, value))}]"
    return repr(value)
