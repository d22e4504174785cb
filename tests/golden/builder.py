"""Queries for golden texts, as Python expressions over tables with fixed statistics: ``sales.join(items, sales.item == items.i_id)``.

The tables are shaped like TPC-DS at a scale of about 30: two sales channels, their returns, and dimensions that do not change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tempura.algebra.rel import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan, Union
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
)
from tempura.cost.stats import ColumnStats, TableFacts

MONEY = "decimal(7,2)"
ROWS = {"sales": 80_000_000, "web": 20_000_000, "returns": 8_000_000, "items": 100_000, "dates": 73_000}
STATIC = ("items", "dates")
COLUMNS: dict[str, dict[str, tuple[str, float]]] = {
    "sales": {"s_id": ("bigint", 8e6), "s_item": ("int", 1e5), "s_date": ("int", 1_800), "price": (MONEY, 1e5)},
    "web": {"w_id": ("bigint", 2e6), "w_item": ("int", 1e5), "w_date": ("int", 1_800), "w_price": (MONEY, 1e5)},
    "returns": {"r_id": ("bigint", 4e6), "r_item": ("int", 1e5), "cost": (MONEY, 1e5)},
    "items": {"i_id": ("int", 1e5), "brand": ("string", 1e3), "kind": ("string", 10)},
    "dates": {"d_id": ("int", 73_000), "year": ("int", 200), "month": ("int", 12)},
}


def facts(table: str, times: int, insert_only: bool) -> TableFacts:
    """Most rows are there at the first time; 2 in 100 of what comes later leaves again, unless the table only grows."""
    static, rows = table in STATIC, ROWS[table]
    inserted = [rows if static else round(rows * (0.8 + 0.2 * i / max(1, times - 1))) for i in range(times)]
    deleted = [0 if static or insert_only else round((n - inserted[0]) * 0.02) for n in inserted]
    columns = {name: ColumnStats(distinct) for name, (_, distinct) in COLUMNS[table].items()}
    return TableFacts(tuple(inserted), tuple(deleted), 1, static, insert_only, 40.0, columns)


@dataclass(frozen=True)
class Value:
    """A scalar expression."""

    expr: Expr

    def _with(self, function: str, other: object, type: str) -> "Value":
        right = other.expr if isinstance(other, Value) else Literal(other, self.expr.type)
        return Value(Call(function, (self.expr, right), type, "ANSI"))

    def __eq__(self, other: object) -> "Value":  # type: ignore[override]
        return self._with("EqualTo", other, "boolean")

    def __lt__(self, other: object) -> "Value":
        return self._with("LessThan", other, "boolean")

    def __and__(self, other: "Value") -> "Value":
        return Value(conjunction(self.expr, other.expr))

    def __add__(self, other: object) -> "Value":
        return self._with("Add", other, self.expr.type)


def total(value: Value) -> AggregateCall:
    """SUM of money."""
    return AggregateCall("Sum", (value.expr,), "decimal(17,2)", detail="ANSI")


def count(value: Value | None = None) -> AggregateCall:
    """COUNT(*), or of the values that are not NULL."""
    return AggregateCall("Count", (value.expr,) if value else (), "bigint")


def distinct(value: Value) -> AggregateCall:
    """COUNT(DISTINCT)."""
    return AggregateCall("Count", (value.expr,), "bigint", distinct=True)


def middle(value: Value) -> AggregateCall:
    """The median, which has no state."""
    return AggregateCall("Median", (value.expr,), "double")


def largest(value: Value) -> AggregateCall:
    """MAX."""
    return AggregateCall("Max", (value.expr,), value.expr.type)


@dataclass(frozen=True)
class Query:
    """A relation; its columns are attributes."""

    rel: Rel

    def __getattr__(self, name: str) -> Value:
        for column in self.rel.columns:
            if column.name == name:
                return Value(Ref(column))
        raise AttributeError(f"{name} is not among {', '.join(c.name for c in self.rel.columns)}")

    def join(self, other: "Query", on: Value | None = None, how: JoinKind = "inner") -> "Query":
        """A join; inner and crossed unless said otherwise."""
        return Query(Join(self.rel, other.rel, how, on.expr if on else TRUE))

    def filter(self, predicate: Value) -> "Query":
        """Some of the rows."""
        return Query(Filter(self.rel, predicate.expr))

    def select(self, *same: Value, **values: Value) -> "Query":
        """Columns as they are, and new ones by name."""
        kept = [Output(v.expr.column, v.expr) for v in same if isinstance(v.expr, Ref)]
        made = [Output(Column(name, name, v.expr.type), v.expr) for name, v in values.items()]
        return Query(Project(self.rel, (*kept, *made)))

    def group(self, *keys: Value, **calls: AggregateCall) -> "Query":
        """One row per value of the keys."""
        kept = tuple(Output(k.expr.column, k.expr) for k in keys if isinstance(k.expr, Ref))
        made = tuple(AggregateOutput(Column(name, name, call.type), call) for name, call in calls.items())
        return Query(Aggregate(self.rel, kept, made))

    def union(self, *others: "Query") -> "Query":
        """All rows of relations with the same columns by position."""
        terms = [self.rel]
        for other in others:
            pairs = zip(self.rel.columns, other.rel.columns, strict=True)
            terms.append(Project(other.rel, tuple(Output(c, Ref(own)) for c, own in pairs)))
        return Query(Union(tuple(terms)))

    def again(self, mark: str) -> "Query":
        """A second use of a table."""
        assert isinstance(self.rel, Scan)
        return Query(replace(self.rel, outputs=tuple(replace(c, id=c.id + mark) for c in self.rel.outputs)))


def tables() -> Mapping[str, Query]:
    """The tables by name."""
    columns = {t: tuple(Column(n, n, type) for n, (type, _) in spec.items()) for t, spec in COLUMNS.items()}
    return {table: Query(Scan(table, tuple(c.name for c in made), made)) for table, made in columns.items()}


def parsed(text: str) -> Rel:
    """The expression of a query's text."""
    names = {**tables(), "total": total, "count": count, "distinct": distinct, "middle": middle, "largest": largest}
    found = eval(text, {"__builtins__": {}, **names})
    assert isinstance(found, Query)
    return found.rel
