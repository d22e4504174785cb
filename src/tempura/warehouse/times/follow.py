"""Planning a run as one before it was planned: where tables change as they did, the same choices are the best plan again, and to make them
takes a tenth of comparing all. Sizes and prices are those of now. And what a run that did nothing had planned for later times is
planned then, if all has come as it expected."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import inf
from time import process_time
from typing import Any

from tempura.cost.prices import BUILT_IN
from tempura.memo.references import NO_KEYS
from tempura.physical.operators import Load
from tempura.plan.progressive import Alternative, Course, ProgressivePlan, doubted
from tempura.search.planner import make_plan
from tempura.search.problem import MARGIN, Problem, TableFacts

_MOST = 16
"""So many runs may follow one comparison: what creeps is seen in the end."""

_SIZE, _CHANGE, _COST = 1.25, 2.0, 1.25
"""By how much sizes of tables and states, sizes of changes and the plan's cost may differ from those of the comparison."""

_DOUBT = 1.25
"""Another doubt than that of the comparison, by so much, decides between the plans of then anew, and not by a margin."""

_NEWS = 1.1
"""Operators that were counted since the last run have told what decides if the plan costs so much more or less by them."""

_THRIFT = 0.1
"""Such a part of what the plans since then were expected to cost may go into comparing all once more because operators were counted."""

_FEW = 1_000.0
"""Rows that decide nothing: by so many, sizes may always differ."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a plan is chosen by. ``given`` has to be the same for another run to choose alike; the ``sizes`` of tables and states and the
    sizes of ``changes``, in rows, about the same. ``since``: what has changed since the states were stored that there are; where none
    is, the past decides nothing. More may have by now: plans that go on from there are dearer then, and the price of this one tells.
    ``driver`` is what the driver's prices were multiplied by, ``doubt`` what the cost of plans with states was (``times.doubt``): by what
    these are now the plans of then are compared once more (``Choice.at``, ``Choice.taken``)."""

    given: Mapping[str, str]
    sizes: Mapping[str, float]
    changes: Mapping[str, float]
    driver: float
    doubt: float = 1.0
    since: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(problem: Problem, methods: Sequence[str], driver: float, doubt: float, later: int = 0) -> "Known":
        """What is known when a problem is posed, or will be so many points later, if all comes as it is expected to and nothing is kept
        until then."""
        tables, now = problem.tables.items(), problem.first + later
        begin = now if later or not problem.states else 0
        given = {
            "rules": problem.registry.fingerprint,
            "methods": ",".join(problem.registry.names_of(methods)),
            "points": " ".join(
                f"{point.weight:g}{'!' * point.output}{'.' * point.done}" for point in problem.points[begin:]
            ),
            **{f"table {name}": _promised(table) for name, table in tables},
            # What was chosen by the prices that are built in was so before it was noted.
            **({"prices": problem.prices.origin} if problem.prices.origin != BUILT_IN else {}),
            **({"counted": _hashed(problem.counted)} if problem.counted else {}),
            **({"state budget": str(problem.state_budget)} if problem.state_budget is not None else {}),
            **({"storage price": f"{problem.storage_price:g}"} if problem.storage_price else {}),
        }
        sizes = {f"table {name}": float(table.rows(now)) for name, table in tables}
        sizes |= {f"deleted {name}": float(table.deletions_read(now)) for name, table in tables} if begin == now else {}
        sizes |= {str(key): facts.rows or 0.0 for key, facts in problem.stored.items() if key in problem.states}
        return Known(given, sizes, _changes(problem, now), driver, doubt, _changes(problem, begin, now))

    def is_like(self, other: "Known") -> bool:
        """Whether two differ in nothing that decides."""
        return self.given == other.given and self.is_about(other)

    def is_of_the_kind(self, other: "Known") -> bool:
        """Whether two are of like time points, and plans for them are made by the same rules."""
        return all(self.given.get(name) == other.given.get(name) for name in ("points", "rules", "methods"))

    def is_about(self, other: "Known") -> bool:
        """Whether two differ in nothing but which operators earlier runs have counted, of which each of the first few runs tells more, and
        what the driver takes and is doubted, by which plans are compared without another search."""
        return (
            _but_counts(self.given) == _but_counts(other.given)
            and _alike(self.sizes, other.sizes, _SIZE)
            and _alike(self.changes, other.changes, _CHANGE)
            and _may_have_grown(self.since, other.since)
        )


