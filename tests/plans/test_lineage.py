"""Values that depend on the physical order of rows have one lineage: what is taken away is what was emitted, whatever a second
computation gives. Here sums of floats differ each time that they are computed; only how often, and beside what, may be compared."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from tempura.algebra.arithmetic import Exact
from tempura.algebra.bag import SignedBag
from tempura.algebra.die import Rolled
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Union, renamed
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Expr,
    Literal,
    Output,
    Ref,
    conjunction,
    same,
)
from tempura.algebra.window import CURRENT_ROW, Frame, Window, WindowOutput
from tempura.cost.stats import TableFacts
from tempura.plan.progressive import ProgressivePlan
from tempura.rules.helpers import is_order_sensitive
from tempura.rules.methods import TEMPURA
from tempura.search.best import explore
from tempura.search.graph import Graph
from tempura.search.improve import Candidate, first_candidate
from tempura.search.planner import make_plan
from tempura.search.price import Pricing
from tempura.search.problem import Point, Problem
from tempura.search.rewrites import Rewriter
from tempura.search.space import Space
from tempura.tvr.views import Snapshot, View
from tests.plans import simulate
from tests.plans.random_queries import random_table
from tests.plans.test_master_law import random_prices

TIMES = 3
CASES = 3
X, Y, Z = (Column(name, name, "int") for name in "xyz")
F, S = Column("f", "f", "double"), Column("s", "s", "double")
VIEW = tuple(Point(1.0, output=True) for _ in range(TIMES))
DEADLINE = (Point(0.25, output=False), Point(0.3, output=True), Point(1.0, output=True))
SUM = AggregateCall("Sum", (Ref(F),), "double", detail="legacy")


ONE: Expr = Literal(1.0, "double")
NUMBER = Call("Cast", (Call("Coalesce", (Ref(Z), Literal(7, "int")), "int"),), "double", "legacy")
OTHER = Call("Add", (NUMBER, Literal(2.0, "double")), "double", "legacy")
"""A number that is not 1."""
WIDE = Literal(1, "bigint")
MEAN = AggregateCall("Average", (Ref(Column("f", "f", "bigint")),), "double", detail="legacy")
ZERO = Call(
    "If",
    (Call("LessThan", (Ref(Z), Literal(2, "int")), "boolean"), Literal(-0.0, "double"), Literal(0.0, "double")),
    "double",
)
"""Values that SQL holds for equal."""


def _rows(table: str, suffix: str = "", value: Expr = ONE) -> Rel:
    scan = Scan(table, ("x", "y", "z"), (X, Y, Z))
    one = Project(scan, (Output(X, Ref(X)), Output(Y, Ref(Y)), Output(replace(F, type=value.type), value)))
    return _renamed(one, suffix)


def _renamed(rel: Rel, suffix: str) -> Rel:
    return renamed(rel, tuple(Column(c.id + suffix, c.name, c.type) for c in rel.columns))


def _sums(rel: Rel, call: AggregateCall = SUM) -> Rel:
    return Aggregate(rel, (Output(X, Ref(X)),), (AggregateOutput(S, call),))


def _of_value(function: str, *more: Expr) -> AggregateCall:
    return AggregateCall(function, (Ref(F), *more), "double")


def _window(rel: Rel, call: AggregateCall = SUM) -> Rel:
    return Window(rel, (Ref(X),), (), (WindowOutput(S, call, Frame("rows", None, CURRENT_ROW)),))


def _with_itself(rel: Rel) -> Rel:
    """Two uses of one value: they are the same value."""
    other = _renamed(rel, "2")
    pairs = zip(rel.columns, other.columns, strict=True)
    return Join(rel, other, "inner", conjunction(*(same(Ref(a), Ref(b)) for a, b in pairs)))


def _joined(rel: Rel) -> Rel:
    other = _rows("s", "3")
    return Join(rel, other, "left", same(Ref(rel.columns[0]), Ref(other.columns[0])))


def _beside_its_filter(rel: Rel) -> Rel:
    """A filter that may be taken below the sums: then they are computed again."""
    other = Filter(_renamed(rel, "2"), same(Ref(Column("x2", "x", "int")), Literal(1, "int")))
    return Join(rel, other, "left", same(Ref(rel.columns[1]), Ref(other.columns[1])))


def _is(rel: Rel, column: int, value: int) -> Rel:
    return Filter(rel, same(Ref(rel.columns[column]), Literal(value, "int")))


PICKS: dict[str, Rel] = {
    "least": _sums(_rows("r", value=ZERO), _of_value("Min")),
    "greatest, twice": _with_itself(_sums(_rows("r", value=ZERO), _of_value("Max"))),
    "least, joined": _joined(_sums(_rows("r", value=ZERO), _of_value("Min"))),
    "least without keys": Aggregate(_rows("r", value=ZERO), (), (AggregateOutput(S, _of_value("Min")),)),
    "least in a window": _window(_rows("r", value=ZERO), _of_value("Min")),
    "first": _sums(_rows("r", value=OTHER), _of_value("First")),
    "first, twice": _with_itself(_sums(_rows("r", value=OTHER), _of_value("First"))),
    "by the greatest": _sums(_rows("r", value=OTHER), _of_value("MaxBy", Ref(Y))),
}  # fmt: skip
"""Functions that take one of several values."""

QUERIES: dict[str, Rel] = {
    "sum": _sums(_rows("r")),
    "sum without keys": Aggregate(_rows("r"), (), (AggregateOutput(S, SUM),)),
    "filtered": Filter(_sums(_rows("r")), same(Ref(X), Literal(1, "int"))),
    "twice": _with_itself(_sums(_rows("r"))),
    "joined": _joined(_with_itself(_sums(_rows("r")))),
    "filtered after a join": _is(_joined(_sums(_is(_rows("r"), 1, 1))), 0, 1),
    "filtered before and after": _joined(_with_itself(_is(_sums(_is(_rows("r"), 1, 1)), 0, 1))),
    "on the right": Join(_rows("s", "3"), _sums(_rows("r")), "left", same(Ref(Column("x3", "x", "int")), Ref(X))),
    "beside its filter": _beside_its_filter(_sums(_rows("r"))),
    "union": Union((_sums(_rows("r")), renamed(_sums(_rows("s")), (X, S)))),
    "distinct": Aggregate(_sums(_rows("r")), (Output(S, Ref(S)),), ()),
    "window": _window(_rows("r")),
    "window twice": _with_itself(_window(_rows("r"))),
    "window over sums": Window(_sums(_rows("r")), (Ref(X),), (), (WindowOutput(F, AggregateCall("Count", (), "bigint")),)),
    "average of wide integers": _sums(_rows("r", value=WIDE), MEAN),
    **PICKS,
}  # fmt: skip


class Unstable(Rolled):
    """Each sum of floats is another number."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._numbers = count(10)

    def total(self, total: Exact) -> Exact:
        return float(next(self._numbers))


