"""Rows for which an expression fails: which expressions may, where they are computed, and what a run does then."""

from pathlib import Path

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.failing import can_fail, fails_on_pairs
from tempura.algebra.rel import Filter, Join, Project, Rel, Scan
from tempura.algebra.scalar import Call, Column, Expr, Literal, Output, Ref, conjunction, equal
from tempura.cost.stats import TableFacts
from tempura.errors import TempuraError
from tempura.execute.of_data import is_of_data
from tempura.physical.operators import Read
from tempura.rules.core import has_delta
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem
from tempura.warehouse.times.schedule import Schedule
from tests.unit.bag_engine import SHARES
from tests.unit.test_warehouse import DAILY, RETURNS, World, code, fails_once, result

S, N, B = Column("s", "s", "string"), Column("i", "i", "int"), Column("b", "b", "bigint")
D = Column("d", "d", "decimal(12,2)")
X, F = Column("x", "x", "int"), Column("f", "f", "double")


def cast(column: Column, type: str, mode: str = "ansi") -> Call:
    return Call("Cast", (Ref(column),), type, mode)


NEVER: list[Expr] = [
    Ref(S),
    Literal(1, "int"),
    equal(Ref(N), Ref(X)),
    cast(S, "int", "try"),
    cast(S, "int", "legacy"),
    cast(N, "string"),
    cast(N, "bigint"),
    cast(N, "decimal(10,0)"),
    cast(D, "decimal(14,3)"),
    cast(B, "double"),
    Call("Add", (Ref(N), Ref(X)), "int", "legacy"),
    Call("Multiply", (Ref(F), Ref(F)), "double", "ansi"),
    Call("Multiply", (Ref(D), Ref(D)), "decimal(25,4)", "ansi"),
    Call("Subtract", (Ref(D), Ref(D)), "decimal(13,2)", "ansi"),
    Call("Abs", (Ref(N),), "int", "failOnError=False"),
    Call("Coalesce", (Ref(N), Literal(0, "int")), "int"),
]
SOMETIMES: list[Expr] = [
    cast(S, "int"),
    cast(B, "int"),
    cast(D, "decimal(12,3)"),
    cast(N, "decimal(9,0)"),
    Call("Add", (Ref(N), Ref(X)), "int", "ansi"),
    Call("Divide", (Ref(F), Ref(F)), "double", "ansi"),
    Call("Multiply", (Ref(D), Ref(D)), "decimal(24,4)", "ansi"),
    Call("UnaryMinus", (Ref(N),), "int", "failOnError=True"),
    Call("ElementAt", (Ref(S), Ref(N)), "int", "failOnError=True"),
    Call("PythonUDF", (Ref(N),), "int", "f,100,0123"),
    Call("RaiseError", (Ref(S),), "void"),
    Call("Coalesce", (cast(S, "int"), Literal(0, "int")), "int"),
]


@pytest.mark.parametrize("expr", NEVER, ids=str)
def test_what_has_a_value_for_every_row(expr: Expr) -> None:
    assert not can_fail(expr)


@pytest.mark.parametrize("expr", SOMETIMES, ids=str)
def test_what_may_fail_for_a_row(expr: Expr) -> None:
    assert can_fail(expr)


def test_the_keys_of_a_join_are_computed_for_each_row_and_the_rest_of_its_condition_for_pairs() -> None:
    left, right = (S, B), (N,)
    keys = equal(cast(S, "int"), Ref(N))
    of_pairs = Call(
        "GreaterThan", (Call("Add", (cast(B, "int", "try"), Ref(N)), "int", "ansi"), Literal(1, "int")), "boolean"
    )
    assert not fails_on_pairs(keys, left, right)
    assert fails_on_pairs(conjunction(keys, of_pairs), left, right)
    assert fails_on_pairs(equal(cast(S, "int"), Literal(1, "int")), left, right), "it is asked of matching rows only"
    tables = Scan("l", ("s", "b"), left), Scan("r", ("i",), right)
    assert has_delta(Join(*tables, "left", keys))
    assert not has_delta(Join(*tables, "left", conjunction(keys, of_pairs)))


def _reads_of_deletions(query: Rel) -> list[Rel]:
    """What is read with deletions, and not taken together, right below an operator."""
    table = TableFacts((1000, 1100, 1200), (0, 10, 20), 1)
    plan = make_plan(Problem(query, (Point(1.0, True),) * 3, {"t": table}), ("im1",))
    roots = [rel for step in plan.steps for rel in (*(save.rel for save in step.saves), step.emit) if rel]
    below = [rel.inputs[0] for root in roots for rel in root.walk() if isinstance(rel, type(query))]
    return [rel for rel in below if isinstance(rel, Read) and rel.signed]


def test_a_row_that_came_and_went_is_taken_out_before_what_may_fail() -> None:
    scan = Scan("t", ("s",), (S,))
    assert not _reads_of_deletions(Project(scan, (Output(X, cast(S, "int")),)))
    assert _reads_of_deletions(Project(scan, (Output(X, cast(S, "int", "try")),)))
    test = Call("GreaterThan", (cast(S, "int"), Literal(1, "int")), "boolean")
    assert not _reads_of_deletions(Filter(scan, test))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_early_work_that_fails_is_not_done_and_the_result_is_right(world: World) -> None:
    world.wh.add_table("returns", schema=RETURNS)
    query = world.wh.add_query("shares", SHARES, schedule=DAILY)
    world.push([(1, 10), (1, 20), (2, 0)])
    early = query.run(at="14:00", force=True, methods="im1")
    assert [reason.partition(":")[0] for reason in early.fallbacks] == ["FAILED_EARLY"]
    assert (early.method, early.states) == ("none", 0)
    assert query.history()[-1].label.endswith("14:00")
    world.push([(3, 5)], [(2, 0)])
    query.run(at="24:00", force=True, methods="im1")
    assert result(query) == SignedBag.of([(1, 2), (3, 1)])
    assert query.verify()


def test_a_result_that_fails_by_deltas_is_computed_from_the_tables(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.wh.add_table("returns", schema=RETURNS)
    query = world.wh.add_query("shares", SHARES, schedule=Schedule.view(30))
    world.push([(1, 10)])
    query.run(methods="im1")
    world.push([(1, 20)])
    fails_once(world, monkeypatch)
    report = query.run(methods="im1")
    assert report.method == "batch"
    assert "FAILED_INCREMENTALLY" in [reason.partition(":")[0] for reason in report.fallbacks]
    assert result(query) == SignedBag.of([(1, 2)])


def test_a_result_that_fails_as_the_query_does_fails(world: World) -> None:
    world.wh.add_table("returns", schema=RETURNS)
    query = world.wh.add_query("shares", SHARES, schedule=Schedule.view(30))
    world.push([(2, 0)])
    with pytest.raises(TempuraError) as error:
        query.run(methods="im1")
    assert code(error) == "DIVIDE_BY_ZERO"
    assert not query.history()


def test_failures_of_the_system_are_not_of_the_data() -> None:
    assert is_of_data(TempuraError("CAST_INVALID_INPUT", "", ""))
    assert not is_of_data(TempuraError("DISK_FULL", "", ""))
    assert not is_of_data(OSError("no space"))
