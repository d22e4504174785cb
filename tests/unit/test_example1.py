"""Example 1 of the Tempura paper (section 2.2, figure 1): revenue after returns, by IM-1, by IM-2 and by OJV.

These are plans that the planner makes with the rules of one method, run on bags. What a step computes is counted as the paper does:
the tuples that arrive at the outer join plus the tuples that enter the aggregate, deletions included.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Rel, Scan
from tempura.algebra.scalar import (
    AggregateCall,
    AggregateOutput,
    Call,
    Column,
    Output,
    Ref,
    equal,
)
from tempura.algebra.states import Partial
from tempura.explain.text import explain
from tempura.memo.edge import Edge
from tempura.physical.operators import Read
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.rules.methods import REWRITES, TEMPURA
from tempura.search.best import explore
from tempura.search.events import RuleMatched, Trace
from tempura.search.graph import Graph
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.search.space import Space
from tempura.tvr.tvr import Tvr
from tempura.tvr.views import Delta, Snapshot
from tests.plans.random_queries import Table
from tests.plans.simulate import States, Tables, leaves, run_step, truth

T1, T2 = 0, 1
PRICES = (0.2, 1.0)
"""The cost of a tuple at t1 and at t2."""

O_ID, CATEGORY, PRICE = (Column(f"sales.{n}", n, t) for n, t in (("o_id", "int"), ("cat", "string"), ("price", "int")))
R_ID, COST = (Column(f"returns.{n}", n, "int") for n in ("o_id", "cost"))
SALES = Tvr(Scan("sales", ("o_id", "cat", "price"), (O_ID, CATEGORY, PRICE)))
RETURNS = Tvr(Scan("returns", ("o_id", "cost"), (R_ID, COST)))
SAME_ORDER = equal(Ref(O_ID), Ref(R_ID))
STATUS_COLUMNS = tuple(Output(c, Ref(c)) for c in (O_ID, CATEGORY, PRICE, COST))
SALES_STATUS = SALES.left_join(RETURNS, SAME_ORDER).project(STATUS_COLUMNS)
REVENUE = Call(
    "If",
    (Call("IsNull", (Ref(COST),), "boolean"), Ref(PRICE), Call("UnaryMinus", (Ref(COST),), "int")),
    "int",
)
KEYS = (Output(Column("summary.cat", "cat", "string"), Ref(CATEGORY)),)
GROSS = (AggregateOutput(Column("summary.gross", "gross", "bigint"), AggregateCall("Sum", (REVENUE,), "bigint")),)
SUMMARY = SALES_STATUS.aggregate(KEYS, GROSS)

Arrivals = tuple[list[Row], list[Row]]
"""The rows that arrive at t1 and at t2."""

SOLD: Arrivals = (
    [(1, "c1", 100), (2, "c2", 150), (3, "c1", 120), (4, "c1", 170)],
    [(5, "c2", 300), (6, "c1", 150), (7, "c2", 220)],
)
RETURNED: Arrivals = ([(1, 10)], [(2, 20), (6, 15)])


def tables(returned: Arrivals) -> Tables:
    """Both tables over t1 and t2."""
    return {"sales": _table("sales", SOLD), "returns": _table("returns", returned)}


def _table(name: str, arrivals: Arrivals) -> Table:
    return Table(name, tuple(map(SignedBag.of, arrivals)))


@dataclass(frozen=True)
class Work:
    """What a step of a plan lets into the aggregate, how many tuples it computes, and the summary if it is due."""

    entered: SignedBag
    tuples: int
    summary: SignedBag | None


def problem(tables: Tables, query: Rel) -> Problem:
    """A result at t2; work at t1 is cheap."""
    points = tuple(Point(price, output=t == T2) for t, price in enumerate(PRICES))
    return Problem(query, points, {name: table.facts(len(points)) for name, table in tables.items()})


def plan(method: str, tables: Tables) -> ProgressivePlan:
    """The planner's plan with the rules of a method, the paper's; of IM-1 with one of the rules for the delta of a left join."""
    without = {rule.name for rule in REWRITES}
    if method in LEFT_JOINS:
        method, without = "im1", without | (set(LEFT_JOINS) - {method})
    return make_plan(problem(tables, SUMMARY.rel), (method,), without=without)


def run(method: str, tables: Tables) -> list[Work]:
    """Both steps of the plan."""
    states: States = {}
    return [work(step, tables, states) for step in plan(method, tables).steps]


def work(step: Step, tables: Tables, states: States) -> Work:
    """Run a step and count its tuples."""
    leaf = leaves(tables, states)
    roots = [save.rel for save in step.saves] + ([step.emit] if step.emit else [])
    nodes = dict.fromkeys(rel for root in roots for rel in root.walk())
    arrived = sum(leaf(rel).size for rel in nodes if arrives(rel, step.time))
    entered = [evaluate(rel.input, leaf) for rel in nodes if isinstance(rel, Partial)]
    tuples = arrived + sum(bag.size for bag in entered)
    return Work(sum(entered, SignedBag()), tuples, run_step(step, tables, states))


def arrives(rel: Rel, t: int) -> bool:
    """Whether a leaf reads what arrives at t; before t1 there was nothing."""
    return isinstance(rel, Read) and rel.at == (Snapshot(T1) if t == T1 else Delta(t - 1, t))


def cost(works: list[Work]) -> float:
    """The weighted number of tuples."""
    return sum(price * work.tuples for price, work in zip(PRICES, works, strict=True))


LEFT_JOINS = ("delta_left_join", "delta_left_join_reduced", "delta_left_join_split")


@pytest.fixture(params=LEFT_JOINS)
def im1(request: pytest.FixtureRequest) -> str:
    """IM-1 with one of the rules for the delta of a left join."""
    return str(request.param)


@pytest.mark.parametrize("method", ["im1", "im2"])
def test_plans_of_figure_4_3(method: str, golden: Callable[[str, str], None]) -> None:
    """Figure 4.3 of the dissertation; the delta of the outer join is figure 4.6, the parts of IM-2 are figure 4.7."""
    golden(f"figure-4.3-{method}", explain(plan(method, tables(RETURNED)), show=("rule",), labels=("t1", "t2")))


def test_plan_of_figure_4_8(golden: Callable[[str, str], None]) -> None:
    """Returns move before sales do. Then the directly affected part is S ⋈ R and the indirectly affected one S ▷ R, which is stored
    (equations 4.9, 4.11, 4.14); when sales move, S ⟕ R is affected directly (4.10, 4.12)."""
    golden("figure-4.8", explain(plan("ojv", tables(RETURNED)), show=("rule",), labels=("t1", "t2")))


def test_parts_by_table_as_in_equations_4_9_and_4_10() -> None:
    trace = Trace()
    asked = problem(tables(RETURNED), SALES.left_join(RETURNS, SAME_ORDER).rel)
    space = Space(asked, trace)
    links = space.links(TEMPURA.methods["ojv"], 0)
    status = space.query
    parts = {(kind, table): links.part(status, kind, table) for kind in "DIU" for table in ("returns", "sales")}
    empty = {
        name for name, part in parts.items() if part is not None and not part.inputs and not isinstance(part, Edge)
    }
    assert empty == {("U", "returns"), ("I", "sales"), ("U", "sales")}
    names = {
        name: space.memo.tree(part).label for name, part in parts.items() if part is not None and name not in empty
    }
    assert names[("D", "returns")].startswith("inner-join")
    assert names[("D", "sales")].startswith("left-join")
    indirect = parts["I", "returns"]
    assert indirect is not None
    assert space.memo.tree(indirect).inputs[0].label.startswith("anti-join")


def test_ojv_lets_into_the_aggregate_what_figure_4_8_shows() -> None:
    """As IM-1 does, but made of two parts: o2 with its return, directly, and without it, indirectly."""
    first, second = run("ojv", tables(RETURNED))
    assert first.entered == run("delta_left_join", tables(RETURNED))[0].entered
    assert second.entered == SignedBag(
        [
            ((2, "c2", 150, 20), 1),
            ((2, "c2", 150, None), -1),
            ((5, "c2", 300, None), 1),
            ((6, "c1", 150, 15), 1),
            ((7, "c2", 220, None), 1),
        ]
    )
    assert second.summary == SignedBag.of([("c1", 265), ("c2", 500)])


def test_growth_of_the_memo_as_in_figure_4_10(golden: Callable[[str, str], None]) -> None:
    """First the query's classes, then the parts into which IM-2 splits the outer join, then snapshots and deltas of those."""
    trace = Trace()
    asked = problem(tables(RETURNED), SALES.left_join(RETURNS, SAME_ORDER).rel)
    graph = Graph(Space(asked, trace), TEMPURA.methods["im2"])
    explore(graph, graph.outputs)
    events = (event for event in trace.events if not isinstance(event, RuleMatched))
    golden("figure-4.10", f"{chr(10).join(map(str, events))}\n\n{graph.memo}")


