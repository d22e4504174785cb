"""Selectivities: which fraction of rows a predicate leaves, from frequencies and bounds of columns where they are known, else the usual
guesses (Selinger et al., SIGMOD 1979)."""

from collections.abc import Callable
from math import prod

from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Sort
from tempura.algebra.scalar import Call, Column, Expr, Literal, Ref, conjunction, conjuncts
from tempura.cost.conditions import (
    EQUALITIES,
    compared_columns,
    compared_with_number,
    constants,
    listed_values,
    share_below,
    share_of_values,
    values_in_all,
    within_bounds,
)
from tempura.cost.origins import Origins, Rows, Scope, home, unchanged
from tempura.cost.sums import Spread, spread, summed
from tempura.cost.values import DistinctValues
from tempura.physical.operators import Read
from tempura.tvr.views import View

_UNKNOWN_SELECTIVITY = 0.25
_RANGE_SELECTIVITY = 1 / 3
_PATTERN_SELECTIVITY = 0.05
_PATTERNS = ("Like", "Contains", "StartsWith", "EndsWith", "RLike")
_UNKNOWN_NULLS = 0.05


class Selectivity:
    """Fractions of rows. ``padded`` gives the fraction of a join's rows that have NULL for its left side, or for its right one
    (:meth:`tempura.cost.matches.Matches.padded`)."""

    def __init__(
        self, origins: Origins, values: DistinctValues, rows: Rows, padded: Callable[[Join, bool], float]
    ) -> None:
        self._origins = origins
        self._values = values
        self._rows = rows
        self._padded = padded

    def of(self, predicate: Expr, scope: Scope) -> float:
        """The fraction of rows for which a predicate is TRUE."""
        if isinstance(predicate, Literal):
            return 1.0 if predicate.value is True else 0.0
        if not isinstance(predicate, Call):
            return _UNKNOWN_SELECTIVITY
        if found := constants(predicate):
            return self._listed(found[0], values_in_all((found[1],), ()), scope)
        match predicate.function:
            case "And":
                return self._conjunction(predicate, scope)
            case "Or":
                return 1 - prod(1 - self.of(arg, scope) for arg in predicate.operands)
            case "Not":
                return 1 - self.of(predicate.operands[0], scope)
            case "IsNotNull" | "IsNull":
                return self._null_test(predicate, scope)
            case "EqualTo" | "EqualNullSafe" | "In" | "InSet":
                return self._equality(predicate, scope)
            case "LessThan" | "LessThanOrEqual" | "GreaterThan" | "GreaterThanOrEqual":
                return self._comparison(predicate, scope)
            case pattern if pattern in _PATTERNS:
                return _PATTERN_SELECTIVITY
            case _:
                return _UNKNOWN_SELECTIVITY

    def _conjunction(self, predicate: Expr, scope: Scope) -> float:
        """What is said of one column is one set of values: listed ones that are in all lists and between all bounds, or one range. Other
        conditions are taken to be independent."""
        within: dict[Expr, list[Expr]] = {}
        listed: dict[Expr, list[list[object]]] = {}
        rest: list[Expr] = []
        for part in conjuncts(predicate):
            bound = compared_with_number(part)
            equal = constants(part) if isinstance(part, Call) else None
            if equal:
                listed.setdefault(equal[0], []).append(equal[1])
            elif bound and isinstance(bound[0], Ref):
                within.setdefault(bound[0], []).append(part)
            else:
                rest.append(part)
        lists = (self._listed(of, values_in_all(values, within.get(of, ())), scope) for of, values in listed.items())
        ranges = (
            self._range(of.column, conjunction(*parts), len(parts), scope)
            for of, parts in within.items()
            if isinstance(of, Ref) and of not in listed
        )
        return prod(lists) * prod(ranges) * prod(self.of(part, scope) for part in rest)

    # --- equality ---

    def _equality(self, predicate: Call, scope: Scope) -> float:
        """As if all values were equally frequent."""
        if predicate.function in EQUALITIES:
            return 1 / max(1.0, *(self._values.of(arg, scope) for arg in predicate.operands))
        return min(1.0, listed_values(predicate) / self._values.of(predicate.operands[0], scope))

    def _listed(self, subject: Expr, values: list[object], scope: Scope) -> float:
        """The fraction of rows in which an expression has one of some values: by the frequencies of a table's values, else as if all were
        equally frequent."""
        stats = self._origins.stats(home(subject.column, scope), subject.column) if isinstance(subject, Ref) else None
        counted = share_of_values(stats, values) if stats else None
        return min(1.0, len(values) / max(1.0, self._values.of(subject, scope))) if counted is None else counted

    # --- NULL ---

    def _null_test(self, predicate: Call, scope: Scope) -> float:
        (arg,) = predicate.operands
        nulls = self._nulls(home(arg.column, scope), arg.column) if isinstance(arg, Ref) else None
        nulls = _UNKNOWN_NULLS if nulls is None else nulls
        return nulls if predicate.function == "IsNull" else 1 - nulls

    def _nulls(self, rel: Rel, column: Column) -> float | None:
        """The fraction of rows in which a column is NULL: what its table says, and what outer joins add; None when it is computed."""
        rel, column = self._origins.inside(rel, column)
        match rel:
            case View() if not isinstance(rel.tvr, Scan):
                return self._nulls(rel.tvr, column)
            case View() | Read() | Scan():
                stats = self._origins.stats(rel, column)
                return stats.null_fraction if stats else None
            case Project():
                source = unchanged(rel.outputs, column)
                return self._nulls(rel.input, source) if source else None
            case Join():
                side = home(column, rel.inputs) if column != rel.marker else None
                own = self._nulls(side, column) if side else 0.0
                added = self._padded(rel, side is rel.left)
                return added + (1 - added) * (own or 0.0) if added else own
        return next((self._nulls(i, column) for i in rel.inputs if column in i.columns), None)

    # --- ranges ---

    def _comparison(self, predicate: Call, scope: Scope) -> float:
        found = compared_with_number(predicate)
        if found and isinstance(found[0], Ref):
            return self._range(found[0].column, predicate, 1, scope)
        columns = compared_columns(predicate)
        if columns is None:
            return _RANGE_SELECTIVITY
        below, above = (self._origins.stats(home(column, scope), column) for column in columns)
        found_share = share_below(below, above) if below and above else None
        return _RANGE_SELECTIVITY if found_share is None else found_share

    def _range(self, column: Column, bounds: Expr, number: int, scope: Scope) -> float:
        """The fraction of rows whose value of a column lies within so many bounds; at least one value does."""
        rel = home(column, scope)
        stats = self._origins.stats(rel, column)
        if stats and stats.low is not None and stats.high is not None and stats.high > stats.low:
            return within_bounds(stats, column, bounds)
        found = self._spread(rel, column) if stats is None else None
        if found is None:
            return _RANGE_SELECTIVITY**number
        return min(1.0, max(found.within(column, bounds), 1 / max(1.0, self._rows(rel))))

    def _spread(self, rel: Rel, column: Column) -> Spread | None:
        """How a count or a sum of groups is spread; None for any other column."""
        rel, column = self._origins.inside(rel, column)
        if isinstance(rel, View) and (defined := self._origins.defined(rel, (column,))):
            rel, (column,) = defined
        match rel:
            case Filter() | Sort():
                return self._spread(rel.input, column)
            case Project():
                source = unchanged(rel.outputs, column)
                return self._spread(rel.input, source) if source else None
            case Aggregate():
                call = next((a.call for a in rel.aggregates if a.column == column), None)
                value = summed(call) if call else None
                values = self._origins.stats(rel.input, value.column) if value else None
                return spread(call, self._rows(rel.input) / max(1.0, self._rows(rel)), values) if call else None
        return None
