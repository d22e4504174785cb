"""Wrong laws between TVRs: each lacks a guard, or a part of its right side, that one is tempted to leave out."""

from dataclasses import replace

from tempura.algebra.failing import can_fail
from tempura.algebra.rel import keep
from tempura.algebra.scalar import TRUE, Call, Column, Literal, Output, Ref, conjunction, conjuncts, equal, substitute
from tempura.rules.distinct import Levels
from tempura.rules.dsl import (
    LOGICAL,
    Aggs,
    Always,
    Keys,
    On,
    OnAll,
    Order,
    Outputs,
    Partition,
    Pred,
    Projections,
    Rewrite,
    Rule,
    Sides,
    Tvrs,
    WindowCalls,
    rewrite,
    rule,
)
from tempura.rules.grouping import Grouped
from tempura.rules.helpers import filtered, joined, read_by, separate, union_all, values_of
from tempura.rules.parts import Parts, can_be_split, merged
from tempura.tvr.tvr import Tvr


def kept_as(tvr: Tvr, other: Tvr) -> Tvr:
    """The columns of another TVR, in its order."""
    return Tvr(keep(tvr.rel, other.columns))


@rule(LOGICAL)
def filters_merged_by_or(R: Tvr, p: Pred, q: Pred) -> Rewrite:
    """filter(p, filter(q, R)) = filter(p OR q, R)      WRONG"""
    return rewrite(R.filter(q).filter(p), R.filter(Call("Or", (p, q), "boolean")))


@rule(LOGICAL)
def filter_pushed_into_first_term(terms: Tvrs, p: Pred) -> Rewrite:
    """filter(p, R + S) = filter(p, R) + S      WRONG"""
    return rewrite(union_all(terms).filter(p), union_all((terms[0].filter(p), *terms[1:])))


@rule(LOGICAL)
def filter_pushed_to_padded_side(L: Tvr, R: Tvr, on: On, p: Pred) -> Rewrite:
    """filter(p, L ⟕ R) = L ⟕ filter(p, R)      WRONG: a row of L whose match is filtered out is padded"""
    p_R, rest = separate(p, R.columns)
    return rewrite(L.left_join(R, on).filter(p), filtered(L.left_join(filtered(R, p_R), on), rest), where=p_R != TRUE)


@rule(LOGICAL)
def filter_pushed_into_full_join(L: Tvr, R: Tvr, on: On, p: Pred) -> Rewrite:
    """filter(p, L ⟗ R) = filter(p, L) ⟗ R      WRONG: rows of R that only matched what is filtered out are padded"""
    p_L, rest = separate(p, L.columns)
    return rewrite(L.full_join(R, on).filter(p), filtered(filtered(L, p_L).full_join(R, on), rest), where=p_L != TRUE)


@rule(LOGICAL)
def unmatched_by_any_null(L: Tvr, R: Tvr, on: On, p: Pred) -> Rewrite:
    """filter(c IS NULL AND p, L ⟕ R) = filter(p, pad(L ▷ R))      WRONG: what is NULL of a row of R that matched is no sign of none"""
    missing = {Call("IsNull", (Ref(column),), "boolean") for column in R.columns}
    rest = [part for part in conjuncts(p) if part not in missing]
    unmatched = filtered(L.anti_join(R, on).pad_right(R), conjunction(*rest))
    return rewrite(L.left_join(R, on).filter(p), unmatched, where=len(rest) < len(conjuncts(p)))


@rule(LOGICAL)
def condition_pushed_to_preserved_side(L: Tvr, R: Tvr, on: On) -> Rewrite:
    """L ⟕ R on (p_L AND c) = filter(p_L, L) ⟕ R on c      WRONG: the row of L stays, without a match"""
    p_L, rest = separate(on, L.columns)
    return rewrite(L.left_join(R, on), filtered(L, p_L).left_join(R, rest), where=p_L != TRUE)


@rule(LOGICAL)
def condition_pushed_to_left_of_anti_join(L: Tvr, R: Tvr, on: On) -> Rewrite:
    """L ▷ R on (p_L AND c) = filter(p_L, L) ▷ R on c      WRONG: a row that cannot match is in the result"""
    p_L, rest = separate(on, L.columns)
    return rewrite(L.anti_join(R, on), filtered(L, p_L).anti_join(R, rest), where=p_L != TRUE)


