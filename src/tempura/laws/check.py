"""The check of a law: what the right side gives on one case is a right answer of the left side, by definition.

Where SQL leaves nothing open there is one. Else a die decides each time that something is computed; the views that a law mentions were
computed once each (``laws.definition``). So the right side of a delta is added to the rows that were there, and must then be one of
all answers: what it takes away has to be what was there, not what another computation gives.

An expression that fails for some rows makes a side fail. Where the left side has a value, and so have the views that the right side
mentions, the right side must have one, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Literal as OneOf

from tempura.algebra.bag import EMPTY, SignedBag
from tempura.algebra.die import Die, Rolled
from tempura.algebra.evaluate import Evaluation
from tempura.algebra.one import TOO_MANY_ROWS
from tempura.algebra.rel import Aggregate, Rel
from tempura.algebra.scalar import AggregateOutput
from tempura.algebra.states import Partial, is_rounded
from tempura.algebra.window import Window, WindowOutput
from tempura.errors import TempuraError
from tempura.laws.answers import TooManyAnswersError, answers, without_last_digits
from tempura.laws.cases import Case, random_case
from tempura.laws.definition import Definition, decomposition_of
from tempura.rules.dsl import GIVEN_KINDS, Family, Rewrite, Rule, Split, table_of, times_of
from tempura.rules.helpers import is_order_sensitive
from tempura.rules.methods import TEMPURA
from tempura.rules.registry import Registry
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import Delta, StateDelta, View

_NOTHING: Mapping[str, object] = {}

ATTEMPTS = 1000
"""How often a case is drawn until a rule's guard holds."""


@dataclass(frozen=True)
class Verdict:
    """``vacuous``: the guard does not hold, or the left side has no meaning (a MIN state of deletions)."""

    kind: OneOf["holds", "vacuous", "refuted"]
    why: str = ""


def check(
    rule: Rule, case: Case, registry: Registry = TEMPURA, believed: Mapping[str, object] | None = None
) -> Verdict:
    """Evaluate both sides of a law on a case. The registry knows the kinds of links that the rule mentions. ``believed``, by the kinds of
    what a planner gives a rule, takes the place of what is so by definition."""
    die = Rolled(Random(repr(case.tables)))
    definition = Definition(case.tables, die=die, decompositions=registry.decompositions)
    try:
        law = rule.function(**case.bindings, **given(rule, definition, believed or {}))
    except TempuraError as error:
        return Verdict("vacuous", _only_expected(error))
    if not law.where:
        return Verdict("vacuous", "the guard does not hold")
    if isinstance(law, Split):
        return _check_split(law, definition, table_of(rule, case.bindings))
    if not _moves_alone(rule, law, case, definition):
        return Verdict("vacuous", "other tables move, too")
    try:
        if rule.family is Family.LOGICAL:
            return _check_at_all_times(law, definition, _relations(case))
        return _check_view(law, definition)
    except TooManyAnswersError:
        return Verdict("vacuous", "too much is open")


def _moves_alone(rule: Rule, law: Rewrite, case: Case, definition: Definition) -> bool:
    """Whether between the times of a rule that speaks of a table no other one moves."""
    table, times = table_of(rule, case.bindings), times_of(rule, case.bindings)
    if table is None or len(times) < 2:
        return True
    assert isinstance(law.lhs, View)
    return definition.moving(law.lhs.tvr, min(times), max(times)) <= {table}


def _relations(case: Case) -> tuple[Rel, ...]:
    """What the metavariables of a case stand for."""
    values = (value if isinstance(value, tuple) else (value,) for value in case.bindings.values())
    return tuple(item.rel for items in values for item in items if isinstance(item, Tvr))


def given(rule: Rule, definition: Definition, believed: Mapping[str, object] = _NOTHING) -> dict[str, object]:
    """What a planner gives a rule."""
    kinds = {name: kind for name, kind in rule.parameters.items() if kind in GIVEN_KINDS}
    return {name: believed.get(kind, definition) for name, kind in kinds.items()}


