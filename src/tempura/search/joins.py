"""Inner joins of many relations: seen as one, and put into the order that is cheapest for what is joined."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tempura.algebra.equalities import Pair, are_joined, equated, implied
from tempura.algebra.failing import can_fail
from tempura.algebra.multi_join import MultiJoin, connects, next_join
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, keep
from tempura.algebra.scalar import (
    AggregateOutput,
    Column,
    Expr,
    Output,
    Ref,
    conjunction,
    conjuncts,
    substitute,
    substitute_in_call,
)
from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo
from tempura.physical.operators import Read
from tempura.tvr.views import Delta, Snapshot, View

_EXACT = 8
"""Up to so many terms the best left-deep order is found, above it a greedy one, improved."""

# --- clusters -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cluster:
    """Relations that are joined, the parts of the condition, which of their columns are the columns of the result, and the classes
    between them and the result, that of the result included."""

    terms: tuple[Edge, ...]
    parts: tuple[Expr, ...]
    columns: tuple[Column, ...]
    inside: frozenset[int]


class Clusters:
    """The largest clusters of inner joins among the classes of a memo. A class that is used only inside one has none of its own. That is
    seen once, of the classes that there are in the beginning, so that nothing depends on what is asked first."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._known: dict[int, Rel | None] = {}
        found = {edge.id: self._cluster(edge, set()) for edge in memo.classes}
        around = {id: cluster.inside for id, cluster in found.items() if len(cluster.terms) > 2}
        self._inside = frozenset(edge.id for edge in memo.classes if self._is_inside(edge, around))
        self._parts = frozenset[int]().union(*(cluster.inside - {id} for id, cluster in found.items()))

    def _is_inside(self, edge: Edge, around: Mapping[int, frozenset[int]]) -> bool:
        users = self._memo.users(edge)
        return bool(users) and all(edge.id in around.get(user.home, frozenset()) for user in users)

    def of(self, edge: Edge) -> Rel | None:
        """What a class computes as one join of three or more relations; None when it is no such join. Conditions between joins are
        taken in, and projections that only choose columns are looked through. In another order a condition is asked of other pairs of rows,
        so it must not fail for any."""
        if edge.id in self._inside:
            return None
        if edge.id not in self._known:
            cluster = self._cluster(edge, set())
            self._known[edge.id] = self._joined(edge, cluster) if len(cluster.terms) > 2 else None
        return self._known[edge.id]

    def from_each_term(self, edge: Edge) -> Iterator[tuple[MultiJoin, tuple[Column, ...]]]:
        """A class that is a join of two or more relations, and no part of a larger one, whoever else uses it: once for each term, with that
        first and each next one joined with those before it, if any is; which of its columns are those of the class."""
        cluster = self._cluster(edge, set()) if edge.id not in self._parts else None
        if cluster and len(cluster.terms) > 1:
            joined = MultiJoin(cluster.terms, conjunction(*cluster.parts))
            for first in range(len(cluster.terms)):
                yield replace(joined, terms=_connected(joined, first)), cluster.columns

    def below_from_each_term(self, rel: Aggregate) -> Iterator[Aggregate]:
        """An aggregation over the inner joins of which its input is made (``below``), once for each of their terms, with that first."""
        seen = self.below(rel)
        if seen is not None and isinstance(seen.input, MultiJoin):
            for first in range(len(seen.input.terms)):
                yield replace(seen, input=replace(seen.input, terms=_connected(seen.input, first)))

    def below(self, rel: Aggregate) -> Aggregate | None:
        """An aggregation over the join of which its input is made, inner or left outer, with what projections between the two compute in
        its keys and arguments. None when there is no such join."""
        source, values = self._through_projections(rel.input)
        outer = self._memo.representative(source)
        if isinstance(outer, Join) and outer.kind == "left":
            return _aggregated(rel, outer, values, dict(zip(source.columns, outer.columns, strict=True)))
        if not isinstance(source, Edge):
            return None
        cluster = self._cluster(source, set())
        if len(cluster.terms) < 2:
            return None
        joined = MultiJoin(cluster.terms, conjunction(*cluster.parts))
        return _aggregated(rel, joined, values, dict(zip(source.columns, cluster.columns, strict=True)))

    def _through_projections(self, rel: Rel) -> tuple[Rel, Mapping[Column, Expr]]:
        """What lies below projections, and its values of the columns above."""
        values: dict[Column, Expr] = {column: Ref(column) for column in rel.columns}
        while isinstance(project := self._memo.representative(rel), Project):
            computed = dict(zip(rel.columns, (output.expr for output in project.outputs), strict=True))
            values = {column: substitute(value, computed) for column, value in values.items()}
            rel = project.input
        return rel, values

    def _joined(self, edge: Edge, cluster: Cluster) -> Rel:
        joined = MultiJoin(cluster.terms, conjunction(*cluster.parts))
        own = self._memo.own(edge).columns
        if joined.columns == own == cluster.columns:
            return joined
        return Project(joined, tuple(Output(c, Ref(made)) for c, made in zip(own, cluster.columns, strict=True)))

    def _cluster(self, edge: Edge, taken: set[Column]) -> Cluster:
        """``taken`` are the columns that other terms have: two uses of one join are two sets of terms, with columns of their own."""
        match self._memo.representative(edge):
            case (Join(kind="inner") | MultiJoin()) as joined if not can_fail(joined.on):
                found = [self._cluster(term, taken) for term in joined.inputs if isinstance(term, Edge)]
                columns = sum((cluster.columns for cluster in found), ())
                on = _renamed(conjuncts(joined.on), joined.columns, columns)
                return Cluster(
                    sum((cluster.terms for cluster in found), ()),
                    sum((cluster.parts for cluster in found), ()) + on,
                    columns,
                    frozenset((edge.id,)).union(*(cluster.inside for cluster in found)),
                )
            case (Filter(input=Edge() as source) | Project(input=Edge() as source)) as unary if _is_transparent(unary):
                inner = self._cluster(source, taken)
                if len(inner.terms) > 1:
                    return _through(unary, source, replace(inner, inside=inner.inside | {edge.id}))
                taken.difference_update(inner.columns)
        columns = tuple(_fresh(column, taken) for column in edge.columns)
        taken.update(columns)
        return Cluster((replace(edge, outputs=columns),), (), columns, frozenset())


