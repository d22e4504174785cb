"""Cardinalities: how many rows each relation of a plan has. Estimates change cost, never correctness.

Deltas are estimated from the laws that compute them. Of what other numbers rows follow, each has its module: where columns come from
(``cost.origins``), how many values they have (``cost.values``), which fraction of rows a predicate leaves (``cost.selectivity``), how many
rows join (``cost.keys``, ``cost.matches``), how many groups there are (``cost.groups``), and what was deleted (``cost.deletions``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from weakref import proxy

from tempura.algebra.canonical import Resolve, as_it_is
from tempura.algebra.expand import Expand
from tempura.algebra.generate import Generate
from tempura.algebra.multi_join import MultiJoin, in_order
from tempura.algebra.one import One
from tempura.algebra.rel import (
    Aggregate,
    Consolidate,
    Filter,
    Join,
    Negate,
    Project,
    Rel,
    Scan,
    Sort,
    Support,
    TopK,
    Union,
    Values,
)
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, conjuncts
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.algebra.window import Window, partition_keys
from tempura.cost.deletions import Deletions
from tempura.cost.groups import Groups
from tempura.cost.keys import JoinKeys
from tempura.cost.matches import Matches
from tempura.cost.origins import Origins, Scope
from tempura.cost.selectivity import Selectivity
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.cost.values import DistinctValues
from tempura.memo.edge import Edge
from tempura.physical.deletions import are_few
from tempura.physical.operators import Read
from tempura.tvr.staircase import TOGETHER, Staircase, Time
from tempura.tvr.views import Delta, Snapshot, State, View

_WIDTHS = {
    "tinyint": 1,
    "smallint": 2,
    "int": 4,
    "bigint": 8,
    "float": 4,
    "double": 8,
    "boolean": 1,
    "date": 4,
    "timestamp": 8,
}
_UNKNOWN_WIDTH = 24.0
_FAN_OUT = {"ReplicateRows": 1.0, "JsonTuple": 1.0}
_UNKNOWN_FAN_OUT = 4.0


def width(rel: Rel) -> float:
    """Bytes of a row in memory by its types alone, roughly."""
    return 8 + sum(known if (known := _value_bytes(column)) is not None else _UNKNOWN_WIDTH for column in rel.columns)


def _value_bytes(column: Column) -> float | None:
    return 16.0 if column.type.startswith("decimal") else _WIDTHS.get(column.type)


def _leaves_out_null(part: Expr) -> bool:
    return isinstance(part, Call) and part.function == "IsNotNull" and isinstance(part.operands[0], Ref)


class Estimator:
    """Rows of relations, given the tables. One instance per planning problem; results are remembered. ``meaning`` says what classes
    of a memo stand for: all expressions of a class have one estimate. ``staircase`` says when each table is seen. ``counted`` gives the
    rows that a class had at the first time point, where they are known: its estimates at all times are multiplied by as much as the one
    at that point was off. ``known`` gives the rows of an operator or view where more is known than tables tell, ``alike`` where that is
    known of something like it."""

    def __init__(
        self,
        tables: Mapping[str, TableFacts],
        meaning: Resolve = as_it_is,
        staircase: Staircase = TOGETHER,
        counted: Callable[[Rel], float | None] = lambda rel: None,
        known: Callable[[Rel], float | None] = lambda rel: None,
        alike: Callable[[Rel], float | None] = lambda rel: None,
    ) -> None:
        self._tables = tables
        self._meaning = meaning
        self._staircase = staircase
        self._counted = counted
        self._known = known
        self._alike = alike
        self._off: dict[Rel, float] = {}
        self._rows: dict[Rel, float] = {}
        self._widths: dict[Rel, float] = {}
        self.layouts: dict[int, object] = {}  # how joins are made by these estimates, for ``cost.joins.joins_of``
        # They need each other: each knows those before it, and asks for rows, and those after it, by a function. None of them holds what
        # holds it, or all that was found out would stay until Python looks for circles.
        me: Estimator = proxy(self)

        def rows(rel: Rel) -> float:
            return me.rows(rel)

        self._origins = Origins(tables, meaning, rows)
        self._values = DistinctValues(self._origins, rows, lambda join, column: me._keys.within(join, column))
        self._keys = JoinKeys(self._origins, self._values)
        self._selectivity = Selectivity(
            self._origins, self._values, rows, lambda join, of_left: me._matches.padded(join, of_left)
        )
        self._matches = Matches(self._origins, self._values, self._keys, self._selectivity, rows)
        self._groups = Groups(self._origins, self._values, rows)
        self._deletions = Deletions(tables, staircase, rows)

    @cached_property
    def last(self) -> int:
        """The last time point."""
        return max((len(t.inserted) for t in self._tables.values()), default=1) - 1

    def rows(self, rel: Rel) -> float:
        """Estimated number of rows (for signed bags: of entries), at least 0."""
        known = self._rows.get(rel)
        if known is None:
            told = self._known(rel)
            told = self._alike(rel) if told is None else told
            known = self._rows[rel] = max(0.0, self._estimate(rel) if told is None else min(told, self._most(rel)))
        return known

    def _most(self, rel: Rel) -> float:
        """The most rows that an operator can have. What was counted is scaled by what was expected, which may have been next to nothing."""
        match rel:
            case Join(kind="semi" | "anti"):
                return self.rows(rel.left)
            case Filter() | Consolidate() | Support() | TopK():
                return self.rows(rel.input)
            case Aggregate() | Partial():
                return max(1.0, self.rows(rel.input))
        return inf

    def is_counted(self, rel: Rel) -> bool:
        """Whether the rows of a relation are no guess: those of tables, without NULLs, and of what earlier runs have counted."""
        match rel:
            case _ if self._origins.is_table(rel):
                return True
            case Values():
                return True
            case Project() | Sort() | Negate():
                return self.is_counted(rel.input)
            case Filter() if self._known(rel) is None and all(map(_leaves_out_null, conjuncts(rel.predicate))):
                return self.is_counted(rel.input)
            case View() if self._known(rel) is None and (defined := self._origins.defined(rel, ())):
                return self.is_counted(defined[0])
        return self._known(rel) is not None

    def width(self, rel: Rel) -> float:
        """Bytes of a row in memory, roughly."""
        if rel not in self._widths:
            self._widths[rel] = 8 + sum(self._bytes(rel, column) for column in rel.columns)
        return self._widths[rel]

    def _bytes(self, rel: Rel, column: Column) -> float:
        known = _value_bytes(column)
        if known is not None:
            return known
        stats = self._origins.stats(rel, column)
        return stats.width if stats and stats.width is not None else _UNKNOWN_WIDTH

    # --- what rows follow from ---

    def is_table(self, rel: Rel) -> bool:
        """Whether the rows of a relation are those of a table, or of its arrivals."""
        return self._origins.is_table(rel)

    def defined(self, view: View, columns: Sequence[Column]) -> tuple[Rel, list[Column]] | None:
        """The operator that defines a snapshot, over the snapshots of its inputs, and what it calls some of the columns; None for what is
        no snapshot, or of a table."""
        return self._origins.defined(view, columns)

    def stats(self, rel: Rel, column: Column) -> ColumnStats | None:
        """Statistics of the table column that a column is, unchanged; None when it is computed or unknown. A filter narrows its
        bounds."""
        return self._origins.stats(rel, column)

    def distinct_of(self, expr: Expr, scope: Scope) -> float:
        """Distinct values of an expression over relations side by side."""
        return self._values.of(expr, scope)

    def selectivity(self, predicate: Expr, scope: Scope) -> float:
        """The fraction of rows for which a predicate is TRUE."""
        return self._selectivity.of(predicate, scope)

    def groups(self, rel: Rel, keys: tuple[Output, ...]) -> float:
        """Expected number of groups: how many of the possible keys occur among the rows."""
        return self._groups.of(rel, keys)

    def few_deleted(self, rel: Rel) -> float | None:
        """How many deletions are among rows as they were read, if they are few of many; None when they are not, or are not read."""
        deleted, size = self._deletions.among(rel), self.width(rel)
        return deleted if deleted and are_few(deleted * size, self.rows(rel) * size) else None

    def entries(self, rel: Rel) -> float:
        """Estimated number of entries: of the rows of tables as they are read also those that came and went, each twice."""
        came_and_went = self._deletions.that_came_and_went(rel)
        return self.rows(rel) + 2.0 * (came_and_went or 0.0)

    def left_out(self, rel: Rel) -> float | None:
        """How many rows can be left out of those of tables by their places, if it is known of all deletions where the rows lie; None when
        it is not, or anything else than conditions was applied."""
        return self._deletions.left_out(rel)

    def files(self, read: Read) -> int:
        """Of how many files what arrived in a table is read."""
        table, at, seen = self._tables[read.scan.table], read.at, partial(self._staircase.seen, read.scan.table)
        if isinstance(at, Snapshot):
            return table.files_of_snapshot(seen(at.t))
        return table.files_of_delta(seen(at.t), seen(at.u))

    # --- operators ---

    def _estimate(self, rel: Rel) -> float:
        match rel:
            case View():
                return self._view(rel) * self._correction(rel.tvr)
            case Read():
                return self._scan(rel.scan, rel.at)
            case Scan():
                return self._scan(rel, Snapshot(self.last))
            case Edge():
                return self.rows(self._meaning(rel)) * self._correction(rel)
            case Values():
                return len(rel.rows)
            case Filter():
                return self.rows(rel.input) * self._selectivity.of(rel.predicate, (rel.input,))
            case Project() | Sort() | Negate() | Consolidate() | Support() | Finalize():
                return self.rows(rel.input)
            case Generate():
                return self.rows(rel.input) * _FAN_OUT.get(rel.generator.function, _UNKNOWN_FAN_OUT)
            case Join():
                return self._matches.joined(rel, self.rows(rel.left), self.rows(rel.right))
            case MultiJoin():
                return self.rows(in_order(rel))
            case Aggregate() | Partial():
                return self._groups.of(rel.input, rel.keys)
            case Expand():
                return self.rows(rel.input) * len(rel.projections)
            case One():
                return 1.0
            case MergeStates():
                return max(self.rows(rel.left), self.rows(rel.right))
            case TopK():
                return min(rel.limit, self.rows(rel.input))
            case Union():
                return sum(map(self.rows, rel.terms))
            case _:
                return sum(map(self.rows, rel.inputs))

    def _scan(self, scan: Scan, at: Snapshot | Delta) -> float:
        table, seen = self._tables[scan.table], partial(self._staircase.seen, scan.table)
        return table.rows(seen(at.t)) if isinstance(at, Snapshot) else table.changed_rows(seen(at.t), seen(at.u))

    def _correction(self, rel: Rel) -> float:
        """By how much a class has more rows than its operators let expect, where they were counted."""
        if rel not in self._off:
            rows = self._counted(rel)
            self._off[rel] = 1.0 if rows is None else max(1.0, rows) / max(1.0, self._snapshot(self._meaning(rel), 0))
        return self._off[rel]

    # --- views ---

    def _view(self, view: View) -> float:
        at, rel = view.at, self._meaning(view.tvr)
        if isinstance(at, Snapshot | State):
            return self._snapshot(rel, at.t)
        if isinstance(at, Delta):
            return self._delta(rel, at.t, at.u)
        assert isinstance(rel, Aggregate)
        return self._groups.of(View(rel.input, Delta(at.t, at.u)), rel.keys)

    def _snapshot(self, rel: Rel, t: Time) -> float:
        if isinstance(rel, Scan):
            return self._scan(rel, Snapshot(t))
        return self.rows(rel.with_inputs(*(View(i, Snapshot(t)) for i in rel.inputs)))

    def _delta(self, rel: Rel, t: Time, u: Time) -> float:
        match rel:
            case Scan():
                return self._scan(rel, Delta(t, u))
            case Values():
                return 0.0
            case _ if rel.row_by_row:
                return self.rows(rel.with_inputs(*(View(i, Delta(t, u)) for i in rel.inputs)))
            case Join():
                return self._delta_join(rel, t, u)
            case MultiJoin():
                return self.rows(View(in_order(rel), Delta(t, u)))
            case Aggregate():
                return 2 * self._groups.of(View(rel.input, Delta(t, u)), rel.keys)
            case Window() if rel.partition:
                return self._delta_window(rel, t, u)
            case _:
                return self._snapshot(rel, t) + self._snapshot(rel, u)

    def _delta_window(self, rel: Window, t: Time, u: Time) -> float:
        """The rows of the partitions that changed, before and after."""
        keys = partition_keys(rel.partition, rel.functions)
        changed = self._groups.of(View(rel.input, Delta(t, u)), keys)
        sizes = ((self._snapshot(rel, s), self._groups.of(View(rel.input, Snapshot(s)), keys)) for s in (t, u))
        return sum(rows * min(1.0, changed / max(1.0, groups)) for rows, groups in sizes)

    def _delta_join(self, join: Join, t: Time, u: Time) -> float:
        old_right, new_left = (self.rows(View(join.right, Snapshot(t))), self.rows(View(join.left, Snapshot(u))))
        left, right = (self.rows(View(side, Delta(t, u))) for side in join.inputs)
        # What a full join pads of its right side it pads of the changed rows, and of those that a change of the left side meets.
        by_left = replace(join, kind="left") if join.kind == "full" else join
        from_left = self._matches.joined(by_left, left, old_right)
        if join.kind == "inner":
            return from_left + self._matches.joined(join, new_left, right)
        affected = min(new_left, self._matches.inner(join, new_left, right))
        padded = 2 * right + min(old_right, self._matches.inner(join, left, old_right)) if join.kind == "full" else 0
        return from_left + 2 * affected + padded
