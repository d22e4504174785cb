"""What joins cost: the smaller side sent to every task, or both shuffled, but what lies by their columns already, and joined by a table of
the smaller one, or sorted and merged."""

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cached_property
from math import inf, log10
from weakref import proxy

from tempura.algebra.multi_join import MultiJoin, in_order
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel
from tempura.algebra.scalar import Column, Expr, Output, Ref
from tempura.cost.bounds import Bounds
from tempura.cost.conditions import split_equalities
from tempura.cost.estimate import Estimator
from tempura.cost.expressions import evaluation, is_one_number
from tempura.cost.prices import Prices
from tempura.physical.operators import Load, Read
from tempura.tvr.views import View

_COMPARED = 5
"""How many times as long it takes to sort rows by anything else: they are compared with each other."""
_LOOKED_UP = 5
"""How many times as long it takes to look up what is not one number: its bytes are put together, hashed and compared."""

AT_MOST, COUNTED_AT_MOST = 30, 2
"""By how much an estimate may be too low, where keys say no more; and one by what earlier runs have counted. One that is further off costs
the attempt to send too much."""

_IN_A_TABLE = 8
"""So many rows of a key a table may have: chosen, not measured."""


class Lies(Enum):
    """How rows lie by some columns: those with equal values in one task, and in it next to each other or not."""

    SHUFFLED = "shuffled"
    SORTED = "sorted"