def _connected(joined: MultiJoin, first: int) -> tuple[Rel, ...]:
    """The terms from one on, each joined with those before it by some part of the condition, as far as that can be."""
    parts = conjuncts(joined.on)
    taken, left = [joined.terms[first]], [term for i, term in enumerate(joined.terms) if i != first]
    while left:
        known = frozenset[Column]().union(*(term.column_set for term in taken))
        fit = (term for term in left if connects(parts, known, term.column_set))
        taken.append(next(fit, left[0]))
        left.remove(taken[-1])
    return tuple(taken)


def _aggregated(
    rel: Aggregate, join: Rel, values: Mapping[Column, Expr], columns: Mapping[Column, Column]
) -> Aggregate:
    """An aggregation over a join, the ``columns`` of which give the values that it reads."""
    names = {column: Ref(made) for column, made in columns.items()}
    below = {column: substitute(value, names) for column, value in values.items()}
    keys = tuple(Output(key.column, substitute(key.expr, below)) for key in rel.keys)
    calls = (AggregateOutput(a.column, substitute_in_call(a.call, below)) for a in rel.aggregates)
    return Aggregate(join, keys, tuple(calls))


def _is_transparent(rel: Filter | Project) -> bool:
    if isinstance(rel, Filter):
        return not can_fail(rel.predicate)
    return all(isinstance(output.expr, Ref) for output in rel.outputs)


def _through(rel: Filter | Project, source: Edge, inner: Cluster) -> Cluster:
    """A filter adds to the condition, a projection chooses columns."""
    if isinstance(rel, Filter):
        return replace(inner, parts=inner.parts + _renamed(conjuncts(rel.predicate), source.columns, inner.columns))
    new = dict(zip(source.columns, inner.columns, strict=True))
    return replace(inner, columns=tuple(new[o.expr.column] for o in rel.outputs if isinstance(o.expr, Ref)))


