"""Catalyst's Window as the algebra's."""

from tempura.algebra.scalar import AggregateCall, Expr
from tempura.algebra.window import CURRENT_ROW, ENDS, OFFSETS, RANKS, Frame, WindowOutput
from tempura.frontend.aggregates import Names, aggregate_call
from tempura.frontend.catalyst import JavaObject, class_of, items
from tempura.frontend.recompute import NotLiftableError
from tempura.frontend.scalars import ScalarLifter, Scope

_ENDS = {"AnyValue": "First"}
_BY_ORDER = ("Rank", "DenseRank", "PercentRank")


def lift_functions(node: JavaObject, scope: Scope, names: Names, scalars: ScalarLifter) -> tuple[WindowOutput, ...]:
    """The functions of a Window. Raises NotLiftableError for those whose value is not a function of the ordered rows."""
    return tuple(_output(alias, scope, names, scalars) for alias in items(node.windowExpressions()))


def _output(alias: JavaObject, scope: Scope, names: Names, scalars: ScalarLifter) -> WindowOutput:
    expression = alias.child() if class_of(alias) == "Alias" else alias
    if class_of(expression) != "WindowExpression":
        raise NotLiftableError("WINDOW", f"an expression around a window function: {alias.sql()}")
    call = _call(expression.windowFunction(), scope, scalars)
    frame = _frame(expression.windowSpec().frameSpecification(), scalars)
    if call.function == "NthValue" and frame.kind == "range" and not frame.is_whole:
        raise NotLiftableError("WINDOW_NTH_VALUE", f"which of several peers comes n-th is not said: {expression.sql()}")
    return WindowOutput(names.column(alias.name(), call.type), call, frame)


def _call(node: JavaObject, scope: Scope, scalars: ScalarLifter) -> AggregateCall:
    if class_of(node) != "AggregateExpression":
        return _function(node, node, None, scope, scalars)
    function = node.aggregateFunction()
    if class_of(function) not in (*ENDS, *_ENDS):
        return aggregate_call(node, scalars, scope)
    filter = scalars.lift(node.filter().get(), scope) if node.filter().isDefined() else None
    return _function(function, node, filter, scope, scalars)


def _function(
    node: JavaObject, handle: JavaObject, filter: Expr | None, scope: Scope, scalars: ScalarLifter
) -> AggregateCall:
    form = scalars.form(node)
    if form.refusal:
        raise NotLiftableError(form.refusal[0], f"{form.refusal[1]}: {node.sql()}")
    name = _ENDS.get(form.name, form.name)
    if name not in RANKS | OFFSETS | ENDS or filter is not None:
        raise NotLiftableError(
            "WINDOW_FUNCTION", f"not known to be a function of the rows and their order: {node.sql()}"
        )
    operands = () if name in _BY_ORDER else scalars.operands(node, scope)
    return AggregateCall(name, operands, node.dataType().catalogString(), False, None, scalars.detail(node), handle)


def _frame(node: JavaObject, scalars: ScalarLifter) -> Frame:
    bounds = (_bound(node.lower(), scalars), _bound(node.upper(), scalars))
    return Frame("rows" if class_of(node.frameType()) == "RowFrame" else "range", *bounds, handle=node)


def _bound(node: JavaObject, scalars: ScalarLifter) -> Expr | None:
    match class_of(node):
        case "UnboundedPreceding" | "UnboundedFollowing":
            return None
        case "CurrentRow":
            return CURRENT_ROW
    return scalars.lift(node, {})
