"""Runs the steps of a progressive plan over signed bags in memory: the same plans as on Spark, without Spark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tempura.algebra.bag import SignedBag
from tempura.algebra.evaluate import evaluate
from tempura.algebra.rel import Rel
from tempura.errors import TempuraError
from tempura.execute.sharing import sinks_of
from tempura.physical.operators import Load, Read, StateKey
from tempura.plan.progressive import Step


@dataclass(frozen=True)
class BagOutcome:
    """What a step computed: the states that it saved, and its output, None when nothing was due."""

    states: Mapping[StateKey, SignedBag]
    output: SignedBag | None


class BagExecutor:
    """Computes steps one after the other. ``read`` gives a table's arrivals as rows in the order of ``read.scan.fields``;
    ``states`` are those of earlier steps. States that steps save are kept, and found by later steps."""

    def __init__(self, read: Callable[[Read], SignedBag], states: Mapping[StateKey, SignedBag] | None = None) -> None:
        self._read = read
        self.states: dict[StateKey, SignedBag] = dict(states or {})

    def run(self, step: Step) -> BagOutcome:
        """Compute a step. A step that fails keeps nothing.

        Raises TempuraError ``NEGATIVE_WEIGHT`` when a state or the output is not positive, ``STATE_MISSING`` when a state is loaded
        that no step saved, and what :func:`tempura.algebra.evaluate.evaluate` raises.
        """
        made: dict[StateKey, SignedBag] = {}
        output: SignedBag | None = None
        for sink in sinks_of(step):
            bag = self._positive(sink.name, self.bag(sink.rel, made))
            if sink.save:
                made[sink.save.key] = bag
            else:
                output = bag
        self.states |= made
        return BagOutcome(made, output)

    def bag(self, rel: Rel, made: Mapping[StateKey, SignedBag] | None = None) -> SignedBag:
        """The signed bag of an expression, over the states so far and those in ``made``."""
        known = {**self.states, **(made or {})}
        return evaluate(rel, lambda leaf: self._leaf(leaf, known))

    def _leaf(self, leaf: Rel, known: Mapping[StateKey, SignedBag]) -> SignedBag:
        match leaf:
            case Read():
                return self._read(leaf)
            case Load() if leaf.key in known:
                return known[leaf.key]
            case Load():
                raise TempuraError(
                    "STATE_MISSING", f"no step saved the state {leaf.key}.", "Run the steps in their order."
                )
        raise TempuraError("NOT_EXECUTABLE", f"a plan cannot read {leaf.label}.", "This is an error in Tempura.")

    def _positive(self, name: str, bag: SignedBag) -> SignedBag:
        if not bag.is_positive:
            row = next(row for row, weight in bag.items() if weight < 0)
            raise TempuraError(
                "NEGATIVE_WEIGHT", f"{name} has a negative weight for {row}.", "This is an error in Tempura."
            )
        return bag
