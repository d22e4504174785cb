"""Where columns come from: which column of a table one is, and which of the relations that were joined it is of.

An operator hands on some of its columns unchanged: what is known of a table's column is known of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from tempura.algebra.canonical import Resolve
from tempura.algebra.multi_join import MultiJoin
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Sort
from tempura.algebra.scalar import Column, Expr, Output, Ref
from tempura.algebra.states import Partial
from tempura.algebra.window import Window
from tempura.cost.conditions import narrowed
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.memo.edge import Edge
from tempura.physical.operators import Read
from tempura.tvr.views import Snapshot, View

Rows = Callable[[Rel], float]
"""How many rows relations are estimated to have."""

Scope = tuple[Rel, ...]
"""Relations whose columns an expression may read: one, or the two sides of a join."""


def home(column: Column, scope: Scope) -> Rel:
    """The relation that a column is of."""
    return next(rel for rel in scope if column in rel.column_set)


def unchanged(outputs: Iterable[Output], column: Column) -> Column | None:
    """The column of an operator's input that one of its outputs is, perhaps by another name; None when it is computed."""
    return next((o.expr.column for o in outputs if o.column == column and isinstance(o.expr, Ref)), None)


def _all_unchanged(outputs: Sequence[Output], columns: tuple[Column, ...]) -> tuple[Column, ...] | None:
    """The same of several columns; None when any is computed."""
    found = tuple(source for column in columns if (source := unchanged(outputs, column)))
    return found if len(found) == len(columns) else None


def _operator(rel: Rel) -> Rel:
    """The operator or table whose rows a relation has, at whatever time."""
    return rel.tvr if isinstance(rel, View) else rel.scan if isinstance(rel, Read) else rel


