"""The check of a law: both sides, evaluated by definition on one case, are the same bag."""

from dataclasses import dataclass
from random import Random
from typing import Literal as OneOf

from tempura.algebra.bag import SignedBag
from tempura.algebra.one import TOO_MANY_ROWS
from tempura.algebra.rel import Rel
from tempura.errors import TempuraError
from tempura.rules.dsl import GIVEN_KINDS, Family, Rewrite, Rule, Split
from tempura.tvr.views import StateDelta, View
from tests.laws.cases import Case, random_case
from tests.laws.definition import Definition

ATTEMPTS = 300
"""How often a case is drawn until a rule's guard holds."""


@dataclass(frozen=True)
class Verdict:
    """``vacuous``: the guard does not hold, or the left side has no meaning (a MIN state of deletions)."""

    kind: OneOf["holds", "vacuous", "refuted"]
    why: str = ""


def check(rule: Rule, case: Case) -> Verdict:
    """Evaluate both sides of a law on a case."""
    definition = Definition(case.tables)
    law = rule.function(**case.bindings, **given(rule, definition))
    if not law.where:
        return Verdict("vacuous", "the guard does not hold")
    if isinstance(law, Split):
        return _check_split(law, definition)
    if rule.family is Family.LOGICAL:
        return _check_at_all_times(law, definition)
    try:
        expected = definition.value(law.lhs)
    except TempuraError as error:
        return Verdict("vacuous", _only_expected(error))
    return _compare(law, expected, definition)


def given(rule: Rule, definition: Definition) -> dict[str, object]:
    """What a planner gives a rule."""
    return {name: definition for name, kind in rule.parameters.items() if kind in GIVEN_KINDS}


def _check_at_all_times(law: Rewrite, definition: Definition) -> Verdict:
    """Columns correspond by position, whatever they are called."""
    types = [[column.type for column in rel.columns] for rel in (law.lhs, law.rhs)]
    if types[0] != types[1]:
        return Verdict("refuted", f"types {types[0]} became {types[1]}")
    if _fails(law.lhs, definition):
        return Verdict("vacuous", "the left side has no value")
    for t in definition.times:
        expected = definition.snapshot(law.lhs, t)
        try:
            actual = definition.snapshot(law.rhs, t)
        except TempuraError as error:
            return Verdict("refuted", _only_expected(error))
        if actual != expected:
            return Verdict("refuted", f"at {t}: {law.lhs} = {expected}, but {law.rhs} = {actual}")
    return Verdict("holds")


def _check_split(law: Split, definition: Definition) -> Verdict:
    """At each time the parts add up to the whole and none has a negative weight; P never loses a row."""
    assert law.parts.keys() == {"P", "N"}, "say here what the parts of another split have to be"
    wrong = [part.columns for part in law.parts.values() if part.columns != law.lhs.columns]
    if wrong:
        return Verdict("refuted", f"columns {law.lhs.columns} became {wrong}")
    try:
        whole, P, N = (
            [definition.snapshot(rel, t) for t in definition.times] for rel in (law.lhs, law.parts["P"], law.parts["N"])
        )
    except TempuraError as error:
        return Verdict("vacuous" if _fails(law.lhs, definition) else "refuted", _only_expected(error))
    for t in definition.times:
        if P[t] + N[t] != whole[t] or not (P[t].is_positive and N[t].is_positive):
            return Verdict("refuted", f"at {t}: {P[t]} + {N[t]} is not {whole[t]}")
        if t and not (P[t] - P[t - 1]).is_positive:
            return Verdict("refuted", f"at {t}: P loses rows: {P[t] - P[t - 1]}")
    return Verdict("holds")


def _fails(tvr: Rel, definition: Definition) -> bool:
    try:
        return not [definition.snapshot(tvr, t) for t in definition.times]
    except TempuraError:
        return True


def _compare(law: Rewrite, expected: SignedBag, definition: Definition) -> Verdict:
    if law.lhs.columns != law.rhs.columns:
        return Verdict("refuted", f"columns {law.lhs.columns} became {law.rhs.columns}")
    try:
        actual = definition.value(law.rhs)
    except TempuraError as error:
        return Verdict("refuted", _only_expected(error))
    if _without_traceless_groups(law, actual) == _without_traceless_groups(law, expected):
        return Verdict("holds")
    return Verdict("refuted", f"{law.lhs} = {expected}, but {law.rhs} = {actual}; difference {actual - expected}")


def _only_expected(error: TempuraError) -> str:
    """Why a side has no value: a set-like input is not positive, or a scalar sub-query has two rows."""
    if error.code not in ("NEGATIVE_WEIGHT", TOO_MANY_ROWS):
        raise error
    return str(error)


def _without_traceless_groups(law: Rewrite, state: SignedBag) -> SignedBag:
    """What a state delta does when merged: a keyed group whose counts and totals are all 0 does nothing, so it may be missing."""
    if not (isinstance(law.lhs, View) and isinstance(law.lhs.at, StateDelta)) or not law.lhs.tvr.keys:  # type: ignore[attr-defined]
        return state
    width = len(law.lhs.tvr.keys)  # type: ignore[attr-defined]
    return SignedBag((row, w) for row, w in state.items() if any(row[width:]))


def draw(rule: Rule, seed: int) -> tuple[Case, Verdict]:
    """The case of a seed: the first one drawn that is not vacuous, with its verdict; else the last one."""
    for attempt in range(ATTEMPTS):
        case = random_case(rule, Random(f"{rule.name}/{seed}/{attempt}"))
        verdict = check(rule, case)
        if verdict.kind != "vacuous":
            break
    return case, verdict
