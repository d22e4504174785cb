"""Scalar expressions as functions of a row, which remember what they gave: a row that is seen again, by another flush
or under other paces, is looked up. What they compute is what the interpreter computes."""

from collections.abc import Callable
from functools import lru_cache
from operator import ge, gt, itemgetter, le, lt
from typing import Any

from tempura.algebra.bag import Row
from tempura.algebra.evaluate_scalar import evaluate
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, conjuncts
from tempura.algebra.states import decimal_of

RowFunction = Callable[[Row], Any]

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "LessThan": lt,
    "LessThanOrEqual": le,
    "GreaterThan": gt,
    "GreaterThanOrEqual": ge,
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint", "date")


@lru_cache(maxsize=4096)
def function_of(expr: Expr, columns: tuple[Column, ...]) -> RowFunction:
    """The value of an expression over rows with these columns. Raises, when it is called, what the interpreter raises."""
    if isinstance(expr, Ref):
        return itemgetter(columns.index(expr.column))
    if isinstance(expr, Literal):
        value = expr.value
        return lambda row: value
    read = sorted({columns.index(column) for column in expr.columns})
    known = tuple(columns[i] for i in read)
    pick: RowFunction = (
        itemgetter(*read) if len(read) > 1 else (lambda row: (row[read[0]],)) if read else lambda row: ()
    )
    remembered: dict[object, object] = {}

    def compute(row: Row) -> object:
        values = pick(row)
        try:
            # By representation: -0.0 and 0.0, 1 and True are equal keys and different values.
            key = values if _is_plain else repr(values)
            return remembered[key]
        except KeyError:
            found = remembered[key] = evaluate(expr, dict(zip(known, values, strict=True)))
            return found

    _is_plain = all(_plain(column.type) for column in known)
    return compute


def forget() -> None:
    """Drop what functions remember: their rows will not come again."""
    function_of.cache_clear()


def _plain(type: str) -> bool:
    """Whether values of a type that are equal keys are the same value."""
    return type in _INTEGERS or type == "string" or type == "boolean" or decimal_of(type) is not None


def test_of(predicate: Expr, columns: tuple[Column, ...]) -> Callable[[Row], bool]:
    """Whether a predicate is TRUE for a row; the parts of a conjunction are looked at in their order, until one is not."""
    tests = [_test(part, columns) for part in conjuncts(predicate)]
    if not tests:
        holds = predicate == Literal(True, "boolean")
        return lambda row: holds
    if len(tests) == 1:
        return tests[0]
    return lambda row: all(test(row) for test in tests)


def _test(part: Expr, columns: tuple[Column, ...]) -> Callable[[Row], bool]:
    if isinstance(part, Call) and part.operands and isinstance(part.operands[0], Ref):
        column = part.operands[0].column
        i = columns.index(column)
        if part.function == "IsNotNull":
            return lambda row: row[i] is not None
        bound = part.operands[-1]
        compare = _COMPARISONS.get(part.function)
        known = column.type in _INTEGERS or decimal_of(column.type) is not None
        if compare and known and isinstance(bound, Literal) and bound.value is not None and bound.type == column.type:
            value = bound.value
            return lambda row: row[i] is not None and compare(row[i], value)
    whole = function_of(part, columns)
    return lambda row: whole(row) is True


def tuple_of(outputs: tuple[Output, ...], columns: tuple[Column, ...]) -> Callable[[Row], Row]:
    """The row that a projection makes of a row."""
    exprs = [output.expr for output in outputs]
    if not exprs:
        return lambda row: ()
    if all(isinstance(expr, Ref) for expr in exprs):
        at = [columns.index(expr.column) for expr in exprs if isinstance(expr, Ref)]
        if at == list(range(len(columns))):
            return lambda row: row
        return itemgetter(*at) if len(at) > 1 else lambda row: (row[at[0]],)
    functions = [function_of(expr, columns) for expr in exprs]
    return lambda row: tuple(function(row) for function in functions)
