"""What a user asks of paces, and what was found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal as OneOf

from tempura.errors import TempuraError
from tempura.pace.cut import Cut, Path
from tempura.pace.simulate import Effort

StrategyName = OneOf["inqp", "greedy", "uniform", "leaf", "hand", "exhaustive", "sample"]
STRATEGIES: tuple[StrategyName, ...] = ("inqp", "greedy", "uniform", "leaf", "hand", "exhaustive", "sample")
MOST_PACE = 100
"""The greatest pace, unless another is asked for: the paper's."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Either the least total work with a last flush of at most ``final_work`` of what a recomputation takes, or the
    least last flush with a total of at most ``total_work`` of that. Raises TempuraError BAD_PACES unless exactly one
    is given, and makes sense."""

    final_work: float | None = None
    total_work: float | None = None

    def __post_init__(self) -> None:
        if (self.final_work is None) == (self.total_work is None):
            what = "Paces have a bound on the final work or on the total work, not on both or none."
            raise TempuraError("BAD_PACES", what, "Give final_work=0.05, or total_work=1.3.")
        if self.final_work is not None and not 0 < self.final_work <= 1:
            what = f"final_work is {self.final_work:g}."
            raise TempuraError("BAD_PACES", what, "It is a share of a recomputation's work: above 0, at most 1.")
        if self.total_work is not None and not 1 <= self.total_work < inf:
            what = f"total_work is {self.total_work:g}."
            raise TempuraError("BAD_PACES", what, "It is a multiple of a recomputation's work: at least 1.")

    def is_met(self, total: float, final: float, batch: float) -> bool:
        """Whether work is within the bound. ``batch`` is the work of one flush of all data."""
        if self.final_work is not None:
            return final <= self.final_work * batch * (1 + 1e-9)
        assert self.total_work is not None, "a goal has one bound"
        return total <= self.total_work * batch * (1 + 1e-9)

    def score(self, total: float, final: float) -> tuple[float, float]:
        """What is made small: the unbounded of the two, then the other."""
        return (total, final) if self.final_work is not None else (final, total)

    def __str__(self) -> str:
        return f"final work {self.final_work:g}" if self.final_work is not None else f"total work {self.total_work:g}"


@dataclass(frozen=True, slots=True)
class Point:
    """A configuration that a search came by, with its expected work. ``raised`` is the path whose pace was raised last, and
    ``incrementability`` what that was worth."""

    paces: tuple[int, ...]
    total: float
    final: float
    raised: int | None = None
    incrementability: float | None = None


@dataclass(frozen=True)
class Plan:
    """Paces, one per path of ``cut``. ``meets``: whether the goal is expected to be met. ``curve`` are the points on
    the way, the first is one flush of all data. ``marginal`` is what raising each path's pace by a step would be
    worth, None where it cannot be raised."""

    cut: Cut
    goal: Goal
    strategy: StrategyName
    chosen: Point
    batch: float
    meets: bool
    curve: tuple[Point, ...] = ()
    marginal: Mapping[Path, float | None] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)

    @property
    def paces(self) -> tuple[int, ...]:
        """The pace of each path."""
        return self.chosen.paces

    @property
    def additional(self) -> float:
        """Work beyond one flush of all data."""
        return self.chosen.total - self.batch
