"""Which expressions may fail: raise an error for some row, where others have a value.

A rule must not evaluate such an expression on a row on which the query does not, else Tempura fails where Spark answers. What a class of
expressions can do follows from its name, its types and its ``detail``, which holds Catalyst's evaluation mode. What is not known to have
a value for every row may fail: casts, arithmetic and division in ANSI mode, access to elements, the user's functions.
"""

import re
from functools import cache, lru_cache

from tempura.algebra.arithmetic import mode_of
from tempura.algebra.generate import Generate
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Filter, Join, Opaque, Project, Rel
from tempura.algebra.scalar import AggregateCall, Call, Column, Expr, Ref, conjuncts
from tempura.algebra.states import decimal_of
from tempura.algebra.window import Window

_TOTAL = frozenset((
    "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "In", "InSet",
    "IsNull", "IsNotNull", "IsNaN", "If", "CaseWhen", "Coalesce", "NullIf", "NaNvl", "Greatest", "Least", "AtLeastNNonNulls",
    "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero", "Literal",
    "StartsWith", "EndsWith", "Contains", "Upper", "Lower", "Length", "OctetLength", "BitLength", "Substring", "StringTrim",
    "StringTrimLeft", "StringTrimRight", "StringReplace", "StringInstr", "Ascii", "InitCap",
    "Year", "Quarter", "Month", "DayOfMonth", "DayOfYear", "DayOfWeek", "WeekDay", "WeekOfYear", "Hour", "Minute", "Second", "DateAdd",
    "DateSub", "DateDiff", "TruncDate", "LastDay",
    "Sqrt", "Cbrt", "Exp", "Log", "Log10", "Log2", "Log1p", "Pow", "Sin", "Cos", "Tan", "Atan", "Atan2", "Signum", "Rint",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Murmur3Hash", "XxHash64",
    "CreateNamedStruct", "GetStructField", "CreateArray", "ArrayContains", "Size", "SortArray", "IsNullOrEmpty",
    "Explode", "PosExplode", "Inline", "Stack", "ReplicateRows",
))  # fmt: skip
"""Functions that have a value, or NULL, whatever their operands are."""

