"""What the searches of one problem share when incremental work begins at the same time, whatever their methods."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tempura.algebra.rel import Rel
from tempura.memo.events import Listener
from tempura.memo.memo import Memo
from tempura.rules.dsl import Rule
from tempura.search.facts import PlanFacts
from tempura.search.links import ClassLinks
from tempura.tvr.views import View


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a rule makes of a view: ``rhs`` over reads and ``views``, which are needed at the same time. ``cost`` is unweighted."""

    rule: Rule
    member: Rel
    rhs: Rel
    views: tuple[View, ...]
    cost: int


Application = tuple[Rule, View, View, ClassLinks | None]
"""A rule, a view of the operator that it is applied to, the view of the class for which that is done, and the links, if it asks for any."""


@dataclass(frozen=True)
class Begun:
    """Facts, right sides made ready, links, and what each rule made of each operator: a rule is applied once, not once per set of methods.
    If it reads links, once per set of rules that give them. Links remember what was asked first: so sets of methods share them."""

    facts: PlanFacts
    memo: Memo
    tell: Listener
    prepared: dict[Rel, Rel] = field(default_factory=dict)
    _links: dict[tuple[Rule, ...], ClassLinks] = field(default_factory=dict)
    _applied: dict[Application, tuple[Rewritten, ...]] = field(default_factory=dict)

    def links(self, rules: tuple[Rule, ...]) -> ClassLinks:
        """The links that the splits among some rules give."""
        splits = tuple(rule for rule in rules if rule.splits)
        if splits not in self._links:
            self._links[splits] = ClassLinks(splits, self.facts, self.memo, self.tell)
        return self._links[splits]

    def applied(self, what: Application, apply: Callable[[], tuple[Rewritten, ...]]) -> tuple[Rewritten, ...]:
        """What was made of an application before, else what it makes now."""
        known = self._applied.get(what)
        if known is None:
            known = self._applied[what] = apply()
        return known
