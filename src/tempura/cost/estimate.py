"""Cardinalities: how many rows each relation of a plan has. Estimates change cost, never correctness.

Joins use the textbook formula (product over the larger number of distinct keys), predicates the usual selectivities
(Selinger et al., SIGMOD 1979); deltas are estimated from the laws that compute them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import expm1, inf, prod

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
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, conjunction, conjuncts
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.algebra.window import Window, partition_keys
from tempura.cost.conditions import (
    EQUALITIES,
    compared_columns,
    compared_with_number,
    constants,
    equated_with,
    kept_apart,
    listed_values,
    narrowed,
    results,
    share_below,
    share_of_values,
    shares,
    split_equalities,
    values_in_all,
    values_left,
    within_bounds,
)
from tempura.cost.stats import ColumnStats, TableFacts, found_among, population
from tempura.cost.sums import Spread, spread, summed
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
_UNKNOWN_SELECTIVITY = 0.25
_FAN_OUT = {"ReplicateRows": 1.0, "JsonTuple": 1.0}
_UNKNOWN_FAN_OUT = 4.0
_RANGE_SELECTIVITY = 1 / 3
_PATTERN_SELECTIVITY = 0.05
_PATTERNS = ("Like", "Contains", "StartsWith", "EndsWith", "RLike")
_TOGETHER = 0.5
"""Rows with a value lie together where this part of them follows on each other."""
_SEVERAL = 2.0
"""So many rows of a value have to follow on each other for that to say anything of their order."""
_ROUNDS = 50
"""Of an iteration that converges slowly only where keys have hardly more than one row, and others hardly matter."""


def width(rel: Rel) -> float:
    """Bytes of a row in memory by its types alone, roughly."""
    return 8 + sum(known if (known := _value_bytes(column)) is not None else _UNKNOWN_WIDTH for column in rel.columns)


def _value_bytes(column: Column) -> float | None:
    return 16.0 if column.type.startswith("decimal") else _WIDTHS.get(column.type)


def _leaves_out_null(part: Expr) -> bool:
    return isinstance(part, Call) and part.function == "IsNotNull" and isinstance(part.operands[0], Ref)


def _among(values: float, rows: float, taken: float) -> float:
    """How many of so many values are among a share of the rows that have them (Yao, CACM 1977)."""
    return values * float(1 - (1 - taken) ** (rows / values)) if taken < 1 else values


def _least(shares: list[tuple[float, float]]) -> tuple[float, float]:
    """The smallest shares of two sides; all of them where nothing says that they are fewer."""
    return min([1.0, *(a for a, _ in shares)]), min([1.0, *(b for _, b in shares)])


Scope = tuple[Rel, ...]
"""Relations whose columns an expression may read: one, or the two sides of a join."""


def _home(column: Column, scope: Scope) -> Rel:
    return next(rel for rel in scope if column in rel.columns)


@dataclass(frozen=True, slots=True)
class _Condition:
    """What is known of a join's condition: the ``pairs`` that it equates, and the ``rest``; the fractions of both sides' keys, and of both
    sides' rows, that lie where the keys of the other side do."""

    pairs: list[tuple[Expr, Expr]]
    rest: list[Expr]
    common: tuple[float, float]
    overlap: tuple[float, float]


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
        self._distinct: dict[tuple[Rel, Column], float] = {}
        self._stats: dict[tuple[Rel, Column], ColumnStats | None] = {}
        self._domains: dict[tuple[Rel, Column], float] = {}
        self._conditions: dict[Join, _Condition] = {}
        self._sources: dict[tuple[Rel, Column], float] = {}
        self._origins: dict[tuple[Rel, tuple[Column, ...]], tuple[str, tuple[str, ...]] | None] = {}
        self._insides: dict[Rel, tuple[Rel, dict[Column, Column]]] = {}
        self._widths: dict[Rel, float] = {}
        self.layouts: dict[int, object] = {}  # how joins are made by these estimates, for ``cost.joins.joins_of``

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

    def defined(self, view: View, columns: Sequence[Column]) -> tuple[Rel, list[Column]] | None:
        """The operator that defines a snapshot, over the snapshots of its inputs, and what it calls some of the columns; None for what is
        no snapshot, or of a table."""
        rel = self._meaning(view.tvr)
        if not isinstance(view.at, Snapshot) or isinstance(rel, Scan):
            return None
        own = [rel.columns[view.columns.index(column)] for column in columns]
        return rel.with_inputs(*(View(i, view.at) for i in rel.inputs)), own

    def is_table(self, rel: Rel) -> bool:
        """Whether the rows of a relation are those of a table, or of its arrivals."""
        return isinstance(rel, Read | Scan) or (isinstance(rel, View) and isinstance(self._meaning(rel.tvr), Scan))

    def is_counted(self, rel: Rel) -> bool:
        """Whether the rows of a relation are no guess: those of tables, without NULLs, and of what earlier runs have counted."""
        match rel:
            case _ if self.is_table(rel):
                return True
            case Values():
                return True
            case Project() | Sort() | Negate():
                return self.is_counted(rel.input)
            case Filter() if self._known(rel) is None and all(map(_leaves_out_null, conjuncts(rel.predicate))):
                return self.is_counted(rel.input)
            case View() if self._known(rel) is None and (defined := self.defined(rel, ())):
                return self.is_counted(defined[0])
        return self._known(rel) is not None

    def few_deleted(self, rel: Rel) -> float | None:
        """How many deletions are among rows as they were read, if they are few of many; None when they are not, or are not read."""
        deleted, size = self._deleted(rel, self._deletions), self.width(rel)
        return deleted if deleted and are_few(deleted * size, self.rows(rel) * size) else None

    def entries(self, rel: Rel) -> float:
        """Estimated number of entries: of the rows of tables as they are read also those that came and went, each twice."""
        came_and_went = self._deleted(rel, lambda read: self._deletions(read) if isinstance(read.at, Snapshot) else 0.0)
        return self.rows(rel) + 2.0 * (came_and_went or 0.0)

    def _deleted(self, rel: Rel, of_read: Callable[[Read], float]) -> float | None:
        """The deletions among rows that are as they were read, but for conditions; None where anything else was done to them."""
        match rel:
            case Read():
                return of_read(rel)
            case Filter():
                found = self._deleted(rel.input, of_read)
                return None if found is None else found * self.rows(rel) / max(1.0, self.rows(rel.input))
            case Project():
                return self._deleted(rel.input, of_read)
            case Union():
                parts = [self._deleted(term, of_read) for term in rel.terms]
                known = [part for part in parts if part is not None]
                return sum(known) if len(known) == len(parts) else None
        return None

    def left_out(self, rel: Rel) -> float | None:
        """How many rows can be left out of those of tables by their places, if it is known of all deletions where the rows lie; None when
        it is not, or anything else than conditions was applied."""
        match rel:
            case Read():
                return self._placed(rel)
            case Filter():
                found = self.left_out(rel.input)
                return None if found is None else found * self.rows(rel) / max(1.0, self.rows(rel.input))
            case Project():
                return self.left_out(rel.input)
            case Union():
                known = [part for part in map(self.left_out, rel.terms) if part is not None]
                return sum(known) if len(known) == len(rel.terms) else None
        return None

    def _placed(self, read: Read) -> float | None:
        if not isinstance(read.at, Snapshot):
            return None
        table, at = self._tables[read.scan.table], self._staircase.seen(read.scan.table, read.at.t)
        placed = table.places_read(at)
        return float(placed) if placed == table.deletions_read(at) else None

    def _deletions(self, read: Read) -> float:
        table, seen = self._tables[read.scan.table], partial(self._staircase.seen, read.scan.table)
        if not read.signed:
            return 0.0
        if isinstance(read.at, Snapshot):
            return table.deletions_read(seen(read.at.t))
        return table.deleted[seen(read.at.u)] - table.deleted[seen(read.at.t)]

    def width(self, rel: Rel) -> float:
        """Bytes of a row in memory, roughly."""
        if rel not in self._widths:
            self._widths[rel] = 8 + sum(self._bytes(rel, column) for column in rel.columns)
        return self._widths[rel]

    def _bytes(self, rel: Rel, column: Column) -> float:
        known = _value_bytes(column)
        if known is not None:
            return known
        stats = self.stats(rel, column)
        return stats.width if stats and stats.width is not None else _UNKNOWN_WIDTH

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
                return self.rows(rel.input) * self.selectivity(rel.predicate, (rel.input,))
            case Project() | Sort() | Negate() | Consolidate() | Support() | Finalize():
                return self.rows(rel.input)
            case Generate():
                return self.rows(rel.input) * _FAN_OUT.get(rel.generator.function, _UNKNOWN_FAN_OUT)
            case Join():
                return self._join(rel, self.rows(rel.left), self.rows(rel.right))
            case MultiJoin():
                return self.rows(in_order(rel))
            case Aggregate() | Partial():
                return self.groups(rel.input, rel.keys)
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
        return self.groups(View(rel.input, Delta(at.t, at.u)), rel.keys)

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
            case Filter() | Project() | Expand() | Generate() | Sort() | Union():
                return self.rows(rel.with_inputs(*(View(i, Delta(t, u)) for i in rel.inputs)))
            case Join():
                return self._delta_join(rel, t, u)
            case MultiJoin():
                return self.rows(View(in_order(rel), Delta(t, u)))
            case Aggregate():
                return 2 * self.groups(View(rel.input, Delta(t, u)), rel.keys)
            case Window() if rel.partition:
                return self._delta_window(rel, t, u)
            case _:
                return self._snapshot(rel, t) + self._snapshot(rel, u)

    def _delta_window(self, rel: Window, t: Time, u: Time) -> float:
        """The rows of the partitions that changed, before and after."""
        keys = partition_keys(rel.partition, rel.functions)
        changed = self.groups(View(rel.input, Delta(t, u)), keys)
        sizes = ((self._snapshot(rel, s), self.groups(View(rel.input, Snapshot(s)), keys)) for s in (t, u))
        return sum(rows * min(1.0, changed / max(1.0, groups)) for rows, groups in sizes)

    def _delta_join(self, join: Join, t: Time, u: Time) -> float:
        old_right, new_left = (self.rows(View(join.right, Snapshot(t))), self.rows(View(join.left, Snapshot(u))))
        left, right = (self.rows(View(side, Delta(t, u))) for side in join.inputs)
        from_left = self._join(join, left, old_right)
        if join.kind == "inner":
            return from_left + self._join(join, new_left, right)
        affected = min(new_left, self._matches(join, new_left, right))
        return from_left + 2 * affected + (2 * right if join.kind == "full" else 0)

    # --- joins, groups, predicates ---

    def _matches(self, join: Join, left: float, right: float) -> float:
        """Rows of the inner join of ``left`` with ``right`` rows of the join's inputs."""
        on = self._condition(join)
        matching = left * on.overlap[0] * right * on.overlap[1] / self._possible_keys(on, join)
        return matching * prod(self.selectivity(part, join.inputs) for part in on.rest)

    def _possible_keys(self, on: _Condition, join: Join) -> float:
        """How many keys rows of both sides could have."""
        sides = ([pair[side] for pair in on.pairs] for side in (0, 1))
        keys = (self._keys(key, rel) * had for key, rel, had in zip(sides, join.inputs, on.common, strict=True))
        return max([1.0, *keys])

    def _condition(self, join: Join) -> _Condition:
        """What is known of a join's condition: asked for several numbers of rows on both sides."""
        known = self._conditions.get(join)
        if known is None:
            pairs, rest = split_equalities(join, null_aware=True)
            shared = [self._shares(pair, join) for pair in pairs]
            overlap = self._overlap(pairs, shared, join)
            found = _Condition(pairs, rest, _least(shared), overlap)
            known = self._conditions[join] = found
        return known

    def _keys(self, key: list[Expr], rel: Rel) -> float:
        """How many values a key could have, in rows that were filtered by something else: a row of the other side has any of them. Its
        columns depend on each other: it has no more values than the tables have rows that they come from."""
        if not key:
            return 1.0
        sources = [self._source_rows(rel, column) for part in key for column in part.columns]
        return min(prod(self._domain_of(part, rel) for part in key), max([1.0, *sources]), self._together(key, rel))

    def _together(self, key: Sequence[Expr], rel: Rel) -> float:
        """How many values the columns of a key have together in the table that they come from, where that was looked at."""
        return self._seen_together(key, rel)[0]

    def _seen_together(self, key: Sequence[Expr], rel: Rel) -> tuple[float, float]:
        """The same, and in how many rows; infinite where that was not looked at."""
        columns = tuple(part.column for part in key if isinstance(part, Ref))
        origin = self._origin(*self._grouped(rel, columns)) if 1 < len(columns) == len(key) else None
        table = self._tables.get(origin[0]) if origin else None
        values = table.together.get(frozenset(origin[1])) if table and origin else None
        return (values, table.rows(table.known - 1)) if table and values else (inf, inf)

    def _groups_together(self, keys: Sequence[Expr], rel: Rel) -> float:
        """The most groups by columns of one table of which it was looked at how many values they have together: as many as are found among
        the rows of the table, as of one time or of what came between two, if each comes as often as another."""
        values, among = self._seen_together(keys, rel)
        if values == inf:
            return inf
        grouped, columns = self._grouped(rel, tuple(key.column for key in keys if isinstance(key, Ref)))
        return found_among(min(self.rows(rel), self._source_rows(grouped, columns[0])), population(values, among))

    def _grouped(self, rel: Rel, columns: tuple[Column, ...]) -> tuple[Rel, tuple[Column, ...]]:
        """The rows that are grouped by some columns, and what these are called there; of what is not grouped by them, itself."""
        inside = self._inside(rel, columns[0])[0]
        operator = inside.tvr if isinstance(inside, View) else inside
        own = tuple(self._inside(rel, column)[1] for column in columns)
        match operator:
            case Aggregate() | Partial():
                made = operator.keys
            case Project():
                made = operator.outputs
            case _:
                return rel, columns
        refs = {output.column: output.expr.column for output in made if isinstance(output.expr, Ref)}
        if not refs.keys() >= set(own):
            return rel, columns
        return self._grouped(operator.input, tuple(refs[column] for column in own))

    def _source_rows(self, rel: Rel, column: Column) -> float:
        """The rows of what a column comes from, before conditions on something else."""
        key = (rel, column)
        if key not in self._sources:
            self._sources[key] = self._find_source_rows(*self._inside(rel, column))
        return self._sources[key]

    def _find_source_rows(self, rel: Rel, column: Column) -> float:
        if isinstance(rel, View) and not isinstance(rel.tvr, Scan):
            return self._source_rows(rel.tvr, column)
        match rel:
            case Filter() | Join() | Sort() | Window():
                return next((self._source_rows(i, column) for i in rel.inputs if column in i.columns), self.rows(rel))
            case Project():
                same = (o.expr.column for o in rel.outputs if o.column == column and isinstance(o.expr, Ref))
                return next((self._source_rows(rel.input, source) for source in same), self.rows(rel))
        return self.rows(rel)

    def _shares(self, pair: tuple[Expr, Expr], join: Join) -> tuple[float, float]:
        """The fractions of both sides' keys that lie where the keys of the other side do, by what one pair equates: the dates of sales are
        few of those in a calendar of two centuries. By their ranges; or, of one column of a table, by how many of its values there are on
        each side before anything else is filtered: the fewer are among the others."""
        by_range = shares(*self._stats_of(pair, join))
        a, b = pair
        if not isinstance(a, Ref) or not isinstance(b, Ref) or not self._is_of_one_column(a.column, b.column, join):
            return by_range
        left, right = self._domain_of(a, join.left), self._domain_of(b, join.right)
        return min(by_range[0], right / left, 1.0), min(by_range[1], left / right, 1.0)

    def _stats_of(self, pair: tuple[Expr, Expr], join: Join) -> tuple[ColumnStats | None, ColumnStats | None]:
        a, b = pair
        if not isinstance(a, Ref) or not isinstance(b, Ref):
            return None, None
        return self.stats(join.left, a.column), self.stats(join.right, b.column)

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
        return max(1.0, self._domain_of(key, rel) / self.distinct_of(key, (rel,)))

    def _join(self, join: Join, left: float, right: float) -> float:
        if join.kind == "inner":
            return self._matches(join, left, right)
        if join.kind in ("exists", "single"):
            return left
        matches = self._matches(join, left, right)
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

    def _matching(self, join: Join, left: float, right: float) -> float:
        """Rows of the left side that match at least one row: of those whose key the right side has, all for which one of the rows with that
        key meets the rest of the condition. The right side has some of the values that a key could have; what was filtered by something
        else than the key has them as often."""
        on = self._condition(join)
        could_be = [
            max(self._domain_of(own, join.left) * on.common[0], self._domain_of(other, join.right) * on.common[1])
            for own, other in on.pairs
        ]
        theirs = [self.distinct_of(other, (join.right,)) for _, other in on.pairs]
        shares = [min(1.0, has / all_of) for has, all_of in zip(theirs, could_be, strict=True)]
        found: float = left * min([*shares, on.overlap[0]])
        candidates = max(1.0, right / max(1.0, min(prod(theirs), right)))
        met = min(1.0, prod(self.selectivity(part, join.inputs) for part in on.rest))
        if self._is_with_others(on, join):
            return float(left * on.overlap[0] * -expm1(-self._others(on, join, right) * met))
        missed: float = (1 - met) ** candidates
        return found * (1 - missed)

    def _others(self, on: _Condition, join: Join, right: float) -> float:
        """How many others of so many rows of the right side have the key of a row of the table: as many as any key has rows, where rows
        come to keys as they like and keys of no row are not known (a Poisson distribution without its zero)."""
        every = max(1.0, *(self._source_rows(join.right, column) for _, b in on.pairs for column in b.columns))
        per_key = max(1.0, every / self._possible_keys(on, join))
        others = per_key
        for _ in range(_ROUNDS):
            others = per_key * -expm1(-others)
        return others * right * on.overlap[1] / every

    def _is_with_others(self, on: _Condition, join: Join) -> bool:
        """Whether rows of a table are matched with others that have the same key: a column that has to differ keeps a row from itself."""
        apart = [pair for part in on.rest if (pair := kept_apart(part))]
        if not any(self._is_of_one_column(*pair, join) for pair in apart):
            return False
        keys = [(a.column, b.column) for a, b in on.pairs if isinstance(a, Ref) and isinstance(b, Ref)]
        return len(keys) == len(on.pairs) and all(self._is_of_one_column(*pair, join) for pair in keys)

    def _is_of_one_column(self, a: Column, b: Column, join: Join) -> bool:
        """Whether columns of both sides of a join are the same column of a table."""
        if (a in join.left.columns) == (b in join.left.columns):
            return False
        origins = [self._origin(_home(column, join.inputs), (column,)) for column in (a, b)]
        return origins[0] is not None and origins[0] == origins[1]

    def _origin(self, rel: Rel, columns: tuple[Column, ...]) -> tuple[str, tuple[str, ...]] | None:
        """The table and the fields of one row of it that some columns are, unchanged; None when they are computed, or of several rows."""
        key = (rel, columns)
        if key not in self._origins:
            inside = [self._inside(rel, column) for column in columns]
            self._origins[key] = self._find_origin(inside[0][0], tuple(column for _, column in inside))
        return self._origins[key]

    def _find_origin(self, rel: Rel, columns: tuple[Column, ...]) -> tuple[str, tuple[str, ...]] | None:
        scan = rel.tvr if isinstance(rel, View) else rel.scan if isinstance(rel, Read) else rel
        match scan:
            case Scan():
                fields = dict(zip(scan.outputs, scan.fields, strict=True))
                return scan.table, tuple(fields[column] for column in columns)
            case Project():
                refs = {o.column: o.expr.column for o in scan.outputs if isinstance(o.expr, Ref)}
                same = tuple(refs[column] for column in columns if column in refs)
                return self._origin(scan.input, same) if len(same) == len(columns) else None
        below = next((i for i in scan.inputs if all(column in i.columns for column in columns)), None)
        return self._origin(below, columns) if below else None

    def groups(self, rel: Rel, keys: tuple[Output, ...]) -> float:
        """Expected number of groups: how many of the possible keys occur among the rows."""
        if not keys:
            return 1.0
        rows, exprs = self.rows(rel), tuple(dict.fromkeys(key.expr for key in keys))
        possible = prod(max(1.0, self.distinct_of(expr, (rel,))) for expr in exprs)
        most = min(self._most_groups(rel, exprs), self._groups_together(exprs, rel))
        return min(rows, found_among(rows, possible), most)

    def _most_groups(self, rel: Rel, keys: tuple[Expr, ...]) -> float:
        """The most groups that there can be. Keys that come from one of the relations that were joined depend on each other: it has no more
        combinations of them than rows."""
        found: dict[Rel | None, float] = {}
        for key in keys:
            sources = {self._source(rel, column)[0] for column in key.columns}
            source = sources.pop() if len(sources) == 1 else None
            found[source] = found.get(source, 1.0) * max(1.0, self.distinct_of(key, (rel,)))
        return prod(min(n, max(1.0, self.rows(source))) if source else n for source, n in found.items())

    def _source(self, rel: Rel, column: Column) -> tuple[Rel, bool]:
        """Of the relations that are joined to one the one that a column comes from, as it is before it is joined; whether it is."""
        inside, column = self._inside(rel, column)
        operator = inside.tvr if isinstance(inside, View) else inside
        match operator:
            case Join() | MultiJoin():
                side = next((side for side in operator.inputs if column in side.columns), None)
                return (self._source(side, column)[0], True) if side else (rel, False)
            case Filter() | Sort() | Window() if column in operator.input.columns:
                source, joined = self._source(operator.input, column)
            case Project():
                same = (o.expr.column for o in operator.outputs if o.column == column and isinstance(o.expr, Ref))
                known = next(same, None)
                source, joined = self._source(operator.input, known) if known else (rel, False)
            case _:
                return rel, False
        return (source, True) if joined else (rel, False)

    def distinct_of(self, expr: Expr, scope: Scope) -> float:
        """Distinct values of an expression over relations side by side."""
        possible = prod(self._column(_home(column, scope), column) for column in expr.columns)
        return max(1.0, min(possible, self._results(expr, scope)))

    def _results(self, expr: Expr, scope: Scope) -> float:
        """How many results an expression has, whatever its arguments; infinite when nothing is known."""
        if not isinstance(expr, Call):
            return inf
        if expr.function == "Year" and isinstance(arg := expr.operands[0], Ref):
            stats = self.stats(_home(arg.column, scope), arg.column)
            days = stats.high - stats.low if stats and stats.low is not None and stats.high is not None else inf
            return days / 365.25 + 1 if arg.type == "date" else inf
        return 2.0 if expr.type == "boolean" else results(expr)

    def _column(self, rel: Rel, column: Column) -> float:
        key = (rel, column)
        known = self._distinct.get(key)
        if known is None:
            known = self._distinct[key] = max(1.0, self._distinct_column(rel, column))
        return known

    def _inside(self, rel: Rel, column: Column) -> tuple[Rel, Column]:
        """A column of a class, or of a view of one, as a column of what the class stands for."""
        edge = rel.tvr if isinstance(rel, View) else rel
        if not isinstance(edge, Edge):
            return rel, column
        known = self._insides.get(rel)
        if known is None:
            meant = self._meaning(edge)
            inside = replace(rel, tvr=meant) if isinstance(rel, View) else meant
            known = self._insides[rel] = inside, dict(zip(edge.columns, meant.columns, strict=True))
        return known[0], known[1][column]

    def _distinct_column(self, rel: Rel, column: Column) -> float:
        rel, column = self._inside(rel, column)
        if isinstance(rel, View) and not isinstance(rel.tvr, Scan):
            return min(self._column(rel.tvr, column), max(1.0, self.rows(rel)))
        return min(self._derived(rel, column), max(1.0, self.rows(rel)))

    def _derived(self, rel: Rel, column: Column) -> float:
        match rel:
            case Filter():
                return self._filtered(rel, column)
            case Join():
                return self._joined(rel, column)
            case MultiJoin():
                return self._column(in_order(rel), column)
            case Union():
                return max(self._column(term, column) for term in rel.terms)
            case Project() | Aggregate():
                outputs = rel.outputs if isinstance(rel, Project) else rel.keys
                for output in outputs:
                    if output.column == column:
                        return self.distinct_of(output.expr, (rel.input,))
            case Expand():
                made = (output.expr for outputs in rel.projections for output in outputs if output.column == column)
                return max(sum(self.distinct_of(expr, (rel.input,)) for expr in dict.fromkeys(made)), 1.0)
        for child in rel.inputs:
            if column in child.columns:
                return self._column(child, column)
        stats = self.stats(rel, column)
        # A table's column of which nothing is known: neither a key nor a constant.
        return stats.distinct if stats else max(1.0, float(self.rows(rel) ** 0.5))

    def _domain_of(self, expr: Expr, rel: Rel) -> float:
        """How many values an expression could have, in rows that were filtered by something else."""
        return self._domain(rel, expr.column) if isinstance(expr, Ref) else self.distinct_of(expr, (rel,))

    def _domain(self, rel: Rel, column: Column) -> float:
        """How many values a column could have: those of its table, within what is said of the column itself."""
        key = (rel, column)
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = self._find_domain(rel, column)
        return known

    def _find_domain(self, rel: Rel, column: Column) -> float:
        rel, column = self._inside(rel, column)
        own = self._column(rel, column)
        match rel:
            case View() if isinstance(rel.at, Delta):
                # Rows that arrive at the same time are not drawn from all that there are.
                return own
            case View() if not isinstance(rel.tvr, Scan):
                return self._domain(rel.tvr, column)
            case Filter():
                stats, named = self.stats(rel.input, column), values_left(column, rel.predicate)
                within = within_bounds(stats, column, rel.predicate) if stats else 1.0
                equal = (self._column(rel.input, other) for other in equated_with(column, rel.predicate))
                found = min(self._domain(rel.input, column) * within, named or inf, *equal)
                return max(own, found)
            case Join() if column != rel.marker:
                others = (self._column(_home(c, rel.inputs), c) for c in equated_with(column, rel.on))
                filtered = rel.kind in ("inner", "semi")
                before = self._domain(_home(column, rel.inputs), column)
                return max(own, min([before, self._within_keys(rel, column), *others]) if filtered else before)
            case Project():
                same = (o.expr.column for o in rel.outputs if o.column == column and isinstance(o.expr, Ref))
                return next((self._domain(rel.input, source) for source in same), own)
        return next((self._domain(child, column) for child in rel.inputs if column in child.columns), own)

    def _within_keys(self, join: Join, column: Column) -> float:
        """How many values a column could have where the keys of its side lie in the range of the other side's: a calendar has more weeks
        than the years of sales. Rows that have a value in common lie together, or anywhere."""
        on, side = self._condition(join), 0 if column in join.left.columns else 1
        own, share = join.inputs[side], on.common[side]
        values = self._domain(own, column)
        if share >= 1 or any(column in pair[side].columns for pair in on.pairs):
            return values
        return self._among(values, own, column, max(1.0, self._source_rows(own, column)), share)

    def _among(self, values: float, rel: Rel, column: Column, rows: float, share: float) -> float:
        """How many of a column's values are among a share of rows that lie in a stretch of them."""
        return values * share if self._lie_together(rel, column) else _among(values, rows, share)

    def _lie_together(self, rel: Rel, column: Column) -> bool:
        """Whether the rows of a table that have a value of a column in common, several for each, lie next to each other, as in the order of
        the column."""
        stats = self.stats(rel, column)
        if stats is None or stats.run < _SEVERAL:
            return False
        return stats.run * stats.distinct >= _TOGETHER * self._source_rows(rel, column)

    def _are_a_stretch(self, rel: Filter) -> bool:
        """Whether what a condition leaves lies together: it asks of columns in whose order rows seem to be."""
        columns = rel.predicate.columns
        return bool(columns) and all(self._lie_together(rel.input, column) for column in columns)

    def _filtered(self, rel: Filter, column: Column) -> float:
        """Values left by a filter: those that it names or that lie within its bounds, the fewest of what it says are equal, else those of
        the rows that are left."""
        values = [self._left(rel, rel.input, column, in_a_stretch=self._are_a_stretch(rel))]
        stats = self.stats(rel.input, column)
        if stats:
            values.append(self._column(rel.input, column) * within_bounds(stats, column, rel.predicate))
        values += [self._left(rel, rel.input, other) for other in equated_with(column, rel.predicate)]
        return min(*values, values_left(column, rel.predicate) or values[0])

    def _joined(self, rel: Join, column: Column) -> float:
        """A join keeps of a key the values that both sides have; of a side that it filters, those of the rows that are left."""
        if column == rel.marker:
            return 2.0
        side = _home(column, rel.inputs)
        own = self._left(rel, side, column) if rel.kind in ("semi", "anti") else self._column(side, column)
        keeps_matches = rel.kind in ("inner", "semi") or (rel.kind in ("left", "single") and side is rel.right)
        others = equated_with(column, rel.on) if keeps_matches else ()
        within = max(1.0, self._within_keys(rel, column)) if keeps_matches else own
        return min((own, within, *(self._column(_home(other, rel.inputs), other) for other in others)))

    def _left(self, rel: Rel, source: Rel, column: Column, in_a_stretch: bool = False) -> float:
        """How many of a column's values are among the rows that are taken from a relation, here and there or ``in_a_stretch``."""
        values, rows = self._column(source, column), max(1.0, self.rows(source))
        taken = min(1.0, self.rows(rel) / rows)
        return (
            max(1.0, self._among(values, source, column, rows, taken)) if in_a_stretch else _among(values, rows, taken)
        )

    def stats(self, rel: Rel, column: Column) -> ColumnStats | None:
        """Statistics of the table column that a column is, unchanged; None when it is computed or unknown. A filter narrows its
        bounds."""
        key = (rel, column)
        if key not in self._stats:
            self._stats[key] = self._find_stats(*self._inside(rel, column))
        return self._stats[key]

    def _find_stats(self, rel: Rel, column: Column) -> ColumnStats | None:
        scan = rel.tvr if isinstance(rel, View) else rel.scan if isinstance(rel, Read) else rel
        match scan:
            case Scan():
                names = dict(zip(scan.outputs, scan.fields, strict=True))
                return self._tables[scan.table].columns.get(names.get(column, ""))
            case Project():
                same = (o.expr.column for o in scan.outputs if o.column == column and isinstance(o.expr, Ref))
                return next((self.stats(scan.input, source) for source in same), None)
            case Filter():
                found = self.stats(scan.input, column)
                return narrowed(found, column, scan.predicate) if found else None
        return next((self.stats(i, column) for i in scan.inputs if column in i.columns), None)

    def selectivity(self, predicate: Expr, scope: Scope) -> float:
        """The fraction of rows for which a predicate is TRUE."""
        if isinstance(predicate, Literal):
            return 1.0 if predicate.value is True else 0.0
        if not isinstance(predicate, Call):
            return _UNKNOWN_SELECTIVITY
        match predicate.function:
            case "And":
                return self._conjunction(predicate, scope)
            case "Or":
                return 1 - prod(1 - self.selectivity(arg, scope) for arg in predicate.operands)
            case "Not":
                return 1 - self.selectivity(predicate.operands[0], scope)
            case "IsNotNull" | "IsNull":
                return self._null_selectivity(predicate, scope)
            case "EqualTo" | "EqualNullSafe" | "In" | "InSet":
                if found := constants(predicate):
                    return self._listed(found[0], values_in_all((found[1],), ()), scope)
                return self._equal_selectivity(predicate, scope)
            case "LessThan" | "LessThanOrEqual" | "GreaterThan" | "GreaterThanOrEqual":
                return self._range_selectivity(predicate, scope)
            case pattern if pattern in _PATTERNS:
                return _PATTERN_SELECTIVITY
            case _:
                return _UNKNOWN_SELECTIVITY

    def _equal_selectivity(self, predicate: Call, scope: Scope) -> float:
        """As if all values were equally frequent."""
        if predicate.function in EQUALITIES:
            return 1 / max(1.0, *(self.distinct_of(arg, scope) for arg in predicate.operands))
        return min(1.0, listed_values(predicate) / self.distinct_of(predicate.operands[0], scope))

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
        return prod(lists) * prod(ranges) * prod(self.selectivity(part, scope) for part in rest)

    def _listed(self, subject: Expr, values: list[object], scope: Scope) -> float:
        """The fraction of rows in which an expression has one of some values: by the frequencies of a table's values, else as if all were
        equally frequent."""
        stats = self.stats(_home(subject.column, scope), subject.column) if isinstance(subject, Ref) else None
        counted = share_of_values(stats, values) if stats else None
        return min(1.0, len(values) / max(1.0, self.distinct_of(subject, scope))) if counted is None else counted

    def _null_selectivity(self, predicate: Call, scope: Scope) -> float:
        (arg,) = predicate.operands
        nulls = self._nulls(_home(arg.column, scope), arg.column) if isinstance(arg, Ref) else None
        nulls = 0.05 if nulls is None else nulls
        return nulls if predicate.function == "IsNull" else 1 - nulls

    def _nulls(self, rel: Rel, column: Column) -> float | None:
        """The fraction of rows in which a column is NULL: what its table says, and what outer joins add; None when it is computed."""
        rel, column = self._inside(rel, column)
        match rel:
            case View() if not isinstance(rel.tvr, Scan):
                return self._nulls(rel.tvr, column)
            case View() | Read() | Scan():
                stats = self.stats(rel, column)
                return stats.null_fraction if stats else None
            case Project():
                same = (o.expr.column for o in rel.outputs if o.column == column and isinstance(o.expr, Ref))
                return next((self._nulls(rel.input, source) for source in same), None)
            case Join():
                side = _home(column, rel.inputs) if column != rel.marker else None
                own = self._nulls(side, column) if side else 0.0
                added = self._padded(rel, side is rel.left)
                return added + (1 - added) * (own or 0.0) if added else own
        return next((self._nulls(i, column) for i in rel.inputs if column in i.columns), None)

    def _padded(self, join: Join, of_left: bool) -> float:
        """The fraction of an outer join's rows that have NULL for one of its sides: those of the other side that match nothing."""
        if join.kind not in ("left", "full", "single") or (of_left and join.kind != "full"):
            return 0.0
        left, right = map(self.rows, join.inputs)
        matches = self._matches(join, left, right)
        unmatched = right - matches if of_left else left - min(matches, self._matching(join, left, right))
        return max(0.0, unmatched) / max(1.0, self.rows(join))

    def _range_selectivity(self, predicate: Call, scope: Scope) -> float:
        found = compared_with_number(predicate)
        if found and isinstance(found[0], Ref):
            return self._range(found[0].column, predicate, 1, scope)
        columns = compared_columns(predicate)
        if columns is None:
            return _RANGE_SELECTIVITY
        below, above = (self.stats(_home(column, scope), column) for column in columns)
        found_share = share_below(below, above) if below and above else None
        return _RANGE_SELECTIVITY if found_share is None else found_share

    def _range(self, column: Column, bounds: Expr, number: int, scope: Scope) -> float:
        """The fraction of rows whose value of a column lies within so many bounds; at least one value does."""
        home = _home(column, scope)
        stats = self.stats(home, column)
        if stats and stats.low is not None and stats.high is not None and stats.high > stats.low:
            return within_bounds(stats, column, bounds)
        found = self._spread(home, column) if stats is None else None
        if found is None:
            return _RANGE_SELECTIVITY**number
        return min(1.0, max(found.within(column, bounds), 1 / max(1.0, self.rows(home))))

    def _spread(self, rel: Rel, column: Column) -> Spread | None:
        """How a count or a sum of groups is spread; None for any other column."""
        rel, column = self._inside(rel, column)
        if isinstance(rel, View) and (defined := self.defined(rel, (column,))):
            rel, (column,) = defined
        match rel:
            case Filter() | Sort():
                return self._spread(rel.input, column)
            case Project():
                same = (o.expr.column for o in rel.outputs if o.column == column and isinstance(o.expr, Ref))
                return next((self._spread(rel.input, source) for source in same), None)
            case Aggregate():
                call = next((a.call for a in rel.aggregates if a.column == column), None)
                value = summed(call) if call else None
                values = self.stats(rel.input, value.column) if value else None
                return spread(call, self.rows(rel.input) / max(1.0, self.rows(rel)), values) if call else None
        return None
