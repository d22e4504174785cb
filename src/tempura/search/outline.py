"""Many time points: what the best plans for a few of them do is all that is tried for the others.

What keeps a class up to date from one time to the next does so from that to the one after it (symmetry over time; Tempura, section 5). So
what pays at all times shows at three: the first, at which most is there already, the last, and the one before it. Plans for these
are searched among all rules, and plans for all times among those that the best ones use for each class and kind of view; methods whose
plans are far dearer at the three are not tried at all times. When to begin, what to save and load, and from which earlier time to go on is
as free as ever. Where times are not alike, as when rows leave a table at some of them only, all rules are tried at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.dsl import Rule
from tempura.search.problem import Problem
from tempura.tvr.views import ViewKind

FAR = 1.5
"""Methods whose best plan for a few time points costs more than so many times the cheapest are not tried for all of them."""

_MANY = 5
"""From so many time points on at which work can run, three of them are planned for first."""

_NOTHING = Step(0, (), None, 0)

Use = tuple[str, type[ViewKind]]
"""What a rule is used for: the fingerprint of a class, or of the operator of a state, and the kind of a view."""


@dataclass(frozen=True, slots=True)
class Outline:
    """How plans for a few time points go about a query: the ``rules`` that they use, and for what, the time points ``since`` which there
    are values that are computed once, and the ``sets`` of methods by which they were found."""

    rules: Mapping[Use, frozenset[Rule]]
    since: frozenset[int]
    sets: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(used: Iterable[tuple[Use, Rule]], since: Iterable[int], sets: Iterable[tuple[str, ...]]) -> "Outline":
        """What is seen of plans."""
        rules = defaultdict[Use, set[Rule]](set)
        for use, rule in used:
            rules[use].add(rule)
        return Outline({use: frozenset(those) for use, those in rules.items()}, frozenset(since), tuple(sets))


def few_points(problem: Problem) -> tuple[int, ...] | None:
    """The time points that are planned for first, that of the past among them; None where there are not many, or they are not alike."""
    working = range(problem.first, len(problem.points))
    if len(working) < _MANY or not _are_alike(problem, working):
        return None
    return (*range(problem.first), working[0], *working[-2:])


def asked_of_few(problem: Problem, few: Sequence[int]) -> Problem:
    """What is planned for first. Where each time has a result, the last but one stands for all that are left out: they cost as much."""
    asked, left_out = problem.at(few), _left_out(problem, few)
    points = list(asked.points)
    points[-2] = replace(points[-2], weight=points[-2].weight + sum(problem.points[t].weight for t in left_out))
    return replace(asked, points=tuple(points))


def _left_out(problem: Problem, few: Sequence[int]) -> list[int]:
    """The times of results between the few."""
    return [t for t in range(few[0], few[-1]) if t not in few and problem.points[t].output]


def as_one_of_all(plan: ProgressivePlan, problem: Problem, few: Sequence[int]) -> ProgressivePlan:
    """A plan for the few as one for all time points, for what is told of it; its operators name times as the few are counted. At those
    between them it does nothing, or what it does at the last but one where each has a result."""
    steps = {few[step.time]: step for step in plan.steps}
    steps |= dict.fromkeys(_left_out(problem, few), steps[few[-2]])
    all_steps = (replace(steps.get(t, _NOTHING), time=t) for t in range(problem.first, len(problem.points)))
    return replace(plan, steps=tuple(all_steps), weights=tuple(p.weight for p in problem.points[problem.first :]))


def _are_alike(problem: Problem, points: Sequence[int]) -> bool:
    """Whether rows come to, or leave, the same tables between any two points, and results are due at all of them or at the last only."""
    tables = problem.tables.values()
    between = {tuple((t.is_unchanged(s, u), t.is_insert_only(s, u)) for t in tables) for s, u in pairwise(points)}
    return len(between) == 1 and len({problem.points[t].output for t in points[:-1]}) == 1