class Joins:
    """Prices of joins as a plan has them made: what is expected to be small enough is sent to every task."""

    def __init__(self, prices: Prices, estimate: Estimator) -> None:
        self._prices = prices
        self._estimate = estimate
        self._small: dict[Join, list[int]] = {}
        self._side_by_side: dict[tuple[Rel, Column], float] = {}

    def cost(self, join: Join) -> int:
        """What a join takes, without its inputs."""
        side = self.sent(join)
        return self._matches(join) + (self._both_shuffled(join) if side is None else self._sent(join, side))

    def sent(self, join: Join) -> int | None:
        """The side, 0 or 1, that is sent to every task; None when none is."""
        return next(iter(self.small(join)), None)

    def small(self, join: Join) -> list[int]:
        """The sides, 0 or 1, that are expected to be small enough to be sent to every task, and would not be too large for it if they had
        more rows than expected, the smaller first; of a join that is not inner only the right one can be."""
        if join not in self._small:
            sizes = list(map(self._bytes, join.inputs))
            sides = small_sides(join, sizes, inf)
            self._small[join] = [side for side in sides if self._can_be_sent(join.inputs[side], sizes[side])]
        return self._small[join]

    def _can_be_sent(self, rel: Rel, size: float) -> bool:
        """``size``: the bytes that are expected."""
        counted, bound = self._estimate.is_counted(rel), self._prices.broadcast_bound
        most = max(self._prices.counted_bytes if counted else 0, self._prices.broadcast_bytes)
        if size > most:
            return False
        if size * (COUNTED_AT_MOST if counted else AT_MOST) <= bound:
            return True
        return self._bounds.rows(rel) * self._estimate.width(rel) <= bound

    @cached_property
    def _bounds(self) -> Bounds:
        return Bounds(self._most_rows)

    def _most_rows(self, leaf: Read | Load | View) -> float:
        """What warrants how many rows a table has, and what is defined by tables."""
        if self._estimate.is_table(leaf):
            return self._estimate.rows(leaf)
        found = self._estimate.defined(leaf, ()) if isinstance(leaf, View) else None
        return self._bounds.rows(found[0]) if found else inf

    def lies(self, rel: Rel, keys: Sequence[Expr]) -> Lies | None:
        """How rows lie by the keys of a join that would shuffle and sort them, because a join or an aggregation below has put them so; None
        where nothing has. Of a snapshot that is what the operator does that defines it, however it is computed."""
        wanted = [key.column for key in keys if isinstance(key, Ref)]
        if not keys or len(wanted) < len(keys):
            return None
        match rel:
            case View():
                found = self._defined(rel, wanted)
                return self.lies(found[0], [Ref(column) for column in found[1]]) if found else None
            case Filter():
                return self.lies(rel.input, keys)
            case Project():
                sources = {output.column: output.expr for output in rel.outputs}
                return self.lies(rel.input, [sources[column] for column in wanted])
            case Aggregate():
                return Lies.SHUFFLED if set(wanted) == {key.column for key in rel.keys} else None
            case MultiJoin():
                return self.lies(in_order(rel), keys)
            case Join() if rel.kind != "full":
                return self._joined(rel, keys)
        return None

    def adjacent(self, rel: Rel, keys: Sequence[Expr]) -> float:
        """How many rows with equal keys come one after the other, on average: 1 where nothing says that they do. Rows of a table were seen
        to; they stay so where they are filtered, or joined with what is sent to every task."""
        columns = [key.column for key in keys if isinstance(key, Ref)]
        if not keys or len(columns) < len(keys):
            return 1.0
        return min(self._adjacent(rel, column) for column in columns)

    def _adjacent(self, rel: Rel, column: Column) -> float:
        key = (rel, column)
        if key not in self._side_by_side:
            self._side_by_side[key] = self._find_adjacent(rel, column)
        return self._side_by_side[key]

    def _find_adjacent(self, rel: Rel, column: Column) -> float:
        match rel:
            case View() if found := self._defined(rel, [column]):
                return self._adjacent(found[0], found[1][0])
            case _ if self._estimate.is_table(rel):
                stats = self._estimate.stats(rel, column)
                return stats.adjacent if stats else 1.0
            case Filter():
                return self._left(self._adjacent(rel.input, column), rel, rel.input)
            case Project():
                sources = {output.column: output.expr for output in rel.outputs}
                return self.adjacent(rel.input, [sources[column]])
            case MultiJoin():
                return self._adjacent(in_order(rel), column)
            case Join():
                side = self.sent(rel)
                if side is not None and column in rel.inputs[1 - side].columns:
                    kept = rel.inputs[1 - side]
                    return self._left(self._adjacent(kept, column), rel, kept)
        return 1.0

    def _left(self, adjacent: float, rel: Rel, before: Rel) -> float:
        """What is left of rows side by side when others of them are dropped, or each has several matches."""
        rows = (max(1.0, self._estimate.rows(r)) for r in (rel, before))
        return max(1.0, adjacent * next(rows) / next(rows)) if adjacent > 1 else 1.0

    def _defined(self, view: View, columns: Sequence[Column]) -> tuple[Rel, list[Column]] | None:
        return self._estimate.defined(view, columns)

    def _joined(self, join: Join, keys: Sequence[Expr]) -> Lies | None:
        """How the rows of a join lie: by its own keys, or as what is not sent to every task."""
        side = self.sent(join)
        if side is not None:
            kept = join.inputs[1 - side]
            return self.lies(kept, keys) if kept.column_set.issuperset(_columns(keys)) else None
        # Of an outer join only the keys of the side that is kept are no NULLs.
        sides = keys_of(join) if join.kind == "inner" else keys_of(join)[:1]
        lies = Lies.SORTED if self.held(join) is None else Lies.SHUFFLED
        return lies if any(set(own) == set(keys) for own in sides) else None

    def _matches(self, join: Join) -> int:
        """What the rows take that match by the keys: to be put together, and to be looked at by the rest of the condition."""
        others = split_equalities(join)[1]
        return round(self._estimate.rows(join) * (self._prices.output_row + sum(map(evaluation, others))))

    def _sent(self, join: Join, side: int) -> int:
        return self._prices.exchange + self._probed(join, side)

    def _probed(self, join: Join, side: int) -> int:
        """Build a table of one side, and look the rows of the other up there."""
        small, large = (self._estimate.rows(join.inputs[i]) for i in (side, 1 - side))
        keys = keys_of(join)[side]
        compared = _LOOKED_UP if keys and not is_one_number(keys) else 1
        # The larger the table that is probed, the fewer of its rows are in the processor's cache.
        probe = self._prices.probe_row * (compared + log10(max(1.0, small / 1000)))
        return round(small * self._prices.build_row + large * probe)

    def _both_shuffled(self, join: Join) -> int:
        """A table of the smaller side in each task, or both sides sorted and merged."""
        sides = list(zip(join.inputs, keys_of(join), strict=True))
        shuffled = sum(self._shuffled(rel, keys) for rel, keys in sides)
        held = self.held(join)
        joined = sum(self._sorted(rel, keys) for rel, keys in sides) if held is None else self._probed(join, held)
        return shuffled + joined

    def held(self, join: Join) -> int | None:
        """The side, 0 or 1, of which each task makes a table once both are shuffled; None when they are merged: by one number that is as
        dear, and where many rows share a key it was seen to be much cheaper (TPC-DS q72)."""
        keys = keys_of(join)
        if not self._prices.hashed_joins or not keys[0] or is_one_number(keys[0]):
            return None
        side = next(iter(small_sides(join, list(map(self._bytes, join.inputs)), inf)), None)
        return side if side is not None and self._rows_per_key(join.inputs[side], keys[side]) <= _IN_A_TABLE else None

    def _rows_per_key(self, rel: Rel, keys: Sequence[Expr]) -> float:
        outputs = tuple(Output(Column(f"{key}", "", key.type), key) for key in keys)
        return self._estimate.rows(rel) / max(1.0, self._estimate.groups(rel, outputs))

    def _shuffled(self, rel: Rel, keys: Sequence[Expr]) -> int:
        """What it takes to put a side of a join by its keys."""
        if self.lies(rel, keys):
            return 0
        return self._prices.shuffle(self._estimate.rows(rel), self._estimate.width(rel))

    def _sorted(self, rel: Rel, keys: Sequence[Expr]) -> int:
        """What it takes to merge a side of a join that lies by its keys."""
        if self.lies(rel, keys) is Lies.SORTED:
            return round(self._estimate.rows(rel) * self._prices.probe_row)
        return round(self._estimate.rows(rel) * self._prices.merge_row * (1 if is_one_number(keys) else _COMPARED))

    def _bytes(self, rel: Rel) -> float:
        return self._estimate.rows(rel) * self._estimate.width(rel)


def joins_of(prices: Prices, estimate: Estimator) -> Joins:
    """How joins are made by some prices and estimates; what was found out is remembered with the estimates."""
    known = estimate.layouts.get(id(prices))
    if not isinstance(known, Joins):
        # What is remembered holds the prices, so that no others get their id; and not the estimates, which hold it.
        known = estimate.layouts[id(prices)] = Joins(prices, proxy(estimate))
    return known


def small_sides(join: Join, bytes: Sequence[float], most: float) -> list[int]:
    """The sides of a join that can be sent to every task and have at most so many bytes, the smaller first."""
    could_be = {"full": (), "inner": (1, 0)}.get(join.kind, (1,))
    return sorted((side for side in could_be if bytes[side] <= most), key=bytes.__getitem__)


def keys_of(join: Join) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """By what the sides of a join match."""
    pairs = split_equalities(join)[0]
    return tuple(left for left, _ in pairs), tuple(right for _, right in pairs)


def _columns(keys: Iterable[Expr]) -> frozenset[Column]:
    return frozenset[Column]().union(*(key.columns for key in keys))
