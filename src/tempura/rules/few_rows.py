"""Few rows of many: laws by which a join that is not inner looks at those rows only that matter.

Such a join keeps, drops, pads or marks rows of its left side one by one. So it may come after the joins that leave few of these, which
Catalyst, that pushes EXISTS down to the table it is asked of, does not do. And of its right side it needs the rows that match, which are
few where the left side has few; Spark can send no other side of such a join to every task than the right one. A left join of which only
those rows are asked that matched nothing is an anti join, of which more laws speak.
"""

from tempura.algebra.failing import can_fail
from tempura.algebra.rel import JoinKind, keep
from tempura.algebra.scalar import Call, Output, Ref, conjunction, conjuncts, substitute
from tempura.memo.references import equated
from tempura.rules.dsl import (
    LOGICAL,
    TVR_GENERATING,
    AnyMarker,
    Expected,
    Facts,
    NotInner,
    On,
    OnAll,
    Outputs,
    Pred,
    Rewrite,
    Rule,
    Sides,
    Time,
    rewrite,
    rule,
)
from tempura.rules.helpers import BY_ROW, filtered, joined, only_matching, values_of
from tempura.tvr.tvr import Tvr


@rule(LOGICAL, cite=(3, 4), replaces=True)
def keep_unmatched(L: Tvr, R: Tvr, on: On, p: Pred) -> Rewrite:
    """filter(k IS NULL AND p, L ⟕ R) = filter(p, pad(L ▷ R))      when on asks that k, a column of R, is equal to one of L

    NULL is equal to nothing, so a row that matched has k. How often a row matches, and with what, need no longer be known.
    """
    missing = {Call("IsNull", (Ref(key),), "boolean") for _, key in equated(on, L.columns, R.columns)}
    rest = [part for part in conjuncts(p) if part not in missing]
    return rewrite(
        L.left_join(R, on).filter(p),
        filtered(L.anti_join(R, on).pad_right(R), conjunction(*rest)),
        where=len(rest) < len(conjuncts(p)),
    )


def _leaves_few(few: Tvr, L: Tvr, R: Tvr, how: JoinKind, expected: Expected) -> bool:
    """Whether a join with R is better asked of the few rows that others leave of L. A small R of ⋉ leaves few itself."""
    return expected.is_far_smaller(few, L) and (how != "semi" or expected.is_far_smaller(few, R))


@rule(LOGICAL, cite=(4,))
def postpone_join(
    L: Tvr, R: Tvr, others: Sides, how: NotInner, marker: AnyMarker, by: On, on: OnAll, expected: Expected
) -> Rewrite:
    """(L ⋉ R) ⋈ S ⋈ ... = (L ⋈ S ⋈ ...) ⋉ R      the same for ▷ ⟕ ∃, when the inner joins read nothing of R

    Only when far fewer rows are expected to be left than L has. For ⋉ also than R: to ask for those in a small R is a way to leave few
    rows itself. What is asked of rows then that R would have dropped must not fail.
    """
    before, few = joined((L.join(R, by, how, marker), *others), on), joined((L, *others), on)
    fits = how in BY_ROW and on.columns <= frozenset(few.columns) and not can_fail(on) and not can_fail(by)
    return rewrite(
        before,
        Tvr(keep(few.join(R, by, how, marker).rel, before.columns)),
        where=fits and _leaves_few(few, L, R, how, expected),
    )


@rule(LOGICAL, cite=(4,))
def postpone_projected_join(
    L: Tvr,
    R: Tvr,
    outputs: Outputs,
    others: Sides,
    how: NotInner,
    marker: AnyMarker,
    by: On,
    on: OnAll,
    expected: Expected,
) -> Rewrite:
    """project(L ⟕ R) ⋈ S ⋈ ... = project'((L ⋈ S ⋈ ...) ⟕ R)      the same for ⋉ ▷ ∃, as postpone_join

    Where columns are left out that nobody reads after the join, as Catalyst does, or computed.
    """
    before, asked = (
        joined((L.join(R, by, how, marker).project(outputs), *others), on),
        substitute(on, values_of(outputs)),
    )
    few = joined((L, *others), asked)
    kept_too = tuple(Output(column, Ref(column)) for other in others for column in other.columns)
    fits = how in BY_ROW and asked.columns <= frozenset(few.columns) and not can_fail(asked) and not can_fail(by)
    return rewrite(
        before,
        few.join(R, by, how, marker).project((*outputs, *kept_too)),
        where=fits and _leaves_few(few, L, R, how, expected),
    )


@rule(TVR_GENERATING, cite=(7,), by_definition=True)
def first_snapshot_reduced(
    L: Tvr, R: Tvr, how: NotInner, marker: AnyMarker, on: On, t: Time, facts: Facts, expected: Expected
) -> Rewrite:
    """(L ⋉ R)[:t] = L[:t] ⋉ (R[:t] ⋉ L[:t])      at the first time; the same for ▷ ⟕ ∃"""
    X = L[:t]
    return rewrite(
        L.join(R, on, how, marker)[:t],
        X.join(only_matching(R[:t], X, on), on, how, marker),
        where=how in BY_ROW and facts.is_first(t) and expected.reduces(R, L, on),
    )


@rule(TVR_GENERATING, cite=(7,), any_time=True, by_definition=True)
def recompute_snapshot_reduced(
    L: Tvr, R: Tvr, how: NotInner, marker: AnyMarker, on: On, t: Time, expected: Expected
) -> Rewrite:
    """(L ⋉ R)[:t] = L[:t] ⋉ (R[:t] ⋉ L[:t])      at any time; the same for ▷ ⟕ ∃

    Plain batch processing, with a semi join before. Belongs to the method ``batch`` only.
    """
    X = L[:t]
    return rewrite(
        L.join(R, on, how, marker)[:t],
        X.join(only_matching(R[:t], X, on), on, how, marker),
        where=how in BY_ROW and expected.reduces(R, L, on),
    )


FEW_ROWS: tuple[Rule, ...] = (keep_unmatched, postpone_join, postpone_projected_join)
