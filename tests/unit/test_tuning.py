"""Which steps are small: by what they read, whatever they are expected to make of it."""

import pytest

from tempura.algebra.rel import Scan, Union
from tempura.algebra.scalar import Column
from tempura.execute.contract import Part, StoredState
from tempura.execute.tuning import is_small
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import Note, Save, Step
from tempura.tvr.views import Snapshot

A = Column("a", "a", "bigint")
READ = Read(Scan("t", ("a",), (A,)), Snapshot(0))
KEY = StateKey("f" * 12, "snapshot", 0)
LOAD = Load(KEY, (A,))


def stored(rows: int) -> StoredState:
    return StoredState(("bigint",), (), 0, "", (Part("p", rows, 1),))


@pytest.mark.parametrize(("read", "loaded", "small"), [(10, 10, True), (10, 10**8, False), (10**8, 10, False)])
def test_a_step_is_small_when_all_that_it_reads_is(read: int, loaded: int, small: bool) -> None:
    both = Union((READ, LOAD))
    step = Step(1, (), both, 0, {READ: Note(read, 0), LOAD: Note(1, 0), both: Note(1, 0)})
    assert is_small(step, lambda key: stored(loaded)) == small


def test_a_step_of_which_nothing_is_known_is_not_small() -> None:
    assert not is_small(Step(1, (), READ, 0), lambda key: stored(1))


def test_what_a_step_saves_itself_is_known_by_its_note() -> None:
    step = Step(1, (Save(KEY, READ),), LOAD, 0, {READ: Note(5, 0), LOAD: Note(5, 0)})
    assert is_small(step, lambda key: stored(10**9))