_RECOMPUTED = "batch"
"""The method of plans that recompute, where that was not noted apart."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the ``n``-th run of a query chose when it compared all plans: by what was ``known``, a plan that goes this ``course`` and was
    estimated at ``cost``; the ``others`` would have cost more, but for bets. ``later`` is what it expected to be known at the next points
    up to the first at which it wants to do something: then it is the plan of these, too. To compare took so many ``seconds`` of CPU.
    ``latest`` is what the plan cost for the run that went this way last, where it was followed: what creeps from run to run is no news.
    ``fixed`` is the part of its cost that does not depend on rows."""

    n: int
    course: Course
    cost: int
    known: Known
    others: tuple[Alternative, ...]
    later: tuple[Known, ...] = ()
    seconds: float = 0.0
    latest: int | None = field(default=None, compare=False)
    fixed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data for the ledger."""
        others = [asdict(other) for other in self.others]
        # Apart from the others: who knows nothing of it reads all that he does know.
        recomputing = [i for i, other in enumerate(others) if other.pop("recomputes")]
        return asdict(self) | {"others": others, "recomputing": recomputing}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Choice":
        """The inverse of :meth:`to_json`."""
        course = data["course"]
        chosen = tuple((goal, way) for goal, way in course.get("chosen", ()))
        lists = {name: tuple(course.get(name, ())) for name in ("rules", "methods")}
        orders = tuple((name, tuple(order)) for name, order in course.get("orders", ()))
        course = Course(**{**course, **lists, "chosen": chosen, "orders": orders})
        batch = [i for i, other in enumerate(data["others"]) if other["method"] == _RECOMPUTED]
        recomputing = data.get("recomputing", batch)
        others = tuple(
            Alternative(**other | {"steps": tuple(other["steps"]), "fallbacks": (), "recomputes": i in recomputing})
            for i, other in enumerate(data["others"])
        )
        later = tuple(Known(**known) for known in data.get("later", ()))
        seconds = float(data.get("seconds", 0.0))
        known, latest, fixed = Known(**data["known"]), data.get("latest"), data.get("fixed", 0)
        return Choice(data["n"], course, data["cost"], known, others, later, seconds, latest, fixed)

    def at(self, driver: float) -> "Choice":
        """The same choice, its plan and the others priced as if the driver's prices had been multiplied by ``driver``."""
        more = driver / self.known.driver - 1
        if not more:
            return self
        others = tuple(
            replace(o, cost=o.cost + round(more * o.fixed), fixed=o.fixed + round(more * o.fixed)) for o in self.others
        )
        added = round(more * self.fixed)
        latest = None if self.latest is None else self.latest + added
        known = replace(self.known, driver=driver)
        return replace(
            self, cost=self.cost + added, fixed=self.fixed + added, latest=latest, known=known, others=others
        )

    def is_for(self, known: Known) -> bool:
        """Whether it was made for what is like what is known, or expected that."""
        return any(expected.is_like(known) for expected in (self.known, *self.later))

    def outlasts_counts(self, n: int) -> bool:
        """Whether the ``n``-th run goes on with it though what was counted since changes what it costs: to find out whether another plan is
        cheaper by now would take more than may go into it so soon."""
        return self.seconds > _THRIFT * (n - self.n) * self.cost / 1e9

    def taken(self, plan: ProgressivePlan, doubt: float = 1.0) -> ProgressivePlan | None:
        """A plan that was made along this course, beside what it was compared with; None if it costs more than differences explain, or
        by now clearly more than another would. What has come since states were stored makes plans that go on from them dearer from run to
        run: the others with states by what it adds to this one. ``doubt`` as in ``make_plan``."""
        grown = max(0, plan.cost - self.cost) if _goes_on(plan) else 0
        others = (replace(other, cost=other.cost + grown) if other.states else other for other in self.others)
        cheapest = min((doubted(other, doubt) for other in others), default=inf)
        most = cheapest / (1 - MARGIN) if _is_near(doubt, self.known.doubt, _DOUBT) else cheapest
        if plan.cost >= _COST * self.cost or doubted(plan, doubt) >= most:
            return None
        return replace(plan, alternatives=(*plan.alternatives, *self.others))