def _check_at_all_times(law: Rewrite, definition: Definition, given: tuple[Rel, ...]) -> Verdict:
    """Columns correspond by position, whatever they are called."""
    types = [[column.type for column in rel.columns] for rel in (law.lhs, law.rhs)]
    if types[0] != types[1]:
        return Verdict("refuted", f"types {types[0]} became {types[1]}")
    if _fails(law.lhs, definition):
        return Verdict("vacuous", "the left side has no value")
    for t in definition.times:
        try:
            actual = definition.snapshot(law.rhs, t)
        except TempuraError as error:
            return Verdict("refuted", _only_expected(error))

        def whole(die: Die, t: int = t) -> SignedBag:
            known = {rel: definition.snapshot(rel, t) for rel in given}
            return Evaluation(lambda leaf: definition.snapshot(leaf, t), die, known).bag(law.lhs)

        if not _is_answer(actual, whole, _rounds(law.lhs)):
            return Verdict(
                "refuted", f"at {t}: {law.lhs} = {definition.snapshot(law.lhs, t)}, but {law.rhs} = {actual}"
            )
    return Verdict("holds")


def _is_answer(actual: SignedBag, compute: Callable[[Die], SignedBag], rounds: bool) -> bool:
    """Whether a bag is one of those that a computation may give; up to the last digits of floats where it adds some."""
    if not rounds:
        return any(actual == answer for answer in answers(compute))
    found = without_last_digits(actual)
    return any(found == without_last_digits(answer) for answer in answers(compute))


def _rounds(rel: Rel) -> bool:
    """Whether the order of additions decides about digits of a value."""
    return any(is_rounded(output.call) for part in rel.walk() for output in _calls(part))


def _calls(rel: Rel) -> tuple[AggregateOutput | WindowOutput, ...]:
    if isinstance(rel, Window):
        return rel.functions
    return rel.aggregates if isinstance(rel, Aggregate | Partial) else ()


def _check_split(law: Split, definition: Definition, table: str | None) -> Verdict:
    """At each time the parts add up to the whole and none has a negative weight; those that grow never lose a row; those that are
    unaffected by a table are what they are whichever of its versions it has."""
    wrong = [part.columns for part in law.parts.values() if part.columns != law.lhs.columns]
    if wrong:
        return Verdict("refuted", f"columns {law.lhs.columns} became {wrong}")
    try:
        whole = [definition.snapshot(law.lhs, t) for t in definition.times]
        parts = {kind: [definition.snapshot(rel, t) for t in definition.times] for kind, rel in law.parts.items()}
    except TempuraError as error:
        return Verdict("vacuous" if _fails(law.lhs, definition) else "refuted", _only_expected(error))
    kinds = decomposition_of(definition.decompositions, next(iter(parts))).parts
    for t in definition.times:
        bags = [bags[t] for bags in parts.values()]
        if sum(bags, EMPTY) != whole[t] or not all(bag.is_positive for bag in bags):
            return Verdict("refuted", f"at {t}: {' + '.join(map(str, bags))} is not {whole[t]}")
        for kind in (kind.name for kind in kinds if kind.grows and t):
            lost = parts[kind][t] - parts[kind][t - 1]
            if not lost.is_positive:
                return Verdict("refuted", f"at {t}: {kind} loses rows: {lost}")
    return _check_unaffected(law, [kind.name for kind in kinds if kind.unaffected], definition, table)


def _check_unaffected(law: Split, kinds: list[str], definition: Definition, table: str | None) -> Verdict:
    """Not where another computation of the whole may give others."""
    if table is None or any(map(is_order_sensitive, law.lhs.walk())):
        return Verdict("holds")
    for kind, t, (v, world) in product(kinds, definition.times, enumerate(definition.versions(table))):
        try:
            differs = world.snapshot(law.parts[kind], t) - definition.snapshot(law.parts[kind], t)
        except TempuraError as error:
            return Verdict("vacuous", f"has no value over other versions of {table}: {_only_expected(error)}")
        if len(differs):
            return Verdict("refuted", f"at {t}: {kind} differs by {differs} when {table} is as at {v}")
    return Verdict("holds")


