"""What a condition says of the columns that it reads: which it makes equal, how few values it leaves, between which bounds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from tempura.algebra.rel import Join
from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref, conjuncts
from tempura.cost.stats import ColumnStats, number, spelled

EQUALITIES = ("EqualTo", "EqualNullSafe")
COMPARISONS = ("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")


def split_equalities(join: Join, null_aware: bool = False) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """The parts of a join's condition: pairs of expressions (over left, over right) that are equated, and the others. ``null_aware``: an
    equality that NULL passes, too, counts as one."""
    pairs, rest = [], []
    left, right = (side.column_set for side in join.inputs)
    for part in conjuncts(join.on):
        equality = _equality(part, null_aware)
        sides = _sides(equality, left, right) if equality else None
        if sides:
            pairs.append(sides)
        else:
            rest.append(part)
    return pairs, rest


def _equality(part: Expr, null_aware: bool) -> Call | None:
    """The equality that a condition is, or that it is but for NULLs: a = b OR (a = b) IS NULL, which NOT IN asks."""
    if null_aware and isinstance(part, Call) and part.function == "Or":
        either, other = part.operands
        part = either if isinstance(other, Call) and (other.function, other.operands) == ("IsNull", (either,)) else part
    return part if isinstance(part, Call) and part.function in EQUALITIES else None


def _sides(equality: Call, left: frozenset[Column], right: frozenset[Column]) -> tuple[Expr, Expr] | None:
    for a, b in (equality.operands, equality.operands[::-1]):
        if a.columns <= left and b.columns <= right:
            return a, b
    return None


def equated_with(column: Column, predicate: Expr) -> Iterator[Column]:
    """The columns that a predicate says are equal to a column."""
    for part in conjuncts(predicate):
        if isinstance(part, Call) and part.function in EQUALITIES:
            columns = [arg.column for arg in part.operands if isinstance(arg, Ref)]
            yield from (other for other in columns if column in columns and other != column)


def values_left(column: Column, predicate: Expr) -> int | None:
    """How many values a predicate leaves of a column that it compares with constants; None when it does not."""
    counts = [n for part in conjuncts(predicate) if isinstance(part, Call) and (n := _listed(part, column))]
    return min(counts, default=None)


def _listed(part: Call, column: Column) -> int | None:
    if found := constants(part):
        return len(_once(found[1])) if found[0] == Ref(column) else None
    return listed_values(part) if part.function in ("In", "InSet") and part.operands[0] == Ref(column) else None


def listed_values(part: Call) -> int:
    """How many values an IN list holds: as operands, or as text when it is long."""
    return max(len(part.operands) - 1, part.detail.count(",") + 1)


_RESULTS = {
    "Month": 12,
    "Quarter": 4,
    "DayOfMonth": 31,
    "DayOfWeek": 7,
    "WeekDay": 7,
    "WeekOfYear": 53,
    "Hour": 24,
    "Minute": 60,
}


def results(call: Call) -> float:
    """How many results a function has, whatever its arguments; infinite when that says nothing. A text of n characters is taken for one of
    ten to the n codes."""
    length = call.operands[2] if call.function == "Substring" and len(call.operands) == 3 else None
    if isinstance(length, Literal) and isinstance(length.value, int):
        return 10.0 ** max(0, min(length.value, 20))
    return float(_RESULTS.get(call.function, inf))


def compared_with_number(part: Expr) -> tuple[Expr, float, bool] | None:
    """A comparison of an expression with a constant that is a number in the order of its type: the expression, that number, and whether
    the expression is below."""
    if not isinstance(part, Call) or part.function not in COMPARISONS:
        return None
    left, right = part.operands
    below = part.function.startswith("Less")
    if isinstance(left, Literal):
        left, right, below = right, left, not below
    bound = number(right.value) if isinstance(right, Literal) else None
    return (left, bound, below) if bound is not None else None


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def compared_columns(part: Call) -> tuple[Column, Column] | None:
    """The two columns that a comparison compares, that which is to be below first; None when it compares something else."""
    left, right = map(_as_column, part.operands)
    if part.function not in COMPARISONS or left is None or right is None:
        return None
    return (left, right) if part.function.startswith("Less") else (right, left)


def kept_apart(part: Expr) -> tuple[Column, Column] | None:
    """The two columns that a condition says to differ; None for any other condition."""
    if not (isinstance(part, Call) and part.function == "Not"):
        return None
    (equality,) = part.operands
    if not (isinstance(equality, Call) and equality.function in EQUALITIES):
        return None
    a, b = equality.operands
    return (a.column, b.column) if isinstance(a, Ref) and isinstance(b, Ref) else None


def _as_column(expr: Expr) -> Column | None:
    """The column that a value is, as it is or as a number of another type."""
    if isinstance(expr, Call) and expr.function == "Cast" and _is_number(expr.type):
        (expr,) = expr.operands
        return expr.column if isinstance(expr, Ref) and _is_number(expr.type) else None
    return expr.column if isinstance(expr, Ref) else None


def _is_number(type: str) -> bool:
    return type in _NUMBERS or type.startswith("decimal")


def share_below(below: ColumnStats, above: ColumnStats) -> float | None:
    """The fraction of pairs of values of two columns of which the first is less, as if values lay evenly between bounds and the columns had
    nothing to do with each other; None where bounds are not known."""
    if below.low is None or below.high is None or above.low is None or above.high is None:
        return None
    low, high = below.low, below.high
    if above.low == above.high:
        found = (above.low - low) / (high - low) if high > low else float(low < above.low)
    else:
        found = (_area(above.high, low, high) - _area(above.low, low, high)) / (above.high - above.low)
    return min(1.0, max(_FEW, found))


_FEW = 0.01
"""The least share of pairs: bounds are those of what has arrived, and values seldom lie evenly."""


def _area(value: float, low: float, high: float) -> float:
    """The area, up to a value, below the share of values between two bounds that are less."""
    inside = min(max(value, low), high) - low
    return (inside**2 / (2 * (high - low)) if high > low else 0.0) + max(0.0, value - high)


def constants(part: Call) -> tuple[Expr, list[object]] | None:
    """The expression that a condition compares with constants for equality, and these; None when it does not, or where they are text."""
    if part.function == "Or":
        return _of_either([constants(arg) if isinstance(arg, Call) else None for arg in part.operands])
    if part.function in EQUALITIES:
        left, right = part.operands
        subject, listed = (right, [left]) if isinstance(left, Literal) else (left, [right])
    elif part.function in ("In", "InSet") and len(part.operands) > 1:
        subject, listed = part.operands[0], list(part.operands[1:])
    else:
        return None
    values = [arg.value for arg in listed if isinstance(arg, Literal)]
    return (subject, list(values)) if len(values) == len(listed) and not isinstance(subject, Literal) else None


def _of_either(found: Sequence[tuple[Expr, list[object]] | None]) -> tuple[Expr, list[object]] | None:
    """The same of either of some conditions, where all compare one expression."""
    known = [one for one in found if one]
    same = len(known) == len(found) and len({subject for subject, _ in known}) == 1
    return (known[0][0], [value for _, values in known for value in values]) if same else None


def values_in_all(lists: Sequence[list[object]], bounds: Iterable[Expr]) -> list[object]:
    """The values that are in all of some lists and between all of some bounds, which are comparisons with numbers."""
    first, *others = lists
    kept = [value for value in _once(first) if all(value in other for other in others)]
    return [value for value in kept if all(_is_within(value, part) for part in bounds)]


def _once(values: Iterable[object]) -> list[object]:
    """Each value once; those of an array have no hash."""
    found: list[object] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _is_within(value: object, comparison: Expr) -> bool:
    found, this = compared_with_number(comparison), number(value)
    if found is None or this is None:
        return True
    _, bound, below = found
    assert isinstance(comparison, Call)
    return (this < bound) == below if this != bound else comparison.function.endswith("OrEqual")


def share_of_values(stats: ColumnStats, values: Iterable[object]) -> float | None:
    """The fraction of rows that have one of some values; None when nothing is known of frequencies. NULL is equal to nothing."""
    found = [stats.share(value) for value in _once(values) if value is not None]
    known = [share for share in found if share is not None]
    return min(1.0, sum(known)) if len(known) == len(found) else None


def narrowed(stats: ColumnStats, column: Column, predicate: Expr) -> ColumnStats:
    """Statistics of a column where a predicate holds: its bounds, where it has any, and of frequent values those that it names."""
    return _within(_named(stats, column, predicate), column, predicate)


def _named(stats: ColumnStats, column: Column, predicate: Expr) -> ColumnStats:
    if not stats.frequent:
        return stats
    frequent = stats.frequent
    parts = [part for part in conjuncts(predicate) if isinstance(part, Call)]
    listed = [found[1] for part in parts if (found := constants(part)) and found[0] == Ref(column)]
    if listed:
        values = values_in_all(listed, ())
        shares = {name: stats.share(value) or 0.0 for value in values if (name := spelled(value)) is not None}
        whole = sum(shares.values())
        frequent = {name: share / whole for name, share in shares.items()} if whole else {}
    elif any(part.function in COMPARISONS and Ref(column) in part.operands for part in parts):
        # How often others occur is not known of what is left.
        frequent = {}
    return replace(stats, frequent=frequent)


def _within(stats: ColumnStats, column: Column, predicate: Expr) -> ColumnStats:
    if stats.low is None or stats.high is None:
        return stats
    low, high = stats.low, stats.high
    for part in conjuncts(predicate):
        found = compared_with_number(part)
        if found and found[0] == Ref(column):
            _, bound, below = found
            low, high = (low, max(low, min(high, bound))) if below else (min(high, max(low, bound)), high)
    return replace(stats, low=low, high=high)


def within_bounds(stats: ColumnStats, column: Column, predicate: Expr) -> float:
    """The fraction of a column's values that lie within the bounds of a predicate; at least one does."""
    left = narrowed(stats, column, predicate)
    if left.low is None or left.high is None or stats.low is None or stats.high is None:
        return 1.0
    return _share(left.high - left.low, stats.high - stats.low, stats.distinct)


def shares(left: ColumnStats | None, right: ColumnStats | None) -> tuple[float, float]:
    """The fractions of two columns' values that lie where the ranges of both do; all of them where a range is not known."""
    if left is None or right is None:
        return 1.0, 1.0
    if left.low is None or left.high is None or right.low is None or right.high is None:
        return 1.0, 1.0
    common = min(left.high, right.high) - max(left.low, right.low)
    return _share(common, left.high - left.low, left.distinct), _share(common, right.high - right.low, right.distinct)


def _share(common: float, width: float, distinct: float) -> float:
    """What is expected to arrive may lie elsewhere: at least one value is taken to match."""
    return min(1.0, max(common / width if width > 0 else 1.0, 1 / max(1.0, distinct)))
