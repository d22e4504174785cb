"""Golden texts: each case of a ``.test`` file says why, asks one thing of the planner, and holds the answer.

    # Why this case is there.
    opt methods=(im1) times=(0.3,1) insert-only=(sales) expect=(delta_inner_join) expect-not=(delta_left_join)
    sales.join(returns, sales.s_id == returns.r_id)
    ----
    the answer, up to the next empty line

Commands: ``opt`` the best plan, ``memo`` the classes after the laws at all times, ``steps`` what each rule does to the best plan,
``effort`` counts. ``times`` are the prices of the times; the result is due at the last. ``insert-only`` names tables that only grow.
``expect`` and ``expect-not`` name rules that must, or must not, have something to say; ``disable`` takes rules away; ``show`` as
in ``explain``. ``pytest --rewrite`` writes the answers; a text alone proves nothing: the laws are proved in ``tests/laws``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tempura.algebra.rel import Scan
from tempura.explain.steps import Applied, plan_lines, steps
from tempura.explain.text import seconds
from tempura.plan.progressive import ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tests.golden.builder import facts, parsed

FOLDER = Path(__file__).parent
FLAGS = {"methods", "times", "insert-only", "expect", "expect-not", "disable", "show"}


@dataclass(frozen=True)
class Case:
    """A case as it stands in its file: ``asked`` is its text up to the line of dashes."""

    asked: str
    answer: str

    @property
    def comment(self) -> str:
        """What the case is there for."""
        return " ".join(line[1:].strip() for line in self.asked.splitlines() if line.startswith("#"))

    @property
    def command(self) -> str:
        """The line with the command and its flags."""
        return next(line for line in self.asked.splitlines() if not line.startswith("#"))

    @property
    def query(self) -> str:
        """The lines below that."""
        return self.asked.split(self.command + "\n", 1)[1]

    def flag(self, name: str, default: str = "") -> tuple[str, ...]:
        """The values of a flag."""
        given = dict(re.findall(r"([\w-]+)=\(([^)]*)\)", self.command))
        assert given.keys() <= FLAGS, f"unknown flags: {sorted(given.keys() - FLAGS)}"
        return tuple(filter(None, given.get(name, default).split(",")))

    def problem(self) -> Problem:
        """The planning problem of the query."""
        query, prices = parsed(self.query), self.flag("times", "0.3,1")
        points = tuple(Point(float(p), output=i == len(prices) - 1) for i, p in enumerate(prices))
        grown = self.flag("insert-only")
        scanned = {scan.table for scan in query.walk() if isinstance(scan, Scan)}
        return Problem(query, points, {t: facts(t, len(prices), t in grown) for t in sorted(scanned)})


def cases(file: Path) -> list[Case]:
    """The cases of a file."""
    parts = re.split(r"\n{2,}", file.read_text(encoding="utf-8").strip("\n"))
    return [Case(asked, answer.lstrip("\n")) for asked, _, answer in (part.partition("\n----") for part in parts)]


def all_cases() -> Iterator[object]:
    for file in sorted(FOLDER.glob("*.test")):
        for number, case in enumerate(cases(file)):
            yield pytest.param(file, number, id=f"{file.stem}-{number + 1}-{case.command.split()[0]}")


@pytest.mark.parametrize(("file", "number"), list(all_cases()))
def test_golden(file: Path, number: int, request: pytest.FixtureRequest) -> None:
    case = cases(file)[number]
    assert case.comment, f"say why the case is there: {case.asked}"
    applied = Applied()
    answer = answered(case, applied)
    missing = set(case.flag("expect")) - applied.rules.keys()
    assert not missing, f"{sorted(missing)} had nothing to say"
    assert not applied.rules.keys() & set(case.flag("expect-not"))
    if request.config.getoption("--rewrite"):
        _write(file, number, Case(case.asked, answer))
    assert answer == cases(file)[number].answer


def _write(file: Path, number: int, case: Case) -> None:
    known = cases(file)
    known[number] = case
    file.write_text("\n\n".join(f"{c.asked}\n----\n{c.answer}" for c in known) + "\n", encoding="utf-8")


def answered(case: Case, applied: Applied) -> str:
    """The answer to a case."""
    problem, methods, without = case.problem(), case.flag("methods", "all"), case.flag("disable")
    match case.command.split()[0]:
        case "memo":
            memo = Space(problem, applied, without=without).memo
            return "\n".join(_class(edge.id, [(str(m), m.rule) for m in memo.members(edge)]) for edge in memo.classes)
        case "steps":
            return steps(problem, methods).replace("\n\n", "\n")
        case "opt":
            plan = make_plan(problem, methods, listener=applied, without=without)
            return "\n".join([_cost(plan), *plan_lines(plan, case.flag("show"))])
        case "effort":
            effort = make_plan(problem, methods, listener=applied, without=without).effort
            return "\n".join(f"{name} {getattr(effort, name)}" for name in effort.__slots__)
    raise ValueError(f"no such command: {case.command}")


def _cost(plan: ProgressivePlan) -> str:
    steps = " + ".join(f"{weight:g} * {seconds(s.cost)}" for weight, s in zip(plan.weights, plan.steps, strict=True))
    return f"{plan.method}, cost {seconds(plan.cost)} = {steps}"


def _class(id: int, members: list[tuple[str, str]]) -> str:
    told = [text + (f" by {rule}" if rule else "") for text, rule in members]
    return "\n     = ".join([f"c{id:<3} {told[0]}", *told[1:]])