@rule(LOGICAL)
def filter_pushed_through_window(X: Tvr, partition: Partition, order: Order, calls: WindowCalls, p: Pred) -> Rewrite:
    """filter(p, window(X)) = window(filter(p, X))      WRONG: for any p that reads X only"""
    p_X, rest = separate(p, X.columns)
    return rewrite(
        X.window(partition, order, calls).filter(p),
        filtered(filtered(X, p_X).window(partition, order, calls), rest),
        where=p_X != TRUE,
    )


@rule(LOGICAL)
def filter_pushed_into_expand_by_first_projection(R: Tvr, projections: Projections, p: Pred) -> Rewrite:
    """filter(p, expand(R)) = expand(filter(p', R))      WRONG: p' reads what one projection computes"""
    first = projections[0] if projections else ()
    return rewrite(R.expand(projections).filter(p), R.filter(substitute(p, values_of(first))).expand(projections))


@rule(LOGICAL)
def project_eliminated_in_any_order(R: Tvr, outputs: Outputs) -> Rewrite:
    """project(R) = R      WRONG: when it has as many columns of the same types"""
    types = [[c.type for c in columns] for columns in (R.columns, tuple(o.column for o in outputs))]
    return rewrite(R.project(outputs), R, where=types[0] == types[1])


@rule(LOGICAL)
def union_that_forgets_what_comes_after(before: Tvrs, inner: Tvrs, after: Tvrs) -> Rewrite:
    """R + (S + ...) + T = R + S + ...      WRONG"""
    terms = (*before, *inner)
    return rewrite(union_all((*before, union_all(inner), *after)), union_all(terms or after), where=bool(terms))


def _split(L: Tvr, on: On, keys: Keys, aggs: Aggs, padded: bool = False) -> tuple[Parts, tuple[bool, Tvr]]:
    columns = tuple(c for c in L.columns if c in on.columns | read_by(keys))
    parts = Parts.of(aggs, () if padded else keys)
    own = all(a.call.columns <= frozenset(L.columns) and can_be_split(a.call) for a in aggs)
    return parts, (own, parts.partial(L, columns))


@rule(LOGICAL)
def partial_aggregate_without_groups(L: Tvr, R: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L x R) = aggregate'(partial(L) x R)      WRONG: partial(L) without keys has a row if L has none"""
    parts, (own, partial) = _split(L, TRUE, keys, aggs)
    none = bool(keys) and not any(c in read_by(keys) for c in L.columns)
    return rewrite(L.join(R, TRUE).aggregate(keys, aggs), parts.whole(partial.join(R, TRUE), keys), where=own and none)


@rule(LOGICAL)
def partial_aggregate_below_full_join(L: Tvr, R: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L ⟗ R) = aggregate'(partial(L) ⟗ R)      WRONG: padded rows of R count in COUNT(*), but are in no partial group"""
    parts, (own, partial) = _split(L, on, keys, aggs)
    return rewrite(L.full_join(R, on).aggregate(keys, aggs), parts.whole(partial.full_join(R, on), keys), where=own)


@rule(LOGICAL)
def partial_counts_counted(L: Tvr, R: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L ⋈ R) = aggregate(partial(L) ⋈ R)      WRONG: counts groups in place of rows"""
    parts, (own, partial) = _split(L, on, keys, aggs)
    counted = tuple(replace(a, call=replace(a.call, function="Count")) for a in parts.upper)
    return rewrite(
        L.join(R, on).aggregate(keys, aggs),
        replace(parts, upper=counted).whole(partial.join(R, on), keys),
        where=own and all(a.call.function == "Count" for a in aggs),
    )


@rule(LOGICAL)
def counts_of_what_partial_groups_meet(L: Tvr, R: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L ⋈ R) = aggregate'(partial(L) ⋈ R)      WRONG: a row of R counts once for a group of L, in place of for each row"""
    beside = tuple(a for a in aggs if a.call.columns and a.call.columns.isdisjoint(L.columns))
    columns = tuple(c for c in L.columns if c in on.columns | read_by(keys))
    parts = Parts.of(aggs, keys, beside)
    own = all(a in beside or a.call.columns <= frozenset(L.columns) for a in aggs)
    return rewrite(
        L.join(R, on).aggregate(keys, aggs),
        parts.whole(parts.partial(L, columns).join(R, on), keys),
        where=own and bool(beside and columns) and all(can_be_split(a.call) for a in aggs),
    )


