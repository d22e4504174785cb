"""Saturation: laws between TVRs, applied to the members of a memo until they find nothing new.

A worklist of (rule, member), semi-naive: a rule looks at a member once, and again only if its pattern looks below the member and a
class there has grown. Rules that come first are tried first wherever they apply, so that what they simplify is simple when
later ones look. The budget is counted in firings, so that runs repeat.

A law about joins of many is asked of the clusters of inner joins, and of aggregations over them, once the other laws have found nothing
new; what it makes of them is written as joins of two, as clusters are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count

from tempura.algebra.multi_join import MultiJoin, in_order
from tempura.algebra.rel import Aggregate, Join, Rel, keep
from tempura.algebra.scalar import Column, Expr, Output, Ref
from tempura.cost.estimate import Estimator
from tempura.memo.edge import Edge
from tempura.memo.events import ClassRewritten, Listener, ignore
from tempura.memo.memo import Member, Memo
from tempura.memo.references import Keys, References
from tempura.memo.unique import Unique
from tempura.rules.dsl import Rule
from tempura.search.joins import Clusters
from tempura.tvr.tvr import Tvr

BUDGET = 1_000
"""Firings per query."""

FEWER = 0.5
"""A partial aggregation is tried if it has at most this many groups for each row; a semi join, if it leaves at most so many rows."""

_NO_KEYS: Mapping[str, Keys] = {}


@dataclass(frozen=True, slots=True)
class Switches:
    """What of the engine can be turned off, to measure what it is worth: ``dispatch`` tries a rule only on members with the operator
    at the top of its pattern, ``semi_naive`` looks again only where something has changed, ``one_way`` does not undo what a
    rule has done."""

    dispatch: bool = True
    semi_naive: bool = True
    one_way: bool = True


ALL_ON = Switches()


class Saturation:
    """Applies rules to a memo. ``keys`` are what is certain of the tables' keys. ``fired``: how often a rule found something to say;
    ``matched``: how often one matched; ``relied_on_promises``: whether one did that holds only where rows have their partners."""

    def __init__(
        self,
        memo: Memo,
        rules: tuple[Rule, ...],
        estimate: Estimator,
        listener: Listener = ignore,
        switches: Switches = ALL_ON,
        keys: Mapping[str, Keys] = _NO_KEYS,
    ) -> None:
        self._memo = memo
        self._rules = rules
        self._of_many = tuple(number for number, rule in enumerate(rules) if rule.is_about_many)
        self._listener = listener
        self._switches = switches
        unique = Unique(memo, {name: known.unique for name, known in keys.items()})
        self.given = {"Always": unique, "Promised": References(memo, keys), "Expected": Groups(memo, estimate)}
        self._queue: list[tuple[int, int, Member]] = []
        self._order = count()
        self._seen = 0
        self._said: set[tuple[int, Rel]] = set()
        self._inside = Inside(memo)
        self.matched = 0
        self.fired = 0
        self.relied_on_promises = False

    def run(self, budget: int = BUDGET) -> bool:
        """Apply the rules to all members, old and new. Returns whether everything has been said, False if the budget ran out."""
        while self._of_members(budget):
            before = self.fired
            if not self._of_clusters(budget):
                return False
            if self.fired == before:
                return True
        return False

    def _of_members(self, budget: int) -> bool:
        """Apply the rules to members, until none is left to be looked at."""
        self._take_up()
        while self._queue:
            number, _, member = heappop(self._queue)
            for bindings in list(self._rules[number].matches(member.rel, self._inside)):
                if self.fired >= budget:
                    return False
                self.matched += 1
                self._fire(number, Edge(member.home, member.rel.columns), bindings, member)
        return True

    def _of_clusters(self, budget: int) -> bool:
        """Apply the rules about joins of many to every cluster, and to every aggregation over one, seen from each of its terms."""
        if not self._of_many:
            return True
        # All are seen before the first is rewritten: a part of a larger one may be used elsewhere, too, and then looks different.
        seen = list(self._clusters())
        for edge, joined, columns in seen:
            for number in self._of_many:
                for bindings in list(self._rules[number].matches(joined, self._inside)):
                    if self.fired >= budget:
                        return False
                    self.matched += 1
                    self._fire(number, self._memo.find(edge), bindings, seen=partial(_columns_by_twos, columns=columns))
        return True

    def _clusters(self) -> Iterator[tuple[Edge, Rel, tuple[Column, ...]]]:
        """What classes compute as joins of many, or aggregations over these, from each term, and which of its columns are the class's."""
        clusters = Clusters(self._memo)
        for edge in self._memo.classes:
            for joined, columns in clusters.from_each_term(edge):
                yield edge, joined, columns
        for member in self._memo.made:
            if isinstance(member.rel, Aggregate):
                for aggregated in clusters.below_from_each_term(member.rel):
                    yield Edge(member.home, member.rel.columns), aggregated, aggregated.columns

    def _take_up(self) -> None:
        """Queue the members that the memo has got since the last time."""
        new = self._memo.made[self._seen :]
        self._seen += len(new)
        for member in new:
            self._enqueue(member, range(len(self._rules)))

    def _enqueue(self, member: Member, numbers: range | list[int]) -> None:
        for number in numbers:
            if self._may_match(self._rules[number], member):
                heappush(self._queue, (number, next(self._order), member))

    def _may_match(self, rule: Rule, member: Member) -> bool:
        fits = not self._switches.dispatch or rule.operator in (None, type(member.rel))
        return fits and not rule.is_about_many and not (self._switches.one_way and member.rule in rule.undoes)

    def _fire(
        self,
        number: int,
        home: Edge,
        bindings: dict[str, object],
        member: Member | None = None,
        seen: Callable[[Rel], Rel] = lambda rel: rel,
    ) -> None:
        """Add what a rule makes of a class, of its ``member`` or of what else computes it; ``seen``: as the class sees it."""
        rule = self._rules[number]
        given = {name: self.given[kind] for name, kind in rule.parameters.items() if kind in self.given}
        law = rule.apply(**bindings, **given)
        if not law.where or (number, law.lhs) in self._said:
            return
        self._said.add((number, law.lhs))
        self.fired += 1
        self.relied_on_promises |= "Promised" in rule.parameters.values()
        self._listener(ClassRewritten(home.id, rule.name))
        merged = self._memo.merge(home, self._memo.add(seen(law.rhs), rule.name, member), rule.name)
        self._memo.rebuild()
        if rule.replaces and member:
            self._memo.retire(member)
        self._take_up()
        if merged:
            self._look_again(home)

    def _look_again(self, grown: Edge) -> None:
        """Rules whose patterns look below a member are tried again on those above a class that has grown."""
        users = self._memo.users(grown) if self._switches.semi_naive else self._memo.made
        deep = [number for number, rule in enumerate(self._rules) if rule.depth > 1]
        for user in users:
            self._enqueue(user, deep)


