"""Where deletions are taken out of the rows of a step."""

from dataclasses import replace

import pytest

from tempura.algebra.rel import Aggregate, Consolidate, Filter, Join, Rel, TopK
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Call, Column, Literal, Output, Ref, SortKey, equal
from tempura.algebra.states import Finalize, Partial
from tempura.cost.estimate import Estimator
from tempura.cost.model import SPARK
from tempura.physical.operators import Read
from tempura.plan.progressive import Note, Step
from tempura.search.consolidation import consolidated_late
from tempura.search.problem import Problem
from tempura.search.space import Space
from tempura.tvr.views import Snapshot
from tests.plans.test_kept import FIRST_LOAD, ITEM, ITEMS, KIND, PER_DAY, PRICE, SALES, SOLD, tables

FACTS = tables(0, 1, known=1)
DELETED = {**FACTS, "sales": replace(FACTS["sales"], deleted=(600, 1_200))}
READ, ALL_ITEMS = Read(SALES, Snapshot(0), signed=True), Read(ITEMS, Snapshot(0))
SOME = Filter(ALL_ITEMS, equal(Ref(KIND), Literal(1, "int")))
JOINED = Join(Consolidate(READ), SOME, "inner", equal(Ref(SOLD), Ref(ITEM)))


def total(rel: Rel, call: AggregateCall) -> Aggregate:
    sums = AggregateOutput(Column("t", "total", call.type), call)
    return Aggregate(rel, (Output(Column("key", "kind", "int"), Ref(KIND)),), (sums,))


def step(rel: Rel) -> Step:
    """A step whose estimates are those of the tables, and 10,000 rows for what comes of joins."""
    estimate = Estimator(DELETED)
    rows = {r: 10_000 if isinstance(r, Join | Aggregate | TopK) else estimate.rows(r) for r in rel.walk()}
    notes = {r: Note(n, SPARK.operator(r, estimate)) for r, n in rows.items()}
    return Step(0, (), rel, sum(note.cost for note in notes.values()), notes)


def late(rel: Rel) -> Step:
    space = Space(Problem(PER_DAY, FIRST_LOAD, DELETED))
    return consolidated_late(step(rel), space.facts, Estimator(DELETED), SPARK)


def below(found: Step, kind: type[Rel]) -> list[Rel]:
    assert found.emit is not None
    return [rel.inputs[0] for rel in found.emit.walk() if isinstance(rel, kind)]


SUM = AggregateCall("Sum", (Ref(PRICE),), "bigint", detail="ansi")


def test_sums_over_joins_need_no_consolidation() -> None:
    found = late(total(JOINED, SUM))
    assert isinstance(found.emit, Finalize)
    assert below(found, Consolidate) == []
    assert found.cost < step(total(JOINED, SUM)).cost
    assert set(found.operators) == set(found.notes)


@pytest.mark.parametrize("call", [AggregateCall("Max", (Ref(PRICE),), "int"), replace(SUM, distinct=True)])
def test_what_has_no_linear_state_is_consolidated_after_the_join(call: AggregateCall) -> None:
    found = late(total(JOINED, call))
    assert isinstance(found.emit, Aggregate)
    assert [type(rel) for rel in below(found, Consolidate)] == [Join]


def test_the_result_is_positive() -> None:
    found = late(JOINED)
    assert isinstance(found.emit, Consolidate)
    assert [type(rel) for rel in below(found, Consolidate)] == [Join]


def test_what_fails_for_a_row_is_not_computed_for_deleted_ones() -> None:
    ratio = Call("Divide", (Literal(1.0, "double"), Call("Cast", (Ref(PRICE),), "double", "ansi")), "double", "ansi")
    failing = AggregateCall("Count", (ratio,), "bigint")
    assert [type(rel) for rel in below(late(total(JOINED, failing)), Partial)] == [Consolidate]
    assert [type(rel) for rel in below(late(total(JOINED, SUM)), Partial)] == [Join]


def test_where_more_rows_would_be_consolidated_nothing_moves() -> None:
    """A right side of an anti-join has to be positive as it is."""
    missing = Join(SOME, Consolidate(READ), "anti", equal(Ref(ITEM), Ref(SOLD)))
    assert late(missing) == step(missing)
    many = TopK(Consolidate(Filter(READ, equal(Ref(PRICE), Literal(3, "int")))), (SortKey(Ref(SOLD)),), 10)
    assert late(many) == step(many)


def test_many_deletions_are_taken_out_first() -> None:
    lost = {**FACTS, "sales": replace(FACTS["sales"], deleted=(20_000_000, 20_000_000))}
    space = Space(Problem(PER_DAY, FIRST_LOAD, lost))
    asked = step(total(JOINED, SUM))
    assert consolidated_late(asked, space.facts, Estimator(lost), SPARK) is asked
