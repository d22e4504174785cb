"""The links of the TVRs of one planning problem: the parts into which rules split them, found on demand and remembered."""

from collections.abc import Mapping
from dataclasses import replace

from tempura.algebra.rel import Rel
from tempura.rules.dsl import Facts, Rule
from tempura.rules.prune import is_empty, prune
from tempura.tvr.links import Linked
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import View

Parts = Mapping[str, Rel]
"""The parts of a TVR by the kinds of their links."""


class ClassLinks:
    """Parts by the first rule that gives them, in the order of ``rules``. Implements ``rules.dsl.Links``."""

    def __init__(self, rules: tuple[Rule, ...], facts: Facts) -> None:
        self._rules = tuple(rule for rule in rules if rule.splits)
        self._facts = facts
        self._parts: dict[Rel, Parts] = {}
        self._resolved: dict[Rel, Rel | None] = {}

    def part(self, rel: Rel, kind: str) -> Rel | None:
        """The part of a TVR to which its link leads: the constant empty bag when there are no rows in it, None when there is no
        such link."""
        if rel not in self._parts:
            self._parts[rel] = {}  # a part that is defined by itself is none
            self._parts[rel] = self._split(rel)
        return self._parts[rel].get(kind)

    def has(self, part: Tvr) -> bool:
        """Whether a linked part is there and may have rows."""
        found = self.resolve(part.rel)
        return found is not None and not is_empty(found)

    def resolve(self, rel: Rel) -> Rel | None:
        """An expression with parts in place of their links, without what is constantly empty; None when a link is missing."""
        if rel not in self._resolved:
            self._resolved[rel] = self._resolve(rel)
        return self._resolved[rel]

    def _resolve(self, rel: Rel) -> Rel | None:
        match rel:
            case Linked():
                return self.part(rel.rel, rel.kind)
            case View():
                tvr = self.resolve(rel.tvr)
                return None if tvr is None else replace(rel, tvr=tvr)
        inputs = [self.resolve(i) for i in rel.inputs]
        found = [i for i in inputs if i is not None]
        if len(found) < len(inputs):
            return None
        return prune(rel.with_inputs(*found)) if found else rel

    def _split(self, rel: Rel) -> Parts:
        """The parts that a rule gives, all of one rule: those of two rules need not add up."""
        known: dict[str, Rel] = {}
        for rule in self._rules:
            if not known.keys() & set(rule.splits):
                known |= self._apply(rule, rel)
        return known

    def _apply(self, rule: Rule, rel: Rel) -> Parts:
        bindings = rule.match(rel)
        if bindings is None:
            return {}
        given = {"Facts": self._facts, "Links": self}
        bindings |= {name: given[kind] for name, kind in rule.parameters.items() if kind in given}
        law = rule.split(**bindings)
        parts = {kind: self.resolve(part) for kind, part in law.parts.items()} if law.where else {}
        found = {kind: part for kind, part in parts.items() if part is not None}
        return found if len(found) == len(parts) else {}