class Groups:
    """Implements ``rules.dsl.Expected`` by estimates."""

    def __init__(self, memo: Memo, estimate: Estimator) -> None:
        self._memo = memo
        self._estimate = estimate

    def shrinks(self, tvr: Tvr, columns: tuple[Column, ...]) -> bool:
        """Whether there are far fewer groups by some columns than rows."""
        rel = self._over_classes(tvr.rel) if isinstance(tvr.rel, MultiJoin) else self._memo.add(tvr.rel)
        keys = tuple(Output(column, Ref(column)) for column in columns)
        return self._estimate.groups(rel, keys) <= FEWER * self._estimate.rows(rel)

    def reduces(self, tvr: Tvr, other: Tvr, on: Expr) -> bool:
        """Whether far fewer rows of a TVR match another than there are."""
        left, right = (self._memo.add(rel) for rel in (tvr.rel, other.rel))
        return self._estimate.rows(Join(left, right, "semi", on)) <= FEWER * self._estimate.rows(left)

    def is_far_smaller(self, tvr: Tvr, other: Tvr) -> bool:
        """Whether a TVR has far fewer rows than another."""
        few, many = (self._estimate.rows(self._over_classes(rel)) for rel in (tvr.rel, other.rel))
        return few <= FEWER * many

    def _over_classes(self, rel: Rel) -> Rel:
        """An operator that need not be in the memo, over what is."""
        return rel.with_inputs(*map(self._memo.add, rel.inputs))


def _by_twos(rel: Rel) -> Rel:
    """Joins of many as joins of two."""
    made = rel.with_inputs(*map(_by_twos, rel.inputs))
    return in_order(made) if isinstance(made, MultiJoin) else made


def _columns_by_twos(rel: Rel, columns: tuple[Column, ...]) -> Rel:
    """The same, and some columns of it."""
    return keep(_by_twos(rel), columns)


class Inside:
    """The members of a class as a use of it sees them: with its columns, and columns of their own below that. Called with what is no
    class, gives it back.

    Into groups that several parts of the query read, as ``rules.grouped_once`` has them found once, none of these looks: what one of them
    asks would be pushed into groups of its own.
    """

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._shared = [edge for edge in memo.classes if _is_grouped(memo, edge) and _uses(memo, edge) > 1]
        self._fresh = count()
        self._made: dict[tuple[Edge, Rel], Rel] = {}

    def __call__(self, rel: Rel) -> Iterator[Rel]:
        """The operators that compute an input."""
        if not isinstance(rel, Edge):
            yield rel
            return
        if self._memo.find(rel).id in self._closed():
            return
        for member in self._memo.members(rel):
            if (rel, member.rel) not in self._made:
                self._made[rel, member.rel] = self._seen_from(rel, member.rel)
            yield self._made[rel, member.rel]

    def _closed(self) -> set[int]:
        return {self._memo.find(edge).id for edge in self._shared}

    def _seen_from(self, use: Edge, member: Rel) -> Rel:
        new = dict(zip(member.columns, use.columns, strict=True))
        number = next(self._fresh)
        for column in (column for input in member.inputs for column in input.columns):
            new.setdefault(column, replace(column, id=f"{column.id.split('~')[0]}~{number}"))
        renamed = with_columns(member, new)
        assert isinstance(renamed, Rel)
        return renamed


def _is_grouped(memo: Memo, edge: Edge) -> bool:
    return any(isinstance(member.rel, Aggregate) and member.rel.keys for member in memo.members(edge))


def _uses(memo: Memo, edge: Edge) -> int:
    return sum(member.key[1:].count(edge.id) for member in memo.users(edge))


def with_columns(value: object, new: Mapping[Column, Column]) -> object:
    """An operator, or a part of one, with other columns throughout."""
    if isinstance(value, Column):
        return new.get(value, value)
    if isinstance(value, tuple):
        return tuple(with_columns(part, new) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "handle"}
        changed = {name: with_columns(part, new) for name, part in parts.items()}
        return value if changed == parts else replace(value, **changed)
    return value
