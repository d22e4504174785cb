"""Methods that are alike for a query: they have the same ones of the rules that can match something in it.

Their best plans are the same, so one of them is looked for. Methods differ most in their rules for joins that
are not inner: a query without one has the same plans by IM-1 and by OJV.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from tempura.algebra.rel import Join
from tempura.rules.dsl import Rule
from tempura.rules.match import name_of_hole
from tempura.search.space import Space
from tempura.tvr.views import View


def without_the_alike(space: Space, names: Sequence[str]) -> tuple[str, ...]:
    """The methods among some that may have another best plan than those named before."""
    joins = {member.rel.kind for _, members in space.memo.known() for member in members if isinstance(member.rel, Join)}
    rules = {name: _matching(space.rules_of((name,)), joins) for name in names}
    kept: list[str] = []
    for name in names:
        if rules[name] not in (rules[before] for before in kept):
            kept.append(name)
    return tuple(kept)


def _matching(rules: tuple[Rule, ...], joins: AbstractSet[str]) -> frozenset[Rule]:
    """The rules that can match: not those of kinds of joins that there are not, nor those that split where no other asks for parts."""
    found = [rule for rule in rules if not rule.splits and _can_match(rule, joins)]
    ask = any(rule.asks_links for rule in found)
    return frozenset((*found, *(rule for rule in rules if rule.splits and ask)))


def _can_match(rule: Rule, joins: AbstractSet[str]) -> bool:
    top = rule.pattern.tvr if isinstance(rule.pattern, View) else rule.pattern
    return not isinstance(top, Join) or any(
        kind == top.kind or name_of_hole(top.kind, kind) is not None for kind in joins
    )