def _stable(bag: SignedBag | None) -> SignedBag | None:
    """The bag with the numbers left out."""
    if bag is None:
        return None
    return SignedBag(
        (tuple("sum" if isinstance(v, float) and v != 1.0 else v for v in row), w) for row, w in bag.items()
    )


def run_at_random_prices(
    query: Rel, tables: simulate.Tables, points: tuple[Point, ...], methods: tuple[str, ...]
) -> list[SignedBag | None]:
    """One plan from first to last, seldom the cheapest."""
    random = Random(len(str(tables)))
    return simulate.run_plan(query, tables, points, methods, random_prices(random), Unstable(random))


class AnyChoice(Graph):
    """Alternatives cost what a die says."""

    def weighted(self, cost: int, t: int) -> int:
        return self._die.randrange(1, 1000)

    def __init__(self, problem: Problem, methods: tuple[str, ...], die: Random, start: int = 0) -> None:
        self._die = die
        super().__init__(Space(problem), TEMPURA.rules_of(methods), begins=start)

    def candidate(self, begin_anywhere: bool) -> Candidate | None:
        """Such a plan; values that are computed once begin at the last time possible, or at any."""
        return first_candidate(Pricing(self), self._die.choice(self.searches) if begin_anywhere else self.searches[-1])


def run_any_plan(
    query: Rel, tables: simulate.Tables, points: tuple[Point, ...], methods: tuple[str, ...]
) -> list[SignedBag | None]:
    """A plan that no cost model would choose: any that the alternatives allow."""
    facts = {name: table.facts(len(points)) for name, table in tables.items()}
    random = Random(len(str(tables)))
    plan, die = AnyChoice(Problem(query, points, facts), methods, random).candidate(False), Unstable(random)
    states: simulate.States = {}
    return (
        [simulate.run_step(step, tables, states, 0, die) for step in plan.built.steps] if plan else [None] * len(points)
    )


def run_any_plans(
    query: Rel, tables: simulate.Tables, points: tuple[Point, ...], methods: tuple[str, ...]
) -> list[SignedBag | None]:
    """Before each step such a plan, over what the one before has left."""
    die = Random(len(str(tables)))

    def any_plan(problem: Problem, methods: tuple[str, ...]) -> ProgressivePlan:
        starts = ((die.randrange(len(problem.points)), True), (problem.first, False))
        found = (AnyChoice(problem, methods, die, start).candidate(anywhere) for start, anywhere in starts)
        return ProgressivePlan(next(plan.built.steps for plan in found if plan), (), 0, "")

    return simulate.run_replanned(query, tables, points, methods, any_plan, Unstable(die))


