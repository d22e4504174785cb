"""Totals of the same rows under different conditions, found in one pass over them.

    agg_1(σ_p R) × agg_2(σ_q R) = agg(σ_{p ∨ q} R)      where agg computes agg_1 of the rows with p, agg_2 of those with q

An aggregation without keys has exactly one row, so the product has. R is a tree of inner joins: a condition on one of its inputs is one on
its rows. What is asked so often (how many there were in each of eight half hours, an average for each of five ranges) reads its tables once
then, has one state, and each change is looked at once. The law holds at all times, and the right side is seldom dearer, by what rows carry
through joins and by pairs of rows that no term has; so a query is rewritten by it before it is planned (:func:`in_one_pass`), and is
explored once, too.

Nothing that may fail is computed of a row of which the query does not compute it: neither conditions nor arguments that may fail are taken
apart from their rows. (A filter of an aggregate would not keep them: of arguments that several aggregates have in common Spark computes
the value first.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tempura.algebra.canonical import fingerprint
from tempura.algebra.failing import call_can_fail, can_fail
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Column,
    Expr,
    Output,
    Ref,
    conjunction,
    conjuncts,
    disjunction,
    substitute,
    substitute_in_call,
)
from tempura.algebra.states import has_exact_state
from tempura.rules.helpers import all_linear

Conditions = tuple[Expr, ...]
Meaning = Mapping[Column, Expr]


def in_one_pass(query: Rel) -> Rel:
    """A query in which totals of the same rows that stand side by side are found together."""
    factors = _factors(query)
    if len(factors) == 1:
        return query.with_inputs(*map(in_one_pass, query.inputs)) if query.inputs else query
    terms = tuple(map(in_one_pass, factors))
    totals = [found for term in terms if (found := _Totals.of(term))]
    groups = [group for same in _alike(totals) if (group := _together(same))]
    merged = {term for group in groups for term in group.terms}
    product = reduce(_product, (*(term for term in terms if term not in merged), *(group.rel for group in groups)))
    if not groups:
        return product
    values = {column: value for group in groups for column, value in group.values.items()}
    return Project(product, tuple(Output(column, values.get(column, Ref(column))) for column in query.columns))


def _product(left: Rel, right: Rel) -> Rel:
    return Join(left, right, "inner", TRUE)


def _factors(rel: Rel) -> tuple[Rel, ...]:
    """The terms of a product; what is none is its only one."""
    if isinstance(rel, Join) and rel.kind == "inner" and rel.on == TRUE:
        return (*_factors(rel.left), *_factors(rel.right))
    return (rel,)


@dataclass(frozen=True, eq=False)
class _Totals:
    """A ``term`` of a product that is an aggregation without keys, and what each of its columns is of that aggregation's."""

    term: Rel
    aggregate: Aggregate
    values: Meaning

    @staticmethod
    def of(term: Rel) -> "_Totals | None":
        bare = _Peeled.of(term)
        found = bare.core
        if bare.asked or not isinstance(found, Aggregate) or found.keys:
            return None
        alone = _common((found.input,))
        if alone is None:
            return None
        (meaning,) = alone.values
        calls = [substitute_in_call(output.call, meaning) for output in found.aggregates]
        return _Totals(term, found, bare.values) if calls and all(map(_can_be_filtered, calls)) else None


def _can_be_filtered(call: AggregateCall) -> bool:
    """Whether an aggregate of some rows is as good as the aggregate of those among more: it is determined by their bag, and computes
    nothing of a row that may fail."""
    return has_exact_state(call) and not call_can_fail(call) and all(arg.deterministic for arg in call.arguments)


def _alike(totals: Sequence[_Totals]) -> list[list[_Totals]]:
    """Those that are of the same rows but for conditions. What a deletion is taken from is not put together with what is computed anew for
    one, as extremes are: it would be computed anew, too."""
    groups: list[list[_Totals]] = []
    for one in totals:
        same = next((group for group in groups if _are_alike(group[0].aggregate, one.aggregate)), None)
        if same is None:
            groups.append([one])
        else:
            same.append(one)
    return [group for group in groups if len(group) > 1]


def _are_alike(a: Aggregate, b: Aggregate) -> bool:
    return all_linear(a.aggregates) == all_linear(b.aggregates) and _common((a.input, b.input)) is not None


@dataclass(frozen=True, eq=False)
class _Group:
    """Several ``terms`` as one relation, and what each of their columns is there."""

    terms: tuple[Rel, ...]
    rel: Rel
    values: Meaning


def _together(totals: Sequence[_Totals]) -> _Group | None:
    common = _common(tuple(one.aggregate.input for one in totals))
    if common is None:
        return None
    # A total may stand there twice, as two values that are computed of it do.
    calls: dict[Column, AggregateCall] = {}
    for one, kept, meaning in zip(totals, common.kept, common.values, strict=True):
        for output in one.aggregate.aggregates:
            call = _filtered(substitute_in_call(output.call, meaning), kept)
            if calls.setdefault(output.column, call) != call:
                return None
    outputs = tuple(AggregateOutput(column, call) for column, call in calls.items())
    values = {column: value for one in totals for column, value in one.values.items()}
    return _Group(tuple(one.term for one in totals), Aggregate(common.rel, (), outputs), values)


