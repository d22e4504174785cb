"""Wrong rules that the laws must refute: traps that other implementations fell into. They test the oracle itself."""

from dataclasses import replace

from tempura.algebra.rel import Aggregate, Filter, Project, Rel, Union
from tempura.algebra.scalar import (
    TRUE,
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
    equal,
    same,
)
from tempura.algebra.states import Finalize, Slot, StateLayout, is_rounded
from tempura.algebra.window import partition_keys
from tempura.rules.dsl import (
    INTRA_TVR,
    TVR_GENERATING,
    Aggs,
    Between,
    Facts,
    Generated,
    Generator,
    Keys,
    Limit,
    Marker,
    On,
    OnAll,
    Order,
    Outer,
    Partition,
    Pred,
    Projections,
    Rewrite,
    Rule,
    Sides,
    Time,
    Tvrs,
    WindowCalls,
    rewrite,
    rule,
)
from tempura.rules.helpers import (
    all_linear,
    is_order_sensitive,
    joined,
    joined_bags,
    only_matching,
    results_of_changed_groups,
    results_of_other_groups,
    rows_of_changed_groups,
    states_exist,
    sum_of,
    union_all,
)
from tempura.tvr.tvr import Bag, Tvr
from tests.laws.hov_mutants import HOV_MUTANTS
from tests.laws.im2_mutants import IM2_MUTANTS
from tests.laws.logical_mutants import LOGICAL_MUTANTS
from tests.laws.ojv_mutants import OJV_MUTANTS
from tests.laws.open_mutants import OPEN_MUTANTS


def _keep(rows: Bag, columns: tuple[Column, ...]) -> Bag:
    return rows.project(tuple(Output(c, Ref(c)) for c in columns))


# --- joins ------------------------------------------------------------------------------------------------------------


@rule(TVR_GENERATING)
def product_rule_with_both_sides_old(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:t] + L[:t] ⋈ ΔR      WRONG: misses ΔL ⋈ ΔR"""
    return rewrite(
        L.join(R, on)[t:u],
        L[t:u].join(R[:t], on) + L[:t].join(R[t:u], on),
    )


@rule(TVR_GENERATING)
def product_of_many_with_all_others_new(terms: Sides, on: OnAll, t: Time, u: Time) -> Rewrite:
    """Δ(R ⋈ S ⋈ ...) = ΔR ⋈ S[:u] ⋈ ... + R[:u] ⋈ ΔS ⋈ ... + ...      WRONG: ΔR ⋈ ΔS is counted twice"""
    sums = (
        joined_bags((*(R[:u] for R in terms[:i]), X[t:u], *(R[:u] for R in terms[i + 1 :])), on)
        for i, X in enumerate(terms)
    )
    return rewrite(joined(terms, on)[t:u], sum_of(tuple(sums)))


@rule(TVR_GENERATING)
def product_of_many_by_first_and_last(terms: Sides, on: OnAll, t: Time, u: Time) -> Rewrite:
    """Δ(R ⋈ ... ⋈ S) = ΔR ⋈ ... ⋈ S[:t] + R[:u] ⋈ ... ⋈ ΔS      WRONG: forgets what changes between"""
    first = joined_bags((terms[0][t:u], *(R[:t] for R in terms[1:])), on)
    last = joined_bags((*(R[:u] for R in terms[:-1]), terms[-1][t:u]), on)
    return rewrite(joined(terms, on)[t:u], first + last)


@rule(TVR_GENERATING)
def product_rule_on_left_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕ R) = ΔL ⟕ R[:t] + L[:u] ⟕ support(ΔR)      WRONG: ⟕ is not linear on the right"""
    return rewrite(
        L.left_join(R, on)[t:u],
        L[t:u].left_join(R[:t], on) + L[:u].left_join(R[t:u].support(), on),
    )


