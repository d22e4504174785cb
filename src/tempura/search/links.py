"""The links of the TVRs of one planning problem: the parts into which rules split them, found on demand and remembered."""

from collections.abc import Mapping
from dataclasses import replace

from tempura.algebra.rel import Filter, Rel, Values, empty
from tempura.algebra.scalar import Column, Expr, Ref, conjuncts, substitute
from tempura.memo.edge import Edge
from tempura.memo.events import ClassSplit, Listener, ignore
from tempura.memo.memo import Member, Memo
from tempura.rules.dsl import Rule
from tempura.rules.prune import is_empty, prune
from tempura.search.facts import PlanFacts
from tempura.tvr.links import Linked
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import View

Parts = Mapping[str, Edge | Values]
"""The parts of a class by the kinds of their links, with its columns by position: classes, or the constant empty bag."""


class ClassLinks:
    """Parts of classes by the first rule that gives them, in the order of ``rules``: at most one link of each kind, and where rules
    split by table, one for each table. Implements ``rules.dsl.Links``."""

    def __init__(self, rules: tuple[Rule, ...], facts: PlanFacts, memo: Memo, tell: Listener = ignore) -> None:
        self._rules = tuple(rule for rule in rules if rule.splits)
        self._facts = facts
        self._memo = memo
        self._tell = tell
        self._parts: dict[tuple[int, str | None], Parts] = {}
        self._resolved: dict[Rel, Rel | None] = {}

    def part(self, rel: Rel, kind: str, table: str | None = None) -> Rel | None:
        """The part of a TVR to which its link leads: the constant empty bag when there are no rows in it, None when there is no
        such link."""
        edge = self._memo.add(rel)
        place = (edge.id, table)
        if place not in self._parts:
            self._parts[place] = {}  # a part that is defined by itself is none
            self._parts[place] = self._split(edge, table)
        part = self._parts[place].get(kind)
        return replace(part, outputs=rel.columns) if part is not None else None

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
                return self.part(rel.rel, rel.kind, rel.table)
            case View():
                tvr = self.resolve(rel.tvr)
                return None if tvr is None else replace(rel, tvr=tvr)
        inputs = [self.resolve(i) for i in rel.inputs]
        found = [i for i in inputs if i is not None]
        if len(found) < len(inputs):
            return None
        return self._asked_once(prune(rel.with_inputs(*found))) if found else rel

    def _asked_once(self, rel: Rel) -> Rel:
        """An expression, or the input of a condition of which all rows satisfy it. A part may be a whole that some condition makes of
        another; to ask that of it again would be another part, of which it is asked again, without end."""
        if not isinstance(rel, Filter) or not isinstance(rel.input, Edge):
            return rel
        asked = {part for member in self._memo.members(rel.input) for part in _asked(member.rel, rel.input)}
        return rel.input if asked.issuperset(conjuncts(rel.predicate)) else rel

    def _split(self, edge: Edge, table: str | None) -> Parts:
        """The parts that a rule gives, all of one rule: those of two rules need not add up."""
        known: Parts = {}
        for rule in (rule for rule in self._rules if rule.by_table == (table is not None)):
            for member in self._facts.members(edge):
                if not known.keys() & set(rule.splits) and (found := self._apply(rule, member, table)):
                    known = {**known, **found}
                    parts = tuple((kind, _id(part)) for kind, part in found.items())
                    self._tell(ClassSplit(edge.id, parts, rule.name, table))
        return known

    def _apply(self, rule: Rule, member: Member, table: str | None) -> Parts:
        bindings = rule.match(member.rel)
        if bindings is None:
            return {}
        given = {"Facts": self._facts, "Links": self, "Table": table}
        bindings |= {name: given[kind] for name, kind in rule.parameters.items() if kind in given}
        law = rule.split(**bindings)
        parts = {kind: self.resolve(part) for kind, part in law.parts.items()} if law.where else {}
        found = {kind: self._part(part, rule, member) for kind, part in parts.items() if part is not None}
        return found if len(found) == len(parts) else {}

    def _part(self, rel: Rel, rule: Rule, member: Member) -> Edge | Values:
        return empty(rel.columns) if is_empty(rel) else self._memo.add(rel, rule.name, member)


def _asked(member: Rel, edge: Edge) -> tuple[Expr, ...]:
    """What all rows of a class satisfy, as the condition by which a member leaves out others; in the columns of a use of it."""
    if not isinstance(member, Filter):
        return ()
    used: dict[Column, Expr] = {own: Ref(column) for own, column in zip(member.columns, edge.columns, strict=True)}
    return conjuncts(substitute(member.predicate, used))


def _id(part: Edge | Values) -> int | None:
    return part.id if isinstance(part, Edge) else None
