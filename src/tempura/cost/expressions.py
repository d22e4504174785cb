"""What it costs Spark to evaluate an expression, in nanoseconds of one core per row: patterns in text, arithmetic of decimals and their
sums are jobs of ``tempura bench operators``, other functions are priced by their likes."""

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from tempura.algebra.scalar import AggregateCall, Call, Expr, Ref, conjuncts
from tempura.algebra.states import decimal_of

_OF_FUNCTIONS = {
    "Like": 600.0,
    "ILike": 900.0,
    "RLike": 300.0,
    "RegExpReplace": 900.0,
    "RegExpExtract": 600.0,
    "Contains": 100.0,
    "PythonUDF": 5_000.0,
    "ScalaUDF": 300.0,
}
_SIMPLE = 1.0
_TEXT = 30.0
_COMPACT_DECIMAL, _LARGE_DECIMAL = 20.0, 70.0
"""Decimals of up to 18 digits are one number; others are objects."""

_CAST_TEXT = 100.0
_LARGE_SUM = 90.0
"""Each sum of decimals beyond 18 digits by group: what is added to is an object."""
_OF_OBJECTS, _OBJECT = 200.0, 80.0
"""A group's buffer with texts or lists is no row of fixed size, for which Spark leaves its hash map, once; and each of them."""
_IN_A_PREFIX = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "float", "double")
"""Keys of these types Spark sorts by a number of eight bytes that it keeps beside each row."""
_BY_ITS_BITS, _BY_TEXT = 0.4, 2.0
"""What rows take to be sorted by one such key, whose bits are sorted, and by keys among which is a text, as part of what they take by two
numbers, by which they are compared."""
_OBJECTS = ("CollectList", "CollectSet", "Mode", "Percentile")


def evaluation(expr: Expr) -> float:
    """Of a scalar expression, with all below it."""
    return sum(_call(part) for part in expr.walk() if isinstance(part, Call))


def is_one_number(keys: Sequence[Expr]) -> bool:
    """Whether keys are one, which Spark sorts, hashes and compares as a number."""
    return len(keys) == 1 and keys[0].type in _IN_A_PREFIX


def sorting(keys: Sequence[Expr]) -> float:
    """How many times as long it takes to sort rows by some keys as by two numbers."""
    if is_one_number(keys):
        return _BY_ITS_BITS
    return _BY_TEXT if any(key.type.startswith(("string", "binary")) for key in keys) else 1.0


def costly_conjuncts(predicate: Expr) -> tuple[Expr, ...]:
    """The parts of a filter that take time: whether a column is NULL is taken to be known where it is read, which was not measured."""
    parts = conjuncts(predicate)
    return tuple(part for part in parts if not (_is_null_test(part) and isinstance(part.operands[0], Ref)))


def _is_null_test(expr: Expr) -> TypeGuard[Call]:
    return isinstance(expr, Call) and expr.function in ("IsNotNull", "IsNull")


def _call(call: Call) -> float:
    if call.function in _OF_FUNCTIONS:
        return _OF_FUNCTIONS[call.function]
    types = {call.type, *(operand.type for operand in call.operands)}
    if call.function == "Cast" and "string" in types and len(types) > 1:
        return _CAST_TEXT
    if call.type == "string":
        return _TEXT
    digits = (decimal_of(call.type) or (0, 0))[0]
    return (_LARGE_DECIMAL if digits > 18 else _COMPACT_DECIMAL) if digits else _SIMPLE


def accumulation(calls: Iterable[AggregateCall], grouped: bool) -> float:
    """Of the aggregate functions of one aggregation: their arguments, and what they do with them."""
    every = tuple(calls)
    own = sum(_arguments(call) + _update(call, grouped) for call in every)
    return own + (_OF_OBJECTS if any(_update(call, grouped) == _OBJECT for call in every) else 0.0)


def _arguments(call: AggregateCall) -> float:
    return sum(map(evaluation, call.operands)) + (evaluation(call.filter) if call.filter else 0.0)


def _update(call: AggregateCall, grouped: bool) -> float:
    if call.function in _OBJECTS:
        return _OBJECT
    type = call.operands[0].type if call.operands else "bigint"
    digits = (decimal_of(type) or (0, 0))[0]
    if grouped and call.function in ("Sum", "Average") and digits and digits + 10 > 18:
        return _LARGE_SUM
    return _OBJECT if grouped and call.function in ("Min", "Max") and (type == "string" or digits > 18) else _SIMPLE
