"""Aggregate functions and the slots of aggregation states over the values of one group, from their definitions.

Floats are added, and averaged, without rounding, which comes once at the end; what the order of the rows decides beyond that a die
does (``algebra.die``). With a fixed one merged states are equal to those of one computation, whatever the laws of floating point.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import isfinite, nan, sqrt

from tempura.algebra.arithmetic import Exact, average, exact, fit, mode_of
from tempura.algebra.die import Die, different
from tempura.algebra.scalar import AggregateCall, Column
from tempura.algebra.sql_order import ordering_key
from tempura.algebra.states import OF_SAMPLES, Slot, is_rounded, sample_of_one
from tempura.errors import TempuraError

Values = Sequence[tuple[tuple[object, ...], int]]
"""The arguments of an aggregate in the rows of a group, none NULL, with weights."""


def of_values(call: AggregateCall, values: Values, die: Die) -> object:
    """SUM, AVG, MIN, MAX, a variance or a covariance; NULL of no values.

    Raises TempuraError ``NOT_INTERPRETED`` for another function.
    """
    if call.function not in ("Sum", "Average", "Min", "Max") and not is_rounded(call):
        raise TempuraError("NOT_INTERPRETED", f"the interpreter does not know {call}.", "Run it on Spark.")
    if not values:
        return None
    first, mode = [(arguments[0], w) for arguments, w in values], mode_of(call.detail)
    match call.function:
        case "Sum":
            return fit(_rolled(die, call, _total(first)), call.type, mode)
        case "Average":
            total = _rolled(die, call, _total((_addend(call, value), w) for value, w in first))
            return average(total, _number(values), call.operands[0].type, call.type, mode)
        case "Min" | "Max":
            return _extreme(call.function, [value for value, _ in first], die)
    return _spread(call, values)


def _rolled(die: Die, call: AggregateCall, total: Exact) -> Exact:
    return die.total(total) if is_rounded(call) else total


def _addend(call: AggregateCall, value: object) -> object:
    """What Spark adds for an AVG: doubles in place of 64-bit integers."""
    return float(exact(value)) if call.operands[0].type == "bigint" else value


def _number(values: Values) -> int:
    return sum(w for _, w in values)


def _total(values: Iterable[tuple[object, int]]) -> Exact:
    """The sum."""
    numbers = [(_real(value), w) for value, w in values]
    if all(isfinite(number) for number, _ in numbers):
        return sum(number * w for number, w in numbers)
    return sum(float(number) for number, w in numbers if w)


def _real(value: object) -> Exact:
    """A number without rounding; infinities and NaN remain floats."""
    number = exact(value)
    return Fraction(number) if isinstance(number, float) and isfinite(number) else number


def _mean(values: Iterable[tuple[object, int]], number: int) -> Exact:
    total = _total(values)
    return Fraction(total) / number if isfinite(total) else total


def _moment(values: Values, number: int) -> Exact:
    """The sum of the products of the distances of both arguments from their means."""
    pairs = [(_real(arguments[0]), _real(arguments[-1]), w) for arguments, w in values]
    x, y = (_mean([(pair[i], pair[2]) for pair in pairs], number) for i in (0, 1))
    if not (isfinite(x) and isfinite(y)):
        return nan
    return sum((a - x) * (b - y) * w for a, b, w in pairs)


def _spread(call: AggregateCall, values: Values) -> object:
    """A variance, standard deviation or covariance."""
    number = _number(values)
    sample = call.function in OF_SAMPLES
    if sample and number == 1:
        return sample_of_one(call)
    spread = float(_moment(values, number)) / (number - 1 if sample else number)
    return sqrt(spread) if call.function in ("StddevPop", "StddevSamp") else spread


def _extreme(which: str, values: Iterable[object], die: Die) -> object:
    """The least or greatest value by SQL; of equal ones (-0.0 and 0.0) any. NULL of none."""
    pick = min if which.lower() == "min" else max
    present = [value for value in values if value is not None]
    if not present:
        return None
    found = ordering_key(pick(present, key=ordering_key))
    return die.pick(different([value for value in present if ordering_key(value) == found]))


# --- functions with several right answers -----------------------------------------------------------------------------

PICKS = frozenset(("First", "Last", "AnyValue", "MinBy", "MaxBy", "Mode", "CollectList"))
"""Functions of one group of rows whose value the order of these rows decides."""


def picked(call: AggregateCall, rows: Values, die: Die) -> object:
    """FIRST, LAST, ANY_VALUE, MIN_BY, MAX_BY, MODE or a collected list, of rows whose arguments may be NULL; NULL of no rows."""
    if call.function in ("MinBy", "MaxBy"):
        rows = [(values, w) for values, w in rows if values[1] is not None]
    elif call.function in ("Mode", "CollectList") or "ignoreNulls=True" in call.detail:
        rows = [(values, w) for values, w in rows if values[0] is not None]
    if call.function == "CollectList":
        return _shuffled([values[0] for values, w in rows for _ in range(w)], die)
    best = _best(call.function, rows)
    return die.pick(different([values[0] for values, _ in best])) if best else None


def _best(function: str, rows: Values) -> Values:
    """The rows of which any may be the one that counts."""
    if function not in ("MinBy", "MaxBy", "Mode") or not rows:
        return rows
    if function == "Mode":
        numbers = [
            sum(w for other, w in rows if ordering_key(other[0]) == ordering_key(values[0])) for values, _ in rows
        ]
        return [row for row, number in zip(rows, numbers, strict=True) if number == max(numbers)]
    pick = min if function == "MinBy" else max
    found = pick(ordering_key(values[1]) for values, _ in rows)
    return [row for row in rows if ordering_key(row[0][1]) == found]


def _shuffled(values: list[object], die: Die) -> list[object]:
    left, made = sorted(values, key=repr), []
    while left:
        made.append(left.pop(die.pick(range(len(left)))))
    return made


# --- slots of states --------------------------------------------------------------------------------------------------


def slot_of(slot: Slot, values: Values, die: Die) -> object:
    """A slot over the rows of a group, of which ``values`` are the arguments."""
    first, number = [(arguments[0], w) for arguments, w in values if arguments], _number(values)
    match slot.kind:
        case "total":
            return _kept(slot, _total(first), die)
        case "min" | "max":
            return _extreme(slot.kind, [value for value, _ in first], die)
        case "mean":
            return _kept(slot, _mean(first, number) if number else 0, die)
        case "moment":
            return _kept(slot, _moment(values, number) if number else 0, die)
        case _:
            return number


def merged_slots(slots: Sequence[Slot], rows: Sequence[Sequence[object]], die: Die) -> tuple[object, ...]:
    """The slots of a group whose rows lie in several states."""
    merged = tuple(rows[0])
    for row in rows[1:]:
        ours, theirs = (dict(zip((slot.column for slot in slots), side, strict=True)) for side in (merged, row))
        merged = tuple(_merged(slot, ours, theirs, die) for slot in slots)
    return merged


def _merged(slot: Slot, ours: Mapping[Column, object], theirs: Mapping[Column, object], die: Die) -> object:
    values = [side[slot.column] for side in (ours, theirs)]
    if slot.kind in ("min", "max"):
        return _extreme(slot.kind, values, die)
    if not slot.of:
        return _kept(slot, sum(map(exact, values)), die)
    sides = [[exact(side[column]) for column in (slot.column, *slot.of)] for side in (ours, theirs)]
    present = [side for side in sides if side[1]]
    if len(present) < 2:
        return present[0][0] if present else values[0]
    return _kept(slot, _means_merged(*present) if slot.kind == "mean" else _moments_merged(*present), die)


def _means_merged(ours: list[Exact], theirs: list[Exact]) -> Exact:
    (a, n), (b, m) = ours, theirs
    return _mean([(a, int(n)), (b, int(m))], int(n + m))


def _moments_merged(ours: list[Exact], theirs: list[Exact]) -> Exact:
    """Chan, Golub and LeVeque's update."""
    (a, n, *means), (b, m, *others) = ours, theirs
    if not all(map(isfinite, (a, b, *means, *others))):
        return nan
    (x, y), (v, w) = means, others
    return a + b + (v - x) * (w - y) * Fraction(int(n) * int(m), int(n + m))


def _kept(slot: Slot, number: Exact, die: Die) -> object:
    """A number in the type of its slot; one of floats is rounded where it is used, and where the die rounds it."""
    if slot.column.type != "double":
        return fit(number, slot.column.type, "ANSI")
    return die.total(Fraction(number)) if isfinite(number) else number
