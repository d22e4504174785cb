"""Example 1 of the Tempura paper by higher-order views: the view of Eq. 4.16 of the dissertation, with what it needs for NULL.

``M = (COUNT(*) n, COUNT(cost) nn, SUM(-cost))`` by order, maintained from the returns; a new sale adds its price where nothing was
returned, and ``(n - nn) price`` and the total where something was.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tempura.algebra.bag import Row, SignedBag
from tempura.algebra.rel import Aggregate, Rel
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Ref
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.explain.text import explain
from tempura.laws.check import draw
from tempura.plan.progressive import ProgressivePlan
from tempura.rules.methods import REWRITES
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.laws.hov_mutants import summary_by_corrected_view, summary_by_printed_view
from tests.plans.random_queries import Table
from tests.plans.simulate import States, Tables, run_step, truth
from tests.unit.test_example1 import COST, GROSS, KEYS, PRICE, RETURNS, SALES, SALES_STATUS, SAME_ORDER

MINUS_COST = Call("UnaryMinus", (Ref(COST),), "int", "legacy")
"""Which fails for no cost, so that it may be computed before the join."""
REVENUE = Call("If", (Call("IsNull", (Ref(COST),), "boolean"), Ref(PRICE), MINUS_COST), "int")
SUMMARY = SALES_STATUS.aggregate(KEYS, tuple(replace(g, call=replace(g.call, operands=(REVENUE,))) for g in GROSS))
VIEW = (Point(1.0, True), Point(1.0, True), Point(1.0, True))


def expected(table: Table) -> TableFacts:
    """Many rows of few orders: what arrives is little of them."""
    known = table.facts(len(VIEW))
    columns = {"o_id": ColumnStats(1e5), "cat": ColumnStats(10)}
    inserted, deleted = (10_000_000, 10_000_100, 10_000_200), (0, 10, 20)
    return replace(known, inserted=inserted, deleted=deleted, append_only=False, columns=columns)


def plan(tables: Tables) -> ProgressivePlan:
    """By views alone: the deltas that they are another form of are left out."""
    query: Rel = SUMMARY.rel
    without = {rule.name for rule in REWRITES} | {"state_delta_without_views"}
    problem = Problem(query, VIEW, {name: expected(table) for name, table in tables.items()})
    return make_plan(problem, ("hov",), without=without)


def arrivals(random: Random, row: Callable[[Random], Row]) -> tuple[SignedBag, ...]:
    """What arrives and is taken back at three times."""
    made = [SignedBag.of(row(random) for _ in range(random.randrange(6)))]
    for _ in VIEW[1:]:
        there = sum(made, SignedBag())
        gone = [found for found in there.rows() if random.random() < 0.3]
        made.append(SignedBag.of(row(random) for _ in range(random.randrange(4))) - SignedBag.of(gone))
    return tuple(made)


def sale(random: Random) -> Row:
    return (random.choice((None, 1, 2, 3)), random.choice(("c1", "c2", None)), random.choice((None, 100, 150)))


def returned(random: Random) -> Row:
    return (random.choice((None, 1, 2, 3)), random.choice((None, None, 10, 20)))


def random_tables(seed: int) -> Tables:
    random = Random(seed)
    return {"sales": Table("sales", arrivals(random, sale)), "returns": Table("returns", arrivals(random, returned))}


def test_plan_with_the_corrected_view(golden: Callable[[str, str], None]) -> None:
    golden("equation-4.16-hov", explain(plan(random_tables(0)), show=("rule",), labels=("t1", "t2", "t3")))


def test_summary_is_exact_with_missing_costs_and_prices_several_returns_and_deletions() -> None:
    steps = plan(random_tables(0)).steps
    for seed in range(150):
        tables, states = random_tables(seed), States()
        for t, step in enumerate(steps):
            assert run_step(step, tables, states) == truth(SUMMARY.rel, tables, t), seed


def test_equation_as_printed_is_refuted_and_its_correction_is_not() -> None:
    kinds = {
        law: {draw(law, seed)[1].kind for seed in range(150)}
        for law in (summary_by_printed_view, summary_by_corrected_view)
    }
    assert kinds == {summary_by_printed_view: {"holds", "refuted"}, summary_by_corrected_view: {"holds"}}


def test_views_are_grouped_by_order_and_count_what_has_no_cost() -> None:
    saved = [
        save.rel for step in plan(random_tables(0)).steps for save in step.saves if isinstance(save.rel, Aggregate)
    ]
    views = {tuple(map(str, rel.keys)): {str(a.call) for a in rel.aggregates} for rel in saved}
    assert views == {
        ("o_id",): {"Count(*)", "Count(cost)", "Sum(UnaryMinus(cost; legacy); ansi)"},
        ("o_id", "cat"): {"Count(*)", "Count(price)", "Sum(price; ansi)"},
    }


def test_what_is_no_sum_has_no_views_and_the_plan_says_so() -> None:
    least = AggregateOutput(Column("summary.least", "least", "int"), AggregateCall("Min", (Ref(PRICE),), "int"))
    query = SALES.join(RETURNS, SAME_ORDER).aggregate(KEYS, (least,)).rel
    growing = {name: replace(expected(table), deleted=(0,) * len(VIEW)) for name, table in random_tables(0).items()}
    plan = make_plan(Problem(query, VIEW, growing), ("hov",), without=("delta_aggregate_by_groups",))
    assert {reason.code for reason in plan.fallbacks} == {"HOV_NOT_A_SUM"}


OWN = {
    "im1": "delta_left_join_reduced",
    "im2": "merge_parts_into_state",
    "ojv": "delta_left_join_of_gains",
    "hov": "state_delta_by_padded_views",
}
"""The methods, and what only the plan by each of them does."""

ONLY_GROWS = TableFacts(
    (10_000_000, 10_000_100, 10_000_200),
    (0, 0, 0),
    1,
    append_only=True,
    columns={"o_id": ColumnStats(1e5), "cat": ColumnStats(10)},
)


def growing_tables(seed: int) -> Tables:
    """Rows come at three times, and none is taken back."""
    random = Random(seed)

    def come(row: Callable[[Random], Row]) -> tuple[SignedBag, ...]:
        return tuple(SignedBag.of(row(random) for _ in range(random.randrange(5))) for _ in VIEW)

    return {"sales": Table("sales", come(sale)), "returns": Table("returns", come(returned))}


def test_four_methods_have_four_plans_of_one_problem_and_each_is_exact() -> None:
    """IM-1 retracts, IM-2 holds back what may have to be retracted, OJV looks at one table at a time, HOV at views of the others."""
    problem = Problem(SUMMARY.rel, VIEW, {"sales": ONLY_GROWS, "returns": ONLY_GROWS})
    without = {rule.name for rule in REWRITES} | {"state_delta_without_views"}
    plans = {method: make_plan(problem, (method,), without=without) for method in OWN}
    steps = {explain(plan).partition("\nstep ")[2] for plan in plans.values()}
    assert len(steps) == len(OWN), "what is done differs, not only what it is called"
    used = {
        method: {note.rule for step in plan.steps for note in step.notes.values()} for method, plan in plans.items()
    }
    for method, rule in OWN.items():
        assert {other for other, rules in used.items() if rule in rules} == {method}
    for seed in range(50):
        tables = growing_tables(seed)
        for method, plan in plans.items():
            states = States()
            found = [run_step(step, tables, states) for step in plan.steps]
            assert found == [truth(SUMMARY.rel, tables, t) for t in range(len(VIEW))], f"{method}, seed {seed}"