def _filtered(call: AggregateCall, kept: Conditions) -> AggregateCall:
    condition = conjunction(*kept, *(conjuncts(call.filter) if call.filter else ()))
    return replace(call, filter=None if condition == TRUE else condition)


@dataclass(frozen=True, eq=False)
class _Common:
    """Several relations as one, ``rel``: the rows of each are those of it that meet its conditions (``kept``), and its columns are these
    values of them."""

    rel: Rel
    kept: tuple[Conditions, ...]
    values: tuple[Meaning, ...]


def _common(rels: tuple[Rel, ...]) -> _Common | None:
    """What some relations are conditions on; None where they are not, or where to say so would ask other rows what may fail."""
    peeled = [_Peeled.of(rel) for rel in rels]
    below = _common_core([p.core for p in peeled])
    if below is None:
        return None
    asked = [_said(p.asked, meaning) for p, meaning in zip(peeled, below.values, strict=True)]
    if not _may_be_asked(part for parts in asked for part in parts):
        return None
    shared = [part for part in asked[0] if all(part in parts for parts in asked)]
    own = [tuple(part for part in parts if part not in shared) for parts in asked]
    kept = tuple((*a, *b) for a, b in zip(below.kept, own, strict=True))
    condition = conjunction(*shared, *(_any_of(kept) if any(own) else ()))
    rel = below.rel if condition == TRUE else Filter(below.rel, condition)
    values = tuple(
        {column: substitute(value, meaning) for column, value in p.values.items()}
        for p, meaning in zip(peeled, below.values, strict=True)
    )
    return _Common(rel, kept, values)


def _any_of(kept: Sequence[Conditions]) -> Conditions:
    """That a row is one which any of some relations keeps: the others are left out as soon as they are known."""
    return (disjunction(*dict.fromkeys(conjunction(*parts) for parts in kept)),) if all(kept) else ()


def _common_core(rels: Sequence[Rel]) -> _Common | None:
    if all(isinstance(rel, Scan) for rel in rels):
        return _common_scan([rel for rel in rels if isinstance(rel, Scan)])
    joins = [rel for rel in rels if isinstance(rel, Join) and rel.kind == "inner"]
    return _common_join(joins) if len(joins) == len(rels) else _the_same(rels)


def _common_scan(scans: Sequence[Scan]) -> _Common | None:
    """One that reads what any of them reads."""
    first = scans[0]
    if any(scan.table != first.table for scan in scans):
        return None
    columns: dict[str, Column] = {}
    for scan in scans:
        for field, column in zip(scan.fields, scan.outputs, strict=True):
            columns.setdefault(field, column)
    values = tuple(
        {column: Ref(columns[field]) for field, column in zip(scan.fields, scan.outputs, strict=True)} for scan in scans
    )
    return _Common(Scan(first.table, tuple(columns), tuple(columns.values())), ((),) * len(scans), values)


def _common_join(joins: Sequence[Join]) -> _Common | None:
    left = _common(tuple(join.left for join in joins))
    right = _common(tuple(join.right for join in joins)) if left else None
    if left is None or right is None:
        return None
    values = tuple({**a, **b} for a, b in zip(left.values, right.values, strict=True))
    asked = [_said(conjuncts(join.on), meaning) for join, meaning in zip(joins, values, strict=True)]
    if not _may_be_asked(asked[0]) or any(set(parts) != set(asked[0]) for parts in asked):
        return None
    kept = tuple((*a, *b) for a, b in zip(left.kept, right.kept, strict=True))
    rel: Rel = Join(left.rel, right.rel, "inner", conjunction(*asked[0]))
    if any(left.kept) and any(right.kept) and all(kept):
        # A row that one of them keeps has met another that only another keeps.
        rel = Filter(rel, conjunction(*_any_of(kept)))
    return _Common(rel, kept, values)


def _the_same(rels: Sequence[Rel]) -> _Common | None:
    """The first of some relations that are the same one but for the names of columns."""
    first = rels[0]
    if len({fingerprint(rel) for rel in rels}) > 1:
        return None
    values = tuple(dict(zip(rel.columns, map(Ref, first.columns), strict=True)) for rel in rels)
    return _Common(first, ((),) * len(rels), values)


def _said(conditions: Iterable[Expr], meaning: Meaning) -> Conditions:
    return tuple(substitute(part, meaning) for part in conditions)


def _may_be_asked(conditions: Iterable[Expr]) -> bool:
    return all(part.deterministic and not can_fail(part) for part in conditions)


@dataclass(frozen=True, eq=False)
class _Peeled:
    """A relation as conditions on and values of the columns of its ``core``, which is neither filter nor projection."""

    core: Rel
    asked: Conditions
    values: Meaning

    @staticmethod
    def of(rel: Rel) -> "_Peeled":
        if not isinstance(rel, Filter | Project):
            return _Peeled(rel, (), {column: Ref(column) for column in rel.columns})
        below = _Peeled.of(rel.input)
        if isinstance(rel, Filter):
            asked = conjuncts(substitute(rel.predicate, below.values))
            return replace(below, asked=(*below.asked, *asked))
        values = {output.column: substitute(output.expr, below.values) for output in rel.outputs}
        return replace(below, values=values)
