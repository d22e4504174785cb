"""When a view is saved that later times use: at its earliest time where Theorem 4.1 (Texera, section 4.6) holds, else where it is cheapest.

The theorem says that only the earliest time need be considered where work is the cheaper the earlier it is done, since what is there may be
used or not. It takes for granted that to use what is saved costs no more than to use what has just been computed. Where a load costs
something that is not so, and a view may better be saved when it is first used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from random import Random

import pytest

from tempura.algebra.rel import Aggregate, Join, Rel, Scan
from tempura.algebra.scalar import AggregateCall, AggregateOutput, Column, Output, Ref, equal
from tempura.algebra.states import Partial
from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.cost.stats import ColumnStats, StoredFacts, TableFacts
from tempura.plan.progressive import ProgressivePlan
from tempura.rules.methods import REWRITES
from tempura.search.planner import make_plan
from tempura.search.problem import Point, Problem

GROUPS = 10
KEY, VALUE, OF = Column("k", "k", "int"), Column("v", "v", "int"), Column("o", "k", "int")
TOTALS = Aggregate(
    Scan("still", ("k", "v"), (KEY, VALUE)),
    (Output(Column("g", "g", "int"), Ref(KEY)),),
    (AggregateOutput(Column("n", "n", "bigint"), AggregateCall("Count", (), "bigint")),),
)
"""What does not change, and is needed at each time at which rows of the other table have come."""

QUERY = Join(Scan("moving", ("k",), (OF,)), TOTALS, "inner", equal(Ref(OF), Ref(TOTALS.columns[0])))


@dataclass(frozen=True, slots=True)
class Only(CostModel):
    """Prices of the totals alone, whatever they read: to compute them, to save them, and to load them."""

    compute: int = 0
    save: int = 0
    use: int = 0

    def operator(self, rel: Rel, estimate: Estimator) -> int:
        return self.compute if isinstance(rel, Aggregate | Partial) else 0

    def write(self, rows: float, row_bytes: float, shuffled: bool = False) -> int:
        return self.save if rows == GROUPS else 0

    def load(self, rows: float, row_bytes: float, stored: StoredFacts, whole: bool = True, selected: int = 0) -> int:
        return self.use if rows == GROUPS else 0


def asked(prices: Only, *weights: float) -> Problem:
    """The result is due at all times but the first."""
    columns = {"k": ColumnStats(GROUPS), "v": ColumnStats(GROUPS)}
    rows = tuple(1_000 * (t + 1) for t in range(len(weights)))
    tables = {
        "still": TableFacts((1_000,) * len(rows), (0,) * len(rows), 1, static=True, columns=columns),
        "moving": TableFacts(rows, (0,) * len(rows), 1, columns=columns),
    }
    return Problem(QUERY, tuple(Point(weight, t > 0) for t, weight in enumerate(weights)), tables, prices=prices)


def planned(prices: Only, *weights: float, method: str = "all") -> ProgressivePlan:
    return make_plan(asked(prices, *weights), (method,), without={rule.name for rule in REWRITES})


def saved_at(plan: ProgressivePlan) -> list[int]:
    """When the totals are saved."""
    return [step.time for step in plan.steps for save in step.saves if step.notes[save.rel].rows == GROUPS]


def enumerated(prices: Only, weights: tuple[float, ...], times: tuple[int, ...]) -> float:
    """What it costs to compute and save at some times, and to load whatever is there, or to compute where that is cheaper."""
    cost = 0.0
    for t, weight in enumerate(weights):
        if t in times:
            cost += weight * (prices.compute + prices.save)
        elif t:
            is_there = any(s < t for s in times)
            cost += weight * (min(prices.compute, prices.use) if is_there else prices.compute)
    return cost


def best_of(prices: Only, weights: tuple[float, ...], choices: Iterator[tuple[int, ...]]) -> float:
    return min(enumerated(prices, weights, times) for times in choices)


def any_times(weights: tuple[float, ...]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(range(len(weights)), n) for n in range(len(weights) + 1))


COUNTER_EXAMPLE = Only(compute=10_000, save=1_000, use=6_000)
RISING = (0.9, 1.0, 1.000001)
LEXICOGRAPHIC = (1.0, 1e3, 1e6)
"""The prices of times under which the cost of the last step decides, then that of the one before it (``c_v``)."""


@pytest.mark.parametrize("method", ["im1", "batch"])
def test_the_counter_example_to_theorem_4_1_is_saved_at_its_first_use(method: str) -> None:
    """Computed at the second time, and saved for the third: 17.0. Computed at the first time, saved, and loaded twice: 21.9."""
    plan = planned(COUNTER_EXAMPLE, *RISING, method=method)
    assert saved_at(plan) == [1]
    assert plan.cost == pytest.approx(17_000, abs=1)
    assert enumerated(COUNTER_EXAMPLE, RISING, (0,)) == pytest.approx(21_900, abs=1)
    assert enumerated(COUNTER_EXAMPLE, RISING, ()) == pytest.approx(20_000, abs=1)


def test_the_counter_example_is_none_where_the_last_step_decides() -> None:
    """The last step loads, whenever the view was saved; so does the one before it, which is cheaper than to compute and to save."""
    plan = planned(COUNTER_EXAMPLE, *LEXICOGRAPHIC)
    assert saved_at(plan) == [0]
    assert [step.cost for step in plan.steps] == [11_000, 6_000, 6_000]


@pytest.mark.parametrize("seed", range(12))
def test_the_earliest_time_is_the_best_where_to_use_what_is_saved_costs_nothing(seed: int) -> None:
    """Theorem 4.1: where prices of times rise, a view is saved when it becomes current, or not at all, and that is the cheapest of all."""
    random = Random(seed)
    prices = Only(compute=random.randint(1, 10_000), save=random.randint(0, 15_000))
    weights = tuple(sorted(random.sample(range(1, 100), 4)))
    plan = planned(prices, *weights)
    assert saved_at(plan) in ([0], [])
    assert plan.cost == best_of(prices, weights, iter([(0,), ()])) == best_of(prices, weights, any_times(weights))


def test_the_theorem_is_tried_where_saving_pays_and_where_it_does_not() -> None:
    found = [saved_at(planned(Only(compute=1_000, save=save), 1, 2, 3)) for save in (2_500, 6_000)]
    assert found == [[0], []]


@pytest.mark.parametrize("seed", range(24))
def test_whatever_the_prices_no_choice_of_times_is_cheaper(seed: int) -> None:
    """Weights that rise, fall, or do both: the plan is the best of all sets of times at which the view may be computed and saved."""
    random = Random(seed)
    prices = Only(compute=random.randint(1, 10_000), save=random.randint(0, 5_000), use=random.randint(0, 9_000))
    weights = tuple(random.randint(1, 9) for _ in range(4))
    assert planned(prices, *weights).cost == best_of(prices, weights, any_times(weights))


def test_what_is_dear_to_save_now_is_saved_when_that_is_cheap() -> None:
    """A view that stays as it is need not be saved when it becomes current: work is dear then, and cheap at the next time."""
    prices = Only(compute=10_000, save=5_000, use=1_000)
    plan = planned(prices, 10.0, 0.1, 10.0, 10.0)
    assert saved_at(plan) == [1]
    assert plan.steps[0].is_empty
    assert [step.cost for step in plan.steps] == [0, 15_000, 1_000, 1_000]


def test_what_is_cheap_to_save_now_is_saved_now() -> None:
    plan = planned(Only(compute=10_000, save=5_000, use=1_000), 0.1, 10.0, 10.0, 10.0)
    assert saved_at(plan) == [0]
