"""What SQL says about a result whose rows depend on ties: which columns of it every correct engine agrees on.

LIMIT and functions such as ROW_NUMBER pick among rows that ORDER BY cannot tell apart. What they pick is not determined, but much
else is: which sort keys the picked rows have, and how many there are.
"""

from itertools import product

from tempura.algebra.generate import Generate
from tempura.algebra.rel import Aggregate, Filter, Join, Opaque, Project, Rel, Scan, Sort, TopK, Union, Values
from tempura.algebra.scalar import AggregateCall, Column, Expr, Ref
from tempura.algebra.states import picks_among_equals
from tempura.algebra.window import RANKS, Window
from tempura.rules.helpers import picks_by_order

Columns = frozenset[Column]


def equal_only(rel: Rel) -> Columns:
    """The columns of a relation of which every correct engine gives a value that SQL holds for equal, but not always the same one: MIN and
    MAX take the first of -0.0 and 0.0, and a group has one of the values that a collation holds for equal."""
    below: Columns = frozenset().union(*map(equal_only, rel.inputs))
    match rel:
        case Project():
            return frozenset(o.column for o in rel.outputs if o.expr.columns & below)
        case Aggregate():
            keys = frozenset(k.column for k in rel.keys if k.expr.columns & below)
            return keys | frozenset(a.column for a in rel.aggregates if _takes_an_equal(a.call, below))
        case Window():
            return below | frozenset(f.column for f in rel.functions if _takes_an_equal(f.call, below))
        case Opaque() if rel.reason.code == "COLLATED_GROUPING":
            return frozenset(column for column in rel.columns if " collate " in column.type)
    return below & rel.column_set


def _takes_an_equal(call: AggregateCall, open_below: Columns) -> bool:
    return picks_among_equals(call) or bool(call.columns & open_below)


def determined(rel: Rel) -> tuple[Columns, ...]:
    """Sets of columns of a relation, each so that the bag projected to it (to no column: the number of rows) is determined. No set
    contains another."""
    inputs = [determined(i) for i in rel.inputs]
    return largest([found for sets in product(*inputs) for found in _of(rel, sets)])


def is_determined(rel: Rel) -> bool:
    """Whether all of a relation is determined."""
    return rel.column_set in determined(rel)


def _of(rel: Rel, sets: tuple[Columns, ...]) -> list[Columns]:
    """The sets of an operator's result, given one set of each input."""
    match rel:
        case Scan() | Values() | Opaque():
            return [rel.column_set]
        case Sort():
            return list(sets)
        case Filter():
            return [sets[0]] if rel.predicate.columns <= sets[0] else []
        case Project():
            return [frozenset(o.column for o in rel.outputs if o.expr.columns <= sets[0])]
        case Generate():
            return [sets[0] | frozenset(rel.outputs)] if rel.generator.columns <= sets[0] else []
        case Join():
            return _join(rel, sets)
        case Union():
            return [frozenset.intersection(*sets)]
        case Aggregate():
            return _aggregate(rel, sets[0])
        case TopK():
            return _top(rel, sets[0])
        case Window():
            return _window(rel, sets[0])
        case _:
            whole = all(s >= i.column_set for s, i in zip(sets, rel.inputs, strict=True))
            return [rel.column_set] if whole else []


def _join(rel: Join, sets: tuple[Columns, ...]) -> list[Columns]:
    if not rel.on.columns <= sets[0] | sets[1]:
        return []
    return [sets[0] if rel.kind in ("semi", "anti") else sets[0] | sets[1]]


def _aggregate(rel: Aggregate, known: Columns) -> list[Columns]:
    if not _read(*(k.expr for k in rel.keys)) <= known:
        return []
    values = (a.column for a in rel.aggregates if a.call.columns <= known and not picks_by_order(a.call))
    return [frozenset((*(k.column for k in rel.keys), *values))]


def _top(rel: TopK, known: Columns) -> list[Columns]:
    order = tuple(key.expr for key in rel.order)
    return [_plain(order)] if _read(*order) <= known else []


def _window(rel: Window, known: Columns) -> list[Columns]:
    """All but what depends on ties; or what is a function of the sort keys and the place of a row, whichever row it is."""
    order = (*rel.partition, *(key.expr for key in rel.order))
    if not _read(*order) <= known:
        return []
    free = [f.column for f in rel.functions if not f.depends_on_ties and f.call.columns <= known]
    places = [f.column for f in rel.functions if f.call.function in RANKS]
    return [known | frozenset(free), _plain(order) | frozenset((*free, *places))]


def _plain(exprs: tuple[Expr, ...]) -> Columns:
    """The expressions that are columns as they are. Which of several collated values that compare as equal comes is open."""
    return frozenset(e.column for e in exprs if isinstance(e, Ref) and " collate " not in e.type)


def _read(*exprs: Expr) -> Columns:
    nothing: Columns = frozenset()
    return nothing.union(*(e.columns for e in exprs))


def largest(found: list[Columns]) -> tuple[Columns, ...]:
    """Without those that are part of others."""
    distinct = list(dict.fromkeys(found))
    return tuple(a for a in distinct if not any(a < b for b in distinct))
