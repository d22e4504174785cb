"""Wrong splits into P and N, and wrong uses of them."""

from tempura.algebra.scalar import Literal, Output, Ref, conjunction, equal
from tempura.rules.dsl import (
    INTER_TVR,
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
from tempura.rules.helpers import joined, states_exist, union_all
from tempura.tvr.tvr import Tvr


@rule(INTER_TVR)
def split_of_what_grew_once(Q: Tvr, facts: Facts) -> Split:
    """P(Q) = Q      N(Q) = ∅      WRONG: grew from the first time to the second, but then?"""
    return split(Q, P=Q, N=None, where=facts.insert_only(Q, 0, 1))


@rule(INTER_TVR)
def split_filter_of_the_whole(X: Tvr, p: Pred) -> Split:
    """P(filter(p, X)) = filter(p, X)      N = ∅      WRONG: X loses rows"""
    return split(X.filter(p), P=X.filter(p), N=None)


@rule(INTER_TVR)
def split_project_twice(X: Tvr, outputs: Outputs) -> Split:
    """P(project(X)) = project(P(X))      N(project(X)) = project(X)      WRONG: counts P twice"""
    return split(X.project(outputs), P=X.P.project(outputs), N=X.project(outputs))


@rule(INTER_TVR)
def split_expand_exchanged(X: Tvr, projections: Projections) -> Split:
    """P(expand(X)) = expand(N(X))      N(expand(X)) = expand(P(X))      WRONG: the parts exchanged"""
    return split(X.expand(projections), P=X.N.expand(projections), N=X.P.expand(projections))


@rule(INTER_TVR)
def split_generate_that_forgets_outer(X: Tvr, generator: Generator, made: Generated, outer: Outer) -> Split:
    """P(generate outer(X)) = generate(P(X))      N = generate outer(N(X))      WRONG: rows of which none is made"""
    made_of = (generator, made)
    return split(X.generate(*made_of, outer), P=X.P.generate(*made_of), N=X.N.generate(*made_of, outer), where=outer)


@rule(INTER_TVR)
def split_union_of_first(terms: Tvrs) -> Split:
    """P(R + S + ...) = P(R)      N(R + S + ...) = N(R) + N(S) + ...      WRONG: forgets P(S)"""
    return split(union_all(terms), P=terms[0].P, N=union_all(tuple(X.N for X in terms)), where=len(terms) > 1)


@rule(INTER_TVR)
def split_inner_join_symmetric(L: Tvr, R: Tvr, on: On) -> Split:
    """P = P(L) ⋈ P(R)      N = L ⋈ N(R) + N(L) ⋈ R      WRONG: counts N(L) ⋈ N(R) twice"""
    return split(L.join(R, on), P=L.P.join(R.P, on), N=L.join(R.N, on) + L.N.join(R, on))


@rule(INTER_TVR)
def split_multi_join_symmetric(terms: Sides, on: OnAll) -> Split:
    """P = P(R) ⋈ P(S) ⋈ ...      N = N(R) ⋈ S ⋈ ... + R ⋈ N(S) ⋈ ... + ...      WRONG: counts N(R) ⋈ N(S) twice"""
    rest = (joined((*terms[:i], X.N, *terms[i + 1 :]), on) for i, X in enumerate(terms))
    return split(joined(terms, on), P=joined(tuple(R.P for R in terms), on), N=union_all(tuple(rest)))


@rule(INTER_TVR)
def split_inner_join_by_left(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ⋈ R) = P(L) ⋈ R      N(L ⋈ R) = N(L) ⋈ R      WRONG: R loses rows"""
    return split(L.join(R, on), P=L.P.join(R, on), N=L.N.join(R, on))


@rule(INTER_TVR)
def split_join_with_growing(L: Tvr, R: Tvr, on: On, how: How, marker: AnyMarker, facts: Facts) -> Split:
    """P(L ⟕ R) = P(L) ⟕ R      N(L ⟕ R) = N(L) ⟕ R      WRONG: a match may still arrive"""
    return split(
        L.join(R, on, how, marker),
        P=L.P.join(R, on, how, marker),
        N=L.N.join(R, on, how, marker),
        where=how in ("left", "anti", "exists") and facts.only_grows(R),
    )


@rule(INTER_TVR)
def split_left_join_early(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ⟕ R) = P(L) ⟕ P(R)      N(L ⟕ R) = P(L) ⋈ N(R) + N(L) ⟕ R      WRONG: rows are padded too early"""
    return split(L.left_join(R, on), P=L.P.left_join(R.P, on), N=L.P.join(R.N, on) + L.N.left_join(R, on))


@rule(INTER_TVR)
def split_left_join_of_certain_rows(L: Tvr, R: Tvr, on: On) -> Split:
    """N(L ⟕ R) = P(L) ⋈ N(R) + N(L) ⋈ R + pad(P(L) ▷ R)      WRONG: N(L) is padded, too"""
    N = L.P.join(R.N, on) + L.N.join(R, on) + L.P.anti_join(R, on).pad_right(R)
    return split(L.left_join(R, on), P=L.P.join(R.P, on), N=N)


@rule(INTER_TVR)
def split_full_join_as_left(L: Tvr, R: Tvr, on: On) -> Split:
    """N(L ⟗ R) = P(L) ⋈ N(R) + N(L) ⋈ R + pad(L ▷ R)      WRONG: forgets the rows of R without a match"""
    N = L.P.join(R.N, on) + L.N.join(R, on) + L.anti_join(R, on).pad_right(R)
    return split(L.full_join(R, on), P=L.P.join(R.P, on), N=N)


@rule(INTER_TVR)
def split_semi_join_like_inner(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ⋉ R) = P(L) ⋉ P(R)      N(L ⋉ R) = N(L) ⋉ R + P(L) ⋉ N(R)      WRONG: rows that match both count twice"""
    return split(L.semi_join(R, on), P=L.P.semi_join(R.P, on), N=L.N.semi_join(R, on) + L.P.semi_join(R.N, on))


@rule(INTER_TVR)
def split_anti_join(L: Tvr, R: Tvr, on: On) -> Split:
    """P(L ▷ R) = P(L) ▷ P(R)      N(L ▷ R) = N(L) ▷ R      WRONG: ▷ is not monotone"""
    return split(L.anti_join(R, on), P=L.P.anti_join(R.P, on), N=L.N.anti_join(R, on))


@rule(INTER_TVR)
def split_exists_join_early(L: Tvr, R: Tvr, on: On, marker: Marker) -> Split:
    """P(L ∃ R) = P(L) ∃ P(R)      N(L ∃ R) = N(L) ∃ R      WRONG: FALSE may become TRUE"""
    return split(L.exists_join(R, on, marker), P=L.P.exists_join(R.P, on, marker), N=L.N.exists_join(R, on, marker))


@rule(INTER_TVR)
def split_exists_join_without_false(L: Tvr, R: Tvr, on: On, marker: Marker) -> Split:
    """P(L ∃ R) = (P(L) ⋉ P(R)) with TRUE      N(L ∃ R) = N(L ⋉ R) with TRUE      WRONG: rows without a match are lost"""
    found = Literal(True, "boolean")
    loose = L.N.semi_join(R, on) + L.P.semi_join(R.N, on).anti_join(R.P, on)
    return split(
        L.exists_join(R, on, marker),
        P=L.P.semi_join(R.P, on).with_column(marker, found),
        N=loose.with_column(marker, found),
    )


@rule(INTER_TVR)
def split_aggregate(X: Tvr, keys: Keys, aggs: Aggs) -> Split:
    """P(aggregate(X)) = aggregate(P(X))      N(aggregate(X)) = aggregate(N(X))      WRONG: groups are in both parts, and change"""
    return split(X.aggregate(keys, aggs), P=X.P.aggregate(keys, aggs), N=X.N.aggregate(keys, aggs))


@rule(INTER_TVR)
def split_distinct_like_a_filter(X: Tvr, keys: Keys) -> Split:
    """P(distinct(X)) = distinct(P(X))      N(distinct(X)) = distinct(N(X))      WRONG: a row may be in both"""
    return split(X.aggregate(keys, ()), P=X.P.aggregate(keys, ()), N=X.N.aggregate(keys, ()), where=bool(keys))


@rule(INTER_TVR)
def split_distinct_by_equality(X: Tvr, keys: Keys) -> Split:
    """N(distinct(X)) = the rows of distinct(N(X)) not in distinct(P(X))      WRONG: compared by =, NULL is in no relation"""
    sure, loose = X.P.aggregate(keys, ()), X.N.aggregate(keys, ())
    others = sure.project(tuple(Output(c.primed(), Ref(c)) for c in sure.columns))
    on = conjunction(*(equal(Ref(c), Ref(c.primed())) for c in sure.columns))
    return split(X.aggregate(keys, ()), P=sure, N=loose.anti_join(others, on), where=bool(keys))


@rule(INTER_TVR)
def merge_parts_at_two_times(Q: Query, t: Time, u: Time, links: Links) -> Rewrite:
    """Q[:u] = P(Q)[:u] + N(Q)[:t]      WRONG: what was held back has to be computed again"""
    return rewrite(Q[:u], Q.P[:u] + Q.N[:t], where=links.has(Q.N))


@rule(INTER_TVR)
def delta_is_of_the_growing_part(Q: Query, t: Time, u: Time, links: Links) -> Rewrite:
    """Q[t:u] = P(Q)[t:u]      WRONG: N changes, too"""
    return rewrite(Q[t:u], Q.P[t:u], where=links.has(Q.N))


@rule(INTER_TVR)
def state_is_of_the_growing_part(X: Tvr, keys: Keys, aggs: Aggs, t: Time, links: Links) -> Rewrite:
    """state(X)[:t] = state(P(X))[:t]      WRONG: forgets N"""
    where = states_exist(aggs) and links.has(X.N)
    return rewrite(X.aggregate(keys, aggs).state[:t], X.P.aggregate(keys, aggs).state[:t], where=where)


@rule(INTER_TVR)
def hold_back_what_changed(Q: Query, t: Time, u: Time, links: Links) -> Rewrite:
    """Q[t:u] = Q[:u]      WRONG: what was held back has been emitted by now, and is taken back"""
    return rewrite(Q[t:u], Q[:u], where=not links.has(Q.P))


IM2_MUTANTS: tuple[Rule, ...] = (
    split_of_what_grew_once,
    split_filter_of_the_whole,
    split_project_twice,
    split_expand_exchanged,
    split_generate_that_forgets_outer,
    split_union_of_first,
    split_inner_join_symmetric,
    split_multi_join_symmetric,
    split_inner_join_by_left,
    split_join_with_growing,
    split_left_join_early,
    split_left_join_of_certain_rows,
    split_full_join_as_left,
    split_semi_join_like_inner,
    split_anti_join,
    split_exists_join_early,
    split_exists_join_without_false,
    split_aggregate,
    split_distinct_like_a_filter,
    split_distinct_by_equality,
    merge_parts_at_two_times,
    delta_is_of_the_growing_part,
    state_is_of_the_growing_part,
    hold_back_what_changed,
)
