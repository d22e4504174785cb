"""What keys and references of tables make of joins.

A row that refers to another came after it or with it. So of rows that were there none matches what its partner's table has got since, and
of rows that are left none matches what that table has lost: one side of a delta is enough (``Facts.matches_no_change``). And a join
with partners of which nothing is read changes nothing (``Promised.has_partner``).

The first kind of law looks at rows of two times, so it is for conditions that do not fail (``rules.delta_join``). The second holds whenever
all tables are seen at the same time.
"""

from collections.abc import Sequence

from tempura.algebra.failing import can_fail
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, conjunction, conjuncts, disjunction, substitute
from tempura.memo.references import Pairs, equated
from tempura.rules.dsl import (
    LOGICAL,
    TVR_GENERATING,
    Always,
    AnyMarker,
    Facts,
    How,
    NotInner,
    On,
    OnAll,
    Outputs,
    Promised,
    Rewrite,
    Rule,
    Sides,
    Time,
    rewrite,
    rule,
)
from tempura.rules.helpers import filtered, is_safe, joined, joined_bags, read_by, sum_of
from tempura.tvr.tvr import Tvr

# --- deltas -----------------------------------------------------------------------------------------------------------


@rule(TVR_GENERATING, by_reference=True)
def delta_join_by_reference(
    L: Tvr, R: Tvr, on: On, how: How, marker: AnyMarker, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ(L ⟕ R) = ΔL ⟕ R[:u]      when no row of L[:t] matches a changed row of R; the same for ⋈ ⋉ ▷ ∃ ⟕₁

    L refers to R, and R only got rows: who came before them has another partner, or none.
    """
    return rewrite(
        L.join(R, on, how, marker)[t:u],
        L[t:u].join(R[:u], on, how, marker),
        where=how != "full" and is_safe(L.columns, R.columns, on) and facts.matches_no_change(L, R, on, t, t, u),
    )


@rule(TVR_GENERATING, by_reference=True)
def delta_join_by_reference_old(
    L: Tvr, R: Tvr, on: On, how: How, marker: AnyMarker, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ(L ⟕ R) = ΔL ⟕ R[:t]      when no row of L[:u] matches a changed row of R; the same for ⋈ ⋉ ▷ ∃ ⟕₁

    L refers to R, and R only lost rows: nobody has them as partners any more.
    """
    return rewrite(
        L.join(R, on, how, marker)[t:u],
        L[t:u].join(R[:t], on, how, marker),
        where=how != "full" and is_safe(L.columns, R.columns, on) and facts.matches_no_change(L, R, on, u, t, u),
    )


@rule(TVR_GENERATING, by_reference=True)
def delta_join_with_referring(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ⋈ R) = L[:u] ⋈ ΔR      when no row of R[:t] matches a changed row of L"""
    return rewrite(
        L.join(R, on)[t:u],
        L[:u].join(R[t:u], on),
        where=is_safe(L.columns, R.columns, on) and facts.matches_no_change(R, L, on, t, t, u),
    )


@rule(TVR_GENERATING, by_reference=True)
def delta_join_with_referring_old(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ⋈ R) = L[:t] ⋈ ΔR      when no row of R[:u] matches a changed row of L"""
    return rewrite(
        L.join(R, on)[t:u],
        L[:t].join(R[t:u], on),
        where=is_safe(L.columns, R.columns, on) and facts.matches_no_change(R, L, on, u, t, u),
    )


@rule(TVR_GENERATING, by_reference=True)
def delta_outer_join_with_referring(
    L: Tvr, R: Tvr, on: On, how: NotInner, marker: AnyMarker, t: Time, u: Time, facts: Facts
) -> Rewrite:
    """Δ(L ⟕ R) = ΔL ⟕ ΔR + A ⟕ R[:u] - A ⟕ R[:t]      A = L[:t] ⋉ support(ΔR); the same for ⋉ ▷ ∃

    When R refers to L and only got rows, and no row of R[:t] matches a changed row of L: new rows of L are matched by new rows of R
    only.
    """
    A = L[:t].join(R[t:u].support(), on, "semi")
    changed = L[t:u].join(R[t:u], on, how, marker)
    fits = how not in ("full", "single") and is_safe(L.columns, R.columns, on)
    return rewrite(
        L.join(R, on, how, marker)[t:u],
        changed + A.join(R[:u], on, how, marker) - A.join(R[:t], on, how, marker),
        where=fits and facts.insert_only(R, t, u) and facts.matches_no_change(R, L, on, t, t, u),
    )


def _is_empty(terms: Sequence[Tvr], i: int, ranks: Sequence[int], on: Expr, t: Time, u: Time, facts: Facts) -> bool:
    """Whether some other factor of the term for the change of the i-th has no row that matches it."""
    others = ((X, u if ranks[j] < ranks[i] else t) for j, X in enumerate(terms) if j != i)
    return any(_match_nothing(X, terms[i], on, s, t, u, facts) for X, s in others)


def _match_nothing(L: Tvr, R: Tvr, on: Expr, s: Time, t: Time, u: Time, facts: Facts) -> bool:
    """Whether no row of L[:s] matches a change of R by what the condition asks of these two factors alone."""
    both = frozenset((*L.columns, *R.columns))
    between = conjunction(*(part for part in conjuncts(on) if part.reads_only(both)))
    return facts.matches_no_change(L, R, between, s, t, u)


def _ranks(terms: Sequence[Tvr], on: Expr, t: Time, u: Time, facts: Facts) -> list[int]:
    """An order of the changes in which as many terms as possible are empty: the place of each factor. Those before the one that changes
    are new, the others old."""
    numbers = range(len(terms))
    before: dict[int, set[int]] = {i: set() for i in numbers}
    for i in numbers:
        for j in (j for j in numbers if j != i):
            if _match_nothing(terms[j], terms[i], on, t, t, u, facts):
                before[j].add(i)
            elif _match_nothing(terms[j], terms[i], on, u, t, u, facts):
                before[i].add(j)
    ranks: dict[int, int] = {}
    while len(ranks) < len(terms):
        left = [i for i in numbers if i not in ranks]
        free = [i for i in left if before[i] <= ranks.keys()]
        ranks[(free or left)[0]] = len(ranks)
    return [ranks[i] for i in numbers]


@rule(TVR_GENERATING, by_reference=True)
def delta_multi_join_by_reference(terms: Sides, on: OnAll, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(R ⋈ S ⋈ ...) = ΔR ⋈ S[:t] ⋈ ... + R[:u] ⋈ ΔS ⋈ ... + ...      without the terms in which a row has no partner

    The product rule for many factors, who is referred to before who refers: of a chain of references that only grows, one term is
    left, that of the rows at its end.
    """
    ranks = _ranks(terms, on, t, u, facts)
    left = [i for i in range(len(terms)) if not _is_empty(terms, i, ranks, on, t, u, facts)] or [0]
    sums = (
        joined_bags(
            tuple(
                X[t:u] if i == j else X[:u] if before < rank else X[:t]
                for j, (X, before) in enumerate(zip(terms, ranks, strict=True))
            ),
            on,
        )
        for i, rank in ((i, ranks[i]) for i in left)
    )
    return rewrite(
        joined(terms, on)[t:u],
        sum_of(tuple(sums)),
        where=not can_fail(on) and len(left) < len(terms),
    )


# --- joins that change nothing ----------------------------------------------------------------------------------------


def _keys_of(L: Tvr, R: Tvr, on: Expr) -> Pairs:
    """The columns that a condition equates, if it asks nothing else; else none."""
    pairs = equated(on, L.columns, R.columns)
    return pairs if len(pairs) == len(conjuncts(on)) else ()


def _with_partners(L: Tvr, pairs: Pairs, promised: Promised) -> Tvr:
    """The rows of L that refer to something."""
    columns = dict.fromkeys(own for own, _ in pairs if not promised.never_null(L, (own,)))
    return filtered(L, conjunction(*(_test("IsNotNull", column) for column in columns)))


def _test(function: str, column: Column) -> Call:
    return Call(function, (Ref(column),), "boolean")


def _only(L: Tvr, R: Tvr, outputs: tuple[Output, ...], pairs: Pairs) -> tuple[Output, ...]:
    """Outputs of a join as those of its left side, where they read of the right side keys only; else none."""
    own: dict[Column, Expr] = {key: Ref(column) for column, key in reversed(pairs)}
    if not read_by(outputs) <= {*L.columns, *own}:
        return ()
    return tuple(Output(o.column, substitute(o.expr, own)) for o in outputs)


@rule(LOGICAL)
def eliminate_join_by_reference(L: Tvr, R: Tvr, on: On, outputs: Outputs, promised: Promised) -> Rewrite:
    """project(L ⋈ R) = project(filter(k IS NOT NULL, L))      when L refers to R, and only keys are read of R"""
    pairs = _keys_of(L, R, on)
    own = _only(L, R, outputs, pairs)
    return rewrite(
        L.join(R, on).project(outputs),
        _with_partners(L, pairs, promised).project(own),
        where=bool(pairs and own) and promised.has_partner(L, R, on),
    )


@rule(LOGICAL)
def eliminate_join_with_referring(L: Tvr, R: Tvr, on: On, outputs: Outputs, promised: Promised) -> Rewrite:
    """project(L ⋈ R) = project(filter(k IS NOT NULL, R))      when R refers to L, and only keys are read of L"""
    pairs = _keys_of(R, L, on)
    own = _only(R, L, outputs, pairs)
    return rewrite(
        L.join(R, on).project(outputs),
        _with_partners(R, pairs, promised).project(own),
        where=bool(pairs and own) and promised.has_partner(R, L, on),
    )


@rule(LOGICAL)
def eliminate_left_join(L: Tvr, R: Tvr, on: On, outputs: Outputs, always: Always) -> Rewrite:
    """project(L ⟕ R) = project(L)      when nothing is read of R, and the condition asks for a key of R"""
    keys = tuple(dict.fromkeys(key for _, key in equated(on, L.columns, R.columns)))
    return rewrite(
        L.left_join(R, on).project(outputs),
        L.project(outputs),
        where=bool(keys) and read_by(outputs) <= set(L.columns) and always.is_unique(R, keys),
    )


@rule(LOGICAL)
def eliminate_semi_join(L: Tvr, R: Tvr, on: On, promised: Promised) -> Rewrite:
    """L ⋉ R = filter(k IS NOT NULL, L)      when L refers to R by k"""
    pairs = _keys_of(L, R, on)
    return rewrite(
        L.semi_join(R, on),
        _with_partners(L, pairs, promised),
        where=bool(pairs) and promised.has_partner(L, R, on),
    )


def _any(tests: Sequence[Expr]) -> Expr:
    return disjunction(*tests) if tests else conjunction()


@rule(LOGICAL)
def eliminate_anti_join(L: Tvr, R: Tvr, on: On, promised: Promised) -> Rewrite:
    """L ▷ R = filter(k IS NULL, L)      when L refers to R by k"""
    pairs = _keys_of(L, R, on)
    missing = [_test("IsNull", column) for column in dict.fromkeys(own for own, _ in pairs)]
    return rewrite(
        L.anti_join(R, on),
        filtered(L, _any(missing)),
        where=bool(pairs) and promised.has_partner(L, R, on),
    )


@rule(LOGICAL)
def eliminate_padding(L: Tvr, R: Tvr, on: On, promised: Promised) -> Rewrite:
    """L ⟕ R = L ⋈ R      when L refers to R by columns that are never NULL"""
    pairs = _keys_of(L, R, on)
    own = tuple(column for column, _ in pairs)
    return rewrite(
        L.left_join(R, on),
        L.join(R, on),
        where=bool(pairs) and promised.never_null(L, own) and promised.has_partner(L, R, on),
    )


DELTAS: tuple[Rule, ...] = (
    delta_join_by_reference,
    delta_join_by_reference_old,
    delta_join_with_referring,
    delta_join_with_referring_old,
    delta_multi_join_by_reference,
)
"""Deltas with one side."""

ELIMINATE: tuple[Rule, ...] = (
    eliminate_join_by_reference,
    eliminate_join_with_referring,
    eliminate_left_join,
    eliminate_semi_join,
    eliminate_anti_join,
    eliminate_padding,
)
"""Joins that change nothing."""
