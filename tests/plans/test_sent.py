"""Which side of a join the plan sends to every task."""

from dataclasses import replace

import pytest

from tempura.algebra.rel import Join
from tempura.cost import joins
from tempura.cost.bounds import Bounds
from tempura.cost.model import SPARK
from tempura.plan.progressive import Step
from tempura.search.planner import make_plan
from tempura.search.problem import Problem
from tests.plans.test_kept import PER_DAY, REFRESH, first_load, left_by, tables

CAREFUL = replace(SPARK, broadcast_bound=20_000_000)


def sent(step: Step) -> dict[Join, int | None]:
    return {rel: note.broadcast for rel, note in step.notes.items() if isinstance(rel, Join)}


def refresh() -> Step:
    stored = left_by(first_load(PER_DAY).steps[0])
    asked = Problem(PER_DAY, REFRESH, tables(0, 1, 2), frozenset(stored), stored, CAREFUL)
    return make_plan(asked, ("im1",)).steps[0]


def test_few_rows_are_sent_though_keys_would_allow_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """New sales of a kind, some ten thousand rows, meet 15 million orders, which must not be shuffled for that. Nothing warrants that no
    new sale is of many items."""
    step = refresh()
    rows = Bounds(lambda leaf: step.notes[leaf].rows)
    unsure = [(j, i) for j, i in sent(step).items() if i is not None and rows.rows(j.inputs[i]) > 2e6]
    assert unsure
    assert all(step.notes[join.inputs[side]].rows < 50_000 for join, side in unsure)
    monkeypatch.setattr(joins, "AT_MOST", 1e9)
    unsent = refresh()
    assert None in sent(unsent).values(), "an estimate that may be off by any factor decides nothing"
    assert unsent.cost > step.cost, "what is not sent is not priced as if it were"


def test_of_two_large_sides_none_is_sent() -> None:
    step = first_load(PER_DAY).steps[0]
    large = [j for j in sent(step) if min(step.notes[i].rows for i in j.inputs if i in step.notes) > 2e6]
    assert large
    assert all(sent(step)[join] is None for join in large)
