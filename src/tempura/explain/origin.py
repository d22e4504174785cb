"""Where a plan comes from: per part the method and the rule that made it, and the classes of equal expressions that it was chosen from."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tempura.explain.steps import steps
from tempura.physical.operators import Load
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.registry import Registry
from tempura.search.problem import Problem
from tempura.search.space import Space

SECTIONS = ("memo", "steps", "rules")
"""What can be shown below a plan."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A part of the step of a time point: the ``view`` that it computes, by a ``rule`` of the ``methods`` of the plan that have it; its
    ``law``. What is loaded is made by no rule."""

    time: int
    view: str
    rule: str
    methods: tuple[str, ...]
    law: str


def origins(plan: ProgressivePlan, registry: Registry) -> Iterator[Origin]:
    """The parts of a plan, of each step from what is saved and emitted down."""
    laws = {rule.name: rule.law for rule in registry.rules}
    for step in plan.steps:
        for view, rule, method in dict.fromkeys(_parts(step)):
            yield Origin(step.time, view, rule, tuple(filter(None, method.split("+"))), laws.get(rule, ""))


def _parts(step: Step) -> Iterator[tuple[str, str, str]]:
    for rel in dict.fromkeys(step.operators):
        note = step.notes.get(rel)
        if note and note.view and (note.rule or isinstance(rel, Load)):
            yield note.view, note.rule, note.method


@dataclass(frozen=True, slots=True)
class Member:
    """An operator of a class, over the classes in brackets; the law between TVRs at all times that made it, none if the query has it."""

    operator: str
    law: str


def classes(problem: Problem) -> dict[str, list[Member]]:
    """The classes of equal expressions of a query after all laws at all times, by their numbers."""
    known = Space(problem).memo.known()
    return {f"c{id}": [Member(str(member), member.rule) for member in members] for id, members in known}


def section(
    name: str, plan: ProgressivePlan, problem: Problem, methods: Sequence[str], labels: Sequence[str]
) -> list[str]:
    """One of ``SECTIONS`` as text, its heading first. ``labels`` name the time points."""
    match name:
        case "rules":
            lines = [_line(origin, labels) for origin in origins(plan, problem.registry)]
            return [f"rules (registry {plan.registry}):", *(f"  {line}" for line in lines)]
        case "memo":
            return ["memo, the classes of equal expressions:", *_memo_lines(problem)]
        case _:
            return ["steps, what each rule does to the best plan:", *_indented(steps(problem, methods))]


def section_json(name: str, plan: ProgressivePlan, problem: Problem, methods: Sequence[str]) -> Any:
    """The same as plain data."""
    match name:
        case "rules":
            return [asdict(origin) for origin in origins(plan, problem.registry)]
        case "memo":
            return {id: [asdict(member) for member in members] for id, members in classes(problem).items()}
        case _:
            return steps(problem, methods).splitlines()


def _line(origin: Origin, labels: Sequence[str]) -> str:
    label = labels[origin.time] if origin.time < len(labels) else f"t{origin.time}"
    made = f"{'+'.join(origin.methods)} {origin.rule}: {origin.law}" if origin.rule else "loaded"
    return f"{label}  {origin.view}  <- {made}"


def _memo_lines(problem: Problem) -> Iterator[str]:
    for id, members in classes(problem).items():
        for i, member in enumerate(members):
            law = f"  <- {member.law}" if member.law else ""
            yield f"  {id if not i else ' ' * len(id)}  {member.operator}{law}"


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())