class Origins:
    """What columns were before they were handed on. ``meaning`` says what classes of a memo stand for. Results are remembered."""

    def __init__(self, tables: Mapping[str, TableFacts], meaning: Resolve, rows: Rows) -> None:
        self._tables = tables
        self._meaning = meaning
        self._rows = rows
        self._insides: dict[Rel, tuple[Rel, dict[Column, Column]]] = {}
        self._defined: dict[tuple[Rel, Snapshot], Rel] = {}
        self._stats: dict[tuple[Rel, Column], ColumnStats | None] = {}
        self._sources: dict[tuple[Rel, Column], float] = {}
        self._origins: dict[tuple[Rel, tuple[Column, ...]], tuple[str, tuple[str, ...]] | None] = {}

    def is_table(self, rel: Rel) -> bool:
        """Whether the rows of a relation are those of a table, or of its arrivals."""
        return isinstance(rel, Read | Scan) or (isinstance(rel, View) and isinstance(self._meaning(rel.tvr), Scan))

    def defined(self, view: View, columns: Sequence[Column]) -> tuple[Rel, list[Column]] | None:
        """The operator that defines a snapshot, over the snapshots of its inputs, and what it calls some of the columns; None for what is
        no snapshot, or of a table."""
        rel = self._meaning(view.tvr)
        if not isinstance(view.at, Snapshot) or isinstance(rel, Scan):
            return None
        key = (rel, view.at)
        if key not in self._defined:
            self._defined[key] = rel.with_inputs(*(View(i, view.at) for i in rel.inputs))
        return self._defined[key], [rel.columns[view.columns.index(column)] for column in columns]

    def inside(self, rel: Rel, column: Column) -> tuple[Rel, Column]:
        """A column of a class, or of a view of one, as a column of what the class stands for."""
        edge = rel.tvr if isinstance(rel, View) else rel
        if not isinstance(edge, Edge):
            return rel, column
        known = self._insides.get(rel)
        if known is None:
            meant = self._meaning(edge)
            inside = View(meant, rel.at) if isinstance(rel, View) else meant
            known = self._insides[rel] = inside, dict(zip(edge.columns, meant.columns, strict=True))
        return known[0], known[1][column]

    # --- columns of tables ---

    def stats(self, rel: Rel, column: Column) -> ColumnStats | None:
        """Statistics of the table column that a column is, unchanged; None when it is computed or unknown. A filter narrows its
        bounds."""
        key = (_operator(rel), column)
        if key not in self._stats:
            self._stats[key] = self._find_stats(*self.inside(*key))
        return self._stats[key]

    def _find_stats(self, rel: Rel, column: Column) -> ColumnStats | None:
        operator = _operator(rel)
        match operator:
            case Scan():
                names = dict(zip(operator.outputs, operator.fields, strict=True))
                return self._tables[operator.table].columns.get(names.get(column, ""))
            case Project():
                source = unchanged(operator.outputs, column)
                return self.stats(operator.input, source) if source else None
            case Filter():
                found = self.stats(operator.input, column)
                return narrowed(found, column, operator.predicate) if found else None
        return next((self.stats(i, column) for i in operator.inputs if column in i.columns), None)

    def is_one_column(self, a: Column, b: Column, join: Join) -> bool:
        """Whether columns of both sides of a join are the same column of a table."""
        if (a in join.left.columns) == (b in join.left.columns):
            return False
        origins = [self._origin(home(column, join.inputs), (column,)) for column in (a, b)]
        return origins[0] is not None and origins[0] == origins[1]

    def _origin(self, rel: Rel, columns: tuple[Column, ...]) -> tuple[str, tuple[str, ...]] | None:
        """The table and the fields of one row of it that some columns are, unchanged; None when they are computed, or of several rows."""
        key = (_operator(rel), columns)
        if key not in self._origins:
            inside = [self.inside(key[0], column) for column in columns]
            self._origins[key] = self._find_origin(inside[0][0], tuple(column for _, column in inside))
        return self._origins[key]

    def _find_origin(self, rel: Rel, columns: tuple[Column, ...]) -> tuple[str, tuple[str, ...]] | None:
        operator = _operator(rel)
        match operator:
            case Scan():
                fields = dict(zip(operator.outputs, operator.fields, strict=True))
                return operator.table, tuple(fields[column] for column in columns)
            case Project():
                sources = _all_unchanged(operator.outputs, columns)
                return self._origin(operator.input, sources) if sources else None
        below = next((i for i in operator.inputs if all(column in i.columns for column in columns)), None)
        return self._origin(below, columns) if below else None

    def together(self, key: Sequence[Expr], rel: Rel) -> tuple[float, float]:
        """How many values the columns of a key have together in the table that they come from, and in how many rows; infinite where that
        was not looked at."""
        columns = tuple(part.column for part in key if isinstance(part, Ref))
        origin = self._origin(*self.grouped(rel, columns)) if 1 < len(columns) == len(key) else None
        table = self._tables.get(origin[0]) if origin else None
        values = table.together.get(frozenset(origin[1])) if table and origin else None
        return (values, table.rows(table.known - 1)) if table and values else (inf, inf)

    # --- relations ---

    def source_rows(self, rel: Rel, column: Column) -> float:
        """The rows of what a column comes from, before conditions on something else."""
        key = (rel, column)
        if key not in self._sources:
            self._sources[key] = self._find_source_rows(*self.inside(rel, column))
        return self._sources[key]

    def _find_source_rows(self, rel: Rel, column: Column) -> float:
        if isinstance(rel, View) and not isinstance(rel.tvr, Scan):
            return self.source_rows(rel.tvr, column)
        match rel:
            case Filter() | Join() | Sort() | Window():
                return next((self.source_rows(i, column) for i in rel.inputs if column in i.columns), self._rows(rel))
            case Project():
                source = unchanged(rel.outputs, column)
                return self.source_rows(rel.input, source) if source else self._rows(rel)
        return self._rows(rel)

    def grouped(self, rel: Rel, columns: tuple[Column, ...]) -> tuple[Rel, tuple[Column, ...]]:
        """The rows that are grouped by some columns, and what these are called there; of what is not grouped by them, itself."""
        operator = _operator(self.inside(rel, columns[0])[0])
        own = tuple(self.inside(rel, column)[1] for column in columns)
        match operator:
            case Aggregate() | Partial():
                made = operator.keys
            case Project():
                made = operator.outputs
            case _:
                return rel, columns
        sources = _all_unchanged(made, own)
        return self.grouped(operator.input, sources) if sources else (rel, columns)

    def before_joins(self, rel: Rel, column: Column) -> Rel:
        """Of the relations that are joined to one the one that a column comes from, as it is before it is joined; the relation itself when
        none are."""
        return self._before_joins(rel, column)[0]

    def _before_joins(self, rel: Rel, column: Column) -> tuple[Rel, bool]:
        """The same, and whether it is joined."""
        inside, column = self.inside(rel, column)
        operator = _operator(inside)
        match operator:
            case Join() | MultiJoin():
                side = next((side for side in operator.inputs if column in side.columns), None)
                return (self._before_joins(side, column)[0], True) if side else (rel, False)
            case Filter() | Sort() | Window() if column in operator.input.columns:
                source, joined = self._before_joins(operator.input, column)
            case Project():
                known = unchanged(operator.outputs, column)
                source, joined = self._before_joins(operator.input, known) if known else (rel, False)
            case _:
                return rel, False
        return (source, True) if joined else (rel, False)
