"""States in parts on Spark: appended, merged when they are read, written together; the same rows as over bags in every case."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Consolidate, Join, Project, Rel, Union, Values
from tempura.algebra.scalar import Call, Column, Expr, Output, Ref, equal
from tempura.algebra.states import Finalize, MergeStates, Partial
from tempura.execute.local import BagExecutor
from tempura.execute.parts import stored_facts
from tempura.execute.spark import SparkExecutor
from tempura.physical.operators import Load, StateKey
from tempura.plan.progressive import Save, Step
from tests.spark.bags import signed_bag
from tests.spark.test_execute_steps import (
    DR,
    DS,
    FIRST,
    KEYS,
    NEW_SALES,
    NEW_STATE,
    R0,
    S0,
    SALES,
    SALES_1,
    SECOND,
    STATE_1,
    TOTALS,
    Store,
    exchanges,
    tables,
)

SALES_2, STATE_2 = StateKey("a" * 8, "snapshot", 2), StateKey("c" * 8, "state", 2)
MORE_SALES: Rel = Consolidate(Union((Load(SALES_1, SALES.outputs), DS)))
MORE_STATE = MergeStates(Load(STATE_1, NEW_STATE.columns), Partial(DS, KEYS, TOTALS), KEYS, TOTALS)
THIRD = Step(
    2, (Save(STATE_2, MORE_STATE, (0,)), Save(SALES_2, MORE_SALES, (0,))), Finalize(MORE_STATE, KEYS, TOTALS), 0
)


@pytest.mark.parametrize("few", [False, True], ids=["grouped", "few deleted"])
@pytest.mark.parametrize("kept", [9, 1], ids=["appended", "partly merged"])
def test_states_in_parts_equal_the_bag_executor(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, few: bool
) -> None:
    if few:
        monkeypatch.setattr("tempura.physical.deletions.LARGE_BYTES", 0)
        monkeypatch.setattr("tempura.physical.deletions.PART", 1.0)
    monkeypatch.setattr("tempura.execute.spark.parts_to_keep", lambda stored, *_: min(kept, len(stored.parts)))
    arrivals = tables(1)
    store, local = Store(spark, tmp_path, arrivals), BagExecutor(dict(arrivals).__getitem__)
    for step in (FIRST, SECOND):
        store.run(step)
        local.run(step)
    half = SignedBag(list(local.states[SALES_1].items())[::2])
    arrivals[DS] = tables(2)[S0] - half
    local = BagExecutor(arrivals.__getitem__, local.states)
    outcome = store.run(THIRD)
    expected = local.run(THIRD)
    assert [len(store.states[key].parts) for key in (SALES_1, SALES_2)] == [2, 3 if kept == 9 else 2]
    assert [len(store.states[key].parts) for key in (STATE_1, STATE_2)] == [2, 3 if kept == 9 else 2]
    for key, bag in local.states.items():
        assert store.bag(key) == bag, str(key)
    assert outcome.output is not None
    assert expected.output is not None
    assert outcome.output.rows == expected.output.size
    for stored in store.states.values():
        assert stored.parts[0].path.startswith(str(tmp_path))
    assert (store.states[SALES_2].weighted, store.states[STATE_2].weighted) == (True, False)
    assert [(stored_facts(store.states[key]).few is not None) for key in (SALES_2, STATE_2)] == [few, False]


def test_a_state_without_columns_is_appended_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempura.execute.spark.parts_to_keep", lambda stored, *_: len(stored.parts))
    store, local = Store(spark, tmp_path, tables(1)), BagExecutor(tables(1).__getitem__)
    first, second = (StateKey("d" * 8, "snapshot", time) for time in (0, 1))
    more = Union((Load(first, ()), Project(DR, ())))
    for step in (Step(0, (Save(first, Project(R0, ())),), None, 0), Step(1, (Save(second, more),), None, 0)):
        store.run(step)
        local.run(step)
    assert len(store.states[second].parts) == 2
    assert store.bag(second) == local.states[second]


def same(left: Expr, right: Expr) -> Call:
    return Call("EqualNullSafe", (left, right), "boolean")


SOME_KEYS = Values((Column("g", "g", "string"),), (("a",), ("b",), (None,)))
STATE, NAMED = Load(STATE_2, NEW_STATE.columns), tuple(replace(c, id=f"{c.id}x") for c in NEW_STATE.columns)
RENAMED = Project(STATE, tuple(Output(new, Ref(old)) for new, old in zip(NAMED, STATE.columns, strict=True)))
GROUPS = [
    Join(STATE, SOME_KEYS, "semi", same(Ref(STATE.columns[0]), Ref(SOME_KEYS.outputs[0]))),
    Join(RENAMED, SOME_KEYS, "semi", equal(Ref(NAMED[0]), Ref(SOME_KEYS.outputs[0]))),
    Join(Load(SALES_2, SALES.outputs), SOME_KEYS, "semi", same(Ref(SALES.outputs[1]), Ref(SOME_KEYS.outputs[0]))),
]
"""Of a state, of one under other names, and of a bag."""


@pytest.mark.parametrize("groups", GROUPS, ids=["state", "renamed", "bag"])
def test_groups_are_taken_out_of_each_part_before_these_are_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: Join
) -> None:
    monkeypatch.setattr("tempura.execute.spark.parts_to_keep", lambda stored, *_: len(stored.parts))
    arrivals = tables(1)
    store, local = Store(spark, tmp_path, arrivals), BagExecutor(dict(arrivals).__getitem__)
    for step in (FIRST, SECOND):
        store.run(step)
        local.run(step)
    arrivals[DS] = tables(2)[S0] - SignedBag(list(local.states[SALES_1].items())[::2])
    local = BagExecutor(arrivals.__getitem__, local.states)
    store.run(THIRD)
    local.run(THIRD)
    run = SparkExecutor(spark, store.rows, store.states.__getitem__)
    found, expected = run.dataframe(groups), local.bag(groups)
    assert 0 < expected.size < local.bag(groups.left).size
    assert signed_bag(found, len(groups.columns)) == expected
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert plan.index("Aggregate") < plan.index("Join"), plan


def test_what_else_is_asked_of_a_state_is_asked_of_all_of_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition on what the merge gives, not on what it groups by."""
    monkeypatch.setattr("tempura.execute.spark.parts_to_keep", lambda stored, *_: len(stored.parts))
    arrivals = tables(1)
    store, local = Store(spark, tmp_path, arrivals), BagExecutor(arrivals.__getitem__)
    for step in (FIRST, SECOND):
        store.run(step)
        local.run(step)
    state = Load(STATE_1, NEW_STATE.columns)
    (place,) = (i for i, column in enumerate(state.columns) if column == NEW_STATE.layout.rows)
    counts = [n for row, _ in local.bag(state).items() if isinstance(n := row[place], int)]
    fewest = Values((Column("g", "g", "bigint"),), ((min(counts),),))
    asked = Join(state, fewest, "semi", equal(Ref(state.columns[place]), Ref(fewest.outputs[0])))
    found = SparkExecutor(spark, store.rows, store.states.__getitem__).dataframe(asked)
    expected = local.bag(asked)
    assert 0 < expected.size < local.bag(state).size
    assert signed_bag(found, len(asked.columns)) == expected


