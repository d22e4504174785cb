"""Rows of joins: how many rows of both sides match, and how many of a side match any.

Two sides match in the product of their rows over the larger number of distinct keys (Selinger et al., SIGMOD 1979), of those whose keys lie
where the keys of the other side do.
"""

from math import expm1, prod

from tempura.algebra.rel import Join
from tempura.algebra.scalar import Ref
from tempura.cost.conditions import kept_apart
from tempura.cost.keys import JoinCondition, JoinKeys
from tempura.cost.origins import Origins, Rows
from tempura.cost.selectivity import Selectivity
from tempura.cost.values import DistinctValues

_ROUNDS = 50
"""Of an iteration that converges slowly only where keys have hardly more than one row, and others hardly matter."""


class Matches:
    """Rows of joins, for any number of rows on their sides: of all that there are, or of those that come."""

    def __init__(
        self, origins: Origins, values: DistinctValues, keys: JoinKeys, selectivity: Selectivity, rows: Rows
    ) -> None:
        self._origins = origins
        self._values = values
        self._keys = keys
        self._selectivity = selectivity
        self._rows = rows

    def joined(self, join: Join, left: float, right: float) -> float:
        """Rows of a join of ``left`` with ``right`` rows of its inputs."""
        if join.kind == "inner":
            return self.inner(join, left, right)
        if join.kind in ("exists", "single"):
            return left
        matches = self.inner(join, left, right)
        matching_left = min(matches, self._matching(join, left, right))
        match join.kind:
            case "semi":
                return matching_left
            case "anti":
                return left - matching_left
            case "left":
                return matches + left - matching_left
            case _:  # full
                return matches + left - matching_left + right - min(right, matches)

    def inner(self, join: Join, left: float, right: float) -> float:
        """Rows of the inner join of ``left`` with ``right`` rows of the join's inputs."""
        on = self._keys.condition(join)
        matching = left * on.overlap[0] * right * on.overlap[1] / on.possible
        return matching * prod(self._selectivity.of(part, join.inputs) for part in on.rest)

    def padded(self, join: Join, of_left: bool) -> float:
        """The fraction of an outer join's rows that have NULL for one of its sides: those of the other side that match nothing."""
        if join.kind not in ("left", "full", "single") or (of_left and join.kind != "full"):
            return 0.0
        left, right = map(self._rows, join.inputs)
        matches = self.inner(join, left, right)
        unmatched = right - matches if of_left else left - min(matches, self._matching(join, left, right))
        return max(0.0, unmatched) / max(1.0, self._rows(join))

    def _matching(self, join: Join, left: float, right: float) -> float:
        """Rows of the left side that match at least one row: of those whose key the right side has, all for which one of the rows with that
        key meets the rest of the condition. The right side has some of the values that a key could have; what was filtered by something
        else than the key has them as often."""
        on, domain_of = self._keys.condition(join), self._values.domain_of
        could_be = [
            max(domain_of(own, join.left) * on.common[0], domain_of(other, join.right) * on.common[1])
            for own, other in on.pairs
        ]
        theirs = [self._values.of(other, (join.right,)) for _, other in on.pairs]
        shares = [min(1.0, has / all_of) for has, all_of in zip(theirs, could_be, strict=True)]
        found: float = left * min([*shares, on.overlap[0]])
        candidates = max(1.0, right / max(1.0, min(prod(theirs), right)))
        met = min(1.0, prod(self._selectivity.of(part, join.inputs) for part in on.rest))
        if self._is_with_others(on, join):
            return float(left * on.overlap[0] * -expm1(-self._others(on, join, right) * met))
        missed: float = (1 - met) ** candidates
        return found * (1 - missed)

    def _others(self, on: JoinCondition, join: Join, right: float) -> float:
        """How many others of so many rows of the right side have the key of a row of the table: as many as any key has rows, where rows
        come to keys as they like and keys of no row are not known (a Poisson distribution without its zero)."""
        every = max(1.0, *(self._origins.source_rows(join.right, column) for _, b in on.pairs for column in b.columns))
        per_key = max(1.0, every / on.possible)
        others = per_key
        for _ in range(_ROUNDS):
            others = per_key * -expm1(-others)
        return others * right * on.overlap[1] / every

    def _is_with_others(self, on: JoinCondition, join: Join) -> bool:
        """Whether rows of a table are matched with others that have the same key: a column that has to differ keeps a row from itself.
        Where nothing has to be equal, there is no key: a row meets all others."""
        apart = [pair for part in on.rest if (pair := kept_apart(part))]
        if not any(self._origins.is_one_column(*pair, join) for pair in apart):
            return False
        keys = [(a.column, b.column) for a, b in on.pairs if isinstance(a, Ref) and isinstance(b, Ref)]
        return 0 < len(keys) == len(on.pairs) and all(self._origins.is_one_column(*pair, join) for pair in keys)
