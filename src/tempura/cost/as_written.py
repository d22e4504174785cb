"""What a query takes that is asked of Spark as it is written: by the sizes that Spark expects, where a plan goes by its own.

Without statistics in a catalog Spark knows how large files are, and of their rows only the types. A filter leaves all that it reads, a
join has the product of its sides, and what a projection keeps is its share of a row's bytes. What it takes to be small is
sent to every task, everything else is shuffled. Adaptive execution looks at what was shuffled: a side that turns out to be small is sent
then. (``SizeInBytesOnlyStatsPlanVisitor``, ``JoinSelectionHelper`` and ``DynamicJoinSelection`` in Spark's sources say so.)
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache

from tempura.algebra.expand import Expand
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Sort, TopK, Union, Values
from tempura.algebra.scalar import Column
from tempura.algebra.states import decimal_of
from tempura.algebra.window import Window
from tempura.cost.conditions import split_equalities
from tempura.cost.estimate import Estimator
from tempura.cost.joins import Joins, keys_of, small_sides
from tempura.cost.model import CostModel
from tempura.cost.stats import TableFacts
from tempura.memo.edge import Edge
from tempura.physical.operators import Read
from tempura.tvr.views import Snapshot, View

_BYTES = {
    "boolean": 1,
    "tinyint": 1,
    "smallint": 2,
    "int": 4,
    "bigint": 8,
    "float": 4,
    "double": 8,
    "date": 4,
    "timestamp": 8,
    "timestamp_ntz": 8,
    "binary": 100,
}
_OF_A_TEXT = 20


def row_bytes(types: Sequence[str]) -> float:
    """The bytes that Spark takes a row to have whose columns are of such types."""
    return 8 + sum(map(_value_bytes, types))


def _value_bytes(type: str) -> int:
    digits = (decimal_of(type) or (0, 0))[0]
    return (8 if digits <= 18 else 16) if digits else _BYTES.get(type, _OF_A_TEXT)


class SparkSizes:
    """How large Spark takes the relations of a query to be, in bytes, when its tables are as at a time point."""

    def __init__(self, tables: Mapping[str, TableFacts], t: int) -> None:
        self._tables = tables
        self._t = t
        self.bytes = cache(self._of)

    def _of(self, rel: Rel) -> float:
        own, inputs = row_bytes([column.type for column in rel.columns]), list(map(self.bytes, rel.inputs))
        match rel:
            case Scan():
                table = self._tables[rel.table]
                return table.rows(self._t) * table.density * own
            case Values():
                return len(rel.rows) * own
            case Join(kind="semi" | "anti" | "exists" | "single"):
                return inputs[0]
            case Join():
                return inputs[0] * inputs[1]
            case Union():
                return sum(inputs)
            case Aggregate() if not rel.keys:
                return own
            case One():
                return own
            case TopK():
                return min(rel.limit * own, inputs[0])
            case Filter() | Sort():
                return inputs[0]
            case Expand():
                return inputs[0] * len(rel.projections) * self._share(rel)
            case _ if len(inputs) == 1:
                return inputs[0] * self._share(rel)
            case _:
                return sum(inputs)

    def _share(self, rel: Rel) -> float:
        """What the columns of an operator are of those of its input."""
        own, below = (row_bytes([column.type for column in r.columns]) for r in (rel, rel.inputs[0]))
        return own / below


class _Joins(Joins):
    """Prices of joins as Spark makes them by itself. ``views`` stand for the parts of a query, inputs before what is made of them."""

    def __init__(
        self, prices: CostModel, estimate: Estimator, bytes: Callable[[Rel], float], views: dict[Rel, View]
    ) -> None:
        super().__init__(prices, estimate)
        self._sized = bytes
        self._views = views
        # Of a part and what it only repeats the innermost: looking below that ends.
        self._written = {view: rel for rel, view in reversed(views.items())}

    def cost(self, join: Join) -> int:
        side = self._found_small(join)
        if self.sent(join) is not None or side is None:
            return super().cost(join)
        shuffled = sum(self._shuffled(rel, keys) for rel, keys in zip(join.inputs, keys_of(join), strict=True))
        return self._matches(join) + shuffled + self._probed(join, side)

    def small(self, join: Join) -> list[int]:
        sides = [self._sized(self._written[side]) for side in join.inputs if isinstance(side, View)]
        return small_sides(join, sides, self._prices.spark_broadcast_bytes)

    def held(self, join: Join) -> int | None:
        """None: Spark by itself sorts and merges."""
        return None

    def _found_small(self, join: Join) -> int | None:
        """The side that turns out to be small once both were shuffled."""
        sides = small_sides(join, list(map(self._bytes, join.inputs)), self._prices.spark_broadcast_bytes)
        return next(iter(sides), None) if split_equalities(join)[0] else None

    def _defined(self, view: View, columns: Sequence[Column]) -> tuple[Rel, list[Column]] | None:
        rel = self._written[view]
        if isinstance(rel, Scan):
            return None
        return rel.with_inputs(*(self._views[i] for i in rel.inputs)), list(columns)


def _inputs_first(rel: Rel, seen: set[Rel]) -> Iterator[Rel]:
    """The operators of a query that were not seen before, each once, and after its inputs."""
    if rel not in seen:
        seen.add(rel)
        for part in rel.inputs:
            yield from _inputs_first(part, seen)
        yield rel


def _rows_of(rel: Rel) -> Hashable:
    """What says which rows an expression has, whichever of their columns; names of columns stand for the columns."""
    match rel:
        case Scan():
            return rel.table
        case Project():
            return _rows_of(rel.input)
    return (rel.label, *map(_rows_of, rel.inputs))


class AsWritten:
    """A query asked of Spark at a time point. ``class_of`` says which class of a memo a part of it belongs to, whose sizes at that time
    are then those of the plans that it is compared with."""

    def __init__(
        self,
        query: Rel,
        t: int,
        tables: Mapping[str, TableFacts],
        estimate: Estimator,
        class_of: Callable[[Rel], Edge],
    ) -> None:
        self._query = query
        self._estimate = estimate
        self._classes = {rel: class_of(rel) for rel in _inputs_first(query, set())}
        self._views = {rel: View(edge, Snapshot(t)) for rel, edge in self._classes.items()}
        self._bytes = SparkSizes(tables, t).bytes

    def cost(self, prices: CostModel) -> int:
        """What it takes, with what its result takes to be written, in nanoseconds of one core."""
        joins = _Joins(prices, self._estimate, self._bytes, self._views)
        result = self._views[self._query]
        written = prices.write(self._estimate.rows(result), self._estimate.width(result))
        return written + self._of(self._query, prices, joins, set())

    def _of(self, rel: Rel, prices: CostModel, joins: _Joins, done: set[Hashable]) -> int:
        """What a part of the query takes. Spark sees when it would shuffle or send the same rows again."""
        own = self._own(rel, prices, joins)
        if isinstance(rel, Aggregate) and not rel.keys:
            # What is computed of all of the same rows, as by scalar sub-queries, Spark computes together (``MergeSubplans``).
            return own + self._once(_rows_of(rel.input), rel.input, prices, joins, done)
        for part in rel.inputs:
            if self._classes[part].id == self._classes[rel].id:  # it has other names here, and was counted by neither
                own += self._of(part, prices, joins, done)
            elif isinstance(rel, Join) or isinstance(part, Aggregate | Window):
                own += self._once(self._classes[part].id, part, prices, joins, done)
            else:
                own += self._of(part, prices, joins, done)
                done.add(self._classes[part].id)
        return own

    def _once(self, name: Hashable, part: Rel, prices: CostModel, joins: _Joins, done: set[Hashable]) -> int:
        """What a part takes, unless what goes by its name was counted."""
        if name in done:
            return 0
        done.add(name)
        return self._of(part, prices, joins, done)

    def _own(self, rel: Rel, prices: CostModel, joins: _Joins) -> int:
        if isinstance(rel, Scan):
            view = self._views[rel]
            assert isinstance(view.at, Snapshot)
            return prices.operator(Read(rel, view.at), self._estimate)
        over = rel.with_inputs(*(self._views[i] for i in rel.inputs))
        return prices.node + joins.cost(over) if isinstance(over, Join) else prices.operator(over, self._estimate)
