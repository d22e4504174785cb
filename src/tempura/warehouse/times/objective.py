"""A user's own cost of plans, where it has optimal substructure: then it is a price at each time, and the search goes by these.

The cheapest parts of a plan are chosen apart from each other. That is right where what costs less than something else still does so with
the rest of the plan added to both (Tempura, section 6.2), as it is with a sum that weighs the seconds of each time.
"""

import math
import random
from collections.abc import Callable, Iterator

from tempura.errors import TempuraError

Seconds = tuple[float, ...]
"""CPU seconds of the runs at each time."""

Cost = Callable[[Seconds], float]

_TRIES = 500
_LEAST, _MOST = -3, 6
"""Powers of ten between which seconds are tried."""

_CLOSE = 1e-6
"""A relative difference that rounding may make."""


def weights_of(cost: Cost, times: int) -> Seconds:
    """What a second costs at each of so many times, by a cost of plans.

    Raises TempuraError BAD_SCHEDULE where the cost is no such sum, as seconds that are tried at random show; of a cost that has no optimal
    substructure with two plans of which another is the cheaper one when the same is added to both.
    """
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise _refused(f"There are {times!r} times.")
    nothing = _asked(cost, (0.0,) * times)
    weights = tuple(_asked(cost, tuple(float(i == at) for i in range(times))) - nothing for at in range(times))
    if not all(weight >= 0 for weight in weights):
        raise _refused(f"It is {nothing:g} for nothing, and a second at some time makes it less.")
    for spent, *_ in _tried(times):
        found, summed = _asked(cost, spent), nothing + sum(map(float.__mul__, weights, spent))
        if not math.isclose(found, summed, rel_tol=_CLOSE):
            seen = f"It is {found:g} for {_told(spent)} seconds, and {summed:g} by what a second costs at each time."
            raise _refused(_turned(cost, times) or seen)
    return weights


def _turned(cost: Cost, times: int) -> str | None:
    """Seconds that cost less than others, and more when the same is added to both."""
    for less, more, rest in _tried(times):
        apart, together = [
            [_asked(cost, x) for x in pair] for pair in ((less, more), (_sum(less, rest), _sum(more, rest)))
        ]
        if apart[0] < apart[1] and together[0] > together[1] and not math.isclose(*together, rel_tol=_CLOSE):
            costs = f"{_told(less)} seconds cost less than {_told(more)}, {apart[0]:g} and {apart[1]:g}"
            return f"{costs}, but with {_told(rest)} more {together[0]:g} and {together[1]:g}: it has no optimal substructure."
    return None


def _tried(times: int) -> Iterator[tuple[Seconds, Seconds, Seconds]]:
    """Three vectors of seconds, again and again; each time the same ones."""
    die = random.Random(times)
    for _ in range(_TRIES):
        one, two, three = (tuple(_drawn(die) for _ in range(times)) for _ in range(3))
        yield one, two, three


def _drawn(die: random.Random) -> float:
    """Seconds to two figures, which people can read; often none."""
    return float(f"{10 ** die.uniform(_LEAST, _MOST):.1e}") if die.random() < 0.7 else 0.0


def _sum(left: Seconds, right: Seconds) -> Seconds:
    return tuple(map(float.__add__, left, right))


def _asked(cost: Cost, spent: Seconds) -> float:
    """What the user's function says. Raises TempuraError BAD_SCHEDULE when it fails, or says no number."""
    try:
        found = cost(spent)
    except Exception as error:
        raise _refused(f"It fails for {_told(spent)} seconds: {error!r}.") from error
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise _refused(f"It is {found!r} for {_told(spent)} seconds.")
    return float(found)


def _told(spent: Seconds) -> str:
    return f"({', '.join(f'{x:g}' for x in spent)})"


def _refused(what: str) -> TempuraError:
    remedy = "Give a sum of the seconds at each time, each with its price, or take the objective c_v."
    return TempuraError("BAD_SCHEDULE", f"A plan cannot be chosen by this cost. {what}", remedy)
