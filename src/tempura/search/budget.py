"""Plans whose states fit into a budget: the search goes on with a rent for each byte that is kept, in the place of the budget.

To minimise the work within a budget is a knapsack over whole plans; a rent (the budget's Lagrange multiplier) turns it into the search that
there is. What fits at some rent is exact in what it keeps and in its work; a plan that is the cheapest at no rent is not found.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tempura.display import bytes_text
from tempura.errors import Reason, TempuraError
from tempura.plan.progressive import ProgressivePlan
from tempura.rules.registry import ALL
from tempura.search.problem import Problem

STATE_BUDGET = "STATE_BUDGET"
"""The code of what is not kept, not loaded or refused for a budget."""

_ROUNDS = 6
"""So many rents are tried, each of which takes a search."""

_LEAST, _MOST = 1e-3, 10.0
"""The rents that are tried lie between, as parts of what the best plan of all takes per byte that it keeps."""


def within_budget(
    problem: Problem,
    plans: Sequence[ProgressivePlan],
    search: Callable[[float], Sequence[ProgressivePlan]],
    best_of: Callable[[Sequence[ProgressivePlan]], ProgressivePlan],
    is_sound: Callable[[ProgressivePlan], bool],
) -> ProgressivePlan:
    """The best plan if its states fit into the problem's budget; else of those of ``plans`` that do, and of those that ``search`` finds at
    some rent per byte, with what was left for the budget, those that are ``is_sound``. Raises TempuraError STATE_BUDGET when none fits."""
    unbound = best_of(plans)
    if problem.allows(unbound.state_bytes):
        return unbound
    found, least = list(plans), unbound
    per_byte = unbound.cost / unbound.state_bytes
    low, high = _LEAST * per_byte, _MOST * per_byte
    for _ in range(_ROUNDS):
        rent = (low * high) ** 0.5
        more = search(rent)
        found += more
        least = min((least, *more), key=lambda plan: plan.state_bytes)
        cheapest = min(more, key=lambda plan: _with_rent(plan, rent), default=None)
        fits = cheapest is not None and problem.allows(cheapest.state_bytes)
        low, high = (low, rent) if fits else (rent, high)
    fitting = [plan for plan in found if problem.allows(plan.state_bytes) and is_sound(plan)]
    if not fitting:
        raise _too_little(problem, least)
    best = best_of(fitting)
    budget, needed = bytes_text(problem.state_budget or 0), bytes_text(unbound.state_bytes)
    left = f"by {unbound.method} {_share(unbound, best)} would be saved, but some {needed} kept: more than the {budget} of the budget"
    return replace(best, fallbacks=(*best.fallbacks, Reason(STATE_BUDGET, left)))


def _with_rent(plan: ProgressivePlan, rent: float) -> float:
    return plan.cost + rent * sum(step.state_bytes for step in plan.steps)


def _share(unbound: ProgressivePlan, best: ProgressivePlan) -> str:
    return f"{max(0.0, 1 - unbound.cost / best.cost):.0%} of the work"


def _too_little(problem: Problem, least: ProgressivePlan) -> TempuraError:
    what = f"no plan with these methods keeps states of {bytes_text(problem.state_budget or 0)} or less"
    what += f"; the least that was found takes some {bytes_text(least.state_bytes)}."
    remedy = f"Allow {' or '.join((ALL, *sorted(problem.registry.recomputing)))}, or raise the state budget."
    return TempuraError("STATE_BUDGET", what, remedy)