def _fails(tvr: Rel, definition: Definition) -> bool:
    try:
        return not [definition.snapshot(tvr, t) for t in definition.times]
    except TempuraError:
        return True


def _check_view(law: Rewrite, definition: Definition) -> Verdict:
    view = law.lhs
    assert isinstance(view, View)
    try:
        expected = definition.view(view)
    except TempuraError as error:
        return Verdict("vacuous", _only_expected(error))
    if law.lhs.columns != law.rhs.columns:
        return Verdict("refuted", f"columns {law.lhs.columns} became {law.rhs.columns}")
    try:
        for leaf in law.rhs.walk():
            if isinstance(leaf, View):
                definition.view(leaf)
    except TempuraError as error:
        return Verdict("vacuous", f"what it is made of has no value: {_only_expected(error)}")
    try:
        actual = definition.value(law.rhs)
    except TempuraError as error:
        return Verdict("refuted", _only_expected(error))
    before = definition.snapshot(view.tvr, view.at.t) if isinstance(view.at, Delta) else EMPTY
    operator = definition.definition_of(view)

    def by_definition(die: Die) -> SignedBag:
        return _without_traceless_groups(law, definition.value(operator, die))

    after = _without_traceless_groups(law, before + actual)
    if after.is_positive and _is_answer(after, by_definition, _rounds(operator)):
        return Verdict("holds")
    return Verdict("refuted", f"{law.lhs} = {expected}, but {law.rhs} = {actual}; difference {actual - expected}")


def _only_expected(error: TempuraError) -> str:
    """Why a side has no value: a set-like input is not positive, a scalar sub-query has two rows, or an expression fails for a row."""
    if error.code not in ("NEGATIVE_WEIGHT", TOO_MANY_ROWS, "DIVIDE_BY_ZERO"):
        raise error
    return str(error)


def _without_traceless_groups(law: Rewrite, state: SignedBag) -> SignedBag:
    """What a state delta does when merged: a keyed group whose counts and totals are all 0 does nothing, so it may be missing."""
    if not (isinstance(law.lhs, View) and isinstance(law.lhs.at, StateDelta)) or not law.lhs.tvr.keys:  # type: ignore[attr-defined]
        return state
    width = len(law.lhs.tvr.keys)  # type: ignore[attr-defined]
    return SignedBag((row, w) for row, w in state.items() if any(row[width:]))


def mismatch(rule: Rule, case: Case, registry: Registry = TEMPURA) -> str | None:
    """Why the planner would not find a rule where it applies: its left side, made of the case, does not match its pattern, or binds a
    metavariable to something else."""
    law = rule.function(**case.bindings, **given(rule, Definition(case.tables, decompositions=registry.decompositions)))
    found = rule.match(law.lhs)
    if found is None:
        return "does not match its own left side"
    wrong = [name for name, value in found.items() if _plain(value) != _plain(case.bindings[name])]
    return f"matches its own left side with another {', '.join(wrong)}" if wrong else None


def _plain(value: object) -> object:
    if isinstance(value, Tvr):
        return value.rel
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


Judge = Callable[[Rule, Case, Registry], Verdict]


def draw(rule: Rule, seed: int, registry: Registry = TEMPURA, judge: Judge = check) -> tuple[Case, Verdict]:
    """The case of a seed: the first one drawn that is not vacuous, with its verdict; else the last one. Raises NoCaseError."""
    for attempt in range(ATTEMPTS):
        case = random_case(rule, Random(f"{rule.name}/{seed}/{attempt}"))
        verdict = judge(rule, case, registry)
        if verdict.kind != "vacuous":
            break
    return case, verdict
