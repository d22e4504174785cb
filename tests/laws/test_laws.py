"""Every rule is a law: checked on random tables over time, 150 cases per rule or as many as ``TEMPURA_LAW_CASES`` says.

The oracle itself is tested by wrong rules, each of which it must refute within the same number of cases.
"""

import os

import pytest

from tempura.laws import replay
from tempura.laws.check import Verdict, draw, mismatch
from tempura.laws.examine import CASES as DEFAULT_CASES
from tempura.laws.examine import as_test, examine, judged
from tempura.rules.dsl import Rule
from tempura.rules.methods import TEMPURA
from tests.laws.mutants import CONTROL, MUTANTS

CASES = int(os.environ.get("TEMPURA_LAW_CASES", DEFAULT_CASES))


def _name(rule: Rule) -> str:
    return rule.name


@pytest.mark.parametrize("rule", [*TEMPURA.rules, CONTROL], ids=_name)
def test_law_holds(rule: Rule) -> None:
    found = examine(rule, CASES)
    assert found.kind == "holds", f"{rule}\n{found.why}\n{as_test(found) if found.case else ''}"
    assert found.cases == CASES, "there are cases to which it does not apply"


@pytest.mark.parametrize("rule", MUTANTS, ids=_name)
def test_wrong_rule_is_refuted(rule: Rule) -> None:
    verdicts = [draw(rule, seed)[1].kind for seed in range(DEFAULT_CASES)]
    assert "vacuous" not in verdicts
    assert verdicts.count("refuted") >= 3, f"{rule}: {verdicts.count('refuted')} refutations are luck"


@pytest.mark.parametrize("rule", [*TEMPURA.rules, *MUTANTS], ids=_name)
def test_printed_case_can_be_pasted_back(rule: Rule) -> None:
    for seed in range(5):
        case, verdict = draw(rule, seed, judge=judged)
        again = eval(case.pasteable(rule), {name: getattr(replay, name) for name in replay.__all__} | {rule.name: rule})
        assert isinstance(again, Verdict)
        assert again.kind == verdict.kind


@pytest.mark.parametrize("rule", TEMPURA.rules, ids=_name)
def test_rule_matches_its_own_left_side(rule: Rule) -> None:
    for seed in range(20):
        case, _ = draw(rule, seed)
        wrong = mismatch(rule, case)
        assert wrong is None, f"{rule} {wrong}\n{case.pasteable(rule)}"
