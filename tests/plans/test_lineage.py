"""Values that depend on the physical order of rows have one lineage: what is taken away is what was emitted, whatever a second
computation gives. Here sums of floats differ each time that they are computed; only how often, and beside what, may be compared."""

from collections.abc import Callable
from itertools import count
from random import Random

import pytest

from tempura.algebra import evaluate as interpreter
from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, Union, renamed
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Literal, Output, Ref, conjunction, same
from tempura.algebra.window import CURRENT_ROW, Frame, Window, WindowOutput
from tempura.memo.edge import Edge
from tempura.plan.progressive import Step
from tempura.rules.helpers import is_order_sensitive
from tempura.rules.methods import rules_of
from tempura.search.best import explore
from tempura.search.graph import Graph
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tempura.tvr.views import Snapshot
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


def _rows(table: str, suffix: str = "") -> Rel:
    scan = Scan(table, ("x", "y", "z"), (X, Y, Z))
    one = Project(scan, (Output(X, Ref(X)), Output(Y, Ref(Y)), Output(F, Literal(1.0, "double"))))
    return _renamed(one, suffix)


def _renamed(rel: Rel, suffix: str) -> Rel:
    return renamed(rel, tuple(Column(c.id + suffix, c.name, c.type) for c in rel.columns))


def _sums(rel: Rel) -> Rel:
    return Aggregate(rel, (Output(X, Ref(X)),), (AggregateOutput(S, SUM),))


def _window(rel: Rel) -> Rel:
    return Window(rel, (Ref(X),), (), (WindowOutput(S, SUM, Frame("rows", None, CURRENT_ROW)),))


def _with_itself(rel: Rel) -> Rel:
    """Two uses of one value: they are the same value."""
    other = _renamed(rel, "2")
    pairs = zip(rel.columns, other.columns, strict=True)
    return Join(rel, other, "inner", conjunction(*(same(Ref(a), Ref(b)) for a, b in pairs)))


def _joined(rel: Rel) -> Rel:
    other = _rows("s", "3")
    return Join(rel, other, "left", same(Ref(rel.columns[0]), Ref(other.columns[0])))


QUERIES: dict[str, Rel] = {
    "sum": _sums(_rows("r")),
    "sum without keys": Aggregate(_rows("r"), (), (AggregateOutput(S, SUM),)),
    "filtered": Filter(_sums(_rows("r")), same(Ref(X), Literal(1, "int"))),
    "twice": _with_itself(_sums(_rows("r"))),
    "joined": _joined(_with_itself(_sums(_rows("r")))),
    "on the right": Join(_rows("s", "3"), _sums(_rows("r")), "left", same(Ref(Column("x3", "x", "int")), Ref(X))),
    "union": Union((_sums(_rows("r")), renamed(_sums(_rows("s")), (X, S)))),
    "distinct": Aggregate(_sums(_rows("r")), (Output(S, Ref(S)),), ()),
    "window": _window(_rows("r")),
    "window twice": _with_itself(_window(_rows("r"))),
    "window over sums": Window(_sums(_rows("r")), (Ref(X),), (), (WindowOutput(F, AggregateCall("Count", (), "bigint")),)),
}  # fmt: skip


@pytest.fixture
def unstable_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sum of floats is another number, and the parts of a step share what they compute, as on Spark."""
    numbers = count(2)
    exactly = interpreter._of_values

    def of_values(call: AggregateCall, values: list[tuple[object, int]]) -> object:
        return float(next(numbers)) if call.type == "double" else exactly(call, values)

    def run_step(step: Step, tables: simulate.Tables, states: simulate.States, offset: int = 0) -> SignedBag | None:
        step_at_work = interpreter._Evaluation(simulate.leaves(tables, states, offset))
        saved = {save.key: step_at_work.bag(save.rel) for save in step.saves}
        emitted = None if step.emit is None else step_at_work.bag(step.emit)
        states.update(saved)
        return emitted

    monkeypatch.setattr(interpreter, "_of_values", of_values)
    monkeypatch.setattr(simulate, "run_step", run_step)


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
    return simulate.run_plan(query, tables, points, methods, random_prices(Random(len(str(tables)))))


@pytest.mark.usefixtures("unstable_sums")
@pytest.mark.parametrize("methods", [("im1",), ("im2",), ("batch",), ("im1", "batch"), ("all",)], ids="+".join)
@pytest.mark.parametrize("run", [run_at_random_prices, simulate.run_replanned], ids=["one-plan", "replanned"])
@pytest.mark.parametrize("name", QUERIES)
def test_what_was_emitted_is_taken_away(
    name: str, run: Callable[..., list[SignedBag | None]], methods: tuple[str, ...]
) -> None:
    for seed in range(CASES):
        random = Random(seed)
        tables = {table: random_table(random, table, TIMES) for table in ("r", "s")}
        for points in (VIEW, DEADLINE):
            found = run(QUERIES[name], tables, points, methods)
            expected = [simulate.truth(QUERIES[name], tables, t) if p.output else None for t, p in enumerate(points)]
            assert list(map(_stable, found)) == list(map(_stable, expected)), f"seed {seed}, tables {tables}"


@pytest.mark.parametrize("name", QUERIES)
def test_a_snapshot_follows_from_the_stored_one_or_is_computed_anew(name: str) -> None:
    """Were there both ways, what the one gives could be emitted beside a delta that takes away what the other gave."""
    random = Random(1)
    facts = {table: random_table(random, table, TIMES).facts(TIMES) for table in ("r", "s")}
    graph = Graph(Space(Problem(QUERIES[name], VIEW, facts)), rules_of(("im1", "batch")))
    goals = {
        goal: frozenset(way.rule.name for way in ways if way.rule)
        for goal, ways in explore(graph, graph.outputs).items()
        if isinstance(goal.view.at, Snapshot)
        and goal.view.at.t == goal.time > 0
        and _is_sensitive(graph, goal.view.tvr)
    }
    by_delta = {goal for goal, rules in goals.items() if rules == {"merge_snapshot"}}
    assert all("merge_snapshot" not in rules for goal, rules in goals.items() if goal not in by_delta)
    assert bool(by_delta) == (name != "sum without keys"), "which has no delta but the difference of two snapshots"


def _is_sensitive(graph: Graph, rel: Rel) -> bool:
    operators = [member.rel for member in graph.memo.members(rel)] if isinstance(rel, Edge) else [rel]
    return any(map(is_order_sensitive, operators))
