"""What estimates are corrected by: how much more or less of the driver earlier runs of a query took than was expected.

Prices are those of a warm session on one machine. A command starts Spark anew each time, and its driver takes several times as much;
another machine is slower. What depends on rows is not corrected: it is wrong where rows were, which is different in each plan, and would
speak for plans that have not been tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tempura.cost.model import CostModel
from tempura.plan.progressive import Step
from tempura.warehouse.steps import StepManifest

_LAST, _LEAST = 7, 3
"""So many runs count at most, and there have to be so many: the middle one of a few is no accident."""

_MOST = 8.0


@dataclass(frozen=True, slots=True)
class Correction:
    """A factor on what does not depend on rows, the driver's for the greater part; ``runs``: how many it is known from."""

    fixed: float = 1.0
    runs: int = 0

    @property
    def text(self) -> str:
        """What is corrected, in a line; empty when nothing is."""
        return f"prices of the driver x {self.fixed:.1f}: what the last {self.runs} runs took" if self.runs else ""

    def of(self, prices: CostModel) -> CostModel:
        """Prices, corrected."""
        return prices.scaled(self.fixed) if self.runs else prices

    def before(self, step: Step) -> int:
        """What of a step does not depend on rows, by uncorrected prices."""
        return round(step.fixed / self.fixed)


NONE = Correction()


def correction_of(runs: Sequence[StepManifest]) -> Correction:
    """What the driver took in the last runs of a query against what was estimated: a median, bounded; 1 unless enough is known."""
    known = [run for run in runs if run.estimated_fixed][-_LAST:]
    if len(known) < _LEAST:
        return NONE
    found = median(run.driver_seconds * 1e9 / run.estimated_fixed for run in known)
    return Correction(min(_MOST, max(1 / _MOST, found)), len(known))