@rule(TVR_GENERATING)
def push_filter_without_guard(L: Tvr, R: Tvr, on: On, p: Pred, t: Time) -> Rewrite:
    """filter(p, L ⟕ R) = L ⟕ filter(p, R)      WRONG: p must not decide about padded rows"""
    return rewrite(
        L.left_join(R, on).filter(p)[:t],
        L[:t].left_join(R[:t].filter(p), on),
        where=p.reads_only(R.columns),
    )


@rule(TVR_GENERATING)
def anti_join_delta_of_inserts_only(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ R[:t] + (A ▷ R[:u]) - (A ▷ R[:t])      WRONG: A looks at changed rows that still exist"""
    now = R[:u].project(tuple(Output(c.primed(), Ref(c)) for c in R.columns))
    identical = conjunction(*(same(Ref(c), Ref(c.primed())) for c in R.columns))
    A = L[:u].semi_join(R[t:u].support().semi_join(now, identical), on)
    return rewrite(
        L.anti_join(R, on)[t:u],
        L[t:u].anti_join(R[:t], on) + A.anti_join(R[:u], on) - A.anti_join(R[:t], on),
    )


@rule(TVR_GENERATING)
def anti_join_delta_of_old_left_side(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ R[:t] + (A ▷ R[:u]) - (A ▷ R[:t])      WRONG: A = L[:t] ⋉ ΔR forgets the new rows of L"""
    A = L[:t].semi_join(R[t:u].support(), on)
    return rewrite(
        L.anti_join(R, on)[t:u],
        L[t:u].anti_join(R[:t], on) + A.anti_join(R[:u], on) - A.anti_join(R[:t], on),
    )


@rule(TVR_GENERATING)
def semi_join_built_as_inner_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ▷ R) = ΔL ▷ R[:t] + (A ▷ R[:u]) - (A ▷ R[:t])      WRONG: A = L[:u] ⋈ ΔR counts a row once per match"""
    A = _keep(L[:u].join(R[t:u].support(), on), L.columns)
    return rewrite(
        L.anti_join(R, on)[t:u],
        L[t:u].anti_join(R[:t], on) + A.anti_join(R[:u], on) - A.anti_join(R[:t], on),
    )


@rule(TVR_GENERATING)
def full_join_built_on_inner_join(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟗ R) = Δ(L ⋈ R) + pad Δ(R ▷ L)      WRONG: loses the unmatched rows of L"""
    return rewrite(
        L.full_join(R, on)[t:u],
        L.join(R, on)[t:u] + R.anti_join(L, on)[t:u].pad_left(L),
    )


@rule(TVR_GENERATING)
def single_join_of_rows_that_match_now(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕₁ R) = consolidate(ΔL + A) ⟕₁ R[:u] - A ⟕₁ R[:t]      WRONG: A misses the rows that have lost their match"""
    A = L[:t].semi_join(R[:u], on)
    return rewrite(
        L.single_join(R, on)[t:u],
        (L[t:u] + A).consolidate().single_join(R[:u], on) - A.single_join(R[:t], on),
    )


@rule(TVR_GENERATING)
def single_join_linear_on_the_right(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⟕₁ R) = ΔL ⟕₁ R[:t] + L[:u] ⟕₁ support(ΔR)      WRONG: ⟕₁ is not linear on the right"""
    return rewrite(
        L.single_join(R, on)[t:u],
        L[t:u].single_join(R[:t], on) + L[:u].single_join(R[t:u].support(), on),
    )


@rule(TVR_GENERATING)
def existence_join_as_semi_join(L: Tvr, R: Tvr, on: On, marker: Marker, t: Time, u: Time) -> Rewrite:
    """Δ(L ∃ R) = ΔL ∃ R[:u] + A with TRUE      WRONG: the old answers stay, and a row may have lost its last match"""
    A = L[:t].semi_join(R[t:u].support(), on)
    kept = tuple(Output(c, Ref(c)) for c in L.columns)
    return rewrite(
        L.exists_join(R, on, marker)[t:u],
        L[t:u].exists_join(R[:u], on, marker) + A.project((*kept, Output(marker, TRUE))),
    )