def run_replanned(
    query: Rel, tables: simulate.Tables, points: tuple[Point, ...], methods: tuple[str, ...]
) -> list[SignedBag | None]:
    """Before each step the cheapest plan."""
    return simulate.run_replanned(query, tables, points, methods, die=Unstable(Random(len(str(tables)))))


RUNS: tuple[Callable[..., list[SignedBag | None]], ...] = (
    run_at_random_prices,
    run_any_plan,
    run_any_plans,
    run_replanned,
)


@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("batch",), ("im1", "batch"), ("all",)], ids="+".join)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("both", simulate.BOTH)
def test_what_was_emitted_is_taken_away(
    name: str, run: Callable[..., list[SignedBag | None]], methods: tuple[str, ...], both: bool
) -> None:
    query, die = QUERIES[name], Unstable(Random(name))
    for seed in range(CASES):
        random = Random(seed)
        tables = {table: random_table(random, table, TIMES) for table in ("r", "s")}
        # Two of the runs have the one schedule of these tables, two the other one.
        for points in simulate.schedules(VIEW, DEADLINE, seed + RUNS.index(run), both):
            found = run(query, tables, points, methods)
            expected = [simulate.truth(query, tables, t, die) if p.output else None for t, p in enumerate(points)]
            assert list(map(_stable, found)) == list(map(_stable, expected)), f"seed {seed}, tables {tables}"


def test_what_has_such_values_has_them_from_one_place() -> None:
    """Laws give classes members that add up again, above them too; those are left out."""
    left_out = dict.fromkeys(QUERIES, 0)
    for name, query in QUERIES.items():
        tables = {table: random_table(Random(1), table, TIMES).facts(TIMES) for table in ("r", "s")}
        space = Space(Problem(query, VIEW, tables))
        rewriter = Rewriter(space, (TEMPURA.rules_of(("im1",)),), 0)
        for edge in space.memo.classes:
            used = rewriter.operators(View(edge, Snapshot(0)))
            assert {rewriter.facts.lineage(rel) for rel in used} == {rewriter.facts.lineage(edge)}
            unused = [m.rel for m in space.memo.members(edge) if m.rel not in used]
            left_out[name] += sum(not is_order_sensitive(rel) for rel in unused)
    assert left_out["filtered after a join"], "a filter over a join, or a join with what is filtered before it adds up"


@pytest.mark.parametrize("name", QUERIES)
def test_a_snapshot_follows_from_the_stored_one_or_is_computed_anew(name: str) -> None:
    """Were there both ways, what the one gives could be emitted beside a delta that takes away what the other gave."""
    random = Random(1)
    facts = {table: random_table(random, table, TIMES).facts(TIMES) for table in ("r", "s")}
    graph = Graph(Space(Problem(QUERIES[name], VIEW, facts)), TEMPURA.rules_of(("im1", "batch")))
    goals = {
        goal: frozenset(way.rule.name for way in ways if way.rule)
        for goal, ways in explore(graph, graph.outputs).items()
        if isinstance(goal.view.at, Snapshot)
        and goal.view.at.t == goal.time > 0
        and graph.facts.is_computed_once(goal.view.tvr)
    }
    for goal, rules in goals.items():
        from_stored = rules & {"merge_snapshot", "finalize_state"}
        assert len(from_stored) <= 1, f"{goal} by {rules}"
        assert rules in (from_stored, rules - from_stored), f"{goal} by {rules}"
    ways = set(goals.values())
    stateless = name in ("window", "window twice", "least in a window", "first", "first, twice", "by the greatest")
    assert (frozenset({"finalize_state"}) in ways) == (not stateless), "of windows there are no states"
    assert (frozenset({"merge_snapshot"}) in ways) == stateless, "sums follow from states"


def _of(rows: tuple[int, ...]) -> TableFacts:
    return TableFacts(rows, (0,) * len(rows), known=len(rows) - 1, append_only=True)


@pytest.mark.parametrize("methods", [("all",), ("im1",), ("im2",), ("batch",)], ids="+".join)
@pytest.mark.parametrize("name", QUERIES)
def test_a_plan_with_such_values_is_followed(name: str, methods: tuple[str, ...]) -> None:
    """The one way of such a value depends on the rules that there are, those that a plan does not use among them."""
    points = (Point(0.0, False, done=True), Point(1.0, True), Point(1.0, True))
    tables = {"r": _of((10**7, 10**7 + 10**5, 10**7 + 2 * 10**5)), "s": _of((10**6, 10**6 + 10**4, 10**6 + 2 * 10**4))}
    built = make_plan(Problem(QUERIES[name], (Point(1.0, True),) * 3, tables), methods)
    states = frozenset(save.key for save in built.steps[0].saves)
    asked = Problem(QUERIES[name], points, tables, states)
    plan = make_plan(asked, methods)
    again = make_plan(asked, methods, course=plan.course)
    assert again.course is plan.course
    assert again.cost == plan.cost
    assert again.effort.plans_costed <= 4, "by the same choices, without a search"
