"""Recomputing: by the operators of a plan, or by asking Spark the query as it is written. Spark's optimizer knows more ways, a plan knows
more of the sizes; what is estimated to be cheaper is done."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from tempura.cost.as_written import AsWritten
from tempura.plan.progressive import ProgressivePlan, Step
from tempura.search.problem import MARGIN
from tempura.search.space import Space


class Asking:
    """What Spark would take for the query of a planning problem, as it is written."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._parts = cache(self._parts_at)

    def _parts_at(self, t: int) -> tuple[int, int]:
        """What it costs at a time point, and the part of it that does not depend on rows."""
        space, problem = self._space, self._space.problem
        written = AsWritten(problem.query, t, problem.tables, space.estimate, space.memo.add)
        return space.model.parts(written.cost)

    def plan(self, plan: ProgressivePlan) -> ProgressivePlan:
        """A plan whose recomputations are asked of Spark where that may be done and is not clearly dearer."""
        steps = tuple(map(self._step, plan.steps))
        changes = zip(plan.weights, plan.steps, steps, strict=True)
        more = sum(round(weight * new.cost) - round(weight * old.cost) for weight, old, new in changes)
        return replace(plan, steps=steps, cost=plan.cost + more)

    def plans(self, plans: Sequence[ProgressivePlan]) -> list[ProgressivePlan]:
        """The same for several."""
        return [self.plan(plan) for plan in plans]

    def _step(self, step: Step) -> Step:
        if step.time not in self._space.problem.as_written or not step.is_recomputation:
            return step
        cost, fixed = self._parts(step.time)
        if step.cost <= (1 - MARGIN) * cost:
            return replace(step, otherwise=cost)
        return replace(step, cost=cost, fixed=fixed, asked=True, otherwise=step.cost)
