"""Steps over bags, and what the sinks of a step have in common."""

import pytest

from tempura.algebra.bag import SignedBag
from tempura.algebra.rel import Consolidate, Filter, Join, Negate, Project, Rel, Scan, Support, Union, Values
from tempura.algebra.scalar import TRUE, Call, Column, Literal, Output, Ref, equal
from tempura.errors import TempuraError
from tempura.execute.contract import FileSeal, Merge, Part, StoredOutput, StoredState
from tempura.execute.local import BagExecutor
from tempura.execute.sharing import shared, sinks_of
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import Save, Step
from tempura.tvr.views import Delta, Snapshot

X = Column("x", "x", "int")
T = Scan("t", ("x",), (X,))
OLD, NEW = Read(T, Snapshot(0)), Read(T, Delta(0, 1), signed=True)
AT_0, AT_1 = StateKey("a", "snapshot", 0), StateKey("a", "snapshot", 1)
LOADED = Load(AT_0, (X,))
NOW = Consolidate(Union((LOADED, NEW)))
TABLES = {OLD: SignedBag([((1,), 2), ((None,), 1)]), NEW: SignedBag([((1,), -2), ((3,), 1)])}
FIRST = Step(0, (Save(AT_0, OLD),), None, 0)
SECOND = Step(1, (Save(AT_1, NOW),), Filter(NOW, Call("IsNotNull", (Ref(X),), "boolean")), 0)


def local() -> BagExecutor:
    return BagExecutor(TABLES.__getitem__)


def test_a_step_finds_the_states_of_the_one_before() -> None:
    executor = local()
    assert executor.run(FIRST).output is None
    outcome = executor.run(SECOND)
    assert outcome.output == SignedBag([((3,), 1)])
    assert executor.states == {AT_0: TABLES[OLD], AT_1: SignedBag([((3,), 1), ((None,), 1)])}


def test_states_are_positional() -> None:
    other = Column("y", "other", "int")
    bag = BagExecutor(TABLES.__getitem__, {AT_0: TABLES[OLD]}).bag(Load(AT_0, (other,)))
    assert bag == TABLES[OLD]


def test_a_step_may_read_what_it_saves() -> None:
    step = Step(0, (Save(AT_1, LOADED), Save(AT_0, OLD)), LOADED, 0)
    assert local().run(step).output == TABLES[OLD]


def test_a_missing_state_is_named_and_nothing_is_kept() -> None:
    executor = local()
    with pytest.raises(TempuraError) as refusal:
        executor.run(Step(1, (Save(AT_1, OLD),), LOADED, 0))
    assert refusal.value.code == "STATE_MISSING"
    assert not executor.states


@pytest.mark.parametrize("step", [Step(0, (Save(AT_0, NEW),), None, 0), Step(0, (), NEW, 0)], ids=["state", "output"])
def test_what_is_written_must_be_positive(step: Step) -> None:
    with pytest.raises(TempuraError) as refusal:
        local().run(step)
    assert refusal.value.code == "NEGATIVE_WEIGHT"


def test_a_plan_reads_no_views() -> None:
    with pytest.raises(TempuraError) as refusal:
        local().bag(T)
    assert refusal.value.code == "NOT_EXECUTABLE"


def test_states_that_need_one_another_are_refused() -> None:
    step = Step(0, (Save(AT_0, Load(AT_1, (X,))), Save(AT_1, Load(AT_0, (X,)))), None, 0)
    with pytest.raises(TempuraError) as refusal:
        sinks_of(step)
    assert refusal.value.code == "CYCLIC_STEP"


def test_a_sink_comes_after_the_states_inside_it() -> None:
    once = Support(OLD)
    step = Step(0, (Save(AT_1, Negate(Negate(once))), Save(AT_0, once)), once, 0)
    assert [sink.name for sink in sinks_of(step)] == [str(AT_0), str(AT_1), "output"]


def shared_by(saves: tuple[Rel, ...], emit: Rel | None) -> frozenset[Rel]:
    keys = (StateKey(str(i), "snapshot", 0) for i in range(len(saves)))
    return shared(sinks_of(Step(0, tuple(Save(key, rel) for key, rel in zip(keys, saves, strict=True)), emit, 0)))


def test_what_has_several_readers_is_shared() -> None:
    costly, y = Support(OLD), Column("y", "y", "int")
    other = Project(costly, (Output(y, Ref(X)),))
    few = Filter(costly, equal(Ref(X), Literal(1, "int")))
    assert shared_by((few,), other) == {costly}, "two sinks"
    assert shared_by((), Join(few, other, "inner", equal(Ref(X), Ref(y)))) == {costly}, "one sink"
    assert shared_by((), Union((few, few))) == frozenset(), "one reader, which is read twice, is rendered once by Spark"
    assert shared_by((costly,), other) == frozenset(), "a saved one is read from its state"


def test_only_the_topmost_of_shared_expressions_is_kept() -> None:
    top = Filter(Consolidate(Negate(Support(OLD))), TRUE)
    assert shared_by((Negate(top),), Filter(top, TRUE)) == {top}


def test_tables_are_read_again_rather_than_kept() -> None:
    rows = Filter(OLD, TRUE)
    assert shared_by((Negate(rows), Support(rows)), Union((rows, Values((X,), ((1,),))))) == frozenset()


def test_stored_data_survives_json() -> None:
    part = Part("/a b", 10, 99, True, (FileSeal("part-0.parquet", 99, "0ab1"),), weight=-4)
    state = StoredState(("int", "decimal(7,2)"), (1,), 4, "{}", (part, Part("/c", 1, 9)))
    output = StoredOutput(("int",), "{}", (Part("/d", 12, 7), part), Merge(1))
    assert (state.rows, state.bytes, state.weighted) == (11, 108, True)
    assert StoredState.from_json(state.to_json()) == state
    assert (output.rows, output.bytes) == (8, 106)
    assert output.state.rows == 22
    assert StoredOutput.from_json(output.to_json()) == output
    # As it was written before a result could have several parts.
    of_old = {"types": ["int"], "schema": "{}", "part": part.to_json()}
    assert StoredOutput.from_json(of_old) == StoredOutput(("int",), "{}", (part,))


@pytest.mark.parametrize("broken", [{"bucket": "0"}, {"buckets": "1"}, {"types": None}, {"parts": ["/a"]}])
def test_broken_stored_data_is_refused(broken: dict[str, object]) -> None:
    state = StoredState(("int",), (), 0, "{}", (Part("/a", 1, 1),))
    with pytest.raises(TypeError):
        StoredState.from_json(state.to_json() | broken)
