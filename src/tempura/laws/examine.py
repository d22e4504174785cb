"""Whether a rule holds, as far as random cases can tell; a counter-example as a test that can be pasted into a file."""

from dataclasses import dataclass
from textwrap import indent
from typing import Literal as OneOf

from tempura.laws.cases import Case
from tempura.laws.check import ATTEMPTS, Verdict, check, draw, mismatch
from tempura.laws.relations import NoCaseError
from tempura.laws.shrink import shrunk
from tempura.rules.dsl import Rule
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry

CASES = 150
"""Cases per rule, unless more are asked for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found out about a rule on so many ``cases`` to which it applied. ``refuted``: by ``case``, which was made small, for the
    reason ``why``. ``vacuous``: it applied to none of all that were drawn, so nothing is known of it."""

    rule: Rule
    kind: OneOf["holds", "refuted", "vacuous"]
    cases: int
    why: str = ""
    case: Case | None = None


def examine(rule: Rule, cases: int = CASES, registry: Registry = TEMPURA) -> Outcome:
    """Check a law on random cases: until one refutes it, or it held on all to which it applied. What the rule raises refutes it, too."""
    applied, why = 0, ""
    for seed in range(cases):
        try:
            case, verdict = draw(rule, seed, registry, judged)
        except NoCaseError as error:
            return Outcome(rule, "vacuous", 0, str(error))
        if verdict.kind == "refuted":
            small = smallest(rule, case, registry)
            return Outcome(rule, "refuted", applied + 1, judged(rule, small, registry).why, small)
        applied += verdict.kind == "holds"
        why = verdict.why
        if not applied:
            return Outcome(rule, "vacuous", 0, f"of {ATTEMPTS:,} cases it applied to none; of the last one: {why}")
    return Outcome(rule, "holds", applied)


def judged(rule: Rule, case: Case, registry: Registry) -> Verdict:
    """The verdict on a case. A rule that raises, or that the planner would not find where it applies, is refuted."""
    try:
        verdict = check(rule, case, registry)
        wrong = mismatch(rule, case, registry) if verdict.kind == "holds" else None
    except Exception as error:  # whatever a user's function raises
        return Verdict("refuted", f"raises {type(error).__name__}: {error}")
    return Verdict("refuted", wrong) if wrong else verdict


def smallest(rule: Rule, case: Case, registry: Registry) -> Case:
    """A small case that refutes a rule for the same kind of reason: what is ill-formed makes many a rule raise."""
    raises = judged(rule, case, registry).why.startswith("raises ")

    def is_refuted(tried: Case) -> bool:
        verdict = judged(rule, tried, registry)
        return verdict.kind == "refuted" and verdict.why.startswith("raises ") == raises

    return shrunk(case, is_refuted)


def as_test(outcome: Outcome, module: str | None = None) -> str:
    """The counter-example of a refuted rule as a test, which fails as long as the rule is as it is. ``module`` has the function ``extend``
    that adds the kinds of links which the rule mentions; none for Tempura's own."""
    assert outcome.case, "only what is refuted has a counter-example"
    rule = outcome.rule
    imports = {rule.function.__module__: [rule.name]}
    if module:
        imports.setdefault(module, []).insert(0, "extend")
    lines = ["from tempura.laws.replay import *", *(f"from {n} import {', '.join(i)}" for n, i in imports.items())]
    replayed = indent(f"verdict = {outcome.case.pasteable(rule, bool(module))}", "    ")
    lines += ["", "", f"def test_{rule.name}() -> None:", replayed]
    return "\n".join([*lines, '    assert verdict.kind != "refuted", verdict.why', ""])
