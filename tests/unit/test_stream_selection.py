"""Selection of caches: each algorithm against the optimum by brute force, on random orders, costs and candidates."""

from itertools import chain, combinations
from random import Random

import pytest

from tempura.bench.stream_inputs import on_one_attribute
from tempura.bench.stream_instances import nested_orders, random_problem
from tempura.streams.approximation import greedy, relaxed_cost, rounded
from tempura.streams.cache import Group
from tempura.streams.candidates import all_candidates, is_possible
from tempura.streams.memory import PAGE, Need, allocate
from tempura.streams.selection import Priced, Problem, exhaustive, recursive


def overlaps(chosen: tuple[Priced, ...] | list[Priced]) -> bool:
    return any(a.candidate.overlaps(b.candidate) for a, b in combinations(chosen, 2))


def optimum(problem: Problem) -> float:
    sets = chain.from_iterable(combinations(problem.candidates, k) for k in range(len(problem.candidates) + 1))
    allowed = (s for s in sets if not overlaps(s) and problem.may([p.candidate for p in s]))
    return min(problem.total(s) for s in allowed)


@pytest.mark.parametrize("seed", range(40))
def test_the_recursive_choice_is_optimal_without_sharing(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(rng, rng.randint(3, 7), shared=False)
    assert not problem.is_shared
    chosen = recursive(problem)
    assert not overlaps(chosen)
    assert problem.total(chosen) == pytest.approx(optimum(problem))


@pytest.mark.parametrize("seed", range(40))
def test_the_exhaustive_choice_is_optimal(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(rng, rng.randint(3, 6), shared=True)
    chosen = exhaustive(problem)
    assert not overlaps(chosen)
    assert problem.total(chosen) == pytest.approx(optimum(problem))


def test_sharing_matters() -> None:
    """The recursive choice, which knows no sharing, is worse on some of the problems above."""
    problems = [random_problem(Random(seed), 5, shared=True) for seed in range(40)]
    assert any(p.total(recursive(p)) > p.total(exhaustive(p)) * 1.001 for p in problems)


@pytest.mark.parametrize("seed", range(40))
def test_the_approximations_are_within_the_bound(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(rng, rng.randint(4, 7), shared=True)
    best, bound = problem.total(exhaustive(problem)), sum(1 / k for k in range(1, len(problem.joins) + 1))
    for chosen in (greedy(problem), rounded(problem, rng)):
        assert not overlaps(chosen)
        assert best - 1e-9 <= problem.total(chosen) <= best * bound
    assert relaxed_cost(problem) <= best + 1e-6


def test_global_caches_are_chosen_only_if_they_can_be_used_together() -> None:
    for seed in range(30):
        rng = Random(seed)
        query, orders = on_one_attribute("RSTU", 10), nested_orders(rng, 4)
        candidates = all_candidates(query, orders, 6)
        assert len(candidates) == 6
        joins = {(i, k): rng.uniform(0.1, 10) for i in range(4) for k in range(3)}
        upkeep = {c.group: rng.uniform(0, 5) for c in candidates}
        priced = tuple(Priced(c, rng.uniform(0, 1), upkeep[c.group]) for c in candidates)
        problem = Problem(joins, priced, lambda used, query=query, orders=orders: is_possible(query, orders, used))  # type: ignore[misc]
        assert problem.total(exhaustive(problem)) == pytest.approx(optimum(problem))


def test_memory_goes_to_the_greatest_gain_per_byte() -> None:
    one, other, third = (Group((n, n + 1), (0,)) for n in range(3))
    needs = {one: Need(10.0, 4 * PAGE), other: Need(9.0, 2 * PAGE), third: Need(1.0, 2 * PAGE)}
    assert allocate(needs, 5 * PAGE) == {other: 2 * PAGE, one: 3 * PAGE, third: 0}
    assert allocate(needs, None) == {one: None, other: None, third: None}
    given = [sum(v or 0 for v in allocate(needs, budget).values()) for budget in range(0, 10 * PAGE, 700)]
    assert given == sorted(given)
    assert all(total <= budget for total, budget in zip(given, range(0, 10 * PAGE, 700), strict=True))
