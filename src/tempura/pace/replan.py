"""Paces planned again while data comes, from what was measured and how much has come: the flushes that have been stay
as they were, the paces of those to come are chosen anew. The paper plans once."""

from dataclasses import replace

import numpy as np

from tempura.pace.arrivals import Arrivals
from tempura.pace.cut import Cut
from tempura.pace.flow import Mask
from tempura.pace.goal import Goal
from tempura.pace.simulate import Simulation
from tempura.pace.statistics import Statistics
from tempura.pace.strategies import plan_paces


def planned_again(cut: Cut, statistics: Statistics, arrivals: Arrivals, goal: Goal, flushes: Mask, step: int) -> Mask:
    """The flushes of all steps, after so many of them. What has come by then is known; what is to come is expected to
    come steadily."""
    known = replace(arrivals, shares=_expected(arrivals, step))
    whole = Simulation(cut, statistics, known)
    batch = float(whole.run([[1] * len(cut.paths)]).total[0])
    simulation = Simulation(cut, statistics, known, past=flushes[:, :step])
    plan = plan_paces(simulation, goal, batch=batch)
    return simulation.flushes(plan.paces)


def _expected(arrivals: Arrivals, step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rest = np.linspace(arrivals.shares[step - 1], 1.0, arrivals.steps - step + 1)[1:]
    return np.concatenate((arrivals.shares[:step], rest))
