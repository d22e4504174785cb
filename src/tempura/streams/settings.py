"""How an adaptive join adapts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """``interval``: changes of rows between re-optimisations. ``quota``: how many candidates there may be with globally consistent
    caches; 0 for prefix caches only. ``threshold``: p. ``gap`` and ``profiling_gap``: batches between two rows that are measured
    (a hundredth of the interval unless given), and while candidates are profiled. ``rows``: measured rows whose mean is one
    observation. ``probes``: those in a window of the Bloom filter, W_d. ``caching``, ``ordering``: whether caches and orders are
    chosen at all."""

    interval: int = 100_000
    quota: int = 6
    threshold: float = 0.2
    gap: int | None = None
    profiling_gap: int = 3
    probes: int = 64
    rows: int = 4
    caching: bool = True
    ordering: bool = True
    seed: int = 0


DEFAULT = Settings()
