"""What is maintained, and what is computed again: of large tables, the rules that plans use and the reasons that they give. The same
plans are run on small bags."""

from decimal import Decimal
from math import inf
from random import Random

import pytest

from tempura.algebra.rel import Aggregate, Filter, Rel, Scan, TopK
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey
from tempura.cost.stats import ColumnStats, TableFacts
from tempura.errors import TempuraError
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tests.plans import simulate
from tests.plans.random_queries import ANY_STYLE, ONLY_INSERTS, random_table

X, Y, Z = (Column(name, name, "int") for name in "xyz")
VIEW = (Point(1.0, output=True),) * 3
ROWS = (100_000_000, 100_001_000, 100_002_000)
CASES = 20

_R = Scan("r", ("x", "y", "z"), (X, Y, Z))
_POSITIVE = Call("GreaterThan", (Ref(Z), Literal(0, "int")), "boolean")


def _top(rel: Rel) -> Rel:
    return TopK(rel, (SortKey(Ref(rel.columns[0])), SortKey(Ref(rel.columns[-1]), ascending=False)), 2)


def _grouped(*calls: AggregateCall, keys: tuple[Column, ...] = (X,)) -> Rel:
    made = (AggregateOutput(Column(f"a{i}", f"a{i}", call.type), call) for i, call in enumerate(calls))
    return Aggregate(_R, tuple(Output(key, Ref(key)) for key in keys), tuple(made))


def _count(*columns: Column, distinct: bool = True, positive: bool = False) -> AggregateCall:
    return AggregateCall("Count", tuple(map(Ref, columns)), "bigint", distinct, _POSITIVE if positive else None)


_WIDE = Call("If", (_POSITIVE, Literal(Decimal(1), "decimal(38,0)"), Literal(None, "decimal(38,0)")), "decimal(38,0)")
_SUM = AggregateCall("Sum", (Ref(Z),), "bigint", detail="ANSI")

MAINTAINED: dict[str, tuple[Rel, str, tuple[str, ...]]] = {
    "distinct": (_grouped(_count(Y), _count(Y, positive=True), _SUM), "split_distinct_aggregate", ANY_STYLE),
    "distinct pairs": (_grouped(_count(Y, Z), _count(distinct=False)), "split_distinct_aggregate", ANY_STYLE),
    "distinct without keys": (_grouped(_count(Y), _SUM, keys=()), "split_distinct_aggregate", ANY_STYLE),
    "distinct beside a count of wide decimals": (
        _grouped(_count(Y), AggregateCall("Count", (_WIDE,), "bigint"), keys=()),
        "split_distinct_aggregate",
        ANY_STYLE,
    ),
    "distinct arguments": (_grouped(_count(Y), _count(Z, Y), _SUM), "split_distinct_arguments", ANY_STYLE),
    "distinct arguments without keys": (_grouped(_count(Y), _count(Z), keys=()), "split_distinct_arguments", ANY_STYLE),
    "top": (_top(_R), "merge_top", ONLY_INSERTS),
    "top of some": (_top(Filter(_R, _POSITIVE)), "merge_top", ONLY_INSERTS),
}
"""Queries, the rule without which they would be computed again, and the histories of tables for which it holds."""

COMPUTED_AGAIN: dict[str, tuple[Rel, str]] = {
    "top under deletions": (_top(_R), "TOP_K: only the sort is repeated"),
    "distinct beside what has no state": (
        _grouped(_count(Y), AggregateCall("Percentile", (Ref(Z),), "double"), keys=()),
        "DISTINCT_AGGREGATE: Count(DISTINCT y)",
    ),
}


def _facts(append_only: bool) -> TableFacts:
    distinct = {"x": ColumnStats(1_000), "y": ColumnStats(100), "z": ColumnStats(100)}
    return TableFacts(ROWS, (0, 0, 0) if append_only else (0, 10, 20), 1, append_only=append_only, columns=distinct)


def _cost_without(rule: str, asked: Problem) -> float:
    """What the plan would cost; more than anything if there is none."""
    try:
        return make_plan(asked, ("im1",), without=(rule,)).cost
    except TempuraError as error:
        if error.code != "NO_PLAN":
            raise
        return inf


@pytest.mark.parametrize("name", MAINTAINED)
def test_what_is_maintained_needs_no_reason(name: str) -> None:
    query, rule, styles = MAINTAINED[name]
    asked = Problem(query, VIEW, {"r": _facts(styles is ONLY_INSERTS)})
    plan = make_plan(asked, ("im1",))
    assert not plan.fallbacks
    assert plan.cost < _cost_without(rule, asked)
    for seed in range(CASES):
        tables = {"r": random_table(Random(seed), "r", 3, styles)}
        states: simulate.States = {}
        found = [simulate.run_step(step, tables, states) for step in plan.steps]
        assert found == [simulate.truth(query, tables, t) for t in range(3)], f"seed {seed}"


@pytest.mark.parametrize("name", COMPUTED_AGAIN)
def test_what_is_computed_again_has_its_reason(name: str) -> None:
    query, reason = COMPUTED_AGAIN[name]
    plan = make_plan(Problem(query, VIEW, {"r": _facts(append_only=False)}), ("im1",))
    assert [r for r in map(str, plan.fallbacks) if r.startswith(reason)]
