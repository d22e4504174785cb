"""The check of a law: both sides, evaluated by definition on one case, are the same bag."""

from dataclasses import dataclass
from random import Random
from typing import Literal as OneOf

from tempura.algebra.bag import SignedBag
from tempura.algebra.one import TOO_MANY_ROWS
from tempura.errors import TempuraError
from tempura.rules.dsl import Rewrite, Rule
from tempura.tvr.views import StateDelta, View
from tests.laws.cases import Case, random_case
from tests.laws.definition import Definition

ATTEMPTS = 100
"""How often a case is drawn until a rule's guard holds."""


@dataclass(frozen=True)
class Verdict:
    """``vacuous``: the guard does not hold, or the left side has no meaning (a MIN state of deletions)."""

    kind: OneOf["holds", "vacuous", "refuted"]
    why: str = ""


def check(rule: Rule, case: Case) -> Verdict:
    """Evaluate both sides of a law on a case."""
    definition = Definition(case.tables)
    facts = {name: definition for name, kind in rule.parameters.items() if kind == "Facts"}
    law = rule.apply(**case.bindings, **facts)
    if not law.where:
        return Verdict("vacuous", "the guard does not hold")
    try:
        expected = definition.value(law.lhs)
    except TempuraError as error:
        return Verdict("vacuous", _only_expected(error))
    return _compare(law, expected, definition)


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
