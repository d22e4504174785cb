"""IM-2: a TVR splits into P, which never loses a row while the tables only grow, and N, the rest (Tempura, section 4.2).

P is maintained from the start, cheaply, because nothing has to be retracted; N is held back: computed only when it is due.
``Q = P + N`` holds at all times, whatever happens to the tables. That P only grows is what makes it worth maintaining, so tables
that lose rows have no P. Rules that split are tried in the order of ``SPLITS``: the first one that applies to a TVR gives its parts.
"""

from tempura.algebra.rel import Aggregate, Rel, scans
from tempura.algebra.scalar import Literal
from tempura.algebra.sql_order import equality_is_identity
from tempura.algebra.window import Window
from tempura.errors import Reason
from tempura.rules.core import at, is_cheap_by_definition
from tempura.rules.dsl import (
    INTER_TVR,
    TVR_GENERATING,
    Aggs,
    AnyMarker,
    Facts,
    Generated,
    Generator,
    How,
    Keys,
    Links,
    Marker,
    On,
    OnAll,
    Order,
    Outer,
    Outputs,
    Pred,
    Projections,
    Query,
    Rewrite,
    Rule,
    Sides,
    Split,
    Time,
    Tvrs,
    rewrite,
    rule,
    split,
)
from tempura.rules.helpers import all_linear, exact_states_exist, joined, rows_not_in, union_all
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import short_name

# --- parts ------------------------------------------------------------------------------------------------------------


@rule(INTER_TVR, cite=(1,))
def split_growing(Q: Tvr, facts: Facts) -> Split:
    """P(Q) = Q      N(Q) = ∅      when Q only grows

    Tables that only grow, constants, what does not change at all, and whatever is monotone in those.
    """
    return split(Q, P=Q, N=None, where=facts.only_grows(Q))


@rule(INTER_TVR, cite=(1,))
def split_filter(X: Tvr, p: Pred) -> Split:
    """P(filter(p, X)) = filter(p, P(X))      N(filter(p, X)) = filter(p, N(X))"""
    return split(X.filter(p), P=X.P.filter(p), N=X.N.filter(p))


@rule(INTER_TVR, cite=(1,))
def split_project(X: Tvr, outputs: Outputs) -> Split:
    """P(project(X)) = project(P(X))      N(project(X)) = project(N(X))"""
    return split(X.project(outputs), P=X.P.project(outputs), N=X.N.project(outputs))


@rule(INTER_TVR, cite=(1,))
def split_expand(X: Tvr, projections: Projections) -> Split:
    """P(expand(X)) = expand(P(X))      N(expand(X)) = expand(N(X))"""
    return split(X.expand(projections), P=X.P.expand(projections), N=X.N.expand(projections))


@rule(INTER_TVR, cite=(1,))
def split_generate(X: Tvr, generator: Generator, made: Generated, outer: Outer) -> Split:
    """P(generate(X)) = generate(P(X))      N(generate(X)) = generate(N(X))"""
    return split(
        X.generate(generator, made, outer),
        P=X.P.generate(generator, made, outer),
        N=X.N.generate(generator, made, outer),
    )


@rule(INTER_TVR, cite=(1,))
def split_sort(X: Tvr, order: Order) -> Split:
    """P(sort(X)) = P(X)      N(sort(X)) = N(X)"""
    return split(X.sort(order), P=X.P, N=X.N)


@rule(INTER_TVR, cite=(1,))
def split_union(terms: Tvrs) -> Split:
    """P(R + S + ...) = P(R) + P(S) + ...      N(R + S + ...) = N(R) + N(S) + ..."""
    return split(
        union_all(terms),
        P=union_all(tuple(X.P for X in terms)),
        N=union_all(tuple(X.N for X in terms)),
    )


