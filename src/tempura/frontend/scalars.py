"""Catalyst expressions as :data:`~tempura.algebra.scalar.Expr` trees.

A call keeps its class, type, children, and in ``detail`` *every* constructor argument of the Catalyst class that is not
a child: found by reflection once per class, so that two expressions that differ in anything (evaluation mode, escape
character, values of a list, format) have different trees, whatever the class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref
from tempura.frontend.catalyst import EXPRESSIONS, JavaObject, items, simple_name
from tempura.frontend.literals import NoPythonValueError, python_value
from tempura.frontend.udf import USER_DEFINED, user_function
from tempura.frontend.unliftable import NotLiftableError

Scope = Mapping[int, Column]
"""Columns by the id of Catalyst's expression id, which scalar sub-queries have, too."""

Hooks = Mapping[str, Callable[[JavaObject], Expr]]
"""What expressions of some classes become, by simple name: aggregates in an aggregation, window functions in a window."""

_NO_HOOKS: Hooks = {}

_NOT_DETAIL = frozenset((
    "origin", "context", "queryContext", "exprId", "resultId", "hint", "qualifier", "mutableAggBufferOffset",
    "inputAggBufferOffset", "nonInheritableMetadataKeys",
))  # fmt: skip
"""Constructor arguments that do not change an expression's value: positions in a text, ids, hints, buffers."""

_MODES = ("evalMode", "evalContext")

_REFUSED = {
    "OuterReference": ("CORRELATED", "a correlated sub-query is left"),
    "WindowExpression": ("WINDOW", "a window function"),
    "AggregateExpression": ("MISPLACED_AGGREGATE", "an aggregate outside of an aggregation"),
}
_REFUSED_TRAITS = {
    f"{EXPRESSIONS}.PlanExpression": ("SUBQUERY", "a sub-query inside an expression"),
    f"{EXPRESSIONS}.UserDefinedExpression": ("UDF", "a user-defined function that is not one of a row's values"),
    f"{EXPRESSIONS}.Generator": ("GENERATE", "a function that returns several rows"),
}
_TREES = ("org.apache.spark.sql.catalyst.trees.TreeNode", f"{EXPRESSIONS}.NamedExpression")


@dataclass(frozen=True, slots=True)
class Form:
    """What is known of an expression class: its simple name, the constructor arguments that go into ``detail``
    (position and name), whether it is a predicate, and why it cannot be lifted (code and text)."""

    name: str
    detail: tuple[tuple[int, str], ...]
    predicate: bool
    refusal: tuple[str, str] | None