class Follower:
    """Plans the ``n``-th run of a query by cost: as the newest of its ``choices`` says that was made for what is like what is known now,
    else by comparing all. ``choice`` is the one that the plan goes by, once there is a plan; None where nobody should follow it.
    ``is_news``: whether all plans were compared, and by no earlier run for about the same; then ``uses`` are as in ``make_plan``. ``cpu``
    tells the CPU time of this process."""

    def __init__(
        self,
        n: int,
        choices: Iterable[Choice],
        driver: float,
        doubt: float = 1.0,
        cpu: Callable[[], float] = process_time,
        uses: int = 1,
    ) -> None:
        self._n = n
        self._choices = tuple(choices)
        self._driver = driver
        self._doubt = doubt
        self._cpu = cpu
        self._uses = uses
        self.choice: Choice | None = None
        self._is_repeated = False

    @property
    def is_news(self) -> bool:
        return self.choice is not None and not self.followed and not self._is_repeated

    @property
    def followed(self) -> int | None:
        """The run whose choice the plan follows; None when all were compared for it."""
        return self.choice.n if self.choice and self.choice.n < self._n else None

    def __call__(self, problem: Problem, methods: Sequence[str]) -> ProgressivePlan:
        """A plan. Raises TempuraError as ``search.planner`` does."""
        known = Known.of(problem, methods, self._driver, self._doubt)
        recent = [choice.at(self._driver) for choice in self._choices if self._n - choice.n <= _MOST]
        self._is_repeated = any(choice.known.is_about(known) for choice in recent)
        choice, before = self._followed_now(recent, known), self._cpu()
        made = partial(
            make_plan,
            problem,
            methods,
            margin=problem.margin,
            doubt=self._doubt,
            usual=self._usual(known),
            uses=1 if self._is_repeated else self._uses,
        )
        plan = made(course=choice.course if choice else None)
        if choice and plan.course is choice.course:
            if taken := self._taken(choice, known, plan):
                self.choice = replace(choice, latest=plan.cost)
                return taken
            plan = made()
        seconds = self._cpu() - before
        others = tuple(replace(a, fallbacks=()) for a in plan.alternatives if not a.chosen)
        if plan.course and not _builds(plan, problem):
            points = range(1, _idle(plan) + 1) if not problem.states else ()
            later = (Known.of(problem, methods, self._driver, self._doubt, k) for k in points)
            self.choice = Choice(
                self._n, plan.course, plan.cost, known, others, tuple(later), seconds, fixed=plan.fixed
            )
        return plan

    def _usual(self, known: Known) -> Course | None:
        """How the last run went about it that was planned for like points by the same rules, whatever the sizes of then."""
        like = (choice for choice in reversed(self._choices) if choice.known.is_of_the_kind(known))
        return next((choice.course for choice in like), None)

    def _followed_now(self, recent: Sequence[Choice], known: Known) -> Choice | None:
        """The newest that was made for about what is known now, as the last run has noted it that followed it."""
        newest = sorted(recent, key=lambda choice: choice.n)[::-1]
        like = (choice for choice in newest if choice.is_for(known))
        return next(like, None) or next((choice for choice in newest if choice.known.is_about(known)), None)

    def _taken(self, choice: Choice, known: Known, plan: ProgressivePlan) -> ProgressivePlan | None:
        """A plan that was made along the course of a choice; None if all are to be compared instead."""
        before = choice.cost if choice.latest is None else choice.latest
        are_counts_news = not choice.is_for(known) and not _is_near(plan.cost, before, _NEWS)
        return None if are_counts_news and not choice.outlasts_counts(self._n) else choice.taken(plan, self._doubt)


def _but_counts(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if name != "counted"}


def _idle(plan: ProgressivePlan) -> int:
    """How many points pass before a plan does something; it does at the last."""
    return next((i for i, step in enumerate(plan.steps) if not step.is_empty), len(plan.steps) - 1)


def _goes_on(plan: ProgressivePlan) -> bool:
    """Whether its first step goes on from what was stored before."""
    return any(isinstance(rel, Load) for step in plan.steps[:1] for rel in step.operators)


def _builds(plan: ProgressivePlan, problem: Problem) -> bool:
    """Whether states are built from the tables now, for runs to come: who did as this run did would build them again and again."""
    assert plan.course
    return bool(plan.steps[0].saves) and plan.course.start >= problem.first


def _hashed(names: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()


def _promised(table: TableFacts) -> str:
    changes = "static" if table.static else "append only" if table.append_only else "changes"
    return f"{changes}, {table.keys}" if table.keys != NO_KEYS else changes


def _changes(problem: Problem, begin: int, end: int | None = None) -> dict[str, float]:
    """The rows that come and go between time points, up to the last one or another."""
    last = None if end is None else end + 1
    counted = [
        (f"{kind} {name}", counts[begin:last])
        for name, table in problem.tables.items()
        for kind, counts in (("inserted", table.inserted), ("deleted", table.deleted))
    ]
    return {
        f"{what} {i}": float(after - before)
        for what, counts in counted
        for i, (before, after) in enumerate(pairwise(counts), 1)
    }


def _alike(a: Mapping[str, float], b: Mapping[str, float], factor: float) -> bool:
    return a.keys() == b.keys() and all(_is_alike(size, b[name], factor) for name, size in a.items())


def _may_have_grown(then: Mapping[str, float], now: Mapping[str, float]) -> bool:
    more = {name: max(rows, now.get(name, 0.0)) for name, rows in then.items()}
    return _alike(then, now, inf) and _alike(more, now, _CHANGE)


def _is_alike(a: float, b: float, factor: float) -> bool:
    """Nothing is like nothing only: rules ask whether there is something."""
    return (a == 0) == (b == 0) and _is_near(a + _FEW, b + _FEW, factor)


def _is_near(a: float, b: float, factor: float) -> bool:
    return max(a, b) <= factor * min(a, b)
