"""What estimates are corrected by: how much more or less of the driver earlier runs of a query took than was expected.

Prices are those of a warm session on one machine. A command starts Spark anew each time, and its driver takes several times as much;
another machine is slower. So a run is estimated by runs like it: one that a session begins with by such, one of a warm session by those
of warm sessions. What depends on rows is not corrected: it is wrong where rows were, which is different in each plan, and would
speak for plans that have not been tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tempura.cost.model import CostModel
from tempura.cost.prices import BUILT_IN
from tempura.plan.progressive import Step
from tempura.warehouse.times.steps import StepManifest

_LAST, _LEAST = 7, 3
"""So many runs count at most, and there have to be so many: the middle one of a few is no accident."""

_MOST = 8.0
WARM_STEPS = 8
"""A session is warm once it has run so many steps: its virtual machine has compiled what steps run through."""

BEGUN, WARMING, WARM = "of sessions that began with them", "of sessions that were warming up", "of warm sessions"


@dataclass(frozen=True, slots=True)
class Correction:
    """A factor on what does not depend on rows, the driver's for the greater part; ``runs``: how many it is known from, and of
    what sessions these were (``warmth``)."""

    fixed: float = 1.0
    runs: int = 0
    warmth: str = WARM

    @property
    def text(self) -> str:
        """What is corrected, in a line; empty when nothing is."""
        known = f"prices of the driver x {self.fixed:.1f}: what the last {self.runs} runs {self.warmth} took"
        return known if self.runs else ""

    def of(self, prices: CostModel) -> CostModel:
        """Prices, corrected."""
        return prices.scaled(self.fixed) if self.runs else prices

    def before(self, step: Step) -> int:
        """What of a step does not depend on rows, by uncorrected prices."""
        return round(step.fixed / self.fixed)


NONE = Correction()


def correction_of(
    runs: Sequence[StepManifest], steps_run: int, prices: str = BUILT_IN, beside_tasks: float = 0.0
) -> Correction:
    """What the driver took in the last runs of a query against what was estimated: a median, bounded; 1 unless enough is known.

    ``steps_run``: by the session that is to run the next step. ``beside_tasks`` is the part of their CPU time that tasks make the driver's
    process spend (``cost.prices``). What counts are runs of sessions that were as warm, and were estimated by
    the same ``prices``; not the query's first run, for which Spark generates and compiles code as for no other. Of runs of before it was
    noted, nobody knows how warm they were. A session that has just become warm goes on with what it was warming up by until enough is
    known: nothing would be further off, and all plans would be compared anew for it.
    """
    warm = warmth(steps_run)
    for like in (WARM, WARMING) if warm == WARM else (warm,):
        known = [run for run in _runs_of(runs[1:], like, prices) if run.estimated_fixed][-_LAST:]
        if len(known) >= _LEAST:
            found = median(driver_alone(run, beside_tasks) * 1e9 / run.estimated_fixed for run in known)
            return Correction(min(_MOST, max(1 / _MOST, found)), len(known), like)
    return NONE


def driver_alone(run: StepManifest, beside_tasks: float) -> float:
    """CPU seconds that the driver took of its own accord. What it took more than was estimated is the tasks' as far as these may have made
    it (``beside_tasks`` as in :func:`correction_of`): where these go through many rows, it says nothing of a plan that goes through few."""
    return max(min(run.driver_seconds, run.estimated_fixed / 1e9), run.driver_seconds - beside_tasks * run.cpu_seconds)


def runs_like(runs: Iterable[StepManifest], steps_run: int, prices: str) -> Iterator[StepManifest]:
    """Those of some runs whose sessions were as warm as one that has run so many steps, and that were estimated by the same prices."""
    return _runs_of(runs, warmth(steps_run), prices)


def _runs_of(runs: Iterable[StepManifest], warm: str, prices: str) -> Iterator[StepManifest]:
    for run in runs:
        if run.steps_run is not None and warmth(run.steps_run) == warm and run.prices == prices:
            yield run


def warmth(steps_run: int) -> str:
    """How warm a session is that has run so many steps: of the warmest, the next step is like the one before."""
    return BEGUN if steps_run == 0 else WARMING if steps_run < WARM_STEPS else WARM
