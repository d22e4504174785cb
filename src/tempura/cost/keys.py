"""The keys of joins: what a condition equates, how many values a key could have, and which part of both sides has keys in common."""

from dataclasses import dataclass
from math import prod

from tempura.algebra.rel import Join, Rel
from tempura.algebra.scalar import Column, Expr, Ref
from tempura.cost.conditions import shares, split_equalities
from tempura.cost.origins import Origins
from tempura.cost.values import DistinctValues


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """What is known of a join's condition: the ``pairs`` that it equates, and the ``rest``; the fractions of both sides' keys, and of both
    sides' rows, that lie where the keys of the other side do; how many keys rows of both sides could have (``possible``)."""

    pairs: list[tuple[Expr, Expr]]
    rest: list[Expr]
    common: tuple[float, float]
    overlap: tuple[float, float]
    possible: float


def _least(shares: list[tuple[float, float]]) -> tuple[float, float]:
    """The smallest shares of two sides; all of them where nothing says that they are fewer."""
    return min([1.0, *(a for a, _ in shares)]), min([1.0, *(b for _, b in shares)])


class JoinKeys:
    """Keys of joins, however many rows are joined. What is known of a condition is remembered."""

    def __init__(self, origins: Origins, values: DistinctValues) -> None:
        self._origins = origins
        self._values = values
        self._conditions: dict[Join, JoinCondition] = {}

    def condition(self, join: Join) -> JoinCondition:
        """What is known of a join's condition: asked for several numbers of rows on both sides."""
        known = self._conditions.get(join)
        if known is None:
            pairs, rest = split_equalities(join, null_aware=True)
            shared = [self._shares(pair, join) for pair in pairs]
            common, overlap = _least(shared), self._overlap(pairs, shared, join)
            found = JoinCondition(pairs, rest, common, overlap, self._possible(pairs, common, join))
            known = self._conditions[join] = found
        return known

    def _possible(self, pairs: list[tuple[Expr, Expr]], common: tuple[float, float], join: Join) -> float:
        """How many keys rows of both sides could have."""
        sides = ([pair[side] for pair in pairs] for side in (0, 1))
        keys = (self._domain(key, rel) * had for key, rel, had in zip(sides, join.inputs, common, strict=True))
        return max([1.0, *keys])

    def _domain(self, key: list[Expr], rel: Rel) -> float:
        """How many values a key could have, in rows that were filtered by something else: a row of the other side has any of them. Its
        columns depend on each other: it has no more values than the tables have rows that they come from."""
        if not key:
            return 1.0
        sources = [self._origins.source_rows(rel, column) for part in key for column in part.columns]
        apart = prod(self._values.domain_of(part, rel) for part in key)
        return min(apart, max([1.0, *sources]), self._origins.together(key, rel)[0])

    def within(self, join: Join, column: Column) -> float:
        """How many values a column could have where the keys of its side lie in the range of the other side's: a calendar has more weeks
        than the years of sales. Rows that have a value in common lie together, or anywhere. Those that a condition leaves of the column
        lie there as far as they can: who asks for two years asks for two with sales."""
        on, side = self.condition(join), 0 if column in join.left.columns else 1
        own, share = join.inputs[side], on.common[side]
        stats, values = self._origins.stats(own, column), self._values.domain(own, column)
        if share >= 1 or any(column in pair[side].columns for pair in on.pairs):
            return values
        rows = max(1.0, self._origins.source_rows(own, column))
        all_values = max(values, stats.distinct) if stats else values
        return min(values, self._values.in_a_stretch(all_values, own, column, rows, share))

    def _shares(self, pair: tuple[Expr, Expr], join: Join) -> tuple[float, float]:
        """The fractions of both sides' keys that lie where the keys of the other side do, by what one pair equates: the dates of sales are
        few of those in a calendar of two centuries. By their ranges; or, of one column of a table, by how many of its values there are on
        each side before anything else is filtered: the fewer are among the others."""
        a, b = pair
        if not isinstance(a, Ref) or not isinstance(b, Ref):
            return 1.0, 1.0
        by_range = shares(self._origins.stats(join.left, a.column), self._origins.stats(join.right, b.column))
        if not self._origins.is_one_column(a.column, b.column, join):
            return by_range
        left, right = self._values.domain_of(a, join.left), self._values.domain_of(b, join.right)
        return min(by_range[0], right / left, 1.0), min(by_range[1], left / right, 1.0)

    def _overlap(
        self, pairs: list[tuple[Expr, Expr]], shared: list[tuple[float, float]], join: Join
    ) -> tuple[float, float]:
        """The fractions of the rows of both sides whose keys lie there. What a condition on something else leaves of a side is taken to
        lie there as far as it can: who asks for the days of a year asks for one with sales."""
        thinned = ((self._thinned(join.left, a), self._thinned(join.right, b)) for a, b in pairs)
        both = zip(shared, thinned, strict=True)
        return _least([(own * left, other * right) for (own, other), (left, right) in both])

    def _thinned(self, rel: Rel, key: Expr) -> float:
        """How many values a key could have for each that conditions on something else have left of it."""
        return max(1.0, self._values.domain_of(key, rel) / self._values.of(key, (rel,)))