@rule(TVR_GENERATING)
def existence_join_by_net_changes(L: Tvr, R: Tvr, on: On, marker: Marker, t: Time, u: Time) -> Rewrite:
    """Δ(L ∃ R) = (ΔL + A) ∃ R[:u] - A ∃ R[:t]      WRONG: A looks at changed rows that still exist"""
    now = R[:u].project(tuple(Output(c.primed(), Ref(c)) for c in R.columns))
    identical = conjunction(*(same(Ref(c), Ref(c.primed())) for c in R.columns))
    A = L[:t].semi_join(R[t:u].support().semi_join(now, identical), on)
    return rewrite(
        L.exists_join(R, on, marker)[t:u],
        (L[t:u] + A).exists_join(R[:u], on, marker) - A.exists_join(R[:t], on, marker),
    )


# --- aggregates -------------------------------------------------------------------------------------------------------


def _count_of_nulls(call: AggregateCall) -> AggregateCall:
    if call.function != "Count" or not call.operands:
        return call
    missing = Call("IsNull", call.operands, "boolean")
    both = missing if call.filter is None else conjunction(call.filter, missing)
    return replace(call, operands=(), filter=both)


@rule(INTRA_TVR)
def count_with_null_test_flipped(X: Tvr, keys: Keys, aggs: Aggs, t: Time) -> Rewrite:
    """aggregate(X)[:t] = aggregate(X[:t])      WRONG: COUNT(c) counts the NULLs"""
    flipped = tuple(replace(a, call=_count_of_nulls(a.call)) for a in aggs)
    return rewrite(X.aggregate(keys, aggs)[:t], X[:t].aggregate(keys, flipped), where=states_exist(aggs))


def _nothing(view: Bag) -> Rewrite:
    """No law, for aggregates without state."""
    return rewrite(view, view, where=False)


def _finalized(state: Bag, A: Tvr, keep_dead: bool = False, sum_of_nothing: bool = False) -> Bag:
    """Finalization by hand, with planted mistakes."""
    assert isinstance(A.rel, Aggregate)
    right = Finalize(state.rel, A.rel.keys, A.rel.aggregates)
    alive = Call("GreaterThan", (Ref(right.layout.rows), Literal(0, "bigint")), "boolean")
    source: Rel = right.input if keep_dead else Filter(right.input, alive)
    return Bag(Project(source, tuple(map(_sum_never_null, right.outputs)) if sum_of_nothing else right.outputs))


def _sum_never_null(output: Output) -> Output:
    match output.expr:
        case Call("SumOf", (total, _)):
            return replace(output, expr=replace(output.expr, operands=(total, Literal(1, "bigint"))))
    return output


@rule(INTRA_TVR)
def sum_that_never_returns_to_null(X: Tvr, keys: Keys, aggs: Aggs, t: Time) -> Rewrite:
    """aggregate(X)[:t] = finalize(state(X)[:t])      WRONG: SUM of no value is 0"""
    A = X.aggregate(keys, aggs)
    if not states_exist(aggs):
        return _nothing(A[:t])
    wrong = _finalized(A.state[:t], A, sum_of_nothing=True)
    return rewrite(A[:t], wrong, where=bool(keys))


@rule(INTRA_TVR)
def global_aggregate_that_loses_its_row(X: Tvr, aggs: Aggs, t: Time) -> Rewrite:
    """aggregate((), X)[:t] = finalize(state(X)[:t])      WRONG: no row over no input"""
    A = X.aggregate((), aggs)
    if not states_exist(aggs):
        return _nothing(A[:t])
    return rewrite(A[:t], _finalized(A.state[:t], A))


def _added(left: Bag, right: Bag, layout: StateLayout) -> Bag:
    """Two states merged by an aggregation: the sum of each slot per group."""
    keys = tuple(Output(c, Ref(c)) for c in layout.keys)
    return Bag(Aggregate(Union((left.rel, right.rel)), keys, tuple(map(_slot_sum, layout.slots))))