@rule(INTER_TVR, cite=(1,))
def split_inner_join(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ⋈ R) = P(L) ⋈ P(R)      N(L ⋈ R) = P(L) ⋈ N(R) + N(L) ⋈ R"""
    return split(
        L.join(R, on),
        P=L.P.join(R.P, on),
        N=L.P.join(R.N, on) + L.N.join(R, on),
    )


@rule(INTER_TVR, cite=(1,))
def split_multi_join(terms: Sides, on: OnAll) -> Split:
    """P(R ⋈ S ⋈ ...) = P(R) ⋈ P(S) ⋈ ...      N = N(R) ⋈ S ⋈ ... + P(R) ⋈ N(S) ⋈ ... + ..."""
    rest = (joined((*(R.P for R in terms[:i]), X.N, *terms[i + 1 :]), on) for i, X in enumerate(terms))
    return split(joined(terms, on), P=joined(tuple(R.P for R in terms), on), N=union_all(tuple(rest)))


@rule(INTER_TVR, cite=(1,))
def split_join_with_static(L: Tvr, R: Tvr, on: On, how: How, marker: AnyMarker, facts: Facts) -> Split:
    """P(L ⟕ R) = P(L) ⟕ R      N(L ⟕ R) = N(L) ⟕ R      when R never changes; the same for ⋉ ▷ ∃

    These joins are linear on the left.
    """
    return split(
        L.join(R, on, how, marker),
        P=L.P.join(R, on, how, marker),
        N=L.N.join(R, on, how, marker),
        where=how not in ("inner", "full") and facts.never_changes(R),
    )


@rule(INTER_TVR, cite=(1,))
def split_left_join(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ⟕ R) = P(L) ⋈ P(R)      N(L ⟕ R) = P(L) ⋈ N(R) + N(L) ⋈ R + pad(L ▷ R)

    The rows of L without a match are held back: a match may still arrive. With nothing but P, ⟕ is ⋈ plus pad ▷.
    """
    return split(
        L.left_join(R, on),
        P=L.P.join(R.P, on),
        N=L.P.join(R.N, on) + L.N.join(R, on) + L.anti_join(R, on).pad_right(R),
    )


@rule(INTER_TVR, cite=(1,))
def split_full_join(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ⟗ R) = P(L) ⋈ P(R)      N(L ⟗ R) = P(L) ⋈ N(R) + N(L) ⋈ R + pad(L ▷ R) + pad(R ▷ L)"""
    return split(
        L.full_join(R, on),
        P=L.P.join(R.P, on),
        N=union_all(
            (
                L.P.join(R.N, on),
                L.N.join(R, on),
                L.anti_join(R, on).pad_right(R),
                R.anti_join(L, on).pad_left(L),
            )
        ),
    )


@rule(INTER_TVR, cite=(1,))
def split_semi_join(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ⋉ R) = P(L) ⋉ P(R)      N(L ⋉ R) = N(L) ⋉ R + (P(L) ⋉ N(R)) ▷ P(R)

    A row of P(L) that matches a row of P(R) stays; one that matches only rows of N(R) may go.
    """
    return split(
        L.semi_join(R, on),
        P=L.P.semi_join(R.P, on),
        N=L.N.semi_join(R, on) + L.P.semi_join(R.N, on).anti_join(R.P, on),
    )


@rule(INTER_TVR, cite=(1,))
def split_exists_join(L: Tvr, R: Tvr, on: On, marker: Marker) -> Split:
    """P(L ∃ R) = (P(L) ⋉ P(R)) with TRUE      N(L ∃ R) = N(L ⋉ R) with TRUE + (L ▷ R) with FALSE"""
    found, missing = Literal(True, "boolean"), Literal(False, "boolean")
    loose = L.N.semi_join(R, on) + L.P.semi_join(R.N, on).anti_join(R.P, on)
    return split(
        L.exists_join(R, on, marker),
        P=L.P.semi_join(R.P, on).with_column(marker, found),
        N=loose.with_column(marker, found) + L.anti_join(R, on).with_column(marker, missing),
    )


@rule(INTER_TVR, cite=(1,))
def split_distinct(X: Tvr, keys: Keys) -> Split:
    """P(distinct(X)) = distinct(P(X))      N(distinct(X)) = the rows of distinct(N(X)) that are not in distinct(P(X))

    Not for values that are equal and differ, such as -0.0 and 0.0: which of them is kept depends on all rows.
    """
    sure, loose = X.P.aggregate(keys, ()), X.N.aggregate(keys, ())
    return split(
        X.aggregate(keys, ()),
        P=sure,
        N=rows_not_in(loose, sure),
        where=bool(keys) and all(equality_is_identity(k.column.type) for k in keys),
    )


@rule(INTER_TVR, cite=(1,))
def split_other(Q: Tvr) -> Split:
    """P(Q) = ∅      N(Q) = Q      otherwise: ▷, finalised aggregates, windows, the first rows of an order, tables that lose rows"""
    return split(Q, P=None, N=Q)


# --- using the parts --------------------------------------------------------------------------------------------------


@rule(INTER_TVR, cite=(1,), any_time=True)
def merge_parts(Q: Query, t: Time, links: Links) -> Rewrite:
    """Q[:t] = P(Q)[:t] + N(Q)[:t]"""
    return rewrite(Q[:t], Q.P[:t] + Q.N[:t], where=links.has(Q.P) and links.has(Q.N))