class ScalarLifter:
    """Lifts expressions of one plan."""

    def __init__(self, jvm: JavaObject) -> None:
        self._jvm = jvm
        self._forms: dict[str, Form] = {}
        self._variables: dict[int, int] = {}
        self._traits: dict[str, JavaObject] = {}

    def lift(self, node: JavaObject, scope: Scope, hooks: Hooks = _NO_HOOKS) -> Expr:
        """The tree of an expression whose attributes are in ``scope``. Raises NotLiftableError."""
        self._variables = {}
        return self._lift(node, scope, hooks)

    def operands(self, node: JavaObject, scope: Scope) -> tuple[Expr, ...]:
        """The trees of a node's children."""
        return tuple(self.lift(child, scope) for child in items(node.children()))

    def _lift(self, node: JavaObject, scope: Scope, hooks: Hooks) -> Expr:
        form = self.form(node)
        if form.name in hooks:
            return hooks[form.name](node)
        if form.name == "ScalarSubquery" and node.exprId().id() in scope:
            return Ref(_column(node, scope))
        if form.refusal:
            raise NotLiftableError(form.refusal[0], f"{form.refusal[1]}: {node.sql()}")
        match form.name:
            case "AttributeReference":
                return Ref(_column(node, scope))
            case "Alias":
                return self._lift(node.child(), scope, hooks)
            case "Literal":
                return _literal(node)
        operands = tuple(self._lift(child, scope, hooks) for child in items(node.children()))
        type = "boolean" if form.predicate else node.dataType().catalogString()
        return Call(form.name, operands, type, self.detail(node), handle=node)

    def detail(self, node: JavaObject) -> str:
        """Everything that distinguishes a node from others of its class with the same children and type."""
        form = self.form(node)
        match form.name:
            case "Cast":
                zone = f";{node.timeZoneId().get()}" if node.needsTimeZone() and node.timeZoneId().isDefined() else ""
                return str(node.evalMode().toString()).lower() + zone
            case "NamedLambdaVariable":
                return f"v{self._variables.setdefault(node.exprId().id(), len(self._variables))}"
        if form.name in USER_DEFINED:
            return user_function(node)
        return ",".join(_argument(name, node.productElement(i)) for i, name in form.detail)

    def mode(self, node: JavaObject) -> str:
        """``ansi``, ``legacy`` or ``try``: how an aggregate computes, which it keeps under another name in each version."""
        modes = (mode_of(node.productElement(i)) for i, name in self.form(node).detail if name in _MODES)
        return next(modes).split()[0]

    # --- classes ----------------------------------------------------------------------------------------------------

    def form(self, node: JavaObject) -> Form:
        """What is known of the node's class."""
        kind = node.getClass()
        name = kind.getName()
        if name not in self._forms:
            self._forms[name] = self._form(node, kind, simple_name(name))
        return self._forms[name]

    def _form(self, node: JavaObject, kind: JavaObject, name: str) -> Form:
        refusal = _REFUSED.get(name)
        if refusal is None and name not in USER_DEFINED:
            refusal = next((why for t, why in _REFUSED_TRAITS.items() if self._is(t, kind)), None)
        names = node.productElementNames()
        found = []
        for i in range(node.productArity()):
            field = names.next()
            if field not in _NOT_DETAIL and not self._holds_tree(_type_of(kind, field)):
                found.append((i, field))
        return Form(name, tuple(found), self._is(f"{EXPRESSIONS}.Predicate", kind), refusal)

    def _holds_tree(self, type: JavaObject) -> bool:
        if type is None:
            return False
        if self._is("java.lang.reflect.ParameterizedType", type.getClass()):
            return any(self._holds_tree(argument) for argument in type.getActualTypeArguments())
        is_class = self._is("java.lang.Class", type.getClass())
        return is_class and any(self._is(tree, type) for tree in _TREES)

    def _is(self, trait: str, kind: JavaObject) -> bool:
        if trait not in self._traits:
            self._traits[trait] = self._jvm.static("org.apache.spark.util.Utils", "classForName")(trait, True, False)
        return bool(self._traits[trait].isAssignableFrom(kind))


def _type_of(kind: JavaObject, field: str) -> JavaObject | None:
    """The generic type of a constructor argument, which a class may leave to the one that it extends; None when it is kept under another
    name."""
    while kind is not None:
        try:
            return kind.getDeclaredField(field).getGenericType()
        except Exception:  # py4j wraps Java's NoSuchFieldException in an untyped error
            kind = kind.getSuperclass()
    return None


def _column(node: JavaObject, scope: Scope) -> Column:
    try:
        return scope[node.exprId().id()]
    except KeyError:
        raise NotLiftableError("HIDDEN_COLUMN", f"a column that no table of the query has: {node.sql()}") from None


def _literal(node: JavaObject) -> Expr:
    type = node.dataType().catalogString()
    try:
        return Literal(python_value(node.value(), type), type)
    except NoPythonValueError:
        return Call("Literal", (), type, str(node.toString()), handle=node)


# --- texts of constructor arguments -----------------------------------------------------------------------------------


def _argument(name: str, value: object) -> str:
    if name in _MODES:
        return mode_of(value)
    return f"{name}={_text(value)}"


def mode_of(value: JavaObject) -> str:
    """``ansi``, ``legacy`` or ``try``; with a mark for arithmetic that may not lose digits of the scale."""
    if hasattr(value, "getClass") and simple_name(value.getClass().getName()) == "NumericEvalContext":
        strict = "" if value.allowDecimalPrecisionLoss() else " strict-scale"
        return str(value.evalMode().toString()).lower() + strict
    return str(value.toString()).lower()


def _text(value: JavaObject) -> str:
    """A text of a value that is equal for equal values only."""
    if not hasattr(value, "getClass"):
        return repr(value)
    name = value.getClass().getName()
    if name == "scala.Some":
        return f"Some({_text(value.get())})"
    if name.startswith("scala.collection"):
        texts = [_text(element) for element in items(value.toSeq())]
        return "[" + ", ".join(sorted(texts) if "Set" in simple_name(name) or ".Set" in name else texts) + "]"
    if name.startswith("org.apache.spark.unsafe.types.UTF8String"):
        return repr(str(value.toString()))
    return str(
        value.catalogString() if name.startswith("org.apache.spark.sql.types.") and _is_type(name) else value.toString()
    )


def _is_type(name: str) -> bool:
    return simple_name(name).endswith("Type")
