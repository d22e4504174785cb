"""Groups: how many of the possible keys occur among rows, if each comes as often as another (:func:`tempura.cost.stats.found_among`)."""

from collections.abc import Sequence
from math import inf, prod

from tempura.algebra.rel import Rel
from tempura.algebra.scalar import Expr, Output, Ref
from tempura.cost.origins import Origins, Rows
from tempura.cost.stats import found_among, population
from tempura.cost.values import DistinctValues


class Groups:
    """Numbers of groups, which grow with the rows and with the values of the keys."""

    def __init__(self, origins: Origins, values: DistinctValues, rows: Rows) -> None:
        self._origins = origins
        self._values = values
        self._rows = rows

    def of(self, rel: Rel, keys: tuple[Output, ...]) -> float:
        """Expected number of groups: how many of the possible keys occur among the rows."""
        if not keys:
            return 1.0
        rows, exprs = self._rows(rel), tuple(dict.fromkeys(key.expr for key in keys))
        possible = prod(max(1.0, self._values.of(expr, (rel,))) for expr in exprs)
        most = min(self._most(rel, exprs), self._together(exprs, rel))
        return min(rows, found_among(rows, possible), most)

    def _most(self, rel: Rel, keys: tuple[Expr, ...]) -> float:
        """The most groups that there can be. Keys that come from one of the relations that were joined depend on each other: it has no more
        combinations of them than rows."""
        found: dict[Rel | None, float] = {}
        for key in keys:
            sources = {self._origins.before_joins(rel, column) for column in key.columns}
            source = sources.pop() if len(sources) == 1 else None
            found[source] = found.get(source, 1.0) * max(1.0, self._values.of(key, (rel,)))
        return prod(min(n, max(1.0, self._rows(source))) if source else n for source, n in found.items())

    def _together(self, keys: Sequence[Expr], rel: Rel) -> float:
        """The most groups by columns of one table of which it was looked at how many values they have together: as many as are found among
        the rows of the table, as of one time or of what came between two, if each comes as often as another."""
        values, among = self._origins.together(keys, rel)
        if values == inf:
            return inf
        grouped, columns = self._origins.grouped(rel, tuple(key.column for key in keys if isinstance(key, Ref)))
        rows = min(self._rows(rel), self._origins.source_rows(grouped, columns[0]))
        return found_among(rows, population(values, among))
