"""Wrong rules about references that the laws must refute: what is forgotten of them easily."""

from tempura.algebra.scalar import Call, Expr, conjunction, conjuncts
from tempura.memo.references import equated
from tempura.rules.dsl import (
    LOGICAL,
    TVR_GENERATING,
    Always,
    Facts,
    On,
    Outputs,
    Promised,
    Rewrite,
    Rule,
    Time,
    rewrite,
    rule,
)
from tempura.rules.helpers import read_by
from tempura.tvr.tvr import Tvr


@rule(LOGICAL)
def join_eliminated_with_nulls(L: Tvr, R: Tvr, on: On, outputs: Outputs, promised: Promised) -> Rewrite:
    """project(L ⋈ R) = project(L)      WRONG: a row whose reference is NULL has no partner"""
    nothing_of_R = read_by(outputs) <= set(L.columns)
    return rewrite(
        L.join(R, on).project(outputs), L.project(outputs), where=nothing_of_R and promised.has_partner(L, R, on)
    )


@rule(LOGICAL)
def left_join_of_nulls_as_inner_join(L: Tvr, R: Tvr, on: On, promised: Promised) -> Rewrite:
    """L ⟕ R = L ⋈ R      WRONG: a row whose reference is NULL is padded"""
    return rewrite(L.left_join(R, on), L.join(R, on), where=promised.has_partner(L, R, on))


def _own(L: Tvr, R: Tvr, on: Expr) -> list[Expr]:
    return [next(e for e in part.args if e.columns <= set(L.columns)) for part in conjuncts(on) if part.args]


@rule(LOGICAL)
def semi_join_with_any_part_of_a_reference(L: Tvr, R: Tvr, on: On, promised: Promised) -> Rewrite:
    """L ⋉ R = filter(one of k IS NOT NULL, L)      WRONG: if any of them is NULL there is no partner"""
    tests: list[Expr] = [Call("IsNotNull", (part,), "boolean") for part in _own(L, R, on)]
    return rewrite(L.semi_join(R, on), L.filter(conjunction(*tests[:1])), where=promised.has_partner(L, R, on))


@rule(LOGICAL)
def left_join_eliminated_by_another_column(L: Tvr, R: Tvr, on: On, outputs: Outputs, always: Always) -> Rewrite:
    """project(L ⟕ R) = project(L)      WRONG: the condition does not ask for the key of R"""
    keyed = bool(equated(on, L.columns, R.columns)) and always.is_unique(R, R.columns[:1])
    nothing_of_R = read_by(outputs) <= set(L.columns)
    return rewrite(L.left_join(R, on).project(outputs), L.project(outputs), where=keyed and nothing_of_R)


@rule(TVR_GENERATING)
def all_lines_refer_to_old_partners(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:t]      WRONG: a new row may refer to a new partner"""
    return rewrite(L.join(R, on)[t:u], L[t:u].join(R[:t], on), where=facts.matches_no_change(L, R, on, t, t, u))


@rule(TVR_GENERATING)
def new_rows_have_new_partners(L: Tvr, R: Tvr, on: On, t: Time, u: Time, facts: Facts) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ ΔR      WRONG: a new row may refer to an old partner"""
    return rewrite(L.join(R, on)[t:u], L[t:u].join(R[t:u], on), where=facts.matches_no_change(L, R, on, t, t, u))


@rule(TVR_GENERATING)
def partners_of_rows_only_come(L: Tvr, R: Tvr, on: On, t: Time, u: Time) -> Rewrite:
    """Δ(L ⋈ R) = ΔL ⋈ R[:u]      WRONG: a partner may be put in the place of another"""
    return rewrite(L.join(R, on)[t:u], L[t:u].join(R[:u], on))


REFERENCE_MUTANTS: tuple[Rule, ...] = (
    join_eliminated_with_nulls,
    left_join_of_nulls_as_inner_join,
    semi_join_with_any_part_of_a_reference,
    left_join_eliminated_by_another_column,
    all_lines_refer_to_old_partners,
    new_rows_have_new_partners,
    partners_of_rows_only_come,
)
