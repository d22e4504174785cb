"""Every rule is a law: checked on random tables over time, 150 cases per rule or as many as ``TEMPURA_LAW_CASES`` says.

The oracle itself is tested by wrong rules, each of which it must refute within the same number of cases.
"""

import os

import pytest

from tempura.rules.dsl import Rule
from tempura.rules.methods import TEMPURA
from tempura.tvr.tvr import Tvr
from tests.laws import replay
from tests.laws.check import Verdict, draw, given
from tests.laws.definition import Definition
from tests.laws.mutants import CONTROL, MUTANTS

DEFAULT_CASES = 150
CASES = int(os.environ.get("TEMPURA_LAW_CASES", DEFAULT_CASES))


def _name(rule: Rule) -> str:
    return rule.name


@pytest.mark.parametrize("rule", [*TEMPURA.rules, CONTROL], ids=_name)
def test_law_holds(rule: Rule) -> None:
    for seed in range(CASES):
        case, verdict = draw(rule, seed)
        assert verdict.kind == "holds", f"{rule}\nseed {seed}: {verdict.why}\n{case.pasteable(rule)}"


@pytest.mark.parametrize("rule", MUTANTS, ids=_name)
def test_wrong_rule_is_refuted(rule: Rule) -> None:
    verdicts = [draw(rule, seed)[1].kind for seed in range(DEFAULT_CASES)]
    assert "vacuous" not in verdicts
    assert verdicts.count("refuted") >= 3, f"{rule}: {verdicts.count('refuted')} refutations are luck"


@pytest.mark.parametrize("rule", [*TEMPURA.rules, *MUTANTS], ids=_name)
def test_printed_case_can_be_pasted_back(rule: Rule) -> None:
    for seed in range(5):
        case, verdict = draw(rule, seed)
        again = eval(case.pasteable(rule), {name: getattr(replay, name) for name in replay.__all__})
        assert isinstance(again, Verdict)
        assert again.kind == verdict.kind


@pytest.mark.parametrize("rule", TEMPURA.rules, ids=_name)
def test_rule_matches_its_own_left_side(rule: Rule) -> None:
    for seed in range(20):
        case, _ = draw(rule, seed)
        law = rule.function(**case.bindings, **given(rule, Definition(case.tables)))
        found = rule.match(law.lhs)
        assert found is not None, f"{rule} does not match\n{case.pasteable(rule)}"
        for name, value in found.items():
            assert _plain(value) == _plain(case.bindings[name]), name


def _plain(value: object) -> object:
    if isinstance(value, Tvr):
        return value.rel
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
