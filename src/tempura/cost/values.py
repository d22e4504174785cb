"""How many distinct values columns and expressions have, and how many they could have: what conditions, joins and groups leave of them.

Of rows that are taken here and there a column keeps the values of Yao's formula (CACM 1977), of a stretch of them those that lie there.
"""

from collections.abc import Callable
from math import inf, prod

from tempura.algebra.expand import Expand
from tempura.algebra.multi_join import MultiJoin, in_order
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Union
from tempura.algebra.scalar import Call, Column, Expr, Ref
from tempura.cost.conditions import equated_with, results, values_left, within_bounds
from tempura.cost.origins import Origins, Rows, Scope, home, unchanged
from tempura.tvr.views import Delta, View

_TOGETHER = 0.5
"""Rows with a value lie together where this part of them follows on each other."""
_SEVERAL = 2.0
"""So many rows of a value have to follow on each other for that to say anything of their order."""


def _among(values: float, rows: float, taken: float) -> float:
    """How many of so many values are among a share of the rows that have them (Yao, CACM 1977)."""
    return values * float(1 - (1 - taken) ** (rows / values)) if taken < 1 else values


class DistinctValues:
    """Numbers of values, which are remembered. ``within_keys`` says how many values a column of a join's side could have by the join's
    keys (:meth:`tempura.cost.keys.JoinKeys.within`)."""

    def __init__(self, origins: Origins, rows: Rows, within_keys: Callable[[Join, Column], float]) -> None:
        self._origins = origins
        self._rows = rows
        self._within_keys = within_keys
        self._distinct: dict[tuple[Rel, Column], float] = {}
        self._domains: dict[tuple[Rel, Column], float] = {}

    def of(self, expr: Expr, scope: Scope) -> float:
        """Distinct values of an expression over relations side by side."""
        if isinstance(expr, Ref):
            return self.of_column(home(expr.column, scope), expr.column)
        possible = prod(self.of_column(home(column, scope), column) for column in expr.columns)
        return max(1.0, min(possible, self._results(expr, scope)))

    def _results(self, expr: Expr, scope: Scope) -> float:
        """How many results an expression has, whatever its arguments; infinite when nothing is known."""
        if not isinstance(expr, Call):
            return inf
        if expr.function == "Year" and isinstance(arg := expr.operands[0], Ref):
            stats = self._origins.stats(home(arg.column, scope), arg.column)
            days = stats.high - stats.low if stats and stats.low is not None and stats.high is not None else inf
            return days / 365.25 + 1 if arg.type == "date" else inf
        return 2.0 if expr.type == "boolean" else results(expr)

    def of_column(self, rel: Rel, column: Column) -> float:
        """Distinct values of a column, at least 1."""
        key = (rel, column)
        known = self._distinct.get(key)
        if known is None:
            known = self._distinct[key] = max(1.0, self._find_distinct(rel, column))
        return known

    def _find_distinct(self, rel: Rel, column: Column) -> float:
        rel, column = self._origins.inside(rel, column)
        if isinstance(rel, View) and not isinstance(rel.tvr, Scan):
            return min(self.of_column(rel.tvr, column), max(1.0, self._rows(rel)))
        return min(self._derived(rel, column), max(1.0, self._rows(rel)))

    def _derived(self, rel: Rel, column: Column) -> float:
        match rel:
            case Filter():
                return self._filtered(rel, column)
            case Join():
                return self._joined(rel, column)
            case MultiJoin():
                return self.of_column(in_order(rel), column)
            case Union():
                return max(self.of_column(term, column) for term in rel.terms)
            case Project() | Aggregate():
                outputs = rel.outputs if isinstance(rel, Project) else rel.keys
                for output in outputs:
                    if output.column == column:
                        return self.of(output.expr, (rel.input,))
            case Expand():
                made = (output.expr for outputs in rel.projections for output in outputs if output.column == column)
                return max(sum(self.of(expr, (rel.input,)) for expr in dict.fromkeys(made)), 1.0)
        for child in rel.inputs:
            if column in child.columns:
                return self.of_column(child, column)
        stats = self._origins.stats(rel, column)
        # A table's column of which nothing is known: neither a key nor a constant.
        return stats.distinct if stats else max(1.0, float(self._rows(rel) ** 0.5))

    def _filtered(self, rel: Filter, column: Column) -> float:
        """Values left by a filter: those that it names or that lie within its bounds, the fewest of what it says are equal, else those of
        the rows that are left."""
        values = [self._left(rel, rel.input, column, in_a_stretch=self._are_a_stretch(rel))]
        stats = self._origins.stats(rel.input, column)
        if stats:
            values.append(self.of_column(rel.input, column) * within_bounds(stats, column, rel.predicate))
        values += [self._left(rel, rel.input, other) for other in equated_with(column, rel.predicate)]
        return min(*values, values_left(column, rel.predicate) or values[0])

    def _joined(self, rel: Join, column: Column) -> float:
        """A join keeps of a key the values that both sides have; of a side that it filters, those of the rows that are left."""
        if column == rel.marker:
            return 2.0
        side = home(column, rel.inputs)
        own = self._left(rel, side, column) if rel.kind in ("semi", "anti") else self.of_column(side, column)
        keeps_matches = rel.kind in ("inner", "semi") or (rel.kind in ("left", "single") and side is rel.right)
        others = equated_with(column, rel.on) if keeps_matches else ()
        within = max(1.0, self._within_keys(rel, column)) if keeps_matches else own
        return min((own, within, *(self.of_column(home(other, rel.inputs), other) for other in others)))

    def _left(self, rel: Rel, source: Rel, column: Column, in_a_stretch: bool = False) -> float:
        """How many of a column's values are among the rows that are taken from a relation, here and there or ``in_a_stretch``."""
        values, rows = self.of_column(source, column), max(1.0, self._rows(source))
        taken = min(1.0, self._rows(rel) / rows)
        if in_a_stretch:
            return max(1.0, self.in_a_stretch(values, source, column, rows, taken))
        return _among(values, rows, taken)

    # --- values that there could be ---

    def domain_of(self, expr: Expr, rel: Rel) -> float:
        """How many values an expression could have, in rows that were filtered by something else."""
        return self.domain(rel, expr.column) if isinstance(expr, Ref) else self.of(expr, (rel,))

    def domain(self, rel: Rel, column: Column) -> float:
        """How many values a column could have: those of its table, within what is said of the column itself."""
        key = (rel, column)
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = self._find_domain(rel, column)
        return known

    def _find_domain(self, rel: Rel, column: Column) -> float:
        rel, column = self._origins.inside(rel, column)
        own = self.of_column(rel, column)
        match rel:
            case View() if isinstance(rel.at, Delta):
                # Rows that arrive at the same time are not drawn from all that there are.
                return own
            case View() if not isinstance(rel.tvr, Scan):
                return self.domain(rel.tvr, column)
            case Filter():
                stats, named = self._origins.stats(rel.input, column), values_left(column, rel.predicate)
                within = within_bounds(stats, column, rel.predicate) if stats else 1.0
                equal = (self.of_column(rel.input, other) for other in equated_with(column, rel.predicate))
                found = min(self.domain(rel.input, column) * within, named or inf, *equal)
                return max(own, found)
            case Join() if column != rel.marker:
                others = (self.of_column(home(c, rel.inputs), c) for c in equated_with(column, rel.on))
                filtered = rel.kind in ("inner", "semi")
                before = self.domain(home(column, rel.inputs), column)
                return max(own, min([before, self._within_keys(rel, column), *others]) if filtered else before)
            case Project():
                source = unchanged(rel.outputs, column)
                return self.domain(rel.input, source) if source else own
        return next((self.domain(child, column) for child in rel.inputs if column in child.columns), own)

    # --- rows in the order of a column ---

    def in_a_stretch(self, values: float, rel: Rel, column: Column, rows: float, share: float) -> float:
        """How many of a column's values are among a share of rows that lie in a stretch of them."""
        return values * share if self._lie_together(rel, column) else _among(values, rows, share)

    def _lie_together(self, rel: Rel, column: Column) -> bool:
        """Whether the rows of a table that have a value of a column in common, several for each, lie next to each other, as in the order of
        the column."""
        stats = self._origins.stats(rel, column)
        if stats is None or stats.run < _SEVERAL:
            return False
        return stats.run * stats.distinct >= _TOGETHER * self._origins.source_rows(rel, column)

    def _are_a_stretch(self, rel: Filter) -> bool:
        """Whether what a condition leaves lies together: it asks of columns in whose order rows seem to be."""
        columns = rel.predicate.columns
        return bool(columns) and all(self._lie_together(rel.input, column) for column in columns)
