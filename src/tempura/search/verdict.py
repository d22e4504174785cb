"""Which of several plans is chosen: the cheapest, unless that is a bet, or hardly cheaper than the usual one."""

from collections.abc import Sequence

from tempura.plan.progressive import ProgressivePlan, doubted


def best_of(plans: Sequence[ProgressivePlan], margin: float, doubt: float) -> ProgressivePlan:
    """The plan to choose, with ``margin`` and ``doubt`` as in ``make_plan``."""
    # Among equals the simplest: no mixture, and a recompute rather than states that do not pay.
    cheapest = min(plans, key=lambda plan: (plan.cost, plan.method.count("+"), plan.method != "batch"))
    return _unless_a_bet(cheapest, plans, margin, doubt)


def _unless_a_bet(
    cheapest: ProgressivePlan, plans: Sequence[ProgressivePlan], margin: float, doubt: float
) -> ProgressivePlan:
    """The cheapest plan; recomputation instead if that is cheaper now, and later dearer by less than may be wrong in the estimates; or if
    the other one would be dearer by as much as is doubted of it."""
    batch = next((plan for plan in plans if plan.method == "batch"), cheapest)
    is_bet = doubt * cheapest.steps[0].cost > batch.steps[0].cost
    promised = (1 - margin) * batch.cost if is_bet else batch.cost
    return batch if doubt * cheapest.cost > promised else cheapest


def stays(before: ProgressivePlan, cheapest: ProgressivePlan, margin: float, doubt: float) -> bool:
    """Whether another plan than the one before is the cheapest that was found, but saves less than the margin of what that costs."""
    return before.cost != cheapest.cost and (1 - margin) * doubted(before, doubt) < doubted(cheapest, doubt)
