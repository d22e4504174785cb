"""Many time points: what the best plans for a few of them do is all that is tried for the others.

What keeps a class up to date from one time to the next does so from that to the one after it (symmetry over time; Tempura, section 5). So
what pays at all times shows at three: the first, at which most is there already, the last, and the one before it. Plans for these
are searched among all rules, and plans for all times among those that the best ones use for each class and kind of view. When to
begin, what to save and load, and from which earlier time to go on is as free as ever. Where times are not alike, as when rows leave a table
at some of them only, all rules are tried at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tempura.rules.dsl import Rule
from tempura.search.problem import Problem
from tempura.tvr.views import ViewKind

_MANY = 5
"""From so many time points on at which work can run, three of them are planned for first."""

Use = tuple[str, type[ViewKind]]
"""What a rule is used for: the fingerprint of a class, or of the operator of a state, and the kind of a view."""


@dataclass(frozen=True, slots=True)
class Outline:
    """How plans for a few time points go about a query: the ``rules`` that they use, and for what, and the time points ``since`` which
    there are values that are computed once."""

    rules: Mapping[Use, frozenset[Rule]]
    since: frozenset[int]

    @staticmethod
    def of(used: Iterable[tuple[Use, Rule]], since: Iterable[int]) -> "Outline":
        """What is seen of plans."""
        rules = defaultdict[Use, set[Rule]](set)
        for use, rule in used:
            rules[use].add(rule)
        return Outline({use: frozenset(those) for use, those in rules.items()}, frozenset(since))


def few_points(problem: Problem) -> tuple[int, ...] | None:
    """The time points that are planned for first, that of the past among them; None where there are not many, or they are not alike."""
    working = range(problem.first, len(problem.points))
    if len(working) < _MANY or not _are_alike(problem, working):
        return None
    return (*range(problem.first), working[0], *working[-2:])


def _are_alike(problem: Problem, points: Sequence[int]) -> bool:
    """Whether rows come to, or leave, the same tables between any two points, and results are due at all of them or at the last only."""
    tables = problem.tables.values()
    between = {tuple((t.is_unchanged(s, u), t.is_insert_only(s, u)) for t in tables) for s, u in pairwise(points)}
    return len(between) == 1 and len({problem.points[t].output for t in points[:-1]}) == 1
