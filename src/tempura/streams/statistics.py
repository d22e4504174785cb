"""Online estimates: averages of the last observations, and distinct keys among probes.

Source: *Adaptive Caching for Continuous Queries*, section 4.3 and appendix A.
"""

from collections import deque
from math import log, sqrt

from tempura.streams.steps import KeyOf, Step
from tempura.streams.store import Tuple

W = 10
"""How many observations an estimate is the average of (table 1)."""


class Average:
    """The average of the W most recent observations."""

    __slots__ = ("_last", "_squares", "_sum")

    def __init__(self, size: int = W) -> None:
        self._last: deque[float] = deque(maxlen=size)
        self._sum = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """One more observation."""
        if len(self._last) == self._last.maxlen:
            self._sum -= self._last[0]
            self._squares -= self._last[0] ** 2
        self._last.append(value)
        self._sum += value
        self._squares += value**2

    @property
    def value(self) -> float:
        """The estimate; 0 before the first observation."""
        return self._sum / len(self._last) if self._last else 0.0

    @property
    def last(self) -> float:
        """The most recent observation."""
        return self._last[-1]

    @property
    def error(self) -> float:
        """The standard error of the estimate."""
        mean, n = self.value, len(self._last)
        return sqrt(max(0.0, self._squares - n * mean**2)) / n if n else 0.0

    @property
    def is_complete(self) -> bool:
        """Whether there are W observations."""
        return len(self._last) == self._last.maxlen

    def __len__(self) -> int:
        return len(self._last)


class ProbeWindows:
    """The probes that a cache would get, in windows of ``size``, hashed into a Bloom filter: how many keys are new in each.

    One filter serves all windows of a phase, unlike in appendix A, where each has its own: a key that an earlier window had is in the
    cache by then. So the windows' shares of new keys fall towards the share of misses in the long run, and the last one is the estimate.
    """

    def __init__(self, size: int = 64, bits: int = 1 << 14) -> None:
        self._size = size
        self._filter = bytearray(bits)
        self._seen = 0
        self._new = 0
        self._set = 0
        self.misses = Average()

    def observer(self, key: KeyOf) -> Step:
        """The step that looks at tuples on their way to the cached segment, which ``key`` reads the cache's key from."""

        def observe(tuples: list[Tuple]) -> list[Tuple]:
            for t in tuples:
                self.add(key(t))
            return tuples

        return observe

    def add(self, key: object) -> None:
        """One more probe."""
        place = hash(key) % len(self._filter)
        self._seen += 1
        if not self._filter[place]:
            self._filter[place] = 1
            self._new += 1
        if self._seen == self._size:
            self.misses.add(self._new / self._size)
            self._set += self._new
            self._seen = self._new = 0

    @property
    def miss_probability(self) -> float:
        """The share of probes that would miss; 1 before the first window is full."""
        return self.misses.last if len(self.misses) else 1.0

    @property
    def distinct(self) -> float:
        """How many keys there were, by the bits that are set."""
        bits = len(self._filter)
        free = max(1, bits - self._set - self._new)
        return -bits * log(free / bits)
