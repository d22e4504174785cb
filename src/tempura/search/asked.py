"""Recomputing: by the operators of a plan, or by asking Spark the query as it is written. Spark's optimizer knows more ways, a plan knows
more of the sizes; what is estimated to be cheaper is done."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tempura.algebra.rel import Rel, Scan
from tempura.cost.as_written import AsWritten
from tempura.cost.estimate import Estimator
from tempura.memo.edge import Edge
from tempura.memo.memo import Memo
from tempura.physical.operators import Read
from tempura.plan.progressive import Course, Note, ProgressivePlan, Step
from tempura.search.problem import MARGIN
from tempura.search.space import Keep, Space
from tempura.tvr.views import Snapshot


class Asking:
    """What Spark would take for a query as it is ``written``: that of a planning problem before it was rewritten in one pass."""

    def __init__(self, space: Space, written: Rel) -> None:
        self._space = space
        self._written = written
        self._known: dict[int, tuple[int, int]] = {}

    def _parts(self, t: int) -> tuple[int, int]:
        """What it costs at a time point, and the part of it that does not depend on rows."""
        if t not in self._known:
            tables = self._space.problem.tables
            estimate, class_of = self._sizes()
            self._known[t] = self._space.model.parts(AsWritten(self._written, t, tables, estimate, class_of).cost)
        return self._known[t]

    def _sizes(self) -> tuple[Estimator, Callable[[Rel], Edge]]:
        """The sizes of the plans that it is compared with; of a query that was rewritten, its own, for what it was is no part of the
        space."""
        space = self._space
        if self._written == space.problem.query:
            return space.estimate, space.memo.add
        memo = Memo(lambda event: None)
        return Estimator(space.problem.tables, memo.representative, space.staircase), memo.add

    def plan(self, plan: ProgressivePlan) -> ProgressivePlan:
        """A plan whose recomputations are asked of Spark where that may be done and is not clearly dearer."""
        steps = tuple(map(self._step, plan.steps))
        changes = zip(plan.weights, plan.steps, steps, strict=True)
        more = sum(round(weight * new.cost) - round(weight * old.cost) for weight, old, new in changes)
        return replace(plan, steps=steps, cost=plan.cost + more)

    def plans(self, plans: Sequence[ProgressivePlan]) -> list[ProgressivePlan]:
        """The same for several."""
        return [self.plan(plan) for plan in plans]

    def beside(self, plans: Sequence[ProgressivePlan]) -> list[ProgressivePlan]:
        """Plans, and that which only asks Spark, keeping nothing, where that may be done: of others that recompute those that are clearly
        cheaper stay."""
        found, only = self.plans(plans), self.only()
        if only is None:
            return found
        return [p for p in found if not p.recomputes or p.cost <= (1 - MARGIN) * only.cost] + [only]

    def only(self) -> ProgressivePlan | None:
        """The plan that asks Spark whenever the result is due, and does nothing else; None where that may not be done, or no method
        recomputes."""
        problem = self._space.problem
        name = next((name for name in problem.registry.methods if name in problem.registry.recomputing), None)
        times = range(problem.first, len(problem.points))
        if name is None or not problem.as_written.issuperset(t for t in times if problem.points[t].output):
            return None
        steps = tuple(self._asking(t) if problem.points[t].output else Step(t, (), None, 0) for t in times)
        weights = tuple(problem.points[t].weight for t in times)
        cost = sum(round(weight * step.cost) for weight, step in zip(weights, steps, strict=True))
        course = Course(problem.first, Keep.PAST.name, (), asked=True)
        return ProgressivePlan(steps, weights, cost, name, course=course, recomputes=True)

    def _asking(self, t: int) -> Step:
        """A step that asks; its operators are those of the query, over what has arrived."""
        model, estimate = self._space.model, self._space.estimate
        emit = _read_at(self._space.problem.query, t)
        notes = {rel: self._note(rel) for rel in emit.walk()}
        own = sum(note.cost for note in notes.values()) + model.write(estimate.rows(emit), estimate.width(emit))
        cost, fixed = self._parts(t)
        return Step(t, (), emit, cost, notes, fixed, asked=True, otherwise=own)

    def _note(self, rel: Rel) -> Note:
        cost, fixed = self._space.parts(rel)
        return Note(self._space.estimate.rows(rel), cost, fixed=fixed)

    def _step(self, step: Step) -> Step:
        if step.time not in self._space.problem.as_written or not step.is_recomputation:
            return step
        cost, fixed = self._parts(step.time)
        if step.cost <= (1 - MARGIN) * cost:
            return replace(step, otherwise=cost)
        return replace(step, cost=cost, fixed=fixed, asked=True, otherwise=step.cost)


def _read_at(query: Rel, t: int) -> Rel:
    """A query over what has arrived by a time point; equal parts stay one."""
    made: dict[Rel, Rel] = {}

    def over(rel: Rel) -> Rel:
        if rel not in made:
            made[rel] = Read(rel, Snapshot(t)) if isinstance(rel, Scan) else rel.with_inputs(*map(over, rel.inputs))
        return made[rel]

    return over(query)