class _Unique:
    def is_unique(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        return True


@rule(LOGICAL)
def group_before_join_of_many(T: Tvr, others: Sides, on: OnAll, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(T ⋈ R ⋈ ...) = project(aggregate'(R ⋈ ...) ⋈ T)      WRONG: a group may meet several rows of T"""
    grouped = Grouped.of(T, others, on, keys, aggs)
    return rewrite(
        joined((T, *others), on).aggregate(keys, aggs),
        grouped.before_join(),
        where=grouped.is_the_same(_Unique()) and grouped.is_safe(),
    )


@rule(LOGICAL)
def group_before_join_by_more_than_keys(
    T: Tvr, others: Sides, on: OnAll, keys: Keys, aggs: Aggs, always: Always
) -> Rewrite:
    """aggregate(T ⋈ R ⋈ ...) = project(aggregate'(R ⋈ ...) ⋈ T)      WRONG: groups by what no key says are parts of groups"""
    grouped = Grouped.of(T, others, on, keys, aggs)
    return rewrite(
        joined((T, *others), on).aggregate(keys, aggs),
        grouped.before_join(),
        where=grouped.is_safe() and bool(grouped.columns) and always.is_unique(T, grouped.matched),
    )


@rule(LOGICAL)
def sum_of_no_counts_is_null(L: Tvr, R: Tvr, on: On, aggs: Aggs) -> Rewrite:
    """aggregate((), L ⋈ R) = aggregate'((), partial(L) ⋈ R)      WRONG: COUNT of nothing is 0"""
    with_keys = Parts.of(aggs, (Output(L.columns[0], Ref(L.columns[0])),) if L.columns else ())
    _, (own, partial) = _split(L, on, (), aggs)
    joined = partial.join(R, on).aggregate((), with_keys.upper).project(with_keys.final)
    return rewrite(L.join(R, on).aggregate((), aggs), joined, where=own and any(c in on.columns for c in L.columns))


@rule(LOGICAL)
def padded_rows_not_counted(L: Tvr, R: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L ⟕ R) = aggregate'(L ⟕ partial(R))      WRONG: COUNT(*) counts rows that match nothing"""
    parts, (own, partial) = _split(R, on, keys, aggs, padded=True)
    return rewrite(
        L.left_join(R, on).aggregate(keys, aggs),
        parts.whole(L.left_join(partial, on), keys),
        where=own and any(not a.call.operands for a in aggs),
    )


@rule(LOGICAL)
def counts_of_padded_groups_are_null(L: Tvr, R: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(L ⟕ R) = aggregate'(L ⟕ partial(R))      WRONG: a group that matches nothing has the count 0"""
    parts, (own, partial) = _split(R, on, keys, aggs)
    return rewrite(
        L.left_join(R, on).aggregate(keys, aggs),
        parts.whole(L.left_join(partial, on), keys),
        where=own and bool(keys) and all(a.call.operands for a in aggs),
    )


@rule(LOGICAL)
def aggregates_merged_over_one_group(X: Tvr, partial: Aggs, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(aggregate((), X)) = aggregate(X)      WRONG: without keys below there is a row even if X has none"""
    ok = len(merged(aggs, partial)) == len(aggs) and not read_by(keys)
    return rewrite(X.aggregate((), partial).aggregate(keys, aggs), X.aggregate(keys, merged(aggs, partial)), where=ok)


@rule(LOGICAL)
def join_condition_forgotten(L: Tvr, R: Tvr, on: On, p: Pred) -> Rewrite:
    """filter(p, L ⋈ R) = L ⋈ R on p      WRONG"""
    return rewrite(L.join(R, on).filter(p), L.join(R, conjunction(p)))


def _reduced(L: Tvr, X: Tvr, on: On, keys: Keys, aggs: Aggs) -> tuple[Tvr, Tvr]:
    """An aggregation, and the same of the rows that match a row of L."""
    below = conjunction(*(substitute(part, values_of(keys)) for part in conjuncts(on) if not can_fail(part)))
    readable = below.reads_only((*L.columns, *X.columns))
    return X.aggregate(keys, aggs), (X.semi_join(L, below) if readable else X).aggregate(keys, aggs)


@rule(LOGICAL)
def aggregate_reduced_by_full_join(L: Tvr, X: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """L ⟗ aggregate(X) = L ⟗ aggregate(X ⋉ L)      WRONG: groups that match nothing are in the result"""
    whole, reduced = _reduced(L, X, on, keys, aggs)
    return rewrite(L.full_join(whole, on), L.full_join(reduced, on), where=bool(keys))


@rule(LOGICAL)
def preserved_aggregate_reduced(L: Tvr, X: Tvr, on: On, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(X) ⟕ L = aggregate(X ⋉ L) ⟕ L      WRONG: groups that match nothing are padded"""
    whole, reduced = _reduced(L, X, on, keys, aggs)
    return rewrite(whole.left_join(L, on), reduced.left_join(L, on), where=bool(keys))


@rule(LOGICAL)
def only_group_pushed_through(X: Tvr, R: Tvr, on: On, aggs: Aggs) -> Rewrite:
    """aggregate((), X) ⋉ R = aggregate((), X ⋉ R)      WRONG: without keys there is a row if no row of X is left"""
    asked = conjunction(*(part for part in conjuncts(on) if part.reads_only(R.columns)))
    return rewrite(X.aggregate((), aggs).semi_join(R, asked), X.semi_join(R, asked).aggregate((), aggs))


def _distinct(X: Tvr, keys: Keys, aggs: Aggs, levels: Levels, taken: Aggs) -> Rewrite:
    """An aggregation by two levels, as right or wrong as they are made."""
    right = Levels.of(keys, aggs).are_exact(aggs)
    return rewrite(X.aggregate(keys, aggs), levels.upper(levels.lower(X), taken), where=right)


@rule(LOGICAL)
def distinct_values_without_their_filter(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F(DISTINCT x) FILTER p) = aggregate(F(x))(aggregate by keys and x)      WRONG: values of other rows count"""
    taken = tuple(replace(a, call=replace(a.call, filter=None)) if a.call.distinct else a for a in aggs)
    return _distinct(X, keys, aggs, Levels.of(keys, taken), taken)


@rule(LOGICAL)
def distinct_null_is_a_value(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F(DISTINCT x)) = aggregate(F(x'))(aggregate by keys and x')      WRONG: x' is a value where x is NULL"""
    levels = Levels.of(keys, aggs)
    values = (replace(v, expr=Call("Coalesce", (v.expr, Literal(7, "int")), "int")) for v in levels.values)
    filled = tuple(v if old.expr.type == "int" else old for v, old in zip(values, levels.values, strict=True))
    return _distinct(X, keys, aggs, replace(levels, values=filled), aggs)


@rule(LOGICAL)
def rows_counted_once_per_distinct_value(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F(DISTINCT x), COUNT(y)) = aggregate(F(x), COUNT(y'))(...)      WRONG: counts values in place of rows"""
    levels = Levels.of(keys, aggs)
    counted = {a.column for a in aggs if a.call.function == "Count"}
    counts = tuple(replace(a, call=replace(a.call, function="Count")) for a in levels.parts.upper)
    only = all(a.call.distinct or a.column in counted for a in aggs)
    return _distinct(
        X, keys, aggs, replace(levels, parts=replace(levels.parts, upper=counts)) if only else levels, aggs
    )


@rule(LOGICAL)
def different_distinct_values_as_one(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F(DISTINCT x), G(DISTINCT y)) = aggregate(F(x), G(x))(aggregate by keys and x)      WRONG"""
    first = next((a.call.operands for a in aggs if a.call.distinct), ())
    taken = tuple(replace(a, call=replace(a.call, operands=first)) if a.call.distinct else a for a in aggs)
    levels = Levels.of(keys, taken)
    fit = all(a.call.function == "Count" or a.call.operands == first for a in aggs if a.call.distinct)
    return rewrite(X.aggregate(keys, aggs), levels.upper(levels.lower(X), taken), where=fit and levels.are_exact(taken))


@rule(LOGICAL)
def aggregates_of_two_arguments_joined_by_equality(X: Tvr, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(F, G)(X) = aggregate(F)(X) ⋈ aggregate(G)(X) on k = k      WRONG: the group of NULL matches nothing"""
    primed = tuple(Output(k.column.primed(), k.expr) for k in keys)
    on = conjunction(*(equal(Ref(k.column), Ref(p.column)) for k, p in zip(keys, primed, strict=True)))
    both = X.aggregate(keys, aggs[:1]).join(X.aggregate(primed, aggs[1:]), on)
    columns = X.aggregate(keys, aggs).columns
    return rewrite(X.aggregate(keys, aggs), both.project(tuple(Output(c, Ref(c)) for c in columns)))


@rule(LOGICAL)
def full_join_postponed(L: Tvr, R: Tvr, others: Sides, by: On, on: OnAll) -> Rewrite:
    """(L ⟗ R) ⋈ S = (L ⋈ S) ⟗ R      WRONG: rows of R that match no row of L are there, whatever S has"""
    few = joined((L, *others), on)
    before = joined((L.full_join(R, by), *others), on)
    return rewrite(before, kept_as(few.full_join(R, by), before), where=on.columns <= set(few.columns))


@rule(LOGICAL)
def joined_before_it_was_padded(L: Tvr, R: Tvr, others: Sides, by: On, on: OnAll) -> Rewrite:
    """(L ⟕ R) ⋈ S = (L ⋈ S) ⟕ R      WRONG where S is joined by columns of R: that would drop what is padded"""
    few = joined((L, *others), conjunction(*(part for part in conjuncts(on) if not part.columns & set(R.columns))))
    before = joined((L.left_join(R, by), *others), on)
    return rewrite(before, kept_as(few.left_join(R, conjunction(by, on)), before))


@rule(LOGICAL)
def semi_join_postponed_past_failure(L: Tvr, R: Tvr, others: Sides, by: On, on: OnAll) -> Rewrite:
    """(L ⋉ R) ⋈ S = (L ⋈ S) ⋉ R      WRONG where on fails for a row of L that matches nothing in R"""
    return rewrite(joined((L.semi_join(R, by), *others), on), joined((L, *others), on).semi_join(R, by))


@rule(LOGICAL)
def groups_that_count_once(T: Tvr, others: Sides, on: OnAll, keys: Keys, aggs: Aggs) -> Rewrite:
    """aggregate(T ⋈ S ⋈ ...) = aggregate(distinct(T) ⋈ S ⋈ ...)      WRONG: each row of a group meets the others"""
    groups = T.aggregate(tuple(Output(c, Ref(c)) for c in T.columns), ())
    return rewrite(
        joined((T, *others), on).aggregate(keys, aggs),
        joined((groups, *others), on).aggregate(keys, aggs),
        where=any(not a.call.distinct and a.call.function in ("Count", "Sum", "Average") for a in aggs),
    )


LOGICAL_MUTANTS: tuple[Rule, ...] = (
    groups_that_count_once,
    full_join_postponed,
    joined_before_it_was_padded,
    semi_join_postponed_past_failure,
    filters_merged_by_or,
    filter_pushed_into_first_term,
    filter_pushed_to_padded_side,
    filter_pushed_into_full_join,
    unmatched_by_any_null,
    condition_pushed_to_preserved_side,
    condition_pushed_to_left_of_anti_join,
    filter_pushed_through_window,
    filter_pushed_into_expand_by_first_projection,
    project_eliminated_in_any_order,
    union_that_forgets_what_comes_after,
    partial_aggregate_without_groups,
    partial_aggregate_below_full_join,
    partial_counts_counted,
    counts_of_what_partial_groups_meet,
    group_before_join_of_many,
    group_before_join_by_more_than_keys,
    sum_of_no_counts_is_null,
    padded_rows_not_counted,
    counts_of_padded_groups_are_null,
    aggregates_merged_over_one_group,
    join_condition_forgotten,
    aggregate_reduced_by_full_join,
    preserved_aggregate_reduced,
    only_group_pushed_through,
    distinct_values_without_their_filter,
    distinct_null_is_a_value,
    rows_counted_once_per_distinct_value,
    different_distinct_values_as_one,
    aggregates_of_two_arguments_joined_by_equality,
)
