"""Which rows are measured: inputs by turns, at random distances, and as many as a share of the time allows."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from tempura.streams.clock import Clock
from tempura.streams.settings import Settings
from tempura.streams.statistics import W

T = TypeVar("T")

SHARE = 0.01
"""Of the time, that measured rows may take once enough is known."""


class Measuring:
    """``turn`` is the input whose next row is measured, ``rows`` how many were."""

    def __init__(self, settings: Settings, clock: Clock, inputs: int) -> None:
        self.turn = 0
        self.rows = 0
        self._settings = settings
        self._clock = clock
        self._inputs = inputs
        self._gap = settings.gap or max(50, settings.interval // 100)
        self._random = Random(settings.seed)
        self._looked = clock.now()
        self._allowed = self._taken = 0.0

    def is_allowed(self, known: bool) -> bool:
        """Whether there is time for one more row, which there is while too little is ``known``. Time that was not used is kept, as much
        as the rows of a profiling phase take."""
        now = self._clock.now()
        phase = W * self._settings.rows * self._inputs
        self._allowed = min(self._allowed + SHARE * (now - self._looked), phase * self._taken)
        self._looked = now
        return self._allowed >= 0 or not known

    def measure(self, work: Callable[[], T]) -> T:
        """Do the work for a row of the input whose turn it is, and count what it takes."""
        begin = self._clock.now()
        done = work()
        self._taken = self._clock.now() - begin
        self._allowed = max(0.0, self._allowed) - self._taken
        self.rows += 1
        self.turn = (self.turn + 1) % self._inputs
        return done

    def batches_until_next(self, profiling: bool, known: bool) -> int:
        """Batches to let pass: few while too little is known, some while candidates are profiled."""
        phase = self._settings.profiling_gap * (8 if known else 1)
        return self._random.randrange(2 * (min(self._gap, phase) if profiling else self._gap))
