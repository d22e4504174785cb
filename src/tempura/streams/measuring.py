"""Which rows are measured: inputs by turns, at random distances, and as many as a share of the time allows."""

from collections.abc import Callable
from math import ceil
from random import Random
from typing import TypeVar

from tempura.streams.clock import Clock
from tempura.streams.settings import Settings
from tempura.streams.statistics import Average, W

T = TypeVar("T")

SHARE = 0.01
"""Of the time that the join works, which measured rows may take once enough is known."""

TIMED = 100
"""Batches whose mean is what a change takes: some inputs' changes take many times what others' do."""


class Measuring:
    """``turn`` is the input whose next row is measured, ``rows`` how many were; ``is_waiting``: whether the next one is measured that
    comes of that input."""

    def __init__(self, settings: Settings, clock: Clock, inputs: int) -> None:
        self.turn = 0
        self.rows = 0
        self.is_waiting = False
        self._settings = settings
        self._clock = clock
        self._inputs = inputs
        self._gap = settings.gap or max(50, settings.interval // 100)
        self._random = Random(settings.seed)
        self._seconds, self._changes = Average(TIMED), Average(TIMED)
        self._looked = 0
        self._allowed = self._taken = 0.0

    def time(self, changes: int, work: Callable[[], T]) -> T:
        """Do the work for a batch, which is any, and learn what a change takes."""
        begin = self._clock.now()
        done = work()
        self._seconds.add(self._clock.now() - begin)
        self._changes.add(changes)
        return done

    def batches_until_allowed(self, processed: int, known: bool) -> int:
        """Batches to let pass until there is time for one more row: none while too little is ``known``, or if there is time, and then
        the next row is waited for. What the join has worked is reckoned from the changes that it has ``processed``, for the clock goes on
        while others work. Time that was not used is kept, as much as the rows of a profiling phase take."""
        worked = self._seconds.value / max(1.0, self._changes.value) * (processed - self._looked)
        self._looked = processed
        phase = W * self._settings.rows * self._inputs
        self._allowed = min(self._allowed + SHARE * worked, phase * self._taken)
        self.is_waiting = self._allowed >= 0 or not known
        if self.is_waiting:
            return 0
        batches = -self._allowed / (SHARE * self._seconds.value) if self._seconds.value else 0
        return min(ceil(batches), 2 * self._gap)

    def measure(self, work: Callable[[], T]) -> T:
        """Do the work for a row of the input whose turn it is, and count what it takes."""
        begin = self._clock.now()
        done = work()
        self._taken = self._clock.now() - begin
        self._allowed = max(0.0, self._allowed) - self._taken
        self.rows += 1
        self.turn = (self.turn + 1) % self._inputs
        self.is_waiting = False
        return done

    def batches_until_next(self, profiling: bool, known: bool) -> int:
        """Batches to let pass: few while too little is known, some while candidates are profiled."""
        phase = self._settings.profiling_gap * (8 if known else 1)
        return self._random.randrange(2 * (min(self._gap, phase) if profiling else self._gap))