def _fresh(column: Column, taken: set[Column]) -> Column:
    while column in taken:
        column = column.primed()
    return column


def _renamed(parts: Sequence[Expr], old: Sequence[Column], new: Sequence[Column]) -> tuple[Expr, ...]:
    names: Mapping[Column, Expr] = dict(zip(old, map(Ref, new), strict=True))
    return tuple(substitute(part, names) for part in parts)


# --- orders -------------------------------------------------------------------------------------------------------------


Order = tuple[int, ...]
"""The terms of a join of many by their numbers, as they are joined."""


class JoinOrders:
    """Orders for joins of many relations. The order is found once per join and changing term, for typical sizes, and holds at all
    times. What is ``known`` by the ``name`` of a join at its typical sizes is not found anew: of orders that cost the same another might be
    the cheapest by a hair, and Spark would have to compile another step."""

    def __init__(
        self,
        model: CostModel,
        estimate: Estimator,
        name: Callable[[Rel], str] = str,
        known: Mapping[str, Order] = MappingProxyType({}),
    ) -> None:
        self._model = model
        self._estimate = estimate
        self._name = name
        self._known = known
        self._orders: dict[MultiJoin, Order] = {}
        self._names: dict[MultiJoin, str] = {}

    @property
    def found(self) -> tuple[tuple[str, Order], ...]:
        """The orders of all joins that were put into one, by name."""
        return tuple((self._named(typical), order) for typical, order in self._orders.items())

    def ordered(self, rel: MultiJoin) -> Rel:
        """The join as joins of two, in the cheapest order."""
        typical = self._typical(rel)
        if typical not in self._orders:
            self._orders[typical] = self._order(typical)
        first, *others = self._orders[typical]
        partial = _Partial.of(rel, first)
        for i in others:
            partial = partial.joined(rel.terms[i], i)
        return keep(partial.rel, rel.columns)

    def _order(self, typical: MultiJoin) -> Order:
        """The order that is known, or found: among all, or if the terms are too many for that, step by step."""
        known = self._known.get(self._named(typical), ()) if self._known else ()
        if sorted(known) == list(range(len(typical.terms))):
            return known
        return self._exact(typical) if len(typical.terms) <= _EXACT else self._greedy(typical)

    def _named(self, typical: MultiJoin) -> str:
        if typical not in self._names:
            self._names[typical] = self._name(typical)
        return self._names[typical]

    def _typical(self, rel: MultiJoin) -> MultiJoin:
        """The same join of the last snapshots and of all that changes until then."""
        return replace(rel, terms=tuple(map(self._at_the_end, rel.terms)))

    def _at_the_end(self, leaf: Rel) -> Rel:
        """A term as it is when all has come."""
        if isinstance(leaf, View | Read) and isinstance(leaf.at, Snapshot | Delta):
            last = self._estimate.last
            return replace(leaf, at=Snapshot(last) if isinstance(leaf.at, Snapshot) else Delta(0, last))
        return leaf.with_inputs(*map(self._at_the_end, leaf.inputs))

    def _exact(self, rel: MultiJoin) -> Order:
        """Dynamic programming over sets of terms: per set, the cheapest way to have joined it (Selinger et al., SIGMOD 1979)."""
        found: dict[frozenset[int], _Partial] = {frozenset((i,)): _Partial.of(rel, i) for i in range(len(rel.terms))}
        for _ in rel.terms[1:]:
            longer: dict[frozenset[int], _Partial] = {}
            for known, partial in found.items():
                for i in _candidates(rel, partial):
                    old = longer.get(known | {i})
                    if old is not None and old.cost <= partial.cost:
                        continue  # what comes next costs something, too
                    grown = self._grown(partial, rel, i)
                    if old is None or grown.cost < old.cost:
                        longer[known | {i}] = grown
            found = longer
        (best,) = found.values()
        return best.order

    def _greedy(self, rel: MultiJoin) -> Order:
        """From the smallest term on always the join that is cheapest, or always that which leaves the fewest rows. Where nothing is a
        change, from the largest term on, too, of which other joins may leave little, and improved: changes are few rows in any order."""
        sizes = [self._estimate.rows(term) for term in rel.terms]
        is_of_change = any(isinstance(term, View | Read) and isinstance(term.at, Delta) for term in rel.terms)
        firsts = (sizes.index(min(sizes)), *(() if is_of_change else (sizes.index(max(sizes)),)))
        found = []
        for first in dict.fromkeys(firsts):
            for worth in (lambda p: p.cost, lambda p: (self._estimate.rows(p.rel), p.cost)):
                partial = _Partial.of(rel, first)
                while len(partial.order) < len(rel.terms):
                    partial = min((self._grown(partial, rel, i) for i in _candidates(rel, partial)), key=worth)
                found.append(partial)
        best = min(found, key=lambda p: p.cost).order
        return best if is_of_change else self._swapped(rel, best)

    def _swapped(self, rel: MultiJoin, order: Order) -> Order:
        """Terms that follow on each other change places as long as that is cheaper; what comes before and after them stays as it is. Where
        any term may follow on the first, and each leaves a share of the rows, that ends with the best order (Ibaraki, Kameda, TODS 1984);
        of a snowflake terms that hang together would have to move as one."""
        so_far, place = self._along(rel, order), 0
        while place < len(order) - 1:
            swapped = (*order[:place], order[place + 1], order[place], *order[place + 2 :])
            both = self._along(rel, swapped[: place + 2], so_far[:place])
            if both and both[-1].cost < so_far[place + 1].cost:
                order, so_far = swapped, self._along(rel, swapped, both)
                place = max(0, place - 1)
            else:
                place += 1
        return order

    def _along(self, rel: MultiJoin, order: Order, begun: Sequence["_Partial"] = ()) -> list["_Partial"]:
        """What is joined after each term of an order, of which the first are; nothing where a term is not connected with those before."""
        found = list(begun) or [_Partial.of(rel, order[0])]
        for i in order[len(found) :]:
            if i not in _candidates(rel, found[-1]):
                return []
            found.append(self._grown(found[-1], rel, i))
        return found

    def _grown(self, partial: "_Partial", rel: MultiJoin, i: int) -> "_Partial":
        made = partial.joined(rel.terms[i], i)
        return replace(made, cost=partial.cost + self._model.operator(made.rel, self._estimate))


