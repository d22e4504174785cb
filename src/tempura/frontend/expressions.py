"""From the algebra's expressions back to Catalyst's, for execution.

``bind`` gives a Catalyst expression, which is made when it is needed (:mod:`~tempura.frontend.later`). In it every column is an
unresolved attribute of a DataFrame's column name; Spark resolves it against the DataFrame that it is applied to. A call with a handle
is the handle with new children, so that whatever the class keeps (evaluation mode, time zone, format, values of a list) stays. Calls
without a handle are those that rules make: the closed list in this module, and Tempura's own ``SumOf`` and ``AverageOf``, which turn
the slots of an aggregation state into the value that Spark's aggregate has.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql.classic.column import Column as ClassicColumn

from tempura.algebra.scalar import AggregateCall, Call, Column, Expr, Literal, Ref
from tempura.algebra.states import decimal_of
from tempura.errors import TempuraError
from tempura.frontend.catalyst import EXPRESSIONS, JavaObject
from tempura.frontend.compiled import compiled_by, ended
from tempura.frontend.java import running_gateway, running_java
from tempura.frontend.later import call, new, seq, static
from tempura.frontend.literals import literal_later, type_later
from tempura.frontend.tree import object_later

NameOf = Callable[[Column], str]
"""The name that a column has in the DataFrame. Any characters: it is quoted here."""

_NARY = frozenset(("Coalesce",))
_FIXED = frozenset((
    "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual",
    "IsNull", "IsNotNull", "If", "Sqrt",
))  # fmt: skip
_ARITHMETIC = frozenset(("Add", "Subtract", "Multiply", "Divide"))

DOUBLE_DIGITS = 11
"""Up to this precision Spark averages decimals in double: its rule DecimalAggregates asks for precision + 4 <= 15."""


def bind(expr: Expr, name_of: NameOf) -> JavaObject:
    """The Catalyst expression of ``expr``. Raises TempuraError NOT_EXECUTABLE for a call that has no handle and is not
    known here."""
    return Binder(name_of).bind(expr)


def bind_aggregate(call: AggregateCall, name_of: NameOf) -> JavaObject:
    """The Catalyst AggregateExpression of ``call``, with its DISTINCT and FILTER; for use in ``DataFrame.agg`` through
    :func:`column`."""
    return Binder(name_of).bind_aggregate(call)


def bind_generator(generator: Call, outer: bool, name_of: NameOf) -> JavaObject:
    """The Catalyst Generator of ``generator``, to be selected through :func:`column` under one name per column. ``outer``: it gives
    a row of NULLs in place of none."""
    binder = Binder(name_of)
    bound = binder.bind(generator)
    return binder.outer(bound) if outer else bound


def column(expression: JavaObject) -> SparkColumn:
    """A PySpark column of a Catalyst expression."""
    return ClassicColumn(static("org.apache.spark.sql.classic.ExpressionUtils", "column", expression))


class Binder:
    """Binds expressions to the columns of one DataFrame."""

    def __init__(self, name_of: NameOf) -> None:
        self._name_of = name_of
        self._jvm = running_java()
        self._types: dict[str, JavaObject] = {}

    def bind(self, expr: Expr) -> JavaObject:
        """See :func:`bind`."""
        match expr:
            case Ref(column=referenced):
                unresolved = "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute"
                return static(unresolved, "quoted", self._name_of(referenced))
            case Literal(value=value, type=type):
                return self.literal(value, type)
            case Call(handle=None):
                return self._made_by_rule(expr)
        return self._over(object_later(expr.handle), expr.operands)

    def bind_aggregate(self, call: AggregateCall) -> JavaObject:
        """See :func:`bind_aggregate`."""
        aggregate = f"{EXPRESSIONS}.aggregate"
        function = self._aggregate_function(call)
        bound = None if call.filter is None else self.bind(call.filter)
        mode = self._jvm.static(f"{aggregate}.Complete$", "MODULE$")
        # A new id: a lifted aggregate may be used twice in one plan, with another filter or other arguments.
        id = static(f"{EXPRESSIONS}.NamedExpression", "newExprId")
        filter = static("scala.Option", "apply", bound)
        return self._new("aggregate.AggregateExpression", function, mode, call.distinct, filter, id)

    def outer(self, generator: JavaObject) -> JavaObject:
        """A generator that gives a row of NULLs in place of none."""
        return self._new("GeneratorOuter", generator)

    def literal(self, value: object, type: str) -> JavaObject:
        """A constant."""
        return literal_later(self._jvm, value, type, self.type(type))

    def type(self, text: str) -> JavaObject:
        """The Spark type of a type text."""
        if text not in self._types:
            self._types[text] = type_later(self._jvm, text)
        return self._types[text]

    # --- building blocks --------------------------------------------------------------------------------------------

    def _new(self, name: str, *arguments: object) -> JavaObject:
        return new(f"{EXPRESSIONS}.{name}", *arguments)

    def _seq(self, expressions: Sequence[JavaObject]) -> JavaObject:
        return seq(*expressions)

    def _over(self, handle: JavaObject, operands: Sequence[Expr]) -> JavaObject:
        """An expression over other operands. One that asks for their types when it is made (PivotFirst) gets them said, by casts that
        change nothing."""
        if not operands:
            return handle
        children = [self.bind(operand) for operand in operands]
        types = ended(operand.type for operand in operands)
        return call(compiled_by(running_gateway(), "Plans"), "over", handle, children, types)

    def _mode(self, mode: str) -> JavaObject:
        """An evaluation mode by name; "" is the session's."""
        modes = f"{EXPRESSIONS}.EvalMode"
        if mode:
            return static(modes, "withName", mode.upper())
        session = self._jvm.static("org.apache.spark.sql.internal.SQLConf", "get")()  # that of now
        return static(modes, "fromSQLConf", session)

    @property
    def _has_contexts(self) -> bool:
        """Whether arithmetic is told its mode in a context: since Spark 4.1."""
        return type(getattr(self._jvm, f"{EXPRESSIONS}.NumericEvalContext")).__name__ == "JavaClass"

    def _arithmetic(self, name: str, left: JavaObject, right: JavaObject, mode: str) -> JavaObject:
        """Arithmetic in a mode; a mode may carry the mark that :func:`~tempura.frontend.scalars.mode_of` writes."""
        plain, _, mark = mode.partition(" ")
        if self._has_contexts:
            context = self._new("NumericEvalContext", self._mode(plain), not mark)
            return self._new(name, left, right, context)
        return self._new(name, left, right, self._mode(plain))  # before Spark 4.1 the mode is an argument by itself

    def cast(self, child: JavaObject, type: str, mode: str = "legacy") -> JavaObject:
        """A cast; the time zone is the session's where one is needed."""
        plain, _, zone = mode.partition(";")
        of_zone = static("scala.Option", "apply", zone or None)
        return self._new("Cast", child, self.type(type), of_zone, self._mode(plain))

    # --- calls without handle ---------------------------------------------------------------------------------------

    def _made_by_rule(self, call: Call) -> JavaObject:
        children = [self.bind(operand) for operand in call.operands]
        name = call.function
        if name in _FIXED:
            return self._new(name, *children)
        if name in _NARY:
            return self._new(name, self._seq(children))
        if name in _ARITHMETIC:
            return self._arithmetic(name, children[0], children[1], call.detail)
        match name:
            case "In":
                return self._new("In", children[0], self._seq(children[1:]))
            case "Cast":
                return self.cast(children[0], call.type, call.detail)
            case "SumOf":
                return self._sum_of(call, children[0], children[1])
            case "AverageOf":
                return self._average_of(call, children[0], children[1])
        raise TempuraError("NOT_EXECUTABLE", f"{call} was made by a rule, and Spark is not told how to compute {name}.")

    def _unless_empty(self, count: JavaObject, value: JavaObject, type: str) -> JavaObject:
        """NULL if ``count`` is 0, else ``value``."""
        none = self._new("EqualTo", count, self.literal(0, "bigint"))
        return self._new("If", none, self.literal(None, type), value)

    def _sum_of(self, call: Call, total: JavaObject, count: JavaObject) -> JavaObject:
        """The total in the declared type. The cast has the overflow behaviour of Spark's SUM: an error (ansi), NULL
        (try, and legacy decimals), or the low 64 bits (legacy bigint)."""
        _, mode = _argument_and_mode(call)
        return self._unless_empty(count, self.cast(total, call.type, mode), call.type)

    def _average_of(self, call: Call, total: JavaObject, count: JavaObject) -> JavaObject:
        argument, mode = _argument_and_mode(call)
        decimal = decimal_of(argument)
        if decimal is None:
            value = self._in_double(total, count)
        elif decimal[0] <= DOUBLE_DIGITS:
            value = self.cast(
                self._scaled_down(self._in_double(self._unscaled(total, decimal[1]), count), decimal[1]), call.type
            )
        else:
            value = self._divided(call, total, count, mode)
        return self._unless_empty(count, value, call.type)

    def _in_double(self, total: JavaObject, count: JavaObject) -> JavaObject:
        return self._arithmetic("Divide", self.cast(total, "double"), self.cast(count, "double"), "legacy")

    def _unscaled(self, total: JavaObject, scale: int) -> JavaObject:
        """``total * 10^scale`` exactly. With 30 digits for a sum of values of at most 11 the product's type keeps all
        digits: it has 32 digits before the point, and the digits that it may drop behind it are zeros."""
        power = self.literal(10**scale, f"decimal({scale + 1},0)")
        return self._arithmetic("Multiply", self.cast(total, f"decimal(30,{scale})"), power, "legacy")

    def _scaled_down(self, average: JavaObject, scale: int) -> JavaObject:
        return self._arithmetic("Divide", average, self.literal(10.0**scale, "double"), "legacy")

    def _divided(self, call: Call, total: JavaObject, count: JavaObject, mode: str) -> JavaObject:
        """Spark's own division of Average.evaluateExpression: dividing at another scale and casting would round
        twice."""
        precision, scale = decimal_of(_argument_and_mode(call)[0]) or (38, 0)
        summed = self.cast(total, f"decimal({min(38, precision + 10)},{scale})", mode)
        rows = self.cast(count, "decimal(20,0)")
        return self._new("DecimalDivideWithOverflowCheck", summed, rows, self.type(call.type), None, mode != "ansi")

    # --- aggregates -------------------------------------------------------------------------------------------------

    def _aggregate_function(self, call: AggregateCall) -> JavaObject:
        if call.handle is not None and call.function != "Count":
            function = object_later(call.handle).aggregateFunction()
            return self._over(function, call.operands)
        children = [self.bind(operand) for operand in call.operands]
        if call.function == "Count":
            return self._new("aggregate.Count", self._seq(children or [self.literal(1, "int")]))
        match call.function:
            case "Min" | "Max":
                return self._new(f"aggregate.{call.function}", children[0])
            case "Sum":
                return self._sum(children[0], call.detail)
            case "Average":
                return self._new("aggregate.Average", children[0], self._mode(call.detail))
        raise TempuraError("NOT_EXECUTABLE", f"{call} was made by a rule, and Spark is not told how to compute it.")

    def _sum(self, child: JavaObject, mode: str) -> JavaObject:
        if self._has_contexts:
            return self._new("aggregate.Sum", child, self._new("NumericEvalContext", self._mode(mode), True))
        return self._new("aggregate.Sum", child, self._mode(mode))


def _argument_and_mode(call: Call) -> tuple[str, str]:
    """The parts of the detail of SumOf and AverageOf."""
    argument, _, mode = call.detail.rpartition(";")
    return argument, mode