EQUATIONS = ("EqualTo", "EqualNullSafe")
_ARITHMETIC = frozenset(
    ("Add", "Subtract", "Multiply", "Divide", "Remainder", "Pmod", "IntegralDivide", "UnaryMinus", "Abs")
)
_FLOATS = ("float", "double")
_DIGITS = {"boolean": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_NUMBER = re.compile(r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)")


@lru_cache(maxsize=100_000)
def can_fail(expr: Expr) -> bool:
    """Whether an expression may raise an error for some values of its columns."""
    if not isinstance(expr, Call):
        return False
    return _fails_itself(expr) or any(map(can_fail, expr.operands))


def call_can_fail(call: AggregateCall) -> bool:
    """Whether the arguments or the filter of an aggregate may fail for some row. The aggregate itself may fail for a group."""
    return any(map(can_fail, call.arguments))


def fails_on_pairs(on: Expr, left: tuple[Column, ...], right: tuple[Column, ...]) -> bool:
    """Whether a join condition may fail for a pair of rows that the join does not compare. The two sides of an equation between the
    inputs are keys: they are computed for each row of an input, whatever is on the other side."""
    sides = (frozenset(left), frozenset(right))
    return any(can_fail(part) and not _is_key(part, sides) for part in conjuncts(on))


def operator_can_fail(rel: Rel) -> bool:
    """Whether an operator computes something that may fail for a row of its inputs, or may fail itself for one that has two matches."""
    return (isinstance(rel, Join) and rel.kind == "single") or any(map(can_fail, rel.computed))


def condition_can_fail(rel: Rel) -> bool:
    """Whether a condition of a query may fail for a row of a table, or is about a value that may. An engine looks at a condition as soon
    as it has the columns that it is about. Those of aggregates and windows it has late, when no row that was taken out is left."""
    made: dict[Column, Expr] = {}
    late: set[Column] = set()
    conditions: list[Expr] = []
    for node in rel.walk():
        match node:
            case Project():
                made |= {output.column: output.expr for output in node.outputs if output.expr != Ref(output.column)}
            case Aggregate():
                made |= {key.column: key.expr for key in node.keys if key.expr != Ref(key.column)}
                late.update(output.column for output in node.aggregates)
            case Window():
                late.update(output.column for output in node.functions)
            case Filter():
                conditions += conjuncts(node.predicate)
            case Join() | MultiJoin():
                conditions += conjuncts(node.on)
            case Generate():  # that there is something to take apart is a condition
                conditions += node.generator.operands
            case Opaque():
                return True

    @cache
    def fails(column: Column) -> bool:
        return column in made and (can_fail(made[column]) or any(map(fails, made[column].columns)))

    @cache
    def is_late(column: Column) -> bool:
        return column in late or (column in made and any(map(is_late, made[column].columns)))

    def may_be_early(part: Expr) -> bool:
        return (can_fail(part) or any(map(fails, part.columns))) and not any(map(is_late, part.columns))

    return any(map(may_be_early, conditions))


def keys_that_fail(on: Expr, inputs: tuple[tuple[Column, ...], ...]) -> tuple[tuple[Expr, ...], ...]:
    """Per input, the keys of a join condition that may fail."""
    sides = tuple(map(frozenset, inputs))
    parts = [part for part in conjuncts(on) if can_fail(part) and _is_key(part, sides)]
    keys = [key for part in parts if isinstance(part, Call) for key in part.operands if can_fail(key)]
    return tuple(tuple(key for key in keys if key.reads_only(side)) for side in sides)


def _is_key(part: Expr, sides: tuple[frozenset[Column], ...]) -> bool:
    if not isinstance(part, Call) or part.function not in EQUATIONS:
        return False
    read = [
        [i for i, side in enumerate(sides) if operand.columns and operand.reads_only(side)] for operand in part.operands
    ]
    return all(read) and read[0] != read[1]


def _fails_itself(call: Call) -> bool:
    """Whether a function may fail for operands that have values."""
    if call.function in _TOTAL:
        return False
    if call.function == "Concat":
        return call.type.startswith("array")
    if call.function == "Cast":
        return mode_of(call.detail) == "ANSI" and not is_upcast(call.operands[0].type, call.type)
    if call.function not in _ARITHMETIC or not _NUMBER.fullmatch(call.type):
        return True
    if "failOnError=False" in call.detail or mode_of(call.detail) != "ANSI":
        return False
    divides = call.function in ("Divide", "Remainder", "Pmod", "IntegralDivide")
    return divides or not (call.type in _FLOATS or has_room(call))


def is_upcast(source: str, target: str) -> bool:
    """Whether each value of a type has one of another."""
    if source == target or (target == "string" and _NUMBER.fullmatch(source)) or (source, target) == ("date", "string"):
        return True
    before, after = _digits(source), _digits(target)
    if before is None:
        return (source, target) == ("float", "double")
    if target in _FLOATS:
        return True
    if after is None:
        return False
    whole = target in _DIGITS
    return (
        before[1] == 0 and before[0] <= after[0] if whole and source in _DIGITS else not whole and _fits(before, after)
    )


def _fits(before: tuple[int, int], after: tuple[int, int]) -> bool:
    return before[0] - before[1] <= after[0] - after[1] and before[1] <= after[1]


def _digits(type: str) -> tuple[int, int] | None:
    """Digits, and those of them behind the point, of an exact number."""
    return (_DIGITS[type], 0) if type in _DIGITS else decimal_of(type)


def has_room(call: Call) -> bool:
    """Whether the result of decimal arithmetic has all the digits that it may need."""
    sizes = [decimal_of(operand.type) for operand in call.operands]
    result = decimal_of(call.type)
    if result is None or None in sizes:
        return False
    digits = [size for size in sizes if size is not None]
    if len(digits) == 1:
        return _fits(digits[0], result)
    (p, s), (q, t) = digits
    needed = (p + q + 1, s + t) if call.function == "Multiply" else (max(p - s, q - t) + max(s, t) + 1, max(s, t))
    return _fits(needed, result)
