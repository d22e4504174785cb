"""What the searches of one problem share when incremental work begins at the same time, whatever their methods."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tempura.algebra.rel import Rel
from tempura.rules.dsl import Rule
from tempura.search.facts import PlanFacts
from tempura.tvr.views import View


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a rule makes of a view: ``rhs`` over reads and ``views``, which are needed at the same time. ``cost`` is unweighted."""

    rule: Rule
    member: Rel
    rhs: Rel
    views: tuple[View, ...]
    cost: int


Application = tuple[Rule, View, View]
"""A rule, a view of the operator that it is applied to, and the view of the class for which that is done."""


@dataclass(frozen=True)
class Begun:
    """Facts, right sides made ready, and what each rule made of each operator: a rule is applied once, not once per set of methods.
    Rules that read links are left out, for links are given by the rules of a set."""

    facts: PlanFacts
    prepared: dict[Rel, Rel] = field(default_factory=dict)
    _applied: dict[Application, tuple[Rewritten, ...]] = field(default_factory=dict)

    def applied(self, what: Application, apply: Callable[[], tuple[Rewritten, ...]]) -> tuple[Rewritten, ...]:
        """What was made of an application before, else what it makes now."""
        if what[0].reads_links or "Links" in what[0].parameters.values():
            return apply()
        known = self._applied.get(what)
        if known is None:
            known = self._applied[what] = apply()
        return known