@rule(INTER_TVR, cite=(1,))
def merge_deltas_of_parts(Q: Query, t: Time, u: Time, links: Links) -> Rewrite:
    """Q[t:u] = P(Q)[t:u] + N(Q)[t:u]"""
    return rewrite(Q[t:u], Q.P[t:u] + Q.N[t:u], where=links.has(Q.P) and links.has(Q.N))


@rule(INTER_TVR, cite=(1,), any_time=True)
def merge_states_of_parts(X: Tvr, keys: Keys, aggs: Aggs, t: Time, links: Links) -> Rewrite:
    """state(X)[:t] = state(P(X))[:t] merged with state(N(X))[:t]

    The distributive step of IM-2: the state of P is kept up to date, that of N computed when it is due.
    """
    return rewrite(
        X.aggregate(keys, aggs).state[:t],
        X.P.aggregate(keys, aggs).state[:t].merge(X.N.aggregate(keys, aggs).state[:t], keys, aggs),
        where=exact_states_exist(aggs) and links.has(X.P) and links.has(X.N),
    )


@rule(INTER_TVR, cite=(1,))
def merge_parts_into_state(X: Tvr, keys: Keys, aggs: Aggs, t: Time, u: Time, links: Links) -> Rewrite:
    """state(X)[:u] = state(P(X))[:t] merged with partial(P(X)[t:u] + N(X)[:u])      for aggregates that are sums

    The last step of IM-2 with one aggregation instead of two: what P got since, and all that was held back.
    """
    return rewrite(
        X.aggregate(keys, aggs).state[:u],
        X.P.aggregate(keys, aggs).state[:t].merge((X.P[t:u] + X.N[:u]).partial(keys, aggs), keys, aggs),
        where=all_linear(aggs) and links.has(X.P) and links.has(X.N),
    )


# --- what is held back ------------------------------------------------------------------------------------------------


def is_held_back(Q: Tvr, links: Links) -> bool:
    """Whether no row of Q is certain to stay, and no other rule computes Q from its inputs at any time."""
    has_state = isinstance(Q.rel, Aggregate) and exact_states_exist(Q.rel.aggregates)
    return not links.has(Q.P) and not has_state and not is_cheap_by_definition(Q.rel)


def why_held_back(rel: Rel, facts: Facts) -> Reason | None:
    """Why a TVR that IM-2 computes when it is due has no part that only grows; None for ▷ and what is made of it, where holding
    back is the method itself."""
    shrinking = [scan.table for scan in scans(rel) if not facts.only_grows(Tvr(scan))]
    if shrinking:
        tables = ", ".join(sorted(set(shrinking)))
        return Reason("IM2_NEEDS_INSERTS", f"{tables} may lose rows: no part of what reads it is sure to stay")
    if isinstance(rel, Window) or (isinstance(rel, Aggregate) and not exact_states_exist(rel.aggregates)):
        return Reason("IM2_HELD_BACK", f"any row of {short_name(rel)} may change: computed when it is due")
    return None


@rule(TVR_GENERATING, cite=(1,), any_time=True, why=why_held_back)
def hold_back(Q: Query, t: Time, links: Links) -> Rewrite:
    """N(R)[:t] = N(R[:t])      at any time, when P = ∅

    What may have to be retracted is computed when it is due, not maintained.
    """
    return rewrite(Q[:t], at(Q, t), where=bool(Q.rel.inputs) and is_held_back(Q, links))


@rule(TVR_GENERATING, cite=(1,), any_time=True, why=why_held_back)
def hold_back_state(X: Tvr, keys: Keys, aggs: Aggs, t: Time, links: Links) -> Rewrite:
    """state(X)[:t] = partial(X[:t])      at any time, when P(X) = ∅"""
    return rewrite(
        X.aggregate(keys, aggs).state[:t],
        X[:t].partial(keys, aggs),
        where=exact_states_exist(aggs) and not links.has(X.P),
    )


SPLITS: tuple[Rule, ...] = (
    split_growing,
    split_filter,
    split_project,
    split_expand,
    split_generate,
    split_sort,
    split_union,
    split_inner_join,
    split_multi_join,
    split_join_with_static,
    split_left_join,
    split_full_join,
    split_semi_join,
    split_exists_join,
    split_distinct,
    split_other,
)
"""The rules that give P and N, the first that applies first."""

USES: tuple[Rule, ...] = (
    merge_parts,
    merge_deltas_of_parts,
    merge_states_of_parts,
    merge_parts_into_state,
    hold_back,
    hold_back_state,
)
"""What is done with the parts."""
