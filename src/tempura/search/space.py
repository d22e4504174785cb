"""What is known of one planning problem, whatever is searched in it."""

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from types import MappingProxyType

from tempura.algebra.rel import Rel
from tempura.cost.estimate import Estimator
from tempura.memo.events import Listener, telling
from tempura.memo.memo import Memo
from tempura.rules.dsl import Rule
from tempura.search.counts import Counts
from tempura.search.facts import PlanFacts
from tempura.search.joins import Clusters, JoinOrders, Order
from tempura.search.links import ClassLinks
from tempura.search.problem import Point, Problem, staircase
from tempura.search.saturate import ALL_ON, Saturation, Switches
from tempura.tvr.views import View


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """A view that is needed at ``time``: one object per view and time of a graph, so that comparing is cheap."""

    view: View
    time: int

    def __str__(self) -> str:
        return f"{self.view.label} at {self.time}"


class Keep(Enum):
    """Which states later steps may load: those of one step only are known to the next. ``PAST``: nothing is saved at the first point, and
    what was saved before it stays. ``NEW``: what was saved before is loaded at the first point for the last time, but for what has not
    changed, which is kept with what is saved. ``BOTH``: more than there can be, but what one search finds most often."""

    BOTH = auto()
    PAST = auto()
    NEW = auto()


class Space:
    """The classes of a problem's query and of what rules make of it, their links, facts and estimated sizes, the prices, and who is told
    what happens. Laws at all times make the classes grow. ``without`` names rules that are not to be used. ``has_values_computed_once``:
    whether two computations of some class may differ."""

    def __init__(
        self,
        problem: Problem,
        *listeners: Listener,
        without: Collection[str] = (),
        switches: Switches = ALL_ON,
    ) -> None:
        self.tell = telling(listeners)
        self._without = frozenset(without)
        self.memo = Memo(self.tell)
        self.query = self.memo.add(problem.query)
        laws = tuple(rule for rule in problem.registry.laws_at_all_times if rule.name not in self._without)
        # What is counted depends on the states that there are; the classes must not, for states are found again by their names.
        expected = Estimator(problem.tables, self.memo.representative, staircase(problem.tables))
        keys = {name: table.keys for name, table in problem.tables.items()}
        saturation = Saturation(self.memo, laws, expected, self.tell, switches, keys)
        saturation.run()
        self.given = saturation.given
        self.query = self.memo.find(self.query)
        self.clusters = Clusters(self.memo)
        self._relied_on_promises = saturation.relied_on_promises
        self._pose(problem)

    def asked(self, problem: Problem) -> "Space":
        """The same classes for another problem of the same query and tables: at some of the time points (``Problem.at``)."""
        other = copy(self)
        other._pose(problem)
        return other

    def weighing(self, points: tuple[Point, ...]) -> "Space":
        """The same where work has other prices at the time points: all that is known stays."""
        other = copy(self)
        other.problem = replace(self.problem, points=points)
        return other

    def knowing(self, orders: Mapping[str, Order]) -> "Space":
        """The same where orders of joins are known."""
        other = copy(self)
        other._pose(self.problem, orders)
        return other

    def _pose(self, problem: Problem, orders: Mapping[str, Order] = MappingProxyType({})) -> None:
        """What depends on the time points, and on what is known of the tables at them."""
        self.problem = problem
        self.model = problem.prices
        self._expressions: dict[Rel, Rel] = {}
        self._links: dict[tuple[tuple[Rule, ...], int], ClassLinks] = {}
        self.prepared: dict[Rel, Rel] = {}
        self._costs: dict[Rel, int] = {}
        self._parts: dict[Rel, tuple[int, int]] = {}
        tables, meaning, self.staircase = problem.tables, self.memo.representative, staircase(problem.tables)
        self.facts = PlanFacts(tables, self.memo, 0, self.staircase, self._relied_on_promises)
        self.has_values_computed_once = any(map(self.facts.is_computed_once, self.memo.classes))
        stored = {key.expression: facts.rows for key, facts in problem.stored.items()}
        self.counts = self._counts()
        told = (partial(_rows_stored, self.memo, stored), self.counts.rows, self.counts.rows_by_whole)
        self.estimate = Estimator(tables, meaning, self.staircase, *told)
        self.orders = JoinOrders(self.model, self.estimate, self.counts.name_at_the_end, orders)

    def _counts(self) -> Counts:
        """What runs have counted, now that the classes are known."""
        expected = Estimator(self.problem.tables, self.memo.representative, self.staircase)
        return Counts(self.problem.counted, expected, self.memo, self.facts, self.staircase)

    def rules_of(self, methods: tuple[str, ...]) -> tuple[Rule, ...]:
        """The rules of a set of methods that may be used."""
        rules = self.problem.registry.rules_of(methods)
        return tuple(rule for rule in rules if rule.name not in self._without)

    def links(self, splits: tuple[Rule, ...], since: int) -> ClassLinks:
        """The links that rules give which split, for work that begins at a time point. They remember what was asked: so all who split
        alike share them."""
        if (splits, since) not in self._links:
            self._links[splits, since] = ClassLinks(splits, self.facts.since(since), self.memo, self.tell)
        return self._links[splits, since]

    def cost(self, rel: Rel) -> int:
        """What an operator costs without its inputs, at weight one: the same wherever it is part of a right side."""
        known = self._costs.get(rel)
        if known is None:
            known = self._costs[rel] = self.model.operator(rel, self.estimate)
        return known

    def parts(self, rel: Rel) -> tuple[int, int]:
        """The same, and the part of it that does not depend on rows."""
        if rel not in self._parts:
            cost = self.cost(rel)
            self._parts[rel] = cost, self.model.fixed(lambda model: model.operator(rel, self.estimate), cost)
        return self._parts[rel]

    def shared(self, rel: Rel) -> Rel:
        """One object for equal expressions, so that comparing them is cheap."""
        return self._expressions.setdefault(rel, rel)


def _rows_stored(memo: Memo, stored: Mapping[str, float | None], rel: Rel) -> float | None:
    """The rows that a class had at the point of the past, if some run has stored them."""
    return stored.get(memo.fingerprint(rel)) if stored else None
