"""How counts and sums of groups are spread, for conditions on them: ``HAVING sum(x) > 300``.

The rows of a group are taken to come as they like (Poisson), and the values that are added to lie evenly between their bounds. Then a sum
has the mean k m and the variance k (s² + m²), for k rows per group on average and values of mean m and variance s²: a compound Poisson sum.
Its shape is not known: what cannot be negative is taken to be log-normal, which leaves more groups far above the mean than a normal
distribution does; what can, to be normal.
"""

from dataclasses import dataclass
from math import inf, log, sqrt
from statistics import NormalDist

from tempura.algebra.scalar import AggregateCall, Call, Column, Expr, Ref
from tempura.cost.conditions import narrowed
from tempura.cost.stats import ColumnStats

ANY = ColumnStats(inf, low=-inf, high=inf)
"""Of a column that may have any number."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of the values of groups: mean, variance, and whether none is negative."""

    mean: float
    variance: float
    is_positive: bool = True

    def below(self, bound: float) -> float:
        """The fraction of groups whose value is less than a bound."""
        if abs(bound) == inf or self.variance <= 0:
            return float(bound > self.mean)
        if not self.is_positive or self.mean <= 0:
            return NormalDist(self.mean, sqrt(self.variance)).cdf(bound)
        if bound <= 0:
            return 0.0
        width = log(1 + self.variance / self.mean**2)
        return NormalDist(log(self.mean) - width / 2, sqrt(width)).cdf(log(bound))

    def within(self, column: Column, condition: Expr) -> float:
        """The fraction of groups whose value, in a column, lies within the bounds of a condition."""
        left = narrowed(ANY, column, condition)
        assert left.low is not None
        assert left.high is not None
        return max(0.0, self.below(left.high) - self.below(left.low))


def spread(call: AggregateCall, rows: float, values: ColumnStats | None) -> Spread | None:
    """The spread of a count, a sum or an average over groups of so many rows on average, of a column of which something is known; None for
    another aggregate, and without bounds of the column."""
    if call.distinct or call.filter is not None:
        return None
    if call.function == "Count":
        return Spread(rows, rows)
    if values is None or values.low is None or values.high is None:
        return None
    mean, variance = (values.low + values.high) / 2, (values.high - values.low) ** 2 / 12
    is_positive = values.low >= 0
    if call.function == "Sum":
        return Spread(rows * mean, rows * (variance + mean**2), is_positive)
    return Spread(mean, variance / max(1.0, rows), is_positive) if call.function == "Average" else None


def summed(call: AggregateCall) -> Ref | None:
    """The column that an aggregate adds up, as it is or as a number of another type."""
    value = call.operands[0] if call.operands else None
    while isinstance(value, Call) and value.function == "Cast":
        (value,) = value.operands
    return value if isinstance(value, Ref) else None
