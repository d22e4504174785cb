"""Random aggregates of values that read several sides of a join: products, differences and choices."""

from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Expr, Ref
from tempura.algebra.states import decimal_of
from tempura.laws.scalars import Scalars

Sides = list[tuple[Column, ...]]
"""The columns of the relations that are joined."""


def aggregates(maker: Scalars, sides: Sides, prefix: str = "a") -> tuple[AggregateOutput, ...]:
    """One to three aggregates, most of them of a mixture."""
    everything = sum(sides, ())
    calls = [
        aggregate(maker, sides) if maker.chance(0.75) else maker.aggregate(everything)
        for _ in range(maker.rng.choice((1, 2, 3)))
    ]
    return tuple(AggregateOutput(Column(f"{prefix}{i}", f"{prefix}{i}", c.type), c) for i, c in enumerate(calls))


def aggregate(maker: Scalars, sides: Sides) -> AggregateCall:
    """COUNT, SUM or AVG of a mixture, some of them of the rows only that satisfy a predicate on one side, or on several."""
    value = mixture(maker, sides)
    function = maker.rng.choice(("Count", "Sum", "Sum", "Average")) if _is_number(value) else "Count"
    filter = maker.predicate(maker.rng.choice((*sides, sum(sides, ())))) if maker.chance(0.3) else None
    return AggregateCall(function, (value,), _result(function, value.type), False, filter, "ANSI")


def _is_number(value: Expr) -> bool:
    return value.type == "int" or decimal_of(value.type) is not None


def _result(function: str, type: str) -> str:
    if function == "Count":
        return "bigint"
    digits = decimal_of(type)
    if digits is None:
        return "bigint" if function == "Sum" else "double"
    more, scale = (10, digits[1]) if function == "Sum" else (4, digits[1] + 4)
    return f"decimal({min(38, digits[0] + more)},{scale})"


def mixture(maker: Scalars, sides: Sides) -> Expr:
    """A value of a joined row: a choice between two by a third, or a product or difference of two, which may be mixtures as well."""
    first, second = maker.rng.sample(sides, 2)
    if maker.chance(0.4):
        return _choice(maker, first, second)
    numbers = [[Ref(c) for c in side if decimal_of(c.type)] for side in (first, second)]
    if not all(numbers):
        return _choice(maker, first, second)
    left, right = map(maker.rng.choice, numbers)
    made = _arithmetic(maker.rng.choice(("Multiply", "Multiply", "Subtract", "Add")), left, right)
    if maker.chance(0.3) and (_digits(made)[0] < 25):
        made = _arithmetic(maker.rng.choice(("Subtract", "Add")), made, maker.rng.choice((left, right)))
    return Call("UnaryMinus", (made,), made.type, "ANSI") if maker.chance(0.1) else made


def _choice(maker: Scalars, first: tuple[Column, ...], second: tuple[Column, ...]) -> Expr:
    value = maker.rng.choice(first)
    others: list[Expr] = [Ref(column) for column in second if column.type == value.type]
    if value.type == "int":
        others.append(Call("UnaryMinus", (Ref(value),), "int", "legacy"))
    otherwise = maker.rng.choice([*others, maker.literal(value.type)])
    test = maker.predicate(maker.rng.choice((first, second, second)))
    if maker.chance(0.3):
        again = maker.predicate(second)
        return Call("CaseWhen", (test, Ref(value), again, otherwise), value.type)
    return Call("If", (test, Ref(value), otherwise), value.type)


def _arithmetic(function: str, left: Expr, right: Expr) -> Call:
    """Decimal arithmetic in Spark's type for it, where that has room."""
    (p, s), (q, t) = _digits(left), _digits(right)
    whole, scale = max(p - s, q - t), max(s, t)
    precision, digits = (p + q + 1, s + t) if function == "Multiply" else (whole + scale + 1, scale)
    return Call(function, (left, right), f"decimal({precision},{digits})", "ANSI")


def _digits(number: Expr) -> tuple[int, int]:
    digits = decimal_of(number.type)
    assert digits, "a decimal"
    return digits
