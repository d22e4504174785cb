"""What estimates are corrected by: how much more or less earlier runs of a query took than was expected.

Prices are those of a warm session on one machine. A command starts Spark anew each time, and its driver takes several times as much;
another machine is slower. So what depends on rows is compared with what tasks took, the rest with what the driver took.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tempura.cost.model import CostModel
from tempura.plan.progressive import Step
from tempura.warehouse.steps import StepManifest

_LAST, _LEAST = 7, 3
"""So many runs count at most, and there have to be so many: the middle one of a few is no accident."""

_SIGNIFICANT = 300_000_000
"""Of less than this, in nanoseconds, tasks take what starting them takes, and not what their rows do."""

_MOST_BY_ROWS, _MOST_FIXED = 4.0, 8.0


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors on prices by row and byte, and on those of the driver; ``runs``: how many they are known from."""

    rows: float = 1.0
    fixed: float = 1.0
    runs: int = 0

    @property
    def text(self) -> str:
        """What is corrected, in a line; empty when nothing is."""
        if not self.runs:
            return ""
        return f"prices by row x {self.rows:.1f}, of the driver x {self.fixed:.1f}: what the last {self.runs} runs took"

    def of(self, prices: CostModel) -> CostModel:
        """Prices, corrected."""
        return prices.scaled(self.rows, self.fixed) if self.runs else prices

    def parts(self, step: Step) -> tuple[int, int]:
        """What a step would have been estimated to cost without the correction: by its rows, and else."""
        return round((step.cost - step.fixed) / self.rows), round(step.fixed / self.fixed)


NONE = Correction()


def correction_of(runs: Sequence[StepManifest]) -> Correction:
    """What the last runs of a query took against what was estimated. Each factor is a median and bounded; 1 unless enough is known."""
    known = [run for run in runs if run.estimated_parts[1]][-_LAST:]
    if len(known) < _LEAST:
        return NONE
    large = [run for run in known if run.estimated_parts[0] >= _SIGNIFICANT]
    rows = _factor(large, lambda run: run.cpu_seconds, 0, _MOST_BY_ROWS)
    return Correction(rows, _factor(known, lambda run: run.driver_seconds, 1, _MOST_FIXED), len(known))


def _factor(runs: Sequence[StepManifest], taken: Callable[[StepManifest], float], part: int, most: float) -> float:
    if len(runs) < _LEAST:
        return 1.0
    found = median(taken(run) * 1e9 / run.estimated_parts[part] for run in runs)
    return min(most, max(1 / most, found))
