"""What each rule does to the best plan: rules are given to the planner one after the other, and plans compared as text.

The first thing to look at when a plan is not what was expected, and when a rule is new.
"""

from collections.abc import Iterator, Sequence
from difflib import unified_diff

from tempura.errors import TempuraError
from tempura.explain.text import seconds, step_tree
from tempura.memo.events import ClassRewritten, ClassSplit, Event
from tempura.plan.progressive import ProgressivePlan
from tempura.search.events import RuleApplied
from tempura.search.planner import make_plan
from tempura.search.problem import Problem


class Applied:
    """Listens to a search: the rules that had something to say, in the order in which they spoke first."""

    def __init__(self) -> None:
        self.rules: dict[str, None] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, RuleApplied | ClassRewritten | ClassSplit):
            self.rules.setdefault(event.rule)


def steps(problem: Problem, methods: Sequence[str] = ("all",)) -> str:
    """A unified diff of the best plan after each rule that has something to say, its weighted cost in the heading.

    A heading alone is a rule that changed nothing: ``(no changes)``; ``(no plan)``: the rules so far cannot compute the query.
    ``(higher cost)``: the plan before was cheaper. So it is when a method first can maintain what it only could recompute, which
    is left to the method ``batch`` then; elsewhere it is a defect of the search.
    """
    applied = Applied()
    make_plan(problem, methods, applied)
    known = problem.registry
    rules = (*known.rules_of(methods), *known.laws_at_all_times)
    names = [rule.name for rule in rules if rule.name in applied.rules]
    plans = (_plan(problem, methods, names[i:]) for i in range(1, len(names) + 1))
    return "\n".join(_compared(names, plans))


def _plan(problem: Problem, methods: Sequence[str], without: Sequence[str]) -> ProgressivePlan | None:
    try:
        return make_plan(problem, methods, without=without)
    except TempuraError as error:
        if error.code != "NO_PLAN":
            raise
        return None


def _compared(names: Sequence[str], plans: Iterator[ProgressivePlan | None]) -> Iterator[str]:
    before: ProgressivePlan | None = None
    for name, plan in zip(names, plans, strict=True):
        changes = _diff(before, plan)
        yield f"{name}: {_heading(before, plan, bool(changes))}"
        yield from changes
        before = plan or before


def _heading(before: ProgressivePlan | None, plan: ProgressivePlan | None, changed: bool) -> str:
    if plan is None:
        return "(no plan)"
    dearer = " (higher cost)" if before and plan.cost > before.cost else ""
    return f"cost {seconds(plan.cost)}{dearer}" if changed or dearer else "(no changes)"


def _diff(before: ProgressivePlan | None, plan: ProgressivePlan | None) -> list[str]:
    if plan is None:
        return []
    old, new = (list(plan_lines(p)) if p else [] for p in (before, plan))
    return [line for line in unified_diff(old, new, lineterm="", n=1) if not line.startswith(("---", "+++", "@@"))]


def plan_lines(plan: ProgressivePlan, show: Sequence[str] = ()) -> Iterator[str]:
    """The steps of a plan as trees, those in which there is nothing to do left out."""
    for step in plan.steps:
        if not step.is_empty:
            yield f"t{step.time}"
            yield from step_tree(step, show)
