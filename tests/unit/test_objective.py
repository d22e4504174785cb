"""A cost of one's own: a sum with a price for each time is taken, and what has no optimal substructure is refused with an example."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tempura as tp
from tempura.errors import TempuraError
from tempura.warehouse.times.objective import Cost, Seconds

weights = st.lists(st.floats(0, 1e3).map(lambda w: round(w, 3)), min_size=1, max_size=6)


@given(weights, st.floats(0, 1e3))
def test_a_sum_is_found_whatever_there_is_to_pay_anyway(prices: list[float], fee: float) -> None:
    found = tp.Schedule.weights_of(lambda spent: fee + sum(map(float.__mul__, prices, spent)), len(prices))
    assert found == pytest.approx(prices, abs=1e-9)


def test_its_weights_are_the_prices_of_a_schedule() -> None:
    times = ("14:00", "24:00")
    prices = tp.Schedule.weights_of(lambda spent: 0.05 * spent[0] + 0.2 * (spent[0] + spent[1]), len(times))
    schedule = tp.Schedule.progressive(dict(zip(times, prices, strict=True)))
    assert schedule.weights == pytest.approx((0.25, 0.2))


def least_of(spent: Seconds) -> float:
    return min(spent)


def most_of(spent: Seconds) -> float:
    return max(spent)


def dearer_beyond_a_quota(spent: Seconds) -> float:
    return spent[0] + 0.1 * spent[1] + 5 * max(0.0, spent[1] - 1_000)


def cheaper_in_bulk(spent: Seconds) -> float:
    return spent[0] + 10 * math.log1p(spent[1])


def product(spent: Seconds) -> float:
    return (1 + spent[0]) * (1 + spent[1])


@pytest.mark.parametrize("cost", [least_of, most_of, dearer_beyond_a_quota, cheaper_in_bulk, product])
def test_what_has_no_optimal_substructure_is_refused_with_an_example_that_shows_it(cost: Cost) -> None:
    with pytest.raises(TempuraError) as error:
        tp.Schedule.weights_of(cost, 2)
    assert error.value.code == "BAD_SCHEDULE"
    assert "it has no optimal substructure" in error.value.what
    less, more, rest = (tuple(map(float, part.split(")")[0].split(", "))) for part in error.value.what.split("(")[1:4])
    assert cost(less) < cost(more)
    assert cost(tuple(map(sum, zip(less, rest, strict=True)))) > cost(tuple(map(sum, zip(more, rest, strict=True))))


def root_of_a_sum(spent: Seconds) -> float:
    """It orders plans as the sum does, and is none."""
    return math.sqrt(spent[0] + 2 * spent[1])


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (root_of_a_sum, "by what a second costs at each time"),
        (lambda spent: 3 - spent[0], "a second at some time makes it less"),
        (lambda spent: float("nan"), "It is nan for"),
        (lambda spent: "cheap", "It is 'cheap' for"),
        (lambda spent: spent[7], "It fails for"),
        (lambda spent: True, "It is True for"),
    ],
)
def test_what_is_no_sum_is_refused(cost: Callable[[Seconds], float], said: str) -> None:
    with pytest.raises(TempuraError) as error:
        tp.Schedule.weights_of(cost, 2)
    assert error.value.code == "BAD_SCHEDULE"
    assert said in error.value.what


@pytest.mark.parametrize("times", [0, -1, True, 1.5])
def test_there_are_times(times: int) -> None:
    with pytest.raises(TempuraError, match="BAD_SCHEDULE"):
        tp.Schedule.weights_of(sum, times)