def test_im1_emits_figure_1c(im1: str) -> None:
    first, second = run(im1, tables(RETURNED))
    assert first.entered == SignedBag.of(
        [(1, "c1", 100, 10), (2, "c2", 150, None), (3, "c1", 120, None), (4, "c1", 170, None)]
    )
    assert second.entered == SignedBag(
        [
            ((2, "c2", 150, None), -1),
            ((2, "c2", 150, 20), 1),
            ((5, "c2", 300, None), 1),
            ((6, "c1", 150, 15), 1),
            ((7, "c2", 220, None), 1),
        ]
    )


def test_im2_emits_figure_1d() -> None:
    first, second = run("im2", tables(RETURNED))
    assert first.entered == SignedBag.of([(1, "c1", 100, 10)])
    assert second.entered == SignedBag.of(
        [
            (2, "c2", 150, 20),
            (3, "c1", 120, None),
            (4, "c1", 170, None),
            (5, "c2", 300, None),
            (6, "c1", 150, 15),
            (7, "c2", 220, None),
        ]
    )


def test_both_methods_give_the_summary_of_figure_1b(im1: str) -> None:
    expected = SignedBag.of([("c1", 265), ("c2", 500)])
    assert [run(method, tables(RETURNED))[1].summary for method in (im1, "im2")] == [expected, expected]


@pytest.mark.parametrize(
    ("late_returns", "im1_tuples", "im2_tuples", "im1_cost", "im2_cost"),
    [
        pytest.param([(2, 20), (6, 15)], (9, 10), (6, 11), 11.8, 12.2, id="figure 1"),
        pytest.param([(2, 20), (4, 15)], (9, 12), (6, 11), 13.8, 12.2, id="o4 in place of o6"),
        pytest.param([(2, 20), (6, 15), (4, 15)], (9, 13), (6, 12), 14.8, 13.2, id="o4 in addition to o6"),
    ],
)
def test_tuples_and_costs_of_the_paper(
    im1: str,
    late_returns: list[Row],
    im1_tuples: tuple[int, int],
    im2_tuples: tuple[int, int],
    im1_cost: float,
    im2_cost: float,
) -> None:
    data = tables((RETURNED[0], late_returns))
    one, two = run(im1, data), run("im2", data)
    assert tuple(work.tuples for work in one) == im1_tuples
    assert tuple(work.tuples for work in two) == im2_tuples
    assert cost(one) == pytest.approx(im1_cost)
    assert cost(two) == pytest.approx(im2_cost)
    assert one[1].summary == two[1].summary == truth(SUMMARY.rel, data, T2)
