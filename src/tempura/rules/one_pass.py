"""Totals of the same rows under different conditions, found in one pass over them.

    agg_1(σ_p R) × agg_2(σ_q R) = agg(σ_{p ∨ q} R)      where agg computes agg_1 of the rows with p, agg_2 of those with q

An aggregation without keys has exactly one row, so the product has. R is what their inputs have in common (:mod:`tempura.rules.common`).
What is asked so often (how many there were in each of eight half hours, an average for each of five ranges) reads its tables once then, has
one state, and each change is looked at once. The law holds at all times, and the right side is seldom dearer, by what rows carry through
joins and by pairs of rows that no term has; so a query is rewritten by it before it is planned (:func:`in_one_pass`), and is explored once,
too.

Arguments that may fail are not taken apart from their rows. (A filter of an aggregate would not keep them: of arguments that several
aggregates have in common Spark computes the value first.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tempura.algebra.failing import call_can_fail
from tempura.algebra.rel import Aggregate, Join, Project, Rel
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Column,
    Output,
    Ref,
    conjunction,
    conjuncts,
    substitute_in_call,
)
from tempura.algebra.states import has_exact_state
from tempura.rules.common import Conditions, Meaning, Peeled, common
from tempura.rules.helpers import all_linear


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
        bare = Peeled.of(term)
        found = bare.core
        if bare.asked or not isinstance(found, Aggregate) or found.keys:
            return None
        alone = common((found.input,))
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
    return all_linear(a.aggregates) == all_linear(b.aggregates) and common((a.input, b.input)) is not None


@dataclass(frozen=True, eq=False)
class _Group:
    """Several ``terms`` as one relation, and what each of their columns is there."""

    terms: tuple[Rel, ...]
    rel: Rel
    values: Meaning


def _together(totals: Sequence[_Totals]) -> _Group | None:
    shared = common(tuple(one.aggregate.input for one in totals))
    if shared is None:
        return None
    # A total may stand there twice, as two values that are computed of it do.
    calls: dict[Column, AggregateCall] = {}
    for one, kept, meaning in zip(totals, shared.kept, shared.values, strict=True):
        for output in one.aggregate.aggregates:
            call = _filtered(substitute_in_call(output.call, meaning), kept)
            if calls.setdefault(output.column, call) != call:
                return None
    outputs = tuple(AggregateOutput(column, call) for column, call in calls.items())
    values = {column: value for one in totals for column, value in one.values.items()}
    return _Group(tuple(one.term for one in totals), Aggregate(shared.rel, (), outputs), values)


def _filtered(call: AggregateCall, kept: Conditions) -> AggregateCall:
    condition = conjunction(*kept, *(conjuncts(call.filter) if call.filter else ()))
    return replace(call, filter=None if condition == TRUE else condition)