def _slot_sum(slot: Slot) -> AggregateOutput:
    return AggregateOutput(slot.column, AggregateCall("Sum", (Ref(slot.column),), slot.column.type))


@rule(INTRA_TVR)
def finalize_that_keeps_dead_groups(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """aggregate(X)[:u] = finalize(state(X)[:t] + state(X)[t:u])      WRONG: groups without rows are kept"""
    A = X.aggregate(keys, aggs)
    if not states_exist(aggs):
        return _nothing(A[:u])
    merged = _added(A.state[:t], A.state[t:u], Finalize(A.rel, keys, aggs).layout)
    return rewrite(
        A[:u],
        _finalized(merged, A, keep_dead=True),
        where=bool(keys) and all_linear(aggs),
    )


@rule(INTRA_TVR)
def finalize_that_drops_dead_groups(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """aggregate(X)[:u] = finalize(state(X)[:t] + state(X)[t:u])      right: the control for the rule above"""
    A = X.aggregate(keys, aggs)
    if not states_exist(aggs):
        return _nothing(A[:u])
    merged = _added(A.state[:t], A.state[t:u], Finalize(A.rel, keys, aggs).layout)
    return rewrite(A[:u], _finalized(merged, A), where=bool(keys) and all_linear(aggs))


@rule(INTRA_TVR)
def minimum_merged_under_deletes(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """state(X)[:u] = state(X)[:t] merged with partial(the changed rows)      WRONG: a deleted minimum stays"""
    A = X.aggregate(keys, aggs)
    return rewrite(
        A.state[:u],
        A.state[:t].merge(X[t:u].partial(keys, aggs), keys, aggs),
        where=states_exist(aggs) and not all_linear(aggs),
    )


@rule(INTRA_TVR)
def means_added_like_totals(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time, facts: Facts) -> Rewrite:
    """state(X)[:u] = state(X)[:t] + state(X)[t:u], slot by slot      WRONG: a mean of two means weighs them"""
    spreads = tuple(a for a in aggs if is_rounded(a.call) and a.call.function not in ("Sum", "Average"))
    A = X.aggregate(keys, spreads)
    merged = _added(A.state[:t], A.state[t:u], Finalize(A.rel, keys, spreads).layout)
    return rewrite(A.state[:u], merged, where=bool(spreads) and facts.insert_only(X, t, u))


@rule(INTRA_TVR)
def states_beside_those_computed_again(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """state(X)[:u] = state(X)[:t] + partial(X[:u] ⋉ K)      WRONG: the groups of K are there twice"""
    A = X.aggregate(keys, aggs)
    again = rows_of_changed_groups(X[:u], X[t:u], keys).partial(keys, aggs)
    return rewrite(A.state[:u], A.state[:t] + again, where=bool(keys) and states_exist(aggs))


@rule(INTRA_TVR)
def states_of_groups_that_still_exist(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """state(X)[:u] = state(X)[:t] ▷ K + partial(X[:u] ⋉ K)      WRONG: K misses the groups that are gone"""
    A = X.aggregate(keys, aggs)
    again = rows_of_changed_groups(X[:u], X[t:u], keys)
    others = results_of_other_groups(A.state[:t], again, keys)
    return rewrite(A.state[:u], others + again.partial(keys, aggs), where=bool(keys) and states_exist(aggs))


@rule(INTRA_TVR)
def minimum_of_rows_that_are_gone(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """aggregate(X)[:u] = aggregate(X[:t] + the rows that changed and exist)      WRONG: a deleted minimum stays"""
    only_extremes = all(a.call.function in ("Min", "Max") for a in aggs)
    rows = Bag(Union((X[:t].rel, X[:u].rel)))
    return rewrite(X.aggregate(keys, aggs)[:u], rows.aggregate(keys, aggs), where=only_extremes)


def _affected(X: Bag, changed: Bag, keys: tuple[Output, ...], null_safe: bool = True, cancel: bool = False) -> Bag:
    """The rows of the affected groups, with planted mistakes."""
    rows = changed if cancel else changed.support()
    groups = rows.project(tuple(Output(k.column.primed(), k.expr) for k in keys)).support()
    compare = same if null_safe else equal
    on: Expr = conjunction(*(compare(k.expr, Ref(k.column.primed())) for k in keys))
    return X.semi_join(groups, on)


@rule(TVR_GENERATING)
def affected_groups_compared_by_equality(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - aggregate(X[:t] ⋉ K)      WRONG: K does not find the group of NULL"""
    A = X.aggregate(keys, aggs)
    new, old = (_affected(X[:v], X[t:u], keys, null_safe=False).aggregate(keys, aggs) for v in (u, t))
    return rewrite(A[t:u], new - old, where=bool(keys) and not is_order_sensitive(A.rel))


@rule(TVR_GENERATING)
def affected_groups_that_cancel_out(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - aggregate(X[:t] ⋉ K)      WRONG: K misses groups with an update"""
    A = X.aggregate(keys, aggs)
    new, old = (_affected(X[:v], X[t:u], keys, cancel=True).aggregate(keys, aggs) for v in (u, t))
    return rewrite(A[t:u], new - old, where=bool(keys) and not is_order_sensitive(A.rel))


@rule(TVR_GENERATING)
def stored_groups_of_rows_that_exist(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - aggregate(X)[:t] ⋉ K      WRONG: K misses the groups that are gone"""
    A = X.aggregate(keys, aggs)
    new = rows_of_changed_groups(X[:u], X[t:u], keys)
    old = results_of_changed_groups(A[:t], new, keys)
    return rewrite(A[t:u], new.aggregate(keys, aggs) - old, where=bool(keys))


@rule(TVR_GENERATING)
def stored_groups_never_taken_away(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time) -> Rewrite:
    """Δ aggregate(X) = aggregate(X[:u] ⋉ K) - (aggregate(X[:u] ⋉ K) ⋉ K)      WRONG: takes away what it has just computed"""
    A = X.aggregate(keys, aggs)
    new = rows_of_changed_groups(X[:u], X[t:u], keys).aggregate(keys, aggs)
    return rewrite(A[t:u], new - results_of_changed_groups(A[:u], X[t:u], keys), where=bool(keys))


# --- others -----------------------------------------------------------------------------------------------------------


@rule(TVR_GENERATING)
def union_that_drops_duplicates(terms: Tvrs, t: Time) -> Rewrite:
    """(R + S + ...)[:t] = support(R[:t] + S[:t] + ...)      WRONG: bags have duplicates"""
    return rewrite(union_all(terms)[:t], sum_of(tuple(R[:t] for R in terms)).support())


@rule(TVR_GENERATING)
def top_of_delta_only(X: Tvr, order: Order, k: Limit, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ top(X) = top(ΔX)      WRONG even if X only grows: new rows displace old ones"""
    return rewrite(
        X.top(order, k)[t:u],
        X[t:u].top(order, k),
        where=facts.insert_only(X, t, u),
    )


@rule(INTRA_TVR)
def top_merged_under_deletes(X: Tvr, order: Order, k: Limit, t: Time, u: Time) -> Rewrite:
    """top(X)[:u] = top(top(X)[:t] + X[t:u])      WRONG: a row that was not among the first replaces a deleted one"""
    Q = X.top(order, k)
    return rewrite(Q[:u], (Q[:t] + X[t:u]).consolidate().top(order, k))


@rule(INTRA_TVR)
def top_merged_without_a_limit(X: Tvr, order: Order, k: Limit, t: Time, u: Time, facts: Facts) -> Rewrite:
    """top(X)[:u] = top(X)[:t] + top(X[t:u])      WRONG: new rows displace old ones"""
    Q = X.top(order, k)
    return rewrite(Q[:u], Q[:t] + X[t:u].top(order, k), where=facts.insert_only(X, t, u))


@rule(TVR_GENERATING)
def expand_of_what_changed(R: Tvr, projections: Projections, t: Time, u: Time) -> Rewrite:
    """Δ expand(R) = support(expand(ΔR))      WRONG: a row may come from several projections, and rows go, too"""
    return rewrite(R.expand(projections)[t:u], R[t:u].expand(projections).support())


@rule(TVR_GENERATING)
def one_that_is_linear(X: Tvr, order: Order, t: Time, u: Time) -> Rewrite:
    """Δ one(top(1, X)) = Δ top(1, X)      WRONG: the row of NULLs comes and goes, too"""
    first = X.top(order, 1)
    return rewrite(first.one()[t:u], first[t:u])


@rule(TVR_GENERATING)
def generate_of_support(R: Tvr, generator: Generator, made: Generated, outer: Outer, t: Time, u: Time) -> Rewrite:
    """Δ generate(R) = generate(support(ΔR))      WRONG: loses signs and multiplicities"""
    G = R.generate(generator, made, outer)
    return rewrite(G[t:u], R[t:u].support().generate(generator, made, outer))


@rule(TVR_GENERATING)
def generate_that_forgets_outer(
    R: Tvr, generator: Generator, made: Generated, outer: Outer, t: Time, u: Time
) -> Rewrite:
    """Δ generate outer(R) = generate(ΔR)      WRONG: a row of which none is made stays"""
    G = R.generate(generator, made, outer)
    return rewrite(G[t:u], R[t:u].generate(generator, made), where=outer)


# --- windows ----------------------------------------------------------------------------------------------------------


def _window_delta(
    X: Tvr, partition: Partition, order: Order, calls: WindowCalls, t: Time, u: Time, wrong: str
) -> Rewrite:
    """The law of windows, with planted mistakes."""
    W, keys = X.window(partition, order, calls), partition_keys(partition, calls)
    new, old = (
        _affected(view, X[t:u], keys, null_safe=wrong != "equality", cancel=wrong != "equality")
        for view in (X[:u], X[:t])
    )
    where = bool(partition) and not is_order_sensitive(W.rel)
    return rewrite(W[t:u], new.window(partition, order, calls) - old.window(partition, order, calls), where)


@rule(TVR_GENERATING)
def window_of_delta(
    X: Tvr, partition: Partition, order: Order, calls: WindowCalls, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ window(X) = window(ΔX)      WRONG: a window is not linear, even if X only grows"""
    W = X.window(partition, order, calls)
    return rewrite(W[t:u], X[t:u].window(partition, order, calls), where=facts.insert_only(X, t, u))


@rule(TVR_GENERATING)
def partitions_compared_by_equality(
    X: Tvr, partition: Partition, order: Order, calls: WindowCalls, t: Time, u: Time
) -> Rewrite:
    """Δ window(X) = window(X[:u] ⋉ K) - window(X[:t] ⋉ K)      WRONG: = forgets the partition of NULL"""
    return _window_delta(X, partition, order, calls, t, u, "equality")


@rule(TVR_GENERATING)
def partitions_that_cancel_out(
    X: Tvr, partition: Partition, order: Order, calls: WindowCalls, t: Time, u: Time
) -> Rewrite:
    """Δ window(X) = window(X[:u] ⋉ K) - window(X[:t] ⋉ K)      WRONG: an update in one partition leaves no key"""
    return _window_delta(X, partition, order, calls, t, u, "cancel")


@rule(TVR_GENERATING)
def window_of_new_rows_only(
    X: Tvr, partition: Partition, order: Order, calls: WindowCalls, t: Time, u: Time
) -> Rewrite:
    """Δ window(X) = window(X[:u] ⋉ K) - window(X[:t] ⋉ K)      WRONG: K looks at the rows that exist, not at deleted ones"""
    W, keys = X.window(partition, order, calls), partition_keys(partition, calls)
    now = X[:u].project(tuple(Output(c.primed(), Ref(c)) for c in X.columns))
    identical = conjunction(*(same(Ref(c), Ref(c.primed())) for c in X.columns))
    changed = X[t:u].support().semi_join(now, identical)
    new, old = (_affected(view, changed, keys) for view in (X[:u], X[:t]))
    where = bool(partition) and not is_order_sensitive(W.rel)
    return rewrite(W[t:u], new.window(partition, order, calls) - old.window(partition, order, calls), where)


@rule(TVR_GENERATING)
def stored_partitions_of_rows_that_exist(
    X: Tvr, partition: Partition, order: Order, calls: WindowCalls, t: Time, u: Time
) -> Rewrite:
    """Δ window(X) = window(X[:u] ⋉ K) - window(X)[:t] ⋉ K      WRONG: K misses the partitions that are gone"""
    W, keys = X.window(partition, order, calls), partition_keys(partition, calls)
    new = rows_of_changed_groups(X[:u], X[t:u], keys)
    old = rows_of_changed_groups(W[:t], new, keys)
    return rewrite(W[t:u], new.window(partition, order, calls) - old, where=bool(partition))


CONTROL: Rule = finalize_that_drops_dead_groups
"""A right rule written like the wrong ones: what refutes them is the planted mistake."""


@rule(INTRA_TVR)
def staircase_without_its_last_step(L: Tvr, R: Tvr, on: On, t: Time, u: Time, p: Between) -> Rewrite:
    """Δ(L ⟕ R) = (L ⟕ R)[t:p]"""
    Q = L.left_join(R, on)
    return rewrite(Q[t:u], Q[t:p])


@rule(TVR_GENERATING)
def full_join_of_matching_rows(L: Tvr, R: Tvr, on: On, t: Time) -> Rewrite:
    """(L ⟗ R)[:t] = L[:t] ⟗ (R[:t] ⋉ L[:t])      WRONG: rows of R that match nothing are in the result, too"""
    return rewrite(L.full_join(R, on)[:t], L[:t].full_join(only_matching(R[:t], L[:t], on), on))


MUTANTS: tuple[Rule, ...] = (
    full_join_of_matching_rows,
    staircase_without_its_last_step,
    product_rule_with_both_sides_old,
    product_of_many_with_all_others_new,
    product_of_many_by_first_and_last,
    product_rule_on_left_join,
    push_filter_without_guard,
    anti_join_delta_of_inserts_only,
    anti_join_delta_of_old_left_side,
    semi_join_built_as_inner_join,
    full_join_built_on_inner_join,
    single_join_of_rows_that_match_now,
    single_join_linear_on_the_right,
    existence_join_as_semi_join,
    existence_join_by_net_changes,
    count_with_null_test_flipped,
    sum_that_never_returns_to_null,
    global_aggregate_that_loses_its_row,
    finalize_that_keeps_dead_groups,
    minimum_merged_under_deletes,
    means_added_like_totals,
    states_beside_those_computed_again,
    states_of_groups_that_still_exist,
    minimum_of_rows_that_are_gone,
    affected_groups_compared_by_equality,
    affected_groups_that_cancel_out,
    stored_groups_of_rows_that_exist,
    stored_groups_never_taken_away,
    stored_partitions_of_rows_that_exist,
    union_that_drops_duplicates,
    top_of_delta_only,
    top_merged_under_deletes,
    top_merged_without_a_limit,
    expand_of_what_changed,
    one_that_is_linear,
    generate_of_support,
    generate_that_forgets_outer,
    window_of_delta,
    partitions_compared_by_equality,
    partitions_that_cancel_out,
    window_of_new_rows_only,
    *HOV_MUTANTS,
    *IM2_MUTANTS,
    *LOGICAL_MUTANTS,
    *OJV_MUTANTS,
    *OPEN_MUTANTS,
)
