"""How a query is cut: segments at blocking operators, a path per leaf, equal sub-plans once; and what is shown of it."""

import json

import pytest

from tempura.algebra.one import One, beside
from tempura.algebra.rel import Filter, Join, Project, Rel, TopK, Union, Values
from tempura.algebra.scalar import TRUE, Call, Column, Literal, Output, Ref, SortKey, equal
from tempura.explain.paces import explain_paces, paces_json, paces_picture
from tempura.pace.arrivals import arriving
from tempura.pace.cut import cut
from tempura.pace.goal import Goal, Plan
from tempura.pace.simulate import Simulation
from tempura.pace.statistics import estimated
from tempura.pace.strategies import plan_paces
from tests.unit.pace_queries import ITEM, ITEMS, NAME, PRICE, SALES, counted, dearest, facts, joined, per_item, summed


def names(query: Rel) -> list[tuple[str, list[str]]]:
    made = cut(query)
    return [(s.name.split()[0], [path.name for path in s.paths]) for s in made.segments]


def test_segments_end_at_blocking_operators() -> None:
    assert names(per_item()) == [
        ("aggregate", ["sales"]),
        ("aggregate", ["items", "s0"]),
        ("result", ["s1"]),
    ]
    assert names(dearest()) == [("aggregate", ["sales"]), ("top", ["s0"]), ("result", ["s1"])]


def test_what_does_not_block_stays_in_one_segment() -> None:
    assert names(Filter(joined(), TRUE)) == [("result", ["items", "sales"])]
    assert names(SALES) == [("result", ["sales"])]


def test_a_blocking_operator_used_twice_is_one_segment_with_two_paths() -> None:
    first = summed(SALES, ITEM)
    again = Project(first, tuple(Output(column.derived("again", column.type), Ref(column)) for column in first.columns))
    both = Join(first, again, "inner", equal(Ref(first.columns[0]), Ref(again.columns[0])))
    assert names(both) == [("aggregate", ["sales"]), ("result", ["s0", "s0"])]


def test_a_scalar_sub_query_is_a_segment() -> None:
    first = Project(One(TopK(SALES, (SortKey(Ref(PRICE)),), 1)), (Output(Column("p", "p", "bigint"), Ref(PRICE)),))
    assert [name for name, _ in names(beside(ITEMS, first))] == ["top", "one", "result"]


def test_paths_of_a_segment_are_below_the_paths_that_start_at_it() -> None:
    made = cut(per_item())
    start = {str(path): [child.name for child in made.below(path)] for path in made.paths}
    assert start == {"p0 sales": [], "p1 items": [], "p2 s0": ["sales"], "p3 s1": ["items", "s0"]}
    assert made.respects((4, 1, 4, 1))
    assert not made.respects((4, 1, 5, 1))
    assert not made.respects((4, 1, 4, 2))


def test_constants_need_no_path() -> None:
    values = Values((Column("v", "v", "int"),), ((1,), (2,)))
    assert names(Union((values, values))) == [("result", [])]


@pytest.fixture(name="plan")
def _plan() -> Plan:
    made = cut(per_item())
    simulation = Simulation(made, estimated(made, facts(1000, 50)), arriving({"sales": 1000.0, "items": 50.0}, 20))
    return plan_paces(simulation, Goal(final_work=0.2))


def test_the_text_has_each_path_with_its_pace(plan: Plan) -> None:
    text = explain_paces(plan)
    for path in plan.cut.paths:
        assert f"path p{path.number} from {path.name}  [pace={plan.paces[path.number]}" in text
    assert "<- chosen" in text
    assert "final work 0.2: met" in text


def test_the_data_can_be_written_and_says_the_same(plan: Plan) -> None:
    found = json.loads(json.dumps(paces_json(plan), allow_nan=False))
    assert [path["pace"] for path in found["paths"]] == list(plan.paces)
    assert found["curve"][0]["paces"] == [1, 1, 1, 1]
    assert found["meets"] is True
    assert found["final"] <= 0.2 * found["batch"]


def test_the_picture_has_a_dot_per_point_and_escapes_names(plan: Plan) -> None:
    page = paces_picture(plan)
    assert page.count("<circle") == len(plan.curve) + 1
    assert "&lt;- chosen" in page
    assert ">= 100" not in page.replace("&gt;= 100", "")


def test_a_filter_above_an_aggregation_is_of_the_next_segment() -> None:
    always = Call("EqualTo", (Literal(1, "int"), Literal(1, "int")), "boolean")
    assert names(Filter(counted(SALES), always)) == [("aggregate", ["sales"]), ("result", ["s0"])]


def above(rel: Rel, least: int) -> Filter:
    """The rows of which the total is more."""
    total = next(column for column in rel.columns if column.type == "bigint")
    return Filter(rel, Call("GreaterThan", (Ref(total), Literal(least, "bigint")), "boolean"))


def test_what_all_readers_of_a_segment_begin_with_is_known() -> None:
    totals = summed(SALES, ITEM)
    key, total = totals.columns
    picked = Project(totals, (Output(Column("x", "total", "bigint"), Ref(total)),))
    left, right = above(totals, 10), above(picked, 20)
    both = cut(Join(left, right, "semi", equal(Ref(left.columns[1]), Ref(right.columns[0]))))
    found = list(both.readers(both.segments[0]).values())
    assert [str(condition) for condition in found] == [str(left.predicate), str(above(totals, 20).predicate)]
    one = cut(Join(left, totals, "semi", equal(Ref(key), Ref(key))))
    assert one.readers(one.segments[0]) == {}, "the other reads all of it"
    assert both.readers(both.result) == {}, "the user reads the result"
    joined_first = cut(above(Join(totals, ITEMS, "inner", equal(Ref(key), Ref(NAME))), 10))
    assert joined_first.readers(joined_first.segments[0]) == {}