def test_merging_buckets_needs_no_exchange(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempura.execute.spark.parts_to_keep", lambda stored, *_: len(stored.parts))
    store = Store(spark, tmp_path, tables(1))
    for step in (FIRST, SECOND):
        store.run(step)
    run = SparkExecutor(spark, store.rows, store.states.__getitem__)
    assert len(store.states[STATE_1].parts) == 2
    assert exchanges(run.dataframe(Load(STATE_1, NEW_STATE.columns))) == 0
    assert exchanges(run.dataframe(Load(SALES_1, NEW_SALES.columns))) == 0


def test_a_sum_without_deletions_is_read_as_it_lies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first part has weights, for it was consolidated; the second has none, and nothing is grouped, however large both are."""
    monkeypatch.setattr("tempura.physical.deletions.LARGE_BYTES", 0)
    monkeypatch.setattr("tempura.execute.spark.parts_to_keep", lambda stored, *_: len(stored.parts))
    arrivals = tables(1)
    store = Store(spark, tmp_path, arrivals)
    store.run(Step(0, (Save(SALES_1, Consolidate(Union((S0, DS)))),), None, 0))
    store.run(Step(1, (Save(SALES_2, Union((Load(SALES_1, SALES.outputs), S0))),), None, 0))
    assert [part.weighted for part in store.states[SALES_2].parts] == [True, False]
    assert store.bag(SALES_2) == arrivals[S0] + arrivals[DS] + arrivals[S0]
    read = SparkExecutor(spark, store.rows, store.states.__getitem__).dataframe(Load(SALES_2, SALES.outputs))
    plan = read._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan, plan
    assert "Aggregate" not in plan, plan
