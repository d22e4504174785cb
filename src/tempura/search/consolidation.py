"""Deletions are taken out where that is cheap: not of a large table that is read, but of what is left of it.

Snapshots of a plan are positive: those of a table that loses rows are consolidated, as large as the table is. Filters, projections, sums
and inner joins are linear, and so are the aggregations that have linear states: over rows that were inserted and deleted again they give
what takes itself away. So the consolidations of what is read are left out, and enforced again where an input has to be positive, if they
are cheaper there.
"""

from collections.abc import Set
from dataclasses import replace

from tempura.algebra.rel import Aggregate, Consolidate, Rel
from tempura.algebra.states import Finalize, Partial
from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.physical.growth import growth
from tempura.plan.progressive import Note, Step
from tempura.rules.helpers import all_linear
from tempura.search.facts import PlanFacts


def consolidated_late(step: Step, facts: PlanFacts, estimate: Estimator, model: CostModel) -> Step:
    """The same step with few deletions taken out later, if that is cheaper; itself if not."""
    reads = {
        rel
        for rel in step.operators
        if isinstance(rel, Consolidate) and (estimate.few_deleted(rel.input) or estimate.left_out(rel.input))
    }
    if not reads:
        return step
    moved = _Move(step, facts, estimate, model, reads).step()
    # What is appended stays what it is: who reads a result was thought of then.
    still = not step.appends or _is_signed(moved) == _is_signed(step)
    return moved if moved.cost < step.cost and still else step


def _is_signed(step: Step) -> bool:
    """Whether what the result grows by may take rows away."""
    found = growth(step.emit) if step.emit is not None else None
    return found is not None and found.signed


class _Move:
    """Builds a step without some consolidations, and with those that are needed for that."""

    def __init__(self, step: Step, facts: PlanFacts, estimate: Estimator, model: CostModel, left_out: Set[Rel]) -> None:
        self._old = step
        self._facts = facts
        self._estimate = estimate
        self._model = model
        self._left_out = left_out
        self._made: dict[Rel, Rel] = {}
        self._notes: dict[Rel, Note] = {}

    def step(self) -> Step:
        """The step, with the notes and the price of what it consists of now."""
        saves = tuple(replace(save, rel=self._positive(save.rel)) for save in self._old.saves)
        emit = self._positive(self._old.emit) if self._old.emit is not None else None
        new = replace(self._old, saves=saves, emit=emit)
        for rel in new.operators:
            if isinstance(rel, Consolidate) and rel not in self._notes:
                self._notes[rel] = self._old.notes.get(rel) or self._consolidation(rel)
        notes = {rel: self._notes[rel] for rel in new.operators if rel in self._notes}
        gone, come = self._old.notes.values(), notes.values()
        cost = self._old.cost - sum(note.cost for note in gone) + sum(note.cost for note in come)
        fixed = self._old.fixed - sum(note.fixed for note in gone) + sum(note.fixed for note in come)
        return replace(new, notes=notes, cost=cost, fixed=fixed)

    def _positive(self, rel: Rel) -> Rel:
        return self._facts.positive(self._moved(rel))

    def _moved(self, rel: Rel) -> Rel:
        if rel not in self._made:
            self._made[rel] = made = self._anew(rel)
            note = self._old.notes.get(rel)
            if note and rel not in self._left_out:
                by_state = isinstance(made, Finalize) and isinstance(rel, Aggregate)
                self._notes.setdefault(made, replace(note, cost=0, fixed=0) if by_state else note)
        return self._made[rel]

    def _anew(self, rel: Rel) -> Rel:
        if rel in self._left_out:
            return self._moved(rel.inputs[0])
        inputs = tuple(map(self._moved, rel.inputs))
        if isinstance(rel, Aggregate) and not self._facts.is_positive(inputs[0]) and all_linear(rel.aggregates):
            return self._by_state(rel, inputs[0])
        return self._facts.enforce(rel.with_inputs(*inputs)) if inputs else rel

    def _by_state(self, rel: Aggregate, signed: Rel) -> Rel:
        """An aggregation of signed rows, by way of its state, which does what it did."""
        state = self._facts.enforce(Partial(signed, rel.keys, rel.aggregates))
        if rel in self._old.notes:
            self._notes.setdefault(state, self._old.notes[rel])
        return Finalize(state, rel.keys, rel.aggregates)

    def _consolidation(self, rel: Rel) -> Note:
        """The note of a consolidation that the step did not have: few of its rows are alike."""
        rows, width = self._rows(rel.inputs[0]), self._estimate.width(rel)
        cost, fixed = self._model.parts(lambda model: model.grouping(rows, width))
        return Note(rows, cost, fixed=fixed)

    def _rows(self, rel: Rel) -> float:
        note = self._notes.get(rel)
        return note.rows if note else sum(map(self._rows, rel.inputs))
