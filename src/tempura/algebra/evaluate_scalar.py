"""A slow, obvious interpreter of scalar expressions over Python values: SQL's three-valued logic, Spark's types.

Values are what ``DataFrame.collect`` returns; None is NULL. Only the functions that rules and tests need are known; any
other raises ``NOT_INTERPRETED`` rather than being guessed.
"""

from collections.abc import Callable, Mapping
from math import sqrt

from tempura.algebra.arithmetic import Exact, average, cast, divide, exact, fit, mode_of
from tempura.algebra.evaluate_text import OF_TEXT, year
from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref
from tempura.algebra.sql_order import ordering_key
from tempura.errors import TempuraError

Env = Mapping[Column, object]
"""The values of a row by column."""


def evaluate(expr: Expr, row: Env) -> object:
    """The value of an expression over one row.

    Raises TempuraError ``NOT_INTERPRETED`` for an unknown function, and ``ARITHMETIC_OVERFLOW``, ``DIVIDE_BY_ZERO``,
    ``CAST_INVALID_INPUT`` where Spark in ANSI mode would fail.
    """
    match expr:
        case Ref(column):
            return row[column]
        case Literal(value):
            return value
        case Call(function) if function in _LAZY:
            return _LAZY[function](expr, row)
        case Call(function) if function in _STRICT:
            return _strict(expr, [evaluate(operand, row) for operand in expr.operands])
    raise TempuraError("NOT_INTERPRETED", f"the interpreter does not know {expr}.", "Run it on Spark.")


def is_true(predicate: Expr, row: Env) -> bool:
    """Whether a predicate is TRUE: not FALSE, not NULL."""
    return evaluate(predicate, row) is True


def _strict(call: Call, values: list[object]) -> object:
    return None if any(value is None for value in values) else _STRICT[call.function](call, *values)


# --- functions that decide for themselves what NULL means, and which operands to look at -------------------------------


def _and(call: Call, row: Env) -> object:
    left = evaluate(call.operands[0], row)
    if left is False:
        return False
    right = evaluate(call.operands[1], row)
    return False if right is False else None if left is None or right is None else True


def _or(call: Call, row: Env) -> object:
    left = evaluate(call.operands[0], row)
    if left is True:
        return True
    right = evaluate(call.operands[1], row)
    return True if right is True else None if left is None or right is None else False


def _null_safe(call: Call, row: Env) -> object:
    left, right = (evaluate(operand, row) for operand in call.operands)
    if left is None or right is None:
        return left is right
    return _compare(lambda a, b: a == b)(call, left, right)


def _in(call: Call, row: Env) -> object:
    value, *listed = (evaluate(operand, row) for operand in call.operands)
    if value is None:
        return None
    equal = [None if item is None else _compare(lambda a, b: a == b)(call, value, item) for item in listed]
    return True if True in equal else None if None in equal else False


def _if(call: Call, row: Env) -> object:
    condition, then, otherwise = call.operands
    return evaluate(then if is_true(condition, row) else otherwise, row)


def _case_when(call: Call, row: Env) -> object:
    """Operands are condition, value, condition, value, ... and, if their number is odd, the ELSE value."""
    conditions, values = call.operands[0:-1:2], call.operands[1::2]
    for condition, value in zip(conditions, values, strict=True):
        if is_true(condition, row):
            return evaluate(value, row)
    return evaluate(call.operands[-1], row) if len(call.operands) % 2 else None


def _coalesce(call: Call, row: Env) -> object:
    for operand in call.operands:
        value = evaluate(operand, row)
        if value is not None:
            return value
    return None


def _sum_of(call: Call, row: Env) -> object:
    """The sum from its total and the number of values added; ``detail`` is ``<argument type>;<evaluation mode>``."""
    total, count = (evaluate(operand, row) for operand in call.operands)
    return fit(total, call.type, mode_of(call.detail)) if count else None


def _average_of(call: Call, row: Env) -> object:
    total, count = (evaluate(operand, row) for operand in call.operands)
    argument, _, _ = call.detail.partition(";")
    return average(total, count, argument, call.type, mode_of(call.detail)) if count else None


_LAZY: Mapping[str, Callable[[Call, Env], object]] = {
    "And": _and,
    "Or": _or,
    "EqualNullSafe": _null_safe,
    "In": _in,
    "If": _if,
    "CaseWhen": _case_when,
    "Coalesce": _coalesce,
    "SumOf": _sum_of,
    "AverageOf": _average_of,
    "IsNull": lambda call, row: evaluate(call.operands[0], row) is None,
    "IsNotNull": lambda call, row: evaluate(call.operands[0], row) is not None,
    # Catalyst's hint to its own code generator: no effect on the value.
    "KnownNotNull": lambda call, row: evaluate(call.operands[0], row),
}


# --- functions that are NULL when an operand is ------------------------------------------------------------------------


def _compare(test: Callable[[object, object], bool]) -> Callable[..., object]:
    def compare(call: Call, left: object, right: object) -> object:
        refuse_collation(*(operand.type for operand in call.operands))
        return test(ordering_key(left), ordering_key(right))

    return compare


def refuse_collation(*types: str) -> None:
    """Raise TempuraError ``NOT_INTERPRETED`` for a type whose equality is not that of its values' bits."""
    for type in types:
        if "collate" in type:
            raise TempuraError("NOT_INTERPRETED", f"the interpreter cannot compare {type}.", "Run it on Spark.")


def _arithmetic(operate: Callable[[Exact, Exact], Exact]) -> Callable[..., object]:
    def compute(call: Call, left: object, right: object) -> object:
        return fit(operate(exact(left), exact(right)), call.type, mode_of(call.detail))

    return compute


def _of_text(function: Callable[..., object]) -> Callable[..., object]:
    def compute(call: Call, *values: object) -> object:
        refuse_collation(*(operand.type for operand in call.operands))
        return function(call, *values)

    return compute


_STRICT: Mapping[str, Callable[..., object]] = {
    "Not": lambda call, value: not value,
    "EqualTo": _compare(lambda a, b: a == b),
    "LessThan": _compare(lambda a, b: a < b),  # type: ignore[operator]
    "LessThanOrEqual": _compare(lambda a, b: a <= b),  # type: ignore[operator]
    "GreaterThan": _compare(lambda a, b: a > b),  # type: ignore[operator]
    "GreaterThanOrEqual": _compare(lambda a, b: a >= b),  # type: ignore[operator]
    "Add": _arithmetic(lambda a, b: a + b),
    "Subtract": _arithmetic(lambda a, b: a - b),
    "Multiply": _arithmetic(lambda a, b: a * b),
    "UnaryMinus": lambda call, value: fit(-exact(value), call.type, mode_of(call.detail)),
    "Sqrt": lambda call, value: sqrt(value),
    "Divide": lambda call, left, right: divide(left, right, call.type, mode_of(call.detail)),
    "Cast": lambda call, value: cast(value, call.operands[0].type, call.type, mode_of(call.detail)),
    "Year": year,
    **{name: _of_text(function) for name, function in OF_TEXT.items()},
}
