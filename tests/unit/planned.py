"""Plans of problems that come back: a scenario that is repeated for each point at which it can be killed asks for the same few."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tempura.algebra.canonical import fingerprint
from tempura.cost.model import CostModel
from tempura.plan.progressive import Course, ProgressivePlan
from tempura.search.planner import make_plan
from tempura.search.problem import Problem


def planning_once(prices: CostModel | None = None) -> Callable[..., ProgressivePlan]:
    """``make_plan``, which remembers its plans; at ``prices`` in the place of the problem's."""
    plans: dict[str, ProgressivePlan] = {}

    def planned(
        problem: Problem,
        methods: Sequence[str],
        margin: float = 0.0,
        doubt: float = 1.0,
        course: Course | None = None,
        usual: Course | None = None,
        uses: int = 1,
    ) -> ProgressivePlan:
        asked = replace(problem, prices=prices) if prices else problem
        key = f"{key_of(asked, methods)} {asked.prices} {margin} {doubt} {course} {usual} {uses}"
        if key not in plans:
            plans[key] = make_plan(asked, methods, margin=margin, doubt=doubt, course=course, usual=usual, uses=uses)
        return replace(plans[key], course=course) if course == plans[key].course else plans[key]

    return planned


def key_of(problem: Problem, methods: Sequence[str]) -> str:
    """What a plan depends on, as text."""
    tables, states = sorted(problem.tables.items()), sorted(map(repr, problem.states))
    stored = sorted(map(repr, problem.stored.items()))
    counted = sorted(problem.counted.items())
    return repr((fingerprint(problem.query), problem.points, tables, states, stored, counted, methods))
