"""Prices from measurements: each is the difference of two jobs of which one contains the other, divided by how often it is in what is left.

A job is described by *units*: how often each price of the cost model is in it. An equation says of which difference a price is taken;
prices that were found before are taken off. A median over rounds, each of which has run all jobs one after the other, so that what is
slow for a while is slow on both sides of a difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import median

from tempura.cost.model import CostModel
from tempura.cost.prices import FIXED

BOUND = 8.0
"""What is measured counts up to this factor above and below the built-in price: beyond, something else was measured."""

OF_DRIVER = (*FIXED, "file", "build_row")
"""The prices that are in no task, or not in tasks alone: the driver, too, looks at each file, and makes the table of a join that is sent to
every task."""

_SURE = 2.0
"""A price has to be so many times its own error, or it cannot be told from none."""

_LOST = "cannot be told from nothing: as built in"
_BY_OTHERS = "cannot be told from nothing: in proportion to the driver's others"

_MAD = 1.4826
"""Of a normal distribution the standard deviation is this times the median distance from the median."""

OF_MEDIAN = 1.2533
"""And the error of a median this times that of a mean."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a job consists of. ``units``: how often each price is in it; ``known``: nanoseconds of what has no price of its own in the
    model (expressions)."""

    units: Mapping[str, float]
    known: float = 0.0

    def cost(self, prices: CostModel) -> float:
        """What the model expects of it, in nanoseconds of one core."""
        return self.known + sum(n * float(getattr(prices, name)) for name, n in self.units.items())

    def __add__(self, more: "Described") -> "Described":
        names = dict.fromkeys((*self.units, *more.units))
        units = {name: self.units.get(name, 0.0) + more.units.get(name, 0.0) for name in names}
        return Described(units, self.known + more.known)

    def __sub__(self, less: "Described") -> "Described":
        return self + Described({name: -n for name, n in less.units.items()}, -less.known)


NOTHING = Described({})


@dataclass(frozen=True, slots=True)
class Equation:
    """``price`` is what job ``job`` takes more than ``over`` (than nothing, if that is ""), of CPU time of tasks; ``whole``: of tasks and
    driver, whose prices (:data:`OF_DRIVER`) are in no job otherwise."""

    price: str
    job: str
    over: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What jobs took in a round, by name, in nanoseconds of one core: their ``tasks``, and the ``driver`` meanwhile."""

    tasks: Mapping[str, float]
    driver: Mapping[str, float]

    def of(self, equation: Equation) -> float:
        """The difference that an equation is about."""
        return self._job(equation.job, equation.whole) - (
            self._job(equation.over, equation.whole) if equation.over else 0.0
        )

    def _job(self, name: str, whole: bool) -> float:
        return self.tasks[name] + (self.driver[name] if whole else 0.0)


@dataclass(frozen=True, slots=True)
class Price:
    """A price that was looked for. ``found``: what was measured, ``error``: how far that may be off; ``value``: what counts, which is the
    built-in price where there is a reason ``why`` the one found does not."""

    name: str
    built_in: float
    found: float
    error: float
    value: float
    why: str = ""

    @property
    def factor(self) -> float:
        """How many times the built-in price it is."""
        return self.value / self.built_in


@dataclass(frozen=True)
class _Fit:
    jobs: Mapping[str, Described]
    rounds: Sequence[Taken]
    built_in: CostModel
    found: dict[str, Price] = field(default_factory=dict)

    def price(self, equation: Equation) -> Price:
        """The price of an equation, given those found before."""
        name = equation.price
        left = self.jobs[equation.job] - (self.jobs[equation.over] if equation.over else NOTHING)
        counted = {n: u for n, u in left.units.items() if u and (equation.whole or n not in OF_DRIVER)}
        units = counted.pop(name)
        beside = left.known + sum(u * self._value(n) for n, u in counted.items())
        measured = [(round.of(equation) - beside) / units for round in self.rounds]
        middle = median(measured)
        own = OF_MEDIAN * spread(measured) / sqrt(len(measured))
        error = sqrt(own**2 + sum((u / units * self._error(n)) ** 2 for n, u in counted.items()))
        return _judged(name, float(getattr(self.built_in, name)), middle, error)

    def _value(self, name: str) -> float:
        known = self.found.get(name)
        return known.value if known else float(getattr(self.built_in, name))

    def _error(self, name: str) -> float:
        """Of a price that was not looked for nothing is known to be wrong; one that was kept may be off by what was found."""
        known = self.found.get(name)
        return (max(known.error, abs(known.value - known.found)) if known.why else known.error) if known else 0.0


def _judged(name: str, built_in: float, found: float, error: float) -> Price:
    if found <= 0 or found < _SURE * error:
        return Price(name, built_in, found, error, built_in, _LOST)
    return _bounded(name, built_in, found, error)


def _bounded(name: str, built_in: float, found: float, error: float) -> Price:
    least, most = built_in / BOUND, built_in * BOUND
    bounded = min(most, max(least, found))
    why = "" if bounded == found else f"beyond a factor of {BOUND:g}, bounded"
    return Price(name, built_in, found, error, bounded, why)


def fitted(
    jobs: Mapping[str, Described], equations: Sequence[Equation], rounds: Sequence[Taken], built_in: CostModel
) -> tuple[Price, ...]:
    """The prices of some equations, in their order: each may be taken off the ones after it."""
    fit = _Fit(jobs, rounds, built_in)
    for equation in equations:
        fit.found[equation.price] = fit.price(equation)
    return tuple(fit.found.values())


def in_proportion(prices: Sequence[Price]) -> tuple[Price, ...]:
    """The same; those of the driver that could not be found are in proportion to the others, as they are built in."""
    factors = [price.found / price.built_in for price in prices if price.name in FIXED and not _is_lost(price)]
    factor = median(factors) if factors else 1.0
    return tuple(_by_the_others(p, factor) if p.name in FIXED and _is_lost(p) else p for p in prices)


def _is_lost(price: Price) -> bool:
    return price.why == _LOST


def _by_the_others(price: Price, factor: float) -> Price:
    value = price.built_in * factor
    return replace(price, found=value, error=max(price.error, value), value=value, why=_BY_OTHERS)


def leveled(prices: Sequence[Price], level: float, error: float) -> tuple[Price, ...]:
    """The same with those of the driver multiplied by a level that may be off by an error."""
    return tuple(_leveled(price, level, error) if price.name in FIXED else price for price in prices)


def _leveled(price: Price, level: float, error: float) -> Price:
    found = price.found * level
    off = sqrt((price.error * level) ** 2 + (price.found * error) ** 2)
    judged = _bounded(price.name, price.built_in, found, off)
    return replace(judged, why=judged.why or price.why)


def spread(values: Sequence[float]) -> float:
    """The standard deviation of some values, of which a few may be far off; 0 of a single one."""
    middle = median(values)
    return _MAD * median(abs(value - middle) for value in values)


def noise(measured: Mapping[str, Sequence[float]]) -> float:
    """By which part the measurements of one thing differ: the median over the things that were measured."""
    return median(spread(values) / max(median(values), 1e-9) for values in measured.values())
