"""A price for not knowing: what a query's plans by states took in earlier runs, against what was promised, and against recomputations.

An estimate that is off by as much for all plans chooses right. One that is off for those with states only, because their changes touch
more rows than was expected, chooses them again and again, and loses each time. So where they took more than was promised, they have to
promise as much more. What the driver took is corrected apart (``times.correction``) and counted here as corrected; what tasks make its
process take does not count: all plans have that, and recomputations, whose tasks take most, have most of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from tempura.explain.character import BUILT, IN_PART, MAINTAINED, PREPARED, RECOMPUTED
from tempura.warehouse.times.correction import Correction, driver_alone, runs_like
from tempura.warehouse.times.steps import StepManifest

_RECENT = 16
"""Runs after which a loss is forgotten: tables and machines change, and only who tries knows."""

_LAST, _LEAST = 5, 2
"""So many runs of a kind count at most; of those with states there have to be so many: one may have been unlucky."""

_NOISE, _MOST = 1.3, 8.0
"""A lesser factor is what measurements differ by; a greater one is no price any more."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """By what the cost of plans with states is multiplied before they are compared with recomputing; ``runs``: how many say so."""

    factor: float = 1.0
    runs: int = 0

    @property
    def text(self) -> str:
        """What is doubted, in a line; empty when nothing is."""
        what = f"plans with states x {self.factor:.1f} against recomputing"
        return f"{what}: in {self.runs} of the last runs they took as much more than was promised" if self.runs else ""


NO_DOUBT = Doubt()


def doubt_of(
    runs: Sequence[StepManifest], steps_run: int, prices: str, correction: Correction, beside_tasks: float = 0.0
) -> Doubt:
    """What a query's last runs say of plans with states; ``runs`` are those of the query as it is, and those
    count that the next one is like (``correction.runs_like``). ``beside_tasks`` as in ``correction_of``."""
    if not correction.runs:
        # What the driver takes is not known yet, and would be taken for what rows take.
        return NO_DOUBT
    like = list(runs_like(runs[-_RECENT:] if len(runs) > _RECENT else runs[1:], steps_run, prices))
    by_states = _off(
        (r for r in like if r.does and r.does.kind in (MAINTAINED, IN_PART, PREPARED)), correction, beside_tasks
    )
    if len(by_states) < _LEAST:
        return NO_DOUBT
    # One is enough, and a first result is one, too: what all plans take more than is estimated says nothing against those with states.
    plain = (r for r in like if r.does and r.does.kind in (BUILT, RECOMPUTED) and not r.states)
    from_tables = _off(plain, correction, beside_tasks)
    factor = median(by_states) / median(from_tables or [1.0])
    return Doubt(min(_MOST, factor), len(by_states)) if factor > _NOISE else NO_DOUBT


def _off(runs: Iterable[StepManifest], correction: Correction, beside_tasks: float) -> list[float]:
    """How many times what was estimated the last of some runs took, of tasks and driver."""
    known = [run for run in runs if run.estimated_cost][-_LAST:]
    return [(run.cpu_seconds + driver_alone(run, beside_tasks)) * 1e9 / _estimate(run, correction) for run in known]


def _estimate(run: StepManifest, correction: Correction) -> float:
    """The estimate of a run, with what the driver takes as it is known by now."""
    return run.estimated_cost + run.estimated_fixed * (correction.fixed - run.correction)