@dataclass(frozen=True, slots=True)
class _Partial:
    """Some terms, joined: the expression, the parts of the condition that are open, the order, the columns that the joins so far make
    equal, what it costs so far.

    What follows from the condition's equalities is open, too: whichever terms are joined first, they are by what is equal in the end.
    Of several equalities that say the same, a join has one."""

    rel: Rel
    parts: tuple[Expr, ...]
    order: Order
    equal: tuple[Pair, ...] = ()
    cost: int = 0

    @staticmethod
    def of(rel: MultiJoin, first: int) -> "_Partial":
        """One term, and all that is asked of the join."""
        parts = conjuncts(rel.on)
        more = implied(parts, [term.column_set for term in rel.terms])
        return _Partial(rel.terms[first], (*parts, *more), (first,))

    def joined(self, term: Rel, i: int) -> "_Partial":
        """Joined with the ``i``-th term, on what can be decided then and is not yet."""
        known = self.rel.column_set | term.column_set
        chosen: list[Expr] = []
        equal = self.equal
        for part in (part for part in self.parts if part.reads_only(known)):
            pair = equated(part)
            if pair is None or not are_joined(pair, equal):
                chosen.append(part)
                equal = (*equal, pair) if pair else equal
        left = tuple(part for part in self.parts if not part.reads_only(known))
        return _Partial(next_join(self.rel, term, chosen), left, (*self.order, i), equal, self.cost)


def _candidates(rel: MultiJoin, partial: _Partial) -> list[int]:
    """The terms that a part of the condition connects; all others when there is none: a product only where it cannot be avoided."""
    others = [i for i in range(len(rel.terms)) if i not in partial.order]
    known = partial.rel.column_set
    return [i for i in others if connects(partial.parts, known, rel.terms[i].column_set)] or others
