"""Catalyst's Window as the algebra's."""

from dataclasses import dataclass, field

from tempura.algebra.scalar import AggregateCall, Column, Expr, Ref
from tempura.algebra.window import CURRENT_ROW, ENDS, OFFSETS, RANKS, Frame, WindowOutput
from tempura.frontend.aggregates import Names, aggregate_call
from tempura.frontend.scalars import ScalarLifter, Scope, refuse
from tempura.frontend.tree import Handle, Node
from tempura.frontend.unliftable import NotLiftableError

_ENDS = {"AnyValue": "First"}
_BY_ORDER = ("Rank", "DenseRank", "PercentRank")


@dataclass(slots=True)
class Functions:
    """The functions of a window, found in its result expressions."""

    scope: Scope
    names: Names
    scalars: ScalarLifter
    found: list[WindowOutput] = field(default_factory=list)

    def result(self, alias: Node) -> tuple[str, Expr]:
        """Name and expression of a result column, over the input and the columns of functions."""
        name = alias.label
        return name, self.scalars.lift(alias, self.scope, {"WindowExpression": lambda node: self._function(name, node)})

    def _function(self, name: str, node: Node) -> Expr:
        call = _call(node["windowFunction"], self.scope, self.scalars)
        frame = _frame(node["windowSpec"]["frameSpecification"], self.scalars)
        if call.function == "NthValue" and frame.kind == "range" and not frame.is_whole:
            raise NotLiftableError("WINDOW_NTH_VALUE", f"which of several peers comes n-th is not said: {node.sql()}")
        for known in self.found:
            if (known.call, known.frame) == (call, frame):
                return Ref(known.column)
        self.found.append(WindowOutput(self.names.column(name, call.type), call, frame))
        return Ref(self.found[-1].column)


def lift_functions(
    node: Node, scope: Scope, names: Names, scalars: ScalarLifter
) -> tuple[tuple[WindowOutput, ...], list[tuple[Column, Expr]]]:
    """The functions of a Window, and its result columns with their values, over the input and the functions' columns. Raises
    NotLiftableError for functions whose value is not one of the ordered rows."""
    functions = Functions(scope, names, scalars)
    results = [functions.result(alias) for alias in node.nodes("windowExpressions")]
    return tuple(functions.found), [(_column(names, name, expr, functions.found), expr) for name, expr in results]


def _column(names: Names, name: str, expr: Expr, functions: list[WindowOutput]) -> Column:
    """The column of a result: the function's own where the result is just that, under its name."""
    own = isinstance(expr, Ref) and any(f.column == expr.column and f.column.name == name for f in functions)
    return expr.column if own and isinstance(expr, Ref) else names.column(name, expr.type)


def _call(node: Node, scope: Scope, scalars: ScalarLifter) -> AggregateCall:
    if node.name != "AggregateExpression":
        return _function(node, node.handle, None, scope, scalars)
    function, condition = node["aggregateFunction"], node.optional("filter")
    if function.name not in (*ENDS, *_ENDS):
        return aggregate_call(node, scalars, scope)
    filter = scalars.lift(condition, scope) if condition else None
    return _function(function, node.handle, filter, scope, scalars)


def _function(node: Node, handle: Handle, filter: Expr | None, scope: Scope, scalars: ScalarLifter) -> AggregateCall:
    refuse(node, node)
    name = _ENDS.get(node.name, node.name)
    if name not in RANKS | OFFSETS | ENDS or filter is not None:
        raise NotLiftableError(
            "WINDOW_FUNCTION", f"not known to be a function of the rows and their order: {node.sql()}"
        )
    operands = () if name in _BY_ORDER else scalars.operands(node, scope)
    return AggregateCall(name, operands, node.type, False, None, scalars.detail(node), handle)


def _frame(node: Node, scalars: ScalarLifter) -> Frame:
    bounds = (_bound(node["lower"], scalars), _bound(node["upper"], scalars))
    return Frame("rows" if node["frameType"] == "RowFrame" else "range", *bounds, handle=node.handle)


def _bound(node: Node, scalars: ScalarLifter) -> Expr | None:
    match node.name:
        case "UnboundedPreceding" | "UnboundedFollowing":
            return None
        case "CurrentRow":
            return CURRENT_ROW
    return scalars.lift(node, {})
